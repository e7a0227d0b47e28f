"""What our client sends: header lists, deadlines, metadata, messages, compression."""

import re
import zlib

from client_peer import PADDED, gzipped, main, message, payload

PSEUDO = {":method", ":scheme", ":path", ":authority"}


def fields_of(bed, *args, **options):
    """The header list of one call; the call is answered."""
    client = bed.client(*args)
    call = client.open(**options)
    connection = bed.accept()
    request = connection.request()
    request.whole().answer(b"")
    client.expect(call, "OK")
    return request


def row_8(bed):
    r = fields_of(bed)
    names = [k for k, _ in r.fields]
    assert set(names[:4]) == PSEUDO and not any(n.startswith(":") for n in names[4:]), names
    assert r.get(":authority") == f"localhost:{bed.port}", r.fields
    assert (r.get(":method"), r.get(":scheme")) == ("POST", "https")
    assert r.get(":path") == "/boxtest.v1.TestService/UnaryCall"
    client = bed.client("--server-name", "localhost", target=f"127.0.0.1:{bed.port}")
    client.open()
    assert bed.accept().request().get(":authority") == "localhost"


def row_10(bed):
    assert fields_of(bed).get("te") == "trailers"


def row_11(bed):
    assert fields_of(bed, body=100).get("content-length") is None


def timeout_of(text):
    unit = {"H": 3600 * 10**9, "M": 60 * 10**9, "S": 10**9, "m": 10**6, "u": 1000, "n": 1}
    assert re.fullmatch(r"[0-9]{1,8}[HMSmun]", text), text
    return int(text[:-1]) * unit[text[-1]]


def row_23(bed):
    client = bed.client()
    client.open()
    connection = bed.accept()
    assert connection.request().get("grpc-timeout") is None
    hour = 3600 * 10**9
    for wanted in (99_999_999 * 100, 100 * 10**6, 28 * hour, 30 * 24 * hour, 400 * 365 * 24 * hour):
        client.open(timeout_ns=wanted)
        sent = timeout_of(connection.request().get("grpc-timeout"))
        # What is left by then, rounded up to a unit that fits 8 digits.
        assert 0 < sent <= wanted + 3600 * 10**9, (wanted, sent)
        assert sent >= wanted - 20 * 10**9, (wanted, sent)
    call = client.open(timeout_ns=1)
    client.expect(call, "DEADLINE_EXCEEDED")
    for request in connection.requests.values():
        assert request.get("grpc-timeout") is None or timeout_of(request.get("grpc-timeout")) > 0


def row_24(bed):
    names = [k for k, _ in fields_of(bed, timeout_ns=60 * 10**9, md="x-own:1").fields]
    assert names[4] == "grpc-timeout", names
    assert names[-1] == "x-own", names


def row_26(bed):
    client = bed.client()
    for bad in ("Upper", "sp!ce", "x/y", "gr\u00fcn", ""):
        call = client.open(md=f"{bad}:v")
        assert client.end(call)["event"] == "refused", bad
    bed.nobody_connects()
    call = client.open(md="a.b_c-9:v")
    connection = bed.accept()
    assert connection.request().answer(b"").get("a.b_c-9") == "v"
    client.expect(call, "OK")


def row_27(bed):
    client = bed.client()
    for bad in ("\u00e4", "tab\there", "bell\x07", "\x7f"):
        call = client.open(md=f"x-a:{bad}")
        assert client.end(call)["event"] == "refused", bad
    bed.nobody_connects()
    client.open(md="x-a:!~")
    assert bed.accept().request().get("x-a") == "!~"


def row_30(bed):
    client = bed.client()
    client.open(md=["a-bin:ff", "b-bin:ffff", "c-bin:ffffff", "d-bin:fbefbe"])
    r = bed.accept().request()
    assert [r.get(f"{n}-bin") for n in "abcd"] == ["/w", "//8", "////", "++++"], r.fields
    # What comes may be padded or not.
    r.only(("grpc-status", "0"), ("x-bin", "AQI"), ("y-bin", "AQI="))
    e = client.end(1)
    assert e["trailers"] == [["x-bin", "0102"], ["y-bin", "0102"]], e


def row_31(bed):
    client = bed.client()
    call = client.open(md=["x-bin:01", "x-bin:02", "x-a:1,2"])
    r = bed.accept().request()
    assert r.all("x-bin") == ["AQ", "Ag"] and r.all("x-a") == ["1,2"], r.fields
    r.headers([(":status", "200"), ("content-type", "application/grpc"), ("y-bin", "AQ,Ag==,Aw"), ("y", "1,2")])
    r.send(message(b"")).trailers()
    assert client.wait(call, "headers")["metadata"] == [["y-bin", "01"], ["y-bin", "02"], ["y-bin", "03"], ["y", "1,2"]]
    client.expect(call, "OK")


def row_33(bed):
    client = bed.client()
    call = client.open(md=["x-a:2", "x-b:9", "x-a:1", "x-a:2"])
    r = bed.accept().request()
    assert r.all("x-a") == ["2", "1", "2"]
    many = [("y", "2"), ("z", "0"), ("y", "1"), ("y", "2")]
    r.headers([(":status", "200"), ("content-type", "application/grpc"), *many]).send(message(b""))
    r.trailers([("grpc-status", "0"), *many])
    wanted = [list(f) for f in many]
    assert client.wait(call, "headers")["metadata"] == wanted
    assert client.expect(call, "OK")["trailers"] == wanted


