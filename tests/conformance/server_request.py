"""Rows 1 to 25: the request line, content types, grpc-timeout."""

from peer import (DATA, DEADLINE_EXCEEDED, ECHO, END_STREAM, INTERNAL, OK, SERVICE, UNIMPLEMENTED, WAIT_SECONDS,
                  expect, expect_plain, expect_reset, frame, main, message)


def row_1(server):
    """Only POST; anything else is told so in plain HTTP and reaches no handler."""
    with server.peer() as peer:
        for method in ("GET", "HEAD", "PUT", "DELETE", "OPTIONS", "post"):
            answer = peer.ask(replace={":method": method})
            expect_plain(answer, 405, has_body=method != "HEAD")
            assert answer.get("allow", 0) == "POST"
        # With and without a body, END_STREAM on HEADERS.
        expect_plain(peer.finish(peer.open(peer.fields(replace={":method": "GET"}), end=True)), 405)
        for method in ("GET", "POST"):  # no path of a method: nothing is there
            for path in ("/", "/favicon.ico", "/a/b/c"):
                expect_plain(peer.finish(peer.open(
                    peer.fields(path, drop=("content-type",), replace={":method": method}), end=True)), 404)
        peer.works()
    assert server.counters().finished == 0


def row_2(server):
    """The path is compared byte by byte."""
    with server.peer() as peer:
        for path in ("/boxtest.v1.testservice/EmptyCall", "/boxtest.v1.TestService/emptyCall",
                     "/boxtest.v1.TestService/Empty%43all", "/boxtest%2Ev1.TestService/EmptyCall",
                     "/boxtest.v1.TestService/EmptyCall%00", "/v1.TestService/EmptyCall"):
            expect(peer.ask(path), UNIMPLEMENTED, path.replace("%", "%25"))
        peer.works()


def row_3(server):
    """Paths that are no two parts never match."""
    with server.peer() as peer:
        for path in ("/", "/boxtest.v1.TestService", "/boxtest.v1.TestService/",
                     "/boxtest.v1.TestService/EmptyCall/", "/boxtest.v1.TestService/EmptyCall/x",
                     "//boxtest.v1.TestService/EmptyCall", "/boxtest.v1.TestService//EmptyCall",
                     "/boxtest.v1.TestService/EmptyCall?x=1", "/boxtest.v1.TestService/EmptyCall#x"):
            expect(peer.ask(path), UNIMPLEMENTED)
        for path in ("boxtest.v1.TestService/EmptyCall", ""):
            answer = peer.ask(path)
            assert answer.reset == 1 or answer.status == UNIMPLEMENTED, answer
        peer.works()


def row_4(server):
    """Unknown service and method: trailers-only, with the path in the text."""
    with server.peer() as peer:
        for path in (SERVICE + "None", "/none.v1.Service/EmptyCall", SERVICE + "UnimplementedCall",
                     "/boxtest.v1.UnimplementedService/UnimplementedCall"):
            assert expect(peer.ask(path), UNIMPLEMENTED, path).is_trailers_only
        peer.works()


def row_5(server):
    """:scheme may say anything, but once."""
    with server.peer() as peer:
        for scheme in ("http", "https", "grpc"):
            expect(peer.ask(replace={":scheme": scheme}), OK)
        expect_reset(peer.ask(drop=(":scheme",)))
        expect_reset(peer.finish(peer.open([(":scheme", "https")] + peer.fields(), end=True)))
        peer.works()


def row_6(server):
    """Wrong pseudo-headers cost the stream, not the connection."""
    with server.peer() as peer:
        good = peer.fields()
        wrong = [peer.fields(drop=(name,)) for name in (":method", ":scheme", ":path")]
        wrong += [[(name, value)] + good for name, value in good[:3]]
        wrong += [peer.fields(replace={":path": ""}), peer.fields(replace={":method": ""}),
                  peer.fields(replace={":scheme": ""}),
                  [(":status", "200")] + good, [(":unknown", "x")] + good,
                  good[:3] + [("x", "y")] + good[3:], good + [(":path", "/x")]]
        for fields in wrong:
            stream = peer.open(fields)
            peer.send(frame(DATA, END_STREAM, stream, message(b"")))
            expect_reset(peer.finish(stream))
        peer.works()


def row_7(server):
    """Neither :authority nor host is accepted, either alone too; two of one are malformed."""
    with server.peer() as peer:
        expect(peer.ask(drop=(":authority",)), OK)
        expect(peer.ask(drop=(":authority",), extra=[("host", "a.example")]), OK)
        expect(peer.ask(extra=[("host", "b.example")]), OK)
        expect_reset(peer.ask(drop=(":authority",), extra=[("host", "a"), ("host", "b")]))
        expect_reset(peer.finish(peer.open([(":authority", "a")] + peer.fields(), end=True)))
        peer.works()


def row_9(server):
    """Upper-case names, fields of HTTP/1 connections, a te other than trailers."""
    with server.peer() as peer:
        for extra in (("X-Upper", "1"), ("connection", "close"), ("proxy-connection", "close"),
                      ("keep-alive", "1"), ("transfer-encoding", "chunked"), ("upgrade", "h2c"),
                      ("te", "gzip"), ("te", "trailers, gzip")):
            expect_reset(peer.ask(extra=[extra], drop=("te",)))
        peer.works()


