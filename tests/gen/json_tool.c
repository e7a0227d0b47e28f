/* One message of box.golden from standard input to standard output, for json_peer.py:
 * `json_tool to-json TYPE` or `json_tool from-json TYPE`. */
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "box/golden/shapes.pb-c.h"
#include "json/json.h"

static const ProtobufCMessageDescriptor *find_type(const char *name)
{
    static const ProtobufCMessageDescriptor *const types[] = {
        &box__golden__outer__descriptor,     &box__golden__scalars__descriptor,
        &box__golden__optionals__descriptor, &box__golden__lists__descriptor,
        &box__golden__maps__descriptor,      &box__golden__choice__descriptor,
        &box__golden__times__descriptor,
    };
    for (size_t i = 0; i < BOX_COUNT(types); i++) {
        if (strcmp(types[i]->short_name, name) == 0)
            return types[i];
    }
    return NULL;
}

static void message_freep(ProtobufCMessage **m)
{
    protobuf_c_message_free_unpacked(*m, NULL);
}

static int to_json(const ProtobufCMessageDescriptor *type, const box_buf *in, box_buf *out,
                   box_error *err)
{
    BOX_AUTO(message_freep)
    ProtobufCMessage *m = protobuf_c_message_unpack(type, NULL, box_buf_len(in), box_buf_data(in));
    if (m == NULL)
        return box_fail(err, BOX_PROTOCOL, "not a %s", type->name);
    return box_json_from_message(m, 0, out, err);
}

static int from_json(const ProtobufCMessageDescriptor *type, const box_buf *in, box_buf *out,
                     box_error *err)
{
    BOX_AUTO(message_freep) ProtobufCMessage *m = NULL;
    uint8_t *room;
    if (box_json_to_message(type, (const char *)box_buf_data(in), box_buf_len(in), 0, &m, err) < 0)
        return -1;
    if (box_buf_reserve(out, protobuf_c_message_get_packed_size(m), &room, err) < 0)
        return -1;
    box_buf_commit(out, protobuf_c_message_pack(m, room));
    return 0;
}

static int convert(const char *how, const ProtobufCMessageDescriptor *type, box_error *err)
{
    BOX_AUTO(box_buf_done) box_buf in = {0};
    BOX_AUTO(box_buf_done) box_buf out = {0};
    bool to = strcmp(how, "to-json") == 0;
    if (box_buf_read_fd(&in, STDIN_FILENO, err) < 0)
        return -1;
    if ((to ? to_json(type, &in, &out, err) : from_json(type, &in, &out, err)) < 0)
        return -1;
    return box_fd_write_all(STDOUT_FILENO, box_buf_data(&out), box_buf_len(&out), err);
}

int main(int argc, char **argv)
{
    box_error err = {0};
    const ProtobufCMessageDescriptor *type = argc == 3 ? find_type(argv[2]) : NULL;
    if (type == NULL)
        return 2;
    if (convert(argv[1], type, &err) < 0) {
        (void)fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    return 0;
}
