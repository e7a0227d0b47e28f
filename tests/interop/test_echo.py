"""Python's stock gRPC (C-core) against the echo server: every kind of call, and what goes wrong."""

import concurrent.futures
import os
import queue
import resource
import socket
import sys
import threading
import time
import unittest

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

import lib

SERVER, STUBS, DESCRIPTORS = sys.argv[1:4]
sys.path.insert(0, STUBS)
import echo_pb2 as pb  # noqa: E402  (made by protoc for this test)
import echo_pb2_grpc as rpc  # noqa: E402

TOKEN = "box_test_token"
MIB = 1024 * 1024
UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


def load_messages(path):
    """Message classes of health and reflection by full name, from a descriptor set."""
    pool = descriptor_pool.DescriptorPool()
    files = descriptor_pb2.FileDescriptorSet()
    with open(path, "rb") as f:
        files.ParseFromString(f.read())
    for file in files.file:
        pool.Add(file)
    factory = message_factory.MessageFactory(pool)
    return lambda name: factory.GetPrototype(pool.FindMessageTypeByName(name))


MESSAGE = load_messages(DESCRIPTORS)


class EchoCase(unittest.TestCase):
    """One server for all tests of a class, with `server_args`; TLS and a Unix socket."""

    server_args = []

    @classmethod
    def setUpClass(cls):
        cls.folder = lib.TemporaryFolder()
        cls.addClassCleanup(cls.folder.remove)
        cls.certs = lib.Certificates(cls.folder.path)
        cls.unix = cls.folder.file("s")
        cls.server = lib.Server(
            [SERVER, "--tls", "127.0.0.1:0", "--cert", cls.certs.cert, "--key", cls.certs.key,
             "--clear", "127.0.0.1:0", "--unix", cls.unix, *cls.server_args],
            cls.folder.file("log"))
        cls.addClassCleanup(cls.stop_server)
        match = cls.server.wait_ready(r"ready tls=(\d+) clear=(\d+)")
        cls.tls_port, cls.clear_port = int(match.group(1)), int(match.group(2))
        cls.credentials = grpc.ssl_channel_credentials(cls.certs.ca_bytes())
        cls.channel = cls.new_channel()
        cls.addClassCleanup(cls.channel.close)
        cls.stub = rpc.EchoServiceStub(cls.channel)

    @classmethod
    def stop_server(cls):
        """A sanitizer's finding or a crash shows in the exit status."""
        status = cls.server.stop()
        if status != 0:
            raise AssertionError(f"server ended with {status}\n{cls.server.log()}")

    @classmethod
    def new_channel(cls, options=()):
        # A subchannel pool of its own: otherwise equal channels share one connection.
        options = [("grpc.use_local_subchannel_pool", 1), *UNLIMITED, *options]
        return grpc.secure_channel(f"localhost:{cls.tls_port}", cls.credentials, options=options)

    def fails(self, code, call):
        with self.assertRaises(grpc.RpcError) as caught:
            call()
        self.assertEqual(caught.exception.code(), code, caught.exception.details())
        return caught.exception

    def counters(self):
        return self.stub.GetCounters(pb.GetCountersRequest())

    def url(self, path="/box.test.v1.EchoService/Echo"):
        return f"https://localhost:{self.tls_port}{path}"


