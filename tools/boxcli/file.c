/* boxcli file read|write|edit|mkdir|rm|mv, and the table of all its verbs. */
#include <errno.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/limits.h"
#include "box/v1/file.client.h"
#include "file_args.h"
#include "file_find.h"

/* stdout, as it is. */
static int put_bytes(cli *c, const void *data, size_t len)
{
    if (fwrite(data, 1, len, stdout) == len)
        return CLI_OK;
    c->output_errno = errno;
    return CLI_FAILED;
}

/* --- read, write, edit ------------------------------------------------------------------------ */

static int show_read(cli *c, Box__V1__ReadFileResponse *r)
{
    int rc;
    if (r->data.len > 0)
        rc = put_bytes(c, r->data.data, r->data.len);
    else
        rc = put_bytes(c, r->text, strlen(r->text));
    if (rc == CLI_OK && r->data.len == 0 && r->text[0] != '\0')
        rc = put_bytes(c, "\n", 1);
    if (r->past_end)
        fprintf(stderr, "boxcli: that is behind the end: the file has %lld lines\n",
                (long long)r->total_lines);
    cli_file_note_cut(c, r->truncated,
                      "there is more: --line, --lines, or boxcli cp for the whole file");
    return rc;
}

static const struct argp_option read_options[] = {
    {.name = "line", .key = CLI_FILE_LINE, .arg = "N", .doc = "begin with this line, from 1"},
    {.name = "lines", .key = CLI_FILE_LINES, .arg = "N", .doc = "at most so many"},
    {.name = "bytes", .key = CLI_FILE_BYTES, .doc = "exact bytes, not text"},
    {0},
};

static int read_file(cli *c, int argc, char **argv)
{
    box_error err;
    cli_file_args a;
    cli_file_take(&a, read_options, "SESSION PATH", 2, 2,
                  "Shows a file, or the names in a directory.", argc, argv);
    Box__V1__ReadFileRequest request;
    box__v1__read_file_request__init(&request);
    BOX_AUTO(cli_message_freep) Box__V1__ReadFileResponse *r = NULL;
    request.session_id = cli_file_word(&a, 0);
    request.path = cli_file_word(&a, 1);
    request.start_line = a.line;
    request.max_lines = a.lines > 0 ? (int32_t)a.lines : BOX_FILES_MAX_LINES;
    request.max_bytes = BOX_FILES_MAX_READ_BYTES - 64 * 1024;
    if (a.bytes)
        request.mode = BOX__V1__READ_MODE__READ_MODE_BYTES;
    if (cli_connect(c) < 0)
        return CLI_FAILED;
    box_client_options o = cli_options(c);
    if (box_v1_file_service_read_file(c->channel, &o, &request, &r, &err) < 0)
        return cli_fail(c, &err);
    return c->json ? cli_print_json(c, &r->base) : show_read(c, r);
}

static const struct argp_option write_options[] = {
    {.name = "append", .key = CLI_FILE_APPEND, .doc = "behind what is there"},
    {.name = "new", .key = CLI_FILE_NEW, .doc = "fail when the file exists"},
    {.name = "mode", .key = CLI_FILE_MODE, .arg = "OCTAL", .doc = "permissions"},
    {0},
};

static int write_file(cli *c, int argc, char **argv)
{
    box_error err;
    cli_file_args a;
    cli_file_take(&a, write_options, "SESSION PATH", 2, 2,
                  "Writes stdin to a file, in one step. At most 15 MiB: boxcli cp takes any size.",
                  argc, argv);
    BOX_AUTO(box_buf_done) box_buf data = {.max_bytes = 15 * 1024 * 1024};
    Box__V1__WriteFileRequest request;
    box__v1__write_file_request__init(&request);
    BOX_AUTO(cli_message_freep) Box__V1__WriteFileResponse *r = NULL;
    if (box_buf_read_fd(&data, STDIN_FILENO, &err) < 0)
        return cli_fail(c, &err);
    request.session_id = cli_file_word(&a, 0);
    request.path = cli_file_word(&a, 1);
    request.data = (ProtobufCBinaryData){.data = (uint8_t *)(uintptr_t)box_buf_data(&data),
                                         .len = box_buf_len(&data)};
    request.mode = a.append ? BOX__V1__WRITE_MODE__WRITE_MODE_APPEND
                   : a.new  ? BOX__V1__WRITE_MODE__WRITE_MODE_CREATE_NEW
                            : BOX__V1__WRITE_MODE__WRITE_MODE_OVERWRITE;
    if (a.mode >= 0)
        box__v1__write_file_request__set_permissions(&request, (int32_t)a.mode);
    if (cli_connect(c) < 0)
        return CLI_FAILED;
    box_client_options o = cli_options(c);
    if (box_v1_file_service_write_file(c->channel, &o, &request, &r, &err) < 0)
        return cli_fail(c, &err);
    return c->json ? cli_print_json(c, &r->base) : CLI_OK;
}

static ProtobufCBinaryData as_bytes(char *text)
{
    return (ProtobufCBinaryData){.data = (uint8_t *)text, .len = strlen(text)};
}

static const struct argp_option edit_options[] = {
    {.name = "all", .key = CLI_FILE_ALL, .doc = "every occurrence, not exactly one"},
    {0},
};

