"""Rows 42 to 63: message framing and compression."""

import gzip
import zlib

from peer import (DATA, ECHO, END_STREAM, INTERNAL, INVALID_ARGUMENT, KIB, MIB, OK, PADDED,
                  RESOURCE_EXHAUSTED, RSS_FACTOR, SERVICE, STREAM_CLOSED, UNIMPLEMENTED, expect, frame, main, message,
                  server_args)

GZIP = [("grpc-encoding", "gzip")]
DEFLATE = [("grpc-encoding", "deflate")]
ACCEPTS = [("grpc-accept-encoding", "identity,deflate,gzip")]


def simple(**fields):
    import testing_pb2
    return testing_pb2.SimpleRequest(**fields)


def body(size):
    import testing_pb2
    return testing_pb2.Payload(body=b"a" * size)


def input_request(size):
    import testing_pb2
    return testing_pb2.StreamingInputCallRequest(payload=body(size))


def output(*sizes, compressed=None):
    import testing_pb2
    parameters = [testing_pb2.ResponseParameters(size=s) for s in sizes]
    for p, value in zip(parameters, compressed or ()):
        p.compressed.value = value
    return testing_pb2.StreamingOutputCallRequest(response_parameters=parameters)


def total(answer):
    import testing_pb2
    return testing_pb2.StreamingInputCallResponse.FromString(answer.messages()[0]).aggregated_payload_size


def row_42(server):
    """Messages are independent of frames: any cut, many in one, padding, empty DATA; none padded back."""
    sizes = [0, 1, 5, 300]
    whole = b"".join(message(input_request(n)) for n in sizes)
    with server.peer() as peer:
        for piece in (1, 2, 3, 7, len(whole)):
            stream = peer.open(peer.fields(SERVICE + "StreamingInputCall"))
            for at in range(0, len(whole), piece):
                peer.send(frame(DATA, 0, stream, whole[at:at + piece]), frame(DATA, 0, stream, b""))
            peer.send(frame(DATA, END_STREAM, stream))
            assert total(expect(peer.finish(stream), OK)) == sum(sizes)
        stream = peer.open(peer.fields(SERVICE + "StreamingInputCall"))  # each byte in its padded frame
        for at, byte in enumerate(whole):
            last = END_STREAM if at == len(whole) - 1 else 0
            peer.send(frame(DATA, PADDED | last, stream, bytes([at % 256, byte]) + bytes(at % 256)))
        assert total(expect(peer.finish(stream), OK)) == sum(sizes)
        answer = expect(peer.ask(SERVICE + "UnaryCall", simple(response_size=100_000)), OK)
        assert len(answer.messages()[0]) > 100_000  # Peer.take would have kept padding as data


def row_43(server):
    """A message of no bytes is a message."""
    with server.peer() as peer:
        answer = expect(peer.ask(SERVICE + "EmptyCall"), OK)
        assert answer.frames() == [(0, b"")]
        stream = peer.call(SERVICE + "FullDuplexCall", raw=message(b"") * 3 + message(output(0)))
        assert len(expect(peer.finish(stream), OK).messages()) == 1
        stream = peer.call(SERVICE + "StreamingInputCall", raw=message(b"") * 3)
        assert total(expect(peer.finish(stream), OK)) == 0


def row_44(server):
    """Flags other than 0 and 1."""
    with server.peer() as peer:
        for flag in (2, 3, 0x7F, 0x80, 0xFF):
            expect(peer.ask(raw=message(b"", flag)), INTERNAL, str(flag))
            expect(peer.ask(raw=message(b"", flag), extra=GZIP), INTERNAL)
        peer.works()


def row_45(server):
    """END_STREAM inside a message or its prefix: no handler sees half of it."""
    whole = message(simple(response_size=5))
    with server.peer() as peer:
        for length in range(1, len(whole)):
            expect(peer.ask(SERVICE + "UnaryCall", raw=whole[:length]), INTERNAL)
        expect(peer.ask(SERVICE + "UnaryCall", raw=whole + whole[:3]), INTERNAL)
        stream = peer.call(SERVICE + "StreamingInputCall", raw=message(input_request(3)) + b"\0\0")
        expect(peer.finish(stream), INTERNAL)
        peer.works()


