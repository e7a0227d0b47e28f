"""boxcli run -it and exec -it on a terminal of their own, as somebody sits at it."""

import fcntl
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

# Ends that boxcli can see coming.
SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1,
           signal.SIGXCPU)
FAULTS = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS)


class Case(test_boxcli.Case, boxd_lib.OwnServerCase):
    def setUp(self):
        super().setUp()
        self.master, self.tty = pty.openpty()
        self.addCleanup(os.close, self.tty)
        self.addCleanup(lambda: os.close(self.master) if self.master >= 0 else None)
        self.resize(33, 99)
        self.before = termios.tcgetattr(self.tty)
        self.seen = b""

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def on_terminal(self, *args, env=None, **streams):
        """boxcli, whose controlling terminal this is."""
        options = {"stdin": self.tty, "stdout": self.tty, "stderr": self.tty, **streams}
        # Not by preexec_fn: a fork of this program, which has gRPC's threads, may hang.
        self.child = self.start(*args, env={"TERM": "xterm-special", **(env or {})},
                                before=[boxd_lib.which("setsid"), "--ctty"], **options)
        return self.child

    def shell(self):
        self.on_terminal("exec", "-it", self.sid, "--env", "PS1=in> ", "--", "bash", "--norc", "-i")
        self.until(b"in> ")
        self.assertTrue(self.is_raw())

    def is_raw(self):
        return termios.tcgetattr(self.tty) != self.before

    def type(self, text):
        os.write(self.master, text)

    def until(self, text):
        end = time.monotonic() + lib.WAIT_SECONDS
        while text not in self.seen:
            ready, _, _ = select.select([self.master], [], [], max(0, end - time.monotonic()))
            self.assertTrue(ready, self.seen)
            self.seen += os.read(self.master, 65536)
        before, _, self.seen = self.seen.partition(text)
        return before

    def read_for(self, seconds):
        """What comes meanwhile; nobody else reads the terminal."""
        end = time.monotonic() + seconds
        while select.select([self.master], [], [], max(0, end - time.monotonic()))[0]:
            self.seen += os.read(self.master, 65536)

    def ends(self, code):
        """With this code, and the terminal as it was. What is still written is read."""
        end = time.monotonic() + lib.WAIT_SECONDS
        while self.child.poll() is None and time.monotonic() < end:
            self.read_for(0.05)
        self.assertEqual(self.child.poll(), code, self.seen)
        self.assertEqual(termios.tcgetattr(self.tty), self.before)
        self.read_for(0.05)  # what it said last

    def nothing_runs(self):
        lib.wait_for(lambda: not self.commands_in(self.sid), "its command has ended")


