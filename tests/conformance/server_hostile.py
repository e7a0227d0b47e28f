"""Rows 117 to 129: peers that cost what they can. Each case ends the attack or outlives it, memory stays
within bounds and another caller is served meanwhile."""

import os
import resource
import socket
import ssl
import struct
import time

from peer import (ACK, CONTINUATION, DATA, DEADLINE_EXCEEDED, ECHO, END_HEADERS, END_STREAM,
                  ENHANCE_YOUR_CALM, GOAWAY, HEADERS, KIB, NO_ERROR, OK, PING, PREFACE, PRIORITY,
                  PROTOCOL_ERROR, PUSH_PROMISE, RSS_FACTOR, RST_STREAM, SETTINGS, WAIT_SECONDS, frame, main, message, reset,
                  server_args, settings, window)
import lib

TOKEN = ("authorization", "Bearer secret")
RESET_BURST = 3000  # BOX_STREAM_RESET_BURST
GROWTH_KIB = 48 * KIB * RSS_FACTOR
DEFAULT_WINDOW = 65535
with_token = server_args("--token", "secret", "--net", "ping_min_interval=10000")


class Watched:
    """Another caller is served before, and after; memory did not grow by much."""

    def __init__(self, server):
        self.server = server

    def __enter__(self):
        self.peer = self.server.peer()
        self.asks()
        self.before = self.server.server.rss_kib()
        return self

    def asks(self):
        assert self.peer.ask(ECHO + "Echo", extra=[TOKEN]).status == OK

    def __exit__(self, kind, *unused):
        if kind is None:
            self.asks()
            grown = self.server.server.rss_kib() - self.before
            assert grown < GROWTH_KIB, f"memory grew by {grown} KiB"
        self.peer.socket.close()


def calm(peer, *texts):
    """The server has had enough and says so."""
    peer.closes()
    assert peer.goaway and peer.goaway[1] == ENHANCE_YOUR_CALM, peer.goaway
    assert not texts or peer.goaway[2].decode() in texts, peer.goaway


def before_and_after(attack):
    """As a row: by a peer without a token, then by one with it."""
    @with_token
    def row(server):
        with Watched(server):
            for extra in ([], [TOKEN]):
                with server.peer() as peer:
                    attack(peer, extra)
    row.__doc__ = attack.__doc__
    return row


@before_and_after
def row_117(peer, extra):
    """Rapid reset; a gateway that cancels some is left alone."""
    def burst(n):
        for _ in range(0, n, 50):
            for _ in range(50):
                peer.send(reset(peer.open(peer.fields(ECHO + "Chat", extra=extra))))
            if peer.is_closed:
                return
    burst(2000)
    peer.ping()
    assert peer.goaway is None
    burst(3000)
    calm(peer, "too_many_resets")


