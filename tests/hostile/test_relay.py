"""known-bugs.md group C: what others got wrong in managed processes and the relay to them. One class
a row."""

import os
import time

import hostile_lib
import lib
from attachment import Attachment, ProcessCase
from hostile_lib import HostileCase, MIB
from grpc import StatusCode


class Case(ProcessCase):
    """A server of each class's own."""

    @classmethod
    def setUpClass(cls):
        HostileCase.start_server()

    @classmethod
    def tearDownClass(cls):
        HostileCase.stop_server()

    def echo(self, data):
        """What `cat` gives back for these pieces."""
        self.start(["cat"], journal_limit_bytes=4 * MIB)
        a = Attachment(self, stdout_offset=0, write=True)
        a.attached()
        for piece in data:
            a.stdin(piece)
        a.close_stdin()
        a.finish()
        return a.bytes["stdout"]


class C1(Case):
    """The relay split characters at the borders of pieces."""

    def test_characters_in_two_pieces(self):
        text = "\u20ac\U0001f600\u00e4".encode() * 100
        self.assertEqual(self.echo(text[i:i + 1] for i in range(len(text))), text)
        self.start("printf '\\342'; sleep 0.3; printf '\\202\\254'", "split")
        a = Attachment(self, "split", stdout_offset=0)
        a.finish()
        self.assertEqual(a.bytes["stdout"].decode(), "\u20ac")


class C2(Case):
    """Pieces that hold two lines or half of one must not matter: bytes and offsets, no messages."""

    def test_bursts_and_long_lines(self):
        lines = b"".join(b"{%d}\n" % i for i in range(20000)) + b"x" * 70000 + b"\n"
        self.completes(self.client.run("cat >/workspace/lines", self.sid, stdin=lines))
        self.start("cat /workspace/lines")
        a = Attachment(self, stdout_offset=0)
        a.finish()
        self.assertEqual(a.bytes["stdout"], lines)


class C3(Case):
    """A line over 64 KiB ended the relay."""

    def test_a_line_of_a_megabyte(self):
        line = b"y" * MIB + b"\n"
        self.assertEqual(self.echo([line[:500000], line[500000:], b"after\n"]), line + b"after\n")


class C4(Case):
    """A second attach was accepted, hung, and its input came through later."""

    def test_the_second_writer_is_refused(self):
        self.start(["cat"])
        first = Attachment(self, stdout_offset=0, write=True)
        first.attached()
        second = Attachment(self, write=True)
        second.stdin(b"from the second\n")
        self.fails(StatusCode.FAILED_PRECONDITION, "STDIN_TAKEN", second.attached)
        first.stdin(b"from the first\n")
        first.close_stdin()
        first.finish()
        self.assertEqual(first.bytes["stdout"], b"from the first\n")


class C5(Case):
    """A process nobody was attached to blocked after 196 KiB."""

    def test_it_goes_on(self):
        self.start("head -c 20000000 /dev/zero; head -c 20000000 /dev/zero >&2; exit 3")
        ended = self.wait(timeout=30)
        self.assertTrue(ended.met)
        self.assertEqual(ended.process.verdict.exit_code, 3)
        self.assertEqual(ended.process.stdout_journal.end_offset, 20000000)


class C6(Case):
    """Output that was read but not sent was lost when the client went."""

    def test_dropped_in_the_middle_of_a_burst(self):
        self.start("i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done; sleep 600")
        got = b""
        while not got.endswith(b"line 19999\n"):
            a = Attachment(self, stdout_offset=len(got))
            a.attached()
            for _ in range(2):
                a.take()
                if a.bytes["stdout"].endswith(b"line 19999\n"):
                    break
            got += a.bytes["stdout"]
            a.call.cancel()
        self.assertEqual(got, b"".join(b"line %d\n" % i for i in range(20000)))


class C7(Case):
    """There was no way to send end-of-file."""

    def test_end_of_file(self):
        self.start(["sort"])
        a = Attachment(self, stdout_offset=0, write=True)
        a.attached()
        a.stdin(b"b\na\n")
        a.close_stdin()
        self.assertEqual(a.finish().exit_code, 0)
        self.assertEqual(a.bytes["stdout"], b"a\nb\n")


