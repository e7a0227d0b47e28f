"""SessionService of the real server: sandboxes and their life."""

import os
import time

import boxd_lib
import lib
from boxd_lib import BoxdCase, MIB, duration
from grpc import StatusCode

OWNER = 61235  # of the host directories; no such user
LIMIT = 24     # sessions of a tenant on this server


def setUpModule():
    roots = lib.TemporaryFolder("box-accept-roots-")
    os.chmod(roots.path, 0o755)
    Case.roots = roots
    BoxdCase.start_server(
        config=f"limits:\n  sessions_per_tenant: {LIMIT}\n",
        warden_config=f"allowed_roots:\n  - path: {roots.path}\n    owner_uid: {OWNER}\n")


def tearDownModule():
    try:
        BoxdCase.stop_server()
    finally:
        Case.roots.remove()


class Case(BoxdCase):
    roots = None

    def setUp(self):
        super().setUp()
        self.p, self.t = self.pb.session, self.pb.types

    def create_call(self, session_id=None, key="", **spec):
        return self.client.sessions.CreateSession(self.p.CreateSessionRequest(
            session_id=self.sid if session_id is None else session_id,
            spec=self.t.SessionSpec(**spec), idempotency_key=key))

    def list(self, **kwargs):
        return self.client.sessions.ListSessions(self.p.ListSessionsRequest(**kwargs))

    def update(self, paths, **spec):
        return self.client.sessions.UpdateSession(self.p.UpdateSessionRequest(
            session_id=self.sid, spec=self.t.SessionSpec(**spec),
            update_mask={"paths": paths})).session

    def extend(self, seconds=None):
        request = self.p.ExtendSessionRequest(session_id=self.sid)
        if seconds is not None:
            request.duration.CopyFrom(duration(seconds))
        return self.client.sessions.ExtendSession(request).session

    def stop(self):
        return self.client.sessions.StopSession(
            self.p.StopSessionRequest(session_id=self.sid)).session

    def wait_state(self, state, seconds=lib.WAIT_SECONDS):
        return lib.wait_for(lambda: [s for s in [self.client.get(self.sid)] if s.state == state],
                            f"{self.sid} comes to {self.t.SessionState.Name(state)}", seconds)[0]

    def left_of(self, session):
        """Seconds until it expires."""
        return session.expires_at.ToNanoseconds() / 1e9 - time.time()