class Kinds(EchoCase):
    def test_unary_answers_with_the_payload(self):
        self.assertEqual(self.stub.Echo(pb.EchoRequest(payload=b"hello")).payload, b"hello")

    def test_an_empty_message_is_a_message(self):
        self.assertEqual(self.stub.Echo(pb.EchoRequest()).payload, b"")

    def test_server_stream_sends_all_in_order(self):
        got = list(self.stub.Expand(pb.ExpandRequest(count=1000, size=1000)))
        self.assertEqual([m.index for m in got], list(range(1000)))
        self.assertTrue(all(len(m.payload) == 1000 for m in got))

    def test_server_stream_may_be_empty(self):
        self.assertEqual(list(self.stub.Expand(pb.ExpandRequest())), [])

    def test_client_stream_is_answered_at_its_end(self):
        answer = self.stub.Collect(pb.CollectRequest(payload=b"x" * 1000) for _ in range(500))
        self.assertEqual((answer.messages, answer.bytes), (500, 500_000))

    def test_client_stream_may_be_answered_before_its_end(self):
        def endless():
            while True:
                yield pb.CollectRequest(payload=b"x", finish=True)

        self.assertEqual(self.stub.Collect(endless()).messages, 1)

    def test_client_stream_may_be_empty(self):
        self.assertEqual(self.stub.Collect(iter([])).messages, 0)

    def test_bidi_ping_pong(self):
        to_send = queue.SimpleQueue()
        answers = self.stub.Chat(iter(to_send.get, None))
        for i in range(100):
            to_send.put(pb.ChatRequest(payload=b"%d" % i))
            self.assertEqual(next(answers).payload, b"%d" % i)
        to_send.put(None)  # half-close
        self.assertEqual(list(answers), [])
        self.assertEqual(answers.code(), grpc.StatusCode.OK)

    def test_bidi_may_end_before_the_half_close(self):
        to_send = queue.SimpleQueue()
        answers = self.stub.Chat(iter(to_send.get, None))
        to_send.put(pb.ChatRequest(payload=b"last", finish=True))
        self.assertEqual([m.payload for m in answers], [b"last"])
        to_send.put(None)

    def test_100_calls_at_once(self):
        with concurrent.futures.ThreadPoolExecutor(100) as pool:
            payloads = [os.urandom(1 + 500 * i) for i in range(100)]
            calls = [pool.submit(self.stub.Echo, pb.EchoRequest(payload=p, sleep_ms=20))
                     for p in payloads]
            self.assertEqual([c.result().payload for c in calls], payloads)

    def test_100_connections(self):
        channels = [self.new_channel() for _ in range(100)]
        calls = [rpc.EchoServiceStub(c).Echo.future(pb.EchoRequest(payload=b"%d" % i))
                 for i, c in enumerate(channels)]
        self.assertEqual([c.result().payload for c in calls], [b"%d" % i for i in range(100)])
        for c in channels:
            c.close()
        lib.wait_for(lambda: self.counters().connections_open < 10, "connections closed")

    def test_8_mib_both_ways(self):
        payload = os.urandom(8 * MIB)
        self.assertEqual(self.stub.Echo(pb.EchoRequest(payload=payload)).payload, payload)
        got = list(self.stub.Chat(pb.ChatRequest(payload=payload) for _ in range(3)))
        self.assertEqual([m.payload for m in got], [payload] * 3)

    def test_clear_text_and_unix_socket_serve_the_same(self):
        for target in (f"127.0.0.1:{self.clear_port}", f"unix:{self.unix}"):
            with grpc.insecure_channel(target) as channel:
                answer = rpc.EchoServiceStub(channel).Echo(pb.EchoRequest(payload=b"x"))
                self.assertEqual(answer.payload, b"x")
                self.assertEqual(answer.identity, "peer" if "unix" in target else "")


class Metadata(EchoCase):
    sent = (("x-echo-initial", "text with spaces"), ("x-echo-initial-bin", bytes(range(256))),
            ("x-echo-initial-twice", "1"), ("x-echo-initial-twice", "2"),
            ("x-echo-trailing", "end"), ("x-echo-trailing-bin", b"\x00\xff"), ("other", "kept"))

    def check(self, initial, trailing):
        for key, value in self.sent:
            if key.startswith("x-echo-initial"):
                self.assertIn((key, value), [tuple(e) for e in initial])
            elif key.startswith("x-echo-trailing"):
                self.assertIn((key, value), [tuple(e) for e in trailing])
        twice = [v for k, v in initial if k == "x-echo-initial-twice"]
        self.assertEqual(twice, ["1", "2"])

    def test_comes_back_in_headers_and_trailers(self):
        _, call = self.stub.Echo.with_call(pb.EchoRequest(), metadata=self.sent)
        self.check(call.initial_metadata(), call.trailing_metadata())

    def test_comes_back_on_streams(self):
        call = self.stub.Chat(iter([pb.ChatRequest(payload=b"x")]), metadata=self.sent)
        self.assertEqual(len(list(call)), 1)
        self.check(call.initial_metadata(), call.trailing_metadata())

    def test_comes_back_in_a_failure_without_messages(self):
        request = pb.EchoRequest(failure=pb.Failure(code=9, message="no"))
        e = self.fails(grpc.StatusCode.FAILED_PRECONDITION,
                       lambda: self.stub.Echo(request, metadata=self.sent))
        everything = [*e.initial_metadata(), *e.trailing_metadata()]
        self.check(everything, everything)

    def test_too_much_of_it_fails_that_call_only(self):
        e = self.fails_any(lambda: self.stub.Echo(pb.EchoRequest(),
                                                  metadata=[("big", "x" * 64 * 1024)]))
        self.assertIn(e.code(), (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.INTERNAL,
                                 grpc.StatusCode.UNKNOWN, grpc.StatusCode.UNAVAILABLE))
        self.assertEqual(self.stub.Echo(pb.EchoRequest(payload=b"x")).payload, b"x")

    def fails_any(self, call):
        with self.assertRaises(grpc.RpcError) as caught:
            call()
        return caught.exception


