import stat

KNOWN = {(1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0), (5, 1), (5, 2), (10, 200)}
for kind, number in ((stat.S_IFCHR, (1, 1)), (stat.S_IFBLK, (7, 0)), (stat.S_IFCHR, (10, 237))):
    for folder in ("/workspace", "/tmp", "/dev/shm"):
        path = folder + "/node"
        refused("mknod %s" % path, lambda: os.mknod(path, kind | 0o600, os.makedev(*number)))
for folder, _, names in os.walk("/dev"):
    for name in names:
        status = os.lstat(os.path.join(folder, name))
        number = (os.major(status.st_rdev), os.minor(status.st_rdev))
        if stat.S_ISBLK(status.st_mode):
            broken.append("%s/%s is a disk" % (folder, name))
        elif stat.S_ISCHR(status.st_mode) and number not in KNOWN and number[0] != 136:
            broken.append("%s/%s is device %d:%d" % (folder, name, *number))
report("no node can be made; /dev has %s" % " ".join(sorted(os.listdir("/dev"))))
