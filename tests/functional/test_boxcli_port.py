"""boxcli port-forward against the real server."""

import concurrent.futures
import hashlib
import json
import os
import re
import resource
import signal
import socket
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import test_boxcli  # noqa: E402  (its folder is on the path only now)
import boxd_lib  # noqa: E402
import lib  # noqa: E402
from boxd_lib import BoxdCase, MIB  # noqa: E402
from forwarding import PROGRAM  # noqa: E402


def setUpModule():
    BoxdCase.start_server()


def tearDownModule():
    BoxdCase.stop_server()


def processor_ticks(pid):
    """utime and stime of proc(5), /proc/PID/stat."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
        return sum(map(int, f.read().rpartition(")")[2].split()[11:13]))


class PortCase(test_boxcli.Case):
    def setUp(self):
        super().setUp()
        self.client.create(self.sid)

    def serve(self):
        """The program of forwarding.py at port 8000 inside."""
        self.ok("process", "start", self.sid, "--id", "server", "--ready-line", "listens", "--wait",
                "30s", "--", "python3", "-c", PROGRAM, "127.0.0.1", "8000")

    def said(self):
        """What it has printed so far."""
        return self.cli("process", "logs", self.sid, "server")[1].decode()

    def forward(self, *args):
        """port-forward under way: (child, its lines' local ports by remote port)."""
        child = self.start("port-forward", self.sid, *args)
        ports = {}
        wanted = sum(":" in a for a in args)
        while len(ports) < wanted or "[::1]" not in line:  # both addresses of each
            line = child.stdout.readline().decode()
            match = re.fullmatch(r"(127\.0\.0\.1|\[::1\]):(\d+) -> port (\d+) of "
                                 + re.escape(self.sid) + "\n", line)
            self.assertTrue(match, line)
            self.assertEqual(ports.setdefault(int(match[3]), int(match[2])), int(match[2]))
        return child, ports

    def connect(self, port, what=None, host="127.0.0.1"):
        """A connection, with its first line sent; closed at the end."""
        s = socket.create_connection((host, port), timeout=60)
        self.addCleanup(s.close)
        if what is not None:
            s.sendall(f"{what}\n".encode())
        return s

    @staticmethod
    def read_all(s):
        """Until the other side has ended its direction."""
        parts = []
        while part := s.recv(65536):
            parts.append(part)
        return b"".join(parts)

    def end(self, child, number=signal.SIGINT):
        """Ended by a signal, which is its usual end; what it said meanwhile."""
        child.send_signal(number)
        self.assertEqual(child.wait(20), 0)
        return child.stderr.read().decode()


class Forward(PortCase):
    def test_a_web_server_inside_and_curl_outside(self):
        self.client.out("echo hello >/workspace/page", self.sid)
        self.ok("process", "start", self.sid, "--id", "web", "--", "python3", "-m", "http.server",
                "8080", "--bind", "127.0.0.1")
        child, ports = self.forward("--wait", "30s", "0:8080")
        for host in ("127.0.0.1", "[::1]"):
            got = subprocess.run(["curl", "-sS", "--max-time", "60",
                                  f"http://{host}:{ports[8080]}/page"], capture_output=True,
                                 check=False)
            self.assertEqual((got.returncode, got.stdout, got.stderr), (0, b"hello\n", b""))
        self.assertEqual(self.end(child), "")

    def test_each_direction_ends_apart(self):
        self.serve()
        child, ports = self.forward(":8000")
        s = self.connect(ports[8000], "digest")
        data = os.urandom(3 * MIB)
        s.sendall(data)
        s.shutdown(socket.SHUT_WR)
        self.assertEqual(self.read_all(s).decode(), f"{len(data)} {hashlib.sha256(data).hexdigest()}")
        s = self.connect(ports[8000], "source")
        s.sendall(b"300000\n")
        self.assertEqual(self.read_all(s), b"x" * 300000)
        s.sendall(b"after it")
        s.shutdown(socket.SHUT_WR)
        lib.wait_for(lambda: "got b'after it'\nend\n" in self.said(), "the rest came")
        self.assertEqual(self.end(child), "")

    def test_a_hundred_connections(self):
        self.serve()
        child, ports = self.forward("0:8000")
        sockets = [self.connect(ports[8000], "digest") for _ in range(100)]

        def talk(number):
            data = b"%03d" % number * 50000
            sockets[number].sendall(data)
            sockets[number].shutdown(socket.SHUT_WR)
            return self.read_all(sockets[number]).decode() == \
                f"{len(data)} {hashlib.sha256(data).hexdigest()}"

        with concurrent.futures.ThreadPoolExecutor(100) as pool:
            self.assertTrue(all(pool.map(talk, range(100))))
        self.assertEqual(self.end(child, signal.SIGTERM), "")

    def test_more_than_a_session_may_have_wait(self):
        self.serve()
        _, ports = self.forward("0:8000")
        sockets = [self.connect(ports[8000], "echo") for _ in range(140)]
        for s in sockets:
            s.sendall(b"hello")
            s.shutdown(socket.SHUT_WR)
            self.assertEqual(self.read_all(s), b"hello")
            s.close()

    def test_without_descriptors_it_rests_and_they_wait(self):
        self.serve()
        child, ports = self.forward("0:8000")
        resource.prlimit(child.pid, resource.RLIMIT_NOFILE, (40, 40))
        sockets = [self.connect(ports[8000], "echo") for _ in range(60)]
        for s in sockets[:20]:
            s.sendall(b"x")
            self.assertEqual(s.recv(1), b"x")
        before = processor_ticks(child.pid)
        time.sleep(1)
        self.assertLess(processor_ticks(child.pid) - before, os.sysconf("SC_CLK_TCK") // 20)
        for i, s in enumerate(sockets):
            s.sendall(b"hello")
            s.shutdown(socket.SHUT_WR)
            self.assertEqual(self.read_all(s), b"hello", i)
            s.close()

    def test_several_ports_and_an_address(self):
        self.serve()
        for port in (8001, 8002):
            self.ok("process", "start", self.sid, "--id", f"s{port}", "--", "python3", "-c", PROGRAM,
                    "127.0.0.1", str(port))
        child, ports = self.forward("--wait", "30s", "0:8000", "0:8001", ":8002")
        for port in ports.values():
            s = self.connect(port, "echo", host="localhost")
            s.sendall(b"hi")
            self.assertEqual(s.recv(2), b"hi")
        taken = self.fails(1, "port-forward", self.sid, f"{ports[8000]}:8000", says=["listen at"])
        self.assertIn("in use", taken)
        other = self.start("--json", "port-forward", "--address", "127.0.0.2", self.sid,
                           f"{ports[8000]}:8000")
        line = json.loads(other.stdout.readline())
        self.assertEqual(line, {"localAddress": "127.0.0.2", "localPort": ports[8000], "port": 8000})
        s = self.connect(line["localPort"], "echo", host="127.0.0.2")
        s.sendall(b"hi")
        self.assertEqual(s.recv(2), b"hi")
        self.end(child)
        self.end(other)


class BackPressure(PortCase):
    # Windows of 1 MiB of eight streams, with room for a sanitizer; without limits far more comes.
    MOST = 32 * MIB

    def test_a_reader_that_stops_keeps_everything_flat(self):
        self.serve()
        child, ports = self.forward("0:8000")
        before = lib.resident_bytes(child.pid), lib.resident_bytes(self.boxd.boxd.pid)
        for _ in range(8):
            self.connect(ports[8000], "flood")
        time.sleep(1)
        grown = lib.resident_bytes(child.pid) - before[0], lib.resident_bytes(self.boxd.boxd.pid) - before[1]
        self.assertLess(max(grown), self.MOST)
        s = self.connect(ports[8000], "echo")  # another one is not held up by them
        s.sendall(b"well")
        self.assertEqual(s.recv(4), b"well")

    def test_a_program_that_stops_reading(self):
        self.serve()
        child, ports = self.forward("0:8000")
        before = lib.resident_bytes(child.pid), lib.resident_bytes(self.boxd.boxd.pid)
        for _ in range(8):
            s = self.connect(ports[8000], "sleep")
            s.settimeout(0.5)
            with self.assertRaises(TimeoutError):
                while True:
                    s.sendall(b"z" * 65536)
        grown = lib.resident_bytes(child.pid) - before[0], lib.resident_bytes(self.boxd.boxd.pid) - before[1]
        self.assertLess(max(grown), self.MOST)
        s = self.connect(ports[8000], "echo")
        s.sendall(b"well")
        self.assertEqual(s.recv(4), b"well")


class Ends(PortCase):
    def reset(self, s):
        """The connection was cut off, not ended."""
        with self.assertRaises(ConnectionResetError):
            self.read_all(s)

    def reset_at_once(self, port):
        """Perhaps before connect has returned."""
        with self.assertRaises(ConnectionResetError):
            self.read_all(self.connect(port))

    def test_nothing_listens_inside(self):
        child, ports = self.forward("0:9")
        for _ in range(2):  # it goes on
            self.reset_at_once(ports[9])
        said = self.end(child)
        self.assertEqual(said.count("RUNTIME_UNAVAILABLE"), 2, said)
        self.assertIn("port 9 inside", said)

    def test_the_local_program_aborts(self):
        self.serve()
        child, ports = self.forward("0:8000")
        s = self.connect(ports[8000], "digest")
        lib.wait_for(lambda: "begin digest\n" in self.said(), "it began")
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        s.close()
        lib.wait_for(lambda: "reset\n" in self.said(), "it ended inside too")
        self.assertEqual(self.end(child), "")

    def test_the_program_inside_aborts(self):
        self.serve()
        child, ports = self.forward("0:8000")
        s = self.connect(ports[8000], "abort")
        self.assertEqual(s.recv(10, socket.MSG_WAITALL), b"last words")
        s.sendall(b"go\n")
        self.reset(s)
        self.assertIn("reset", self.end(child))

    def test_kill_9_of_boxcli(self):
        self.serve()
        child, ports = self.forward("0:8000")
        self.connect(ports[8000], "echo")
        lib.wait_for(lambda: "begin echo\n" in self.said(), "it began")
        child.kill()
        lib.wait_for(lambda: "reset\n" in self.said(), "it ended inside too")

    def test_a_signal_ends_what_is_open(self):
        self.serve()
        child, ports = self.forward("0:8000")
        s = self.connect(ports[8000], "echo")
        lib.wait_for(lambda: "begin echo\n" in self.said(), "it began")
        self.assertEqual(self.end(child), "")
        self.reset(s)
        lib.wait_for(lambda: "reset\n" in self.said(), "it ended inside too")

    def test_the_session_is_deleted(self):
        self.serve()
        child, ports = self.forward("0:8000")
        s = self.connect(ports[8000], "sleep")
        self.ok("session", "delete", self.sid)
        self.reset(s)
        self.reset_at_once(ports[8000])
        said = self.end(child)
        self.assertIn("SESSION_NOT_RUNNING", said)
        self.assertIn("SESSION_NOT_FOUND", said)

    def test_misuse(self):
        self.fails(1, "port-forward", "none", "8000", says=["SESSION_NOT_FOUND"])
        self.fails(1, "port-forward", "--address", "localhost", self.sid, "0:80",
                   says=["no address"])
        for args in ([], [self.sid], [self.sid, "0"], [self.sid, "65536"],
                     [self.sid, "a:80"], [self.sid, "80:0"], [self.sid, "1:2:3"],
                     ["--wait", "long", self.sid, "80"], [self.sid, *["80"] * 8]):
            self.assertEqual(self.cli("port-forward", *args)[0], 2, args)
        self.assertIn("port-forward", self.ok("--help"))
        self.assertIn("--address", self.ok("port-forward", "--help"))


if __name__ == "__main__":
    boxd_lib.main()
