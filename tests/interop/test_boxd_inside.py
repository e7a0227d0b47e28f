"""What a command sees and can do inside its sandbox (hostile-inputs rows 1, 10, 12, 13, 36, 37 in
their cheap forms), and that ordinary tools run there."""

import glob
import os
import socket
import unittest

import boxd_lib
import lib
from boxd_lib import BoxdCase, MIB
from grpc import StatusCode

CANARY = "box-canary-0b1c2d3e4f"  # stands for a secret in the server's environment


def setUpModule():
    os.environ["BOX_CANARY_SECRET"] = CANARY
    BoxdCase.start_server()


def tearDownModule():
    BoxdCase.stop_server()


class Case(BoxdCase):
    def out(self, what, **fields):
        return self.client.out(what, self.sid, **fields)

    def python(self, text, **fields):
        """Standard output of a Python program inside."""
        return self.out(["/usr/bin/python3", "-c", text], **fields)

    def refused(self, text, *words):
        """The shell text fails inside with one of these words."""
        answer = self.client.run(text, self.sid)
        self.assertNotEqual(answer.verdict.exit_code, 0, answer)
        said = (answer.stdout_data + answer.stderr_data).decode()
        self.assertTrue(any(word in said for word in words), said)


class Tools(Case):
    def test_python(self):
        self.assertEqual(self.python("print(6*7)"), "42")
        self.assertEqual(self.python(
            "import json,ssl,sqlite3,subprocess,threading,multiprocessing,tempfile,hashlib\n"
            "t = threading.Thread(target=print, args=('thread',)); t.start(); t.join()\n"
            "print(subprocess.run(['echo','sub'], capture_output=True).stdout.decode(), end='')\n"
            "with multiprocessing.Pool(2) as p: print(p.map(abs, [-1, -2]))\n"
            "with tempfile.TemporaryFile() as f: f.write(b'x')\n"), "thread\nsub\n[1, 2]")

    @unittest.skipUnless(boxd_lib.which("node"), "no node on this host")
    def test_node(self):
        self.assertEqual(self.out(["node", "-e", "console.log(6*7)"], timeout=20), "42")
        self.assertEqual(self.out(
            ["node", "-e", "const {Worker} = require('worker_threads');"
             "new Worker('require(\"worker_threads\").parentPort.postMessage(5)', {eval: true})"
             ".on('message', (m) => console.log(m))"], timeout=20), "5")

    @unittest.skipUnless(boxd_lib.which("gcc"), "no gcc on this host")
    def test_gcc_compiles_and_the_program_runs(self):
        self.assertEqual(self.out(
            "printf '#include <stdio.h>\\nint main(void){puts(\"made\");}' >a.c && gcc a.c -o a "
            "&& ./a", timeout=30), "made")

    @unittest.skipUnless(boxd_lib.which("git"), "no git on this host")
    def test_git(self):
        self.assertEqual(self.out(
            "git init -q repo && cd repo && git config user.email a@b && git config user.name n && "
            "echo x >f && git add f && git commit -qm first && git log --format=%s", timeout=20),
            "first")

    @unittest.skipUnless(boxd_lib.which("pip"), "no pip on this host")
    def test_pip(self):
        self.assertIn("pip", self.out("pip --version", timeout=30))

    def test_usual_programs(self):
        self.out("ls / /etc /workspace >/dev/null; date; id -un; tar --version; "
                 "find /workspace; test -w /tmp; sort </etc/passwd; awk 'BEGIN{}'; uname -a")


