"""A gRPC client made of frames by hand over TLS, and what the rows of a file share.

A file holds functions row_N(server), one a row of the conformance list. `main` runs the ones asked
for, each with a test server of its own:

    server_messages.py BOX-ECHO-SERVER PYTHON-STUBS 46 [47 ...]
"""

import os
import socket
import ssl
import struct
import sys
import time
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "interop"))
import hpack  # noqa: E402
import lib  # noqa: E402  (tests/interop)

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
(DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE,
 CONTINUATION) = range(10)
END_STREAM, END_HEADERS, PADDED, ACK = 1, 4, 8, 1
NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, FLOW_CONTROL_ERROR = 0, 1, 2, 3
STREAM_CLOSED, FRAME_SIZE_ERROR, REFUSED_STREAM, CANCEL, ENHANCE_YOUR_CALM = 5, 6, 7, 8, 11
HEADER_TABLE_SIZE, ENABLE_PUSH, MAX_CONCURRENT, INITIAL_WINDOW, MAX_FRAME, MAX_HEADER_LIST = range(1, 7)
(OK, CANCELLED, UNKNOWN, INVALID_ARGUMENT, DEADLINE_EXCEEDED, NOT_FOUND, ALREADY_EXISTS,
 PERMISSION_DENIED, RESOURCE_EXHAUSTED, FAILED_PRECONDITION, ABORTED, OUT_OF_RANGE, UNIMPLEMENTED,
 INTERNAL, UNAVAILABLE, DATA_LOSS, UNAUTHENTICATED) = range(17)
SERVICE = "/boxtest.v1.TestService/"
ECHO = "/box.test.v1.EchoService/"
KIB, MIB = 1024, 1024 * 1024
RSS_FACTOR = int(os.environ.get("GRPC_RSS_FACTOR", "1"))  # sanitizers keep more memory
WAIT_SECONDS = lib.WAIT_SECONDS
PIECE = 16384


def frame(kind, flags=0, stream=0, payload=b""):
    """One frame as bytes."""
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def settings(**values):
    """A SETTINGS frame: settings(INITIAL_WINDOW=0)."""
    return frame(SETTINGS, 0, 0, b"".join(
        struct.pack(">HI", globals()[name], value) for name, value in values.items()))


def window(stream, size):
    return frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", size))


def reset(stream, code=CANCEL):
    return frame(RST_STREAM, 0, stream, struct.pack(">I", code))


def message(data, flag=0):
    """A gRPC message with its prefix. Protobuf objects are serialized."""
    if hasattr(data, "SerializeToString"):
        data = data.SerializeToString()
    return bytes([flag]) + struct.pack(">I", len(data)) + data


class Answer:
    """What came on one stream."""

    def __init__(self):
        self.blocks = []  # header blocks in order: lists of (name, value), both bytes
        self.data = b""
        self.reset = None  # code of RST_STREAM
        self.ended = False  # END_STREAM came
        self.order = []  # kinds of frames, with E for END_STREAM: ["HEADERS", "DATA", "HEADERS E"]

    @property
    def is_over(self):
        return self.ended or self.reset is not None

    def get(self, name, block=-1):
        """The only value of a field, as text; None without one."""
        values = self.all(name, block)
        assert len(values) <= 1, f"{name} {len(values)} times"
        return values[0] if values else None

    def all(self, name, block=-1):
        if not self.blocks:
            return []
        return [v.decode("latin-1") for k, v in self.blocks[block] if k.decode() == name]

    @property
    def http(self):
        return int(self.get(":status", 0) or 0)

    @property
    def status(self):
        value = self.get("grpc-status")
        return None if value is None else int(value)

    @property
    def text(self):
        return self.get("grpc-message") or ""

    @property
    def is_trailers_only(self):
        return self.order[0] == "HEADERS E"  # RST_STREAM NO_ERROR may follow

    def frames(self, so_far=False):
        """The messages as (flag, bytes); so_far: a last one may be incomplete, and is left out."""
        found, at = [], 0
        while at < len(self.data):
            size = int.from_bytes(self.data[at + 1:at + 5], "big")
            if so_far and (len(self.data) < at + 5 or len(self.data) < at + 5 + size):
                break
            assert at + 5 + size <= len(self.data), "a message cut short"
            found.append((self.data[at], self.data[at + 5:at + 5 + size]))
            at += 5 + size
        return found

    def messages(self):
        assert all(flag == 0 for flag, _ in self.frames()), "a compressed message"
        return [data for _, data in self.frames()]

    def __str__(self):
        return f"{self.order} {self.blocks} data={self.data[:60]!r} reset={self.reset}"


