#include "tls_keeper.h"

#include "base/alloc.h"
#include "base/limits.h"
#include "base/log.h"

enum { HOUR_SECONDS = 3600, HOURS_A_DAY = 24, DAY_SECONDS = HOUR_SECONDS * HOURS_A_DAY };

struct box_tls_keeper {
    box_tls_keeper_config config;
    box_loop *loop;
    box_timer *hourly;
    unsigned hours;
    unsigned refs; /* the owner's, and one of the reload that runs */
    bool reloading;
    bool again; /* told meanwhile */
    int rc;     /* of the reload, with what follows */
    int64_t expires_ns;
    box_error err;
};

static void unref(box_tls_keeper *k)
{
    if (--k->refs == 0)
        free(k);
}

static void warn_when_it_ends(const box_tls_keeper *k)
{
    int64_t left_ns = k->config.expires_ns - box_wall_ns();
    if (left_ns < BOX_CERTIFICATE_WARN_DAYS * DAY_SECONDS * (int64_t)BOX_SECOND)
        box_log(BOX_WARN, left_ns > 0 ? "tls.certificate_ends_soon" : "tls.certificate_has_ended",
                BOX_INT("days", left_ns / (DAY_SECONDS * (int64_t)BOX_SECOND)));
}

static void on_hour(void *arg)
{
    box_tls_keeper *k = arg;
    box_error err;
    box_timer_set(k->hourly, box_time_add(box_now(), HOUR_SECONDS * BOX_SECOND));
    if (k->hours++ % HOURS_A_DAY == 0)
        warn_when_it_ends(k);
    if (box_tls_context_rotate(k->config.tls, &err) < 0)
        box_log(BOX_WARN, "tls.tickets", BOX_ERR(&err)); /* the old keys do for another hour */
}

box_tls_keeper *box_tls_keeper_new(const box_tls_keeper_config *config)
{
    box_tls_keeper *k = box_alloc(sizeof *k);
    k->config = *config;
    k->loop = box_loop_current();
    k->refs = 1;
    if (config->tls == NULL)
        return k;
    k->hourly = box_timer_new(k->loop, on_hour, k);
    on_hour(k);
    return k;
}

BOX_WORKER static void reload_run(void *arg)
{
    box_tls_keeper *k = arg; /* these members are ours until reload_done */
    k->rc = box_listen_reload_tls(k->config.conf, k->config.state, k->config.tls, &k->expires_ns,
                                  &k->err);
}

BOX_LOOP static void reload_done(void *arg)
{
    box_tls_keeper *k = arg;
    k->reloading = false;
    if (k->rc < 0) {
        box_log(BOX_ERROR, "tls.reload_failed", BOX_ERR(&k->err));
    } else {
        k->config.expires_ns = k->expires_ns;
        k->config.expires(k->config.arg, k->expires_ns);
        box_log(
            BOX_INFO, "tls.reloaded",
            BOX_INT("days", (k->expires_ns - box_wall_ns()) / (DAY_SECONDS * (int64_t)BOX_SECOND)));
        warn_when_it_ends(k);
    }
    if (k->again && k->hourly != NULL)
        box_tls_keeper_reload(k);
    unref(k);
}

void box_tls_keeper_reload(box_tls_keeper *k)
{
    box_error err;
    k->again = k->reloading;
    if (k->reloading || k->config.tls == NULL)
        return;
    if (box_loop_offload(k->loop, reload_run, reload_done, k, &err) < 0) {
        box_log(BOX_ERROR, "tls.reload_failed", BOX_ERR(&err));
        return;
    }
    k->reloading = true; /* reload_done comes in a later turn */
    k->refs++;
}

void box_tls_keeper_free(box_tls_keeper *k)
{
    if (k == NULL)
        return;
    box_timer_free(box_take(k->hourly));
    unref(k);
}
