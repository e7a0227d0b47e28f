/* boxcli drill: attacks on the walls: agent, kernel, files and devices. */
#include "attacks.h"
#include "drill.h"

/* CVE-2024-21626: a descriptor of the runtime as a working directory leads out. */
static const char *const workdirs[] = {
    "/proc/self/fd/3", "/proc/self/fd/4", "/proc/self/fd/5",   "/proc/self/fd/6",
    "/proc/self/fd/7", "/proc/self/fd/8", "/proc/self/fd/9",   "/proc/self/fd/10",
    "/dev/fd/7",       "/proc/1/root",    "/proc/1/cwd",       "/proc/1/fd/3",
    "/proc/2/root",    "/proc/self/fd",   "/proc/thread-self",
};

/* Where it may start after all, ".." may not be the machine's. */
static const char look_around[] =
    "test -e ./etc/shadow && echo broken: \"$PWD\" shows the machine\n"
    "cd .. && test -e ./etc/shadow && echo broken: \"$PWD\"/..\n"
    "echo held: it starts inside\n";

static int run_workdirs(drill *d, const drill_attack *a, const char *session, drill_outcome *out,
                        box_error *err)
{
    size_t refused = 0;
    for (size_t i = 0; i < BOX_COUNT(workdirs); i++) {
        BOX_AUTO(cli_message_freep) Box__V1__ExecResponse *answer = NULL;
        drill_command command = drill_command_of(a);
        command.workdir = workdirs[i];
        if (drill_exec(d, session, &command, &answer, err) < 0) {
            if (err->reason != BOX_FILE_NOT_FOUND && err->reason != BOX_PERMISSION &&
                err->reason != BOX_VALIDATION)
                return -1;
            refused++;
            continue;
        }
        drill_judge_report(answer, out);
        if (out->result != DRILL_HELD)
            return 0;
    }
    drill_held(out, "%zu refused, %zu inside the sandbox", refused, BOX_COUNT(workdirs) - refused);
    return 0;
}

const drill_attack drill_escape_attacks[] = {
    {.name = "workdir",
     .program = "sh",
     .script = look_around,
     .run = run_workdirs,
     .tried = "starting in descriptors and roots of other processes",
     .expected = "refused, or inside the sandbox"},
    {.name = "agent-memory",
     .program = "python3",
     .script = drill_agent_memory,
     .tried = "memory, environment and files of processes that are not its own",
     .expected = "refused"},
    {.name = "agent-trace",
     .program = "python3",
     .script = drill_agent_trace,
     .needs = "agent_separated",
     .tried = "ptrace, foreign memory, limits and files of process 1",
     .expected = "refused"},
    {.name = "kernel-memory",
     .program = "python3",
     .script = drill_kernel_memory,
     .tried = "/proc/kcore, /dev/mem, kernel messages and addresses",
     .expected = "not there, or refused"},
    {.name = "kernel-settings",
     .program = "python3",
     .script = drill_kernel_settings,
     .tried = "opening core_pattern, sysrq, release_agent and others for writing",
     .expected = "refused"},
    {.name = "kernel-surface",
     .program = "python3",
     .script = drill_kernel_surface,
     .needs = "seccomp",
     .tried = "bpf, io_uring, keyctl, userfaultfd, kexec and others",
     .expected = "refused before the kernel looks at their arguments"},
    {.name = "new-mounts",
     .program = "python3",
     .script = drill_new_mounts,
     .tried = "new namespaces, mounts, chroot, entering process 1's namespaces",
     .expected = "refused"},
    {.name = "system-files",
     .program = "python3",
     .script = drill_system_files,
     .tried = "writing /usr, /etc, /dev and /",
     .expected = "refused"},
    {.name = "host-files",
     .program = "python3",
     .script = drill_host_files,
     .tried = "the machine's accounts, keys, logs and homes",
     .expected = "not there, or refused"},
    {.name = "devices",
     .program = "python3",
     .script = drill_devices,
     .tried = "making device nodes; what /dev holds",
     .expected = "refused; nothing but the usual"},
    {.name = "set-id",
     .program = "python3",
     .script = drill_set_id,
     .needs = "user,seccomp",
     .tried = "set-id files, becoming root, capabilities",
     .expected = "refused, and none are there"},
    {.name = "terminal",
     .program = "python3",
     .script = drill_terminal,
     .needs = "seccomp",
     .tried = "pushing characters into a terminal (TIOCSTI, TIOCLINUX)",
     .expected = "refused"},
    {.name = "secrets",
     .program = "python3",
     .script = drill_secrets,
     .tried = "tokens and keys in environments, descriptors, processes and files",
     .expected = "nothing of the server's"},
    {0},
};
