"""hostile-inputs.md rows 1, 2, 8, 12, 23, 25, 26: commands against the agent, against other sessions and
against the pipes they are given."""

import hashlib
import os
import time

import grpc

import hostile_lib
import lib
from hostile_lib import HostileCase, MIB
from grpc import StatusCode


def setUpModule():
    HostileCase.start_server()


def tearDownModule():
    HostileCase.stop_server()


def digest(path):
    """SHA-256 of a file."""
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).digest()


class Row1(HostileCase):
    """CVE-2024-21626: no descriptor of the runtime is a way out."""

    def test_no_descriptor_is_a_working_directory(self):
        self.client.create(self.sid)
        for where in [f"/proc/self/fd/{fd}" for fd in range(3, 24)] + ["/dev/fd/4"]:
            with self.assertRaises(grpc.RpcError) as caught:
                self.client.run(["ls", ".."], self.sid, workdir=where)
            self.assertIn(caught.exception.code(),
                          (StatusCode.NOT_FOUND, StatusCode.PERMISSION_DENIED), where)
        for where in ("/proc/1/root", "/proc/1/cwd", "/proc/2/root"):
            self.fails(StatusCode.PERMISSION_DENIED, "PERMISSION",
                       lambda where=where: self.client.run(["ls"], self.sid, workdir=where))
        for where in ("/proc/self/cwd/..", "/workspace/../../..", "/proc/self/root/.."):
            self.assertEqual(self.client.out(["ls", "/proc/self/cwd/"], self.sid, workdir=where),
                             self.client.out(["ls", "/"], self.sid), where)


class Row2(HostileCase):
    """CVE-2019-5736: the agent's program cannot be written through a process."""

    def test_no_program_of_ours_can_be_opened_for_writing(self):
        programs = [os.path.join(self.boxd.bin_dir, name) for name in ("box-agent", "box-warden")]
        before = [digest(p) for p in programs]
        self.client.create(self.sid, max_parallel_execs=4)
        script = ("n=0; while [ $n -lt 400 ]; do n=$((n+1)); for p in /proc/[0-9]*; do "
                  "{ : >>$p/exe; } 2>/dev/null && case $p in /proc/1|/proc/2) echo written $p;; esac; "
                  "done; done; true")
        hunter = self.client.execs.Exec.future(self.client.exec_request(script, self.sid), timeout=60)
        self.client.run("printf '#!/proc/self/exe\\n' >x; chmod +x x", self.sid)
        for _ in range(100):
            try:
                self.client.run(["/workspace/x"], self.sid)
            except grpc.RpcError as error:
                self.assertIn(error.code(), (StatusCode.INVALID_ARGUMENT, StatusCode.NOT_FOUND,
                                             StatusCode.PERMISSION_DENIED,
                                             StatusCode.FAILED_PRECONDITION, StatusCode.INTERNAL))
        self.assertEqual(hunter.result().stdout_data, b"")
        self.assertEqual([digest(p) for p in programs], before)


class Row8(HostileCase):
    """What is loaded by name of the environment is loaded into the caller's program only."""

    def test_preloads_see_only_the_command(self):
        self.client.create(self.sid)
        self.completes(self.client.run(
            "cat >x.c <<'C'\n#include <stdio.h>\n#include <unistd.h>\n#include <sys/types.h>\n"
            "__attribute__((constructor)) static void seen(void)\n"
            "{ FILE *f = fopen(\"/workspace/seen\", \"a\"); "
            "if (f) { fprintf(f, \"%d %d\\n\", (int)getuid(), (int)getpid() > 2); fclose(f); } }\nC\n"
            "gcc -shared -fPIC -o x.so x.c", self.sid))
        self.completes(self.client.run(["true"], self.sid, env={
            "LD_PRELOAD": "/workspace/x.so", "BASH_ENV": "/workspace/x", "ENV": "/workspace/x",
            "LD_LIBRARY_PATH": "/workspace", "GCONV_PATH": "/workspace",
            "NODE_OPTIONS": "--require /workspace/x.js", "PYTHONSTARTUP": "/workspace/x"}))
        self.assertEqual(self.client.out("sort -u seen", self.sid), "1000 1")