def row_34(bed):
    client = bed.client()
    for name in ("grpc-timeout", "grpc-status", "grpc-own", "te", "content-type", "user-agent", ":path", "host"):
        if name.startswith(":"):
            continue  # the script's own separator; unit tests try it
        call = client.open(md=f"{name}:v")
        assert client.end(call)["event"] == "refused", name
    call = client.open(md="grpc-previous-rpc-attempts:3")
    r = bed.accept().request()
    assert r.get("grpc-previous-rpc-attempts") == "3"
    r.headers([(":status", "200"), ("content-type", "application/grpc"), ("grpc-own", "1"), ("grpc-encoding", "identity"),
               ("date", "today"), ("y", "1")]).send(message(b""))
    r.trailers([("grpc-status", "0"), ("grpc-own", "1"), ("z", "1"), ("grpc-retry-pushback-ms", "5")])
    assert client.wait(call, "headers")["metadata"] == [["date", "today"], ["y", "1"]]
    assert client.expect(call, "OK")["trailers"] == [["z", "1"], ["grpc-retry-pushback-ms", "5"]]


def row_36(bed):
    client = bed.client()
    call = client.open()
    r = bed.accept().request()
    assert r.connection.settings[6] == 16384, r.connection.settings
    big = [("x-big", "v" * 30000)]
    r.headers([(":status", "200"), ("content-type", "application/grpc")] + big)
    client.expect(call, "RESOURCE_EXHAUSTED", "16384")
    call = client.open()
    r.connection.request().answer(b"")  # the header table was kept right
    client.expect(call, "OK")


def row_38(bed):
    pattern = r"grpc-c-box/[0-9.]+"
    assert re.fullmatch(pattern, fields_of(bed).get("user-agent"))
    assert re.fullmatch("mine/1 " + pattern, fields_of(bed, "--user-agent", "mine/1").get("user-agent"))


def row_40(bed):
    assert fields_of(bed, token="secret").get("authorization") == "Bearer secret"
    client = bed.client("--plaintext", target="dns:///192.0.2.1:1")
    assert client.end(client.open(token="secret"))["event"] == "refused"


def row_41(bed):
    r = fields_of(bed, token="secret", md=["x-bin:aabb", "x-a:plain"])
    indexable = {k.decode(): getattr(t, "indexable", True) for t in r.tuples for k in [t[0]]}
    assert indexable["authorization"] is False and indexable["x-bin"] is False, indexable
    assert indexable["x-a"] is True, indexable


def row_42(bed):
    client = bed.client()
    call = client.open(kind="bidi")
    r = bed.accept().request()
    for size in (0, 1, 100, 16379, 16380, 70000):
        client.did(call, "send", f"body={size}")
    client.did(call, "close")
    r.whole()
    sizes = [len(m) for _, m in r.messages()]
    assert len(sizes) == 6 and sizes[0] == 0 and sizes[5] > 70000, sizes
    assert not any(flags & PADDED for _, flags, _ in r.frames)
    # Answers: many messages in one frame, one in many, cut anywhere, empty frames and padding between.
    r.headers()
    data = message(b"") + message(b"\x0a\x03\x12\x01x") + message(b"")
    r.send(data)
    for at in range(len(data)):
        r.send(data[at:at + 1]).send(b"")
    padded = bytes([7]) + data + bytes(7)
    r.send(padded, flags=PADDED).trailers()
    sizes = [client.wait(call, "message")["size"] for _ in range(9)]
    assert sizes == [0, 1, 0] * 3, sizes
    client.expect(call, "OK")


def row_43(bed):
    client = bed.client()
    call = client.open()
    r = bed.accept().request().whole()
    assert r.messages() == [(0, b"")]
    r.answer(b"")
    assert client.wait(call, "message")["size"] == 0
    client.expect(call, "OK")


def row_48(bed):
    client = bed.client("--max-send", "1000")
    call = client.open(body=1000)
    e = client.end(call)
    assert e["event"] == "refused" and e["status"] == "RESOURCE_EXHAUSTED", e
    bed.nobody_connects()
    call = client.open(kind="bidi")
    r = bed.accept().request()
    assert client.did(call, "send", "body=2000")["status"] == "RESOURCE_EXHAUSTED"
    client.did(call, "send", "body=10")
    client.did(call, "close")
    assert len(r.whole().messages()) == 1


def row_56(bed):
    r = fields_of(bed, body=5000)
    assert r.get("grpc-encoding") is None and [f for f, _ in r.messages()] == [0]
    client = bed.client()
    call = client.open()
    r = bed.accept().request()
    r.answer(b"", head=[(":status", "200"), ("content-type", "application/grpc"), ("grpc-encoding", "identity")])
    client.expect(call, "OK")


def row_63(bed):
    for name, unpack in (("gzip", lambda b: zlib.decompress(b, 31)), ("deflate", zlib.decompress)):
        client = bed.client()
        call = client.open(kind="bidi", encoding=name)
        r = bed.accept().request()
        client.did(call, "send", "body=5000")
        client.did(call, "send", "body=5000", "plain=1")
        client.did(call, "send", "body=5000")
        client.did(call, "close")
        (f1, m1), (f2, m2), (f3, m3) = r.whole().messages()
        assert r.get("grpc-encoding") == name
        assert (f1, f2, f3) == (1, 0, 1), (f1, f2, f3)
        assert unpack(m1) == m2 == unpack(m3)  # each a stream of its own
        assert "gzip" in r.get("grpc-accept-encoding") and "deflate" in r.get("grpc-accept-encoding")
        pack = gzipped if name == "gzip" else zlib.compress
        r.headers([(":status", "200"), ("content-type", "application/grpc"), ("grpc-encoding", name)])
        data = payload(5000)
        r.send(message(pack(data), 1)).send(message(data)).trailers()
        got = [client.wait(call, "message") for _ in range(2)]
        assert [(g["size"], g["compressed"]) for g in got] == [(5000, True), (5000, False)], got
        client.expect(call, "OK")


if __name__ == "__main__":
    main(globals())
