"""A gRPC server made of frames by hand over TLS, and our client (box-test-client) that calls it.

A client_*.py holds functions row_N(bed), one a row of the conformance list. `main` runs the ones asked
for, each with a listening socket and clients of its own:

    client_answers.py BOX-TEST-CLIENT 17 [28 ...]
"""

import json
import os
import select
import socket
import ssl
import struct
import subprocess
import sys
import time
import traceback
import zlib

from peer import (ACK, CANCEL, CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, NO_ERROR,  # noqa: F401
                  PADDED, PING, PREFACE, REFUSED_STREAM, RST_STREAM, SETTINGS, WINDOW_UPDATE, Frames, frame,
                  hpack, lib, message, reset, settings, window)

SECONDS = lib.WAIT_SECONDS
HEAD = [(":status", "200"), ("content-type", "application/grpc")]
OK_TRAILERS = [("grpc-status", "0")]


def gzipped(data):
    deflater = zlib.compressobj(9, zlib.DEFLATED, 31)
    return deflater.compress(data) + deflater.flush()


def payload(size):
    """A SimpleResponse whose payload has that many zero bytes."""
    def varint(n):
        out = b""
        while n > 127:
            out, n = out + bytes([n & 127 | 128]), n >> 7
        return out + bytes([n])
    if size == 0:
        return b""
    body = b"\x12" + varint(size) + bytes(size)
    return b"\x0a" + varint(len(body)) + body


class Request:
    """A call as it came."""

    def __init__(self, connection, stream):
        self.connection, self.stream = connection, stream
        self.fields = []  # (name, value) text in order
        self.tuples = []  # as hpack gave them
        self.data = b""
        self.ended = False
        self.reset = None  # code of RST_STREAM
        self.window = 0  # given back by WINDOW_UPDATE
        self.frames = []  # ("DATA", flags, size) in order

    def get(self, name):
        values = self.all(name)
        assert len(values) <= 1, f"{name} {len(values)} times"
        return values[0] if values else None

    def all(self, name):
        return [v for k, v in self.fields if k == name]

    @property
    def is_over(self):
        return self.ended or self.reset is not None

    def messages(self):
        """[(flag, bytes)] of what came; nothing may be left over."""
        out, at = [], 0
        while at < len(self.data):
            flag, size = self.data[at], int.from_bytes(self.data[at + 1:at + 5], "big")
            out.append((flag, self.data[at + 5:at + 5 + size]))
            at += 5 + size
        assert at == len(self.data), "a message cut short"
        return out

    # what the server does with it

    def headers(self, fields=None, end=False):
        self.connection.headers(self.stream, HEAD if fields is None else fields, end)
        return self

    def send(self, data, end=False, flags=0):
        """Bytes in DATA frames."""
        for at in range(0, max(len(data), 1), 16384):
            last = at + 16384 >= len(data)
            self.connection.send(frame(DATA, flags | (END_STREAM if end and last else 0), self.stream,
                                       data[at:at + 16384]))
        return self

    def answer(self, *messages, trailers=None, head=None):
        """An ordinary answer: headers, messages, trailers."""
        self.headers(head)
        for m in messages:
            self.send(message(m))
        return self.trailers(trailers)

    def trailers(self, fields=None):
        self.connection.headers(self.stream, OK_TRAILERS if fields is None else fields, True)
        return self

    def only(self, *fields):
        """Trailers-only."""
        self.connection.headers(self.stream, HEAD + list(fields), True)
        return self

    def refuse(self, code=REFUSED_STREAM):
        self.connection.send(reset(self.stream, code))
        return self

    def whole(self):
        """All of it is here."""
        self.connection.until(lambda: self.is_over, f"the end of request {self.stream}")
        return self

    def wait_reset(self):
        self.connection.until(lambda: self.reset is not None, f"RST_STREAM of request {self.stream}")
        return self.reset