class View(Case):
    def test_who_a_command_is(self):
        self.assertEqual(self.out("id -u; id -g; id -G; id -un; echo $HOME; pwd; umask"),
                         "1000\n1000\n1000\nbox\n/home\n/workspace\n0022")

    def test_no_capabilities_and_no_new_privileges(self):
        status = dict(line.split(":\t", 1) for line in
                      self.out("cat /proc/self/status").splitlines() if ":\t" in line)
        for key in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
            self.assertEqual(int(status[key], 16), 0, key)
        self.assertEqual((status["NoNewPrivs"], status["Seccomp"].strip()), ("1", "2"))

    def test_setuid_programs_gain_nothing(self):
        self.refused("su -c id root </dev/null", "Authentication", "setgid", "denied",
                     "abort", "must be", "not permitted")
        self.refused("mount -t tmpfs x /mnt", "permission", "denied", "must be", "permitted")

    def test_a_session_and_group_of_its_own(self):
        pid, group, session = self.python(
            "import os; print(os.getpid(), os.getpgid(0), os.getsid(0))").split()
        self.assertEqual((group, session), (pid, pid))

    def test_only_three_descriptors(self):
        self.assertEqual(self.python(
            "import os\nprint([f for f in range(1024) if os.path.exists(f'/proc/self/fd/{f}')])"),
            "[0, 1, 2]")

    def test_other_processes_are_not_there(self):
        pids = self.python("import os; print(*sorted(int(p) for p in os.listdir('/proc') if "
                           "p.isdigit()))").split()
        self.assertLessEqual(len(pids), 5, pids)
        self.assertNotIn(str(self.boxd.boxd.pid), pids)
        self.refused(f"kill -0 {self.boxd.boxd.pid}", "No such process")

    def test_the_agent_cannot_be_read_signalled_or_traced(self):
        for name in ("environ", "mem", "maps", "exe", "fd", "root", "cwd", "ns/mnt"):
            self.refused(f"ls -l /proc/1/{name}/ 2>&1; cat /proc/1/{name}", "denied")
        for signal in (9, 15, 19):
            self.refused(f"kill -{signal} 1", "not permitted")
        self.assertEqual(self.python(
            "import ctypes; c = ctypes.CDLL(None, use_errno=True)\n"
            "print(c.ptrace(16, 1, 0, 0), ctypes.get_errno())"), "-1 1")  # ATTACH: EPERM
        self.out("true")

    def test_the_root_is_read_only(self):
        for path in ("/x", "/usr/x", "/etc/x", "/usr/bin/x", "/var/x", "/opt/x"):
            self.refused(f"echo x >{path}", "Read-only", "denied", "nonexistent", "No such")
        self.refused("rm -f /usr/bin/env", "Read-only", "denied")
        self.out("for d in /workspace /tmp /home /dev/shm; do echo x >$d/file || exit 1; done")

    def test_tmp_home_and_shm_are_the_sandboxes_own(self):
        self.out("echo secret | tee /tmp/f /home/f /dev/shm/f")
        other = self.sid + "-other"
        self.addCleanup(self.client.delete, other)
        self.assertEqual(self.client.out("ls -A /tmp /home /dev/shm", other),
                         "/dev/shm:\n\n/home:\n\n/tmp:")
        self.assertFalse(os.path.exists("/tmp/f"))

    def test_tmpfs_sizes_are_hard_limits(self):
        for path, size in (("/workspace", 64), ("/tmp", 64), ("/home", 16), ("/dev/shm", 16)):
            answer = self.client.run(f"head -c 80M /dev/zero >{path}/f; stat -c %s {path}/f; "
                                     f"rm {path}/f", self.sid)
            self.assertIn(b"No space", answer.stderr_data, path)
            self.assertLessEqual(int(answer.stdout_data), size * MIB, path)
        answer = self.client.run("cd /home; i=0; while : >f$i; do i=$((i+1)); done; ls | wc -l",
                                 self.sid)
        self.assertLess(int(self.out("ls /home | wc -l")), 5000, answer)

    def test_dev_and_proc_are_minimal(self):
        devices = self.out("ls /dev").split()
        self.assertLessEqual(set(devices), {
            "null", "zero", "full", "random", "urandom", "tty", "fd", "stdin", "stdout", "stderr",
            "shm", "pts", "ptmx", "mqueue"})
        self.refused("mknod /tmp/n c 1 3", "not permitted")
        for path in ("/proc/sys/kernel/core_pattern", "/proc/sys/vm/swappiness"):
            self.refused(f"echo 1 >{path}", "denied", "Read-only", "nonexistent")
        # The null device lies over it, where the kernel has it at all.
        self.assertIn(self.out("stat -c %t:%T /proc/sysrq-trigger 2>/dev/null || echo none"),
                      ("1:3", "none"))
        for path in ("/proc/kcore", "/proc/keys", "/proc/timer_list"):
            self.assertEqual(self.out(f"head -c 100 {path} 2>/dev/null | wc -c"), "0", path)
        self.assertEqual(self.out("grep -v '^0* ' /proc/kallsyms 2>/dev/null | wc -l"), "0")
        self.refused("ls /sys/kernel/debug /sys/fs/cgroup/cpu", "No such", "denied", "cannot")

    def test_host_names_and_users_do_not_leak(self):
        self.assertNotEqual(self.out("hostname || cat /proc/sys/kernel/hostname"),
                            socket.gethostname())
        users = self.out("cut -d: -f1,3 /etc/passwd").split()
        self.assertIn("box:1000", users)
        self.assertLessEqual(len(users), 4)
        self.refused("cat /etc/shadow", "No such", "denied")
        self.assertEqual(self.out("ls -A /root /srv /mnt /media /var/log /run 2>/dev/null | "
                                  "grep -v : | grep -c ."
                                  " || true"), "0")

    def test_system_calls_that_are_closed_fail_and_kill_nobody(self):
        # x86-64 numbers: unshare, mount, keyctl, add_key, bpf, perf_event_open, userfaultfd,
        # io_uring_setup, kexec_load, init_module, open_by_handle_at, setns, pivot_root, reboot.
        numbers = (272, 165, 250, 248, 321, 298, 323, 425, 246, 175, 304, 308, 155, 169)
        self.assertEqual(self.python(
            "import ctypes; c = ctypes.CDLL(None, use_errno=True)\n"
            f"for n in {numbers}:\n"
            "    r = c.syscall(n, 0x10000000, 0, 0, 0, 0, 0)\n"
            "    e = ctypes.get_errno()\n"
            "    if r != -1 or e not in (1, 38): print(n, r, e)\n"
            "print('done')"), "done")


