"""Rows 141 to 157: grpc.health.v1.Health and the reflection services."""

from peer import (DATA, END_STREAM, INVALID_ARGUMENT, NOT_FOUND, OK, SERVICE, UNAUTHENTICATED, UNAVAILABLE,
                  UNIMPLEMENTED, expect, frame, lib, main, message, reset, server_args, settings,
                  window)

HEALTH = "/grpc.health.v1.Health/"
TEST = "boxtest.v1.TestService"
UNKNOWN_STATUS, SERVING, NOT_SERVING, SERVICE_UNKNOWN = range(4)
REFLECTION = ("v1", "v1alpha")


def text(number, value):
    """A protobuf field of text or bytes, by hand: nothing here depends on our own .proto."""
    data = value.encode() if isinstance(value, str) else value
    return bytes([number << 3 | 2]) + varint(len(data)) + data


def varint(n):
    out = b""
    while n > 0x7F:
        out += bytes([n & 0x7F | 0x80])
        n >>= 7
    return out + bytes([n])


def status_of(data):
    return lib.wire_fields(data).get(1, [0])[0]


def check(peer, name, **kwargs):
    return peer.ask(HEALTH + "Check", text(1, name) if name else b"", **kwargs)


def set_health(peer, name, status):
    import testing_pb2
    expect(peer.ask(SERVICE + "SetHealth", testing_pb2.SetHealthRequest(service=name, status=status)), OK)


def watch(peer, name, **kwargs):
    return peer.call(HEALTH + "Watch", text(1, name) if name else b"", **kwargs)


def states(peer, stream, count):
    """What a Watch said, once it was `count` messages."""
    answer = peer.answers[stream]
    peer.until(lambda: len(answer.frames(so_far=True)) >= count or answer.is_over, f"{count} messages")
    return [status_of(data) for _, data in answer.frames(so_far=True)]


def row_141(server):
    """Check: the state of a name, and of the server as a whole."""
    with server.peer() as peer:
        for name in ("", TEST):
            assert status_of(expect(check(peer, name), OK).messages()[0]) == SERVING
        set_health(peer, TEST, NOT_SERVING)
        assert status_of(expect(check(peer, TEST), OK).messages()[0]) == NOT_SERVING
        assert status_of(expect(check(peer, ""), OK).messages()[0]) == SERVING


def row_142(server):
    """Check of a name nobody knows."""
    with server.peer() as peer:
        for name in ("none", TEST + "x", "boxtest.v1", TEST.lower()):
            expect(check(peer, name), NOT_FOUND)


def row_143(server):
    """Watch: the state now, then one message a change, none for the same again."""
    with server.peer() as peer:
        stream = watch(peer, TEST)
        assert states(peer, stream, 1) == [SERVING]
        for status in (NOT_SERVING, NOT_SERVING, SERVING, SERVING, NOT_SERVING):
            set_health(peer, TEST, status)
            peer.ping()
        assert states(peer, stream, 4) == [SERVING, NOT_SERVING, SERVING, NOT_SERVING]
        set_health(peer, "other", SERVING)
        peer.ping()
        assert len(states(peer, stream, 4)) == 4 and not peer.answers[stream].is_over


def row_144(server):
    """Watch of an unknown name: SERVICE_UNKNOWN, and later what it becomes."""
    with server.peer() as peer:
        stream = watch(peer, "later")
        assert states(peer, stream, 1) == [SERVICE_UNKNOWN]
        peer.ping()
        assert not peer.answers[stream].is_over
        set_health(peer, "later", SERVING)
        assert states(peer, stream, 2) == [SERVICE_UNKNOWN, SERVING]


def row_145(server):
    """A watcher that does not read gets the latest state, not all that were."""
    with server.peer(settings(INITIAL_WINDOW=0)) as slow, server.peer() as peer:
        slow.auto_window = False
        stream = watch(slow, TEST)
        slow.ping()
        for i in range(20_001):  # unread answers stay bounded
            peer.call(SERVICE + "SetHealth", text(1, TEST) + b"\x10" + bytes([1 + i % 2]))
            if i % 500 == 499:
                peer.works()
        set_health(peer, TEST, NOT_SERVING)
        slow.send(window(stream, 1 << 20))
        answer = slow.answers[stream]
        slow.until(lambda: answer.data and states(slow, stream, 1)[-1] == NOT_SERVING, "the last state")
        slow.ping()
        seen = states(slow, stream, 1)
        assert seen[-1] == NOT_SERVING and len(seen) < 15_000, len(seen)
        assert not answer.is_over  # only the client ends it
        slow.send(reset(stream))
        slow.ping()
        assert not answer.is_over


