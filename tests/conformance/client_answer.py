"""What our client makes of answers: content types, metadata, messages, compression, statuses, resets."""

import gzip
import os
import signal
import zlib

from client_peer import CANCEL, HEAD, NO_ERROR, frame, gzipped, main, message, payload
from peer import RST_STREAM

CODES = ("OK CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND ALREADY_EXISTS PERMISSION_DENIED "
         "RESOURCE_EXHAUSTED FAILED_PRECONDITION ABORTED OUT_OF_RANGE UNIMPLEMENTED INTERNAL UNAVAILABLE DATA_LOSS "
         "UNAUTHENTICATED").split()
KINDS = ("unary", "server", "client", "bidi")


class Talk:
    """A client and the connection it keeps; each call is answered by hand."""

    def __init__(self, bed, *args):
        self.client = bed.client(*args)
        self.bed = bed
        self.connection = None

    def open(self, **options):
        call = self.client.open(**options)
        if self.connection is None or self.connection.is_closed:
            self.connection = self.bed.accept()
        return call, self.connection.request()

    def ends(self, status, answer, *words, **options):
        """A call answered so ends with that status; its end."""
        call, request = self.open(**options)
        answer(request)
        return self.client.expect(call, status, *words)

    def works(self):
        """Another call on the same connection."""
        self.ends("OK", lambda r: r.answer(b""))


def row_17(bed):
    talk = Talk(bed)
    rows = [("text/html", 200, "UNKNOWN"), ("application/grpcx", 200, "UNKNOWN"), ("text/plain", 404, "UNIMPLEMENTED"),
            ("application/json", 503, "UNAVAILABLE")]
    for kind, http, status in rows:
        head = [(":status", str(http)), ("content-type", kind)]
        talk.ends(status, lambda r: r.headers(head).send(b"<html>", end=True), kind)
        talk.ends(status, lambda r: r.headers(head, end=True), kind)
        # A status in such an answer is not gRPC's.
        talk.ends(status, lambda r: r.headers(head + [("grpc-status", "0")], end=True))
    for kind in ("application/grpc", "application/grpc+proto", "application/grpc;charset=utf-8", "application/grpc+x"):
        talk.ends("OK", lambda r: r.answer(b"", head=[(":status", "200"), ("content-type", kind)]))


def row_28(bed):
    talk = Talk(bed)
    odd = [(b"x-high", b"\xff\xfe"), (b"x-tab", b"a\tb"), (b"x-good", b"yes")]
    call, r = talk.open()
    r.headers(HEAD + odd).send(message(b"")).trailers([("grpc-status", "0")] + odd)
    headers = dict(talk.client.wait(call, "headers")["metadata"])
    assert headers["x-good"] == "yes", headers
    talk.client.expect(call, "OK")


def row_29(bed):
    talk = Talk(bed)
    for bad in (b"a\0b", b"a\rb", b"a\nb"):
        talk.ends("INTERNAL", lambda r: r.headers(HEAD + [(b"x-bad", bad)]))
        talk.ends("INTERNAL", lambda r: r.headers().send(message(b"")).trailers([("grpc-status", "0"), (b"x-bad", bad)]))
    talk.works()


def row_32(bed):
    talk = Talk(bed)
    talk.ends("INTERNAL", lambda r: r.headers(HEAD + [("x-bin", "!!!")]), "x-bin")
    talk.works()


def row_35(bed):
    talk = Talk(bed)
    e = talk.ends("OK", lambda r: r.answer(b"", head=HEAD + [("x-a", "1")], trailers=[("grpc-status", "0"), ("x-b", "2")]))
    assert e["trailers"] == [["x-b", "2"]], e
    assert talk.client.wait(1, "headers")["metadata"] == [["x-a", "1"]]
    # In trailers-only all of it is trailing.
    e = talk.ends("NOT_FOUND", lambda r: r.only(("grpc-status", "5"), ("x-a", "1")))
    assert e["trailers"] == [["x-a", "1"]] and not talk.client.has(2, "headers"), e


def row_44(bed):
    talk = Talk(bed)
    for flag in (2, 3, 128, 255):
        talk.ends("INTERNAL", lambda r: r.headers().send(message(b"x", flag)).trailers(), "flag")
    talk.works()


