"""hostile-inputs.md row 44: weak hosts. On each the capability report says what a real command then
meets, what cannot be had is refused by name, and a command's end is as complete as ever."""

import os
import subprocess
import unittest

import grpc

import hostile_lib
import lib
from hostile_lib import Boxd, Client, MIB, Ordinary

STUBBORN = """trap '' TERM INT HUP
(setsid sh -c 'trap "" TERM; while :; do :; done' &)
(setsid setsid sh -c 'trap "" TERM HUP; exec <&- >&- 2>&-; while sleep 1; do :; done' &)
sleep 0.2; """
LIMITS = {"memory", "pids", "cpu", "live_limits"}
ALWAYS = {"filesystem", "process", "network_off", "user", "seccomp", "agent_separated",
          "read_only_root", "workspace_limit"}


def in_mounts(script):
    """A prefix: a mount namespace of its own, changed by the script."""
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", script + '\nexec "$@"', "sh"]


UNMOUNT = "\n".join(f"umount {path}" for path in sorted(hostile_lib.cgroup_roots(), reverse=True))


def cgroups_of(kind):
    """Mount points of "cgroup" (v1) or "cgroup2"."""
    with open("/proc/mounts", encoding="utf-8") as f:
        return [line.split()[1] for line in f if line.split()[2] == kind]


