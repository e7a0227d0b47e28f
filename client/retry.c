#include "retry.h"

#include <string.h>

#include "base/clock.h"

enum {
    MIN_ATTEMPTS = 2,
    MAX_ATTEMPTS = 5, /* gRFC A6 */
    FIRST_MS = 100,
    MAX_MS = 5000,
    FACTOR_PERCENT = 200,
    TOKENS = 10,
    RATIO_MILLI = 100,
    TOKEN = 1000,
    MAX_TOKENS = 1000,
    MAX_PAUSE_STEPS = 64, /* by then any factor above 1 has reached any sensible maximum */
};

uint64_t box_pause_ns(const box_pauses *p, unsigned n, uint32_t random)
{
    enum { SPREAD_PERCENT = 20 };
    uint64_t ns = p->first_ns < p->max_ns ? p->first_ns : p->max_ns;
    for (unsigned i = 1; i < n && i < MAX_PAUSE_STEPS && ns < p->max_ns; i++)
        ns = ns / 100 * p->factor_percent;
    if (ns > p->max_ns)
        ns = p->max_ns;
    uint64_t permille = 1000 - 10 * SPREAD_PERCENT + random % (20 * SPREAD_PERCENT + 1);
    return ns / 1000 * permille;
}

static uint32_t or_default(uint32_t value, uint32_t fallback)
{
    return value != 0 ? value : fallback;
}

int box_retry_init(box_retry *r, const box_retry_policy *policy, box_error *err)
{
    uint32_t tokens = or_default(policy->throttle_tokens, TOKENS);
    *r = (box_retry){.max_attempts = policy->max_attempts};
    if (policy->max_attempts == 0)
        return 0;
    if (policy->max_attempts < MIN_ATTEMPTS || policy->max_attempts > MAX_ATTEMPTS)
        return box_fail(err, BOX_VALIDATION, "retry.max_attempts is %d to %d, or 0 for none",
                        MIN_ATTEMPTS, MAX_ATTEMPTS);
    if (policy->factor_percent != 0 && policy->factor_percent < 100)
        return box_fail(err, BOX_VALIDATION, "retry.factor_percent is at least 100");
    if (tokens > MAX_TOKENS || policy->throttle_ratio_milli > TOKEN)
        return box_fail(err, BOX_VALIDATION,
                        "retry.throttle_tokens is at most %d, retry.throttle_ratio_milli %d",
                        MAX_TOKENS, TOKEN);
    r->codes = or_default(policy->codes, UINT32_C(1) << BOX_CODE_UNAVAILABLE);
    r->pauses = (box_pauses){.first_ns = or_default(policy->first_pause_ms, FIRST_MS) * BOX_MS,
                             .max_ns = or_default(policy->max_pause_ms, MAX_MS) * BOX_MS,
                             .factor_percent = or_default(policy->factor_percent, FACTOR_PERCENT)};
    r->throttle =
        (box_throttle){.max_milli = tokens * TOKEN,
                       .left_milli = tokens * TOKEN,
                       .ratio_milli = or_default(policy->throttle_ratio_milli, RATIO_MILLI)};
    return 0;
}

void box_retry_succeeded(box_retry *r)
{
    box_throttle *t = &r->throttle;
    t->left_milli += t->ratio_milli;
    if (t->left_milli > t->max_milli)
        t->left_milli = t->max_milli;
}

static void take_token(box_throttle *t)
{
    t->left_milli -= t->left_milli < TOKEN ? t->left_milli : TOKEN;
}

/* Milliseconds; false for what means "do not": negative, or no number. */
static bool parse_pushback(const char *text, uint64_t *ms)
{
    enum { MAX_DIGITS = 9 };
    size_t len = strlen(text);
    if (len == 0 || len > MAX_DIGITS || strspn(text, "0123456789") != len)
        return false;
    for (*ms = 0; *text != '\0'; text++)
        *ms = *ms * 10 + (uint64_t)(*text - '0');
    return true;
}

bool box_retry_again(box_retry *r, box_attempts *a, box_code code, const char *pushback,
                     uint32_t random, uint64_t *pause_ns)
{
    uint64_t pushback_ms = 0;
    bool is_listed = (r->codes >> code & 1) != 0;
    bool is_refused = pushback != NULL && !parse_pushback(pushback, &pushback_ms);
    if (r->max_attempts == 0 || (!is_listed && !is_refused)) {
        box_retry_succeeded(r);
        return false;
    }
    take_token(&r->throttle);
    if (is_refused || a->made >= r->max_attempts ||
        r->throttle.left_milli <= r->throttle.max_milli / 2)
        return false;
    a->pauses = pushback != NULL ? 0 : a->pauses + 1;
    *pause_ns =
        pushback != NULL ? pushback_ms * BOX_MS : box_pause_ns(&r->pauses, a->pauses, random);
    return true;
}