@before_and_after
def row_118(peer, extra):
    """Resets that we are made to send count the same."""
    malformed = peer.fields(drop=(":path",), extra=extra)
    for _ in range(RESET_BURST * 2 // 50):
        opened = [peer.open(malformed, end=True) for _ in range(50)]
        # More at once than the limit of streams would end the connection for that.
        while not peer.is_closed and peer.answers[opened[-1]].reset is None:
            peer.read(lib.WAIT_SECONDS)
        if peer.is_closed:
            break
    calm(peer, "too_many_resets")


@before_and_after
def row_119(peer, extra):
    """CONTINUATION without end, and header bytes in few large frames."""
    server = peer.server
    block = peer.encoder.encode(peer.fields(extra=extra))
    peer.send(frame(HEADERS, 0, 1, block))
    for i in range(2000):
        if not peer.send(frame(CONTINUATION, 0, 1, peer.encoder.encode([(f"x-{i}", "y" * 50)]))):
            break
    peer.closes()
    with server.peer() as few:  # some are needed
        block = few.encoder.encode(few.fields(extra=[TOKEN]))
        few.send(frame(HEADERS, END_STREAM, 1, block[:10]), frame(CONTINUATION, 0, 1, block[10:20]),
                 frame(CONTINUATION, END_HEADERS, 1, block[20:]))
        few.until(lambda: 1 in few.answers and few.answers[1].is_over, "an answer")
        assert few.answers[1].reset in (None, NO_ERROR), few.answers[1]
    with server.peer() as large:
        block = large.encoder.encode(large.fields(extra=[(f"x-{i}", "y" * 15000) for i in range(7)]))
        pieces = [block[at:at + 16000] for at in range(0, len(block), 16000)]
        large.send(frame(HEADERS, 0, 1, pieces[0]),
                   *[frame(CONTINUATION, 0 if p is not pieces[-1] else END_HEADERS, 1, p) for p in pieces[1:]])
        calm(large, "headers_too_large")


@before_and_after
def row_120(peer, extra):
    """A small block that stands for a huge list."""
    start = peer.encoder.encode(peer.fields(extra=extra + [("bomb", "z" * 3900)]))
    peer.send(frame(HEADERS, END_STREAM | END_HEADERS, 1, start))
    peer.send(frame(HEADERS, END_STREAM | END_HEADERS, 3, peer.encoder.encode(peer.fields()) + b"\xbe" * 15000))
    calm(peer, "headers_too_large")


@with_token
def row_121(server):
    """SETTINGS and PING floods, read and not read; SETTINGS with very many entries."""
    with Watched(server):
        for one in (frame(PING, 0, 0, b"12345678"), settings(INITIAL_WINDOW=65536)):
            with server.peer(receive_buffer=4096) as deaf:
                for _ in range(400):
                    if not deaf.send(one * 500):
                        break
                deaf.closes()
            with server.peer() as peer:
                for _ in range(400):
                    if not peer.send(one * 50):
                        break
                    peer.read(0.001)
                    if peer.is_closed:
                        break
                calm(peer, "too_many_pings", "too_many_idle_frames")
        with server.peer(frame(SETTINGS, 0, 0, struct.pack(">HI", 0x99, 1) * 33)) as peer:
            peer.closes()


@before_and_after
def row_122(peer, extra):
    """Frames without content."""
    stream = peer.open(peer.fields(ECHO + "Collect", extra=extra or [TOKEN]))
    for _ in range(1000):
        if not peer.send(frame(DATA, 0, stream) * 100):
            break
    calm(peer, "too_many_idle_frames")


@with_token
def row_123(server):
    """Answers that nobody takes: the window of HTTP/2 open and TCP's shut, or the other way round."""
    with Watched(server) as other:
        with server.peer(settings(INITIAL_WINDOW=2**31 - 1), receive_buffer=4096) as peer:
            peer.send(window(0, 2**31 - 1 - DEFAULT_WINDOW))
            import echo_pb2
            for _ in range(100):
                peer.call(ECHO + "Expand", echo_pb2.ExpandRequest(count=1 << 20, size=1000), extra=[TOKEN])
            time.sleep(1)
            other.asks()
        with server.peer(settings(INITIAL_WINDOW=0)) as peer:
            streams = [peer.call(ECHO + "Expand", echo_pb2.ExpandRequest(count=1 << 20, size=1000), extra=[TOKEN])
                       for _ in range(100)]
            for stream in streams:  # a byte at a time
                peer.send(window(stream, 1))
            peer.ping()
            other.asks()
        with server.peer() as peer:  # the request a byte at a time
            data = message(echo_pb2.EchoRequest(payload=b"x" * 200))
            stream = peer.open(peer.fields(ECHO + "Echo", extra=[TOKEN]))
            for byte in data:
                peer.send(frame(DATA, 0, stream, bytes([byte])))
            peer.data(stream, b"", end=True)
            assert peer.finish(stream).status == OK


@with_token
def row_124(server):
    """PRIORITY: no tree is kept, and a flood ends."""
    with Watched(server):
        with server.peer() as peer:
            assert peer.ask(extra=[TOKEN]).status == OK
            assert peer.settings[9] == 1, peer.settings  # SETTINGS_NO_RFC7540_PRIORITIES
            for i in range(1, 4000, 2):
                peer.send(frame(PRIORITY, 0, i + 100, struct.pack(">IB", (i + 2) % 64 + 1, 255)))
            assert peer.ask(extra=[TOKEN]).status == OK
            for _ in range(400):
                if not peer.send(frame(PRIORITY, 0, 5001, b"\0\0\0\1\7") * 100):
                    break
            calm(peer, "too_many_idle_frames")


@server_args("--token", "secret")
def row_125(server):
    """Silence at every stage has its end; there is always a place for those who have a token."""
    plain = ssl.create_default_context(cafile=server.certs.ca)
    plain.set_alpn_protocols(["h2"])
    with Watched(server):
        silent = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(3)]  # TCP only
        silent[1].sendall(b"\x16")
        silent[2].sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
        for first in (b"", PREFACE[:10], PREFACE, PREFACE + settings()[:5]):  # TLS only, no SETTINGS
            s = plain.wrap_socket(socket.create_connection(("127.0.0.1", server.port)), server_hostname="localhost")
            s.sendall(first)
            silent.append(s)
        opened = {  # HTTP/2
            "nothing": server.peer(), "header": server.peer(), "known header": server.peer(),
            "unary": server.peer(), "stream": server.peer(), "half": server.peer()}
        opened["header"].send(frame(HEADERS, 0, 1, b"\x83"))
        known = opened["known header"]
        assert known.ask(extra=[TOKEN]).status == OK
        known.send(frame(HEADERS, 0, known.next_stream, b"\x83"))
        calls = {
            "unary": opened["unary"].open(opened["unary"].fields(ECHO + "Echo", extra=[TOKEN])),
            "stream": opened["stream"].open(opened["stream"].fields(ECHO + "Chat", extra=[TOKEN])),
            "half": opened["half"].open(opened["half"].fields(ECHO + "Chat", extra=[TOKEN]))}
        opened["half"].data(calls["half"], message(b"x" * 100)[:50])
        begin = time.monotonic()
        for s in silent:
            s.settimeout(20)
            try:
                while s.recv(4096):
                    pass
            except ConnectionError:
                pass
            s.close()
        assert time.monotonic() - begin < 15
        known.closes(25)
        for name, stream in calls.items():
            answer = opened[name].answers[stream]
            opened[name].until(lambda: answer.is_over, f"an end of {name}", 45)
            assert answer.status == DEADLINE_EXCEEDED, f"{name}: {answer}"
            assert opened[name].ask(extra=[TOKEN]).status == OK
        opened["nothing"].closes(30)
        opened["header"].closes(30)
        for peer in opened.values():
            peer.socket.close()
    check_places(server)
    check_descriptors(server)


