"""Workspaces on disk, by the real server: what GetSession tells of them, what happens when one is
full, that a persistent one outlives boxd and warden, and that nothing of them stays."""

import fcntl
import glob
import os
import subprocess
import sys
import tempfile

import boxd_lib
import lib
from boxd_lib import MIB, OwnServerCase
from grpc import StatusCode

GIB = 1024 * MIB
READY = 2
LOOP_CTL_GET_FREE = 0x4C82


def setUpModule():
    try:
        with open("/dev/loop-control", "rb") as control:
            fcntl.ioctl(control, LOOP_CTL_GET_FREE)
    except OSError as error:
        print(f"skipped: there are no loop devices: {error}", flush=True)
        os._exit(77)


class DiskCase(OwnServerCase):
    @classmethod
    def setUpClass(cls):
        cls.images = tempfile.mkdtemp(prefix="box-disk-", dir="/var/tmp")
        cls.begin(warden_config=f"disk:\n  directory: {cls.images}\n"
                                f"  pool: [{{size: 1GiB, ready: {READY}}}]\n")

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        lib.wait_for(lambda: not cls.devices(), "the last loop devices go")
        os.rmdir(cls.images)  # nothing is in it

    @classmethod
    def devices(cls):
        """Loop devices of this class."""
        found = []
        for path in glob.glob("/sys/block/loop*/loop/backing_file"):
            try:
                with open(path, encoding="utf-8") as f:
                    if f.read().startswith(cls.images + "/"):
                        found.append(path.split("/")[3])
            except OSError:
                pass  # detached meanwhile
        return found

    def usage(self, sid=None):
        return self.client.get(sid or self.sid).usage


class Disk(DiskCase):
    def test_get_tells_usage_and_limits(self):
        session = self.client.create(self.sid, workspace_limit_bytes=GIB)
        holds = {g.name: g.holds for g in session.guarantees}
        self.assertTrue(holds["disk_workspace"])
        first = self.usage()
        self.assertEqual((first.workspace_bytes, first.workspace_inodes), (0, 0))
        self.assertEqual(first.workspace_limit_bytes, GIB)
        self.assertGreaterEqual(first.workspace_inode_limit, GIB // 4096)
        self.client.out("mkdir d && head -c 9M /dev/zero >d/f && sync d/f", self.sid)
        now = self.usage()
        self.assertGreaterEqual(now.workspace_bytes, 9 * MIB)
        self.assertLess(now.workspace_bytes, 10 * MIB)
        self.assertEqual(now.workspace_inodes, 2)

    def test_one_in_memory_tells_them_too(self):
        session = self.client.create(self.sid, workspace_limit_bytes=8 * MIB)
        self.assertNotIn(True, [g.holds for g in session.guarantees if g.name == "disk_workspace"])
        usage = self.usage()
        self.assertEqual((usage.workspace_bytes, usage.workspace_limit_bytes), (0, 8 * MIB))
        self.assertEqual(usage.workspace_inode_limit, 8 * MIB // 4096)

    def test_three_fill_up_and_go_on(self):
        sids = [f"{self.sid}-{i}" for i in range(3)]
        for sid in sids:
            self.client.create(sid, workspace_limit_bytes=300 * MIB)
            self.addCleanup(self.client.delete, sid)
        calls = [self.client.execs.Exec.future(self.client.exec_request(
            "dd if=/dev/zero of=f bs=1M", sid, timeout=100), timeout=120) for sid in sids]
        for sid, call in zip(sids, calls):
            answer = call.result()
            self.assertIn(b"No space left on device", answer.stderr_data)
            self.assertEqual(list(answer.verdict.limits_hit), ["workspace"], answer)
            self.assertGreaterEqual(self.usage(sid).workspace_bytes, 300 * MIB)
            self.assertEqual(self.client.out("rm f && echo on >g && cat g", sid),
                             "on")
            self.assertLess(self.usage(sid).workspace_bytes, MIB)

    def test_no_more_than_its_disk_takes(self):
        failure = self.fails(StatusCode.RESOURCE_EXHAUSTED, "QUOTA", lambda: self.client.create(
            self.sid, workspace_limit_bytes=17 * GIB))  # the warden's own maximum
        self.assertEqual(failure.metadata["limit"], "workspace_limit")

    def test_boxcli_asks_for_one(self):
        done = subprocess.run(
            [os.path.join(sys.argv[1], "boxcli"), "run", "--workspace", "1GiB", "--",
             "df", "-B1", "--output=avail", "/workspace"],
            env={"PATH": os.environ["PATH"], "BOX_ENDPOINT": f"unix:{self.boxd.unix_socket}"},
            stdout=subprocess.PIPE, timeout=60, check=True)
        free = int(done.stdout.split()[1])
        self.assertGreaterEqual(free, GIB)
        self.assertLess(free, GIB + 4 * MIB)

    def test_those_that_are_gone_leave_nothing(self):
        for _ in range(2 * READY):
            self.client.out("test -z \"$(ls -A)\" && head -c 20M /dev/urandom >f",
                            spec={"workspace_limit_bytes": 500 * MIB})
        self.boxd.wait_nothing_left()
        lib.wait_for(lambda: len(self.devices()) == READY, "only those that are ready are left")
        self.assertEqual(os.listdir(self.images), [])

    def test_a_persistent_one_outlives_both(self):
        self.client.create(self.sid, persistent=True)
        self.assertEqual(self.client.out("stat -f -c %T .; echo x >f; sync f", self.sid), "ext2/ext3")
        self.client.create(f"{self.sid}-other", workspace_limit_bytes=GIB)
        self.crash("warden")
        self.crash("boxd")
        self.boxd.start_warden()
        self.restart_boxd()
        self.assertEqual(self.client.out("cat f; echo y >>f; cat f", self.sid), "x\nx\ny")
        self.assertEqual(self.usage().workspace_limit_bytes, 64 * MIB)
        lib.wait_for(lambda: len(self.devices()) == READY + 1, "the other one is gone")
        self.client.delete(self.sid)
        self.boxd.wait_nothing_left()
        lib.wait_for(lambda: len(self.devices()) == READY, "this one too")


class NoDisk(OwnServerCase):
    """A warden without a disk.directory."""

    def test_a_large_one_is_refused(self):
        failure = self.fails(StatusCode.FAILED_PRECONDITION, "GUARANTEE_UNSUPPORTED",
                             lambda: self.client.create(self.sid, workspace_limit_bytes=257 * MIB))
        self.assertEqual(failure.metadata["guarantees"], "disk_workspace")
        failure = self.fails(StatusCode.FAILED_PRECONDITION, "GUARANTEE_UNSUPPORTED",
                             lambda: self.client.create(self.sid, guarantees=["disk_workspace"]))
        self.assertEqual(failure.metadata["guarantees"], "disk_workspace")

    def test_a_persistent_one_is_in_memory_and_that_is_said(self):
        session = self.client.create(self.sid, persistent=True)
        said = [g for g in session.guarantees if g.name == "disk_workspace"]
        self.assertEqual([(g.holds, g.required) for g in said], [(False, False)], session.guarantees)
        self.assertEqual(self.client.out("stat -f -c %T .", self.sid), "tmpfs")


if __name__ == "__main__":
    boxd_lib.main()
