"""Box under load while boxd, its warden or agents of sandboxes are killed (SIGKILL) at random moments.

    kills.py PROGRAMS STUBS [--count 200] [--seed N] [--workers 6] [--settle 10] [--user KIND]

What must hold, each time: Health is SERVING again; every answer to a command is the whole truth, a
proper error, or SANDBOX_LOST of a sandbox whose agent was killed; no session is lost but those whose
agent (or, for one that is not persistent, boxd) was killed; files whose writing was answered are
there; a second pair of boxd and warden beside, with commands that run all the time, notices nothing.
Every --settle kills the load rests and what is there must be exactly what was there at the start
(processes, groups, mounts, loop devices, sockets, files), plus one sandbox a persistent session.

Ends with 0 and a line of JSON, or with 1 and what did not hold.
"""

import argparse
import collections
import json
import os
import queue
import random
import re
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "interop"))

import grpc  # noqa: E402 pylint: disable=wrong-import-position

import boxd_lib  # noqa: E402 pylint: disable=wrong-import-position
import lib  # noqa: E402 pylint: disable=wrong-import-position
from boxd_lib import Boxd, Client  # noqa: E402 pylint: disable=wrong-import-position

VICTIMS = (("boxd",), ("warden",), ("agent",), ("agent", "agent"), ("boxd", "warden"),
           ("boxd", "agent"), ("warden", "agent"))
SERVING_SECONDS = 30
# A command, and the output and exit code it has when nothing happens to it. %s: a mark of its own.
COMMANDS = (
    ("echo %s; exit 7", "%s\n", 7),
    ("echo %s; sleep 0.1; exit 7", "%s\n", 7),
    ("sleep 0.3 & echo %s; exit 7", "%s\n", 7),
    ("(setsid sleep 5 &) ; sleep 0.2; echo %s; exit 3", "%s\n", 3),
    ("head -c 100000 /dev/zero | tr '\\0' x; echo %s", "x" * 100000 + "%s\n", 0),
)


class Facts:
    """What was seen and done, shared by all threads; `wrong` is what must stay empty."""

    def __init__(self):
        self.lock = threading.Lock()
        self.wrong = []
        self.answers = collections.Counter()
        self.kills = collections.Counter()
        self.recovered = []      # seconds
        self.killed = set()      # uids of sandboxes whose agent got the KILL
        self.epoch = 0           # of boxd: one more with each kill
        self.last = {}           # session name -> (uid, epoch) of its last answer

    def complain(self, text):
        """Something did not hold."""
        with self.lock:
            self.wrong.append(text)

    def count(self, what):
        """One more of that kind of answer."""
        with self.lock:
            self.answers[what] += 1

    def same_sandbox(self, name, uid, epoch, persistent):
        """True when the session's last answer came from this very sandbox; a change must have a
        reason. epoch: when the call began."""
        with self.lock:
            old, old_epoch = self.last.get(name, (None, epoch))
            self.last[name] = (uid, epoch)
            if old in (None, uid):
                return old == uid
            if old not in self.killed and (persistent or old_epoch == self.epoch == epoch):
                self.wrong.append(f"session {name} lost sandbox {old} without any reason")
            return False


