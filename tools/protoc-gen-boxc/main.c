/* protoc-gen-boxc: Box's part of code generation, next to protoc-c.
 *
 *     protoc --plugin=protoc-gen-boxc --boxc_out=server:DIR x.proto   dispatch tables, has/set
 *     protoc --plugin=protoc-gen-boxc --boxc_out=client:DIR x.proto   client stubs
 *     protoc-gen-boxc --clear-optional FULL.pb CLEAN.pb               a set protoc-c accepts
 *     protoc-gen-boxc --embed FULL.pb OUT.c OUT.h SYMBOL              a set as C source */
#include <fcntl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "descriptor_set.h"
#include "plugin.h"

static int read_file(const char *path, box_buf *out, box_error *err)
{
    BOX_AUTO(box_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return box_fail_errno(err, "open %s", path);
    return box_buf_read_fd(out, fd, err);
}

static int write_file(const char *path, const box_buf *content, box_error *err)
{
    BOX_AUTO(box_closep) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return box_fail_errno(err, "create %s", path);
    return box_fd_write_all(fd, box_buf_data(content), box_buf_len(content), err);
}

static box_bytes bytes_of(const box_buf *b)
{
    return (box_bytes){box_buf_data(b), box_buf_len(b)};
}

static int run_plugin(box_error *err)
{
    BOX_AUTO(box_buf_done) box_buf in = {0};
    BOX_AUTO(box_buf_done) box_buf out = {0};
    if (box_buf_read_fd(&in, STDIN_FILENO, err) < 0 || plugin_run(bytes_of(&in), &out, err) < 0)
        return -1;
    return box_fd_write_all(STDOUT_FILENO, box_buf_data(&out), box_buf_len(&out), err);
}

static int clear_optional(const char *from, const char *to, box_error *err)
{
    BOX_AUTO(box_buf_done) box_buf in = {0};
    BOX_AUTO(box_buf_done) box_buf out = {0};
    if (read_file(from, &in, err) < 0 ||
        descriptor_set_clear_optional(bytes_of(&in), &out, err) < 0)
        return -1;
    return write_file(to, &out, err);
}

static int embed(char *const *args, box_error *err)
{
    BOX_AUTO(box_buf_done) box_buf in = {0};
    BOX_AUTO(box_buf_done) box_buf source = {0};
    BOX_AUTO(box_buf_done) box_buf header = {0};
    const char *symbol = args[3];
    if (read_file(args[0], &in, err) < 0 ||
        descriptor_set_embed(bytes_of(&in), symbol, &source, err) < 0 ||
        descriptor_set_embed_header(symbol, &header, err) < 0)
        return -1;
    if (write_file(args[1], &source, err) < 0)
        return -1;
    return write_file(args[2], &header, err);
}

static int usage(void)
{
    (void)fputs("usage: protoc-gen-boxc (run by protoc, parameter server or client)\n"
                "       protoc-gen-boxc --clear-optional FULL.pb CLEAN.pb\n"
                "       protoc-gen-boxc --embed FULL.pb OUT.c OUT.h SYMBOL\n",
                stderr);
    return 2;
}

int main(int argc, char **argv)
{
    box_error err = {0};
    int rc;
    if (argc == 1)
        rc = run_plugin(&err);
    else if (argc == 4 && strcmp(argv[1], "--clear-optional") == 0)
        rc = clear_optional(argv[2], argv[3], &err);
    else if (argc == 6 && strcmp(argv[1], "--embed") == 0)
        rc = embed(argv + 2, &err);
    else
        return usage();
    if (rc < 0)
        (void)fprintf(stderr, "protoc-gen-boxc: %s\n", err.msg);
    return rc < 0 ? 1 : 0;
}
