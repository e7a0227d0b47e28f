/* boxcli drill: attacks on what lies beside a sandbox: networks, sockets, other sessions. */
#include <arpa/inet.h>
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "attacks.h"
#include "base/fd.h"
#include "drill.h"

/* --- network ---------------------------------------------------------------------------------- */

/* A listener on this machine's loopback: what reaches it came from the sandbox. */
static int open_trap(int *out, char port[8], box_error *err)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t len = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    *out = fd;
    if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof address) < 0 ||
        listen(fd, 8) < 0 || getsockname(fd, (struct sockaddr *)&address, &len) < 0)
        return box_fail_errno(err, "listen on the loopback");
    (void)snprintf(port, 8, "%u", (unsigned)ntohs(address.sin_port));
    return 0;
}

static int run_network(drill *d, const drill_attack *a, const char *session, drill_outcome *out,
                       box_error *err)
{
    char port[8];
    BOX_AUTO(box_closep) int trap = -1;
    BOX_AUTO(cli_message_freep) Box__V1__ExecResponse *answer = NULL;
    drill_command command = drill_command_of(a);
    command.argument = port;
    if (open_trap(&trap, port, err) < 0 || drill_exec(d, session, &command, &answer, err) < 0)
        return -1;
    drill_judge_report(answer, out);
    BOX_AUTO(box_closep) int caught = accept4(trap, NULL, NULL, SOCK_CLOEXEC);
    if (caught >= 0)
        drill_broken(out, "a connection came to this machine's loopback");
    return 0;
}

/* --- another session -------------------------------------------------------------------------- */

static int leave_and_look(drill *d, const drill_attack *a, const char *holder, const char *session,
                          drill_outcome *out, box_error *err)
{
    BOX_AUTO(cli_message_freep) Box__V1__ExecResponse *held = NULL;
    BOX_AUTO(cli_message_freep) Box__V1__ExecResponse *seen = NULL;
    BOX_AUTO(cli_message_freep) Box__V1__ExecResponse *own = NULL;
    drill_outcome probe;
    drill_command leave = {
        .program = "python3", .script = drill_meeting_holder, .keep_leftovers = true};
    drill_command look = drill_command_of(a);
    if (drill_exec(d, holder, &leave, &held, err) < 0)
        return -1;
    drill_judge_report(held, out);
    if (out->result != DRILL_HELD)
        return 0;
    if (drill_exec(d, session, &look, &seen, err) < 0 ||
        drill_exec(d, holder, &look, &own, err) < 0)
        return -1;
    drill_judge_report(seen, out);
    drill_judge_report(own, &probe); /* the same look must find it all where it was left */
    if (out->result == DRILL_HELD && probe.result != DRILL_BROKEN)
        drill_skipped(out, "the other session's things could not be made");
    return 0;
}

static int run_meeting(drill *d, const drill_attack *a, const char *session, drill_outcome *out,
                       box_error *err)
{
    char holder[DRILL_ID];
    (void)snprintf(holder, sizeof holder, "%s-holder", d->prefix);
    if (drill_session_create(d, holder, a->needs, err) < 0)
        return -1;
    int rc = leave_and_look(d, a, holder, session, out, err);
    drill_session_delete(d, holder);
    return rc;
}

const drill_attack drill_neighbour_attacks[] = {
    {.name = "network",
     .program = "python3",
     .script = drill_network,
     .run = run_network,
     .needs = "network_off",
     .timeout_ms = 60000,
     .tried = "this machine's loopback, Box's port, metadata, the world, other socket families",
     .expected = "nothing can be reached"},
    {.name = "sockets",
     .program = "python3",
     .script = drill_sockets,
     .tried = "Unix sockets: engines', Box's own, abstract ones, any file that is one",
     .expected = "none is there"},
    {.name = "other-session",
     .program = "python3",
     .script = drill_meeting_probe,
     .run = run_meeting,
     .tried = "sockets, ports, shared memory, files and processes of a session",
     .expected = "another session sees none of them"},
    {0},
};
