"""Rows 64 to 92: the shape of answers, statuses, deadlines, cancelling."""

import base64
import struct

from peer import (CANCEL, DATA, DEADLINE_EXCEEDED, ECHO, END_STREAM, INTERNAL, MIB, NO_ERROR, OK, PIECE,
                  RESOURCE_EXHAUSTED, SERVICE, UNAVAILABLE, UNIMPLEMENTED, UNKNOWN, WINDOW_UPDATE, expect,
                  expect_plain, frame, lib, main, message, reset, server_args, settings, window)


def pb():
    import testing_pb2
    return testing_pb2


def sleep(ms=60_000):
    return pb().SleepRequest(sleep_ms=ms)


def output(*sizes):
    return pb().StreamingOutputCallRequest(response_parameters=[{"size": s} for s in sizes])


def failure(code, text="", **more):
    import echo_pb2
    return echo_pb2.EchoRequest(failure=echo_pb2.Failure(code=code, message=text, **more))


def counted(server, name, above, what):
    lib.wait_for(lambda: getattr(server.counters(), name) > above, what)


def row_64(server):
    """HEADERS, DATA, HEADERS with END_STREAM; what is in the first and the last."""
    with server.peer() as peer:
        for stream in (peer.call(SERVICE + "EmptyCall"), peer.call(SERVICE + "StreamingOutputCall", output(1, 2, 3))):
            answer = expect(peer.finish(stream), OK)
            assert answer.order[0] == "HEADERS" and answer.order[-1] == "HEADERS E", answer
            assert set(answer.order[1:-1]) == {"DATA"}, answer
            assert [k for k, _ in answer.blocks[0]][:2] == [b":status", b"content-type"], answer
            assert answer.get("grpc-status", 0) is None
            assert answer.get(":status", 1) is None and answer.get("content-type", 1) is None, answer


def row_65(server):
    """Trailers-only when nothing was said before the failure."""
    with server.peer() as peer:
        for stream in (peer.call(SERVICE + "None"), peer.call(ECHO + "Echo", failure(5, "no")),
                       peer.call(SERVICE + "UnaryCall", raw=b"\2"),
                       peer.call(SERVICE + "FullDuplexCall", pb().StreamingOutputCallRequest(
                           response_status={"code": 5, "message": "no"}))):
            answer = peer.finish(stream)
            assert answer.is_trailers_only and answer.http == 200, answer
            assert answer.get("content-type").startswith("application/grpc") and answer.status > 0, answer


def row_66(server):
    """A stream of no messages and OK."""
    with server.peer() as peer:
        for stream in (peer.call(SERVICE + "StreamingOutputCall", output()),
                       peer.call(SERVICE + "FullDuplexCall", raw=b"")):
            answer = expect(peer.finish(stream), OK)
            assert answer.data == b"" and answer.order in (["HEADERS E"], ["HEADERS", "HEADERS E"]), answer


def row_67(server):
    """grpc-status is a plain number, always there; no text with OK."""
    with server.peer() as peer:
        answer = expect(peer.ask(), OK)
        assert answer.all("grpc-status") == ["0"] and answer.get("grpc-message") is None, answer
        for code in range(1, 17):
            assert peer.ask(ECHO + "Echo", failure(code, "x")).all("grpc-status") == [str(code)]


def row_68(server):
    """Headers wait for the first message."""
    with server.peer() as peer:
        stream = peer.open(peer.fields(SERVICE + "FullDuplexCall"))
        peer.ping()
        assert peer.answers[stream].order == [], peer.answers[stream]
        peer.send(frame(DATA, 0, stream, message(output(1))))
        peer.until(lambda: peer.answers[stream].data, "the first answer")
        assert peer.answers[stream].order[0] == "HEADERS"
        peer.send(frame(DATA, END_STREAM, stream))
        expect(peer.finish(stream), OK)