class C8(Case):
    """One long piece of stderr emptied the preview."""

    def test_the_newest_is_kept(self):
        self.start("echo early >&2; head -c 9000 /dev/zero | tr '\\0' z >&2")
        preview = self.wait().process.stderr_preview
        self.assertEqual(preview, b"z" * 4000)
        self.start("head -c 9000 /dev/zero | tr '\\0' z >&2; echo >&2; echo the error >&2",
                   replace=True)
        self.assertEqual(self.wait().process.stderr_preview, b"the error\n")


class C9(Case):
    """Stopping one reached a helper outside only: the process went on inside."""

    def test_what_is_stopped_is_gone_inside(self):
        deaf = ("import os, signal, subprocess, time\n"
                "for s in range(1, 65):\n"
                "    try: signal.signal(s, signal.SIG_IGN)\n"
                "    except (OSError, ValueError): pass\n"
                "if os.fork() == 0: os.setsid()\n"
                "print('deaf', flush=True)\n"
                "time.sleep(1000)\n")
        uid = self.client.get(self.sid).uid

        def inside():
            return [p for p in self.boxd.processes(uid)
                    if (hostile_lib.name_of(p) or "").startswith("python")]
        self.start(["python3", "-c", deaf], readiness=self.p.Readiness(stdout_line="deaf"),
                   ready_timeout=20, stop_grace=0.2)
        self.assertEqual(len(inside()), 2)
        self.assertEqual(self.stop().verdict.signal, 9)
        lib.wait_for(lambda: not inside(), "its whole tree is gone")


class C10(Case):
    """A lifetime of somebody else's (600 s) ended every process. Ours have none: neither the
    session's time for commands nor a limit of the kernel is theirs."""

    def test_no_clock_runs(self):
        t = self.pb.types
        sid = self.sid + "-short"
        self.addCleanup(self.client.delete, sid)
        spec = t.SessionSpec()
        spec.command_timeout.FromMilliseconds(300)
        self.client.sessions.CreateSession(self.pb.session.CreateSessionRequest(
            session_id=sid, spec=spec))
        process = self.p.ProcessSpec(shell_command="ulimit -t; sleep 1000")
        self.client.processes.StartManagedProcess(self.p.StartManagedProcessRequest(
            session_id=sid, spec=process))
        for _ in range(3):
            r = self.client.execs.Exec(self.pb.exec.ExecRequest(
                session_id=sid, command=t.Command(shell_command="sleep 1000")), timeout=30)
            self.assertEqual(r.verdict.status, t.VERDICT_STATUS_TIMED_OUT)
        got = self.client.processes.GetManagedProcess(self.p.GetManagedProcessRequest(
            session_id=sid)).process
        self.assertEqual(got.state, self.p.PROCESS_STATE_RUNNING)
        a = Attachment(self, stdout_offset=0, session_id=sid)
        a.until(b"unlimited\n")


class C11(Case):
    """A process did not get the mounts that commands get."""

    def test_both_see_the_same(self):
        look = "cut -d' ' -f3- /proc/self/mountinfo; ls -A /workspace; cat /workspace/f; id; umask"
        self.completes(self.client.run("echo text >/workspace/f", self.sid))
        self.start(look)
        a = Attachment(self, stdout_offset=0)
        a.finish()
        command = self.client.run(look, self.sid)
        self.completes(command)
        self.assertEqual(a.bytes["stdout"], command.stdout_data)
        self.assertIn(b"text\n", command.stdout_data)


class C12(Case):
    """An idle relay was dropped and took the process along."""

    def test_nothing_for_a_while(self):
        self.start(["cat"])
        a = Attachment(self, write=True, deadline=None)
        a.attached()
        time.sleep(15)
        a.stdin(b"still there\n")
        a.until(b"still there\n")


