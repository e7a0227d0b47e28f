#include "base/config.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/config_impl.h"
#include "base/fd.h"
#include "base/limits.h"

const box_config_key *box_config_find(const box_config_key *keys, size_t n_keys, const char *path)
{
    for (size_t i = 0; i < n_keys; i++) {
        if (strcmp(keys[i].name, path) == 0)
            return &keys[i];
    }
    return NULL;
}

int box_config_not_built(const box_config_key *key, box_error *err)
{
    return box_fail(err, BOX_VALIDATION, "%s: is not built yet: %s", key->name, key->help);
}

/* "SERVER__REQUIRE_INIT" -> "server.require_init"; false when it does not fit. */
static bool env_path(const char *variable, size_t len, char *out, size_t size)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        if (n + 1 >= size)
            return false;
        char c = variable[i];
        if (c == '_' && i + 1 < len && variable[i + 1] == '_') {
            c = '.';
            i++;
        } else if (c >= 'A' && c <= 'Z') {
            c = (char)(c - 'A' + 'a');
        }
        out[n++] = c;
    }
    out[n] = '\0';
    return true;
}

static int set_env_list(const box_config_key *key, const char *text, void *base, box_error *err)
{
    box_config_free_value(key, base);
    if (text[0] == '\0')
        return 0;
    for (const char *at = text;; at++) {
        size_t len = strcspn(at, ",");
        if (len == 0)
            return box_fail(err, BOX_VALIDATION, "%s: an entry of the list is empty", key->name);
        BOX_AUTO(box_freep) char *item = box_alloc(len + 1);
        memcpy(item, at, len);
        if (box_config_add_string(key, key->name, item, base, err) < 0)
            return -1;
        at += len;
        if (*at == '\0')
            return 0;
    }
}

/* A MAP or NOT_BUILT key that `path` lies below; *rest is what follows its dot. */
static const box_config_key *find_parent(const box_config_schema *schema, const char *path,
                                         const char **rest)
{
    for (const box_config_key *k = schema->keys; k < schema->keys + schema->n_keys; k++) {
        size_t len = strlen(k->name);
        bool parent = k->type == BOX_CONFIG_MAP || k->type == BOX_CONFIG_NOT_BUILT;
        if (parent && strncmp(path, k->name, len) == 0 && path[len] == '.' &&
            path[len + 1] != '\0') {
            *rest = path + len + 1;
            return k;
        }
    }
    return NULL;
}

static int set_env(const box_config_schema *schema, const char *path, const char *text, void *base,
                   box_error *err)
{
    const char *rest = NULL;
    const box_config_key *key = box_config_find(schema->keys, schema->n_keys, path);
    if (key == NULL)
        key = find_parent(schema, path, &rest);
    if (key == NULL)
        return box_fail(err, BOX_VALIDATION, "%s is not a key", path);
    if (key->type == BOX_CONFIG_NOT_BUILT)
        return box_config_not_built(key, err);
    if (rest != NULL)
        return box_config_put_pair(key, key->name, rest, text, base, err);
    if (key->type == BOX_CONFIG_STRINGS)
        return set_env_list(key, text, base, err);
    if (key->type == BOX_CONFIG_RECORDS || key->type == BOX_CONFIG_MAP)
        return box_fail(err, BOX_VALIDATION, "%s: can only be set in the file", key->name);
    return box_config_set_scalar(key, key->name, text, false, base, err);
}

static bool is_foreign(const box_config_schema *schema, const char *path)
{
    size_t len = strcspn(path, ".");
    for (const char *const *f = schema->foreign; f != NULL && *f != NULL; f++) {
        if (strlen(*f) == len && memcmp(*f, path, len) == 0)
            return true;
    }
    return false;
}

