"""One ExecStream call as tests drive it."""

import boxd_lib
from queued_call import QueuedCall


# hostile-inputs row 24: ignores what it can, in a session of its own.
STUBBORN = """trap '' TERM INT HUP
(setsid sh -c 'trap "" TERM; while :; do :; done' &)
sleep 999"""


class Stream(QueuedCall):
    """One ExecStream call."""

    def __init__(self, case, what, client=None, metadata=None, deadline=60, queue_timeout=None,
                 key="", session_id=None, spec=None, terminal=None, **fields):
        pb = case.pb.exec
        client = client or case.client
        start = pb.ExecStart(session_id=case.sid if session_id is None else session_id,
                             command=client.command(what, **fields), idempotency_key=key)
        if queue_timeout is not None:
            start.queue_timeout.CopyFrom(boxd_lib.duration(queue_timeout))
        if terminal is not None:
            start.terminal.CopyFrom(case.pb.types.Terminal(**terminal))
        if spec is not None:
            start.spec.CopyFrom(case.pb.types.SessionSpec(**spec))
        super().__init__(case, client.execs.ExecStream, pb.ExecStreamRequest, start,
                         timeout=deadline, metadata=metadata)

    def stdin(self, data):
        self.message(stdin_data=data)

    def started(self):
        return self.first("started")

    def read(self, end):
        """stdout up to these bytes."""
        got = b""
        while end not in got:
            message = next(self.call)
            assert message.WhichOneof("response") == "stdout_data", message
            got += message.stdout_data
        return got

    def rest(self):
        """(stdout, stderr, verdict) of all that follows."""
        out, err, verdict = [], [], None
        for message in self.call:
            assert verdict is None, "something follows the verdict"
            kind = message.WhichOneof("response")
            if kind == "stdout_data":
                assert len(message.stdout_data) <= 64 * 1024
                out.append(message.stdout_data)
            elif kind == "stderr_data":
                err.append(message.stderr_data)
            elif kind == "verdict":
                verdict = message.verdict
        assert verdict is not None, "no verdict"
        return b"".join(out), b"".join(err), verdict
