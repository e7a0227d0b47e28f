"""hostile-inputs.md rows 14 to 18, 22 and 32 (names), and known-bugs.md group E, for file calls: what a
sandbox plants, and swaps under the server's hands, leads nowhere. One class a row."""

import contextlib
import hashlib
import os
import subprocess
import time

import grpc

import hostile_lib
import boxd_lib
import lib
from hostile_lib import HostileCase, MIB
from grpc import StatusCode

OWNER = 61237  # of the folders that sandboxes are given

# Swaps file, link and directory at one name, as fast as it can, until `stop` is there.
SWAPPER = r"""
import os
os.makedirs("real", exist_ok=True)
os.makedirs("box", exist_ok=True)
open("real/f", "w").write("inside")
i = 0
while not os.path.exists("stop"):
    i += 1
    for make in (lambda: os.symlink("%(outside)s", "new"), lambda: os.symlink("real", "new"),
                 lambda: os.mkdir("new"), lambda: open("new", "w").close()):
        for step in (make, lambda: os.rename("box", "old%%d" %% (i %% 9)),
                     lambda: os.rename("new", "box")):
            try:
                step()
            except OSError:
                pass
        for name in ("new", "old%%d" %% (i %% 9)):
            try:
                os.unlink(name)
            except OSError:
                try:
                    import shutil
                    shutil.rmtree(name)
                except OSError:
                    pass
"""


class Case(HostileCase):
    @classmethod
    def setUpClass(cls):
        cls.roots = lib.TemporaryFolder("box-files-")
        os.chmod(cls.roots.path, 0o755)
        HostileCase.start_server(
            warden_config=f"allowed_roots:\n  - path: {cls.roots.path}\n    owner_uid: {OWNER}\n")

    @classmethod
    def tearDownClass(cls):
        HostileCase.stop_server()
        cls.roots.remove()

    def setUp(self):
        super().setUp()
        self.f = self.pb.file

    def shared_session(self):
        """A session on a folder of the host; beside it a canary that must stay as it is."""
        path = os.path.join(self.roots.path, self.sid)
        os.mkdir(path)
        os.chown(path, OWNER, OWNER)
        outside = os.path.join(self.roots.path, self.sid + "-outside")
        os.mkdir(outside)
        os.chmod(outside, 0o777)
        self.canary = os.path.join(outside, "f")
        with open(self.canary, "w", encoding="ascii") as f:
            f.write("of the host")
        os.chmod(self.canary, 0o666)
        self.outside = outside
        self.client.create(self.sid, host_path=path)

    def host_is_untouched(self):
        with open(self.canary, encoding="ascii") as f:
            self.assertEqual(f.read(), "of the host")
        self.assertEqual(os.listdir(self.outside), ["f"])

    def file(self, method, path=None, **fields):
        return self.client.file(method, self.sid, path, **fields)

    def sh(self, what):
        return self.client.out(what, self.sid)

    def attempt(self, method, path=None, **fields):
        """The answer, or the reason it failed with, which must be one of Box's own."""
        try:
            return self.file(method, path, **fields)
        except grpc.RpcError as e:
            failure = boxd_lib.Failure(e)
            self.assertIsNotNone(failure.reason, failure)
            self.assertNotIn(failure.reason, ("INTERNAL", "PROTOCOL", "DEADLINE"), failure)
            return failure.reason

    @contextlib.contextmanager
    def swappers(self, count, outside):
        """So many commands that swap `box` in the workspace meanwhile."""
        calls = [self.client.execs.Exec.future(self.client.exec_request(
            ["python3", "-c", SWAPPER % {"outside": outside}], self.sid,
            workdir="/workspace", timeout=60), timeout=90) for _ in range(count)]
        try:
            yield
        finally:
            self.client.file("WriteFile", self.sid, "stop")
            for call in calls:
                call.result()


