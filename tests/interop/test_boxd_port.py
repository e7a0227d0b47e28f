"""Ports inside sessions of the real server, through stock gRPC: PortForward."""

import concurrent.futures
import hashlib
import os
import time

import grpc

import boxd_lib
import lib
from boxd_lib import BoxdCase, MIB, duration
from forwarding import Forward, PortCase
from grpc import StatusCode


def setUpModule():
    BoxdCase.start_server()


def tearDownModule():
    BoxdCase.stop_server()


class Bytes(PortCase):
    def test_a_web_server_without_a_network(self):
        self.start(["python3", "-m", "http.server", "--bind", "127.0.0.1", "8080"], "web")
        self.client.out(["sh", "-c", "echo hello >/workspace/page"], self.sid)
        forward = Forward(self, 8080, wait=30).started()
        session = self.client.get(self.sid)
        self.assertEqual(forward.session_uid, session.uid)
        self.assertEqual(session.spec.network, self.pb.types.NETWORK_MODE_OFF)
        forward.send(b"GET /page HTTP/1.0\r\n\r\n")
        forward.until_closed()
        head, _, body = forward.bytes.partition(b"\r\n\r\n")
        self.assertIn(b"200 OK", head)
        self.assertEqual(body, b"hello\n")
        forward.half_close()
        forward.finish()

    def test_the_caller_ends_first(self):
        output = self.serve()
        data = os.urandom(3 * MIB + 17)
        forward = self.forward("digest")
        for at in range(0, len(data), MIB):
            forward.send(data[at:at + MIB])
        forward.half_close()
        expected = f"{len(data)} {hashlib.sha256(data).hexdigest()}"
        self.assertEqual(forward.finish().decode(), expected)
        output.until(b"end\n")

    def test_the_program_ends_first(self):
        output = self.serve()
        forward = self.forward("source")
        forward.send(b"200000\n")
        self.assertEqual(forward.until_closed(), b"x" * 200000)
        forward.send(b"still ")
        forward.send(b"heard")
        forward.half_close()
        forward.finish()
        output.until(b"got b'still heard'\nend\n")

    def test_what_is_sent_before_it_stands_arrives(self):
        self.serve()
        forward = Forward(self, 8000)
        forward.send(b"echo\nand ")
        forward.send(b"all")
        forward.half_close()
        self.assertEqual(forward.started().finish(), b"and all")

    def test_every_byte_both_ways_at_once(self):
        self.serve()
        forward = self.forward("echo")
        data = os.urandom(8 * MIB)
        for at in range(0, len(data), 65536):
            forward.send(data[at:at + 65536])
        forward.half_close()
        self.assertEqual(hashlib.sha256(forward.finish()).digest(),
                         hashlib.sha256(data).digest())

    def test_a_server_on_ipv6_alone(self):
        self.serve(address="::1")
        forward = self.forward("echo")
        forward.send(b"six")
        self.assertEqual(forward.until(3), b"six")

    def test_a_hundred_connections_at_once(self):
        self.serve()
        forwards = [self.forward("digest") for _ in range(100)]

        def talk(number):
            for _ in range(10):
                forwards[number].send(b"%03d" % number * 1000)
            forwards[number].half_close()
            return forwards[number].finish().decode()

        with concurrent.futures.ThreadPoolExecutor(100) as pool:
            for number, answer in enumerate(pool.map(talk, range(100))):
                data = b"%03d" % number * 10000
                self.assertEqual(answer, f"{len(data)} {hashlib.sha256(data).hexdigest()}")


