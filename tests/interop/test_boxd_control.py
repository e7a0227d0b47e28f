"""ControlService, AdminService, identity, health and reflection of the real server."""

import concurrent.futures
import importlib
import time

import grpc
from google.protobuf import field_mask_pb2

import boxd_lib
import lib
from boxd_lib import BoxdCase, duration
from grpc import StatusCode

ALL_SCOPES = ["admin.read", "admin.write", "exec.write", "file.read", "file.write", "image.read",
              "image.write", "process.read", "process.write", "session.read", "session.write",
              "skill.read", "skill.write", "tenants.act", "tool.call"]
GUARANTEES = {"filesystem", "process", "network_off", "network_on", "user", "seccomp", "memory",
              "pids", "cpu", "workspace_limit", "read_only_root", "writable_root", "host_mount",
              "images", "persistent", "command_cgroup", "agent_separated", "live_limits",
              "disk_workspace", "process_limits"}


def setUpModule():
    BoxdCase.start_server()


def tearDownModule():
    BoxdCase.stop_server()


class Case(BoxdCase):
    def tenant(self, name, **fields):
        """A tenant that goes with the test."""
        admin, pb = self.client.admin, self.pb.admin
        tenant = admin.CreateTenant(pb.CreateTenantRequest(
            tenant=pb.Tenant(tenant_id=name, **fields))).tenant
        self.addCleanup(admin.DeleteTenant,
                        pb.DeleteTenantRequest(tenant_id=name, allow_missing=True))
        return tenant

    def token(self, *scopes, tenant="", ttl=None, name=""):
        """CreateTokenResponse; revoked with the test."""
        admin, pb = self.client.admin, self.pb.admin
        answer = admin.CreateToken(pb.CreateTokenRequest(
            tenant_id=tenant, name=name, scopes=scopes, ttl=duration(ttl) if ttl else None))
        self.addCleanup(lambda: self.revoke(answer.token.token_id))
        return answer

    def revoke(self, token_id):
        try:
            return self.client.admin.RevokeToken(
                self.pb.admin.RevokeTokenRequest(token_id=token_id)).token
        except grpc.RpcError as e:
            self.assertEqual(e.code(), StatusCode.NOT_FOUND)  # gone with its tenant
            return None

    def whoami(self, client, **kwargs):
        return client.control.WhoAmI(self.pb.control.WhoAmIRequest(), **kwargs)