class Caller(threading.Thread):
    """Calls one boxd again and again, with a new connection now and then, while `load` runs."""

    def __init__(self, load, number, rng):
        super().__init__(name=f"{type(self).__name__}-{number}")
        self.load, self.number, self.rng = load, number, rng
        self.facts = load.facts
        self.marks = 0
        self.start()

    def run(self):
        while not self.load.ended.is_set():
            client = None
            try:
                client = Client(self.load.boxd, self.load.boxd.token)
                for _ in range(10):
                    if not self.load.ended.is_set():
                        self.one(client)
            except grpc.RpcError as error:
                self.refused(error)
            except Exception as error:  # pylint: disable=broad-except
                self.facts.complain(f"{self.name}: {error!r}")
                return
            finally:
                if client is not None:
                    client.close()

    def refused(self, error):
        """A call that failed, with an error of Box or of the connection that was cut."""
        reason = boxd_lib.Failure(error).reason
        if reason is None and error.code() not in (grpc.StatusCode.UNAVAILABLE,
                                                   grpc.StatusCode.CANCELLED):
            self.facts.complain(f"{self.name}: an error without a reason: {error!r}")
        if reason in ("INTERNAL", "PROTOCOL", "VALIDATION"):
            self.facts.complain(f"{self.name}: {boxd_lib.Failure(error)}")
        self.facts.count(f"error {reason or error.code().name}")
        time.sleep(0.02)

    def one(self, client):
        """One call, and a look at its answer."""
        raise NotImplementedError

    def mark(self):
        """A text that no other call has."""
        self.marks += 1
        return f"{self.name}-{self.marks}"

    def is_lost(self, client, answer):
        """The command ended with its sandbox, and that one's agent was killed."""
        if answer.verdict.status != client.pb.types.VERDICT_STATUS_SANDBOX_LOST:
            return False
        with self.facts.lock:
            killed = answer.session_uid in self.facts.killed
        if not killed or answer.verdict.HasField("exit_code"):
            self.facts.complain(f"{self.name}: a false SANDBOX_LOST: {answer}")
        self.facts.count("lost")
        return True

    def is_true(self, client, answer, output, code, what):
        """The command ended by itself, with just this output and code."""
        verdict = answer.verdict
        right = (verdict.status == client.pb.types.VERDICT_STATUS_COMPLETED and
                 verdict.HasField("exit_code") and verdict.exit_code == code and
                 (output is None or answer.stdout_data.decode() == output))
        if not right:
            self.facts.complain(f"{self.name}: {what!r} was answered with {str(answer)[:2000]}")
        self.facts.count("true" if right else "false")
        return right


class Short(Caller):
    """Commands with a known end, in sandboxes of their own and in shared sessions."""

    def one(self, client):
        command, output, code = self.rng.choice(COMMANDS)
        mark = self.mark()
        session = self.rng.choice(("", f"s{self.rng.randrange(3)}"))
        epoch = self.facts.epoch
        answer = client.run(command % mark, session, deadline=30,
                            spec={"max_parallel_execs": 4} if session else None)
        if session:
            self.facts.same_sandbox(session, answer.session_uid, epoch, False)
        if not self.is_lost(client, answer):
            self.is_true(client, answer, output % mark, code, command)


class Stream(Caller):
    """A conversation with `cat`: everything comes back in order, then the verdict."""

    def one(self, client):
        pb = client.pb.exec
        asked = queue.SimpleQueue()
        asked.put(pb.ExecStreamRequest(start=pb.ExecStart(
            command=client.command("cat; exit 9", timeout=60))))
        text, said, verdict, uid = b"", 0, None, None
        mark = self.mark().encode() + b"\n"
        for answer in client.execs.ExecStream(iter(asked.get, None), timeout=60):
            kind = answer.WhichOneof("response")
            if kind == "started":
                uid = answer.started.session_uid
            elif kind == "stdout_data":
                text += answer.stdout_data
            elif kind == "verdict":
                verdict = answer.verdict
                asked.put(None)
            if kind in ("started", "stdout_data") and len(text) == said * len(mark):
                if said < 5:
                    said += 1
                    asked.put(pb.ExecStreamRequest(stdin_data=mark))
                    time.sleep(0.02)
                else:
                    asked.put(pb.ExecStreamRequest(close_stdin=client.pb.types.CloseStdin()))
        if verdict is None:
            self.facts.complain(f"{self.name}: a stream without a verdict")
            return
        if uid is None:  # it may have run or not: the id, which is the uid here, is in the text
            uid = re.search(r"[0-9a-f]{32}|$", verdict.detail)[0]
        whole = pb.ExecResponse(session_uid=uid, stdout_data=text, verdict=verdict)
        if not self.is_lost(client, whole):
            self.is_true(client, whole, (mark * 5).decode(), 9, "cat")


class Keeper(Caller):
    """One persistent session with a journal: what was answered is there as long as its sandbox."""

    def __init__(self, load, number, rng):
        self.known = []  # marks that were answered
        self.session = f"p{number}"
        super().__init__(load, number, rng)

    def one(self, client):
        mark = self.mark()
        epoch = self.facts.epoch
        answer = client.run(f"echo {mark} >>journal; cat journal", self.session, deadline=30,
                            spec={"persistent": True})
        if not self.facts.same_sandbox(self.session, answer.session_uid, epoch, True):
            self.known = []
        if self.is_lost(client, answer):
            return
        if not self.is_true(client, answer, None, 0, "journal"):
            return
        lines = answer.stdout_data.decode().split()
        missing = [m for m in self.known + [mark] if m not in lines]
        if missing:
            self.facts.complain(f"{self.name}: the journal lost {missing}")
        self.known.append(mark)
        time.sleep(self.rng.uniform(0, 0.05))


