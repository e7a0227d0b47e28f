#include <ctype.h>
#include <inttypes.h>

#include "internal.h"

/* timestamp.proto: 0001-01-01T00:00:00Z to 9999-12-31T23:59:59.999999999Z. */
#define MIN_SECONDS INT64_C(-62135596800)
#define MAX_SECONDS INT64_C(253402300799)
/* duration.proto: about 10,000 years. */
#define MAX_DURATION INT64_C(315576000000)

enum { DAY = 86400, NANOS = 1000000000 };

typedef struct civil {
    int64_t year;
    int month;
    int day;
} civil;

/* Days since 1970-01-01 and back, proleptic Gregorian: years that begin in March, 400 of them at a
 * time (Howard Hinnant, chrono-Compatible Low-Level Date Algorithms). */
static int64_t days_of(civil date)
{
    int64_t y = date.month <= 2 ? date.year - 1 : date.year;
    int64_t era = (y >= 0 ? y : y - 399) / 400;
    int64_t year_of_era = y - era * 400;
    int64_t day_of_year = (153 * (date.month + (date.month > 2 ? -3 : 9)) + 2) / 5 + date.day - 1;
    int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return era * 146097 + day_of_era - 719468;
}

static civil date_of(int64_t days)
{
    days += 719468;
    int64_t era = (days >= 0 ? days : days - 146096) / 146097;
    int64_t doe = days - era * 146097;
    int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    int64_t mp = (5 * doy + 2) / 153;
    int month = (int)(mp < 10 ? mp + 3 : mp - 9);
    return (civil){yoe + era * 400 + (month <= 2), month, (int)(doy - (153 * mp + 2) / 5 + 1)};
}

/* ".500", ".000001" or nothing: 0, 3, 6 or 9 digits. */
static void put_fraction(int32_t nanos, char out[12])
{
    out[0] = '\0';
    if (nanos == 0)
        return;
    if (nanos % 1000000 == 0)
        (void)snprintf(out, 12, ".%03" PRId32, nanos / 1000000);
    else if (nanos % 1000 == 0)
        (void)snprintf(out, 12, ".%06" PRId32, nanos / 1000);
    else
        (void)snprintf(out, 12, ".%09" PRId32, nanos);
}

int box_json_timestamp_format(int64_t seconds, int32_t nanos, char out[JSON_TIME_TEXT])
{
    char fraction[12];
    if (seconds < MIN_SECONDS || seconds > MAX_SECONDS || nanos < 0 || nanos >= NANOS)
        return -1;
    int64_t days = seconds >= 0 ? seconds / DAY : -((-seconds + DAY - 1) / DAY);
    int rest = (int)(seconds - days * DAY);
    civil date = date_of(days);
    put_fraction(nanos, fraction);
    (void)snprintf(out, JSON_TIME_TEXT, "%04d-%02d-%02dT%02d:%02d:%02d%sZ", (int)date.year,
                   date.month, date.day, rest / 3600, rest / 60 % 60, rest % 60, fraction);
    return 0;
}

/* Exactly n digits. */
static bool read_digits(const char **at, int n, int *out)
{
    *out = 0;
    for (; n > 0; n--, (*at)++) {
        if (!isdigit((unsigned char)**at))
            return false;
        *out = *out * 10 + (**at - '0');
    }
    return true;
}

static bool read_char(const char **at, char a, char b)
{
    if (**at != a && **at != b)
        return false;
    (*at)++;
    return true;
}

/* "." and 1 to 9 digits, or nothing. */
static bool read_fraction(const char **at, int32_t *nanos)
{
    *nanos = 0;
    if (**at != '.')
        return true;
    (*at)++;
    int32_t unit = NANOS / 10;
    if (!isdigit((unsigned char)**at))
        return false;
    for (; isdigit((unsigned char)**at); (*at)++, unit /= 10) {
        if (unit == 0)
            return false;
        *nanos += (**at - '0') * unit;
    }
    return true;
}

/* "Z" or "+hh:mm": seconds to subtract. */
static bool read_zone(const char **at, int *offset)
{
    int hours;
    int minutes;
    *offset = 0;
    if (read_char(at, 'Z', 'z'))
        return true;
    int sign = **at == '-' ? -1 : 1;
    if (!read_char(at, '+', '-') || !read_digits(at, 2, &hours) || !read_char(at, ':', ':') ||
        !read_digits(at, 2, &minutes) || hours > 23 || minutes > 59)
        return false;
    *offset = sign * (hours * 3600 + minutes * 60);
    return true;
}

static bool is_date(civil date)
{
    civil same = date_of(days_of(date));
    return date.year >= 1 && date.month >= 1 && date.month <= 12 && date.day >= 1 &&
           date.day <= 31 && same.month == date.month && same.day == date.day;
}

int box_json_timestamp_parse(const char *text, int64_t *seconds, int32_t *nanos)
{
    int year;
    int hour;
    int minute;
    int second;
    int offset;
    civil date;
    if (!read_digits(&text, 4, &year) || !read_char(&text, '-', '-') ||
        !read_digits(&text, 2, &date.month) || !read_char(&text, '-', '-') ||
        !read_digits(&text, 2, &date.day) || !read_char(&text, 'T', 't'))
        return -1;
    date.year = year;
    if (!read_digits(&text, 2, &hour) || !read_char(&text, ':', ':') ||
        !read_digits(&text, 2, &minute) || !read_char(&text, ':', ':') ||
        !read_digits(&text, 2, &second) || !read_fraction(&text, nanos) ||
        !read_zone(&text, &offset) || *text != '\0')
        return -1;
    if (date.month < 1 || date.month > 12 || !is_date(date) || hour > 23 || minute > 59 ||
        second > 59)
        return -1;
    *seconds = days_of(date) * DAY + hour * 3600 + minute * 60 + second - offset;
    return *seconds < MIN_SECONDS || *seconds > MAX_SECONDS ? -1 : 0;
}

int box_json_duration_format(int64_t seconds, int32_t nanos, char out[JSON_TIME_TEXT])
{
    char fraction[12];
    bool negative = seconds < 0 || nanos < 0;
    if (seconds < -MAX_DURATION || seconds > MAX_DURATION || nanos <= -NANOS || nanos >= NANOS ||
        (negative && (seconds > 0 || nanos > 0)))
        return -1;
    put_fraction(negative ? -nanos : nanos, fraction);
    (void)snprintf(out, JSON_TIME_TEXT, "%s%" PRId64 "%ss", negative ? "-" : "",
                   negative ? -seconds : seconds, fraction);
    return 0;
}

int box_json_duration_parse(const char *text, int64_t *seconds, int32_t *nanos)
{
    bool negative = *text == '-';
    int64_t whole = 0;
    text += negative;
    if (!isdigit((unsigned char)*text))
        return -1;
    for (; isdigit((unsigned char)*text); text++) {
        whole = whole * 10 + (*text - '0');
        if (whole > MAX_DURATION)
            return -1;
    }
    if (!read_fraction(&text, nanos) || text[0] != 's' || text[1] != '\0')
        return -1;
    *seconds = negative ? -whole : whole;
    *nanos = negative ? -*nanos : *nanos;
    return 0;
}
