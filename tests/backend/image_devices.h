/* Loop devices, and the directories of their files, as tests see them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* False, with the reason on standard output, where there can be no loop device. */
bool test_devices_can(const char *test);
/* Devices whose file is, or was, in that directory. */
size_t test_devices(const char *dir);
/* Waits until it is that many: the kernel lets go of them behind the last close. Ends the test when
 * it takes long. */
void test_devices_await(const char *dir, size_t count);
/* Names in a directory, without those that are hidden. */
size_t test_names_in(const char *dir);
