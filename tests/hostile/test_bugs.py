"""known-bugs.md rows B1 to B20 that are about one server: what others got wrong in sessions and
commands. One class a row."""

import contextlib
import os
import signal
import time

import grpc

import hostile_lib
import lib
from hostile_lib import HostileCase, MIB, duration
from grpc import StatusCode

ENDS_SECONDS = 20  # something ends, far from what it must not wait for


class Case(HostileCase):
    """A server of each class's own."""

    config = ""

    @classmethod
    def setUpClass(cls):
        HostileCase.start_server(config=cls.config)

    @classmethod
    def tearDownClass(cls):
        HostileCase.stop_server()

    def setUp(self):
        super().setUp()
        self.t = self.pb.types

    def start(self, what, session_id=None, **fields):
        """A command that has come to its `sleep`."""
        sid = self.sid if session_id is None else session_id
        call = self.client.execs.Exec.future(self.client.exec_request(
            what, sid, **{"timeout": 100, **fields}), timeout=110)
        self.addCleanup(call.cancel)
        lib.wait_for(lambda: call.done() or self.client.get(sid).active_execs > 0, "it runs")
        lib.wait_for(lambda: "sleep" in {hostile_lib.name_of(p) for p in self.boxd.processes()},
                     "it has come to its sleep")
        return call

    @contextlib.contextmanager
    def stopped_warden(self):
        """The warden stands still meanwhile."""
        pid = self.boxd.warden.pid
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)


class B1(Case):
    """Sessions without a limit."""

    config = "limits: {sessions: 5, sessions_per_tenant: 3}\n"

    def test_more_than_there_may_be(self):
        admin, pb = self.client.admin, self.pb.admin
        admin.CreateTenant(pb.CreateTenantRequest(tenant=pb.Tenant(tenant_id="second")))
        self.addCleanup(admin.DeleteTenant, pb.DeleteTenantRequest(tenant_id="second"))
        second = self.boxd.client(admin.CreateToken(pb.CreateTokenRequest(
            tenant_id="second", scopes=["exec.write", "session.write"])).secret)
        gates = []
        for client, most, limit, maximum in ((self.client, 3, "sessions_per_tenant", "3"),
                                             (second, 2, "sessions", "5")):
            for i in range(most):  # busy ones: an idle one could make room
                gates.append(client.execs.Exec.future(client.exec_request(
                    ["sleep", "60"], f"s{i}", timeout=60), timeout=90))
            lib.wait_for(lambda: len([p for p in self.boxd.processes()
                                      if hostile_lib.name_of(p) == "sleep"]) == len(gates), "they run")
            for call in (lambda c=client: c.create("more"), lambda c=client: c.run(["true"]),
                         lambda c=client: c.run(["true"], "another")):
                failure = self.fails(StatusCode.RESOURCE_EXHAUSTED, "SESSION_LIMIT", call)
                self.assertEqual((failure.metadata["limit"], failure.metadata["max"]),
                                 (limit, maximum), failure)
        for gate in gates:
            gate.cancel()
        self.client.delete("s0")
        self.assertEqual(second.out(["echo", "room"]), "room")


class B2(Case):
    """No periodic reaping: silence is enough."""

    config = "limits: {idle_ttl: 1s}\n"

    def test_nobody_calls(self):
        uids = [self.client.create(f"{self.sid}-{i}").uid for i in range(5)]
        self.client.run("setsid sleep 300 &", f"{self.sid}-0")
        self.client.close()
        lib.wait_for(lambda: not any(self.boxd.processes(uid) for uid in uids), "all of them go")
        hostile_lib.BoxdCase.client = self.boxd.client()
        record = self.client.get(f"{self.sid}-0")
        self.assertEqual((record.state, record.stop_reason),
                         (self.t.SESSION_STATE_STOPPED, self.t.STOP_REASON_IDLE))