/* Applies the environment. */
static int read_env(const box_config_schema *schema, char *const *env, void *base,
                    box_config_origin *origin, box_error *err)
{
    char prefix[32];
    char path[160];
    if (env == NULL || schema->env_prefix == NULL)
        return 0;
    size_t len = (size_t)snprintf(prefix, sizeof prefix, "%s__", schema->env_prefix);
    for (; *env != NULL; env++) {
        const char *equals = strchr(*env, '=');
        if (equals == NULL || strncmp(*env, prefix, len) != 0)
            continue;
        int name_len = (int)(equals - *env);
        if (!env_path(*env + len, (size_t)name_len - len, path, sizeof path))
            return box_fail(err, BOX_VALIDATION, "environment variable %.80s...: is not a key",
                            *env);
        if (is_foreign(schema, path))
            continue;
        if (set_env(schema, path, equals + 1, base, err) < 0)
            return box_wrap(err, "environment variable %.*s", name_len, *env);
        box_config_origin_add_variable(origin, path, *env, (size_t)name_len);
    }
    return 0;
}

/* yaml NULL = none. */
static int fill(const box_config_schema *schema, const char *name, const char *yaml, size_t len,
                char *const *env, void *out, box_error *err)
{
    BOX_AUTO(box_freep) void *conf = box_alloc(schema->size);
    BOX_AUTO(box_config_origin_done) box_config_origin origin = {.file = name};
    box_config_set_defaults(schema->keys, schema->n_keys, conf);
    if ((yaml != NULL && box_config_read_yaml(schema, yaml, len, conf, &origin, err) < 0) ||
        read_env(schema, env, conf, &origin, err) < 0 ||
        (schema->check != NULL && schema->check(conf, &origin, schema->check_arg, err) < 0)) {
        box_config_free_values(schema->keys, schema->n_keys, conf);
        return -1;
    }
    memcpy(out, conf, schema->size);
    return 0;
}

int box_config_parse(const box_config_schema *schema, const char *name, const char *yaml,
                     size_t len, char *const *env, void *out, box_error *err)
{
    if (len > BOX_CONFIG_MAX_BYTES)
        return box_fail(err, BOX_VALIDATION, "%s: larger than %d bytes", name,
                        BOX_CONFIG_MAX_BYTES);
    return fill(schema, name, yaml, len, env, out, err);
}

/* Whoever may write the file decides what its reader does. */
static int check_trusted(int fd, const char *file, box_error *err)
{
    struct stat s;
    if (fstat(fd, &s) < 0)
        return box_fail_errno(err, "%s", file);
    if (s.st_uid != 0 && s.st_uid != geteuid())
        return box_fail(err, BOX_VALIDATION, "%s: belongs to user %u: make it root's (chown root)",
                        file, (unsigned)s.st_uid);
    if ((s.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return box_fail(err, BOX_VALIDATION,
                        "%s: its group or others may write it: forbid that (chmod go-w)", file);
    return 0;
}

int box_config_load(const box_config_schema *schema, const char *file, char *const *env, void *out,
                    box_error *err)
{
    if (file == NULL)
        return fill(schema, NULL, NULL, 0, env, out, err);
    BOX_AUTO(box_closep) int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        (void)box_fail_errno(err, "%s", file);
        err->reason = BOX_VALIDATION; /* of our own start, whatever the cause */
        return -1;
    }
    if (schema->trusted_file && check_trusted(fd, file, err) < 0)
        return -1;
    /* More room than a file may have, so that box_config_parse tells the rest. */
    BOX_AUTO(box_buf_done) box_buf text = {.max_bytes = 2 * BOX_CONFIG_MAX_BYTES};
    if (box_buf_read_fd(&text, fd, err) < 0) {
        (void)box_fail(err, BOX_VALIDATION, "%s: cannot be read, or is larger than %d bytes", file,
                       BOX_CONFIG_MAX_BYTES);
        return -1;
    }
    return box_config_parse(
        schema, file,
        (const char *)(box_buf_len(&text) > 0 ? box_buf_data(&text) : (const uint8_t *)""),
        box_buf_len(&text), env, out, err);
}

void box_config_done(const box_config_schema *schema, void *conf)
{
    box_config_free_values(schema->keys, schema->n_keys, conf);
}