class BackPressure(PortCase):
    MOST = 16 * MIB  # the limits of one call and more; what would come otherwise is far above

    def setUp(self):
        super().setUp()
        self.output = self.serve()

    def stands_still(self, measure):
        """Until that does not grow any more."""
        last, since = measure(), time.monotonic()
        while time.monotonic() - since < 0.5:
            time.sleep(0.05)
            if measure() != last:
                last, since = measure(), time.monotonic()
        return last

    def test_a_caller_that_does_not_read_stops_the_program(self):
        before = lib.resident_bytes(self.boxd.boxd.pid)
        client = self.boxd.client(options=[("grpc.http2.lookahead_bytes", 65536),
                                           ("grpc.http2.bdp_probe", 0)])
        forwards = [self.forward("flood", client=client) for _ in range(8)]
        self.stands_still(lambda: lib.resident_bytes(self.boxd.boxd.pid) // MIB)
        self.assertLess(lib.resident_bytes(self.boxd.boxd.pid) - before, self.MOST)
        # It was not lost, only late.
        self.assertEqual(forwards[0].until(20 * MIB)[:20 * MIB], b"y" * 20 * MIB)

    def test_a_program_that_does_not_read_stops_the_caller(self):
        before = lib.resident_bytes(self.boxd.boxd.pid)
        pb, sent = self.pb.session, [0]

        def requests():
            yield pb.PortForwardRequest(start=pb.PortForwardStart(session_id=self.sid, port=8000))
            yield pb.PortForwardRequest(data=b"sleep\n")
            while sent[0] < 256 * MIB:
                sent[0] += 65536
                yield pb.PortForwardRequest(data=b"z" * 65536)

        call = self.client.sessions.PortForward(requests(), timeout=60)
        self.addCleanup(call.cancel)
        self.assertEqual(next(call).WhichOneof("response"), "started")
        total = self.stands_still(lambda: sent[0])
        self.assertLess(total, 32 * MIB)
        self.assertLess(lib.resident_bytes(self.boxd.boxd.pid) - before, self.MOST)
        forward = self.forward("echo")  # others go on
        forward.send(b"well")
        self.assertEqual(forward.until(4), b"well")


class Ends(PortCase):
    def test_a_cancelled_call_resets_the_connection(self):
        output = self.serve()
        forward = self.forward("digest")
        forward.send(b"half of it")
        output.until(b"begin digest\n")
        forward.call.cancel()
        output.until(b"reset\n")

    def test_a_deadline_resets_it_too(self):
        output = self.serve()
        forward = self.forward("echo", deadline=1)
        with self.assertRaises(grpc.RpcError) as caught:
            forward.take()
        self.assertEqual(caught.exception.code(), StatusCode.DEADLINE_EXCEEDED)
        output.until(b"reset\n")

    def test_a_connection_that_vanishes_resets_it(self):
        output = self.serve()
        client = self.boxd.client()
        self.forward("echo", client=client)
        output.until(b"begin echo\n")
        client.close()
        output.until(b"reset\n")

    def test_the_program_resets(self):
        self.serve()
        forward = self.forward("abort")
        self.assertEqual(forward.until(10), b"last words")
        forward.send(b"go\n")
        failure = self.fails(StatusCode.UNAVAILABLE, "RUNTIME_UNAVAILABLE", lambda: forward.call)
        self.assertEqual(failure.metadata, {"cause": "reset", "port": "8000"})

    def test_the_program_is_killed(self):
        output = self.serve()
        forward = self.forward("sleep")
        output.until(b"begin sleep\n")
        self.signal(9, "server-8000")
        forward.until_closed()
        forward.half_close()
        forward.finish()

    def test_the_session_is_deleted(self):
        self.serve()
        forwards = [self.forward("sleep") for _ in range(3)]
        self.client.delete(self.sid)
        for forward in forwards:
            failure = self.fails(StatusCode.FAILED_PRECONDITION, "SESSION_NOT_RUNNING",
                                 lambda forward=forward: forward.call)
            self.assertEqual(failure.metadata, {"stop_reason": "deleted"})
        self.boxd.wait_nothing_left()

    def test_an_open_one_is_a_use(self):
        self.client.delete(self.sid)
        self.client.create(self.sid, idle_ttl=duration(2))
        self.serve_in_background()
        forward = self.forward("echo", wait=30)
        time.sleep(4)  # two sweeps beyond the idle end
        forward.send(b"there")
        self.assertEqual(forward.until(5), b"there")
        forward.half_close()
        forward.finish()
        lib.wait_for(lambda: self.client.get(self.sid).state == self.pb.types.SESSION_STATE_STOPPED,
                     "it ends when nothing uses it")

    def serve_in_background(self):
        """Not as a managed process, which is a use itself."""
        from forwarding import PROGRAM
        self.client.run(f"exec setsid python3 - 127.0.0.1 8000 >/dev/null 2>&1 <<'EOF' &\n"
                        f"{PROGRAM}\nEOF\n", self.sid)


class Refusals(PortCase):
    def test_nothing_listens(self):
        failure = self.refused("refused", 9)
        self.assertIn("port 9", failure.text)

    def test_waiting_for_a_program_that_comes_later(self):
        forward = Forward(self, 8000, wait=30)
        forward.send(b"echo\nlate")
        time.sleep(0.3)
        self.serve()
        self.assertEqual(forward.started().until(4), b"late")

    def test_waiting_in_vain(self):
        self.refused("refused", 8000, wait=0.3)

    def test_a_cancelled_wait_costs_nothing_more(self):
        waiting = [Forward(self, 8000, wait=3600) for _ in range(100)]
        time.sleep(0.5)
        for forward in waiting:
            forward.end()
        self.serve()  # those that still waited would be connections now
        more = [self.forward("echo") for _ in range(100)]
        more[-1].send(b"x")
        self.assertEqual(more[-1].until(1), b"x")

    def test_what_must_be_said(self):
        p = self.pb.session
        call = self.client.sessions.PortForward
        for port in (0, -1, 65536):
            self.invalid(lambda port=port: Forward(self, port).call, "start.port")
        self.invalid(lambda: Forward(self, 80, session_id="").call, "start.session_id")
        self.invalid(lambda: Forward(self, 80, wait=-1).call, "start.wait")
        self.invalid(lambda: Forward(self, 80, wait=3601).call, "start.wait")
        self.invalid(lambda: call(iter([])), "request")
        self.invalid(lambda: call(iter([p.PortForwardRequest()])), "request")
        self.invalid(lambda: call(iter([p.PortForwardRequest(data=b"x")])), "request")
        self.serve()
        forward = self.forward("echo")
        forward.message(start=p.PortForwardStart(session_id=self.sid, port=8000))
        self.invalid(lambda: forward.call, "request")
        forward = self.forward("echo")
        forward.send(b"x" * (MIB + 1))
        self.invalid(lambda: forward.call, "data")

    def test_sessions_that_are_not_there(self):
        for sid in ("none", "x" * 256):
            failure = self.fails(StatusCode.NOT_FOUND, "SESSION_NOT_FOUND",
                                 lambda sid=sid: Forward(self, 80, session_id=sid).call)
            self.assertEqual(failure.metadata, {"kind": "session", "id": sid})
        self.client.sessions.StopSession(self.pb.session.StopSessionRequest(session_id=self.sid))
        self.fails(StatusCode.FAILED_PRECONDITION, "SESSION_NOT_RUNNING",
                   lambda: Forward(self, 80).call)

    def test_a_session_has_so_many_and_they_come_back(self):
        self.serve()
        forwards = [self.forward("echo") for _ in range(128)]
        failure = self.fails(StatusCode.RESOURCE_EXHAUSTED, "QUOTA",
                             lambda: Forward(self, 8000).call)
        self.assertEqual(failure.metadata, {"limit": "forwards", "max": "128", "used": "128"})
        for forward in forwards[:2]:
            forward.half_close()
            forward.finish()
        for _ in range(2):
            forward = self.forward("echo")
            forward.send(b"x")
            self.assertEqual(forward.until(1), b"x")

    def test_another_tenants_session_is_not_found(self):
        admin = self.client.admin
        pb = self.pb.admin
        admin.CreateTenant(pb.CreateTenantRequest(tenant=pb.Tenant(tenant_id="port-other")))
        other = self.boxd.client(tenant="port-other")
        self.fails(StatusCode.NOT_FOUND, "SESSION_NOT_FOUND",
                   lambda: Forward(self, 80, client=other).call)
        admin.DeleteTenant(pb.DeleteTenantRequest(tenant_id="port-other"))

    def test_a_token_without_the_scope(self):
        pb = self.pb.admin
        token = self.client.admin.CreateToken(pb.CreateTokenRequest(
            tenant_id="default", scopes=["session.read", "session.write"])).secret
        self.fails(StatusCode.PERMISSION_DENIED, "PERMISSION",
                   lambda: Forward(self, 80, client=self.boxd.client(token)).call)


if __name__ == "__main__":
    boxd_lib.main()
