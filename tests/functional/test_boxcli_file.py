"""boxcli file and cp: files of a session for people and scripts."""

import filecmp
import os
import stat

import test_boxcli
import boxd_lib
import lib
from boxd_lib import BoxdCase


def setUpModule():
    BoxdCase.start_server()


def tearDownModule():
    BoxdCase.stop_server()


class Case(test_boxcli.Case):
    def setUp(self):
        super().setUp()
        self.client.create(self.sid)
        folder = lib.TemporaryFolder("box-cp-")
        self.addCleanup(folder.remove)
        self.here = folder.path

    def local(self, name, data=None):
        """A path in this test's folder; written when there is data."""
        path = os.path.join(self.here, name)
        if data is not None:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as f:
                f.write(data)
        return path

    def sh(self, what):
        return self.client.out(what, self.sid)

    def file(self, verb, *args, **kwargs):
        """stdout of `boxcli file VERB SESSION ...`."""
        return self.ok("file", verb, self.sid, *args, **kwargs)


class File(Case):
    def test_read_and_write(self):
        self.file("write", "d/a", stdin=b"one\ntwo\nthree\n")
        self.assertEqual(self.file("read", "d/a"), "one\ntwo\nthree\n")
        code, out, err = self.cli("file", "read", self.sid, "d/a", "--line", "2", "--lines", "1")
        self.assertEqual((code, out), (0, b"two\n"))
        self.assertIn("there is more", err)
        self.file("write", "d/a", "--append", stdin=b"four\n")
        self.assertEqual(self.sh("tail -1 d/a"), "four")
        self.fails(1, "file", "write", self.sid, "d/a", "--new", says=["FILE_EXISTS"])
        self.file("write", "bin", "--mode", "600", stdin=bytes(range(256)))
        code, out, err = self.cli("file", "read", self.sid, "bin", "--bytes")
        self.assertEqual((code, out, err), (0, bytes(range(256)), ""))
        self.fails(1, "file", "read", self.sid, "none", says=["FILE_NOT_FOUND"])

    def test_edit_shows_the_difference(self):
        self.file("write", "a", stdin=b"x\ny\nx\n")
        self.assertIn("-y\n+z\n", self.file("edit", "a", "y", "z"))
        self.fails(1, "file", "edit", self.sid, "a", "x", "w", says=["2 times"])
        self.file("edit", "--all", "a", "x", "w")
        self.assertEqual(self.sh("cat a").split(), ["w", "z", "w"])

    def test_looking_for_things(self):
        self.sh("mkdir -p src; echo 'int a;' >src/a.c; echo 'int b;' >src/b.h; ln -s a.c src/l")
        self.assertEqual(self.file("glob", "*.c"), "/workspace/src/a.c\n")
        self.assertEqual(self.file("grep", "INT", "-i", "src"),
                         "/workspace/src/a.c:1:int a;\n/workspace/src/b.h:1:int b;\n")
        listing = self.file("ls", "src").splitlines()
        self.assertEqual([line.split(" ", 1)[0] for line in listing], ["-0644", "-0644", "l0777"])
        self.assertIn("-> a.c", listing[2])
        self.assertEqual(len(self.file("ls", "--depth", "3").splitlines()), 4)
        self.assertTrue(self.file("stat", "src").startswith("d0755  1000  1000"))

    def test_json_is_the_message(self):
        self.file("write", "a", stdin=b"x")
        pb = self.pb.file
        self.assertEqual(self.json(pb.StatFileResponse(), "file", "stat", self.sid,
                                   "a").info.size_bytes, 1)
        self.assertEqual(self.json(pb.GlobResponse(), "file", "glob", self.sid, "*").total, 1)

    def test_making_moving_removing(self):
        self.file("mkdir", "-p", "a/b")
        self.fails(1, "file", "mkdir", self.sid, "a", says=["FILE_EXISTS"])
        self.file("mv", "a/b", "c/d", "-p")
        self.fails(1, "file", "rm", self.sid, "c", says=["FILE_CONFLICT"])
        self.file("rm", "-r", "c")
        self.file("rm", "-f", "c")
        self.assertEqual(self.sh("ls"), "a")

    def test_what_a_sandbox_names_does_nothing_to_a_terminal(self):
        self.sh("touch \"$(printf 'a\\033[31m\\nb')\"; ln -s \"$(printf '\\033]0;x\\007')\" l")
        text = self.file("ls") + self.file("glob", "*")
        self.assertNotIn("\033", text)
        self.assertIn("a?[31m?b", text)

    def test_misuse_is_2(self):
        for args in (("file",), ("file", "read"), ("file", "read", "s"), ("cp", "a", "b"),
                     ("file", "write", "s", "p", "--mode", "9"), ("cp", "s:a")):
            self.assertEqual(self.cli(*args)[0], 2, args)