class Row14(Case):
    """Links that the submission has planted."""

    def test_links_stay_inside(self):
        self.shared_session()
        self.sh(f"ln -s {self.canary} out.txt; ln -s / d; ln -s {self.outside} up; ln -s .. dot")
        # None of the host's names exists inside, whatever leads there.
        for path in ("out.txt", f"d{self.canary}", "up/f", f"dot/..{self.canary}"):
            self.assertEqual(self.attempt("ReadFile", path), "FILE_NOT_FOUND", path)
        for path in ("up/new", f"d{self.outside}/x"):
            self.assertIn(self.attempt("WriteFile", path, data=b"x", make_parents=False),
                          ("PERMISSION", "FILE_NOT_FOUND"))
        self.assertEqual(self.file("ReadFile", "d/etc/hostname").info.path,
                         "/workspace/d/etc/hostname")
        self.assertEqual(self.file("StatFile", "out.txt").info.kind, self.f.FILE_KIND_SYMLINK)
        self.file("MoveFile", source_path="out.txt", target_path="moved")
        for link in ("moved", "up", "d", "dot"):
            self.assertEqual(self.file("RemoveFile", link, recursive=True).removed, 1)
        self.host_is_untouched()


class Row15(Case):
    """Artefacts that are links to the server's own files."""

    def test_proc_is_the_workers_own_and_says_nothing(self):
        self.client.create(self.sid)
        self.sh("ln -s /proc/self/environ artifact.txt; ln -s /proc/self/fd/3 fd; "
                "ln -s /proc/self/root/etc/passwd root; ln -s /proc/1/environ agent")
        answer = self.attempt("ReadFile", "artifact.txt")
        self.assertTrue(answer == "PERMISSION" or answer.text == "", answer)
        self.assertEqual(self.attempt("ReadFile", "fd"), "PERMISSION")
        self.assertEqual(self.attempt("ReadFile", "root"), "PERMISSION")
        self.assertEqual(self.attempt("ReadFile", "agent"), "PERMISSION")


class Row16(Case):
    """A race between check and open on a workspace of the host."""

    def test_swappers_win_nothing(self):
        self.shared_session()
        self.client.sessions.UpdateSession(self.pb.session.UpdateSessionRequest(
            session_id=self.sid, spec=self.pb.types.SessionSpec(max_parallel_execs=8),
            update_mask={"paths": ["max_parallel_execs"]}))
        reads = writes = 0
        with self.swappers(3, self.outside):
            end = time.monotonic() + 20
            while time.monotonic() < end and reads + writes < 6000:
                answer = self.attempt("ReadFile", "box/f")
                if not isinstance(answer, str):
                    self.assertIn(answer.text, ("inside", "written"))
                    reads += 1
                answer = self.attempt("WriteFile", "box/f", data=b"written", make_parents=False)
                writes += not isinstance(answer, str)
                for method, fields in (("Glob", {"pattern": "**"}), ("Grep", {"pattern": "host"}),
                                       ("ListDirectory", {"depth": 4})):
                    answer = self.attempt(method, ".", **fields)
                    if method == "Grep" and not isinstance(answer, str):
                        self.assertEqual([m for m in answer.matches
                                          if "of the host" in m.line.text], [])
                self.attempt("RemoveFile", "box", recursive=True, allow_missing=True)
        self.assertGreater(reads, 20)
        self.assertGreater(writes, 20)
        self.host_is_untouched()


class Row17(Case):
    """Names that the server makes itself, taken before."""

    def test_temporary_names_are_nobodys_to_guess(self):
        self.shared_session()
        self.sh(f"for i in $(seq 50); do ln -s {self.canary} .box-$i; done; mkdir made; "
                f"ln -s {self.outside} made/.box")
        for i in range(20):
            self.file("WriteFile", f"made/{i}", data=b"x")
            self.file("WriteFile", f"made/{i}", data=b"y")
        self.assertEqual(self.sh("ls made | wc -l"), "20")
        self.host_is_untouched()


class Row18(Case):
    """Copying in and out while a swapper runs (boxcli cp's own half: functional.boxcli.file)."""

    def test_streams_are_of_one_file(self):
        self.shared_session()
        data = os.urandom(MIB)

        def requests():
            yield self.f.UploadFileRequest(start=self.f.UploadFileStart(
                session_id=self.sid, path="box/up", make_parents=False))
            yield self.f.UploadFileRequest(data=data)
        down = up = 0
        with self.swappers(1, self.outside):
            end = time.monotonic() + 12
            while time.monotonic() < end:
                try:
                    answers = list(self.client.files.DownloadFile(self.f.DownloadFileRequest(
                        session_id=self.sid, path="box/f"), timeout=30))
                    got = b"".join(a.data for a in answers)
                    self.assertEqual(got, b"inside")
                    self.assertEqual(answers[-1].done.sha256, hashlib.sha256(got).digest())
                    down += 1
                except grpc.RpcError as e:
                    self.assertIn(boxd_lib.Failure(e).reason, (
                        "FILE_NOT_FOUND", "FILE_CONFLICT", "PERMISSION"))
                try:
                    self.client.files.UploadFile(requests(), timeout=30)
                    up += 1
                except grpc.RpcError as e:
                    self.assertIn(boxd_lib.Failure(e).reason, (
                        "FILE_NOT_FOUND", "FILE_CONFLICT", "PERMISSION", "FILE_EXISTS"))
        self.assertGreater(down, 0)
        self.assertGreater(up, 0)
        self.host_is_untouched()


