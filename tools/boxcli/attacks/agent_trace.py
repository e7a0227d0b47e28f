import ctypes
import resource

call = libc()
PTRACE_ATTACH, PTRACE_SEIZE = 16, 0x4206
buffer = ctypes.create_string_buffer(8)


class Piece(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]


mine = Piece(ctypes.addressof(buffer), 8)
theirs = Piece(0x400000, 8)
refused("ptrace attach", lambda: call("ptrace", PTRACE_ATTACH, 1, 0, 0))
refused("ptrace seize", lambda: call("ptrace", PTRACE_SEIZE, 1, 0, 0))
refused("process_vm_readv", lambda: call("process_vm_readv", 1, ctypes.byref(mine), 1,
                                         ctypes.byref(theirs), 1, 0))
refused("process_vm_writev", lambda: call("process_vm_writev", 1, ctypes.byref(mine), 1,
                                          ctypes.byref(theirs), 1, 0))
for limit in (resource.RLIMIT_NOFILE, resource.RLIMIT_CPU, resource.RLIMIT_AS):
    refused("prlimit %d" % limit, lambda: resource.prlimit(1, limit, (1, 1)))
refused("priority", lambda: os.setpriority(os.PRIO_PROCESS, 1, 19))
refused("affinity", lambda: os.sched_setaffinity(1, {0}))


def take():
    pidfd = os.pidfd_open(1)
    return call("syscall", 438, pidfd, 0, 0)


refused("pidfd_getfd", take)
report()
