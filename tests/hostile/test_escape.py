"""hostile-inputs.md rows 5, 9, 13 and 37: ways out through control groups, build steps and the network,
and secrets of the server that a command might find."""

import glob
import os
import resource
import signal
import socket
import threading

import hostile_lib
import lib
from hostile_lib import HostileCase, MIB

CANARY = "box-canary-7d1f0c55aa"  # stands for a secret in the servers' environment


def setUpModule():
    os.environ["BOX_CANARY_KEY"] = CANARY
    HostileCase.start_server()


def tearDownModule():
    HostileCase.stop_server()


class Row5(HostileCase):
    """CVE-2022-0492: no control group's release_agent can be reached, in any namespace one can make."""

    @staticmethod
    def on_host():
        """What all hierarchies of the host say, to see that nothing changed it."""
        found = {}
        for root in hostile_lib.cgroup_roots():
            for name in ("release_agent", "notify_on_release"):
                try:
                    with open(os.path.join(root, name), encoding="ascii") as f:
                        found[root, name] = f.read()
                except OSError:
                    pass
        return found

    def test_no_release_agent(self):
        before = self.on_host()
        self.assertEqual(self.client.out(
            "grep -c cgroup /proc/mounts; find / -name release_agent 2>/dev/null; true", self.sid),
            "0")
        script = r"""
import ctypes, os
c = ctypes.CDLL(None, use_errno=True)
USER, MOUNT, CGROUP, NET = 0x10000000, 0x20000, 0x02000000, 0x40000000
os.mkdir("/tmp/x")
reached = []
def attempt(flags):
    if flags and c.unshare(flags) == 0:
        reached.append("unshare %#x" % flags)
    for kind in ("cgroup", "cgroup2"):
        for options in ("rdma", "memory", "pids", "misc", "none,name=systemd", "none,name=x", None):
            o = options.encode() if options else None
            if c.mount(b"x", b"/tmp/x", kind.encode(), 0, o) == 0:
                reached.append("mount %s %s" % (kind, options))
                open("/tmp/x/release_agent", "w").write("/tmp/payload")
    if c.syscall(430, b"cgroup", 0) >= 0: reached.append("fsopen")
for flags in (0, CGROUP, USER, USER | MOUNT, USER | MOUNT | CGROUP, MOUNT, NET | USER):
    pid = os.fork()
    if pid == 0:
        attempt(flags)
        print(reached if reached else "refused", flush=True)
        os._exit(0)
    os.waitpid(pid, 0)
for path in ("/proc/1/root/sys/fs/cgroup", "/sys/fs/cgroup", "/proc/self/root/sys/fs/cgroup"):
    if os.path.exists(path): print("there is", path)
"""
        text = self.client.out(["python3", "-c", script], self.sid)
        self.assertEqual(text.split(), ["refused"] * 7)
        self.assertIn("unshare failed: Operation not permitted", self.client.run(
            "unshare -UrmC true", self.sid).stderr_data.decode().replace(
                "No space left on device", "Operation not permitted"))
        self.assertEqual(self.on_host(), before)


class Row9(HostileCase):
    """A build step is a command like any other: what it starts is inside, and goes."""

    DAEMON = r"""
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
int main(void)
{
    for (int i = 1; i < 65; i++) signal(i, SIG_IGN);
    if (fork()) return 0;
    setsid();
    if (fork()) _exit(0);
    chdir("/"); umask(0);
    for (int fd = 0; fd < 1024; fd++) close(fd);
    for (;;) { if (fork() == 0) { setsid(); pause(); _exit(0); } sleep(1); }
}
"""

    def plant(self, session_id):
        """A program `evil` that becomes a daemon, and a Makefile that starts it as its compiler."""
        self.completes(self.client.run(
            "cat >evil.c && gcc -w -o evil evil.c && printf 'int main(void) { return 0; }' >a.c",
            session_id, stdin=self.DAEMON.encode()))

    STEPS = ("gcc -wrapper /workspace/evil -o a a.c; ./evil",
             "printf 'all:\\n\\t./evil\\n' >Makefile; make 2>/dev/null || ./evil",
             "python3 -c 'import subprocess; subprocess.Popen([\"./evil\"])'",
             "nohup setsid ./evil >/dev/null 2>&1 & disown 2>/dev/null; ./evil")

    def evil(self):
        """Host pids of it, wherever they are."""
        return [int(path.split("/")[2]) for path in glob.glob("/proc/[0-9]*/comm")
                if hostile_lib.name_of(path.split("/")[2]) == "evil" and
                hostile_lib.state_of(path.split("/")[2]) != "Z"]

    def test_nothing_outlives_a_call_that_kills_leftovers(self):
        self.client.create(self.sid)
        self.plant(self.sid)
        for step in self.STEPS:
            verdict = self.client.run(f"{step}; sleep 0.2", self.sid,
                                      leftovers=self.pb.types.LEFTOVER_POLICY_KILL).verdict
            self.assertGreaterEqual(verdict.leftover_processes, 1, step)
            self.assertEqual(verdict.leftovers, self.pb.types.LEFTOVER_POLICY_KILL, step)
            self.assertEqual(self.evil(), [], step)

    def test_nothing_outlives_its_session(self):
        session = self.client.create(self.sid)
        self.plant(self.sid)
        for step in self.STEPS:
            self.client.run(f"{step}; sleep 0.2", self.sid)
        self.assertGreaterEqual(len(self.evil()), 4)
        self.client.sessions.StopSession(self.pb.session.StopSessionRequest(session_id=self.sid))
        lib.wait_for(lambda: not self.evil(), "all of it goes")
        self.assertEqual(self.boxd.processes(session.uid), set())