class Network(Case):
    def test_nothing_can_be_reached(self):
        with socket.create_server(("0.0.0.0", 0)) as listener:
            port = listener.getsockname()[1]
            text = (
                "import socket\n"
                "def attempt(family, kind, address):\n"
                "    try:\n"
                "        s = socket.socket(family, kind); s.settimeout(2)\n"
                "        s.connect(address); s.send(b'x')\n"
                "        if kind == socket.SOCK_STREAM: print('reached', address)\n"
                "    except OSError: pass\n"
                f"for port in ({self.boxd.port}, {port}):\n"
                "    for host in ('127.0.0.1', '10.0.0.1', '169.254.169.254'):\n"
                "        attempt(socket.AF_INET, socket.SOCK_STREAM, (host, port))\n"
                "    attempt(socket.AF_INET6, socket.SOCK_STREAM, ('::1', port))\n"
                "print('done')")
            self.assertEqual(self.python(text), "done")
            listener.settimeout(0.1)
            with self.assertRaises(TimeoutError):
                listener.accept()

    def test_there_is_only_a_loopback(self):
        lines = self.out("cat /proc/net/dev").splitlines()[2:]
        self.assertEqual([line.split(":")[0].strip() for line in lines], ["lo"])
        self.assertEqual(self.out("cat /proc/net/route | wc -l"), "1")

    def test_its_own_loopback_works(self):
        self.assertEqual(self.python(
            "import socket\n"
            "l = socket.create_server(('127.0.0.1', 0))\n"
            "c = socket.create_connection(l.getsockname())\n"
            "a, _ = l.accept(); a.send(b'hi'); print(c.recv(9).decode())"), "hi")

    def test_raw_packet_and_vsock_sockets_are_refused(self):
        self.assertEqual(self.python(
            "import socket\n"
            "for f, k in ((2, 3), (10, 3), (17, 3), (40, 1), (38, 5)):\n"
            "    try: socket.socket(f, k); print('made', f, k)\n"
            "    except OSError: pass\n"
            "print('done')"), "done")

    def test_no_socket_of_the_host_is_there(self):
        abstract = f"box-accept-{os.getpid()}"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind("\0" + abstract)
            listener.listen()
            paths = [self.boxd.socket, self.boxd.unix_socket, "/var/run/docker.sock",
                     "/run/docker.sock", "/run/containerd/containerd.sock",
                     "/run/dbus/system_bus_socket", "/run/systemd/private"]
            self.assertEqual(self.python(
                "import socket\n"
                f"for path in {paths!r} + ['\\0{abstract}']:\n"
                "    try: socket.socket(1).connect(path); print('reached', path)\n"
                "    except OSError: pass\n"
                "print('done')"), "done")
        self.assertEqual(self.out("find / -xdev -type s 2>/dev/null | wc -l"), "0")


