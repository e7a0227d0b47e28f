/* boxcli doctor: programs and services that other backends make sandboxes with. Box has only the
 * backend namespace so far, which needs none of them: a row says what is there, and judges nothing.
 */
#include <errno.h>
#include <unistd.h>

#include "base/alloc.h"
#include "doctor.h"
#include "machine.h"

enum { VERSION_MS = 5000, ENGINE_PATH = 512 };

typedef struct engine {
    const char *program;
    const char *option;   /* that makes it say its version */
    const char *variable; /* names the socket, "unix:///path"; NULL: it has none */
    const char *socket;   /* where it usually is */
    const char *own;      /* an ordinary user's, below XDG_RUNTIME_DIR */
} engine;

static const engine docker = {"docker", "--version", "DOCKER_HOST", "/run/docker.sock",
                              "docker.sock"};
static const engine podman = {"podman", "--version", "CONTAINER_HOST", "/run/podman/podman.sock",
                              "podman/podman.sock"};
static const engine crun = {"crun", "--version", NULL, NULL, NULL};
static const engine runc = {"runc", "--version", NULL, NULL, NULL};
static const engine runsc = {"runsc", "--version", NULL, NULL, NULL};
static const engine nsjail = {"nsjail", "--help", NULL, NULL, NULL}; /* it tells no version */

/* In PATH, then where an ordinary user's does not look. */
static bool find_program(const char *name, char out[ENGINE_PATH])
{
    static const char more[] = ":/usr/local/sbin:/usr/sbin:/sbin";
    const char *path = getenv("PATH");
    char list[4096];
    char *save = NULL;
    (void)snprintf(list, sizeof list, "%s%s", path != NULL ? path : "/usr/bin:/bin", more);
    for (char *dir = strtok_r(list, ":", &save); dir != NULL; dir = strtok_r(NULL, ":", &save)) {
        int n = snprintf(out, ENGINE_PATH, "%s/%s", dir, name);
        if (dir[0] == '/' && n < ENGINE_PATH && access(out, X_OK) == 0)
            return true;
    }
    return false;
}

static void find_socket(const engine *e, char out[ENGINE_PATH])
{
    const char *named = doctor_setting(NULL, e->variable);
    const char *run = doctor_setting(NULL, "XDG_RUNTIME_DIR");
    if (named != NULL && strncmp(named, "unix://", 7) == 0) {
        (void)snprintf(out, ENGINE_PATH, "%s", named + 7);
        return;
    }
    (void)snprintf(out, ENGINE_PATH, "%s", e->socket);
    if (run == NULL || access(out, F_OK) == 0)
        return;
    char own[ENGINE_PATH];
    int n = snprintf(own, sizeof own, "%s/%s", run, e->own);
    if (n > 0 && n < ENGINE_PATH && access(own, F_OK) == 0)
        memcpy(out, own, sizeof own);
}

static void check_engine(doctor *d, const doctor_check *check, doctor_row *row)
{
    (void)d;
    const engine *e = check->about;
    char path[ENGINE_PATH];
    char version[128];
    char socket[ENGINE_PATH] = "";
    char answers[ENGINE_PATH + 64] = "";
    if (!find_program(e->program, path)) {
        doctor_skip(row, "not found; Box's backend for it is not built yet");
        return;
    }
    const char *const argv[] = {path, e->option, NULL};
    if (!machine_run(argv, VERSION_MS, version, sizeof version) || strcmp(e->option, "--help") == 0)
        (void)snprintf(version, sizeof version, "version not known");
    if (e->socket != NULL) {
        find_socket(e, socket);
        int why = machine_connect(socket);
        (void)snprintf(answers, sizeof answers, ", %.300s %s", socket,
                       why == 0 ? "answers" : strerror(why));
    }
    doctor_skip(row, "%.128s: %s%s; Box's backend for it is not built yet", path, version, answers);
}

const doctor_check doctor_engine_checks[] = {
    {.name = "docker", .run = check_engine, .about = &docker},
    {.name = "podman", .run = check_engine, .about = &podman},
    {.name = "crun", .run = check_engine, .about = &crun},
    {.name = "runc", .run = check_engine, .about = &runc},
    {.name = "runsc", .run = check_engine, .about = &runsc},
    {.name = "nsjail", .run = check_engine, .about = &nsjail},
    {0},
};
