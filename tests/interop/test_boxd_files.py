"""FileService of the real server: every method, as a stock client sees it."""

import hashlib

import boxd_lib
from boxd_lib import BoxdCase
from grpc import StatusCode

CONFLICT = StatusCode.ABORTED


def setUpModule():
    BoxdCase.start_server()


def tearDownModule():
    BoxdCase.stop_server()


class Case(BoxdCase):
    def setUp(self):
        super().setUp()
        self.f = self.pb.file
        self.client.create(self.sid)

    def file(self, method, path=None, **fields):
        return self.client.file(method, self.sid, path, **fields)

    def sh(self, what):
        """A command in the session, which must end with 0; its output."""
        return self.client.out(what, self.sid)

    def read(self, path, **fields):
        return self.file("ReadFile", path, **fields)

    def content(self, path):
        """All bytes of a small file."""
        answer = self.read(path, mode=self.f.READ_MODE_BYTES, max_bytes=4 << 20)
        self.assertFalse(answer.truncated)
        return answer.data

    def write(self, path, data=b"", **fields):
        return self.file("WriteFile", path, data=data, **fields)

    def missing(self, call):
        failure = self.fails(StatusCode.NOT_FOUND, "FILE_NOT_FOUND", call)
        self.assertEqual(failure.metadata["kind"], "file")
        return failure

    def left_beside(self):
        """Temporary names in the workspace."""
        return self.sh("find /workspace -name '.box-*'")


class Stat(Case):
    def test_a_regular_file(self):
        self.sh("printf abc >a; chmod 640 a; ln a b")
        info = self.file("StatFile", "/workspace/a").info
        self.assertEqual((info.path, info.kind, info.size_bytes, info.permissions, info.owner_uid,
                          info.owner_gid, info.hard_links, info.link_target),
                         ("/workspace/a", self.f.FILE_KIND_REGULAR, 3, 0o640, 1000, 1000, 2, ""))
        self.assertGreater(info.modified_at.seconds, 1700000000)
        self.assertEqual(info.allocated_bytes % 512, 0)

    def test_paths_are_relative_to_the_workspace(self):
        self.sh("mkdir d; printf abc >d/a")
        info = self.file("StatFile", "d/a").info
        self.assertEqual((info.path, info.size_bytes), ("/workspace/d/a", 3))

    def test_a_link_is_itself_unless_it_is_followed(self):
        self.sh("printf abc >a; ln -s a l; ln -s nowhere broken")
        link = self.file("StatFile", "l").info
        self.assertEqual((link.kind, link.link_target), (self.f.FILE_KIND_SYMLINK, "a"))
        target = self.file("StatFile", "l", follow_symlink=True).info
        self.assertEqual((target.kind, target.size_bytes), (self.f.FILE_KIND_REGULAR, 3))
        self.assertEqual(self.file("StatFile", "broken").info.link_target, "nowhere")
        self.missing(lambda: self.file("StatFile", "broken", follow_symlink=True))

    def test_every_kind_there_is(self):
        self.sh("mkdir d; mkfifo f; python3 -c 'import socket;"
                "socket.socket(socket.AF_UNIX).bind(\"s\")'")
        kinds = {"d": "DIRECTORY", "f": "FIFO", "s": "SOCKET", "/dev/null": "DEVICE",
                 "/": "DIRECTORY", "..": "DIRECTORY"}
        for path, kind in kinds.items():
            self.assertEqual(self.file("StatFile", path).info.kind,
                             self.f.FileKind.Value("FILE_KIND_" + kind), path)

    def test_names_that_are_not_utf8(self):
        self.sh("printf x >\"$(printf 'a\\377\\nb')\"; ln -s \"$(printf 'to\\376')\" l")
        info = self.file("StatFile", b"/workspace/a\xff\nb").info
        self.assertEqual((info.path, info.path_bytes, info.size_bytes),
                         ("", b"/workspace/a\xff\nb", 1))
        link = self.file("StatFile", "l").info
        self.assertEqual((link.link_target, link.link_target_bytes), ("", b"to\xfe"))
        failure = self.missing(lambda: self.file("StatFile", b"no\xff\n\x01such"))
        self.assertIn("no??", failure.text)

    def test_what_is_wrong_is_named(self):
        self.missing(lambda: self.file("StatFile", "nothing"))
        self.missing(lambda: self.file("StatFile", "/etc/passwd/x"))
        self.invalid(lambda: self.file("StatFile"), "path")
        self.invalid(lambda: self.file("StatFile", "a", path_bytes=b"a"), "path")
        self.invalid(lambda: self.file("StatFile", b"a\0b"), "path")
        self.invalid(lambda: self.file("StatFile", "x" * 4096), "path")
        self.invalid(lambda: self.file("StatFile", "x" * 4090), "path")
        self.fails(StatusCode.INVALID_ARGUMENT, "VALIDATION",
                   lambda: self.file("StatFile", "x" * 300))

    def test_the_session_must_exist_and_run(self):
        self.fails(StatusCode.NOT_FOUND, "SESSION_NOT_FOUND",
                   lambda: self.client.file("StatFile", "nobody", "a"))
        self.invalid(lambda: self.client.file("StatFile", "", "a"), "session_id")
        self.client.sessions.StopSession(
            self.pb.session.StopSessionRequest(session_id=self.sid), timeout=30)
        self.fails(StatusCode.FAILED_PRECONDITION, "SESSION_NOT_RUNNING",
                   lambda: self.file("StatFile", "a"))


