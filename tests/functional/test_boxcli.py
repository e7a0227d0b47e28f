"""boxcli against the real server: what a person at a terminal and a script see."""

import calendar
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "interop"))
import boxd_lib  # noqa: E402  (its folder is on the path only now)
import lib  # noqa: E402
from boxd_lib import BoxdCase, MIB, duration  # noqa: E402
from google.protobuf import json_format  # noqa: E402

BOXCLI = os.path.join(sys.argv[1], "boxcli")


def setUpModule():
    BoxdCase.start_server()


def tearDownModule():
    BoxdCase.stop_server()


class Case(BoxdCase):
    def environment(self, **changes):
        """What a person exports once; None takes a name away."""
        env = {"PATH": os.environ["PATH"], "BOX_ENDPOINT": f"dns:///localhost:{self.boxd.port}",
               "BOX_TOKEN_FILE": os.path.join(self.boxd.state_dir, "admin.token"),
               "BOX_CA": os.path.join(self.boxd.state_dir, "ca.pem")}
        env.update({k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")})
        env.update(changes)
        return {k: v for k, v in env.items() if v is not None}

    def start(self, *args, env=None, before=(), **kwargs):
        """boxcli under way, its three streams being pipes; `before` stands before it."""
        options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        child = subprocess.Popen([*before, BOXCLI, *args], env=self.environment(**(env or {})),
                                 **{**options, **kwargs})
        self.addCleanup(self.finish, child)
        return child

    @staticmethod
    def finish(child):
        child.kill()
        child.wait()
        for stream in (child.stdin, child.stdout, child.stderr):
            if stream is not None:
                try:
                    stream.close()
                except BrokenPipeError:
                    pass  # what it did not take

    def cli(self, *args, stdin=b"", env=None, timeout=60):
        """(exit code, stdout, stderr) of boxcli."""
        child = self.start(*args, env=env)
        out, err = child.communicate(stdin, timeout)
        return child.returncode, out, err.decode()

    def ok(self, *args, **kwargs):
        """stdout of a call that works and has nothing to complain about."""
        code, out, err = self.cli(*args, **kwargs)
        self.assertEqual((code, err), (0, ""), out)
        return out.decode()

    def json(self, message, *args, **kwargs):
        """--json output as the message it must be in proto3 JSON."""
        text = self.ok("--json", *args, **kwargs)
        json.loads(text)
        return json_format.Parse(text, message)

    def fails(self, code, *args, says=(), **kwargs):
        """It ends with this code and says all of these on stderr, nothing on stdout."""
        got, out, err = self.cli(*args, **kwargs)
        self.assertEqual((got, out), (code, b""), err)
        for word in says:
            self.assertIn(word, err)
        return err


class Run(Case):
    def test_the_answer(self):
        self.assertEqual(self.ok("run", "--", "/usr/bin/python3", "-c", "print(6*7)"), "42\n")

    def test_exit_codes_are_passed_on(self):
        for code in (0, 1, 3, 77, 255):
            self.assertEqual(self.cli("run", "--shell", f"exit {code}")[0], code)

    def test_signals_are_128_and_more(self):
        for number in (2, 9, 15):
            self.assertEqual(self.cli("run", "--shell", f"kill -{number} $$")[0], 128 + number)

    def test_a_timeout_is_124(self):
        self.fails(124, "run", "--timeout", "300ms", "--", "sleep", "60", says=["timed out"])
        self.fails(124, "run", "--idle-timeout", "300ms", "--", "sleep", "60", says=["idle"])

    def test_what_box_cannot_do_is_125(self):
        self.fails(125, "run", "--network", "on", "--", "true", says=["GUARANTEE_UNSUPPORTED"])
        err = self.fails(125, "run", "--pids", "1", "--max-lifetime", "100h", "--", "true",
                         says=["VALIDATION", "spec.max_lifetime"])
        self.assertIn("48 h", err)

    def test_what_cannot_be_run_is_126_or_127(self):
        self.fails(127, "run", "--", "no-such-program", says=["no-such-program"])
        self.fails(127, "run", "--", "/no/such", says=["/no/such"])
        self.fails(126, "run", "--", "/etc/passwd", says=["/etc/passwd"])

    def test_both_streams_are_kept_apart(self):
        code, out, err = self.cli("run", "--shell", "echo out; echo err >&2; exit 4")
        self.assertEqual((code, out, err), (4, b"out\n", "err\n"))

    def test_stdin_passes_through_whole(self):
        data = os.urandom(5 * MIB)
        code, out, err = self.cli("run", "--", "cat", stdin=data)
        self.assertEqual((code, err), (0, ""))
        self.assertTrue(out == data, f"{len(out)} bytes came back")

    def test_stdin_that_nobody_reads(self):
        self.assertEqual(self.cli("run", "--", "true", stdin=b"x" * (5 * MIB))[0], 0)

    def test_stdin_is_passed_as_it_comes(self):
        child = self.start("run", "--", "cat")
        for line in (b"one\n", b"two\n"):
            child.stdin.write(line)
            child.stdin.flush()
            self.assertEqual(child.stdout.readline(), line)
        child.stdin.close()
        self.assertEqual(child.wait(10), 0)

    def test_output_comes_as_it_is_made(self):
        child = self.start("run", "--shell", "echo first; sleep 60")
        self.assertEqual(child.stdout.readline(), b"first\n")

    def test_options_of_the_command(self):
        self.assertEqual(self.ok("run", "--env", "A=1=2", "--env", "B=x y", "--workdir", "/tmp",
                                 "--shell", "echo $A $B $PWD"), "1=2 x y /tmp\n")
        self.assertEqual(self.ok("run", "--memory", "64MiB", "--cpu", "0.5", "--pids", "20",
                                 "--workspace", "2MiB", "--", "echo", "-n", "x"), "x")

    def test_everything_behind_the_command_is_its_own(self):
        self.assertEqual(self.ok("run", "--", "echo", "--json", "--timeout"),
                         "--json --timeout\n")
        self.assertEqual(self.ok("run", "sh", "-c", "echo $1", "sh", "--help"), "--help\n")
        self.assertEqual(self.ok("run", "echo", "--json"), "--json\n")

    def test_json_may_stand_behind_the_command(self):
        self.assertEqual(json.loads(self.ok("whoami", "--json"))["tenantId"], "default")

    def test_output_kill(self):
        code, out, err = self.cli("run", "--output-kill", "10KiB", "--", "yes")
        self.assertEqual(code, 137)
        self.assertGreaterEqual(len(out), 10240)
        self.assertIn("size of its output", err)

    def test_oom_says_memory(self):
        code, _, err = self.cli("run", "--memory", "32MiB", "--workspace", "1MiB", "--",
                                "/usr/bin/python3", "-c", "b'x' * (1 << 30)")
        self.assertEqual(code, 137)
        self.assertIn("memory", err)

    def test_a_closed_stdout_ends_it(self):
        child = self.start("run", "--", "yes")
        child.stdout.read(10)
        child.stdout.close()
        self.assertEqual(child.wait(10), 128 + signal.SIGPIPE)

    def test_a_closed_stdout_ends_the_command_too(self):
        self.client.create(self.sid)
        child = self.start("exec", self.sid, "--timeout", "100s", "--", "yes")
        child.stdout.read(10)
        child.stdout.close()
        self.assertEqual((child.wait(10), child.stderr.read()), (128 + signal.SIGPIPE, b""))
        lib.wait_for(lambda: not self.commands_in(self.sid), "nothing runs in the session", 5)

    def test_output_that_cannot_be_written_is_125(self):
        self.client.create(self.sid)
        with open("/dev/full", "wb", buffering=0) as full:
            for args in (("run", "--", "echo", "x"), ("exec", self.sid, "--", "yes"),
                         ("--json", "run", "--shell", "exit 9")):
                child = self.start(*args, stdout=full)
                _, err = child.communicate(b"", 30)
                self.assertEqual(child.returncode, 125, err)
                self.assertIn(b"cannot write the output: No space left on device", err)
        lib.wait_for(lambda: not self.commands_in(self.sid), "nothing runs in the session", 5)

    def test_what_is_done_otherwise_than_asked_is_said(self):
        code, out, err = self.cli("run", "--timeout", "500s", "--", "echo", "x")
        self.assertEqual((code, out), (0, b"x\n"))
        self.assertEqual(err, "boxcli: timeout lowered to 120s (profile.max_timeout)\n")
        answer = self.json(self.pb.exec.ExecResponse(), "run", "--timeout", "500s", "--", "true")
        self.assertEqual([a.field for a in answer.adjustments], ["command.timeout"])
        with self.subTest("a locked field"):
            code, _, err = self.cli("run", "--profile", "offline_readonly", "--writable-root",
                                    "--", "true")
            self.assertEqual(code, 0, err)
            self.assertRegex(err, r"^boxcli: \w+ set to \w+ \(profile\.locked\)\n$")

    def test_a_violation_is_said_once(self):
        err = self.fails(125, "run", "--max-lifetime", "100h", "--", "true")
        self.assertEqual(err.count("spec.max_lifetime"), 1, err)
        err = self.fails(125, "run", "--max-lifetime", "100h", "--workdir", "x", "--", "true")
        self.assertEqual((err.count("spec.max_lifetime"), err.count("workdir")), (1, 1), err)

    def test_errors_as_json(self):
        code, out, err = self.cli("--json", "run", "--max-lifetime", "100h", "--", "true")
        self.assertEqual((code, out), (125, b""))
        error = json.loads(err)["error"]
        self.assertEqual((error["code"], error["reason"]), ("INVALID_ARGUMENT", "VALIDATION"))
        self.assertEqual([v["field"] for v in error["violations"]], ["spec.max_lifetime"])
        self.assertIn("48 h", error["violations"][0]["description"])
        code, out, err = self.cli("session", "get", "none-such", "--json")
        error = json.loads(err)["error"]
        self.assertEqual((code, error["code"], error["reason"]),
                         (1, "NOT_FOUND", "SESSION_NOT_FOUND"))
        self.assertEqual(error["metadata"], {"kind": "session", "id": "none-such"})
        code, out, err = self.cli("--json", "run", "--timeout", "300ms", "--", "sleep", "60")
        self.assertEqual((code, json.loads(out)["verdict"]["status"], err),
                         (124, "VERDICT_STATUS_TIMED_OUT", ""))

    def test_as_json(self):
        answer = self.json(self.pb.exec.ExecResponse(), "run", "--shell", "cat; echo err >&2",
                           stdin=b"\x00\xffbytes")
        self.assertEqual((answer.stdout_data, answer.stderr_data, answer.verdict.exit_code),
                         (b"\x00\xffbytes", b"err\n", 0))
        code, out, _ = self.cli("--json", "run", "--shell", "exit 9")
        self.assertEqual(code, 9)
        self.assertEqual(json.loads(out)["verdict"]["exitCode"], 9)

    def test_misuse_is_125_and_says_how(self):
        self.fails(125, "run", says=["--help"])
        self.fails(125, "run", "--timeout", "soon", "--", "true", says=["--timeout"])
        self.fails(125, "run", "--shell", "true", "--", "true", says=["exclude"])
        self.fails(125, "run", "--env", "novalue", "--", "true", says=["KEY=VALUE"])


class Interrupts(Case):
    def until_it_runs(self):
        lib.wait_for(lambda: self.client.get(self.sid).active_execs == 1, "it runs")

    def test_ctrl_c_reaches_the_command(self):
        self.client.create(self.sid)
        child = self.start("exec", self.sid, "--shell",
                           "trap 'echo interrupted; exit 7' INT; echo ready; "
                           "while :; do sleep 0.05; done")
        self.assertEqual(child.stdout.readline(), b"ready\n")
        child.send_signal(signal.SIGINT)
        self.assertEqual(child.wait(10), 7)
        self.assertEqual(child.stdout.read(), b"interrupted\n")

    def test_ctrl_c_kills_the_remote_command(self):
        self.client.create(self.sid)
        child = self.start("exec", self.sid, "--timeout", "100s", "--", "sleep", "99")
        self.until_it_runs()
        child.send_signal(signal.SIGINT)
        self.assertEqual(child.wait(10), 130)
        lib.wait_for(lambda: not self.commands_in(self.sid), "nothing runs in the session", 5)

    def test_ctrl_c_of_one_that_will_not_listen(self):
        self.client.create(self.sid)
        child = self.start("exec", self.sid, "--timeout", "100s", "--shell",
                           "trap '' INT TERM; echo ready; (setsid sleep 99 &); "
                           "while :; do sleep 0.05; done")
        self.assertEqual(child.stdout.readline(), b"ready\n")
        child.send_signal(signal.SIGINT)
        time.sleep(0.2)
        child.send_signal(signal.SIGINT)  # the second one takes it all
        self.assertIn(child.wait(10), (130, 137))
        lib.wait_for(lambda: not self.commands_in(self.sid), "nothing runs in the session", 5)

    def test_what_nohup_and_the_shell_ignore_stays_ignored(self):
        self.client.create(self.sid)
        for number in (signal.SIGHUP, signal.SIGINT):
            before = signal.signal(number, signal.SIG_IGN)
            try:
                child = self.start("exec", self.sid, "--shell", "echo ready; sleep 0.5; echo done")
            finally:
                signal.signal(number, before)
            self.assertEqual(child.stdout.readline(), b"ready\n")
            child.send_signal(number)
            self.assertEqual((child.wait(10), child.stdout.read()), (0, b"done\n"))

    def test_killing_boxcli_kills_the_command(self):
        self.client.create(self.sid)
        child = self.start("exec", self.sid, "--timeout", "100s", "--", "sleep", "99")
        self.until_it_runs()
        child.kill()
        lib.wait_for(lambda: not self.commands_in(self.sid), "nothing runs in the session", 5)

    def test_sigterm(self):
        self.client.create(self.sid)
        child = self.start("exec", self.sid, "--timeout", "100s", "--", "sleep", "99")
        self.until_it_runs()
        child.terminate()
        self.assertEqual(child.wait(10), 143)


class Sessions(Case):
    def setUp(self):
        super().setUp()
        self.p = self.pb.session

    def test_a_whole_life(self):
        text = self.ok("session", "create", self.sid, "--label", "a=1", "--memory", "64MiB",
                       "--idle-ttl", "5m")
        self.assertIn(self.sid, text)
        self.assertIn("RUNNING", text)
        self.assertEqual(self.ok("exec", self.sid, "--shell", "echo kept >f; echo $HOME"),
                         "/home\n")
        self.assertEqual(self.ok("exec", self.sid, "cat", "f"), "kept\n")
        self.assertIn("64 MiB", self.ok("session", "get", self.sid))
        self.assertRegex(self.ok("session", "list"), rf"(?m)^{self.sid} +RUNNING +namespace ")
        self.ok("session", "update", self.sid, "--label", "b=2", "--pids", "33")
        updated = self.client.get(self.sid)
        self.assertEqual((dict(updated.spec.labels), updated.spec.pids_limit), ({"b": "2"}, 33))
        self.ok("session", "extend", self.sid, "20m")
        left = self.client.get(self.sid).expires_at.ToNanoseconds() / 1e9 - time.time()
        self.assertTrue(1190 < left <= 1200, left)
        self.assertIn("STOPPED", self.ok("session", "stop", self.sid))
        self.assertEqual(self.ok("session", "delete", self.sid), "")
        self.fails(1, "session", "get", self.sid, says=["SESSION_NOT_FOUND", self.sid])
        self.fails(1, "session", "delete", self.sid, says=["SESSION_NOT_FOUND"])
        self.ok("session", "delete", "--allow-missing", self.sid)

    def test_all_of_it_as_json(self):
        p = self.p
        made = self.json(p.CreateSessionResponse(), "session", "create", self.sid)
        self.assertTrue(made.created)
        self.assertEqual(made.session.spec.idle_ttl, duration(300))
        got = self.json(p.GetSessionResponse(), "session", "get", self.sid)
        self.assertEqual((got.session.uid, got.session.HasField("usage")),
                         (made.session.uid, True))
        listed = self.json(p.ListSessionsResponse(), "session", "list")
        self.assertIn(self.sid, [s.session_id for s in listed.sessions])
        updated = self.json(p.UpdateSessionResponse(), "session", "update", self.sid,
                            "--max-parallel-execs", "3")
        self.assertEqual(updated.session.spec.max_parallel_execs, 3)
        extended = self.json(p.ExtendSessionResponse(), "session", "extend", self.sid)
        self.assertTrue(extended.session.HasField("expires_at"))
        stopped = self.json(p.StopSessionResponse(), "session", "stop", self.sid)
        self.assertEqual(stopped.session.state, self.pb.types.SESSION_STATE_STOPPED)
        deleted = self.json(p.DeleteSessionResponse(), "session", "delete", self.sid)
        self.assertTrue(deleted.deleted)

    def test_the_server_makes_an_id(self):
        made = self.json(self.p.CreateSessionResponse(), "session", "create")
        self.addCleanup(self.client.delete, made.session.session_id)
        self.assertTrue(made.session.session_id)

    def test_a_conflict_names_the_fields(self):
        self.client.create(self.sid, pids_limit=9)
        err = self.fails(1, "session", "create", self.sid, "--pids", "10", "--memory", "64MiB",
                         says=["SESSION_CONFLICT", "pids_limit", "memory_bytes"])
        self.assertNotIn("cpu", err)

    def read_until(self, child, pattern):
        """stdout up to a match; what matched."""
        seen, end = b"", time.monotonic() + lib.WAIT_SECONDS
        while not re.search(pattern, seen) and time.monotonic() < end:
            if select.select([child.stdout], [], [], 0.1)[0]:
                seen += os.read(child.stdout.fileno(), 65536)
        self.assertRegex(seen, pattern)
        return re.search(pattern, seen).group()

    def test_watch_follows(self):
        child = self.start("session", "watch")
        self.read_until(child, rb"SYNCED")
        self.client.create(self.sid)
        self.read_until(child, rb"CREATED +" + self.sid.encode() + rb" ")
        child.send_signal(signal.SIGINT)
        self.assertIn(child.wait(10), (0, 130, -signal.SIGINT))

    def test_watch_says_when_it_happened(self):
        self.client.create(self.sid)
        child = self.start("session", "watch", self.sid)
        self.read_until(child, rb"SYNCED")
        time.sleep(1.1)  # into another second than that of its creation
        before = int(time.time())
        self.ok("session", "stop", self.sid)
        line = self.read_until(child, rb"(?m)^\S+ STATE_CHANGED +" + self.sid.encode() +
                               rb" +STOPPED +namespace \(REQUESTED\)$")
        at = time.strptime(line.split()[0].decode(), "%Y-%m-%dT%H:%M:%SZ")
        self.assertGreaterEqual(calendar.timegm(at), before)
        self.assertEqual(len(re.findall(rb"\d{4}-\d\d-\d\dT", line)), 1)

    def test_why_it_stopped_and_its_labels(self):
        self.client.create(self.sid, labels={"team": "x y", "app": "web"})
        text = self.ok("session", "get", self.sid)
        self.assertRegex(text, r"(?m)^state     RUNNING$")
        self.assertRegex(text, r"(?m)^labels    (app=web team=x y|team=x y app=web)$")
        self.assertIn("app=web", self.ok("session", "list"))
        for text in (self.ok("session", "stop", self.sid), self.ok("session", "get", self.sid)):
            self.assertRegex(text, r"(?m)^state     STOPPED \(REQUESTED\)$")
            self.assertRegex(text, r"(?m)^stopped   \d{4}-")
        self.assertRegex(self.ok("session", "list"), rf"(?m)^{self.sid} +STOPPED .*\(REQUESTED\)$")

    def test_a_list_can_be_narrowed(self):
        other = self.sid + "-other"
        self.client.create(self.sid, labels={"team": self.sid, "n": "1"})
        self.client.create(other, labels={"team": self.sid, "n": "2"})
        self.addCleanup(self.client.delete, other)

        def ids(*args):
            return self.ok("session", "list", "--label", f"team={self.sid}", *args,
                           "--ids").split()
        self.assertEqual(ids(), [self.sid, other])
        self.assertEqual(ids("--label", "n=2"), [other])
        self.ok("session", "stop", other)
        self.assertEqual(ids("--state", "stopped"), [other])
        self.assertEqual(ids("--state", "RUNNING"), [self.sid])
        self.assertEqual(ids("--state", "running", "--state", "stopped"), [self.sid, other])
        self.assertEqual(ids("--state", "error"), [])

    def test_lists_have_a_heading_on_a_terminal_only(self):
        self.client.create(self.sid)
        for args, heading in ((("session", "list"), "SESSION"), (("token", "list"), "TOKEN"),
                              (("tenant", "list"), "TENANT")):
            self.assertNotIn(heading, self.ok(*args))
            ours, theirs = pty.openpty()
            try:
                child = self.start(*args, stdout=theirs)
                self.assertEqual(child.wait(30), 0)
                self.assertRegex(os.read(ours, 65536).decode(), rf"^{heading} +[A-Z]+ ")
            finally:
                os.close(ours)
                os.close(theirs)

    def test_watch_as_json_is_messages(self):
        self.client.create(self.sid)
        child = self.start("--json", "session", "watch", self.sid)
        decoder, seen, events = json.JSONDecoder(), "", []
        end = time.monotonic() + lib.WAIT_SECONDS
        while len(events) < 2 and time.monotonic() < end:
            if select.select([child.stdout], [], [], 0.1)[0]:
                seen += os.read(child.stdout.fileno(), 65536).decode()
            try:
                value, at = decoder.raw_decode(seen.lstrip())
            except ValueError:
                continue
            seen = seen.lstrip()[at:]
            events.append(json_format.ParseDict(value, self.p.WatchSessionsResponse()).type)
        self.assertEqual(events, [self.p.SESSION_EVENT_TYPE_EXISTING,
                                  self.p.SESSION_EVENT_TYPE_SYNCED])

    def test_control_characters_do_not_reach_the_terminal(self):
        self.client.create(self.sid, labels={"x": "\x1b[31m\x9b2J"})
        for args in (("session", "get", self.sid), ("session", "list"),
                     ("--json", "session", "get", self.sid)):
            said = self.ok(*args)
            self.assertNotIn("\x1b", said)
            self.assertNotIn("\x9b", said)
        for args in (("session", "get", "no\x9b2J"), ("--json", "session", "get", "no\x9b2J")):
            code, out, err = self.cli(*args)
            self.assertNotEqual(code, 0)
            self.assertNotIn("\x9b", out.decode() + err)


class Admin(Case):
    def test_tenants_and_tokens(self):
        p = self.pb.admin
        self.addCleanup(self.cli, "tenant", "delete", "--allow-missing", "cli-tenant")
        self.assertIn("cli-tenant", self.ok("tenant", "create", "cli-tenant", "--name", "A B",
                                            "--label", "k=v"))
        got = self.json(p.GetTenantResponse(), "tenant", "get", "cli-tenant").tenant
        self.assertEqual((got.display_name, dict(got.labels)), ("A B", {"k": "v"}))
        self.assertRegex(self.ok("tenant", "list"), r"(?m)^cli-tenant +enabled +A B$")
        self.ok("tenant", "update", "cli-tenant", "--name", "C")
        self.assertIn("C", self.ok("tenant", "get", "cli-tenant"))

        secret = self.ok("token", "create", "--of", "cli-tenant", "--name", "t", "--scope",
                         "session.read,session.write", "--scope", "exec.write").strip()
        self.assertRegex(secret, r"^box_\S{43,}$")
        path = self.boxd.folder.file("token")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as f:
            f.write(secret + "\n")
        mine = ["--token-file", path]
        self.assertEqual(self.ok(*mine, "run", "--", "echo", "hi"), "hi\n")
        who = self.ok(*mine, "whoami")
        self.assertIn("cli-tenant", who)
        self.assertIn("exec.write session.read session.write", who)
        self.assertNotIn(secret, who)
        self.fails(1, *mine, "tenant", "list", says=["PERMISSION", "admin.read"])

        tokens = self.json(p.ListTokensResponse(), "token", "list", "--of", "cli-tenant").tokens
        self.assertEqual([t.name for t in tokens], ["t"])
        self.assertRegex(self.ok("token", "list", "--of", "cli-tenant"), " valid +never ")
        self.assertEqual(self.ok("token", "revoke", tokens[0].token_id), "")
        self.fails(1, *mine, "whoami", says=["UNAUTHENTICATED", "token"])
        self.assertEqual(self.ok("token", "list", "--of", "cli-tenant"), "")
        self.assertIn("revoked", self.ok("token", "list", "--of", "cli-tenant", "--all"))
        self.ok("tenant", "update", "cli-tenant", "--disable")
        self.assertIn("disabled", self.ok("tenant", "get", "cli-tenant"))
        self.assertEqual(self.ok("tenant", "delete", "cli-tenant"), "")
        self.fails(1, "tenant", "get", "cli-tenant", says=["TENANT_NOT_FOUND"])

    def test_acting_as_a_tenant(self):
        self.addCleanup(self.cli, "tenant", "delete", "--allow-missing", "cli-act")
        self.ok("tenant", "create", "cli-act")
        self.assertIn("tenant  cli-act", self.ok("--tenant", "cli-act", "whoami"))
        self.assertEqual(self.ok("--tenant", "cli-act", "run", "--", "echo", "x"), "x\n")
        self.fails(1, "--tenant", "cli-none", "whoami", says=["TENANT_NOT_FOUND"])

    def test_a_token_that_ends(self):
        answer = self.json(self.pb.admin.CreateTokenResponse(), "token", "create", "--scope",
                           "session.read", "--ttl", "1h")
        left = answer.token.expires_at.ToNanoseconds() / 1e9 - time.time()
        self.assertTrue(3500 < left <= 3600)
        self.assertRegex(self.ok("token", "list"),
                         rf"(?m)^{answer.token.token_id} .* valid +20\d\d-\d\d-\d\dT\S+Z ")
        self.ok("token", "revoke", answer.token.token_id)

    def test_a_token_that_has_ended(self):
        answer = self.json(self.pb.admin.CreateTokenResponse(), "token", "create", "--scope",
                           "session.read", "--ttl", "100ms")
        pattern = rf"(?m)^{answer.token.token_id} .* expired +20\d\d-"
        lib.wait_for(lambda: re.search(pattern, self.ok("token", "list", "--all")), "it is expired")

    def test_mistakes_name_the_fields(self):
        self.fails(1, "tenant", "create", "../x", says=["VALIDATION", "tenant.tenant_id"])
        self.fails(1, "token", "create", says=["scopes"])
        self.fails(1, "token", "create", "--scope", "fly", says=["scopes"])


class Server(Case):
    def test_session_ids_guidance_and_errors(self):
        self.assertEqual(self.ok("session", "id", "--var", "query_id=9"), "query_9\n")
        code, out, err = self.cli("session", "id", "{a}/{b}", "--var", "a=x=y")
        self.assertEqual((code, out, err), (0, b"x=y/unknown\n", "boxcli: {b} has no value\n"))
        self.fails(1, "session", "id", "{a.b}", says=["VALIDATION", "id_template"])
        self.assertIn("/workspace", self.ok("guidance"))
        self.fails(1, "guidance", "no-such", says=["SESSION_NOT_FOUND"])
        self.assertRegex(self.ok("errors", "no-such"),
                         r"Z /box.v1.ControlService/GetGuidance SESSION_NOT_FOUND no-such: ")

    def test_tools(self):
        p = self.pb.tool
        self.assertRegex(self.ok("tool", "list"), r"(?m)^exec  +Runs a shell command")
        self.assertIn("exec", [t.name for t in self.json(p.ListToolsResponse(), "tool", "list").tools])
        self.assertEqual(self.ok("tool", "call", "exec", '{"command": "echo $((6 * 7))"}'), "42\n")
        self.assertEqual(self.ok("tool", "call", "python_executor", "-",
                                 stdin=b'{"code": "print(6*7)"}'), "42\n")
        self.fails(1, "tool", "call", "exec", '{"cmd": 1}', says=["arguments.cmd", "arguments.command"])
        self.fails(1, "tool", "call", "nothing", says=["there is no such tool"])
        code, out, err = self.cli("tool", "call", "exec", '{"command": "echo x; exit 3"}')
        self.assertEqual((code, out, err), (1, b"x\n", "boxcli: exec: exit code 3\n"))
        code, _, err = self.cli("tool", "call", "--timeout", "300ms", "exec", '{"command": "sleep 60"}')
        self.assertEqual((code, err), (124, "boxcli: exec: killed after 0.3 s (timeout)\n"))
        self.ok("session", "create", self.sid, "--tools", "exec,python_executor")
        self.assertEqual([line.split()[0] for line in self.ok("tool", "list", self.sid).splitlines()],
                         ["exec", "python_executor"])
        self.assertEqual(self.ok("tool", "call", "--session", self.sid, "exec",
                                 '{"command": "pwd"}'), "/workspace\n")
        self.ok("session", "update", self.sid, "--tools", "none")
        self.fails(1, "tool", "call", "--session", self.sid, "exec", '{"command": "pwd"}',
                   says=["PERMISSION"])
        self.ok("session", "update", self.sid, "--tools", "all")
        self.assertIn("shell_executor", self.ok("tool", "list", self.sid))

    def test_whoami_status_backends_health(self):
        p = self.pb.control
        self.assertIn("tenant  default", self.ok("whoami"))
        self.assertEqual(self.json(p.WhoAmIResponse(), "whoami").tenant_id, "default")
        self.assertRegex(self.ok("status"), r"(?m)^backend   namespace$")
        self.assertTrue(self.json(p.GetStatusResponse(), "status").server.loop_threads)
        text = self.ok("backends")
        self.assertRegex(text, r"(?m)^namespace +available .*\(selected\)$")
        self.assertRegex(text, r"(?m)^  seccomp +yes$")
        backends = self.json(p.ListBackendsResponse(), "backends").backends
        self.assertEqual([b.name for b in backends], ["namespace"])
        self.assertIn("namespace: available", self.ok("health"))
        self.assertTrue(self.json(p.HealthResponse(), "health").available)
        server = re.search(r"(?m)^server .*", self.ok("status")).group()
        for n, noun in re.findall(r"(\d+) (\w+)", server):
            self.assertEqual(noun.endswith("s"), n != "1", server)

    def test_a_socket_for_others(self):
        """boxd's socket is its own user's and root's: everyone else is told so."""
        env = {"BOX_ENDPOINT": f"unix:{self.boxd.unix_socket}", "BOX_TOKEN_FILE": None,
               "BOX_CA": None}
        program = shutil.copy(BOXCLI, self.boxd.folder.file("boxcli-of-others"))
        done = subprocess.run([program, "whoami"], env=self.environment(**env), user=61236,
                              group=61236, cwd="/", stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=30, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"Permission denied", done.stderr)
        self.assertIn(b"you may not open that socket", done.stderr)

    def test_init(self):
        p = self.pb.control
        before = self.json(p.InitializeResponse(), "init").config
        self.addCleanup(self.ok, "init", "--enable", "--default-memory", "0", "--backend",
                        before.backend, "--default-profile", before.default_profile)
        text = self.ok("init", "--default-memory", "96MiB", "--default-profile",
                       "offline_readonly", "--backend", "namespace")
        self.assertRegex(text, r"(?m)^backend   namespace ")
        self.assertRegex(text, r"(?m)^profile   offline_readonly$")
        self.ok("session", "create", self.sid)
        self.addCleanup(self.ok, "session", "delete", self.sid)
        self.assertEqual(self.client.get(self.sid).spec.memory_bytes, 96 * MIB)
        self.assertFalse(self.json(p.InitializeResponse(), "init", "--disable").config.enabled)
        self.fails(125, "run", "--", "true", says=["BOX_DISABLED"])
        self.assertIn("enabled", self.ok("init", "--enable"))
        self.assertEqual(self.ok("run", "--", "echo", "x"), "x\n")
        self.fails(1, "init", "--default-profile", "none-such", says=["VALIDATION", "profile"])

    def test_a_unix_socket_needs_no_token_for_root(self):
        env = {"BOX_ENDPOINT": f"unix:{self.boxd.unix_socket}", "BOX_TOKEN_FILE": None,
               "BOX_CA": None}
        self.assertIn("tenant  default", self.ok("whoami", env=env))
        self.assertEqual(self.ok("run", "--", "echo", "x", env=env), "x\n")
        data = os.urandom(MIB)
        self.assertTrue(self.cli("run", "--", "cat", stdin=data, env=env)[1] == data)

    def test_no_server(self):
        port = lib.free_port()
        err = self.fails(1, "whoami", env={"BOX_ENDPOINT": f"dns:///localhost:{port}"},
                         says=["boxd", "--endpoint"])
        self.assertIn(str(port), err)
        self.fails(125, "run", "--", "true", env={"BOX_ENDPOINT": "unix:/no/such/socket"},
                   says=["boxd"])
        self.fails(1, "whoami", env={"BOX_ENDPOINT": None}, says=["--endpoint"])
        self.fails(1, "--endpoint", "ftp://x", "whoami", says=["ftp://x"])

    def test_a_wrong_ca(self):
        certs = lib.Certificates(self.boxd.folder.path)
        self.fails(1, "whoami", env={"BOX_CA": certs.ca}, says=["certificate", "--ca"])
        self.fails(125, "run", "--", "true", env={"BOX_CA": None}, says=["certificate", "--ca"])
        self.fails(1, "--ca", "/no/such.pem", "whoami", says=["/no/such.pem"])

    def test_files_of_tls_that_cannot_be_read(self):
        self.fails(1, "--ca", "/no/such.pem", "whoami",
                   says=["CA file /no/such.pem: No such file or directory"])
        self.fails(1, "whoami", env={"BOX_CERT": "/no/such.pem"},
                   says=["certificate file /no/such.pem: No such file or directory"])

    def test_a_bad_token(self):
        path = self.boxd.folder.file("bad-token")
        with open(path, "w", encoding="ascii") as f:
            f.write("box_" + "A" * 43)
        self.fails(1, "whoami", env={"BOX_TOKEN_FILE": path},
                   says=["UNAUTHENTICATED", "--token-file"])
        self.fails(125, "run", "--", "true", env={"BOX_TOKEN_FILE": path},
                   says=["UNAUTHENTICATED", "--token-file"])
        self.fails(1, "whoami", env={"BOX_TOKEN_FILE": None}, says=["--token-file"])
        self.fails(1, "--token-file", "/no/such", "whoami", says=["/no/such"])

    def test_help_everywhere(self):
        text = self.ok("--help")
        for line in self.ok("commands").splitlines():
            words = line.split()
            self.assertIn(words[0], text)
            code, out, err = self.cli(*words, "--help")
            self.assertEqual((code, err), (0, ""), line)
            self.assertIn(b"Usage:", out, line)
        self.assertRegex(self.ok("--version"), r"^boxcli \d+\.\d+\.\d+\n$")

    def test_misuse(self):
        self.fails(2, says=["Usage"])
        self.fails(2, "nonsense", says=["nonsense", "--help"])
        self.fails(2, "session", says=["create", "watch"])
        self.fails(2, "session", "get", says=["SESSION"])
        self.fails(2, "--nonsense", "whoami", says=["--nonsense"])
        self.fails(2, "whoami", "extra", says=["extra"])

    def complete(self, *words):
        """What bash offers behind these words."""
        script = self.ok("completion", "bash")
        line = (script + f"\nCOMP_WORDS=(boxcli {' '.join(words)} '')\n"
                f"COMP_CWORD={len(words) + 1}\n_boxcli boxcli\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"\n")
        done = boxd_lib.run_quietly(
            ["bash", "-c", line],
            env=self.environment(PATH=f"{sys.argv[1]}:{os.environ['PATH']}"))
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        return done.stdout.decode().split()

    def test_completion(self):
        self.assertLessEqual({"run", "exec", "session", "tenant", "token", "--json"},
                             set(self.complete()))
        self.assertLessEqual({"create", "delete", "watch"}, set(self.complete("session")))
        self.fails(2, "completion", "fish", says=["bash"])


class OtherServers(Case):
    """Servers with settings of their own."""

    def other(self, config="", server=""):
        """The environment of one with these lines, and lines in its section `server`."""
        boxd = boxd_lib.Boxd(sys.argv[1], config, start=False)
        self.addCleanup(boxd.stop)
        path = boxd.folder.file("boxd.yaml")
        with open(path, encoding="utf-8") as f:
            text = f.read().replace("server:\n", f"server:\n{server}")
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        boxd.start_warden()
        boxd.start_boxd(wait_backend=False)
        return {"BOX_ENDPOINT": f"dns:///localhost:{boxd.port}",
                "BOX_TOKEN_FILE": os.path.join(boxd.state_dir, "admin.token"),
                "BOX_CA": os.path.join(boxd.state_dir, "ca.pem")}

    def test_init_lets_tenants_in(self):
        env = self.other(server="  require_init: true\n")
        lib.wait_for(lambda: self.cli("health", env=env)[0] == 0, "its backend works")
        self.fails(125, "run", "--", "true", env=env, says=["INIT_REQUIRED", "boxcli init"])
        self.ok("init", env=env)
        self.assertEqual(self.ok("run", "--", "echo", "x", env=env), "x\n")

    def test_a_client_certificate(self):
        folder = lib.TemporaryFolder("box-certificates-")
        self.addCleanup(folder.remove)
        certs = lib.Certificates(folder.path)
        os.mkdir(folder.file("other"))
        foreign = lib.Certificates(folder.file("other"))
        os.chmod(folder.path, 0o711)
        env = self.other(f"tls:\n  client_ca: {certs.ca}\n")
        for _ in range(5):  # whether the alert or the end of the connection is seen first
            self.fails(1, "whoami", env=env, says=["requires a client certificate", "--cert",
                                                   "BOX_KEY"])
        given = ["--cert", certs.cert, "--key", certs.key]
        lib.wait_for(lambda: self.cli(*given, "health", env=env)[0] == 0, "its backend works")
        self.assertIn("tenant  default", self.ok(*given, "whoami", env=env))
        mine = {"BOX_CERT": certs.cert, "BOX_KEY": certs.key}
        self.assertEqual(self.ok("run", "--", "echo", "x", env={**env, **mine}), "x\n")
        with open(folder.file("both.pem"), "wb") as both:
            for path in (certs.cert, certs.key):
                with open(path, "rb") as f:
                    both.write(f.read())
        self.ok("--cert", folder.file("both.pem"), "whoami", env=env)
        self.fails(1, "--cert", foreign.cert, "--key", foreign.key, "whoami", env=env,
                   says=["does not accept the client certificate", "tls.client_ca"])
        self.fails(1, "--cert", certs.cert, "--key", foreign.key, "whoami", env=env,
                   says=["key values mismatch"])


class Spawn(Case):
    """A private server: no token, no port, nothing left."""

    def spawn(self, *args, **kwargs):
        endpoint = f"spawn:{os.path.join(sys.argv[1], 'boxd')}"
        return self.cli("--endpoint", endpoint, *args, env={
            "BOX_ENDPOINT": None, "BOX_TOKEN_FILE": None, "BOX_CA": None,
            "TMPDIR": self.temporary}, **kwargs)

    def setUp(self):
        super().setUp()
        folder = lib.TemporaryFolder("box-spawn-")
        self.addCleanup(folder.remove)
        self.temporary = folder.path

    def test_run(self):
        self.assertEqual(self.spawn("run", "--", "true"), (0, b"", ""))
        self.assertEqual(self.spawn("run", "--shell", "echo out; exit 5"), (5, b"out\n", ""))
        self.assertEqual(os.listdir(self.temporary), [])

    def test_stdin(self):
        data = os.urandom(MIB)
        code, out, err = self.spawn("run", "--", "cat", stdin=data)
        self.assertEqual((code, err), (0, ""))
        self.assertTrue(out == data)

    def test_who(self):
        code, out, err = self.spawn("whoami")
        self.assertEqual((code, err), (0, ""))
        self.assertIn(b"tenant  default", out)

    def test_nothing_is_left_when_it_is_killed(self):
        endpoint = f"spawn:{os.path.join(sys.argv[1], 'boxd')}"
        child = self.start("--endpoint", endpoint, "run", "--timeout", "100s", "--shell",
                           "echo ready; sleep 77777", env={"TMPDIR": self.temporary})
        self.assertEqual(child.stdout.readline(), b"ready\n")
        below = boxd_lib.descendants(child.pid)
        self.assertGreaterEqual(len(below), 4)  # boxd, warden, agent, sleep
        child.kill()
        lib.wait_for(lambda: not [p for p in below if os.path.exists(f"/proc/{p}")],
                     "all it started is gone")
        lib.wait_for(lambda: not os.listdir(self.temporary), "its files are gone")

    def test_someone_who_is_not_root(self):
        if lib.is_tsan(sys.argv[1]):
            self.skipTest("tsan's own thread keeps the warden from making a user namespace")
        user = 61237
        os.chmod(self.temporary, 0o777)
        programs = lib.TemporaryFolder("box-spawn-programs-")
        self.addCleanup(programs.remove)
        os.chmod(programs.path, 0o711)
        for name in ("boxcli", "boxd", "box-warden", "box-agent", "box-files"):
            shutil.copy(os.path.join(sys.argv[1], name), programs.file(name))
        done = subprocess.run([programs.file("boxcli"), "--endpoint", "spawn:boxd", "run", "--",
                               "echo", "hello"], env={"PATH": "/usr/bin:/bin", "TMPDIR": self.temporary},
                              user=user, group=user, cwd="/", stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, b"hello\n", b""))
        self.assertEqual(os.listdir(self.temporary), [])
        self.assertFalse(os.path.exists(f"/tmp/box-private-{user}"))

    def test_a_boxd_that_does_not_start(self):
        endpoint = f"spawn:{os.path.join(sys.argv[1], 'boxd')} --config /nope"
        self.fails(1, "--endpoint", endpoint, "whoami",
                   says=["boxd: /nope: No such file or directory\n",
                         "boxcli: the private boxd has ended before it answered"])

    def test_no_such_boxd(self):
        code, _, err = self.cli("--endpoint", "spawn:/no/such/boxd", "run", "--", "true")
        self.assertEqual(code, 125)
        self.assertIn("/no/such/boxd", err)


if __name__ == "__main__":
    boxd_lib.main()
