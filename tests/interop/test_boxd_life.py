"""How long sessions of the real server live: eviction, no idle end, and persistent ones that outlive
boxd and its warden."""

import os
import random
import signal
import sys
import threading
import time

import grpc

import boxd_lib
import lib
from boxd_lib import BoxdCase, OwnServerCase, duration
from grpc import StatusCode


class Evict(OwnServerCase):
    @classmethod
    def setUpClass(cls):
        cls.begin(config="limits:\n  sessions_per_tenant: 2\n  when_full: evict\n")

    def test_the_least_recently_used_idle_session_makes_room(self):
        for name in ("a", "b"):
            self.client.create(self.sid + name)
            self.addCleanup(self.client.delete, self.sid + name)
        self.client.run(["true"], self.sid + "a")
        running = self.start("sleep 100")  # in a third: b goes
        gone = self.client.get(self.sid + "b")
        self.assertEqual((gone.state, gone.stop_reason),
                         (self.t.SESSION_STATE_STOPPED, self.t.STOP_REASON_EVICTED))
        self.completes(self.client.run(["true"], self.sid + "b"))  # made anew; a goes
        self.assertEqual(self.client.get(self.sid + "a").stop_reason, self.t.STOP_REASON_EVICTED)
        self.assertFalse(running.done())
        running.cancel()

    def test_no_idle_end_is_refused(self):
        failure = self.fails(StatusCode.PERMISSION_DENIED, "PERMISSION",
                             lambda: self.client.create(self.sid, idle_ttl=duration(0)))
        self.assertEqual(failure.metadata, {"rule": "limits.allow_no_idle_ttl"})


class Endless(OwnServerCase):
    @classmethod
    def setUpClass(cls):
        cls.begin(config="limits:\n  idle_ttl: 1s\n  allow_no_idle_ttl: true\n")

    def test_no_idle_end(self):
        self.client.create(self.sid, idle_ttl=duration(0))
        other = self.client.create().session_id
        lib.wait_for(lambda: self.client.get(other).state == self.t.SESSION_STATE_STOPPED,
                     "one with the default ends")
        session = self.client.get(self.sid)
        self.assertEqual((session.state, session.spec.idle_ttl),
                         (self.t.SESSION_STATE_RUNNING, duration(0)))


