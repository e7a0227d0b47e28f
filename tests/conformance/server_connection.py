"""Rows 94 to 111: flow control and the life of a connection."""

import signal
import socket
import struct
import time

from peer import (ACK, DATA, ECHO, END_STREAM, ENHANCE_YOUR_CALM, FLOW_CONTROL_ERROR, GOAWAY, HEADERS,
                  INITIAL_WINDOW, KIB, MAX_CONCURRENT, MIB, NO_ERROR, OK, RSS_FACTOR, PADDED, PING, PROTOCOL_ERROR,
                  REFUSED_STREAM, UNAVAILABLE, WINDOW_UPDATE, frame, main, message, reset, server_args,
                  settings, window)
import lib

HEALTH = "/grpc.health.v1.Health/"
DEFAULT_WINDOW = 65535
DRAIN_SECONDS = 5  # the end of the process, whatever clients do


def echo(**fields):
    import echo_pb2
    return echo_pb2.EchoRequest(**fields)


def expand(count, size):
    import echo_pb2
    return echo_pb2.ExpandRequest(count=count, size=size)


def payload(answer):
    import echo_pb2
    assert answer.status == OK, answer
    return echo_pb2.EchoResponse.FromString(answer.messages()[0]).payload


def sleep_call(peer, milliseconds, **kwargs):
    return peer.call(ECHO + "Echo", echo(sleep_ms=milliseconds), **kwargs)


def row_94(server):
    """Windows of 0, 1 and below 0; SETTINGS_MAX_FRAME_SIZE."""
    with server.peer(settings(INITIAL_WINDOW=0)) as peer:  # 0, raised by SETTINGS
        stream = peer.call(ECHO + "Echo", echo(answer_bytes=1000))
        peer.ping()
        assert peer.answers[stream].order == ["HEADERS"], peer.answers[stream]
        peer.send(settings(INITIAL_WINDOW=100000))
        assert len(payload(peer.finish(stream))) == 1000
    with server.peer(settings(INITIAL_WINDOW=1)) as peer:  # a byte at a time
        peer.auto_window = False
        stream = peer.call(ECHO + "Echo", echo(answer_bytes=20))
        answer = peer.answers[stream]
        for have in range(1, 28):
            peer.until(lambda: len(answer.data) == have or answer.is_over, "the next byte")
            assert len(answer.data) <= have
            peer.send(window(stream, 1))
        assert len(payload(peer.finish(stream))) == 20
    with server.peer() as peer:  # below 0: nothing goes until it is above again
        peer.auto_window = False
        stream = peer.call(ECHO + "Expand", expand(1000, 10000))
        answer = peer.answers[stream]
        peer.until(lambda: len(answer.data) == DEFAULT_WINDOW, "a window full")
        peer.send(settings(INITIAL_WINDOW=1000), window(0, MIB), window(stream, 50000))
        peer.ping()
        assert len(answer.data) == DEFAULT_WINDOW, len(answer.data)
        peer.send(window(stream, 14536))  # 1000 - 65535 + 50000 + 14536 = 1
        peer.until(lambda: len(answer.data) == DEFAULT_WINDOW + 1, "one byte")
        peer.send(reset(stream))
        peer.works()
    with server.peer(settings(MAX_FRAME=16384)) as peer:
        stream = peer.call(ECHO + "Echo", echo(answer_bytes=100000))
        sizes = []
        take = peer.take
        peer.take = lambda kind, flags, s, data: (sizes.append(len(data)), take(kind, flags, s, data))
        assert len(payload(peer.finish(stream))) == 100000
        assert max(sizes) <= 16384, sizes


def row_95(server):
    """A message larger than any window."""
    with server.peer() as peer:
        size = 3 * MIB
        stream = peer.open(peer.fields(ECHO + "Echo"))
        data = message(echo(payload=b"x" * size))
        send_with_window(peer, stream, data)
        assert payload(peer.finish(stream)) == b"x" * size


