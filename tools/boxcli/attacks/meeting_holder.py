# One session leaves something of each kind behind; the other one looks for it (meeting_probe.py).
import ctypes
import socket
import time

c = ctypes.CDLL(None)
a = socket.socket(socket.AF_UNIX)
a.bind("\0box-drill")
a.listen()
t = socket.socket()
t.bind(("127.0.0.1", 4711))
t.listen()
c.shmget(0x4711, 4096, 0o1666)
c.msgget(0x4711, 0o1666)
c.semget(0x4711, 1, 0o1666)
for folder in ("/tmp", "/dev/shm", "/home", "/workspace"):
    open(folder + "/box-drill", "w").write("secret")
if os.fork() == 0:
    os.setsid()
    for fd in range(3):
        os.close(fd)
    time.sleep(30)
    os._exit(0)
print("held: waiting")