class Defaults(OwnServerCase):
    """What sessions get that say nothing: from the configuration file, then from Initialize."""

    @classmethod
    def setUpClass(cls):
        cls.roots = lib.TemporaryFolder("box-roots-")
        cls.addClassCleanup(cls.roots.remove)
        for name in ("one", "two"):
            os.mkdir(cls.roots.file(name))
        for path in (cls.roots.path, cls.roots.file("one"), cls.roots.file("two")):
            os.chown(path, 1000, 1000)
        cls.begin(config=f"box:\n  default_workspace: {cls.roots.file('one')}\n"
                  "  default_workspace_limit: 8MiB\nadmission:\n  required: true\n",
                  warden_config="allowed_roots:\n"
                  f"  - {{path: {cls.roots.path}, owner_uid: 1000}}\n")

    def initialize(self, **config):
        pb = self.pb.control
        return self.client.control.Initialize(
            pb.InitializeRequest(config=pb.BoxConfig(**config))).config

    def test_the_default_workspace(self):
        one, two = self.roots.file("one"), self.roots.file("two")
        self.client.out("echo x >/workspace/f", self.sid)
        self.assertTrue(os.path.exists(os.path.join(one, "f")))
        self.assertEqual(self.client.get(self.sid).spec.host_path, one)
        self.assertEqual(self.initialize(default_workspace=two).default_workspace, two)
        self.addCleanup(self.initialize, default_workspace=one)
        self.client.out("echo y >/workspace/f", self.sid)  # it has its own already
        self.assertEqual(os.listdir(two), [])
        self.client.out("echo z >/workspace/f")
        self.assertEqual(os.listdir(two), ["f"])
        private = {"host_path_mode": self.t.MOUNT_MODE_NONE}
        self.client.out("test ! -e /workspace/f", spec=private)
        self.initialize(default_workspace="")
        self.client.out("test ! -e /workspace/f")
        self.initialize(default_workspace="/srv")
        self.fails(StatusCode.PERMISSION_DENIED, "PERMISSION", lambda: self.client.run(["true"]))

    def test_other_tenants_do_not_share_it(self):
        admin = self.pb.admin
        self.client.admin.CreateTenant(admin.CreateTenantRequest(
            tenant=admin.Tenant(tenant_id="other")))
        token = self.client.admin.CreateToken(admin.CreateTokenRequest(
            tenant_id="other", scopes=["exec.write", "session.write", "session.read"])).secret
        other = self.boxd.client(token)
        self.client.out("echo x >/workspace/mine")
        self.completes(other.run("test ! -e /workspace/mine"))

    def test_the_default_limit(self):
        private = {"host_path_mode": self.t.MOUNT_MODE_NONE}
        size = "df -k /workspace | tail -1 | tr -s ' ' | cut -d' ' -f2"
        self.assertEqual(self.client.out(size, spec=private), "8192")
        self.initialize(default_workspace_limit_bytes=4 << 20)
        self.addCleanup(self.initialize, default_workspace_limit_bytes=8 << 20)
        self.assertEqual(self.client.out(size, spec=private), "4096")

    def test_admission(self):
        pb = self.pb.control
        session = self.client.create(self.sid)
        required = {g.name for g in session.guarantees if g.required}
        self.assertLessEqual({"filesystem", "process", "user"}, required)
        self.initialize(admission=pb.AdmissionConfig(
            guarantees=pb.GuaranteeList(names=["images"])))
        self.addCleanup(self.initialize, admission=pb.AdmissionConfig(
            guarantees=pb.GuaranteeList()))
        failure = self.fails(StatusCode.FAILED_PRECONDITION, "GUARANTEE_UNSUPPORTED",
                             lambda: self.client.run(["true"]))
        self.assertEqual(failure.metadata["guarantees"], "images")
        self.completes(self.client.run(["true"], self.sid))  # it was admitted

    def test_limits(self):
        limits = self.t.Limits
        self.client.create(self.sid)
        self.assertEqual(self.initialize(limits=limits(max_sessions=1)).limits.max_sessions, 1)
        self.addCleanup(self.initialize, limits=limits(max_sessions=10000))
        failure = self.fails(StatusCode.RESOURCE_EXHAUSTED, "SESSION_LIMIT",
                             lambda: self.client.run(["true"]))
        self.assertEqual((failure.metadata["limit"], failure.metadata["max"]), ("sessions", "1"))
        status = self.client.control.GetStatus(self.pb.control.GetStatusRequest())
        self.assertEqual(status.server.limits.max_sessions, 1)


