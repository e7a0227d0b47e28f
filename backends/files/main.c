/* box-files: does file calls inside a sandbox, as its user (files/protocol.h). The agent starts it
 * with the socket as descriptor BOX_FILES_SOCKET_FD and nothing else. */
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/process.h"
#include "files/filter.h"
#include "files/worker.h"

static int run(box_error *err)
{
    /* It is not the commands' to look into, though it is their user's: the program's file cannot be
     * read by it either, so this held from the exec on. */
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return box_fail_errno(err, "give up privileges");
    (void)prctl(PR_SET_NAME, "box-files", 0, 0, 0); /* for people who look */
    (void)umask(0);                                 /* modes are what the call says */
    int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return box_fail_errno(err, "open the root");
    if (box_process_forbid_core(err) < 0 || box_files_filter(err) < 0)
        return -1;
    return box_files_serve(BOX_FILES_SOCKET_FD, root, err);
}

int main(void)
{
    box_error err = {0};
    if (run(&err) == 0)
        return 0;
    (void)dprintf(STDERR_FILENO, "box-files: %s: %s\n", box_reason_name(err.reason), err.msg);
    return 1;
}
