#include "namespace/subid.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"

enum { MAX_FILE_BYTES = 1024 * 1024 /* a line is about 30 bytes */ };

/* A number up to `end`, which is the character behind it. */
static bool number(const char *at, char end, uint32_t *out)
{
    char *rest;
    errno = 0;
    unsigned long long value = strtoull(at, &rest, 10);
    if (at[0] < '0' || at[0] > '9' || errno != 0 || value >= UINT32_MAX ||
        (*rest != end && !(end == '\n' && *rest == '\0')))
        return false;
    *out = (uint32_t)value;
    return true;
}

static bool is_user(const char *line, size_t len, const char *name, uint32_t uid)
{
    char digits[16];
    int n = snprintf(digits, sizeof digits, "%u", (unsigned)uid);
    return ((size_t)n == len && strncmp(line, digits, len) == 0) ||
           (name != NULL && strlen(name) == len && strncmp(line, name, len) == 0);
}

static bool parse_line(const char *line, const char *name, uint32_t uid, box_subid_range *out)
{
    size_t user = strcspn(line, ":\n");
    if (line[user] != ':' || !is_user(line, user, name, uid))
        return false;
    const char *first = line + user + 1;
    size_t len = strcspn(first, ":\n");
    return first[len] == ':' && number(first, ':', &out->first) &&
           number(first + len + 1, '\n', &out->count) && out->count > 0 &&
           out->first <= UINT32_MAX - out->count;
}

bool box_subid_parse(const char *text, const char *name, uint32_t uid, box_subid_range *out)
{
    box_subid_range best = {0};
    for (const char *line = text; *line != '\0';) {
        box_subid_range one;
        if (parse_line(line, name, uid, &one) && one.count > best.count)
            best = one;
        line += strcspn(line, "\n");
        line += *line != '\0' ? 1 : 0;
    }
    if (best.count > 0)
        *out = best;
    return best.count > 0;
}

bool box_subid_find(const char *file, box_subid_range *out)
{
    BOX_AUTO(box_closep) int fd = open(file, O_RDONLY | O_CLOEXEC);
    BOX_AUTO(box_buf_done) box_buf text = {.max_bytes = MAX_FILE_BYTES};
    box_error err;
    if (fd < 0 || box_buf_read_fd(&text, fd, &err) < 0 || box_buf_add(&text, "", 1, &err) < 0)
        return false;
    const struct passwd *user = getpwuid(geteuid()); /* single-threaded, at start */
    return box_subid_parse((const char *)box_buf_data(&text), user != NULL ? user->pw_name : NULL,
                           (uint32_t)geteuid(), out);
}
