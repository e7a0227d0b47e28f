/* The session manager against an agent and a warden that say anything: a sandbox's agent may have
 * been taken over by what runs in it. The input is a list of steps: what callers ask, and packets
 * that agent and warden never would send. Whatever they say, every command ends exactly once, every
 * call is answered exactly once, and nothing is left. */
#include <assert.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "fuzz.h"
#include "session_rig.h"

enum { MAX_COMMANDS = 16, MAX_ANSWERS = 16, MAX_STEPS = 64 };

typedef struct run {
    rig rig;
    outcome outcomes[MAX_COMMANDS];
    bool cancelled[MAX_COMMANDS];
    size_t n_commands;
    answer answers[MAX_ANSWERS];
    size_t n_answers;
} run;

static const char *const ids[] = {"a", "b", ""};

static const char *session_of(box_bytes *in)
{
    return ids[fuzz_u8(in) % BOX_COUNT(ids)];
}

/* --- callers -------------------------------------------------------------------------------------
 */

static void start_command(run *f, box_bytes *in)
{
    static const char *const programs[] = {"hang", "exit 3", "flood 300000", "deaf", "missing"};
    if (f->n_commands >= MAX_COMMANDS)
        return;
    const char *id = session_of(in);
    const char *program = programs[fuzz_u8(in) % BOX_COUNT(programs)];
    uint8_t flags = fuzz_u8(in);
    outcome *o = &f->outcomes[f->n_commands++];
    const box_exec_request request = {.stream = (flags & 1) != 0,
                                      .stdin_open = (flags & 2) != 0,
                                      .idempotency_key = (flags & 4) != 0 ? "k" : NULL,
                                      .digest =
                                          (const uint8_t *)"12345678901234567890123456789012"};
    o->may_stream = (flags & 8) != 0 ? SIZE_MAX : 1000;
    rig_start(&f->rig, o, id, program, &request, NULL);
}

static answer *next_answer(run *f)
{
    return f->n_answers < MAX_ANSWERS ? &f->answers[f->n_answers++] : NULL;
}

static void create(run *f, box_bytes *in)
{
    answer *a = next_answer(f);
    const box_create_request request = {.tenant = "t", .id = session_of(in)};
    if (a != NULL)
        box_session_create(f->rig.all, &request, answer_done, a);
}

static void stop_or_delete(run *f, box_bytes *in)
{
    const char *id = session_of(in);
    uint8_t how = fuzz_u8(in);
    answer *a = next_answer(f);
    if (a == NULL)
        return;
    if ((how & 1) != 0)
        box_session_stop(f->rig.all, "t", id, answer_done, a);
    else
        box_session_delete(f->rig.all, "t", id, (how & 2) != 0, answer_done, a);
}

static void touch_command(run *f, box_bytes *in)
{
    size_t i = fuzz_u8(in) % MAX_COMMANDS;
    uint8_t how = fuzz_u8(in);
    outcome *o = &f->outcomes[i];
    box_error err;
    if (o->exec == NULL || o->done)
        return;
    switch (how % 5) {
    case 0:
        box_exec_cancel(box_take(o->exec));
        f->cancelled[i] = true;
        break;
    case 1:
        BOX_IGNORE(box_exec_signal(o->exec, 15, false, &err)); /* either is right */
        break;
    case 2:
        (void)!box_exec_feed(o->exec, "some input", 10, &(bool){false}, &(box_error){0});
        break;
    case 3:
        box_exec_close_stdin(o->exec);
        break;
    default:
        o->may_stream = SIZE_MAX;
        box_exec_resume(o->exec);
        break;
    }
}

/* --- the other side ------------------------------------------------------------------------------
 */

static fake_sandbox *sandbox_of(run *f, box_bytes *in)
{
    size_t skip = fuzz_u8(in) % 3;
    for (size_t i = 0; i < FAKE_MAX_SANDBOXES; i++) {
        fake_sandbox *s = &f->rig.warden.sandboxes[i];
        if (s->used && skip-- == 0)
            return s;
    }
    return NULL;
}

/* A body that is cut is filled up with zeros. How: 1 a wrong size, 2 with a descriptor. */
static void send_raw(int fd, uint32_t type, uint64_t id, size_t size, uint8_t how, box_bytes body)
{
    struct {
        uint32_t type, size;
        uint64_t id;
        uint8_t body[2048];
    } packet = {.type = type, .id = id};
    box_error err;
    BOX_AUTO(box_closep)
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    size_t whole = 16 + size + ((how & 1) != 0 ? 1 : 0);
    assert(whole <= sizeof packet && null >= 0);
    packet.size = (uint32_t)whole;
    if (body.len > 0)
        memcpy(packet.body, body.data, body.len < size ? body.len : size);
    BOX_IGNORE(box_fd_send(fd, &packet, whole, &null, (how & 2) != 0 ? 1 : 0,
                           &err)); /* a closed channel is no matter */
}

