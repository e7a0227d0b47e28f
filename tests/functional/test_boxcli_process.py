"""boxcli process and attach against the real server."""

import fcntl
import json
import os
import pty
import select
import signal
import struct
import sys
import termios
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import test_boxcli  # noqa: E402  (its folder is on the path only now)
import boxd_lib  # noqa: E402
import lib  # noqa: E402
from boxd_lib import BoxdCase, MIB  # noqa: E402


def setUpModule():
    BoxdCase.start_server()


def tearDownModule():
    BoxdCase.stop_server()


class ProcessCase(test_boxcli.Case):
    def setUp(self):
        super().setUp()
        self.client.create(self.sid)

    def message(self, name):
        return getattr(self.pb.process, name)()

    def begin(self, *args):
        return self.json(self.message("StartManagedProcessResponse"), "process", "start", self.sid,
                         *args).process


class Process(ProcessCase):
    def test_start_list_get_stop(self):
        text = self.ok("process", "start", self.sid, "--id", "web", "--env", "K=secret", "--", "sleep",
                       "600")
        self.assertRegex(text, r"(?m)^process   web of ")
        self.assertRegex(text, r"(?m)^state     RUNNING, ready$")
        self.assertRegex(text, r"(?m)^env       K$")
        self.assertNotIn("secret", text)
        self.assertRegex(self.ok("process", "list", self.sid), r"web +RUNNING +\d+ .* sleep 600\n")
        self.assertIn("web", self.ok("process", "list"))
        self.assertEqual(self.ok("process", "list", self.sid, "--state", "exited"), "")
        self.fails(1, "process", "start", self.sid, "--id", "web", "--", "true",
                   says=["PROCESS_CONFLICT", "replace"])
        self.ok("process", "start", self.sid, "--id", "web", "--replace", "--", "sleep", "601")
        self.assertIn("sleep 601", self.ok("process", "get", self.sid, "web"))
        self.assertRegex(self.ok("process", "stop", self.sid, "web"), "ended     COMPLETED, signal 15")
        self.fails(1, "process", "stop", self.sid, "no", says=["PROCESS_NOT_FOUND"])
        self.assertEqual(self.ok("process", "stop", self.sid, "no", "--missing-ok"), "")
        self.fails(1, "process", "start", self.sid, "--", "/no/such", says=["/no/such"])

    def test_options_reach_the_server(self):
        spec = self.begin("--shell", "sleep 600", "--restart", "always", "--max-restarts", "3",
                          "--backoff", "2s", "--max-backoff", "9s", "--grace", "7s", "--journal",
                          "128KiB", "--workdir", "/tmp", "--stop-on-detach", "--ready-command",
                          "true", "--ready-interval", "100ms", "--wait", "20s").spec
        self.assertEqual((spec.restart.mode, spec.restart.max_restarts, spec.journal_limit_bytes),
                         (self.pb.process.RESTART_MODE_ALWAYS, 3, 128 * 1024))
        self.assertEqual((spec.restart.first_backoff.seconds, spec.restart.max_backoff.seconds,
                          spec.stop_grace.seconds, spec.workdir, spec.stop_on_detach),
                         (2, 9, 7, "/tmp", True))
        self.assertEqual(spec.readiness.command.shell_command, "true")
        for args in (["--restart", "sometimes", "--", "true"],
                     ["--ready-line", "a", "--ready-port", "1", "--", "true"],
                     ["--ready-interval", "1s", "--", "true"], [], ["--shell", "a", "--", "b"]):
            self.assertEqual(self.cli("process", "start", self.sid, *args)[0], 2)

    def test_logs_and_wait(self):
        self.begin("--shell", "echo out; echo err >&2; sleep 0.3; echo late; exit 3")
        code, out, err = self.cli("process", "logs", "-f", self.sid)
        self.assertEqual((code, out, err), (0, b"out\nlate\n", "err\n"))
        code, out, err = self.cli("process", "logs", self.sid)
        self.assertEqual((code, out, err), (0, b"out\nlate\n", "err\n"))
        self.assertIn("exit code 3", self.ok("process", "wait", self.sid))
        self.begin("--replace", "--id", "on", "--shell", "echo so far; sleep 600")
        code, out, _ = self.cli("process", "wait", self.sid, "on", "--timeout", "100ms")
        self.assertEqual(code, 1)
        self.assertEqual(self.cli("process", "logs", self.sid, "on")[:2], (0, b"so far\n"))
        self.ok("process", "signal", self.sid, "on", "SIGKILL", "--tree")
        self.assertIn("signal 9", self.ok("process", "wait", self.sid, "on"))
        self.assertEqual(self.cli("process", "signal", self.sid, "on", "NONSENSE")[0], 2)