def row_69(server):
    """Trailers come after all DATA, also when it waits for window."""
    with server.peer(settings(INITIAL_WINDOW=1)) as peer:
        peer.auto_window = False
        stream = peer.call(SERVICE + "UnaryCall", pb().SimpleRequest(response_size=100))
        answer = peer.answers[stream]
        while not answer.is_over:
            have = len(answer.data)
            peer.until(lambda: answer.is_over or len(answer.data) > have, "one more byte")
            peer.send(window(stream, 1))
        expect(answer, OK)
        assert len(answer.messages()[0]) > 100 and answer.order[-1] == "HEADERS E", answer.order
    with server.peer() as peer:
        for size in (65_535, 65_536, 65_530):
            request = pb().SimpleRequest(response_size=size - 5 - 8)  # prefix, and two lengths with their tags
            answer = expect(peer.ask(SERVICE + "UnaryCall", request), OK)
            assert len(answer.data) == size, len(answer.data)
            assert answer.order[-1] == "HEADERS E"


def row_74(server):
    """HTTP is 200 whatever the status; other codes are for what is no gRPC."""
    with server.peer() as peer:
        for code in range(0, 17):
            assert peer.ask(ECHO + "Echo", failure(code, "x")).http == 200
        assert peer.ask(SERVICE + "None").http == 200
        expect_plain(peer.ask(replace={":method": "GET"}), 405)


def row_75(server):
    """grpc-message: UTF-8, percent-encoded with upper-case hex."""
    rows = (("plain ~!\"#$&'()*+,-./:;<=>?@[]^_`{|}", None), ("100%", "100%25"), ("ä€😀", "%C3%A4%E2%82%AC%F0%9F%98%80"),
            ("%41", "%2541"), (" both ends ", "%20both ends%20"), ("\u007f", None))
    with server.peer() as peer:
        for text, wire in rows:
            answer = peer.ask(ECHO + "Echo", failure(3, text))
            assert wire is None or answer.text == wire, (text, answer.text)
            assert all(0x20 <= ord(c) <= 0x7E for c in answer.text), answer
        text = "".join(map(chr, range(0x20, 0x7F)))
        assert peer.ask(ECHO + "Echo", failure(3, text)).text == "%20" + text[1:].replace("%", "%25")
        # Line ends of the standard case special_status_message.
        text = peer.ask(ECHO + "Echo", failure(3, "\t\ntest with whitespace\r\nand Unicode BMP ☺ and non-BMP 😈\t\n")).text
        assert "%E2%98%BA" in text and "%F0%9F%98%88" in text and "\n" not in text, text


def row_77(server):
    """grpc-status-details-bin is a google.rpc.Status with the same code and text."""
    with server.peer() as peer:
        answer = peer.ask(ECHO + "Echo", failure(8, "tä", reason="QUOTA", metadata={"max": "5"}))
        raw = answer.get("grpc-status-details-bin")
        assert "=" not in raw
        fields = lib.wire_fields(base64.b64decode(raw + "=" * (-len(raw) % 4)))
        assert fields[1] == [8] and fields[2] == ["tä".encode()] and len(fields[3]) >= 1, fields
        assert expect(peer.ask(), OK).get("grpc-status-details-bin") is None


def row_78(server):
    """A code that is none becomes UNKNOWN; so does a handler's failure without a reason."""
    with server.peer() as peer:
        for code in (17, 100, 65_535):
            expect(peer.ask(ECHO + "Echo", failure(code, "x")), UNKNOWN)
        import echo_pb2
        expect(peer.ask(ECHO + "Echo", echo_pb2.EchoRequest(fail_silently=True)), UNKNOWN)


