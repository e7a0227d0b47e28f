"""Python's stock gRPC (grpcio) as a client of the matrix: client.py STUBS TARGET CA SCRIPT."""

import base64
import json
import os
import queue
import sys

import grpc

sys.path.insert(0, sys.argv[1])
import testing_pb2  # noqa: E402
import testing_pb2_grpc  # noqa: E402

CLIENT_STREAMS = ("StreamingInputCall", "FullDuplexCall")
SERVER_STREAMS = ("StreamingOutputCall", "FullDuplexCall")
INITIAL, TRAILING = "x-grpc-test-echo-initial", "x-grpc-test-echo-trailing-bin"


def size(answer):
    payload = getattr(answer, "payload", None)
    return len(payload.body) if payload is not None else getattr(answer, "aggregated_payload_size", 0)


def metadata(call):
    pairs = [(INITIAL, call["initial"]), (TRAILING, base64.b64decode(call["trailing"]))]
    return [(k, v) for k, v in pairs if v]


def converse(call, started, requests, feed, sizes):
    """Sends and reads until the call ends."""
    if call["cancel"] == "begin":
        started.cancel()
    for request in requests if feed else []:
        feed.put(request)
        if call["method"] == "FullDuplexCall":
            sizes.append(size(next(started)))
            if call["cancel"] == "response":
                started.cancel()
    if feed and not call["cancel"]:
        feed.put(None)
    if call["method"] in SERVER_STREAMS:
        sizes.extend(size(answer) for answer in started)
    else:
        sizes.append(size(started.result()))


def run(channel, call):
    service = testing_pb2.DESCRIPTOR.services_by_name[call["service"]]
    method = service.methods_by_name[call["method"]]
    kind = getattr(testing_pb2, method.input_type.name)
    requests = [kind.FromString(base64.b64decode(r)) for r in call["requests"]]
    stub = getattr(getattr(testing_pb2_grpc, call["service"] + "Stub")(channel), call["method"])
    feed = queue.SimpleQueue() if call["method"] in CLIENT_STREAMS else None
    start = stub if call["method"] in SERVER_STREAMS else stub.future
    started = start(iter(feed.get, None) if feed else requests[0], metadata=metadata(call),
                    timeout=call["timeoutMs"] / 1000 or None,
                    compression=grpc.Compression.Gzip if call["compress"] else None)
    sizes = []
    try:
        converse(call, started, requests, feed, sizes)
    except (grpc.RpcError, grpc.FutureCancelledError):
        pass  # its status is what is reported
    if feed:
        feed.put(None)
    headers, trailers = dict(started.initial_metadata()), dict(started.trailing_metadata() or ())
    return {"case": call["case"], "code": started.code().value[0], "message": started.details(), "sizes": sizes,
            "initial": headers.get(INITIAL, ""),
            "trailing": base64.b64encode(trailers.get(TRAILING, b"")).decode()}


def main(target, ca, script):
    with open(ca, "rb") as f:
        channel = grpc.secure_channel(target, grpc.ssl_channel_credentials(f.read()))
    with open(script, encoding="utf-8") as f:
        calls = json.load(f)["calls"]
    for call in calls:
        print(json.dumps(run(channel, call)), flush=True)
    channel.close()


if __name__ == "__main__":
    main(*sys.argv[2:])
    os._exit(0)  # Debian's grpcio can crash when Python takes it down
