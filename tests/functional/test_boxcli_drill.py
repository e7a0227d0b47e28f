"""boxcli drill: every attack on a real server, and what it says of a server whose walls are down."""

import concurrent.futures
import json
import os
import signal

import grpc

import test_boxcli
import boxd_lib
import lib
from boxd_lib import BoxdCase

RESULTS = {"held", "broken", "skipped"}


def setUpModule():
    BoxdCase.start_server()


def tearDownModule():
    BoxdCase.stop_server()


class Case(test_boxcli.Case):
    def read(self, code, out):
        """The JSON of a drill, which must agree with itself and with the exit code."""
        answer = json.loads(out)
        self.assertEqual(set(answer), {"backend", "attacks", *RESULTS})
        for row in answer["attacks"]:
            self.assertEqual(set(row), {"attack", "tried", "expected", "happened", "result"})
            self.assertIn(row["result"], RESULTS)
            for text in row.values():
                self.assertTrue(text, row)
        for result in RESULTS:
            rows = [row for row in answer["attacks"] if row["result"] == result]
            self.assertEqual(answer[result], len(rows))
        self.assertEqual(code, 0 if answer["held"] and not answer["broken"] else 1, answer)
        return {row["attack"]: row for row in answer["attacks"]}

    def drill(self, *args, env=None):
        """{attack: row}."""
        code, out, err = self.cli("--json", "drill", *args, env=env, timeout=200)
        self.assertEqual(err, "")
        return self.read(code, out)

    def attacks(self):
        return [line.split()[0] for line in self.ok("drill", "--list").splitlines()]

    def sessions(self):
        """Those of drills that live."""
        return [line for line in self.ok("session", "list", "--ids").split() if "drill-" in line]