class Persistent(OwnServerCase):
    """What was made before a part of Box ended is there afterwards, and goes when it is deleted."""

    def make(self):
        """A session with a file, a background process and a used command id; its uid."""
        session = self.client.create(self.sid, persistent=True, pids_limit=77, env={"KEPT": "yes"},
                                     labels={"a": "b"})
        self.assertEqual(session.spec.idle_ttl, duration(0))
        self.client.out("echo data >/workspace/file; (setsid sleep 1000 >/dev/null 2>&1 &)",
                        self.sid)
        return session.uid

    def check(self, uid, execs):
        session = self.client.get(self.sid)
        self.assertEqual(
            (session.uid, session.state, session.rebuilds, session.total_execs,
             session.spec.pids_limit, session.spec.persistent, dict(session.spec.labels),
             list(session.env_keys)),
            (uid, self.t.SESSION_STATE_RUNNING, 0, execs, 77, True, {"a": "b"}, ["KEPT"]))
        listed = self.client.sessions.ListSessions(self.pb.session.ListSessionsRequest())
        self.assertEqual([s.uid for s in listed.sessions], [uid])
        answer = self.completes(self.client.run("cat /workspace/file; echo $KEPT", self.sid))
        self.assertEqual(answer.stdout_data, b"data\nyes\n")
        self.assertFalse(answer.session_created)
        self.assertIn("sleep", self.commands_in(self.sid))
        self.completes(self.client.run(["true"], self.sid,
                                       spec={"persistent": True}))  # compared: it is

    def gone(self):
        self.client.delete(self.sid)
        self.boxd.wait_nothing_left()

    def wait_running(self):
        lib.wait_for(lambda: self.client.get(self.sid).state == self.t.SESSION_STATE_RUNNING,
                     "it is taken over")

    def test_boxd_ends_and_comes_back(self):
        uid = self.make()
        other = self.client.create().uid
        for i in range(2):
            self.boxd.stop_boxd()
            self.assertFalse(self.boxd.processes(other), "one that is not persistent stayed")
            self.assertTrue(self.boxd.processes(uid))
            self.restart_boxd()
            self.wait_running()
            self.check(uid, 1 + 3 * i)
        self.gone()

    def test_boxd_is_killed(self):
        uid = self.make()
        other = self.client.create().uid
        self.crash("boxd")
        self.restart_boxd()
        self.wait_running()
        lib.wait_for(lambda: not self.boxd.processes(other), "the other is swept")
        session = self.client.get(self.sid)
        self.assertEqual((session.uid, session.rebuilds), (uid, 0))
        self.check(uid, session.total_execs)  # a use of the last seconds may not be counted
        self.gone()

    def test_the_warden_ends_and_comes_back(self):
        uid = self.make()
        self.boxd.warden.stop()
        self.boxd.start_warden()
        self.boxd.wait_backend()
        self.check(uid, 1)
        self.gone()

    def test_the_warden_is_killed(self):
        uid = self.make()
        self.crash("warden")
        self.boxd.start_warden()
        self.boxd.wait_backend()
        self.check(uid, 1)
        self.gone()

    def test_both_are_killed(self):
        uid = self.make()
        for _ in range(3):
            self.crash("boxd")
            self.crash("warden")
            self.client.close()
            self.boxd.start()
            BoxdCase.client = self.boxd.client()
            self.wait_running()
            self.check(uid, self.client.get(self.sid).total_execs)
        self.gone()

    def test_boxd_comes_back_before_its_warden(self):
        """The agent is asked itself; its numbers come when the warden is back."""
        self.make()
        before = self.client.run(["true"], self.sid).verdict
        self.crash("boxd")
        self.crash("warden")
        self.client.close()
        self.boxd.start_boxd(wait_backend=False)
        BoxdCase.client = self.boxd.client()
        self.wait_running()
        self.completes(self.client.run(["true"], self.sid))
        self.boxd.start_warden()
        self.boxd.wait_backend()
        lib.wait_for(lambda: self.client.run(["true"], self.sid).verdict.cpu_source ==
                     before.cpu_source, "the numbers are back")
        self.assertTrue(self.client.get(self.sid).usage.HasField("memory_bytes"))
        self.gone()

    def test_what_runs_while_boxd_is_killed(self):
        uid = self.make()
        call = self.start("echo begun >/workspace/mark; sleep 77; echo done >/workspace/mark")
        lib.wait_for(lambda: b"sleep\x0077" in self.command_lines(uid), "it sleeps")
        self.crash("boxd")
        with self.assertRaises(grpc.RpcError) as caught:
            call.result()
        self.assertEqual(caught.exception.code(), StatusCode.UNAVAILABLE)
        self.restart_boxd()
        self.wait_running()
        # Nobody waits for it any more: it is killed, and its slot is free.
        lib.wait_for(lambda: b"sleep\x0077" not in self.command_lines(uid), "it is killed")
        self.assertEqual(self.client.out("cat /workspace/mark", self.sid), "begun")
        self.gone()

    def command_lines(self, uid):
        lines = b""
        for pid in self.boxd.processes(uid):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as f:
                    lines += f.read() + b"\n"
            except OSError:
                pass
        return lines

    def test_a_sandbox_that_died_meanwhile_is_lost(self):
        uid = self.make()
        self.crash("boxd")
        os.kill(self.boxd.first_process(uid), signal.SIGKILL)
        self.restart_boxd()
        lib.wait_for(lambda: self.client.get(self.sid).state == self.t.SESSION_STATE_ERROR,
                     "it is lost")
        self.assertEqual(self.client.get(self.sid).stop_reason, self.t.STOP_REASON_SANDBOX_LOST)
        self.completes(self.client.run(["true"], self.sid))  # made anew, as it was
        again = self.client.get(self.sid)
        self.assertEqual((again.rebuilds, again.spec.persistent, again.spec.pids_limit),
                         (1, True, 77))
        self.assertNotEqual(again.uid, uid)
        self.crash("boxd")
        self.restart_boxd()
        self.wait_running()
        self.assertEqual(self.client.get(self.sid).uid, again.uid)
        self.gone()

    def test_what_was_deleted_does_not_come_back(self):
        self.make()
        self.client.delete(self.sid)
        self.crash("boxd")
        self.restart_boxd()
        self.fails(StatusCode.NOT_FOUND, "SESSION_NOT_FOUND", lambda: self.client.get(self.sid))
        self.boxd.wait_nothing_left()

    def test_killed_while_one_is_made(self):
        """Either it is there and works, or nothing is left of it."""
        for i in range(8):
            call = self.client.sessions.CreateSession.future(self.pb.session.CreateSessionRequest(
                session_id=f"{self.sid}-{i}", spec=self.t.SessionSpec(persistent=True)))
            made = False
            try:
                call.result(timeout=i * 0.004)
                made = True
            except (grpc.FutureTimeoutError, grpc.RpcError):
                pass
            self.crash("boxd")
            self.restart_boxd()
            listed = self.client.sessions.ListSessions(
                self.pb.session.ListSessionsRequest()).sessions
            self.assertTrue(listed or not made, "an answered session is gone")
            for session in listed:
                self.completes(self.client.run(["true"], session.session_id))
                self.client.delete(session.session_id)
            self.boxd.wait_nothing_left()

    def test_another_boxd_at_the_same_warden(self):
        uid = self.make()
        other = boxd_lib.Boxd(sys.argv[1], start=False)
        self.addCleanup(other.kill)
        path = other.folder.file("boxd.yaml")
        with open(path, encoding="utf-8") as f:
            config = f.read()
        with open(path, "w", encoding="utf-8") as f:
            f.write(config.replace(other.socket, self.boxd.socket))
        os.chmod(self.boxd.folder.path, 0o711)
        other.start_boxd()
        client = other.client()
        theirs = client.create("theirs", persistent=True).uid
        self.assertEqual(len(client.sessions.ListSessions(
            self.pb.session.ListSessionsRequest()).sessions), 1)
        self.crash("boxd")
        other.stop_boxd()
        self.restart_boxd()
        self.wait_running()
        self.check(uid, self.client.get(self.sid).total_execs)
        self.assertTrue(self.boxd.processes(theirs))
        other.start_boxd()
        client = other.client()
        self.completes(client.run(["true"], "theirs"))
        self.assertEqual(client.get("theirs").uid, theirs)
        client.delete("theirs")
        client.close()
        other.stop_boxd()
        self.check(uid, self.client.get(self.sid).total_execs)
        self.gone()