class B3(Case):
    """A slow start that stops everything else."""

    def test_forty_creates_that_hang(self):
        self.client.create(self.sid)
        with self.stopped_warden():
            hung = [self.client.sessions.CreateSession.future(self.pb.session.CreateSessionRequest(
                session_id=f"{self.sid}-{i}"), timeout=100) for i in range(40)]
            for i in range(40):
                self.addCleanup(self.client.delete, f"{self.sid}-{i}")
            time.sleep(0.2)
            other = self.boxd.client()
            begin = time.monotonic()
            for _ in range(20):
                self.completes(other.run("exit 3", self.sid), 3)
                self.assertTrue(other.control.Health(self.pb.control.HealthRequest(), timeout=5))
                other.sessions.ListSessions(self.pb.session.ListSessionsRequest(), timeout=5)
                other.get(f"{self.sid}-7")  # one of those that hang
                other.control.GetStatus(self.pb.control.GetStatusRequest(), timeout=5)
            # What only the warden knows is left out then, and nobody waits for it.
            self.assertFalse(other.get(self.sid).HasField("usage"))
            self.assertLess(time.monotonic() - begin, ENDS_SECONDS)
            self.assertFalse(any(call.done() for call in hung))
        for call in hung:
            call.result()
        self.assertTrue(other.get(self.sid).HasField("usage"))


class B4(Case):
    """A background child that keeps stdout open: exec hung past its timeout, reported no exit code and
    destroyed the session."""

    def test_a_child_with_the_pipes(self):
        uid = self.client.create(self.sid).uid
        for text in ("sleep 1000 & echo hi; exit 3", "(sleep 1000 &) & echo hi; exit 3",
                     "setsid nohup sleep 1000 & echo hi; exit 3",
                     "(while :; do echo >/dev/null; sleep 1; done) & echo hi; exit 3"):
            begin = time.monotonic()
            answer = self.completes(self.client.run(text, self.sid, timeout=30), 3)
            self.assertLess(time.monotonic() - begin, ENDS_SECONDS)
            self.assertEqual(answer.stdout_data, b"hi\n")
            self.assertGreaterEqual(answer.verdict.leftover_processes, 1)
            self.assertFalse(answer.verdict.session_destroyed)
        # With leftovers that count for the timeout's end, too.
        answer = self.client.run("sleep 1000 & wait", self.sid, timeout=1)
        self.assertEqual(answer.verdict.status, self.t.VERDICT_STATUS_TIMED_OUT)
        self.assertEqual(self.client.get(self.sid).uid, uid)


class B5(Case):
    """Children that survive their session, its end by whatever way, or the server's."""

    DAEMONS = "setsid sleep 1000 & (setsid nohup sleep 1000 &) & (trap '' TERM HUP; exec sleep 1000) &"

    def left(self, uid):
        return [p for p in self.boxd.processes(uid) if hostile_lib.name_of(p) == "sleep"]

    def test_every_end_of_a_session(self):
        ends = (lambda s: self.client.sessions.StopSession(
                    self.pb.session.StopSessionRequest(session_id=s)),
                self.client.delete,
                lambda s: self.client.sessions.UpdateSession(self.pb.session.UpdateSessionRequest(
                    session_id=s, spec=self.t.SessionSpec(idle_ttl=duration(1)),
                    update_mask={"paths": ["idle_ttl"]})))
        for i, end in enumerate(ends):
            sid = f"{self.sid}-{i}"
            self.addCleanup(self.client.delete, sid)
            uid = self.client.create(sid).uid
            self.client.run(self.DAEMONS + " sleep 0.2", sid)
            self.assertEqual(len(self.left(uid)), 3)
            end(sid)
            lib.wait_for(lambda u=uid: not self.boxd.processes(u), f"end {i} ends all")

    def test_the_servers_own(self):
        uid = self.client.create(self.sid).uid
        self.client.run(self.DAEMONS + " sleep 0.2", self.sid)
        self.assertEqual(len(self.left(uid)), 3)
        self.client.close()
        self.boxd.stop_boxd()
        self.boxd.wait_nothing_left()
        self.boxd.start_boxd()
        hostile_lib.BoxdCase.client = self.boxd.client()
        self.client.out(["true"])
        hostile_lib.BoxdCase.start_fds = hostile_lib.fd_count(self.boxd.boxd.pid)


