"""Rows 26 to 41: metadata and authorization."""

import base64

from peer import (ECHO, INTERNAL, INVALID_ARGUMENT, KIB, OK, PROTOCOL_ERROR, RESOURCE_EXHAUSTED, RSS_FACTOR, SERVICE,
                  UNAUTHENTICATED, Answer, expect, expect_reset, frame, main, message, server_args, settings,
                  CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, MIB)

INITIAL, TRAILING = "x-test-initial", "x-test-trailing-bin"


def b64(data, padded=False):
    text = base64.b64encode(data).decode()
    return text if padded else text.rstrip("=")


def echo(peer, *extra, **kwargs):
    return expect(peer.ask(extra=list(extra), **kwargs), OK)


def row_26(server):
    """Keys outside the alphabet: nothing of them reaches or hurts a call."""
    with server.peer() as peer:
        for key in ("a", "0-9_.z", "x" * 200):
            echo(peer, (key, "1"))
        for key in ("x test", "x\u00e9".encode("latin-1"), "x/y", "x@y", ""):  # HTTP/2 or we refuse: only that stream
            answer = peer.ask(extra=[(key, "1")])
            assert answer.status == OK or answer.reset == PROTOCOL_ERROR, answer
        peer.works()


def row_27(server):
    """Printable ASCII comes back as it is; spaces at the ends may go."""
    value = "".join(map(chr, range(0x21, 0x7F)))
    with server.peer() as peer:
        answer = echo(peer, (INITIAL, value), (INITIAL, "in the middle"), (INITIAL, "  ends  "), (INITIAL, ""))
        assert [v.strip(" ") for v in answer.all(INITIAL, 0)] == [value, "in the middle", "ends", ""], answer
        for v in answer.all(INITIAL, 0):
            assert all(0x20 <= ord(c) <= 0x7E for c in v)


def row_28(server):
    """Bytes that HTTP allows and gRPC does not never fail a call, and are never sent back broken."""
    with server.peer() as peer:
        for value in (b"a\tb", "é".encode(), b"\x80\xff", "日本".encode(), b"a\xc3"):
            answer = echo(peer, (INITIAL, value), (INITIAL, "good"))
            got = answer.all(INITIAL, 0)
            assert "good" in got and len(got) <= 2, answer
            assert all(0x20 <= ord(c) <= 0x7E for v in got for c in v), answer
        peer.works()


def row_29(server):
    """NUL, CR and LF in a value are malformed."""
    with server.peer() as peer:
        for value in (b"a\0b", b"a\rb", b"a\nb", b"\0", b"a\r\nb: c"):
            for key in (INITIAL, "authorization", TRAILING):
                expect_reset(peer.ask(extra=[(key, value)]))
        peer.works()


def row_30(server):
    """-bin is base64, padded or not; what is sent is not padded."""
    with server.peer() as peer:
        for size in range(0, 8):
            data = bytes(range(250, 250 + size)) if size < 6 else bytes(range(size))
            for padded in (True, False):
                answer = echo(peer, (TRAILING, b64(data, padded)))
                assert answer.all(TRAILING) == [b64(data)], answer
        every = bytes(range(256))
        assert echo(peer, (TRAILING, b64(every))).all(TRAILING) == [b64(every)]


def row_31(server):
    """A -bin value is split at commas, another is not; two are sent as two fields."""
    with server.peer() as peer:
        for value in ("AAE,/w", "AAE=,/w==", "AAE, /w", "AAE=,/w"):
            assert echo(peer, (TRAILING, value)).all(TRAILING) == ["AAE", "/w"]
        assert echo(peer, (TRAILING, "AA,,AQ")).all(TRAILING) == ["AA", "", "AQ"]
        assert echo(peer, (INITIAL, "a,b, c")).all(INITIAL, 0) == ["a,b, c"]
        assert echo(peer, (TRAILING, "AA"), (TRAILING, "AQ,Ag")).all(TRAILING) == ["AA", "AQ", "Ag"]


def row_32(server):
    """Bad base64 costs the call."""
    with server.peer() as peer:
        for value in ("A", "AAAAA", "A$==", "A===", "====", "AA=A", "AA,A", "AA\u00e9".encode()):
            expect(peer.ask(extra=[(TRAILING, value)]), INTERNAL, "base64")
        peer.works()


def row_33(server):
    """Order and duplicates are kept."""
    values = ["b", "a", "b", "c", "a"]
    with server.peer() as peer:
        answer = echo(peer, *[(INITIAL, v) for v in values], *[(TRAILING, b64(v.encode())) for v in values])
        assert answer.all(INITIAL, 0) == values, answer
        assert answer.all(TRAILING) == [b64(v.encode()) for v in values], answer


def row_34(server):
    """Names of gRPC that we do not know are not shown to the application."""
    with server.peer() as peer:
        answer = echo(peer, ("grpc-unknown", "1"), ("grpc-tags-bin", "!!"), ("grpc-previous-rpc-attempts", "1"),
                      ("grpc-status", "5"), ("user-agent", "x"))
        assert not [k for block in answer.blocks for k, _ in block if k.startswith(b"grpc-") and k not in
                    (b"grpc-accept-encoding", b"grpc-status")], answer
    with server.peer() as peer:  # what the handler echoes is all it was given
        answer = expect(peer.ask(ECHO + "Echo", extra=[("x-echo-initial", "1"), ("grpc-x-echo-initial", "2")]), OK)
        assert answer.all("x-echo-initial", 0) == ["1"]


def status(code, text=""):
    import testing_pb2
    return testing_pb2.EchoStatus(code=code, message=text)


