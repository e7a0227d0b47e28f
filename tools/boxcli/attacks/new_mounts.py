call = libc()
FLAGS = {"mount": 0x20000, "user": 0x10000000, "pid": 0x20000000, "net": 0x40000000,
         "ipc": 0x08000000, "uts": 0x04000000, "cgroup": 0x02000000}
MS_BIND, MS_REMOUNT = 4096, 32
for name, flag in FLAGS.items():
    refused("unshare %s" % name, lambda: call("unshare", flag))
    refused("unshare user and %s" % name, lambda: call("unshare", flag | FLAGS["user"]))
for kind in (b"tmpfs", b"proc", b"sysfs", b"cgroup", b"cgroup2", b"overlay", b"devtmpfs"):
    refused("mount %s" % kind.decode(), lambda: call("mount", b"none", b"/tmp", kind, 0, None))
refused("bind mount", lambda: call("mount", b"/", b"/tmp", None, MS_BIND, None))
refused("remount", lambda: call("mount", None, b"/usr", None, MS_REMOUNT | MS_BIND, None))
refused("umount /proc", lambda: call("umount2", b"/proc", 2))
refused("umount /usr", lambda: call("umount2", b"/usr", 2))
refused("chroot", lambda: os.chroot("/tmp"))
for name in ("mnt", "pid", "net", "user", "ipc", "uts", "cgroup"):
    def enter():
        fd = os.open("/proc/1/ns/" + name, os.O_RDONLY)
        return call("setns", fd, 0)
    refused("setns %s" % name, enter)
report("%d ways to make or enter namespaces and mounts" % len(held))
