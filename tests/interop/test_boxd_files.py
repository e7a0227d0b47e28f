"""FileService of the real server: every method, as a stock client sees it."""

import base64
import hashlib
import threading

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
            text += r.text
            steps += 1
            if r.next_byte_offset == 0:
                return text, steps
            self.assertGreater(r.next_byte_offset, offset)
            offset = r.next_byte_offset

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


class Edit(Case):
    def edit(self, path, *edits, **fields):
        """edits: (old, new) or (old, new, True) to replace all."""
        return self.file("EditFile", path, edits=[self.f.FileEdit(
            old_data=e[0], new_data=e[1], replace_all=len(e) > 2) for e in edits], **fields)

    def conflict(self, call, text):
        failure = self.fails(CONFLICT, "FILE_CONFLICT", call)
        self.assertIn(text, failure.text)

    def test_one_place(self):
        self.sh("seq 20 >a; chmod 700 a")
        r = self.edit("a", (b"\n10\n", b"\nten\n"))
        self.assertEqual((r.replacements, r.diff_truncated, r.info.permissions), (1, False, 0o700))
        self.assertEqual(r.sha256, hashlib.sha256(self.content("a")).digest())
        self.assertEqual(r.diff.decode(), "--- a/workspace/a\n+++ b/workspace/a\n@@ -7,7 +7,7 @@\n"
                         " 7\n 8\n 9\n-10\n+ten\n 11\n 12\n 13\n")
        self.assertEqual(self.sh("sed -n 10p a"), "ten")

    def test_the_diff_is_what_patch_takes(self):
        text = "".join(f"line {i}\n" for i in range(3000))
        self.write("a", text.encode())
        self.write("before", text.encode())
        r = self.edit("a", (b"line 5\n", b""), (b"line 100\n", b"x\ny\n"), (b"line 103\n", b"z"),
                      (b"line 2999\n", b"the end"), (b"line 0\n", b"new\nline 0\n"))
        self.assertEqual(r.replacements, 5)
        self.write("diff", r.diff)
        self.sh("patch -s before diff && cmp a before")

    def test_it_must_be_there_exactly_once(self):
        self.write("a", b"x y x")
        self.conflict(lambda: self.edit("a", (b"z", b"")), "not in /workspace/a")
        self.conflict(lambda: self.edit("a", (b"x", b"")), "2 times")
        self.conflict(lambda: self.edit("a", (b"y", b"n"), (b"z", b"")), "edit 2")
        self.assertEqual(self.content("a"), b"x y x")
        self.assertEqual(self.edit("a", (b"x", b"xx", True)).replacements, 2)
        self.assertEqual(self.content("a"), b"xx y xx")

    def test_crlf_files_are_found_by_lf(self):
        self.write("a", b"one\r\ntwo\r\nthree\r\n")
        self.edit("a", (b"one\ntwo\n", b"1\n2\n3\n"))
        self.assertEqual(self.content("a"), b"1\r\n2\r\n3\r\nthree\r\n")
        self.write("mixed", b"one\r\ntwo\n")
        self.conflict(lambda: self.edit("mixed", (b"one\ntwo", b"")), "not in")

    def test_what_is_no_utf8_stays(self):
        data = b"\xff\xfe caf\xe9 \x00 here \x80" + bytes(range(256))
        self.write("a", data)
        self.edit("a", (b"here", b"there"))
        self.assertEqual(self.content("a"), data.replace(b"here", b"there"))

    def test_what_is_wrong_is_named(self):
        self.write("a", b"x")
        self.invalid(lambda: self.edit("a"), "edits")
        self.invalid(lambda: self.edit("a", (b"", b"x")), "edits[0].old_data")
        self.invalid(lambda: self.edit("a", *[(b"x", b"x")] * 65), "edits")
        self.fails(CONFLICT, "DIGEST_MISMATCH",
                   lambda: self.edit("a", (b"x", b"y"), expected_sha256=b"\0" * 32))
        self.missing(lambda: self.edit("none", (b"x", b"y")))
        self.sh("mkfifo f; truncate -s 17M large; printf x >ro; chmod 400 ro")
        self.conflict(lambda: self.edit("f", (b"x", b"y")), "no regular file")
        self.conflict(lambda: self.edit("large", (b"x", b"y")), "bytes")
        self.fails(StatusCode.PERMISSION_DENIED, "PERMISSION",
                   lambda: self.edit("ro", (b"x", b"y")))
        self.assertEqual(self.left_beside(), "")


