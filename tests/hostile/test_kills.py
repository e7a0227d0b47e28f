"""hostile-inputs.md row 28: kill -9 of boxd, the warden, its helpers, agents, zygotes and commands at
random moments under load. No command is said to have ended as it did not, Health is SERVING again, and
afterwards nothing of ours is left."""

import array
import glob
import os
import random
import signal
import socket
import struct
import threading
import time
import unittest

import grpc

import hostile_lib
from hostile_lib import HostileCase, Boxd, Client

ROUNDS = 25
SEED = 4711
WORKERS = 6


def sandbox_processes(boxd, where):
    """Host pids in one group of every sandbox: "agent", "box" (zygotes), "box/x/*" (commands)."""
    pids = []
    for base in boxd.cgroups:
        for path in glob.glob(f"{base}/*/*/{where}/cgroup.procs"):
            pids += hostile_lib.read_numbers(path)
    return pids


def kill_one(pids):
    """KILL to one of them that is still there."""
    if pids:
        try:
            os.kill(random.choice(list(pids)), signal.SIGKILL)
        except ProcessLookupError:
            pass


class Load:
    """Callers that run commands with a known end and note every answer that is not true."""

    def __init__(self, boxd):
        self.boxd = boxd
        self.ended = threading.Event()
        self.lies = []
        self.true = 0
        self.threads = [threading.Thread(target=self.work, args=(i,)) for i in range(WORKERS)]
        for thread in self.threads:
            thread.start()

    def work(self, number):
        rng = random.Random(number)
        count = 0
        while not self.ended.is_set():
            client = Client(self.boxd, self.boxd.token)
            for _ in range(10):
                count += 1
                self.one(client, rng, f"T{number}-{count}")
                if self.ended.is_set():
                    break
            client.close()

    def one(self, client, rng, mark):
        what = rng.choice(("echo %s; exit 7", "echo %s; sleep 0.1; exit 7",
                           "sleep 0.3 & echo %s; exit 7")) % mark
        session = rng.choice(("", f"s{rng.randrange(3)}"))
        try:
            answer = client.run(what, session, deadline=20,
                                spec={"max_parallel_execs": 4} if session else None)
        except grpc.RpcError:
            time.sleep(0.02)
            return
        verdict = answer.verdict
        if verdict.HasField("exit_code"):
            right = (verdict.status, verdict.exit_code, answer.stdout_data.decode()) == (
                client.pb.types.VERDICT_STATUS_COMPLETED, 7, mark + "\n")
            self.true += right
        else:
            right = verdict.signal == signal.SIGKILL or verdict.status in (
                client.pb.types.VERDICT_STATUS_SANDBOX_LOST, client.pb.types.VERDICT_STATUS_KILLED)
        if not right:
            self.lies.append((what, str(answer)))

    def stop(self):
        self.ended.set()
        for thread in self.threads:
            thread.join(30)


class Row28(unittest.TestCase):
    """The whole of Box, again and again."""

    def setUp(self):
        random.seed(SEED)
        self.boxd = Boxd(hostile_lib.sys.argv[1])
        self.addCleanup(self.boxd.kill)

    def healthy(self):
        client = Client(self.boxd, self.boxd.token)
        try:
            return client.control.Health(client.pb.control.HealthRequest(), timeout=5).available
        except grpc.RpcError:
            return False
        finally:
            client.close()

    def kill(self, kind):
        boxd = self.boxd
        if kind in ("boxd", "warden"):
            server = getattr(boxd, kind)
            server.process.kill()
            server.process.wait()
            server.process.stdout.close()
            if kind == "boxd":
                boxd.start_boxd(wait_backend=False)
            else:
                boxd.start_warden()
            self.assertTrue(hostile_lib.wait_until(self.healthy, 20), "not SERVING again")
        elif kind == "helper":
            below = set(hostile_lib.descendants(boxd.warden.pid))
            kill_one(below - boxd.processes())
        else:
            kill_one(sandbox_processes(boxd, {"agent": "agent", "zygote": "box",
                                              "command": "box/x/*"}[kind]))

    def test_kills_at_random_moments(self):
        load = Load(self.boxd)
        try:
            for _ in range(ROUNDS):
                time.sleep(random.uniform(0.02, 0.3))
                self.kill(random.choice(("boxd", "warden", "helper", "agent", "zygote", "command")))
        finally:
            load.stop()
        self.assertEqual(load.lies, [])
        self.assertGreater(load.true, 10)
        client = Client(self.boxd, self.boxd.token)
        for session in client.sessions.ListSessions(
                client.pb.session.ListSessionsRequest(page_size=1000)).sessions:
            client.delete(session.session_id)
        self.assertEqual(client.out(["echo", "after"]), "after")
        client.close()
        self.boxd.wait_nothing_left()
        self.assertLess(hostile_lib.fd_count(self.boxd.boxd.pid), 40)
        self.assertLess(hostile_lib.fd_count(self.boxd.warden.pid), 33)  # two for each that waits
        self.boxd.stop()


class Warden(HostileCase):
    """The warden's socket: nobody else's, and nothing said there breaks or fills it."""

    HELLO, CREATE, DESTROY, LIMITS, SWEEP = 1, 2, 3, 5, 8
    HELLO_BYTES = 16 + 4 + 4 + 16 + 256 + 256 + 4 + 4 + 1284  # with box_error

    @classmethod
    def setUpClass(cls):
        cls.start_server()

    @classmethod
    def tearDownClass(cls):
        cls.stop_server()

    def connect(self):
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.addCleanup(s.close)
        s.settimeout(5)
        s.connect(self.boxd.socket)
        return s

    @staticmethod
    def packet(kind, body):
        return struct.pack("IIQ", kind, 16 + len(body), 1) + body

    def greeted(self):
        s = self.connect()
        body = struct.pack("II", 1, 0) + os.urandom(16) + b"namespace".ljust(256, b"\0")
        s.send(self.packet(self.HELLO, body.ljust(self.HELLO_BYTES - 16, b"\0")))
        self.assertEqual(len(s.recv(9000)), self.HELLO_BYTES)
        return s

    def test_another_user_does_not_get_in(self):
        pid = os.fork()
        if pid == 0:
            os.setgroups([])
            os.setgid(61235)
            os.setuid(61235)
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
                os._exit(0 if s.connect_ex(self.boxd.socket) == 0 else 1)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 1)

    def test_packets_that_do_not_fit(self):
        before = hostile_lib.fd_count(self.boxd.warden.pid)
        random.seed(SEED)
        s = self.greeted()
        for i in range(600):
            body = os.urandom(random.choice((0, 1, 16, 40, 2368, 1828, 8176)))
            data = random.choice((b"", os.urandom(7), body,
                                  self.packet(random.choice((0, 1, 2, 3, 4, 5, 6, 7, 8, 16, 99)), body)))
            fds = [os.open("/dev/null", os.O_RDONLY) for _ in range((0, 0, 1, 20)[i % 4])]
            try:
                s.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
                          if fds else [])
                if i % 7 == 0:
                    s.recv(9000)
            except (OSError, TimeoutError):
                s.close()
                s = self.greeted()
            finally:
                for fd in fds:
                    os.close(fd)
        s.close()
        self.honest()
        self.assertTrue(hostile_lib.wait_until(
            lambda: hostile_lib.fd_count(self.boxd.warden.pid) <= before, 10),
            hostile_lib.open_files(self.boxd.warden.pid))

    def test_many_connections(self):
        for _ in range(60):
            try:
                self.connect()
            except OSError:
                break  # its backlog is full
        self.honest()


if __name__ == "__main__":
    hostile_lib.main()