@server_args("--max-message", "1000")
def row_46(server):
    """Refused at the prefix, both numbers in the text; the limit itself passes."""
    import echo_pb2
    request = echo_pb2.EchoRequest(payload=b"x" * 997)  # 1000 with its tag and length
    assert request.ByteSize() == 1000
    with server.peer() as peer:
        expect(peer.ask(ECHO + "Echo", request), OK)
        request.payload += b"x"
        expect(peer.ask(ECHO + "Echo", request), RESOURCE_EXHAUSTED, "1001", "1000")
        for size in (1001, 5 * MIB, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF):
            stream = peer.open(peer.fields(ECHO + "Echo"))
            peer.send(frame(DATA, 0, stream, b"\0" + size.to_bytes(4, "big")))  # and nothing more
            expect(peer.finish(stream), RESOURCE_EXHAUSTED, str(size), "1000")
        peer.works()
    assert server.server.rss_kib() < 200 * KIB * RSS_FACTOR


def zeros(size, level=9):
    return gzip.compress(bytes(size), level)


def row_47(server):
    """The limit also binds what comes out of compression; a bomb is stopped while it grows."""
    with server.peer() as peer:
        import echo_pb2
        fits = echo_pb2.EchoRequest(payload=bytes(4 * MIB - 100)).SerializeToString()
        expect(peer.ask(ECHO + "Echo", raw=message(gzip.compress(fits, 9), 1), extra=GZIP), OK)
        before = server.server.rss_kib()
        for size in (17 * MIB, 64 * MIB, 1024 * MIB):
            expect(peer.ask(ECHO + "Echo", raw=message(zeros(size), 1), extra=GZIP), RESOURCE_EXHAUSTED,
                   "compressed")
            expect(peer.ask(ECHO + "Echo", raw=message(zlib.compress(bytes(min(size, 64 * MIB))), 1),
                            extra=DEFLATE), RESOURCE_EXHAUSTED, "compressed")
        assert server.server.rss_kib() - before < 128 * KIB * RSS_FACTOR, "memory of a bomb"
        peer.works()


def row_48(server):
    """An answer above what one stream may have unsent ends with RESOURCE_EXHAUSTED."""
    with server.peer() as peer:
        expect(peer.ask(SERVICE + "UnaryCall", simple(response_size=64 * MIB)), RESOURCE_EXHAUSTED)
        peer.works()


def row_49(server):
    """Bytes that are no message of the type."""
    with server.peer() as peer:
        for data in (b"\x12", b"\x1a\x05ab", b"\xff" * 11, b"\x0b\x0c\x00", b"\x12\x00\x07", b"\x07"):
            expect(peer.ask(SERVICE + "UnaryCall", data), INTERNAL)
            expect(peer.ask(SERVICE + "FullDuplexCall", data), INTERNAL)
        peer.works()


def row_51(server):
    """Unknown fields are no error; what unpacking takes is bounded."""
    with server.peer() as peer:
        unknown = b"\xa0\x06\x01" + b"\xaa\x06\x03abc" + b"\xad\x06\0\0\0\0" + b"\xa9\x06" + bytes(8)
        answer = expect(peer.ask(SERVICE + "UnaryCall", simple(response_size=3).SerializeToString() + unknown), OK)
        assert len(answer.messages()[0]) > 3
        before = server.server.rss_kib()
        deep = b""
        for _ in range(1000):  # a payload in a payload in ...: unknown fields inside, however deep
            deep = b"\x1a" + varint(len(deep)) + deep
        answer = peer.ask(SERVICE + "UnaryCall", deep)
        assert answer.status in (OK, INTERNAL), answer
        many = b"\x12\x00" * (4 * MIB)  # 4 Mi response_parameters of 2 bytes each
        answer = peer.ask(SERVICE + "StreamingOutputCall", many)
        assert answer.status == RESOURCE_EXHAUSTED, answer
        assert server.server.rss_kib() - before < 256 * KIB * RSS_FACTOR, "memory of many small messages"
        peer.works()


def varint(n):
    out = b""
    while n > 0x7F:
        out += bytes([n & 0x7F | 0x80])
        n >>= 7
    return out + bytes([n])


def row_52(server):
    """No request message: UNIMPLEMENTED, and no handler."""
    with server.peer() as peer:
        for method in ("UnaryCall", "StreamingOutputCall", "Sleep"):
            fields = peer.fields(SERVICE + method)
            expect(peer.finish(peer.open(fields, end=True)), UNIMPLEMENTED)
            stream = peer.open(fields)
            peer.send(frame(DATA, END_STREAM, stream))
            expect(peer.finish(stream), UNIMPLEMENTED)
        peer.works()
    assert server.counters().finished == 0