class Create(Case):
    def test_values_of_the_default_profile_are_in_force(self):
        answer = self.create_call()
        s, spec = answer.session, answer.session.spec
        self.assertTrue(answer.created)
        self.assertEqual((s.session_id, s.state, s.backend, s.stop_reason),
                         (self.sid, self.t.SESSION_STATE_RUNNING, "namespace", 0))
        self.assertRegex(s.uid, r"^[0-9a-f]{32}$")
        self.assertEqual(
            (spec.profile, spec.image, spec.network, spec.host_path, spec.mount_path, spec.workdir),
            ("default", "host", self.t.NETWORK_MODE_OFF, "", "/workspace", "/workspace"))
        self.assertEqual((spec.cpu_millis, spec.memory_bytes, spec.pids_limit),
                         (1000, 512 * MIB, 128))
        self.assertEqual((spec.read_only_rootfs, spec.persistent, spec.max_parallel_execs,
                          spec.destroy_on_timeout), (True, False, 1, False))
        self.assertEqual((spec.command_timeout, spec.idle_ttl, spec.max_lifetime),
                         (duration(30), duration(300), duration(48 * 3600)))
        for field in ("persistent", "workspace_limit_bytes", "destroy_on_timeout"):
            self.assertTrue(spec.HasField(field), field)
        self.assertTrue(290 < self.left_of(s) <= 300)
        self.assertLess(abs(s.created_at.ToNanoseconds() / 1e9 - time.time()), 60)
        self.assertFalse(s.HasField("stopped_at"))
        holds = {g.name: g.holds for g in s.guarantees}
        self.assertTrue(holds["filesystem"] and holds["seccomp"] and holds["network_off"])

    def test_the_same_id_answers_with_the_same_session(self):
        first = self.create_call()
        again = self.create_call()
        self.assertEqual((again.created, again.session.uid), (False, first.session.uid))

    def test_the_server_makes_an_id(self):
        a, b = self.create_call(""), self.create_call("")
        for answer in (a, b):
            self.addCleanup(self.client.delete, answer.session.session_id)
        self.assertTrue(a.created and b.created and a.session.session_id)
        self.assertNotEqual(a.session.session_id, b.session.session_id)
        self.assertEqual(self.client.get(a.session.session_id).uid, a.session.uid)

    def test_ids_are_opaque_text(self):
        for sid in ("a", "../../etc", "a/b c", "ü\u4e16\U0001f600", "x" * 256, "%s%n", "-", "."):
            s = self.create_call(sid).session
            self.addCleanup(self.client.delete, sid)
            self.assertEqual(s.session_id, sid)
            self.assertEqual(self.client.out("pwd", sid), "/workspace")
            self.client.delete(sid)

    def test_ids_that_are_none(self):
        for sid in ("x" * 257, "a\nb", "a\x7fb", "a\x01"):
            self.invalid(lambda s=sid: self.create_call(s), "session_id")

    def test_all_mistakes_of_a_spec_are_named_at_once(self):
        self.invalid(lambda: self.create_call(
            cpu_millis=9, memory_bytes=1, pids_limit=0, workspace_limit_bytes=-1,
            mount_path="workspace", workdir="x", max_parallel_execs=65,
            command_timeout=duration(0), max_lifetime=duration(48 * 3600 + 1),
            labels={"": "x"}, env={"A=B": "x"}),
            "spec.cpu_millis", "spec.memory_bytes", "spec.pids_limit",
            "spec.workspace_limit_bytes", "spec.mount_path", "spec.workdir",
            "spec.max_parallel_execs", "spec.command_timeout", "spec.max_lifetime", "spec.labels",
            "spec.env")
        self.fails(StatusCode.NOT_FOUND, "SESSION_NOT_FOUND", lambda: self.client.get(self.sid))

    def test_single_mistakes(self):
        long = {f"k{i}": "v" for i in range(65)}
        for field, spec in (("spec.profile", {"profile": "nope"}),
                            ("spec.idle_ttl", {"idle_ttl": duration(-1)}),
                            ("spec.host_path", {"host_path": "C:\\x"}),
                            ("spec.host_path", {"host_path": "/a/../b"}),
                            ("spec.mount_path", {"mount_path": "/"}),
                            ("spec.labels", {"labels": long}),
                            ("spec.labels", {"labels": {"k" * 64: "v"}}),
                            ("spec.labels", {"labels": {"k": "v" * 257}}),
                            ("spec.image", {"image": "i" * 256}),
                            ("spec.network", {"network": 99})):
            self.invalid(lambda s=spec: self.create_call(**s), field)

    def test_mount_path_is_no_system_directory(self):
        for path in ("/usr", "/etc/x", "/proc", "/dev/shm", "/tmp", "/a//b", "/a/", "/a/./b"):
            self.invalid(lambda p=path: self.create_call(mount_path=p), "spec.mount_path")

    def test_what_cannot_be_had_is_named(self):
        mount = self.t.Mount(host_path="/srv", mount_path="/workspace/srv")
        for name, spec in (("network_on", {"network": self.t.NETWORK_MODE_ON}),
                           ("network_on", {"profile": "network_basic"}),
                           ("images", {"image": "debian:12"}),
                           ("extra_mounts", {"extra_mounts": [mount]}),
                           ("skills", {"skills": {"all": True}}),
                           ("extra_hosts", {"extra_hosts": {"h": "127.0.0.1"}}),
                           ("images", {"guarantees": ["images"]})):
            failure = self.fails(StatusCode.FAILED_PRECONDITION, "GUARANTEE_UNSUPPORTED",
                                 lambda s=spec: self.create_call(**s))
            self.assertIn(name, failure.metadata["guarantees"].split(","), failure)
            self.assertIn("backend", failure.metadata)
        self.invalid(lambda: self.create_call(guarantees=["teleport"]), "spec.guarantees")
        self.invalid(lambda: self.client.run(["true"], spec={"persistent": True}),
                     "spec.persistent")  # a sandbox that goes with the call
        self.fails(StatusCode.NOT_FOUND, "SESSION_NOT_FOUND", lambda: self.client.get(self.sid))

    def test_guarantees_that_hold_are_marked_required(self):
        session = self.create_call(guarantees=["seccomp"], memory_bytes=64 * MIB).session
        required = {g.name for g in session.guarantees if g.required}
        self.assertLessEqual({"seccomp", "memory"}, required)

    def test_a_backend_nobody_configured(self):
        failure = self.fails(StatusCode.UNAVAILABLE, "BACKEND_UNAVAILABLE",
                             lambda: self.create_call(backend="docker"))
        self.assertEqual(failure.metadata["backend"], "docker")

    def test_a_conflict_names_all_fields(self):
        self.create_call(cpu_millis=500, memory_bytes=64 * MIB, pids_limit=50)
        failure = self.fails(
            StatusCode.ALREADY_EXISTS, "SESSION_CONFLICT",
            lambda: self.create_call(cpu_millis=600, memory_bytes=65 * MIB, pids_limit=50,
                                     read_only_rootfs=False, workspace_limit_bytes=MIB,
                                     mount_path="/work", profile="offline_readonly",
                                     host_path_mode=self.t.MOUNT_MODE_READ_ONLY,
                                     labels={"not": "compared"}))
        self.assertEqual(failure.metadata["session"], self.sid)
        self.assertEqual(sorted(failure.metadata["fields"].split(",")),
                         ["cpu_millis", "host_path_mode", "memory_bytes", "mount_path", "profile",
                          "read_only_rootfs", "workspace_limit_bytes"])
        self.fails(StatusCode.ALREADY_EXISTS, "SESSION_CONFLICT",
                   lambda: self.client.run(["true"], self.sid, spec={"cpu_millis": 600}))
        self.assertFalse(self.create_call(cpu_millis=500, pids_limit=50).created)  # unset: as it is

    def test_locked_fields_win_and_say_so(self):
        session = self.create_call(profile="offline_readonly", network=self.t.NETWORK_MODE_ON,
                                   read_only_rootfs=False).session
        self.assertEqual(session.spec.network, self.t.NETWORK_MODE_OFF)
        self.assertTrue(session.spec.read_only_rootfs)
        got = {a.field: (a.effective, a.rule) for a in session.adjustments}
        self.assertEqual(got, {"spec.network": ("OFF", "profile.locked"),
                               "spec.read_only_rootfs": ("true", "profile.locked")})

    def test_an_idempotency_key_makes_once(self):
        first = self.create_call("", key="k1")
        again = self.create_call("", key="k1")
        self.addCleanup(self.client.delete, first.session.session_id)
        self.assertEqual(again.session.uid, first.session.uid)
        self.fails(StatusCode.INVALID_ARGUMENT, "IDEMPOTENCY_MISMATCH",
                   lambda: self.create_call("", key="k1", pids_limit=5))
        self.client.delete(first.session.session_id)
        self.fails(StatusCode.FAILED_PRECONDITION, "IDEMPOTENCY_DONE",
                   lambda: self.create_call("", key="k1"))
        self.invalid(lambda: self.create_call("", key="k" * 129), "idempotency_key")

    def test_the_limit_of_a_tenant_is_an_error_with_numbers(self):
        ids = [f"{self.sid}-{i}" for i in range(LIMIT + 1)]
        for sid in ids:
            self.addCleanup(self.client.delete, sid)
        live = len([s for s in self.list(page_size=1000).sessions
                    if s.state == self.t.SESSION_STATE_RUNNING])
        for sid in ids[:LIMIT - live]:
            self.create_call(sid)
        for call in (lambda: self.create_call(ids[LIMIT]), lambda: self.client.run(["true"])):
            failure = self.fails(StatusCode.RESOURCE_EXHAUSTED, "SESSION_LIMIT", call)
            self.assertEqual(failure.metadata, {"limit": "sessions_per_tenant", "max": str(LIMIT),
                                                "used": str(LIMIT)})
            self.assertGreater(failure.retry_ms, 0)
            self.assertEqual(len(failure.quotas), 1)
        self.client.delete(ids[0])
        self.create_call(ids[LIMIT])