static void agent_says(run *f, box_bytes *in)
{
    static const size_t sizes[] = {0, sizeof(box_agent_hello),
                                   0, sizeof(box_agent_started),
                                   0, sizeof(box_agent_exit),
                                   0, 0,
                                   0, 0};
    const fake_sandbox *s = sandbox_of(f, in);
    uint32_t type = fuzz_u8(in) % BOX_COUNT(sizes);
    uint64_t id = fuzz_u8(in);
    uint8_t how = fuzz_u8(in);
    box_bytes body = fuzz_take(in, fuzz_u8(in));
    if (s != NULL && s->fd >= 0)
        send_raw(s->fd, type, id, sizes[type], how, body);
}

static void warden_says(run *f, box_bytes *in)
{
    uint64_t id = fuzz_u8(in);
    uint8_t how = fuzz_u8(in);
    const fake_sandbox *s = sandbox_of(f, in);
    box_bytes body = fuzz_take(in, fuzz_u8(in));
    box_warden_exited exited = {.status = 9, .oom = 1};
    if ((how & 4) != 0) {
        send_raw(f->rig.warden.fd, BOX_WARDEN_ANSWER, id, sizeof(box_warden_answer), how, body);
        return;
    }
    if (s != NULL)
        exited.uid = s->uid;
    send_raw(f->rig.warden.fd, BOX_WARDEN_EXITED, 0, sizeof exited, how,
             (box_bytes){(const uint8_t *)&exited, sizeof exited});
}

static void set_mood(run *f, box_bytes *in)
{
    uint8_t mood = fuzz_u8(in);
    fake_warden *w = &f->rig.warden;
    w->hang_create = (mood & 1) != 0;
    w->hang_start = (mood & 2) != 0;
    w->mute_agent = (mood & 4) != 0;
    w->lying_agent = (mood & 8) != 0;
    w->create_error = (box_error){0};
    if ((mood & 16) != 0)
        (void)box_fail(&w->create_error, BOX_QUOTA, "no room");
}

static void die(run *f, box_bytes *in)
{
    fake_sandbox *s = sandbox_of(f, in);
    if (s != NULL)
        fake_sandbox_die(&f->rig.warden, s, (fuzz_u8(in) & 1) != 0);
}

static void pass_time(run *f, box_bytes *in)
{
    rig_wait(&f->rig, (uint64_t)fuzz_u8(in) * 500 * BOX_MS);
}

/* --- a run ---------------------------------------------------------------------------------------
 */

static void run_steps(run *f, box_bytes *in)
{
    static void (*const steps[])(run *, box_bytes *) = {
        start_command, create, stop_or_delete, touch_command, agent_says, warden_says,
        set_mood,      die,    pass_time,      start_command, agent_says, touch_command,
    };
    for (int i = 0; i < MAX_STEPS && in->len > 0; i++) {
        uint8_t kind = fuzz_u8(in);
        steps[(kind & 0x7f) % BOX_COUNT(steps)](f, in);
        if ((kind & 0x80) == 0) /* else it meets the next one on its way */
            rig_settle(&f->rig);
    }
}

static bool is_over(const run *f)
{
    bool over = true;
    for (size_t i = 0; i < f->n_commands; i++)
        over &= f->outcomes[i].done || f->cancelled[i];
    for (size_t i = 0; i < f->n_answers; i++)
        over &= f->answers[i].count == 1;
    return over;
}

static void tear_down(run *f)
{
    f->rig.warden.hang_create = f->rig.warden.hang_start = false;
    for (size_t i = 0; i < f->n_commands; i++) {
        outcome *o = &f->outcomes[i];
        if (o->done || o->exec == NULL)
            continue;
        o->may_stream = SIZE_MAX; /* its caller reads again */
        box_exec_resume(o->exec);
    }
    /* Waiting for the warden and for a slot, starting twice, running, and the backup timers. */
    for (int seconds = 0; seconds < 300 && !is_over(f); seconds++)
        rig_wait(&f->rig, BOX_SECOND);
    assert(is_over(f));
    for (size_t i = 0; i < f->n_commands; i++)
        outcome_free(&f->outcomes[i]);
    /* A create without an answer outlives draining: the next start would remove its socket. */
    if (f->rig.warden.hung_create_id != 0)
        rig_wait(&f->rig, (BOX_WARDEN_CREATE_SECONDS + 10) * BOX_SECOND);
    rig_done(&f->rig);
    for (size_t i = 0; i < f->n_answers; i++)
        answer_free(&f->answers[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    box_bytes in = {data, size};
    (void)signal(SIGPIPE, SIG_IGN); /* as boxd and its agents do */
    box_log_setup(BOX_LOG_OFF, BOX_LOG_TEXT);
    run *f = box_alloc(sizeof *f);
    rig_init(&f->rig, NULL);
    run_steps(f, &in);
    tear_down(f);
    free(f);
    return 0;
}