class B6(Case):
    """A backend start that timed out was taken for success: the session was there and no sandbox."""

    def test_a_start_without_end(self):
        with self.stopped_warden():
            with self.assertRaises(grpc.RpcError) as caught:  # BOX_WARDEN_CREATE_SECONDS
                self.client.sessions.CreateSession(
                    self.pb.session.CreateSessionRequest(session_id=self.sid), timeout=100)
            self.assertIn(caught.exception.code(),
                          (StatusCode.UNAVAILABLE, StatusCode.DEADLINE_EXCEEDED))
            failure = hostile_lib.Failure(caught.exception)
            self.assertIn(failure.reason, ("BACKEND_UNAVAILABLE", "DEADLINE"), failure)
            try:
                self.assertNotEqual(self.client.get(self.sid).state, self.t.SESSION_STATE_RUNNING)
            except grpc.RpcError as error:
                self.assertEqual(error.code(), StatusCode.NOT_FOUND)
        # What it makes now nobody wants: it goes.
        self.boxd.wait_backend()
        self.completes(self.client.run("exit 3", self.sid), 3)
        uid = self.client.get(self.sid).uid
        lib.wait_for(lambda: {os.path.basename(p) for base in self.boxd.cgroups
                              for p in hostile_lib.glob.glob(f"{base}/*/*")
                              if os.path.isdir(p)} - self.boxd.prepared() <= {uid},
                     "the half-made one goes")


class B7(Case):
    """The limit of a start hung itself, on what grandchildren held."""

    def test_the_callers_deadline_holds_while_it_starts(self):
        with self.stopped_warden():
            for call in (lambda: self.client.run(["true"], deadline=1),
                         lambda: self.client.run(["true"], self.sid, deadline=1),
                         lambda: self.client.sessions.CreateSession(
                             self.pb.session.CreateSessionRequest(session_id=self.sid + "2"), timeout=1)):
                begin = time.monotonic()
                with self.assertRaises(grpc.RpcError) as caught:
                    call()
                self.assertEqual(caught.exception.code(), StatusCode.DEADLINE_EXCEEDED)
                self.assertLess(time.monotonic() - begin, ENDS_SECONDS)
        self.client.delete(self.sid + "2")
        self.completes(self.client.run("exit 3", self.sid), 3)

    def test_a_warden_whose_children_hold_everything_open(self):
        # A daemon that inherited what the sandbox's starter had must not be waited for.
        uid = self.client.create(self.sid).uid
        self.client.run("setsid sh -c 'trap \"\" TERM; sleep 1000' </dev/null >/dev/null 2>&1 &",
                        self.sid)
        begin = time.monotonic()
        for _ in range(5):
            self.completes(self.client.run("exit 3", ""), 3)
        self.assertLess(time.monotonic() - begin, ENDS_SECONDS)
        self.assertTrue(self.boxd.processes(uid))


class B8(Case):
    """The timeout of one command ended the session with the processes of all others."""

    def test_only_the_one_that_took_too_long(self):
        uid = self.client.create(self.sid, max_parallel_execs=3).uid
        self.client.run("setsid sleep 300 & echo x >/workspace/kept", self.sid)
        other = self.start("sleep 3; exit 6")
        for _ in range(3):
            v = self.client.run("(setsid sleep 200 &); sleep 100", self.sid, timeout=0.3).verdict
            self.assertEqual((v.status, v.session_destroyed),
                             (self.t.VERDICT_STATUS_TIMED_OUT, False))
        self.completes(other.result(), 6)
        self.assertEqual(self.client.get(self.sid).uid, uid)
        self.assertEqual(self.client.out("cat kept; pgrep -fc '[s]leep 300'; pgrep -fc '[s]leep 200'; "
                                         "true", self.sid).split(), ["x", "1", "0"])


class B9(Case):
    """Output was stripped at both ends."""

    def test_blanks_stay(self):
        for data in (b"  x\n\n", b"\n\n\n", b" ", b"\t\r\n x \x0b\x0c\n", b"\n"):
            answer = self.completes(self.client.run("tee /dev/stderr", self.sid, stdin=data))
            self.assertEqual((answer.stdout_data, answer.stderr_data), (data, data))


class B10(Case):
    """Only the first MiB was kept: the end, usually the error, was lost."""

    def test_head_and_tail(self):
        answer = self.completes(self.client.run(
            "echo first; seq 1000000; echo 'the error' ; exit 9", self.sid), 9)
        report = answer.verdict.stdout_report
        self.assertTrue(report.truncated)
        self.assertTrue(answer.stdout_data.startswith(b"first\n1\n2\n"))
        self.assertTrue(answer.stdout_data.endswith(b"999999\n1000000\nthe error\n"))
        whole = b"first\n" + b"".join(b"%d\n" % i for i in range(1, 1000001)) + b"the error\n"
        self.assertEqual(report.total_bytes, len(whole))
        tail = report.kept_bytes - report.head_bytes
        self.assertEqual(answer.stdout_data, whole[:report.head_bytes] + whole[-tail:])