class Attach(ProcessCase):
    def test_it_is_a_clean_pipe(self):
        self.begin("--journal", "4MiB", "--shell", "cat; echo to-err >&2; exit 5")
        data = os.urandom(3 * MIB)
        code, out, err = self.cli("attach", "--stdio", self.sid, stdin=data)
        self.assertEqual((code, err), (5, "to-err\n"))
        self.assertTrue(out == data, f"{len(out)} bytes came back")

    def test_requests_and_answers_one_by_one(self):
        server = ("import sys, json\n"
                  "for line in sys.stdin:\n"
                  "    m = json.loads(line)\n"
                  "    print(json.dumps({'id': m['id'], 'result': m['id'] * 2}), flush=True)\n")
        self.begin("--id", "rpc", "--", "python3", "-c", server)
        child = self.start("attach", "--stdio", self.sid, "rpc")
        for i in range(1000):
            child.stdin.write(json.dumps({"id": i}).encode() + b"\n")
            child.stdin.flush()
            self.assertEqual(json.loads(child.stdout.readline()), {"id": i, "result": 2 * i})
        child.kill()  # the client vanishes
        child.wait()
        child = self.start("attach", "--stdio", "--take-over", self.sid, "rpc")
        child.stdin.write(b'{"id": 7}\n')
        child.stdin.flush()
        self.assertEqual(json.loads(child.stdout.readline()), {"id": 7, "result": 14})
        child.stdin.close()
        self.assertEqual(child.wait(20), 0)

    def test_a_signal_ends_the_client_alone(self):
        self.begin("--", "cat")
        child = self.start("attach", "--stdio", self.sid)
        child.stdin.write(b"x\n")
        child.stdin.flush()
        self.assertEqual(child.stdout.readline(), b"x\n")
        child.send_signal(signal.SIGTERM)
        self.assertEqual(child.wait(20), 128 + 15)
        self.assertIn("RUNNING", self.ok("process", "get", self.sid))

    def test_eof_can_be_only_ours(self):
        self.begin("--", "cat")
        self.assertEqual(self.cli("attach", "--detach-on-eof", self.sid)[0], 0)
        self.assertIn("RUNNING", self.ok("process", "get", self.sid))

    def test_stdin_has_one_owner(self):
        self.begin("--", "cat")
        first = self.start("attach", "--stdio", self.sid)
        first.stdin.write(b"x\n")
        first.stdin.flush()
        first.stdout.readline()
        self.fails(125, "attach", "--stdio", self.sid, says=["STDIN_TAKEN", "--take-over"])
        reader = self.start("attach", "--read-only", "--from", "0", self.sid)
        self.assertEqual(reader.stdout.readline(), b"x\n")
        second = self.start("attach", "--stdio", "--take-over", self.sid)
        self.assertEqual(first.wait(20), 125)
        self.assertIn(b"took the process's stdin over", first.stderr.read())
        second.stdin.write(b"y\n")
        second.stdin.flush()
        self.assertEqual(second.stdout.readline(), b"y\n")
        self.assertEqual(reader.stdout.readline(), b"y\n")

    def test_replay_and_what_is_lost(self):
        self.begin("--journal", "64KiB", "--shell", "head -c 100000 /dev/zero; exit 0")
        self.ok("process", "wait", self.sid)
        code, out, err = self.cli("attach", "--read-only", "--from", "0", self.sid)
        self.assertEqual((code, len(out)), (0, 65536))
        self.assertIn(f"{100000 - 65536} bytes of stdout are not kept", err)
        self.fails(125, "attach", self.sid, "no", says=["PROCESS_NOT_FOUND"])
        self.fails(125, "attach", "--wait", "200ms", self.sid, "no", says=["PROCESS_NOT_FOUND"])

    def test_stop_on_detach(self):
        self.begin("--", "sleep", "600")
        child = self.start("attach", "--stdio", "--stop-on-detach", self.sid)
        time.sleep(0.5)
        child.kill()
        child.wait()
        self.assertIn("signal 15", self.ok("process", "wait", self.sid))

    def test_a_reader_that_stops_does_not_stop_it(self):
        self.begin("--shell", "head -c 20000000 /dev/zero; echo end")
        child = self.start("attach", "--read-only", "--from", "0", self.sid)
        self.assertIn("exit code 0", self.ok("process", "wait", self.sid))
        self.finish(child)