def row_53(server):
    """A second request message: UNIMPLEMENTED, and no handler goes on."""
    import testing_pb2
    sleep = testing_pb2.SleepRequest(sleep_ms=60_000)
    with server.peer() as peer:
        expect(peer.ask(SERVICE + "Sleep", raw=message(sleep) * 2), UNIMPLEMENTED)
        expect(peer.ask(SERVICE + "UnaryCall", raw=message(b"") * 2), UNIMPLEMENTED)
        expect(peer.ask(SERVICE + "StreamingOutputCall", raw=message(output(1)) * 3), UNIMPLEMENTED)
        stream = peer.open(peer.fields(SERVICE + "UnaryCall"))  # the second comes much later
        peer.send(frame(DATA, 0, stream, message(b"")))
        peer.ping()
        assert not peer.answers[stream].order
        peer.send(frame(DATA, END_STREAM, stream, message(b"")))
        expect(peer.finish(stream), UNIMPLEMENTED)
        peer.works()
    assert server.counters().finished == 0


def row_55(server):
    """DATA after END_STREAM: STREAM_CLOSED, for the stream or the connection."""
    import testing_pb2
    sleep = testing_pb2.SleepRequest(sleep_ms=60_000)
    with server.peer() as peer:
        stream = peer.call(SERVICE + "Sleep", sleep)
        peer.send(frame(DATA, END_STREAM, stream, message(b"")))
        peer.until(lambda: peer.answers[stream].is_over or peer.goaway, "an error")
        code = peer.goaway[1] if peer.goaway else peer.answers[stream].reset
        assert code == STREAM_CLOSED, (peer.goaway, peer.answers[stream])
    with server.peer() as peer:
        peer.works()


def row_56(server):
    """identity always works; without grpc-encoding only flag 0 is sent and taken."""
    with server.peer() as peer:
        for extra in ([], [("grpc-encoding", "identity")], [("grpc-encoding", "identity")] + ACCEPTS, ACCEPTS,
                      [("grpc-accept-encoding", "identity")]):
            answer = expect(peer.ask(SERVICE + "UnaryCall", simple(response_size=5000), extra=extra), OK)
            assert answer.get("grpc-encoding", 0) in (None, "identity"), answer
            assert len(answer.messages()[0]) > 5000


def row_57(server):
    """Flag 1 without an encoding: INTERNAL that names the flag."""
    with server.peer() as peer:
        for extra in ([], [("grpc-encoding", "identity")], ACCEPTS):
            expect(peer.ask(raw=message(gzip.compress(b""), 1), extra=extra), INTERNAL, "flag")
        peer.works()


def row_58(server):
    """An unknown encoding: UNIMPLEMENTED, and what is taken; harmless when no message is compressed."""
    with server.peer() as peer:
        for name in ("br", "snappy", "gzip2", "zstd", "stream/gzip"):
            answer = expect(peer.ask(raw=message(b"x", 1), extra=[("grpc-encoding", name)]), UNIMPLEMENTED)
            accepted = answer.get("grpc-accept-encoding", 0).split(",")
            assert "gzip" in accepted and "deflate" in accepted and name not in accepted, answer
            expect(peer.ask(extra=[("grpc-encoding", name)]), OK)
        peer.works()


def row_60(server):
    """Each message is a stream of its own; flags 0 and 1 mix."""
    parts = [input_request(n).SerializeToString() for n in (10, 2000, 0, 300, 70_000)]
    with server.peer() as peer:
        for extra, pack in ((GZIP, gzip.compress), (DEFLATE, zlib.compress)):
            raw = b"".join(message(pack(p), 1) if i % 2 == 0 else message(p) for i, p in enumerate(parts))
            answer = expect(peer.ask(SERVICE + "StreamingInputCall", raw=raw, extra=extra), OK)
            assert total(answer) == 72_310
            stream = peer.open(peer.fields(SERVICE + "StreamingInputCall", extra=extra))  # byte by byte
            raw = message(pack(parts[1]), 1)
            for at in range(len(raw)):
                peer.send(frame(DATA, END_STREAM if at == len(raw) - 1 else 0, stream, raw[at:at + 1]))
            assert total(expect(peer.finish(stream), OK)) == 2000
            expect(peer.ask(SERVICE + "UnaryCall", simple(), extra=extra), OK)  # named, not used


def row_61(server):
    """Broken compressed bytes."""
    good = gzip.compress(simple(response_size=3).SerializeToString())
    with server.peer() as peer:
        for bad in (good[:-1], good[:10], b"", good + b"x", good[:-5] + b"\0" + good[-4:], b"not gzip at all",
                    zlib.compress(b"x")):
            expect(peer.ask(SERVICE + "UnaryCall", raw=message(bad, 1), extra=GZIP), INTERNAL)
        for bad in (good, zlib.compress(b"x")[:-1], zlib.compress(b"x", 9)[2:-4]):
            expect(peer.ask(SERVICE + "UnaryCall", raw=message(bad, 1), extra=DEFLATE), INTERNAL)
        stream = peer.open(peer.fields(SERVICE + "FullDuplexCall", extra=GZIP))  # cut short by END_STREAM
        peer.send(frame(DATA, END_STREAM, stream, message(good, 1)[:-3]))
        expect(peer.finish(stream), INTERNAL)
        peer.works()