def send_with_window(peer, stream, data):
    """As flow control lets us, END_STREAM at the end."""
    peer.until(lambda: peer.settings, "SETTINGS")
    left = {0: DEFAULT_WINDOW, stream: peer.settings[INITIAL_WINDOW]}
    take = peer.take

    def counting(kind, flags, s, body):
        if kind == WINDOW_UPDATE and s in left:
            left[s] += int.from_bytes(body, "big")
        take(kind, flags, s, body)

    left[0] += sum(int.from_bytes(p, "big") for k, _, p in peer.frames if k == WINDOW_UPDATE)
    peer.take = counting
    at = 0
    while at < len(data):
        peer.until(lambda: min(left.values()) > 0, "window")
        n = min(16384, len(data) - at, *left.values())
        peer.send(frame(DATA, END_STREAM if at + n == len(data) else 0, stream, data[at:at + n]))
        left[0] -= n
        left[stream] -= n
        at += n
    peer.take = take


def row_96(server):
    """What is dropped, reset, refused or padding comes back to the connection's window."""
    with server.peer() as peer:
        peer.until(lambda: peer.settings, "SETTINGS")
        peer.ping()
        total = DEFAULT_WINDOW + sum(int.from_bytes(p, "big") for k, _, p in peer.frames if k == WINDOW_UPDATE)
        sent = 0
        block = b"\0" * 16000
        while sent < 3 * total:  # would stop at `total` if it were lost
            kind = sent // 16000 % 4
            before = sum(int.from_bytes(p, "big") for k, _, p in peer.frames if k == WINDOW_UPDATE)
            if kind == 0:  # of a method that is not there
                stream = peer.call("/none.Service/Method", raw=b"", end=False)
                peer.send(frame(DATA, 0, stream, block))
            elif kind == 1:  # of a call that is cancelled
                stream = peer.open(peer.fields(ECHO + "Collect"))
                peer.send(frame(DATA, 0, stream, block), reset(stream))
            elif kind == 2:  # padding
                stream = peer.open(peer.fields(ECHO + "Collect"))
                peer.send(*[frame(DATA, PADDED, stream, b"\xff" + b"\0" * 255)] * 62, reset(stream))
            else:  # a message that is wrong
                stream = peer.open(peer.fields(ECHO + "Collect"))
                peer.send(frame(DATA, 0, stream, b"\7" + block[1:]))
            sent += 16000
            if sent % (16000 * 16) == 0:
                peer.ping()
                given = sum(int.from_bytes(p, "big") for k, _, p in peer.frames if k == WINDOW_UPDATE)
                used = sent - (given - (total - DEFAULT_WINDOW))
                assert used < total / 2 + 16000 * 20, f"{used} of {total} bytes did not come back ({before})"
        peer.works()


def row_97(server):
    """One stream whose messages nobody takes does not stop a hundred calls beside it."""
    import echo_pb2
    with server.peer() as peer:
        peer.until(lambda: peer.settings, "SETTINGS")
        stream = peer.open(peer.fields(ECHO + "Collect"))
        peer.data(stream, message(echo_pb2.CollectRequest(pause_ms=3000)))
        peer.data(stream, message(echo_pb2.CollectRequest(payload=b"x" * 900000)))
        begin = time.monotonic()
        for _ in range(100):
            assert payload(peer.ask(ECHO + "Echo", echo(payload=b"y" * 1000))) == b"y" * 1000
        assert not peer.answers[stream].is_over and time.monotonic() - begin < 3, "the paused stream was not"
        peer.data(stream, b"", end=True)
        assert peer.finish(stream).status == OK


def row_98(server):
    """A reader that stops: what waits for it is bounded."""
    before = server.server.rss_kib()
    with server.peer(settings(INITIAL_WINDOW=2**31 - 1), receive_buffer=4096) as peer:
        peer.send(window(0, 2**31 - 1 - DEFAULT_WINDOW))
        for _ in range(50):
            peer.call(ECHO + "Expand", expand(1 << 40, 100000))
        time.sleep(2)
        grown = server.server.rss_kib() - before
        assert grown < 50 * 400 * RSS_FACTOR, f"{grown} KiB for 50 streams"
    with server.peer() as peer:
        peer.works()


def row_100(server):
    """Windows: 1 MiB a stream, 4 MiB the connection."""
    with server.peer() as peer:
        peer.until(lambda: peer.settings, "SETTINGS")
        peer.ping()
        assert peer.settings[INITIAL_WINDOW] == MIB, peer.settings
        raised = sum(int.from_bytes(p, "big") for k, _, p in peer.frames if k == WINDOW_UPDATE)
        assert DEFAULT_WINDOW + raised == 4 * MIB, raised


