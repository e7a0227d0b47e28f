"""Rows 130 to 140: TLS."""

import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import time

from peer import ECHO, MIB, OK, PREFACE, SERVICE, SETTINGS, WAIT_SECONDS, main, settings
import lib


def s_client(server, *args, data=b""):
    """openssl s_client's whole output."""
    done = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{server.port}", "-CAfile",
                           server.certs.ca, "-servername", "localhost", *args], input=data, timeout=WAIT_SECONDS,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return done.stdout.decode(errors="replace")


def context(server, **changes):
    made = ssl.create_default_context(cafile=server.certs.ca)
    made.set_alpn_protocols(["h2"])
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def connect(server, made, session=None):
    plain = socket.create_connection(("127.0.0.1", server.port), WAIT_SECONDS)
    return made.wrap_socket(plain, server_hostname="localhost", session=session)


def refused(function):
    """The handshake, or the first read after it, fails."""
    try:
        with function() as s:
            s.settimeout(WAIT_SECONDS)
            assert s.recv(1) == b"", "it was taken"
    except (ssl.SSLError, ConnectionError):
        pass


def row_130(server):
    """ALPN h2, or no handshake."""
    assert "ALPN protocol: h2" in s_client(server, "-alpn", "h2")
    assert "ALPN protocol: h2" in s_client(server, "-alpn", "http/1.1,h2")
    for alpn in (["-alpn", "http/1.1"], ["-alpn", "h2c"], ["-alpn", "h"]):
        assert "no application protocol" in s_client(server, *alpn), alpn
    refused(lambda: connect(server, ssl.create_default_context(cafile=server.certs.ca)))  # none at all
    with server.peer() as peer:
        peer.works()


def row_132(server):
    """1.3 preferred, 1.2 taken, no less; 1.3 alone where configured."""
    assert "TLSv1.3" in s_client(server, "-alpn", "h2")
    assert "Protocol  : TLSv1.2" in s_client(server, "-alpn", "h2", "-tls1_2")
    for old in ("-tls1", "-tls1_1"):
        out = s_client(server, "-alpn", "h2", old, "-cipher", "ALL:@SECLEVEL=0")
        assert "Cipher is (NONE)" in out, out[-2000:]
    modern = type(server)(server.program, "--tls-1.3")
    try:
        assert "Cipher is (NONE)" in s_client(modern, "-alpn", "h2", "-tls1_2")
        assert "TLSv1.3" in s_client(modern, "-alpn", "h2")
        modern.stop()
    finally:
        modern.remove()


def row_133(server):
    """TLS 1.2: ephemeral keys and AEAD only, no renegotiation, no compression."""
    for cipher, good in (("ECDHE-ECDSA-AES128-GCM-SHA256", True), ("ECDHE-ECDSA-AES256-GCM-SHA384", True),
                         ("ECDHE-ECDSA-CHACHA20-POLY1305", True), ("ECDHE-ECDSA-AES128-SHA256", False),
                         ("ECDHE-ECDSA-AES128-SHA", False), ("AES128-GCM-SHA256", False), ("AES128-SHA", False),
                         ("ECDHE-ECDSA-AES128-CCM", False), ("DHE-RSA-AES128-GCM-SHA256", False)):
        out = s_client(server, "-alpn", "h2", "-tls1_2", "-cipher", cipher + ":@SECLEVEL=0")
        assert (f"Cipher is {cipher}" in out) == good, out[-2000:]
        if good:
            assert "Compression: NONE" in out
    done = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{server.port}", "-alpn", "h2", "-tls1_2"],
                          input=b"R\n", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=WAIT_SECONDS,
                          check=False)
    assert b"RENEGOTIATING" not in done.stdout or b"error" in done.stdout.lower(), done.stdout[-1000:]


def row_134(server):
    """X25519 and P-256 without another round trip; tickets that resume; no early data."""
    for group in ("X25519", "P-256"):
        out = s_client(server, "-alpn", "h2", "-groups", group, "-msg")
        assert len(re.findall(r"ServerHello", out)) == 1 and "TLSv1.3" in out, out[-3000:]
        assert len(re.findall(r", ClientHello", out)) == 1, f"{group} was asked again"
    for version in (ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_2):
        made = context(server, maximum_version=version)
        assert resumes(server, made), version
    out = s_client(server, "-alpn", "h2", "-ign_eof", "-nocommands", data=PREFACE + b"and nonsense, which ends it")
    assert "New Session Ticket arrived" in out and "Max Early Data: 0" in out, out[-1500:]


def resumes(server, made, session=None):
    """Whether a second connection is a resumption; with a session, whether that one is."""
    if session is None:
        session = session_of(server, made)
    with connect(server, made, session) as s:
        return s.session_reused