def unpack(answer):
    """Plain messages and flags of an answer."""
    plain = {"gzip": gzip.decompress, "deflate": zlib.decompress}.get(answer.get("grpc-encoding", 0))
    return [(flag, plain(data) if flag else data) for flag, data in answer.frames()]


def row_62(server):
    """Answers say what is taken, and are compressed only with what the caller lists."""
    with server.peer() as peer:
        for path in (SERVICE + "EmptyCall", SERVICE + "None"):
            accepted = peer.ask(path).get("grpc-accept-encoding", 0).split(",")
            assert set(accepted) == {"identity", "deflate", "gzip"}, accepted
        wanted = simple(response_size=5000, response_compressed={"value": True})
        for lists, encoding in (("gzip", "gzip"), ("deflate", "deflate"), ("identity,deflate", "deflate"),
                                (" deflate , gzip ", "gzip"), ("br,snappy", None), ("identity", None), (None, None)):
            extra = [] if lists is None else [("grpc-accept-encoding", lists)]
            answer = expect(peer.ask(SERVICE + "UnaryCall", wanted, extra=extra), OK)
            assert answer.get("grpc-encoding", 0) == encoding, answer
            [(flag, plain)] = unpack(answer)
            assert flag == (encoding is not None) and len(plain) > 5000
        # As it was asked: a compressed request gets a compressed answer, when both sides have it.
        request = message(gzip.compress(simple(response_size=5000).SerializeToString()), 1)
        for lists, encoding in (("gzip", "gzip"), ("identity,deflate,gzip", "gzip"), ("deflate", None)):
            extra = GZIP + [("grpc-accept-encoding", lists)]
            answer = expect(peer.ask(SERVICE + "UnaryCall", raw=request, extra=extra), OK)
            assert answer.get("grpc-encoding", 0) == encoding, answer
        answer = peer.ask(SERVICE + "None", extra=GZIP + ACCEPTS)  # trailers-only has nothing to encode
        assert answer.get("grpc-encoding", 0) is None, answer


def row_63(server):
    """A handler's choice for each message; deflate is the zlib format, on both ways."""
    with server.peer() as peer:
        request = output(5000, 5000, 5000, 5000, compressed=[False, True, False, True])
        answer = expect(peer.ask(SERVICE + "StreamingOutputCall", request, extra=ACCEPTS), OK)
        assert [flag for flag, _ in answer.frames()] == [0, 1, 0, 1], answer
        assert all(len(plain) > 5000 for _, plain in unpack(answer))
        for compressed in (True, False):
            request = simple(response_size=5000, response_compressed={"value": compressed})
            for extra in (GZIP + ACCEPTS, DEFLATE + ACCEPTS, ACCEPTS):
                answer = expect(peer.ask(SERVICE + "UnaryCall", request, extra=extra), OK)
                assert [flag for flag, _ in answer.frames()] == [int(compressed)], answer
                assert len(unpack(answer)[0][1]) > 5000
        answer = peer.ask(SERVICE + "UnaryCall", simple(expect_compressed={"value": True}))
        expect(answer, INVALID_ARGUMENT)
    stock_deflate(server)


def stock_deflate(server):
    """C-core's own idea of deflate and gzip."""
    import grpc
    import testing_pb2
    import testing_pb2_grpc
    with open(server.certs.ca, "rb") as f:
        credentials = grpc.ssl_channel_credentials(f.read())
    for algorithm in (grpc.Compression.Deflate, grpc.Compression.Gzip, grpc.Compression.NoCompression):
        with grpc.secure_channel(f"localhost:{server.port}", credentials, compression=algorithm) as channel:
            stub = testing_pb2_grpc.TestServiceStub(channel)
            compressed = algorithm is not grpc.Compression.NoCompression
            answer = stub.UnaryCall(simple(response_size=314_159, payload=body(271_828),
                                           expect_compressed={"value": compressed}))
            assert len(answer.payload.body) == 314_159
            requests = [testing_pb2.StreamingInputCallRequest(
                payload=body(n), expect_compressed={"value": compressed}) for n in (27_182, 45_904)]
            assert stub.StreamingInputCall(iter(requests)).aggregated_payload_size == 73_086
            answers = stub.StreamingOutputCall(output(31_415, 92_653, compressed=[True, False]))
            assert [len(a.payload.body) for a in answers] == [31_415, 92_653]


if __name__ == "__main__":
    main(globals())
