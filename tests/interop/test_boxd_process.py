"""Managed processes of the real server, through stock gRPC: their life, their journals, those who
are attached."""

import hashlib
import os
import threading
import time

import grpc

import boxd_lib
import lib
from attachment import Attachment, ProcessCase
from boxd_lib import BoxdCase, MIB, duration
from grpc import StatusCode


def setUpModule():
    BoxdCase.start_server()


def tearDownModule():
    BoxdCase.stop_server()


class Life(ProcessCase):
    def test_from_start_to_the_kept_record(self):
        started = self.start(["sh", "-c", "echo up; exec sleep 600"], "mcp-1", env={"KEY": "secret"})
        self.assertEqual(started.state, self.p.PROCESS_STATE_RUNNING)
        self.assertGreater(started.pid, 1)
        self.assertTrue(started.ready and started.HasField("ready_at"))
        self.assertEqual(list(started.env_keys), ["KEY"])
        self.assertEqual(started.spec.env, {})
        self.assertNotIn(b"secret", started.SerializeToString())
        self.assertEqual(list(started.spec.argv), ["sh", "-c", "echo up; exec sleep 600"])
        self.assertFalse(started.HasField("verdict"))
        got = self.process("mcp-1")
        self.assertEqual((got.pid, got.created_at), (started.pid, started.created_at))
        stopped = self.stop("mcp-1")
        self.assertEqual(stopped.state, self.p.PROCESS_STATE_EXITED)
        self.assertEqual(stopped.verdict.signal, 15)
        self.assertEqual(stopped.verdict.status, self.pb.types.VERDICT_STATUS_COMPLETED)
        self.assertEqual(stopped.pid, 0)
        self.assertEqual(self.process("mcp-1"), stopped)
        self.start(["sleep", "600"], "another")
        answer = self.client.sessions.GetSession(
            self.pb.session.GetSessionRequest(session_id=self.sid))
        self.assertEqual([p.process_id for p in answer.processes], ["another", "mcp-1"])
        self.assertEqual(answer.session.running_processes, 1)
        status = self.client.control.GetStatus(self.pb.control.GetStatusRequest())
        self.assertEqual((status.managed_processes, status.server.managed_processes), (1, 1))
        self.assertEqual(self.stop("mcp-1"), stopped)  # again is no error

    def test_ids_are_checked_and_unknown_ones_not_found(self):
        for bad in ("a/b", "a b", "x" * 65, "\u00e4"):
            self.invalid(lambda bad=bad: self.start(["true"], bad), "process_id")
            self.invalid(lambda bad=bad: self.process(bad), "process_id")
        failure = self.fails(StatusCode.NOT_FOUND, "PROCESS_NOT_FOUND", lambda: self.process("no"))
        self.assertEqual(failure.metadata, {"kind": "process", "id": "no"})
        self.fails(StatusCode.NOT_FOUND, "PROCESS_NOT_FOUND", lambda: self.stop("no"))
        answer = self.client.processes.StopManagedProcess(self.p.StopManagedProcessRequest(
            session_id=self.sid, process_id="no", allow_missing=True))
        self.assertFalse(answer.HasField("process"))
        self.fails(StatusCode.NOT_FOUND, "SESSION_NOT_FOUND", lambda: self.list("no-such"))

    def test_every_violation_is_named(self):
        policy = self.p.RestartPolicy(mode=9, max_restarts=-1)
        self.invalid(lambda: self.start([], "a/b", journal_limit_bytes=1, restart=policy,
                                        workdir="relative"),
                     "process_id", "spec.argv", "spec.journal_limit_bytes", "spec.restart.mode",
                     "spec.restart.max_restarts", "spec.workdir")
        self.invalid(lambda: self.start(["true"], readiness=self.p.Readiness()),
                     "spec.readiness.probe")
        self.invalid(lambda: self.start(["true"], readiness=self.p.Readiness(tcp_port=70000)),
                     "spec.readiness.tcp_port")

    def test_a_quick_one_is_an_exit_not_an_error(self):
        self.start("echo out; echo err >&2; exit 7")
        ended = self.wait()
        self.assertTrue(ended.met)
        verdict = ended.process.verdict
        self.assertEqual((verdict.status, verdict.exit_code),
                         (self.pb.types.VERDICT_STATUS_COMPLETED, 7))
        self.assertEqual(verdict.stdout_report.total_bytes, 4)
        self.assertEqual(ended.process.stderr_preview, b"err\n")
        self.assertGreater(verdict.cpu_time.ToNanoseconds(), 0)

    def test_the_session_is_used_while_one_lives(self):
        session = self.client.create(self.sid + "-idle", idle_ttl=duration(1)).session_id
        self.addCleanup(self.client.delete, session)
        request = self.request(["sleep", "600"])
        request.session_id = session
        self.client.processes.StartManagedProcess(request)
        time.sleep(3)
        self.assertEqual(self.client.get(session).state, self.pb.types.SESSION_STATE_RUNNING)
        self.client.processes.StopManagedProcess(
            self.p.StopManagedProcessRequest(session_id=session))
        lib.wait_for(lambda: self.client.get(session).state == self.pb.types.SESSION_STATE_STOPPED,
                     "it ends once nothing uses it")

    def test_a_list_has_pages_and_filters(self):
        for i in range(5):
            self.start(["sleep", "600"], f"p{i}")
        self.stop("p2", grace=0)
        names, token = [], ""
        while True:
            page = self.list(page_size=2, page_token=token)
            names += [p.process_id for p in page.processes]
            self.assertLessEqual(len(page.processes), 2)
            token = page.next_page_token
            if not token:
                break
        self.assertEqual(names, ["p0", "p1", "p2", "p3", "p4"])
        ended = self.list(states=[self.p.PROCESS_STATE_EXITED]).processes
        self.assertEqual([p.process_id for p in ended], ["p2"])
        everywhere = [p.process_id for p in self.list("").processes if p.session_id == self.sid]
        self.assertEqual(sorted(everywhere), names)

    def test_another_tenant_sees_none(self):
        self.start(["sleep", "600"], "mine")
        admin = self.pb.admin
        self.client.admin.CreateTenant(admin.CreateTenantRequest(
            tenant=admin.Tenant(tenant_id="other-process")))
        secret = self.client.admin.CreateToken(admin.CreateTokenRequest(
            tenant_id="other-process", scopes=["process.read", "process.write"])).secret
        other = self.boxd.client(secret)
        for call, request in (
                (other.processes.GetManagedProcess, self.p.GetManagedProcessRequest),
                (other.processes.StopManagedProcess, self.p.StopManagedProcessRequest)):
            self.fails(StatusCode.NOT_FOUND, "SESSION_NOT_FOUND",
                       lambda call=call, request=request: call(
                           request(session_id=self.sid, process_id="mine")))
        self.assertEqual(len(other.processes.ListManagedProcesses(
            self.p.ListManagedProcessesRequest()).processes), 0)
        self.fails(StatusCode.NOT_FOUND, "SESSION_NOT_FOUND",
                   lambda: Attachment(self, "mine", client=other).attached())

    def test_signals_reach_it(self):
        self.start("trap 'echo usr1' USR1; echo on; while :; do sleep 0.05; done")
        a = Attachment(self, stdout_offset=0)
        a.until(b"on\n")
        self.signal(10)
        a.until(b"usr1\n")
        self.signal(9, scope=self.pb.types.SIGNAL_SCOPE_TREE)
        self.assertEqual(a.finish().signal, 9)
        self.fails(StatusCode.FAILED_PRECONDITION, "SESSION_NOT_RUNNING", lambda: self.signal(10))

    def test_stop_kills_who_ignores_it_with_its_children(self):
        self.start("trap '' TERM; (setsid sleep 600 &); echo on; while :; do sleep 600; done")
        a = Attachment(self, stdout_offset=0)
        a.until(b"on\n")
        ended = self.stop(grace=0.2)
        self.assertEqual(ended.verdict.signal, 9)
        self.assertEqual(ended.verdict.status, self.pb.types.VERDICT_STATUS_CANCELLED)
        self.assertEqual(self.client.out("ps -e -o comm= | grep -c sleep || true", self.sid), "0")

    def test_the_end_of_the_session_is_its_end(self):
        self.start(["sleep", "600"])
        a = Attachment(self)
        a.attached()
        self.client.sessions.StopSession(self.pb.session.StopSessionRequest(session_id=self.sid))
        self.assertEqual(a.finish().status, self.pb.types.VERDICT_STATUS_KILLED)
        kept = self.process()
        self.assertEqual(kept.state, self.p.PROCESS_STATE_EXITED)
        self.assertEqual(kept.verdict.status, self.pb.types.VERDICT_STATUS_KILLED)
        self.assertEqual(kept.verdict.detail, "its session ended")
        self.fails(StatusCode.FAILED_PRECONDITION, "SESSION_NOT_RUNNING",
                   lambda: self.start(["true"]))

    def test_a_retried_start_does_not_start_again(self):
        request = self.request("echo run; exec sleep 600", key="k1")
        self.client.processes.StartManagedProcess(request)
        self.fails(StatusCode.FAILED_PRECONDITION, "IDEMPOTENCY_DONE",
                   lambda: self.client.processes.StartManagedProcess(request))
        request.process_id = "other"
        self.fails(StatusCode.INVALID_ARGUMENT, "IDEMPOTENCY_MISMATCH",
                   lambda: self.client.processes.StartManagedProcess(request))