class Errors(EchoCase):
    def test_every_code_arrives_with_its_text(self):
        for code in grpc.StatusCode:
            if code is grpc.StatusCode.OK:
                continue
            failure = pb.Failure(code=code.value[0], message=f"text of {code.name}")
            e = self.fails(code, lambda: self.stub.Echo(pb.EchoRequest(failure=failure)))
            self.assertEqual(e.details(), f"text of {code.name}")

    def test_every_code_arrives_after_messages(self):
        for code in grpc.StatusCode:
            if code is grpc.StatusCode.OK:
                continue
            call = self.stub.Expand(pb.ExpandRequest(
                count=3, failure=pb.Failure(code=code.value[0], message="after")))
            self.assertEqual([next(call).index for _ in range(3)], [0, 1, 2])
            self.fails(code, lambda c=call: next(c))

    def test_text_outside_ascii_survives(self):
        for text in ("ä € 😀", "100% %41", " both ends ", "a\"b'c"):
            failure = pb.Failure(code=3, message=text)
            e = self.fails(grpc.StatusCode.INVALID_ARGUMENT,
                           lambda f=failure: self.stub.Echo(pb.EchoRequest(failure=f)))
            self.assertEqual(e.details(), text)

    def test_details_are_google_rpc(self):
        failure = pb.Failure(code=8, message="too many", reason="QUOTA", retry_ms=1500,
                             metadata={"limit": "sessions", "max": "5", "used": "5"})
        e = self.fails(grpc.StatusCode.RESOURCE_EXHAUSTED,
                       lambda: self.stub.Echo(pb.EchoRequest(failure=failure)))
        status, details = lib.status_details(e)
        self.assertEqual(status[1], [8])
        self.assertEqual(status[2], [b"too many"])
        info = details["google.rpc.ErrorInfo"][0]
        self.assertEqual((info[1], info[2]), ([b"QUOTA"], [b"box"]))
        self.assertEqual(lib.string_map(info[3]), dict(failure.metadata))
        delay = lib.wire_fields(details["google.rpc.RetryInfo"][0][1][0])
        self.assertEqual((delay[1], delay[2]), ([1], [500_000_000]))

    def test_all_field_violations_are_named(self):
        failure = pb.Failure(code=3, message="bad", reason="VALIDATION",
                             violations={"argv": "empty", "timeout": "negative"})
        e = self.fails(grpc.StatusCode.INVALID_ARGUMENT,
                       lambda: self.stub.Echo(pb.EchoRequest(failure=failure)))
        _, details = lib.status_details(e)
        violations = [lib.wire_fields(v) for v in details["google.rpc.BadRequest"][0][1]]
        self.assertEqual({v[1][0].decode(): v[2][0].decode() for v in violations},
                         dict(failure.violations))

    def test_unknown_methods_and_services_are_unimplemented(self):
        for path in ("/box.test.v1.EchoService/None", "/none.Service/Echo",
                     "/box.test.v1.EchoService/echo"):
            e = self.fails(grpc.StatusCode.UNIMPLEMENTED,
                           lambda p=path: self.channel.unary_unary(p)(b""))
            self.assertIn(path, e.details())

    def test_a_declared_method_without_handler_is_unimplemented(self):
        self.fails(grpc.StatusCode.UNIMPLEMENTED, lambda: self.stub.Missing(pb.MissingRequest()))

    def test_bytes_that_are_no_message_are_refused(self):
        call = self.channel.unary_unary("/box.test.v1.EchoService/Echo")
        self.fails(grpc.StatusCode.INTERNAL, lambda: call(b"\x0a\xff"))

    def test_a_second_request_message_is_refused(self):
        call = self.channel.stream_unary("/box.test.v1.EchoService/Echo")
        self.fails(grpc.StatusCode.UNIMPLEMENTED, lambda: call(iter([b"", b""])))

    def test_no_request_message_is_refused(self):
        call = self.channel.stream_unary("/box.test.v1.EchoService/Echo")
        self.fails(grpc.StatusCode.UNIMPLEMENTED, lambda: call(iter([])))


