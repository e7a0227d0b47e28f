mine = os.getuid()
others = [p for p in os.listdir("/proc") if p.isdigit() and os.stat("/proc/" + p).st_uid != mine]
for pid in others:
    for name in ("mem", "maps", "environ", "auxv", "stack", "syscall"):
        path = "/proc/%s/%s" % (pid, name)
        refused("read %s" % path, lambda: open(path, "rb").read(1))
    for name in ("exe", "cwd", "root"):
        path = "/proc/%s/%s" % (pid, name)
        refused("follow %s" % path, lambda: os.stat(path))
    refused("list /proc/%s/fd" % pid, lambda: os.listdir("/proc/%s/fd" % pid))
for name in ("mem", "exe"):
    opens("/proc/1/%s" % name, os.O_WRONLY)
must("no process of another user but the sandbox's own", len(others) < 8)
report("%d tries at the %d processes that are not its own" % (len(held), len(others)))
