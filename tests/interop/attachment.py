"""Managed processes through a stock client: an AttachManagedProcess call, and a test case."""

from boxd_lib import BoxdCase, duration
from queued_call import QueuedCall


class Attachment(QueuedCall):
    """One AttachManagedProcess call."""

    def __init__(self, case, process_id="", client=None, session_id=None, deadline=60, wait=None,
                 **start):
        pb = case.pb.process
        message = pb.AttachStart(session_id=session_id or case.sid, process_id=process_id, **start)
        if wait is not None:
            message.wait.CopyFrom(duration(wait))
        super().__init__(case, (client or case.client).processes.AttachManagedProcess,
                         pb.AttachManagedProcessRequest, message, timeout=deadline)
        self.dropped = {"stdout": 0, "stderr": 0}
        self.bytes = {"stdout": b"", "stderr": b""}
        self.restarts = []
        self.writer_lost = False
        self.exited = None

    def stdin(self, data):
        self.message(stdin_data=data)

    def close_stdin(self):
        self.message(close_stdin={})

    def attached(self):
        return self.first("attached")

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


class ProcessCase(BoxdCase):
    """A session of its own for each test."""

    def setUp(self):
        super().setUp()
        self.p = self.pb.process
        self.client.create(self.sid)

    def spec(self, what, **fields):
        key = "shell_command" if isinstance(what, str) else "argv"
        for name in ("stop_grace",):
            if name in fields:
                fields[name] = duration(fields[name])
        return self.p.ProcessSpec(**{key: what}, **fields)

    def request(self, what, process_id="", replace=False, ready_timeout=None, key="", **fields):
        request = self.p.StartManagedProcessRequest(
            session_id=self.sid, process_id=process_id, spec=self.spec(what, **fields),
            replace=replace, idempotency_key=key)
        if ready_timeout is not None:
            request.ready_timeout.CopyFrom(duration(ready_timeout))
        return request

    def start(self, what, process_id="", **fields):
        return self.client.processes.StartManagedProcess(
            self.request(what, process_id, **fields), timeout=60).process

    def process(self, process_id=""):
        return self.client.processes.GetManagedProcess(self.p.GetManagedProcessRequest(
            session_id=self.sid, process_id=process_id)).process

    def stop(self, process_id="", grace=None, **fields):
        request = self.p.StopManagedProcessRequest(session_id=self.sid, process_id=process_id,
                                                   **fields)
        if grace is not None:
            request.grace.CopyFrom(duration(grace))
        return self.client.processes.StopManagedProcess(request, timeout=60).process

    def signal(self, number, process_id="", **fields):
        return self.client.processes.SignalManagedProcess(self.p.SignalManagedProcessRequest(
            session_id=self.sid, process_id=process_id,
            signal=self.pb.types.Signal(number=number, **fields)))

    def wait(self, process_id="", ready=False, timeout=None):
        request = self.p.WaitManagedProcessRequest(
            session_id=self.sid, process_id=process_id,
            condition=self.p.WAIT_CONDITION_READY if ready else self.p.WAIT_CONDITION_EXITED)
        if timeout is not None:
            request.timeout.CopyFrom(duration(timeout))
        return self.client.processes.WaitManagedProcess(request, timeout=60)

    def list(self, session_id=None, **fields):
        return self.client.processes.ListManagedProcesses(self.p.ListManagedProcessesRequest(
            session_id=self.sid if session_id is None else session_id, **fields))
