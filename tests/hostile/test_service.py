"""hostile-inputs.md rows 36 and 43: callers without rights, and commands that destroy their own box."""

import importlib
import os
import subprocess
import time

import grpc

import hostile_lib
import lib
from hostile_lib import HostileCase, MIB, duration
from grpc import StatusCode

MODULES = ("admin", "control", "exec", "file", "image", "process", "session", "skill", "tool")
OPEN = {"/box.v1.ControlService/Health"}  # says whether Box works, to anyone


def setUpModule():
    HostileCase.start_server(config="limits: {auth_failures: 100000}\n")


def tearDownModule():
    HostileCase.stop_server()


def all_methods():
    """Paths of all methods of box.v1."""
    return [f"/{service.full_name}/{method.name}" for module in MODULES
            for service in importlib.import_module(
                f"box.v1.{module}_pb2").DESCRIPTOR.services_by_name.values()
            for method in service.methods]


class Row36(HostileCase):
    """Who has no token gets nothing, and nobody learns what others have."""

    def call(self, path, metadata, body=b""):
        """Status code of a raw call; None when it succeeds."""
        with grpc.secure_channel(f"localhost:{self.boxd.port}",
                                 grpc.ssl_channel_credentials(self.boxd.ca)) as channel:
            try:
                list(channel.stream_stream(path)(iter([body]), metadata=metadata, timeout=20))
            except grpc.RpcError as error:
                return error.code()
        return None

    def test_every_method_without_a_good_token(self):
        paths = [p for p in all_methods() if p not in OPEN]
        self.assertGreater(len(paths), 60)
        wrong = "box_" + "A" * (len(self.boxd.token) - 4)
        expired = self.client.admin.CreateToken(self.pb.admin.CreateTokenRequest(
            scopes=["admin.read"], ttl=duration(0.01))).secret
        revoked = self.client.admin.CreateToken(self.pb.admin.CreateTokenRequest(
            scopes=["admin.read"]))
        self.client.admin.RevokeToken(self.pb.admin.RevokeTokenRequest(
            token_id=revoked.token.token_id))
        time.sleep(0.05)
        good = self.boxd.token
        ways = [[], [("authorization", "Bearer " + wrong)], [("authorization", "Bearer " + expired)],
                [("authorization", "Bearer " + revoked.secret)], [("authorization", "Bearer ")],
                [("authorization", "Bearer " + good[:-1])], [("authorization", good)],
                [("authorization", "Basic " + good)], [("x-api-key", good), ("token", good)],
                [("authorization", "Bearer " + good), ("authorization", "Bearer " + good)],
                [("authorization", "Bearer " + wrong), ("box-tenant", "default")]]
        for path in paths:
            for metadata in ways[:2] if path != paths[0] else ways:
                self.assertEqual(self.call(path, metadata), StatusCode.UNAUTHENTICATED,
                                 (path, metadata))

    def test_a_method_nobody_has_needs_no_more_than_others(self):
        # Whether a method exists is no secret; that it says no word about objects is.
        self.assertIn(self.call("/box.v1.ExecService/Nothing", []),
                      (StatusCode.UNAUTHENTICATED, StatusCode.UNIMPLEMENTED))

    def test_another_tenants_session_is_like_none(self):
        admin, pb = self.client.admin, self.pb
        admin.CreateTenant(pb.admin.CreateTenantRequest(tenant=pb.admin.Tenant(tenant_id="stranger")))
        self.addCleanup(admin.DeleteTenant, pb.admin.DeleteTenantRequest(tenant_id="stranger"))
        scopes = ["session.read", "session.write", "exec.write", "process.read", "process.write",
                  "file.read", "file.write"]
        token = admin.CreateToken(pb.admin.CreateTokenRequest(tenant_id="stranger",
                                                              scopes=scopes)).secret
        uid = self.client.create(self.sid).uid
        tries = 0
        for path in all_methods():
            service, method = path.rsplit(".", 1)[1].split("/")
            if service not in ("SessionService", "ProcessService", "FileService"):
                continue
            module = importlib.import_module(f"box.v1.{service[:-7].lower()}_pb2")
            fields = module.DESCRIPTOR.services_by_name[service].methods_by_name[
                method].input_type.fields_by_name
            if "session_id" not in fields or method == "CreateSession":
                continue
            ends = []
            for sid in (self.sid, "x" * len(self.sid), uid):
                request = getattr(module, module.DESCRIPTOR.services_by_name[
                    service].methods_by_name[method].input_type.name)(session_id=sid)
                with grpc.secure_channel(f"localhost:{self.boxd.port}",
                                         grpc.ssl_channel_credentials(self.boxd.ca)) as channel:
                    call = channel.stream_stream(path)(
                        iter([request.SerializeToString()]), timeout=20,
                        metadata=[("authorization", "Bearer " + token)])
                    with self.assertRaises(grpc.RpcError) as caught:
                        list(call)
                error = caught.exception
                details = dict(error.trailing_metadata()).get("grpc-status-details-bin", b"")
                ends.append((error.code(), error.details().replace(sid, "ID"),
                             details.replace(sid.encode(), b"ID") if len(sid) == len(self.sid)
                             else b""))
            self.assertEqual(ends[0], ends[1], path)
            self.assertEqual(ends[0][:2], ends[2][:2], path)
            self.assertIn(ends[0][0], (StatusCode.NOT_FOUND, StatusCode.INVALID_ARGUMENT,
                                       StatusCode.UNIMPLEMENTED), path)
            tries += ends[0][0] == StatusCode.NOT_FOUND
        self.assertGreaterEqual(tries, 4)
        self.assertEqual(self.client.get(self.sid).uid, uid)

    def test_a_wide_address_without_tokens_does_not_start(self):
        folder = lib.TemporaryFolder("box-hostile-")
        self.addCleanup(folder.remove)
        for listen, auth in (("0.0.0.0:0", "off"), ("'[::]:0'", "off"), ("'*:0'", "off"),
                             ("'0.0.0.0:0'", "token, tls: false")):
            tls = "false" if "tls" in auth else "true"
            with open(folder.file("boxd.yaml"), "w", encoding="ascii") as f:
                f.write(f"server:\n  auth: {auth.split(',')[0]}\n  listen:\n    - address: {listen}\n"
                        f"      tls: {tls}\nstate_dir: {folder.path}/state\n")
            done = subprocess.run([os.path.join(self.boxd.bin_dir, "boxd"), "--config",
                                   folder.file("boxd.yaml")], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=30,
                                  check=False)
            self.assertEqual(done.returncode, 1, (listen, auth, done.stderr))
            self.assertFalse(os.path.exists(folder.file("state")))


