"""hostile-inputs.md rows 24, 27, 29, 33, 34 and 35: how commands end, what they leave, what they are
given to read and to run with, and what a timeout means."""

import concurrent.futures
import hashlib
import os
import signal
import time

import grpc

import hostile_lib
import lib
from hostile_lib import HostileCase, MIB
from grpc import StatusCode

STUBBORN = """trap '' TERM INT HUP
(setsid sh -c 'trap "" TERM; while :; do :; done' &)
(setsid setsid sh -c 'trap "" TERM HUP; exec <&- >&- 2>&-; while sleep 1; do :; done' &)
sleep 999"""


def setUpModule():
    HostileCase.start_server()


def tearDownModule():
    HostileCase.stop_server()


class Case(HostileCase):
    def setUp(self):
        super().setUp()
        self.t = self.pb.types

    def inside(self, uid):
        """Host pids of commands of a sandbox: all but agent and zygote."""
        return {pid for pid in self.boxd.processes(uid)
                if hostile_lib.name_of(pid) not in ("box-agent", "box-zygote", None)}


class Row24(Case):
    """Whoever the caller is and however the command hides: nothing survives its end."""

    ROUNDS = 200
    GROUPS = 3  # an agent keeps: that of the child that waits, and two for later
    GROUP_FDS = 3

    def test_timeouts_and_cuts_leave_nothing(self):
        uid = self.client.create(self.sid, max_parallel_execs=4).uid
        fds = hostile_lib.fd_count(self.boxd.boxd.pid)
        agent_fds = hostile_lib.fd_count(self.boxd.first_process(uid))
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(self.one, range(self.ROUNDS)))
        lib.wait_for(lambda: not self.inside(uid), "all of it goes")
        lib.wait_for(lambda: self.client.get(self.sid).active_execs == 0, "and is counted so")
        lib.wait_for(lambda: hostile_lib.fd_count(self.boxd.boxd.pid) <= fds + 2, "boxd's pipes go")
        agent = self.boxd.first_process(uid)
        lib.wait_for(lambda: hostile_lib.fd_count(agent) <= agent_fds + self.GROUPS * self.GROUP_FDS,
                     "the agent's descriptors go")
        lib.wait_for(lambda: len([p for p in self.boxd.sandbox_groups()
                                  if uid in p and "/box/x/" in p]) <= self.GROUPS, "groups go")
        # Process numbers were given back: those of the sandbox, and its agent's table.
        self.assertEqual(self.client.out(["echo", "after"], self.sid), "after")

    def one(self, i):
        """Ends a stubborn command in one of three ways."""
        request = self.client.exec_request(STUBBORN, self.sid, timeout=0.05 if i % 3 == 0 else 60)
        if i % 3 == 0:
            verdict = self.client.execs.Exec(request, timeout=60).verdict
            self.assertEqual((verdict.status, verdict.signal),
                             (self.t.VERDICT_STATUS_TIMED_OUT, 9))
        elif i % 3 == 1:
            call = self.client.execs.Exec.future(request, timeout=60)
            time.sleep(0.03)
            call.cancel()  # RST_STREAM
        else:
            with self.assertRaises(grpc.RpcError) as caught:
                self.client.execs.Exec(request, timeout=0.05)
            self.assertEqual(caught.exception.code(), StatusCode.DEADLINE_EXCEEDED)

    def test_a_timeout_spares_what_others_started(self):
        self.client.create(self.sid, max_parallel_execs=2)
        self.client.run("setsid sleep 300 & echo", self.sid)
        self.client.run(STUBBORN, self.sid, timeout=0.3)
        self.assertEqual(self.commands_in(self.sid), ["sleep"])