class Glob(Case):
    def glob(self, pattern, path=None, **fields):
        return self.file("Glob", path, pattern=pattern, **fields)

    def names(self, answer):
        return [m.path.removeprefix("/workspace/") for m in answer.matches]

    def test_newest_first(self):
        self.sh("mkdir -p src/deep; for i in 1 2 3; do touch -d @$i src/$i.py; done; "
                "touch -d @2 a.py b.py; touch -d @9 src/deep/x.py src/deep/x.c")
        r = self.glob("*.py")
        self.assertEqual(self.names(r), ["src/deep/x.py", "src/3.py", "a.py", "b.py", "src/2.py",
                                         "src/1.py"])
        self.assertEqual((r.total, r.truncated), (6, False))
        self.assertEqual(self.names(self.glob("src/*.py")), ["src/3.py", "src/2.py", "src/1.py"])
        self.assertEqual(self.names(self.glob("src/**/x.{c,h}")), ["src/deep/x.c"])
        self.assertEqual(self.names(self.glob("**/*.py", "src/deep")), ["src/deep/x.py"])
        self.assertEqual(self.names(self.glob("src/[!1]*.py")), ["src/3.py", "src/2.py"])
        r = self.glob("*.py", max_matches=2)
        self.assertEqual((self.names(r), r.total, r.truncated_by),
                         (["src/deep/x.py", "src/3.py"], 6, self.f.TRUNCATED_BY_MATCHES))

    def test_what_is_left_out(self):
        self.sh("mkdir -p .git node_modules/m d; touch .git/x node_modules/m/x d/x .x x; ln -s / up")
        self.assertEqual(sorted(self.names(self.glob("*x"))), [".x", "d/x", "x"])
        self.assertEqual(sorted(self.names(self.glob("*x", exclude_hidden=True))), ["d/x", "x"])
        everything = self.glob("*x", skip=self.f.SkipList())
        self.assertEqual(everything.total, 5)
        self.assertEqual(self.names(self.glob("*", kind=self.f.FILE_KIND_SYMLINK)), ["up"])
        dirs = self.glob("**", kind=self.f.FILE_KIND_DIRECTORY)
        self.assertEqual(self.names(dirs), ["d"])

    def test_many(self):
        self.sh("mkdir m; cd m; seq 3000 | xargs touch")
        r = self.glob("m/*", max_matches=10000)
        self.assertEqual((len(r.matches), r.total, r.truncated), (3000, 3000, False))

    def test_what_is_wrong_is_named(self):
        self.invalid(lambda: self.glob("", max_matches=-1, kind=9), "pattern", "max_matches",
                     "kind")
        self.write("f")
        self.fails(CONFLICT, "FILE_CONFLICT", lambda: self.glob("*", "f"))
        self.missing(lambda: self.glob("*", "none"))
        self.invalid(lambda: self.glob("{a,b}" * 7), "pattern")  # 128 alternatives