class Frames:
    """The reading half of a peer: bytes of self.socket become take(kind, flags, stream, payload), and a
    subclass keeps [(kind, flags, payload)] of connection frames in self.frames."""

    other = "the server"

    def begin(self):
        """Bytes came: what is no frame yet is taken off."""

    def until(self, condition, what, seconds=lib.WAIT_SECONDS):
        """Reads until the condition holds; fails when the other hangs up or time passes before."""
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, f"no {what} within {seconds} s"
            assert not self.is_closed, f"{self.other} hung up before {what} ({self.goaway})"
            self.read(end - time.monotonic())

    def closes(self, seconds=lib.WAIT_SECONDS):
        """Reads until the other hangs up; fails when it does not."""
        end = time.monotonic() + seconds
        while not self.is_closed:
            assert time.monotonic() < end, f"still open after {seconds} s"
            self.read(end - time.monotonic())

    def read(self, seconds):
        """Takes what comes next, within that time."""
        self.socket.settimeout(max(seconds, 0.001))
        try:
            piece = self.socket.recv(65536)
        except (TimeoutError, ssl.SSLWantReadError):
            return
        except (OSError, ssl.SSLError):
            piece = b""
        if not piece:
            self.is_closed = True
            return
        self.received += piece
        self.begin()
        while len(self.received) >= 9:
            size = int.from_bytes(self.received[:3], "big")
            if len(self.received) < 9 + size:
                return
            kind, flags = self.received[3], self.received[4]
            stream = int.from_bytes(self.received[5:9], "big") & 0x7FFFFFFF
            payload, self.received = self.received[9:9 + size], self.received[9 + size:]
            self.take(kind, flags, stream, payload)

    def ping(self):
        """A round trip: all the other had to say about what was sent before has come."""
        count = sum(1 for k, f, _ in self.frames if k == PING and f & ACK)
        self.send(frame(PING, 0, 0, b"12345678"))
        self.until(lambda: sum(1 for k, f, _ in self.frames if k == PING and f & ACK) > count, "PING's answer")


class Peer(Frames):
    """One connection to the server under test."""

    def __init__(self, server, *first, alpn="h2", preface=True, receive_buffer=None, source="127.0.0.1"):
        plain = socket.socket()
        plain.bind((source, 0))
        if receive_buffer:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        plain.settimeout(lib.WAIT_SECONDS)
        plain.connect(("127.0.0.1", server.port))
        context = ssl.create_default_context(cafile=server.certs.ca)
        context.set_alpn_protocols([alpn])
        self.server = server
        self.socket = context.wrap_socket(plain, server_hostname="localhost")
        self.encoder, self.decoder = hpack.Encoder(), hpack.Decoder()
        self.decoder.max_header_list_size = 1 << 20
        self.received = b""
        self.next_stream = 1
        self.answers = {}
        self.settings = {}
        self.frames = []  # those of stream 0: (kind, flags, payload)
        self.goaway = None  # (last stream, code, text)
        self.is_closed = False
        self.window_used = {}
        self.auto_window = True  # give back what DATA took
        if preface:
            self.send(PREFACE, *(first or [settings()]))

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.socket.close()

    def send(self, *parts):
        """Bytes; False once the server has hung up."""
        self.socket.settimeout(lib.WAIT_SECONDS)
        try:
            self.socket.sendall(b"".join(parts))
        except (ConnectionError, ssl.SSLError):
            return False
        return True

    def fields(self, path=SERVICE + "EmptyCall", extra=(), drop=(), replace=()):
        """The header list of a call. drop: names left out; replace: {name: value} changed in place."""
        fields = [(":method", "POST"), (":scheme", "https"), (":path", path),
                  (":authority", "localhost"), ("te", "trailers"), ("content-type", "application/grpc")]
        replace = dict(replace)
        return [(k, replace.get(k, v)) for k, v in fields if k not in drop] + list(extra)

    def open(self, fields, end=False, flags=END_HEADERS):
        """Sends HEADERS; the stream's number."""
        stream, self.next_stream = self.next_stream, self.next_stream + 2
        self.answers[stream] = Answer()
        self.send(frame(HEADERS, flags | (END_STREAM if end else 0), stream, self.encoder.encode(fields)))
        return stream

    def call(self, path=SERVICE + "EmptyCall", body=b"", raw=None, end=True, **kwargs):
        """Opens a call and sends one message (or `raw` bytes as they are); the stream's number."""
        stream = self.open(self.fields(path, **kwargs))
        self.data(stream, message(body) if raw is None else raw, end)
        return stream

    def data(self, stream, data, end=False):
        pieces = [data[at:at + PIECE] for at in range(0, len(data), PIECE)] or [b""]
        for i, piece in enumerate(pieces):
            self.send(frame(DATA, END_STREAM if end and i == len(pieces) - 1 else 0, stream, piece))

    def ask(self, *args, **kwargs):
        """call, then its answer."""
        return self.finish(self.call(*args, **kwargs))

    def finish(self, stream):
        """The answer of a stream once it is over."""
        answer = self.answers[stream]
        self.until(lambda: answer.is_over, f"an answer on stream {stream}")
        return answer

    def take(self, kind, flags, stream, payload):
        if stream == 0:
            self.frames.append((kind, flags, payload))
            if kind == SETTINGS and not flags & ACK:
                self.settings.update(struct.unpack_from(">HI", payload, at) for at in range(0, len(payload), 6))
                self.send(frame(SETTINGS, ACK))
            elif kind == GOAWAY:
                last, code = struct.unpack_from(">II", payload)
                self.goaway = (last, code, payload[8:])
            return
        answer = self.answers.setdefault(stream, Answer())
        names = {DATA: "DATA", HEADERS: "HEADERS", RST_STREAM: "RST", WINDOW_UPDATE: None}
        name = names.get(kind, str(kind))
        if name:
            ends = kind in (DATA, HEADERS) and flags & END_STREAM
            answer.order.append(name + (" E" if ends else ""))
            answer.ended |= bool(ends)
        if kind == HEADERS:
            assert flags & END_HEADERS, "CONTINUATION is not read here"
            answer.blocks.append(self.decoder.decode(payload, raw=True))
        elif kind == DATA:
            answer.data += payload
            if self.auto_window and payload:
                self.send(window(0, len(payload)), *([] if answer.ended else [window(stream, len(payload))]))
        elif kind == RST_STREAM:
            answer.reset = struct.unpack(">I", payload)[0]

    def works(self):
        """Another call on this connection succeeds."""
        answer = self.ask()
        assert answer.status == OK, f"the connection does not live: {answer}"