class Workspace(Case):
    def host_folder(self, name):
        path = os.path.join(self.roots.path, name)
        os.mkdir(path)
        os.chown(path, OWNER, OWNER)
        return path

    def test_a_private_one_is_gone_with_the_sandbox(self):
        self.client.out("echo kept >file; mkdir dir", self.sid)
        self.assertEqual(self.client.out("cat file; ls -d dir", self.sid), "kept\ndir")
        self.stop()
        self.assertEqual(self.client.out("ls -A", self.sid), "")

    def test_a_host_directory_is_written_as_its_owner(self):
        path = self.host_folder("rw")
        spec = {"host_path": path}
        self.client.out("echo in >inside; id -u", self.sid, spec=spec)
        self.assertEqual(os.stat(os.path.join(path, "inside")).st_uid, OWNER)
        with open(os.path.join(path, "outside"), "w", encoding="ascii") as f:
            f.write("out")
        self.assertEqual(self.client.out("cat outside inside", self.sid), "outin")
        self.client.delete(self.sid)
        self.assertEqual(sorted(os.listdir(path)), ["inside", "outside"])  # host files stay

    def test_a_read_only_one(self):
        path = self.host_folder("ro")
        spec = {"host_path": path, "host_path_mode": self.t.MOUNT_MODE_READ_ONLY}
        answer = self.client.run("echo x >file", self.sid, spec=spec)
        self.assertEqual(answer.verdict.exit_code, 2, answer)
        self.assertIn(b"Read-only", answer.stderr_data)
        self.assertEqual(os.listdir(path), [])

    def test_mode_none_is_a_private_volume(self):
        path = self.host_folder("none")
        spec = {"host_path": path, "host_path_mode": self.t.MOUNT_MODE_NONE}
        self.client.out("echo x >file", self.sid, spec=spec)
        self.assertEqual(os.listdir(path), [])

    def test_what_no_root_allows_is_refused_by_rule(self):
        os.symlink("/etc", os.path.join(self.roots.path, "link"))
        for path in ("/etc", "/", "/usr", self.boxd.state_dir, "/proc/self",
                     os.path.join(self.roots.path, "link"),
                     os.path.dirname(self.roots.path)):
            failure = self.fails(StatusCode.PERMISSION_DENIED, "PERMISSION",
                                 lambda p=path: self.create_call(host_path=p))
            self.assertEqual(failure.metadata["rule"], "mount", failure)
        self.fails(StatusCode.NOT_FOUND, "FILE_NOT_FOUND", lambda: self.create_call(
            host_path=os.path.join(self.roots.path, "missing")))

    def test_a_host_directory_has_no_size_to_ask_for(self):
        path = self.host_folder("sized")
        failure = self.fails(StatusCode.FAILED_PRECONDITION, "GUARANTEE_UNSUPPORTED", lambda:
                             self.create_call(host_path=path, workspace_limit_bytes=4 * MIB))
        self.assertEqual(failure.metadata["guarantees"], "workspace_limit", failure)

    def test_its_size_is_a_hard_limit(self):
        self.create_call(workspace_limit_bytes=4 * MIB)
        answer = self.client.run("head -c 8M /dev/zero >big; stat -c %s big", self.sid)
        self.assertIn(b"No space", answer.stderr_data)
        self.assertEqual(int(answer.stdout_data), 4 * MIB)
        self.assertEqual(self.client.get(self.sid).usage.workspace_bytes, 4 * MIB)

    def test_another_mount_path(self):
        self.create_call(mount_path="/data/work")
        self.assertEqual(self.client.out("echo x >f; pwd; cat /data/work/f", self.sid),
                         "/data/work\nx")