class Restarts(ProcessCase):
    def policy(self, mode="ON_FAILURE", **fields):
        return self.p.RestartPolicy(mode=getattr(self.p, f"RESTART_MODE_{mode}"),
                                    first_backoff=duration(0.01), **fields)

    def test_failures_are_started_again_and_counted(self):
        self.start("echo run; sleep 0.1; exit 1", restart=self.policy(max_restarts=2))
        a = Attachment(self, stdout_offset=0)
        a.attached()
        verdict = a.finish()
        self.assertEqual(a.bytes["stdout"], b"run\n" * 3)
        self.assertEqual([r.restarts for r in a.restarts], [1, 2])
        self.assertEqual([r.verdict.exit_code for r in a.restarts], [1, 1])
        self.assertEqual(verdict.exit_code, 1)
        self.assertEqual(self.process().restarts, 2)

    def test_many_that_fail_at_once_leave_room_for_others(self):
        """More than may be starting at once: whoever comes later takes its turn."""
        policy = self.p.RestartPolicy(mode=self.p.RESTART_MODE_ALWAYS, first_backoff=duration(0.001),
                                      max_backoff=duration(0.001))
        for i in range(24):
            self.start("exit 1", f"fails-{i}", restart=policy)
        self.assertEqual(self.client.out(["echo", "there"], self.sid), "there")
        self.start("sleep 600", "lives")
        self.assertEqual(self.process("lives").state, self.p.PROCESS_STATE_RUNNING)

    def test_a_stop_is_no_failure(self):
        self.start("sleep 600", restart=self.policy("ALWAYS"))
        self.stop()
        self.assertEqual(self.process().state, self.p.PROCESS_STATE_EXITED)

    def test_waiting_is_a_state_of_its_own(self):
        policy = self.p.RestartPolicy(mode=self.p.RESTART_MODE_ALWAYS, first_backoff=duration(60),
                                      max_backoff=duration(60))
        self.start("exit 3", restart=policy)
        lib.wait_for(lambda: self.process().state == self.p.PROCESS_STATE_WAITING, "it waits")
        waiting = self.process()
        self.assertGreater(waiting.next_start_at.ToNanoseconds(),
                           waiting.exited_at.ToNanoseconds())
        self.assertEqual(waiting.verdict.exit_code, 3)
        self.assertEqual(self.stop().state, self.p.PROCESS_STATE_EXITED)