def row_45(bed):
    talk = Talk(bed)
    for kind in KINDS:
        for cut in (1, 4, 5, 6, 10):
            whole = message(bytes(6))[:cut]
            talk.ends("INTERNAL", lambda r: r.headers().send(whole).trailers(), kind=kind)
            talk.ends("INTERNAL", lambda r: r.headers().send(whole, end=True), kind=kind)
    talk.works()


def row_46(bed):
    talk = Talk(bed, "--max-message", "1000")
    limit = payload(1000 - len(payload(900)) + 900)
    assert len(limit) == 1000
    talk.ends("OK", lambda r: r.answer(limit))
    talk.ends("RESOURCE_EXHAUSTED", lambda r: r.headers().send(b"\0\0\0\x03\xe9"), "1001", "1000")
    talk.ends("RESOURCE_EXHAUSTED", lambda r: r.headers().send(b"\0\xff\xff\xff\xff"), "4294967295")
    talk.ends("RESOURCE_EXHAUSTED", lambda r: r.headers().send(b"\0\0\0\x03\xe8" + bytes(1000)), max=999)
    talk.works()
    usual = Talk(bed)
    usual.ends("OK", lambda r: r.answer(payload(4 * 1024 * 1024 - 20)))
    usual.ends("RESOURCE_EXHAUSTED", lambda r: r.headers().send(message(bytes(5 * 1024 * 1024))[:100000]), "4194304")


def encoded(name):
    return HEAD + [("grpc-encoding", name)]


def row_47(bed):
    talk = Talk(bed)
    bomb = gzipped(bytes(64 * 1024 * 1024))
    talk.ends("RESOURCE_EXHAUSTED", lambda r: r.headers(encoded("gzip")).send(message(bomb, 1)).trailers())
    talk.ends("RESOURCE_EXHAUSTED",
              lambda r: r.headers(encoded("deflate")).send(message(zlib.compress(bytes(64 * 1024 * 1024)), 1)).trailers())
    talk.ends("OK", lambda r: r.headers(encoded("gzip")).send(message(gzipped(payload(1000)), 1)).trailers())


def row_50(bed):
    talk = Talk(bed)
    for bad in (b"\xff", b"\x0a\x05x", b"\x0a\xff\xff\xff\xff\x0f"):
        for kind in KINDS:
            talk.ends("INTERNAL", lambda r: r.answer(bad), kind=kind)
    talk.works()


def row_51(bed):
    talk = Talk(bed)
    call, r = talk.open()
    r.answer(payload(3) + b"\xf8\x7f\x01" + b"\xfa\x7f\x02hi")
    assert talk.client.wait(call, "message")["size"] == 3
    talk.client.expect(call, "OK")


def row_54(bed):
    talk = Talk(bed)
    for kind in ("unary", "client"):
        talk.ends("UNIMPLEMENTED", lambda r: r.answer(), kind=kind)
        talk.ends("UNIMPLEMENTED", lambda r: r.only(("grpc-status", "0")), kind=kind)
        talk.ends("UNIMPLEMENTED", lambda r: r.answer(b"", b""), kind=kind)
        # An error beside a message is the error.
        talk.ends("ABORTED", lambda r: r.answer(b"", trailers=[("grpc-status", "10")]), kind=kind)
    for kind in ("server", "bidi"):
        talk.ends("OK", lambda r: r.answer(), kind=kind)
        talk.ends("OK", lambda r: r.answer(b"", b"", b""), kind=kind)


def row_59(bed):
    talk = Talk(bed)
    for name in ("snappy", "br", "identity"):
        talk.ends("INTERNAL", lambda r: r.headers(encoded(name)).send(message(b"xyz", 1)).trailers())
    talk.ends("INTERNAL", lambda r: r.headers().send(message(gzipped(b""), 1)).trailers())
    talk.works()


def row_60(bed):
    talk = Talk(bed)
    call, r = talk.open(kind="server")
    r.headers(encoded("gzip"))
    for size in (10, 2000, 1):
        r.send(message(gzipped(payload(size)), 1)).send(message(payload(size)))
    r.trailers()
    got = [talk.client.wait(call, "message") for _ in range(6)]
    assert [(g["size"], g["compressed"]) for g in got] == [(s, c) for s in (10, 2000, 1) for c in (True, False)], got
    talk.client.expect(call, "OK")