def session_of(server, made):
    with connect(server, made) as s:
        s.sendall(PREFACE + settings())
        assert s.recv(100)  # TLS 1.3: the ticket comes before
        assert s.session and s.session.has_ticket
        return s.session


def serial(server):
    """Of the certificate that new connections get."""
    with connect(server, context(server)) as s:
        return s.getpeercert()["serialNumber"]


def reload(server, event):
    """SIGHUP, and what the log says then."""
    count = server.server.log().count(event)
    server.server.process.send_signal(signal.SIGHUP)
    lib.wait_for(lambda: server.server.log().count(event) > count, event)


def row_136(server):
    """SIGHUP: new connections get the new pair, old ones live; what is broken changes nothing."""
    first = serial(server)
    made = context(server)
    ticket = session_of(server, made)
    old = server.peer()
    old.works()
    renewed = lib.TemporaryFolder()
    try:
        again = lib.Certificates(renewed.path)
        with open(server.certs.ca, "ab") as f:  # the clients trust both
            f.write(again.ca_bytes())
        made.load_verify_locations(again.ca)
        shutil.copy(again.cert, server.certs.cert)  # the key does not belong to it yet
        reload(server, "tls.reload_failed")
        assert serial(server) == first
        with open(server.certs.key, "wb") as f:
            f.write(b"-----BEGIN PRIVATE KEY-----\nbroken\n")
        reload(server, "tls.reload_failed")
        assert serial(server) == first
        assert resumes(server, made, ticket)
        shutil.copy(again.key, server.certs.key)
        reload(server, "tls.reloaded")
        assert serial(server) != first
        assert resumes(server, made, ticket), "tickets outlive a reload"
        old.works()
        os.remove(server.certs.cert)
        reload(server, "tls.reload_failed")
        assert serial(server) != first
        old.works()
    finally:
        old.socket.close()
        renewed.remove()


class Clients:
    """Client certificates of a CA of their own."""

    def __init__(self, folder):
        self.certs = lib.Certificates(folder)  # for localhost, which is a name as good as another

    def use(self, made):
        made.load_cert_chain(self.certs.cert, self.certs.key)
        return made


def row_137(server):
    """Client certificates: none, requested, required; the CA is read again as well."""
    folders = [lib.TemporaryFolder() for _ in range(3)]
    good, stranger = Clients(folders[0].path), Clients(folders[1].path)
    ca = folders[2].file("clients.pem")
    shutil.copy(good.certs.ca, ca)
    servers = []
    try:
        with connect(server, good.use(context(server))):  # not asked
            pass
        for options in (["--client-ca", ca], ["--client-ca", ca, "--client-request"]):
            s = type(server)(server.program, *options)
            servers.append(s)
            with_good = good.use(context(s))
            assert serves(s, with_good)
            assert serves(s, context(s)) == ("--client-request" in options)
            refused(lambda s=s: connect(s, stranger.use(context(s))))
            ticket = session_of(s, with_good)
            assert resumes(s, with_good, ticket)
            shutil.copy(stranger.certs.ca, ca)
            reload(s, "tls.reloaded")
            assert serves(s, stranger.use(context(s)))
            refused(lambda s=s: connect(s, good.use(context(s))))
            # A ticket is no way around it: it is void, and the certificate has to be shown.
            refused(lambda s=s, c=with_good, t=ticket: connect(s, c, t))
            shutil.copy(good.certs.ca, ca)
            s.stop()
    finally:
        for s in servers:
            s.remove()
        for folder in folders:
            folder.remove()


def serves(server, made):
    try:
        with connect(server, made) as s:
            s.sendall(PREFACE + settings())
            return bool(s.recv(100))
    except (ssl.SSLError, ConnectionError):
        return False


def row_138(server):
    """close_notify; small records first, then large ones, and one write for many frames."""
    made = context(server)
    with connect(server, made) as s:
        s.settimeout(WAIT_SECONDS)
        s.sendall(PREFACE + b"nonsense that is no SETTINGS frame")
        while s.recv(65536):
            pass  # ends with close_notify, or recv would raise
    sizes = record_sizes(server)
    first = sizes[:6]
    assert max(first) <= 1450, sizes[:40]
    large = [n for n in sizes if n > 16000]
    assert sum(large) > 0.9 * 2 * MIB, sizes[:60]