class TestServer:
    """box-echo-server on a port of its own."""

    __test__ = False

    def __init__(self, program, *args):
        self.program, self.args = program, args
        self.folder = lib.TemporaryFolder()
        self.certs = lib.Certificates(self.folder.path)
        self.server = lib.Server([program, "--tls", "127.0.0.1:0", "--cert", self.certs.cert, "--key",
                                  self.certs.key, "--loops", "1", *args], self.folder.file("log"))
        self.port = int(self.server.wait_ready(r"ready tls=(\d+)").group(1))

    def peer(self, *first, **kwargs):
        return Peer(self, *first, **kwargs)

    def counters(self, peer=None):
        """EchoService's, over a connection of its own where none is given."""
        import echo_pb2
        if peer is None:
            with self.peer() as own:
                return self.counters(own)
        return echo_pb2.GetCountersResponse.FromString(peer.ask(ECHO + "GetCounters").messages()[0])

    def stop(self):
        """Ends it; a crash or a sanitizer's finding shows in its exit status."""
        status = self.server.stop()
        if status != 0:
            raise AssertionError(f"server ended with {status}\n{self.server.log()}")

    def remove(self):
        self.server.stop()
        self.folder.remove()


def expect(answer, status, *words, http=200):
    """The answer ends with that gRPC status, and its text has these words."""
    assert answer.http == http, f"HTTP {http} expected: {answer}"
    assert answer.status == status, f"status {status} expected: {answer}"
    assert answer.reset in (None, NO_ERROR), f"no reset expected: {answer}"
    for word in words:
        assert word in answer.text, f"'{word}' expected in: {answer.text}"
    return answer


def expect_reset(answer, code=PROTOCOL_ERROR):
    assert answer.reset == code and not answer.blocks, f"RST_STREAM {code} expected: {answer}"


def expect_plain(answer, http, has_body=True):
    """An ordinary, complete HTTP answer that no plain client takes for success."""
    assert answer.http == http, f"HTTP {http} expected: {answer}"
    assert answer.ended, f"complete answer expected: {answer}"
    assert answer.reset in (None, NO_ERROR), f"no reset expected: {answer}"
    assert answer.status is None, f"no grpc-status expected: {answer}"
    assert answer.get("content-type", 0).startswith("text/plain"), answer
    if has_body:
        assert answer.data.endswith(b"\n") and answer.data.count(b"\n") == 1, answer
        assert int(answer.get("content-length", 0)) == len(answer.data), answer


def server_args(*args):
    """Decorates a row whose server needs options."""
    def mark(row):
        row.server_args = args
        return row
    return mark


def main(rows):
    """Runs rows by number; `rows` is the file's globals()."""
    program, stubs = sys.argv[1:3]
    sys.path.insert(0, stubs)
    failed = 0
    for number in sys.argv[3:]:
        row = rows[f"row_{number}"]
        server = TestServer(program, *getattr(row, "server_args", ()))
        try:
            row(server)
            server.stop()
        except Exception:  # a row's failure must not hide the others'
            traceback.print_exc()
            print(f"row {number} failed; the server said:\n{server.server.log()[-4000:]}", file=sys.stderr)
            failed = 1
        server.remove()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(failed)  # a stock client's threads may still run