def check_places(server):
    """Of one address, of all, of one tenant; strangers make room."""
    few = type(server)(server.program, "--token", "secret", "--net", "connections_per_peer=8")
    try:
        known = few.peer()
        assert known.ask(extra=[TOKEN]).status == OK
        crowd = [socket.create_connection(("127.0.0.1", few.port)) for _ in range(50)]
        with few.peer() as newcomer:  # in a stranger's place
            assert newcomer.ask(extra=[TOKEN]).status == OK
            for s in crowd:
                s.close()
            held = []
            for _ in range(6):
                held.append(few.peer())
                assert held[-1].ask(extra=[TOKEN]).status == OK
            try:
                with few.peer() as one_more:
                    one_more.closes()
            except (ConnectionError, ssl.SSLError):
                pass
            assert known.ask(extra=[TOKEN]).status == OK
        for peer in held:
            peer.socket.close()
        lib.wait_for(lambda: is_served(few), "a place again")
        few.stop()
    finally:
        few.remove()


def is_served(server):
    try:
        with server.peer() as peer:
            return peer.ask(extra=[TOKEN]).status == OK
    except (OSError, AssertionError):
        return False


def check_descriptors(server):
    """Accepting goes on when descriptors had run out."""
    poor = type(server)(server.program, "--token", "secret")
    try:
        resource.prlimit(poor.server.pid, resource.RLIMIT_NOFILE, (64, 64))
        crowd = [socket.create_connection(("127.0.0.1", poor.port)) for _ in range(100)]
        lib.wait_for(lambda: "net.accept_rests" in poor.server.log(), "descriptors to run out")
        for s in crowd:
            s.close()
        lib.wait_for(lambda: is_served(poor), "a connection")
        poor.stop()
    finally:
        poor.remove()


@with_token
def row_127(server):
    """What RFC 9113 calls an error of the connection is one."""
    long = b"\0" * 16385
    cases = {
        "PUSH_PROMISE": frame(PUSH_PROMISE, END_HEADERS, 1, struct.pack(">I", 2) + b"\x82"),
        "DATA on stream 0": frame(DATA, 0, 0, b"x"),
        "HEADERS on stream 0": frame(HEADERS, END_HEADERS, 0, b"\x82"),
        "RST_STREAM on stream 0": frame(RST_STREAM, 0, 0, b"\0\0\0\0"),
        "an even stream": frame(HEADERS, END_HEADERS | END_STREAM, 2, b"\x82"),
        "SETTINGS on a stream": frame(SETTINGS, 0, 1),
        "PING on a stream": frame(PING, 0, 1, b"12345678"),
        "PING of 7 bytes": frame(PING, 0, 0, b"1234567"),
        "SETTINGS of 5 bytes": frame(SETTINGS, 0, 0, b"12345"),
        "an acknowledgement with content": frame(SETTINGS, ACK, 0, b"\0\4\0\0\0\1"),
        "DATA of an idle stream": frame(DATA, 0, 99, b"x"),
        "WINDOW_UPDATE of an idle stream": window(99, 1),
        "CONTINUATION without HEADERS": frame(CONTINUATION, END_HEADERS, 1, b"\x82"),
        "a frame that is too long": frame(DATA, 0, 1, long),
        "padding longer than the frame": frame(DATA, 8, 1, b"\xff\0"),
    }
    with Watched(server):
        for name, data in cases.items():
            with server.peer() as peer:
                peer.open(peer.fields(ECHO + "Collect", extra=[TOKEN]))
                peer.send(data)
                try:
                    peer.closes()
                except AssertionError as e:
                    raise AssertionError(f"{name}: {e}") from e
                assert peer.goaway and peer.goaway[1] not in (NO_ERROR, 2), f"{name}: {peer.goaway}"
        with server.peer() as peer:  # a falling number, of a stream that was never open
            peer.next_stream = 11
            assert peer.ask(extra=[TOKEN]).status == OK
            peer.next_stream = 5
            peer.call(extra=[TOKEN])
            peer.closes()
            assert peer.goaway[1] == PROTOCOL_ERROR, peer.goaway