class Row27(Case):
    """Thousands of orphans in one session: none stays a zombie, no exit code is lost."""

    RUNS = 5000

    def test_zombies_and_fast_exits(self):
        uid = self.client.create(self.sid, max_parallel_execs=8).uid

        def one(i):
            # An orphan that ends after its parent, and a main process that ends at once.
            answer = self.client.run(["sh", "-c", f"true & (true &) ; exit {i % 256}"], self.sid)
            return (answer.verdict.status, answer.verdict.exit_code)

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            ends = list(pool.map(one, range(self.RUNS)))
        self.assertEqual(ends, [(self.t.VERDICT_STATUS_COMPLETED, i % 256)
                                for i in range(self.RUNS)])
        self.assertEqual(self.client.out(
            "grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null | wc -l", self.sid), "0")
        lib.wait_for(lambda: not self.inside(uid), "no orphan stays")
        self.assertEqual(self.client.get(self.sid).total_execs, self.RUNS + 1)

    def test_an_orphan_of_an_orphan_that_forks_for_ever(self):
        verdict = self.client.run(
            "(f() { (f &) ; }; f &) ; sleep 0.5; exit 3", self.sid, timeout=20,
            leftovers=self.t.LEFTOVER_POLICY_KILL).verdict
        self.assertEqual((verdict.status, verdict.exit_code),
                         (self.t.VERDICT_STATUS_COMPLETED, 3))
        self.assertEqual(self.client.out(
            "grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null | wc -l", self.sid), "0")


class Row29(Case):
    """How it ended, by which signal and whether memory ran out are three facts."""

    SPEC = {"memory_bytes": 64 * MIB, "workspace_limit_bytes": 8 * MIB}
    EAT = "x = []\nwhile True: x.append(bytearray(1 << 20))"

    def facts(self, what, **fields):
        """(status, exit code or None, signal or None, whether something was killed for memory)."""
        v = self.client.run(what, self.sid, spec=self.SPEC, **fields).verdict
        return (v.status, v.exit_code if v.HasField("exit_code") else None,
                v.signal if v.HasField("signal") else None, v.oom_kills > 0)

    def test_every_signal(self):
        ignored = {17, 18, 20, 21, 22, 23, 28}
        done = self.t.VERDICT_STATUS_COMPLETED
        for n in [*range(1, 19), *range(20, 32), 34, 64]:
            end = (done, 7, None, False) if n in ignored else (done, None, n, False)
            self.assertEqual(self.facts(f"kill -{n} $$; exit 7"), end, n)
        self.assertEqual(self.facts("kill -19 $$", timeout=0.3),
                         (self.t.VERDICT_STATUS_TIMED_OUT, None, 9, False))

    def test_codes_that_look_like_signals(self):
        for code in (128, 129, 137, 139, 143, 255):
            self.assertEqual(self.facts(f"exit {code}"),
                             (self.t.VERDICT_STATUS_COMPLETED, code, None, False))

    def test_memory_by_every_way(self):
        done, oom = self.t.VERDICT_STATUS_COMPLETED, self.t.VERDICT_STATUS_OOM_KILLED
        eat = ["python3", "-c", self.EAT]
        self.assertEqual(self.facts(eat), (oom, None, 9, True))
        # A KILL of its own after that is no lack of memory.
        self.assertEqual(self.facts("kill -9 $$"), (done, None, 9, False))
        self.assertEqual(self.facts("exit 137"), (done, 137, None, False))
        # A child and a grandchild; what the parent makes of it is its own.
        self.assertEqual(self.facts(f"python3 -c '{self.EAT}'; exit 0"), (done, 0, None, True))
        self.assertEqual(self.facts(f"(sh -c \"python3 -c '{self.EAT}'; true\"); exit 5"),
                         (done, 5, None, True))
        self.assertEqual(self.facts(f"python3 -c '{self.EAT}'; exit $?"), (done, 137, None, True))
        # Volumes have their own limit: no process is killed for them.
        self.assertEqual(self.facts("cat /dev/zero >/tmp/f; rm /tmp/f; exit 4"),
                         (done, 4, None, False))
        self.assertEqual(self.facts("cat /dev/zero >/workspace/f; rm /workspace/f; exit 4"),
                         (done, 4, None, False))
        # The page cache can be given back.
        self.assertEqual(self.facts("find /usr/lib -type f -size +100k | head -300 | "
                                    "xargs cat 2>/dev/null | wc -c >/dev/null; exit 6", timeout=60),
                         (done, 6, None, False))

    def test_two_at_once_are_told_apart(self):
        self.client.create(self.sid, max_parallel_execs=4, **self.SPEC)
        calls = [self.client.execs.Exec.future(self.client.exec_request(
            "sleep 0.5; exit 9", self.sid), timeout=60) for _ in range(2)]
        eater = self.facts(["python3", "-c", self.EAT])
        self.assertEqual(eater[:3], (self.t.VERDICT_STATUS_OOM_KILLED, None, 9))
        for call in calls:
            v = call.result().verdict
            self.assertEqual((v.status, v.exit_code), (self.t.VERDICT_STATUS_COMPLETED, 9))

    def test_what_never_ran_has_no_verdict(self):
        self.fails(StatusCode.NOT_FOUND, "FILE_NOT_FOUND",
                   lambda: self.client.run(["/usr/bin/nonsense"], self.sid))
        self.client.run("printf '#!/usr/bin/nonsense\\n' >x; printf 'text' >y; chmod +x x y",
                        self.sid)
        self.fails(StatusCode.NOT_FOUND, "FILE_NOT_FOUND",
                   lambda: self.client.run(["/workspace/x"], self.sid))
        self.fails(StatusCode.INVALID_ARGUMENT, "VALIDATION",
                   lambda: self.client.run(["/workspace/y"], self.sid))


