"""What stands between a model and the real server: session ids of an agent's calls, guidance, the ring of
errors, tools."""

import base64
import json
import threading

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


class Tools(Case):
    def setUp(self):
        super().setUp()
        self.p = self.pb.tool

    def request(self, tool, session_id=None, timeout=None, client=None, **arguments):
        request = self.p.CallToolRequest(
            tool=tool, session_id=self.sid if session_id is None else session_id,
            arguments_json=json.dumps(arguments))
        if timeout is not None:
            request.timeout.CopyFrom(boxd_lib.duration(timeout))
        return request

    def call(self, tool, *args, client=None, **kwargs):
        """The answer, with its result_json taken apart in `result`."""
        answer = (client or self.client).tools.CallTool(self.request(tool, *args, **kwargs),
                                                        timeout=60)
        return answer, json.loads(answer.result_json)


class Listing(Tools):
    def tools(self, client=None, session_id=""):
        return {t.name: t for t in (client or self.client).tools.ListTools(
            self.p.ListToolsRequest(session_id=session_id)).tools}

    def test_definitions_are_those_of_function_calling(self):
        tools = self.tools()
        self.assertEqual(set(tools), {"exec", "read", "write", "edit", "glob", "grep", "python_executor",
                                      "shell_executor", "file_operation"})
        self.assertEqual(list(tools), sorted(tools))
        for name, tool in tools.items():
            definition = json.loads(tool.definition_json)
            self.assertEqual(definition["type"], "function")
            self.assertEqual(set(definition["function"]), {"name", "description", "parameters"})
            self.assertEqual(definition["function"]["name"], name)
            self.assertEqual(definition["function"]["description"], tool.description)
            schema = json.loads(tool.parameters_json)
            self.assertEqual(schema, definition["function"]["parameters"])
            self.assertEqual((schema["type"], schema["additionalProperties"]), ("object", False))
            self.assertLessEqual(set(schema["required"]), set(schema["properties"]))

    def test_of_a_session_and_of_none(self):
        self.client.create(self.sid)
        self.assertEqual(set(self.tools(session_id=self.sid)), set(self.tools()))
        self.fails(StatusCode.NOT_FOUND, "SESSION_NOT_FOUND", lambda: self.tools(session_id="none"))

    def test_a_caller_is_shown_what_its_scopes_allow(self):
        self.assertEqual(self.tools(self.tenant("looking", "session.read")), {})
        self.assertIn("exec", self.tools(self.tenant("running", "session.read", "exec.write")))