class Grep(Case):
    def grep(self, pattern, path=None, **fields):
        return self.file("Grep", path, pattern=pattern, **fields)

    def lines(self, answer):
        return [(m.path.removeprefix("/workspace/"), m.line.line_number, m.line.text)
                for m in answer.matches]

    def test_sorted_by_path_and_line(self):
        self.sh("mkdir -p a b; printf 'x1\\ny\\nx2\\n' >b/f; echo x3 >a/g; echo x4 >a-b; echo y >c")
        r = self.grep("^x[0-9]$")
        self.assertEqual(self.lines(r), [("a-b", 1, "x4"), ("a/g", 1, "x3"), ("b/f", 1, "x1"),
                                         ("b/f", 3, "x2")])
        self.assertEqual((r.total, r.searched_files, r.skipped_files, r.truncated),
                         (4, 4, 0, False))
        self.assertEqual([m.byte_offset for m in r.matches], [0, 0, 0, 5])
        r = self.grep("x", "b/f", max_matches=1)
        self.assertEqual((self.lines(r), r.total, r.truncated_by),
                         ([("b/f", 1, "x1")], 2, self.f.TRUNCATED_BY_MATCHES))

    def test_options(self):
        self.sh("echo 'A.B' >x.c; echo 'a+b' >x.h; mkdir gen; echo a.b >gen/y.c")
        self.assertEqual(len(self.grep("a.b", ignore_case=True).matches), 3)
        self.assertEqual([l[0] for l in self.lines(self.grep("a.b", literal=True))], ["gen/y.c"])
        r = self.grep("a.b", ignore_case=True, include=["*.c"], exclude=["gen/*"])
        self.assertEqual([l[0] for l in self.lines(r)], ["x.c"])

    def test_context_is_given_once(self):
        self.write("f", "".join(f"{i}\n" for i in range(1, 13)).encode())
        r = self.grep("^(4|5|9)$", before_lines=2, after_lines=2)
        self.assertEqual([([b.text for b in m.before], m.line.text, [a.text for a in m.after])
                          for m in r.matches],
                         [(["2", "3"], "4", []), ([], "5", ["6", "7"]), (["8"], "9", ["10", "11"])])

    def test_long_lines_and_what_is_no_text(self):
        self.write("long", b"a" * 1000 + b"x" + b"b" * 2000000 + b"\r\nx\xff\xe2\x82\xac\n")
        self.write("bin", b"x\0x\n")
        r = self.grep("x", skip=self.f.SkipList())
        self.assertEqual([(m.line.text[:3], len(m.line.text), m.line.truncated, m.byte_offset)
                          for m in r.matches],
                         [("aaa", 500, True, 1000), ("x\ufffd€", 3, False, 2001003)])
        self.assertEqual((r.truncated_by, r.searched_files, r.skipped_files),
                         (self.f.TRUNCATED_BY_LINE_LENGTH, 1, 1))
        r = self.grep("x", "bin", search_binary=True)
        self.assertEqual(r.matches[0].line.text, "x\ufffdx")

    def test_a_hostile_pattern_ends(self):
        self.write("f", (b"a" * 30 + b"!\n") * 3000)
        r = self.grep("^(a+)+$", time_limit=2, deadline=30)
        self.assertTrue(r.truncated)
        self.assertIn(r.truncated_by, (self.f.TRUNCATED_BY_TIME, self.f.TRUNCATED_BY_SCAN))

    def test_an_answer_is_bounded(self):
        self.write("f", (b"x" * 400 + b"\n") * 12000)
        r = self.grep("x", max_matches=10000)
        self.assertEqual((r.total, r.truncated_by), (12000, self.f.TRUNCATED_BY_BYTES))
        self.assertLess(r.ByteSize(), 4 << 20)
        self.assertGreater(len(r.matches), 4000)

    def test_what_is_wrong_is_named(self):
        failure = self.invalid(lambda: self.grep("a(b"), "pattern")
        self.assertIn("at byte 3", failure.text)
        self.invalid(lambda: self.grep("", max_matches=-1, before_lines=21, after_lines=-1,
                                       max_line_bytes=-1, time_limit=61, include=[""]),
                     "pattern", "max_matches", "before_lines", "after_lines", "max_line_bytes",
                     "time_limit", "include")
        self.invalid(lambda: self.grep("x\\Cy"), "pattern")


