/* A boxd of the tests: starts the real box-warden, speaks its protocol and the agent's. Every
 * function ends the test (cmocka's fail) when something does not work that the test does not ask
 * about. */
#pragma once

#include <sys/types.h>

#include "agent/packet.h"
#include "backend.h"

typedef struct test_warden {
    char dir[64];    /* temporary; holds the configuration, the socket and the state files */
    char socket[96]; /* path */
    pid_t pid;
    const char
        *hidden;       /* control group mounts it shall not see: "unified", "" = all, NULL = none */
    int refused_call;  /* a system call number that answers ENOSYS in the warden; 0 = none */
    const char *group; /* directory of the control group it starts in; NULL = the test's */
    bool enclosed;     /* ... as the root of a cgroup namespace, on a host with cgroup2 alone */
} test_warden;

/* For main. argv[1]: what wardens of this program are, "root", or "one-id" or "ids": an ordinary
 * user's, without or with ids to give to sandboxes. 0, or what to exit with: 77 without root or
 * newuidmap, after saying so. What a killed warden leaves is reaped here. */
int test_wardens_begin(int argc, char **argv);
/* "root" ... */
const char *test_wardens_kind(void);

/* `extra` is YAML that is added to the configuration; "" = none. */
void test_warden_init(test_warden *w, const char *extra);
void test_warden_start(test_warden *w);
/* Ends it with that signal and waits; its exit status as wait(2) gives it. */
int test_warden_stop(test_warden *w, int signo);
/* Ends it in order, and nothing may be left then but the sandboxes it leaves to the next one. Also
 * removes the directory. */
void test_warden_done(test_warden *w);
/* Of a group: ends and cleans up after the wardens of tests that failed. */
int test_wardens_end(void **state);
/* State files that are there. */
size_t test_warden_states(const test_warden *w);
/* Waits until there are no more than that. */
void test_warden_await_states(const test_warden *w, size_t count);
/* Waits until there are none: nothing of a sandbox is left when its file goes. */
void test_warden_await_clean(const test_warden *w);

typedef struct test_boxd {
    int fd;
    box_uid instance;
    uint64_t next_id;
    box_warden_hello hello; /* the warden's */
    box_uid ready;          /* the last that the warden has prepared; zero = none, or used */
    size_t n_exited;
    box_warden_exited exited; /* the last */
} test_boxd;

void test_boxd_connect(test_boxd *b, const test_warden *w, const box_uid *instance);
/* On a socket that is connected already. */
void test_boxd_greet(test_boxd *b, int fd, const box_uid *instance);
void test_boxd_close(test_boxd *b);

/* Sends a request; its id. fd -1 = none. */
uint64_t test_boxd_send(test_boxd *b, box_warden_type type, const void *body, size_t size, int fd);
/* The answer to that id; EXITED that comes before is kept in b. Descriptors (at most 4) are the
 * caller's. */
box_warden_answer test_boxd_answer(test_boxd *b, uint64_t id, int fds[BOX_ANSWER_MAX_FDS],
                                   size_t *n_fds);
/* One request about a sandbox. */
box_warden_answer test_boxd_ask(test_boxd *b, box_warden_type type, const box_uid *uid);
/* Waits until something is prepared; the next sandbox uses it. */
void test_boxd_await_ready(test_boxd *b);
/* Waits for an EXITED. */
void test_boxd_await_exited(test_boxd *b);

typedef struct test_box {
    box_uid uid;
    char address[96]; /* of the agent's listening socket */
    int listen;
    int agent;  /* connected */
    int cgroup; /* as the warden gave them, -1 = none */
    int devpts;
    int pidfd;
    int memory;
    int pids;
    box_warden_answer answer;
    uint64_t next_command;
} test_box;

/* A listening socket as boxd binds it for the agent. */
int test_listen(const test_warden *w, const box_uid *uid, char address[96]);
void test_box_close(test_box *box);
/* Sends CREATE; uid and listener are made. */
uint64_t test_box_ask(test_boxd *b, const test_warden *w, box_warden_create request, test_box *box);
/* Receives its answer; false when it is an error (box->answer.error). */
bool test_box_made(test_boxd *b, uint64_t id, test_box *box);
/* Both; must work. */
void test_box_create(test_boxd *b, const test_warden *w, box_warden_create request, test_box *box);
/* CREATE that is refused. */
box_error test_box_refused(test_boxd *b, const test_warden *w, box_warden_create request);
void test_box_destroy(test_boxd *b, test_box *box);
void test_box_connect(test_box *box);

typedef struct test_run {
    box_agent_started started;
    box_agent_exit exit;
    char output[65536]; /* standard output and error */
} test_run;

/* Runs `sh -c script` as the session would; connects first when need be. */
void test_box_run(test_box *box, const char *script, test_run *out);
/* Its output without the last end of line, kept until the next call. Exit code 0 is required. */
const char *test_box_output(test_box *box, const char *script);

/* Directories of that name, in all hierarchies: a sandbox's is its uid. */
size_t test_groups_named(const char *name);

/* How many lines of a file hold that text. */
size_t test_count_lines(const char *file, const char *text);