class Choice(Tools):
    """SessionSpec.tools: what a session offers."""

    def names(self):
        return [t.name for t in self.client.tools.ListTools(
            self.p.ListToolsRequest(session_id=self.sid)).tools]

    def update(self, **tools):
        return self.client.sessions.UpdateSession(self.s.UpdateSessionRequest(
            session_id=self.sid, spec={"tools": tools}, update_mask={"paths": ["tools"]})).session

    def refused(self, tool, **arguments):
        failure = self.fails(StatusCode.PERMISSION_DENIED, "PERMISSION",
                             lambda: self.call(tool, **arguments))
        self.assertEqual(failure.metadata["rule"], "session.tools")

    def test_names_and_settings(self):
        settings = [{"name": "exec", "timeout": boxd_lib.duration(0.3), "description": "Mine."}]
        made = self.client.create(self.sid, tools={"names": ["exec", "shell_executor"],
                                                   "settings": settings})
        self.assertEqual((made.spec.tools.all, list(made.spec.tools.names)),
                         (False, ["exec", "shell_executor"]))
        self.assertEqual(made.spec.tools.settings[0].description, "Mine.")
        listed = self.client.tools.ListTools(self.p.ListToolsRequest(session_id=self.sid)).tools
        self.assertEqual([t.name for t in listed], ["exec", "shell_executor"])
        self.assertEqual((listed[0].description, listed[0].timeout.nanos), ("Mine.", 300000000))
        self.assertEqual(json.loads(listed[0].definition_json)["function"]["description"], "Mine.")
        self.assertNotEqual(listed[1].description, "Mine.")
        self.refused("python_executor", code="1")
        answer, _ = self.call("exec", command="sleep 60")
        self.assertEqual(answer.error, "killed after 0.3 s (timeout)")
        answer, _ = self.call("exec", command="sleep 1", timeout_sec=5)
        self.assertEqual(answer.status, self.p.TOOL_STATUS_SUCCESS)

    def test_all_none_and_live_changes(self):
        self.assertTrue(self.client.create(self.sid).spec.tools.all)
        everything = self.names()
        self.assertEqual(list(self.update(names=["exec"]).spec.tools.names), ["exec"])
        self.assertEqual(self.names(), ["exec"])
        self.refused("shell_executor", command="true")
        self.update()
        self.assertEqual(self.names(), [])
        self.refused("exec", command="true")
        self.client.out(["true"], self.sid)  # Exec itself is no tool
        self.client.sessions.UpdateSession(self.s.UpdateSessionRequest(
            session_id=self.sid, update_mask={"paths": ["tools"]}))
        self.assertEqual(self.names(), everything)

    def test_the_spec_of_the_call_counts_for_a_session_it_makes(self):
        request = self.request("exec", command="true")
        request.spec.tools.names.append("python_executor")
        self.fails(StatusCode.PERMISSION_DENIED, "PERMISSION",
                   lambda: self.client.tools.CallTool(request))
        self.fails(StatusCode.NOT_FOUND, "SESSION_NOT_FOUND", lambda: self.client.get(self.sid))
        request.spec.tools.names.append("exec")
        self.client.tools.CallTool(request)
        self.assertEqual(self.names(), ["exec", "python_executor"])
        request.spec.tools.Clear()
        request.spec.tools.all = True  # of an existing one it is not compared
        self.client.tools.CallTool(request)
        self.client.sessions.StopSession(self.s.StopSessionRequest(session_id=self.sid))
        self.assertTrue(self.client.tools.CallTool(request).session_created)
        self.assertIn("shell_executor", self.names())

    def test_what_is_no_selection(self):
        for tools, field in (({"names": ["nothing"]}, "names"), ({"all": True, "names": ["exec"]}, "names"),
                             ({"names": ["exec"] * 65}, "names"),
                             ({"settings": [{"name": "x"}]}, "settings.name"),
                             ({"settings": [{"name": "exec"}] * 2}, "settings.name"),
                             ({"settings": [{"name": "exec"}] * 65}, "settings"),
                             ({"settings": [{"name": "exec", "timeout": {}}]}, "settings.timeout"),
                             ({"settings": [{"name": "exec", "timeout": {"seconds": -1}}]}, "settings.timeout"),
                             ({"settings": [{"name": "exec", "description": "x" * 4097}]},
                              "settings.description")):
            failure = self.fails(StatusCode.INVALID_ARGUMENT, "VALIDATION",
                                 lambda t=tools: self.client.create(self.sid, tools=t))
            self.assertIn(f"spec.tools.{field}", failure.violations, failure)

    def test_a_persistent_session_keeps_it(self):
        settings = [{"name": "exec", "timeout": boxd_lib.duration(2), "description": "Mine."}]
        self.client.create(self.sid, persistent=True,
                           tools={"names": ["exec"], "settings": settings})
        before = self.client.get(self.sid).spec.tools
        self.boxd.stop_boxd()
        self.boxd.start_boxd()
        type(self).client = BoxdCase.client = self.boxd.client()
        self.assertEqual(self.client.get(self.sid).spec.tools, before)
        self.assertEqual(self.names(), ["exec"])