static int edit_file(cli *c, int argc, char **argv)
{
    box_error err;
    cli_file_args a;
    cli_file_take(&a, edit_options, "SESSION PATH OLD NEW", 4, 4,
                  "Replaces a piece of a file and shows what changed.", argc, argv);
    Box__V1__EditFileRequest request;
    Box__V1__FileEdit edit;
    box__v1__edit_file_request__init(&request);
    box__v1__file_edit__init(&edit);
    BOX_AUTO(cli_message_freep) Box__V1__EditFileResponse *r = NULL;
    edit.old_data = as_bytes(cli_file_word(&a, 2));
    edit.new_data = as_bytes(cli_file_word(&a, 3));
    edit.replace_all = a.all;
    request.session_id = cli_file_word(&a, 0);
    request.path = cli_file_word(&a, 1);
    request.edits = &(Box__V1__FileEdit *){&edit};
    request.n_edits = 1;
    if (cli_connect(c) < 0)
        return CLI_FAILED;
    box_client_options o = cli_options(c);
    if (box_v1_file_service_edit_file(c->channel, &o, &request, &r, &err) < 0)
        return cli_fail(c, &err);
    return c->json ? cli_print_json(c, &r->base) : put_bytes(c, r->diff.data, r->diff.len);
}

/* --- mkdir, rm, mv ---------------------------------------------------------------------------- */

/* The end of a call that changes something: only --json shows the answer, a message. */
static int changed(const cli *c, int rc, const box_error *err, const void *answer)
{
    if (rc < 0)
        return cli_fail(c, err);
    return c->json ? cli_print_json(c, answer) : CLI_OK;
}

static const struct argp_option mkdir_options[] = {
    {.name = "parents", .key = 'p', .doc = "missing parents too; one that exists is fine"},
    {.name = "mode", .key = CLI_FILE_MODE, .arg = "OCTAL", .doc = "permissions"},
    {0},
};

static int make_directory(cli *c, int argc, char **argv)
{
    box_error err;
    cli_file_args a;
    cli_file_take(&a, mkdir_options, "SESSION PATH", 2, 2, "Makes a directory.", argc, argv);
    Box__V1__MakeDirectoryRequest request;
    box__v1__make_directory_request__init(&request);
    BOX_AUTO(cli_message_freep) Box__V1__MakeDirectoryResponse *r = NULL;
    request.session_id = cli_file_word(&a, 0);
    request.path = cli_file_word(&a, 1);
    request.parents = a.parents;
    if (a.mode >= 0)
        box__v1__make_directory_request__set_permissions(&request, (int32_t)a.mode);
    if (cli_connect(c) < 0)
        return CLI_FAILED;
    box_client_options o = cli_options(c);
    int rc = box_v1_file_service_make_directory(c->channel, &o, &request, &r, &err);
    return changed(c, rc, &err, r);
}

static const struct argp_option rm_options[] = {
    {.name = "recursive", .key = 'r', .doc = "a directory with all that is in it"},
    {.name = "force", .key = 'f', .doc = "a file that does not exist is fine"},
    {0},
};

static int remove_file(cli *c, int argc, char **argv)
{
    box_error err;
    cli_file_args a;
    cli_file_take(&a, rm_options, "SESSION PATH", 2, 2, "Removes a file, a link or a directory.",
                  argc, argv);
    Box__V1__RemoveFileRequest request;
    box__v1__remove_file_request__init(&request);
    BOX_AUTO(cli_message_freep) Box__V1__RemoveFileResponse *r = NULL;
    request.session_id = cli_file_word(&a, 0);
    request.path = cli_file_word(&a, 1);
    request.recursive = a.recursive;
    request.allow_missing = a.force;
    if (cli_connect(c) < 0)
        return CLI_FAILED;
    box_client_options o = cli_options(c);
    int rc = box_v1_file_service_remove_file(c->channel, &o, &request, &r, &err);
    return changed(c, rc, &err, r);
}

static const struct argp_option mv_options[] = {
    {.name = "force", .key = 'f', .doc = "replace a file that exists"},
    {.name = "parents", .key = 'p', .doc = "make missing directories"},
    {0},
};

static int move_file(cli *c, int argc, char **argv)
{
    box_error err;
    cli_file_args a;
    cli_file_take(&a, mv_options, "SESSION SOURCE TARGET", 3, 3, "Renames a file or a directory.",
                  argc, argv);
    Box__V1__MoveFileRequest request;
    box__v1__move_file_request__init(&request);
    BOX_AUTO(cli_message_freep) Box__V1__MoveFileResponse *r = NULL;
    request.session_id = cli_file_word(&a, 0);
    request.source_path = cli_file_word(&a, 1);
    request.target_path = cli_file_word(&a, 2);
    request.overwrite = a.force;
    request.make_parents = a.parents;
    if (cli_connect(c) < 0)
        return CLI_FAILED;
    box_client_options o = cli_options(c);
    int rc = box_v1_file_service_move_file(c->channel, &o, &request, &r, &err);
    return changed(c, rc, &err, r);
}

const cli_command cli_file_commands[] = {
    {"file", "read", "show a file of a session, or the names in a directory", read_file},
    {"file", "write", "write stdin to a file", write_file},
    {"file", "edit", "replace a piece of a file, show the difference", edit_file},
    {"file", "glob", "paths that match a pattern, newest first", cli_file_glob},
    {"file", "grep", "lines that match a regular expression", cli_file_grep},
    {"file", "stat", "what a file is", cli_file_stat},
    {"file", "ls", "list a directory", cli_file_list},
    {"file", "mkdir", "make a directory", make_directory},
    {"file", "rm", "remove a file, a link or a directory", remove_file},
    {"file", "mv", "rename a file or a directory", move_file},
    {0},
};
