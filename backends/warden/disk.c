/* Images of workspaces: who may have one, who gets which, and that some are ready. */
#include <sys/statfs.h>
#include <sys/statvfs.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "warden/internal.h"
#include "warden/request.h"

void box_warden_disk_open(box_warden *w)
{
    if ((w->guarantees & BOX_G_DISK_WORKSPACE) == 0)
        return;
    w->images = box_image_pool_new(&w->config->disk);
    w->fill_at = box_now();
}

/* --- room ------------------------------------------------------------------------------------- */

/* Without the descriptor of its image, one may have used nothing. */
static void look_at_use(warden_sandbox *s)
{
    const box_sandbox_record *r = &s->record;
    struct statfs fs;
    s->image_used = 0;
    if (s->held.image < 0 || r->workspace_free_bytes == 0 || fstatfs(s->held.image, &fs) < 0)
        return;
    int64_t used = r->workspace_free_bytes - (int64_t)fs.f_bavail * fs.f_bsize;
    s->image_used = used > 0 ? used : 0;
}

/* A full disk is asked for room often, by many, and each look is a system call for each sandbox.
 * What they wrote since the last one is promised to them twice meanwhile, never to others. */
static bool is_use_old(box_warden *w)
{
    box_time now = box_now();
    if (now < w->used_at + BOX_DISK_LOOK_MS * BOX_MS)
        return false;
    w->used_at = now;
    return true;
}

/* What sandboxes may still write: all that they may grow to, less what they have used. */
static int64_t promised(box_warden *w, bool less_used)
{
    int64_t sum = 0;
    size_t at = 0;
    void *value;
    bool look = less_used && is_use_old(w);
    while (box_map_next(w->sandboxes, &at, &value)) {
        warden_sandbox *s = value;
        if (look)
            look_at_use(s);
        sum += s->record.disk_bytes - (less_used ? s->image_used : 0);
    }
    return sum;
}

static int no_room(const char *limit, int64_t max, int64_t used, box_error *err)
{
    (void)box_fail(err, BOX_QUOTA, "no room for another workspace on disk");
    err->retry_ms = BOX_DISK_FULL_RETRY_MS;
    return box_error_limit(err, limit, max, used);
}

int box_warden_disk_admit(box_warden *w, const box_warden_create *request, int64_t *disk_bytes,
                          box_error *err)
{
    const box_disk_config *disk = &w->config->disk;
    struct statvfs fs;
    *disk_bytes = 0;
    if (w->images == NULL || !box_warden_create_on_disk(request, w->guarantees))
        return 0;
    int64_t size = box_image_pool_size(w->images, request->workspace_bytes);
    int64_t bytes = request->workspace_bytes + w->ops->image_file_bytes(size) - size;
    int64_t sum = promised(w, false) + bytes;
    if (disk->total_bytes > 0 && sum > disk->total_bytes)
        return no_room("disk.total", disk->total_bytes, sum, err);
    if (statvfs(disk->directory, &fs) < 0)
        return box_fail_errno(err, "look at disk.directory");
    int64_t room = (int64_t)fs.f_bavail * (int64_t)fs.f_frsize - disk->keep_free_bytes;
    if (sum > room)
        sum = promised(w, true) + bytes;
    if (sum > room)
        return no_room("disk.keep_free", room > 0 ? room : 0, sum, err);
    *disk_bytes = bytes;
    return 0;
}

/* --- images ----------------------------------------------------------------------------------- */

/* Behind the answer that the taker waits for. */
static void fill_soon(box_warden *w)
{
    if (w->fill_at == 0)
        w->fill_at = box_time_add(box_now(), BOX_DISK_FILL_MS * BOX_MS);
}

void box_warden_disk_claim(box_warden *w, warden_sandbox *s, int64_t workspace_bytes, uint64_t conn)
{
    int64_t size = box_image_pool_size(w->images, workspace_bytes);
    s->held.image = box_image_pool_take(w->images, size);
    fill_soon(w);
    if (s->held.image >= 0)
        return;
    warden_job *job = box_warden_job_new(JOB_IMAGE, s, conn, 0);
    job->image_bytes = size;
    box_warden_job_queue(w, job);
}

void box_warden_disk_fill(box_warden *w)
{
    if (w->fill_at == 0 || w->filling || w->stopping || w->removing || box_now() < w->fill_at)
        return;
    int64_t size = box_image_pool_missing(w->images);
    w->fill_at = 0;
    if (size == 0)
        return;
    warden_job *job = box_warden_job_new(JOB_FILL, NULL, 0, 0);
    job->image_bytes = size;
    w->filling = true;
    box_warden_job_queue(w, job);
}

void box_warden_disk_filled(box_warden *w, const warden_job *job, const box_error *error,
                            int *image)
{
    w->filling = false;
    w->fill_at = box_now(); /* the next, if there is one missing */
    if (error->reason == BOX_NONE && *image >= 0) {
        (void)box_image_pool_give(w->images, job->image_bytes, image); /* else it goes */
        return;
    }
    box_log(BOX_WARN, "disk.fill_failed", BOX_INT("bytes", job->image_bytes), BOX_ERR(error));
    w->fill_at = box_time_add(w->fill_at, BOX_WARDEN_RETRY_SECONDS * BOX_SECOND);
}