class Terminal(ProcessCase):
    def setUp(self):
        super().setUp()
        self.begin("--tty", "--", "bash", "--norc", "-i")
        self.master, slave = pty.openpty()
        self.addCleanup(os.close, self.master)
        self.resize(33, 99)
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        self.addCleanup(os.close, slave)
        self.seen = b""
        self.child = self.start("attach", "--from", "0", self.sid, stdin=slave, stdout=slave,
                                stderr=slave)

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text):
        os.write(self.master, text)

    def until(self, text):
        end = time.monotonic() + lib.WAIT_SECONDS
        while text not in self.seen:
            ready, _, _ = select.select([self.master], [], [], max(0, end - time.monotonic()))
            self.assertTrue(ready, self.seen)
            self.seen += os.read(self.master, 65536)

    def test_keys_sizes_and_detaching(self):
        self.until(b"$ ")
        self.type(b"stty size; tty\r")
        self.until(b"33 99\r\n/dev/pts/")
        self.resize(20, 50)
        self.child.send_signal(signal.SIGWINCH)  # what the kernel does for a controlling terminal
        self.type(b"sleep 600\r")
        self.until(b"sleep 600\r\n")
        time.sleep(0.3)
        self.type(b"\x03")  # to the process, not to boxcli
        self.type(b"stty size\r")
        self.until(b"20 50\r\n")
        self.assertIsNone(self.child.poll())
        self.type(b"\x10\x11")
        self.until(b"detached")
        self.assertEqual(self.child.wait(20), 0)
        self.assertEqual(termios.tcgetattr(self.slave), self.before)
        self.assertIn("RUNNING", self.ok("process", "get", self.sid))

    def test_the_terminal_is_as_before_however_it_ends(self):
        self.until(b"$ ")
        self.assertNotEqual(termios.tcgetattr(self.slave), self.before)
        self.type(b"exit 7\r")
        self.assertEqual(self.child.wait(20), 7)
        self.assertEqual(termios.tcgetattr(self.slave), self.before)
        self.begin("--replace", "--tty", "--", "cat")
        for how in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            self.seen = b""
            child = self.start("attach", self.sid, stdin=self.slave, stdout=self.slave,
                               stderr=self.slave)
            lib.wait_for(lambda: termios.tcgetattr(self.slave) != self.before, "it is raw")
            child.send_signal(how)
            self.assertEqual(child.wait(20), 128 + how)
            self.assertEqual(termios.tcgetattr(self.slave), self.before)

    def test_who_loses_the_keys_gets_the_terminal_back(self):
        """Keys that reach nobody any more would not even detach."""
        self.until(b"$ ")
        other = self.start("attach", "--take-over", self.sid)
        self.until(b"took the process's stdin over; Ctrl-C ends this one\r\n")
        self.assertEqual(termios.tcgetattr(self.slave), self.before)
        self.resize(10, 40)
        self.child.send_signal(signal.SIGWINCH)  # what is the other one's now
        other.stdin.write(b"stty size; echo $((40 + 2))\n")
        other.stdin.flush()
        self.until(b"\r33 99\r")
        self.until(b"\n42\r")
        self.assertIsNone(self.child.poll())
        self.child.send_signal(signal.SIGINT)  # what Ctrl-C is on a terminal as it was
        self.assertEqual(self.child.wait(20), 130)
        self.assertIn("RUNNING", self.ok("process", "get", self.sid))

    def test_typing_into_another_terminal_is_refused(self):
        self.begin("--replace", "--id", "sti", "--tty", "--", "python3", "-c",
                   "import fcntl, termios\n"
                   "try:\n    fcntl.ioctl(0, termios.TIOCSTI, b'x'); print('typed')\n"
                   "except OSError as e: print('refused', e.errno)\n")
        self.ok("process", "wait", self.sid, "sti")
        self.assertIn("refused", self.ok("process", "logs", self.sid, "sti"))


if __name__ == "__main__":
    boxd_lib.main()