class Row22(Case):
    """File calls fill a disk no more than commands do."""

    def test_the_volume_is_the_limit(self):
        self.client.create(self.sid)

        def flood():
            yield self.f.UploadFileRequest(start=self.f.UploadFileStart(
                session_id=self.sid, path="flood"))
            for _ in range(200):
                yield self.f.UploadFileRequest(data=bytes(MIB))
        with self.assertRaises(grpc.RpcError) as caught:
            self.client.files.UploadFile(flood(), timeout=60)
        self.assertEqual(boxd_lib.Failure(caught.exception).reason, "QUOTA")
        made = 0
        while self.attempt("WriteFile", f"n/{made}", data=b"") != "QUOTA":
            made += 1
            self.assertLess(made, 20000)
        self.assertGreater(self.file("RemoveFile", "n", recursive=True).removed, made)
        self.file("WriteFile", "again", data=b"x")
        self.honest()


class Row32(Case):
    """Names that are no text."""

    def test_every_byte_of_a_name_comes_back(self):
        self.client.create(self.sid)
        names = [bytes([b]) + b"\xff\n\x1b\xe2\x28" for b in range(1, 256) if b != 0x2f]
        for name in names:
            self.file("WriteFile", b"/workspace/d/" + name, data=name)
        got, token = [], ""
        while True:
            r = self.file("ListDirectory", "d", page_token=token, page_size=100)
            got += [e.path_bytes for e in r.entries]
            token = r.next_page_token
            if not token:
                break
        self.assertEqual(got, [b"/workspace/d/" + n for n in sorted(names)])
        for name in names[::50]:
            r = self.file("ReadFile", b"d/" + name, mode=self.f.READ_MODE_BYTES)
            self.assertEqual(r.data, name)
        with self.assertRaises(grpc.RpcError) as caught:
            self.file("ReadFile", b"none\xff\x00"[:5])
        caught.exception.details().encode()  # valid text, whatever the name is


class E1(Case):
    """The size was looked at before a command, and one call inside it could pass it."""

    def test_one_call_cannot_pass_it(self):
        self.client.create(self.sid, workspace_limit_bytes=16 * MIB)
        r = self.client.run("fallocate -l 1G big; truncate -s 1G hole && dd if=/dev/zero of=hole bs=1M "
                            "count=64 conv=notrunc; du -m . | cut -f1", self.sid)
        self.assertIn(b"No space left on device", r.stderr_data)
        self.assertLessEqual(int(r.stdout_data.split()[-1]), 16)


class E2(Case):
    """Calls of some kinds did not count."""

    def test_every_way_in_is_bounded(self):
        self.client.create(self.sid, workspace_limit_bytes=4 * MIB)
        p = self.pb.process
        self.client.run("head -c 100M /dev/zero >command", self.sid)
        self.sh("rm command")
        self.client.processes.StartManagedProcess(p.StartManagedProcessRequest(
            session_id=self.sid, spec=p.ProcessSpec(shell_command="head -c 100M /dev/zero >process")))
        self.client.processes.WaitManagedProcess(p.WaitManagedProcessRequest(session_id=self.sid),
                                                 timeout=60)
        self.assertLessEqual(int(self.sh("stat -c %s process")), 4 * MIB)
        self.sh("rm process")
        self.assertEqual(self.attempt("WriteFile", "file", data=bytes(5 * MIB)), "QUOTA")
        self.file("WriteFile", "a", data=bytes(3 * MIB))
        self.assertEqual(self.attempt("WriteFile", "a", data=bytes(2 * MIB),
                                      mode=self.f.WRITE_MODE_APPEND), "QUOTA")
        tools = self.pb.tool
        r = self.client.tools.CallTool(tools.CallToolRequest(
            session_id=self.sid, tool="write",
            arguments_json='{"path": "b", "content": "%s"}' % ("x" * (3 * MIB))), timeout=60)
        self.assertIn("space", r.error.lower(), r)
        self.assertEqual(self.sh("ls"), "a")


