#include "base/error.h"

#include <errno.h>
#include <stdarg.h>

#include "base/utf8.h"

typedef struct reason_row {
    const char *name;
    box_code code;
} reason_row;

static const reason_row reasons[BOX_REASON_COUNT] = {
#define BOX_REASON(name, code) {#name, BOX_CODE_##code},
#include "base/reason.def"
#undef BOX_REASON
};

static const char *const code_names[] = {
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
};

typedef struct errno_row {
    int sys_errno;
    box_reason reason;
} errno_row;

/* The one table that gives a system error its meaning to a caller. */
static const errno_row errnos[] = {
    {ENOENT, BOX_FILE_NOT_FOUND}, {ENOTDIR, BOX_FILE_NOT_FOUND},
    {EEXIST, BOX_FILE_EXISTS},    {ENOTEMPTY, BOX_FILE_CONFLICT},
    {EISDIR, BOX_FILE_CONFLICT},  {EACCES, BOX_PERMISSION},
    {EPERM, BOX_PERMISSION},      {EROFS, BOX_PERMISSION},
    {ENOSPC, BOX_QUOTA},          {EDQUOT, BOX_QUOTA},
    {EFBIG, BOX_QUOTA},           {ENOMEM, BOX_MEMORY_BUDGET},
    {EINVAL, BOX_VALIDATION},     {ENAMETOOLONG, BOX_VALIDATION},
    {ELOOP, BOX_VALIDATION},      {E2BIG, BOX_VALIDATION},
    {ECANCELED, BOX_CANCELLED},   {ETIMEDOUT, BOX_DEADLINE},
    {ENOSYS, BOX_UNIMPLEMENTED},
};

/* Control characters would let a peer write into logs and terminals; they become '?'. */
static void clean_text(char *text, size_t size)
{
    text[size - 1] = '\0';
    box_utf8_scrub(text);
    box_utf8_hide_controls(text, "");
}

/* What the text would do to a terminal is still kept out. */
void box_error_set_text(box_error *err, const char *text)
{
    (void)snprintf(err->msg, sizeof err->msg, "%s", text);
    box_utf8_scrub(err->msg);
    box_utf8_hide_controls(err->msg, "\t\n\r");
}

int box_fail(box_error *err, box_reason reason, const char *fmt, ...)
{
    *err = (box_error){.reason = reason};
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(err->msg, sizeof err->msg, fmt, args); /* a cut text is still a text */
    va_end(args);
    clean_text(err->msg, sizeof err->msg);
    return -1;
}

static box_reason reason_of_errno(int sys_errno)
{
    for (size_t i = 0; i < BOX_COUNT(errnos); i++) {
        if (errnos[i].sys_errno == sys_errno)
            return errnos[i].reason;
    }
    return BOX_INTERNAL;
}

int box_fail_errno(box_error *err, const char *fmt, ...)
{
    int saved = errno;
    *err = (box_error){.reason = reason_of_errno(saved), .sys_errno = saved};
    va_list args;
    va_start(args, fmt);
    int len = vsnprintf(err->msg, sizeof err->msg, fmt, args);
    va_end(args);
    if (len >= 0 && (size_t)len < sizeof err->msg)
        (void)snprintf(err->msg + len, sizeof err->msg - (size_t)len, ": %s", strerror(saved));
    clean_text(err->msg, sizeof err->msg);
    return -1;
}

int box_wrap(box_error *err, const char *fmt, ...)
{
    char old[BOX_ERROR_MSG];
    memcpy(old, err->msg, sizeof old);
    va_list args;
    va_start(args, fmt);
    int len = vsnprintf(err->msg, sizeof err->msg, fmt, args);
    va_end(args);
    if (len >= 0 && (size_t)len < sizeof err->msg)
        (void)snprintf(err->msg + len, sizeof err->msg - (size_t)len, ": %s", old);
    clean_text(err->msg, sizeof err->msg);
    return -1;
}

void box_error_add(box_error *err, const char *key, const char *value)
{
    size_t key_size = strlen(key) + 1;
    size_t value_size = strlen(value) + 1;
    if (key_size + value_size > sizeof err->detail - err->detail_len) {
        err->more++;
        return;
    }
    char *at = err->detail + err->detail_len;
    memcpy(at, key, key_size);
    memcpy(at + key_size, value, value_size);
    clean_text(at, key_size);
    clean_text(at + key_size, value_size);
    err->detail_len = (uint16_t)(err->detail_len + key_size + value_size);
}

void box_error_add_int(box_error *err, const char *key, int64_t value)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%lld", (long long)value);
    box_error_add(err, key, text);
}

int box_error_limit(box_error *err, const char *limit, int64_t max, int64_t used)
{
    box_error_add(err, "limit", limit);
    box_error_add_int(err, "max", max);
    box_error_add_int(err, "used", used);
    return -1;
}

int box_violation(box_error *err, const char *field, const char *fmt, ...)
{
    char text[BOX_ERROR_MSG];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (err->reason != BOX_VALIDATION)
        (void)box_fail(err, BOX_VALIDATION, "%s: %s", field, text);
    char key[80];
    (void)snprintf(key, sizeof key, "field:%s", field);
    box_error_add(err, key, text);
    return -1;
}

bool box_error_next(const box_error *err, size_t *at, const char **key, const char **value)
{
    if (*at >= err->detail_len)
        return false;
    *key = err->detail + *at;
    *at += strlen(*key) + 1;
    *value = err->detail + *at;
    *at += strlen(*value) + 1;
    return true;
}

const char *box_error_get(const box_error *err, const char *key)
{
    size_t at = 0;
    const char *k;
    const char *v;
    while (box_error_next(err, &at, &k, &v)) {
        if (strcmp(k, key) == 0)
            return v;
    }
    return NULL;
}

const char *box_reason_name(box_reason reason)
{
    return (unsigned)reason < BOX_REASON_COUNT ? reasons[reason].name : "INTERNAL";
}

box_reason box_reason_from_name(const char *name)
{
    for (int i = 0; i < BOX_REASON_COUNT; i++) {
        if (strcmp(reasons[i].name, name) == 0)
            return (box_reason)i;
    }
    return BOX_UNKNOWN;
}

box_code box_reason_code(box_reason reason)
{
    return (unsigned)reason < BOX_REASON_COUNT ? reasons[reason].code : BOX_CODE_INTERNAL;
}

box_code box_error_code(const box_error *err)
{
    return err->code != 0 ? (box_code)err->code : box_reason_code(err->reason);
}

const char *box_code_name(box_code code)
{
    return (unsigned)code < BOX_COUNT(code_names) ? code_names[code] : "UNKNOWN";
}

void box_error_sanitize(box_error *err)
{
    if ((unsigned)err->reason >= BOX_REASON_COUNT)
        err->reason = BOX_INTERNAL;
    clean_text(err->msg, sizeof err->msg);
    if (err->detail_len > sizeof err->detail)
        err->detail_len = 0;
    /* Whole pairs only: an even number of ends, the last byte being one. */
    size_t ends = 0;
    for (size_t i = 0; i < err->detail_len; i++)
        ends += err->detail[i] == '\0';
    if (err->detail_len > 0 && (ends % 2 != 0 || err->detail[err->detail_len - 1] != '\0'))
        err->detail_len = 0;
    size_t at = 0;
    const char *key;
    const char *value;
    while (box_error_next(err, &at, &key, &value)) {
        clean_text(err->detail + (key - err->detail), strlen(key) + 1);
        clean_text(err->detail + (value - err->detail), strlen(value) + 1);
    }
}
