"""The life of our client's connections: deadlines, loss, flow control, limits, GOAWAY, keepalive, retries, TLS."""

import os
import socket
import ssl
import subprocess
import time

from client_peer import (ACK, CANCEL, HEAD, PING, SETTINGS, Connection, frame, lib, main, message, payload, settings,
                         window)
from peer import ENHANCE_YOUR_CALM, GOAWAY, MIB, PROTOCOL_ERROR

OPEN_WINDOW = 1 << 30


def goaway(last, code=0, text=b""):
    return frame(GOAWAY, 0, 0, last.to_bytes(4, "big") + code.to_bytes(4, "big") + text)


def unavailable(*more):
    return [("grpc-status", "14"), *more]


# --- deadline, cancel, loss


def row_83(bed):
    client = bed.client()
    call = client.open(timeout_ns=300 * 10**6)
    first = bed.accept()
    r = first.request()
    client.expect(call, "DEADLINE_EXCEEDED")
    assert r.wait_reset() == CANCEL
    # While it waits for a free stream.
    first.send(settings(MAX_CONCURRENT=1))
    first.quiet(0.1)
    client.open()
    first.request()
    call = client.open(timeout_ns=100 * 10**6)
    client.expect(call, "DEADLINE_EXCEEDED")
    # While it waits for window.
    blocked = bed.client()
    call = blocked.open(kind="client", timeout_ns=300 * 10**6)
    connection = bed.accept(settings(INITIAL_WINDOW=0))
    connection.auto_window = False
    r = connection.request()
    blocked.did(call, "send", "body=100000")
    blocked.expect(call, "DEADLINE_EXCEEDED")
    assert r.wait_reset() == CANCEL and not r.data
    # While it connects: TCP alone, TLS alone, and no answer at all.
    for greet in (None, False):
        waiting = bed.client()
        call = waiting.open(timeout_ns=300 * 10**6, wait=1)
        held = bed.plain() if greet is None else bed.accept(greet=False)
        waiting.expect(call, "DEADLINE_EXCEEDED")
        (held if greet is None else held.socket).close()


def row_86(bed):
    client = bed.client()
    calls = [client.open(kind=k) for k in ("unary", "server", "client", "bidi")]
    connection = bed.accept()
    for _ in calls:
        connection.request().headers()
    connection.close()
    for call in calls:
        client.expect(call, "UNAVAILABLE", "connection")
    call = client.open()
    bed.accept().request().answer(b"")
    client.expect(call, "OK")


def row_91(bed):
    client = bed.client()
    call = client.open(kind="bidi")
    r = bed.accept().request()
    r.headers().send(message(b""))
    client.wait(call, "message")
    client.did(call, "cancel")
    client.expect(call, "CANCELLED")
    assert r.wait_reset() == CANCEL
    r.send(message(b"")).trailers()
    r.connection.ping()
    assert not client.has(call, "message")
    # Half-close is no cancel.
    call = client.open(kind="bidi")
    r = r.connection.request().headers()
    client.did(call, "close")
    r.whole().send(message(payload(7)))
    assert client.wait(call, "message")["size"] == 7
    r.trailers()
    client.expect(call, "OK")


# --- flow control


def row_94(bed):
    client = bed.client()
    call = client.open(kind="client")
    connection = bed.accept(settings(INITIAL_WINDOW=0, MAX_FRAME=16384))
    connection.auto_window = False
    r = connection.request()
    client.did(call, "send", "body=40000")
    client.did(call, "close")
    connection.quiet(0.2)
    assert not r.data
    for _ in range(50):
        connection.send(window(r.stream, 1))
    connection.until(lambda: len(r.data) == 50, "50 bytes, one by one")
    connection.send(settings(INITIAL_WINDOW=1000))
    connection.until(lambda: len(r.data) == 1050, "1000 bytes more")
    connection.send(settings(INITIAL_WINDOW=0))  # the window is now negative
    connection.send(window(r.stream, 1050))
    connection.quiet(0.2)
    connection.send(window(r.stream, OPEN_WINDOW))
    r.whole()
    assert len(r.messages()) == 1 and max(size for _, _, size in r.frames) <= 16384
    r.answer(b"")
    client.expect(call, "OK")