class Row33(Case):
    """Nothing to read is the end of the file, at once; too much to read is nobody's trouble."""

    def test_programs_that_would_ask(self):
        for what in (["cat"], "read x; test $? = 1", "cat /dev/stdin", "test ! -t 0",
                     "python3 -c 'input()' 2>/dev/null; test $? = 1",
                     "python3 -c 'import getpass; getpass.getpass()' 2>/dev/null; test $? = 1",
                     "! (: </dev/tty) 2>/dev/null",  # a prompt that opens the terminal itself
                     "sh", "python3", "bc 2>/dev/null; true", "sort | wc -l"):
            begin = time.monotonic()
            self.completes(self.client.run(what, self.sid, timeout=20))
            self.assertLess(time.monotonic() - begin, 15, what)

    def test_ten_mebibytes_to_somebody_who_does_not_want_them(self):
        data = os.urandom(10 * MIB)
        verdict = self.client.run("sleep 60", self.sid, stdin=data, timeout=0.5).verdict
        self.assertEqual(verdict.status, self.t.VERDICT_STATUS_TIMED_OUT)
        self.assertLess(verdict.stdin_bytes, MIB)
        for what in ("exit 3", "head -c 100 >/dev/null; exit 3", "exec <&-; sleep 0.1; exit 3",
                     "dd bs=1 count=1 >/dev/null 2>&1; exit 3"):
            self.completes(self.client.run(what, self.sid, stdin=data), 3)
        self.assertTrue(self.boxd.boxd.is_running())
        answer = self.completes(self.client.run("sha256sum", self.sid, stdin=data))
        self.assertEqual(answer.stdout_data.split()[0].decode(), hashlib.sha256(data).hexdigest())
        self.assertEqual(answer.verdict.stdin_bytes, len(data))

    def test_half_closed_and_then_more_output(self):
        pb = self.pb.exec
        requests = iter([
            pb.ExecStreamRequest(start=pb.ExecStart(session_id=self.sid,
                                                    command=self.client.command(
                                                        "wc -c; sleep 0.2; seq 100000; exit 6"))),
            pb.ExecStreamRequest(stdin_data=b"x" * 70000)])  # then the end of the requests
        out, verdict = b"", None
        for answer in self.client.execs.ExecStream(requests, timeout=60):
            out += answer.stdout_data
            if answer.HasField("verdict"):
                verdict = answer.verdict
        self.assertEqual(out.splitlines()[0].strip(), b"70000")
        self.assertEqual(len(out.splitlines()), 100001)
        self.assertEqual(verdict.exit_code, 6)