class Receivers:
    """Everything on the host that would notice traffic: TCP and UDP, both families, and raw frames."""

    def __init__(self, case):
        self.seen = []
        self.ended = threading.Event()
        self.tcp = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
        self.port = self.tcp.getsockname()[1]
        self.udp = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        self.udp.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        self.udp.bind(("::", self.port))
        self.frames = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        sockets = [self.tcp, self.udp, self.frames]
        for s in sockets:
            s.settimeout(0.2)
            case.addCleanup(s.close)
        self.threads = [threading.Thread(target=self.watch, args=(s,)) for s in sockets]
        for thread in self.threads:
            thread.start()
        case.addCleanup(self.stop)

    def watch(self, s):
        while not self.ended.is_set():
            try:
                if s is self.tcp:
                    s.accept()[0].close()
                    self.seen.append("tcp")
                elif MARK in s.recv(65536):
                    self.seen.append("udp" if s is self.udp else "frame")
            except TimeoutError:
                pass

    def stop(self):
        self.ended.set()
        for thread in self.threads:
            thread.join()


MARK = b"box-hostile-13-mark"
SEND = r"""
import os, socket, sys
port, hosts, other_ports, mark = int(sys.argv[1]), sys.argv[2].split(), sys.argv[3].split(), sys.argv[4].encode()
def attempt(family, kind, protocol, address):
    try:
        s = socket.socket(family, kind, protocol)
        s.settimeout(0.5)
        if kind == socket.SOCK_DGRAM:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        s.connect(address)
        s.send(mark)
        if kind == socket.SOCK_STREAM: print("reached", address, flush=True)
    except OSError:
        pass
for host in hosts:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    attempt(family, socket.SOCK_STREAM, 0, (host, port))
    attempt(family, socket.SOCK_DGRAM, 0, (host, port))
    attempt(family, socket.SOCK_DGRAM, 58 if ":" in host else 1, (host, 0))  # ping
    attempt(family, socket.SOCK_RAW, 58 if ":" in host else 1, (host, 0))
for other in other_ports:
    attempt(socket.AF_INET, socket.SOCK_STREAM, 0, ("127.0.0.1", int(other)))
for cid in (0, 1, 2, 0xffffffff):
    attempt(40, socket.SOCK_STREAM, 0, (cid, port))
try:
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 3)
    s.bind(("lo", 0)); s.send(mark * 4); print("packet", flush=True)
except OSError:
    pass
for name in ("localhost.localdomain", "example.com", "metadata.google.internal"):
    try:
        print("resolved", name, socket.getaddrinfo(name, 80), flush=True)
    except OSError:
        pass
print("sent")
"""


class Row13(HostileCase):
    """Network off, judged by the receiving end."""

    @staticmethod
    def own_addresses():
        """All addresses of the host."""
        found = set()
        with open("/proc/net/fib_trie", encoding="ascii") as f:
            lines = f.read().split("\n")
        for i, line in enumerate(lines):
            if "/32 host LOCAL" in line:
                found.add(lines[i - 1].split()[-1])
        return found

    def test_nothing_arrives(self):
        receivers = Receivers(self)
        # The receivers notice what a process of the host sends by the same program.
        done = hostile_lib.run_quietly(["/usr/bin/python3", "-c", SEND, str(receivers.port),
                                        "127.0.0.1 ::1", "", MARK.decode()])
        self.assertIn(b"reached", done.stdout)
        lib.wait_for(lambda: {"tcp", "udp", "frame"} <= set(receivers.seen), "they notice")
        receivers.seen.clear()
        hosts = sorted(self.own_addresses() | {
            "127.0.0.1", "127.1.2.3", "0.0.0.0", "10.0.0.1", "172.17.0.1", "192.168.0.1",
            "169.254.169.254", "255.255.255.255", "224.0.0.1", "8.8.8.8", "::1", "::",
            "::ffff:127.0.0.1", "64:ff9b::7f00:1", "ff02::1"})
        answer = self.client.run(["python3", "-c", SEND, str(receivers.port), " ".join(hosts),
                                  str(self.boxd.port), MARK.decode()], self.sid, timeout=60)
        self.assertEqual(self.completes(answer).stdout_data, b"sent\n")
        self.assertEqual(receivers.seen, [])

    def test_there_is_no_way_to_make_one(self):
        self.assertEqual(self.client.run(
            "ip link add v type veth 2>/dev/null && echo made; "
            "ip link add d type dummy 2>/dev/null && echo made; "
            "ip tuntap add t mode tun 2>/dev/null && echo made; "
            "ls /dev/net /dev/vhost-net /dev/vsock 2>/dev/null; true", self.sid).stdout_data, b"")


