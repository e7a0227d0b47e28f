"""ExecStream of the real server, and calls that end before their command: cancel, deadline, a
caller that reads no more."""

import hashlib
import os
import subprocess
import sys
import threading
import time

import grpc

import boxd_lib
import lib
from boxd_lib import BoxdCase, MIB
from exec_stream import STUBBORN, Stream
from grpc import StatusCode


def setUpModule():
    BoxdCase.start_server()


def tearDownModule():
    BoxdCase.stop_server()


class Case(BoxdCase):
    def setUp(self):
        super().setUp()
        self.t = self.pb.types

    def stream(self, what, **fields):
        return Stream(self, what, **fields)

    def exited(self, verdict, code=0):
        self.assertEqual((verdict.status, verdict.exit_code, verdict.HasField("signal")),
                         (self.t.VERDICT_STATUS_COMPLETED, code, False), verdict)

    def all_is_quiet(self, seconds=5):
        """No command runs in the session any more, by its own view, and its slot is free."""
        lib.wait_for(lambda: self.client.get(self.sid).active_execs == 0, "the slot is free",
                     seconds)
        lib.wait_for(lambda: not self.commands_in(self.sid), "its processes are gone", seconds)


class Streams(Case):
    def test_started_comes_first_and_the_verdict_last(self):
        s = self.stream("echo out; echo err >&2; exit 3")
        s.half_close()
        started = s.started()
        self.assertEqual((started.session_id, started.session_created, started.backend),
                         (self.sid, True, "namespace"))
        self.assertGreater(started.pid, 1)
        self.assertTrue(started.HasField("started_at"))
        out, err, verdict = s.rest()
        self.assertEqual((out, err), (b"out\n", b"err\n"))
        self.exited(verdict, 3)
        self.assertEqual((verdict.stdout_report.total_bytes, verdict.stdout_report.kept_bytes),
                         (4, 4))
        self.assertEqual(s.call.code(), StatusCode.OK)

    def test_a_one_off_stream(self):
        s = self.stream("echo x", session_id="")
        started = s.started()
        self.assertEqual((started.session_id, started.session_created), ("", True))
        self.exited(s.rest()[2])
        lib.wait_for(lambda: not self.boxd.processes(started.session_uid), "its sandbox goes")

    def test_a_dialogue(self):
        s = self.stream("while read x; do echo \"<$x>\"; done; echo end")
        s.started()
        for i in range(50):
            s.stdin(b"line %d\n" % i)
            self.assertEqual(s.read(b"\n"), b"<line %d>\n" % i)
        s.message(close_stdin={})
        out, _, verdict = s.rest()
        self.assertEqual(out, b"end\n")
        self.exited(verdict)
        self.assertEqual(verdict.stdin_bytes, sum(len(b"line %d\n" % i) for i in range(50)))

    def test_half_closing_closes_stdin_and_output_goes_on(self):
        s = self.stream("cat; sleep 0.2; echo more")
        s.started()
        s.stdin(b"x\n")
        s.half_close()
        out, _, verdict = s.rest()
        self.assertEqual(out, b"x\nmore\n")
        self.exited(verdict)

    def test_8_mib_through_a_command(self):
        data = os.urandom(8 * MIB)
        s = self.stream("cat")
        for at in range(0, len(data), 100_000):
            s.stdin(data[at:at + 100_000])
        s.half_close()
        s.started()
        out, _, verdict = s.rest()
        self.assertEqual(hashlib.sha256(out).hexdigest(), hashlib.sha256(data).hexdigest())
        self.exited(verdict)
        s = self.stream("sha256sum")
        s.stdin(data)  # as one message
        s.half_close()
        s.started()
        self.assertEqual(s.rest()[0].split()[0].decode(), hashlib.sha256(data).hexdigest())

    def test_signals_reach_the_command(self):
        s = self.stream("trap 'echo got' USR1; trap 'exit 5' TERM; echo ready; "
                        "while :; do sleep 0.05; done")
        s.started()
        s.read(b"ready\n")
        s.message(signal={"number": 10})
        self.assertEqual(s.read(b"\n"), b"got\n")
        s.message(signal={"number": 15, "scope": self.t.SIGNAL_SCOPE_MAIN})
        self.exited(s.rest()[2], 5)

    def test_sigkill_to_the_tree(self):
        s = self.stream("echo ready\n" + STUBBORN)
        s.started()
        s.read(b"ready\n")
        s.message(signal={"number": 9, "scope": self.t.SIGNAL_SCOPE_TREE})
        verdict = s.rest()[2]
        self.assertEqual((verdict.status, verdict.signal), (self.t.VERDICT_STATUS_COMPLETED, 9))
        self.all_is_quiet()

    def test_mistakes_in_messages(self):
        for field, send in (("signal.number", {"signal": {"number": 0}}),
                            ("signal.number", {"signal": {"number": 65}}),
                            ("signal.scope", {"signal": {"number": 15, "scope": 2}}),
                            ("resize", {"resize": {"rows": 1}}),
                            ("request", {"start": {}})):
            s = self.stream(["sleep", "60"])
            s.started()
            s.message(**send)
            self.invalid(lambda c=s.call: c, field)
        self.all_is_quiet()
        s = self.stream(["cat"])
        s.started()
        s.message(close_stdin={})
        s.stdin(b"late")
        try:
            list(s.call)  # it may have ended before the late bytes came
        except grpc.RpcError as e:
            self.assertEqual(boxd_lib.Failure(e).reason, "VALIDATION")

    def test_the_first_message_must_be_start(self):
        p = self.pb.exec
        for messages in ([p.ExecStreamRequest(stdin_data=b"x")], [p.ExecStreamRequest()], []):
            self.invalid(lambda m=messages: self.client.execs.ExecStream(iter(m)), "request")

    def test_what_a_stream_cannot(self):
        self.invalid(lambda: self.stream(["true"], output_limit_bytes=5).call,
                     "command.output_limit_bytes")
        self.invalid(lambda: self.stream(["true"], timeout=-1, output_limit_bytes=5,
                                         spec={"pids_limit": 0}).call,
                     "command.timeout", "command.output_limit_bytes", "spec.pids_limit")

    def test_errors_before_the_start_are_errors_of_the_call(self):
        self.fails(StatusCode.NOT_FOUND, "FILE_NOT_FOUND", lambda: self.stream(["no-such"]).call)
        self.completes(self.client.run(["true"], self.sid))

    def test_timeouts_come_as_verdicts(self):
        s = self.stream("echo x\n" + STUBBORN, timeout=0.5)
        s.started()
        out, _, verdict = s.rest()
        self.assertEqual((out, verdict.status), (b"x\n", self.t.VERDICT_STATUS_TIMED_OUT))
        self.assertEqual(s.call.code(), StatusCode.OK)
        self.all_is_quiet()

    def test_metadata_is_no_trouble(self):
        s = self.stream(["true"], metadata=[("x-anything", "1"), ("x-bin", b"\x00\xff")])
        s.started()
        self.exited(s.rest()[2])

    def test_a_child_that_holds_stdout(self):
        begin = time.monotonic()
        s = self.stream("sleep 300 & echo ok")
        s.started()
        out, _, verdict = s.rest()
        self.assertEqual(out, b"ok\n")
        self.assertEqual(verdict.leftover_processes, 1)
        self.assertLess(time.monotonic() - begin, boxd_lib.ENDS_SECONDS)

    def test_an_idempotency_key_runs_once(self):
        s = self.stream("echo x >>file", key="s1")
        s.started()
        self.exited(s.rest()[2])
        self.fails(StatusCode.FAILED_PRECONDITION, "IDEMPOTENCY_DONE",
                   lambda: self.stream("echo x >>file", key="s1").call)

    def test_30_streams_at_once(self):
        self.client.create(self.sid, max_parallel_execs=30)
        streams = [self.stream("cat; echo end") for _ in range(30)]
        for i, s in enumerate(streams):
            s.started()
            s.stdin(b"%d " % i)
        for i, s in enumerate(streams):
            s.half_close()
            self.assertEqual(s.rest()[0], b"%d end\n" % i)