def record_sizes(server):
    """Of the application records that come with an answer of 2 MiB, after the handshake's."""
    import echo_pb2
    from peer import Peer, window
    raw = []

    class Tap:
        """Sees the bytes below TLS."""
        def __init__(self, made):
            self.plain = socket.create_connection(("127.0.0.1", server.port), WAIT_SECONDS)
            self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            self.tls = made.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")

        def step(self, function, *args):
            while True:
                try:
                    result = function(*args)
                    self.plain.sendall(self.outgoing.read())
                    return result
                except ssl.SSLWantReadError:
                    self.plain.sendall(self.outgoing.read())
                    data = self.plain.recv(65536)
                    if not data:
                        return b""
                    raw.append(data)
                    self.incoming.write(data)

        def settimeout(self, seconds):
            self.plain.settimeout(seconds)

        def sendall(self, data):
            self.step(self.tls.write, data)

        def recv(self, size):
            return self.step(self.tls.read, size)

        def close(self):
            self.plain.close()

    peer = Peer.__new__(Peer)
    tap = Tap(context(server))
    tap.step(tap.tls.do_handshake)
    raw.clear()
    with server.peer() as template:
        peer.__dict__.update(template.__dict__, socket=tap, answers={}, received=b"", frames=[], settings={})
        from hpack import Decoder, Encoder
        peer.encoder, peer.decoder, peer.next_stream = Encoder(), Decoder(), 1
        peer.auto_window = False
        peer.send(PREFACE + settings(INITIAL_WINDOW=8 * MIB) + window(0, 8 * MIB))
        answer = peer.ask(ECHO + "Echo", echo_pb2.EchoRequest(answer_bytes=2 * MIB))
        assert answer.status == OK
    tap.close()
    data, sizes = b"".join(raw), []
    while len(data) >= 5:
        size = int.from_bytes(data[3:5], "big")
        sizes.append(size)
        data = data[5 + size:]
    return sizes


def row_139(server):
    """Handshakes are bounded in time, and a crowd of them does not keep others waiting."""
    with server.peer() as peer:
        peer.works()
        crowd = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(300)]
        begin = time.monotonic()
        hello = client_hello(server)
        for s in crowd:
            s.sendall(hello)
        for _ in range(20):
            peer.works()
        for s in crowd[:5]:
            s.settimeout(WAIT_SECONDS)
            while s.recv(65536):
                pass
        assert time.monotonic() - begin < 20, "a handshake without end"
        for s in crowd:
            s.close()
        peer.works()


class Handshake:
    """One by hand: what it sends and receives goes when it is told to."""

    def __init__(self, server, source):
        self.socket = socket.socket()
        self.socket.bind((source, 0))
        self.socket.settimeout(WAIT_SECONDS)
        self.socket.connect(("127.0.0.1", server.port))
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context(server).wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")
        self.step(self.tls.do_handshake)

    def step(self, function):
        """The function's answer, or None where it wants to read first."""
        try:
            return function()
        except ssl.SSLWantReadError:
            return None
        finally:
            self.socket.sendall(self.outgoing.read())

    def finish(self, function):
        while (answer := self.step(function)) is None:
            data = self.socket.recv(65536)
            assert data, "the server hung up"
            self.incoming.write(data)
        return answer

    def works(self):
        """It becomes a connection of HTTP/2: the server's SETTINGS come."""
        self.finish(lambda: self.tls.do_handshake() or True)
        self.tls.write(PREFACE + settings())
        assert self.finish(lambda: self.tls.read(65536))[3] == SETTINGS


def crowd_of(server, count):
    """So many whose ClientHello the server finds at once. Every second does not go on."""
    os.kill(server.server.pid, signal.SIGSTOP)
    crowd = [Handshake(server, f"127.0.0.{2 + i % 2}") for i in range(count)]
    for i, one in enumerate(crowd[1::2]):
        if i % 3 == 0:
            one.socket.close()
        elif i % 3 == 1:
            one.socket.sendall(b"no TLS at all")
    os.kill(server.server.pid, signal.SIGCONT)
    return crowd


def row_crowd(server):
    """Handshakes that queue are made by workers: some of them go on, some end in the middle, and the
    server can stop meanwhile."""
    with server.peer() as peer:
        peer.works()
        crowd = crowd_of(server, 100)
        for _ in range(20):
            peer.works()
        for one in crowd[::2]:
            one.works()
        counters = server.counters(peer)
        assert counters.handshakes_queued >= 50, counters
        while counters.handshakes_waiting > 0:  # it ends
            counters = server.counters(peer)
        peer.works()
        crowd += crowd_of(server, 100)
    server.stop()


def client_hello(server):
    made = context(server)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        made.wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


def row_140(server):
    """Clear text on the TLS port is closed at once."""
    for first in (PREFACE + settings(), b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"\0" * 100, os.urandom(500)):
        with socket.create_connection(("127.0.0.1", server.port)) as s:
            s.settimeout(5)  # well below the handshake's 10 s
            s.sendall(first)
            try:
                while s.recv(4096):
                    pass
            except ConnectionError:
                pass
    with server.peer() as peer:
        assert peer.ask(SERVICE + "EmptyCall").status == OK


if __name__ == "__main__":
    main(globals())