class Readiness(ProcessCase):
    def test_a_line_makes_it_ready(self):
        ready = self.p.Readiness(stdout_line="listening on")
        process = self.start("sleep 0.3; echo now listening on 80; exec sleep 600",
                             readiness=ready, ready_timeout=30)
        self.assertTrue(process.ready)
        self.assertGreater(process.ready_at.ToNanoseconds(), process.started_at.ToNanoseconds())

    def test_a_port_makes_it_ready(self):
        server = ("import socket,time; time.sleep(0.3); s=socket.socket(); "
                  "s.bind(('127.0.0.1', 8080)); s.listen(); time.sleep(600)")
        process = self.start(["python3", "-c", server], readiness=self.p.Readiness(
            tcp_port=8080, interval=duration(0.05)), ready_timeout=30)
        self.assertTrue(process.ready)

    def test_a_command_makes_it_ready(self):
        self.start("sleep 0.3; touch /workspace/up; exec sleep 600", readiness=self.p.Readiness(
            command=self.client.command("test -e /workspace/up"), interval=duration(0.05)))
        self.assertFalse(self.process().ready)
        answer = self.wait(ready=True, timeout=30)
        self.assertTrue(answer.met and answer.process.ready)

    def test_one_that_is_late_is_stopped(self):
        self.fails(StatusCode.DEADLINE_EXCEEDED, "DEADLINE", lambda: self.start(
            "sleep 600", readiness=self.p.Readiness(stdout_line="never"), ready_timeout=0.3))
        self.assertTrue(self.wait().met)

    def test_one_that_ends_first_never_was(self):
        process = self.start("exit 4", readiness=self.p.Readiness(stdout_line="never"),
                             ready_timeout=30)
        self.assertEqual((process.state, process.ready), (self.p.PROCESS_STATE_EXITED, False))
        self.assertFalse(self.wait(ready=True).met)

    def test_a_wait_has_its_own_time(self):
        self.start(["sleep", "600"])
        answer = self.wait(timeout=0.1)
        self.assertFalse(answer.met)
        self.assertEqual(answer.process.state, self.p.PROCESS_STATE_RUNNING)


