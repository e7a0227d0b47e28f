/* The agent's managed processes: a fixed table, no allocation but their journals. */
#pragma once

#include <poll.h>

#include "agent/journal.h"
#include "agent/limits.h"
#include "agent/protocol.h"
#include "agent/table.h"
#include "base/list.h"

typedef struct box_managed {
    box_list link; /* in live or unused */
    uint64_t id;
    box_agent_manage conf;
    int text_fd;  /* the command's text, and boxd's record */
    int probe_fd; /* the probe's; -1 */
    box_journal journals[2];
    box_limits limits;
    bool limited;     /* cgroup2: this run's group has its limits */
    int out[2];       /* read ends, or a terminal's master; -1 = closed */
    int in;           /* write end of stdin, or a terminal's master; -1 = closed */
    box_command *run; /* the present one; NULL between runs */
    bool began;       /* run was seen running; its streams are read */
    bool stopping;    /* it was asked to stop: no more runs */
    bool stdin_over;  /* closed on demand */
    bool never_ran;
    bool introduce_due;
    bool report_due;
    bool stdin_due; /* boxd has to get `in` */
    bool watched;   /* boxd wants to hear of more than watch.end */
    box_agent_ends watch;
    bool grew_due;
    box_time kill_at;       /* of a stop; 0 = none */
    box_time next_start;    /* WAITING, or it is to begin in its turn */
    box_time began_at;      /* this run */
    uint32_t row;           /* restarts since the last good run */
    uint64_t search_at;     /* BOX_READY_LINE: stdout is searched from here */
    box_time probe_at;      /* 0 = none is due */
    box_command *probe_run; /* BOX_READY_COMMAND under way */
    int probe_socket;       /* BOX_READY_PORT under way; -1 */
    bool probe_v6;
    box_agent_managed report;
} box_managed;

typedef struct box_processes {
    box_list live; /* oldest first */
    box_list unused;
    uint32_t touched; /* entries ever used */
    box_managed all[BOX_MAX_PROCESSES];
} box_processes;

/* Both outputs of each. */
enum { BOX_PROCESS_POLLS = 2 * BOX_MAX_PROCESSES };

void box_processes_init(box_processes *t);
/* NULL when the table is full. */
box_managed *box_processes_add(box_processes *t, uint64_t id);
/* Closes all it has, but for its limits. */
void box_processes_remove(box_processes *t, box_managed *m);
box_managed *box_processes_find(box_processes *t, uint64_t id);
/* The next after m (NULL: the first), or NULL. Take it before removing m. */
box_managed *box_processes_after(const box_processes *t, const box_managed *m);

/* The pause before the next start: first, doubled `row` times, at most `longest`. */
uint64_t box_restart_pause(uint64_t first_ns, uint64_t longest_ns, uint32_t row);
/* The row after a run of that length: a long one begins a new row. */
uint32_t box_restart_row(uint32_t row, uint64_t ran_ns);
/* Is it to be started again, after `row` restarts, when it ended so? */
bool box_restart_wanted(const box_agent_manage *conf, uint32_t row, bool succeeded);