class Row43(HostileCase):
    """Whatever a command does to its own box, the next answer is true and the session can be deleted."""

    # Each: what it does, and whether a command still runs after it.
    ATTACKS = (
        ("rm -rf --no-preserve-root / 2>/dev/null", True),
        ("rm -rf /bin /usr/bin /lib /lib64 /etc 2>/dev/null", True),
        ("kill -9 1; kill -15 1; kill -11 1; kill -STOP 1; kill -9 -1", True),
        ("chmod 000 /bin/sh /usr/bin/env /bin 2>/dev/null; mv /bin /b 2>/dev/null; "
         "ln -sf /nonsense /bin/sh 2>/dev/null", True),
        ("for d in /workspace /tmp /home /dev/shm; do cat /dev/zero >$d/full 2>/dev/null; done", True),
        ("python3 -c 'import os\nfor d in (\"/tmp\", \"/workspace\"):\n  os.chdir(d)\n  try:\n    "
         "for i in range(100000): os.mkdir(str(i))\n  except OSError: pass'", True),
        ("ulimit -n 0; ulimit -u 0; ulimit -v 1000; ulimit -t 0", True),
        ("python3 -c 'import os\nos.chdir(\"/tmp\")\nfor i in range(9000):\n  os.mkdir(\"d\"); "
         "os.chdir(\"d\")'; exit 0", True),
        ("for p in /proc/[0-9]*; do echo -17 >$p/oom_score_adj; echo x >$p/comm; done 2>/dev/null; "
         "exit 0", True),
        ("echo b >/proc/sysrq-trigger; echo 1 >/proc/sys/kernel/panic; echo 0 >/proc/sys/vm/max_map_count"
         "; exit 0", True),
        ("chmod 0 /workspace; chmod 0 /home /tmp 2>/dev/null; exit 0", False),
        ("rmdir /workspace; mv /workspace /w; mkdir x; cd x; rmdir ../x; exit 0", True),
    )

    def test_each_is_told_and_the_next_answer_is_true(self):
        for attack, runs in self.ATTACKS:
            with self.subTest(attack):
                session = self.client.create(self.sid, workspace_limit_bytes=4 * MIB)
                try:
                    self.client.run(attack, self.sid, timeout=60)
                    try:
                        answer = self.client.run("echo fine; exit 7", self.sid)
                        self.assertTrue(runs, "the working directory is shut")
                        self.completes(answer, 7)
                        self.assertEqual(answer.stdout_data, b"fine\n")
                    except grpc.RpcError as error:
                        self.assertFalse(runs, hostile_lib.Failure(error))
                        failure = hostile_lib.Failure(error)
                        self.assertEqual((failure.reason, failure.metadata["kind"]),
                                         ("PERMISSION", "workdir"))
                        self.completes(self.client.run("chmod 700 /workspace", self.sid, workdir="/"))
                        self.completes(self.client.run("exit 7", self.sid), 7)
                    self.assertEqual(self.client.get(self.sid).uid, session.uid)
                finally:
                    self.client.delete(self.sid)
                lib.wait_for(lambda uid=session.uid: not self.boxd.processes(uid), "it goes")

    def test_what_only_the_host_can_do_is_named(self):
        uid = self.client.create(self.sid).uid
        os.kill(self.boxd.first_process(uid), 9)
        lib.wait_for(lambda: self.client.get(self.sid).state ==
                     self.pb.types.SESSION_STATE_ERROR, "it is noticed")
        self.assertTrue(self.client.get(self.sid).state_detail)
        self.client.delete(self.sid)
        self.fails(StatusCode.NOT_FOUND, "SESSION_NOT_FOUND", lambda: self.client.get(self.sid))

    def test_a_full_volume_says_so_and_rm_works(self):
        for volume in ("/workspace", "/tmp", "/home", "/dev/shm"):
            answer = self.client.run(
                f"cat /dev/zero >{volume}/full; echo $?; rm {volume}/full && echo x >{volume}/small "
                f"&& cat {volume}/small", self.sid)
            self.assertIn(b"No space left on device", answer.stderr_data, volume)
            self.assertEqual(answer.stdout_data, b"1\nx\n", volume)


if __name__ == "__main__":
    hostile_lib.main()
