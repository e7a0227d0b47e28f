#include "names.h"

#include <ctype.h>

#include "base/alloc.h"

/* protoc-c's list, C and C++ together, in order. */
static const char *const field_keywords[] = {
    "and",
    "and_eq",
    "asm",
    "auto",
    "bitand",
    "bitor",
    "bool",
    "break",
    "case",
    "catch",
    "char",
    "class",
    "compl",
    "const",
    "const_cast",
    "continue",
    "default",
    "delete",
    "do",
    "double",
    "dynamic_cast",
    "else",
    "enum",
    "explicit",
    "extern",
    "false",
    "float",
    "for",
    "friend",
    "goto",
    "if",
    "inline",
    "int",
    "long",
    "mutable",
    "namespace",
    "new",
    "not",
    "not_eq",
    "operator",
    "or",
    "or_eq",
    "private",
    "protected",
    "public",
    "register",
    "reinterpret_cast",
    "return",
    "short",
    "signed",
    "sizeof",
    "static",
    "static_cast",
    "struct",
    "switch",
    "template",
    "this",
    "throw",
    "true",
    "try",
    "typedef",
    "typeid",
    "typename",
    "union",
    "unsigned",
    "using",
    "virtual",
    "void",
    "volatile",
    "wchar_t",
    "while",
    "xor",
    "xor_eq",
};

static bool is_keyword(const char *word)
{
    for (size_t i = 0; i < BOX_COUNT(field_keywords); i++) {
        if (strcmp(field_keywords[i], word) == 0)
            return true;
    }
    return false;
}

/* A piece (len bytes) in one of protoc-c's styles; returns the end of what was written. */
typedef char *piece_style(char *to, const char *piece, size_t len);

static char *snake_piece(char *to, const char *piece, size_t len)
{
    bool was_upper = true;
    for (size_t i = 0; i < len; i++) {
        bool upper = isupper((unsigned char)piece[i]) != 0;
        if (upper && !was_upper)
            *to++ = '_';
        *to++ = (char)tolower((unsigned char)piece[i]);
        was_upper = upper;
    }
    return to;
}

static char *snake_upper_piece(char *to, const char *piece, size_t len)
{
    char *end = snake_piece(to, piece, len);
    for (; to != end; to++)
        *to = (char)toupper((unsigned char)*to);
    return end;
}

static char *camel_piece(char *to, const char *piece, size_t len)
{
    bool next_is_upper = true;
    for (size_t i = 0; i < len; i++) {
        if (piece[i] == '_') {
            next_is_upper = true;
            continue;
        }
        *to++ = next_is_upper ? (char)toupper((unsigned char)piece[i]) : piece[i];
        next_is_upper = false;
    }
    return to;
}

/* Every piece between dots in a style, joined by `joint`. */
static char *join_pieces(const char *full_name, const char *joint, piece_style *style)
{
    char *result = box_alloc(3 * strlen(full_name) + 1);
    char *to = result;
    while (*full_name != '\0') {
        size_t len = strcspn(full_name, ".");
        if (len > 0 && to != result)
            to = stpcpy(to, joint);
        to = style(to, full_name, len);
        full_name += len;
        full_name += *full_name == '.';
    }
    return result;
}

char *names_type(const char *full_name)
{
    return join_pieces(full_name, "__", camel_piece);
}

char *names_lower(const char *full_name)
{
    return join_pieces(full_name, "__", snake_piece);
}

char *names_upper(const char *full_name)
{
    return join_pieces(full_name, "__", snake_upper_piece);
}

static char *one_piece(const char *name, piece_style *style)
{
    char *result = box_alloc(2 * strlen(name) + 1);
    (void)style(result, name, strlen(name));
    return result;
}

char *names_snake(const char *name)
{
    return one_piece(name, snake_piece);
}

char *names_snake_upper(const char *name)
{
    return one_piece(name, snake_upper_piece);
}

char *names_camel(const char *name)
{
    return one_piece(name, camel_piece);
}

char *names_field(const char *name)
{
    size_t len = strlen(name);
    char *result = box_alloc(len + 2);
    for (size_t i = 0; i < len; i++)
        result[i] = (char)tolower((unsigned char)name[i]);
    if (is_keyword(result))
        result[len] = '_';
    return result;
}

char *names_service(const char *package, const char *service)
{
    char *both = box_alloc(strlen(package) + strlen(service) + 2);
    char *end = stpcpy(both, package);
    *end++ = '.';
    (void)stpcpy(end, service);
    char *result = join_pieces(both, "_", snake_piece);
    free(both);
    return result;
}

char *names_json(const char *name)
{
    char *result = box_alloc(strlen(name) + 1);
    char *to = result;
    bool next_is_upper = false;
    for (; *name != '\0'; name++) {
        if (*name == '_') {
            next_is_upper = true;
            continue;
        }
        *to++ = next_is_upper ? (char)toupper((unsigned char)*name) : *name;
        next_is_upper = false;
    }
    return result;
}

char *names_file_stem(const char *proto_file)
{
    static const char suffix[] = ".proto";
    size_t len = strlen(proto_file);
    char *result = box_strdup(proto_file);
    if (len > sizeof(suffix) - 1 && strcmp(proto_file + len - (sizeof(suffix) - 1), suffix) == 0)
        result[len - (sizeof(suffix) - 1)] = '\0';
    return result;
}
