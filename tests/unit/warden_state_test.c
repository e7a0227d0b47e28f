#include "warden/state.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fd.h"
#include "warden/private.h"

typedef struct fixture {
    char base[64];
    char dir[96];
    int fd;
} fixture;

static int start(void **state)
{
    static fixture f;
    box_error err;
    (void)snprintf(f.base, sizeof f.base, "/tmp/box-state-XXXXXX");
    assert_non_null(mkdtemp(f.base));
    (void)snprintf(f.dir, sizeof f.dir, "%s/one", f.base);
    assert_int_equal(box_state_open(f.dir, &f.fd, &err), 0);
    *state = &f;
    return 0;
}

static int stop(void **state)
{
    fixture *f = *state;
    box_closep(&f->fd);
    (void)rmdir(f->dir);
    return rmdir(f->base);
}

static box_sandbox_record record(void)
{
    return (box_sandbox_record){.uid = box_uid_new(),
                                .instance = box_uid_new(),
                                .pid = 77,
                                .uid_base = 0x70000000,
                                .start_time = 99,
                                .mount_path = "/workspace",
                                .place = "1 3 /x\n"};
}

static void a_record_comes_back_as_it_was_written(void **state)
{
    fixture *f = *state;
    box_sandbox_record r = record();
    box_sandbox_record back;
    box_error err;
    assert_int_equal(box_state_write(f->fd, &r, false, NULL, &err), 0);
    assert_int_equal(box_state_read(f->fd, &r.uid, false, &back, &err), 0);
    assert_memory_equal(&r, &back, sizeof r);
    assert_int_equal(box_state_remove(f->fd, &r.uid, &err), 0);
    assert_int_equal(box_state_remove(f->fd, &r.uid, &err), 0);
    assert_int_equal(box_state_read(f->fd, &r.uid, false, &back, &err), -1);
    assert_int_equal(err.reason, BOX_FILE_NOT_FOUND);
}

/* Killed at any of its steps, a helper leaves one file that says what it made. */
static void what_was_prepared_becomes_a_sandbox_step_by_step(void **state)
{
    fixture *f = *state;
    box_sandbox_record r = record();
    box_sandbox_record back;
    box_error err;
    BOX_AUTO(box_closep) int file = -1;
    r.pid = 0;
    assert_int_equal(box_state_write(f->fd, &r, true, &file, &err), 0);
    assert_int_equal(box_state_read(f->fd, &r.uid, true, &back, &err), 0);
    assert_memory_equal(&r, &back, sizeof r);
    assert_int_equal(box_state_read(f->fd, &r.uid, false, &back, &err), -1);

    assert_int_equal(box_state_claim(f->fd, &r.uid, &err), 0);
    assert_int_equal(box_state_read(f->fd, &r.uid, true, &back, &err), -1);
    assert_int_equal(box_state_read(f->fd, &r.uid, false, &back, &err), 0);
    assert_memory_equal(&r, &back, sizeof r);

    r.pid = 5;
    assert_int_equal(box_state_update(file, &r, &err), 0);
    assert_int_equal(box_state_read(f->fd, &r.uid, false, &back, &err), 0);
    assert_memory_equal(&r, &back, sizeof r);
    assert_int_equal(box_state_remove(f->fd, &r.uid, &err), 0);
    assert_int_equal(box_state_read(f->fd, &r.uid, false, &back, &err), -1);
}

static void file_name(const box_uid *uid, char out[64])
{
    char text[BOX_UID_TEXT];
    box_uid_text(uid, text);
    (void)snprintf(out, 64, "sandbox-%s", text);
}

static void a_pid_of_an_earlier_boot_is_forgotten(void **state)
{
    fixture *f = *state;
    box_sandbox_record r = record();
    box_sandbox_record back;
    box_error err;
    char name[64];
    file_name(&r.uid, name);
    assert_int_equal(box_state_write(f->fd, &r, false, NULL, &err), 0);
    BOX_AUTO(box_closep) int fd = openat(f->fd, name, O_WRONLY | O_CLOEXEC);
    assert_int_equal(pwrite(fd, "another", 7, 8), 7); /* the boot id follows magic and version */
    assert_int_equal(box_state_read(f->fd, &r.uid, false, &back, &err), 0);
    assert_int_equal(back.pid, 0);
    assert_int_equal(box_state_remove(f->fd, &r.uid, &err), 0);
}