def row_101(server):
    """WINDOW_UPDATE of 0 and past 2^31-1; SETTINGS_INITIAL_WINDOW_SIZE past it."""
    with server.peer() as peer:
        stream = peer.open(peer.fields(ECHO + "Chat"))
        peer.send(window(stream, 2**31 - 1))
        assert peer.finish(stream).reset == FLOW_CONTROL_ERROR, peer.answers[stream]
        peer.works()
        stream = peer.open(peer.fields(ECHO + "Chat"))
        peer.send(window(stream, 0))
        assert peer.finish(stream).reset == PROTOCOL_ERROR, peer.answers[stream]
        peer.works()
    for value, code in ((0, PROTOCOL_ERROR), (2**31 - 1, FLOW_CONTROL_ERROR)):
        with server.peer() as peer:
            peer.send(window(0, value))
            peer.closes()
            assert peer.goaway[1] == code, peer.goaway
    with server.peer(settings(INITIAL_WINDOW=2**31)) as peer:
        peer.closes()
        assert peer.goaway[1] == FLOW_CONTROL_ERROR, peer.goaway


def row_102(server):
    """MAX_CONCURRENT_STREAMS is announced; streams past it are refused, the connection lives."""
    with server.peer() as peer:
        peer.until(lambda: peer.settings, "SETTINGS")
        limit = peer.settings[MAX_CONCURRENT]
        assert 100 <= limit <= 1000, limit
    with server.peer() as peer:  # a burst before SETTINGS are known
        streams = [sleep_call(peer, 500) for _ in range(limit + 300)]
        answers = [peer.finish(stream) for stream in streams]
        assert [a.status for a in answers[:limit]] == [OK] * limit
        assert [a.reset for a in answers[limit:]] == [REFUSED_STREAM] * 300
        peer.works()
    assert server.counters().finished == limit


def ends(server, begin, seconds=DRAIN_SECONDS):
    """The process ended by itself, and with success."""
    status = server.server.wait(seconds + 2)
    took = time.monotonic() - begin
    assert status == 0 and took <= seconds, f"ended with {status} after {took:.1f} s"


def row_105(server):
    """SIGTERM: NOT_SERVING, GOAWAY twice, running calls finish, the end."""
    peer = server.peer()
    watch = peer.call(HEALTH + "Watch", b"")
    peer.until(lambda: peer.answers[watch].data, "the present state")
    running = sleep_call(peer, 1500)
    idle = server.peer()
    idle.ping()
    begin = time.monotonic()
    server.server.process.send_signal(signal.SIGTERM)
    peer.until(lambda: peer.goaway, "the first GOAWAY")
    assert peer.goaway[:2] == (2**31 - 1, NO_ERROR), peer.goaway
    # Calls sent before we answer its PING are still taken.
    late = sleep_call(peer, 1)
    states = peer.finish(watch).messages()
    assert states == [b"\x08\x01", b"\x08\x02"], states
    ping = next(p for k, f, p in peer.frames if k == PING and not f & ACK)
    peer.send(frame(PING, ACK, 0, ping))
    peer.until(lambda: peer.goaway[0] != 2**31 - 1, "the second GOAWAY")
    assert peer.goaway[:2] == (late, NO_ERROR), peer.goaway
    assert peer.finish(late).status == OK
    assert peer.finish(running).status == OK
    peer.closes()
    idle.closes(3)
    try:
        socket.create_connection(("127.0.0.1", server.port), 1).close()
        raise AssertionError("it still listens")
    except ConnectionError:
        pass
    ends(server, begin)
    check_ends_whatever_clients_do(server)


def check_ends_whatever_clients_do(server):
    """Clients that never read, hold streams open, are in the middle of a handshake, or say nothing."""
    again = type(server)(server.program, *server.args)
    crowd = []
    try:
        deaf = again.peer(settings(INITIAL_WINDOW=2**31 - 1), receive_buffer=4096)
        deaf.send(window(0, 2**31 - 1 - DEFAULT_WINDOW))
        for _ in range(10):
            deaf.call(ECHO + "Expand", expand(1 << 40, 100000))
        holder = again.peer()
        for _ in range(20):
            holder.open(holder.fields(ECHO + "Chat"))
        asleep = again.peer()
        late = sleep_call(asleep, 60000)
        asleep.ping()
        half = again.peer()
        half.send(frame(HEADERS, 0, 1, b"\x83"))
        for first in (b"", b"\x16\x03\x01\x02\x00\x01"):
            s = socket.create_connection(("127.0.0.1", again.port))
            s.sendall(first)
            crowd.append(s)
        begin = time.monotonic()
        again.server.process.send_signal(signal.SIGTERM)
        answer = asleep.finish(late)
        assert answer.status == UNAVAILABLE, answer
        ends(again, begin)
    finally:
        again.remove()
        for s in crowd:
            s.close()


