for path in ("/etc/shadow", "/etc/gshadow", "/etc/ssh", "/etc/box", "/etc/machine-id", "/root", "/var/lib",
             "/var/log", "/srv", "/boot", "/lost+found", "/var/lib/box/admin.token"):
    refused("read %s" % path, lambda: os.listdir(path) if os.path.isdir(path) else open(path, "rb").read(1))
for path in ("/home", "/workspace", "/tmp", "/mnt", "/media", "/opt", "/run"):
    if os.path.isdir(path):
        must("%s is empty" % path, not os.listdir(path))
for path in ("/proc/self/cwd/../../../..", "/proc/self/root", "/proc/self/root/..", "/../.."):
    must("%s is the sandbox's own" % path, os.path.samefile(path, "/"))
report()
