/* From a request to the frames that begin it. */
#include "session/file_call.h"

/* A path of the request, from the root. */
static int absolute(const char *mount, box_bytes path, bool may_be_empty, char *out,
                    const char *field, box_error *err)
{
    size_t len = strlen(mount);
    if (path.len == 0 && !may_be_empty)
        return box_violation(err, field, "must not be empty");
    if (path.len > 0 && memchr(path.data, '\0', path.len) != NULL)
        return box_violation(err, field, "must not have a NUL");
    bool whole = path.len > 0 && path.data[0] == '/';
    size_t prefix = whole ? 0 : len + (path.len > 0 ? 1 : 0);
    if (prefix + path.len > BOX_FILES_MAX_PATH)
        return box_violation(err, field, "has more than %d bytes", BOX_FILES_MAX_PATH);
    if (!whole)
        memcpy(out, mount, len);
    if (!whole && path.len > 0)
        out[len] = '/';
    if (path.len > 0)
        memcpy(out + prefix, path.data, path.len);
    out[prefix + path.len] = '\0';
    return 0;
}

static uint64_t look_time(const box_files_ask_head *h)
{
    if (h->time_ns != 0 || h->op == BOX_FILES_PUT || h->op == BOX_FILES_GET)
        return h->time_ns;
    return BOX_FILES_LOOK_SECONDS * BOX_SECOND;
}

int box_file_put_end(box_file_call *c, box_error *err)
{
    c->content_ended = true;
    return box_files_put_frame(&c->out, BOX_FILES_END, NULL, 0, err);
}

int box_file_pack(box_file_call *c, const box_file_request *r, box_error *err)
{
    char path[BOX_FILES_MAX_PATH + 1];
    char target[BOX_FILES_MAX_PATH + 1] = "";
    const char *mount = c->session->spec.mount_path;
    box_files_ask ask = *r->ask;
    bool has_target = ask.target.len > 0 || ask.head.op == BOX_FILES_MOVE;
    bool move = ask.head.op == BOX_FILES_MOVE;
    int bad = absolute(mount, ask.path, r->empty_path, path, move ? "source_path" : "path", err);
    if (has_target)
        bad |= absolute(mount, ask.target, false, target, "target_path", err);
    if (bad != 0)
        return -1;
    ask.path = (box_bytes){.data = (const uint8_t *)path, .len = strlen(path)};
    c->path_len = ask.path.len;
    while (c->path_len > 0 && path[c->path_len - 1] == '/')
        c->path_len--;
    ask.target = (box_bytes){.data = (const uint8_t *)target, .len = strlen(target)};
    ask.head.time_ns = look_time(&ask.head);
    c->patience_ns = ask.head.time_ns + BOX_FILES_ANSWER_SECONDS * BOX_SECOND;
    if (box_files_put_ask(&c->ask, &ask, err) < 0)
        return -1;
    c->content_ended = ask.head.op != BOX_FILES_PUT;
    if (c->content_ended || r->content_open)
        return 0;
    if (r->content.len > 0 &&
        box_files_put_frame(&c->out, BOX_FILES_DATA, r->content.data, r->content.len, err) < 0)
        return -1;
    return box_file_put_end(c, err);
}