class Row34(Case):
    """Arguments and variables are passed exactly, or refused before anything starts."""

    ARG_MAX = 128 * 1024  # with its NUL, execve(2)
    TOTAL = 2 * MIB - 1024  # with every NUL; the rest is for Box's own variables

    def seen(self, argv=(), env=None):
        """What a program gets: (digest of its arguments, digest of the variables with X)."""
        script = ("import hashlib, os, sys\n"
                  "h = lambda xs: hashlib.sha256(b'\\0'.join(xs)).hexdigest()\n"
                  "print(h([os.fsencode(a) for a in sys.argv[1:]]), h(sorted(k + b'=' + v for k, v "
                  "in os.environb.items() if k.startswith(b'X'))))")
        answer = self.client.out(["python3", "-c", script, *argv], self.sid, env=env or {})
        return answer.split()

    @staticmethod
    def digest(texts):
        """As in the program."""
        return hashlib.sha256(b"\0".join(t.encode() for t in texts)).hexdigest()

    def test_one_argument(self):
        for length in (0, 1, 131071):
            self.assertEqual(self.seen(["y" * length])[0], self.digest(["y" * length]), length)
        for length in (131072, 131073, 200000):
            self.invalid(lambda n=length: self.client.run(["true", "y" * n], self.sid),
                         "command.argv")

    def test_the_sum(self):
        def argv(total):
            args = ["true"] + ["y" * 100000] * 20
            rest = total - sum(len(a) + 1 for a in args) - 1
            return args + ["z" * rest]
        fits = argv(self.TOTAL - 4096)
        self.completes(self.client.run(fits, self.sid))
        for total in (2 * MIB - 1, 2 * MIB, 2 * MIB + 1):
            self.invalid(lambda t=total: self.client.run(argv(t), self.sid), "command.argv")

    def test_numbers_of_them(self):
        many = {f"X{i}": "v" for i in range(20000)}
        self.assertEqual(self.seen(env=many)[1],
                         self.digest(sorted(f"{k}=v" for k in many)))
        self.invalid(lambda: self.client.run(["true"], self.sid,
                                             env={f"X{i}": "v" for i in range(100000)}),
                     "command.env")
        self.invalid(lambda: self.client.run(["true"] + ["y"] * 100000, self.sid), "command.argv")

    def test_names_that_are_none(self):
        for name in ("", "=", "A=B", "A\0B", "\0"):
            with self.assertRaises(grpc.RpcError) as caught:
                self.client.run(["true"], self.sid, env={name: "x"})
            self.assertEqual(caught.exception.code(), StatusCode.INVALID_ARGUMENT, repr(name))
        for value in ("A\0B", "\0"):
            with self.assertRaises(grpc.RpcError) as caught:
                self.client.run(["true", value], self.sid)
            self.assertEqual(caught.exception.code(), StatusCode.INVALID_ARGUMENT)
            with self.assertRaises(grpc.RpcError) as caught:
                self.client.run(["true"], self.sid, env={"X": value})
            self.assertEqual(caught.exception.code(), StatusCode.INVALID_ARGUMENT)

    def test_odd_but_right(self):
        odd = ["", " ", "\n", "'", '"', "$(id)", "`id`", "\\", '{"a": [1, "b\\n"]}', "a\tb",
               "\u00fc\u20ac\U0001f600", "-", "--", "*", "~", "\r\n", "\x01\x7f", "%s%n"]
        env = {f"X{i}": v for i, v in enumerate(odd)} | {"X Y": "1", "X\n": "2", "X\u00fc": "3"}
        got = self.seen(odd, env)
        self.assertEqual(got[0], self.digest(odd))
        self.assertEqual(got[1], self.digest(sorted((f"{k}={v}" for k, v in env.items()),
                                                    key=str.encode)))