class Exec(Tools):
    def test_the_result(self):
        answer, result = self.call("exec", command="echo out; echo err >&2; exit 3")
        self.assertEqual({k: v for k, v in result.items() if k != "duration_ms"}, {
            "ok": False, "status": "completed", "exit_code": 3, "stdout": "out\n", "stderr": "err\n",
            "stdout_truncated": False, "stderr_truncated": False, "truncated": False,
            "truncated_by": None, "preview": "stdout:\nout\n\nstderr:\nerr\n",
            "session_id": self.sid, "backend": "namespace", "error": "exit code 3"})
        self.assertGreaterEqual(result["duration_ms"], 0)
        self.assertEqual((answer.tool, answer.status, answer.output, answer.error),
                         ("exec", self.p.TOOL_STATUS_ERROR, result["preview"], "exit code 3"))
        self.assertEqual((answer.session_id, answer.session_created), (self.sid, True))
        self.assertEqual((answer.verdict.exit_code, answer.verdict.stdout_report.total_bytes), (3, 4))
        self.assertEqual(dict(answer.metadata), {"backend": "namespace"})
        self.assertGreater(answer.finished_at.seconds, 0)
        self.assertTrue(answer.HasField("execution_time"))

    def test_success(self):
        answer, result = self.call("exec", command="echo $A $PWD", workdir="/tmp",
                                   env={"A": "ä"}, description="why", timeout_sec=5)
        self.assertEqual((answer.status, answer.output, answer.error),
                         (self.p.TOOL_STATUS_SUCCESS, "ä /tmp\n", ""))
        self.assertEqual((result["ok"], result["exit_code"], result["stdout"]), (True, 0, "ä /tmp\n"))
        self.assertNotIn("error", result)

    def test_a_missing_session_is_made_as_the_spec_says_and_used_again(self):
        request = self.request("exec", command="echo kept >f")
        request.spec.pids_limit = 50
        request.call_id = "call-7"
        answer = self.client.tools.CallTool(request)
        self.assertEqual((answer.session_created, answer.call_id), (True, "call-7"))
        self.assertEqual(self.client.get(self.sid).spec.pids_limit, 50)
        answer, result = self.call("exec", command="cat f")
        self.assertEqual((answer.session_created, result["stdout"]), (False, "kept\n"))
        request.spec.pids_limit = 51
        self.fails(StatusCode.ALREADY_EXISTS, "SESSION_CONFLICT",
                   lambda: self.client.tools.CallTool(request))

    def test_an_empty_session_is_a_sandbox_of_its_own(self):
        answer, result = self.call("exec", "", command="echo x >f; ls")
        self.assertEqual((result["stdout"], answer.session_id, answer.session_created),
                         ("f\n", "", True))
        self.assertEqual(self.call("exec", "", command="ls")[1]["stdout"], "")

    def test_long_output_is_cut_exactly(self):
        answer, result = self.call("exec", command="python3 -c 'print(\"x\" * 4999)'")
        self.assertEqual(len(result["stdout"]), 4000)
        self.assertIn("\n\n... [1039 characters truncated] ...\n\n", result["stdout"])
        self.assertTrue(result["stdout_truncated"] and result["truncated"])
        self.assertEqual((result["stderr_truncated"], result["truncated_by"]), (False, "characters"))
        self.assertEqual((answer.output, answer.output_truncated), (result["stdout"], True))

    def test_the_count_is_of_characters_and_of_all_of_them(self):
        n = 3000000  # far more than Exec keeps of a stream
        _, result = self.call("exec", command=f"python3 -c 'print(\"ä€😀\" * {n // 3}, end=\"\")'")
        head, count, tail = self.parts(result["stdout"])
        self.assertEqual(len(head) + count + len(tail), n)
        whole = "ä€😀" * 4000
        self.assertEqual((head, tail), (whole[:len(head)], whole[-len(tail):]))

    @staticmethod
    def parts(text):
        head, _, rest = text.partition("\n\n... [")
        count, _, tail = rest.partition(" characters truncated] ...\n\n")
        return head, int(count), tail

    def test_two_long_streams_share_the_room(self):
        answer, result = self.call("exec", command="python3 -c 'import sys; print(\"o\" * 9000); "
                                   "print(\"e\" * 9000, file=sys.stderr)'")
        self.assertEqual((len(result["stdout"]), len(result["stderr"])), (4000, 4000))
        self.assertEqual(len(answer.output), 4000)
        self.assertEqual(result["preview"], answer.output)
        out, err = answer.output.removeprefix("stdout:\n").split("\nstderr:\n")
        self.assertGreater(len(out), 1.4 * len(err))
        for text in (out, err):
            head, count, tail = self.parts(text)
            self.assertEqual(len(head) + count + len(tail), 9001)
        answer, _ = self.call("exec", command="python3 -c 'import sys; print(\"o\" * 9000); "
                              "print(\"few\", file=sys.stderr)'")
        self.assertEqual(len(answer.output), 4000)
        self.assertTrue(answer.output.endswith("\nstderr:\nfew\n"))

    def test_bytes_that_are_no_text(self):
        _, result = self.call("exec", command="printf 'a\\000\\377b\\303\\251\\303'")
        self.assertEqual(result["stdout"], "a\ufffd\ufffdbé\ufffd")

    def test_timeouts_in_their_order(self):
        answer, result = self.call("exec", command="echo x; sleep 60", timeout_sec=1)
        self.assertEqual((answer.status, result["status"], result["exit_code"], result["stdout"]),
                         (self.p.TOOL_STATUS_TIMEOUT, "timed_out", None, "x\n"))
        self.assertEqual(answer.error, "killed after 1 s (timeout)")
        answer, _ = self.call("exec", timeout=0.3, command="sleep 60", timeout_sec=50)
        self.assertEqual(answer.error, "killed after 0.3 s (timeout)")
        answer, _ = self.call("exec", command="true", timeout_sec=5000)
        self.assertEqual(answer.metadata["timeout"], "120s (profile.max_timeout)")
        self.assertEqual(self.call("exec", command="echo on")[1]["stdout"], "on\n")

    def test_every_violation_is_reported(self):
        failure = self.fails(StatusCode.INVALID_ARGUMENT, "VALIDATION", lambda: self.call(
            "exec", cmd="x", timeout_sec=0, env={"A": 1}, workdir=3))
        self.assertEqual(set(failure.violations), {
            "arguments.command", "arguments.cmd", "arguments.timeout_sec", "arguments.env.A",
            "arguments.workdir"})
        failure = self.fails(StatusCode.INVALID_ARGUMENT, "VALIDATION", lambda: self.call(
            "exec", command="true", workdir="x", env={"": "1"}))
        self.assertEqual(set(failure.violations), {"arguments.workdir", "arguments.env"})
        self.fails(StatusCode.INVALID_ARGUMENT, "VALIDATION",
                   lambda: self.call("exec", command=" \n"))

    def test_what_is_no_request(self):
        for changes, field in (({"tool": "nothing"}, "tool"), ({"tool": ""}, "tool"),
                               ({"arguments_json": "[]"}, "arguments_json"),
                               ({"arguments_json": "{"}, "arguments_json"),
                               ({"arguments_json": '{"command":"a","command":"b"}'},
                                "arguments_json"),
                               ({"arguments_json": "[" * 100000}, "arguments_json"),
                               ({"call_id": "x" * 129}, "call_id"),
                               ({"timeout": {"seconds": 0}}, "timeout"),
                               ({"timeout": {"seconds": -1}}, "timeout"),
                               ({"session_id": "x" * 257}, "session_id"),
                               ({"spec": {"pids_limit": 0}}, "spec.pids_limit")):
            fields = {"tool": "exec", "session_id": self.sid,
                      "arguments_json": '{"command":"true"}', **changes}
            failure = self.fails(StatusCode.INVALID_ARGUMENT, "VALIDATION", lambda f=fields:
                                 self.client.tools.CallTool(self.p.CallToolRequest(**f)))
            self.assertIn(field, failure.violations, failure)
        self.fails(StatusCode.NOT_FOUND, "SESSION_NOT_FOUND", lambda: self.client.get(self.sid))

    def test_scopes(self):
        for scopes in (("exec.write",), ("tool.call",), ("tool.call", "file.write")):
            client = self.tenant("scoped-" + "-".join(s.replace(".", "") for s in scopes), *scopes)
            failure = self.fails(StatusCode.PERMISSION_DENIED, "PERMISSION",
                                 lambda c=client: self.call("exec", command="true", client=c))
            self.assertEqual(failure.metadata["rule"], "scope")
        both = self.tenant("scoped-both", "tool.call", "exec.write")
        self.assertEqual(self.call("exec", command="echo x", client=both)[1]["stdout"], "x\n")

    def test_a_key_runs_it_once(self):
        request = self.request("exec", command="echo x >>f")
        request.idempotency_key = self.sid
        self.client.tools.CallTool(request)
        self.fails(StatusCode.FAILED_PRECONDITION, "IDEMPOTENCY_DONE",
                   lambda: self.client.tools.CallTool(request))
        self.assertEqual(self.call("exec", command="cat f")[1]["stdout"], "x\n")
        request.arguments_json = '{"command":"true"}'
        self.fails(StatusCode.INVALID_ARGUMENT, "IDEMPOTENCY_MISMATCH",
                   lambda: self.client.tools.CallTool(request))

    def test_a_cancelled_call_ends_its_command(self):
        call = self.client.tools.CallTool.future(self.request("exec", command="sleep 100"))
        lib.wait_for(lambda: "sleep" in {boxd_lib.name_of(p) for p in self.boxd.processes()},
                     "it runs")
        call.cancel()
        lib.wait_for(lambda: "sleep" not in {boxd_lib.name_of(p) for p in self.boxd.processes()},
                     "it is gone")

    def test_a_flood_of_output_is_not_kept(self):
        before = self.boxd.boxd.rss_kib()
        answers = []

        def flood(i):
            answers.append(self.call("exec", f"{self.sid}-{i}", command="yes | head -c 100000000"))

        threads = [threading.Thread(target=flood, args=(i,)) for i in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        for i in range(4):
            self.client.delete(f"{self.sid}-{i}")
        for _, result in answers:
            head, count, tail = self.parts(result["stdout"])
            self.assertEqual(len(head) + count + len(tail), 100000000)
        self.assertEqual(len(answers), 4)
        self.assertLess(self.boxd.boxd.rss_kib() - before, 32 * 1024)


class Executors(Tools):
    def test_python(self):
        answer, result = self.call("python_executor", code="import sys\nprint(6 * 7)\n"
                                   "print('warned', file=sys.stderr)")
        self.assertEqual(set(result), {"tool_name", "status", "exit_code", "output", "error",
                                       "metadata", "execution_time", "timestamp"})
        self.assertEqual((result["tool_name"], result["status"], result["exit_code"]),
                         ("python_executor", "success", 0))
        self.assertEqual((result["output"], result["error"]), ("42\n", "warned\n"))
        self.assertEqual(result["metadata"], {
            "session_id": self.sid, "backend": "namespace", "verdict": "completed",
            "output_truncated": False, "error_truncated": False})
        self.assertRegex(result["timestamp"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertEqual(answer.status, self.p.TOOL_STATUS_SUCCESS)

    def test_python_fails_and_leaves_nothing_behind(self):
        answer, result = self.call("python_executor", code="x = 1\nboom")
        self.assertEqual((result["status"], result["exit_code"]), ("error", 1))
        self.assertIn("line 2", result["error"])
        self.assertIn("NameError", answer.output)
        self.assertEqual(self.call("exec", command="ls -A . /tmp")[1]["stdout"], ".:\n\n/tmp:\n")

    def test_code_of_any_size_and_no_stdin(self):
        answer, result = self.call("python_executor", code="import sys\n" + "x = 1\n" * 100000 +
                                   "print(len(sys.stdin.read()))")
        self.assertEqual(result["output"], "0\n", answer)

    def test_what_is_blank_is_refused(self):
        for tool, arguments in (("python_executor", {"code": ""}), ("python_executor", {"code": "\n"}),
                                ("python_executor", {}), ("shell_executor", {"command": "  "}),
                                ("shell_executor", {"command": []}),
                                ("shell_executor", {"command": [1]}),
                                ("shell_executor", {"command": [""]})):
            failure = self.fails(StatusCode.INVALID_ARGUMENT, "VALIDATION",
                                 lambda t=tool, a=arguments: self.call(t, **a))
            self.assertTrue(all(f.startswith("arguments.") for f in failure.violations), failure)

    def test_a_shell_text_and_a_list(self):
        """known-bugs.md H1: the same rule with a timeout and without."""
        for extra in ({}, {"timeout": 5}):
            request = self.request("shell_executor")
            request.arguments_json = json.dumps({"command": "echo a | tr a b", **extra})
            result = json.loads(self.client.tools.CallTool(request).result_json)
            self.assertEqual((result["output"], result["exit_code"]), ("b\n", 0))
            request.arguments_json = json.dumps({"command": ["echo", "a | tr a b", "$HOME"], **extra})
            result = json.loads(self.client.tools.CallTool(request).result_json)
            self.assertEqual(result["output"], "a | tr a b $HOME\n")

    def test_a_silent_failure_says_its_code(self):
        _, result = self.call("shell_executor", command="exit 7")
        self.assertEqual((result["status"], result["error"], result["exit_code"]),
                         ("error", "exit code 7", 7))
        _, result = self.call("shell_executor", command="kill -9 $$")
        self.assertEqual((result["error"], result["exit_code"]), ("killed by signal 9", None))

    def test_a_timeout(self):
        request = self.request("shell_executor")
        request.arguments_json = json.dumps({"command": "echo x; sleep 60", "timeout": 1})
        result = json.loads(self.client.tools.CallTool(request).result_json)
        self.assertEqual((result["status"], result["output"], result["error"]),
                         ("timeout", "x\n", "killed after 1 s (timeout)"))



class Files(Tools):
    """The tools on files, with the shapes of the reference and none of its bugs (known-bugs.md E6 to E16)."""

    def setUp(self):
        super().setUp()
        self.client.create(self.sid)

    def put(self, path, data):
        """A file with exactly these bytes."""
        self.client.run(f"mkdir -p $(dirname {path}); cat >{path}", self.sid, stdin=data)

    def bytes_of(self, path):
        return self.client.run(["cat", path], self.sid).stdout_data

    def test_write_read_edit(self):
        answer, result = self.call("write", path="a/b.txt", content="one\ntwo\n")
        self.assertEqual(result, {"ok": True, "path": "/workspace/a/b.txt", "created": True,
                                  "size_bytes": 8})
        self.assertEqual((answer.status, answer.session_id, answer.session_created),
                         (self.p.TOOL_STATUS_SUCCESS, self.sid, False))
        self.assertFalse(self.call("write", path="a/b.txt", content="three\n", mode="append")[1]["created"])
        answer, result = self.call("read", path="/workspace/a/b.txt")
        self.assertEqual({k: result[k] for k in ("ok", "content", "truncated", "truncated_by",
                                                 "start_line", "end_line", "next_offset", "total_lines")},
                         {"ok": True, "content": "one\ntwo\nthree", "truncated": False,
                          "truncated_by": None, "start_line": 1, "end_line": 3, "next_offset": None,
                          "total_lines": 3})
        self.assertEqual(answer.output, "one\ntwo\nthree")
        answer, result = self.call("edit", path="a/b.txt", old_string="two", new_string="2")
        self.assertEqual((result["ok"], result["path"], result["replacements"]),
                         (True, "/workspace/a/b.txt", 1))
        self.assertIn("-two\n+2\n", result["diff"])
        self.assertEqual(answer.output, result["diff"])
        self.assertEqual(self.bytes_of("a/b.txt"), b"one\n2\nthree\n")

    def test_windows(self):
        self.put("many", b"".join(b"%d\n" % i for i in range(1, 5001)))
        answer, result = self.call("read", path="many")
        self.assertEqual((result["end_line"], result["next_offset"], result["truncated_by"]),
                         (2000, 2001, "lines"))
        self.assertTrue(answer.output.endswith("[lines 1 to 2000; go on with offset 2001]"))
        _, result = self.call("read", path="many", offset=4999, limit=10)
        self.assertEqual((result["content"], result["next_offset"]), ("4999\n5000", None))

    def test_large_content_is_not_cut_to_what_a_command_is(self):
        """E16."""
        self.put("wide", b"x" * 49 + b"\n" + b"y" * 40000 + b"\n")
        answer, result = self.call("read", path="wide")
        self.assertEqual(len(result["content"]), 40050)
        self.assertEqual(answer.output, result["content"])

    def test_a_long_line_is_read_on_and_ends(self):
        """E8: next_offset was the same line for ever."""
        data = b"z" * 130000 + b"\nend\n"
        self.put("long", data)
        got, arguments = "", {"path": "long"}
        for _ in range(10):
            _, result = self.call("read", **arguments)
            got += result["content"]
            if result["next_byte_offset"] is None:
                break
            arguments = {"path": "long", "byte_offset": result["next_byte_offset"]}
        self.assertEqual(got.replace("\n", ""), "z" * 130000 + "end")

    def test_past_the_end_says_so(self):
        """E9."""
        self.put("short", b"1\n2\n3\n")
        answer, result = self.call("read", path="short", offset=999)
        self.assertEqual((result["content"], result["past_end"], result["total_lines"]), ("", True, 3))
        self.assertEqual(answer.output, "[past the end: the file has 3 lines]")

    def test_binary_says_so_and_base64_is_exact(self):
        """E10."""
        data = bytes(range(256)) * 300
        self.put("bin", data)
        answer, result = self.call("read", path="bin")
        self.assertTrue(result["binary"])
        self.assertIn("looks like no text", answer.output)
        got, offset = b"", 0
        while offset is not None:
            _, result = self.call("read", path="bin", encoding="base64", byte_offset=offset)
            part = base64.b64decode(result["content"])
            self.assertEqual((result["byte_offset"], result["length"], result["size_bytes"]),
                             (offset, len(part), len(data)))
            self.assertEqual(result["has_more"], result["next_byte_offset"] is not None)
            got, offset = got + part, result["next_byte_offset"]
        self.assertEqual(got, data)
        self.call("write", path="copy", content=base64.b64encode(data).decode(), encoding="base64")
        self.assertEqual(self.bytes_of("copy"), data)

    def test_a_directory(self):
        self.put("d/one", b"")
        self.put("d/.two", b"")
        _, result = self.call("read", path="d")
        self.assertEqual((result["is_directory"], result["content"], result["total"], result["next_offset"]),
                         (True, ".two\none", 2, None))
        self.client.run("mkdir many; cd many; touch $(seq 10001 12500)", self.sid)
        answer, result = self.call("read", path="many")
        self.assertEqual((result["truncated_by"], result["total"], result["next_offset"]),
                         ("entries", 2500, 2001))
        self.assertTrue(answer.output.endswith("\n[names 1 to 2000 of 2500; go on with offset 2001]"))
        answer, result = self.call("read", path="many", offset=2001)
        self.assertEqual((result["content"].split("\n")[0], result["truncated"], result["next_offset"]),
                         ("12001", False, None))
        answer, _ = self.call("read", path="many", offset=2501)
        self.assertEqual(answer.output, "[past the end: the directory has 2500 names]")

    def test_what_the_file_is_the_reason_of_is_an_answer(self):
        """E15: ok:false for all of them, never an error of the call."""
        self.put("twice", b"a a")
        self.client.run("mkdir sub; ln -s /etc/shadow secret", self.sid)
        for tool, arguments in (("read", {"path": "none"}), ("read", {"path": "/etc/shadow"}),
                                ("read", {"path": "secret"}), ("write", {"path": "/usr/x", "content": ""}),
                                ("write", {"path": "sub", "content": ""}),
                                ("edit", {"path": "none", "old_string": "a", "new_string": "b"}),
                                ("edit", {"path": "twice", "old_string": "a", "new_string": "b"}),
                                ("edit", {"path": "twice", "old_string": "b", "new_string": "c"}),
                                ("glob", {"pattern": "*", "path": "twice"}),
                                ("grep", {"pattern": "(", "path": "."}),
                                ("grep", {"pattern": "a", "path": "none"})):
            answer, result = self.call(tool, **arguments)
            self.assertEqual((result["ok"], answer.status), (False, self.p.TOOL_STATUS_ERROR),
                             (tool, arguments))
            self.assertEqual(result["error"], answer.error)
            self.assertTrue(answer.error)
        self.assertEqual(self.bytes_of("twice"), b"a a")

    def test_edit_touches_nothing_else(self):
        """E6, E7."""
        self.put("latin", b"caf\xe9\r\nx = 1\r\n\xff\x00")
        _, result = self.call("edit", path="latin", old_string="x = 1", new_string="x = 2")
        self.assertTrue(result["ok"])
        self.assertEqual(self.bytes_of("latin"), b"caf\xe9\r\nx = 2\r\n\xff\x00")
        _, result = self.call("edit", path="latin", new_string="y = 3\n",  # as read shows it
                              old_string="x = 2\n")
        self.assertTrue(result["ok"], result)
        self.assertEqual(self.bytes_of("latin"), b"caf\xe9\r\ny = 3\r\n\xff\x00")
        self.put("all", b"a b a")
        _, result = self.call("edit", path="all", old_string="a", new_string="c", replace_all=True)
        self.assertEqual((result["replacements"], self.bytes_of("all")), (2, b"c b c"))

    def test_glob_is_newest_first_and_goes_as_deep_as_it_says(self):
        """E13."""
        self.client.run("mkdir -p src/deep .git; touch -d 2020-01-01 src/a.py; touch -d 2021-01-01 "
                        "src/deep/b.py; touch -d 2022-01-01 c.py; touch .git/d.py", self.sid)
        answer, result = self.call("glob", pattern="**/*.py")
        self.assertEqual(result["matches"], ["/workspace/c.py", "/workspace/src/deep/b.py",
                                             "/workspace/src/a.py"])
        self.assertEqual((result["total"], result["truncated"], result["truncated_by"]), (3, False, None))
        self.assertEqual(answer.output, "".join(m + "\n" for m in result["matches"]))
        self.assertEqual(self.call("glob", pattern="src/*.py")[1]["matches"], ["/workspace/src/a.py"])
        self.assertEqual(self.call("glob", pattern="*.py", path="src/deep")[1]["matches"],
                         ["/workspace/src/deep/b.py"])
        self.client.run("for i in $(seq 150); do touch m$i; done", self.sid)
        answer, result = self.call("glob", pattern="m*")
        self.assertEqual((len(result["matches"]), result["truncated"]), (100, True))
        self.assertIn("[more than this: cut by matches]", answer.output)

    def test_grep_is_sorted_and_says_what_is_missing(self):
        """E12."""
        self.client.run("mkdir -p b/.git; echo 'x one  ' >b/z.txt; echo 'x two' >b/a.txt; echo x >b/.git/c; "
                        "printf 'x\\0' >b/bin; echo x >b/n.md", self.sid)
        answer, result = self.call("grep", pattern="^x t?w?o", path="b", include="*.txt")
        self.assertEqual(result["matches"], [
            {"file": "/workspace/b/a.txt", "line": 1, "content": "x two"},
            {"file": "/workspace/b/z.txt", "line": 1, "content": "x one"}])
        self.assertEqual((result["ok"], result["total"], result["truncated"]), (True, 2, False))
        self.assertEqual(answer.output, "/workspace/b/a.txt:1:x two\n/workspace/b/z.txt:1:x one\n")
        files = [m["file"] for m in self.call("grep", pattern="x")[1]["matches"]]
        self.assertEqual(files, [f"/workspace/b/{n}" for n in ("a.txt", "n.md", "z.txt")])
        self.put("lines", b"hit\n" * 300 + b"h" * 1000 + b"it\n")
        _, result = self.call("grep", pattern="hit", path="lines")
        self.assertEqual((len(result["matches"]), result["truncated"], result["truncated_by"]),
                         (200, True, "matches"))
        _, result = self.call("grep", pattern="hhhh", path="lines")
        self.assertTrue(result["matches"][0]["content"].endswith("... [truncated]"))

    def test_what_is_found_is_shown_up_to_50_kib(self):
        """Of long paths and lines a model gets fewer than the count allows, and is told."""
        folder = "/".join(["d" * 200] * 5)
        self.client.run(f"mkdir -p {folder}; cd {folder}; for i in $(seq 100 199); do echo {'y' * 400} >f$i; done",
                        self.sid)
        for tool in ("glob", "grep"):
            answer, result = self.call(tool, pattern="**/f*" if tool == "glob" else "y")
            self.assertEqual((result["truncated"], result["truncated_by"]), (True, "bytes"), tool)
            self.assertTrue(answer.output.endswith("\n[more than this: cut by bytes]\n"), tool)
            shown = answer.output.encode()
            self.assertGreater(len(shown), 48 * 1024, tool)
            self.assertLess(len(shown), 50 * 1024 + 64, tool)
            self.assertEqual(len(result["matches"]), len(shown.splitlines()) - 1, tool)

    def test_they_need_a_session(self):
        for sid in ("", "none"):
            code = "VALIDATION" if sid == "" else "SESSION_NOT_FOUND"
            status = StatusCode.INVALID_ARGUMENT if sid == "" else StatusCode.NOT_FOUND
            self.fails(status, code, lambda s=sid: self.call("read", s, path="x"))
        request = self.request("read", path="x")
        request.spec.pids_limit = 5
        self.fails(StatusCode.INVALID_ARGUMENT, "VALIDATION", lambda: self.client.tools.CallTool(request))

    def test_arguments_are_named(self):
        for tool, arguments, field in (("read", {"path": ""}, "path"), ("read", {}, "path"),
                                       ("read", {"path": "x", "limit": 10001}, "limit"),
                                       ("read", {"path": "x", "max_bytes": 51201}, "max_bytes"),
                                       ("read", {"path": "x", "offset": 1, "byte_offset": 1}, "byte_offset"),
                                       ("read", {"path": "x", "offset": (1 << 63) - 1}, "offset"),
                                       ("read", {"path": "x", "byte_offset": (1 << 63) - 1}, "byte_offset"),
                                       ("read", {"path": "x", "encoding": "hex"}, "encoding"),
                                       ("write", {"path": "x"}, "content"),
                                       ("write", {"path": "x", "content": "%", "encoding": "base64"}, "content"),
                                       ("edit", {"path": "x", "old_string": "", "new_string": ""}, "old_string"),
                                       ("grep", {"pattern": "x" * 1025}, "pattern"),
                                       ("file_operation", {"operation": "chmod", "file_path": "x"}, "operation"),
                                       ("file_operation", {"operation": "write", "file_path": "x"}, "content"),
                                       ("file_operation", {"operation": "read", "file_path": "x",
                                                           "content": "y"}, "content")):
            failure = self.fails(StatusCode.INVALID_ARGUMENT, "VALIDATION",
                                 lambda t=tool, a=arguments: self.call(t, **a))
            self.assertIn(f"arguments.{field}", failure.violations, (tool, arguments))

    def test_a_pattern_of_names_counts_bytes(self):
        for tool, arguments, field in (("glob", {"pattern": "\u20ac" * 500}, "pattern"),
                                       ("grep", {"pattern": "x", "include": "\u20ac" * 500}, "include"),
                                       ("grep", {"pattern": "x", "include": "x" * 1022}, "include")):
            failure = self.fails(StatusCode.INVALID_ARGUMENT, "VALIDATION",
                                 lambda t=tool, a=arguments: self.call(t, **a))
            self.assertEqual(list(failure.violations), [f"arguments.{field}"])
        self.put("x" * 200, b"here\n")
        _, result = self.call("grep", pattern="here", include="x" * 200 + "*" * 821)
        self.assertEqual(len(result["matches"]), 1)

    def test_long_arguments_are_read_beside_the_loop(self):
        content = "\u20ac" + "x" * 5000000
        self.assertEqual(self.call("write", path="big", content=content)[1]["size_bytes"], 5000003)
        for text, fields in (('{"path":"' + "x" * 300000, ["arguments_json"]),
                             ('{"path":"big","content":"' + "x" * 300000 + '","mode":"x"}', ["arguments.mode"])):
            request = self.request("write")
            request.arguments_json = text
            failure = self.fails(StatusCode.INVALID_ARGUMENT, "VALIDATION",
                                 lambda r=request: self.client.tools.CallTool(r))
            self.assertEqual(list(failure.violations), fields)
        calls = [self.client.tools.CallTool.future(self.request("write", path=f"c{i}", content=content))
                 for i in range(8)]
        for call in calls:
            call.cancel()
        self.assertEqual(self.call("read", path="big", byte_offset=0, max_bytes=3)[1]["content"], "\u20ac")

    def test_scopes(self):
        reads = self.tenant("reading", "tool.call", "file.read", "session.read", "session.write")
        reads.create("own")
        self.assertEqual({t.name for t in reads.tools.ListTools(self.p.ListToolsRequest()).tools},
                         {"read", "glob", "grep"})
        self.assertEqual(self.call("glob", "own", client=reads, pattern="*")[1]["matches"], [])
        self.fails(StatusCode.PERMISSION_DENIED, "PERMISSION",
                   lambda: self.call("write", "own", client=reads, path="x", content=""))


class FileOperation(Tools):
    """enclave.md, and known-bugs.md H15: any name, only what the user may touch."""

    def setUp(self):
        super().setUp()
        self.client.create(self.sid)

    def operate(self, operation, path, **arguments):
        return self.call("file_operation", operation=operation, file_path=path, **arguments)[1]

    def test_the_longest_name_that_is_no_text_is_told_whole(self):
        """Each of its bytes takes three in the answer, which stays text to its last one."""
        folder = "/workspace/" + "/".join(["a" * 250] * 15)
        self.client.out(f"mkdir -p {folder} && cd {folder} && "
                        "touch \"$(printf '\\377%.0s' $(seq 255))\"", self.sid)
        result = self.operate("list", folder)
        self.assertEqual(result["status"], "success", result)
        self.assertTrue(result["output"].endswith(f"{folder}/" + "\ufffd" * 255 + "\n"),
                        result["output"][-300:])

    def test_all_operations(self):
        name = "d/a \"b'$x"
        result = self.operate("exists", name)
        self.assertRegex(result.pop("timestamp"), r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertGreater(result.pop("execution_time"), 0)
        self.assertEqual(result, {"tool_name": "file_operation", "status": "success",
                                  "output": "does not exist", "error": None, "metadata": {}})
        self.assertEqual(self.operate("create", name)["status"], "success")
        self.assertEqual(self.operate("read", name)["output"], "")
        self.operate("write", name, content="hé\n")
        self.assertEqual(self.operate("read", name, encoding="utf-8")["output"], "hé\n")
        self.assertEqual(self.operate("exists", name)["output"], "exists")
        self.assertRegex(self.operate("list", "d")["output"],
                         r"^- +4 \d{4}-\d\d-\d\dT\S+Z /workspace/d/a \"b'\$x\n$")
        self.assertEqual(self.operate("delete", "d")["status"], "success")
        self.assertEqual(self.operate("exists", "d")["output"], "does not exist")

    def test_what_cannot_be_done(self):
        for operation, path in (("read", "none"), ("delete", "none"), ("list", "none"),
                                ("delete", "/"), ("delete", "/usr"), ("write", "/etc/x")):
            arguments = {"content": "x"} if operation == "write" else {}
            result = self.operate(operation, path, **arguments)
            self.assertEqual((result["status"], result["output"], result["metadata"]), ("error", "", {}),
                             (operation, path))
            self.assertTrue(result["error"])
            self.assertIn("timestamp", result)
        self.assertEqual(self.client.out(["echo", "alive"], self.sid), "alive")


if __name__ == "__main__":
    boxd_lib.main()
