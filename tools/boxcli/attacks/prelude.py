# What the attacks share. Each tries things that have to fail, and ends with report(): a line
# "broken: WHAT" for each that did not, and one "held: WHAT" at the end, without which the attack counts
# as not having run. Only Python's own modules; nothing is written where a write could be kept.
import errno
import os

held, broken = [], []


def refused(what, call):
    """call() has to fail with an OSError."""
    try:
        got = call()
    except OSError as error:
        held.append("%s: %s" % (what, errno.errorcode.get(error.errno, error.errno)))
        return
    if isinstance(got, int) and what.startswith("open"):
        os.close(got)
    broken.append("%s worked" % what)


def must(what, fine):
    """Something that has to be so."""
    (held if fine else broken).append(what if fine else "not so: " + what)


def opens(path, flags):
    refused("open %s" % path, lambda: os.open(path, flags | os.O_CLOEXEC))


def creates(path):
    """Making a file; what should not have been possible is undone."""
    def make():
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        os.unlink(path)
    refused("make %s" % path, make)


def libc():
    """call(name, arguments...) of the C library, failing with an OSError."""
    import ctypes
    library = ctypes.CDLL(None, use_errno=True)

    def call(name, *args):
        ctypes.set_errno(0)
        result = getattr(library, name)(*[ctypes.c_long(a) if isinstance(a, int) else a for a in args])
        if result == -1:
            raise OSError(ctypes.get_errno(), name)
        return result
    return call


def report(text=None):
    for line in broken:
        print("broken:", line)
    shown = held[:6] + ["and %d more" % (len(held) - 6)] * (len(held) > 6)
    print("held:", text or ", ".join(shown))
