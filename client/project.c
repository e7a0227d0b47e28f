#include "box/project.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/macros.h"

/* --- names ------------------------------------------------------------------------------------ */

static bool is_any(const char *name, size_t len, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (strlen(names[i]) == len && memcmp(names[i], name, len) == 0)
            return true;
    }
    return false;
}

/* The last part of path[0, len), and how long what stands before it is, without its slash. */
static const char *last_part(const char *path, size_t len, size_t *before)
{
    size_t at = len;
    while (at > 0 && path[at - 1] != '/')
        at--;
    *before = at > 0 ? at - 1 : 0;
    return path + at;
}

/* How much of an absolute path is the folder that holds the virtual environment whose program it
 * is; 0: it is none. */
static size_t venv_parent(const char *path)
{
    static const char *const environments[] = {".venv", "venv", "env", ".env"};
    static const char *const bins[] = {"bin", "Scripts"};
    size_t program, bin, environment;
    (void)last_part(path, strlen(path), &program);
    const char *part = last_part(path, program, &bin);
    if (path[0] != '/' || !is_any(part, (size_t)(path + program - part), bins, BOX_COUNT(bins)))
        return 0;
    part = last_part(path, bin, &environment);
    bool is = is_any(part, (size_t)(path + bin - part), environments, BOX_COUNT(environments));
    return is ? environment : 0;
}

bool box_project_is_venv_python(const char *path)
{
    size_t before;
    const char *program = last_part(path, strlen(path), &before);
    return venv_parent(path) > 0 && strncmp(program, "python", strlen("python")) == 0;
}

/* --- where it is ------------------------------------------------------------------------------ */

static bool is_below(const char *path, const char *root)
{
    size_t len = strlen(root);
    return strncmp(path, root, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

static bool is_of_system(const char *path)
{
    static const char *const roots[] = {
        "/usr", "/bin", "/sbin", "/lib",     "/lib64",     "/etc",     "/proc",    "/sys",
        "/dev", "/run", "/boot", "/var/lib", "/var/cache", "/var/log", "/var/run", "/var/spool"};
    for (size_t i = 0; i < BOX_COUNT(roots); i++) {
        if (is_below(path, roots[i]))
            return true;
    }
    return false;
}

/* The real folder that a word stands for; false: for none. */
static bool folder_of(const char *word, char out[PATH_MAX])
{
    char path[PATH_MAX];
    struct stat st;
    if (word[0] != '/' || strlen(word) >= sizeof path || is_of_system(word) || stat(word, &st) < 0)
        return false;
    (void)snprintf(path, sizeof path, "%s", word);
    size_t len = venv_parent(word);
    if (len == 0 && !S_ISDIR(st.st_mode))
        (void)last_part(path, strlen(path), &len);
    if (len > 0)
        path[len] = '\0';
    else if (!S_ISDIR(st.st_mode))
        return false; /* a file in / */
    return realpath(path, out) != NULL;
}

/* Cuts `common` to what it shares with path, whole parts only. */
static void cut_to_common(char *common, const char *path)
{
    while (common[0] != '\0' && !is_below(path, common)) {
        size_t before;
        (void)last_part(common, strlen(common), &before);
        common[before] = '\0';
    }
}

char *box_project_root(const char *const *argv, size_t argc)
{
    char common[PATH_MAX] = "";
    char folder[PATH_MAX];
    bool any = false;
    for (size_t i = 0; i < argc; i++) {
        if (!folder_of(argv[i], folder))
            continue;
        if (any)
            cut_to_common(common, folder);
        else
            (void)snprintf(common, sizeof common, "%s", folder);
        any = true;
    }
    return common[0] == '\0' || strcmp(common, "/") == 0 ? NULL : box_strdup(common);
}

/* --- what it is called inside ----------------------------------------------------------------- */

static char *join(const char *a, size_t a_len, const char *b)
{
    size_t size = a_len + strlen(b) + 1;
    char *text = box_alloc(size);
    (void)snprintf(text, size, "%.*s%s", (int)a_len, a, b);
    return text;
}

char *box_project_map(const char *path, const char *root, const char *mount)
{
    char real[PATH_MAX];
    if (path[0] != '/' || realpath(path, real) == NULL || !is_below(real, root))
        return NULL;
    return join(mount, strlen(mount), real + strlen(root));
}

char *box_project_rewrite(const char *word, const char *root, const char *mount)
{
    if (box_project_is_venv_python(word))
        return box_strdup("python");
    char *mapped = box_project_map(word, root, mount);
    if (mapped != NULL)
        return mapped;
    const char *value = word[0] == '-' ? strchr(word, '=') : NULL;
    mapped = value != NULL ? box_project_map(value + 1, root, mount) : NULL;
    if (mapped == NULL)
        return box_strdup(word);
    char *whole = join(word, (size_t)(value + 1 - word), mapped);
    free(mapped);
    return whole;
}