class Row35(Case):
    """A timeout is a length of monotonic time from the start, and the sandbox keeps it by itself."""

    def test_values(self):
        for seconds in (0, -1, -0.000000001):
            self.invalid(lambda s=seconds: self.client.run(["true"], self.sid, timeout=s),
                         "command.timeout")
        for fields in ({"seconds": 1, "nanos": -1}, {"seconds": 0, "nanos": 10 ** 9},
                       {"seconds": 2 ** 63 - 1}, {"seconds": -(2 ** 63)},
                       {"seconds": 2 ** 62, "nanos": 999999999}, {"seconds": 315576000001}):
            request = self.client.exec_request(["true"], self.sid)
            request.command.timeout.seconds = fields.get("seconds", 0)
            request.command.timeout.nanos = fields.get("nanos", 0)
            self.invalid(lambda r=request: self.client.execs.Exec(r), "command.timeout")
        answer = self.completes(self.client.run(["true"], self.sid, timeout=2 ** 31))
        self.assertEqual(answer.adjustments[0].rule, "profile.max_timeout")
        verdict = self.client.run(["sleep", "60"], self.sid, timeout=0.001).verdict
        self.assertEqual(verdict.status, self.t.VERDICT_STATUS_TIMED_OUT)

    def test_it_is_not_fired_after_the_end(self):
        for _ in range(200):
            v = self.client.run("exit 3", self.sid, timeout=0.02).verdict
            if v.status == self.t.VERDICT_STATUS_COMPLETED:
                self.assertEqual((v.exit_code, list(v.limits_hit)), (3, []))
            else:
                self.assertEqual((v.status, v.signal, v.HasField("exit_code")),
                                 (self.t.VERDICT_STATUS_TIMED_OUT, 9, False))

    def test_a_stopped_server_extends_nothing(self):
        uid = self.client.create(self.sid).uid
        call = self.client.execs.Exec.future(self.client.exec_request(
            ["sleep", "60"], self.sid, timeout=1.5), timeout=60)
        lib.wait_for(lambda: self.inside(uid), "it runs")
        os.kill(self.boxd.boxd.pid, signal.SIGSTOP)
        try:
            ended = hostile_lib.wait_until(lambda: not self.inside(uid), 10)
        finally:
            os.kill(self.boxd.boxd.pid, signal.SIGCONT)
        self.assertTrue(ended, "the command outlived its timeout while boxd stood still")
        v = call.result().verdict
        self.assertEqual(v.status, self.t.VERDICT_STATUS_TIMED_OUT)
        self.assertGreaterEqual(v.wall_time.ToNanoseconds(), 1_500_000_000)

    def test_a_stopped_command_and_agent(self):
        # Somebody with rights stops the agent: boxd's backup ends the command all the same.
        uid = self.client.create(self.sid).uid
        agent = self.boxd.first_process(uid)
        call = self.client.execs.Exec.future(self.client.exec_request(
            ["sleep", "60"], self.sid, timeout=1), timeout=60)
        lib.wait_for(lambda: self.inside(uid), "it runs")
        os.kill(agent, signal.SIGSTOP)
        try:
            v = call.result().verdict
        finally:
            try:
                os.kill(agent, signal.SIGCONT)
            except ProcessLookupError:
                pass
        self.assertIn(v.status, (self.t.VERDICT_STATUS_TIMED_OUT,
                                 self.t.VERDICT_STATUS_SANDBOX_LOST))
        self.assertFalse(v.HasField("exit_code"))
        lib.wait_for(lambda: not self.inside(uid), "the command goes")


if __name__ == "__main__":
    hostile_lib.main()