class List(Case):
    def list(self, path, **fields):
        return self.file("ListDirectory", path, **fields)

    def all(self, path, **fields):
        """Paths of all pages."""
        paths, token = [], ""
        while True:
            r = self.list(path, page_token=token, **fields)
            paths += [e.path for e in r.entries]
            token = r.next_page_token
            if not token:
                return paths

    def test_entries(self):
        self.sh("mkdir d; printf abc >d/b; ln -s b d/a; mkdir d/c; touch d/.h d/c/inner")
        entries = self.list("d").entries
        self.assertEqual([(e.path, e.kind, e.link_target) for e in entries],
                         [("/workspace/d/.h", self.f.FILE_KIND_REGULAR, ""),
                          ("/workspace/d/a", self.f.FILE_KIND_SYMLINK, "b"),
                          ("/workspace/d/b", self.f.FILE_KIND_REGULAR, ""),
                          ("/workspace/d/c", self.f.FILE_KIND_DIRECTORY, "")])
        self.assertEqual(len(self.list("d", exclude_hidden=True).entries), 3)
        self.assertIn("/etc", [e.path for e in self.list("/").entries])

    def test_pages_of_a_tree_are_its_paths_in_order(self):
        self.sh("mkdir t; cd t; mkdir -p a/b/c d 'a.x' e/f; touch a/b/1 a/b/c/2 a-b 'a b' a/z d/3 "
                "e/f/4 a.x/5 \"$(printf '\\377')\"; seq 40 | (cd d; xargs touch)")
        want = self.sh("cd t; LC_ALL=C find . -mindepth 1 | cut -c3- | LC_ALL=C sort | base64 -w0")
        want = [b"/workspace/t/" + p for p in base64.b64decode(want).split(b"\n")[:-1]]
        for size in (1, 3, 7, 1000):
            got, token = [], ""
            while True:
                r = self.list("t/", depth=32, page_size=size, page_token=token)
                got += [e.path_bytes or e.path.encode() for e in r.entries]
                self.assertLessEqual(len(r.entries), size)
                token = r.next_page_token
                if not token:
                    break
            self.assertEqual(got, want, size)

    def test_depth(self):
        self.sh("mkdir -p t/a/b/c")
        for depth, count in ((0, 1), (1, 2), (2, 3), (32, 3)):
            self.assertEqual(len(self.list("t", depth=depth).entries), count)

    def test_tokens_are_for_one_request(self):
        self.sh("mkdir d e; touch d/1 d/2 e/1 e/2")
        token = self.list("d", page_size=1).next_page_token
        for bad in ("x", token[:-1], token + "00"):
            self.invalid(lambda t=bad: self.list("d", page_token=t), "page_token")
        self.invalid(lambda: self.list("e", page_size=1, page_token=token), "page_token")
        self.assertEqual([e.path for e in self.list("d", page_token=token).entries],
                         ["/workspace/d/2"])
        self.invalid(lambda: self.list("d", page_size=-1, depth=33), "page_size", "depth")
        self.fails(CONFLICT, "FILE_CONFLICT", lambda: self.list("d/1"))


class Remove(Case):
    def remove(self, path, **fields):
        return self.file("RemoveFile", path, **fields).removed

    def test_files_links_and_directories(self):
        self.sh("touch a; ln -s a l; ln -s / root; mkdir empty full; touch full/x; mkfifo f")
        for path in ("l", "root", "empty", "f", "a"):
            self.assertEqual(self.remove(path), 1, path)
        self.fails(CONFLICT, "FILE_CONFLICT", lambda: self.remove("full"))
        self.missing(lambda: self.remove("a"))
        self.assertEqual(self.remove("a", allow_missing=True), 0)
        self.assertEqual(self.sh("ls"), "full")

    def test_a_tree_but_nothing_behind_its_links(self):
        self.sh("mkdir -p keep t/a/b; touch keep/k t/1 t/a/2 t/a/b/3; ln -s ../keep t/l; "
                "ln -s ../../keep/k t/a/l")
        self.assertEqual(self.remove("t", recursive=True), 8)
        self.assertEqual(self.sh("find . | sort | tr '\\n' ' '"), ". ./keep ./keep/k")

    def test_a_tree_deeper_than_any_path(self):
        self.sh("python3 -c 'import os\nfor i in range(3000):\n os.mkdir(\"dddddddd\"); "
                "os.chdir(\"dddddddd\")'")
        self.assertEqual(self.remove("dddddddd", recursive=True), 3000)

    def test_what_may_not_go(self):
        for path in ("/etc/passwd", "/tmp", "/workspace", "/proc/1"):
            with self.assertRaises(boxd_lib.grpc.RpcError) as caught:
                self.remove(path, recursive=True)
            self.assertIn(boxd_lib.Failure(caught.exception).reason,
                          ("PERMISSION", "FILE_CONFLICT"), path)
        self.fails(StatusCode.INVALID_ARGUMENT, "VALIDATION", lambda: self.remove("/"))


