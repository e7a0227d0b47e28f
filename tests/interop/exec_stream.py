"""One ExecStream call as tests drive it."""

import queue

import boxd_lib


class Stream:
    """One ExecStream call: messages out by a queue, answers in by next()."""

    def __init__(self, case, what, client=None, metadata=None, deadline=60, queue_timeout=None,
                 key="", session_id=None, spec=None, terminal=None, **fields):
        self.pb = case.pb.exec
        self.client = client or case.client
        start = self.pb.ExecStart(session_id=case.sid if session_id is None else session_id,
                                  command=self.client.command(what, **fields),
                                  idempotency_key=key)
        if queue_timeout is not None:
            start.queue_timeout.CopyFrom(boxd_lib.duration(queue_timeout))
        if terminal is not None:
            start.terminal.CopyFrom(case.pb.types.Terminal(**terminal))
        if spec is not None:
            start.spec.CopyFrom(case.pb.types.SessionSpec(**spec))
        self.to_send = queue.SimpleQueue()
        self.send(start=start)
        self.call = self.client.execs.ExecStream(iter(self.to_send.get, None), timeout=deadline,
                                                 metadata=metadata)
        case.addCleanup(self.end)

    def send(self, **message):
        self.to_send.put(self.pb.ExecStreamRequest(**message))

    def stdin(self, data):
        self.send(stdin_data=data)

    def half_close(self):
        self.to_send.put(None)

    def end(self):
        self.half_close()
        self.call.cancel()

    def started(self):
        """The first answer."""
        message = next(self.call)
        assert message.WhichOneof("response") == "started", message
        return message.started

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