class E3(Case):
    """A full workspace refused everything, removing included."""

    def test_what_is_full_can_be_emptied(self):
        self.client.create(self.sid)
        self.client.run("cat /dev/zero >fill", self.sid)
        self.assertEqual(self.attempt("WriteFile", "a", data=b"x" * 8192), "QUOTA")
        self.assertEqual(self.file("RemoveFile", "fill").removed, 1)
        self.file("WriteFile", "a", data=b"x" * 8192)


class E4(Case):
    """Holes counted as full, links again and again, and names not at all."""

    def test_blocks_and_names_count(self):
        self.client.create(self.sid, workspace_limit_bytes=16 * MIB)
        self.sh("truncate -s 100G hole; head -c 12M /dev/zero >one; "
                "for i in $(seq 200); do ln one link$i; done; head -c 2M /dev/zero >two")
        self.assertEqual(self.sh("stat -c %s hole one two; ls | wc -l").split(),
                         [str(100 << 30), str(12 * MIB), str(2 * MIB), "203"])
        r = self.client.run(["python3", "-c", "import errno, os\nos.mkdir('n')\nfor i in range(10**6):\n"
                             "    try: os.close(os.open(f'n/{i}', os.O_CREAT))\n"
                             "    except OSError as e: print(i, errno.errorcode[e.errno]); break"], self.sid)
        made, why = r.stdout_data.split()
        self.assertEqual(why, b"ENOSPC")
        self.assertLessEqual(int(made), 16 * MIB // 4096)


class E5(Case):
    """The whole tree was walked before and after each command: here is one that nothing can walk."""

    def test_nothing_walks(self):
        self.client.create(self.sid, workspace_limit_bytes=64 * MIB)
        self.completes(self.client.run(
            ["python3", "-c", "import os\nos.mkdir('shut')\nopen('shut/f', 'wb').write(bytes(1 << 20))\n"
             "os.chmod('shut', 0)\nfor i in range(6000):\n    os.mkdir('d' * 40)\n    os.chdir('d' * 40)\n"],
            self.sid, timeout=60))
        for _ in range(20):
            self.assertEqual(self.sh("echo x"), "x")
        self.assertEqual(self.client.get(self.sid).total_execs, 21)


class E6(Case):
    """An edit damaged bytes elsewhere that are no UTF-8."""

    def test_other_bytes_stay(self):
        self.client.create(self.sid)
        data = bytes(range(256)) + b"here" + bytes(range(255, -1, -1))
        self.file("WriteFile", "a", data=data)
        self.file("EditFile", "a", edits=[self.f.FileEdit(old_data=b"here", new_data=b"there")])
        self.assertEqual(self.file("ReadFile", "a", mode=self.f.READ_MODE_BYTES).data,
                         data.replace(b"here", b"there"))


class E7(Case):
    """What read showed of a CR LF file was never found by edit."""

    def test_what_is_read_can_be_edited(self):
        self.client.create(self.sid)
        self.file("WriteFile", "a", data=b"one\r\ntwo\r\nthree\r\n")
        shown = self.file("ReadFile", "a", max_lines=2).text
        for old in (shown, shown.replace("\r\n", "\n")):
            self.file("EditFile", "a", edits=[self.f.FileEdit(old_data=old.rstrip().encode(),
                                                              new_data=b"one\ntwo")])
        self.assertEqual(self.sh("od -c a | head -1").split()[:5], ["0000000", "o", "n", "e", "\\r"])


class E8(Case):
    """A long line gave the same next offset for ever."""

    def test_next_offset_moves_on(self):
        self.client.create(self.sid)
        self.file("WriteFile", "a", data=b"x" * 60000 + b"\nlast\n")
        r = self.file("ReadFile", "a")
        steps, text = 1, r.text
        while r.next_byte_offset:
            r = self.file("ReadFile", "a", byte_offset=r.next_byte_offset)
            text += r.text
            steps += 1
            self.assertLess(steps, 10)
        self.assertEqual(text, "x" * 60000 + "\nlast")


class E9(Case):
    """Reading past the end was an empty success."""

    def test_it_is_said(self):
        self.client.create(self.sid)
        self.file("WriteFile", "a", data=b"1\n2\n")
        r = self.file("ReadFile", "a", start_line=999)
        self.assertEqual((r.past_end, r.total_lines, r.text), (True, 2, ""))


class E10(Case):
    """Binary read as text without a word."""

    def test_it_is_said(self):
        self.client.create(self.sid)
        self.file("WriteFile", "p.png", data=b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\xff")
        r = self.file("ReadFile", "p.png")
        self.assertEqual((r.binary, r.replaced_invalid), (True, True))


class E11(Case):
    """Writes were seen half done."""

    def test_a_reader_sees_the_old_or_the_new(self):
        self.client.create(self.sid)
        size = 4 * MIB
        self.file("WriteFile", "a", data=b"a" * size)
        reader = self.client.execs.Exec.future(self.client.exec_request(
            ["python3", "-c", "import os\nwhile not os.path.exists('stop'):\n"
             " d = open('a', 'rb').read()\n"
             f" assert len(d) == {size} and len(set(d)) == 1, (len(d), set(d))"],
            self.sid, timeout=60), timeout=90)
        for i in range(30):
            self.file("WriteFile", "a", data=b"ab"[i % 2:i % 2 + 1] * size)
        self.file("WriteFile", "stop")
        self.completes(reader.result())


class E12(Case):
    """Grep lost all its hits when time was over, scanned binaries, and was not sorted."""

    def test_what_was_found_is_given(self):
        self.client.create(self.sid)
        self.file("WriteFile", "a", data=b"aaa! first\n")
        self.file("WriteFile", "b", data=(b"a" * 28 + b"!\n") * 100000)
        self.file("WriteFile", "c.bin", data=b"aaa!\0")
        r = self.file("Grep", pattern="^(a+)+! first$|^(a|aa)+$", time_limit=1, deadline=30)
        self.assertTrue(r.truncated)
        self.assertEqual([(m.path, m.line.text) for m in r.matches],
                         [("/workspace/a", "aaa! first")])


class E14(Case):
    """`/workspacefoo` counted as inside `/workspace`."""

    def test_names_are_compared_whole(self):
        self.client.create(self.sid)
        for path in ("/workspacefoo/x", "/workspace/../workspacefoo/x"):
            self.assertIn(self.attempt("WriteFile", path, data=b"x"), ("PERMISSION",))
            self.assertEqual(self.attempt("ReadFile", path), "FILE_NOT_FOUND")


class E15(Case):
    """Violations of paths came in two ways."""

    def test_each_has_a_reason(self):
        self.client.create(self.sid)
        for path, reason in (("/etc/shadow", "FILE_NOT_FOUND"), ("/root", "FILE_NOT_FOUND"),
                             ("../../../../nothing", "FILE_NOT_FOUND"), ("", "VALIDATION")):
            self.assertEqual(self.attempt("ReadFile", path), reason, path)
        self.fails(StatusCode.PERMISSION_DENIED, "PERMISSION",
                   lambda: self.file("WriteFile", "/etc/passwd", data=b"x"))


class E17(Case):
    """What the sandbox's users wrote to a folder of the host was root's, and its owner could not
    remove it."""

    def test_the_owner_owns_it(self):
        self.shared_session()
        path = os.path.join(self.roots.path, self.sid)
        self.sh("mkdir -p a/b; echo x >a/b/c; chmod 600 a/b/c; ln -s c a/b/l; mkfifo a/p")
        self.file("WriteFile", "by/file/call", data=b"x")
        p = self.pb.process
        self.client.processes.StartManagedProcess(p.StartManagedProcessRequest(
            session_id=self.sid, spec=p.ProcessSpec(shell_command="echo x >by/process")))
        self.client.processes.WaitManagedProcess(p.WaitManagedProcessRequest(session_id=self.sid),
                                                 timeout=60)
        found = [os.path.join(top, name) for top, folders, files in os.walk(path)
                 for name in folders + files]
        self.assertEqual(len(found), 9)
        self.assertEqual({(os.lstat(f).st_uid, os.lstat(f).st_gid) for f in found}, {(OWNER, OWNER)})
        done = subprocess.run(["rm", "-r", f"{path}/a", f"{path}/by"], user=OWNER, group=OWNER,
                              extra_groups=[], check=False, capture_output=True)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertEqual(self.sh("ls -A"), "")
        self.host_is_untouched()


if __name__ == "__main__":
    hostile_lib.main()