def row_146(server):
    """List: all names."""
    with server.peer() as peer:
        set_health(peer, "another", NOT_SERVING)
        [data] = expect(peer.ask(HEALTH + "List"), OK).messages()
        entries = [lib.wire_fields(e) for e in lib.wire_fields(data)[1]]
        found = {e.get(1, [b""])[0].decode(): status_of(e.get(2, [b""])[0]) for e in entries}
        assert found == {"": SERVING, TEST: SERVING, "box.test.v1.EchoService": SERVING, "another": NOT_SERVING}


def row_147(server):
    """A graceful stop says NOT_SERVING before GOAWAY."""
    with server.peer() as peer:
        stream, named = watch(peer, ""), watch(peer, TEST)
        assert states(peer, stream, 1) == [SERVING] and states(peer, named, 1) == [SERVING]
        running = peer.open(peer.fields(SERVICE + "FullDuplexCall"))
        peer.ping()
        server.server.process.terminate()
        for one in (stream, named):
            peer.until(lambda o=one: peer.goaway or len(peer.answers[o].frames()) == 2, "NOT_SERVING")
            assert states(peer, one, 2) == [SERVING, NOT_SERVING] and not peer.goaway
        peer.until(lambda: peer.goaway, "GOAWAY")
        expect(peer.finish(stream), UNAVAILABLE)
        peer.send(frame(DATA, END_STREAM, running))
        expect(peer.finish(running), OK)


@server_args("--token", "t")
def row_148(server):
    """Check needs no token here, the rest does; boxd's own setting is server.health_needs_token."""
    with server.peer() as peer:
        expect(check(peer, ""), OK)
        expect(peer.ask(HEALTH + "Watch"), UNAUTHENTICATED)


# --- reflection -------------------------------------------------------------------------------------


def ask(peer, version, *requests, **kwargs):
    """The answers to requests, each {number: text}, as fields by number."""
    path = f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo"
    raw = b"".join(message(b"".join(text(n, v) for n, v in sorted(r.items()))) for r in requests)
    answer = expect(peer.ask(path, raw=raw, **kwargs), OK)
    return [lib.wire_fields(data) for data in answer.messages()]


HOST, BY_NAME, BY_SYMBOL, BY_EXTENSION, EXTENSIONS_OF, LIST = 1, 3, 4, 5, 6, 7
VALID_HOST, ORIGINAL, FILES, NUMBERS, SERVICES, ERROR = 1, 2, 4, 5, 6, 7


def files(answer):
    """FileDescriptorProtos of an answer by name."""
    from google.protobuf import descriptor_pb2
    found = [descriptor_pb2.FileDescriptorProto.FromString(f) for f in lib.wire_fields(answer[FILES][0])[1]]
    return {f.name: f for f in found}


def error_of(answer):
    fields = lib.wire_fields(answer[ERROR][0])
    return fields[1][0], fields.get(2, [b""])[0].decode()


def row_150(server):
    """Both names serve the same."""
    requests = [{LIST: ""}, {BY_NAME: "testing.proto"}, {BY_SYMBOL: TEST}, {BY_NAME: "none"}, {HOST: "x"}]
    with server.peer() as peer:
        first, second = (ask(peer, version, *requests) for version in REFLECTION)
        assert first == second and len(first) == len(requests)
        expect(peer.ask("/grpc.reflection.v2.ServerReflection/ServerReflectionInfo"), UNIMPLEMENTED)


def row_151(server):
    """One answer a request, in order, with what was asked; an error does not end the stream."""
    requests = [{HOST: "h", BY_SYMBOL: "none.None"}, {HOST: "h", LIST: "*"}, {HOST: "", BY_NAME: "nofile"},
                {HOST: "h2", BY_SYMBOL: TEST}]
    with server.peer() as peer:
        for version in REFLECTION:
            answers = ask(peer, version, *requests)
            assert len(answers) == len(requests)
            for request, answer in zip(requests, answers):
                original = lib.wire_fields(answer[ORIGINAL][0])
                assert {n: v[0].decode() for n, v in original.items()} == {n: v for n, v in request.items() if v or n != HOST}
                assert answer.get(VALID_HOST, [b""])[0].decode() == request[HOST]
        path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
        stream = peer.open(peer.fields(path))  # each is answered when it comes
        for i, request in enumerate(requests):
            peer.send(frame(DATA, 0, stream, message(b"".join(text(n, v) for n, v in sorted(request.items())))))
            peer.until(lambda n=i: len(peer.answers[stream].frames()) == n + 1, "an answer")
        peer.send(frame(DATA, END_STREAM, stream))
        expect(peer.finish(stream), OK)


def row_152(server):
    """All services, with reflection and health."""
    with server.peer() as peer:
        [answer] = ask(peer, "v1", {LIST: ""})
        names = [lib.wire_fields(s)[1][0].decode() for s in lib.wire_fields(answer[SERVICES][0])[1]]
        assert sorted(names) == sorted({TEST, "box.test.v1.EchoService", "grpc.health.v1.Health",
                                        "grpc.reflection.v1.ServerReflection",
                                        "grpc.reflection.v1alpha.ServerReflection"}), names