def row_10(server):
    """te may be missing."""
    with server.peer() as peer:
        expect(peer.ask(drop=("te",)), OK)


def row_11(server):
    """A content-length has to fit."""
    with server.peer() as peer:
        expect(peer.ask(extra=[("content-length", "5")]), OK)
        for value in ("4", "6", "x", "-5", "5 5"):
            answer = peer.ask(extra=[("content-length", value)])
            assert answer.reset == 1 and answer.status is None, answer
        expect_reset(peer.ask(extra=[("content-length", "5"), ("content-length", "5")]))
        peer.works()


def row_12(server):
    """+proto is the same."""
    with server.peer() as peer:
        for value in ("application/grpc", "application/grpc+proto"):
            answer = expect(peer.ask(replace={"content-type": value}), OK)
            assert answer.messages() == [b""]


def row_13(server):
    """Other content types, and none, get 415 and no grpc-status."""
    with server.peer() as peer:
        for value in ("application/json", "text/plain", "application/x-www-form-urlencoded",
                      "application/grp", "application/grpc-web", "application/connect+proto", ""):
            expect_plain(peer.ask(replace={"content-type": value}), 415)
        expect_plain(peer.ask(drop=("content-type",)), 415)
        expect_plain(peer.finish(peer.open(peer.fields(drop=("content-type",)), end=True)), 415)
        big = peer.ask(replace={"content-type": "text/plain"}, raw=b"x" * 200_000)  # read, or cut after the answer
        expect_plain(big, 415)
        peer.works()


def row_14(server):
    """Parameters are accepted; a longer word is another type."""
    with server.peer() as peer:
        for value in ("application/grpc;charset=utf-8", "application/grpc; x=y", "application/grpc+proto; x=y",
                      "Application/GRPC"):
            expect(peer.ask(replace={"content-type": value}), OK)
        for value in ("application/grpcx", "application/grpc-x", "application/grpc/x"):
            expect_plain(peer.ask(replace={"content-type": value}), 415)


def row_15(server):
    """A subtype without codec: 415."""
    with server.peer() as peer:
        for value in ("application/grpc+json", "application/grpc+protobuf", "application/grpc+",
                      "application/grpc+json; x=y"):
            expect_plain(peer.ask(replace={"content-type": value}), 415)


def row_16(server):
    """The answer's content type begins with application/grpc, in headers and trailers-only."""
    with server.peer() as peer:
        for path in (SERVICE + "EmptyCall", SERVICE + "None"):
            for value in ("application/grpc", "application/grpc+proto"):
                answer = peer.ask(path, replace={"content-type": value})
                assert answer.get("content-type", 0).startswith("application/grpc"), answer


def time_left(peer, timeout):
    """What a handler saw of grpc-timeout, in ms."""
    import echo_pb2
    answer = expect(peer.ask(ECHO + "Echo", extra=[("grpc-timeout", timeout)]), OK)
    return echo_pb2.EchoResponse.FromString(answer.messages()[0]).time_left_ms


def row_18(server):
    """1 to 8 digits and each of the units."""
    with server.peer() as peer:
        for timeout, ms in (("1H", 3_600_000), ("2M", 120_000), ("3S", 3000), ("00000009S", 9000),
                            ("70000m", 70_000), ("50000000u", 50_000), ("00000060S", 60_000)):
            left = time_left(peer, timeout)
            assert 0 < left <= ms + 1 and left > ms - WAIT_SECONDS * 1000, (timeout, left)
        expect(peer.ask(SERVICE + "Sleep", sleep(60_000), extra=[("grpc-timeout", "1n")]), DEADLINE_EXCEEDED)


def row_19(server):
    """Anything else is refused and runs no handler."""
    with server.peer() as peer:
        for value in ("123456789S", "+1S", "-1S", "1.5S", "1s", "1", "S", "", "1SS", "1h", "0x1S", "1 S", "1S,2S",
                      "1µ".encode(), "١S".encode()):
            answer = expect(peer.ask(extra=[("grpc-timeout", value)]), INTERNAL, "grpc-timeout")
            assert answer.is_trailers_only, answer
        peer.works()
    assert server.counters().finished == 0


def row_20(server):
    """The largest value does not overflow."""
    with server.peer() as peer:
        for timeout in ("99999999H", "99999999M", "99999999S"):
            assert time_left(peer, timeout) > 99_999_990_000


def row_21(server):
    """Zero has passed already."""
    with server.peer() as peer:
        for timeout in ("0S", "0n", "00000000H"):
            expect(peer.ask(SERVICE + "Sleep", sleep(60_000), extra=[("grpc-timeout", timeout)]), DEADLINE_EXCEEDED)


def sleep(ms):
    import testing_pb2
    return testing_pb2.SleepRequest(sleep_ms=ms)


def row_22(server):
    """No header, no deadline."""
    import echo_pb2
    with server.peer() as peer:
        answer = expect(peer.ask(ECHO + "Echo"), OK)
        assert echo_pb2.EchoResponse.FromString(answer.messages()[0]).time_left_ms == 0


def row_25(server):
    """The handler can read what remains."""
    with server.peer() as peer:
        first = time_left(peer, "10S")
        assert 0 < first <= 10_001


if __name__ == "__main__":
    main(globals())
