/* ListSessions. */
#include "base/alloc.h"
#include "base/limits.h"
#include "session/table.h"
#include "session/watch.h"

static bool is_after(const box_session *s, int64_t wall_ns, const char *id)
{
    if (id == NULL)
        return true;
    if (s->created_wall_ns != wall_ns)
        return s->created_wall_ns > wall_ns;
    return strcmp(s->id, id) > 0;
}

static bool passes(const box_session *s, const box_session_filter *f)
{
    return !s->one_off && (f->states == 0 || (f->states >> s->state & 1) != 0) &&
           (f->backend == NULL || f->backend[0] == '\0' ||
            strcmp(f->backend, box_warden_name(s->warden)) == 0) &&
           box_spec_labels_match(f->labels, f->n_labels, s->spec.labels, s->spec.n_labels);
}

static int by_age(const void *a, const void *b)
{
    const box_session *x = *(const box_session *const *)a;
    const box_session *y = *(const box_session *const *)b;
    if (x->created_wall_ns != y->created_wall_ns)
        return x->created_wall_ns < y->created_wall_ns ? -1 : 1;
    return strcmp(x->id, y->id);
}

/* All that match, as references. */
static box_session **collect(box_tenancy *t, const box_session_filter *f, int64_t after_wall_ns,
                             const char *after_id, size_t *n)
{
    size_t room = t->live + t->n_ended;
    box_session **found = box_alloc_array(room > 0 ? room : 1, sizeof(box_session *));
    *n = 0;
    for (box_list *at = t->sessions.next; at != &t->sessions && *n < room; at = at->next) {
        box_session *s = BOX_CONTAINER(at, box_session, of_tenant);
        if (passes(s, f) && is_after(s, after_wall_ns, after_id))
            found[(*n)++] = box_session_ref(s);
    }
    return found;
}

/* About what one takes in the answer: a few hundred bytes and the caller's own texts. */
static size_t size_of(const box_session_info *info)
{
    size_t bytes = 512 + strlen(info->id) + strlen(info->spec.workdir) +
                   strlen(info->spec.mount_path) + strlen(info->spec.host_path);
    for (size_t i = 0; i < info->spec.n_env; i++)
        bytes += strlen(info->spec.env[i].key);
    for (size_t i = 0; i < info->spec.n_labels; i++)
        bytes += strlen(info->spec.labels[i].key) + strlen(info->spec.labels[i].value);
    return bytes;
}

void box_session_list(box_sessions *all, const char *tenant, const box_session_filter *filter,
                      int64_t after_created_wall_ns, const char *after_id, size_t limit,
                      box_session_info **out, size_t *n, bool *more)
{
    size_t found_n = 0;
    box_lock_take(&all->lock);
    box_tenancy *t = box_map_get(all->tenants, tenant);
    box_session **found =
        t != NULL ? collect(t, filter, after_created_wall_ns, after_id, &found_n) : NULL;
    box_lock_release(&all->lock);
    if (found_n > 1)
        qsort(found, found_n, sizeof(box_session *), by_age); /* by what is fixed at birth */
    size_t room = found_n < limit ? found_n : limit;
    size_t bytes = 0;
    *n = 0;
    *out = box_alloc_array(room > 0 ? room : 1, sizeof(box_session_info));
    for (size_t i = 0; i < found_n; i++) {
        if (i < room && bytes < BOX_LIST_PAGE_BYTES) {
            box_session_snapshot(found[i], &(*out)[i]);
            bytes += size_of(&(*out)[i]);
            (*n)++;
        }
        box_session_unref(found[i]);
    }
    *more = found_n > *n;
    free(found);
}

void box_session_list_free(box_session_info *infos, size_t n)
{
    for (size_t i = 0; i < n; i++)
        box_session_info_done(&infos[i]);
    free(infos);
}

void box_session_each(box_sessions *all, const char *tenant,
                      void (*visit)(void *arg, const box_session_info *info), void *arg)
{
    const box_session_filter any = {0};
    int64_t created_ns = 0;
    char after[BOX_MAX_ID_BYTES + 1] = "";
    bool more = true;
    while (more) {
        box_session_info *page = NULL;
        size_t n = 0;
        box_session_list(all, tenant, &any, created_ns, after[0] != '\0' ? after : NULL,
                         BOX_MAX_PAGE, &page, &n, &more);
        for (size_t i = 0; i < n; i++)
            visit(arg, &page[i]);
        if (more) {
            created_ns = page[n - 1].created_wall_ns;
            memcpy(after, page[n - 1].id, strlen(page[n - 1].id) + 1);
        }
        box_session_list_free(page, n);
    }
}
