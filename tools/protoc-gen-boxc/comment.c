#include "comment.h"

static const char *find_comment(const Google__Protobuf__FileDescriptorProto *file,
                                const int32_t *path, size_t path_len)
{
    if (file->source_code_info == NULL)
        return NULL;
    for (size_t i = 0; i < file->source_code_info->n_location; i++) {
        const Google__Protobuf__SourceCodeInfo__Location *at = file->source_code_info->location[i];
        if (at->n_path == path_len && memcmp(at->path, path, path_len * sizeof(*path)) == 0)
            return at->leading_comments;
    }
    return NULL;
}

/* One line, with what would open or close a C comment taken apart. */
static void emit_line(emitter *e, const char *line, size_t len)
{
    while (len > 0 && (line[len - 1] == ' ' || line[len - 1] == '\r'))
        len--;
    for (size_t i = 0; i < len; i++) {
        emit_bytes(e, line + i, 1);
        bool opens = line[i] == '/' && i + 1 < len && line[i + 1] == '*';
        bool closes = line[i] == '*' && i + 1 < len && line[i + 1] == '/';
        if (opens || closes)
            emit_text(e, " ");
    }
}

void comment_emit(emitter *e, const Google__Protobuf__FileDescriptorProto *file,
                  const int32_t *path, size_t path_len, const char *indent)
{
    const char *text = find_comment(file, path, path_len);
    if (text == NULL || *text == '\0')
        return;
    emit_text(e, indent);
    emit_text(e, "/*");
    for (;;) {
        size_t len = strcspn(text, "\n");
        if (len > 0 && *text != ' ')
            emit_text(e, " ");
        emit_line(e, text, len);
        text += len;
        if (*text == '\0' || text[1] == '\0')
            break;
        text++;
        emit_text(e, "\n");
        emit_text(e, indent);
        emit_text(e, " *");
    }
    emit_text(e, " */\n");
}