class Row12(HostileCase):
    """Two sessions meet nowhere: sockets, shared memory, queues, files, processes."""

    def test_sessions_share_nothing(self):
        other = self.sid + "2"
        for name in (self.sid, other):
            self.client.create(name, max_parallel_execs=2)
            self.addCleanup(self.client.delete, name)
        setup = r"""
import ctypes, os, socket, time
c = ctypes.CDLL(None, use_errno=True)
s = socket.socket(socket.AF_UNIX); s.bind("\0meeting"); s.listen()
t = socket.socket(); t.bind(("127.0.0.1", 4444)); t.listen()
assert c.shmget(0x4711, 4096, 0o1666) >= 0
assert c.msgget(0x4711, 0o1666) >= 0
assert c.semget(0x4711, 1, 0o1666) >= 0
assert c.mq_open(b"/meeting", os.O_CREAT | os.O_RDWR, 0o666, None) >= 0
for d in ("/tmp", "/dev/shm", "/home", "/workspace"):
    open(d + "/meeting", "w").write("secret")
print("ready", flush=True)
time.sleep(60)
"""
        probe = r"""
import ctypes, os, socket
c = ctypes.CDLL(None, use_errno=True)
found = []
for address, family in (("\0meeting", socket.AF_UNIX), (("127.0.0.1", 4444), socket.AF_INET)):
    try:
        socket.socket(family).connect(address); found.append(str(address))
    except OSError:
        pass
for name, rc in (("shm", c.shmget(0x4711, 4096, 0)), ("msg", c.msgget(0x4711, 0)),
                 ("sem", c.semget(0x4711, 1, 0)), ("mq", c.mq_open(b"/meeting", os.O_RDWR))):
    if rc >= 0:
        found.append(name)
found += [d for d in ("/tmp", "/dev/shm", "/home", "/workspace") if os.path.exists(d + "/meeting")]
found += [p for p in os.listdir("/proc") if p.isdigit() and
          b"4711" in open("/proc/%s/cmdline" % p, "rb").read() and int(p) not in (os.getpid(), )]
print(found)
"""
        waiting = self.client.execs.Exec.future(
            self.client.exec_request(["python3", "-c", setup], self.sid, timeout=30), timeout=60)
        lib.wait_for(lambda: self.client.run("test -e /workspace/meeting", self.sid)
                     .verdict.exit_code == 0, "the other one is ready")
        self.assertEqual(self.client.out(["python3", "-c", probe], other), "[]")
        mine = self.client.out(["python3", "-c", probe], self.sid)
        self.assertIn("shm", mine)  # the probe can find them
        self.assertIn("meeting", mine)
        waiting.cancel()


class Row23(HostileCase):
    """Tricks with the pipes that a command is given."""

    def runs(self, what, **fields):
        begin = time.monotonic()
        answer = self.client.run(what, self.sid, **fields)
        self.assertLess(time.monotonic() - begin, 8)
        return answer

    def test_a_descriptor_passed_on_keeps_nobody_waiting(self):
        script = r"""
import array, os, socket, time
a, b = socket.socketpair()
if os.fork() == 0:
    os.setsid()
    fds = array.array("i", b.recvmsg(1, 100)[1][0][2])
    os.close(1); os.close(2)
    time.sleep(60)
a.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [1, 2]))])
os.write(1, b"done\n")
os._exit(7)
"""
        answer = self.runs(["python3", "-c", script])
        self.assertEqual((answer.stdout_data, answer.verdict.exit_code), (b"done\n", 7))
        self.assertEqual(answer.verdict.leftover_processes, 1)
        self.assertEqual(self.client.out(["echo", "next"], self.sid), "next")

    def test_output_that_somebody_inside_reads(self):
        # The pipe can be opened again: it is the command's own.
        answer = self.runs("(setsid cat /proc/self/fd/1 >/dev/null 2>&1 &); head -c 100000 /dev/zero; "
                           "exit 4", timeout=5)
        self.assertEqual(answer.verdict.exit_code, 4)
        self.assertLessEqual(answer.verdict.stdout_report.total_bytes, 100000)

    def test_streams_that_are_closed_and_made_nonblocking(self):
        self.assertEqual(self.runs("exec <&- >&- 2>&-; exit 3").verdict.exit_code, 3)
        script = ("import os, fcntl\nfcntl.fcntl(1, fcntl.F_SETFL, os.O_NONBLOCK)\n"
                  "try:\n  while True: os.write(1, bytes(65536))\nexcept BlockingIOError: pass\n"
                  "os._exit(5)")
        self.assertEqual(self.runs(["python3", "-c", script]).verdict.exit_code, 5)


