"""boxcli mcp-server: servers of this machine in a session, their projects and environments."""

import json
import os
import signal
import sys
import zipfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import test_boxcli  # noqa: E402  (its folder is on the path only now)
import boxd_lib  # noqa: E402
import lib  # noqa: E402
from boxd_lib import BoxdCase  # noqa: E402

# A server of the Model Context Protocol as small as one can be.
SERVER = """\
import json, os, sys
def where(_):
    try:
        import boxtest_hello
        hello = boxtest_hello.TEXT
    except ImportError:
        hello = None
    return {"pid": os.getpid(), "cwd": os.getcwd(), "prefix": sys.prefix, "argv": sys.argv,
            "hello": hello, "data": os.environ.get("DATA"), "files": sorted(os.listdir("."))}
print("the server runs", file=sys.stderr, flush=True)
for line in sys.stdin:
    m = json.loads(line)
    if m["method"] == "initialize":
        r = {"protocolVersion": m["params"]["protocolVersion"], "capabilities": {"tools": {}},
             "serverInfo": {"name": "small", "version": "1"}}
    elif m["method"] == "tools/list":
        r = {"tools": [{"name": "where", "inputSchema": {"type": "object"}}]}
    elif m["method"] == "tools/call":
        r = {"content": [{"type": "text", "text": json.dumps(where(m["params"]))}]}
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": r}), flush=True)
sys.exit(7)
"""


def setUpModule():
    BoxdCase.start_server()


def tearDownModule():
    BoxdCase.stop_server()