class Ends(Case):
    """The call goes, the command goes: checked inside the session."""

    def busy(self):
        """An Exec that will not end by itself, running."""
        self.client.create(self.sid)
        call = self.client.execs.Exec.future(
            self.client.exec_request("touch begun\n" + STUBBORN, self.sid, timeout=100),
            timeout=60)
        lib.wait_for(lambda: self.client.get(self.sid).active_execs == 1, "it runs")
        return call

    def test_cancelling_kills_the_command(self):
        call = self.busy()
        time.sleep(0.1)
        call.cancel()
        self.all_is_quiet()

    def test_cancelling_again_and_again(self):
        for _ in range(30):
            self.busy().cancel()
            lib.wait_for(lambda: self.client.get(self.sid).active_execs == 0, "it is gone", 5)
        self.all_is_quiet()

    def test_a_deadline_kills_the_command(self):
        self.client.create(self.sid)
        begin = time.monotonic()
        failure = self.fails_with_deadline(
            lambda: self.client.run("echo x\n" + STUBBORN, self.sid, deadline=0.5, timeout=100))
        self.assertIn("eadline", failure)
        self.assertLess(time.monotonic() - begin, boxd_lib.ENDS_SECONDS)
        self.all_is_quiet()

    def fails_with_deadline(self, call):
        with self.assertRaises(grpc.RpcError) as caught:
            call()
        self.assertEqual(caught.exception.code(), StatusCode.DEADLINE_EXCEEDED)
        return caught.exception.details()

    def test_the_server_keeps_the_deadline_itself(self):
        # grpc-timeout by hand: this client would wait, so what ends the call is the server.
        self.client.create(self.sid)
        done = boxd_lib.run_quietly(
            ["curl", "--silent", "--http2", "--insecure", "--max-time", "20", "--dump-header", "-",
             "--output", "/dev/null", "-H", "content-type: application/grpc", "-H",
             "te: trailers", "-H", "grpc-timeout: 300m", "-H",
             f"authorization: Bearer {self.boxd.token}", "--data-binary", "@-",
             f"https://127.0.0.1:{self.boxd.port}/box.v1.ExecService/Exec"],
            input=self.framed(self.client.exec_request(["sleep", "50"], self.sid)))
        self.assertIn(b"grpc-status: 4", done.stdout, done)
        self.all_is_quiet()

    @staticmethod
    def framed(message):
        data = message.SerializeToString()
        return b"\0" + len(data).to_bytes(4, "big") + data

    def test_a_deadline_of_a_stream(self):
        s = self.stream(["sleep", "60"], deadline=5)
        s.started()
        self.fails_with_deadline(lambda: list(s.call))
        self.all_is_quiet()

    def test_cancelling_a_stream_kills_the_command(self):
        s = self.stream("echo ready\n" + STUBBORN, timeout=100)
        s.started()
        s.read(b"ready\n")
        s.call.cancel()
        self.all_is_quiet()

    def test_cancelling_what_waits(self):
        first = self.busy()
        waiting = [self.client.execs.Exec.future(
            self.client.exec_request(f"touch ran{i}", self.sid), timeout=60) for i in range(5)]
        lib.wait_for(lambda: self.client.get(self.sid).queued_execs == 5, "5 wait")
        for call in waiting:
            call.cancel()
        lib.wait_for(lambda: self.client.get(self.sid).queued_execs == 0, "none waits")
        first.cancel()
        self.assertNotIn("ran", self.client.out("ls", self.sid))

    def test_a_client_that_vanishes(self):
        self.client.create(self.sid)
        program = ("import sys, grpc\n"
                   "ca, target, token, request = sys.argv[1:]\n"
                   "c = grpc.composite_channel_credentials(grpc.ssl_channel_credentials(\n"
                   "    open(ca, 'rb').read()), grpc.access_token_call_credentials(token))\n"
                   "call = grpc.secure_channel(target, c).unary_unary(\n"
                   "    '/box.v1.ExecService/Exec')(bytes.fromhex(request))\n")
        request = self.client.exec_request(STUBBORN, self.sid, timeout=100).SerializeToString()
        child = subprocess.Popen(
            [sys.executable, "-c", program, os.path.join(self.boxd.state_dir, "ca.pem"),
             f"localhost:{self.boxd.port}", self.boxd.token, request.hex()])
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        lib.wait_for(lambda: self.client.get(self.sid).active_execs == 1, "it runs")
        child.kill()
        self.all_is_quiet()

    def test_cancelling_creates_ends_one_off_runs(self):
        calls = [self.client.execs.Exec.future(self.client.exec_request(["sleep", "60"]))
                 for _ in range(20)]
        time.sleep(0.05)  # some are being made, some run
        for call in calls:
            call.cancel()
        lib.wait_for(lambda: not self.boxd.sandbox_groups() or self.client.sessions.ListSessions(
            self.pb.session.ListSessionsRequest()).sessions, "their sandboxes go")