class Read(Case):
    def test_get_tells_usage(self):
        self.client.out("sleep 100 >/dev/null 2>&1 & head -c 1M /dev/zero >file", self.sid)
        s = self.client.get(self.sid)
        u = s.usage
        self.assertGreater(u.memory_bytes, 0)
        self.assertGreaterEqual(u.workspace_bytes, MIB)
        self.assertGreaterEqual(u.process_count, 1)
        self.assertGreater(u.cpu_time.ToNanoseconds(), 0)
        self.assertEqual(u.oom_kills, 0)
        self.assertLess(abs(u.measured_at.ToNanoseconds() / 1e9 - time.time()), 60)
        self.assertEqual((s.total_execs, s.active_execs, s.queued_execs), (1, 0, 0))

    def test_get_needs_an_id_that_exists(self):
        self.invalid(lambda: self.client.get(""), "session_id")
        failure = self.fails(StatusCode.NOT_FOUND, "SESSION_NOT_FOUND",
                             lambda: self.client.get("none"))
        self.assertEqual(failure.metadata, {"kind": "session", "id": "none"})

    def test_getting_is_no_use(self):
        before = self.create_call().session
        time.sleep(0.2)
        after = self.client.get(self.sid)
        self.assertEqual(after.last_used_at, before.last_used_at)
        self.assertAlmostEqual(after.expires_at.ToNanoseconds() / 1e9,
                               before.expires_at.ToNanoseconds() / 1e9, delta=0.1)

    def test_lists_come_in_pages_in_order(self):
        ids = [f"{self.sid}-{i}" for i in (4, 1, 3, 0, 2)]
        for sid in ids:
            self.addCleanup(self.client.delete, sid)
            self.create_call(sid, labels={"test": "pages"})
        got, token = [], ""
        while True:
            page = self.list(page_size=2, page_token=token, labels={"test": "pages"})
            self.assertLessEqual(len(page.sessions), 2)
            got += [s.session_id for s in page.sessions]
            if not page.next_page_token:
                break
            token = page.next_page_token
        self.assertEqual(got, ids)
        self.invalid(lambda: self.list(page_token=token), "page_token")  # other filters
        self.invalid(lambda: self.list(page_token="x"), "page_token")
        self.invalid(lambda: self.list(page_size=-1), "page_size")
        self.assertLessEqual(set(ids), {s.session_id for s in self.list(page_size=5000).sessions})

    def test_lists_are_filtered(self):
        a, b = self.sid + "-a", self.sid + "-b"
        for sid, labels in ((a, {"test": "filter", "x": "1"}), (b, {"test": "filter", "x": "2"})):
            self.addCleanup(self.client.delete, sid)
            self.create_call(sid, labels=labels)
        self.client.sessions.StopSession(self.p.StopSessionRequest(session_id=b))
        names = lambda **f: [s.session_id for s in self.list(**f).sessions]  # noqa: E731
        mine = {"test": "filter"}
        self.assertEqual(names(labels=mine), [a, b])
        self.assertEqual(names(labels={**mine, "x": "2"}), [b])
        self.assertEqual(names(labels={**mine, "x": ""}), [a, b])
        self.assertEqual(names(labels={**mine, "y": ""}), [])
        self.assertEqual(names(labels=mine, states=[self.t.SESSION_STATE_STOPPED]), [b])
        self.assertEqual(names(labels=mine, states=[self.t.SESSION_STATE_STOPPED,
                                                    self.t.SESSION_STATE_RUNNING]), [a, b])
        self.assertEqual(names(labels=mine, backend="namespace"), [a, b])
        self.assertEqual(names(labels=mine, backend="docker"), [])
        self.assertFalse(self.list(labels=mine).sessions[0].HasField("usage"))

    def test_env_values_are_never_shown(self):
        s = self.create_call(env={"SECRET": "canary-value", "A": "1"}).session
        self.assertEqual(list(s.env_keys), ["A", "SECRET"])
        for text in (str(s), str(self.client.get(self.sid)), str(self.list(page_size=1000))):
            self.assertNotIn("canary-value", text)
        self.assertEqual(self.client.out("echo $SECRET $A", self.sid), "canary-value 1")
        self.assertEqual(self.client.out("echo $A", self.sid, env={"A": "2"}), "2")
        self.assertNotIn("canary-value", self.boxd.logs())


