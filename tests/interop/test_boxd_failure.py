"""What happens when a part of Box dies: sandbox, warden, boxd. Each test has servers of its own."""

import os
import random
import signal
import sys
import time
import unittest

import grpc

import boxd_lib
import lib
from boxd_lib import BoxdCase, OwnServerCase
from grpc import StatusCode


class Sandbox(OwnServerCase):
    @classmethod
    def setUpClass(cls):
        cls.roots = lib.TemporaryFolder("box-roots-")
        cls.addClassCleanup(cls.roots.remove)
        os.chown(cls.roots.path, 1000, 1000)
        cls.begin(warden_config="allowed_roots:\n"
                  f"  - {{path: {cls.roots.path}, owner_uid: 1000}}\n")

    def lose(self, uid):
        os.kill(self.boxd.first_process(uid), signal.SIGKILL)

    def test_a_killed_sandbox_is_a_verdict_and_never_exit_0(self):
        uid = self.client.create(self.sid, labels={"kept": "yes"}, pids_limit=77).uid
        call = self.start("echo begin; sleep 60")
        self.lose(uid)
        answer = call.result()
        v = answer.verdict
        self.assertEqual((v.status, answer.stdout_data),
                         (self.t.VERDICT_STATUS_SANDBOX_LOST, b"begin\n"))
        self.assertFalse(v.HasField("exit_code") or v.HasField("signal"), v)
        self.assertTrue(v.detail)
        lost = self.client.get(self.sid)
        self.assertEqual((lost.state, lost.stop_reason),
                         (self.t.SESSION_STATE_ERROR, self.t.STOP_REASON_SANDBOX_LOST))
        self.assertTrue(lost.state_detail)
        # The next use rebuilds it as it was.
        self.completes(self.client.run(["true"], self.sid))
        again = self.client.get(self.sid)
        self.assertNotEqual(again.uid, uid)
        self.assertEqual((again.state, again.rebuilds, again.spec.pids_limit,
                          dict(again.spec.labels)),
                         (self.t.SESSION_STATE_RUNNING, 1, 77, {"kept": "yes"}))

    def test_one_that_is_lost_while_idle(self):
        uid = self.client.create(self.sid).uid
        self.lose(uid)
        lib.wait_for(lambda: self.client.get(self.sid).state == self.t.SESSION_STATE_ERROR,
                     "it is noticed")
        lib.wait_for(lambda: not self.boxd.processes(uid), "the rest of it goes")
        self.completes(self.client.run(["true"], self.sid))

    def test_a_race_between_use_and_loss(self):
        for _ in range(20):
            uid = self.client.create(self.sid).uid
            self.lose(uid)
            answer = self.client.run(["true"], self.sid)  # runs in it or in a new one, or says
            if answer.verdict.status == self.t.VERDICT_STATUS_COMPLETED:
                self.completes(answer)
            else:
                self.assertEqual(answer.verdict.status, self.t.VERDICT_STATUS_SANDBOX_LOST)
            self.client.delete(self.sid)

    def test_a_command_runs_at_most_once(self):
        for i in range(60):
            uid = self.client.create(self.sid, host_path=self.roots.path).uid
            first = self.boxd.first_process(uid)
            call = self.client.execs.Exec.future(self.client.exec_request(
                f"echo x >>/workspace/{i}", self.sid), timeout=60)
            time.sleep(random.random() * 0.006)
            os.kill(first, signal.SIGKILL)
            verdict = call.result().verdict
            ran = 0
            if os.path.exists(self.roots.file(str(i))):
                with open(self.roots.file(str(i)), encoding="ascii") as f:
                    ran = len(f.readlines())
            self.assertLessEqual(ran, 1)
            if verdict.status == self.t.VERDICT_STATUS_COMPLETED:
                self.assertEqual((verdict.exit_code, ran), (0, 1))
            else:
                self.assertEqual(verdict.status, self.t.VERDICT_STATUS_SANDBOX_LOST, verdict)
            self.client.delete(self.sid)

    def test_a_lost_stream(self):
        uid = self.client.create(self.sid).uid
        start = self.pb.exec.ExecStreamRequest(start=self.pb.exec.ExecStart(
            session_id=self.sid, command=self.client.command("echo x; sleep 60")))
        answers = self.client.execs.ExecStream(iter([start]), timeout=60)
        self.assertEqual(next(answers).started.session_uid, uid)
        self.assertEqual(next(answers).stdout_data, b"x\n")
        self.lose(uid)
        self.assertEqual(next(answers).verdict.status, self.t.VERDICT_STATUS_SANDBOX_LOST)
        self.assertEqual(list(answers), [])

    def test_what_waits_for_it_is_told_or_run(self):
        uid = self.client.create(self.sid).uid
        first = self.start(["sleep", "60"])
        waiting = [self.client.execs.Exec.future(
            self.client.exec_request(["true"], self.sid), timeout=60) for _ in range(3)]
        lib.wait_for(lambda: self.client.get(self.sid).queued_execs == 3, "3 wait")
        self.lose(uid)
        self.assertEqual(first.result().verdict.status, self.t.VERDICT_STATUS_SANDBOX_LOST)
        for call in waiting:
            self.completes(call.result())