def row_61(bed):
    talk = Talk(bed)
    whole = gzip.compress(payload(1000) + os.urandom(100))
    for broken in (whole[:-9], whole[:20], b"no gzip", b"", whole + b"more", whole[:40] + b"\xff" + whole[41:]):
        talk.ends("INTERNAL", lambda r: r.headers(encoded("gzip")).send(message(broken, 1)).trailers())
    talk.works()


def row_70(bed):
    talk = Talk(bed)
    talk.ends("NOT_FOUND", lambda r: r.answer(b"", head=HEAD + [("grpc-status", "0")], trailers=[("grpc-status", "5")]))
    talk.ends("OK", lambda r: r.answer(b"", head=HEAD + [("grpc-status", "5"), ("grpc-message", "no")]))
    talk.ends("NOT_FOUND", lambda r: r.only(("grpc-status", "5")))
    # A status in headers that do not end the answer says nothing.
    talk.ends("UNKNOWN", lambda r: r.headers(HEAD + [("grpc-status", "0")]).send(message(b""), end=True))


def row_71(bed):
    talk = Talk(bed)
    rows = {400: "INTERNAL", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "UNIMPLEMENTED", 429: "UNAVAILABLE",
            431: "INTERNAL", 502: "UNAVAILABLE", 503: "UNAVAILABLE", 504: "UNAVAILABLE", 200: "UNKNOWN", 201: "UNKNOWN",
            302: "UNKNOWN", 405: "UNKNOWN", 415: "UNKNOWN", 500: "UNKNOWN", 999: "UNKNOWN"}
    for http, status in rows.items():
        talk.ends(status, lambda r: r.headers([(":status", str(http)), ("content-type", "application/grpc")], end=True), str(http))
        talk.ends(status, lambda r: r.headers([(":status", str(http))], end=True), str(http))


def row_72(bed):
    talk = Talk(bed)
    for http in (200, 404, 503):
        head = [(":status", str(http)), ("content-type", "application/grpc"), ("grpc-status", "10"), ("grpc-message", "it")]
        e = talk.ends("ABORTED", lambda r: r.headers(head, end=True))
        assert e["message"] == "it", e
    for odd in ("17", "999", "-1", "x", "1x", "", " ", "4294967296"):
        e = talk.ends("UNKNOWN", lambda r: r.only(("grpc-status", odd), ("grpc-message", "kept")))
        assert e["message"] == "kept", e


def row_73(bed):
    talk = Talk(bed)

    def after_interim(r):
        for code in ("100", "103", "199"):
            r.headers([(":status", code), ("x-a", "1")])
        r.answer(b"")
    talk.ends("OK", after_interim)
    assert talk.client.wait(1, "headers")["metadata"] == []


def row_76(bed):
    talk = Talk(bed)
    rows = {"a%20b": "a b", "%": "%", "%4": "%4", "%zz%41": "%zzA", "100%": "100%", "%E2%98%BA": "\u263a",
            "%ff": "?", "%e2%28%a1": "?(?", "": "", "plain": "plain"}
    for sent, wanted in rows.items():
        e = talk.ends("UNKNOWN", lambda r: r.only(("grpc-status", "2"), ("grpc-message", sent)))
        assert e["message"] == wanted, (sent, e["message"])


def row_77(bed):
    talk = Talk(bed)
    # A google.rpc.Status of another code with one ErrorInfo of another domain: grpc-status wins.
    details = "CAcSBW90aGVy"  # {code: 7, message: "other"}
    e = talk.ends("NOT_FOUND", lambda r: r.only(("grpc-status", "5"), ("grpc-message", "mine"), ("grpc-status-details-bin", details)))
    assert e["message"] == "mine", e
    assert e["trailers"] == [["grpc-status-details-bin", "080712056f74686572"]], e
    e = talk.ends("NOT_FOUND", lambda r: r.only(("grpc-status", "5"), ("grpc-status-details-bin", "not base64!")))