class Load:
    """All callers of one boxd, between two looks at what is there."""

    def __init__(self, boxd, facts, keepers, workers, rng):
        self.boxd, self.facts = boxd, facts
        self.ended = threading.Event()
        known = {keeper.session: keeper.known for keeper in keepers}
        self.keepers = [Keeper(self, i, random.Random(rng.random())) for i in range(2)]
        for keeper in self.keepers:
            keeper.known[:0] = known.get(keeper.session, [])
        kinds = [Stream] + [Short] * (workers - 3)
        self.others = [kind(self, i, random.Random(rng.random())) for i, kind in enumerate(kinds)]

    def stop(self):
        """Until every caller has its answer."""
        self.ended.set()
        for caller in self.keepers + self.others:
            caller.join(90)
            if caller.is_alive():
                self.facts.complain(f"{caller.name} waits for ever")


class Bystander:
    """Another boxd with another warden: a conversation that goes on through everything."""

    def __init__(self, bin_dir, facts):
        self.facts = facts
        self.boxd = Boxd(bin_dir)
        self.client = self.boxd.client()
        pb = self.client.pb.exec
        self.uid = self.client.create("quiet").uid
        self.asked = queue.SimpleQueue()
        self.asked.put(pb.ExecStreamRequest(start=pb.ExecStart(
            session_id="quiet", command=self.client.command(["cat"], timeout=86400))))
        self.answers = self.client.execs.ExecStream(iter(self.asked.get, None))
        self.count = 0
        assert next(self.answers).WhichOneof("response") == "started"

    def check(self):
        """It still answers, in the same sandbox."""
        self.count += 1
        text = f"line {self.count}\n".encode()
        pb = self.client.pb.exec
        self.asked.put(pb.ExecStreamRequest(stdin_data=text))
        try:
            said = next(self.answers).stdout_data
            session = self.client.get("quiet")
        except (grpc.RpcError, StopIteration) as error:
            self.facts.complain(f"the other boxd was disturbed: {error!r}")
            return
        if said != text or (session.uid, session.rebuilds) != (self.uid, 0):
            self.facts.complain(f"the other boxd was disturbed: {said!r} {session}")

    def stop(self):
        """Ends it; nothing of it may be left either."""
        self.asked.put(None)
        self.answers.cancel()
        self.client.delete("quiet")
        self.boxd.stop()