class Copy(Case):
    def cp(self, *args, **kwargs):
        return self.ok("cp", *args, **kwargs)

    def test_a_file_there_and_back(self):
        data = os.urandom(3 << 20)
        path = self.local("a", data)
        os.chmod(path, 0o750)
        self.cp(path, f"{self.sid}:d/x")
        self.assertEqual(self.sh("stat -c %a d/x"), "750")
        back = self.local("back")
        self.cp(f"{self.sid}:d/x", back)
        self.assertTrue(filecmp.cmp(path, back, shallow=False))
        self.assertEqual(stat.S_IMODE(os.stat(back).st_mode), 0o750)

    def test_into_a_directory(self):
        self.sh("mkdir d; echo inside >d/f")
        self.cp(self.local("a", b"x"), f"{self.sid}:d")
        self.assertEqual(self.sh("cat d/a"), "x")
        self.cp(f"{self.sid}:d/f", self.here)
        self.assertEqual(open(self.local("f"), "rb").read(), b"inside\n")
        self.cp(self.local("a"), f"{self.sid}:")
        self.assertEqual(self.sh("cat a"), "x")

    def test_standard_streams(self):
        self.cp("-", f"{self.sid}:a", stdin=b"through a pipe")
        self.assertEqual(self.cp(f"{self.sid}:a", "-"), "through a pipe")

    def test_a_tree_there_and_back(self):
        for name in ("t/a", "t/b/c", "t/b/d/e", "t/.h"):
            self.local(name, name.encode())
        os.makedirs(self.local("t/empty"))
        self.cp("-r", self.local("t"), f"{self.sid}:dst")
        self.assertEqual(self.sh("cd dst; find . | LC_ALL=C sort | tr '\\n' ' '"),
                         ". ./.h ./a ./b ./b/c ./b/d ./b/d/e ./empty")
        self.cp("-r", f"{self.sid}:dst", self.local("back"))
        names = sorted(os.path.relpath(os.path.join(d, f), self.local("back"))
                       for d, _, files in os.walk(self.local("back")) for f in files)
        self.assertEqual(names, [".h", "a", "b/c", "b/d/e"])
        self.assertTrue(os.path.isdir(self.local("back/empty")))
        self.assertEqual(open(self.local("back/b/d/e"), "rb").read(), b"t/b/d/e")
        self.fails(1, "cp", self.local("t"), f"{self.sid}:x", says=["-r"])
        self.fails(1, "cp", f"{self.sid}:dst", self.local("y"), says=["-r"])

    def test_links_are_left_out_and_lead_nowhere(self):
        """hostile-inputs row 18: neither side's links are followed or made."""
        secret = self.local("secret", b"of the host")
        os.makedirs(self.local("t"))
        os.symlink(secret, self.local("t/l"))
        code, _, err = self.cli("cp", "-r", self.local("t"), f"{self.sid}:t")
        self.assertEqual((code, self.sh("ls t")), (0, ""))
        self.assertIn("left out", err)
        self.sh("mkdir -p evil/d; ln -s /etc evil/etc; ln -s /etc/passwd evil/p; touch evil/d/x")
        os.makedirs(self.local("out/evil"))
        os.symlink(self.here, self.local("out/evil/d"))  # where a directory is to go
        code, _, err = self.cli("cp", "-r", f"{self.sid}:evil", self.local("out"))
        self.assertEqual(code, 1, err)
        self.assertEqual(sorted(os.listdir(self.local("out/evil"))), ["d"])
        self.assertFalse(os.path.exists(self.local("x")))

    def test_what_a_sandbox_names_does_nothing_to_a_terminal(self):
        self.sh("mkdir -p \"$(printf 'bad\\033[31m')\"; mkfifo \"$(printf 'bad\\033[31m/p')\"")
        os.makedirs(self.local("out/workspace"))
        os.symlink(self.here, self.local("out/workspace/bad\x1b[31m"))
        code, _, err = self.cli("cp", "-r", f"{self.sid}:/workspace", self.local("out"))
        self.assertEqual(code, 1, err)
        self.assertIn("cannot enter bad?[31m", err)
        self.assertNotIn("\033", err)

    def test_nothing_but_the_copies_is_left(self):
        self.sh("mkdir t; echo a >t/a; echo b >t/b")
        self.cp("-r", f"{self.sid}:t", self.local("back"))
        self.assertEqual(sorted(os.listdir(self.local("back"))), ["a", "b"])

    def test_what_is_not_there(self):
        self.fails(1, "cp", f"{self.sid}:none", self.local("x"), says=["FILE_NOT_FOUND"])
        self.assertFalse(os.path.exists(self.local("x")))
        self.fails(1, "cp", self.local("none"), f"{self.sid}:x", says=["cannot read"])
        self.fails(1, "cp", "nobody:a", self.local("x"), says=["SESSION_NOT_FOUND"])


if __name__ == "__main__":
    boxd_lib.main()
