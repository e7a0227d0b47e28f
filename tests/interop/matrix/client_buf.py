"""buf curl as a client of the matrix: client_buf.py BUF STUBS TARGET CA SCRIPT. It knows the service by
reflection; a call is one process. It has no cases of cancelling: it begins a stream with the first message, and
reads its standard input to the end whatever signal comes."""

import base64
import json
import re
import subprocess
import sys
import tempfile

from google.protobuf import json_format

sys.path.insert(0, sys.argv[2])
import testing_pb2  # noqa: E402

CODES = ("ok canceled unknown invalid_argument deadline_exceeded not_found already_exists permission_denied "
         "resource_exhausted failed_precondition aborted out_of_range unimplemented internal unavailable data_loss "
         "unauthenticated").split()
WAIT_SECONDS = 30
LEAST_TIMEOUT_MS = 2000  # reflection takes its share of it


def size(answer):
    return len(base64.b64decode(answer.get("payload", {}).get("body", ""))) or answer.get("aggregatedPayloadSize", 0)


def json_requests(call):
    service = testing_pb2.DESCRIPTOR.services_by_name[call["service"]]
    kind = getattr(testing_pb2, service.methods_by_name[call["method"]].input_type.name)
    for data in call["requests"]:
        message = kind.FromString(base64.b64decode(data))
        yield json_format.MessageToJson(message, indent=None) + "\n"


def command(buf, target, ca, call):
    argv = [buf, "curl", "--protocol", "grpc", "--cacert", ca, "--verbose", "--data", "@-"]
    if call["timeoutMs"]:
        argv += ["--timeout", f"{max(call['timeoutMs'], LEAST_TIMEOUT_MS)}ms"]
    if call["initial"]:
        argv += ["--header", f"x-grpc-test-echo-initial: {call['initial']}"]
    if call["trailing"]:
        argv += ["--header", f"x-grpc-test-echo-trailing-bin: {call['trailing']}"]
    return [*argv, f"https://{target}/boxtest.v1.{call['service']}/{call['method']}"]


def read_answer(out):
    """One answer, which ends with a closing brace in the first column. None at the end."""
    lines = []
    for line in out:
        lines.append(line)
        if line in ("}\n", "{}\n"):
            return json.loads("".join(lines))
    return None


def converse(process, call, sizes):
    """buf notices how a call ended only when it is not reading standard input, so that is closed after the
    last request; before that each waits for the answer to the one before."""
    requests = list(json_requests(call))
    for i, request in enumerate(requests):
        process.stdin.write(request)
        process.stdin.flush()
        if call["method"] == "FullDuplexCall" and i + 1 < len(requests):
            sizes.append(size(read_answer(process.stdout)))
    process.stdin.close()
    while (answer := read_answer(process.stdout)) is not None:
        sizes.append(size(answer))
    process.wait(WAIT_SECONDS)


def outcome(call, sizes, log):
    """From what it writes to standard error: a log line begins with its name; the rest is an error."""
    lines = log.splitlines()
    error = json.loads("".join(line for line in lines if not line.startswith("buf: ")) or "{}")
    headers, _, trailers = log.partition("Grpc-Status:")
    found = {"initial": re.search(r"< \(#\d+\) X-Grpc-Test-Echo-Initial: (.*)", headers),
             "trailing": re.search(r"< \(#\d+\) X-Grpc-Test-Echo-Trailing-Bin: (.*)", trailers),
             "encoding": re.search(r"< \(#\d+\) Grpc-Encoding: (.*)", headers)}
    return {"case": call["case"], "code": CODES.index(error.get("code", "ok")), "message": error.get("message", ""),
            "sizes": sizes, **{name: match.group(1) if match else "" for name, match in found.items()}}


def run(buf, target, ca, call):
    sizes = []
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as log:
        process = subprocess.Popen(command(buf, target, ca, call), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=open(log.name, "w", encoding="utf-8"), encoding="utf-8")
        converse(process, call, sizes)
        return outcome(call, sizes, log.read())


def main(buf, _stubs, target, ca, script):
    with open(script, encoding="utf-8") as f:
        calls = json.load(f)["calls"]
    for call in calls:
        print(json.dumps(run(buf, target, ca, call)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