class Secrets(Case):
    """Row 37: nothing of the server's is to be found."""

    def test_canaries_are_nowhere(self):
        with open(os.path.join(self.boxd.state_dir, "server.key"), encoding="ascii") as f:
            key = f.read().splitlines()[1]
        canaries = [self.boxd.token, key, CANARY, self.boxd.folder.path,
                    os.path.basename(self.boxd.folder.path)]
        seen = self.client.run(
            "env; cat /proc/*/environ /proc/*/cmdline /proc/*/maps /proc/*/mountinfo "
            "/proc/*/cgroup; ls -l /proc/*/fd /proc/*/cwd /proc/*/root /proc/*/exe; "
            "grep -ra box- /etc /workspace /tmp /home; cat /proc/mounts; find / -xdev -newer "
            "/proc/1 -type f", self.sid, output_limit_bytes=7 * MIB)
        text = (seen.stdout_data + seen.stderr_data).decode(errors="replace")
        self.assertGreater(len(text), 1000)
        for canary in canaries:
            self.assertNotIn(canary, text.replace("\0", "\n"))

    def test_memory_that_can_be_read_holds_none(self):
        found = self.python(
            "import re, os\n"
            "blob = b''\n"
            "for p in os.listdir('/proc'):\n"
            "    if not p.isdigit() or int(p) == os.getpid(): continue\n"
            "    try:\n"
            "        maps = open(f'/proc/{p}/maps').read(); mem = open(f'/proc/{p}/mem', 'rb')\n"
            "        print('readable', p)\n"
            "    except OSError: continue\n"
            "print('done')")
        self.assertEqual(found, "done")

    def test_logs_name_no_secret(self):
        self.client.run(["sh", "-c", "echo hidden-argument"], self.sid,
                        env={"K": "hidden-value"}, stdin=b"hidden-input")
        logs = self.boxd.logs()
        for canary in (self.boxd.token, CANARY, "hidden-argument", "hidden-value",
                       "hidden-input"):
            self.assertNotIn(canary, logs)

    def test_files_of_the_server_are_closed_to_others(self):
        for name, mode in (("admin.token", 0o600), ("server.key", 0o600), ("unix", 0o600)):
            info = os.stat(os.path.join(self.boxd.state_dir, name))
            self.assertEqual(info.st_mode & 0o777, mode, name)
            self.assertEqual(info.st_uid, boxd_lib.BOXD_UID, name)
        self.assertEqual(os.stat(self.boxd.state_dir).st_mode & 0o777, 0o700)
        for path, _, names in os.walk(self.boxd.state_dir):
            for name in names:
                if os.path.isfile(os.path.join(path, name)):
                    with open(os.path.join(path, name), "rb") as f:
                        found = self.boxd.token.encode() in f.read()
                    self.assertEqual(found, name == "admin.token", name)

    def test_boxd_has_no_rights(self):
        with open(f"/proc/{self.boxd.boxd.pid}/status", encoding="ascii") as f:
            status = dict(line.split(":\t", 1) for line in f if ":\t" in line)
        self.assertEqual(status["Uid"].split()[0], str(boxd_lib.BOXD_UID))
        self.assertEqual(int(status["CapEff"], 16), 0)
        self.assertEqual(boxd_lib.descendants(self.boxd.boxd.pid), [])  # it never forks


class Resources(Case):
    def test_memory_is_limited_together(self):
        spec = {"memory_bytes": 32 * MIB, "workspace_limit_bytes": MIB}
        answer = self.client.run(
            "for i in 1 2 3 4 5 6 7 8; do /usr/bin/python3 -c 'x = b\"x\" * (32 << 20); "
            "import time; time.sleep(1)' & done; wait; echo end", self.sid, spec=spec)
        self.assertGreaterEqual(answer.verdict.oom_kills, 1)
        lib.wait_for(lambda: self.client.get(self.sid).usage.oom_kills >= 1, "it is counted")

    def test_the_agent_has_room_beside_the_commands_limits(self):
        """Where it has no group of its own below the sandbox's: v1, one memory group less."""
        uid = self.client.create(self.sid, memory_bytes=32 * MIB, pids_limit=50).uid
        self.assert_room_beside(uid)
        self.client.sessions.UpdateSession(self.client.pb.session.UpdateSessionRequest(
            session_id=self.sid, spec={"memory_bytes": 64 * MIB, "pids_limit": 70},
            update_mask={"paths": ["memory_bytes", "pids_limit"]}))
        self.assert_room_beside(uid)

    def assert_room_beside(self, uid):
        groups = [g for base in self.boxd.cgroups for g in glob.glob(f"{base}/*/{uid}")
                  if not os.path.exists(f"{g}/agent")]
        for name, room in (("memory.limit_in_bytes", 32 * MIB), ("pids.max", 32)):
            for group in [g for g in groups if os.path.exists(f"{g}/box/{name}")]:
                limits = [boxd_lib.read_numbers(f"{group}/{at}{name}").pop() for at in ("", "box/")]
                self.assertEqual(limits[0] - limits[1], room, group)

    def test_cpu_is_limited(self):
        v = self.client.run("timeout 1 sh -c 'while :; do :; done'; true", self.sid,
                            spec={"cpu_millis": 200}).verdict
        self.assertLess(v.cpu_time.ToNanoseconds() / v.wall_time.ToNanoseconds(), 0.35, v)

    def test_descriptors_of_one_process_are_limited(self):
        n = int(self.out("ulimit -n"))
        self.assertTrue(64 <= n <= 1 << 20, n)

    def test_destroying_its_own_sandbox_is_told(self):
        self.client.run("rm -rf /workspace/* /tmp/* /home/* 2>/dev/null; chmod 0 /workspace; "
                        "kill -9 -1", self.sid)
        answer = self.client.run(["/bin/true"], self.sid, workdir="/tmp")
        self.completes(answer)
        try:
            self.client.run(["/bin/true"], self.sid)
        except boxd_lib.grpc.RpcError as e:
            self.assertEqual(e.code(), StatusCode.PERMISSION_DENIED)


if __name__ == "__main__":
    boxd_lib.main()