class Descriptors(EchoCase):
    def test_a_server_out_of_descriptors_goes_on_when_there_are_some_again(self):
        self.stub.Echo(pb.EchoRequest())  # this connection is there before
        resource.prlimit(self.server.pid, resource.RLIMIT_NOFILE, (64, 64))
        idle = [socket.create_connection(("127.0.0.1", self.clear_port)) for _ in range(100)]
        lib.wait_for(lambda: "accept_rests" in self.server.log(), "server out of descriptors")
        self.assertEqual(self.stub.Echo(pb.EchoRequest(payload=b"x")).payload, b"x")
        for s in idle:
            s.close()
        channel = self.new_channel()
        stub = rpc.EchoServiceStub(channel)
        answer = stub.Echo(pb.EchoRequest(payload=b"y"), wait_for_ready=True, timeout=20)
        self.assertEqual(answer.payload, b"y")
        channel.close()
        self.assertLess(self.server.log().count("accept_rests"), 10)


class Deadlines(EchoCase):
    def test_the_server_sees_the_deadline(self):
        answer = self.stub.Echo(pb.EchoRequest(), timeout=50)
        self.assertGreater(answer.time_left_ms, 30_000)
        self.assertLessEqual(answer.time_left_ms, 51_000)  # C-core rounds up
        self.assertEqual(self.stub.Echo(pb.EchoRequest()).time_left_ms, 0)

    def test_a_sleeping_handler_is_told(self):
        before = self.counters()
        start = time.monotonic()
        self.fails(grpc.StatusCode.DEADLINE_EXCEEDED,
                   lambda: self.stub.Echo(pb.EchoRequest(sleep_ms=60_000), timeout=0.2))
        self.assertLess(time.monotonic() - start, 10)
        lib.wait_for(lambda: self.ended(self.counters()) > self.ended(before), "handler told")

    @staticmethod
    def ended(counters):
        return counters.cancelled + counters.deadline_exceeded  # whichever side was first

    def test_the_servers_own_timer_ends_a_call(self):
        """By curl, which knows nothing of grpc-timeout and so leaves it to the server."""
        before = self.counters().deadline_exceeded
        message = pb.EchoRequest(sleep_ms=60_000).SerializeToString()
        status, headers = lib.curl(
            self.url(), self.certs.ca, "-H", "content-type: application/grpc", "-H",
            "te: trailers", "-H", "grpc-timeout: 100m",
            data=b"\0" + len(message).to_bytes(4, "big") + message)
        self.assertEqual(status, 200)
        self.assertIn("grpc-status: 4", headers)
        self.assertEqual(self.counters().deadline_exceeded, before + 1)


class Cancel(EchoCase):
    def test_unary(self):
        before = self.counters().cancelled
        call = self.stub.Echo.future(pb.EchoRequest(sleep_ms=60_000))
        lib.wait_for(lambda: self.counters().calls_open > 1, "call there")
        call.cancel()
        lib.wait_for(lambda: self.counters().cancelled > before, "handler told")

    def test_stream_in_the_middle(self):
        before = self.counters().cancelled
        call = self.stub.Expand(pb.ExpandRequest(count=10**12, size=1000))
        next(call)
        call.cancel()
        lib.wait_for(lambda: self.counters().cancelled > before, "handler told")
        self.assertEqual(self.stub.Echo(pb.EchoRequest(payload=b"x")).payload, b"x")

    def test_a_lost_connection_cancels_its_calls(self):
        before = self.counters().cancelled
        channel = self.new_channel()
        calls = [rpc.EchoServiceStub(channel).Echo.future(pb.EchoRequest(sleep_ms=60_000))
                 for _ in range(5)]
        lib.wait_for(lambda: self.counters().calls_open >= 6, "calls there")
        channel.close()
        lib.wait_for(lambda: self.counters().cancelled >= before + 5, "handlers told")
        for call in calls:
            self.assertTrue(call.done())