class Row44(unittest.TestCase):
    """One server on each kind of host."""

    boxd = client = None

    def setUp(self):
        if "ordinary_user" in self._testMethodName and lib.is_tsan(hostile_lib.sys.argv[1]):
            self.skipTest("tsan's own thread keeps the warden from making a user namespace")

    def start(self, prefix, **kwargs):
        """A Box whose warden runs behind the prefix."""
        self.boxd = Boxd(hostile_lib.sys.argv[1], warden_prefix=prefix, **kwargs)
        self.addCleanup(self.boxd.kill)
        self.client = self.boxd.client()
        self.t = self.client.pb.types

    def holds(self):
        """Names of the guarantees that hold, and the line about the host."""
        info = self.client.control.GetBackendInfo(
            self.client.pb.control.GetBackendInfoRequest()).backend
        self.assertTrue(info.available, info)
        return {g.name for g in info.guarantees if g.holds}, info.detail

    def weak(self, what):
        """A prefix: the seccomp filter of weak.c."""
        program = os.path.join(self.boxd_folder(), "weak")
        subprocess.run(["gcc", "-w", "-o", program, os.path.join(hostile_lib.HERE, "weak.c")],
                       check=True)
        return [program, what]

    def boxd_folder(self):
        folder = lib.TemporaryFolder("box-hostile-")
        self.addCleanup(folder.remove)
        return folder.path

    # --- the report against reality ---------------------------------------------------------------

    def refused(self, name, **spec):
        """Asking for it is refused, naming it, and leaves nothing."""
        with self.assertRaises(grpc.RpcError) as caught:
            self.client.create("refused", **spec)
        failure = hostile_lib.Failure(caught.exception)
        self.assertEqual(failure.reason, "GUARANTEE_UNSUPPORTED", failure)
        self.assertIn(name, failure.metadata["guarantees"].split(","))

    def check_memory(self, holds):
        """A hog ends at the limit, or the limit is refused."""
        if not holds:
            self.refused("memory", memory_bytes=64 * MIB)
            return
        v = self.client.run(["python3", "-c", "x = []\nwhile len(x) < 500: x.append(bytearray(1 << 20))"],
                            spec={"memory_bytes": 64 * MIB, "workspace_limit_bytes": MIB}).verdict
        self.assertEqual((v.status, list(v.limits_hit)),
                         (self.t.VERDICT_STATUS_OOM_KILLED, ["memory"]))

    def check_pids(self, holds):
        """So for processes."""
        if not holds:
            self.refused("pids", pids_limit=20)
            return
        answer = self.client.run("i=0; while [ $i -lt 30 ]; do sleep 20 & i=$((i+1)); done",
                                 spec={"pids_limit": 20})
        self.assertIn("pids", answer.verdict.limits_hit)

    def check_cpu(self, holds):
        """So for processor time."""
        if not holds:
            self.refused("cpu", cpu_millis=100)
            return
        v = self.client.run("timeout 1 sh -c 'while :; do :; done'; true",
                            spec={"cpu_millis": 200}).verdict
        self.assertLess(v.cpu_time.ToNanoseconds(), v.wall_time.ToNanoseconds() / 2)

    def check_ends(self, command_cgroup):
        """Killing, counting and measuring one command, beside another that must not notice."""
        session = self.client.create("ends", max_parallel_execs=2)
        other = self.client.execs.Exec.future(self.client.exec_request(
            "sleep 3; exit 7", "ends", timeout=30), timeout=60)
        v = self.client.run(STUBBORN + "sleep 999", "ends", timeout=1).verdict
        self.assertEqual((v.status, v.signal), (self.t.VERDICT_STATUS_TIMED_OUT, 9))
        v = self.client.run(STUBBORN + "exit 5", "ends",
                            leftovers=self.t.LEFTOVER_POLICY_KILL).verdict
        self.assertEqual((v.status, v.exit_code, v.leftovers),
                         (self.t.VERDICT_STATUS_COMPLETED, 5, self.t.LEFTOVER_POLICY_KILL))
        self.assertGreaterEqual(v.leftover_processes, 2)
        source = (self.t.MEASURE_SOURCE_CGROUP if command_cgroup else self.t.MEASURE_SOURCE_RUSAGE)
        self.assertEqual(v.cpu_source, source)
        self.assertGreater(v.cpu_time.ToNanoseconds(), 0)
        # With one id Box's own are of that user, too.
        self.assertEqual(sorted(name for name in hostile_lib.BoxdCase.commands_in(self, "ends")
                                if not name.startswith("box-")), ["sh", "sleep"])
        self.client.run("kill -9 -1", "ends", timeout=5)
        v = other.result().verdict
        self.assertEqual((v.status, v.signal), (self.t.VERDICT_STATUS_COMPLETED, 9))
        self.assertEqual(self.client.out("echo after", "ends"), "after")
        self.assertEqual({g.name for g in session.guarantees if g.holds}, self.holds()[0])
        self.client.delete("ends")

    def check(self, lacking, word):
        """The report lacks exactly these, and everything is as it says; then nothing is left."""
        holds, detail = self.holds()
        names = ALWAYS | LIMITS | {"command_cgroup", "host_mount", "persistent"}
        self.assertEqual(names - holds, lacking)
        self.assertIn(word, detail)
        self.check_memory("memory" in holds)
        self.check_pids("pids" in holds)
        self.check_cpu("cpu" in holds)
        for name in lacking:
            self.refused(name, guarantees=[name])
        self.check_ends("command_cgroup" in holds)
        self.client.close()
        self.boxd.stop()

    # --- the hosts --------------------------------------------------------------------------------

    @unittest.skipUnless(cgroups_of("cgroup") and cgroups_of("cgroup2"), "not a hybrid host")
    def test_pure_v1(self):
        self.start(in_mounts("\n".join(f"umount {p}" for p in cgroups_of("cgroup2"))))
        self.check({"command_cgroup"}, "cgroup v1,")

    @unittest.skipUnless(cgroups_of("cgroup") and cgroups_of("cgroup2"), "not a hybrid host")
    def test_v2_without_controllers(self):
        self.start(in_mounts("\n".join(f"umount {p}" for p in cgroups_of("cgroup"))))
        self.check(LIMITS, "cgroup v2,")

    def test_no_control_groups(self):
        self.start(in_mounts(UNMOUNT))
        self.check(LIMITS | {"command_cgroup"}, "cgroup none,")

    def test_control_groups_that_cannot_be_written(self):
        self.start(in_mounts("\n".join(f"mount -o remount,bind,ro {p}"
                                       for p in hostile_lib.cgroup_roots())))
        self.check(LIMITS | {"command_cgroup"}, "cgroup none,")

    def test_a_private_control_group_namespace(self):
        self.start(["unshare", "--cgroup", *in_mounts("true")])
        self.check(set(), "cgroup")

    def test_a_profile_that_blocks_clone3(self):
        self.start(self.weak("no-clone3"))
        self.check(set(), "cgroup")

    def test_an_older_kernel(self):
        self.start(self.weak("old-kernel"))
        self.check({"host_mount"}, "cgroup")  # idmapped mounts came with 5.12, openat2 with 5.6

    def test_without_the_right_to_raise_limits(self):
        self.start(["setpriv", "--bounding-set=-sys_resource", "--inh-caps=-sys_resource"])
        self.check(set(), "cgroup")

    def unavailable(self, prefix):
        """No backend, said with a reason; nothing runs in a weaker box instead."""
        self.boxd = Boxd(hostile_lib.sys.argv[1], start=False, warden_prefix=prefix)
        self.addCleanup(self.boxd.kill)
        self.boxd.start_warden()
        self.boxd.start_boxd(wait_backend=False)
        self.client = Client(self.boxd, self.boxd.token)
        pb = self.client.pb.control
        info = lib.wait_for(lambda: next((b for b in [self.client.control.GetBackendInfo(
            pb.GetBackendInfoRequest(backend="namespace")).backend]
                                       if b.error and "connect" not in b.error
                                       and "no warden listens" not in b.error), None), "it says why")
        self.assertFalse(info.available)
        for call in (lambda: self.client.run(["true"]), lambda: self.client.create("x")):
            with self.assertRaises(grpc.RpcError) as caught:
                call()
            failure = hostile_lib.Failure(caught.exception)
            self.assertEqual((failure.code, failure.reason),
                             (grpc.StatusCode.UNAVAILABLE, "BACKEND_UNAVAILABLE"), failure)
        self.assertFalse(self.client.control.Health(pb.HealthRequest()).available)
        self.client.close()
        self.boxd.stop()
        return info.error

    def test_without_user_namespaces(self):
        self.assertIn("user namespace", self.unavailable(self.weak("no-userns")))

    def test_without_the_right_to_mount(self):
        self.assertTrue(self.unavailable(["setpriv", "--bounding-set=-sys_admin",
                                          "--inh-caps=-sys_admin"]))

    def test_with_parts_of_proc_hidden(self):
        self.assertIn("/proc are hidden", self.unavailable(in_mounts("mount --bind /dev/null /proc/keys")))

    # --- an ordinary user ---------------------------------------------------------------------------

    def test_as_an_ordinary_user(self):
        self.start([], ordinary=Ordinary())
        self.check(LIMITS | {"command_cgroup", "host_mount", "user", "agent_separated"}, "one user id")

    @unittest.skipUnless(hostile_lib.which("newuidmap"), "package uidmap is not installed")
    def test_as_an_ordinary_user_with_ids(self):
        self.start([], ordinary=Ordinary(ids=True))
        self.check(LIMITS | {"command_cgroup", "host_mount"}, "no root")

    @unittest.skipUnless(cgroups_of("cgroup") and cgroups_of("cgroup2"), "not a hybrid host")
    def test_as_an_ordinary_user_with_a_control_group(self):
        """One that was given to the user, as systemd does with Delegate=yes."""
        user = Ordinary(ids=bool(hostile_lib.which("newuidmap")))
        group = os.path.join(cgroups_of("cgroup2")[0], f"box-user-{user.uid}")
        os.mkdir(group)
        self.addCleanup(hostile_lib.wait_until, lambda: hostile_lib.remove_directory(group), 5)
        for name in ("", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"):
            os.chown(os.path.join(group, name), user.uid, user.uid)
        self.start(["sh", "-c", f'echo 0 >{group}/cgroup.procs && exec "$@"', "sh"], ordinary=user)
        self.check(LIMITS | {"host_mount"} | (set() if user.ids else {"user", "agent_separated"}),
                   "cgroup v2,")
        self.assertEqual([name for name in os.listdir(group) if os.path.isdir(f"{group}/{name}")], [])

    def ordinary_client(self, prefix=()):
        """boxcli of an ordinary user with a private pair; nothing but the programs is there."""
        folder = self.boxd_folder()
        os.chmod(folder, 0o755)
        home = os.path.join(folder, "home")
        user = Ordinary()
        os.mkdir(home)
        os.chown(home, user.uid, user.uid)
        for name in ("boxcli", "boxd", "box-warden", "box-agent", "box-files"):
            hostile_lib.shutil.copy(os.path.join(hostile_lib.sys.argv[1], name), folder)
        run = [*prefix, *user.prefix(folder), os.path.join(folder, "boxcli"), "run", "--", "python3",
               "-c", "print(6*7)"]
        done = subprocess.run(run, check=False, capture_output=True, text=True, timeout=60, cwd="/",
                              env={"HOME": home, "PATH": folder + ":/usr/bin:/bin",
                                   "BOX_ENDPOINT": "spawn:boxd"})
        self.assertTrue(hostile_lib.wait_until(lambda: not any(user.processes())))
        self.assertFalse(os.path.exists(f"/tmp/box-private-{user.uid}"))
        self.assertEqual(os.listdir(home), [])
        return done

    def test_boxcli_of_an_ordinary_user(self):
        done = self.ordinary_client()
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "42\n", ""))

    def test_boxcli_of_an_ordinary_user_without_user_namespaces(self):
        done = self.ordinary_client(self.weak("no-userns"))
        self.assertIn("user namespaces are switched off for ordinary users", done.stderr)
        self.assertEqual((done.returncode, done.stdout), (125, ""))


if __name__ == "__main__":
    hostile_lib.main()
