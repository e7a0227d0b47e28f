import ctypes
import fcntl
import pty
import termios

call = libc()
master, slave = pty.openpty()
if os.fork() == 0:
    os.setsid()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    letter = ctypes.create_string_buffer(b"x")
    # TIOCSTI, TIOCLINUX, and the same with bits above the 32 that the kernel looks at.
    for request in (0x5412, 0x541C, 0x100005412, 0x10000541C):
        refused("ioctl %#x" % request, lambda: call("ioctl", slave, request, letter))
    report()
    os.sys.stdout.flush()
    os._exit(0)
os.wait()