class Move(Case):
    def move(self, source, target, **fields):
        return self.file("MoveFile", source_path=source, target_path=target, **fields).info

    def test_renames(self):
        self.sh("echo 1 >a; echo 2 >b; mkdir d; ln -s a l")
        self.assertEqual(self.move("a", "d/c").path, "/workspace/d/c")
        self.fails(StatusCode.ALREADY_EXISTS, "FILE_EXISTS", lambda: self.move("b", "d/c"))
        self.move("b", "d/c", overwrite=True)
        self.assertEqual(self.content("d/c"), b"2\n")
        self.assertEqual(self.move("l", "x/y/l", make_parents=True).kind,
                         self.f.FILE_KIND_SYMLINK)
        self.move("d", "e")
        self.assertEqual(self.sh("find . -mindepth 1 | sort | tr '\\n' ' '"),
                         "./e ./e/c ./x ./x/y ./x/y/l")

    def test_between_file_systems(self):
        self.sh("head -c 3M /dev/urandom >a; chmod 705 a; touch -d @5 a; ln -s to l; mkdir d")
        data = self.content("a")
        info = self.move("a", "/tmp/a")
        self.assertEqual((info.size_bytes, info.permissions, info.modified_at.seconds),
                         (3 << 20, 0o705, 5))
        self.assertEqual(self.content("/tmp/a"), data)
        self.missing(lambda: self.file("StatFile", "a"))
        self.assertEqual(self.move("l", "/tmp/l").link_target, "to")
        self.fails(CONFLICT, "FILE_CONFLICT", lambda: self.move("d", "/tmp/d"))

    def test_a_link_from_another_file_system_replaces_in_one_step(self):
        long = "x" * 300  # takes a block
        self.sh(f"ln -s to a; ln -s {long} b; touch /tmp/a /tmp/b")
        self.assertEqual(self.move("a", "/tmp/a", overwrite=True).link_target, "to")
        self.sh("head -c 1G /dev/zero >/tmp/all 2>/dev/null || :")
        self.fails(StatusCode.RESOURCE_EXHAUSTED, "QUOTA",
                   lambda: self.move("b", "/tmp/b", overwrite=True))
        self.assertEqual((self.file("StatFile", "/tmp/b").info.kind,
                          self.file("StatFile", "b").info.link_target),
                         (self.f.FILE_KIND_REGULAR, long))
        self.sh("rm /tmp/all")
        self.assertEqual(self.move("b", "/tmp/b", overwrite=True).link_target, long)
        self.assertEqual(self.sh("find /tmp -name '.box-*'"), "")

    def test_what_is_wrong_is_named(self):
        self.sh("mkdir d d2; touch f d2/x")
        self.missing(lambda: self.move("none", "x"))
        self.missing(lambda: self.move("f", "no/such"))
        self.fails(CONFLICT, "FILE_CONFLICT", lambda: self.move("d", "d/e"))
        self.fails(CONFLICT, "FILE_CONFLICT", lambda: self.move("f", "d", overwrite=True))
        self.fails(CONFLICT, "FILE_CONFLICT", lambda: self.move("d", "d2", overwrite=True))
        self.invalid(lambda: self.move("", ""), "source_path", "target_path")