class Row25(HostileCase):
    """Signals to everybody, again and again, while commands start."""

    def test_starts_survive_a_storm_of_stops(self):
        self.client.create(self.sid, max_parallel_execs=8)
        self.compile("storm", self.sid)
        storm = self.client.execs.Exec.future(
            self.client.exec_request(["/workspace/storm", "19"], self.sid, timeout=20), timeout=60)
        ended = {"exit": 0, "timeout": 0}
        for _ in range(40):
            answer = self.client.run(["echo", "x"], self.sid, timeout=1)
            if answer.verdict.status == self.pb.types.VERDICT_STATUS_TIMED_OUT:
                ended["timeout"] += 1  # stopped after its start: its own affair
                continue
            self.assertEqual((answer.verdict.exit_code, answer.stdout_data), (0, b"x\n"))
            ended["exit"] += 1
        storm.cancel()
        lib.wait_for(lambda: self.client.run("true", self.sid, timeout=5).verdict.status ==
                     self.pb.types.VERDICT_STATUS_COMPLETED, "the session is as before")

    def test_starts_survive_a_storm_of_kills(self):
        self.client.create(self.sid, max_parallel_execs=8)
        self.compile("storm", self.sid)
        storm = self.client.execs.Exec.future(
            self.client.exec_request(["/workspace/storm", "9"], self.sid, timeout=20), timeout=60)
        for _ in range(100):
            try:
                verdict = self.client.run("sleep 0.01; exit 7", self.sid).verdict
            except grpc.RpcError as error:
                self.assertEqual(error.code(), StatusCode.INTERNAL)  # killed before its exec
                continue
            self.assertIn((verdict.status, verdict.exit_code, verdict.signal),
                          ((self.pb.types.VERDICT_STATUS_COMPLETED, 7, 0),
                           (self.pb.types.VERDICT_STATUS_COMPLETED, 0, 9)))
            self.assertNotEqual(verdict.HasField("exit_code"), verdict.HasField("signal"))
        storm.cancel()
        self.assertEqual(self.client.out(["echo", "after"], self.sid), "after")


class Row26(HostileCase):
    """Fork bombs, threads and zombies end at the sandbox's limit; others do not notice."""

    def test_a_bomb(self):
        self.client.create(self.sid)
        bomb = self.client.execs.Exec.future(self.client.exec_request(
            "b() { b | b & }; b; while :; do b; done", self.sid, timeout=3,
            leftovers=self.pb.types.LEFTOVER_POLICY_KILL), timeout=60)
        slowest = 0
        while not bomb.done():
            begin = time.monotonic()
            self.honest()
            slowest = max(slowest, time.monotonic() - begin)
        self.assertIn(bomb.result().verdict.status,  # or its shell gave up: "Cannot fork"
                      (self.pb.types.VERDICT_STATUS_TIMED_OUT,
                       self.pb.types.VERDICT_STATUS_COMPLETED))
        self.assertLess(slowest, 5)
        self.assertEqual(self.client.out("ps ax -o stat= | grep -c Z; true", self.sid), "0")
        self.assertEqual(self.client.out(["echo", "after"], self.sid), "after")

    def test_memory_of_every_kind_is_the_sandboxes_own(self):
        self.client.create(self.sid)
        ways = ("x = []\nwhile True: x.append(bytearray(1 << 20))",
                "import os\nf = os.memfd_create('x')\nwhile True: os.write(f, bytes(1 << 20))",
                "import socket\nx = []\nwhile True:\n  a, b = socket.socketpair()\n"
                "  a.setblocking(False)\n  x += [a, b]\n  try:\n    while True: a.send(bytes(4096))\n"
                "  except OSError: pass")
        for way in ways:
            answer = self.client.run(["python3", "-c", way], self.sid, timeout=15)
            self.assertIn(answer.verdict.status, (self.pb.types.VERDICT_STATUS_OOM_KILLED,
                                                  self.pb.types.VERDICT_STATUS_COMPLETED))
            self.assertNotEqual((answer.verdict.HasField("exit_code"), answer.verdict.exit_code),
                                (True, 0))
            self.assertEqual(self.client.out(["echo", "after"], self.sid), "after")


