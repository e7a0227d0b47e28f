"""Ports inside sessions through a stock client: a PortForward call, a test case, and a program with
ports that does what each connection's first line asks."""

from attachment import Attachment, ProcessCase
from boxd_lib import duration
from grpc import StatusCode
from queued_call import QueuedCall

# Prints how each connection ended: "end", or "reset".
PROGRAM = r"""
import hashlib, socket, struct, sys, threading

def echo(c, f):
    while data := f.read1(65536):
        c.sendall(data)

def digest(c, f):  # answers only when the caller has ended its direction
    h, n = hashlib.sha256(), 0
    while data := f.read1(65536):
        h.update(data)
        n += len(data)
    c.sendall(f"{n} {h.hexdigest()}".encode())

def source(c, f):  # ends its own direction first
    c.sendall(b"x" * int(f.readline()))
    c.shutdown(socket.SHUT_WR)
    print("got", f.read(), flush=True)

def flood(c, f):
    while True:
        c.sendall(b"y" * 65536)

def sleep(c, f):  # takes nothing
    threading.Event().wait()

def abort(c, f):
    c.sendall(b"last words")
    c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    f.readline()

def serve(c):
    how = "end"
    with c, c.makefile("rb") as f:
        try:
            what = f.readline().decode().strip()
            print("begin", what, flush=True)
            {f.__name__: f for f in (echo, digest, source, flood, sleep, abort)}[what](c, f)
        except ConnectionError:
            how = "reset"
    print(how, flush=True)

family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
s = socket.create_server((sys.argv[1], int(sys.argv[2])), family=family, backlog=1000)
print("listens", flush=True)
while True:
    threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()
"""


class Forward(QueuedCall):
    """One PortForward call; answers in by take()."""

    def __init__(self, case, port, client=None, session_id=None, deadline=60, wait=None):
        pb = case.pb.session
        start = pb.PortForwardStart(
            session_id=case.sid if session_id is None else session_id, port=port)
        if wait is not None:
            start.wait.CopyFrom(duration(wait))
        super().__init__(case, (client or case.client).sessions.PortForward,
                         pb.PortForwardRequest, start, timeout=deadline)
        self.bytes = b""
        self.closed = False

    def send(self, data):
        self.message(data=data)

    def started(self):
        """The first answer; self."""
        self.session_uid = self.first("started").session_uid
        return self

    def take(self):
        """One message more; its name."""
        message = next(self.call)
        kind = message.WhichOneof("response")
        assert not self.closed and kind in ("data", "closed"), message
        if kind == "data":
            assert 0 < len(message.data) <= 65536, len(message.data)
            self.bytes += message.data
        self.closed = kind == "closed"
        return kind

    def until(self, length):
        """Reads on until so many bytes came; all there are."""
        while len(self.bytes) < length:
            self.take()
        return self.bytes

    def until_closed(self):
        """Reads on until the program has ended its direction; all bytes there are."""
        while self.take() != "closed":
            pass
        return self.bytes

    def finish(self):
        """Reads to the end, which is OK; all bytes there are."""
        for message in self.call:
            assert message.WhichOneof("response") != "started", message
            self.bytes += message.data
            self.closed |= message.WhichOneof("response") == "closed"
        assert self.closed and self.call.code().name == "OK", self.call
        return self.bytes


class PortCase(ProcessCase):
    """A session of its own for each test."""

    def serve(self, port=8000, address="127.0.0.1"):
        """Starts the program and waits until it listens; what it prints can be waited for."""
        name = f"server-{port}"
        answer = self.start(["python3", "-c", PROGRAM, address, str(port)], name,
                            readiness={"stdout_line": "listens"}, ready_timeout=30)
        self.assertTrue(answer.ready)
        output = Attachment(self, name, stdout_offset=0)
        output.attached()
        return output

    def forward(self, what=None, port=8000, **fields):
        """A connection that stands, with its first line sent."""
        forward = Forward(self, port, **fields)
        if what is not None:
            forward.send(f"{what}\n".encode())
        return forward.started()

    def refused(self, cause, port, **fields):
        """RUNTIME_UNAVAILABLE for this cause."""
        failure = self.fails(StatusCode.UNAVAILABLE, "RUNTIME_UNAVAILABLE",
                             lambda: Forward(self, port, **fields).call)
        self.assertEqual(failure.metadata, {"cause": cause, "port": str(port)})
        return failure