@with_token
def row_128(server):
    """Nothing is offered that nobody needs; what is unknown is ignored."""
    with server.peer(frame(SETTINGS, 0, 0, struct.pack(">HI", 0xFE03, 1) + struct.pack(">HI", 0x99, 7))) as peer:
        assert peer.ask(extra=[TOKEN]).status == OK
        known = {3, 4, 6, 9}  # no ENABLE_CONNECT_PROTOCOL, no ENABLE_PUSH from a server
        assert set(peer.settings) <= known, peer.settings
        peer.send(frame(0xAA, 0xFF, 0, b"whatever"), frame(0xBB, 0, 1))
        assert peer.ask(extra=[TOKEN]).status == OK
        answer = peer.finish(peer.open([(":method", "CONNECT"), (":authority", "example.org:443")]))
        assert answer.http in (404, 405) or answer.reset is not None, answer
        assert peer.ask(extra=[TOKEN]).status == OK
    with socket.create_connection(("127.0.0.1", server.port)) as plain:
        plain.settimeout(WAIT_SECONDS)
        plain.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
                      b"HTTP2-Settings: \r\n\r\n")
        assert b"101" not in plain.recv(4096)  # no h2c upgrade


@with_token
def row_129(server):
    """The log has a line about abuse, not one of each, and nothing a peer could write into it."""
    for _ in range(20):
        with server.peer() as peer:
            for _ in range(200):
                if not peer.send(frame(PRIORITY, 0, 1, b"\0\0\0\3\7") * 100):
                    break
            peer.closes()
    with server.peer() as peer:
        peer.ask("/evil\u001b[31m/Method", extra=[TOKEN])
        peer.send(frame(GOAWAY, 0, 0, struct.pack(">II", 0, 1) + b"\n2026 error forged=1\x1b[31m"))
        peer.send(os.urandom(1000))
        peer.closes()
    lines = server.server.log().splitlines()
    abuse = [line for line in lines if "net.abuse" in line]
    assert 1 <= len(abuse) <= 12, abuse
    assert not any("forged" in line and line.startswith("2026 error") for line in lines)
    assert "\x1b" not in server.server.log()


def served_from(server, address):
    """Whether a new connection from there, whose call is good, is served."""
    try:
        with server.peer(source=address) as peer:
            return peer.ask(ECHO + "Echo", extra=[TOKEN]).status == OK
    except (AssertionError, OSError):  # closed instead
        return False


def break_http2(server, address):
    with server.peer(source=address) as peer:
        peer.send(frame(DATA, 0, 0, b"x"))
        peer.closes()


def abandon_handshake(server, address):
    with socket.create_connection(("127.0.0.1", server.port), source_address=(address, 0)) as plain:
        plain.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
        plain.settimeout(WAIT_SECONDS)
        plain.shutdown(socket.SHUT_WR)
        while plain.recv(4096):
            pass


@server_args("--token", "secret", "--net", "bad_connections=5")
def row_reconnect(server):
    """Whose connections end badly too often is refused for a while; what it has, and others, are not."""
    for address, end_badly in (("127.0.0.2", break_http2), ("127.0.0.3", abandon_handshake)):
        with server.peer(source=address) as live:
            for _ in range(5):
                end_badly(server, address)
                assert live.ask(ECHO + "Echo", extra=[TOKEN]).status == OK
            end = time.monotonic() + 2 * WAIT_SECONDS
            while served_from(server, address):  # on a slow machine the first hold may be over already
                try:
                    end_badly(server, address)
                except OSError:
                    pass
                assert time.monotonic() < end, f"{address} is never held back"
            assert live.ask(ECHO + "Echo", extra=[TOKEN]).status == OK
            assert served_from(server, "127.0.0.1")
            lib.wait_for(lambda: served_from(server, address), f"{address} to be let in again")
            assert live.ask(ECHO + "Echo", extra=[TOKEN]).status == OK
        lines = [line for line in server.server.log().splitlines() if "net.held_back" in line and address in line]
        assert len(lines) == 1, lines


if __name__ == "__main__":
    main(globals())
