"""An AttachManagedProcess call of a stock client."""

import queue

from boxd_lib import duration


class Attachment:
    """One AttachManagedProcess call: messages out by a queue, answers in by next()."""

    def __init__(self, case, process_id="", client=None, session_id=None, deadline=60, wait=None,
                 **start):
        self.pb = case.pb.process
        self.to_send = queue.SimpleQueue()
        message = self.pb.AttachStart(session_id=session_id or case.sid, process_id=process_id,
                                      **start)
        if wait is not None:
            message.wait.CopyFrom(duration(wait))
        self.send(start=message)
        self.call = (client or case.client).processes.AttachManagedProcess(
            iter(self.to_send.get, None), timeout=deadline)
        self.dropped = {"stdout": 0, "stderr": 0}
        self.bytes = {"stdout": b"", "stderr": b""}
        self.restarts = []
        self.writer_lost = False
        self.exited = None
        case.addCleanup(self.end)

    def send(self, **message):
        self.to_send.put(self.pb.AttachManagedProcessRequest(**message))

    def stdin(self, data):
        self.send(stdin_data=data)

    def close_stdin(self):
        self.send(close_stdin={})

    def half_close(self):
        self.to_send.put(None)

    def end(self):
        self.half_close()
        self.call.cancel()

    def attached(self):
        """The first answer."""
        message = next(self.call)
        assert message.WhichOneof("response") == "attached", message
        return message.attached

    def take(self):
        """One message more; its name."""
        message = next(self.call)
        kind = message.WhichOneof("response")
        if kind in ("stdout_data", "stderr_data"):
            self.bytes[kind[:6]] += getattr(message, kind).data
        elif kind == "dropped":
            self.dropped["stdout"] += message.dropped.stdout_bytes
            self.dropped["stderr"] += message.dropped.stderr_bytes
        elif kind == "restarted":
            self.restarts.append(message.restarted)
        elif kind == "writer_lost":
            self.writer_lost = True
        elif kind == "exited":
            self.exited = message.exited
        return kind

    def until(self, text, stream="stdout"):
        """Reads on until a stream holds this."""
        while text not in self.bytes[stream]:
            self.take()

    def finish(self):
        """Reads to the end; the verdict (None without one)."""
        for _ in iter(lambda: self._take_or_none(), None):
            pass
        return self.exited

    def _take_or_none(self):
        try:
            return self.take()
        except StopIteration:
            return None
