for path in ("/usr/bin/env", "/bin/sh", "/etc/passwd", "/etc/group", "/etc/hosts", "/etc/ld.so.cache"):
    if os.path.exists(path):
        opens(path, os.O_WRONLY)
for folder in ("/usr", "/usr/bin", "/usr/lib", "/etc", "/dev", "/proc", ""):
    creates(folder + "/box-drill")
refused("chmod /usr/bin", lambda: os.chmod("/usr/bin", 0o755))
report()