@server_args("--max-message", "1000", "--token", "t")
def row_79(server):
    """What the library itself answers uses none of the codes reserved for applications."""
    reserved = {3, 5, 6, 9, 10, 11, 15}
    token = [("authorization", "Bearer t")]
    gzip_named = token + [("grpc-encoding", "gzip")]
    with server.peer() as peer:
        answers = [peer.ask(), peer.ask(SERVICE + "None"), peer.ask("/"),
                   peer.ask(SERVICE + "UnaryCall", raw=b"", extra=token),
                   peer.ask(SERVICE + "UnaryCall", raw=message(b"") * 2, extra=token),
                   peer.ask(SERVICE + "UnaryCall", raw=message(b"\xff"), extra=token),
                   peer.ask(SERVICE + "UnaryCall", raw=message(b"\x12"), extra=token),
                   peer.ask(SERVICE + "UnaryCall", raw=b"\2\0\0\0\0", extra=token),
                   peer.ask(SERVICE + "UnaryCall", raw=message(b"", 1), extra=token),
                   peer.ask(SERVICE + "UnaryCall", raw=message(b"", 1), extra=gzip_named),
                   peer.ask(SERVICE + "UnaryCall", raw=message(b"x" * 2000), extra=token),
                   peer.ask(SERVICE + "UnaryCall", extra=token + [("grpc-timeout", "x")]),
                   peer.ask(SERVICE + "UnaryCall", extra=token + [("a-bin", "x")]),
                   peer.ask(SERVICE + "Sleep", sleep(), extra=token + [("grpc-timeout", "1n")]),
                   peer.ask(SERVICE + "UnaryCall", extra=token + [("grpc-encoding", "x")], raw=message(b"", 1))]
        for answer in answers:
            assert answer.status and answer.status not in reserved, answer


@server_args("--memory", str(MIB))
def row_81(server):
    """Out of memory is RESOURCE_EXHAUSTED, for that call only; shutting down is UNAVAILABLE."""
    with server.peer() as peer:
        large = peer.call(SERVICE + "UnaryCall", bytes(4 * MIB))
        expect(peer.finish(large), RESOURCE_EXHAUSTED, "memory")
        peer.works()
        running = peer.call(SERVICE + "Sleep", sleep(500))
        late = peer.open(peer.fields(SERVICE + "FullDuplexCall"))
        peer.ping()
        server.server.process.terminate()
        peer.until(lambda: peer.goaway, "GOAWAY")
        expect(peer.finish(running), OK)
        expect(peer.finish(late), UNAVAILABLE)


def row_82(server):
    """At the deadline the stream ends with DEADLINE_EXCEEDED and the handler is told."""
    with server.peer() as peer:
        timeout = [("grpc-timeout", "100m")]
        answer = expect(peer.ask(SERVICE + "Sleep", sleep(), extra=timeout), DEADLINE_EXCEEDED)
        assert answer.is_trailers_only, answer
        stream = peer.open(peer.fields(SERVICE + "FullDuplexCall", extra=timeout))  # waiting for the caller
        expect(peer.finish(stream), DEADLINE_EXCEEDED)
        stream = peer.call(SERVICE + "FullDuplexCall", output(1), end=False, extra=timeout)  # after a message
        answer = expect(peer.finish(stream), DEADLINE_EXCEEDED)
        assert len(answer.messages()) == 1
        stream = peer.open(peer.fields(SERVICE + "UnaryCall", extra=timeout))  # half a request
        peer.send(frame(DATA, 0, stream, b"\0\0\0\1\0abc"))
        expect(peer.finish(stream), DEADLINE_EXCEEDED)
        peer.works()
    assert server.counters().deadline_exceeded >= 1
    with server.peer(settings(INITIAL_WINDOW=0)) as peer:  # it cannot read the answer
        stream = peer.call(SERVICE + "UnaryCall", pb().SimpleRequest(response_size=200_000), extra=timeout)
        answer = peer.finish(stream)
        assert answer.reset == CANCEL or answer.status == DEADLINE_EXCEEDED, answer


def row_85(server):
    """RST_STREAM of any code cancels; nothing more comes on that stream; others go on."""
    for code in (0, 1, 2, 5, 7, 8, 11, 0xFFFF):
        with server.peer() as peer:
            before = server.counters().cancelled
            stream = peer.call(SERVICE + "Sleep", sleep(), end=code % 2 == 0)
            other = peer.open(peer.fields(SERVICE + "FullDuplexCall"))
            if code % 2:  # only half of the request came: no handler runs yet
                peer.send(reset(stream, code))
            else:
                lib.wait_for(lambda: server.counters().calls_open >= 3, "both calls")
                peer.send(reset(stream, code))
                counted(server, "cancelled", before, "the handler is cancelled")
            peer.ping()
            assert peer.answers[stream].order == [], peer.answers[stream]
            peer.send(frame(DATA, END_STREAM, other, message(output(5))))
            assert len(expect(peer.finish(other), OK).messages()) == 1
    with server.peer() as peer:  # after the first answer
        stream = peer.call(SERVICE + "FullDuplexCall", output(10), end=False)
        peer.until(lambda: peer.answers[stream].data, "the first answer")
        peer.send(reset(stream))
        peer.works()