static void a_file_cut_anywhere_is_damaged(void **state)
{
    fixture *f = *state;
    box_sandbox_record r = record();
    box_sandbox_record back;
    box_error err;
    struct stat st;
    char name[64];
    file_name(&r.uid, name);
    assert_int_equal(box_state_write(f->fd, &r, false, NULL, &err), 0);
    BOX_AUTO(box_closep) int fd = openat(f->fd, name, O_RDWR | O_CLOEXEC);
    assert_int_equal(fstat(fd, &st), 0);
    for (off_t len = st.st_size - 1; len >= 0; len--) {
        assert_int_equal(ftruncate(fd, len), 0);
        assert_int_equal(box_state_read(f->fd, &r.uid, false, &back, &err), -1);
        assert_int_equal(err.reason, BOX_PROTOCOL);
    }
    assert_int_equal(box_state_remove(f->fd, &r.uid, &err), 0);
}

typedef struct seen_files {
    int live;
    int to_end;
    int unknown; /* of these */
} seen_files;

static void count(void *owner, const box_sandbox_record *r, bool to_end)
{
    seen_files *s = owner;
    s->live += to_end ? 0 : 1;
    s->to_end += to_end ? 1 : 0;
    s->unknown += r->pid == 0 ? 1 : 0;
    assert_true(r->pid == 77 || (to_end && r->pid == 0));
}

