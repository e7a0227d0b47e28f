/* ControlService: GetGuidance, the text that tells a model how to use its sandbox
 * (box-behaviour.md, section 17). */
#include "base/buf.h"
#include "service/control_impl.h"
#include "session/profile.h"

enum { MAX_TEXT = 16 * 1024, MIB = 1024 * 1024 };

/* What the text says of a sandbox. */
typedef struct facts {
    const char *workspace;
    bool is_host_directory;
    bool read_only;
    bool network_on;
    bool read_only_root;
    double cores;
    int64_t memory_mib;
    int64_t workspace_mib; /* 0 = not limited by Box */
    int64_t pids;
    uint64_t timeout_ns;
    uint64_t max_timeout_ns;
} facts;

static double seconds(uint64_t ns)
{
    return (double)ns / (double)BOX_SECOND;
}

static int64_t mib_of_workspace(int64_t bytes)
{
    enum { DEFAULT_MIB = 64 };
    return bytes > 0 ? (bytes + MIB - 1) / MIB : DEFAULT_MIB;
}

static facts facts_of_spec(const box_spec *s)
{
    const box_profile *p = box_profile_find(s->profile);
    bool host = s->host_path[0] != '\0' && s->host_path_mode != BOX_HOST_PATH_NONE;
    return (facts){
        .workspace = s->mount_path,
        .is_host_directory = host,
        .read_only = host && s->host_path_mode == BOX_HOST_PATH_RO,
        .network_on = s->network_on,
        .read_only_root = s->read_only_rootfs,
        .cores = s->cpu_millis / 1000.0,
        .memory_mib = s->memory_bytes / MIB,
        .workspace_mib = host ? 0 : mib_of_workspace(s->workspace_limit_bytes),
        .pids = s->pids,
        .timeout_ns = s->command_timeout_ns,
        .max_timeout_ns = p != NULL ? p->max_timeout_ns : 0,
    };
}

static facts facts_of_settings(const box_control_settings *s)
{
    const box_profile *p = box_profile_find(s->default_profile);
    if (p == NULL)
        p = box_profile_at(0);
    return (facts){
        .workspace = "/workspace",
        .is_host_directory = s->default_workspace[0] != '\0',
        .read_only = s->default_workspace[0] != '\0' && p->host_path_mode == BOX_HOST_PATH_RO,
        .network_on = p->network_on,
        .read_only_root = p->read_only_rootfs,
        .cores = p->cpu_millis / 1000.0,
        .memory_mib =
            (s->default_memory_bytes > 0 ? s->default_memory_bytes : p->memory_bytes) / MIB,
        .workspace_mib = s->default_workspace[0] != '\0'
                             ? 0
                             : mib_of_workspace(s->default_workspace_limit_bytes),
        .pids = p->pids,
        .timeout_ns = p->timeout_ns,
        .max_timeout_ns = p->max_timeout_ns,
    };
}

static int write_files(box_buf *b, const facts *f, box_error *err)
{
    if (box_buf_printf(b, err, "Work on files below %s: what lies there ", f->workspace) < 0)
        return -1;
    const char *kept = f->read_only           ? "can be read but not changed"
                       : f->is_host_directory ? "stays when the sandbox goes, and the user sees it"
                                              : "stays until the sandbox goes";
    return box_buf_printf(b, err, "%s. %s\n", kept,
                          f->read_only_root ? "Besides it only /tmp and /home can be written."
                                            : "Other directories do not last.");
}

static int write_limits(box_buf *b, const facts *f, box_error *err)
{
    if (box_buf_printf(b, err, "%s A command ends after %.6g s unless it asks for another timeout",
                       f->network_on ? "Programs can reach the network."
                                     : "There is no network: nothing can be downloaded.",
                       seconds(f->timeout_ns)) < 0)
        return -1;
    if (f->max_timeout_ns > 0 &&
        box_buf_printf(b, err, ", at most %.6g s", seconds(f->max_timeout_ns)) < 0)
        return -1;
    if (box_buf_printf(b, err,
                       ". All together may use %lld MiB of memory, %.6g of a CPU and %lld "
                       "processes",
                       (long long)f->memory_mib, f->cores, (long long)f->pids) < 0)
        return -1;
    if (f->workspace_mib > 0 &&
        box_buf_printf(b, err, ", and %lld MiB of files", (long long)f->workspace_mib) < 0)
        return -1;
    return box_buf_printf(b, err, ".\n");
}

static int answer(box_call *call, const facts *f, box_error *err)
{
    BOX_AUTO(box_buf_done) box_buf b = {0};
    const char *text;
    box_buf_init(&b, MAX_TEXT);
    if (box_buf_printf(
            &b, err,
            "You have a sandbox in which programs run. Use it for exact calculation, for "
            "work on data, and wherever running a program settles a question; say what "
            "came out, and show the program only when you are asked for it.\n") < 0 ||
        write_files(&b, f, err) < 0 || write_limits(&b, f, err) < 0 ||
        box_buf_text(&b, &text, err) < 0)
        return -1;
    Box__V1__GetGuidanceResponse response;
    box__v1__get_guidance_response__init(&response);
    response.text = (char *)(uintptr_t)text; /* only packed */
    box_v1_control_service_get_guidance_answer(call, &response);
    return 0;
}

int box_control_get_guidance(box_call *call, const Box__V1__GetGuidanceRequest *r, box_error *err)
{
    box_control *c = box_call_context(call);
    const box_identity *who = box_call_identity(call);
    if (who == NULL)
        return box_fail(err, BOX_UNAUTHENTICATED, "this call needs a known caller");
    if (r->session_id[0] == '\0') {
        box_control_settings settings = box_control_settings_get(c);
        facts f = facts_of_settings(&settings);
        return answer(call, &f, err);
    }
    BOX_AUTO(box_session_info_done) box_session_info info = {0};
    if (c->config.facts.session(c->config.facts.arg, who->tenant, r->session_id, &info, err) < 0)
        return -1;
    facts f = facts_of_spec(&info.spec);
    return answer(call, &f, err);
}
