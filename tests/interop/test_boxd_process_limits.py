"""Limits of one managed process's own: which one fired, whom it did not touch, what it uses."""

import os
import time

import boxd_lib
import lib
from attachment import ProcessCase
from boxd_lib import BoxdCase, MIB
from grpc import StatusCode

HOG = "import sys; x = []\nwhile True: x.append(bytearray(1 << 20)); print(len(x), flush=True)"
# No fork may fail for want of memory first: each child only sleeps.
BOMB = "n=0; while [ $n -lt 60 ]; do sleep 600 & n=$((n+1)); done; wait"
SPIN = "while :; do :; done"


def setUpModule():
    BoxdCase.start_server()


def tearDownModule():
    BoxdCase.stop_server()


class Limits(ProcessCase):
    def setUp(self):
        super().setUp()
        self.holds = {g.name: g.holds for g in self.client.get(self.sid).guarantees}["process_limits"]
        if not self.holds:
            for field in ("memory_bytes", "pids_limit", "cpu_millis"):
                failure = self.fails(StatusCode.FAILED_PRECONDITION, "GUARANTEE_UNSUPPORTED",
                                     lambda f=field: self.start(["true"], **{f: 32 * MIB}))
                self.assertEqual(failure.metadata["guarantees"], "process_limits")
            self.skipTest("the host's control groups give a process no limits of its own")

    def alive(self, process_id):
        return self.process(process_id).state == self.p.PROCESS_STATE_RUNNING

    def test_a_hog_is_killed_alone(self):
        other = self.start(["sleep", "600"], "other", memory_bytes=32 * MIB)
        self.start(["sleep", "600"], "free")
        self.start(["/usr/bin/python3", "-c", HOG], "hog", memory_bytes=64 * MIB)
        ended = self.wait("hog").process
        verdict = ended.verdict
        self.assertEqual((verdict.status, verdict.signal, list(verdict.limits_hit)),
                         (self.pb.types.VERDICT_STATUS_OOM_KILLED, 9, ["memory"]), verdict)
        self.assertGreaterEqual(verdict.oom_kills, 1)
        self.assertEqual(verdict.peak_memory_source, self.pb.types.MEASURE_SOURCE_CGROUP)
        self.assertLessEqual(verdict.peak_memory_bytes, 64 * MIB)
        self.assertGreater(verdict.peak_memory_bytes, 32 * MIB)
        self.assertEqual(self.process("other").pid, other.pid)
        self.assertTrue(self.alive("free"))
        self.assertEqual(self.client.out(["echo", "alive"], self.sid), "alive")
        for process_id in ("other", "free"):
            verdict = self.stop(process_id).verdict
            self.assertEqual((verdict.signal, verdict.oom_kills), (15, 0), process_id)

    def test_a_child_s_death_for_memory_is_counted(self):
        self.start(f"/usr/bin/python3 -c '{HOG}' >/dev/null; exit 3", memory_bytes=64 * MIB)
        verdict = self.wait().process.verdict
        self.assertEqual((verdict.status, verdict.exit_code),
                         (self.pb.types.VERDICT_STATUS_COMPLETED, 3))
        self.assertGreaterEqual(verdict.oom_kills, 1)

    def test_a_fork_bomb_leaves_the_session_to_others(self):
        self.start(BOMB + "; exit 5", "bomb", pids_limit=20)
        self.start(["sleep", "600"], "free")
        lib.wait_for(lambda: self.client.out("ls /proc | grep -c '^[0-9]'", self.sid).strip() >= "20",
                     "it is full")
        for _ in range(5):
            self.assertEqual(self.client.out("for i in 1 2 3 4 5 6 7 8; do sleep 0.01 & done; wait; echo on",
                                             self.sid).strip(), "on")
        self.assertTrue(self.alive("free"))
        verdict = self.stop("bomb").verdict
        self.assertEqual(list(verdict.limits_hit), ["pids"])
        self.assertEqual(list(self.stop("free").verdict.limits_hit), [])

    def test_cpu_is_held_back(self):
        self.start(SPIN, "slow", cpu_millis=100)
        time.sleep(2)
        verdict = self.stop("slow").verdict
        used, lasted = verdict.cpu_time.ToNanoseconds(), verdict.wall_time.ToNanoseconds()
        self.assertGreater(used, 0)
        self.assertLess(used, 0.4 * lasted)

    def test_each_run_is_counted_by_itself(self):
        self.start("if [ -e /workspace/was ]; then exit 0; fi; touch /workspace/was; "
                   f"exec /usr/bin/python3 -c '{HOG}'", memory_bytes=64 * MIB,
                   restart=self.p.RestartPolicy(mode=self.p.RESTART_MODE_ON_FAILURE,
                                                first_backoff=boxd_lib.duration(0.01)))
        ended = self.wait().process
        self.assertEqual((ended.restarts, ended.verdict.exit_code, ended.verdict.oom_kills),
                         (1, 0, 0))
        self.assertLess(ended.verdict.peak_memory_bytes, 32 * MIB)

    def test_all_that_it_starts_is_within(self):
        """setsid and double forks lead nowhere."""
        self.start("setsid sh -c '(sleep 600 &) ; exec sleep 600' & "
                   "i=0; while [ $i -lt 40 ]; do setsid sleep 600 & i=$((i+1)); done; wait", "deep",
                   pids_limit=10)
        time.sleep(0.5)
        count = int(self.client.out("grep -l sleep /proc/[0-9]*/comm 2>/dev/null | wc -l", self.sid))
        self.assertLessEqual(count, 10)
        self.stop("deep")
        self.assertEqual(int(self.client.out("grep -l sleep /proc/[0-9]*/comm 2>/dev/null | wc -l",
                                             self.sid)), 0)

    def test_usage(self):
        self.start(SPIN, "busy", memory_bytes=64 * MIB)
        counted = {g.name: g.holds for g in self.client.get(self.sid).guarantees}["command_cgroup"]
        if counted:  # without cgroup2 only memory is known
            lib.wait_for(lambda: self.process("busy").usage.cpu_time.ToNanoseconds() > 10 ** 8, "it is busy")
        usage = self.process("busy").usage
        self.assertEqual(usage.process_count, 1 if counted else 0)
        self.assertTrue(0 < usage.memory_bytes <= 64 * MIB)
        self.assertTrue(usage.memory_bytes <= usage.memory_peak_bytes <= 64 * MIB)
        self.assertTrue(usage.HasField("measured_at"))
        self.assertFalse(self.stop("busy").HasField("usage"))
        self.start(["sleep", "600"], "plain")
        self.assertEqual(self.process("plain").usage.process_count, 1 if counted else 0)

    def test_what_cannot_be(self):
        self.invalid(lambda: self.start(["true"], memory_bytes=1, pids_limit=0, cpu_millis=9),
                     "spec.memory_bytes", "spec.pids_limit", "spec.cpu_millis")
        self.invalid(lambda: self.start(["true"], memory_bytes=1 << 50, pids_limit=1 << 30,
                                        cpu_millis=1 << 30),
                     "spec.memory_bytes", "spec.pids_limit", "spec.cpu_millis")

    def groups(self):
        """Names beside the control group of the one `sleep` that runs."""
        pids = [p for p in self.boxd.processes() if boxd_lib.name_of(p) == "sleep"]
        self.assertEqual(len(pids), 1)
        with open(f"/proc/{pids[0]}/cgroup", encoding="utf-8") as f:
            found = [line.strip().split(":", 2) for line in f]
        at = {controller: path for _, names, path in found for controller in names.split(",")}
        root = f"/sys/fs/cgroup/memory{at['memory']}" if "memory" in at else f"/sys/fs/cgroup{at['']}"
        beside = os.path.dirname(root)
        return [name for name in os.listdir(beside) if os.path.isdir(os.path.join(beside, name))]

    def test_its_groups_go(self):
        for _ in range(70):  # more than an agent may have at once
            self.start(["true"], "short", memory_bytes=32 * MIB, replace=True)
            self.wait("short")
        self.start(["sleep", "600"], "short", memory_bytes=32 * MIB, replace=True)
        self.assertTrue(self.alive("short"))
        self.assertLess(len(self.groups()), 10, self.groups())


if __name__ == "__main__":
    boxd_lib.main()