static void a_scan_finds_all_and_removes_what_is_broken(void **state)
{
    fixture *f = *state;
    box_sandbox_record a = record();
    box_sandbox_record b = record();
    box_error err;
    seen_files seen = {0};
    assert_int_equal(box_state_write(f->fd, &a, false, NULL, &err), 0);
    assert_int_equal(box_state_write(f->fd, &b, true, NULL, &err), 0);
    (void)close(openat(f->fd, ".sandbox-x.new", O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    (void)close(openat(f->fd, "other", O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    assert_int_equal(box_state_scan(f->fd, count, &seen, &err), 1);
    assert_int_equal(seen.live, 1);
    assert_int_equal(seen.to_end, 1);
    assert_int_equal(seen.unknown, 0);
    assert_int_equal(unlinkat(f->fd, "other", 0), 0);
    assert_int_equal(box_state_remove(f->fd, &a.uid, &err), 0);
    assert_int_equal(box_state_remove(f->fd, &b.uid, &err), 0);
}

/* What an upgrade or a crash leaves is ended, not forgotten: by its pid where that can be read. */
static void files_that_cannot_be_read_are_of_sandboxes_to_end(void **state)
{
    fixture *f = *state;
    box_sandbox_record r[4];
    box_error err;
    seen_files seen = {0};
    for (size_t i = 0; i < BOX_COUNT(r); i++) {
        char name[64];
        r[i] = record();
        file_name(&r[i].uid, name);
        assert_int_equal(box_state_write(f->fd, &r[i], false, NULL, &err), 0);
        BOX_AUTO(box_closep) int fd = openat(f->fd, name, O_WRONLY | O_CLOEXEC);
        if (i == 0) /* another version */
            assert_int_equal(pwrite(fd, "\377", 1, 4), 1);
        else if (i == 1) /* and shorter */
            assert_int_equal(ftruncate(fd, 120), 0);
        else if (i == 2) /* of an earlier boot, too */
            assert_true(pwrite(fd, "\377", 1, 4) == 1 && pwrite(fd, "another", 7, 8) == 7);
        else
            assert_int_equal(ftruncate(fd, 0), 0);
    }
    assert_int_equal(box_state_scan(f->fd, count, &seen, &err), 4);
    assert_int_equal(seen.live, 0);
    assert_int_equal(seen.to_end, 4);
    assert_int_equal(seen.unknown, 2);
    for (size_t i = 0; i < BOX_COUNT(r); i++)
        assert_int_equal(box_state_remove(f->fd, &r[i].uid, &err), 0);
}

/* So many more may be opened. */
static void allow_descriptors(int more)
{
    struct rlimit limit;
    int next = dup(STDIN_FILENO);
    assert_true(next >= 0);
    assert_int_equal(close(next), 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = (rlim_t)(next + more);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* It is there, and says what is to be removed. */
static void a_file_that_cannot_be_read_now_stays(void **state)
{
    fixture *f = *state;
    box_sandbox_record r = record();
    box_sandbox_record found;
    box_error err;
    seen_files seen = {0};
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(box_state_find(f->fd, &r.uid, &found, &err), 0);
    assert_int_equal(box_state_write(f->fd, &r, true, NULL, &err), 0);
    allow_descriptors(1);
    assert_int_equal(box_state_scan(f->fd, count, &seen, &err), -1);
    assert_int_equal(err.sys_errno, EMFILE);
    allow_descriptors(0);
    assert_int_equal(box_state_find(f->fd, &r.uid, &found, &err), -1);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(box_state_find(f->fd, &r.uid, &found, &err), 1);
    assert_int_equal(found.pid, r.pid);
    assert_int_equal(box_state_scan(f->fd, count, &seen, &err), 0);
    assert_int_equal(seen.to_end, 1);
    assert_int_equal(box_state_remove(f->fd, &r.uid, &err), 0);
}

static void a_directory_has_one_warden(void **state)
{
    fixture *f = *state;
    BOX_AUTO(box_closep) int second = -1;
    box_error err;
    assert_int_equal(box_state_dir(f->dir, &second, &err), 0);
    assert_int_equal(box_state_lock(second, 0, &err), -1);
    assert_int_equal(err.reason, BOX_PERMISSION);
}

/* The state of a private warden that was killed goes to the next one; a live one's stays. */
static void private_wardens_take_over_from_dead_ones_only(void **state)
{
    fixture *f = *state;
    char base[96];
    box_private_dir first = {.lock = -1};
    box_private_dir second = {.lock = -1};
    box_private_dir third = {.lock = -1};
    box_sandbox_record r = record();
    box_sandbox_record back;
    box_error err;
    (void)snprintf(base, sizeof base, "%s/private", f->base);
    assert_int_equal(box_private_open(base, &first, &err), 0);
    int live;
    assert_int_equal(box_state_open(first.path, &live, &err), 0);
    assert_int_equal(box_state_write(live, &r, false, NULL, &err), 0);
    box_closep(&first.lock);
    assert_int_equal(box_private_open(base, &second, &err), 0);
    assert_int_equal(box_state_read(live, &r.uid, false, &back, &err), 0);
    box_closep(&second.lock);
    box_closep(&live); /* the first one is killed */
    assert_int_equal(box_private_open(base, &third, &err), 0);
    box_closep(&third.lock);
    assert_int_equal(access(first.path, F_OK), -1);
    BOX_AUTO(box_closep) int dir = open(third.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(box_state_read(dir, &r.uid, false, &back, &err), 0);
    box_private_remove(&third); /* does nothing while a state file is in it */
    assert_int_equal(box_state_remove(dir, &r.uid, &err), 0);
    box_private_remove(&third);
    assert_int_equal(access(base, F_OK), -1); /* with the last one */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_comes_back_as_it_was_written),
        cmocka_unit_test(what_was_prepared_becomes_a_sandbox_step_by_step),
        cmocka_unit_test(a_pid_of_an_earlier_boot_is_forgotten),
        cmocka_unit_test(a_file_cut_anywhere_is_damaged),
        cmocka_unit_test(a_scan_finds_all_and_removes_what_is_broken),
        cmocka_unit_test(files_that_cannot_be_read_are_of_sandboxes_to_end),
        cmocka_unit_test(a_file_that_cannot_be_read_now_stays),
        cmocka_unit_test(a_directory_has_one_warden),
        cmocka_unit_test(private_wardens_take_over_from_dead_ones_only),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
