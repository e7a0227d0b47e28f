#include "image_devices.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cmocka.h>

bool test_devices_can(const char *test)
{
    if (geteuid() != 0) {
        (void)printf("skipped: %s needs root\n", test);
        return false;
    }
    int fd = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    if (fd < 0 || ioctl(fd, LOOP_CTL_GET_FREE) < 0) {
        (void)printf("skipped: %s needs loop devices: %s\n", test, strerror(errno));
        return false;
    }
    (void)close(fd);
    return true;
}

static bool is_in(const char *device, const char *dir)
{
    char path[300];
    char text[4096];
    (void)snprintf(path, sizeof path, "/sys/block/%.200s/loop/backing_file", device);
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return false; /* not attached */
    bool found = fgets(text, sizeof text, f) != NULL && strncmp(text, dir, strlen(dir)) == 0 &&
                 text[strlen(dir)] == '/';
    (void)fclose(f);
    return found;
}

size_t test_devices(const char *dir)
{
    size_t n = 0;
    DIR *d = opendir("/sys/block");
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d)) != NULL;)
        n += strncmp(e->d_name, "loop", 4) == 0 && is_in(e->d_name, dir) ? 1 : 0;
    (void)closedir(d);
    return n;
}

void test_devices_await(const char *dir, size_t count)
{
    for (int i = 0; i < 3000; i++) {
        if (test_devices(dir) == count)
            return;
        (void)usleep(10000);
    }
    fail_msg("%zu loop devices instead of %zu", test_devices(dir), count);
}

size_t test_names_in(const char *dir)
{
    size_t n = 0;
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d)) != NULL;)
        n += e->d_name[0] != '.' ? 1 : 0;
    (void)closedir(d);
    return n;
}
