"""Sandboxes that the real server keeps ready: whose they become, what of them is whose, and that
they come and go with everything else."""

import glob
import os
import signal
import sys

import boxd_lib
import lib
from boxd_lib import MIB, OwnServerCase

WANTED = 3


class PoolCase(OwnServerCase):
    def status(self):
        return self.client.control.GetStatus(self.pb.control.GetStatusRequest()).server

    def wait_full(self):
        lib.wait_for(lambda: self.status().warm_sandboxes == WANTED,
                     f"the pool is full\n{self.boxd.logs()}")

    def uids(self):
        """Of all sandboxes that exist."""
        return {os.path.basename(os.path.dirname(path)) for base in self.boxd.cgroups
                for path in glob.glob(f"{base}/box-*/*/")} - self.boxd.prepared()

    def setUp(self):
        super().setUp()
        self.wait_full()


class Pool(PoolCase):
    @classmethod
    def setUpClass(cls):
        cls.begin(config=f"box:\n  warm_pool: {WANTED}\n")

    def test_it_belongs_to_nobody(self):
        status = self.status()
        self.assertEqual((status.warm_pool_size, status.active_sessions), (WANTED, 0))
        listed = self.client.sessions.ListSessions(self.pb.session.ListSessionsRequest())
        self.assertEqual(list(listed.sessions), [])

    def test_sessions_take_one_each_and_nobody_gets_it_again(self):
        seen = set()
        for i in range(3 * WANTED):
            ready = self.uids()
            session = self.client.create(f"{self.sid}-{i}")
            self.assertIn(session.uid, ready)
            self.assertNotIn(session.uid, seen)
            seen.add(session.uid)
            self.client.out("test -z \"$(find /workspace /tmp /home -mindepth 1)\" && echo mine >/workspace/f",
                            session.session_id)
            self.client.delete(session.session_id)
            self.wait_full()
            lib.wait_for(lambda uid=session.uid: uid not in self.uids(), "it is gone")
            self.assertEqual(self.boxd.processes(session.uid), set())

    def test_other_users_and_networks(self):
        """Of two that were made ahead nothing is common."""
        sessions = [self.client.create(f"{self.sid}-{i}") for i in range(2)]
        facts = []
        for s in sessions:
            self.addCleanup(self.client.delete, s.session_id)
            pid = self.boxd.first_process(s.uid)
            facts.append([os.stat(f"/proc/{pid}").st_uid] + [
                os.readlink(f"/proc/{pid}/ns/{kind}")
                for kind in ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")])
        for one, two in zip(*facts):
            self.assertNotEqual(one, two)

    def test_a_session_of_the_pool_is_one_like_others(self):
        """The same answers as of one that is made for itself, by its uid alone to be told apart."""
        ready = self.uids()
        script = ("id; pwd; cat /proc/self/status | grep -E 'Cap|Seccomp|NoNew'; df -k /workspace /tmp "
                  "/home; cat /proc/net/dev | wc -l; ulimit -a; env | sort; hostname; "
                  "cut -d' ' -f5- /proc/self/mountinfo | sed 's/,[ug]id=[0-9]*//g'")
        warm = self.client.create(self.sid)
        self.assertIn(warm.uid, ready)
        # The same size, but by name: it fits none of the pool.
        cold = self.client.create(self.sid + "-cold", workspace_limit_bytes=64 * MIB)
        self.addCleanup(self.client.delete, cold.session_id)
        self.assertNotIn(cold.uid, ready)
        said = [self.client.out(script, s.session_id) for s in (warm, cold)]
        self.assertEqual(*said)
        self.assertEqual({g.name for g in warm.guarantees if g.holds},
                         {g.name for g in cold.guarantees if g.holds})

    def test_limits_of_its_own(self):
        ready = self.uids()
        session = self.client.create(self.sid, memory_bytes=96 * MIB, pids_limit=20,
                                     cpu_millis=300)
        self.assertIn(session.uid, ready)
        self.assertEqual((session.spec.memory_bytes, session.spec.pids_limit),
                         (96 * MIB, 20))
        answer = self.client.run("i=0; while [ $i -lt 60 ]; do sleep 9 & i=$((i+1)); done",
                                 self.sid, leftovers=self.t.LEFTOVER_POLICY_KILL)
        self.assertIn("pids", answer.verdict.limits_hit)
        hog = self.client.run(["/usr/bin/python3", "-c", "x = b'x' * (1 << 30)"],
                              self.sid)
        self.assertEqual(hog.verdict.status, self.t.VERDICT_STATUS_OOM_KILLED)

    def test_a_command_without_a_session(self):
        ready = self.uids()
        answer = self.completes(self.client.run("cat /proc/1/cgroup; echo x >/tmp/x"))
        self.assertTrue(answer.session_created)
        self.wait_full()
        lib.wait_for(lambda: len(self.uids()) == WANTED, "it is gone")
        self.assertEqual(len(self.uids() & ready), WANTED - 1)

    def test_a_dead_one_is_replaced(self):
        pids = [self.boxd.first_process(uid) for uid in self.uids()]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        lib.wait_for(lambda: all(boxd_lib.state_of(pid) in (None, "Z") for pid in pids), "they die")
        self.completes(self.client.run(["true"], self.sid))
        self.wait_full()
        lib.wait_for(lambda: len(self.uids()) == WANTED + 1, "those and the session")

    def test_the_warden_comes_back(self):
        """It sweeps the pool; a session that took one of it stays."""
        session = self.client.create(self.sid)
        self.client.out("echo x >/workspace/f", self.sid)
        self.wait_full()
        before = self.uids()
        self.crash("warden")
        self.boxd.start_warden()
        self.boxd.wait_backend()
        self.assertEqual(self.client.out("cat /workspace/f", self.sid), "x")
        self.assertEqual(self.client.get(self.sid).uid, session.uid)
        lib.wait_for(lambda: len(self.uids()) == WANTED + 1 and
                     self.uids() & before == {session.uid}, "all others are new")
        self.wait_full()

    def test_boxd_is_killed(self):
        before = self.uids()
        self.crash("boxd")
        self.restart_boxd()
        self.wait_full()
        lib.wait_for(lambda: len(self.uids()) == WANTED, "the old ones are swept")
        self.assertFalse(self.uids() & before)

    def test_other_defaults(self):
        pb = self.pb.control

        def initialize(**config):
            return self.client.control.Initialize(pb.InitializeRequest(config=pb.BoxConfig(**config)))

        before = self.uids()
        initialize(default_workspace_limit_bytes=8 * MIB)
        self.addCleanup(initialize, default_workspace_limit_bytes=0)
        lib.wait_for(lambda: not self.uids() & before and len(self.uids()) == WANTED,
                     "a pool of the new size")
        self.wait_full()
        ready = self.uids()
        size = "df -k /workspace | tail -1 | tr -s ' ' | cut -d' ' -f2"
        session = self.client.create(self.sid)
        self.assertIn(session.uid, ready)
        self.assertEqual(self.client.out(size, self.sid), "8192")

    def test_many_at_once(self):
        """More than there are: each call has its own."""
        calls = [self.client.execs.Exec.future(self.client.exec_request(
            "test ! -e /tmp/x && echo x >/tmp/x && cat /tmp/x"), timeout=60) for _ in range(20)]
        for call in calls:
            self.completes(call.result())


class Full(PoolCase):
    """The pool never costs a caller a place."""

    @classmethod
    def setUpClass(cls):
        cls.begin(config=f"box:\n  warm_pool: {WANTED}\nlimits:\n  sessions: {WANTED + 1}\n")

    def test_sessions_come_first(self):
        for i in range(WANTED + 1):
            name = f"{self.sid}-{i}"
            self.client.create(name, mount_path="/elsewhere")  # fits none of the pool
            self.addCleanup(self.client.delete, name)
        lib.wait_for(lambda: len(self.uids()) == WANTED + 1, "sessions alone")
        self.assertEqual(self.status().warm_sandboxes, 0)


if __name__ == "__main__":
    boxd_lib.main()
