/* For callers that run MCP servers of their own machine, or any programs that speak on stdin and
 * stdout, in a session that they share: each is a managed process of it, its project is copied in
 * (box/stage.h), and a Python project gets its virtual environment there. Nothing is ever run on
 * this machine instead: what fails, fails.
 *
 * Below the session's workspace: .mcp/PROCESS/HASH is the project as it was when it had that hash,
 * .mcp/.environments/KEY a virtual environment, which all projects that need the same one share. */
#pragma once

#include "box/call.h"
#include "box/v1/types.pb-c.h"

#ifdef __cplusplus
extern "C" {
#endif

/* NULL and zero: by default. All of it is borrowed. */
typedef struct box_mcp_server {
    /* The command as one would give it here. Paths of the project become those inside, an
     * interpreter of a virtual environment that of the one inside (box/project.h). */
    const char *const *argv;
    size_t argc;
    /* "NAME=VALUE"; a value that is a path of the project becomes that inside. */
    const char *const *env;
    size_t n_env;
    /* The folder to copy; "": none. NULL: what argv names in common (box_project_root), none when
     * that is nothing; VALIDATION when it is the home directory or holds it, is hidden or in a
     * hidden one, or is a directory of the system such as /tmp. */
    const char *project;
    /* NULL: "mcp-shared", with a spec "mcp-shared-" and 12 digits that stand for it. It is made by
     * whoever comes first, persistent, with 256 MiB of workspace and 8 commands at once where the
     * spec does not say; a session that differs from the spec is SESSION_CONFLICT. */
    const char *session_id;
    const Box__V1__SessionSpec *spec;
    /* Not with a dot in front. NULL: made from the project's name and the command. */
    const char *process_id;
    bool replace;        /* stop the one that runs, also when it is the same */
    bool no_environment; /* no virtual environment */
    bool stop_on_detach; /* the process is stopped when its last caller leaves */
    uint64_t timeout_ns; /* for all of it; 0 = 300 s */
    /* A line about what goes on, for people; may hold what pip said. */
    void (*note)(void *arg, const char *text);
    void *note_arg;
} box_mcp_server;

enum { BOX_MCP_SESSION_BYTES = 257, BOX_MCP_PROCESS_BYTES = 65 };

typedef struct box_mcp_started {
    char session_id[BOX_MCP_SESSION_BYTES];
    char process_id[BOX_MCP_PROCESS_BYTES];
    bool started; /* by this call; false: it ran already, with the same command and files */
} box_mcp_started;

/* Session, project, environment, process: what is there already is used. A process of that id with
 * another command, environment variables of other names, or other files is replaced; that the value
 * of a variable changed is not seen. options: of each call (token, metadata). Errors: of the calls,
 * "session: ", "project: ", "environment: " or "process: " in front. */
int box_mcp_server_start(box_channel *channel, const box_client_options *options,
                         const box_mcp_server *server, box_mcp_started *out, box_error *err)
    BOX_MUST_USE;

/* Stops that process alone, and removes what was copied for it. That there is none is no error. */
int box_mcp_server_stop(box_channel *channel, const box_client_options *options,
                        const char *session_id, const char *process_id, box_error *err)
    BOX_MUST_USE;

#ifdef __cplusplus
}
#endif