class Attached(ProcessCase):
    def test_bytes_come_as_they_are(self):
        data = os.urandom(300000) + b"\xff\x00\n\n\r\n\xe2\x28\xa1 no end"
        self.start(["cat"])
        a = Attachment(self, stdout_offset=0, write=True, half_close_stdin=True)
        a.attached()
        for at in range(0, len(data), 7777):
            a.stdin(data[at:at + 7777])
        a.half_close()
        verdict = a.finish()
        self.assertEqual(verdict.exit_code, 0)
        self.assertEqual(hashlib.sha256(a.bytes["stdout"]).hexdigest(),
                         hashlib.sha256(data).hexdigest())

    def test_any_offset_is_replayed(self):
        self.start("printf 0123456789; printf abc >&2; exec sleep 600")
        lib.wait_for(lambda: self.process().stderr_journal.end_offset == 3, "it wrote")
        for offset in range(11):
            a = Attachment(self, stdout_offset=offset, stderr_offset=1, no_follow=True)
            attached = a.attached()
            self.assertEqual((attached.stdout_offset, attached.stderr_offset), (offset, 1))
            self.assertIsNone(a.finish())
            self.assertEqual(a.bytes, {"stdout": b"0123456789"[offset:], "stderr": b"bc"})
        self.invalid(lambda: Attachment(self, stdout_offset=11).attached(), "start.stdout_offset")
        self.invalid(lambda: Attachment(self, stdout_offset=-1).attached(), "start.stdout_offset")
        a = Attachment(self, stdout_offset=0, skip_stderr=True, no_follow=True)
        a.finish()
        self.assertEqual(a.bytes["stderr"], b"")
        self.stop(grace=0)
        a = Attachment(self, stdout_offset=5, no_follow=True)
        self.assertIsNone(a.finish())
        self.assertEqual(a.bytes["stdout"], b"56789")

    def test_what_the_journal_lost_is_counted(self):
        self.start("head -c 1000000 /dev/zero; echo end; exec sleep 600",
                   journal_limit_bytes=64 * 1024)
        lib.wait_for(lambda: self.process().stdout_journal.end_offset == 1000004, "it wrote")
        a = Attachment(self, stdout_offset=0, no_follow=True)
        a.attached()
        a.finish()
        self.assertEqual(a.dropped["stdout"] + len(a.bytes["stdout"]), 1000004)
        self.assertEqual(len(a.bytes["stdout"]), 64 * 1024)
        self.assertTrue(a.bytes["stdout"].endswith(b"\0end\n"))

    def test_one_writes_and_many_read(self):
        self.start("while read line; do echo got $line; done")
        writer = Attachment(self, write=True)
        self.assertTrue(writer.attached().process.spec.shell_command)
        readers = [Attachment(self) for _ in range(5)]
        for r in readers:
            r.attached()
        self.fails(StatusCode.FAILED_PRECONDITION, "STDIN_TAKEN",
                   lambda: Attachment(self, write=True).attached())
        self.invalid(lambda: self._feed_reader(readers[0]), "stdin_data")
        writer.stdin(b"one\n")
        for r in [writer, *readers[1:]]:
            r.until(b"got one\n")
        process = self.process()
        self.assertTrue(process.attached)
        self.assertEqual(process.readers, 5)
        taker = Attachment(self, write=True, take_over=True)
        taker.attached()
        while not writer.writer_lost:
            writer.take()
        writer.stdin(b"not any more\n")
        taker.stdin(b"two\n")
        for r in [taker, writer, *readers[1:]]:
            r.until(b"got two\n")
        self.assertNotIn(b"not any more", taker.bytes["stdout"])
        taker.end()
        lib.wait_for(lambda: not self.process().attached, "nobody writes")
        again = Attachment(self, write=True)
        again.attached()
        again.close_stdin()
        self.assertEqual(again.finish().exit_code, 0)

    @staticmethod
    def _feed_reader(reader):
        reader.stdin(b"x")
        return reader.call

    def test_a_client_that_comes_back_misses_nothing(self):
        self.start("i=0; while [ $i -lt 200 ]; do echo line $i; i=$((i+1)); sleep 0.005; done")
        got = b""
        for _ in range(1000):
            a = Attachment(self, stdout_offset=len(got))
            try:
                a.attached()
                for _ in range(20):
                    if a.take() == "exited":
                        break
            except StopIteration:
                pass
            got += a.bytes["stdout"]
            a.call.cancel()
            if a.exited:
                break
        self.assertEqual(got, b"".join(b"line %d\n" % i for i in range(200)))

    def test_a_slow_reader_keeps_nobody_from_anything(self):
        self.start("head -c 50000000 /dev/zero; echo done")
        slow = Attachment(self, stdout_offset=0)
        slow.attached()  # and reads no more
        fast = Attachment(self)
        fast.attached()
        self.assertEqual(fast.finish().exit_code, 0)
        self.assertTrue(self.wait(timeout=30).met)
        verdict = slow.finish()
        self.assertEqual(slow.dropped["stdout"] + len(slow.bytes["stdout"]), 50000005)
        self.assertEqual(verdict.exit_code, 0)

    def test_waiting_for_one_that_comes_later(self):
        a = Attachment(self, "late", stdout_offset=0, wait=30)
        time.sleep(0.2)
        self.start("echo here", "late")
        a.attached()
        a.finish()
        self.assertEqual(a.bytes["stdout"], b"here\n")
        self.fails(StatusCode.NOT_FOUND, "PROCESS_NOT_FOUND",
                   lambda: Attachment(self, "never", wait=0.1).attached())
        self.fails(StatusCode.NOT_FOUND, "PROCESS_NOT_FOUND",
                   lambda: Attachment(self, "never").attached())

    def test_stop_on_detach_ends_it(self):
        self.start("cat; sleep 600", "by-call")
        a = Attachment(self, "by-call", write=True, stop_on_detach=True)
        a.attached()
        a.call.cancel()
        self.assertEqual(self.wait("by-call").process.verdict.signal, 15)
        self.start("sleep 600", "by-spec", stop_on_detach=True)
        first, second = Attachment(self, "by-spec"), Attachment(self, "by-spec")
        first.attached(), second.attached()
        first.call.cancel()
        self.assertFalse(self.wait("by-spec", timeout=0.3).met)
        second.call.cancel()
        self.assertTrue(self.wait("by-spec").met)

    def test_ending_the_call_ends_nothing(self):
        self.start(["cat"])
        a = Attachment(self, write=True)
        a.attached()
        a.half_close()
        a.call.cancel()
        self.assertFalse(self.wait(timeout=0.3).met)

    def test_large_input_waits_for_the_process(self):
        self.start("sleep 1; sha256sum")
        a = Attachment(self, write=True)
        a.attached()
        data = os.urandom(MIB)
        for _ in range(16):
            a.stdin(data)
        a.close_stdin()
        a.finish()
        self.assertEqual(a.bytes["stdout"].split()[0].decode(),
                         hashlib.sha256(data * 16).hexdigest())
        self.invalid(lambda: self._too_much(), "stdin_data")

    def _too_much(self):
        self.start(["cat"], "other")
        a = Attachment(self, "other", write=True)
        a.stdin(b"x" * (MIB + 1))
        return a.call

    def test_many_attach_and_leave(self):
        self.start("while :; do echo tick; sleep 0.01; done")

        def come_and_go():
            for _ in range(20):
                a = Attachment(self)
                a.attached()
                a.until(b"tick\n")
                a.call.cancel()

        threads = [threading.Thread(target=come_and_go) for _ in range(5)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        lib.wait_for(lambda: self.process().readers == 0, "all have left")


class Terminal(ProcessCase):
    def terminal(self, rows=24, columns=80):
        return self.pb.types.Terminal(
            size=self.pb.types.TerminalSize(rows=rows, columns=columns))

    def test_it_has_one_of_its_own(self):
        self.start("tty; stty size; echo $TERM; ps -o tty= -p $$; read x; echo got $x; stty size; cat",
                   terminal=self.terminal(33, 99))
        a = Attachment(self, stdout_offset=0, write=True)
        a.attached()
        a.until(b"pts/0\r\n33 99\r\nxterm-256color\r\npts/0\r\n")
        a.message(resize={"rows": 10, "columns": 20})
        a.stdin(b"hello\n")
        a.until(b"got hello\r\n10 20\r\n")
        a.stdin(b"y\n")
        a.until(b"y\r\ny\r\n")  # cat runs
        a.stdin(b"\x03")
        self.assertEqual(a.finish().signal, 2)

    def test_end_of_file_and_hang_up(self):
        self.start("cat; echo end", terminal=self.terminal())
        a = Attachment(self, stdout_offset=0, write=True)
        a.attached()
        a.stdin(b"x\n")
        a.until(b"x\r\nx\r\n")
        a.close_stdin()
        self.assertEqual(a.finish().exit_code, 0)
        self.assertTrue(a.bytes["stdout"].endswith(b"end\r\n"))
        self.start(["bash", "-i"], "shell", terminal=self.terminal())
        a = Attachment(self, "shell", stdout_offset=0)
        a.until(b"$ ")
        self.assertIn(self.stop("shell").verdict.signal, (1, 9))  # it ignores SIGTERM

    def test_more_than_the_sandbox_may_have(self):
        for i in range(17):
            try:
                self.start(["sleep", "600"], f"t{i}", terminal=self.terminal())
            except grpc.RpcError as e:
                failure = boxd_lib.Failure(e)
                self.assertEqual((failure.reason, failure.metadata["limit"]),
                                 ("QUOTA", "terminals"))
                break
        else:
            self.fail("17 terminals")


if __name__ == "__main__":
    boxd_lib.main()
