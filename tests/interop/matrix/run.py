"""Runs the cases of cases.json with one client against one server, over TLS, and compares what the client
saw with what is expected there. Our own client (box-test-client) has the cases and judges them itself.

    run.py STUBS --server COMMAND... --client COMMAND... [--without CASE...]

A stock server is started with CERT KEY and prints "ready tls=PORT"; a stock client with TARGET CA SCRIPT
and prints a line for each call (script.proto).
"""

import argparse
import base64
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import lib  # noqa: E402

CLIENT_SECONDS = 240  # for all cases: a limit, not a pause


def load_cases(without):
    with open(os.path.join(HERE, "cases.json"), encoding="utf-8") as f:
        cases = json.load(f)
    unknown = set(without) - set(cases)
    assert not unknown, f"no such cases: {unknown}"
    return {name: calls for name, calls in cases.items() if name not in without}


def request_bytes(stubs, method, request):
    """The request, whose payload is a number of zero bytes in cases.json."""
    request = dict(request)
    size = request.pop("payload", None)
    if size is not None:
        request["payload"] = {"body": base64.b64encode(bytes(size)).decode()}
    return base64.b64encode(stubs.serialize(method, request)).decode()


class Stubs:
    """The test service's messages, by its descriptor."""

    def __init__(self, folder):
        sys.path.insert(0, folder)
        import testing_pb2
        from google.protobuf import json_format
        self.module, self.json_format = testing_pb2, json_format

    def serialize(self, method, request):
        services = self.module.DESCRIPTOR.services_by_name
        name = services["TestService"].methods_by_name[method].input_type.name
        return self.json_format.ParseDict(request, getattr(self.module, name)()).SerializeToString()


def write_script(stubs, cases, path):
    calls = []
    for name, wanted in cases.items():
        for call in wanted:
            line = {"case": name, "service": "TestService", "initial": "", "trailing": "", "timeoutMs": 0, "cancel": "",
                    "compress": False}
            line.update({k: v for k, v in call.items() if k not in ("expect", "timeout_ms")})
            line["timeoutMs"] = call.get("timeout_ms", 0)
            line["requests"] = [request_bytes(stubs, call["method"], r) for r in call["requests"]]
            calls.append(line)
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"calls": calls}, f)


def difference(expected, seen):
    """What is not as expected, or None. An absent field of an outcome is zero or empty; sizes of null may be
    any: whether an answer came before a deadline is not for a test to say. Not every client is told the encoding."""
    wanted = {"code": 0, "sizes": [], **expected}
    wanted = {k: v for k, v in wanted.items() if v is not None and (k != "encoding" or k in seen)}
    empty = {"code": 0, "sizes": [], "message": "", "initial": "", "trailing": "", "encoding": ""}
    wrong = {k: seen.get(k, empty[k]) for k, v in wanted.items() if seen.get(k, empty[k]) != v}
    if not wrong:
        return None
    text = f" ({seen['message']})" if seen.get("message") and "message" not in wrong else ""
    return f"expected {({k: wanted[k] for k in wrong})}, saw {wrong}{text}"


def run_stock_client(stubs, command, target, ca, cases, folder):
    """Returns one line for each case that went wrong."""
    script = folder.file("script.json")
    write_script(stubs, cases, script)
    done = subprocess.run([*command, target, ca, script], stdout=subprocess.PIPE, encoding="utf-8",
                          timeout=CLIENT_SECONDS, check=False)
    seen = [json.loads(line) for line in done.stdout.splitlines()]
    failures = [f"the client ended with {done.returncode}"] if done.returncode != 0 else []
    expected = [(name, call["expect"]) for name, calls in cases.items() for call in calls]
    if [name for name, _ in expected] != [s["case"] for s in seen]:
        failures.append(f"the client reported {[s['case'] for s in seen]}")
    for (name, want), got in zip(expected, seen):
        wrong = difference(want, got)
        print("FAILED" if wrong else "ok", name, wrong or "")
        if wrong:
            failures.append(f"{name}: {wrong}")
    return failures


def run_our_client(command, target, ca, cases):
    """Each case of box-test-client that cases.json has; it prints its verdict."""
    failures = []
    for name in cases:
        done = subprocess.run([*command, "--target", target, "--ca", ca, name], stdout=subprocess.PIPE,
                              encoding="utf-8", timeout=CLIENT_SECONDS, check=False)
        verdict = json.loads(done.stdout.splitlines()[-1]) if done.stdout else {}
        good = done.returncode == 0 and verdict.get("ok") is True
        print("ok" if good else "FAILED", name, done.stdout.strip())
        if not good:
            failures.append(f"{name}: {done.stdout.strip()}")
    return failures


def nothing_is_left(stubs_folder, target, ca):
    """Our server has no call open but the one that asks: cancelled and late calls are gone there too."""
    import grpc
    sys.path.insert(0, stubs_folder)
    import echo_pb2
    import echo_pb2_grpc
    with open(ca, "rb") as f:
        channel = grpc.secure_channel(target, grpc.ssl_channel_credentials(f.read()))
    stub = echo_pb2_grpc.EchoServiceStub(channel)
    lib.wait_for(lambda: stub.GetCounters(echo_pb2.GetCountersRequest()).calls_open == 1, "no call is open")
    channel.close()


def is_ours(command, name):
    return os.path.basename(command[0]) == name


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("stubs")
    parser.add_argument("--server", nargs="+", required=True)
    parser.add_argument("--client", nargs="+", required=True)
    parser.add_argument("--without", nargs="*", default=[])
    options = parser.parse_args()

    cases = load_cases(options.without)
    folder = lib.TemporaryFolder("box-matrix-")
    certs = lib.Certificates(folder.path)
    our_server = is_ours(options.server, "box-echo-server")
    ours = ["--tls", "127.0.0.1:0", "--cert", certs.cert, "--key", certs.key]
    server = lib.Server([*options.server, *(ours if our_server else [certs.cert, certs.key])], folder.file("log"))
    try:
        target = f"localhost:{server.wait_ready(r'ready tls=([0-9]+)').group(1)}"
        if is_ours(options.client, "box-test-client"):
            failures = run_our_client(options.client, target, certs.ca, cases)
        else:
            failures = run_stock_client(Stubs(options.stubs), options.client, target, certs.ca, cases, folder)
        if our_server:
            nothing_is_left(options.stubs, target, certs.ca)
    finally:
        status = server.stop()
    if our_server and status != 0:
        failures.append(f"the server ended with {status}")
    if failures:
        print("\n".join(["", *failures, server.log()]))
    folder.remove()
    return 1 if failures or not cases else 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # Debian's grpcio can crash when Python takes it down