class BackPressure(Case):
    def rss(self):
        return self.boxd.boxd.rss_kib()

    def test_a_reader_that_stops_costs_bounded_memory(self):
        before = self.rss()
        other = self.boxd.client()
        streams = [self.stream("yes", client=other, session_id=f"{self.sid}-{i}")
                   for i in range(4)]
        for i, s in enumerate(streams):
            self.addCleanup(self.client.delete, f"{self.sid}-{i}")
            s.started()
        time.sleep(1.5)
        self.assertLess(self.rss() - before, 24 * 1024)
        begin = time.monotonic()  # others are served as ever
        self.completes(self.client.run(["true"], self.sid))
        self.assertLess(time.monotonic() - begin, boxd_lib.ENDS_SECONDS)
        got = b""
        while len(got) < 4 * MIB:  # and it goes on where it was
            got += next(streams[0].call).stdout_data
        self.assertEqual(set(got), {ord("y"), ord("\n")})

    def test_a_command_that_does_not_read_costs_bounded_memory(self):
        before = self.rss()
        s = self.stream(["sleep", "60"])
        s.started()
        for _ in range(200):  # what the client's own buffers hold is not sent
            s.stdin(b"x" * 500_000)
        time.sleep(1)
        self.assertLess(self.rss() - before, 48 * 1024)
        s.call.cancel()
        self.all_is_quiet()

    def test_a_slow_reader_gets_everything(self):
        s = self.stream("seq 300000 | tee copy; sha256sum <copy >&2")
        s.started()
        out, err = b"", b""
        for message in s.call:
            if message.WhichOneof("response") == "stdout_data":
                out += message.stdout_data
                time.sleep(0.002)
            elif message.WhichOneof("response") == "stderr_data":
                err += message.stderr_data
        self.assertEqual(err.split()[0].decode(), hashlib.sha256(out).hexdigest())

    def test_waiting_for_the_reader_is_no_silence(self):
        # idle_timeout counts bytes that move; a command that waits for its reader moves none.
        s = self.stream("yes", idle_timeout=0.5)
        s.started()
        time.sleep(2)
        verdict = s.rest()[2]
        self.assertEqual(verdict.status, self.t.VERDICT_STATUS_IDLE_TIMED_OUT)

    def test_many_writers_into_one_command(self):
        s = self.stream("cat >all; wc -c <all", spec={"workspace_limit_bytes": 64 * MIB})
        s.started()
        writers = [threading.Thread(target=lambda: [s.stdin(b"z" * 10_000) for _ in range(100)])
                   for _ in range(8)]
        for w in writers:
            w.start()
        for w in writers:
            w.join()
        s.half_close()
        self.assertEqual(s.rest()[0].strip(), b"8000000")


if __name__ == "__main__":
    boxd_lib.main()