class Limits(EchoCase):
    server_args = ["--max-message", "100000"]

    def test_a_message_over_the_limit_is_refused_with_both_numbers(self):
        e = self.fails(grpc.StatusCode.RESOURCE_EXHAUSTED,
                       lambda: self.stub.Echo(pb.EchoRequest(payload=b"x" * 200_000)))
        self.assertIn("100000", e.details())
        self.assertIn(str(len(pb.EchoRequest(payload=b"x" * 200_000).SerializeToString())),
                      e.details())

    def test_the_limit_itself_passes(self):
        overhead = len(pb.EchoRequest(payload=b"x" * 99_000).SerializeToString()) - 99_000
        size = 100_000 - overhead
        self.assertEqual(len(self.stub.Echo(pb.EchoRequest(payload=b"x" * size)).payload), size)
        self.fails(grpc.StatusCode.RESOURCE_EXHAUSTED,
                   lambda: self.stub.Echo(pb.EchoRequest(payload=b"x" * (size + 1))))

    def test_the_limit_holds_within_a_stream(self):
        def messages():
            yield pb.CollectRequest(payload=b"x")
            yield pb.CollectRequest(payload=b"x" * 200_000)

        self.fails(grpc.StatusCode.RESOURCE_EXHAUSTED, lambda: self.stub.Collect(messages()))

    def test_the_connection_lives_on_after_large_refused_uploads(self):
        """Their bytes go back to the connection's window."""
        for _ in range(20):
            self.fails(grpc.StatusCode.RESOURCE_EXHAUSTED,
                       lambda: self.stub.Echo(pb.EchoRequest(payload=b"x" * MIB)))
        self.assertEqual(self.stub.Echo(pb.EchoRequest(payload=b"x")).payload, b"x")


class BackPressure(EchoCase):
    def test_a_reader_that_stops_costs_bounded_memory(self):
        channel = self.new_channel()
        calls = [rpc.EchoServiceStub(channel).Expand(pb.ExpandRequest(count=10**9, size=64 * 1024))
                 for _ in range(20)]
        for call in calls:
            next(call)
        rss = lib.wait_for(self.settled_rss, "memory settled")
        self.assertLess(rss, 120 * 1024, "KiB")
        self.assertEqual(self.stub.Echo(pb.EchoRequest(payload=b"x")).payload, b"x")
        for call in calls:
            call.cancel()
        channel.close()

    def test_a_handler_that_stops_reading_holds_the_writer(self):
        sent = 0

        def endless():
            nonlocal sent
            yield pb.CollectRequest(pause_ms=60_000)
            while True:
                sent += 1
                yield pb.CollectRequest(payload=b"x" * 64 * 1024)

        call = self.stub.Collect.future(endless())
        lib.wait_for(lambda: sent > 0, "writer started")
        rss = lib.wait_for(self.settled_rss, "memory settled")
        self.assertLess(sent * 64 * 1024, 64 * MIB)
        self.assertLess(rss, 120 * 1024, "KiB")
        # Others go on meanwhile, on the same connection.
        self.assertEqual(self.stub.Echo(pb.EchoRequest(payload=b"x" * MIB)).payload, b"x" * MIB)
        call.cancel()

    def settled_rss(self):
        before = self.server.rss_kib()
        time.sleep(0.5)  # no event says that nothing more happens
        after = self.server.rss_kib()
        return after if abs(after - before) < 256 else 0


class NotGrpc(EchoCase):
    def test_another_content_type_is_415(self):
        for kind in ("application/json", "application/grpcx", "application/grpc+json", "text/html"):
            status, headers = lib.curl(self.url(), self.certs.ca, "-H", f"content-type: {kind}")
            self.assertEqual(status, 415, kind)
            self.assertFalse([h for h in headers if h.startswith("grpc-status: 0")])

    def test_grpc_content_types_are_taken(self):
        for kind in ("application/grpc", "application/grpc+proto", "application/grpc;x=y"):
            status, headers = lib.curl(self.url(), self.certs.ca, "-H", f"content-type: {kind}",
                                       "-H", "te: trailers", data=b"\0\0\0\0\0")
            self.assertEqual(status, 200, kind)
            self.assertIn("grpc-status: 0", headers)

    def test_another_method_is_405(self):
        status, _ = lib.curl(self.url(), self.certs.ca, "-H", "content-type: application/grpc",
                             "-X", "PUT")
        self.assertEqual(status, 405)

    def test_a_message_cut_short_is_an_error(self):
        _, headers = lib.curl(self.url(), self.certs.ca, "-H", "content-type: application/grpc",
                              "-H", "te: trailers", data=b"\0\0\0\0\5ab")
        self.assertIn("grpc-status: 13", headers)

    def test_garbage_on_either_port_closes_the_connection(self):
        for port in (self.tls_port, self.clear_port):
            with socket.create_connection(("127.0.0.1", port), lib.WAIT_SECONDS) as s:
                s.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 10)
                while s.recv(4096):
                    pass
        self.assertEqual(self.stub.Echo(pb.EchoRequest(payload=b"x")).payload, b"x")