class Change(Case):
    def test_update_takes_what_the_mask_names(self):
        self.create_call(labels={"a": "1", "b": "2"})
        s = self.update(["labels", "idle_ttl"], labels={"c": "3"}, idle_ttl=duration(60),
                        max_parallel_execs=9)
        self.assertEqual((dict(s.spec.labels), s.spec.idle_ttl, s.spec.max_parallel_execs),
                         ({"c": "3"}, duration(60), 1))
        self.assertTrue(0 < self.left_of(s) <= 60)
        s = self.update(["labels", "idle_ttl"])  # named and unset: back to the default
        self.assertEqual((dict(s.spec.labels), s.spec.idle_ttl), ({}, duration(300)))

    def test_update_changes_limits_live(self):
        self.create_call(pids_limit=64)
        s = self.update(["memory_bytes", "pids_limit", "cpu_millis"], memory_bytes=64 * MIB,
                        pids_limit=8, cpu_millis=500)
        self.assertEqual((s.spec.memory_bytes, s.spec.pids_limit, s.spec.cpu_millis),
                         (64 * MIB, 8, 500))
        answer = self.client.run("for i in 1 2 3 4 5 6 7 8 9 10; do sleep 9 & done; echo done",
                                 self.sid)
        self.assertNotIn(b"done", answer.stdout_data)
        self.assertIn(b"fork", answer.stderr_data)

    def test_update_raises_parallel_commands(self):
        self.create_call()
        self.update(["max_parallel_execs"], max_parallel_execs=2)
        for _ in range(2):
            call = self.client.execs.Exec.future(
                self.client.exec_request(["sleep", "60"], self.sid))
            self.addCleanup(call.cancel)
        lib.wait_for(lambda: self.client.get(self.sid).active_execs == 2, "both run at once")

    def test_update_refuses_other_paths(self):
        self.create_call()
        for paths in ([], ["network"], ["nonsense"], ["labels", "image"], ["spec.labels"]):
            self.invalid(lambda p=paths: self.update(p), "update_mask")
        self.invalid(lambda: self.update(["pids_limit", "idle_ttl"], pids_limit=-1,
                                         idle_ttl=duration(0.5)),
                     "spec.pids_limit", "spec.idle_ttl")

    def test_extend_only_lengthens(self):
        self.create_call(max_lifetime=duration(1000))
        self.assertTrue(590 < self.left_of(self.extend(600)) <= 600)
        self.assertTrue(590 < self.left_of(self.extend(10)) <= 600)
        self.assertTrue(590 < self.left_of(self.extend()) <= 600)
        self.assertLessEqual(self.left_of(self.extend(5000)), 1000)
        for seconds in (0, -1):
            self.invalid(lambda s=seconds: self.extend(s), "duration")

    def test_stop_leaves_a_record(self):
        uid = self.create_call(labels={"a": "1"}).session.uid
        s = self.stop()
        self.assertEqual((s.state, s.stop_reason, s.uid, dict(s.spec.labels)),
                         (self.t.SESSION_STATE_STOPPED, self.t.STOP_REASON_REQUESTED, uid,
                          {"a": "1"}))
        self.assertTrue(s.HasField("stopped_at"))
        self.assertFalse(s.HasField("expires_at"))
        lib.wait_for(lambda: not self.boxd.processes(uid), "its processes go")
        self.assertEqual(self.stop().uid, uid)  # again
        self.assertEqual(self.client.get(self.sid).state, self.t.SESSION_STATE_STOPPED)
        for call in (lambda: self.update(["labels"]), lambda: self.extend(10)):
            failure = self.fails(StatusCode.FAILED_PRECONDITION, "SESSION_NOT_RUNNING", call)
            self.assertEqual(failure.metadata["stop_reason"], "requested")
        again = self.create_call()
        self.assertTrue(again.created)
        self.assertNotEqual(again.session.uid, uid)
        self.assertEqual(dict(again.session.spec.labels), {})

    def test_stop_ends_what_runs_with_a_verdict(self):
        self.create_call(max_parallel_execs=2)
        call = self.client.execs.Exec.future(
            self.client.exec_request("echo begin; touch begun; sleep 60", self.sid))
        self.client.out("while [ ! -e begun ]; do sleep 0.01; done", self.sid)
        self.stop()
        answer = call.result()
        self.assertEqual(answer.verdict.status, self.t.VERDICT_STATUS_KILLED)
        self.assertEqual(answer.stdout_data, b"begin\n")
        self.assertFalse(answer.verdict.HasField("exit_code"))
        self.assertTrue(answer.verdict.detail)

    def test_delete_forgets(self):
        uid = self.create_call().session.uid
        delete = self.p.DeleteSessionRequest(session_id=self.sid)
        answer = self.client.sessions.DeleteSession(delete)
        self.assertEqual((answer.session_id, answer.deleted), (self.sid, True))
        lib.wait_for(lambda: not self.boxd.processes(uid), "its processes go")
        self.fails(StatusCode.NOT_FOUND, "SESSION_NOT_FOUND", lambda: self.client.get(self.sid))
        self.fails(StatusCode.NOT_FOUND, "SESSION_NOT_FOUND",
                   lambda: self.client.sessions.DeleteSession(delete))
        delete.allow_missing = True
        self.assertFalse(self.client.sessions.DeleteSession(delete).deleted)

    def test_delete_cancels_what_waits(self):
        self.create_call()
        calls = [self.client.execs.Exec.future(
            self.client.exec_request(["sleep", "60"], self.sid)) for _ in range(2)]
        lib.wait_for(lambda: self.client.get(self.sid).queued_execs == 1, "one waits")
        self.client.delete(self.sid)
        outcomes = []
        for call in calls:
            try:
                outcomes.append(self.t.VerdictStatus.Name(call.result().verdict.status))
            except boxd_lib.grpc.RpcError as e:
                outcomes.append(boxd_lib.Failure(e).reason)
        self.assertEqual(sorted(outcomes), ["SESSION_NOT_RUNNING", "VERDICT_STATUS_KILLED"])


