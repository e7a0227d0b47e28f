#include "base/log.h"

#include <stdarg.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/utf8.h"

static box_log_level log_level = BOX_INFO;
static box_log_format log_format = BOX_LOG_TEXT;

typedef struct line {
    char text[4096];
    size_t len;
} line;

static const char *const level_names[] = {"debug", "info", "warn", "error"};

void box_log_setup(box_log_level level, box_log_format format)
{
    log_level = level;
    log_format = format;
}

static void put(line *l, const char *text, size_t len)
{
    size_t room = sizeof l->text - 2 - l->len; /* the end of the line always fits */
    len = len < room ? len : room;
    memcpy(l->text + l->len, text, len);
    l->len += len;
}

static void puts_to(line *l, const char *text)
{
    put(l, text, strlen(text));
}

/* In double quotes as JSON wants them; good enough to read in text too. */
static void put_quoted(line *l, const char *text)
{
    static const char digits[] = "0123456789abcdef";
    puts_to(l, "\"");
    size_t len = strlen(text);
    for (size_t i = 0; i < len;) {
        size_t valid = box_utf8_valid_prefix(text + i, len - i);
        for (size_t end = i + valid; i < end; i++) {
            unsigned char c = (unsigned char)text[i];
            if (c == '"' || c == '\\') {
                char pair[2] = {'\\', (char)c};
                put(l, pair, 2);
            } else if (box_utf8_control(text + i) > 0) {
                i += box_utf8_control(text + i) - 1;
                c = (unsigned char)text[i]; /* the second byte of a C1 is its number */
                char escape[6] = {'\\', 'u', '0', '0', digits[c >> 4], digits[c & 15]};
                put(l, escape, 6);
            } else {
                put(l, text + i, 1);
            }
        }
        if (i < len) {
            puts_to(l, "\\ufffd");
            i++;
        }
    }
    puts_to(l, "\"");
}

static void put_value(line *l, const box_log_field *f)
{
    if (f->kind == BOX_FIELD_STR) {
        put_quoted(l, f->str != NULL ? f->str : "");
        return;
    }
    char number[24];
    (void)snprintf(number, sizeof number, "%lld", (long long)f->num);
    puts_to(l, number);
}

static void put_time(line *l)
{
    struct timespec now;
    struct tm parts;
    char text[32];
    char millis[8];
    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)gmtime_r(&now.tv_sec, &parts);
    (void)strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
    (void)snprintf(millis, sizeof millis, ".%03dZ", (int)(now.tv_nsec / 1000000) % 1000);
    puts_to(l, text);
    puts_to(l, millis);
}

void box_log_write(box_log_level level, const char *event, const box_log_field *fields)
{
    if (level < log_level || level >= BOX_LOG_OFF)
        return;
    line l = {.len = 0};
    bool json = log_format == BOX_LOG_JSON;
    puts_to(&l, json ? "{\"time\":\"" : "");
    put_time(&l);
    puts_to(&l, json ? "\",\"level\":\"" : " ");
    puts_to(&l, level_names[level]);
    puts_to(&l, json ? "\",\"event\":\"" : " ");
    puts_to(&l, event);
    puts_to(&l, json ? "\"" : "");
    for (const box_log_field *f = fields; f->key != NULL; f++) {
        puts_to(&l, json ? ",\"" : " ");
        puts_to(&l, f->key);
        puts_to(&l, json ? "\":" : "=");
        put_value(&l, f);
    }
    if (json)
        l.text[l.len++] = '}';
    l.text[l.len++] = '\n';
    ssize_t n = write(STDERR_FILENO, l.text, l.len);
    (void)n; /* a log that cannot be written has nowhere to be reported */
}
