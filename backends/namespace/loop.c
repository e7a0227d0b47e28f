#include "namespace/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <sys/ioctl.h>

#include "base/fd.h"
#include "base/limits.h"

enum { SECTOR = 4096 /* what ext4 is made with; fewer requests than sectors of 512 */ };

static const char control[] = "/dev/loop-control";

/* Not with LO_FLAGS_DIRECT_IO: 500 MB written and synced take the same, small files too, and the
 * end twice as long. errno EBUSY: somebody else took it meanwhile. */
static int try_attach(int ctl, int file, int *out)
{
    char path[32];
    int number = ioctl(ctl, LOOP_CTL_GET_FREE);
    if (number < 0)
        return -1;
    (void)snprintf(path, sizeof path, "/dev/loop%d", number);
    BOX_AUTO(box_closep) int device = open(path, O_RDWR | O_CLOEXEC);
    if (device < 0)
        return -1;
    const struct loop_config config = {
        .fd = (uint32_t)file, .block_size = SECTOR, .info = {.lo_flags = LO_FLAGS_AUTOCLEAR}};
    if (ioctl(device, LOOP_CONFIGURE, &config) < 0)
        return -1;
    *out = open(path, O_RDONLY | O_CLOEXEC); /* before the other goes, or the file would too */
    return *out < 0 ? -1 : 0;
}

int box_loop_attach(int file, int *out, box_error *err)
{
    BOX_AUTO(box_closep) int ctl = open(control, O_RDWR | O_CLOEXEC);
    if (ctl < 0)
        return box_fail_errno(err, "open %s", control);
    for (int i = 0; i < BOX_DISK_LOOP_TRIES; i++) {
        if (try_attach(ctl, file, out) == 0)
            return 0;
        if (errno != EBUSY)
            break;
    }
    return box_fail_errno(err, "attach a loop device");
}
