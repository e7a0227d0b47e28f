"""Runs a command with the whole of Box beside it; the command finds it by BOX_ENDPOINT, BOX_CA and
BOX_TOKEN_FILE. Ends with the command's exit status, or 1 when anything is left behind.

    with_boxd.py PROGRAMS STUBS COMMAND...
"""

import os
import subprocess
import sys

import boxd_lib


def main():
    boxd_lib.need_root()
    sys.path.insert(0, sys.argv[2])
    boxd = boxd_lib.Boxd(sys.argv[1])
    try:
        env = dict(os.environ, BOX_ENDPOINT=f"localhost:{boxd.port}",
                   BOX_CA=os.path.join(boxd.state_dir, "ca.pem"),
                   BOX_TOKEN_FILE=os.path.join(boxd.state_dir, "admin.token"))
        status = subprocess.run(sys.argv[3:], env=env, check=False).returncode
        boxd.stop()
    finally:
        boxd.kill()
    sys.exit(status)


if __name__ == "__main__":
    main()