class Expiry(Case):
    def test_an_idle_session_ends(self):
        self.create_call(idle_ttl=duration(1))
        s = self.wait_state(self.t.SESSION_STATE_STOPPED, 5)
        self.assertEqual(s.stop_reason, self.t.STOP_REASON_IDLE)
        lived = s.stopped_at.ToNanoseconds() - s.created_at.ToNanoseconds()
        self.assertTrue(1e9 <= lived < 3.5e9, lived)

    def test_a_running_command_keeps_it(self):
        self.create_call(idle_ttl=duration(1))
        self.completes(self.client.run(["sleep", "3"], self.sid))
        self.assertEqual(self.client.get(self.sid).state, self.t.SESSION_STATE_RUNNING)

    def test_its_lifetime_ends_it_whatever_runs(self):
        self.create_call(max_lifetime=duration(2))
        answer = self.client.run(["sleep", "60"], self.sid)
        self.assertEqual(answer.verdict.status, self.t.VERDICT_STATUS_KILLED)
        s = self.wait_state(self.t.SESSION_STATE_STOPPED, 5)
        self.assertEqual(s.stop_reason, self.t.STOP_REASON_LIFETIME)

    def test_a_timeout_can_end_the_session(self):
        self.create_call(destroy_on_timeout=True)
        answer = self.client.run(["sleep", "60"], self.sid, timeout=0.3)
        self.assertEqual(answer.verdict.status, self.t.VERDICT_STATUS_TIMED_OUT)
        self.assertTrue(answer.verdict.session_destroyed)
        s = self.wait_state(self.t.SESSION_STATE_STOPPED)
        self.assertEqual(s.stop_reason, self.t.STOP_REASON_EXEC_TIMEOUT)