def row_153(server):
    """A file with its imports, each to be found by name; an unknown one is NOT_FOUND."""
    with server.peer() as peer:
        for name in ("testing.proto", "echo.proto", "grpc/health/v1/health.proto",
                     "grpc/reflection/v1/reflection.proto", "grpc/reflection/v1alpha/reflection.proto"):
            [answer] = ask(peer, "v1", {BY_NAME: name})
            found = files(answer)
            assert name in found
            for file in found.values():
                for imported in file.dependency:
                    assert imported in found or imported in files(ask(peer, "v1", {BY_NAME: imported})[0])
        for name in ("none.proto", "", "testing", "/testing.proto", "./testing.proto"):
            [answer] = ask(peer, "v1", {BY_NAME: name})
            assert error_of(answer)[0] == NOT_FOUND, answer


def row_154(server):
    """Every kind of symbol; no leading dot."""
    health = "grpc.health.v1.HealthCheckResponse"
    with server.peer() as peer:
        for symbol, name in ((TEST, "testing.proto"), (TEST + ".UnaryCall", "testing.proto"),
                             ("boxtest.v1.SimpleRequest", "testing.proto"),
                             ("boxtest.v1.SimpleRequest.response_size", "testing.proto"),
                             ("box.test.v1.Failure.MetadataEntry", "echo.proto"),
                             ("box.test.v1.Failure.MetadataEntry.key", "echo.proto"),
                             (health, "grpc/health/v1/health.proto"),
                             (health + ".ServingStatus", "grpc/health/v1/health.proto"),
                             (health + ".SERVING", "grpc/health/v1/health.proto")):
            for version in REFLECTION:
                [answer] = ask(peer, version, {BY_SYMBOL: symbol})
                assert FILES in answer and name in files(answer), (symbol, answer)
        for symbol in ("." + TEST, TEST + ".None", "boxtest.v1", "", TEST + ".", "boxtest.v1.simplerequest"):
            [answer] = ask(peer, "v1", {BY_SYMBOL: symbol})
            assert error_of(answer)[0] == NOT_FOUND, (symbol, answer)


def row_155(server):
    """Extensions: none of a known type, NOT_FOUND else."""
    with server.peer() as peer:
        extension = text(1, "boxtest.v1.SimpleRequest") + b"\x10\x64"
        answers = ask(peer, "v1", {EXTENSIONS_OF: "boxtest.v1.SimpleRequest"}, {EXTENSIONS_OF: "none.None"},
                      {EXTENSIONS_OF: TEST}, {BY_EXTENSION: extension})
        assert lib.wire_fields(answers[0][NUMBERS][0]) == {1: [b"boxtest.v1.SimpleRequest"]}, answers[0]
        assert [error_of(a)[0] for a in answers[1:]] == [NOT_FOUND] * 3
        [answer] = ask(peer, "v1", {HOST: "h"})  # a request of nothing
        assert error_of(answer)[0] == INVALID_ARGUMENT


def row_156(server):
    """The files are protoc's own and make working messages."""
    from google.protobuf import descriptor_pool, message_factory
    import testing_pb2
    with server.peer() as peer:
        [answer] = ask(peer, "v1", {BY_SYMBOL: TEST})
        file = files(answer)["testing.proto"]
        mine = testing_pb2.DESCRIPTOR
        from google.protobuf import descriptor_pb2
        expected = descriptor_pb2.FileDescriptorProto()
        mine.CopyToProto(expected)
        file.ClearField("source_code_info")
        for field in [f for m in file.message_type for f in m.field]:
            field.ClearField("json_name")
        for field in [f for m in expected.message_type for f in m.field]:
            field.ClearField("json_name")
        assert file == expected
        pool = descriptor_pool.DescriptorPool()
        pool.Add(file)
        factory = message_factory.MessageFactory(pool)
        request = factory.GetPrototype(pool.FindMessageTypeByName("boxtest.v1.SimpleRequest"))(response_size=7)
        answer = expect(peer.ask(SERVICE + "UnaryCall", request), OK)
        response = factory.GetPrototype(pool.FindMessageTypeByName("boxtest.v1.SimpleResponse"))
        assert len(response.FromString(answer.messages()[0]).payload.body) == 7


@server_args("--token", "t", "--no-reflection")
def row_157(server):
    """Off: as any unknown service. boxd's own setting is server.reflection."""
    with server.peer() as peer:
        for version in REFLECTION:
            path = f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo"
            expect(peer.ask(path, raw=message(text(LIST, "")), extra=[("authorization", "Bearer t")]), UNIMPLEMENTED)


if __name__ == "__main__":
    main(globals())
