"""h2spec (summerwind/h2spec), strict, against the test server with a page for what is no gRPC.

    h2spec.py BOX-ECHO-SERVER

Debian has no package of it: with h2spec in PATH the test runs, else it is skipped."""

import re
import shutil
import subprocess
import sys

from peer import TestServer

# RFC 7540, 5.3.1 only: RFC 9113 took stream priority out, and we tell clients that we ignore it.
ALLOWED = ["Sends PRIORITY frame that depend on itself"]
TESTS = 147


def main():
    h2spec = shutil.which("h2spec")
    if h2spec is None:
        print("h2spec is not in PATH")
        return 77
    server = TestServer(sys.argv[1], "--test-page", "hello")
    try:
        done = subprocess.run([h2spec, "--strict", "--tls", "--insecure", "--timeout", "5", "--host", "127.0.0.1",
                               "--port", str(server.port)], stdout=subprocess.PIPE, text=True, check=False)
        total, passed = map(int, re.search(r"(\d+) tests, (\d+) passed", done.stdout).groups())
        failed = set(re.findall(r"× \d+: (.*)", done.stdout))
        print(f"{passed} of {total} passed; failed: {sorted(failed)}")
        if total < TESTS or not failed <= set(ALLOWED):
            print(done.stdout[done.stdout.find("Failures:"):])
            return 1
        server.stop()
    finally:
        server.remove()
    return 0


if __name__ == "__main__":
    sys.exit(main())
