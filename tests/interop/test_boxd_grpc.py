"""What a stock client may do beyond plain calls: compression; and boxd without open health and
reflection."""

import os
import sys

import grpc

import boxd_lib
from boxd_lib import Boxd, BoxdCase, MIB, OwnServerCase
from grpc import StatusCode

LIST_SERVICES = b"\x3a\x00"


class Compression(OwnServerCase):
    """Real methods with compressed requests; C-core takes compressed answers by itself."""

    algorithms = (grpc.Compression.Gzip, grpc.Compression.Deflate)

    def test_exec_with_compressed_stdin_and_output(self):
        for algorithm in self.algorithms:
            for data in (b"", b"x", b"line of text\n" * 50_000, os.urandom(300_000), bytes(2 * MIB)):
                request = self.client.exec_request(["cat"], self.sid, stdin=data, output_limit_bytes=4 * MIB)
                answer = self.client.execs.Exec(request, timeout=60, compression=algorithm)
                self.completes(answer)
                self.assertEqual(answer.stdout_data, data)

    def test_streams_with_compressed_messages(self):
        pb, piece = self.pb.exec, b"0123456789" * 5000
        for algorithm in self.algorithms:
            def messages():
                yield pb.ExecStreamRequest(start=pb.ExecStart(
                    session_id=self.sid, command=self.client.command(["cat"])))
                for _ in range(20):
                    yield pb.ExecStreamRequest(stdin_data=piece)
                yield pb.ExecStreamRequest(close_stdin={})
            got = b"".join(a.stdout_data for a in self.client.execs.ExecStream(
                messages(), timeout=60, compression=algorithm))
            self.assertEqual(got, piece * 20)

    def test_sessions_and_errors(self):
        client = self.boxd.client(options=[("grpc.default_compression_algorithm", 2)])
        session = client.create(self.sid, labels={f"k{i}": "v" * 200 for i in range(60)})
        self.assertEqual(client.get(self.sid).spec.labels, session.spec.labels)
        self.invalid(lambda: client.run([], self.sid), "command.argv")

    def test_a_bomb_is_refused_and_costs_nothing(self):
        request = self.client.exec_request(["cat"], self.sid, stdin=bytes(15 * MIB))
        with self.assertRaises(grpc.RpcError) as caught:
            self.client.execs.Exec(request, timeout=60, compression=grpc.Compression.Gzip)
        self.assertEqual(caught.exception.code(), StatusCode.RESOURCE_EXHAUSTED)
        self.assertIn("compressed bytes", caught.exception.details())


class Closed(OwnServerCase):
    """server.health_needs_token and server.reflection: false."""

    @classmethod
    def setUpClass(cls):
        boxd = Boxd(sys.argv[1], start=False)
        path = boxd.folder.file("boxd.yaml")
        with open(path, encoding="utf-8") as f:
            text = f.read()
        with open(path, "w", encoding="utf-8") as f:
            f.write(text.replace("server:\n", "server:\n  health_needs_token: true\n  reflection: false\n", 1))
        BoxdCase.boxd = boxd
        cls.addClassCleanup(boxd.kill)
        boxd.start()
        BoxdCase.client = boxd.client()

    def test_health_needs_any_token(self):
        bare = self.boxd.client("")
        for method in ("Check", "List"):
            path = "/grpc.health.v1.Health/" + method
            with self.assertRaises(grpc.RpcError) as caught:
                bare.channel.unary_unary(path)(b"", timeout=20)
            self.assertEqual(caught.exception.code(), StatusCode.UNAUTHENTICATED)
            self.assertTrue(self.client.channel.unary_unary(path)(b"", timeout=20))

    def test_reflection_is_no_service(self):
        for version in ("v1", "v1alpha"):
            path = f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo"
            with self.assertRaises(grpc.RpcError) as caught:
                list(self.client.channel.stream_stream(path)(iter([LIST_SERVICES]), timeout=20))
            self.assertEqual(caught.exception.code(), StatusCode.UNIMPLEMENTED)


if __name__ == "__main__":
    boxd_lib.main()