def row_95(bed):
    client = bed.client("--max-message", str(16 * MIB))
    call = client.open()
    bed.accept().request().answer(payload(10 * MIB))
    assert client.wait(call, "message")["size"] == 10 * MIB
    client.expect(call, "OK")


def taken(connection):
    """Bytes of the connection's window that came back."""
    connection.ping()
    return connection.window


def row_96(bed):
    client = bed.client()
    talk = client.open(kind="server")
    connection = bed.accept()
    connection.request().answer(b"")
    client.expect(talk, "OK")
    before = taken(connection)
    sent = 0
    for _ in range(40):
        call = client.open(kind="server")
        r = connection.request().headers()
        client.did(call, "cancel")
        client.expect(call, "CANCELLED")
        r.send(message(bytes(100000)))  # of a stream that is gone
        sent += 100005
    # Half of the window may be kept back.
    assert taken(connection) - before > sent - 2 * MIB - 16384, (connection.window, before, sent)
    before, sent = connection.window, 0
    call = client.open(kind="server")
    r = connection.request().headers()
    for _ in range(40):
        r.send(bytes([255]) + message(payload(4000)) + bytes(255), flags=8)
        sent += 256 + 5 + len(payload(4000))
    r.trailers()
    client.expect(call, "OK")
    assert taken(connection) >= before


