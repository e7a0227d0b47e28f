import socket
import stat

seen = 0
SKIP = {"/proc", "/sys", "/usr"}
for folder, folders, names in os.walk("/"):
    folders[:] = [f for f in folders if os.path.join(folder, f) not in SKIP]
    for name in names:
        path = os.path.join(folder, name)
        try:
            if stat.S_ISSOCK(os.lstat(path).st_mode):
                broken.append("a socket: %s" % path)
        except OSError:
            pass
        seen += 1
USUAL = ["/run/docker.sock", "/var/run/docker.sock", "/run/podman/podman.sock",
         "/run/containerd/containerd.sock", "/run/dbus/system_bus_socket", "/run/systemd/private",
         "/run/box/warden/namespace.sock", "/run/boxd/box.sock", "/var/lib/box/run"]
abstract = [line.split()[-1] for line in open("/proc/net/unix").read().splitlines()[1:]
            if line.split()[-1].startswith("@")]
for name in USUAL + abstract:
    def reach():
        for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
            try:
                with socket.socket(socket.AF_UNIX, kind) as s:
                    s.connect("\0" + name[1:] if name[0] == "@" else name)
                    return
            except OSError as error:
                last = error
        raise last
    refused(name, reach)
report("none among %d files, none of the usual %d, %d abstract" % (seen, len(USUAL), len(abstract)))