def row_86(server):
    """A lost connection cancels its handlers."""
    before = server.counters().cancelled
    peer = server.peer()
    for _ in range(10):
        peer.call(SERVICE + "Sleep", sleep())
    lib.wait_for(lambda: server.counters().calls_open >= 10, "calls")
    peer.socket.close()
    counted(server, "cancelled", before + 9, "all are cancelled")


def row_89(server):
    """Trailers before the caller's END_STREAM: RST_STREAM NO_ERROR after them."""
    with server.peer() as peer:
        for stream in (peer.call(SERVICE + "None", end=False), peer.call(SERVICE + "UnaryCall", raw=b"\2\0\0\0\0", end=False),
                       peer.call(SERVICE + "FullDuplexCall", pb().StreamingOutputCallRequest(
                           response_status={"code": 5}), end=False)):
            answer = peer.answers[stream]
            peer.until(lambda a=answer: a.reset is not None, "RST_STREAM")
            assert answer.reset == NO_ERROR and answer.order[-2:] == ["HEADERS E", "RST"], answer
        expect(peer.ask(), OK)
        peer.ping()
        assert "RST" not in peer.answers[peer.next_stream - 2].order


def row_90(server):
    """The rest of an upload after an early error is read, and its window given back."""
    with server.peer() as peer:
        for path in (SERVICE + "None", SERVICE + "UnaryCall"):
            stream = peer.open(peer.fields(path))
            if path.endswith("UnaryCall"):
                peer.send(frame(DATA, 0, stream, b"\2\0\0\0\0"))
            answer = peer.finish(stream)
            assert answer.status in (INTERNAL, UNIMPLEMENTED), answer
            sent = 0
            while sent < 10 * MIB:  # a peer that did not hear of the reset yet; as the window allows
                size = min(PIECE, connection_window(peer, sent))
                peer.send(frame(DATA, 0, stream, bytes(size)))
                sent += size
        peer.works()


def connection_window(peer, sent):
    """Bytes the connection still takes; waits for more of it when there are none."""
    def left():
        given = sum(struct.unpack(">I", p)[0] for kind, _, p in peer.frames if kind == WINDOW_UPDATE)
        return 65_535 + given - peer.window_used.get(0, 0)
    peer.until(lambda: left() > 0, "window of the connection")
    size = min(PIECE, left())
    peer.window_used[0] = peer.window_used.get(0, 0) + size
    return size


def row_92(server):
    """Half-close is the end of input; the handler may go on; a bidi handler may end before it."""
    with server.peer() as peer:
        stream = peer.open(peer.fields(SERVICE + "HalfDuplexCall"))
        peer.send(frame(DATA, 0, stream, message(output(1, 2))))
        peer.ping()
        assert peer.answers[stream].order == []
        peer.send(frame(DATA, END_STREAM, stream, message(output(3))))
        assert len(expect(peer.finish(stream), OK).messages()) == 3
        stream = peer.open(peer.fields(SERVICE + "StreamingInputCall"))
        peer.send(frame(DATA, END_STREAM, stream))
        assert len(expect(peer.finish(stream), OK).messages()) == 1
        slow = pb().StreamingOutputCallRequest(response_parameters=[{"size": 1, "interval_us": 20_000}] * 5)
        assert len(expect(peer.ask(SERVICE + "FullDuplexCall", slow), OK).messages()) == 5
        import echo_pb2
        stream = peer.call(ECHO + "Chat", echo_pb2.ChatRequest(payload=b"x", finish=True), end=False)
        answer = expect(peer.finish(stream), OK)  # ended by the handler
        assert len(answer.messages()) == 1
        peer.works()


if __name__ == "__main__":
    main(globals())
