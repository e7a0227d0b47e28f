#include "namespace/program.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"

enum { MAX_BYTES = 16 * 1024 * 1024 /* box-files has about 1 MiB */ };

static int default_path(const char *name, char out[PATH_MAX], box_error *err)
{
    ssize_t n = readlink("/proc/self/exe", out, PATH_MAX - 16);
    if (n < 0)
        return box_fail_errno(err, "find the warden's own program");
    out[n] = '\0';
    char *slash = strrchr(out, '/');
    (void)snprintf(slash + 1, 16, "%s", name);
    return 0;
}

static bool is_static(const uint8_t *data, size_t len)
{
    Elf64_Ehdr head;
    if (len < sizeof head)
        return false;
    memcpy(&head, data, sizeof head);
    if (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64 ||
        head.e_phentsize != sizeof(Elf64_Phdr) || head.e_phoff > len ||
        head.e_phnum > (len - head.e_phoff) / sizeof(Elf64_Phdr))
        return false;
    for (size_t i = 0; i < head.e_phnum; i++) {
        Elf64_Phdr p;
        memcpy(&p, data + head.e_phoff + i * sizeof p, sizeof p);
        if (p.p_type == PT_INTERP)
            return false;
    }
    return true;
}

int box_program_open(const char *path, const char *name, int *out, box_error *err)
{
    char beside[PATH_MAX];
    if (path == NULL && default_path(name, beside, err) < 0)
        return -1;
    BOX_AUTO(box_closep) int fd = open(path != NULL ? path : beside, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return box_fail_errno(err, "open the program %s", name);
    BOX_AUTO(box_buf_done) box_buf program = {.max_bytes = MAX_BYTES};
    if (box_buf_read_fd(&program, fd, err) < 0)
        return box_wrap(err, "read the program %s", name);
    if (!is_static(box_buf_data(&program), box_buf_len(&program)))
        return box_fail(err, BOX_VALIDATION, "the program %s is no static ELF program", name);
    return box_fd_memfd(name, box_buf_data(&program), box_buf_len(&program), out, err);
}

int box_program_open_files(const char *agent_path, int *out, box_error *err)
{
    static const char name[] = "box-files";
    char path[PATH_MAX];
    if (agent_path != NULL) {
        const char *slash = strrchr(agent_path, '/');
        int dir = slash != NULL ? (int)(slash + 1 - agent_path) : 0;
        int len = snprintf(path, sizeof path, "%.*s%s", dir, agent_path, name);
        if (len < 0 || (size_t)len >= sizeof path)
            return box_fail(err, BOX_VALIDATION, "the path of the program %s is too long", name);
    }
    BOX_AUTO(box_closep) int fd = -1;
    if (box_program_open(agent_path != NULL ? path : NULL, name, &fd, err) < 0)
        return -1;
    if (fchmod(fd, 0711) < 0)
        return box_fail_errno(err, "set the mode of the program %s", name);
    *out = box_take_fd(&fd);
    return 0;
}