class C13(Case):
    """A lost connection was taken for the process's death."""

    def test_the_connection_goes_and_comes(self):
        self.start(["cat"])
        pid = self.process().pid
        other = self.boxd.client()
        a = Attachment(self, client=other, write=True)
        a.attached()
        other.close()  # the connection, with the call on it
        lib.wait_for(lambda: not self.process().attached, "the server has noticed")
        a = Attachment(self, write=True)
        self.assertEqual(a.attached().process.pid, pid)
        a.stdin(b"again\n")
        a.until(b"again\n")


class C14(Case):
    """Ids were not checked."""

    def test_slashes(self):
        for bad in ("a/b", "../x", "a\nb", " "):
            self.invalid(lambda bad=bad: self.start(["true"], bad), "process_id")


class C15(Case):
    """Starting an id that runs killed what ran."""

    def test_it_is_a_conflict(self):
        first = self.start(["sleep", "600"])
        failure = self.fails(StatusCode.ALREADY_EXISTS, "PROCESS_CONFLICT",
                             lambda: self.start(["sleep", "601"]))
        self.assertEqual(failure.metadata["process"], "default")
        self.assertEqual(self.process().pid, first.pid)
        answer = self.client.processes.StartManagedProcess(
            self.request(["sleep", "602"], replace=True))
        self.assertTrue(answer.replaced)
        self.assertNotEqual(answer.process.pid, first.pid)
        self.assertEqual(self.client.out("ps -e -o args= | grep -c '[s]leep 600' || true", self.sid),
                         "0")


class C16(Case):
    """A program that does not exist was reported as started."""

    def test_it_is_an_error(self):
        for what, kind in ((["/no/such"], "command"), (["no-such"], "command")):
            failure = self.fails(StatusCode.NOT_FOUND, "FILE_NOT_FOUND",
                                 lambda what=what: self.start(what))
            self.assertEqual(failure.metadata["kind"], kind)
        self.fails(StatusCode.NOT_FOUND, "FILE_NOT_FOUND",
                   lambda: self.start(["true"], workdir="/no/such"))
        self.fails(StatusCode.NOT_FOUND, "PROCESS_NOT_FOUND", self.process)


class C17(Case):
    """After a stop the exit code and stderr were gone."""

    def test_they_are_kept(self):
        self.start("trap 'echo last words >&2; exit 9' TERM; echo on; while :; do sleep 0.05; done")
        a = Attachment(self, stdout_offset=0)
        a.until(b"on\n")
        self.stop()
        kept = self.process()
        self.assertEqual((kept.verdict.exit_code, kept.stderr_preview), (9, b"last words\n"))
        a = Attachment(self, stdout_offset=0)
        a.finish()
        self.assertEqual(a.bytes["stdout"], b"on\n")

    def test_not_more_than_sixteen(self):
        for i in range(20):
            self.start(["true"], f"p{i}")
            self.wait(f"p{i}")
        names = [p.process_id for p in self.list().processes]
        self.assertEqual(names, [f"p{i}" for i in range(4, 20)])


class C18(Case):
    """Stopping the server waited a minute for open relays."""

    @classmethod
    def tearDownClass(cls):
        HostileCase.boxd.kill()

    def test_it_ends(self):
        self.start(["cat"])
        attached = [Attachment(self, write=i == 0) for i in range(20)]
        for a in attached:
            a.attached()
        began = time.monotonic()
        self.boxd.stop_boxd()
        self.assertLess(time.monotonic() - began, 20)


class Readers(Case):
    """bug.readers: a hundred callers attached to a process that floods."""

    def test_memory_is_flat(self):
        limit = 64 * MIB * int(os.environ.get("HOSTILE_RSS_FACTOR", "1"))
        self.start("cat /dev/zero")
        before = lib.resident_bytes(self.boxd.boxd.pid)
        attached = [Attachment(self, client=self.boxd.client()) for _ in range(100)]
        for a in attached:
            a.attached()  # and most of them read no more
        most = 0
        end = time.monotonic() + 5
        while time.monotonic() < end:
            for a in attached[:3]:
                a.take()
            most = max(most, lib.resident_bytes(self.boxd.boxd.pid))
        self.assertLess(most - before, limit)
        self.stop(grace=0)


if __name__ == "__main__":
    hostile_lib.main()