def row_35(server):
    """Metadata goes in headers and trailers, on OK and on error; trailers-only has all in one block."""
    import testing_pb2
    extra = [(INITIAL, "first"), (TRAILING, b64(b"last"))]
    with server.peer() as peer:
        answer = echo(peer, *extra)
        assert answer.all(INITIAL, 0) == ["first"] and answer.all(TRAILING, 0) == [], answer
        assert answer.all(TRAILING) == [b64(b"last")] and answer.all(INITIAL) == [], answer
        failing = testing_pb2.SimpleRequest(response_status=status(3, "no"))
        answer = expect(peer.ask(SERVICE + "UnaryCall", failing, extra=extra), INVALID_ARGUMENT, "no")
        assert answer.is_trailers_only and len(answer.blocks) == 1
        assert answer.all(INITIAL) == ["first"] and answer.all(TRAILING) == [b64(b"last")], answer
        one = testing_pb2.StreamingOutputCallRequest(response_parameters=[{"size": 1}])
        failing = testing_pb2.StreamingOutputCallRequest(response_status=status(3, "no"))
        stream = peer.call(SERVICE + "FullDuplexCall", raw=message(one) + message(failing), extra=extra)
        answer = expect(peer.finish(stream), INVALID_ARGUMENT, "no")  # an error after a message
        assert len(answer.messages()) == 1
        assert answer.all(INITIAL, 0) == ["first"] and answer.all(TRAILING) == [b64(b"last")], answer


def send_headers(peer, fields, end=True):
    """A block of any size: HEADERS and CONTINUATION frames."""
    block = peer.encoder.encode(fields)
    stream, peer.next_stream = peer.next_stream, peer.next_stream + 2
    peer.answers[stream] = Answer()
    pieces = [block[at:at + 16 * KIB] for at in range(0, len(block), 16 * KIB)]
    for i, piece in enumerate(pieces):
        peer.send(frame(HEADERS if i == 0 else CONTINUATION,
                        (END_HEADERS if i == len(pieces) - 1 else 0) | (END_STREAM if i == 0 and end else 0),
                        stream, piece))
    return stream


def row_36(server):
    """A header list over the announced limit costs its stream; the HPACK state lives on."""
    with server.peer() as peer:
        peer.ping()
        assert peer.settings.get(6) == 16 * KIB, peer.settings
        used = sum(len(k) + len(v) + 32 for k, v in peer.fields())
        fits = 16 * KIB - used - 32 - len("x-large")
        expect(peer.ask(extra=[("x-large", "v" * fits)]), OK)
        expect(peer.ask(extra=[("x-large", "v" * (fits + 1))]), RESOURCE_EXHAUSTED, str(16 * KIB))
        for extra in ([("x-large", "v" * 20_000)], [(f"x-{i}", "v" * 100) for i in range(200)]):
            stream = send_headers(peer, peer.fields(extra=extra), end=False)
            peer.send(frame(DATA, END_STREAM, stream, message(b"x" * 1000)))
            expect(peer.finish(stream), RESOURCE_EXHAUSTED)
        peer.works()
        # Fields that the refused block put into the table can still be referred to.
        expect(peer.ask(extra=[("x-1", "v" * 100), (INITIAL, "still right")]), OK)
        stream = send_headers(peer, peer.fields(extra=[("x-large", "v" * 40_000)]))
        expect(peer.finish(stream), RESOURCE_EXHAUSTED)
        peer.works()


def row_37(server):
    """Trailers that would be too large for the caller lose details and text, never the status."""
    import echo_pb2
    failure = echo_pb2.Failure(code=9, message="m" * 200, reason="QUOTA", metadata={"k": "v" * 500})
    request = echo_pb2.EchoRequest(failure=failure)
    sizes = {}
    for limit in (100_000, 700, 400, 200, 150, 60):
        with server.peer(settings(MAX_HEADER_LIST=limit)) as peer:
            answer = expect(peer.ask(ECHO + "Echo", request, extra=[("x-echo-trailing", "t" * 50)]), 9)
            sizes[limit] = sum(len(k) + len(v) + 32 for k, v in answer.blocks[-1])
            assert answer.get("content-type", 0).startswith("application/grpc")
            assert sizes[limit] <= limit or limit == 60, (limit, sizes, str(answer))
    assert sizes[100_000] > sizes[700] > sizes[200], sizes


TOKEN = "box_right"


@server_args("--token", TOKEN)
def row_39(server):
    """Only the right bearer token passes, before the body is read; nothing of it is logged."""
    secrets = ("box_wrong", TOKEN + "x", TOKEN[:-1], TOKEN.upper())
    with server.peer() as peer:
        expect(peer.ask(), UNAUTHENTICATED)
        for value in ["Bearer " + s for s in secrets] + ["Basic " + TOKEN, TOKEN, "Bearer", "Bearer ", ""]:
            expect(peer.ask(extra=[("authorization", value)]), UNAUTHENTICATED)
        for scheme in ("Bearer", "bearer", "BEARER"):
            expect(peer.ask(extra=[("authorization", f"{scheme} {TOKEN}")]), OK)
        # Before the body: the answer is there although nothing of it came.
        stream = peer.open(peer.fields(SERVICE + "UnaryCall"))
        expect(peer.finish(stream), UNAUTHENTICATED)
        before = server.server.rss_kib()
        for _ in range(8):
            expect(peer.ask(SERVICE + "UnaryCall", b"x" * (4 * MIB)), UNAUTHENTICATED)
        assert server.server.rss_kib() - before < 16 * KIB * RSS_FACTOR, "bodies of strangers are kept"
        expect(peer.ask(extra=[("authorization", "Bearer " + TOKEN)]), OK)
    log = server.server.log()
    assert not [s for s in (TOKEN, "box_wrong") if s in log], "a token is in the log"


if __name__ == "__main__":
    main(globals())
