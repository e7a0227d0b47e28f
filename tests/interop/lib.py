"""What interoperability tests share: certificates, a server under test, raw HTTP/2 by curl.

Nothing here knows which server it is: tests of boxd use it as well as those of the echo server.
"""

import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

WAIT_SECONDS = 30  # for anything that should happen soon: a limit, not a pause


class Certificates:
    """A CA and a server certificate for localhost and 127.0.0.1, made by openssl in `folder`."""

    def __init__(self, folder):
        self.ca = os.path.join(folder, "ca.pem")
        self.cert = os.path.join(folder, "cert.pem")
        self.key = os.path.join(folder, "key.pem")
        ca_key = os.path.join(folder, "ca-key.pem")
        request = os.path.join(folder, "request.pem")
        names = os.path.join(folder, "names.cnf")
        with open(names, "w", encoding="ascii") as f:
            f.write("subjectAltName=DNS:localhost,IP:127.0.0.1,IP:::1\n")
        new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        self._openssl("req", "-x509", *new_key, "-keyout", ca_key, "-out", self.ca, "-days", "2",
                      "-subj", "/CN=Box test CA")
        self._openssl("req", "-new", *new_key, "-keyout", self.key, "-out", request,
                      "-subj", "/CN=localhost")
        self._openssl("x509", "-req", "-in", request, "-CA", self.ca, "-CAkey", ca_key,
                      "-CAcreateserial", "-days", "2", "-extfile", names, "-out", self.cert)

    @staticmethod
    def _openssl(*args):
        subprocess.run(["openssl", *args], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.PIPE)

    def ca_bytes(self):
        with open(self.ca, "rb") as f:
            return f.read()


class TemporaryFolder:
    """A private folder that goes with the object."""

    def __init__(self, prefix="box-interop-"):
        self.path = tempfile.mkdtemp(prefix=prefix)

    def file(self, name):
        return os.path.join(self.path, name)

    def remove(self):
        shutil.rmtree(self.path, ignore_errors=True)


def resident_bytes(pid):
    """Of a process, by statm of proc(5)."""
    with open(f"/proc/{pid}/statm", encoding="ascii") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def free_port():
    """A TCP port of 127.0.0.1 that was free just now. Prefer a server that binds port 0."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(condition, what, seconds=WAIT_SECONDS):
    """Polls until condition() is true and returns its value; fails with `what` else."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.01)


class Server:
    """A program under test. Its standard error goes to a file, shown when something fails."""

    def __init__(self, argv, log, env=None):
        self.log_path = log
        with open(log, "wb") as err:
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL,
                                            stdout=subprocess.PIPE, stderr=err, env=env)
        self.pid = self.process.pid

    def wait_ready(self, pattern, seconds=WAIT_SECONDS):
        """Reads standard output until a line matches; returns the match."""
        end = time.monotonic() + seconds
        text = b""
        fd = self.process.stdout.fileno()
        while time.monotonic() < end:
            readable, _, _ = select.select([fd], [], [], 0.1)
            if not readable:
                continue
            piece = os.read(fd, 4096)
            text += piece
            match = re.search(pattern, text.decode(errors="replace"))
            if match:
                return match
            if not piece:
                break
        self.stop()
        raise AssertionError(f"server not ready, it said {text!r}\n{self.log()}")

    def log(self):
        with open(self.log_path, "r", encoding="utf-8", errors="replace") as f:
            return f.read()

    def rss_kib(self):
        with open(f"/proc/{self.pid}/status", "r", encoding="ascii") as f:
            return int(re.search(r"VmRSS:\s+(\d+) kB", f.read()).group(1))

    def is_running(self):
        return self.process.poll() is None

    def wait(self, seconds=WAIT_SECONDS):
        """Exit status once it ends by itself."""
        return self.process.wait(seconds)

    def stop(self, seconds=WAIT_SECONDS):
        """SIGTERM, then SIGKILL when that takes too long. Returns the exit status."""
        if self.is_running():
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(seconds)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                print("server had to be killed\n" + self.log(), file=sys.stderr)
        self.process.stdout.close()
        return self.process.returncode


def curl(url, ca, *args, data=b""):
    """One raw HTTP/2 request. Returns (status, header lines)."""
    done = subprocess.run(
        ["curl", "--silent", "--http2", "--cacert", ca, "--max-time", str(WAIT_SECONDS),
         "--dump-header", "-", "--output", "/dev/null", "--data-binary", "@-", *args, url],
        input=data, stdout=subprocess.PIPE, check=True)
    lines = done.stdout.decode().splitlines()
    return int(lines[0].split()[1]), lines[1:]


def wire_fields(data):
    """Protobuf bytes as {field number: [values]}: ints, or bytes. Knows no schema, so that what a
    server sends is compared with the official numbers and not with our own .proto."""
    fields = {}
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return value

    while at < len(data):
        tag = varint()
        if tag & 7 == 0:
            value = varint()
        elif tag & 7 == 2:
            length = varint()
            value = data[at:at + length]
            assert len(value) == length, "field cut short"
            at += length
        else:
            raise AssertionError(f"unexpected wire type {tag & 7}")
        fields.setdefault(tag >> 3, []).append(value)
    return fields


def status_details(error):
    """(google.rpc.Status fields, {type name: [fields]}) of a grpc.RpcError."""
    for key, value in error.trailing_metadata():
        if key == "grpc-status-details-bin":
            status = wire_fields(value)
            details = {}
            for detail in status.get(3, []):
                detail = wire_fields(detail)
                name = detail[1][0].decode().rsplit("/", 1)[1]
                details.setdefault(name, []).append(wire_fields(detail.get(2, [b""])[0]))
            return status, details
    return None, {}


def string_map(entries):
    """A map<string, string> field of wire_fields as a dictionary."""
    pairs = [wire_fields(e) for e in entries]
    return {p.get(1, [b""])[0].decode(): p.get(2, [b""])[0].decode() for p in pairs}


def is_tsan(programs):
    """Whether box-warden was built with tsan, whose own thread keeps it from making a user namespace."""
    with open(os.path.join(programs, "box-warden"), "rb") as program:
        return b"__tsan_init" in program.read()
