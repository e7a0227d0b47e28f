"""Runs a client of boxd (with_boxd.py starts that) and looks at what it prints: that boxd is available, what a
command in a sandbox printed, and the status code of a call without a token.

    run_boxd.py COMMAND...
"""

import subprocess
import sys

EXPECTED = "available\n42\n16\n"

done = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, encoding="utf-8", timeout=120, check=False)
print(done.stdout, end="")
if done.returncode != 0 or done.stdout != EXPECTED:
    sys.exit(f"ended with {done.returncode}; expected {EXPECTED!r}")