class Connection(Frames):
    """One connection that the client made."""

    other = "the client"

    def __init__(self, stream_socket, *first, greet=True):
        self.socket = stream_socket
        self.encoder, self.decoder = hpack.Encoder(), hpack.Decoder()
        self.received = b""
        self.requests = {}
        self.waiting = []  # requests nobody has asked for yet
        self.settings = {}
        self.frames = []  # those of stream 0: (kind, flags, payload)
        self.window = 0
        self.goaway = None
        self.is_closed = False
        self.auto_window = True
        self.auto_ping = True
        self.preface = b""
        self.greeted = False
        if greet:
            self.greet(*first)

    def send(self, *parts):
        self.socket.settimeout(SECONDS)
        try:
            self.socket.sendall(b"".join(parts))
        except (ConnectionError, ssl.SSLError, BrokenPipeError):
            self.is_closed = True

    def greet(self, *first):
        """Our SETTINGS: nothing may be said before."""
        self.greeted = True
        self.send(*(first or [settings()]))
        if self.settings:
            self.send(frame(SETTINGS, ACK))

    def headers(self, stream, fields, end=False):
        block = self.encoder.encode(fields)
        pieces = [block[at:at + 16384] for at in range(0, len(block), 16384)]
        for i, piece in enumerate(pieces):
            flags = (END_STREAM if end and i == 0 else 0) | (END_HEADERS if i == len(pieces) - 1 else 0)
            self.send(frame(CONTINUATION if i else HEADERS, flags, stream, piece))

    def close(self):
        """Without a word of HTTP/2 or TLS."""
        self.socket.close()
        self.is_closed = True

    def request(self, seconds=SECONDS):
        """The next one that comes."""
        self.until(lambda: self.waiting, "a request", seconds)
        return self.waiting.pop(0)

    def quiet(self, seconds=0.3):
        """Takes what comes for a while."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self.is_closed:
            self.read(end - time.monotonic())

    def begin(self):
        """The client's preface."""
        need = len(PREFACE) - len(self.preface)
        self.preface += self.received[:need]
        self.received = self.received[need:]
        assert PREFACE.startswith(self.preface), self.preface

    def take(self, kind, flags, stream, body):
        if stream == 0:
            self.take_control(kind, flags, body)
        elif kind == HEADERS:
            self.take_headers(flags, stream, body)
        elif kind == DATA:
            r = self.requests[stream]
            r.data += body
            r.ended |= bool(flags & END_STREAM)
            r.frames.append(("DATA", flags, len(body)))
            if self.auto_window and body and self.greeted:
                self.send(window(0, len(body)), *([] if r.ended else [window(stream, len(body))]))
        elif kind == RST_STREAM:
            self.requests[stream].reset = struct.unpack(">I", body)[0]
        elif kind == WINDOW_UPDATE:
            self.requests[stream].window += struct.unpack(">I", body)[0]

    def take_control(self, kind, flags, body):
        self.frames.append((kind, flags, body))
        if kind == SETTINGS and not flags & ACK:
            self.settings.update(struct.unpack_from(">HI", body, at) for at in range(0, len(body), 6))
            if self.greeted:
                self.send(frame(SETTINGS, ACK))
        elif kind == PING and not flags & ACK and self.auto_ping:
            self.send(frame(PING, ACK, 0, body))
        elif kind == WINDOW_UPDATE:
            self.window += struct.unpack(">I", body)[0]
        elif kind == GOAWAY:
            self.goaway = struct.unpack_from(">II", body)

    def take_headers(self, flags, stream, body):
        assert flags & END_HEADERS, "CONTINUATION is not read here"
        r = self.requests[stream] = Request(self, stream)
        r.tuples = self.decoder.decode(body, raw=True)
        r.fields = [(k.decode(), v.decode("latin-1")) for k, v in r.tuples]
        r.ended = bool(flags & END_STREAM)
        self.waiting.append(r)