class Control(Case):
    def test_health_names_the_backend(self):
        answer = self.client.control.Health(self.pb.control.HealthRequest())
        self.assertEqual((answer.name, answer.available, answer.detail,
                          answer.unsafe_direct_execution), ("namespace", True, "", False))

    def test_whoami_of_the_first_token(self):
        answer = self.whoami(self.client)
        self.assertEqual(answer.tenant_id, "default")
        self.assertEqual(list(answer.scopes), ALL_SCOPES)
        self.assertEqual(answer.auth_method, self.pb.control.AUTH_METHOD_TOKEN)
        self.assertTrue(answer.token_id)
        self.assertTrue(self.boxd.token.startswith(answer.token_prefix))
        self.assertLess(len(answer.token_prefix), 16)
        self.assertFalse(answer.HasField("expires_at"))
        self.assertEqual(answer.acting_from_tenant_id, "")

    def test_status_counts_sessions_and_shows_profiles(self):
        self.client.create(self.sid)
        answer = self.client.control.GetStatus(self.pb.control.GetStatusRequest())
        self.assertRegex(answer.version, r"^\d+\.\d+\.\d+$")
        self.assertTrue(0 <= time.time() - answer.started_at.ToNanoseconds() / 1e9 < 600)
        self.assertEqual((answer.enabled, answer.backend, answer.available, answer.backend_error),
                         (True, "namespace", True, ""))
        self.assertGreaterEqual(answer.active_sessions, 1)
        counts = {c.state: c.count for c in answer.sessions_by_state}
        self.assertGreaterEqual(counts[self.pb.types.SESSION_STATE_RUNNING], 1)
        self.assertEqual(answer.session_ttl, duration(300))
        self.assertEqual(answer.profile, "default")
        self.assertEqual(answer.limits.max_sessions, 256)
        self.assertEqual(list(answer.warnings), [])
        server = answer.server
        self.assertGreaterEqual(server.active_sessions, 1)
        self.assertGreaterEqual(server.tenants, 1)
        self.assertGreaterEqual(server.loop_threads, 1)
        self.assertGreater(server.resident_bytes, boxd_lib.MIB)
        self.assertGreater(server.certificate_expires_at.seconds, time.time())
        self.assertEqual(server.limits.max_sessions, 10000)
        self.assertEqual(server.warm_pool_size, 0)

    def test_status_shows_connections_and_calls(self):
        server = self.client.control.GetStatus(self.pb.control.GetStatusRequest()).server
        self.assertGreaterEqual(server.connections, 1)
        self.assertGreaterEqual(server.active_calls, 1)

    def test_profiles_have_the_documented_values(self):
        t = self.pb.types
        answer = self.client.control.GetStatus(self.pb.control.GetStatusRequest())
        got = {p.name: (p.network, p.host_path_mode, p.command_timeout.seconds,
                        p.max_timeout.seconds, p.cpu_millis, p.memory_bytes // boxd_lib.MIB,
                        p.pids_limit, p.read_only_rootfs, sorted(p.locked_fields))
               for p in answer.profiles}
        off, on = t.NETWORK_MODE_OFF, t.NETWORK_MODE_ON
        rw, ro = t.MOUNT_MODE_READ_WRITE, t.MOUNT_MODE_READ_ONLY
        self.assertEqual(got, {
            "default": (off, rw, 30, 120, 1000, 512, 128, True, []),
            "offline_readonly": (off, ro, 30, 60, 500, 256, 64, True,
                                 ["host_path_mode", "network", "read_only_rootfs"]),
            "network_basic": (on, rw, 30, 120, 1000, 512, 128, True, []),
            "network_extended": (on, rw, 30, 300, 2000, 1024, 256, False, []),
        })

    def test_backend_reports_name_every_guarantee(self):
        pb = self.pb.control
        listed = self.client.control.ListBackends(pb.ListBackendsRequest()).backends
        self.assertEqual([b.name for b in listed], ["namespace"])
        for request in (pb.GetBackendInfoRequest(), pb.GetBackendInfoRequest(backend="namespace")):
            b = self.client.control.GetBackendInfo(request).backend
            self.assertEqual((b.name, b.available, b.selected, b.error),
                             ("namespace", True, True, ""))
            self.assertEqual(b.isolation, self.pb.types.ISOLATION_LEVEL_PROCESS)
            self.assertIn("kernel", b.detail)
            holds = {g.name: g.holds for g in b.guarantees}
            self.assertEqual(set(holds), GUARANTEES)
            for name in ("filesystem", "process", "network_off", "user", "seccomp", "persistent"):
                self.assertTrue(holds[name], name)
            for name in ("network_on", "images"):
                self.assertFalse(holds[name], name)

    def test_a_backend_that_is_not_configured_is_named(self):
        self.invalid(lambda: self.client.control.GetBackendInfo(
            self.pb.control.GetBackendInfoRequest(backend="docker")), "backend")

    def test_initialize_says_what_is_in_force(self):
        answer = self.client.control.Initialize(self.pb.control.InitializeRequest())
        self.assertTrue(answer.initialized)
        self.assertEqual(answer.backend, "namespace")
        self.assertEqual((answer.config.enabled, answer.config.backend,
                          answer.config.default_profile), (True, "auto", "default"))
        self.assertTrue(self.client.control.GetStatus(
            self.pb.control.GetStatusRequest()).initialized)

    def test_initialize_switches_sandboxes_off_and_on(self):
        pb = self.pb.control
        switch = lambda on: self.client.control.Initialize(  # noqa: E731
            pb.InitializeRequest(config=pb.BoxConfig(enabled=on)))
        self.addCleanup(switch, True)
        self.assertFalse(switch(False).config.enabled)
        self.fails(StatusCode.FAILED_PRECONDITION, "BOX_DISABLED",
                   lambda: self.client.run(["true"]))
        self.fails(StatusCode.FAILED_PRECONDITION, "BOX_DISABLED",
                   lambda: self.client.create(self.sid))
        switch(True)
        self.client.out(["true"])

    def test_initialize_takes_all_or_nothing(self):
        pb = self.pb.control
        bad = pb.BoxConfig(enabled=False, default_profile="nope", default_memory_bytes=-1)
        self.invalid(lambda: self.client.control.Initialize(pb.InitializeRequest(config=bad)),
                     "config.default_profile", "config.default_memory_bytes")
        failure = self.fails(StatusCode.FAILED_PRECONDITION, "GUARANTEE_UNSUPPORTED",
                             lambda: self.client.control.Initialize(pb.InitializeRequest(
                                 config=pb.BoxConfig(enabled=False, skills_root="/x"))))
        self.assertIn("skills_root", failure.metadata["guarantees"])
        self.assertTrue(self.client.control.GetStatus(pb.GetStatusRequest()).enabled)

    def test_initialize_sets_the_default_profile(self):
        pb = self.pb.control
        use = lambda name: self.client.control.Initialize(  # noqa: E731
            pb.InitializeRequest(config=pb.BoxConfig(default_profile=name)))
        self.addCleanup(use, "default")
        self.assertEqual(use("offline_readonly").config.default_profile, "offline_readonly")
        session = self.client.create(self.sid)
        self.assertEqual((session.spec.profile, session.spec.pids_limit), ("offline_readonly", 64))

    def test_what_is_not_built_says_so(self):
        pb = self.pb.control
        for call in (lambda: self.client.control.CheckPolicy(pb.CheckPolicyRequest()),
                     lambda: self.client.admin.GetUsage(self.pb.admin.GetUsageRequest()),
                     lambda: self.client.admin.ExportAudit(self.pb.admin.ExportAuditRequest())):
            self.fails(StatusCode.UNIMPLEMENTED, "UNIMPLEMENTED", call)


