"""ExecStream on a terminal: what a command sees of it, and what callers who behave badly get."""

import time

import boxd_lib
import lib
from boxd_lib import OwnServerCase
from exec_stream import Stream
from grpc import StatusCode

SIZE = {"rows": 33, "columns": 99}
# Echo off, one byte at a time: bytes pass as they are.
RAW = "stty raw -echo; "


class Case(OwnServerCase):
    def terminal(self, what, size=None, term="", **fields):
        fields.setdefault("terminal", {"size": size or SIZE, "term": term})
        return Stream(self, what, **fields)

    def exited(self, verdict, code=0):
        self.assertEqual((verdict.status, verdict.exit_code, verdict.HasField("signal")),
                         (self.t.VERDICT_STATUS_COMPLETED, code, False), verdict)

    def runs(self, what, code=0, **fields):
        """The output of a command that ends by itself, all of it on stdout."""
        s = self.terminal(what, **fields)
        s.started()
        out, err, verdict = s.rest()
        self.assertEqual(err, b"")
        self.exited(verdict, code)
        self.assertEqual(verdict.stdout_report.total_bytes, len(out))
        self.assertEqual(verdict.stderr_report.total_bytes, 0)
        return out

    def all_is_quiet(self):
        lib.wait_for(lambda: self.client.get(self.sid).active_execs == 0, "no command runs")
        lib.wait_for(lambda: not self.commands_in(self.sid), "its processes are gone")