class Warden(OwnServerCase):
    def test_without_it_nothing_starts_and_with_it_again_all_works(self):
        self.client.create(self.sid)
        running = self.start(["sleep", "60"])
        self.crash("warden")

        def is_down():
            return not self.client.control.Health(self.pb.control.HealthRequest()).available
        lib.wait_for(is_down, "boxd notices")
        failure = self.fails(StatusCode.UNAVAILABLE, "BACKEND_UNAVAILABLE",
                             lambda: self.client.run(["true"]))
        self.assertEqual(failure.metadata["backend"], "namespace")
        self.fails(StatusCode.UNAVAILABLE, "BACKEND_UNAVAILABLE",
                   lambda: self.client.create(self.sid + "-new"))
        status = self.client.control.GetStatus(self.pb.control.GetStatusRequest())
        self.assertFalse(status.available)
        self.assertTrue(status.backend_error)
        # What runs does not need it.
        self.assertFalse(running.done())
        self.boxd.start_warden()
        self.boxd.wait_backend()
        self.completes(self.client.run(["true"]))
        running.cancel()
        self.completes(self.client.run(["true"], self.sid))  # adopted: the same sandbox
        self.assertEqual(self.client.get(self.sid).rebuilds, 0)

    def test_sessions_can_be_deleted_while_it_is_away(self):
        uid = self.client.create(self.sid).uid
        self.boxd.warden.stop()
        try:
            self.client.sessions.StopSession(
                self.pb.session.StopSessionRequest(session_id=self.sid), timeout=1)
        except grpc.RpcError as e:
            self.assertIn(e.code(), (StatusCode.DEADLINE_EXCEEDED, StatusCode.UNAVAILABLE))
        self.boxd.start_warden()
        self.boxd.wait_backend()
        lib.wait_for(lambda: not self.boxd.processes(uid), "its sandbox goes once it is back")

    def test_a_hung_one_stalls_only_what_needs_it(self):
        self.client.create(self.sid)
        os.kill(self.boxd.warden.pid, signal.SIGSTOP)
        try:
            with self.assertRaises(grpc.RpcError) as caught:
                self.client.run(["true"], deadline=0.5)
            self.assertEqual(caught.exception.code(), StatusCode.DEADLINE_EXCEEDED)
            self.completes(self.client.run(["true"], self.sid))
            self.client.control.WhoAmI(self.pb.control.WhoAmIRequest())
        finally:
            os.kill(self.boxd.warden.pid, signal.SIGCONT)
        self.completes(self.client.run(["true"]))


