"""The whole of Box under test: box-warden as root, boxd as a user without rights, TLS with the
development certificates that boxd makes, and a look at what is left once they ended.

A test file starts one of these, its clients are stock gRPC with stubs made by protoc.
"""

import glob
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import grpc
from google.protobuf import duration_pb2

import lib

SKIP = 77
BOXD_UID = 61234  # no such user: boxd needs no entry in passwd, and nothing else runs as it
MIB = 1024 * 1024
SESSION_TIMEOUT = 30
PREFIX = "box-accept-"  # then the pid of who made it
STANDBYS = 4  # the warden's default
UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1),
             ("grpc.use_local_subchannel_pool", 1)]


def need_root():
    """Sandboxes are made by box-warden, which needs root."""
    if os.geteuid() != 0:
        print("skipped: box-warden needs root")
        sys.exit(SKIP)


def duration(seconds):
    """A google.protobuf.Duration of that many seconds."""
    d = duration_pb2.Duration()
    d.FromNanoseconds(int(seconds * 1e9))
    return d


def cgroup_roots():
    """Mount points of all cgroup hierarchies."""
    with open("/proc/mounts", encoding="utf-8") as f:
        lines = [line.split() for line in f]
    return [point for _, point, kind, *_ in lines if kind in ("cgroup", "cgroup2")]


def descendants(pid):
    """Pids of all processes below this one."""
    parents = {}
    for stat in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(stat, encoding="utf-8", errors="replace") as f:
                fields = f.read().rpartition(")")[2].split()
        except OSError:
            continue  # it ended
        parents.setdefault(int(fields[1]), []).append(int(stat.split("/")[2]))
    found, todo = [], [pid]
    while todo:
        children = parents.get(todo.pop(), [])
        found += children
        todo += children
    return found


def fd_count(pid):
    """Open descriptors of a process."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def sweep_stale():
    """Ends and removes what tests left that were killed."""
    places = [tempfile.gettempdir(), *cgroup_roots()]
    for path in [path for place in places for path in glob.glob(f"{place}/{PREFIX}*")]:
        name = os.path.basename(path)
        maker = re.match(PREFIX + r"(\d+)-", name)
        if maker is None or os.path.exists(f"/proc/{maker[1]}"):
            continue
        groups = [group for group, _, _ in os.walk(path, topdown=False)]
        pids = {pid for group in groups for pid in read_numbers(f"{group}/cgroup.procs")}
        for pid in pids | programs_in(name):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for group in groups:
            wait_until(lambda group=group: remove_directory(group), 2)
        shutil.rmtree(path, ignore_errors=True)


def programs_in(name):
    """Pids of programs whose arguments name that folder."""
    pids = set()
    for line in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(line, "rb") as f:
                if f"/{name}/".encode() in f.read():
                    pids.add(int(line.split("/")[2]))
        except OSError:
            pass  # it ended
    return pids


class Ordinary:
    """A user without rights, for whom nothing was set up: with `ids` it has ranges in /etc/subuid and
    /etc/subgid, as programs behind `prefix` see them."""

    FIRST_ID, COUNT = 1910000000, 65536

    def __init__(self, ids=False):
        self.ids = ids
        self.uid = 60100 + random.SystemRandom().randrange(900)
        while any(self.processes()):
            self.uid = 60100 + random.SystemRandom().randrange(900)

    def prefix(self, folder):
        """Arguments in front of a program's. Files that it shows are put into the folder."""
        become = [which("setpriv"), f"--reuid={self.uid}", f"--regid={self.uid}", "--clear-groups"]
        if not self.ids:
            return become
        passwd, subid = os.path.join(folder, "passwd"), os.path.join(folder, "subid")
        with open("/etc/passwd", encoding="utf-8") as f:
            lines = f.read()
        with open(passwd, "w", encoding="utf-8") as f:
            f.write(f"{lines}boxtest:x:{self.uid}:{self.uid}::/:/bin/sh\n")
        with open(subid, "w", encoding="utf-8") as f:
            f.write(f"{self.uid}:{self.FIRST_ID}:{self.COUNT}\n")
        return ["unshare", "--mount", "--propagation", "private", "sh", "-c",
                f"mount --bind {passwd} /etc/passwd && mount --bind {subid} /etc/subuid && "
                f"mount --bind {subid} /etc/subgid && exec \"$@\"", "sh", *become]

    def processes(self):
        """Living processes of the user, and of ids it gave away."""
        for status in glob.glob("/proc/[0-9]*/status"):
            try:
                with open(status, encoding="utf-8", errors="replace") as f:
                    text = f.read()
            except OSError:
                continue  # it ended
            uid = int(re.search(r"^Uid:\t(\d+)", text, re.MULTILINE)[1])
            mine = uid == self.uid or (self.ids and 0 <= uid - self.FIRST_ID < self.COUNT)
            if mine and not re.search(r"^State:\t[ZX]", text, re.MULTILINE):
                yield int(status.split("/")[2])