class Health(EchoCase):
    server_args = ["--token", TOKEN]
    serving, not_serving, service_unknown = 1, 2, 3

    def method(self, kind, name, answer):
        return getattr(self.channel, kind)(
            f"/grpc.health.v1.Health/{name}",
            request_serializer=lambda m: m.SerializeToString(),
            response_deserializer=MESSAGE(f"grpc.health.v1.{answer}").FromString)

    def request(self, service=""):
        return MESSAGE("grpc.health.v1.HealthCheckRequest")(service=service)

    def token(self):
        return [("authorization", f"Bearer {TOKEN}")]

    def test_check_needs_no_token(self):
        check = self.method("unary_unary", "Check", "HealthCheckResponse")
        self.assertEqual(check(self.request()).status, self.serving)
        self.assertEqual(check(self.request("box.test.v1.EchoService")).status, self.serving)

    def test_check_of_an_unknown_service_is_not_found(self):
        check = self.method("unary_unary", "Check", "HealthCheckResponse")
        self.fails(grpc.StatusCode.NOT_FOUND, lambda: check(self.request("none")))

    def test_list_names_all(self):
        answer = self.method("unary_unary", "List", "HealthListResponse")(
            MESSAGE("grpc.health.v1.HealthListRequest")(), metadata=self.token())
        self.assertEqual({k: v.status for k, v in answer.statuses.items()},
                         {"": self.serving, "box.test.v1.EchoService": self.serving,
                          "boxtest.v1.TestService": self.serving})

    def test_watch_sends_the_present_status_and_stays(self):
        watch = self.method("unary_stream", "Watch", "HealthCheckResponse")
        for service, status in (("", self.serving), ("none", self.service_unknown)):
            call = watch(self.request(service), metadata=self.token())
            self.assertEqual(next(call).status, status)
            self.assertTrue(call.is_active())
            call.cancel()

    def test_a_call_without_token_is_refused_before_its_body(self):
        for metadata in ((), (("authorization", "Bearer wrong"),), (("authorization", TOKEN),)):
            self.fails(grpc.StatusCode.UNAUTHENTICATED,
                       lambda m=metadata: self.stub.Echo(pb.EchoRequest(), metadata=m))
        answer = self.stub.Echo(pb.EchoRequest(), metadata=self.token())
        self.assertEqual(answer.identity, "token")
        self.fails(grpc.StatusCode.UNAUTHENTICATED, lambda: self.stub.Echo(
            pb.EchoRequest(payload=b"x" * 8 * MIB)))