class Terminals(Case):
    def test_it_is_the_controlling_terminal_of_a_session_of_its_own(self):
        out = self.runs("tty; stty size; echo $TERM; ps -o tty=,sid= -p $$; echo $$; echo err >&2;"
                        "test -t 0 && test -t 1 && test -t 2 && echo all; exit 3", code=3)
        lines = out.decode().split("\r\n")
        self.assertEqual(lines[:3], ["/dev/pts/0", "33 99", "xterm-256color"])
        self.assertEqual(lines[3].split(), ["pts/0", lines[4]])
        self.assertEqual(lines[5:], ["err", "all", ""])

    def test_term_and_size_as_asked(self):
        self.assertEqual(self.runs("echo $TERM; stty size", term="vt100",
                                   size={"rows": 0, "columns": 0}), b"vt100\r\n24 80\r\n")
        self.assertEqual(self.runs("echo $TERM; stty size", term="vt100", env={"TERM": "dumb"},
                                   size={"rows": 65535, "columns": 65535}),
                         b"dumb\r\n65535 65535\r\n")
        self.assertEqual(self.runs("stty size", terminal={}), b"24 80\r\n")
        for bad in ({"rows": -1}, {"rows": 65536}, {"columns": -1}, {"columns": 1 << 20}):
            self.invalid(lambda b=bad: self.terminal("true", size=b).call, "terminal.size")
        self.invalid(lambda: self.terminal("true", term="x" * 65).call, "terminal.term")

    def test_keys_go_to_the_line_and_to_the_foreground(self):
        s = self.terminal(["sh", "-c", "read x; echo got $x; cat"])
        s.started()
        s.stdin(b"hellp\x7fo\n")
        self.assertTrue(s.read(b"got hello\r\n").startswith(b"hellp\x08 \x08o\r\n"))
        s.stdin(b"y\n")
        s.read(b"y\r\ny\r\n")  # cat runs: a shell that is about to start it keeps the interrupt for later
        s.stdin(b"\x03")
        out, _, verdict = s.rest()
        self.assertIn(b"^C", out)
        self.assertEqual((verdict.status, verdict.signal), (self.t.VERDICT_STATUS_COMPLETED, 2))
        self.assertEqual(verdict.stdin_bytes, 11)

    def test_job_control_works(self):
        s = self.terminal(["bash", "--norc", "-i"], term="dumb")
        s.started()
        s.read(b"$ ")
        s.stdin(b"sleep 600\r")
        lib.wait_for(lambda: "sleep" in self.client.out("ps -eo comm=", self.sid), "sleep runs")
        s.stdin(b"\x1a")
        s.read(b"Stopped")
        s.stdin(b"kill %1; jobs -l; exit 5\r")
        self.exited(s.rest()[2], 5)

    def test_sizes_follow(self):
        s = self.terminal("trap 'stty size' WINCH; echo ready; while :; do sleep 0.05; done")
        s.started()
        s.read(b"ready")
        for size in ((10, 20), (65535, 65535), (1, 1)):
            s.message(resize={"rows": size[0], "columns": size[1]})
            s.read(b"%d %d\r\n" % size)
        s.message(resize={})
        s.read(b"24 80\r\n")
        s.message(resize={"rows": -1})
        self.invalid(lambda: list(s.call), "resize")
        self.all_is_quiet()

    def test_a_size_that_comes_before_it_runs(self):
        s = self.terminal("stty size; sleep 0.2; stty size")
        s.message(resize={"rows": 7, "columns": 8})  # the session is only being made
        s.started()
        self.assertTrue(s.rest()[0].endswith(b"7 8\r\n"))

    def test_a_flood_of_sizes(self):
        s = self.terminal("trap : WINCH; echo ready; while test ! -e end; do sleep 0.05; done;"
                          "stty size")
        s.started()
        s.read(b"ready")
        for i in range(20000):
            s.message(resize={"rows": 1 + i % 1000, "columns": 1 + i % 999})
        s.message(resize={"rows": 5, "columns": 6})
        s.stdin(b"x")
        self.completes(self.client.run("touch end", self.sid))  # others are served meanwhile
        out, _, verdict = s.rest()
        self.exited(verdict)
        self.assertTrue(out.endswith(b"\r\n"), out)

    def test_resize_without_a_terminal_is_refused(self):
        s = Stream(self, ["cat"])
        s.started()
        s.message(resize={"rows": 1, "columns": 1})
        self.invalid(lambda: list(s.call), "resize")

    def test_the_end_of_stdin_is_typed(self):
        for how in (lambda s: s.message(close_stdin={}), Stream.half_close):
            s = self.terminal(["sh", "-c", "cat; echo end"])
            s.started()
            s.stdin(b"x\n")
            how(s)
            out, _, verdict = s.rest()
            self.exited(verdict)
            self.assertTrue(out.endswith(b"x\r\nend\r\n"), out)
            self.assertEqual(verdict.stdin_bytes, 2)
        s = self.terminal(RAW + "echo ready; head -c 3")
        s.started()
        s.read(b"ready")
        s.stdin(b"ab")
        s.stdin(b"\x04")  # only a byte here
        s.half_close()
        out, _, verdict = s.rest()
        self.assertEqual((out[-3:], verdict.stdin_bytes), (b"ab\x04", 3))

    def test_every_byte_passes(self):
        data = bytes(range(256)) * 400
        s = self.terminal(RAW + f"printf ready; head -c {len(data)} | sha256sum; head -c 5")
        s.started()
        s.read(b"ready")
        for at in range(0, len(data), 7777):
            s.stdin(data[at:at + 7777])
        s.read(b"  -\n")
        s.stdin(b"hello")
        self.assertTrue(s.rest()[0].endswith(b"hello"))
        total = 3_000_000
        s = self.terminal(f"stty -opost; head -c {total} /dev/zero; printf end")
        s.started()
        out = s.rest()[0]
        self.assertEqual((len(out), out[-3:]), (total + 3, b"end"))

    def test_what_it_wrote_last_is_not_lost(self):
        for _ in range(20):
            out = self.runs("stty -opost; head -c 50000 /dev/zero; printf last")
            self.assertEqual((len(out), out[-4:]), (50004, b"last"))

    def test_output_goes_on_when_no_process_has_it_open(self):
        out = self.runs("exec <&- >&- 2>&-; sleep 0.3; echo a >/dev/tty; sleep 0.3;"
                        "echo b >/dev/tty; exit 4", code=4)
        self.assertEqual(out, b"a\r\nb\r\n")

    def test_timeouts_are_only_those_asked_for(self):
        s = self.terminal("echo x; sleep 600", timeout=0.5)
        s.started()
        out, _, verdict = s.rest()
        self.assertEqual((out, verdict.status), (b"x\r\n", self.t.VERDICT_STATUS_TIMED_OUT))
        s = self.terminal("cat", idle_timeout=0.5)
        s.started()
        self.assertEqual(s.rest()[2].status, self.t.VERDICT_STATUS_IDLE_TIMED_OUT)
        s = self.terminal("sleep 2; exit 6", spec={"command_timeout": boxd_lib.duration(0.5)},
                          session_id=self.sid + "x")
        self.addCleanup(self.client.delete, self.sid + "x")
        self.assertEqual(list(s.started().adjustments), [])
        self.exited(s.rest()[2], 6)

    def test_a_terminal_and_commands_do_not_wait_for_each_other(self):
        s = self.terminal(["cat"])
        s.started()
        self.completes(self.client.run(["true"], self.sid, queue_timeout=0))
        busy = Stream(self, ["cat"])
        busy.started()
        again = self.terminal(["cat"], queue_timeout=0)
        again.started()
        self.assertEqual(self.client.get(self.sid).active_execs, 3)
        self.fails(StatusCode.RESOURCE_EXHAUSTED, "EXEC_QUEUE",
                   lambda: self.client.run(["true"], self.sid, queue_timeout=0))
        for one in (s, again, busy):
            one.end()
        self.all_is_quiet()

    def test_eight_at_once(self):
        all_ = [self.terminal(["cat"]) for _ in range(8)]
        for s in all_:
            s.started()
        failure = self.fails(StatusCode.RESOURCE_EXHAUSTED, "QUOTA",
                             lambda: self.terminal(["true"]).started())
        self.assertEqual({k: failure.metadata[k] for k in ("limit", "max", "used")},
                         {"limit": "terminals", "max": "8", "used": "8"})
        all_[3].end()
        lib.wait_for(lambda: self.client.get(self.sid).active_execs == 7, "one has gone")
        self.assertEqual(self.runs("echo in"), b"in\r\n")
        for s in all_:
            s.end()
        self.all_is_quiet()

    def test_more_than_the_sandbox_has(self):
        take = ("import os, pty, time\n"
                "held = []\n"
                "try:\n    while True: held.append(pty.openpty())\n"
                "except OSError: print('full', flush=True)\n"
                "time.sleep(600)\n")
        holder = Stream(self, ["python3", "-c", take], spec={"max_parallel_execs": 2})
        holder.started()
        holder.read(b"full")
        failure = self.fails(StatusCode.RESOURCE_EXHAUSTED, "QUOTA",
                             lambda: self.terminal(["true"]).started())
        self.assertEqual(failure.metadata["limit"], "terminals")
        holder.end()
        self.all_is_quiet()
        self.assertEqual(self.runs("echo in"), b"in\r\n")

    def test_it_may_not_start(self):
        self.fails(StatusCode.NOT_FOUND, "FILE_NOT_FOUND",
                   lambda: self.terminal(["no-such"]).started())
        self.fails(StatusCode.NOT_FOUND, "FILE_NOT_FOUND",
                   lambda: self.terminal(["true"], workdir="/no/such").started())
        self.assertEqual(self.runs("tty"), b"/dev/pts/0\r\n")  # nothing of theirs is left

    def test_a_one_off_run(self):
        self.assertEqual(self.runs("tty; stty size", session_id=""), b"/dev/pts/0\r\n33 99\r\n")

    def test_long_arguments_come_too(self):
        self.assertEqual(self.runs(["sh", "-c", "echo $#", "sh", *["x" * 1000] * 200]), b"200\r\n")