class SocketMemory(HostileCase):
    """bug.socket-memory: what TCP holds is bounded too. On cgroup v1 a sandbox of 672 MiB took 2.5 GiB,
    all that the machine has for TCP."""

    FILL = r"""
import os, socket, time
for p in range(8):
    if os.fork() == 0:
        server = socket.create_server(("127.0.0.1", 0), backlog=100)
        kept = []
        end = time.monotonic() + 3
        while len(kept) < 800 and time.monotonic() < end:
            a = socket.create_connection(server.getsockname())
            a.setblocking(False)
            kept += [a, server.accept()[0]]
            try:
                while time.monotonic() < end:
                    a.send(bytes(65536))
            except OSError:
                pass
        time.sleep(max(0, end - time.monotonic()))
        os._exit(0)
time.sleep(4)
"""

    @staticmethod
    def tcp_bytes():
        with open("/proc/net/sockstat", encoding="ascii") as f:
            for line in f:
                if line.startswith("TCP:"):
                    return int(line.split()[-1]) * 4096
        return 0

    def test_tcp_buffers(self):
        self.client.create(self.sid)
        before = most = self.tcp_bytes()
        filling = self.client.execs.Exec.future(self.client.exec_request(
            ["python3", "-c", self.FILL], self.sid, timeout=10), timeout=60)
        while not filling.done():
            most = max(most, self.tcp_bytes())
            time.sleep(0.05)
        filling.result()
        self.assertLess(most - before, 512 * MIB)


class Row42(HostileCase):
    """One tenant's flood of sandboxes is not all before another's one."""

    SESSIONS = 200

    def test_creates_and_deletes_take_turns(self):
        admin, pb = self.client.admin, self.pb
        admin.CreateTenant(pb.admin.CreateTenantRequest(
            tenant=pb.admin.Tenant(tenant_id="neighbour")))
        self.addCleanup(admin.DeleteTenant, pb.admin.DeleteTenantRequest(tenant_id="neighbour"))
        neighbour = self.boxd.client(admin.CreateToken(pb.admin.CreateTokenRequest(
            tenant_id="neighbour", scopes=["exec.write"])).secret)
        self.assertEqual(neighbour.out(["echo", "1"]), "1")
        names = [f"{self.sid}-{i}" for i in range(self.SESSIONS)]
        sessions, requests = self.client.sessions, pb.session
        for call, request in ((sessions.CreateSession, requests.CreateSessionRequest),
                              (sessions.DeleteSession, requests.DeleteSessionRequest)):
            floods = [call.future(request(session_id=n), timeout=60) for n in names]
            begin, slowest = time.monotonic(), 0
            while not all(f.done() for f in floods):
                start = time.monotonic()
                self.assertEqual(neighbour.out(["echo", "1"]), "1")
                slowest = max(slowest, time.monotonic() - start)
            for f in floods:
                f.result()
            # Behind all of them it would take about as long as they do.
            self.assertLess(slowest, max(1, (time.monotonic() - begin) / 2))
        neighbour.close()


if __name__ == "__main__":
    hostile_lib.main()
