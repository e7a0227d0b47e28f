"""How long sessions of the real server live: eviction, and no idle end."""

import boxd_lib
import lib
from boxd_lib import OwnServerCase, duration
from grpc import StatusCode


class Evict(OwnServerCase):
    @classmethod
    def setUpClass(cls):
        cls.begin(config="limits:\n  sessions_per_tenant: 2\n  when_full: evict\n")

    def test_the_least_recently_used_idle_session_makes_room(self):
        for name in ("a", "b"):
            self.client.create(self.sid + name)
            self.addCleanup(self.client.delete, self.sid + name)
        self.client.run(["true"], self.sid + "a")
        running = self.start("sleep 100")  # in a third: b goes
        gone = self.client.get(self.sid + "b")
        self.assertEqual((gone.state, gone.stop_reason),
                         (self.t.SESSION_STATE_STOPPED, self.t.STOP_REASON_EVICTED))
        self.completes(self.client.run(["true"], self.sid + "b"))  # made anew; a goes
        self.assertEqual(self.client.get(self.sid + "a").stop_reason, self.t.STOP_REASON_EVICTED)
        self.assertFalse(running.done())
        running.cancel()

    def test_no_idle_end_is_refused(self):
        failure = self.fails(StatusCode.PERMISSION_DENIED, "PERMISSION",
                             lambda: self.client.create(self.sid, idle_ttl=duration(0)))
        self.assertEqual(failure.metadata, {"rule": "limits.allow_no_idle_ttl"})


class Endless(OwnServerCase):
    @classmethod
    def setUpClass(cls):
        cls.begin(config="limits:\n  idle_ttl: 1s\n  allow_no_idle_ttl: true\n")

    def test_no_idle_end(self):
        self.client.create(self.sid, idle_ttl=duration(0))
        other = self.client.create().session_id
        lib.wait_for(lambda: self.client.get(other).state == self.t.SESSION_STATE_STOPPED,
                     "one with the default ends")
        session = self.client.get(self.sid)
        self.assertEqual((session.state, session.spec.idle_ttl),
                         (self.t.SESSION_STATE_RUNNING, duration(0)))


if __name__ == "__main__":
    boxd_lib.main()