class Drain(OwnServerCase):
    """Each test ends boxd and starts a new one."""

    def ends(self, seconds=10):
        """boxd ends with 0 and leaves nothing."""
        boxd, self.boxd.boxd = self.boxd.boxd, None
        self.assertEqual(boxd.wait(seconds), 0, boxd.log())
        boxd.process.stdout.close()
        self.boxd.wait_nothing_left()

    def refused(self, client):
        """New calls are told, or find no server at all."""
        try:
            client.run(["true"], deadline=5)
        except grpc.RpcError as e:
            self.assertEqual(e.code(), StatusCode.UNAVAILABLE, e)
            return True
        return False

    def check_drains(self, stop):
        self.client.create(self.sid)
        running = self.start("sleep 1; echo done")
        watch = self.client.sessions.WatchSessions(
            self.pb.session.WatchSessionsRequest(include_existing=True))
        next(watch)
        stop()
        lib.wait_for(lambda: self.refused(self.client), "new calls are refused")
        answer = self.completes(running.result())  # what runs may finish
        self.assertEqual(answer.stdout_data, b"done\n")
        with self.assertRaises(grpc.RpcError) as caught:
            list(watch)
        self.assertEqual(caught.exception.code(), StatusCode.UNAVAILABLE)
        self.ends()
        self.restart_boxd()
        self.fails(StatusCode.NOT_FOUND, "SESSION_NOT_FOUND", lambda: self.client.get(self.sid))

    def test_sigterm(self):
        self.check_drains(lambda: os.kill(self.boxd.boxd.pid, signal.SIGTERM))

    def test_sigint(self):
        self.check_drains(lambda: os.kill(self.boxd.boxd.pid, signal.SIGINT))

    def test_shutdown(self):
        self.check_drains(lambda: self.client.control.Shutdown(self.pb.control.ShutdownRequest()))

    def test_what_takes_too_long_is_ended(self):
        self.client.create(self.sid)
        running = self.start(["sleep", "60"])
        begin = time.monotonic()
        os.kill(self.boxd.boxd.pid, signal.SIGTERM)
        self.ends(20)
        self.assertTrue(2 < time.monotonic() - begin < 12)
        with self.assertRaises(grpc.RpcError) as caught:
            running.result()
        self.assertEqual(caught.exception.code(), StatusCode.UNAVAILABLE)
        self.restart_boxd()

    def test_health_says_so(self):
        self.client.create(self.sid)
        channel = grpc.secure_channel(f"localhost:{self.boxd.port}",
                                      grpc.ssl_channel_credentials(self.boxd.ca))
        self.addCleanup(channel.close)
        watch = channel.unary_stream("/grpc.health.v1.Health/Watch")(b"")
        self.assertEqual(lib.wire_fields(next(watch)), {1: [1]})
        running = self.start("sleep 0.5")
        os.kill(self.boxd.boxd.pid, signal.SIGTERM)
        self.assertEqual(lib.wire_fields(next(watch)), {1: [2]})  # NOT_SERVING
        running.result()
        self.ends()
        self.restart_boxd()


class Crash(OwnServerCase):
    def test_leftovers_are_gone_after_the_restart(self):
        for i in range(10):
            self.client.create(f"{self.sid}-{i}")
            self.client.run("(setsid sleep 1000 &)", f"{self.sid}-{i}")
        self.start(["sleep", "1000"])
        self.assertGreater(len(self.boxd.processes()), 10)
        self.crash("boxd")
        self.restart_boxd()
        self.boxd.wait_nothing_left()
        listed = self.client.sessions.ListSessions(self.pb.session.ListSessionsRequest())
        self.assertEqual(list(listed.sessions), [])
        self.completes(self.client.run(["true"], self.sid))

    def test_records_that_were_acknowledged_are_kept(self):
        pb = self.pb.admin
        self.client.admin.CreateTenant(pb.CreateTenantRequest(tenant=pb.Tenant(
            tenant_id="kept", display_name="Kept")))
        made = self.client.admin.CreateToken(pb.CreateTokenRequest(
            tenant_id="kept", scopes=["session.read"]))
        gone = self.client.admin.CreateToken(pb.CreateTokenRequest(scopes=["session.read"]))
        self.client.admin.RevokeToken(pb.RevokeTokenRequest(token_id=gone.token.token_id))
        token, ca = self.boxd.token, self.boxd.ca
        self.crash("boxd")
        self.restart_boxd()
        self.assertEqual((self.boxd.token, self.boxd.ca), (token, ca))
        self.assertEqual(self.client.admin.GetTenant(
            pb.GetTenantRequest(tenant_id="kept")).tenant.display_name, "Kept")
        who = self.boxd.client(made.secret).control.WhoAmI(self.pb.control.WhoAmIRequest())
        self.assertEqual(who.tenant_id, "kept")
        self.fails(StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED",
                   lambda: self.boxd.client(gone.secret).control.WhoAmI(
                       self.pb.control.WhoAmIRequest()))

    def test_both_killed_at_once(self):
        for i in range(5):
            self.client.create(f"{self.sid}-{i}")
        self.crash("boxd")
        self.crash("warden")
        self.client.close()
        self.boxd.start()
        BoxdCase.client = self.boxd.client()
        self.boxd.wait_nothing_left()
        self.completes(self.client.run(["true"]))

    def test_killed_in_the_middle_of_creating(self):
        calls = [self.client.execs.Exec.future(self.client.exec_request(["sleep", "60"]))
                 for _ in range(20)]
        time.sleep(0.02)
        self.crash("boxd")
        for call in calls:
            with self.assertRaises(grpc.RpcError) as caught:
                call.result()
            self.assertEqual(caught.exception.code(), StatusCode.UNAVAILABLE)
        self.restart_boxd()
        self.boxd.wait_nothing_left()


