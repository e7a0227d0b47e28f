"""Our client against our server: every case of box-test-client, over TLS, clear TCP and a Unix socket.

    test_client_cases.py BOX-ECHO-SERVER BOX-TEST-CLIENT
"""

import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import lib  # noqa: E402


def run(client, target, options, case):
    done = subprocess.run([client, "--target", target, *options, case], capture_output=True, text=True, timeout=120)
    assert done.stdout, f"{case}: printed nothing, ended with {done.returncode}: {done.stderr}"
    return json.loads(done.stdout.splitlines()[-1]), done.returncode


def main(server_path, client):
    cases = subprocess.run([client, "--list"], capture_output=True, text=True, check=True).stdout.split()
    failures = []
    folder = lib.TemporaryFolder()
    certs = lib.Certificates(folder.path)
    socket = folder.file("s")
    server = lib.Server([server_path, "--tls", "127.0.0.1:0", "--cert", certs.cert, "--key", certs.key,
                         "--clear", "127.0.0.1:0", "--unix", socket], folder.file("log"))
    ready = server.wait_ready(r"ready tls=(\d+) clear=(\d+)")
    ways = [("tls", f"127.0.0.1:{ready.group(1)}", ["--ca", certs.ca]),
            ("clear", f"127.0.0.1:{ready.group(2)}", ["--plaintext"]),
            ("unix", f"unix:{socket}", [])]
    for way, target, options in ways:
        for case in cases:
            result, code = run(client, target, options, case)
            good = result["ok"] and code == 0
            print("ok" if good else "FAILED", way, case, result.get("why", ""))
            if not good:
                failures.append((way, case))
    if server.stop() != 0:
        failures.append(("server", server.log()))
    folder.remove()
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
