"""A call with messages both ways, as tests drive it."""

import queue


class QueuedCall:
    """Messages out by a queue, answers in by next(self.call). It ends with its test."""

    def __init__(self, case, method, request, start, **options):
        self.request = request
        self.to_send = queue.SimpleQueue()
        self.message(start=start)
        self.call = method(iter(self.to_send.get, None), **options)
        case.addCleanup(self.end)

    def message(self, **fields):
        self.to_send.put(self.request(**fields))

    def half_close(self):
        self.to_send.put(None)

    def end(self):
        self.half_close()
        self.call.cancel()

    def first(self, kind):
        """The first answer, which is of this kind."""
        message = next(self.call)
        assert message.WhichOneof("response") == kind, message
        return getattr(message, kind)
