"""Exec of the real server: what a command is given, and what its verdict says."""

import concurrent.futures
import hashlib
import os
import time

import boxd_lib
import lib
from boxd_lib import BoxdCase, MIB, duration
from exec_stream import STUBBORN
from grpc import StatusCode


def setUpModule():
    BoxdCase.start_server()


def tearDownModule():
    BoxdCase.stop_server()


class Case(BoxdCase):
    def setUp(self):
        super().setUp()
        self.t = self.pb.types

    def run_here(self, what, **fields):
        """A command in this test's session."""
        return self.client.run(what, self.sid, **fields)

    def start(self, what, **fields):
        """The same without waiting: a grpc.Future."""
        return self.client.execs.Exec.future(
            self.client.exec_request(what, self.sid, **fields), timeout=60)

    def ends(self, begin):
        self.assertLess(time.monotonic() - begin, boxd_lib.ENDS_SECONDS)

    def nothing_runs(self):
        """No command of the session is left, as it sees itself."""
        lib.wait_for(lambda: not self.commands_in(self.sid), "its processes are gone", 5)


class Basics(Case):
    def test_a_one_off_run(self):
        answer = self.completes(self.client.run(["echo", "a b", "$HOME"]))
        self.assertEqual((answer.stdout_data, answer.stderr_data), (b"a b $HOME\n", b""))
        self.assertEqual((answer.session_id, answer.session_created, answer.backend),
                         ("", True, "namespace"))
        self.assertRegex(answer.session_uid, r"^[0-9a-f]{32}$")
        lib.wait_for(lambda: not self.boxd.processes(answer.session_uid), "its sandbox goes")

    def test_a_session_is_made_when_it_is_missing(self):
        first = self.run_here("echo one >file; echo err >&2")
        self.assertEqual((first.session_id, first.session_created, first.stderr_data),
                         (self.sid, True, b"err\n"))
        second = self.run_here("cat file")
        self.assertEqual((second.session_created, second.session_uid, second.stdout_data),
                         (False, first.session_uid, b"one\n"))

    def test_a_stopped_session_is_made_anew(self):
        uid = self.run_here("true").session_uid
        self.client.sessions.StopSession(self.pb.session.StopSessionRequest(session_id=self.sid))
        again = self.run_here("true")
        self.assertTrue(again.session_created)
        self.assertNotEqual(again.session_uid, uid)

    def test_the_verdict_measures(self):
        v = self.completes(self.run_here(
            "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; printf xyz")).verdict
        self.assertGreater(v.cpu_time.ToNanoseconds(), 10_000_000)
        self.assertGreaterEqual(v.wall_time.ToNanoseconds(), v.cpu_time.ToNanoseconds() / 2)
        self.assertIn(v.cpu_source, (self.t.MEASURE_SOURCE_CGROUP, self.t.MEASURE_SOURCE_RUSAGE))
        self.assertGreater(v.peak_memory_bytes, 100_000)
        self.assertNotEqual(v.peak_memory_source, self.t.MEASURE_SOURCE_UNSPECIFIED)
        self.assertLess(abs(v.started_at.ToNanoseconds() / 1e9 - time.time()), 60)
        self.assertEqual((v.stdout_report.total_bytes, v.stdout_report.kept_bytes,
                          v.stdout_report.truncated), (3, 3, False))
        self.assertEqual((v.stdin_bytes, v.oom_kills, v.leftover_processes, list(v.limits_hit)),
                         (0, 0, 0, []))

    def test_environment_is_fixed_and_minimal(self):
        answer = self.completes(self.run_here(["env", "-0"], env={"MINE": "1 'x' \"y\"\n{}"}))
        self.assertEqual(sorted(answer.stdout_data.decode().rstrip("\0").split("\0")), [
            "HOME=/home", "LANG=C.UTF-8", "MINE=1 'x' \"y\"\n{}",
            "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "USER=box"])

    def test_workdir(self):
        self.client.out("mkdir -p sub/dir", self.sid)
        self.assertEqual(self.client.out(["pwd"], self.sid, workdir="/workspace/sub/dir"),
                         "/workspace/sub/dir")
        failure = self.fails(StatusCode.NOT_FOUND, "FILE_NOT_FOUND",
                             lambda: self.run_here(["true"], workdir="/workspace/none"))
        self.assertIn("/workspace/none", failure.text)
        for path in [f"/proc/self/fd/{n}" for n in (3, 5, 9)]:  # CVE-2024-21626
            self.fails(StatusCode.NOT_FOUND, "FILE_NOT_FOUND",
                       lambda p=path: self.run_here(["ls", ".."], workdir=p))

    def test_a_program_that_is_not_there(self):
        self.client.out("printf 'no program' >plain; mkdir dir", self.sid)
        for argv in (["no-such-program"], ["/no/such"], ["./missing"]):
            failure = self.fails(StatusCode.NOT_FOUND, "FILE_NOT_FOUND",
                                 lambda a=argv: self.run_here(a))
            self.assertEqual(failure.metadata["kind"], "command")
        for argv in (["./plain"], ["/workspace/dir"]):
            failure = self.fails(StatusCode.PERMISSION_DENIED, "PERMISSION",
                                 lambda a=argv: self.run_here(a))
            self.assertEqual(failure.metadata["kind"], "command")
        self.client.out("true", self.sid)

    def test_all_mistakes_of_a_command_are_named_at_once(self):
        self.invalid(lambda: self.run_here(
            "true", argv=["true"], workdir="x", timeout=-1, idle_timeout=-2,
            output_limit_bytes=-1, output_kill_bytes=0, env={"": "x"}, leftovers=9),
            "command.argv", "command.workdir", "command.timeout", "command.idle_timeout",
            "command.output_limit_bytes", "command.output_kill_bytes", "command.env",
            "command.leftovers")
        self.fails(StatusCode.NOT_FOUND, "SESSION_NOT_FOUND", lambda: self.client.get(self.sid))

    def test_commands_and_specs_are_checked_together(self):
        self.invalid(lambda: self.run_here(["true"], timeout=0, spec={"pids_limit": 0}),
                     "command.timeout", "spec.pids_limit")

    def test_nothing_to_run(self):
        empty = self.pb.exec.ExecRequest(session_id=self.sid)
        self.invalid(lambda: self.client.execs.Exec(empty), "command")
        self.invalid(lambda: self.run_here([]), "command.argv")
        self.invalid(lambda: self.run_here([""]), "command.argv")
        self.invalid(lambda: self.run_here(["true"], output_limit_bytes=8 * MIB),
                     "command.output_limit_bytes")
        self.fails(StatusCode.FAILED_PRECONDITION, "GUARANTEE_UNSUPPORTED",
                   lambda: self.run_here(["true"], skill_name="x"))

    def test_an_idempotency_key_runs_once(self):
        run = lambda text="echo x >>file": self.run_here(text, key="exec-1")  # noqa: E731
        self.completes(run())
        self.fails(StatusCode.FAILED_PRECONDITION, "IDEMPOTENCY_DONE", run)
        self.fails(StatusCode.INVALID_ARGUMENT, "IDEMPOTENCY_MISMATCH", lambda: run("true"))
        self.assertEqual(self.client.out("cat file", self.sid), "x")

    def test_total_and_waiting_times_are_counted(self):
        first = self.start(["sleep", "2"])
        lib.wait_for(lambda: self.client.get(self.sid).active_execs, "it runs")
        second = self.start(["true"])
        self.completes(first.result())
        v = self.completes(second.result()).verdict
        self.assertGreater(v.queue_time.ToNanoseconds(), 50_000_000)
        self.assertLess(v.wall_time.ToNanoseconds(), 2_000_000_000)
        self.assertEqual(self.client.get(self.sid).total_execs, 2)


class Endings(Case):
    def test_exit_codes(self):
        for code in (0, 1, 2, 42, 126, 127, 137, 255):
            self.completes(self.run_here(f"exit {code}"), code)

    def test_signals_1_to_31_and_34(self):
        # CHLD, CONT, URG, WINCH, and stops from a terminal that it has not: none ends it.
        ignored = {17, 18, 20, 21, 22, 23, 28}
        for n in [*range(1, 19), *range(20, 32), 34]:
            v = self.run_here(f"kill -{n} $$; exit 7", timeout=5).verdict
            if n in ignored:
                self.assertEqual((v.status, v.exit_code), (1, 7), n)
            else:
                self.assertEqual((v.status, v.signal, v.HasField("exit_code")), (1, n, False), n)

    def test_137_on_purpose_is_an_exit_code(self):
        v = self.run_here("exit 137").verdict
        self.assertEqual((v.exit_code, v.HasField("signal"), v.oom_kills), (137, False, 0))

    def test_no_core_lands_in_the_workspace(self):
        v = self.run_here("ulimit -c unlimited 2>/dev/null; kill -SEGV $$").verdict
        self.assertEqual(v.signal, 11)
        self.assertEqual(self.client.out("ls -A", self.sid), "")

    def test_a_timeout_kills_the_tree(self):
        begin = time.monotonic()
        answer = self.run_here("echo begin\n" + STUBBORN, timeout=1)
        self.ends(begin)
        v = answer.verdict
        self.assertEqual((v.status, v.signal, list(v.limits_hit)),
                         (self.t.VERDICT_STATUS_TIMED_OUT, 9, ["timeout"]))
        self.assertFalse(v.HasField("exit_code"))
        self.assertEqual(answer.stdout_data, b"begin\n")
        self.nothing_runs()

    def test_timeouts_that_are_none(self):
        for seconds in (0, -1, -0.001):
            self.invalid(lambda s=seconds: self.run_here(["true"], timeout=s), "command.timeout")
        odd = self.client.exec_request(["true"], self.sid)
        odd.command.timeout.seconds = 2 ** 62  # no well-formed Duration
        self.invalid_or_clamped(odd)
        odd.command.timeout.seconds = 1
        odd.command.timeout.nanos = -1
        self.invalid(lambda: self.client.execs.Exec(odd), "command.timeout")

    def invalid_or_clamped(self, request):
        try:
            answer = self.client.execs.Exec(request)
        except boxd_lib.grpc.RpcError as e:
            self.assertEqual(boxd_lib.Failure(e).reason, "VALIDATION")
        else:
            self.assertEqual(answer.adjustments[0].rule, "profile.max_timeout")

    def test_a_timeout_is_kept_to_the_millisecond_scale(self):
        for seconds in (0.001, 0.2):
            v = self.run_here(["sleep", "9"], timeout=seconds).verdict
            self.assertEqual(v.status, self.t.VERDICT_STATUS_TIMED_OUT)
            self.assertTrue(seconds <= v.wall_time.ToNanoseconds() / 1e9 < seconds + 0.1, v)

    def test_a_long_timeout_is_lowered_and_told(self):
        answer = self.completes(self.run_here(["true"], timeout=2 ** 31))
        a = answer.adjustments
        self.assertEqual([(x.field, x.requested, x.effective, x.rule) for x in a],
                         [("command.timeout", a[0].requested, "120s", "profile.max_timeout")])

    def test_the_sessions_timeout_holds_when_none_is_named(self):
        answer = self.run_here(["sleep", "9"], spec={"command_timeout": duration(0.3)})
        self.assertEqual(answer.verdict.status, self.t.VERDICT_STATUS_TIMED_OUT)

    def test_stopping_itself_does_not_stop_the_clock(self):
        for text in ("kill -STOP 0", "kill -STOP -1; kill -STOP $$", "kill -STOP 1; sleep 9"):
            begin = time.monotonic()
            v = self.run_here(text, timeout=0.5).verdict
            self.assertEqual(v.status, self.t.VERDICT_STATUS_TIMED_OUT, text)
            self.ends(begin)
        v = self.run_here("kill -9 -1; sleep 9", timeout=2).verdict
        self.assertIn(v.status, (self.t.VERDICT_STATUS_COMPLETED, self.t.VERDICT_STATUS_TIMED_OUT))
        self.completes(self.run_here("true"))

    def test_an_idle_command_ends(self):
        v = self.run_here("echo x; sleep 9", idle_timeout=0.3).verdict
        self.assertEqual((v.status, list(v.limits_hit)),
                         (self.t.VERDICT_STATUS_IDLE_TIMED_OUT, ["idle_timeout"]))
        self.completes(self.run_here("for i in 1 2 3 4 5 6; do echo $i; sleep 0.1; done",
                                     idle_timeout=0.4))

    def test_too_much_output_ends_it_when_asked(self):
        answer = self.run_here("yes", output_kill_bytes=100_000)
        v = answer.verdict
        self.assertEqual((v.status, list(v.limits_hit)),
                         (self.t.VERDICT_STATUS_OUTPUT_LIMIT, ["output_kill_bytes"]))
        self.assertGreater(v.stdout_report.total_bytes, 100_000)

    def test_a_full_workspace(self):
        spec = {"workspace_limit_bytes": MIB}
        answer = self.run_here("head -c 2M /dev/zero >/workspace/f; exit 3", spec=spec)
        self.completes(answer, 3)
        self.assertEqual(list(answer.verdict.limits_hit), ["workspace"])
        self.assertIn(b"No space left on device", answer.stderr_data)
        answer = self.completes(self.run_here("rm /workspace/f"))
        self.assertEqual(list(answer.verdict.limits_hit), [])
        files = "i=0; while : 2>/dev/null >/workspace/$i; do i=$((i+1)); done"
        answer = self.run_here(files)  # inodes are size / 4 KiB
        self.assertEqual(list(answer.verdict.limits_hit), ["workspace"])

    def test_oom_of_the_main_process(self):
        spec = {"memory_bytes": 32 * MIB, "workspace_limit_bytes": MIB}
        answer = self.run_here(["/usr/bin/python3", "-c", "b'x' * (1 << 30)"], spec=spec)
        v = answer.verdict
        self.assertEqual((v.status, v.signal, list(v.limits_hit)),
                         (self.t.VERDICT_STATUS_OOM_KILLED, 9, ["memory"]))
        self.assertGreaterEqual(v.oom_kills, 1)
        self.completes(self.run_here("true"))

    def test_oom_of_a_child_is_told_beside_exit_0(self):
        spec = {"memory_bytes": 32 * MIB, "workspace_limit_bytes": MIB}
        answer = self.run_here("/usr/bin/python3 -c \"b'x' * (1 << 30)\"; exit 0", spec=spec)
        self.completes(answer)
        self.assertGreaterEqual(answer.verdict.oom_kills, 1)

    def test_the_pid_limit_holds(self):
        answer = self.run_here(":(){ :|:& };:; sleep 0.5", spec={"pids_limit": 20}, timeout=5,
                               leftovers=self.t.LEFTOVER_POLICY_KILL)
        self.assertNotEqual(answer.verdict.status, self.t.VERDICT_STATUS_SANDBOX_LOST)
        self.completes(self.run_here("true"))


class Background(Case):
    """hostile-inputs row 23: whoever holds the pipes, the answer comes when the main one ends."""

    def check_returns(self, text, **fields):
        begin = time.monotonic()
        answer = self.completes(self.run_here(text, **fields))
        self.ends(begin)
        self.assertTrue(answer.stdout_data.startswith(b"ok\n"), answer)
        return answer

    def test_a_child_that_holds_stdout(self):
        v = self.check_returns("sleep 300 & echo ok").verdict
        self.assertEqual((v.leftover_processes, v.leftovers),
                         (1, self.t.LEFTOVER_POLICY_KEEP))
        lib.wait_for(lambda: "sleep" in self.commands_in(self.sid), "it goes on")

    def test_one_that_goes_on_writing(self):
        self.check_returns("echo ok; (while :; do echo more; sleep 0.01; done) &")
        self.completes(self.run_here("true"))
        lib.wait_for(lambda: "sleep" in self.commands_in(self.sid), "it goes on")

    def test_one_that_holds_stderr_only(self):
        self.check_returns("sleep 300 >/dev/null & echo ok")

    def test_one_in_a_session_of_its_own(self):
        self.check_returns("(setsid nohup sleep 300 &) ; echo ok")

    def test_leftovers_are_killed_when_asked(self):
        answer = self.check_returns("(setsid sleep 300 &); sleep 300 & echo ok",
                                    leftovers=self.t.LEFTOVER_POLICY_KILL)
        self.assertEqual(answer.verdict.leftovers, self.t.LEFTOVER_POLICY_KILL)
        self.assertGreaterEqual(answer.verdict.leftover_processes, 1)
        self.nothing_runs()

    def test_a_one_off_run_leaves_nothing(self):
        answer = self.completes(self.client.run("(setsid sleep 300 &); sleep 300 & echo ok"))
        self.assertEqual(answer.verdict.leftovers, self.t.LEFTOVER_POLICY_KILL)
        lib.wait_for(lambda: not self.boxd.processes(answer.session_uid), "all of it goes")

    def test_many_fast_commands_leave_no_zombies(self):
        for _ in range(200):
            self.completes(self.run_here("true & exec sleep 0"))
        zombies = self.client.out("grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null | wc -l",
                                  self.sid)
        self.assertEqual(zombies, "0")


class Bytes(Case):
    def test_random_bytes_come_back_whole(self):
        data = os.urandom(MIB)
        answer = self.completes(self.run_here("tee copy", stdin=data))
        self.assertEqual(answer.stdout_data, data)
        self.assertEqual(answer.verdict.stdin_bytes, len(data))
        self.assertEqual(self.client.out("sha256sum <copy", self.sid).split()[0],
                         hashlib.sha256(data).hexdigest())

    def test_bytes_that_are_no_text(self):
        for text in ("\\377\\376\\000\\342\\050\\241", "a\\n\\nb\\n\\n\\nc\\n", "no end of line",
                     "a\\r\\nb\\r"):
            expected = text.encode().decode("unicode_escape").encode("latin-1") \
                if "\\377" not in text else b"\xff\xfe\x00\xe2\x28\xa1"
            answer = self.completes(self.run_here(["/usr/bin/printf", text]))
            self.assertEqual(answer.stdout_data, expected)

    def test_slow_single_bytes_lose_nothing(self):
        answer = self.completes(self.run_here(
            "dd if=/dev/urandom of=f bs=1000 count=100 2>/dev/null; sha256sum f >&2; dd if=f bs=1 "
            "2>/dev/null"))
        self.assertEqual(answer.stderr_data.split()[0].decode(),
                         hashlib.sha256(answer.stdout_data).hexdigest())

    def test_the_tail_is_there_every_time(self):
        for i in range(100):
            answer = self.completes(self.run_here(f"seq 2000; echo end {i}"))
            self.assertEqual(answer.stdout_data.splitlines()[-1], b"end %d" % i)
            self.assertEqual(answer.stdout_data.count(b"\n"), 2001)

    def test_head_and_tail_are_kept(self):
        answer = self.completes(self.run_here("seq -w 0 99999", output_limit_bytes=1000))
        report, out = answer.verdict.stdout_report, answer.stdout_data
        whole = b"".join(b"%05d\n" % i for i in range(100000))
        self.assertEqual((report.total_bytes, report.kept_bytes, report.head_bytes,
                          report.truncated), (600000, 1000, 600, True))
        self.assertEqual((out[:600], out[600:]), (whole[:600], whole[-400:]))

    def test_keeping_nothing(self):
        answer = self.completes(self.run_here("echo x; echo y >&2", output_limit_bytes=0))
        self.assertEqual((answer.stdout_data, answer.stderr_data), (b"", b""))
        self.assertEqual(answer.verdict.stderr_report.total_bytes, 2)

    def test_a_flood_is_counted_and_bounded(self):
        answer = self.completes(self.run_here("head -c 200M /dev/zero"))
        report = answer.verdict.stdout_report
        self.assertEqual((report.total_bytes, report.kept_bytes), (200 * MIB, MIB))
        self.assertLess(self.boxd.boxd.rss_kib(), 150 * 1024)

    def test_8_mib_in_and_7_mib_out(self):
        data = os.urandom(8 * MIB)
        answer = self.completes(self.run_here("cat", stdin=data, output_limit_bytes=7 * MIB))
        head = answer.verdict.stdout_report.head_bytes
        self.assertEqual(answer.verdict.stdout_report.total_bytes, 8 * MIB)
        self.assertEqual(answer.stdout_data, data[:head] + data[-(7 * MIB - head):])
        answer = self.completes(self.run_here("sha256sum", stdin=data))
        self.assertEqual(answer.stdout_data.split()[0].decode(), hashlib.sha256(data).hexdigest())

    def test_no_stdin_is_the_end_of_file_at_once(self):
        for what in (["cat"], "read x; test $? = 1",
                     ["/usr/bin/python3", "-c", "import sys; sys.exit(sys.stdin.read() != '')"]):
            begin = time.monotonic()
            self.completes(self.run_here(what, timeout=5))
            self.ends(begin)

    def test_stdin_that_nobody_reads(self):
        data = b"x" * (10 * MIB)
        self.completes(self.run_here(["true"], stdin=data))
        self.completes(self.run_here("head -c 5 >/dev/null; exec 0<&-; sleep 0.1", stdin=data))
        v = self.run_here(["sleep", "9"], stdin=data, timeout=0.3).verdict
        self.assertEqual(v.status, self.t.VERDICT_STATUS_TIMED_OUT)

    def test_big_arguments(self):
        count = ["sh", "-c", 'printf %s "$1" | wc -c', "sh"]
        self.assertEqual(self.client.out([*count, "x" * 131071], self.sid), "131071")
        for length in (131072, 200000):
            self.invalid(lambda n=length: self.run_here([*count, "x" * n]), "command.argv")
        self.assertEqual(self.client.out(["sh", "-c", "echo $#", "sh", *["y" * 1000] * 1500],
                                         self.sid), "1500")
        self.invalid(lambda: self.run_here(["true", *["y" * 100000] * 21]), "command.argv")
        self.invalid(lambda: self.run_here(["true", *["y"] * 65536]), "command.argv")
        env = {f"K{i}": "v" for i in range(65537)}
        self.invalid(lambda: self.run_here(["true"], env=env), "command.env")
        self.invalid(lambda: self.run_here("true", env={"A=B": "x"}), "command.env")
        answer = self.client.out("printf %s \"$A\" | wc -c", self.sid, env={"A": "z" * 131000})
        self.assertEqual(answer, "131000")

    def test_arguments_are_passed_exactly(self):
        argv = ["", " ", "a\nb", "'\"\\$`", "{\"json\": [1]}", "\u4e16\U0001f600", "-n", "*"]
        answer = self.completes(self.run_here(
            ["/usr/bin/python3", "-c", "import sys; print('\\0'.join(sys.argv[1:]), end='')",
             *argv]))
        self.assertEqual(answer.stdout_data.decode().split("\0"), argv)


class Queue(Case):
    def test_commands_run_in_order_one_at_a_time(self):
        self.client.create(self.sid)
        gate = self.start(["sleep", "60"])
        lib.wait_for(lambda: self.client.get(self.sid).active_execs == 1, "the first runs")
        calls = []
        for i in range(10):
            calls.append(self.start(f"mkdir alone && echo {i} >>order && sleep 0.01 && rmdir alone"))
            lib.wait_for(lambda n=i: self.client.get(self.sid).queued_execs == n + 1, "it waits")
        gate.cancel()
        for call in calls:
            self.completes(call.result())
        self.assertEqual(self.client.out("cat order", self.sid).split(),
                         [str(i) for i in range(10)])

    def test_the_queue_has_an_end(self):
        calls = [self.start(["sleep", "60"])]
        self.addCleanup(lambda: [c.cancel() for c in calls])
        # While the sandbox is made, the first one counts as waiting too.
        lib.wait_for(lambda: self.client.get(self.sid).active_execs == 1, "the first runs")
        calls += [self.start(["sleep", "60"]) for _ in range(32)]
        lib.wait_for(lambda: self.client.get(self.sid).queued_execs == 32, "32 wait")
        failure = self.fails(StatusCode.RESOURCE_EXHAUSTED, "EXEC_QUEUE",
                             lambda: self.run_here(["true"]))
        self.assertEqual(failure.metadata, {"limit": "queue_depth", "max": "32", "used": "32"})
        self.assertGreater(failure.retry_ms, 0)
        self.assertEqual(len(failure.quotas), 1)

    def test_waiting_has_an_end(self):
        first = self.start(["sleep", "60"])
        self.addCleanup(first.cancel)
        lib.wait_for(lambda: self.client.get(self.sid).active_execs == 1, "it runs")
        for seconds in (0, 0.2):
            begin = time.monotonic()
            failure = self.fails(StatusCode.RESOURCE_EXHAUSTED, "EXEC_QUEUE",
                                 lambda s=seconds: self.run_here(["true"], queue_timeout=s))
            self.assertGreaterEqual(time.monotonic() - begin, seconds)
            self.ends(begin)
            self.assertEqual(failure.metadata["limit"], "queue_timeout_ms")
        self.invalid(lambda: self.run_here(["true"], queue_timeout=-1), "queue_timeout")

    def test_sessions_do_not_wait_for_each_other(self):
        others = [f"{self.sid}-{i}" for i in range(5)]
        for sid in others:
            self.addCleanup(self.client.delete, sid)
        slow = self.start(["sleep", "60"])
        self.addCleanup(slow.cancel)
        with concurrent.futures.ThreadPoolExecutor(5) as pool:
            for answer in pool.map(lambda s: self.client.run(["true"], s), others):
                self.completes(answer)
        self.assertFalse(slow.done())

    def test_100_calls_at_once(self):
        sids = [f"{self.sid}-{i}" for i in range(10)]
        for sid in sids:
            self.addCleanup(self.client.delete, sid)
        with concurrent.futures.ThreadPoolExecutor(100) as pool:
            calls = [pool.submit(self.client.run, f"echo {i}; exit {i % 7}", sids[i % 10])
                     for i in range(100)]
            for i, call in enumerate(calls):
                answer = self.completes(call.result(), i % 7)
                self.assertEqual(answer.stdout_data, b"%d\n" % i)

    def test_50_one_off_runs_at_once(self):
        with concurrent.futures.ThreadPoolExecutor(50) as pool:
            calls = [pool.submit(self.client.out, f"echo {i}") for i in range(50)]
            self.assertEqual([c.result() for c in calls], [str(i) for i in range(50)])


if __name__ == "__main__":
    boxd_lib.main()
