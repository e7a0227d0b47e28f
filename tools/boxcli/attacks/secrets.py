import re

KNOWN = {"HOME", "LANG", "PATH", "USER", "PWD", "SHLVL", "_", "LC_CTYPE", "HOSTNAME", "TERM", "LOGNAME",
         "SHELL", "container", "TMPDIR"}
must("only the usual variables", not set(os.environ) - KNOWN)
must("no descriptor but three", set(os.listdir("/proc/self/fd")) <= {"0", "1", "2", "3"})
token = re.compile(rb"box_[A-Za-z0-9_-]{40}|PRIVATE KEY")
looked = 0
for pid in [p for p in os.listdir("/proc") if p.isdigit() and int(p) != os.getpid()]:
    for name in ("environ", "cmdline", "mountinfo", "maps"):
        try:
            text = open("/proc/%s/%s" % (pid, name), "rb").read()
        except OSError:
            continue
        looked += 1
        if token.search(text):
            broken.append("a token or key in /proc/%s/%s" % (pid, name))
for folder, folders, names in os.walk("/"):
    folders[:] = [f for f in folders if os.path.join(folder, f) not in ("/proc", "/sys", "/usr", "/dev")]
    for name in names:
        path = os.path.join(folder, name)
        try:
            if os.path.isfile(path) and os.path.getsize(path) < 1 << 20:
                looked += 1
                if token.search(open(path, "rb").read()):
                    broken.append("a token or key in %s" % path)
        except OSError:
            pass
report("nothing in %d variables, %d files" % (len(os.environ), looked))
