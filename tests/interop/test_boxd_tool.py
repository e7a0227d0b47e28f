"""What stands between a model and the real server: session ids of an agent's calls, guidance, the ring of
errors."""

import boxd_lib
import lib
from boxd_lib import BoxdCase
from grpc import StatusCode


def setUpModule():
    BoxdCase.start_server()


def tearDownModule():
    BoxdCase.stop_server()


class Case(BoxdCase):
    def setUp(self):
        super().setUp()
        self.s, self.c, self.t = self.pb.session, self.pb.control, self.pb.types

    def tenant(self, name, *scopes):
        """A client of a tenant of its own, which goes after the test."""
        pb, admin = self.pb.admin, self.client.admin
        admin.CreateTenant(pb.CreateTenantRequest(tenant=pb.Tenant(tenant_id=name)))
        self.addCleanup(lambda: admin.DeleteTenant(pb.DeleteTenantRequest(
            tenant_id=name, allow_missing=True)))
        return self.boxd.client(admin.CreateToken(pb.CreateTokenRequest(
            tenant_id=name, scopes=scopes)).secret)


class SessionIds(Case):
    def resolve(self, template="", **variables):
        return self.client.sessions.ResolveSessionId(self.s.ResolveSessionIdRequest(
            id_template=template, variables=variables))

    def test_defaults_and_variables(self):
        self.assertEqual(self.resolve().session_id, "query_unknown")
        self.assertEqual(self.resolve(launcher_type="group", launcher_id="7").session_id, "group_7")
        answer = self.resolve("{global}/{sender_id}/{nobody}/{{x}}", query_id="q")
        self.assertEqual((answer.session_id, list(answer.unknown_names)),
                         ("global/q/unknown/{x}", ["nobody"]))

    def test_different_values_make_different_ids(self):
        ids = {self.resolve("{a}", a=value).session_id
               for value in ("a/b", "a-b", "a_b", "a b", "a\\b", "A/B", "ä/b")}
        self.assertEqual(len(ids), 7)

    def test_the_id_is_a_session_s(self):
        made = self.resolve("{a} {b}", a=self.sid, b="ä/../x").session_id
        self.addCleanup(self.client.delete, made)
        self.assertTrue(self.client.run(["true"], made).session_created)
        self.assertEqual(self.client.get(made).session_id, f"{self.sid} ä/../x")

    def test_what_is_no_template_is_refused_before_any_exec(self):
        for template in ("{a.b}", "{a[0]}", "{a!r}", "{", "}", "{}", "x" * 1025):
            failure = self.fails(StatusCode.INVALID_ARGUMENT, "VALIDATION",
                                 lambda t=template: self.resolve(t, a="1"))
            self.assertIn("id_template", failure.violations)
        for variables in ({"a": ""}, {"a": "x" * 257}, {"a": "\n"}, {"a.b": "1"},
                          {f"v{i}": "x" for i in range(65)}):
            failure = self.fails(StatusCode.INVALID_ARGUMENT, "VALIDATION",
                                 lambda v=variables: self.resolve("{a}", **v))
            self.assertIn("variables", failure.violations)


class Guidance(Case):
    def text(self, session_id=""):
        return self.client.control.GetGuidance(self.c.GetGuidanceRequest(
            session_id=session_id)).text

    def test_of_the_server_and_of_a_session(self):
        self.assertIn("/workspace", self.text())
        self.client.create(self.sid, mount_path="/data", memory_bytes=100 * boxd_lib.MIB)
        text = self.text(self.sid)
        self.assertIn("/data", text)
        self.assertIn("100 MiB of memory", text)
        self.assertIn("There is no network", text)

    def test_of_another_s_session(self):
        self.client.create(self.sid)
        other = self.tenant("guided", "session.read")
        for client, sid in ((other, self.sid), (self.client, "none")):
            self.fails(StatusCode.NOT_FOUND, "SESSION_NOT_FOUND", lambda c=client, s=sid:
                       c.control.GetGuidance(self.c.GetGuidanceRequest(session_id=s)))