class Random(OwnServerCase):
    """boxd, its warden or both are killed at any moment while persistent sessions come and go."""

    ROUNDS = 10

    def work(self, client, name, known, stop):
        """Makes, uses and deletes one session again and again. known[name] is what was answered:
        the uid of one that must be there, None for one that must not, absent: either."""
        try:
            while not stop.is_set():
                known.pop(name, None)
                uid = client.create(name, persistent=True).uid
                known[name] = uid
                client.out(f"echo {uid} >/workspace/uid", name)
                if random.random() < 0.5:
                    del known[name]
                    client.delete(name)
                    known[name] = None
        except (grpc.RpcError, ValueError, AssertionError):
            pass  # it was killed; a closed channel is a ValueError

    def test_what_was_answered_holds(self):
        names = [f"{self.sid}-{i}" for i in range(4)]
        for number in range(self.ROUNDS):
            stop, known = threading.Event(), {}
            workers = [threading.Thread(target=self.work, args=(self.boxd.client(), name, known,
                                                                stop)) for name in names]
            for worker in workers:
                worker.start()
            time.sleep(random.random() * 0.3)
            stop.set()  # those who are between two calls see it; the others are cut off
            self.crash("boxd")
            both = number % 2 == 1
            if both:
                self.crash("warden")
            for worker in workers:
                worker.join()
            self.client.close()
            if both:
                self.boxd.start()
            else:
                self.boxd.start_boxd()
            BoxdCase.client = self.boxd.client()
            self.check(names, known)
        for name in names:
            self.client.delete(name)
        self.boxd.wait_nothing_left()

    def check(self, names, known):
        def settled():
            states = [s.state for s in self.client.sessions.ListSessions(
                self.pb.session.ListSessionsRequest()).sessions]
            return self.t.SESSION_STATE_STARTING not in states
        lib.wait_for(settled, "all are taken over")
        there = {s.session_id: s for s in self.client.sessions.ListSessions(
            self.pb.session.ListSessionsRequest()).sessions}
        for name in names:
            if name not in known:
                continue
            if known[name] is None:
                self.assertNotIn(name, there, "a deleted one came back")
            else:
                self.assertEqual((there[name].uid, there[name].state),
                                 (known[name], self.t.SESSION_STATE_RUNNING))
                said = self.client.run("cat /workspace/uid 2>/dev/null", name).stdout_data.decode()
                self.assertIn(said.strip(), ("", known[name]))  # cut off before it was written


if __name__ == "__main__":
    boxd_lib.main()