class Kills:
    """The whole run."""

    def __init__(self, options):
        self.options = options
        self.rng = random.Random(options.seed)
        self.facts = Facts()
        self.beside = Bystander(options.programs, self.facts)
        try:
            self.boxd = Boxd(options.programs, ordinary=self.user())
        except BaseException:
            self.beside.boxd.kill()
            raise
        self.keepers = []

    def user(self):
        """Who boxd and its warden run as: None = as in production."""
        return None if self.options.user == "root" else boxd_lib.Ordinary(self.options.user == "ids")

    # --- what is there ----------------------------------------------------------------------------

    def there(self):
        """Everything of ours on the machine, as a sorted list of lines without numbers that change
        from one start to the next, and without what is prepared for sandboxes to come."""
        boxd = self.boxd
        folder = boxd.folder.path
        found = boxd.leftovers()
        waiting = boxd.waiting_helpers() | self.beside.boxd.waiting_helpers()
        for pid in set(boxd_lib.descendants(os.getpid())) - waiting:
            found.append(f"child {boxd_lib.name_of(pid)} {boxd_lib.state_of(pid) == 'Z'}")
        with open("/proc/net/unix", encoding="utf-8") as f:
            found += [f"socket {line.split()[-1]}" for line in f if folder in line]
        for path in boxd_lib.glob.glob("/sys/block/loop*/loop/backing_file"):
            try:
                with open(path, encoding="utf-8") as f:
                    name = f.read()
            except OSError:
                continue  # it is being taken off
            found += [f"loop device {name.strip()}"] if folder in name else []
        for path, folders, files in os.walk(folder):
            found += [f"directory {os.path.join(path, name)}" for name in folders]
            found += [f"file {os.path.join(path, name)}" for name in files
                      if not re.search(r"\.log$|-(wal|shm|journal)$|^prepared-", name)]
        return sorted(found)

    def descriptors(self):
        """Open descriptors of both."""
        return [boxd_lib.fd_count(server.pid) for server in (self.boxd.boxd, self.boxd.warden)]

    def sandboxes(self):
        """Uids of those whose control groups are there, or where there are none, state files."""
        if self.boxd.ordinary is not None:
            return {uid for uid, _ in self.states()}
        names = {os.path.basename(path) for path in self.boxd.sandbox_groups()}
        return {name for name in names if re.fullmatch(r"[0-9a-f]{32}", name)}

    def states(self):
        """(uid, pid of the agent) of the warden's state files (backends/warden/state.c)."""
        for path in boxd_lib.glob.glob(f"{self.boxd.warden_dir}/instance/sandbox-*"):
            try:
                with open(path, "rb") as f:
                    record = f.read()[4 + 4 + 40:]
            except OSError:
                continue  # it went
            yield record[:16].hex(), int.from_bytes(record[32:36], sys.byteorder)

    def settle(self):
        """The load rests: nothing is there but one sandbox for each persistent session."""
        client = Client(self.boxd, self.boxd.token)
        uids = set()
        try:
            for session in client.sessions.ListSessions(
                    client.pb.session.ListSessionsRequest(page_size=1000)).sessions:
                if not session.spec.persistent:
                    client.delete(session.session_id)
                    self.facts.last.pop(session.session_id, None)
                elif session.state == client.pb.types.SESSION_STATE_RUNNING:
                    uids.add(session.uid)
        except grpc.RpcError as error:
            self.facts.complain(f"while the load rests: {error!r}")
        finally:
            client.close()
        if not boxd_lib.wait_until(lambda: self.sandboxes() == uids):
            self.facts.complain(f"sandboxes {sorted(self.sandboxes())}, sessions {sorted(uids)}\n"
                                + "\n".join(self.boxd.leftovers()))

    # --- killing ----------------------------------------------------------------------------------

    def agents(self):
        """(uid, pid) of the agents that are there now."""
        return [(uid, pid) for uid, pid in self.states()
                if pid > 0 and boxd_lib.pid_inside(pid) == 1]

    def kill_agent(self):
        """One of them, if there is any."""
        agents = sorted(self.agents())
        if not agents:
            return
        uid, pid = self.rng.choice(agents)
        with self.facts.lock:
            self.facts.killed.add(uid)
        try:
            os.kill(pid, boxd_lib.signal.SIGKILL)
        except ProcessLookupError:
            return
        self.facts.kills["agent"] += 1

    def kill_server(self, name):
        """boxd or the warden, which must not have ended by itself before."""
        server = getattr(self.boxd, name)
        if not server.is_running():
            self.facts.complain(f"{name} ended by itself: {server.wait()}\n{server.log()}")
        with self.facts.lock:
            self.facts.epoch += name == "boxd"
        server.process.kill()
        server.process.wait()
        server.process.stdout.close()
        self.facts.kills[name] += 1

    def start_and_kill(self, name):
        """It comes back and is killed again before it is ready, or just when it is."""
        if name == "boxd":
            self.boxd.spawn_boxd()
        else:
            self.boxd.start_warden()
        time.sleep(self.rng.uniform(0, 0.15))
        self.kill_server(name)

    def serving(self):
        """What Health says to a caller who comes now."""
        client = Client(self.boxd, self.boxd.token)
        try:
            return client.control.Health(client.pb.control.HealthRequest(), timeout=5).available
        except grpc.RpcError:
            return False
        finally:
            client.close()

    def round(self):
        """Kills, starts again what was killed as a service manager does, waits for SERVING."""
        victims = self.rng.choice(VICTIMS)
        for name in victims:
            if name == "agent":
                self.kill_agent()
            else:
                self.kill_server(name)
        dead = [name for name in ("warden", "boxd") if name in victims]
        self.rng.shuffle(dead)
        begun = time.monotonic()
        for name in dead:
            time.sleep(self.rng.uniform(0, 0.1))
            if self.rng.random() < 0.3:
                self.start_and_kill(name)
            if name == "boxd":
                self.boxd.start_boxd(wait_backend=False)
            else:
                self.boxd.start_warden()
        if not boxd_lib.wait_until(self.serving, SERVING_SECONDS):
            self.facts.complain(f"not SERVING {SERVING_SECONDS} s after {victims}")
        self.facts.recovered.append(time.monotonic() - begun)
        self.beside.check()

    # --- the run ----------------------------------------------------------------------------------

    def run(self):
        """All rounds, with a rest now and then; what is left afterwards."""
        for boxd in (self.boxd, self.beside.boxd):
            boxd.wait_prepared()
        before, descriptors = self.there(), self.descriptors()
        done = 0
        while done < self.options.count and not self.facts.wrong:
            load = Load(self.boxd, self.facts, self.keepers, self.options.workers, self.rng)
            for _ in range(min(self.options.settle, self.options.count - done)):
                time.sleep(self.rng.uniform(0.02, 0.4))
                self.round()
                done += 1
                if self.facts.wrong:
                    break
            load.stop()
            self.keepers = load.keepers
            self.settle()
            if self.options.verbose:
                print(f"{done} rounds, {dict(self.facts.answers)}", flush=True)
        self.delete_all()
        if not boxd_lib.wait_until(lambda: self.there() == before):
            now = self.there()
            self.facts.complain(f"left: {[x for x in now if x not in before]}, "
                                f"gone: {[x for x in before if x not in now]}")
        if not boxd_lib.wait_until(lambda: all(
                now <= start + 2 for now, start in zip(self.descriptors(), descriptors)), 15):
            self.facts.complain(f"descriptors {self.descriptors()}, at the start {descriptors}: "
                                + boxd_lib.open_files(self.boxd.boxd.pid) + " "
                                + boxd_lib.open_files(self.boxd.warden.pid))
        return done

    def delete_all(self):
        """No session lives after this."""
        client = Client(self.boxd, self.boxd.token)
        try:
            for session in client.sessions.ListSessions(
                    client.pb.session.ListSessionsRequest(page_size=1000)).sessions:
                client.delete(session.session_id)
        except grpc.RpcError as error:
            self.facts.complain(f"at the end: {error!r}")
        finally:
            client.close()

    def stop(self):
        """Ends both pairs in order, which must succeed."""
        try:
            self.beside.stop()
            self.boxd.stop()
        except AssertionError as error:
            self.facts.complain(str(error))

    def keep_logs(self):
        """A folder with what both pairs said, which stays."""
        to = tempfile.mkdtemp(prefix="box-kills-logs-")
        for boxd in (self.boxd, self.beside.boxd):
            for log in boxd_lib.glob.glob(boxd.folder.file("*.log")):
                name = f"{os.path.basename(boxd.folder.path)}.{os.path.basename(log)}"
                boxd_lib.shutil.copy(log, os.path.join(to, name))
        return to

    def report(self, done):
        """One line of JSON."""
        recovered = sorted(self.facts.recovered)
        return json.dumps({
            "seed": self.options.seed, "rounds": done, "kills": self.facts.kills,
            "answers": self.facts.answers,
            "serving_s": {"p50": round(recovered[len(recovered) // 2], 3),
                          "max": round(recovered[-1], 3)} if recovered else {}})


def main():
    """See the top of the file."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("programs")
    parser.add_argument("stubs")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    parser.add_argument("--workers", type=int, default=6)
    parser.add_argument("--settle", type=int, default=10)
    parser.add_argument("--user", choices=("root", "ids", "one-id"), default="root",
                        help="of boxd and its warden; ids: with ranges in /etc/subuid")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    boxd_lib.need_root()
    sys.path.insert(0, options.stubs)
    kills = Kills(options)
    done, logs = 0, None
    try:
        done = kills.run()
        if kills.facts.wrong:
            logs = kills.keep_logs()
        kills.stop()
    finally:
        kills.boxd.kill()
        kills.beside.boxd.kill()
    print(kills.report(done))
    for text in kills.facts.wrong:
        print(f"WRONG: {text}")
    if logs:
        print(f"logs: {logs}")
    # grpcio 1.51 sometimes crashes while the interpreter shuts down.
    sys.stdout.flush()
    os._exit(1 if kills.facts.wrong else 0)


if __name__ == "__main__":
    main()
