/* Which warden makes a sandbox, and what it must be able to give. */
#include "session/table.h"

static box_warden *find(const box_sessions *all, const char *name)
{
    for (size_t i = 0; i < all->n_wardens; i++) {
        if (strcmp(box_warden_name(all->wardens[i]), name) == 0)
            return all->wardens[i];
    }
    return NULL;
}

static bool is_available(box_warden *w)
{
    box_backend_report report;
    box_warden_report(w, &report);
    return report.available;
}

/* The first of the order that answers; when none does, the first that is configured (its error then
 * says what to do). */
static box_warden *first_of(const box_sessions *all, const char *const *order, size_t n)
{
    box_warden *configured = NULL;
    for (size_t i = 0; i < n; i++) {
        box_warden *w = find(all, order[i]);
        if (w == NULL)
            continue;
        if (is_available(w))
            return w;
        if (configured == NULL)
            configured = w;
    }
    return configured;
}

static box_warden *choose(const box_sessions *all, const char *name)
{
    /* Design section 11. `host` isolates nothing and is never chosen by probing. */
    static const char *const auto_order[] = {"namespace", "docker", "podman",
                                             "oci",       "nsjail", "e2b"};
    static const char *const local_order[] = {"docker", "podman", "nsjail", "namespace"};
    if (strcmp(name, "auto") == 0)
        return first_of(all, auto_order, BOX_COUNT(auto_order));
    if (strcmp(name, "local") == 0)
        return first_of(all, local_order, BOX_COUNT(local_order));
    return find(all, name);
}

int box_backends_choose(box_sessions *all, const char *name, box_warden **out, box_error *err)
{
    box_warden *w = choose(all, name);
    if (w == NULL) {
        (void)box_fail(err, BOX_BACKEND_UNAVAILABLE,
                       "backend %s: no warden is configured for it; name its socket under `warden` "
                       "in boxd's configuration",
                       name);
        box_error_add(err, "backend", name);
        return -1;
    }
    *out = w;
    return 0;
}

/* --- guarantees ------------------------------------------------------------------------------- */

typedef struct need {
    uint32_t field; /* of the spec */
    uint32_t bit;   /* box_guarantee */
    bool needed;    /* with the value the spec has */
} need;

enum { N_NEEDS = 12 };

static bool private_workspace(const box_spec *s)
{
    return s->host_path == NULL || s->host_path[0] == '\0';
}

static bool large_workspace(const box_spec *s)
{
    return private_workspace(s) && s->workspace_limit_bytes > BOX_WARDEN_TMPFS_WORKSPACE_BYTES;
}

static void needs_of(const box_spec *s, need out[N_NEEDS])
{
    const need all[N_NEEDS] = {
        {BOX_SPEC_NETWORK, BOX_G_NETWORK_ON, s->network_on},
        {BOX_SPEC_NETWORK, BOX_G_NETWORK_OFF, !s->network_on},
        {BOX_SPEC_IMAGE, BOX_G_IMAGES, s->image != NULL && s->image[0] != '\0'},
        {BOX_SPEC_HOST_PATH, BOX_G_HOST_MOUNT, s->host_path != NULL && s->host_path[0] != '\0'},
        {BOX_SPEC_PERSISTENT, BOX_G_PERSISTENT, s->persistent},
        {BOX_SPEC_CPU, BOX_G_CPU, true},
        {BOX_SPEC_MEMORY, BOX_G_MEMORY, true},
        {BOX_SPEC_PIDS, BOX_G_PIDS, true},
        {BOX_SPEC_READ_ONLY_ROOTFS,
         s->read_only_rootfs ? BOX_G_READ_ONLY_ROOT : BOX_G_WRITABLE_ROOT, true},
        {BOX_SPEC_WORKSPACE_LIMIT, BOX_G_WORKSPACE_LIMIT, s->workspace_limit_bytes > 0},
        /* Where there are none on disk a persistent one's is in memory, and that is reported; a
         * large one has no other place, see box_backends_check. */
        {0, BOX_G_DISK_WORKSPACE, private_workspace(s) && s->persistent},
        {0, BOX_G_DISK_WORKSPACE, large_workspace(s)},
    };
    memcpy(out, all, sizeof all);
}

/* What a sandbox would do wrong without, rather than less well: never best effort. */
enum { FUNCTIONS = BOX_G_NETWORK_ON | BOX_G_IMAGES | BOX_G_HOST_MOUNT | BOX_G_PERSISTENT };

static int unsupported(box_warden *w, uint32_t missing, box_error *err)
{
    char names[400] = "";
    size_t len = 0;
    for (uint32_t bit = 1; bit != 0 && bit <= missing; bit <<= 1) {
        const char *name = (missing & bit) != 0 ? box_guarantee_name(bit) : NULL;
        if (name != NULL && len < sizeof names)
            len +=
                (size_t)snprintf(names + len, sizeof names - len, "%s%s", len > 0 ? "," : "", name);
    }
    (void)box_fail(err, BOX_GUARANTEE_UNSUPPORTED, "backend %s cannot give: %s", box_warden_name(w),
                   names);
    box_error_add(err, "guarantees", names);
    box_error_add(err, "backend", box_warden_name(w));
    return -1;
}

int box_backends_check(box_warden *w, const box_spec *asked, const box_spec *whole, uint32_t of_all,
                       uint32_t *required, uint32_t *best_effort, box_error *err)
{
    need needs[N_NEEDS];
    needs_of(whole, needs);
    uint32_t wanted = 0;
    *required = of_all | asked->guarantees | (large_workspace(whole) ? BOX_G_DISK_WORKSPACE : 0);
    for (size_t i = 0; i < N_NEEDS; i++) {
        if (!needs[i].needed)
            continue;
        wanted |= needs[i].bit;
        if ((asked->set & needs[i].field) || (needs[i].bit & FUNCTIONS))
            *required |= needs[i].bit;
    }
    box_backend_report report;
    box_warden_report(w, &report);
    *best_effort = 0;
    if (!report.available)
        return 0; /* not asked yet: create insists on what is required */
    *best_effort = wanted & ~*required & ~report.guarantees;
    uint32_t missing = *required & ~report.guarantees;
    return missing != 0 ? unsupported(w, missing, err) : 0;
}

int box_backends_check_live(box_session *s, box_error *err)
{
    box_backend_report report;
    box_warden_report(s->warden, &report);
    if (report.available && (report.guarantees & BOX_G_LIVE_LIMITS) == 0)
        return unsupported(s->warden, BOX_G_LIVE_LIMITS, err);
    return 0;
}

/* --- reports ---------------------------------------------------------------------------------- */

size_t box_backends_count(const box_sessions *all)
{
    return all->n_wardens;
}

void box_backends_report(box_sessions *all, size_t i, box_backend_report *out)
{
    box_warden_report(all->wardens[i], out);
    const box_session_defaults standard = box_sessions_defaults(all);
    out->selected = choose(all, standard.backend) == all->wardens[i];
}

bool box_backends_find(box_sessions *all, const char *name, box_backend_report *out)
{
    box_warden *w = choose(all, name);
    if (w == NULL)
        return false;
    box_warden_report(w, out);
    const box_session_defaults standard = box_sessions_defaults(all);
    out->selected = choose(all, standard.backend) == w;
    return true;
}
