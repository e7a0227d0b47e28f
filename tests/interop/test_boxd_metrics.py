"""GET /metrics of the real server, with curl: who may read it, Prometheus' format read strictly, and
numbers that follow what happens."""

import re
import subprocess
import time

import grpc

import boxd_lib
from boxd_lib import BoxdCase

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\[\\"n])*"'
SAMPLE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)\}})? (-?\d+(?:\.\d+)?)")


def setUpModule():
    BoxdCase.start_server()


def tearDownModule():
    BoxdCase.stop_server()


def parse(text):
    """{name: (type, {labels: value})} of a page; fails where the format does not hold."""
    families, current = {}, None
    assert text.endswith("\n"), "no end of line at the end"
    lines = iter(text[:-1].split("\n"))
    for line in lines:
        help_line = re.fullmatch(rf"# HELP ({NAME}) (\S.*)", line)
        if help_line:
            current = help_line[1]
            assert current not in families, f"{current} twice"
            kind = re.fullmatch(rf"# TYPE {current} (counter|gauge)", next(lines))
            assert kind, f"no type of {current}"
            families[current] = (kind[1], {})
            continue
        sample = SAMPLE.fullmatch(line)
        assert sample, f"no sample: {line!r}"
        name, labels, value = sample.groups()
        assert name == current, f"{name} among those of {current}"
        assert labels not in families[name][1], f"{name} {labels} twice"
        families[name][1][labels] = float(value)
    for name, (kind, _) in families.items():
        assert (kind == "counter") == name.endswith("_total"), name
    return families


class Metrics(BoxdCase):
    def curl(self, *args, path="/metrics"):
        """HTTP status, headers and text."""
        done = subprocess.run(
            ["curl", "--silent", "--show-error", "--include", "--http2", "--max-time", "20", "--cacert",
             f"{self.boxd.state_dir}/ca.pem", *args, f"https://localhost:{self.boxd.port}{path}"],
            capture_output=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        head, _, body = done.stdout.decode().partition("\r\n\r\n")
        version, status = head.split()[:2]
        self.assertEqual(version, "HTTP/2")
        return int(status), head.lower(), body

    def page(self):
        status, head, text = self.curl("-H", f"Authorization: Bearer {self.boxd.token}")
        self.assertEqual(status, 200, text)
        self.assertIn("content-type: text/plain; version=0.0.4", head)
        return parse(text)

    def token(self, *scopes):
        return self.client.admin.CreateToken(self.client.pb.admin.CreateTokenRequest(
            tenant_id="default", name="metrics", scopes=scopes)).secret

    def test_only_who_may_read_status_of_the_server(self):
        for args, expected in (((), 401), (("-H", "Authorization: Bearer box_wrong"), 401),
                               (("-H", f"Authorization: Bearer {self.token('exec.write')}"), 403),
                               (("-H", f"Authorization: Bearer {self.token('session.read')}"), 403)):
            status, head, text = self.curl(*args)
            self.assertEqual(status, expected, text)
            self.assertRegex(text, r"\A[^\n]+\n\Z")
            self.assertEqual("www-authenticate: bearer" in head, expected == 401)
        reader = self.token("session.read", "admin.read")
        self.assertEqual(self.curl("-H", f"Authorization: Bearer {reader}")[0], 200)

    def test_other_paths_answer_as_ever(self):
        token = ("-H", f"Authorization: Bearer {self.boxd.token}")
        for path, args, expected in (("/", (), 404), ("/metrics/", (), 404), ("/metricsx", (), 404),
                                     ("/metrics", ("--data", "x"), 404), ("/a/b", (), 405)):
            self.assertEqual(self.curl(*token, *args, path=path)[0], expected, path)
        self.assertEqual(self.curl(*token, "--head")[0], 404)

    def test_numbers_follow_what_happens(self):
        before = self.page()
        one = {name: next(iter(values.values())) for name, (_, values) in before.items() if len(values) == 1}
        self.assertIn('version="0.1.0"', before["box_build_info"][1])
        self.assertLess(abs(one["box_start_time_seconds"] + one["box_uptime_seconds"] - time.time()), 60)
        status = self.client.control.GetStatus(self.pb.control.GetStatusRequest()).server
        self.assertEqual(one["box_certificate_expiry_seconds"], status.certificate_expires_at.seconds)
        self.assertGreaterEqual(one["box_connections"], 1)
        self.assertGreater(one["box_resident_memory_bytes"], 1 << 20)
        self.assertEqual(one["box_handshakes_waiting"], 0)
        self.assertEqual(one["box_handshake_steps_queued_total"], 0)
        self.assertEqual(before["box_backend_available"][1], {'backend="namespace"': 1})
        self.assertEqual(len(before["box_loop_waiting_connections"][1]), status.loop_threads)
        session = self.client.create("metrics")
        self.client.run("exit 3", session.session_id)
        self.client.run("sleep 60", session.session_id, timeout=0.1)
        with self.assertRaises(grpc.RpcError):
            self.client.get("there-is-none")
        after = self.page()

        def grown(name, labels=None):
            return after[name][1][labels] - before[name][1].get(labels, 0)

        self.assertEqual(after["box_sessions"][1]['state="running"'], 1)
        self.assertEqual(after["box_sandboxes"][1][None], 1)
        self.assertEqual(grown("box_sessions_created_total"), 1)
        self.assertEqual(grown("box_execs_total", 'status="completed"'), 1)
        self.assertEqual(grown("box_execs_total", 'status="timed_out"'), 1)
        self.assertEqual(grown("box_calls_total", 'method="/box.v1.ExecService/Exec",code="OK"'), 2)
        self.assertEqual(
            grown("box_calls_total", 'method="/box.v1.SessionService/GetSession",code="NOT_FOUND"'), 1)
        self.client.delete(session.session_id)
        self.boxd.wait_nothing_left()
        ended = self.page()
        self.assertEqual(set(ended["box_sessions"][1].values()), {0})
        for name, (kind, values) in before.items():
            if kind == "counter":
                self.assertTrue(all(ended[name][1][labels] >= value for labels, value in values.items()), name)

    def test_no_label_is_made_by_a_caller(self):
        session = self.client.create("made-up-name", labels={"made-up-label": "x"})
        channel = self.client.channel
        with self.assertRaises(grpc.RpcError) as caught:
            channel.unary_unary("/made.up.Service/Call")(b"")
        self.assertEqual(caught.exception.code(), grpc.StatusCode.UNIMPLEMENTED)
        _, _, text = self.curl("-H", f"Authorization: Bearer {self.boxd.token}")
        self.assertNotIn("made", text)
        self.assertGreaterEqual(parse(text)["box_calls_total"][1]['method="",code="UNIMPLEMENTED"'], 1)
        self.client.delete(session.session_id)


if __name__ == "__main__":
    boxd_lib.main()