row_105.server_args = ("--drain-seconds", "3")


def row_107(server):
    """GOAWAY from a client does not end its calls."""
    with server.peer() as peer:
        stream = sleep_call(peer, 300)
        peer.send(frame(GOAWAY, 0, 0, struct.pack(">II", 0, NO_ERROR)))
        assert peer.finish(stream).status == OK
        peer.closes()


@server_args("--net", "max_age=1500", "--net", "max_age_grace=1500")
def row_108(server):
    """Maximum age with a grace for calls; maximum idleness."""
    with server.peer() as peer:
        short, long = sleep_call(peer, 2000), sleep_call(peer, 60000)
        peer.until(lambda: peer.goaway, "the first GOAWAY")
        assert peer.goaway[:2] == (2**31 - 1, NO_ERROR), peer.goaway
        peer.until(lambda: peer.goaway[2], "the second GOAWAY")
        assert peer.goaway == (long, NO_ERROR, b"max_age"), peer.goaway
        assert peer.finish(short).status == OK
        assert peer.finish(long).status == UNAVAILABLE
        peer.closes()
    idle = type(server)(server.program, "--net", "max_idle=1000")
    try:
        with idle.peer() as peer:
            stream = sleep_call(peer, 2500)
            assert peer.finish(stream).status == OK and peer.goaway is None  # not idle meanwhile
            peer.until(lambda: peer.goaway and peer.goaway[2], "GOAWAY")
            assert peer.goaway[1:] == (NO_ERROR, b"max_idle"), peer.goaway
            peer.closes()
        idle.stop()
    finally:
        idle.remove()


@server_args("--net", "keepalive_time=500", "--net", "keepalive_timeout=1500")
def row_109(server):
    """A silent client gets a PING, one that answers stays, one that does not is closed."""
    with server.peer() as good, server.peer() as silent:
        good.ping()
        stream = sleep_call(silent, 60000)
        silent.ping()
        pings = []
        end = time.monotonic() + 10
        while time.monotonic() < end and not pings[2:]:
            good.read(0.1)
            asked = [p for k, f, p in good.frames if k == PING and not f & ACK]
            for p in asked[len(pings):]:
                good.send(frame(PING, ACK, 0, p))
            pings = asked
        assert pings[2:], pings
        good.works()
        silent.closes(10)
        assert not silent.answers[stream].is_over
    lib.wait_for(lambda: server.counters().calls_open == 1, "the silent client's call to end")


def row_110(server):
    """PING is answered with the same bytes, before other frames."""
    with server.peer() as peer:
        order = []
        take = peer.take

        def noting(kind, flags, stream, data):
            order.append((kind, flags, data))
            take(kind, flags, stream, data)

        peer.take = noting
        streams = [peer.call(ECHO + "Expand", expand(100, 10000)) for _ in range(6)]
        peer.send(frame(PING, 0, 0, b"\0\1\2\3\4\5\6\7"))
        for stream in streams:
            assert peer.finish(stream).status == OK
        acks = [i for i, one in enumerate(order) if one == (PING, ACK, b"\0\1\2\3\4\5\6\7")]
        assert len(acks) == 1, "the answer to PING"
        before = sum(len(data) for kind, _, data in order[:acks[0]] if kind == DATA)
        assert before < 512 * KIB, f"{before} bytes of DATA before it"


@server_args("--net", "ping_min_interval=10000")
def row_111(server):
    """PINGs that come too often: too_many_pings; those between answers are fine."""
    with server.peer() as peer:
        stream = peer.open(peer.fields(ECHO + "Chat"))
        peer.send(*[frame(PING, 0, 0, b"12345678")] * 6)
        peer.closes()
        assert peer.goaway[1:] == (ENHANCE_YOUR_CALM, b"too_many_pings"), peer.goaway
        assert peer.answers[stream].reset is None
    with server.peer() as peer:
        for _ in range(30):  # what a window-measuring client does
            peer.works()
            peer.ping()
    assert server.counters().connections_open == 1


if __name__ == "__main__":
    main(globals())