class Watch(Case):
    def watch(self, **kwargs):
        stream = self.client.sessions.WatchSessions(
            self.p.WatchSessionsRequest(**kwargs), timeout=lib.WAIT_SECONDS)
        self.addCleanup(stream.cancel)
        return stream

    def until(self, stream, kind, session_id=None):
        """Events up to the one of this kind, as (kind, id, state)."""
        got = []
        for e in stream:
            got.append((e.type, e.session.session_id, e.session.state))
            self.assertTrue(e.HasField("occurred_at"))
            if e.type == kind and session_id in (None, e.session.session_id):
                return got
        raise AssertionError(f"the stream ended after {got}")

    def test_it_tells_the_whole_life(self):
        p, t = self.p, self.t
        stream = self.watch(include_existing=True)
        self.until(stream, p.SESSION_EVENT_TYPE_SYNCED)
        self.create_call()
        got = self.until(stream, p.SESSION_EVENT_TYPE_CREATED, self.sid)
        while got[-1][1:] != (self.sid, t.SESSION_STATE_RUNNING):
            got += self.until(stream, p.SESSION_EVENT_TYPE_STATE_CHANGED, self.sid)
        self.update(["labels"], labels={"a": "1"})
        self.until(stream, p.SESSION_EVENT_TYPE_UPDATED, self.sid)
        self.stop()
        got = []
        while not got or got[-1][2] != t.SESSION_STATE_STOPPED:
            got += self.until(stream, p.SESSION_EVENT_TYPE_STATE_CHANGED, self.sid)
        self.client.delete(self.sid)
        self.until(stream, p.SESSION_EVENT_TYPE_DELETED, self.sid)

    def test_existing_ones_come_first(self):
        self.create_call(labels={"test": "watch"})
        stream = self.watch(include_existing=True, labels={"test": "watch"})
        got = self.until(stream, self.p.SESSION_EVENT_TYPE_SYNCED)
        self.assertEqual(got, [(self.p.SESSION_EVENT_TYPE_EXISTING, self.sid,
                                self.t.SESSION_STATE_RUNNING),
                               (self.p.SESSION_EVENT_TYPE_SYNCED, "", 0)])

    def test_one_session_only(self):
        self.create_call()
        stream = self.watch(session_id=self.sid, include_existing=True)
        self.until(stream, self.p.SESSION_EVENT_TYPE_SYNCED)
        other = self.sid + "-other"
        self.addCleanup(self.client.delete, other)
        self.create_call(other)
        self.stop()
        got = self.until(stream, self.p.SESSION_EVENT_TYPE_STATE_CHANGED, self.sid)
        self.assertEqual({sid for _, sid, _ in got}, {self.sid})

    def test_a_session_that_is_not_there(self):
        self.fails(StatusCode.NOT_FOUND, "SESSION_NOT_FOUND",
                   lambda: self.watch(session_id="none"))


class NotBuilt(Case):
    def test_methods_say_so(self):
        p = self.p
        for call in (lambda: self.client.sessions.AddMount(p.AddMountRequest()),
                     lambda: self.client.sessions.RemoveMount(p.RemoveMountRequest())):
            self.fails(StatusCode.UNIMPLEMENTED, "UNIMPLEMENTED", call)


if __name__ == "__main__":
    boxd_lib.main()