class B11(Case):
    """The number of what was left out was off by one, and of characters."""

    def test_exact_around_the_limit(self):
        for limit in (1, 2, 10, 4000):
            for size in (limit - 1, limit, limit + 1, 2 * limit, 4001):
                for unit in (b"x", "\u20ac".encode()):
                    data = (unit * size)[:size]
                    answer = self.completes(self.client.run(["cat"], self.sid, stdin=data,
                                                            output_limit_bytes=limit))
                    report = answer.verdict.stdout_report
                    self.assertEqual((report.total_bytes, report.kept_bytes, report.truncated),
                                     (size, min(size, limit), size > limit), (limit, size))
                    self.assertEqual(len(answer.stdout_data), min(size, limit))


class B12(Case):
    """Output that is no UTF-8 was destroyed without a word."""

    def test_it_comes_back(self):
        data = bytes(range(256)) * 3 + b"\xff\xfe\x00\xe2\x28\xa1\xed\xa0\x80"
        answer = self.completes(self.client.run("tee /dev/stderr", self.sid, stdin=data))
        self.assertEqual((answer.stdout_data, answer.stderr_data), (data, data))


class B13(Case):
    """Signals, lack of memory and programs that cannot start had no result of their own."""

    def test_five_different_ends(self):
        self.client.create(self.sid, memory_bytes=64 * MIB, workspace_limit_bytes=MIB)
        v = self.client.run("kill -9 $$", self.sid).verdict
        self.assertEqual((v.status, v.signal, v.HasField("exit_code"), v.oom_kills),
                         (self.t.VERDICT_STATUS_COMPLETED, 9, False, 0))
        v = self.client.run("exit 137", self.sid).verdict
        self.assertEqual((v.status, v.exit_code, v.HasField("signal")),
                         (self.t.VERDICT_STATUS_COMPLETED, 137, False))
        v = self.client.run(["python3", "-c", "x = []\nwhile True: x.append(bytearray(1 << 20))"],
                            self.sid).verdict
        self.assertEqual((v.status, v.signal), (self.t.VERDICT_STATUS_OOM_KILLED, 9))
        self.assertGreater(v.oom_kills, 0)
        failure = self.fails(StatusCode.NOT_FOUND, "FILE_NOT_FOUND",
                             lambda: self.client.run(["/bin/no-such-shell"], self.sid))
        self.assertEqual(failure.metadata, {"kind": "command", "id": "/bin/no-such-shell"})
        v = self.client.run("exec /bin/no-such-shell", self.sid).verdict
        self.assertEqual((v.status, v.exit_code), (self.t.VERDICT_STATUS_COMPLETED, 127))


class B18(Case):
    """After shutdown the runtime went on taking sessions."""

    def test_draining_takes_nothing_new(self):
        self.client.create(self.sid)
        running = self.start("sleep 2; exit 5")
        self.client.control.Shutdown(self.pb.control.ShutdownRequest())
        refusals = set()
        while not running.done():
            for call in (lambda: self.client.run(["true"], self.sid, deadline=5),
                         lambda: self.client.run(["true"], deadline=5),
                         lambda: self.client.create("new")):
                try:
                    call()
                except grpc.RpcError as error:
                    self.assertEqual(error.code(), StatusCode.UNAVAILABLE, error)
                    refusals.add(hostile_lib.Failure(error).reason)
                else:
                    self.fail("a draining server took something new")
        self.completes(running.result(), 5)
        self.assertTrue(refusals <= {"SHUTTING_DOWN", None}, refusals)  # None: no server any more
        boxd, self.boxd.boxd = self.boxd.boxd, None
        self.assertEqual(boxd.wait(ENDS_SECONDS), 0)
        boxd.process.stdout.close()
        self.boxd.wait_nothing_left()
        self.client.close()
        self.boxd.start_boxd()
        hostile_lib.BoxdCase.client = self.boxd.client()
        self.client.out(["true"])
        hostile_lib.BoxdCase.start_fds = hostile_lib.fd_count(self.boxd.boxd.pid)