def row_97(bed):
    client = bed.client()
    blocked = client.open(kind="bidi")
    connection = bed.accept()
    r = connection.request().headers()
    client.did(blocked, "pause")
    sent = 0
    while sent < 900 * 1024:  # nearly all of its window, unread
        r.send(message(payload(30000)))
        sent += len(message(payload(30000)))
    for _ in range(100):
        call = client.open()
        connection.request().answer(payload(60000))
        client.expect(call, "OK")
    assert not client.has(blocked, "message")
    client.did(blocked, "resume")
    for _ in range(sent // len(message(payload(30000)))):
        assert client.wait(blocked, "message")["size"] == 30000
    r.trailers()
    client.expect(blocked, "OK")


def row_99(bed):
    client = bed.client()
    call = client.open(kind="client")
    connection = bed.accept(settings(INITIAL_WINDOW=1000))
    connection.auto_window = False
    r = connection.request()
    assert client.did(call, "send", "body=10")["writable"]
    assert not client.did(call, "send", "body=200000")["writable"]
    connection.send(window(r.stream, OPEN_WINDOW), window(0, OPEN_WINDOW))
    client.wait(call, "writable")
    client.did(call, "close")
    assert len(r.whole().messages()) == 2


def row_100(bed):
    client = bed.client()
    client.open()
    connection = bed.accept()
    connection.request()
    connection.ping()
    assert connection.settings[4] >= MIB, connection.settings
    assert connection.window + 65535 >= 4 * MIB, connection.window


def row_101(bed):
    client = bed.client()
    bad = (window(0, 0), window(0, 0x7FFFFFFF), settings(INITIAL_WINDOW=0x80000000))
    for frames in bad:
        call = client.open()
        connection = bed.accept()
        connection.request()
        connection.send(frames)
        e = client.end(call)
        assert e["status"] == "UNAVAILABLE", e
        connection.closes()
        assert connection.goaway is not None and connection.goaway[1] in (PROTOCOL_ERROR, 3), connection.goaway
    call = client.open(kind="bidi")
    r = bed.accept().request()
    for increment, code in ((0x7FFFFFFF, 3), (0, PROTOCOL_ERROR)):
        r.connection.send(window(r.stream, increment))
        client.end(call)
        assert r.wait_reset() == code
        call = client.open(kind="bidi")  # on the same connection
        r = r.connection.request()
    client.did(call, "cancel")


# --- limits, GOAWAY, keepalive


def row_103(bed):
    client = bed.client()
    calls = [client.open() for _ in range(130)]
    connection = bed.accept(greet=False)
    connection.until(lambda: len(connection.requests) == 100, "the first hundred calls")
    connection.quiet(0.3)
    assert len(connection.requests) == 100
    connection.greet(settings(MAX_CONCURRENT=110))
    connection.until(lambda: len(connection.requests) == 110, "ten more")
    connection.quiet(0.2)
    assert len(connection.requests) == 110
    connection.send(settings(MAX_CONCURRENT=2))  # lowered: nothing starts before there are fewer
    late = client.open(timeout_ns=200 * 10**6)
    client.expect(late, "DEADLINE_EXCEEDED")
    while len(connection.requests) < 130 or connection.waiting:
        connection.request().answer(b"")
    for call in calls:
        client.expect(call, "OK")


def row_104(bed):
    client = bed.client()
    call = client.open(body=100)
    connection = bed.accept()
    first = connection.request().whole().refuse()
    again = connection.request().whole()
    assert again.fields == first.fields and again.data == first.data
    again.answer(b"")
    client.expect(call, "OK")
    # Once: a server that refuses for ever is believed.
    call = client.open()
    connection.request().refuse()
    connection.request().refuse()
    client.expect(call, "UNAVAILABLE")
    # What GOAWAY leaves out goes to a new connection; what it does not goes on.
    kept, moved = client.open(), client.open()
    r, _ = connection.request(), connection.request()
    connection.send(goaway(r.stream))
    bed.accept().request().answer(payload(5))
    r.answer(payload(4))
    assert client.wait(kept, "message")["size"] == 4 and client.wait(moved, "message")["size"] == 5


def row_106(bed):
    client = bed.client()
    call = client.open()
    connection = bed.accept()
    r = connection.request()
    connection.send(goaway(2**31 - 1), goaway(r.stream))
    r.headers()
    client.wait(call, "headers")
    second = client.open()
    other = bed.accept()
    other.request().answer(b"")
    client.expect(second, "OK")
    r.send(message(b"")).trailers()
    client.expect(call, "OK")
    connection.closes()
    call = client.open()
    other.request().answer(b"")
    client.expect(call, "OK")


def pings(connection):
    return [f for k, f, _ in connection.frames if k == PING and not f & ACK]


def row_109(bed):
    # Asked after 10 s, the shortest time, and taken for lost one second later.
    client = bed.client("--keepalive", "1", "--keepalive-timeout", "1000")
    call = client.open()
    connection = bed.accept()
    connection.auto_ping = False
    connection.request()
    connection.ping()
    began = time.monotonic()
    client.expect(call, "UNAVAILABLE", "does not answer")
    assert time.monotonic() - began > 8
    connection.closes()
    assert len(pings(connection)) == 1
    # Bytes of any kind are a sign of life; without calls nobody asks.
    call = client.open()
    connection = bed.accept()
    r = connection.request()
    for _ in range(4):
        connection.quiet(3)
        connection.send(frame(SETTINGS))
    assert not pings(connection)
    r.answer(b"")
    client.expect(call, "OK")
    connection.quiet(11)
    assert not pings(connection) and not connection.is_closed


def row_110(bed):
    client = bed.client()
    client.open()
    connection = bed.accept()
    connection.request()
    for n in range(5):
        connection.send(frame(PING, 0, 0, bytes([n] * 8)))
    connection.until(lambda: sum(1 for k, f, _ in connection.frames if k == PING and f & ACK) == 5, "all answers")
    assert [p for k, f, p in connection.frames if k == PING and f & ACK] == [bytes([n] * 8) for n in range(5)]


def row_112(bed):
    client = bed.client("--keepalive", "10000", "--keepalive-timeout", "60000")
    call = client.open()
    connection = bed.accept()
    connection.request()
    connection.until(lambda: pings(connection), "a ping")
    connection.send(goaway(0, ENHANCE_YOUR_CALM, b"too_many_pings"))
    # The call is made again elsewhere, where it takes twice as long until a ping comes.
    other = bed.accept()
    r = other.request()
    other.quiet(14)
    assert not pings(other)
    other.until(lambda: pings(other), "a ping")
    r.answer(b"")
    client.expect(call, "OK")


# --- connecting


def row_113(bed):
    # Against a port where connections end at once: fewer tries with each second.
    client = bed.client("--states", "--reconnect-first", "100", "--reconnect-max", "400")
    call = client.open(wait=1)
    began, tries = time.monotonic(), []
    while time.monotonic() - began < 3:
        bed.listener.settimeout(3)
        try:
            bed.listener.accept()[0].close()
            tries.append(time.monotonic() - began)
        except TimeoutError:
            break
    assert 5 < len(tries) < 20, tries  # 100, 160, 256, 400, 400, ... ms
    gaps = [b - a for a, b in zip(tries, tries[1:])]
    assert sum(gaps[-3:]) > sum(gaps[:3]), gaps
    while True:  # until one is let in, the call waits
        try:
            connection = bed.accept()
            break
        except (ConnectionError, ssl.SSLError):
            continue
    connection.request().answer(b"")
    client.expect(call, "OK")
    # It worked: the next pause is the first again, and none comes before the next try.
    connection.close()
    call = client.open()
    bed.accept().request().answer(b"")
    client.expect(call, "OK")


def dead_port():
    held = socket.socket()
    held.bind(("127.0.0.1", 0))
    return held, held.getsockname()[1]


def row_114(bed):
    held, port = dead_port()
    client = bed.client("--reconnect-first", "60000", target=f"127.0.0.1:{port}")
    client.expect(client.open(), "UNAVAILABLE", "cannot connect")  # waited while connecting
    client.expect(client.open(), "UNAVAILABLE", "cannot connect")  # at once
    client.expect(client.open(wait=1, timeout_ns=200 * 10**6), "DEADLINE_EXCEEDED")
    held.close()
    client = bed.client("--reconnect-first", "50", "--reconnect-max", "50")
    bed.listener.close()
    call = client.open(wait=1, body=10)
    client.expect(client.open(), "UNAVAILABLE")
    bed.listener = socket.create_server(("127.0.0.1", bed.port))
    r = bed.accept().request().whole()
    assert len(r.messages()) == 1
    r.answer(b"")
    client.expect(call, "OK")


def row_116(bed):
    held, port = dead_port()
    client = bed.client(target=f"ipv4:127.0.0.1:{port},127.0.0.1:{bed.port}")
    call = client.open()
    bed.accept().request().answer(b"")
    client.expect(call, "OK")
    held.close()
    six = socket.create_server(("::1", 0), family=socket.AF_INET6)
    held, port = dead_port()
    client = bed.client(target=f"ipv6:[::1]:{six.getsockname()[1]}")
    call = client.open()
    bed.listener.close()
    bed.listener = six
    bed.accept().request().answer(b"")
    client.expect(call, "OK")
    held.close()


RETRY = ["--retry", "4", "--retry-pause", "20"]


def row_115(bed):
    client = bed.client(*RETRY)
    call = client.open(idempotent=1, body=50)
    connection = bed.accept()
    for n in range(4):
        r = connection.request().whole()
        assert r.get("grpc-previous-rpc-attempts") == (str(n) if n else None), r.fields
        assert len(r.messages()) == 1
        if n < 3:
            r.only(*unavailable())
        else:
            r.answer(b"")
    client.expect(call, "OK")
    # No more than four; not for other codes; not for calls that are not marked; not after headers came.
    client = bed.client(*RETRY, "--retry-tokens", "100")
    call = client.open(idempotent=1)
    connection = bed.accept()
    for n in range(4):
        connection.request().only(*unavailable(("grpc-message", str(n))))
    client.expect(call, "UNAVAILABLE", "3")
    for options, answer, status in (
            ({"idempotent": 1}, lambda r: r.only(("grpc-status", "13")), "INTERNAL"),
            ({}, lambda r: r.only(*unavailable()), "UNAVAILABLE"),
            ({"idempotent": 1}, lambda r: r.headers().trailers(unavailable()), "UNAVAILABLE"),
            ({"idempotent": 1, "kind": "server"}, lambda r: r.answer(b"", trailers=unavailable()), "UNAVAILABLE")):
        client = bed.client(*RETRY)
        call = client.open(**options)
        connection = bed.accept()
        answer(connection.request())
        client.expect(call, status)
        connection.quiet(0.2)
        assert not connection.waiting
    stream_again(bed)
    pushback(bed)
    limits_of_retries(bed)


def stream_again(bed):
    """All that was sent, also meanwhile, is sent again, in order."""
    client = bed.client("--retry", "2", "--retry-pause", "300")
    call = client.open(kind="bidi", idempotent=1)
    connection = bed.accept()
    first = connection.request()
    client.did(call, "send", "body=1")
    client.did(call, "send", "body=2000")
    connection.until(lambda: len(first.data) > 2000, "both messages")
    first.only(*unavailable())
    connection.quiet(0.05)
    client.did(call, "send", "body=3")  # between the attempts
    client.did(call, "close")
    second = connection.request().whole()
    assert [len(m) for _, m in second.messages()] == [len(m) for _, m in first.messages()] + [7], second.messages()
    second.answer(b"", b"")
    client.expect(call, "OK")


def pushback(bed):
    """The server says how long to wait, or that it wants no other attempt."""
    client = bed.client("--retry", "3", "--retry-pause", "60000")
    call = client.open(idempotent=1)
    connection = bed.accept()
    connection.request().only(*unavailable(("grpc-retry-pushback-ms", "50")))
    connection.request().answer(b"")
    client.expect(call, "OK")
    for no in ("-1", "soon", "1.5"):
        client = bed.client(*RETRY)
        call = client.open(idempotent=1)
        connection = bed.accept()
        connection.request().only(*unavailable(("grpc-retry-pushback-ms", no)))
        client.expect(call, "UNAVAILABLE")


def limits_of_retries(bed):
    """The deadline spans all attempts; too much to keep is sent once; failures take tokens."""
    client = bed.client("--retry", "5", "--retry-pause", "60000")
    call = client.open(idempotent=1, timeout_ns=200 * 10**6)
    bed.accept().request().only(*unavailable())
    client.expect(call, "DEADLINE_EXCEEDED")
    client = bed.client(*RETRY)
    call = client.open(idempotent=1, body=300 * 1024)
    bed.accept().request().whole().only(*unavailable())
    client.expect(call, "UNAVAILABLE")
    client = bed.client(*RETRY, "--retry-tokens", "4")
    call = client.open(idempotent=1)
    connection = bed.accept()
    connection.request().only(*unavailable())
    connection.request().only(*unavailable())  # half of the tokens are gone
    client.expect(call, "UNAVAILABLE")
    call = client.open(idempotent=1)
    connection.request().only(*unavailable())
    client.expect(call, "UNAVAILABLE")


# --- TLS


def refused_in_tls(bed, context, *words, args=()):
    client = bed.client("--reconnect-first", "60000", *args)
    call = client.open()
    tls = context.wrap_socket(bed.plain(), server_side=True, do_handshake_on_connect=False)
    try:
        tls.do_handshake()
        tls.recv(1)
    except (OSError, ssl.SSLError):
        pass
    # Until the client hangs up: unread bytes would make the end a reset, and the alert could be lost.
    with socket.socket(fileno=tls.detach()) as plain:
        plain.settimeout(lib.WAIT_SECONDS)
        try:
            while plain.recv(65536):
                pass
        except ConnectionError:
            pass
    return client.expect(call, "UNAVAILABLE", *words)


def row_131(bed):
    client = bed.client()
    call = client.open()
    plain = bed.plain()
    context = bed.context()
    names = []
    context.sni_callback = lambda s, name, c: names.append(name)
    tls = context.wrap_socket(plain, server_side=True)
    assert tls.selected_alpn_protocol() == "h2" and names == ["localhost"]
    Connection(tls).request().answer(b"")
    client.expect(call, "OK")
    nothing = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    nothing.load_cert_chain(bed.certs.cert, bed.certs.key)
    refused_in_tls(bed, nothing, "ALPN")


def row_132(bed):
    old = bed.context()
    old.minimum_version = ssl.TLSVersion.TLSv1
    old.maximum_version = ssl.TLSVersion.TLSv1_1
    old.set_ciphers("ALL:@SECLEVEL=0")
    refused_in_tls(bed, old)
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context = bed.context()
        context.minimum_version = context.maximum_version = version
        client = bed.client()
        call = client.open()
        connection = bed.accept(context=context)
        connection.request().answer(b"")
        client.expect(call, "OK")
    client = bed.client()
    client.open()
    assert bed.accept().socket.version() == "TLSv1.3"


def row_133(bed):
    for suite in ("ECDHE-ECDSA-AES128-SHA256", "ECDHE-ECDSA-AES256-SHA", "AES128-GCM-SHA256"):
        context = bed.context()
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers(suite + ":@SECLEVEL=0")
        refused_in_tls(bed, context)


def openssl(*args):
    subprocess.run(["openssl", *args], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def self_signed(bed, name, *args):
    cert, key = bed.folder.file(name + ".pem"), bed.folder.file(name + "-key.pem")
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key,
            "-out", cert, *args)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    context.set_alpn_protocols(["h2"])
    return cert, key, context


def row_135(bed):
    _, _, stranger = self_signed(bed, "stranger", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost")
    refused_in_tls(bed, stranger, "certificate")
    ca, _, other = self_signed(bed, "other", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:other.example")
    refused_in_tls(bed, other, "mismatch", args=["--ca", ca])  # the common name does not count
    client = bed.client("--ca", ca, "--server-name", "other.example")
    call = client.open()
    bed.accept(context=other).request().answer(b"")
    client.expect(call, "OK")
    ca, key, _ = self_signed(bed, "past", "-subj", "/CN=x", "-addext", "subjectAltName=DNS:localhost")
    openssl("x509", "-in", ca, "-signkey", key, "-days", "-1", "-out", ca)
    past = bed.context()
    past.load_cert_chain(ca, key)
    refused_in_tls(bed, past, "expired", args=["--ca", ca])
    # An address is looked for among addresses, and not told by SNI.
    names = []
    context = bed.context()
    context.sni_callback = lambda s, name, c: names.append(name)
    client = bed.client(target=f"127.0.0.1:{bed.port}")
    call = client.open()
    bed.accept(context=context).request().answer(b"")
    client.expect(call, "OK")
    assert names == [None], names


def row_137(bed):
    ca, key, _ = self_signed(bed, "client", "-subj", "/CN=client")
    context = bed.context()
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(ca)
    client = bed.client("--cert", ca, "--key", key)
    call = client.open()
    connection = bed.accept(context=context)
    assert ("commonName", "client") in [pair for rdn in connection.socket.getpeercert()["subject"] for pair in rdn]
    connection.request().answer(b"")
    client.expect(call, "OK")
    # TLS 1.3 refuses after the client thinks that it is connected.
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context.minimum_version = context.maximum_version = version
        refused_in_tls(bed, context, "alert")
    # A call that waits for a server goes on waiting.
    client = bed.client("--reconnect-first", "60000")
    call = client.open(wait=1, timeout_ns=500 * 10**6)
    connection = None
    try:
        connection = bed.accept(context=context)
        connection.quiet(0.1)
    except (OSError, ssl.SSLError):
        pass
    assert connection is None or not connection.requests
    client.expect(call, "DEADLINE_EXCEEDED")


def row_138(bed):
    client = bed.client()
    call = client.open()
    connection = bed.accept()
    r = connection.request()
    client.tell("free", call)
    client.stop()
    bed.clients.remove(client)
    # The end is announced: for a mere FIN this would raise.
    connection.socket.settimeout(lib.WAIT_SECONDS)
    while connection.socket.recv(65536):
        pass
    client = bed.client()
    call = client.open()
    connection = bed.accept()
    r = connection.request().headers()
    client.wait(call, "headers")
    os.close(connection.socket.detach())  # TCP ends, TLS says nothing
    client.expect(call, "UNAVAILABLE")
    assert r is not None


if __name__ == "__main__":
    main(globals())