class Stream(Case):
    def upload(self, path, chunks, deadline=60, **start):
        def requests():
            yield self.f.UploadFileRequest(start=self.f.UploadFileStart(
                session_id=self.sid, path=path, **start))
            for chunk in chunks:
                yield self.f.UploadFileRequest(data=chunk)
        return self.client.files.UploadFile(requests(), timeout=deadline)

    def download(self, path, deadline=60, **fields):
        """The whole answer: started, all bytes, done."""
        answers = list(self.client.files.DownloadFile(self.f.DownloadFileRequest(
            session_id=self.sid, path=path, **fields), timeout=deadline))
        kinds = [a.WhichOneof("response") for a in answers]
        self.assertEqual((kinds[0], kinds[-1], set(kinds[1:-1]) <= {"data"}),
                         ("started", "done", True))
        return answers[0].started.info, b"".join(a.data for a in answers[1:-1]), answers[-1].done

    def test_there_and_back(self):
        chunk = bytes(range(256)) * 4096
        data = chunk * 40
        digest = hashlib.sha256(data).digest()
        r = self.upload("big/file", [chunk] * 40, permissions=0o640, size_bytes=len(data),
                        sha256=digest)
        self.assertEqual((r.received_bytes, r.sha256, r.created, r.info.size_bytes,
                          r.info.permissions), (len(data), digest, True, len(data), 0o640))
        info, back, done = self.download("big/file")
        self.assertEqual((info.size_bytes, done.sent_bytes, done.sha256), (len(data), len(data),
                                                                           digest))
        self.assertEqual(back == data, True)
        _, part, done = self.download("big/file", byte_offset=255, max_bytes=300000)
        self.assertEqual((part == data[255:300255], done.sent_bytes), (True, 300000))
        _, none, done = self.download("big/file", byte_offset=len(data))
        self.assertEqual((none, done.sha256), (b"", hashlib.sha256(b"").digest()))

    def test_an_empty_one(self):
        self.assertEqual(self.upload("e", []).received_bytes, 0)
        self.assertEqual(self.download("e")[1], b"")

    def test_what_is_not_as_announced_leaves_nothing(self):
        self.write("old", b"old")
        wrong = [dict(size_bytes=5), dict(size_bytes=7), dict(sha256=b"\0" * 32)]
        for announced in wrong:
            for path in ("old", "new"):
                self.fails(CONFLICT, "DIGEST_MISMATCH",
                           lambda p=path, a=announced: self.upload(p, [b"abc", b"def"], **a))
        self.missing(lambda: self.file("StatFile", "new"))
        self.assertEqual((self.content("old"), self.left_beside()), (b"old", ""))

    def test_one_that_is_broken_off_leaves_nothing(self):
        hold = threading.Event()

        def chunks():
            for _ in range(20):
                yield b"x" * 1000000
            hold.wait(30)
        with self.assertRaises(boxd_lib.grpc.RpcError):
            self.upload("dir/big", chunks(), deadline=3)
        hold.set()
        self.missing(lambda: self.file("StatFile", "dir/big"))
        boxd_lib.lib.wait_for(lambda: self.sh("df --output=used /workspace | tail -1").strip() in
                              ("0", "4", "8"), "its space is free again", 10)
        self.assertEqual(self.left_beside(), "")

    def test_a_full_workspace_ends_an_upload(self):
        failure = self.fails(StatusCode.RESOURCE_EXHAUSTED, "QUOTA",
                             lambda: self.upload("big", [b"x" * 1000000] * 80))
        self.assertEqual(failure.metadata["limit"], "file_system")
        self.missing(lambda: self.file("StatFile", "big"))

    def test_a_slow_reader_holds_nothing_up(self):
        self.upload("big", [b"x" * 1000000] * 50)
        slow = self.client.files.DownloadFile(self.f.DownloadFileRequest(
            session_id=self.sid, path="big"), timeout=60)
        first = next(slow)
        self.assertEqual(first.started.info.size_bytes, 50000000)
        for i in range(10):
            self.write(f"f{i}", b"meanwhile")
        self.assertEqual(sum(len(a.data) for a in slow), 50000000)

    def test_sparse_and_endless_ones(self):
        self.sh("truncate -s 30M sparse; mkfifo f")
        _, data, _ = self.download("sparse")
        self.assertEqual(data == bytes(30 << 20), True)
        for path in ("f", "/dev/zero", "/workspace"):
            self.fails(CONFLICT, "FILE_CONFLICT", lambda p=path: self.download(p))
        self.sh("truncate -s 1000G giant")
        call = self.client.files.DownloadFile(self.f.DownloadFileRequest(
            session_id=self.sid, path="giant"), timeout=60)
        for _ in range(10):
            next(call)
        call.cancel()
        self.assertEqual(self.file("StatFile", "giant").info.allocated_bytes, 0)

    def test_what_is_wrong_is_named(self):
        self.invalid(lambda: self.upload("", [], mode=2, permissions=-1, size_bytes=-1,
                                         sha256=b"x"),
                     "start.path", "mode", "permissions", "start.size_bytes", "start.sha256")
        self.invalid(lambda: self.client.files.UploadFile(iter(
            [self.f.UploadFileRequest(data=b"x")])), "request")
        self.invalid(lambda: self.client.files.UploadFile(iter([])), "request")
        self.invalid(lambda: self.upload("a", [b"x" * ((1 << 20) + 1)]), "data")
        for call in (lambda: self.upload("a", [], archive=self.f.ARCHIVE_FORMAT_TAR),
                     lambda: self.download("a", archive=self.f.ARCHIVE_FORMAT_TAR)):
            self.fails(StatusCode.FAILED_PRECONDITION, "GUARANTEE_UNSUPPORTED", call)
        self.invalid(lambda: self.download("a", byte_offset=-1, max_bytes=-1), "byte_offset",
                     "max_bytes")
        self.missing(lambda: self.download("none"))
        new = self.f.WRITE_MODE_CREATE_NEW
        self.upload("a", [b"1"], mode=new)
        self.fails(StatusCode.ALREADY_EXISTS, "FILE_EXISTS",
                   lambda: self.upload("a", [b"2"] * 1000, mode=new))


