/* Stands in for libFuzzer where there is none: runs a target on every file of a folder, whole and
 * cut short at every byte (long files, and all with --cuts: at N places).
 *
 *     NAME_fuzz [--cuts N] FOLDER|FILE... */
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "fuzz.h"

/* Most files are shorter, so these are all their cuts. */
enum { MAX_CUTS = 512, MAX_FILE_BYTES = 1024 * 1024 };

typedef struct totals {
    size_t max_cuts;
    size_t files;
    size_t runs;
} totals;

static void run(totals *t, const uint8_t *data, size_t len)
{
    uint8_t *copy = fuzz_copy((box_bytes){data, len});
    (void)LLVMFuzzerTestOneInput(copy, len);
    free(copy);
    t->runs++;
}

static int replay_fd(totals *t, int fd, box_error *err)
{
    BOX_AUTO(box_buf_done)
    box_buf b = {.max_bytes = MAX_FILE_BYTES};
    if (box_buf_read_fd(&b, fd, err) < 0)
        return -1;
    size_t len = box_buf_len(&b);
    run(t, box_buf_data(&b), len);
    size_t step = len / (t->max_cuts + 1) + 1;
    for (size_t cut = 0; cut < len; cut += step)
        run(t, box_buf_data(&b), cut);
    t->files++;
    return 0;
}

static int replay_file(totals *t, int dirfd, const char *name, box_error *err)
{
    BOX_AUTO(box_closep)
    int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return box_fail_errno(err, "open %s", name);
    if (replay_fd(t, fd, err) < 0)
        return box_wrap(err, "%s", name);
    return 0;
}

static int replay_folder(totals *t, DIR *dir, box_error *err)
{
    const struct dirent *entry;
    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] != '.' && replay_file(t, dirfd(dir), entry->d_name, err) < 0)
            return -1;
    }
    return 0;
}

static int replay(totals *t, const char *path, box_error *err)
{
    DIR *dir = opendir(path);
    if (dir == NULL)
        return replay_file(t, AT_FDCWD, path, err);
    int rc = replay_folder(t, dir, err);
    (void)closedir(dir); /* only read */
    return rc;
}

int main(int argc, char **argv)
{
    totals t = {.max_cuts = MAX_CUTS};
    box_error err;
    int first = 1;
    if (argc > 2 && strcmp(argv[1], "--cuts") == 0) {
        t.max_cuts = strtoul(argv[2], NULL, 10);
        first = 3;
    }
    for (int i = first; i < argc; i++) {
        if (replay(&t, argv[i], &err) < 0) {
            (void)fprintf(stderr, "%s\n", err.msg);
            return 1;
        }
    }
    if (t.files == 0) {
        (void)fprintf(stderr, "nothing to replay: name a folder of inputs, or one\n");
        return 2;
    }
    (void)printf("%zu files, %zu inputs\n", t.files, t.runs);
    return 0;
}