class Start(unittest.TestCase):
    """Configurations that are refused at start, and one that waits for Initialize."""

    def check_refused(self, config, *words):
        folder = lib.TemporaryFolder("box-accept-")
        self.addCleanup(folder.remove)
        with open(folder.file("boxd.yaml"), "w", encoding="ascii") as f:
            f.write(config + f"state_dir: {folder.path}/state\n")
        for extra in ([], ["--check-config"]):
            done = boxd_lib.run_quietly([os.path.join(sys.argv[1], "boxd"), "--config",
                                         folder.file("boxd.yaml"), *extra])
            self.assertEqual(done.returncode, 1, done)
            for word in words:
                self.assertIn(word, done.stderr.decode())
            self.assertFalse(os.path.exists(f"{folder.path}/state"), "state was made all the same")

    def test_other_hosts_need_tls_and_tokens(self):
        self.check_refused("server:\n  listen:\n    - address: 0.0.0.0:0\n      tls: false\n",
                           "tls: true")
        self.check_refused("server:\n  auth: off\n  listen:\n    - address: 0.0.0.0:0\n",
                           "auth: token")

    def test_keys_that_are_not_built_are_refused_by_name(self):
        self.check_refused("box:\n  skills_root: /srv/skills\n", "skills_root")

    def test_what_cannot_start_makes_no_state(self):
        self.check_refused("", "nothing to listen on")
        listen = "server:\n  listen:\n    - address: 127.0.0.1:0\n"
        self.check_refused(listen + "tls: {cert: /nonexistent/c.pem, key: /nonexistent/k.pem}\n",
                           "tls.cert")
        self.check_refused(listen + "tls: {client_ca: /nonexistent/ca.pem}\n", "tls.client_ca")

    def test_mistakes_have_a_place(self):
        self.check_refused("server:\n  nonsense: 1\n", "boxd.yaml:2", "nonsense")

    def test_require_init_holds_calls_back(self):
        boxd = boxd_lib.Boxd(sys.argv[1], start=False)
        self.addCleanup(boxd.kill)
        path = boxd.folder.file("boxd.yaml")
        with open(path, encoding="utf-8") as f:
            text = f.read()
        with open(path, "w", encoding="utf-8") as f:
            f.write(text.replace("server:\n", "server:\n  require_init: true\n"))
        boxd.start()
        client = boxd.client()
        for call in (lambda: client.run(["true"]), lambda: client.get("x")):
            with self.assertRaises(grpc.RpcError) as caught:
                call()
            failure = boxd_lib.Failure(caught.exception)
            self.assertEqual((failure.code, failure.reason),
                             (StatusCode.FAILED_PRECONDITION, "INIT_REQUIRED"))
        client.control.WhoAmI(client.pb.control.WhoAmIRequest())
        client.control.Initialize(client.pb.control.InitializeRequest())
        self.assertEqual(client.run(["true"]).verdict.exit_code, 0)
        boxd.stop()


if __name__ == "__main__":
    boxd_lib.main()