class Held(Case):
    SLOW = ("--only", "fork-storm", "--only", "cpu-hog", "--only", "stop-all")  # 7 s at least

    def test_every_attack_is_held(self):
        rows = self.drill()
        self.assertEqual(list(rows), self.attacks())
        self.assertGreaterEqual(len(rows), 30)
        for name, row in rows.items():
            self.assertEqual(row["result"], "held", (name, row))
        self.assertEqual(self.sessions(), [])
        self.boxd.wait_nothing_left()

    def test_some_as_text(self):
        out = self.ok("drill", "--backend", "namespace", "--only", "timeout", "--only", "set-id")
        lines = out.splitlines()
        self.assertEqual([line.split() for line in lines if not line.startswith(" ")][:-1],
                         [["held", "timeout"], ["held", "set-id"]])
        self.assertEqual(lines[-1], "backend namespace: 2 held, 0 broken, 0 skipped")
        for word in ("tried", "expected", "happened"):
            self.assertEqual(len([line for line in lines if line.split()[0] == word]), 2)

    def test_an_interrupt_leaves_nothing(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            child = self.start("drill", *self.SLOW)
            lib.wait_for(lambda: len(self.sessions()) == 2, "an attack runs, beside its neighbour")
            child.send_signal(number)
            out, err = child.communicate(timeout=60)
            self.assertEqual(child.returncode, 128 + number, err)
            self.assertRegex(out, rb"[0-2] held, 0 broken, 0 skipped\n$")
            self.assertIn(b"interrupted", err)
            self.assertEqual(self.sessions(), [])
        self.boxd.wait_nothing_left()

    def test_what_a_killed_one_leaves_ends_soon(self):
        child = self.start("drill", *self.SLOW)
        lib.wait_for(lambda: len(self.sessions()) == 2, "an attack runs, beside its neighbour")
        child.kill()
        child.wait()
        left = self.sessions()
        self.assertTrue(left)
        for name in left:
            self.addCleanup(self.client.delete, name)
            spec = self.client.get(name).spec
            self.assertEqual(spec.idle_ttl.seconds, 60)
            self.assertLessEqual(spec.max_lifetime.seconds, 600)

    def test_misuse_and_what_cannot_be_attacked(self):
        self.fails(2, "drill", "--backend", "host", says=["host", "no walls"])
        self.fails(2, "drill", "--only", "none-such", says=["--list"])
        self.fails(2, "drill", "surplus", says=["surplus"])
        self.fails(1, "drill", "--backend", "none-such", says=["none-such"])
        self.fails(1, "drill", env={"BOX_ENDPOINT": None}, says=["--endpoint"])

    def test_a_token_that_may_not(self):
        path = self.boxd.folder.file("drill-token")
        with open(path, "w", encoding="ascii") as f:
            f.write(self.ok("token", "create", "--scope", "session.read"))
        self.fails(1, "drill", "--only", "timeout", env={"BOX_TOKEN_FILE": path},
                   says=["session.write"])


class Down(Case):
    """A server, of stock gRPC, that runs commands with no sandbox around them."""

    def setUp(self):
        super().setUp()
        self.backend = self.pb.types.BackendInfo(name="weak", available=True,
                                                 isolation=self.pb.types.ISOLATION_LEVEL_PROCESS)
        self.fails_to_create = self.fails_to_run = None
        self.created, self.deleted = [], []
        server = grpc.server(concurrent.futures.ThreadPoolExecutor(2))
        pb = self.pb
        for service, methods in (
                ("Control", {"GetBackendInfo": (pb.control.GetBackendInfoRequest, self.info)}),
                ("Session", {"CreateSession": (pb.session.CreateSessionRequest, self.create),
                             "DeleteSession": (pb.session.DeleteSessionRequest, self.delete)}),
                ("Exec", {"Exec": (pb.exec.ExecRequest, self.exec)})):
            handlers = {name: grpc.unary_unary_rpc_method_handler(
                function, kind.FromString, lambda m: m.SerializeToString())
                for name, (kind, function) in methods.items()}
            server.add_generic_rpc_handlers(
                (grpc.method_handlers_generic_handler(f"box.v1.{service}Service", handlers),))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        self.addCleanup(lambda: server.stop(None).wait())
        self.env = {"BOX_ENDPOINT": f"dns:///127.0.0.1:{port}", "BOX_TOKEN_FILE": None,
                    "BOX_CA": None}

    def info(self, request, context):
        return self.pb.control.GetBackendInfoResponse(backend=self.backend)

    @staticmethod
    def fail(context, code, reason):
        """A status with an ErrorInfo, as google/rpc has them, by hand."""
        def field(number, data):
            return bytes([number << 3 | 2, len(data)]) + data
        info = field(1, reason.encode()) + field(2, b"box")
        detail = field(1, b"type.googleapis.com/google.rpc.ErrorInfo") + field(2, info)
        status = bytes([8, code.value[0]]) + field(2, reason.encode()) + field(3, detail)
        context.set_trailing_metadata([("grpc-status-details-bin", status)])
        context.abort(code, reason)

    def create(self, request, context):
        self.created.append(request)
        if self.fails_to_create and not request.session_id.endswith("-neighbour"):
            self.fail(context, *self.fails_to_create)
        return self.pb.session.CreateSessionResponse(created=True)

    def delete(self, request, context):
        self.deleted.append(request.session_id)
        return self.pb.session.DeleteSessionResponse(deleted=True)

    def exec(self, request, context):
        argv = list(request.command.argv)
        if self.fails_to_run:
            self.fail(context, *self.fails_to_run)
        done = boxd_lib.run_quietly(argv, cwd=request.command.workdir or "/",
                                    env={"PATH": "/usr/bin:/bin", "BOX_SECRET": "box_" + "A" * 43})
        verdict = self.pb.types.Verdict(status=self.pb.types.VERDICT_STATUS_COMPLETED,
                                        exit_code=done.returncode)
        return self.pb.exec.ExecResponse(stdout_data=done.stdout[:4096], verdict=verdict,
                                         stderr_data=done.stderr[:4096])

    def run_down(self, *names):
        only = [word for name in names for word in ("--only", name)]
        code, out, err = self.cli("--plaintext", "--json", "drill", *only, env=self.env)
        self.assertEqual(err, "")
        self.assertEqual({request.session_id for request in self.created}, set(self.deleted))
        return self.read(code, out)

    def test_what_is_reached_is_broken(self):
        rows = self.run_down("host-files", "secrets")
        self.assertEqual(rows["host-files"]["result"], "broken", rows)
        self.assertIn("worked", rows["host-files"]["happened"])
        self.assertEqual(rows["secrets"]["result"], "broken", rows)

    def test_what_is_asked_of_a_sandbox(self):
        self.fails_to_create = (grpc.StatusCode.FAILED_PRECONDITION, "GUARANTEE_UNSUPPORTED")
        rows = self.run_down("fork-bomb", "set-id")
        self.assertEqual({row["result"] for row in rows.values()}, {"skipped"})
        self.assertIn("GUARANTEE_UNSUPPORTED", rows["fork-bomb"]["happened"])
        bomb = next(r for r in self.created if r.session_id.endswith("fork-bomb")).spec
        self.assertLessEqual({"memory", "pids"}, set(bomb.guarantees))
        self.assertEqual((bomb.backend, bomb.pids_limit, bomb.memory_bytes), ("weak", 64, 64 << 20))
        self.assertEqual(bomb.network, self.pb.types.NETWORK_MODE_OFF)

    def test_a_program_that_is_not_there(self):
        self.fails_to_run = (grpc.StatusCode.NOT_FOUND, "FILE_NOT_FOUND")
        row = self.run_down("secrets")["secrets"]
        self.assertEqual((row["result"], row["happened"]),
                         ("skipped", "python3 is not in the sandbox"))

    def test_a_server_that_fails_is_broken(self):
        self.fails_to_run = (grpc.StatusCode.UNAVAILABLE, "RUNTIME_UNAVAILABLE")
        row = self.run_down("secrets")["secrets"]
        self.assertEqual(row["result"], "broken")
        self.assertIn("RUNTIME_UNAVAILABLE", row["happened"])

    def test_a_backend_without_walls_is_refused(self):
        t = self.pb.types
        for change in ({"name": "host"}, {"unsafe_direct_execution": True},
                       {"isolation": t.ISOLATION_LEVEL_NONE},
                       {"isolation": t.ISOLATION_LEVEL_UNSPECIFIED}):
            kept = t.BackendInfo()
            kept.CopyFrom(self.backend)
            for name, value in change.items():
                setattr(self.backend, name, value)
            self.fails(1, "--plaintext", "drill", env=self.env, says=["no walls"])
            self.backend.CopyFrom(kept)
        self.backend.available = False
        self.fails(1, "--plaintext", "drill", env=self.env, says=["does not work"])
        self.assertEqual(self.created, [])


if __name__ == "__main__":
    boxd_lib.main()