class Read(Case):
    def test_lines(self):
        self.write("a", b"one\ntwo\nthree\n")
        r = self.read("a")
        self.assertEqual((r.text, r.start_line, r.end_line, r.next_line, r.next_byte_offset,
                          r.total_lines, r.truncated, r.binary),
                         ("one\ntwo\nthree", 1, 3, 0, 0, 3, False, False))
        r = self.read("a", start_line=2, max_lines=1)
        self.assertEqual((r.text, r.start_line, r.end_line, r.next_line, r.byte_offset,
                          r.next_byte_offset, r.total_lines, r.truncated, r.truncated_by),
                         ("two", 2, 2, 3, 4, 8, 3, True, self.f.TRUNCATED_BY_LINES))

    def test_the_end(self):
        self.write("none", b"")
        self.write("open", b"a\nb")
        r = self.read("none")
        self.assertEqual((r.text, r.total_lines, r.past_end, r.truncated), ("", 0, False, False))
        r = self.read("open")
        self.assertEqual((r.text, r.total_lines, r.next_line), ("a\nb", 2, 0))
        r = self.read("open", start_line=3)
        self.assertEqual((r.text, r.past_end, r.total_lines), ("", True, 2))
        r = self.read("open", byte_offset=3)
        self.assertEqual((r.text, r.past_end), ("", True))

    def read_on(self, path, **fields):
        """The file in steps by next_byte_offset."""
        text, offset, steps = "", 0, 0
        while True:
            r = self.read(path, byte_offset=offset, **fields)
            self.assertLessEqual(len(r.text.encode()), max(fields["max_bytes"], 4))
            cut_line_end = r.next_byte_offset and r.truncated_by == self.f.TRUNCATED_BY_BYTES
            text += r.text
            steps += 1
            if r.next_byte_offset == 0:
                return text, steps
            self.assertGreater(r.next_byte_offset, offset)
            offset = r.next_byte_offset
            del cut_line_end

    def test_a_long_line_goes_on_between_characters(self):
        line = "äöü€𝄞" * 20000
        self.write("long", line.encode())
        r = self.read("long")
        self.assertEqual((r.truncated_by, r.next_line, r.start_line, r.end_line),
                         (self.f.TRUNCATED_BY_BYTES, 0, 1, 1))
        self.assertGreater(r.next_byte_offset, 51200 - 4)
        self.assertEqual(line[:len(r.text)], r.text)
        text, steps = self.read_on("long", max_bytes=100000)
        self.assertEqual(text, line)
        self.assertGreater(steps, 2)

    def test_even_one_byte_at_most_moves_on(self):
        self.write("c", "€𝄞a".encode())
        text, steps = self.read_on("c", max_bytes=1)
        self.assertEqual((text, steps), ("€𝄞a", 3))

    def test_bytes(self):
        data = bytes(range(256)) * 1000
        self.write("b", data)
        mode = self.f.READ_MODE_BYTES
        r = self.read("b", mode=mode, byte_offset=100, max_bytes=1000)
        self.assertEqual((r.data, r.byte_offset, r.next_byte_offset, r.truncated, r.binary),
                         (data[100:1100], 100, 1100, True, True))
        r = self.read("b", mode=mode, byte_offset=255000, max_bytes=1000)
        self.assertEqual((r.data, r.next_byte_offset, r.truncated), (data[255000:], 0, False))
        r = self.read("b", mode=mode, byte_offset=256000)
        self.assertEqual((r.data, r.past_end), (b"", True))

    def test_what_is_no_text(self):
        self.write("x", b"a\xff\xfeb\0c\xe2\x82\n\xe2\x82\xac")
        r = self.read("x")
        self.assertEqual(r.text, "a\ufffd\ufffdb\ufffdc\ufffd\ufffd\n€")
        self.assertEqual((r.replaced_invalid, r.binary), (True, True))
        self.write("latin", b"caf\xe9\n")
        r = self.read("latin")
        self.assertEqual((r.text, r.replaced_invalid, r.binary), ("caf\ufffd", True, False))

    def test_a_directory(self):
        self.sh("mkdir d; cd d; touch b a .h \"$(printf 'z\\377')\"; mkdir c")
        r = self.read("d")
        self.assertEqual((r.text, r.is_directory, r.total_entries, r.truncated),
                         (".h\na\nb\nc\nz\ufffd", True, 5, False))
        r = self.read("d", start_line=2, max_lines=2)
        self.assertEqual((r.text, r.truncated_by, r.next_line, r.total_entries),
                         ("a\nb", self.f.TRUNCATED_BY_ENTRIES, 4, 5))

    def test_what_never_ends_or_never_comes(self):
        self.sh("mkfifo f; ln -s /dev/zero z; truncate -s 60M sparse; ln -s loop loop")
        for path in ("f", "z", "/dev/zero", "/dev/tty", "/dev/stdin"):
            with self.subTest(path):
                with self.assertRaises(boxd_lib.grpc.RpcError) as caught:
                    self.read(path, deadline=20)
                self.assertIn(boxd_lib.Failure(caught.exception).reason,
                              ("FILE_CONFLICT", "PERMISSION", "FILE_NOT_FOUND"))
        r = self.read("sparse", start_line=7)
        self.assertTrue(r.past_end)
        self.assertEqual(self.read("sparse", max_bytes=10).text, "\ufffd" * 3)
        self.fails(StatusCode.PERMISSION_DENIED, "PERMISSION", lambda: self.read("loop"))

    def test_proc_is_bounded_and_magic_links_are_not_followed(self):
        self.assertIn("Name:", self.read("/proc/self/status").text)
        for path in ("/proc/self/root/etc/passwd", "/proc/self/cwd", "/proc/self/fd/3",
                     "/proc/self/exe"):
            self.fails(StatusCode.PERMISSION_DENIED, "PERMISSION", lambda p=path: self.read(p))

    def test_what_is_wrong_is_named(self):
        self.invalid(lambda: self.read("a", start_line=-1, max_lines=-1, max_bytes=-1,
                                       byte_offset=-1, mode=7),
                     "start_line", "max_lines", "max_bytes", "byte_offset", "mode")
        self.invalid(lambda: self.read("a", start_line=1, byte_offset=1), "byte_offset")
        self.sh("printf x >secret; chmod 0 secret")
        self.fails(StatusCode.PERMISSION_DENIED, "PERMISSION", lambda: self.read("secret"))