class Interactive(Case):
    def test_a_shell(self):
        self.shell()
        self.type(b"stty size; tty; echo $TERM; test -t 0 -a -t 1 -a -t 2 && echo all\r")
        self.until(b"33 99\r\n/dev/pts/0\r\nxterm-special\r\nall\r\n")
        self.resize(20, 50)  # the kernel tells the foreground: boxcli
        lib.wait_for(lambda: self.size_inside() == "20 50", "the size has followed")
        self.type(b"sleep 600\r")
        self.until(b"sleep 600\r\n")
        lib.wait_for(lambda: "sleep" in self.commands_in(self.sid), "it sleeps")
        self.type(b"\x03")
        self.until(b"^C")
        self.until(b"in> ")
        self.type(b"sleep 600\r")
        lib.wait_for(lambda: "sleep" in self.commands_in(self.sid), "it sleeps")
        self.type(b"\x1a")
        self.until(b"Stopped")
        self.until(b"in> ")
        self.assertIsNone(self.child.poll())
        self.type(b"fg\r")
        self.until(b"sleep 600\r\n")
        self.type(b"\x03")
        self.until(b"in> ")
        self.type(b"exit 7\r")
        self.ends(7)
        self.nothing_runs()

    def size_inside(self):
        return self.client.out("stty size </dev/pts/0", self.sid).strip()

    def test_a_fresh_sandbox(self):
        self.on_terminal("run", "-it", "--", "sh", "-c", "stty size; read x; echo got $x; exit 3")
        self.until(b"33 99\r\n")
        self.type(b"word\r")
        self.until(b"word\r\ngot word\r\n")
        self.ends(3)

    def test_what_is_typed_early_is_not_lost(self):
        self.on_terminal("run", "-it", "--", "sh", "-c", "read x; echo got $x")
        self.type(b"early\r")
        self.until(b"got early\r\n")
        self.ends(0)

    def test_the_end_of_file_key(self):
        self.on_terminal("exec", "-t", self.sid, "--", "cat")
        self.type(b"a\r")
        self.until(b"a\r\na\r\n")
        self.type(b"\x04")
        self.ends(0)

    def test_every_key_passes(self):
        keys = bytes(range(256))
        self.on_terminal("exec", "-it", self.sid, "--shell",
                         "stty raw -echo; echo ready; head -c 256 | od -An -v -tu1 | tr -d ' \\n'; echo end")
        self.until(b"ready")
        self.type(keys)
        self.assertEqual(self.until(b"end").strip(), b"".join(b"%d" % k for k in keys))
        self.ends(0)

    def test_every_byte_comes_as_it_is(self):
        self.on_terminal("exec", "-it", self.sid, "--shell",
                         "stty -opost; printf 'a\\nb\\033[1m\\001\\377end'")
        self.assertEqual(self.until(b"end"), b"a\nb\x1b[1m\x01\xff")
        self.ends(0)

    def test_it_does_not_take_the_slot(self):
        self.shell()
        self.assertEqual(self.ok("exec", self.sid, "--queue-timeout", "0s", "--", "echo", "x"),
                         "x\n")
        self.type(b"exit\r")
        self.ends(0)

    def test_there_is_no_timeout_but_the_one_asked_for(self):
        self.on_terminal("run", "-it", "--timeout", "300ms", "--", "sleep", "60")
        self.ends(124)
        self.assertIn(b"timed out", self.seen)

    def test_what_cannot_be_run(self):
        self.on_terminal("run", "-it", "--", "no-such-program")
        self.ends(127)
        self.on_terminal("exec", "-it", self.sid, "--", "/etc/passwd")
        self.ends(126)

    def test_killed_inside(self):
        self.shell()
        self.type(b"kill -9 $$\r")
        self.ends(128 + 9)

    def test_its_session_goes_away(self):
        self.shell()
        self.client.delete(self.sid)
        self.ends(125)

    def test_without_a_terminal_on_stdin(self):
        self.fails(125, "run", "-it", "--", "true", says=["--tty needs a terminal on standard input"])
        self.assertEqual(self.ok("run", "-i", "--", "cat", stdin=b"piped"), "piped")

    def test_json_and_tty_exclude_each_other(self):
        self.on_terminal("--json", "run", "-t", "--", "true")
        self.ends(125)
        self.assertIn(b"exclude each other", self.seen)

    def test_output_elsewhere(self):
        child = self.on_terminal("exec", "-it", self.sid, "--", "sh", "-c", "stty size; echo x >&2",
                                 stdout=-1)
        self.assertEqual(child.stdout.read(), b"33 99\r\nx\r\n")
        self.ends(0)

    def test_a_terminal_without_a_size_or_a_name(self):
        self.resize(0, 0)
        self.on_terminal("exec", "-it", self.sid, "--", "sh", "-c", "stty size; echo $TERM",
                         env={"TERM": None})
        self.until(b"24 80\r\nxterm-256color\r\n")
        self.ends(0)
        self.resize(65535, 65535)
        self.on_terminal("exec", "-it", self.sid, "--", "sh", "-c", "stty size; echo $TERM",
                         env={"TERM": "x" * 65})
        self.until(b"65535 65535\r\nxterm-256color\r\n")
        self.ends(0)