class Client:
    """box-test-client with a script: a call is a number, and what happens to it are events."""

    def __init__(self, program, *args):
        self.process = subprocess.Popen([program, *args, "script"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.text = b""
        self.events = []
        self.next_call = 1

    def tell(self, *words):
        self.process.stdin.write((" ".join(str(w) for w in words) + "\n").encode())
        self.process.stdin.flush()

    def open(self, **options):
        """Starts a call; its number. md may be a list."""
        call, self.next_call = self.next_call, self.next_call + 1
        words = []
        for name, value in options.items():
            words += [f"{name}={v}" for v in (value if isinstance(value, list) else [value])]
        self.tell("open", call, *words)
        return call

    def take(self, seconds):
        fd = self.process.stdout.fileno()
        readable, _, _ = select.select([fd], [], [], max(seconds, 0))
        if not readable:
            return
        piece = os.read(fd, 65536)
        assert piece, f"the client ended with {self.process.wait()}"
        self.text += piece
        while b"\n" in self.text:
            line, self.text = self.text.split(b"\n", 1)
            self.events.append(json.loads(line))

    def wait(self, call, *names, seconds=SECONDS):
        """The first event of that call with one of these names, taken away."""
        end = time.monotonic() + seconds
        while True:
            for i, e in enumerate(self.events):
                if e.get("call") == call and e["event"] in names:
                    return self.events.pop(i)
            assert time.monotonic() < end, f"call {call}: no {names} within {seconds} s; {self.events}"
            self.take(end - time.monotonic())

    def end(self, call, seconds=SECONDS):
        return self.wait(call, "end", "refused", seconds=seconds)

    def did(self, call, command, *words):
        self.tell(command, call, *words)
        return self.wait(call, "did")

    def has(self, call, name):
        self.take(0)
        return any(e.get("call") == call and e["event"] == name for e in self.events)

    def expect(self, call, status, *words):
        """The call ends so, and its text has these words."""
        e = self.end(call)
        assert e["status"] == status, f"{status} expected: {e}"
        for word in words:
            assert word in e["message"], f"'{word}' expected: {e}"
        return e

    def stop(self):
        """Ends it; a crash or a sanitizer's finding shows in its exit status."""
        self.process.stdin.close()
        try:
            return self.process.wait(SECONDS)
        finally:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()


class Bed:
    """Where a row runs: a listening socket with a certificate, and the clients it made."""

    def __init__(self, program):
        self.program = program
        self.folder = lib.TemporaryFolder()
        self.certs = lib.Certificates(self.folder.path)
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=16)
        self.port = self.listener.getsockname()[1]
        self.clients = []

    def context(self):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certs.cert, self.certs.key)
        context.set_alpn_protocols(["h2"])
        return context

    def client(self, *args, target=None, ca=None):
        client = Client(self.program, "--target", target or f"localhost:{self.port}", "--ca", ca or self.certs.ca, *args)
        self.clients.append(client)
        return client

    def plain(self, seconds=SECONDS):
        """The next TCP connection."""
        self.listener.settimeout(seconds)
        accepted, _ = self.listener.accept()
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        accepted.settimeout(SECONDS)
        return accepted

    def accept(self, *first, context=None, greet=True):
        """The next connection, with TLS done and our SETTINGS sent."""
        tls = (context or self.context()).wrap_socket(self.plain(), server_side=True, suppress_ragged_eofs=False)
        return Connection(tls, *first, greet=greet)

    def nobody_connects(self, seconds=0.5):
        self.listener.settimeout(seconds)
        try:
            self.listener.accept()
        except TimeoutError:
            return
        raise AssertionError("the client connected again")

    def ask(self, answer, **options):
        """One unary call on a connection of its own, answered by the function: its end."""
        client = self.client()
        call = client.open(**options)
        connection = self.accept()
        answer(connection.request())
        return client.end(call)

    def remove(self):
        self.listener.close()
        codes = [c.stop() for c in self.clients]
        self.folder.remove()
        assert all(c == 0 for c in codes), f"clients ended with {codes}"


def main(rows):
    """Runs rows by number; `rows` is the file's globals()."""
    failed = 0
    for number in sys.argv[2:]:
        bed = Bed(sys.argv[1])
        try:
            rows[f"row_{number}"](bed)
        except Exception:  # a row's failure must not hide the others'
            traceback.print_exc()
            print(f"row {number} failed", file=sys.stderr)
            failed = 1
        try:
            bed.remove()
        except Exception:
            traceback.print_exc()
            failed = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(failed)