class Write(Case):
    def test_a_new_file_with_its_directories(self):
        data = bytes(range(256))
        r = self.write("x/y/z", data)
        self.assertEqual((r.created, r.written_bytes, r.sha256, r.info.path, r.info.permissions,
                          r.info.size_bytes, r.info.owner_uid),
                         (True, 256, hashlib.sha256(data).digest(), "/workspace/x/y/z", 0o644,
                          256, 1000))
        self.assertEqual(self.content("x/y/z"), data)
        self.assertEqual(self.file("StatFile", "x").info.permissions, 0o755)
        self.missing(lambda: self.write("no/such", make_parents=False))

    def test_one_that_exists_keeps_its_mode(self):
        self.sh("printf old >a; chmod 751 a")
        r = self.write("a", b"new")
        self.assertEqual((r.created, r.info.permissions), (False, 0o751))
        r = self.write("a", b"newer", permissions=0o600)
        self.assertEqual((r.info.permissions, self.content("a")), (0o600, b"newer"))
        self.sh("chmod 4755 a || chmod 755 a")
        self.assertEqual(self.write("a", b"x").info.permissions & 0o7000, 0)

    def test_create_new(self):
        new = self.f.WRITE_MODE_CREATE_NEW
        self.assertTrue(self.write("a", b"1", mode=new).created)
        self.fails(StatusCode.ALREADY_EXISTS, "FILE_EXISTS",
                   lambda: self.write("a", b"2", mode=new))
        self.assertEqual(self.content("a"), b"1")

    def test_append(self):
        append = self.f.WRITE_MODE_APPEND
        r = self.write("log", b"one\n", mode=append)
        self.assertEqual((r.created, r.sha256, r.info.size_bytes), (True, b"", 4))
        r = self.write("log", b"two\n", mode=append)
        self.assertEqual((r.created, r.written_bytes, r.info.size_bytes), (False, 4, 8))
        self.assertEqual(self.content("log"), b"one\ntwo\n")

    def test_only_what_was_expected_is_replaced(self):
        self.write("a", b"v1")
        digest = hashlib.sha256(b"v1").digest()
        self.write("a", b"v2", expected_sha256=digest)
        for mode in (self.f.WRITE_MODE_OVERWRITE, self.f.WRITE_MODE_APPEND):
            self.fails(CONFLICT, "DIGEST_MISMATCH",
                       lambda m=mode: self.write("a", b"v3", mode=m, expected_sha256=digest))
            self.fails(CONFLICT, "DIGEST_MISMATCH",
                       lambda m=mode: self.write("none", b"v3", mode=m, expected_sha256=digest))
        self.assertEqual(self.content("a"), b"v2")
        self.missing(lambda: self.file("StatFile", "none"))

    def test_through_a_link_the_file_behind_it_is_written(self):
        self.sh("mkdir d; printf old >d/target; ln -s d/target l; ln -s d/new fresh; ln -s d e")
        self.write("l", b"by link")
        self.write("fresh", b"made")
        self.write("e/more", b"below")
        self.assertEqual([self.content(p) for p in ("d/target", "d/new", "d/more")],
                         [b"by link", b"made", b"below"])
        self.assertEqual(self.file("StatFile", "l").info.kind, self.f.FILE_KIND_SYMLINK)

    def test_a_large_one(self):
        data = hashlib.sha256(b"seed").digest() * (15 * 32768)
        self.assertEqual(self.write("big", data).written_bytes, 15 << 20)
        self.assertEqual(self.sh("sha256sum <big").split()[0], hashlib.sha256(data).hexdigest())

    def test_a_full_workspace_leaves_the_old_file(self):
        self.write("a", b"old")
        self.sh("head -c 60M /dev/zero >fill")
        failure = self.fails(StatusCode.RESOURCE_EXHAUSTED, "QUOTA",
                             lambda: self.write("a", b"x" * (8 << 20)))
        self.assertEqual(failure.metadata["limit"], "file_system")
        self.fails(StatusCode.RESOURCE_EXHAUSTED, "QUOTA",
                   lambda: self.write("a", b"x" * (8 << 20), mode=self.f.WRITE_MODE_APPEND))
        self.assertEqual((self.content("a"), self.left_beside()), (b"old", ""))

    def test_what_is_no_file_or_not_ours(self):
        self.sh("mkdir d; mkfifo f; printf x >ro; chmod 444 ro; mkdir shut; chmod 555 shut")
        for path in ("d", "f", "/dev/null"):
            self.fails(CONFLICT, "FILE_CONFLICT", lambda p=path: self.write(p, b"x"))
        for path in ("ro", "/etc/passwd", "/new", "shut/new", "/proc/self/comm"):
            self.fails(StatusCode.PERMISSION_DENIED, "PERMISSION",
                       lambda p=path: self.write(p, b"x"))
        self.fails(StatusCode.PERMISSION_DENIED, "PERMISSION", lambda: self.write(
            "/proc/self/comm", b"x", mode=self.f.WRITE_MODE_APPEND))
        self.invalid(lambda: self.write("a", mode=9, permissions=0o1777, expected_sha256=b"x"),
                     "mode", "permissions", "expected_sha256")
        self.fails(StatusCode.INVALID_ARGUMENT, "VALIDATION", lambda: self.write("d/.."))


class MakeDirectory(Case):
    def test_one(self):
        r = self.file("MakeDirectory", "d", permissions=0o700)
        self.assertEqual((r.created, r.info.kind, r.info.permissions),
                         (True, self.f.FILE_KIND_DIRECTORY, 0o700))
        self.fails(StatusCode.ALREADY_EXISTS, "FILE_EXISTS",
                   lambda: self.file("MakeDirectory", "d"))
        self.missing(lambda: self.file("MakeDirectory", "x/y"))

    def test_with_its_parents(self):
        self.assertTrue(self.file("MakeDirectory", "a/b/c", parents=True).created)
        self.assertFalse(self.file("MakeDirectory", "a/b/c", parents=True).created)
        self.write("f")
        self.fails(StatusCode.ALREADY_EXISTS, "FILE_EXISTS",
                   lambda: self.file("MakeDirectory", "f", parents=True))


if __name__ == "__main__":
    boxd_lib.main()