class Ends(Case):
    """The terminal is as before, however boxcli ends."""

    def test_by_a_signal(self):
        for number in SIGNALS:
            self.on_terminal("exec", "-it", self.sid, "--shell",
                             "trap '' HUP INT TERM QUIT USR1 ALRM PROF XCPU; echo ready; cat")
            self.until(b"ready")
            self.assertTrue(self.is_raw())
            self.child.send_signal(number)
            self.ends(128 + number)
            self.nothing_runs()

    def test_a_signal_reaches_the_command_first(self):
        self.on_terminal("exec", "-it", self.sid, "--shell",
                         "trap 'echo bye; exit 5' TERM; echo ready; while :; do sleep 0.1; done")
        self.until(b"ready")
        self.child.send_signal(signal.SIGTERM)
        self.until(b"bye")
        self.ends(5)

    def test_by_a_fault(self):
        for number in FAULTS:
            self.shell()
            self.child.send_signal(number)
            self.assertEqual(self.child.wait(lib.WAIT_SECONDS), -number)
            flags = termios.tcgetattr(self.tty)
            for i in (0, 1, 3):  # input, output, local modes
                self.assertEqual(flags[i], self.before[i], number)
            self.nothing_runs()

    def test_by_kill_9_its_command_ends(self):
        self.shell()
        self.type(b"trap '' HUP; sleep 600 & sleep 601\r")
        lib.wait_for(lambda: self.commands_in(self.sid).count("sleep") == 2, "they run")
        self.child.kill()
        self.nothing_runs()

    def test_by_the_loss_of_its_terminal(self):
        self.shell()
        os.close(self.master)
        self.master = -1
        self.child.wait(lib.WAIT_SECONDS)
        self.nothing_runs()

    def test_while_nobody_reads_the_terminal(self):
        self.on_terminal("exec", "-it", self.sid, "--", "sh", "-c", "trap '' TERM; yes")
        lib.wait_for(lambda: self.is_raw(), "it runs")
        time.sleep(1)  # full by now
        self.child.send_signal(signal.SIGTERM)
        self.assertEqual(self.child.wait(lib.WAIT_SECONDS), 128 + signal.SIGTERM)
        self.assertFalse(self.is_raw())
        self.nothing_runs()

    def test_keys_pass_while_nobody_reads_the_terminal(self):
        self.on_terminal("exec", "-it", self.sid, "--", "yes")
        lib.wait_for(lambda: self.is_raw(), "it runs")
        time.sleep(1)
        self.type(b"\x03")
        self.nothing_runs()
        self.ends(128 + signal.SIGINT)

    def test_stopped_and_continued(self):
        self.shell()
        self.child.send_signal(signal.SIGTSTP)
        lib.wait_for(lambda: boxd_lib.state_of(self.child.pid) == "T", "it is stopped")
        self.assertFalse(self.is_raw())
        self.resize(11, 22)
        self.child.send_signal(signal.SIGCONT)
        lib.wait_for(self.is_raw, "it goes on")
        self.type(b"stty size\r")
        self.until(b"11 22\r\n")
        self.child.send_signal(signal.SIGSTOP)
        lib.wait_for(lambda: boxd_lib.state_of(self.child.pid) == "T", "it is stopped")
        termios.tcsetattr(self.tty, termios.TCSANOW, self.before)  # as a shell does
        self.child.send_signal(signal.SIGCONT)
        lib.wait_for(self.is_raw, "it goes on")
        self.type(b"exit 4\r")
        self.ends(4)


class ServerLost(Case):
    def test_the_terminal_is_as_before(self):
        self.shell()
        self.crash("boxd")
        try:
            self.ends(125)
            self.assertIn(b"boxcli: ", self.seen)
        finally:
            self.restart_boxd()  # it takes away what is left


if __name__ == "__main__":
    boxd_lib.main()