def write_wheel(folder):
    """A package of one module, for pip without a network."""
    os.makedirs(folder, exist_ok=True)
    info = "boxtest_hello-1.0.dist-info"
    files = {"boxtest_hello.py": "TEXT = 'hello from a wheel'\n",
             f"{info}/METADATA": "Metadata-Version: 2.1\nName: boxtest-hello\nVersion: 1.0\n",
             f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: box\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(os.path.join(folder, "boxtest_hello-1.0-py3-none-any.whl"), "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)


class Client:
    """One that talks to what boxcli gives."""

    def __init__(self, case, *args, env=None):
        self.case = case
        self.next = 0
        self.child = case.start("mcp-server", "run", *args, env=env)

    def call(self, method, **params):
        """The result; None when the server ended."""
        self.next += 1
        message = {"jsonrpc": "2.0", "id": self.next, "method": method, "params": params}
        self.child.stdin.write(json.dumps(message).encode() + b"\n")
        self.child.stdin.flush()
        line = self.child.stdout.readline()
        if not line:
            raise AssertionError(f"no answer: {self.child.stderr.read().decode()}")
        answer = json.loads(line)
        self.case.assertEqual(answer["id"], self.next)
        return answer["result"]

    def initialize(self):
        result = self.call("initialize", protocolVersion="2025-06-18", capabilities={},
                           clientInfo={"name": "test", "version": "1"})
        self.case.assertEqual(result["serverInfo"]["name"], "small")
        self.case.assertEqual(self.call("tools/list")["tools"][0]["name"], "where")
        return self

    def where(self):
        return json.loads(self.call("tools/call", name="where", arguments={})["content"][0]["text"])

    def end(self):
        """The client's end of the pipe is closed; the exit code and what was said."""
        self.child.stdin.close()
        said = self.child.stderr.read().decode()
        return self.child.wait(20), said

    def kill(self):
        self.child.kill()
        self.child.wait()


class ServerCase(test_boxcli.Case):
    def setUp(self):
        super().setUp()
        folder = lib.TemporaryFolder("box-project-")
        self.addCleanup(folder.remove)
        self.top = folder.path

    def project(self, name="small", **files):
        """A folder with the server and these files (double underscores are dots, or slashes)."""
        root = os.path.join(self.top, name)
        os.makedirs(root, exist_ok=True)
        for path, text in {"server__py": SERVER, **files}.items():
            path = os.path.join(root, path.replace("__", "."))
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
        return root

    def command(self, root):
        return ["--", "python3", os.path.join(root, "server.py")]

    def run_server(self, root, *options):
        return Client(self, "--session", self.sid, *options, *self.command(root)).initialize()

    def inside(self, text):
        return self.ok("exec", self.sid, "--shell", text)

    def processes(self, session=None):
        p = self.pb.process
        answer = self.client.processes.ListManagedProcesses(
            p.ListManagedProcessesRequest(session_id=session or self.sid))
        return list(answer.processes)


class Run(ServerCase):
    def test_a_project_with_its_environment(self):
        root = self.project(requirements__txt="--no-index\n--find-links wheels\nboxtest-hello==1.0\n",
                            config__json="{}")
        write_wheel(os.path.join(root, "wheels"))
        os.makedirs(os.path.join(root, ".venv", "bin"))
        os.makedirs(os.path.join(root, ".git"))
        os.symlink("/usr/bin/python3", os.path.join(root, ".venv", "bin", "python3"))
        with open(os.path.join(root, ".venv", "pyvenv.cfg"), "w", encoding="ascii"):
            pass
        os.symlink("/etc/passwd", os.path.join(root, "secret"))
        # As a person would write it in a client's configuration, with paths of this machine.
        entry = ["--session", self.sid, "--id", "small", "--env", f"DATA={root}/config.json", "--",
                 f"{root}/.venv/bin/python3", f"{root}/server.py", f"--config={root}/config.json"]
        first = Client(self, *entry).initialize()
        at = first.where()
        self.assertRegex(at["cwd"], r"^/workspace/\.mcp/small/[0-9a-f]{32}$")
        self.assertEqual(at["argv"], [f"{at['cwd']}/server.py", f"--config={at['cwd']}/config.json"])
        self.assertEqual(at["data"], f"{at['cwd']}/config.json")
        self.assertRegex(at["prefix"], r"^/workspace/\.mcp/\.environments/[0-9a-f]{32}$")
        self.assertEqual(at["hello"], "hello from a wheel")
        self.assertEqual(at["files"], ["config.json", "requirements.txt", "server.py", "wheels"])
        first.kill()  # the client vanishes; the server lives, with all that was made for it
        again = Client(self, "--take-over", *entry).initialize()
        self.assertEqual(again.where(), at)
        code, said = again.end()
        self.assertEqual(code, 0)
        self.assertNotIn("files are copied", said)
        self.assertNotIn("the server runs", said)
        self.assertEqual([p.state for p in self.processes()], [self.pb.process.PROCESS_STATE_RUNNING])

    def test_other_files_are_another_server(self):
        root = self.project()
        first = self.run_server(root, "--id", "x")
        before = first.where()
        self.assertEqual(first.end()[0], 0)
        self.project(more__txt="x")
        second = self.run_server(root, "--id", "x")
        after = second.where()
        self.assertIn("more.txt", after["files"])
        self.assertNotEqual((before["cwd"], before["pid"]), (after["cwd"], after["pid"]))
        code, said = second.end()
        self.assertEqual(code, 0)
        self.assertIn("x is replaced", said)
        self.assertEqual(self.inside("ls /workspace/.mcp/x"), os.path.basename(after["cwd"]) + "\n")
        third = self.run_server(root, "--id", "x", "--replace")
        self.assertNotEqual(third.where()["pid"], after["pid"])

    def test_a_command_without_a_project(self):
        client = Client(self, "--session", self.sid, "--stop-on-detach", "--", "python3", "-c", SERVER)
        self.assertEqual(client.initialize().where()["cwd"], "/workspace")
        code, said = client.end()  # its stdin ends: it does, and how is ours
        self.assertEqual(code, 7)
        self.assertIn("the server runs\n", said)
        self.assertEqual(self.inside("ls -A /workspace"), "")

    def test_relative_names_of_a_named_project(self):
        root = self.project()
        client = Client(self, "--session", self.sid, "--project", root, "--", "python", "server.py")
        self.assertEqual(client.initialize().where()["argv"], ["server.py"])

    def test_one_client_at_a_time(self):
        root = self.project()
        first = self.run_server(root)
        first.where()
        args = ["--session", self.sid, *self.command(root)]
        self.fails(125, "mcp-server", "run", *args, says=["STDIN_TAKEN"])
        second = Client(self, "--take-over", *args).initialize()
        self.assertEqual(first.child.wait(20), 125)
        second.where()

    def test_a_server_that_does_not_start(self):
        root = self.project(server__py="import no_such_module\n")
        client = Client(self, "--session", self.sid, *self.command(root))
        self.assertEqual(client.child.wait(20), 1)
        self.assertIn("ModuleNotFoundError", client.child.stderr.read().decode())
        self.fails(125, "mcp-server", "run", "--session", self.sid, "--", "no-such-program",
                   says=["process: ", "no-such-program"])

    def test_what_is_copied_is_what_was_meant(self):
        root = self.project()
        home = {"HOME": self.top}
        args = ["mcp-server", "run", "--session", self.sid]
        self.fails(125, *args, "--", "python3", f"{root}/server.py", self.top, env=home,
                   says=["home directory", "project"])
        hidden = os.path.join(self.top, "elsewhere", ".ssh")
        os.makedirs(hidden)
        with open(os.path.join(hidden, "id"), "w", encoding="ascii") as f:
            f.write("secret")
        self.fails(125, *args, "--", "cat", f"{hidden}/id", says=["hidden", "project"])
        self.fails(125, *args, "--", "ls", "/tmp", says=["directory of the system", "project"])
        self.assertNotIn("files are copied", self.cli(*args, "--no-venv", "--", "true", "/etc/passwd")[2])
        self.fails(125, *args, "--project", "/no/such", "--", "true", says=["project: ", "/no/such"])
        self.fails(125, *args, "--id", "../x", "--", "true", says=["VALIDATION", "../x"])
        self.assertEqual(self.cli(*args)[0], 125)
        self.assertEqual(self.cli(*args, "--env", "x", "--", "true")[0], 125)

    def test_signals_end_the_client_alone(self):
        client = self.run_server(self.project())
        client.child.send_signal(signal.SIGTERM)
        self.assertEqual(client.child.wait(20), 128 + 15)
        self.assertEqual([p.state for p in self.processes()], [self.pb.process.PROCESS_STATE_RUNNING])


class Stage(ServerCase):
    def test_stage_and_stop(self):
        root = self.project()
        self.client.create(self.sid)
        self.assertRegex(self.ok("mcp-server", "stage", root, self.sid, "/workspace/a/b"),
                         r"^1 files, \d+ bytes\n$")
        self.assertIn("it was there", self.ok("mcp-server", "stage", root, self.sid, "/workspace/a/b"))
        answer = json.loads(self.ok("mcp-server", "stage", "--json", root, self.sid, "/workspace/c"))
        self.assertEqual((answer["files"], answer["made"], len(answer["hash"])), (1, True, 64))
        self.assertEqual(self.inside("cd /workspace; ls a/b c"), "a/b:\nserver.py\n\nc:\nserver.py\n")
        self.fails(1, "mcp-server", "stage", root, self.sid, "relative", says=["VALIDATION"])
        self.fails(1, "mcp-server", "stage", root, "no-such-session", "/workspace/x",
                   says=["SESSION_NOT_FOUND"])
        for name in ("one", "two"):
            self.run_server(root, "--id", name).end()
        self.ok("mcp-server", "stop", self.sid, "one")
        states = {p.process_id: p.state for p in self.processes()}
        self.assertEqual(states, {"one": self.pb.process.PROCESS_STATE_EXITED,
                                  "two": self.pb.process.PROCESS_STATE_RUNNING})
        self.assertEqual(self.inside("ls /workspace/.mcp"), "two\n")
        self.ok("mcp-server", "stop", self.sid, "one")
        self.fails(1, "mcp-server", "stop", self.sid, "..", says=["VALIDATION"])


class Environments(ServerCase):
    def environments(self):
        return self.inside("cd /workspace/.mcp/.environments; ls -d */ 2>/dev/null; true").split()

    def test_what_cannot_be_installed_leaves_nothing(self):
        root = self.project(requirements__txt="--no-index\nno-such-package==1\n")
        for _ in range(2):
            self.fails(125, "mcp-server", "run", "--session", self.sid, *self.command(root),
                       says=["environment: ", "No matching distribution", "VALIDATION"])
            self.assertEqual(self.environments(), [])
        self.assertEqual(self.processes(), [])
        Client(self, "--session", self.sid, "--no-venv", *self.command(root)).initialize()

    def test_several_at_once_make_one(self):
        write_wheel(os.path.join(self.top, "wheels"))
        self.client.create(self.sid, workspace_limit_bytes=200 * boxd_lib.MIB, max_parallel_execs=4)
        self.ok("mcp-server", "stage", os.path.join(self.top, "wheels"), self.sid, "/workspace/wheels")
        options = ["--env", "PIP_NO_INDEX=1", "--env", "PIP_FIND_LINKS=/workspace/wheels"]
        roots = [self.project(f"p{i}", requirements__txt="boxtest-hello==1.0\n") for i in range(4)]
        clients = [Client(self, "--session", self.sid, *options, *self.command(root))
                   for root in roots]
        at = [client.initialize().where() for client in clients]
        self.assertEqual({a["hello"] for a in at}, {"hello from a wheel"})
        self.assertEqual(len({a["prefix"] for a in at}), 1)
        self.assertEqual(len(self.environments()), 1)
        # One that was not finished does not count as made.
        venv = at[0]["prefix"]
        self.inside(f"rm {venv}/made; rm -r {venv}/lib; mkdir {venv}/half")
        for client in clients:
            client.end()
        again = Client(self, "--session", self.sid, "--replace", *options, *self.command(roots[0]))
        self.assertEqual(again.initialize().where()["hello"], "hello from a wheel")
        self.assertEqual(self.inside(f"ls {venv}; ls {venv}/.."),
                         "bin\ninclude\nlib\nlib64\nmade\npyvenv.cfg\n" +
                         "".join(f"{os.path.basename(venv)}{end}\n" for end in ("", ".lock")))

    def test_nothing_to_install_needs_no_pip(self):
        root = self.project(requirements__txt="# nothing\n")
        at = self.run_server(root).where()
        self.assertIn("/.environments/", at["prefix"])
        self.assertEqual(self.inside(f"ls {at['prefix']}/bin | grep -c pip; true"), "0\n")


class Shared(ServerCase):
    def setUp(self):
        super().setUp()
        self.addCleanup(self.ok, "session", "delete", "--allow-missing", "mcp-shared")

    def shared(self, root, *options):
        return Client(self, *options, *self.command(root))

    def test_one_session_for_all(self):
        roots = [self.project(f"p{i}") for i in range(4)]
        clients = [self.shared(root) for root in roots]  # whoever comes first makes it
        pids = [client.initialize().where()["pid"] for client in clients]
        self.assertEqual(len(set(pids)), 4)
        self.assertEqual(len(self.processes("mcp-shared")), 4)
        session = self.client.get("mcp-shared")
        self.assertTrue(session.spec.persistent)
        self.assertRegex(self.processes("mcp-shared")[0].process_id, r"^p\d-[0-9a-f]{8}$")
        said = [client.end()[1] for client in clients]
        self.assertEqual(sum("session mcp-shared is new" in text for text in said), 1)

    def test_another_sandbox_is_another_session(self):
        root = self.project()
        client = self.shared(root, "--memory", "200MiB")
        client.initialize()
        names = [s.session_id for s in self.client.sessions.ListSessions(
            self.pb.session.ListSessionsRequest()).sessions]
        name = next(n for n in names if n.startswith("mcp-shared-"))
        self.assertRegex(name, r"^mcp-shared-[0-9a-f]{12}$")
        client.end()
        again = self.shared(root, "--memory", "200MiB").initialize()
        self.assertNotIn("is new", again.end()[1])
        self.fails(125, "mcp-server", "run", "--session", name, "--memory", "300MiB", *self.command(root),
                   says=["session: ", "SESSION_CONFLICT", "memory"])
        self.ok("session", "delete", name)

    def test_a_session_that_is_lost_is_made_anew(self):
        root = self.project()
        first = self.shared(root).initialize()
        before = self.client.get("mcp-shared").uid
        first.end()
        self.ok("session", "stop", "mcp-shared")
        second = self.shared(root).initialize()
        second.where()
        after = self.client.get("mcp-shared").uid
        self.assertNotEqual(before, after)
        second.end()
        os.kill(self.boxd.first_process(after), signal.SIGKILL)  # the sandbox itself
        lib.wait_for(lambda: self.client.get("mcp-shared").state == self.pb.types.SESSION_STATE_ERROR,
                     "it is noticed: who attached before would hear that it is lost")
        self.shared(root).initialize().where()


class Nothing(ServerCase):
    """Nothing ever runs on this machine instead."""

    def refused(self, *says, env=None):
        marker = os.path.join(self.top, "made-on-the-host")
        for options in ([], ["--project", self.project()]):
            self.fails(125, "mcp-server", "run", "--timeout", "20s", *options, "--", "touch", marker,
                       says=says, env=env)
        self.assertFalse(os.path.exists(marker))

    def test_box_is_away(self):
        self.refused("RUNTIME_UNAVAILABLE", env={"BOX_ENDPOINT": "unix:/no/such/socket"})
        self.refused("RUNTIME_UNAVAILABLE",
                     env={"BOX_ENDPOINT": f"dns:///localhost:{lib.free_port()}"})

    def test_box_is_disabled(self):
        self.ok("init", "--disable")
        self.addCleanup(self.ok, "init", "--enable")
        self.refused("session: ", "BOX_DISABLED")

    def test_a_wrong_token(self):
        path = os.path.join(self.top, "token")
        with open(path, "w", encoding="ascii") as f:
            f.write("box_" + "A" * 43)
        self.refused("UNAUTHENTICATED", env={"BOX_TOKEN_FILE": path})


if __name__ == "__main__":
    boxd_lib.main()
