"""Python's stock gRPC (grpcio) as a server of the matrix: server.py STUBS CERT KEY."""

import sys
import time
from concurrent import futures

import grpc

sys.path.insert(0, sys.argv[1])
import testing_pb2 as pb  # noqa: E402
import testing_pb2_grpc as pb_grpc  # noqa: E402

INITIAL, TRAILING = "x-grpc-test-echo-initial", "x-grpc-test-echo-trailing-bin"
CODES = {code.value[0]: code for code in grpc.StatusCode}


def begin(context, compressed=False):
    """Gives the two fields back, in headers and in trailers."""
    if compressed:
        context.set_compression(grpc.Compression.Gzip)
    sent = context.invocation_metadata()
    context.send_initial_metadata([(k, v) for k, v in sent if k == INITIAL])
    context.set_trailing_metadata([(k, v) for k, v in sent if k == TRAILING])


def check_status(context, request):
    if request.response_status.code:
        context.abort(CODES[request.response_status.code], request.response_status.message)


def payload(size):
    return pb.Payload(body=bytes(size))


def answers(context, request):
    check_status(context, request)
    for wanted in request.response_parameters:
        time.sleep(wanted.interval_us / 1e6)
        yield pb.StreamingOutputCallResponse(payload=payload(wanted.size))


class Service(pb_grpc.TestServiceServicer):
    def EmptyCall(self, request, context):
        begin(context)
        return pb.Empty()

    def UnaryCall(self, request, context):
        begin(context, request.response_compressed.value)
        check_status(context, request)
        return pb.SimpleResponse(payload=payload(request.response_size))

    def StreamingOutputCall(self, request, context):
        begin(context)
        yield from answers(context, request)

    def StreamingInputCall(self, requests, context):
        total = sum(len(r.payload.body) for r in requests)
        return pb.StreamingInputCallResponse(aggregated_payload_size=total)

    def FullDuplexCall(self, requests, context):
        begin(context)
        for request in requests:
            yield from answers(context, request)


def main(cert, key):
    with open(cert, "rb") as c, open(key, "rb") as k:
        credentials = grpc.ssl_server_credentials([(k.read(), c.read())])
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=16))
    pb_grpc.add_TestServiceServicer_to_server(Service(), server)
    port = server.add_secure_port("127.0.0.1:0", credentials)
    server.start()
    print(f"ready tls={port}", flush=True)
    server.wait_for_termination()


if __name__ == "__main__":
    main(*sys.argv[2:])