class Boxd:
    """One warden and one boxd, with everything below one temporary folder and, in each cgroup
    hierarchy, below one group of our own."""

    def __init__(self, bin_dir, config="", warden_config="", start=True, warden_prefix=(),
                 ordinary=None):
        """ordinary: both run as this user; else the warden as root, boxd as nobody in particular."""
        self.bin_dir = bin_dir
        self.ordinary = ordinary
        self.user = BOXD_UID if ordinary is None else ordinary.uid
        self.warden_prefix = list(warden_prefix)  # a program that starts the warden, with arguments
        sweep_stale()
        self.folder = lib.TemporaryFolder(f"{PREFIX}{os.getpid()}-")
        os.chmod(self.folder.path, 0o711)  # boxd's user goes through to its own folder
        name = os.path.basename(self.folder.path)
        self.cgroups = [os.path.join(root, name) for root in cgroup_roots()]
        self.state_dir = self.folder.file("state")
        self.warden_dir = self.folder.file("warden")
        self.socket = os.path.join(self.warden_dir, "socket")
        self.unix_socket = self.folder.file("state/unix")
        os.mkdir(self.state_dir, 0o700)
        os.chown(self.state_dir, self.user, self.user)
        os.mkdir(self.warden_dir, 0o711)
        # The build folder may lie where boxd's user cannot go.
        self.boxd_program = shutil.copy(os.path.join(bin_dir, "boxd"), self.folder.file("boxd"))
        self.warden_program = os.path.join(bin_dir, "box-warden")
        if ordinary is None:
            place = f"peer_uid: {BOXD_UID}\ncgroup: /{name}\n"
        else:
            place = ""
            os.chown(self.warden_dir, self.user, self.user)
            self.warden_prefix += ordinary.prefix(self.folder.path)
            self.warden_program, *_ = (shutil.copy(os.path.join(bin_dir, program), self.folder.path)
                                       for program in ("box-warden", "box-agent", "box-files"))
        self._write("warden.yaml", f"socket: {self.socket}\n"
                    f"instance_dir: {self.warden_dir}/instance\n{place}{warden_config}")
        self._write("boxd.yaml", f"server:\n  unix_socket: {self.unix_socket}\n  listen:\n"
                    "    - address: 127.0.0.1:0\n      tls: true\n"
                    f"warden:\n  namespace: {self.socket}\nstate_dir: {self.state_dir}\n{config}")
        self.boxd = self.warden = None
        self.clients = []
        if start:
            try:
                self.start()
            except BaseException:
                self.kill()
                raise

    def _write(self, name, text):
        with open(self.folder.file(name), "w", encoding="utf-8") as f:
            f.write(text)

    def start(self):
        """Both, ready to take commands."""
        self.start_warden()
        self.start_boxd()

    def start_warden(self):
        """The privileged half."""
        self.warden = lib.Server(
            [*self.warden_prefix, self.warden_program, "--backend", "namespace",
             "--config", self.folder.file("warden.yaml")], self.folder.file(f"warden.{time.monotonic_ns()}.log"))

    def start_boxd(self, wait_backend=True):
        """The half that callers see; returns once its backend works."""
        self.spawn_boxd()
        match = lib.wait_for(self._listening, f"boxd listens, it said {self.boxd.log()}")
        self.port = int(match.group(1))
        with open(os.path.join(self.state_dir, "admin.token"), encoding="ascii") as f:
            self.token = f.read().strip()
        with open(os.path.join(self.state_dir, "ca.pem"), "rb") as f:
            self.ca = f.read()
        if wait_backend:
            self.wait_backend()

    def spawn_boxd(self):
        """Without waiting for anything."""
        self.boxd = lib.Server(
            ["setpriv", f"--reuid={self.user}", f"--regid={self.user}", "--clear-groups",
             "--no-new-privs", "--inh-caps=-all", "--bounding-set=-all", self.boxd_program,
             "--config", self.folder.file("boxd.yaml")],
            self.folder.file(f"boxd.{time.monotonic_ns()}.log"))

    def _listening(self):
        if not self.boxd.is_running():
            raise AssertionError(f"boxd ended with {self.boxd.wait()}: {self.boxd.log()}")
        return re.search(r"boxd\.listen .*port=(\d+)", self.boxd.log())

    def wait_backend(self):
        """Until the warden answered boxd."""
        client = self.client()
        lib.wait_for(lambda: client.control.Health(client.pb.control.HealthRequest()).available,
                     f"the backend works\n{self.logs()}")
        client.close()

    def client(self, token=None, **kwargs):
        """A client with this token (the administrator's), closed at the end at the latest."""
        client = Client(self, self.token if token is None else token, **kwargs)
        self.clients.append(client)
        return client

    def logs(self):
        """What both said, for a failure's text."""
        return "\n".join(f"--- {name}\n{server.log()}" for name, server in
                         (("boxd", self.boxd), ("warden", self.warden)) if server is not None)

    # --- what is there, and what is left --------------------------------------------------------

    def prepared(self):
        """Uids of what the warden keeps ready for sandboxes that nobody has asked for."""
        files = glob.glob(os.path.join(self.warden_dir, "instance", "prepared-*"))
        return {os.path.basename(file).removeprefix("prepared-") for file in files}

    def waiting_helpers(self):
        """Helpers of the warden with the first processes that they have made, no more than it says
        it has prepared."""
        if self.warden is None:
            return set()
        pids = {pid for pid in descendants(self.warden.pid) if name_of(pid) == "box-warden"}
        return pids if len(pids) <= 2 * len(self.prepared()) else set()

    def wait_prepared(self):
        """Until the warden has all that it keeps ready."""
        lib.wait_for(lambda: 2 * len(self.prepared()) == len(self.waiting_helpers()) == 2 * STANDBYS,
                     f"helpers wait\n{self.logs()}")

    def sandbox_groups(self, everything=False):
        """Directories below our cgroups: none without sandboxes, but for what is prepared."""
        paths = [path for base in self.cgroups for path, _, _ in os.walk(base) if path != base]
        if everything:
            return paths
        prepared = self.prepared()
        return [path for path in paths if re.search(r"/[0-9a-f]{32}(/|$)", path)
                and not any(uid in path for uid in prepared)]

    def processes(self, uid=None):
        """Pids in our cgroups; of one sandbox with its uid. Without helpers that wait for one."""
        if self.ordinary is not None:
            own = {server.pid for server in (self.boxd, self.warden) if server is not None}
            return set(self.ordinary.processes()) - own - self.waiting_helpers()
        pids = set()
        prepared = self.prepared()
        for base in self.cgroups:
            for path, _, _ in os.walk(base):
                if uid in path if uid is not None else not any(p in path for p in prepared):
                    pids |= read_numbers(os.path.join(path, "cgroup.procs"))
        return pids

    def first_process(self, uid):
        """The agent of a sandbox (its PID 1) as the host sees it."""
        pids = set()
        for base in self.cgroups:
            for group in ("agent/", ""):  # v1 has it in the sandbox's group itself
                for path in glob.glob(f"{base}/*/{uid}/{group}cgroup.procs"):
                    pids |= read_numbers(path)
        return next(pid for pid in pids if pid_inside(pid) == 1)

    def leftovers(self):
        """Everything that must be gone once no session lives, as a list of lines."""
        run = os.path.join(self.state_dir, "run")
        with open("/proc/self/mountinfo", encoding="utf-8") as f:
            mounts = [line for line in f if self.folder.path in line]
        files = os.listdir(run) if os.path.isdir(run) else []
        states = glob.glob(os.path.join(self.warden_dir, "instance", "*sandbox-*"))
        return ([f"cgroup {path}" for path in self.sandbox_groups()] +
                [f"process {pid}" for pid in self.processes()] +
                [f"mount {line}" for line in mounts] + [f"agent socket {name}" for name in files] +
                [f"state file {path}" for path in states])

    def wait_nothing_left(self):
        """A sandbox goes soon after its session."""
        left = wait_until(lambda: not self.leftovers())
        if not left:
            raise AssertionError("left behind: " + "\n".join(self.leftovers()) + self.logs())

    # --- the end --------------------------------------------------------------------------------

    def stop_boxd(self):
        """SIGTERM; the exit status must be 0."""
        boxd, self.boxd = self.boxd, None
        status = boxd.stop()
        if status != 0:
            raise AssertionError(f"boxd ended with {status}\n{boxd.log()}")

    def stop_warden(self):
        """SIGTERM; nothing may be left below it."""
        warden, self.warden = self.warden, None
        below = []
        if not wait_until(lambda: len(descendants(warden.pid)) <= 2 * len(self.prepared())):
            below = [f"{pid} {name_of(pid)} {state_of(pid)}" for pid in descendants(warden.pid)]
        status = warden.stop()
        left = self.sandbox_groups(everything=True) + sorted(self.prepared())
        if status != 0 or below or left:
            raise AssertionError(f"warden ended with {status}, below it {below}, left {left}\n"
                                 f"{warden.log()}")

    def stop(self):
        """Ends both and checks that nothing of them is left."""
        for client in self.clients:
            client.close()
        logs = self.logs()
        try:
            if self.boxd is not None:
                self.stop_boxd()
            self.wait_nothing_left()
            if self.warden is not None:
                self.stop_warden()
        except AssertionError:
            print(logs, file=sys.stderr)
            raise
        finally:
            self.kill()

    def kill(self):
        """The hard end, of what is still there; removes all files."""
        for server in (self.boxd, self.warden):
            if server is not None:
                server.stop()
        self.boxd = self.warden = None
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for base in self.cgroups:
            for path, _, _ in os.walk(base, topdown=False):
                wait_until(lambda path=path: remove_directory(path), 2)
        self.folder.remove()


