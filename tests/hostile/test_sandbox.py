"""Attacks from inside a sandbox: hostile-inputs.md rows 1 to 13, and what sandboxes share."""

import errno
import os
import subprocess
import tempfile
import threading

import hostile_lib
import lib
from hostile_lib import HostileCase

REFUSED = {"EPERM", "EACCES", "ENOSYS", "ENOSPC", "EAFNOSUPPORT", "EPROTONOSUPPORT", "EINVAL"}


def setUpModule():
    HostileCase.start_server()


def tearDownModule():
    HostileCase.stop_server()


class Row10(HostileCase):
    """The kernel's surface, the agent, set-id bits, terminals and socket families."""

    WORKS = {"pipe", "mkdir_sgid", "rlimit_core"}  # mkdir(2) drops the bit; row 6 has the last
    OTHER = {"dev_tty": "ENXIO", "mmap_hugetlb": "ENOMEM"}

    def test_every_forbidden_call_is_refused_and_the_caller_lives(self):
        self.client.create(self.sid)
        self.compile("probe", self.sid)
        answer = self.completes(self.client.run(["/workspace/probe"], self.sid))
        names = {}
        for line in answer.stdout_data.decode().splitlines():
            name, number = line.split()
            names[name] = errno.errorcode.get(int(number), "0")
        self.assertGreater(len(names), 150)
        for name, got in names.items():
            if name in self.WORKS:
                self.assertEqual(got, "0", name)
            elif name in self.OTHER:
                self.assertEqual(got, self.OTHER[name], name)
            else:
                self.assertIn(got, REFUSED, name)
        self.assertEqual(self.client.out("stat -c %a n", self.sid), "755")


class Shared(HostileCase):
    """bug.shared-counts: what the kernel counts for a user or a machine is not one sandbox's to use up.
    Root was the owner of every sandbox's user namespace: 128 inotify instances, 96,364 timers or nine
    message queues in one took the last one of all others and of the host's root."""

    def setUp(self):
        super().setUp()
        self.folder = tempfile.TemporaryDirectory(prefix="box-hostile-")
        self.addCleanup(self.folder.cleanup)
        self.host = os.path.join(self.folder.name, "resources")
        subprocess.run(["gcc", "-w", "-O1", "-o", self.host,
                        os.path.join(hostile_lib.HERE, "resources.c"), "-lrt"], check=True)
        with open(self.host, "rb") as f:
            program = f.read()
        for name in (self.sid, self.sid + "2"):
            self.client.create(name)
            self.addCleanup(self.client.delete, name)
            self.completes(self.client.run("cat >resources && chmod +x resources", name,
                                           stdin=program))

    def take(self, kind, name):
        """Takes all in a session and holds it; returns (count, function that lets go)."""
        pb = self.pb.exec
        ended = threading.Event()

        def requests():
            yield pb.ExecStreamRequest(start=pb.ExecStart(
                session_id=name, command=self.client.command(["/workspace/resources", kind])))
            ended.wait(60)

        call = self.client.execs.ExecStream(requests())
        text = b""
        for answer in call:
            text += answer.stdout_data
            if text.endswith(b"\n"):
                break

        def let_go():
            ended.set()
            for _ in call:
                pass

        return int(text.split()[0]), let_go

    def on_host(self, kind):
        """What the host's root still gets."""
        done = subprocess.run([self.host, kind], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              check=True)
        return int(done.stdout.split()[0])

    def check(self, kind, least):
        before = self.on_host(kind)
        taken, let_go = self.take(kind, self.sid)
        try:
            others, let_others_go = self.take(kind, self.sid + "2")
            let_others_go()
            host = self.on_host(kind)
        finally:
            let_go()
        self.assertGreaterEqual(taken, least)
        self.assertEqual(others, taken, kind)
        # Others use the machine beside this test, so not to the last one.
        self.assertGreaterEqual(host, before * 9 // 10, kind)

    def test_nothing_is_taken_from_others(self):
        for kind, least in (("inotify", 100), ("timer", 1000), ("queue", 5), ("terminal", 8),
                            ("aio", 0)):  # not there at all: fs.aio-max-nr is the machine's
            with self.subTest(kind):
                self.check(kind, least)


class Row6(HostileCase):
    """Core dumps: none in the sandbox, and the host's crash handler is never started."""

    def test_no_core_is_written_and_no_handler_can_be_set(self):
        answer = self.client.run("echo '|/tmp/x' >/proc/sys/kernel/core_pattern; ls; kill -SEGV $$")
        self.assertEqual((answer.verdict.signal, answer.verdict.core_dumped), (11, False))
        self.assertEqual(answer.stdout_data, b"")
        with open("/proc/sys/kernel/core_pattern", encoding="ascii") as f:
            self.assertNotIn("/tmp/x", f.read())

    def test_the_limit_that_keeps_the_kernel_from_starting_a_handler_stays(self):
        # 1, not 0: core(5), "Piping core dumps to a program". Asking for another does nothing.
        limit = "grep core /proc/self/limits | tr -s ' '"
        text = self.client.out(f"{limit}; ulimit -c 0 && prlimit --core=0 --pid $$; {limit}; "
                               "ulimit -c unlimited; " + limit)
        self.assertEqual(text.splitlines(), ["Max core file size 1 1 bytes "] * 2 +
                         ["Max core file size 1 1 bytes"])


if __name__ == "__main__":
    hostile_lib.main()
