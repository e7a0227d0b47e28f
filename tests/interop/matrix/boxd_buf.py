"""buf curl against boxd, knowing its services by reflection: boxd_buf.py BUF."""

import base64
import json
import os
import subprocess
import sys


def call(method, request, with_token=True):
    """Its answer, or the call's status code. Reflection always has the token."""
    argv = [sys.argv[1], "curl", "--protocol", "grpc", "--cacert", os.environ["BOX_CA"], "--data", json.dumps(request)]
    for header in ["--reflect-header"] + ["--header"] * with_token:
        argv += [header, f"authorization: Bearer {token}"]
    done = subprocess.run([*argv, f"https://{os.environ['BOX_ENDPOINT']}/box.v1.{method}"], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else done.returncode >> 3


with open(os.environ["BOX_TOKEN_FILE"], encoding="ascii") as f:
    token = f.read().strip()
print("available" if call("ControlService/Health", {})["available"] else "not available")
command = {"argv": ["sh", "-c", "echo $((6*7))"]}
print(base64.b64decode(call("ExecService/Exec", {"command": command})["stdoutData"]).decode(), end="")
print(call("ControlService/Health", {}, with_token=False))