class Hostile(Case):
    def rss(self):
        """Of boxd, in KiB."""
        with open(f"/proc/{self.boxd.boxd.pid}/status", encoding="utf-8") as f:
            return next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))

    def test_nothing_can_be_typed_for_another(self):
        code = ("import errno, fcntl, os, termios\n"
                "def t(name, fd, request, arg):\n"
                "    try: fcntl.ioctl(fd, request, arg); print(name, 'done')\n"
                "    except OSError as e: print(name, errno.errorcode[e.errno])\n"
                "tty = os.open('/dev/tty', os.O_RDWR)\n"
                "t('sti', 0, termios.TIOCSTI, b'x')\n"
                "t('sti_tty', tty, termios.TIOCSTI, b'x')\n"
                "t('linux', 0, 0x541C, b'\\x02')\n"
                "t('cons', 0, termios.TIOCCONS, 0)\n")
        got = dict(line.split() for line in self.runs(["python3", "-c", code]).decode().split("\r\n")
                   if line)
        self.assertEqual(set(got), {"sti", "sti_tty", "linux", "cons"})
        self.assertNotIn("done", got.values())

    def test_terminals_of_one_session_are_not_anothers(self):
        first = self.terminal(["cat"])
        first.started()
        other = self.terminal("ls /dev/pts; sleep 600", session_id=self.sid + "x")
        self.addCleanup(self.client.delete, self.sid + "x")
        other.started()
        self.assertEqual(other.read(b"ptmx").replace(b"\r\n", b" ").split(), [b"0", b"ptmx"])

    def test_a_reader_that_stops_stops_the_flood_and_nobody_else(self):
        s = self.terminal("stty -opost; yes 0123456789")
        s.started()
        s.read(b"9\n")
        time.sleep(1)
        before = self.rss()
        time.sleep(1)
        self.assertLess(self.rss() - before, 8 * 1024)
        self.completes(self.client.run(["true"], self.sid))
        s.stdin(b"\x03")
        for message in s.call:  # what was on its way
            last = message
        self.assertEqual(last.verdict.signal, 2)

    def test_a_background_process_keeps_it_open(self):
        s = self.terminal("trap '' HUP; (while :; do echo flood; done) & echo pid $!; exit 2")
        s.started()
        out, _, verdict = s.rest()
        self.exited(verdict, 2)
        self.assertEqual((verdict.leftover_processes, verdict.leftovers),
                         (1, self.t.LEFTOVER_POLICY_KEEP))
        self.assertIn(b"pid ", out)
        # Its terminal has hung up: it gets errors, and nobody waits for it.
        self.assertEqual(self.runs("echo next"), b"next\r\n")

    def test_a_background_process_lives_on_without_it(self):
        s = self.terminal("trap '' HUP; (sleep 0.3; echo x; echo $? >said; sleep 600) & exit 0")
        s.started()
        self.exited(s.rest()[2])
        lib.wait_for(lambda: self.client.run("cat said", self.sid).stdout_data == b"1\n",
                     "it wrote to nothing")

    def test_a_caller_that_goes_away_takes_it_along(self):
        s = self.terminal("trap '' HUP INT TERM; setsid sleep 600 & sleep 600")
        s.started()
        lib.wait_for(lambda: len(self.commands_in(self.sid)) >= 2, "they run")
        s.call.cancel()
        self.all_is_quiet()


class ServerLost(OwnServerCase):
    def test_a_killed_server_hangs_it_up(self):
        self.client.create(self.sid, persistent=True)
        s = Stream(self, "sleep 600", terminal={})
        s.started()
        names = lambda: [boxd_lib.name_of(p) for p in self.boxd.processes()]
        lib.wait_for(lambda: "sleep" in names(), "it runs")
        self.crash("boxd")
        lib.wait_for(lambda: "sleep" not in names(), "it has ended")
        self.assertTrue(any("box-agent" in name for name in names()), names())
        self.restart_boxd()
        self.completes(self.client.run(["true"], self.sid))
        self.client.delete(self.sid)


if __name__ == "__main__":
    boxd_lib.main()
