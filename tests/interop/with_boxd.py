"""Runs a command with the whole of Box beside it; the command finds it by BOX_ENDPOINT, BOX_CA and
BOX_TOKEN_FILE. Ends with the command's exit status, or 1 when anything is left behind.

    with_boxd.py [--config YAML] PROGRAMS STUBS COMMAND...
"""

import os
import subprocess
import sys

import boxd_lib


def main():
    boxd_lib.need_root()
    args, config = sys.argv[1:], ""
    if args[0] == "--config":
        config, args = args[1] + "\n", args[2:]
    sys.path.insert(0, args[1])
    boxd = boxd_lib.Boxd(args[0], config=config)
    try:
        env = dict(os.environ, BOX_ENDPOINT=f"localhost:{boxd.port}",
                   BOX_CA=os.path.join(boxd.state_dir, "ca.pem"),
                   BOX_TOKEN_FILE=os.path.join(boxd.state_dir, "admin.token"))
        status = subprocess.run(args[2:], env=env, check=False).returncode
        boxd.stop()
    finally:
        boxd.kill()
    sys.exit(status)


if __name__ == "__main__":
    main()
