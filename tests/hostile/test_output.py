"""hostile-inputs.md rows 30 to 32: floods, slow readers, lost tails, and bytes that are no text."""

import concurrent.futures
import hashlib
import os
import threading
import time

import grpc

import hostile_lib
import lib
from hostile_lib import HostileCase, MIB

RSS_FACTOR = int(os.environ.get("HOSTILE_RSS_FACTOR", "1"))  # sanitizers keep books of memory


def setUpModule():
    HostileCase.start_server()


def tearDownModule():
    HostileCase.stop_server()


class Case(HostileCase):
    def stream(self, what, client=None, session_id=None, **fields):
        """An ExecStream whose requests stay open until the call ends."""
        pb = self.pb.exec
        ended = threading.Event()
        client = client or self.client
        start = pb.ExecStreamRequest(start=pb.ExecStart(
            session_id=self.sid if session_id is None else session_id,
            command=client.command(what, **fields)))

        def requests():
            yield start
            ended.wait(120)

        call = client.execs.ExecStream(requests(), timeout=110)
        self.addCleanup(ended.set)
        self.addCleanup(call.cancel)
        return call


class Row30(Case):
    """A flood costs the server a bounded amount; the stated policy decides what becomes of it."""

    def setUp(self):
        super().setUp()
        self.honest()
        self.rss = self.boxd.boxd.rss_kib()
        self.most = 0
        self.done = threading.Event()
        self.watcher = threading.Thread(target=self.watch)
        self.watcher.start()
        self.addCleanup(self.watcher.join)
        self.addCleanup(self.done.set)

    def watch(self):
        while not self.done.wait(0.05):
            self.most = max(self.most, self.boxd.boxd.rss_kib() - self.rss)

    def bounded(self, mib):
        self.assertLess(self.most, mib * 1024 * RSS_FACTOR)

    def test_gibibytes_are_counted_and_not_kept(self):
        answer = self.client.run("yes | head -c 4G; echo end >&2; exit 3", self.sid, timeout=100,
                                 deadline=110)
        self.completes(answer, 3)
        report = answer.verdict.stdout_report
        self.assertEqual((report.total_bytes, report.kept_bytes, report.truncated),
                         (4 << 30, MIB, True))
        self.assertEqual(set(answer.stdout_data), set(b"y\n"))
        self.assertEqual(answer.stderr_data, b"end\n")
        self.bounded(32)

    def test_for_ever_until_its_time(self):
        answer = self.client.run("cat /dev/zero", self.sid, timeout=2)
        self.assertEqual(answer.verdict.status, self.pb.types.VERDICT_STATUS_TIMED_OUT)
        self.assertEqual(len(answer.stdout_data), MIB)
        answer = self.client.run("cat /dev/zero & cat /dev/zero >&2", self.sid,
                                 output_kill_bytes=50 * MIB)
        self.assertEqual((answer.verdict.status, list(answer.verdict.limits_hit)),
                         (self.pb.types.VERDICT_STATUS_OUTPUT_LIMIT, ["output_kill_bytes"]))
        lib.wait_for(lambda: self.commands_in(self.sid) == [], "all of it goes")
        self.bounded(32)

    def test_a_hundred_readers_that_stop(self):
        names = [f"{self.sid}-{i}" for i in range(10)]
        for name in names:
            self.client.create(name, max_parallel_execs=10)
            self.addCleanup(self.client.delete, name)
        readers = [self.boxd.client() for _ in range(10)]
        calls = [self.stream("yes", readers[i % 10], names[i // 10]) for i in range(100)]
        for call in calls:
            next(call)
        end = time.monotonic() + 4
        while time.monotonic() < end:
            self.honest()
        self.bounded(200)  # at most BOX_STREAM_HIGH_WATER_BYTES and a window each
        for call in calls[:50]:
            call.cancel()
        for reader in readers:
            reader.close()  # the rest vanishes
        lib.wait_for(lambda: sum(self.client.get(n).active_execs for n in names) == 0, "they end")
        for name in names:
            self.assertEqual(self.commands_in(name), [])

    def test_a_reader_of_one_byte_a_second_gets_the_right_bytes(self):
        call = self.stream("seq 100000; exit 4")
        out, verdict = b"", None
        for i, answer in enumerate(call):
            out += answer.stdout_data
            if answer.HasField("verdict"):
                verdict = answer.verdict
            if i < 5:
                time.sleep(0.5)
        self.assertEqual(out, b"".join(b"%d\n" % i for i in range(1, 100001)))
        self.assertEqual(verdict.exit_code, 4)


class Row31(Case):
    """The tail is there, every time, and lines stay as they were."""

    LOOPS = 1000

    def test_a_thousand_tails(self):
        names = [f"{self.sid}-{i}" for i in range(4)]
        for name in names:
            self.addCleanup(self.client.delete, name)

        def one(i):
            size = 1 + i * 137 % 200000
            answer = self.client.run(
                f"head -c {size} /dev/urandom >f; sha256sum <f >&2; cat f", names[i % 4])
            return (answer.verdict.exit_code, len(answer.stdout_data) == size,
                    answer.stderr_data.split()[0].decode() ==
                    hashlib.sha256(answer.stdout_data).hexdigest())

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            ends = set(pool.map(one, range(self.LOOPS)))
        self.assertEqual(ends, {(0, True, True)})

    def test_single_bytes_of_a_slow_writer(self):
        answer = self.completes(self.client.run(
            "head -c 500000 /dev/urandom >f; sha256sum <f >&2; dd if=f bs=1 2>/dev/null", self.sid,
            timeout=60))
        self.assertEqual(len(answer.stdout_data), 500000)
        self.assertEqual(answer.stderr_data.split()[0].decode(),
                         hashlib.sha256(answer.stdout_data).hexdigest())

    ODD = (b"a\n\nb\n\n\nc\n", b"\n", b"\n\n\n", b"  x\n\n", b"no end", b"a\r\nb\rc\n\r", b"\t \t",
           b"\x1b[31mred\x1b[0m", b"\0\0\n\0", b"")

    def test_lines_are_not_touched(self):
        for data in self.ODD:
            answer = self.completes(self.client.run(["cat"], self.sid, stdin=data))
            self.assertEqual(answer.stdout_data, data)
            got = b"".join(a.stdout_data for a in self.finished_stream(data))
            self.assertEqual(got, data)

    def finished_stream(self, data):
        """All answers of a stream whose input is data, byte by byte."""
        pb = self.pb.exec
        requests = [pb.ExecStreamRequest(start=pb.ExecStart(
            session_id=self.sid, command=self.client.command(["cat"])))]
        requests += [pb.ExecStreamRequest(stdin_data=bytes([b])) for b in data]
        return list(self.client.execs.ExecStream(iter(requests), timeout=60))

    def test_two_writes_with_a_pause_are_not_merged_or_lost(self):
        out = b"".join(a.stdout_data for a in self.stream(
            "printf 'a\\r'; sleep 0.1; printf '\\nb'; sleep 0.1; printf '\\n'; exec >&-; sleep 0.1",
            timeout=20))
        self.assertEqual(out, b"a\r\nb\n")


class Row32(Case):
    """Output is bytes, and every text of ours is valid UTF-8, whatever it quotes."""

    def test_bytes_come_back_as_they_were(self):
        for data in (b"\xff\xfe\x00\xe2\x28\xa1", bytes(range(256)) * 16, b"\xed\xa0\x80\xc0\x80",
                     os.urandom(MIB)):
            answer = self.completes(self.client.run(["cat"], self.sid, stdin=data))
            self.assertEqual(answer.stdout_data, data)
            answer = self.completes(self.client.run("cat >&2", self.sid, stdin=data))
            self.assertEqual(answer.stderr_data, data)

    def test_a_rune_in_two_writes(self):
        for text in ("printf '\\342\\202'; sleep 0.1; printf '\\254'",
                     "printf '\\360'; sleep 0.05; printf '\\237\\230'; sleep 0.05; printf '\\200'"):
            self.assertIn(self.client.run(text, self.sid).stdout_data.decode(), "\u20ac\U0001f600")
            out = b"".join(a.stdout_data for a in self.stream(text, timeout=20))
            self.assertIn(out.decode(), "\u20ac\U0001f600")

    def test_a_rune_where_the_kept_output_is_cut(self):
        whole = ("\u20ac" * 1000).encode()
        for limit in range(20, 30):
            answer = self.completes(self.client.run(["cat"], self.sid, stdin=whole,
                                                    output_limit_bytes=limit))
            report = answer.verdict.stdout_report
            head = report.head_bytes
            self.assertEqual((report.kept_bytes, report.total_bytes), (limit, 3000))
            self.assertEqual(answer.stdout_data, whole[:head] + whole[3000 - (limit - head):])

    def test_file_names(self):
        names = [b"\xff", b"a\nb", b"\xc3\x28", b"\x01", b"'\"\\", "\u20ac".encode()]
        self.client.run("cat >f; xargs -0 touch <f; rm f", self.sid, stdin=b"\0".join(names))
        answer = self.completes(self.client.run("find . -type f -printf '%P\\0'", self.sid))
        self.assertEqual(sorted(answer.stdout_data.rstrip(b"\0").split(b"\0")), sorted(names))
        for name in names:  # a program that quotes it
            said = self.client.run("IFS= read -r x; cat <\"$x/\"", self.sid, stdin=name + b"\n")
            self.assertNotEqual(said.verdict.exit_code, 0)

    def test_our_own_texts_are_text(self):
        # Our messages are cut at a fixed size, also inside a character: no half of it stays. grpcio
        # would put a replacement character.
        for pad in range(8):
            for name in ("/" + "x" * pad + "\u20ac" * 100, "/" + "x" * pad + "\U0001f600" * 500,
                         "/tmp/" + "x" * pad + "\u00fc" * 700, "/x\ny\r\t\x01\x7f\u2028" + "%41" * pad,
                         "x" * pad + "\u20ac" * 120):
                for call in (lambda n=name: self.client.run([n], self.sid),
                             lambda n=name: self.client.run(["true"], self.sid,
                                                            workdir="/" + n.lstrip("/"))):
                    with self.assertRaises(grpc.RpcError) as caught:
                        call()
                    failure = hostile_lib.Failure(caught.exception)
                    self.assertIn(failure.reason, ("FILE_NOT_FOUND",
                                                   "VALIDATION"), failure)  # a name over 255 bytes
                    self.assertNotIn("\ufffd", failure.text)
                    self.assertNotIn("\ufffd", failure.metadata.get("id", ""))
                    self.assertTrue(failure.text)
        lines = self.boxd.boxd.log().split("\n")
        self.assertFalse([line for line in lines if "\ufffd" in line or "\x01" in line])


if __name__ == "__main__":
    hostile_lib.main()