def row_79(bed):
    """Whatever goes wrong, the library does not speak for the application."""
    never = {"INVALID_ARGUMENT", "NOT_FOUND", "ALREADY_EXISTS", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "DATA_LOSS"}
    talk = Talk(bed)
    wrong = [lambda r: r.headers([(":status", str(s))], end=True) for s in range(300, 600, 7)]
    wrong += [lambda r, c=c: r.refuse(c) for c in range(20) if c != 7]
    wrong += [lambda r: r.headers().send(message(b"x", 9)), lambda r: r.answer(b"\xff"), lambda r: r.answer(),
              lambda r: r.headers().send(b"\0\xff\xff\xff\xff"), lambda r: r.headers().send(b"\0", end=True),
              lambda r: r.headers(HEAD + [("x-bin", "!")]), lambda r: r.connection.close()]
    for answer in wrong:
        call, request = talk.open()
        answer(request)
        e = talk.client.end(call)
        assert e["status"] not in never | {"OK"}, e


def row_80(bed):
    talk = Talk(bed)
    for code, name in enumerate(CODES):
        trailers = [("grpc-status", str(code)), ("grpc-message", name)]
        for kind in KINDS:
            streams = kind in ("server", "bidi")
            talk.ends(name if code or streams else "UNIMPLEMENTED", lambda r: r.only(*trailers), kind=kind)
            e = talk.ends(name, lambda r: r.answer(b"", trailers=trailers), kind=kind)
            assert e["message"] == (name if code else ""), e


def row_84(bed):
    client = bed.client()
    call = client.open(timeout_ns=200 * 10**6)
    r = bed.accept().request()
    # The server's cancel is there before the client gets to look at its own clock.
    os.kill(client.process.pid, signal.SIGSTOP)
    r.refuse(CANCEL)
    r.connection.quiet(0.3)
    os.kill(client.process.pid, signal.SIGCONT)
    client.expect(call, "DEADLINE_EXCEEDED")


def row_87(bed):
    talk = Talk(bed)
    rows = ["INTERNAL", "INTERNAL", "INTERNAL", "INTERNAL", "INTERNAL", "UNKNOWN", "INTERNAL", "UNAVAILABLE", "CANCELLED",
            "INTERNAL", "INTERNAL", "RESOURCE_EXHAUSTED", "PERMISSION_DENIED", "UNKNOWN", "UNKNOWN", "UNKNOWN"]
    for code, status in enumerate(rows):
        talk.ends(status, lambda r: r.headers().refuse(code))
        talk.ends(status, lambda r: r.headers().send(message(b"")).refuse(code), kind="server")
        talk.ends(status, lambda r: r.headers().send(message(b"")[:3]).refuse(code))
        if code != 7:  # that one is tried again: row 104
            talk.ends(status, lambda r: r.refuse(code))
    talk.works()


def row_88(bed):
    talk = Talk(bed)
    for code in range(14):
        call, r = talk.open(kind="bidi")
        r.answer(b"")
        r.connection.send(frame(RST_STREAM, 0, r.stream, bytes([0, 0, 0, code])))
        talk.client.expect(call, "OK")
    talk.works()


def row_89(bed):
    talk = Talk(bed)
    call, r = talk.open(kind="bidi")
    r.answer(b"")
    talk.client.expect(call, "OK")
    assert r.wait_reset() in (NO_ERROR, CANCEL)
    # Not where the server's own came, nor where we had ended.
    call, r = talk.open()
    r.whole().answer(b"")
    talk.client.expect(call, "OK")
    talk.connection.ping()
    assert r.reset is None


def row_93(bed):
    talk = Talk(bed)
    call, r = talk.open(kind="client")
    talk.client.did(call, "send", "body=10")
    r.answer(b"", trailers=[("grpc-status", "9"), ("grpc-message", "enough")])
    talk.client.expect(call, "FAILED_PRECONDITION", "enough")
    did = talk.client.did(call, "send", "body=10")
    assert did["status"] == "FAILED_PRECONDITION", did  # the call's own, and nothing worse
    assert talk.client.did(call, "close")["event"] == "did"
    talk.works()


if __name__ == "__main__":
    main(globals())