class Errors(Case):
    """known-bugs.md G7: every call's errors are kept, not those of agents' execs alone."""

    def errors(self, client, **kwargs):
        return list(client.control.ListErrors(self.c.ListErrorsRequest(**kwargs)).errors)

    def test_what_failed_is_listed_newest_last(self):
        mine = self.tenant("failing", "session.read", "session.write", "exec.write")
        self.fails(StatusCode.NOT_FOUND, "SESSION_NOT_FOUND", lambda: mine.get("none"))
        self.fails(StatusCode.INVALID_ARGUMENT, "VALIDATION", lambda: mine.run([]))
        self.fails(StatusCode.NOT_FOUND, "FILE_NOT_FOUND", lambda: mine.run(
            ["/no/such"], metadata=[("box-request-id", "r-17")]))
        self.fails(StatusCode.NOT_FOUND, "FILE_NOT_FOUND", lambda: mine.run(["/no/such"], "s1"))
        self.fails(StatusCode.NOT_FOUND, "FILE_NOT_FOUND", lambda: mine.execs.ExecStream(iter(
            [self.pb.exec.ExecStreamRequest(start={"session_id": "s1", "command": {
                "argv": ["/no/such"]}})])))
        self.fails(StatusCode.PERMISSION_DENIED, "PERMISSION",
                   lambda: mine.admin.ListTenants(self.pb.admin.ListTenantsRequest()))
        got = self.errors(mine)
        self.assertEqual([(e.reason, e.method.rsplit("/", 1)[1], e.session_id) for e in got],
                         [("SESSION_NOT_FOUND", "GetSession", "none"), ("VALIDATION", "Exec", ""),
                          ("FILE_NOT_FOUND", "Exec", ""), ("FILE_NOT_FOUND", "Exec", "s1"),
                          ("FILE_NOT_FOUND", "ExecStream", "s1"),
                          ("PERMISSION", "ListTenants", "")])
        self.assertEqual(dict(got[0].metadata), {"kind": "session", "id": "none"})
        self.assertEqual([e.request_id for e in got], ["", "", "r-17", "", "", ""])
        self.assertTrue(all(e.message and e.occurred_at.seconds > 0 for e in got))
        self.assertEqual([e.session_id for e in self.errors(mine, session_id="s1")], ["s1", "s1"])
        self.assertEqual([e.reason for e in self.errors(mine, page_size=1)], ["PERMISSION"])
        self.assertEqual(mine.control.GetStatus(
            self.c.GetStatusRequest()).recent_error_count, 6)
        self.fails(StatusCode.INVALID_ARGUMENT, "VALIDATION",
                   lambda: self.errors(mine, page_size=-1))

    def test_others_errors_are_not_seen_and_fifty_are_kept(self):
        mine, other = (self.tenant(n, "session.read") for n in ("many", "few"))
        for i in range(60):
            self.fails(StatusCode.NOT_FOUND, "SESSION_NOT_FOUND", lambda i=i: mine.get(f"n{i}"))
        self.assertEqual([e.session_id for e in self.errors(mine)],
                         [f"n{i}" for i in range(10, 60)])
        self.assertEqual(self.errors(other), [])

    def test_a_call_that_was_cancelled_or_refused_for_its_token_is_nobody_s(self):
        mine = self.tenant("leaving", "session.read", "exec.write")
        call = mine.execs.Exec.future(mine.exec_request(["sleep", "60"]))
        lib.wait_for(lambda: mine.control.GetStatus(
            self.c.GetStatusRequest()).active_execs == 1, "it runs")
        call.cancel()
        lib.wait_for(lambda: mine.control.GetStatus(
            self.c.GetStatusRequest()).active_execs == 0, "it is gone")
        wrong = self.boxd.client("box_" + "x" * 43)
        self.fails(StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED", lambda: wrong.get("x"))
        self.assertEqual(self.errors(mine), [])

    def test_a_tenant_of_the_same_name_starts_without(self):
        mine = self.tenant("again", "session.read")
        self.fails(StatusCode.NOT_FOUND, "SESSION_NOT_FOUND", lambda: mine.get("x"))
        self.client.admin.DeleteTenant(self.pb.admin.DeleteTenantRequest(tenant_id="again"))
        self.assertEqual(self.errors(self.tenant("again", "session.read")), [])


if __name__ == "__main__":
    boxd_lib.main()
