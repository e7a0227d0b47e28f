/* box-warden: the privileged half of Box for one backend. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/process.h"
#include "warden/private.h"
#include "warden/warden.h"

extern char **environ;

typedef struct options {
    const char *backend;
    const char *config;
    int boxd_fd;
    bool check;
    bool print;
} options;

static const char usage[] =
    "Usage: box-warden --backend NAME --config FILE\n"
    "       box-warden --backend NAME [--config FILE] --boxd-fd N\n"
    "Makes and removes sandboxes for boxd.\n\n"
    "  --backend NAME   which backend to run: namespace (the default)\n"
    "  --config FILE    configuration; keys are shown by --print-config\n"
    "  --boxd-fd N      serve one boxd on this connected SEQPACKET socket; when it\n"
    "                   closes, remove its sandboxes and end\n"
    "  --check-config   check the configuration and end\n"
    "  --print-config   print the configuration with defaults and end\n"
    "  --help           this text\n";

static int complain(const box_error *err)
{
    (void)fprintf(stderr, "box-warden: %s\n", err->msg);
    return 1;
}

static int misused(const char *what)
{
    (void)fprintf(stderr, "box-warden: %s\n%s", what, usage);
    return 2;
}

static bool parse_fd(const char *text, int *out)
{
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || value < 0 || value > INT_MAX)
        return false;
    *out = (int)value;
    return true;
}

/* -1 = go on, else the exit code. */
static int parse(int argc, char **argv, options *o)
{
    static const struct option names[] = {{"backend", required_argument, NULL, 'b'},
                                          {"config", required_argument, NULL, 'c'},
                                          {"boxd-fd", required_argument, NULL, 'f'},
                                          {"check-config", no_argument, NULL, 'k'},
                                          {"print-config", no_argument, NULL, 'p'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    for (int c; (c = getopt_long(argc, argv, "", names, NULL)) != -1;) {
        if (c == 'b') {
            o->backend = optarg;
        } else if (c == 'c') {
            o->config = optarg;
        } else if (c == 'f') {
            if (!parse_fd(optarg, &o->boxd_fd))
                return misused("--boxd-fd is no descriptor");
        } else if (c == 'k') {
            o->check = true;
        } else if (c == 'p') {
            o->print = true;
        } else if (c == 'h') {
            (void)fputs(usage, stdout);
            return 0;
        } else {
            return 2;
        }
    }
    if (optind < argc)
        return misused("unexpected argument");
    if (o->config == NULL && o->boxd_fd < 0 && !o->check && !o->print)
        return misused("--config is missing");
    return -1;
}

/* What the starter left open is nothing of ours: helpers keep all that is open by now, and one that
 * kept a socket of the warden would not see it end. boxd's gets the lowest number. */
static int keep_only(int *boxd_fd, box_error *err)
{
    int last = STDERR_FILENO;
    if (*boxd_fd > last) {
        last++;
        if (*boxd_fd != last && dup3(*boxd_fd, last, O_CLOEXEC) < 0)
            return box_fail_errno(err, "--boxd-fd");
        *boxd_fd = last;
    }
    (void)close_range((unsigned)last + 1, ~0U, 0); /* before Linux 5.9 they stay */
    return 0;
}

static int run(const options *o, const box_backend_ops *ops, const box_warden_config *config,
               int *start_lock, box_error *err)
{
    box_warden *w;
    if (box_warden_new(config, ops, &w, err) < 0)
        return -1;
    box_closep(start_lock); /* the state directory is locked now */
    int rc = o->boxd_fd >= 0 ? box_warden_attach(w, o->boxd_fd, err) : box_warden_listen(w, err);
    if (rc == 0)
        box_log(BOX_INFO, "warden.ready", BOX_STR("backend", ops->name));
    rc = rc < 0 ? rc : box_warden_run(w, err);
    box_warden_free(w);
    return rc;
}

static int serve(const options *o, const box_backend_ops *ops, box_warden_config *config)
{
    box_error err = {0};
    box_private_dir private = {.lock = -1};
    bool own_dir = o->boxd_fd >= 0 && o->config == NULL;
    if (own_dir) {
        if (box_private_open(NULL, &private, &err) < 0)
            return complain(&err);
        free(config->instance_dir);
        config->instance_dir = box_strdup(private.path);
    }
    int rc = box_process_forbid_core(&err) < 0 ? -1 : run(o, ops, config, &private.lock, &err);
    box_closep(&private.lock);
    if (own_dir)
        box_private_remove(&private);
    return rc < 0 ? complain(&err) : 0;
}

int main(int argc, char **argv)
{
    options o = {.backend = "namespace", .boxd_fd = -1};
    int rc = parse(argc, argv, &o);
    if (rc >= 0)
        return rc;
    const box_backend_ops *ops = box_backend_find(o.backend);
    if (ops == NULL)
        return misused("there is no such backend");
    box_error err = {0};
    box_warden_config config;
    if (box_warden_config_load(o.config, environ, &config, &err) < 0)
        return complain(&err);
    if (o.print)
        rc = box_warden_config_print(&config, stdout) < 0 ? 1 : 0;
    else if (o.check)
        rc = 0;
    else
        rc = -1;
    if (rc < 0 && keep_only(&o.boxd_fd, &err) < 0)
        rc = complain(&err);
    if (rc < 0) {
        /* A private one shares its client's terminal, and tells boxd what is wrong: it logs only
         * where another level than the default was asked for. */
        bool quiet = o.boxd_fd >= 0 && o.config == NULL && config.log_level == BOX_INFO;
        box_log_setup(quiet ? BOX_LOG_OFF : (box_log_level)config.log_level,
                      (box_log_format)config.log_format);
        rc = serve(&o, ops, &config);
    }
    box_warden_config_done(&config);
    return rc;
}
