/* Answers about backends wait, right after the start, until it is known which there are. */
#include "base/alloc.h"
#include "base/limits.h"
#include "loop/loop.h"
#include "service/control_impl.h"

typedef struct waiting {
    box_call *call;
    char *name;
    box_control_answer answer;
    box_timer *timer;
    box_time until;
} waiting;

static bool is_known(box_control *c)
{
    BOX_AUTO(box_freep)
    box_backend_report *reports = box_alloc_array(BOX_CONTROL_MAX_BACKENDS, sizeof *reports);
    size_t n = box_control_reports(c, reports);
    for (size_t i = 0; i < n; i++) {
        if (reports[i].connecting)
            return false;
    }
    return true;
}

static void look_again(waiting *w, box_time now)
{
    box_time next = box_time_add(now, BOX_WARDEN_FIRST_LOOK_MS * BOX_MS);
    box_timer_set(w->timer, next < w->until ? next : w->until);
}

static void on_timer(void *arg)
{
    waiting *w = arg;
    box_time now = box_loop_now(box_loop_current());
    if (now < w->until && !is_known(box_call_context(w->call))) {
        look_again(w, now);
        return;
    }
    box_error err = {0};
    box_call *call = box_call_ref(w->call); /* the call's end frees w */
    if (w->answer(call, w->name, &err) < 0)
        box_call_finish(call, &err);
    box_call_unref(call);
}

static void on_end(box_call *call, void *arg, const box_error *why)
{
    waiting *w = arg;
    (void)why;
    box_timer_free(w->timer);
    free(w->name);
    free(w);
    box_call_unref(call);
}

int box_control_when_known(box_call *call, const char *name, box_control_answer answer,
                           box_error *err)
{
    if (is_known(box_call_context(call)))
        return answer(call, name, err);
    box_loop *loop = box_loop_current();
    box_time now = box_loop_now(loop);
    waiting *w = box_alloc(sizeof *w);
    w->call = box_call_ref(call);
    w->name = box_strdup(name);
    w->answer = answer;
    w->timer = box_timer_new(loop, on_timer, w);
    w->until = box_time_add(now, BOX_WARDEN_FIRST_HELLO_MS * BOX_MS);
    look_again(w, now);
    box_call_on_end(call, on_end, w);
    return 0;
}
