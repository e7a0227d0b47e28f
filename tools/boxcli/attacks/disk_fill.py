block = bytes(1 << 20)
for folder in ("/workspace", "/tmp", "/home", "/dev/shm"):
    written = 0
    name = folder + "/fill"
    try:
        fd = os.open(name, os.O_WRONLY | os.O_CREAT, 0o600)
    except OSError as error:
        held.append("%s: %s" % (folder, error.strerror))
        continue
    try:
        while written < 256 << 20:
            written += os.write(fd, block)
    except OSError as error:
        must("%s: %s" % (folder, error.strerror), error.errno == errno.ENOSPC)
    os.close(fd)
    must("%s is full at %d MiB" % (folder, written >> 20), written < 256 << 20)
    os.unlink(name)
    with open(name, "w") as again:  # and what was removed is free again
        again.write("x")
    os.unlink(name)
report()
