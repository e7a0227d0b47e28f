import ctypes
import socket

c = ctypes.CDLL(None)


def reach(family, address):
    with socket.socket(family) as s:
        s.settimeout(2)
        s.connect(address)


refused("its abstract socket", lambda: reach(socket.AF_UNIX, "\0box-drill"))
refused("its port", lambda: reach(socket.AF_INET, ("127.0.0.1", 4711)))
for name, got in (("shared memory", c.shmget(0x4711, 4096, 0)), ("message queue", c.msgget(0x4711, 0)),
                  ("semaphore", c.semget(0x4711, 1, 0))):
    must("no %s of it" % name, got < 0)
for folder in ("/tmp", "/dev/shm", "/home", "/workspace"):
    must("no file of it in %s" % folder, not os.path.exists(folder + "/box-drill"))
for pid in [p for p in os.listdir("/proc") if p.isdigit() and int(p) != os.getpid()]:
    try:
        text = open("/proc/%s/cmdline" % pid, "rb").read()
    except OSError:
        continue
    must("no process of it", b"0x4711" not in text)
report()
