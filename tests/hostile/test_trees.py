"""Trees of processes and what is counted of them: everything that a command started ends with it,
whatever it did, on hosts with and without cgroup2; and the verdict says what it was."""

import glob
import os
import queue
import time
import unittest

import grpc

import hostile_lib
import lib
from hostile_lib import HostileCase, MIB
from test_hosts import cgroups_of, in_mounts

MANY = 10000
# main, the branches that stay, and what they grew (forest.c)
GROWN = 1 + 25 + MANY
SPEC = {"pids_limit": 12000, "memory_bytes": 4096 * MIB, "workspace_limit_bytes": 8 * MIB,
        "max_parallel_execs": 4}
ENDS_SECONDS = 60  # said and printed is how long it took; that it ends is what is checked


class Trees(HostileCase):
    """The tests; one class below for each kind of host."""

    prefix = ()
    exact = True  # CPU time and counts of whole trees, by cgroup2
    own = 2  # processes in S/box that are not of commands

    @classmethod
    def setUpClass(cls):
        if cls is Trees:
            raise unittest.SkipTest("the classes below are it")
        HostileCase.start_server(warden_config="maxima: {pids: 20000}\n", warden_prefix=cls.prefix)

    @classmethod
    def tearDownClass(cls):
        HostileCase.stop_server()

    def setUp(self):
        super().setUp()
        self.t = self.pb.types

    def prepared(self, **spec):
        """A session with the program in it; its uid."""
        uid = self.client.create(self.sid, **{**SPEC, **spec}).uid
        self.compile("forest", self.sid)
        return uid

    def stream(self, argv, **fields):
        """An ExecStream: (call, queue of requests)."""
        pb = self.pb.exec
        requests = queue.SimpleQueue()
        requests.put(pb.ExecStreamRequest(start=pb.ExecStart(
            session_id=self.sid, command=self.client.command(argv, **fields))))
        call = self.client.execs.ExecStream(iter(requests.get, None), timeout=100)
        self.addCleanup(call.cancel)
        self.addCleanup(requests.put, None)
        return call, requests

    def forest(self, *arguments, **fields):
        """A stream whose command has grown its forest."""
        call, requests = self.stream(["/workspace/forest", *arguments], **fields)
        text = b""
        while not text.endswith(b"ready\n"):
            answer = next(call)
            self.assertFalse(answer.HasField("verdict"), answer)
            text += answer.stdout_data
        return call, requests

    @staticmethod
    def verdict(call):
        """The last answer of a stream."""
        found = None
        for answer in call:
            if answer.HasField("verdict"):
                found = answer.verdict
        return found

    def alive(self, uid):
        """Processes of the sandbox beside agent, zygote and the child that waits for the next
        command, as the kernel counts them."""
        for base in self.boxd.cgroups:
            for path in glob.glob(f"{base}/*/{uid}/box/pids.current"):
                try:
                    with open(path, encoding="ascii") as f:
                        return int(f.read()) - self.own
                except OSError:
                    pass
        return 0

    def all_ended(self, uid, what, begin):
        """Waits for it and says how long it took."""
        lib.wait_for(lambda: self.alive(uid) <= 0, f"all of it ends after {what}", ENDS_SECONDS)
        print(f"{type(self).__name__}: {what}: "
              f"{(time.monotonic() - begin) * 1000:.0f} ms", flush=True)

    def is_usable(self):
        """As before the attack, and nothing of it is left."""
        self.assertEqual(self.client.out(["echo", "after"], self.sid), "after")
        self.assertEqual(self.commands_in(self.sid), [])

    # --- the end of everything a command started --------------------------------------------------

    def test_ten_thousand_processes_end(self):
        uid = self.prepared()
        call, _ = self.forest(str(MANY), timeout=100)
        begin = time.monotonic()
        call.cancel()
        self.all_ended(uid, "10000 processes, a cancelled call", begin)

        call, requests = self.forest(str(MANY), timeout=100)
        begin = time.monotonic()
        requests.put(self.pb.exec.ExecStreamRequest(signal=self.t.Signal(
            number=9, scope=self.t.SIGNAL_SCOPE_TREE)))
        self.assertEqual(self.verdict(call).signal, 9)
        self.all_ended(uid, "10000 processes, a signal to the tree", begin)

        call, _ = self.forest(str(MANY), idle_timeout=2, timeout=100)
        verdict = self.verdict(call)
        self.assertEqual((verdict.status, verdict.leftover_processes),
                         (self.t.VERDICT_STATUS_IDLE_TIMED_OUT, GROWN - 1))
        self.all_ended(uid, "10000 processes, a timeout, from the verdict on", time.monotonic())

        script = "./forest %d >o & until grep -q ready o; do sleep 0.05; done; exit 3" % MANY
        verdict = self.client.run(script, self.sid, timeout=100,
                                  leftovers=self.t.LEFTOVER_POLICY_KILL).verdict
        self.assertEqual((verdict.exit_code, verdict.leftover_processes, verdict.leftovers),
                         (3, GROWN, self.t.LEFTOVER_POLICY_KILL))
        self.all_ended(uid, "10000 processes, leftovers: kill, from the verdict on", time.monotonic())
        self.is_usable()

        self.forest(str(MANY), timeout=100)
        begin = time.monotonic()
        self.client.delete(self.sid)
        lib.wait_for(lambda: not self.boxd.processes(uid), "all of it ends", ENDS_SECONDS)
        print(f"{type(self).__name__}: 10000 processes, a deleted session: "
              f"{(time.monotonic() - begin) * 1000:.0f} ms", flush=True)

    def test_one_that_grows_faster_than_it_is_looked_at(self):
        uid = self.prepared(pids_limit=2000)
        for _ in range(3):
            call, _ = self.stream(["/workspace/forest", "500", "grow"], timeout=100)
            next(call)
            lib.wait_for(lambda: self.alive(uid) > 1500, "it is at its limit")
            begin = time.monotonic()
            call.cancel()
            self.all_ended(uid, "a growing forest of 2000", begin)
        self.is_usable()

    def test_output_by_whoever_of_the_tree(self):
        self.client.create(self.sid, **SPEC)
        verdict = self.client.run("(setsid sh -c '(setsid yes &)' &); sleep 60", self.sid,
                                  output_kill_bytes=MIB).verdict
        self.assertEqual((verdict.status, list(verdict.limits_hit)),
                         (self.t.VERDICT_STATUS_OUTPUT_LIMIT, ["output_kill_bytes"]))
        self.is_usable()

    def test_silence_of_the_whole_tree(self):
        # A child that talks keeps it; one that is only busy does not.
        self.client.create(self.sid, **SPEC)
        verdict = self.client.run("(for i in 1 2 3 4 5 6 7 8; do sleep 0.2; echo $i; done) & sleep 2; "
                                  "exit 4", self.sid, idle_timeout=1.5).verdict
        self.assertEqual(verdict.exit_code, 4)
        verdict = self.client.run("(setsid sh -c 'while :; do :; done' &); sleep 60", self.sid,
                                  idle_timeout=0.5).verdict
        self.assertEqual((verdict.status, list(verdict.limits_hit)),
                         (self.t.VERDICT_STATUS_IDLE_TIMED_OUT, ["idle_timeout"]))
        self.is_usable()

    # --- what is counted --------------------------------------------------------------------------

    def test_leftovers_are_counted_one_by_one(self):
        self.client.create(self.sid, **SPEC)
        for count in (0, 1, 7, 100):
            script = "i=0; while [ $i -lt %d ]; do setsid sleep 60 & i=$((i+1)); done; sleep 1" % count
            for policy in (self.t.LEFTOVER_POLICY_KILL, self.t.LEFTOVER_POLICY_KEEP):
                verdict = self.client.run(script, self.sid, leftovers=policy).verdict
                self.assertEqual((verdict.leftover_processes, verdict.leftovers),
                                 (count, policy if count else 0))
                left = self.commands_in(self.sid).count("sleep")
                self.assertEqual(left, count if policy == self.t.LEFTOVER_POLICY_KEEP else 0)
                self.client.run("kill -9 -1", self.sid)

    BURN = "python3 -c 'import time\nwhile time.process_time() < 0.4: pass'"

    def test_cpu_time_is_the_trees(self):
        self.client.create(self.sid, cpu_millis=4000, **SPEC)
        seconds = lambda v: v.cpu_time.ToNanoseconds() / 1e9
        waited = self.client.run(f"{self.BURN} & {self.BURN} & wait", self.sid).verdict
        self.assertTrue(0.8 <= seconds(waited) < 8, waited)
        orphans = self.client.run(f"(setsid {self.BURN} &); (setsid {self.BURN} &); sleep 0.1; "
                                  "while pgrep -x python3 >/dev/null; do sleep 0.05; done",
                                  self.sid, timeout=60).verdict
        self.assertGreaterEqual(seconds(orphans), 0.8, orphans)
        killed = self.client.run(["sh", "-c", "while :; do :; done"], self.sid, timeout=0.5).verdict
        self.assertGreater(seconds(killed), 0.05)
        source = self.t.MEASURE_SOURCE_CGROUP if self.exact else self.t.MEASURE_SOURCE_RUSAGE
        self.assertEqual({v.cpu_source for v in (waited, orphans, killed)}, {source})

    def test_peak_memory_of_a_child(self):
        self.client.create(self.sid, **SPEC)
        small = self.client.run(["true"], self.sid).verdict
        big = self.client.run("python3 -c 'x = b\"x\" * (150 << 20)'; true", self.sid).verdict
        self.assertLess(small.peak_memory_bytes, 32 * MIB)
        self.assertTrue(150 * MIB <= big.peak_memory_bytes < 600 * MIB, big)
        self.assertNotEqual(big.peak_memory_source, 0)

    def test_limits_that_fired(self):
        self.client.create(self.sid, pids_limit=30, memory_bytes=64 * MIB,
                           workspace_limit_bytes=MIB)
        hog = "python3 -c 'x = []\nwhile True: x.append(bytearray(1 << 20))'"
        for what, fields, limits in (
                ("true", {}, []), ("sleep 60", {"timeout": 0.2}, ["timeout"]),
                ("sleep 60", {"idle_timeout": 0.2}, ["idle_timeout"]),
                ("yes", {"output_kill_bytes": 1000}, ["output_kill_bytes"]),
                ("exec " + hog, {}, ["memory"]),
                ("i=0; while [ $i -lt 40 ]; do sleep 9 & i=$((i+1)); done; exit 0",
                 {"leftovers": self.t.LEFTOVER_POLICY_KILL}, ["pids"])):
            verdict = self.client.run(what, self.sid, **fields).verdict
            self.assertEqual(list(verdict.limits_hit), limits, verdict)
        for _ in range(2):  # counted for the command that it hit, and not for the next
            self.assertGreaterEqual(self.client.run(hog, self.sid).verdict.oom_kills, 1)
            self.assertEqual(self.client.run(["true"], self.sid).verdict.oom_kills, 0)

    # --- the agent lives --------------------------------------------------------------------------

    ATTACKS = ("b() { b | b & }; b; while :; do b; done",
               "python3 -c 'x = []\nwhile True: x.append(bytearray(1 << 20))'",
               "while :; do kill -9 -1; done", "while :; do kill -STOP -1; done",
               "cat /dev/zero >/tmp/f; cat /dev/zero >f; cat /dev/zero >/dev/shm/f; "
               "cat /dev/zero >/home/f; sleep 60",
               "./forest 400 grow", "exec python3 -c 'import os\nwhile True:\n  try: os.open(\"/\", 0)\n"
               "  except OSError: pass'")

    def test_it_survives_all_of_them_at_once(self):
        session = self.prepared(pids_limit=500, memory_bytes=128 * MIB, max_parallel_execs=16)
        agent = self.boxd.first_process(session)
        calls = [self.client.execs.Exec.future(self.client.exec_request(
            what, self.sid, timeout=4, leftovers=self.t.LEFTOVER_POLICY_KILL), timeout=90)
            for what in self.ATTACKS]
        for call in calls:
            try:
                verdict = call.result().verdict
                self.assertFalse(verdict.HasField("exit_code") and verdict.HasField("signal"))
                self.assertNotEqual(verdict.status, self.t.VERDICT_STATUS_SANDBOX_LOST)
            except grpc.RpcError as error:  # it was kept from starting, and says so
                self.assertIn(hostile_lib.Failure(error).reason, ("QUOTA", "INTERNAL"))
        self.assertTrue(lib.wait_for(self.answers, "it works again"))
        self.assertEqual(self.boxd.first_process(session), agent)
        self.assertEqual(self.client.get(self.sid).uid, session)
        self.client.run("rm -rf /tmp/* /home/* /dev/shm/* /workspace/*", self.sid)
        self.is_usable()

    def answers(self):
        """A command runs as it should."""
        try:
            return self.client.run("exit 7", self.sid).verdict.exit_code == 7
        except grpc.RpcError:
            return False


@unittest.skipUnless(cgroups_of("cgroup2"), "no cgroup2")
class Groups(Trees):
    """A group of cgroup2 for each command."""

    def test_a_frozen_tree(self):
        uid = self.prepared()
        call, _ = self.forest("500", timeout=2)
        for base in self.boxd.cgroups:
            for path in glob.glob(f"{base}/*/{uid}/box/x/*/cgroup.freeze"):
                # Not where the next command is waited for.
                if len(hostile_lib.read_numbers(path.replace("freeze", "procs"))) > 1:
                    with open(path, "w", encoding="ascii") as f:
                        f.write("1")
        self.assertEqual(self.verdict(call).status, self.t.VERDICT_STATUS_TIMED_OUT)
        lib.wait_for(lambda: self.alive(uid) <= 0, "all of it ends", ENDS_SECONDS)
        self.is_usable()


@unittest.skipUnless(cgroups_of("cgroup") and cgroups_of("cgroup2"), "not a hybrid host")
class V1(Trees):
    """Without cgroup2: a subreaper for each command."""

    prefix = in_mounts("\n".join(f"umount {p}" for p in cgroups_of("cgroup2")))
    exact = False
    own = 1


if __name__ == "__main__":
    hostile_lib.main()
