"""boxcli doctor: what it says of a machine and a server that are well, and of those that are not."""

import glob
import json
import os
import shutil
import socket
import subprocess
import sys

import test_boxcli
import boxd_lib
import lib
from boxd_lib import BoxdCase
from test_boxcli import BOXCLI

STATES = {"ok", "warn", "fail", "skip"}
NOBODY = 61238
CA_CONFIG = """[ca]
default_ca = own
[own]
database = {folder}/index.txt
new_certs_dir = {folder}
serial = {folder}/serial
default_md = sha256
policy = any
[any]
commonName = supplied
"""


def setUpModule():
    BoxdCase.start_server()


def tearDownModule():
    BoxdCase.stop_server()


class Case(test_boxcli.Case):
    def setUp(self):
        super().setUp()
        folder = lib.TemporaryFolder("box-doctor-")
        self.addCleanup(folder.remove)
        self.folder = folder

    def file(self, name, text, mode=0o600):
        """A file of this test's folder; its path."""
        path = self.folder.file(name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        os.chmod(path, mode)
        return path

    def read(self, code, out):
        """{check: row} of its JSON, which must be well-formed and agree with the exit code."""
        rows = json.loads(out)
        for row in rows:
            self.assertEqual(set(row), {"check", "state", "found", "fix"})
            self.assertIn(row["state"], STATES, row)
            self.assertTrue(row["found"], row)
            self.assertEqual(bool(row["fix"]), row["state"] in ("warn", "fail"), row)
        self.assertEqual(code, int("fail" in [row["state"] for row in rows]), rows)
        by_name = {row["check"]: row for row in rows}
        self.assertEqual(len(by_name), len(rows))
        return by_name

    def doctor(self, *args, env=None):
        """{check: row}."""
        code, out, err = self.cli("--json", "doctor", *args, env=env)
        self.assertEqual(err, "")
        return self.read(code, out)

    def has(self, rows, check, state, found="", fix=""):
        """The row is in that state and says so."""
        row = rows[check]
        self.assertEqual(row["state"], state, row)
        self.assertIn(found, row["found"])
        self.assertIn(fix, row["fix"])

    def expired(self, name):
        """A certificate that ended years ago."""
        folder = self.folder.path
        self.file("index.txt", "")
        self.file("serial", "01\n")
        config = self.file("ca.cnf", CA_CONFIG.format(folder=folder))
        key, request, out = (self.folder.file(f"{name}.{end}") for end in ("key", "csr", "pem"))
        for line in (["req", "-new", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out",
                      request, "-subj", "/CN=old"],
                     ["ca", "-selfsign", "-batch", "-notext", "-config", config, "-in", request,
                      "-keyfile", key, "-startdate", "20200101000000Z", "-enddate",
                      "20200201000000Z", "-out", out]):
            done = boxd_lib.run_quietly(["openssl", *line])
            self.assertEqual(done.returncode, 0, done.stderr)
        return out


class Well(Case):
    def test_a_server_that_is_well(self):
        rows = self.doctor("--warden-config", self.boxd.folder.file("warden.yaml"))
        for check in ("token file", "state directory", "server key", "CA certificate", "boxd",
                      "boxd version", "token", "box-warden", "guarantees", "server certificate",
                      "server warnings", "a command", "server clock", "kernel", "seccomp",
                      "user namespaces", "other namespaces", "cgroup memory", "cgroup pids"):
            self.has(rows, check, "ok")
        self.assertIn("namespace works", rows["box-warden"]["found"])
        self.assertIn(self.boxd.state_dir, rows["state directory"]["found"])

    def test_text_is_a_line_a_row_and_a_sum(self):
        code, out, err = self.cli("doctor")
        self.assertEqual((code, err), (0, ""))
        lines = out.decode().splitlines()
        rows = [line for line in lines if line.split()[0] in STATES]
        self.assertEqual(len(rows), len(self.doctor()))
        self.assertRegex(lines[-1], r"^\d+ ok, \d+ warnings, 0 failed, \d+ skipped$")
        for line, after in zip(lines, lines[1:]):
            self.assertEqual(line.startswith("warn"), after.lstrip().startswith("-> "), line)

    def test_only_a_part(self):
        parts = [set(self.doctor("--only", part)) for part in ("machine", "files", "server")]
        self.assertEqual(set.union(*parts), set(self.doctor()))
        self.assertEqual(sum(map(len, parts)), len(self.doctor()))
        self.fails(2, "doctor", "--only", "all", says=["machine, files or server"])
        self.fails(2, "doctor", "surplus", says=["surplus"])

    def test_nothing_of_it_is_left(self):
        self.doctor()
        for root in boxd_lib.cgroup_roots():
            self.assertEqual(glob.glob(os.path.join(root, "box-doctor-*")), [])

    def test_an_ordinary_user_without_a_server(self):
        os.chmod(self.folder.path, 0o711)
        program = shutil.copy(BOXCLI, self.folder.file("boxcli"))
        done = boxd_lib.run_quietly([program, "--json", "doctor"], user=NOBODY, group=NOBODY,
                                    cwd="/", env={"PATH": "/usr/bin:/bin"})
        rows = self.read(done.returncode, done.stdout)
        self.has(rows, "cgroup memory", "skip", "needs root")
        self.has(rows, "boxd", "skip", "BOX_ENDPOINT")
        self.has(rows, "a command", "skip", "BOX_ENDPOINT")
        self.has(rows, "token file", "skip", "BOX_TOKEN_FILE")

    def test_a_token_that_may_do_little(self):
        secret = self.ok("token", "create", "--scope", "session.read", "--ttl", "1h")
        rows = self.doctor(env={"BOX_TOKEN_FILE": self.file("token", secret)})
        self.has(rows, "token", "warn", "ends 2", "token create")
        self.has(rows, "server certificate", "skip", "admin.read")
        self.has(rows, "a command", "skip", "exec.write")
        self.has(rows, "box-warden", "ok")


class Files(Case):
    def test_a_token_that_others_can_read(self):
        path = self.file("token", self.boxd.token, 0o644)
        rows = self.doctor(env={"BOX_TOKEN_FILE": path})
        self.has(rows, "token file", "fail", "0644", f"chmod 600 {path}")
        self.has(rows, "token", "ok")
        os.chmod(path, 0o600)
        self.has(self.doctor(env={"BOX_TOKEN_FILE": path}), "token file", "ok")

    def test_a_token_file_that_is_empty_or_missing(self):
        rows = self.doctor(env={"BOX_TOKEN_FILE": self.file("empty", "")})
        self.has(rows, "token file", "fail", "empty", "token create")
        self.has(rows, "boxd", "fail", "holds no token", "--token-file")
        rows = self.doctor("--only", "files", env={"BOX_TOKEN_FILE": "/no/such"})
        self.has(rows, "token file", "fail", "No such file", "BOX_TOKEN_FILE")

    def test_an_expired_ca(self):
        rows = self.doctor("--only", "files", env={"BOX_CA": self.expired("old")})
        self.has(rows, "CA certificate", "fail", "expired", "--ca")
        with open(self.folder.file("old.pem"), "rb") as old, \
                open(os.path.join(self.boxd.state_dir, "ca.pem"), "rb") as new:
            bundle = old.read() + new.read()
        path = self.file("bundle.pem", bundle.decode())
        self.has(self.doctor(env={"BOX_CA": path}), "CA certificate", "ok")  # one of them holds

    def test_a_ca_that_is_none(self):
        for path, found in ((self.file("text", "no certificate\n"), "no certificate"),
                            ("/no/such.pem", "No such file")):
            rows = self.doctor("--only", "files", env={"BOX_CA": path})
            self.has(rows, "CA certificate", "fail", found, "BOX_CA")

    def test_the_clients_own_certificate_and_key(self):
        cert = self.expired("mine")
        os.chmod(self.folder.file("mine.key"), 0o644)
        rows = self.doctor("--only", "files", env={"BOX_CERT": cert,
                                                   "BOX_KEY": self.folder.file("mine.key")})
        self.has(rows, "client certificate", "fail", "expired", "client_ca")
        self.has(rows, "client key", "fail", "0644", "chmod 600")

    def test_boxds_directory_and_key(self):
        state = self.folder.file("state")
        os.mkdir(state)
        os.chmod(state, 0o750)
        key = self.file("state/server.key", "key", 0o604)
        rows = self.doctor("--only", "files", "--state-dir", state)
        self.has(rows, "state directory", "fail", "0750", f"chmod 700 {state}")
        self.has(rows, "server key", "fail", "0604", f"chmod 600 {key}")
        rows = self.doctor("--only", "files", "--state-dir", "/no/such")
        self.has(rows, "state directory", "fail", "No such file", "--state-dir")
        rows = self.doctor("--only", "files", "--state-dir", key)
        self.has(rows, "state directory", "fail", "not a directory")

    def test_the_wardens_configuration(self):
        os.chmod(self.folder.path, 0o711)
        path = self.file("warden.yaml", "socket: /x\n", 0o644)
        option = ("--only", "files", "--warden-config", path)
        self.has(self.doctor(*option), "warden configuration", "ok")
        os.chmod(path, 0o664)
        self.has(self.doctor(*option), "warden configuration", "fail", "0664", f"go-w {path}")
        os.chmod(path, 0o644)
        os.chown(path, NOBODY, 0)
        self.has(self.doctor(*option), "warden configuration", "fail", str(NOBODY), "chown root")
        os.chown(path, 0, 0)
        os.chmod(self.folder.path, 0o777)
        self.has(self.doctor(*option), "warden configuration", "fail", "replace",
                 f"go-w {self.folder.path}")
        os.chmod(self.folder.path, 0o1777)  # as /tmp is: nobody replaces another's file
        self.has(self.doctor(*option), "warden configuration", "ok")


class Servers(Case):
    def test_a_dead_server(self):
        port = lib.free_port()
        rows = self.doctor("--only", "server", env={"BOX_ENDPOINT": f"dns:///localhost:{port}"})
        self.has(rows, "boxd", "fail", "cannot connect", "is boxd running?")
        for check in set(rows) - {"boxd"}:
            self.has(rows, check, "skip", "boxd does not answer")

    def test_a_target_that_is_none(self):
        rows = self.doctor("--only", "server", env={"BOX_ENDPOINT": "ftp://x"})
        self.has(rows, "boxd", "fail", "ftp://x")

    def test_a_wrong_ca(self):
        certs = lib.Certificates(self.folder.path)
        rows = self.doctor("--only", "server", env={"BOX_CA": certs.ca})
        self.has(rows, "boxd", "fail", "certificate", "--ca")

    def test_a_bad_token(self):
        path = self.file("token", "box_" + "A" * 43)
        rows = self.doctor("--only", "server", env={"BOX_TOKEN_FILE": path})
        self.has(rows, "boxd", "ok")
        self.has(rows, "token", "fail", "token", "--token-file")
        self.has(rows, "a command", "skip")

    def test_a_warden_that_is_gone(self):
        boxd = boxd_lib.Boxd(sys.argv[1])
        self.addCleanup(boxd.kill)
        env = {"BOX_ENDPOINT": f"dns:///localhost:{boxd.port}",
               "BOX_TOKEN_FILE": os.path.join(boxd.state_dir, "admin.token"),
               "BOX_CA": os.path.join(boxd.state_dir, "ca.pem")}
        self.has(self.doctor("--only", "server", env=env), "box-warden", "ok")
        boxd.stop_warden()
        lib.wait_for(lambda: self.doctor("--only", "server", env=env)["box-warden"]["state"] ==
                     "fail", "boxd has noticed")
        rows = self.doctor("--only", "server", env=env)
        self.has(rows, "box-warden", "fail", "", "box-warden@namespace")
        self.has(rows, "guarantees", "skip")
        self.has(rows, "a command", "fail", "", "box-warden")
        self.has(rows, "boxd", "ok")


class Machine(Case):
    """Machines that are not as ours: in a mount namespace that shows other files."""

    def elsewhere(self, script, *before):
        """{check: row} of the machine after a shell script has changed what it looks like."""
        done = boxd_lib.run_quietly(
            ["unshare", "--mount", *before, "sh", "-ec",
             f"{script}\nexec {BOXCLI} --json doctor --only machine"],
            env={"PATH": os.environ["PATH"], "DIR": self.folder.path})
        self.assertEqual(done.stderr, b"")
        return self.read(done.returncode, done.stdout)

    def with_value(self, path, value):
        name = self.file("value", f"{value}\n")
        return self.elsewhere(f"mount --bind {name} {path}")

    def test_an_old_kernel(self):
        self.has(self.elsewhere("true", "setarch", "--uname-2.6"), "kernel", "fail", "2.6.",
                 "6.1 or later")

    def refusing(self, what):
        """The machine with the seccomp filter of weak.c."""
        weak = self.folder.file("weak")
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "hostile", "weak.c")
        done = boxd_lib.run_quietly(["gcc", "-w", "-o", weak, source])
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.elsewhere("true", weak, what, "/usr/bin/env")

    def test_no_filters_and_no_landlock(self):
        rows = self.refusing("no-filters")
        self.has(rows, "seccomp", "fail", "not implemented", "CONFIG_SECCOMP_FILTER")
        self.has(rows, "landlock", "ok", "ABI")
        rows = self.refusing("no-landlock")
        self.has(rows, "seccomp", "ok")
        self.has(rows, "landlock", "warn", "not in this kernel", "CONFIG_SECURITY_LANDLOCK")
        self.has(self.refusing("landlock-off"), "landlock", "warn", "switched off at boot", "lsm=")

    def test_user_namespaces_that_are_refused(self):
        self.has(self.refusing("no-userns"), "user namespaces", "fail", "not permitted",
                 "seccomp filter around it")

    def test_user_namespaces_that_are_switched_off(self):
        rows = self.with_value("/proc/sys/user/max_user_namespaces", 0)
        self.has(rows, "user namespaces", "fail", "is 0", "sysctl -w user.max_user_namespaces=")

    def test_kinds_of_namespaces_that_are_scarce(self):
        rows = self.with_value("/proc/sys/user/max_net_namespaces", 12)
        self.has(rows, "user.max_*_namespaces", "warn", "12", "user.max_net_namespaces=")
        rows = self.with_value("/proc/sys/user/max_net_namespaces", 0)
        self.has(rows, "user.max_*_namespaces", "fail", "is 0", "user.max_net_namespaces=")

    def test_settings(self):
        for check, low in (("fs.pipe-user-pages-soft", 16384), ("kernel.pid_max", 1000),
                           ("kernel.threads-max", 1000), ("kernel.pty.max", 16),
                           ("fs.file-max", 1000), ("fs.inotify.max_user_instances", 8),
                           ("fs.inotify.max_user_watches", 100), ("net.core.somaxconn", 128)):
            path = "/proc/sys/" + check.replace(".", "/")
            self.has(self.with_value(path, low), check, "warn", str(low), f"sysctl -w {check}=")
            self.has(self.with_value(path, 1 << 40), check, "ok", str(1 << 40))
        path = "/proc/sys/fs/pipe-user-pages-soft"
        self.has(self.with_value(path, 0), "fs.pipe-user-pages-soft", "ok", "not limited")

    def test_the_installed_settings_satisfy_it(self):
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
        with open(os.path.join(source, "cmake/install/sysctl.conf"), encoding="utf-8") as f:
            settings = [line.split("=") for line in f if not line.startswith("#")]
        self.assertTrue(settings)
        for name, value in settings:
            path = "/proc/sys/" + name.strip().replace(".", "/")
            self.has(self.with_value(path, int(value)), name.strip(), "ok")

    def test_no_control_groups(self):
        rows = self.elsewhere("umount -lR /sys/fs/cgroup")
        self.has(rows, "cgroups", "fail", "none", "mount -t cgroup2")
        self.has(rows, "cgroup memory", "fail", "no hierarchy")
        self.has(rows, "cgroup of a command", "warn", "no cgroup2")

    def test_control_groups_that_cannot_be_written(self):
        points = " ".join(boxd_lib.cgroup_roots())
        rows = self.elsewhere(f"for p in {points}; do mount -o remount,bind,ro $p; done")
        self.has(rows, "cgroup memory", "fail", "Read-only", "remount,rw")
        self.has(rows, "cgroup of a command", "warn", "Read-only", "control groups")

    def test_no_loop_devices(self):
        rows = self.elsewhere("mount -t tmpfs none /dev")
        self.has(rows, "loop devices", "warn", "No such file", "modprobe loop")

    def test_few_descriptors(self):
        self.has(self.elsewhere("ulimit -n 1024"), "open files", "warn", "1024", "ulimit -Hn")

    def test_engines(self):
        for name, text in (("podman", "echo podman version 4.3.1"), ("crun", "exit 1"),
                           ("docker", "echo Docker 1; echo second")):
            self.file(name, f"#!/bin/sh\n{text}\n", 0o755)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(self.folder.file("socket"))
            listener.listen()
            rows = self.elsewhere("PATH=$DIR:$PATH\nexport DOCKER_HOST=unix://$DIR/socket "
                                  "CONTAINER_HOST=unix:///no/such")
        for check in ("docker", "podman", "crun", "runc", "runsc", "nsjail"):
            self.has(rows, check, "skip", "not built yet")
        self.has(rows, "podman", "skip", "podman version 4.3.1, /no/such No such file")
        self.has(rows, "docker", "skip", f"Docker 1, {self.folder.file('socket')} answers")
        self.has(rows, "crun", "skip", f"{self.folder.file('crun')}: version not known")


if __name__ == "__main__":
    boxd_lib.main()