def read_numbers(path):
    """Numbers of a file that may be gone."""
    try:
        with open(path, encoding="ascii") as f:
            return {int(line) for line in f.read().split()}
    except OSError:
        return set()


def name_of(pid):
    """A process's name, None when it is gone."""
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as f:
            return f.read().strip()
    except OSError:
        return None


def state_of(pid):
    """A process's state as one letter, Z for a zombie; None when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as f:
            return f.read().rpartition(")")[2].split()[0]
    except OSError:
        return None


# Something ends, well before what it must not wait for (a minute at least); never how fast it is.
ENDS_SECONDS = 20


def pid_inside(pid):
    """A process's number in its innermost pid namespace; 0 when it is gone."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as f:
            return int(re.search(r"^NSpid:.*\t(\d+)$", f.read(), re.MULTILINE)[1])
    except OSError:
        return 0


def remove_directory(path):
    """True once it is gone."""
    try:
        os.rmdir(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def wait_until(condition, seconds=lib.WAIT_SECONDS):
    """True as soon as condition() is, False when it is not in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


class Messages:
    """The generated modules, by the names of their .proto files."""

    def __init__(self):
        import importlib  # the folder is on the path only now
        for name in ("types", "control", "session", "exec", "process", "file", "admin", "tool"):
            setattr(self, name, importlib.import_module(f"box.v1.{name}_pb2"))
            if name != "types":
                rpc = importlib.import_module(f"box.v1.{name}_pb2_grpc")
                setattr(self, f"{name}_rpc", rpc)


class Client:
    """Stubs of all services on one connection of its own, with a token in every call."""

    def __init__(self, boxd, token, tenant=None, options=()):
        self.pb = Messages()
        credentials = grpc.ssl_channel_credentials(boxd.ca)
        if token:
            credentials = grpc.composite_channel_credentials(
                credentials, grpc.access_token_call_credentials(token))
        self.channel = grpc.secure_channel(f"localhost:{boxd.port}", credentials,
                                           options=[*UNLIMITED, *options])
        channel = self.channel
        if tenant is not None:
            channel = grpc.intercept_channel(self.channel, _AddMetadata("box-tenant", tenant))
        self.control = self.pb.control_rpc.ControlServiceStub(channel)
        self.sessions = self.pb.session_rpc.SessionServiceStub(channel)
        self.execs = self.pb.exec_rpc.ExecServiceStub(channel)
        self.files = self.pb.file_rpc.FileServiceStub(channel)
        self.processes = self.pb.process_rpc.ProcessServiceStub(channel)
        self.admin = self.pb.admin_rpc.AdminServiceStub(channel)
        self.tools = self.pb.tool_rpc.ToolServiceStub(channel)

    def close(self):
        """Idempotent."""
        self.channel.close()

    def create(self, session_id="", **spec):
        """CreateSession with fields of its spec; the Session."""
        pb = self.pb
        return self.sessions.CreateSession(pb.session.CreateSessionRequest(
            session_id=session_id, spec=pb.types.SessionSpec(**spec)),
            timeout=SESSION_TIMEOUT).session

    def get(self, session_id):
        """GetSession; the Session."""
        return self.sessions.GetSession(
            self.pb.session.GetSessionRequest(session_id=session_id)).session

    def delete(self, session_id):
        """DeleteSession; one that is gone is fine."""
        return self.sessions.DeleteSession(self.pb.session.DeleteSessionRequest(
            session_id=session_id, allow_missing=True), timeout=SESSION_TIMEOUT)

    def command(self, what, **fields):
        """A Command: text for the shell or a list of arguments."""
        key = "shell_command" if isinstance(what, str) else "argv"
        if "timeout" in fields:
            fields["timeout"] = duration(fields["timeout"])
        if "idle_timeout" in fields:
            fields["idle_timeout"] = duration(fields["idle_timeout"])
        return self.pb.types.Command(**{key: what}, **fields)

    def exec_request(self, what, session_id="", stdin=b"", spec=None, key="", queue_timeout=None,
                     **fields):
        """An ExecRequest."""
        request = self.pb.exec.ExecRequest(
            session_id=session_id, command=self.command(what, **fields), stdin_data=stdin,
            idempotency_key=key)
        if spec is not None:
            request.spec.CopyFrom(self.pb.types.SessionSpec(**spec))
        if queue_timeout is not None:
            request.queue_timeout.CopyFrom(duration(queue_timeout))
        return request

    def run(self, what, session_id="", deadline=60, metadata=None, **fields):
        """Exec; the answer. `what` is text for the shell or a list of arguments."""
        return self.execs.Exec(self.exec_request(what, session_id, **fields), timeout=deadline,
                               metadata=metadata)

    def file(self, method, session_id, path=None, deadline=60, **fields):
        """A unary call of FileService; `path` may be bytes."""
        if path is not None:
            fields["path_bytes" if isinstance(path, bytes) else "path"] = path
        if "time_limit" in fields:
            fields["time_limit"] = duration(fields["time_limit"])
        request = getattr(self.pb.file, method + "Request")(session_id=session_id, **fields)
        return getattr(self.files, method)(request, timeout=deadline)

    def out(self, what, session_id="", **fields):
        """Standard output of a command that must end with 0, as text."""
        answer = self.run(what, session_id, **fields)
        assert answer.verdict.exit_code == 0 and answer.verdict.status == 1, answer
        return answer.stdout_data.decode().strip()


class _AddMetadata(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor,
                   grpc.StreamStreamClientInterceptor):
    """Adds one entry to every call."""

    def __init__(self, key, value):
        self._entry = (key, value)

    def _with_entry(self, details):
        return _Details(details.method, details.timeout,
                        [*(details.metadata or ()), self._entry], details.credentials)

    def intercept_unary_unary(self, continuation, client_call_details, request):
        return continuation(self._with_entry(client_call_details), request)

    intercept_unary_stream = intercept_stream_stream = intercept_unary_unary


class _Details(grpc.ClientCallDetails):
    def __init__(self, method, timeout, metadata, credentials):
        self.method = method
        self.timeout = timeout
        self.metadata = metadata
        self.credentials = credentials
        self.wait_for_ready = None
        self.compression = None


class Failure:
    """A grpc.RpcError with its google.rpc details taken apart."""

    def __init__(self, error):
        self.code = error.code()
        self.text = error.details()
        status, details = lib.status_details(error)
        self.reason = self.domain = None
        self.metadata, self.violations, self.quotas, self.retry_ms = {}, {}, [], None
        if status is None:
            return
        assert status[1][0] == self.code.value[0], "the details carry another code"
        assert status.get(2, [b""])[0].decode() == self.text, "the details carry another text"
        details = {name.rsplit(".", 1)[1]: values for name, values in details.items()}
        info = details["ErrorInfo"][0]
        self.reason, self.domain = info[1][0].decode(), info[2][0].decode()
        self.metadata = lib.string_map(info.get(3, []))
        for violation in details.get("BadRequest", [{}])[0].get(1, []):
            v = lib.wire_fields(violation)
            self.violations[v[1][0].decode()] = v[2][0].decode()
        for violation in details.get("QuotaFailure", [{}])[0].get(1, []):
            v = lib.wire_fields(violation)
            self.quotas.append((v[1][0].decode(), v[2][0].decode()))
        if "RetryInfo" in details:
            delay = lib.wire_fields(details["RetryInfo"][0][1][0])
            self.retry_ms = delay.get(1, [0])[0] * 1000 + delay.get(2, [0])[0] // 1000000

    def __str__(self):
        return (f"{self.code} {self.reason} {self.text!r} metadata {self.metadata} violations "
                f"{self.violations} quotas {self.quotas} retry {self.retry_ms}")


class BoxdCase(unittest.TestCase):
    """Tests against the one server of a file: start_server in setUpModule, stop_server in
    tearDownModule."""

    boxd = None
    client = None

    @classmethod
    def start_server(cls, **kwargs):
        """Called on BoxdCase itself: every class of the file shares the server."""
        BoxdCase.boxd = Boxd(sys.argv[1], **kwargs)
        try:
            BoxdCase.client = BoxdCase.boxd.client()
            BoxdCase.client.out(["true"])  # what is opened at first use is open now
            BoxdCase.boxd.wait_nothing_left()
            BoxdCase.boxd.wait_prepared()
            BoxdCase.start_fds = fd_count(BoxdCase.boxd.boxd.pid)
            BoxdCase.start_warden_fds = fd_count(BoxdCase.boxd.warden.pid)
        except BaseException:
            BoxdCase.boxd.kill()
            raise

    @classmethod
    def stop_server(cls):
        """All sessions deleted, descriptors are back at their start; then the end."""
        boxd, client = BoxdCase.boxd, BoxdCase.client
        try:
            for session in client.sessions.ListSessions(
                    client.pb.session.ListSessionsRequest(page_size=1000)).sessions:
                client.delete(session.session_id)
            for other in boxd.clients:
                if other is not client:
                    other.close()
            boxd.wait_nothing_left()
            back = wait_until(lambda: fd_count(boxd.boxd.pid) <= BoxdCase.start_fds and
                              fd_count(boxd.warden.pid) <= BoxdCase.start_warden_fds, 10)
            if not back:
                raise AssertionError(
                    f"descriptors: boxd {BoxdCase.start_fds} at start, now {open_files(boxd.boxd.pid)}"
                    f"; warden {BoxdCase.start_warden_fds}, now {open_files(boxd.warden.pid)}")
        except BaseException:
            boxd.kill()
            raise
        boxd.stop()

    def setUp(self):
        self.pb = self.client.pb
        self.sid = re.sub(r"\W", "-", self.id().split(".", 1)[1])  # a session of this test's own
        self.addCleanup(self._delete_own)

    def _delete_own(self):
        if self.boxd.boxd is not None and self.boxd.boxd.is_running():
            self.client.delete(self.sid)

    def fails(self, code, reason, call):
        """The call fails so; returns the Failure."""
        with self.assertRaises(grpc.RpcError) as caught:
            answer = call()
            if isinstance(answer, grpc.Call):  # a stream: it fails when it is read
                for _ in answer:
                    pass
            self.fail(f"no error but {answer}")
        failure = Failure(caught.exception)
        self.assertEqual((failure.code, failure.reason), (code, reason), failure)
        self.assertEqual(failure.domain, "box")
        return failure

    def invalid(self, call, *fields):
        """VALIDATION naming exactly these fields."""
        failure = self.fails(grpc.StatusCode.INVALID_ARGUMENT, "VALIDATION", call)
        self.assertEqual(sorted(failure.violations), sorted(fields), failure)
        return failure

    def completes(self, answer, exit_code=0):
        """The command ended by itself with this code."""
        verdict = answer.verdict
        self.assertEqual((verdict.status, verdict.exit_code, verdict.HasField("signal")),
                         (self.pb.types.VERDICT_STATUS_COMPLETED, exit_code, False), answer)
        return answer

    def commands_in(self, session_id):
        """Names of the commands that run in a session, as it sees them itself; without the shell
        that looks, which starts nothing."""
        text = self.client.out(
            "for p in /proc/[0-9]*; do\n"
            "  test ${p#/proc/} = $$ || while read -r key value rest; do\n"
            "    case $key in Name:) name=$value;; State:) state=$value;;\n"
            "      Uid:) test $value = 1000 && test $state != Z && echo $name; break;; esac\n"
            "  done <$p/status\n"
            "done 2>/dev/null; true", session_id)
        return text.split()


class OwnServerCase(BoxdCase):
    """One instance a class; stopped, and looked for leftovers, at the class's end."""

    @classmethod
    def setUpClass(cls):
        cls.begin()

    @classmethod
    def begin(cls, **kwargs):
        BoxdCase.boxd = Boxd(sys.argv[1], **kwargs)
        BoxdCase.client = BoxdCase.boxd.client()
        cls.addClassCleanup(BoxdCase.boxd.kill)

    @classmethod
    def tearDownClass(cls):
        BoxdCase.boxd.stop()

    def setUp(self):
        super().setUp()
        self.t = self.pb.types

    def start(self, what):
        """An Exec that has come to its `sleep`, in this test's session."""
        call = self.client.execs.Exec.future(
            self.client.exec_request(what, self.sid, timeout=100), timeout=60)
        self.addCleanup(call.cancel)
        lib.wait_for(lambda: "sleep" in [name_of(p) for p in self.boxd.processes()],
                     "it runs")
        time.sleep(0.1)  # and boxd has heard of it
        return call

    def crash(self, name):
        """kill -9 of `boxd` or `warden`."""
        server = getattr(self.boxd, name)
        setattr(self.boxd, name, None)
        os.kill(server.pid, signal.SIGKILL)
        server.wait()
        server.process.stdout.close()

    def restart_boxd(self):
        """A new boxd on the same state; a client of it."""
        self.client.close()
        self.boxd.start_boxd()
        BoxdCase.client = self.boxd.client()


def open_files(pid):
    """What a process has open, for a failure's text."""
    files = []
    for link in glob.glob(f"/proc/{pid}/fd/*"):
        try:
            files.append(os.readlink(link))
        except OSError:
            pass
    return f"{len(files)}: {sorted(files)}"


def main():
    """Runs the tests of the calling file. Arguments: folder of programs, folder of stubs, then
    unittest's own."""
    need_root()
    sys.path.insert(0, sys.argv[2])
    program = unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2, exit=False)
    # grpcio 1.51 sometimes crashes while the interpreter shuts down.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(not program.result.wasSuccessful())


def which(program):
    """Path of a program of the host, or None."""
    return shutil.which(program, path="/usr/local/bin:/usr/bin:/bin")


def run_quietly(argv, **kwargs):
    """subprocess.run with everything caught."""
    return subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                          timeout=lib.WAIT_SECONDS, **kwargs)