class Row37(HostileCase):
    """Nothing of the server's is found inside, in a crash or in the logs."""

    def canaries(self):
        with open(os.path.join(self.boxd.state_dir, "server.key"), encoding="ascii") as f:
            key = f.read().splitlines()[1]
        return [self.boxd.token, key, CANARY, self.boxd.folder.path,
                os.path.basename(self.boxd.folder.path), self.boxd.boxd_program]

    def test_nothing_inside_tells_them(self):
        answer = self.client.run(
            "env; cat /proc/*/environ /proc/*/cmdline /proc/*/maps /proc/*/mountinfo /proc/*/cgroup "
            "/proc/*/task/*/environ /proc/mounts /proc/self/mountstats /proc/keys /proc/net/unix; "
            "ls -l /proc/*/fd /proc/*/cwd /proc/*/root /proc/*/exe /proc/*/ns; "
            "cat /etc/* /proc/*/status /proc/version /proc/cmdline /proc/sys/kernel/hostname; "
            "find / -xdev -newer /proc/1 -type f -exec cat {} + ", self.sid,
            output_limit_bytes=7 * MIB)
        text = (answer.stdout_data + answer.stderr_data).replace(b"\0", b"\n")
        self.assertGreater(len(text), 10000)
        for canary in self.canaries():
            self.assertNotIn(canary.encode(), text)

    def test_no_memory_that_can_be_read_holds_them(self):
        # The search finds a canary that is really there: in a child of its own.
        script = r"""
import os, re, subprocess, sys
inside = subprocess.Popen(["sleep", "30"], env={"MINE": sys.argv[1][::-1]})
needles = [n.encode() for n in sys.argv[1:]]  # reversed, so that no argument holds them
hits = set()
for pid in filter(str.isdigit, os.listdir("/proc")):
    if int(pid) == os.getpid(): continue
    try:
        maps = open("/proc/%s/maps" % pid).read()
        mem = open("/proc/%s/mem" % pid, "rb", 0)
    except OSError:
        continue
    for a, b, mode in re.findall(r"^(\w+)-(\w+) (....)", maps, re.M):
        if mode[0] != "r": continue
        try:
            mem.seek(int(a, 16)); block = mem.read(int(b, 16) - int(a, 16))
        except (OSError, OverflowError, ValueError): continue
        hits |= {i for i, n in enumerate(needles) if n[::-1] in block}
inside.kill()
print(sorted(hits))
"""
        mine = "box-canary-that-is-inside"
        found = self.client.out(["python3", "-c", script, *[c[::-1] for c in
                                                            [mine, *self.canaries()]]], self.sid)
        self.assertEqual(found, "[0]")

    def test_a_crash_writes_no_core(self):
        # Its cwd takes files; its limit is 1 byte: neither a file nor a handler (core(5)).
        for server in (self.boxd.boxd, self.boxd.warden):
            with open(f"/proc/{server.pid}/limits", encoding="ascii") as f:
                line = next(line for line in f if line.startswith("Max core"))
            self.assertEqual(line.split()[4:6], ["1", "1"], server.log_path)

    def test_a_crashing_server_says_nothing_secret(self):
        boxd = hostile_lib.Boxd(hostile_lib.sys.argv[1])
        self.addCleanup(boxd.kill)
        soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
        resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_CORE, (soft, hard))
        client = boxd.client()
        client.run(["sh", "-c", "echo hidden-argument"], env={"K": "hidden-value"},
                   stdin=b"hidden-input")
        client.close()
        os.kill(boxd.boxd.pid, signal.SIGABRT)
        boxd.boxd.wait()
        logs = boxd.logs()
        for canary in (boxd.token, CANARY, "hidden-argument", "hidden-value", "hidden-input"):
            self.assertNotIn(canary, logs)
        self.assertFalse(glob.glob("core*"))


if __name__ == "__main__":
    hostile_lib.main()
