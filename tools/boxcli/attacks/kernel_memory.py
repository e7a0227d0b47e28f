for path in ("/proc/kcore", "/proc/kmsg", "/dev/kmsg", "/dev/mem", "/dev/kmem", "/dev/port",
             "/proc/kpageflags", "/sys/kernel/debug", "/sys/kernel/btf/vmlinux", "/sys/firmware/dmi",
             "/sys/fs/pstore", "/boot"):
    refused("read %s" % path, lambda: os.listdir(path) if os.path.isdir(path) else open(path, "rb").read(1))
try:
    addresses = {line.split()[0] for line in open("/proc/kallsyms")}
    must("kernel addresses are not shown", not addresses - {"0" * 16})
except OSError as error:
    held.append("/proc/kallsyms: %s" % errno.errorcode[error.errno])
report()