class B19(Case):
    """delete waited for what ran, until its caller gave up."""

    def test_it_ends_what_runs_and_what_waits(self):
        uid = self.client.create(self.sid).uid
        running = self.start("trap '' TERM; sleep 100; exit 0")
        waiting = [self.client.execs.Exec.future(self.client.exec_request(["true"], self.sid),
                                                 timeout=60) for _ in range(3)]
        lib.wait_for(lambda: self.client.get(self.sid).queued_execs == 3, "three wait")
        begin = time.monotonic()
        self.client.delete(self.sid)
        verdict = running.result().verdict
        for call in waiting:
            with self.assertRaises(grpc.RpcError):
                call.result()
        self.assertLess(time.monotonic() - begin, ENDS_SECONDS)
        self.assertEqual(verdict.status, self.t.VERDICT_STATUS_KILLED)
        self.assertFalse(verdict.HasField("exit_code"))
        lib.wait_for(lambda: not self.boxd.processes(uid), "its sandbox goes")


class B20(Case):
    """The lives of sessions could be set in the program's text only."""

    config = "limits: {idle_ttl: 2s, lifetime: 4s}\n"

    def test_keys_of_the_configuration(self):
        spec = self.client.create(self.sid).spec
        self.assertEqual((spec.idle_ttl.seconds, spec.max_lifetime.seconds), (2, 4))
        self.client.create(self.sid + "2")
        self.addCleanup(self.client.delete, self.sid + "2")
        state = lambda sid: (self.client.get(sid).state, self.client.get(sid).stop_reason)
        while state(self.sid)[0] == self.t.SESSION_STATE_RUNNING:  # used all the time
            try:
                self.client.run(["true"], self.sid + "2")
            except grpc.RpcError:
                pass
            time.sleep(0.1)
        self.assertEqual(state(self.sid)[1], self.t.STOP_REASON_IDLE)

    def test_values_that_are_none(self):
        folder = lib.TemporaryFolder("box-hostile-")
        self.addCleanup(folder.remove)
        for text in ("idle_ttl: 0s", "idle_ttl: -1s", "lifetime: soon", "ttl: 5m", "idle_ttl: 5"):
            with open(folder.file("boxd.yaml"), "w", encoding="ascii") as f:
                f.write(f"server: {{unix_socket: {folder.path}/s}}\nlimits: {{{text}}}\n"
                        f"state_dir: {folder.path}/state\n")
            done = hostile_lib.run_quietly([os.path.join(self.boxd.bin_dir, "boxd"), "--check-config",
                                            "--config", folder.file("boxd.yaml")])
            self.assertEqual(done.returncode, 1, text)
            self.assertIn(b"boxd.yaml:2:", done.stderr, text)


class B24(Case):
    """Cleaning up after a crash ended the sandboxes of another live server on the machine."""

    def second(self, same_warden):
        """Another boxd: on the same warden, or with one of its own."""
        other = hostile_lib.Boxd(hostile_lib.sys.argv[1], start=False)
        self.addCleanup(other.kill)
        if same_warden:
            path = other.folder.file("boxd.yaml")
            with open(path, encoding="utf-8") as f:
                text = f.read()
            with open(path, "w", encoding="utf-8") as f:
                f.write(text.replace(other.socket, self.boxd.socket))
        else:
            other.start_warden()
        other.start_boxd()
        return other

    def check(self, same_warden):
        session = self.client.create(self.sid).uid
        mine = self.start("sleep 1000 & sleep 6; echo mine; exit 4")
        other = self.second(same_warden)
        for names in (("boxd",), ("boxd",) if same_warden else ("boxd", "warden")):
            theirs = other.client()
            for i in range(5):
                theirs.run("setsid sleep 1000 &", f"t{i}")
            theirs.close()
            for server in [getattr(other, name) for name in names]:
                server.process.kill()
                server.process.wait()
                server.process.stdout.close()
            if "warden" in names:
                other.start_warden()
            other.start_boxd()
            theirs = other.client()
            self.assertEqual(len(theirs.sessions.ListSessions(
                self.pb.session.ListSessionsRequest()).sessions), 0)
            self.assertEqual(theirs.out(["echo", "theirs"]), "theirs")
            theirs.close()
            self.assertTrue(self.boxd.processes(session))
        answer = self.completes(mine.result(), 4)
        self.assertEqual(answer.stdout_data, b"mine\n")
        self.assertEqual(self.client.get(self.sid).uid, session)
        other.stop_boxd()
        if not same_warden:
            other.wait_nothing_left()
            other.stop_warden()
        self.client.delete(self.sid)
        self.boxd.wait_nothing_left()  # theirs are gone too

    def test_with_wardens_of_their_own(self):
        self.check(False)

    def test_with_one_warden(self):
        self.check(True)


if __name__ == "__main__":
    hostile_lib.main()