class Workers(Case):
    """The processes that do file calls: who they are, and what happens when they are killed."""

    def workers(self):
        """Numbers of box-files as the sandbox sees them."""
        return self.sh("for p in /proc/[0-9]*; do read -r n <$p/comm && "
                       "[ \"$n\" = box-files ] && echo ${p#/proc/}; done 2>/dev/null; true").split()

    def test_a_call_starts_one_and_the_next_ones_use_it(self):
        self.assertEqual(self.workers(), [])
        for i in range(20):
            self.write(f"f{i}", b"x")
        self.assertEqual(len(self.workers()), 1)

    def test_commands_cannot_look_into_one(self):
        self.write("a")
        pid = self.workers()[0]
        answer = self.client.run(
            f"cd /proc/{pid}; for f in mem maps environ fd exe root cwd; do "
            "if [ -r $f ] && { cat $f || ls -l $f/; } >/dev/null 2>&1; then echo $f; fi; done; "
            "python3 -c 'import ctypes; l = ctypes.CDLL(None); "
            f"print(\"ptrace\", l.ptrace(16, {pid}, 0, 0))'; "
            "grep -E \"^(Uid|CapEff|NoNewPrivs|Seccomp):\" status", self.sid)
        out = answer.stdout_data.decode()
        self.assertIn("ptrace -1", out)
        for name in ("mem", "maps", "environ", "fd", "root", "cwd"):
            self.assertNotIn(name + "\n", out)
        for line in ("Uid:\t1000", "CapEff:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"):
            self.assertIn(line, out)

    def test_killed_and_stopped_ones_are_replaced(self):
        self.write("a", b"x")
        for signal in ("KILL", "STOP", "TERM", "SEGV"):
            self.sh(f"kill -{signal} {self.workers()[0]}")
            for _ in range(3):
                self.assertEqual(self.content("a"), b"x", signal)

    def test_calls_under_attack_end(self):
        self.write("a", b"x" * 100000)
        attack = self.client.execs.Exec.future(self.client.exec_request(
            "end=$(($(date +%s) + 4)); while [ $(date +%s) -lt $end ]; do "
            "for p in /proc/[0-9]*; do read -r n <$p/comm && [ \"$n\" = box-files ] && "
            "kill -9 ${p#/proc/}; done; done 2>/dev/null; true", self.sid), timeout=60)
        ended = failed = 0
        while not attack.done():
            try:
                self.assertEqual(len(self.content("a")), 100000)
            except boxd_lib.grpc.RpcError as e:
                self.assertEqual(boxd_lib.Failure(e).reason, "RUNTIME_UNAVAILABLE", e)
                failed += 1
            ended += 1
        self.assertGreater(ended, failed)
        self.assertEqual(len(self.content("a")), 100000)

    def test_many_calls_at_once(self):
        calls = [self.client.files.WriteFile.future(self.f.WriteFileRequest(
            session_id=self.sid, path=f"m/{i}", data=b"x" * 100), timeout=60) for i in range(60)]
        for call in calls:
            call.result()
        self.assertEqual(self.sh("ls m | wc -l"), "60")
        self.assertLessEqual(len(self.workers()), 4)

    def test_remove_works_without_memory(self):
        self.client.delete(self.sid)
        self.client.create(self.sid, memory_bytes=32 << 20)
        self.sh("mkdir t; cd t; seq 100 | xargs touch")
        hog = self.client.execs.Exec.future(self.client.exec_request(
            "python3 -c 'import time, os\nos.oom = open(\"/proc/self/oom_score_adj\", \"w\")\n"
            "b = []\ntry:\n while True: b.append(bytearray(1 << 20))\nexcept MemoryError: pass\n'",
            self.sid, timeout=20), timeout=60)
        while not hog.done():
            self.file("RemoveFile", "t", recursive=True, allow_missing=True)
        self.assertEqual(self.file("RemoveFile", "t", allow_missing=True).removed, 0)


if __name__ == "__main__":
    boxd_lib.main()
