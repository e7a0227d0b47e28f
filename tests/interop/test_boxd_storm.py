"""Many callers at once on few sessions, doing everything in any order, with sandboxes killed under
them: every call ends in time with an answer that its comment allows, and nothing is left."""

import os
import random
import signal
import threading
import time

import grpc

import boxd_lib
from boxd_lib import BoxdCase, duration
from grpc import StatusCode

THREADS = 16
SECONDS = 8
CALL_SECONDS = 20  # of any call: none of them needs it
IDS = [f"storm-{i}" for i in range(4)]
# What a call may answer besides OK when others stop, delete and kill its session meanwhile.
ALLOWED = {"SESSION_NOT_FOUND", "SESSION_NOT_RUNNING", "SESSION_CONFLICT", "SESSION_BROKEN",
           "EXEC_QUEUE", "IDEMPOTENCY_DONE",
           "BACKEND_UNAVAILABLE"}  # what was prepared for it was killed


def setUpModule():
    BoxdCase.start_server()


def tearDownModule():
    BoxdCase.stop_server()


class Storm(BoxdCase):
    def setUp(self):
        super().setUp()
        self.counts = {}
        self.problems = []
        self.lock = threading.Lock()
        for sid in IDS:
            self.addCleanup(self.client.delete, sid)

    def count(self, name, outcome):
        with self.lock:
            key = f"{name} {outcome}"
            self.counts[key] = self.counts.get(key, 0) + 1

    def operations(self, client, rng):
        """Name and function of each thing a caller may do."""
        p, t = client.pb.session, client.pb.types
        sid = rng.choice(IDS)
        limit = {"timeout": CALL_SECONDS}

        def exec_(what, deadline=CALL_SECONDS, **fields):
            answer = client.run(what, sid, deadline=deadline, **fields)
            ended = answer.verdict.status
            if ended == t.VERDICT_STATUS_COMPLETED:
                # A stopping session's SIGKILL is told as KILLED, never as the command's own end.
                assert answer.verdict.exit_code == 3, answer
                assert answer.stdout_data == b"out\n", answer
            else:
                assert ended in (t.VERDICT_STATUS_KILLED, t.VERDICT_STATUS_SANDBOX_LOST), answer
                assert not answer.verdict.HasField("exit_code"), answer

        def cancelled():
            call = client.execs.Exec.future(client.exec_request(["sleep", "50"], sid), **limit)
            time.sleep(rng.random() * 0.05)
            call.cancel()

        def stream():
            start = client.pb.exec.ExecStreamRequest(start=client.pb.exec.ExecStart(
                session_id=sid, command=client.command("yes")))
            call = client.execs.ExecStream(iter([start]), **limit)
            for i, _ in enumerate(call):
                if i == 5:
                    call.cancel()
                    break

        def kill():
            uid = client.get(sid).uid
            try:
                os.kill(self.boxd.first_process(uid), signal.SIGKILL)
            except (ValueError, OSError, StopIteration):
                pass  # gone meanwhile

        return [
            ("exec", lambda: exec_("echo out; exit 3")),
            ("exec", lambda: exec_("echo out; sleep 0.02; exit 3")),
            ("deadline", lambda: exec_("sleep 50", deadline=rng.random() * 0.1)),
            ("cancel", cancelled),
            ("stream", stream),
            ("create", lambda: client.sessions.CreateSession(
                p.CreateSessionRequest(session_id=sid), **limit)),
            ("get", lambda: client.sessions.GetSession(
                p.GetSessionRequest(session_id=sid), **limit)),
            ("list", lambda: client.sessions.ListSessions(p.ListSessionsRequest(), **limit)),
            ("update", lambda: client.sessions.UpdateSession(p.UpdateSessionRequest(
                session_id=sid, update_mask={"paths": ["max_parallel_execs", "pids_limit"]},
                spec=t.SessionSpec(max_parallel_execs=rng.randint(1, 5), pids_limit=100)),
                **limit)),
            ("extend", lambda: client.sessions.ExtendSession(p.ExtendSessionRequest(
                session_id=sid, duration=duration(5)), **limit)),
            ("stop", lambda: client.sessions.StopSession(
                p.StopSessionRequest(session_id=sid), **limit)),
            ("delete", lambda: client.sessions.DeleteSession(
                p.DeleteSessionRequest(session_id=sid), **limit)),
            ("one-off", lambda: client.out("echo x")),
            ("kill", kill),
        ]

    def one_call(self, client, rng):
        name, call = rng.choice(self.operations(client, rng))
        begin = time.monotonic()
        try:
            call()
            self.count(name, "OK")
        except grpc.RpcError as e:
            failure = boxd_lib.Failure(e)
            self.count(name, failure.reason or failure.code.name)
            if failure.reason not in ALLOWED and not (
                    name == "deadline" and failure.code == StatusCode.DEADLINE_EXCEEDED):
                self.problems.append(f"{name}: {failure}")
        except AssertionError as e:
            self.problems.append(f"{name}: {e}")
        if time.monotonic() - begin > CALL_SECONDS / 2:
            self.problems.append(f"{name} took {time.monotonic() - begin:.1f} s")

    def caller(self, seed, end):
        rng = random.Random(seed)
        client = self.boxd.client()
        while time.monotonic() < end and not self.problems:
            self.one_call(client, rng)
        client.close()

    def test_everything_at_once(self):
        seed = random.randrange(1 << 30)
        end = time.monotonic() + SECONDS
        threads = [threading.Thread(target=self.caller, args=(seed + i, end))
                   for i in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        told = f"seed {seed}: {sorted(self.counts.items())}"
        self.assertEqual(self.problems, [], told)
        print(told)
        for name in ("exec OK", "create OK", "stream OK", "stop OK", "delete OK", "one-off OK"):
            self.assertIn(name, self.counts, told)
        # And all of them are of use again.
        for sid in IDS:
            self.completes(self.client.run(["true"], sid))
            self.client.delete(sid)
        self.boxd.wait_nothing_left()


if __name__ == "__main__":
    boxd_lib.main()