class Reflection(EchoCase):
    def ask(self, version, *requests):
        prefix = f"grpc.reflection.{version}"
        message = MESSAGE(f"{prefix}.ServerReflectionRequest")
        call = self.channel.stream_stream(
            f"/{prefix}.ServerReflection/ServerReflectionInfo",
            request_serializer=lambda m: m.SerializeToString(),
            response_deserializer=MESSAGE(f"{prefix}.ServerReflectionResponse").FromString)
        return list(call(message(host="h", **r) for r in requests))

    def both(self, *requests):
        first = self.ask("v1", *requests)
        second = self.ask("v1alpha", *requests)
        self.assertEqual([m.SerializeToString() for m in first],
                         [m.SerializeToString() for m in second])
        return first

    def test_services_are_listed(self):
        [answer] = self.both({"list_services": "*"})
        self.assertEqual(answer.valid_host, "h")
        self.assertEqual(answer.original_request.list_services, "*")
        self.assertEqual({s.name for s in answer.list_services_response.service},
                         {"box.test.v1.EchoService", "boxtest.v1.TestService",
                          "grpc.health.v1.Health",
                          "grpc.reflection.v1.ServerReflection",
                          "grpc.reflection.v1alpha.ServerReflection"})

    def test_files_are_those_of_protoc(self):
        by_name, by_symbol = self.both(
            {"file_by_filename": "grpc/health/v1/health.proto"},
            {"file_containing_symbol": "grpc.health.v1.Health.Check"})
        self.assertEqual(by_name.file_descriptor_response, by_symbol.file_descriptor_response)
        [data] = by_name.file_descriptor_response.file_descriptor_proto
        file = descriptor_pb2.FileDescriptorProto.FromString(data)
        self.assertEqual(file.package, "grpc.health.v1")
        self.assertEqual([s.name for s in file.service], ["Health"])
        descriptor_pool.DescriptorPool().Add(file)

    def test_an_error_does_not_end_the_stream(self):
        answers = self.both({"file_by_filename": "none"}, {"file_containing_symbol": "a.B"},
                            {"all_extension_numbers_of_type": "a.B"},
                            {"file_containing_extension": {"containing_type": "a.B"}},
                            {"all_extension_numbers_of_type": "box.test.v1.EchoRequest"},
                            {}, {"list_services": ""})
        self.assertEqual([a.error_response.error_code for a in answers], [5, 5, 5, 5, 0, 3, 0])
        self.assertEqual(answers[4].all_extension_numbers_response.base_type_name,
                         "box.test.v1.EchoRequest")


class Drain(EchoCase):
    """Each test ends its own server."""

    server_args = ["--drain-seconds", "2"]

    @classmethod
    def setUpClass(cls):
        pass

    def setUp(self):
        super().setUpClass()
        self.addCleanup(self.doClassCleanups)

    def terminate(self):
        self.server.process.terminate()

    def test_running_calls_finish_and_new_ones_are_refused(self):
        call = self.stub.Echo.future(pb.EchoRequest(payload=b"x", sleep_ms=1000))
        lib.wait_for(lambda: self.counters().calls_open > 1, "call there")
        self.terminate()
        self.assertEqual(call.result().payload, b"x")
        self.assertEqual(self.server.wait(), 0)
        self.fails(grpc.StatusCode.UNAVAILABLE, lambda: self.stub.Echo(pb.EchoRequest()))

    def test_calls_that_last_too_long_are_ended(self):
        call = self.stub.Echo.future(pb.EchoRequest(sleep_ms=60_000))
        lib.wait_for(lambda: self.counters().calls_open > 1, "call there")
        self.terminate()
        self.fails(grpc.StatusCode.UNAVAILABLE, call.result)
        self.assertEqual(self.server.wait(), 0)

    def test_health_watchers_hear_not_serving_first(self):
        watch = self.channel.unary_stream(
            "/grpc.health.v1.Health/Watch", request_serializer=lambda m: m.SerializeToString(),
            response_deserializer=MESSAGE("grpc.health.v1.HealthCheckResponse").FromString)
        call = watch(MESSAGE("grpc.health.v1.HealthCheckRequest")())
        self.assertEqual(next(call).status, 1)
        self.terminate()
        self.assertEqual(next(call).status, 2)
        self.fails(grpc.StatusCode.UNAVAILABLE, lambda: next(call))
        self.assertEqual(self.server.wait(), 0)

    def test_an_idle_server_ends_soon_and_removes_its_socket(self):
        self.stub.Echo(pb.EchoRequest())
        start = time.monotonic()
        self.terminate()
        self.assertEqual(self.server.wait(), 0)
        self.assertLess(time.monotonic() - start, 2)
        self.assertFalse(os.path.exists(self.unix))

    def test_no_call_fails_while_the_server_drains(self):
        """Calls go on from several threads until the connection is refused altogether."""
        failures = []
        done = threading.Event()

        def work():
            while not done.is_set():
                try:
                    self.stub.Echo(pb.EchoRequest(payload=b"x"), wait_for_ready=True, timeout=20)
                except grpc.RpcError as e:
                    if not done.is_set():
                        failures.append(e)
                    return

        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads:
            t.start()
        lib.wait_for(lambda: self.counters().finished > 50, "calls running")
        self.terminate()
        self.assertEqual(self.server.wait(), 0)
        self.assertEqual(failures, [])
        done.set()
        self.channel.close()
        for t in threads:
            t.join()
        self.assertEqual([f for f in failures if f.code() != grpc.StatusCode.CANCELLED], [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
