"""HTTP/2 frames made by hand over TLS: what no sane client would say."""

import socket
import ssl
import struct
import time

from hpack import Decoder, Encoder

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, END_HEADERS, ACK = 1, 4, 1
SEND_SECONDS = 20


def frame(kind, flags, stream, payload=b""):
    """One frame as bytes."""
    return (struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) +
            payload)


def message(data):
    """A gRPC message with its prefix."""
    return b"\0" + struct.pack(">I", len(data)) + data


class Raw:
    """One connection to boxd."""

    def __init__(self, boxd, preface=True, settings=b"", receive_buffer=None):
        plain = socket.socket()
        if receive_buffer:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        plain.settimeout(SEND_SECONDS)
        plain.connect(("127.0.0.1", boxd.port))
        context = ssl.create_default_context(cadata=boxd.ca.decode())
        context.set_alpn_protocols(["h2"])
        self.socket = context.wrap_socket(plain, server_hostname="localhost")
        self.encoder, self.decoder = Encoder(), Decoder()
        self.received = b""
        self.next_stream = 1
        if preface:
            self.send(PREFACE + frame(SETTINGS, 0, 0, settings))

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()

    def close(self):
        """Idempotent."""
        self.socket.close()

    def send(self, *parts):
        """Bytes; False once the server has hung up."""
        self.socket.settimeout(SEND_SECONDS)
        try:
            self.socket.sendall(b"".join(parts))
        except (ConnectionError, ssl.SSLError):
            return False
        return True

    def request(self, path, token=None, end=False, extra=(), flags=END_HEADERS):
        """(stream, HEADERS frame) of a gRPC call, not sent."""
        fields = [(":method", "POST"), (":scheme", "https"), (":path", path),
                  (":authority", "localhost"), ("te", "trailers"),
                  ("content-type", "application/grpc")]
        if token:
            fields.append(("authorization", "Bearer " + token))
        stream, self.next_stream = self.next_stream, self.next_stream + 2
        return stream, frame(HEADERS, flags | (END_STREAM if end else 0), stream,
                             self.encoder.encode(fields + list(extra)))

    def call(self, path, token=None, body=None, **kwargs):
        """Sends a request (with one message, if any); its stream."""
        stream, headers = self.request(path, token, end=body is None and kwargs.pop("end", False),
                                       **kwargs)
        self.send(headers)
        if body is not None:
            data = message(body)
            for at in range(0, len(data), 16384):
                last = at + 16384 >= len(data)
                self.send(frame(DATA, END_STREAM if last else 0, stream, data[at:at + 16384]))
        return stream

    def read(self, seconds=1.0, until=None):
        """Frames (kind, flags, stream, payload) until that time has passed, until(frame) holds, or
        the end, for which None stands."""
        frames, end = [], time.monotonic() + seconds
        while True:
            while len(self.received) >= 9:
                size = int.from_bytes(self.received[:3], "big")
                if len(self.received) < 9 + size:
                    break
                one = (self.received[3], self.received[4],
                       int.from_bytes(self.received[5:9], "big") & 0x7FFFFFFF,
                       self.received[9:9 + size])
                self.received = self.received[9 + size:]
                frames.append(one)
                if until is not None and until(one):
                    return frames
            left = end - time.monotonic()
            if left <= 0:
                return frames
            self.socket.settimeout(left)
            try:
                piece = self.socket.recv(65536)
            except (TimeoutError, ssl.SSLWantReadError):
                return frames
            except (OSError, ssl.SSLError):
                piece = b""
            if not piece:
                return frames + [None]
            self.received += piece

    def ends_within(self, seconds):
        """Did the server hang up?"""
        return None in self.read(seconds)

    def status(self, stream, seconds=5):
        """(grpc-status, grpc-message) of a stream; None without one."""
        found = None
        for one in self.read(seconds, lambda f: f[2] == stream and f[0] in (HEADERS, RST_STREAM) and
                             (f[0] == RST_STREAM or f[1] & END_STREAM)):
            if one is None or one[0] != HEADERS:
                continue
            fields = dict(self.decoder.decode(one[3]))
            if one[2] == stream and "grpc-status" in fields:
                found = (int(fields["grpc-status"]), fields.get("grpc-message", ""))
        return found