class Identity(Case):
    def test_no_token_and_a_wrong_one(self):
        wrong = "box_" + "A" * (len(self.boxd.token) - 4)
        for token in ("", wrong, "nonsense", self.boxd.token[:-1], self.boxd.token + "x"):
            client = self.boxd.client(token)
            failure = self.fails(StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED",
                                 lambda c=client: self.whoami(c))
            self.assertNotIn(self.boxd.token, failure.text)
            self.fails(StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED",
                       lambda c=client: c.run(["true"]))
            client.close()

    def test_another_scheme_and_two_tokens(self):
        client = self.boxd.client("")
        for metadata in ([("authorization", f"Basic {self.boxd.token}")],
                         [("authorization", self.boxd.token)],
                         [("authorization", f"Bearer {self.boxd.token}")] * 2):
            self.fails(StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED",
                       lambda m=metadata: self.whoami(client, metadata=m))
        good = [("authorization", f"Bearer {self.boxd.token}")]
        self.assertEqual(self.whoami(client, metadata=good).tenant_id, "default")

    def test_scopes_are_refused_by_name(self):
        answer = self.token("session.read", name="reader")
        client = self.boxd.client(answer.secret)
        self.assertEqual(list(self.whoami(client).scopes), ["session.read"])
        client.sessions.ListSessions(self.pb.session.ListSessionsRequest())
        for scope, call in (("exec.write", lambda: client.run(["true"])),
                            ("session.write", lambda: client.create(self.sid)),
                            ("admin.read", lambda: client.admin.ListTenants(
                                self.pb.admin.ListTenantsRequest())),
                            ("admin.write", lambda: client.control.Shutdown(
                                self.pb.control.ShutdownRequest()))):
            failure = self.fails(StatusCode.PERMISSION_DENIED, "PERMISSION", call)
            self.assertEqual(failure.metadata["rule"], "scope")
            self.assertIn(scope, failure.text)
        status = client.control.GetStatus(self.pb.control.GetStatusRequest())
        self.assertFalse(status.HasField("server"))

    def test_scope_is_checked_before_the_body(self):
        client = self.boxd.client(self.token("session.read").secret)
        bad = self.pb.exec.ExecRequest()  # VALIDATION for whoever may call
        self.fails(StatusCode.PERMISSION_DENIED, "PERMISSION", lambda: client.execs.Exec(bad))

    def test_an_expired_token_is_unknown(self):
        answer = self.token("session.read", ttl=1)
        client = self.boxd.client(answer.secret)
        left = answer.token.expires_at.ToNanoseconds() / 1e9 - time.time()
        self.assertTrue(0 < left <= 1, left)
        self.assertEqual(self.whoami(client).token_id, answer.token.token_id)

        def is_refused():
            try:
                return self.whoami(client) is None
            except grpc.RpcError as e:
                return e.code() == StatusCode.UNAUTHENTICATED
        lib.wait_for(is_refused, "the token expires", 3)

    def test_a_revoked_token_ends_its_streams_at_once(self):
        answer = self.token("session.read", "exec.write", "session.write")
        client = self.boxd.client(answer.secret)
        client.create(self.sid)
        watch = client.sessions.WatchSessions(
            self.pb.session.WatchSessionsRequest(include_existing=True))
        next(watch)
        running = client.execs.Exec.future(client.exec_request(["sleep", "60"], self.sid))
        lib.wait_for(lambda: self.client.get(self.sid).active_execs == 1, "the command runs")
        begin = time.monotonic()
        self.assertTrue(self.revoke(answer.token.token_id).HasField("revoked_at"))
        self.fails(StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED", lambda: watch)
        self.fails(StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED", running.result)
        self.assertLess(time.monotonic() - begin, boxd_lib.ENDS_SECONDS)
        self.fails(StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED", lambda: self.whoami(client))
        lib.wait_for(lambda: self.client.get(self.sid).active_execs == 0, "its command is killed")
        self.revoke(answer.token.token_id)  # again: no error

    def test_other_tenants_sessions_do_not_exist(self):
        self.tenant("other")
        stranger = self.boxd.client(self.token("session.read", "session.write", "exec.write",
                                               tenant="other").secret)
        self.client.create(self.sid)
        p = self.pb.session

        def calls(sid):
            return (lambda: stranger.get(sid),
                    lambda: stranger.sessions.StopSession(p.StopSessionRequest(session_id=sid)),
                    lambda: stranger.sessions.DeleteSession(p.DeleteSessionRequest(session_id=sid)),
                    lambda: stranger.sessions.ExtendSession(p.ExtendSessionRequest(session_id=sid)),
                    lambda: stranger.sessions.UpdateSession(p.UpdateSessionRequest(
                        session_id=sid, update_mask={"paths": ["labels"]})),
                    lambda: stranger.sessions.WatchSessions(p.WatchSessionsRequest(session_id=sid)))
        missing = self.sid + "-none"
        for theirs, none in zip(calls(self.sid), calls(missing)):
            a = self.fails(StatusCode.NOT_FOUND, "SESSION_NOT_FOUND", theirs)
            b = self.fails(StatusCode.NOT_FOUND, "SESSION_NOT_FOUND", none)
            self.assertEqual(str(a), str(b).replace(missing, self.sid))
            self.assertEqual(a.metadata, {"kind": "session", "id": self.sid})
        self.assertEqual(len(stranger.sessions.ListSessions(p.ListSessionsRequest()).sessions), 0)
        # The same id is theirs to take: another session.
        other = stranger.create(self.sid)
        self.addCleanup(stranger.delete, self.sid)
        self.assertNotEqual(other.uid, self.client.get(self.sid).uid)

    def test_box_tenant_needs_tenants_act(self):
        self.tenant("acted")
        acting = self.boxd.client(tenant="acted")
        answer = self.whoami(acting)
        self.assertEqual((answer.tenant_id, answer.acting_from_tenant_id), ("acted", "default"))
        acting.create(self.sid)
        self.addCleanup(acting.delete, self.sid)
        self.fails(StatusCode.NOT_FOUND, "SESSION_NOT_FOUND", lambda: self.client.get(self.sid))
        stream = acting.sessions.WatchSessions(
            self.pb.session.WatchSessionsRequest(session_id=self.sid, include_existing=True))
        self.assertEqual(next(stream).session.session_id, self.sid)
        stream.cancel()
        plain = self.token("session.read").secret
        for name in ("acted", "no-such-tenant"):
            failure = self.fails(StatusCode.NOT_FOUND, "TENANT_NOT_FOUND", lambda n=name:
                                 self.whoami(self.boxd.client(plain, tenant=n)))
            self.assertEqual(failure.metadata["id"], name)
        self.fails(StatusCode.NOT_FOUND, "TENANT_NOT_FOUND",
                   lambda: self.whoami(self.boxd.client(tenant="no-such-tenant")))

    def test_a_disabled_tenant_is_refused_and_its_sessions_stop(self):
        self.tenant("sleepy")
        client = self.boxd.client(self.token("session.read", "session.write", "exec.write",
                                             tenant="sleepy").secret)
        client.create(self.sid)
        update = lambda off: self.client.admin.UpdateTenant(  # noqa: E731
            self.pb.admin.UpdateTenantRequest(
                tenant=self.pb.admin.Tenant(tenant_id="sleepy", disabled=off),
                update_mask=field_mask_pb2.FieldMask(paths=["disabled"])))
        self.assertTrue(update(True).tenant.disabled)
        failure = self.fails(StatusCode.PERMISSION_DENIED, "PERMISSION",
                             lambda: self.whoami(client))
        self.assertEqual(failure.metadata["rule"], "tenant.disabled")
        update(False)
        stopped = lib.wait_for(
            lambda: [s for s in [client.get(self.sid)]
                     if s.state == self.pb.types.SESSION_STATE_STOPPED], "its session stops")[0]
        self.assertEqual(stopped.stop_reason, self.pb.types.STOP_REASON_REVOKED)


class Admin(Case):
    def test_tenants_are_made_changed_listed_and_deleted(self):
        pb, admin = self.pb.admin, self.client.admin
        made = self.tenant("acme", display_name="Acme", labels={"plan": "gold"})
        self.assertEqual((made.tenant_id, made.display_name, dict(made.labels), made.disabled),
                         ("acme", "Acme", {"plan": "gold"}, False))
        self.assertLess(abs(made.created_at.ToNanoseconds() / 1e9 - time.time()), 60)
        self.assertEqual(admin.GetTenant(pb.GetTenantRequest(tenant_id="acme")).tenant, made)
        changed = admin.UpdateTenant(pb.UpdateTenantRequest(
            tenant=pb.Tenant(tenant_id="acme", display_name="Acme 2", labels={"plan": "iron"}),
            update_mask={"paths": ["labels"]})).tenant
        self.assertEqual((changed.display_name, dict(changed.labels)), ("Acme", {"plan": "iron"}))
        self.assertGreaterEqual(changed.updated_at.ToNanoseconds(),
                                made.updated_at.ToNanoseconds())
        listed = admin.ListTenants(pb.ListTenantsRequest(labels={"plan": "iron"})).tenants
        self.assertEqual([t.tenant_id for t in listed], ["acme"])
        delete = pb.DeleteTenantRequest(tenant_id="acme")
        self.assertTrue(admin.DeleteTenant(delete).deleted)
        failure = self.fails(StatusCode.NOT_FOUND, "TENANT_NOT_FOUND",
                             lambda: admin.DeleteTenant(delete))
        self.assertEqual(failure.metadata, {"kind": "tenant", "id": "acme"})
        delete.allow_missing = True
        self.assertFalse(admin.DeleteTenant(delete).deleted)

    def test_tenants_come_in_pages(self):
        pb, admin = self.pb.admin, self.client.admin
        names = [f"page-{i}" for i in range(5)]
        for name in names:
            self.tenant(name, labels={"pages": "yes"})
        got, token = [], ""
        while True:
            page = admin.ListTenants(pb.ListTenantsRequest(page_size=2, page_token=token,
                                                           labels={"pages": ""}))
            self.assertLessEqual(len(page.tenants), 2)
            got += [t.tenant_id for t in page.tenants]
            token = page.next_page_token
            if not token:
                break
            stale = token
        self.assertEqual(got, names)
        self.invalid(lambda: admin.ListTenants(pb.ListTenantsRequest(page_token=stale)),
                     "page_token")
        self.invalid(lambda: admin.ListTenants(pb.ListTenantsRequest(page_size=-1)), "page_size")

    def test_all_mistakes_of_a_tenant_are_named_at_once(self):
        pb, admin = self.pb.admin, self.client.admin
        bad = pb.Tenant(tenant_id="../x", display_name="n" * 257, labels={"": "v"})
        bad.created_at.seconds = 1
        self.invalid(lambda: admin.CreateTenant(pb.CreateTenantRequest(tenant=bad)),
                     "tenant.tenant_id", "tenant.display_name", "tenant.labels",
                     "tenant.created_at")
        self.tenant("twice")
        self.fails(StatusCode.ALREADY_EXISTS, "TENANT_EXISTS", lambda: admin.CreateTenant(
            pb.CreateTenantRequest(tenant=pb.Tenant(tenant_id="twice"))))
        self.invalid(lambda: admin.DeleteTenant(pb.DeleteTenantRequest(tenant_id="default")),
                     "tenant_id")
        for mask in ([], ["tenant_id"], ["nonsense"]):
            self.invalid(lambda m=mask: admin.UpdateTenant(pb.UpdateTenantRequest(
                tenant=pb.Tenant(tenant_id="twice"), update_mask={"paths": m})), "update_mask")

    def test_deleting_a_tenant_ends_its_tokens_and_sessions(self):
        self.tenant("gone")
        client = self.boxd.client(self.token("session.write", "exec.write", "session.read",
                                             tenant="gone").secret)
        uid = client.create(self.sid).uid
        self.assertTrue(self.boxd.processes(uid))
        self.client.admin.DeleteTenant(self.pb.admin.DeleteTenantRequest(tenant_id="gone"))
        self.fails(StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED", lambda: self.whoami(client))
        lib.wait_for(lambda: not self.boxd.processes(uid), "its sandbox goes")

    def test_tokens_show_their_secret_once(self):
        pb, admin = self.pb.admin, self.client.admin
        answer = self.token("session.read", "exec.write", name="ci")
        self.assertRegex(answer.secret, r"^box_[A-Za-z0-9_-]{43,}$")
        self.assertTrue(answer.secret.startswith(answer.token.prefix))
        self.assertEqual((answer.token.name, list(answer.token.scopes), answer.token.tenant_id),
                         ("ci", ["exec.write", "session.read"], "default"))
        self.assertEqual(self.whoami(self.boxd.client(answer.secret)).token_name, "ci")
        listed = admin.ListTokens(pb.ListTokensRequest())
        mine = [t for t in listed.tokens if t.token_id == answer.token.token_id][0]
        self.assertTrue(mine.HasField("last_used_at"))
        self.assertNotIn(answer.secret, str(listed))
        self.revoke(answer.token.token_id)
        ids = lambda all_: [t.token_id for t in admin.ListTokens(  # noqa: E731
            pb.ListTokensRequest(include_ended=all_)).tokens]
        self.assertNotIn(answer.token.token_id, ids(False))
        self.assertIn(answer.token.token_id, ids(True))

    def test_mistakes_of_tokens(self):
        pb, admin = self.pb.admin, self.client.admin
        self.invalid(lambda: self.token(), "scopes")
        self.invalid(lambda: self.token("session.read", "session.fly"), "scopes")
        self.invalid(lambda: admin.CreateToken(pb.CreateTokenRequest(
            scopes=["session.read"], ttl=duration(0), name="n" * 129)), "ttl", "name")
        self.fails(StatusCode.NOT_FOUND, "TENANT_NOT_FOUND",
                   lambda: self.token("session.read", tenant="nobody"))
        self.fails(StatusCode.NOT_FOUND, "TOKEN_NOT_FOUND",
                   lambda: admin.RevokeToken(pb.RevokeTokenRequest(token_id="12345678")))

    def test_no_token_gives_what_it_has_not(self):
        weak = self.boxd.client(self.token("admin.write", "admin.read", "session.read").secret)
        pb = self.pb.admin
        self.fails(StatusCode.PERMISSION_DENIED, "PERMISSION", lambda: weak.admin.CreateToken(
            pb.CreateTokenRequest(scopes=["exec.write"])))
        self.fails(StatusCode.PERMISSION_DENIED, "PERMISSION", lambda: weak.admin.CreateTenant(
            pb.CreateTenantRequest(tenant=pb.Tenant(tenant_id="weak"))))
        self.tenant("hidden")
        self.fails(StatusCode.NOT_FOUND, "TENANT_NOT_FOUND", lambda: weak.admin.GetTenant(
            pb.GetTenantRequest(tenant_id="hidden")))
        listed = weak.admin.ListTenants(pb.ListTenantsRequest()).tenants
        self.assertEqual([t.tenant_id for t in listed], ["default"])
        made = weak.admin.CreateToken(pb.CreateTokenRequest(scopes=["session.read"]))
        self.revoke(made.token.token_id)


class Protocol(Case):
    """Health, reflection, and what every gRPC server answers."""

    def channel(self, token):
        credentials = grpc.ssl_channel_credentials(self.boxd.ca)
        if token:
            credentials = grpc.composite_channel_credentials(
                credentials, grpc.access_token_call_credentials(token))
        channel = grpc.secure_channel(f"localhost:{self.boxd.port}", credentials,
                                      options=boxd_lib.UNLIMITED)
        self.addCleanup(channel.close)
        return channel

    def test_health_needs_no_token(self):
        check = self.channel("").unary_unary("/grpc.health.v1.Health/Check")
        for name in (b"", b"box.v1.ExecService", b"box.v1.AdminService"):
            request = b"\x0a" + bytes([len(name)]) + name if name else b""
            self.assertEqual(lib.wire_fields(check(request)), {1: [1]}, name)
        with self.assertRaises(grpc.RpcError) as caught:
            check(b"\x0a\x04none")
        self.assertEqual(caught.exception.code(), StatusCode.NOT_FOUND)

    def test_reflection_needs_a_token_and_lists_all_services(self):
        for version in ("v1", "v1alpha"):
            path = f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo"
            request = b"\x3a\x00"  # list_services = ""
            with self.assertRaises(grpc.RpcError) as caught:
                list(self.channel("").stream_stream(path)(iter([request])))
            self.assertEqual(caught.exception.code(), StatusCode.UNAUTHENTICATED)
            answers = list(self.channel(self.boxd.token).stream_stream(path)(iter([request])))
            listed = lib.wire_fields(lib.wire_fields(answers[0])[6][0])[1]
            names = {lib.wire_fields(s)[1][0].decode() for s in listed}
            self.assertLessEqual({"box.v1.ControlService", "box.v1.SessionService",
                                  "box.v1.ExecService", "box.v1.AdminService",
                                  "grpc.health.v1.Health"}, names)

    BUILT = {
        "ControlService": {"Initialize", "Health", "GetStatus", "GetBackendInfo", "ListBackends",
                           "WhoAmI", "Shutdown", "ListErrors", "GetGuidance"},
        "SessionService": {"CreateSession", "GetSession", "ListSessions", "UpdateSession",
                           "ExtendSession", "StopSession", "DeleteSession", "WatchSessions",
                           "ResolveSessionId", "PortForward"},
        "ToolService": {"ListTools", "CallTool"},
        "FileService": {"ReadFile", "WriteFile", "EditFile", "Glob", "Grep", "StatFile",
                        "ListDirectory", "MakeDirectory", "RemoveFile", "MoveFile", "UploadFile",
                        "DownloadFile"},
        "ProcessService": {"StartManagedProcess", "GetManagedProcess", "ListManagedProcesses",
                           "StopManagedProcess", "SignalManagedProcess", "WaitManagedProcess",
                           "AttachManagedProcess"},
        "ExecService": {"Exec", "ExecStream"},
        "AdminService": {"CreateTenant", "GetTenant", "ListTenants", "UpdateTenant",
                         "DeleteTenant", "CreateToken", "ListTokens", "RevokeToken"},
    }

    def test_every_declared_method_that_is_not_built_says_so(self):
        channel = self.channel(self.boxd.token)
        for module in ("admin", "control", "exec", "file", "image", "process", "session", "skill",
                       "tool"):
            descriptor = importlib.import_module(f"box.v1.{module}_pb2").DESCRIPTOR
            for service in descriptor.services_by_name.values():
                for method in service.methods:
                    if method.name in self.BUILT.get(service.name, ()):
                        continue
                    path = f"/{service.full_name}/{method.name}"
                    with self.assertRaises(grpc.RpcError) as caught:
                        list(channel.stream_stream(path)(iter([b""]), timeout=20))
                    self.assertEqual(caught.exception.code(), StatusCode.UNIMPLEMENTED, path)

    def test_an_unknown_method_and_service(self):
        channel = self.channel(self.boxd.token)
        for path in ("/box.v1.ExecService/Nothing", "/box.v1.Nothing/Exec", "/x/y"):
            with self.assertRaises(grpc.RpcError) as caught:
                channel.unary_unary(path)(b"")
            self.assertEqual(caught.exception.code(), StatusCode.UNIMPLEMENTED, path)

    def test_bytes_that_are_no_message_are_refused(self):
        channel = self.channel(self.boxd.token)
        for body in (b"\xff\xff\xff", b"\x0a\x02\xff\xfe", b"\x0a\x02a\x00"):
            with self.assertRaises(grpc.RpcError) as caught:
                channel.unary_unary("/box.v1.SessionService/GetSession")(body)
            self.assertIn(caught.exception.code(),
                          (StatusCode.INVALID_ARGUMENT, StatusCode.INTERNAL), body)

    def test_a_message_over_the_limit(self):
        request = self.client.exec_request(["true"], stdin=b"x" * (17 * boxd_lib.MIB))
        self.fails(StatusCode.RESOURCE_EXHAUSTED, "MESSAGE_SIZE",
                   lambda: self.client.execs.Exec(request))

    def test_unknown_metadata_is_no_trouble(self):
        metadata = [("x-text", "a b"), ("x-bin", bytes(range(256))), ("x-text", "twice")]
        answer, call = self.client.control.WhoAmI.with_call(
            self.pb.control.WhoAmIRequest(), metadata=metadata)
        self.assertEqual(answer.tenant_id, "default")
        self.assertEqual(call.code(), StatusCode.OK)

    def test_100_calls_on_20_connections(self):
        clients = [self.boxd.client() for _ in range(20)]
        self.addCleanup(lambda: [c.close() for c in clients])
        with concurrent.futures.ThreadPoolExecutor(100) as pool:
            calls = [pool.submit(self.whoami, clients[i % 20]) for i in range(100)]
            self.assertEqual({c.result().tenant_id for c in calls}, {"default"})

    def test_the_unix_socket_knows_root(self):
        with grpc.insecure_channel(f"unix:{self.boxd.unix_socket}") as channel:
            stub = self.pb.control_rpc.ControlServiceStub(channel)
            answer = stub.WhoAmI(self.pb.control.WhoAmIRequest())
            self.assertEqual((answer.tenant_id, answer.auth_method, list(answer.scopes)),
                             ("default", self.pb.control.AUTH_METHOD_PEER, ALL_SCOPES))
            weak = [("authorization", f"Bearer {self.token('session.read').secret}")]
            answer = stub.WhoAmI(self.pb.control.WhoAmIRequest(), metadata=weak)
            self.assertEqual(list(answer.scopes), ["session.read"])  # a token decides


if __name__ == "__main__":
    boxd_lib.main()
