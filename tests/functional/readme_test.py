"""The README's commands and programs do what it says, as they stand there. The server is in the
environment (with_boxd.py).

    readme_test.py SOURCE PROGRAMS NODE_MODULES
"""

import os
import pty
import re
import select
import subprocess
import sys
import tempfile

# What a line's program ends with, where that is not 0: the README says so beside it.
STATUS = {"x = \"a\" * 10**9": 137}
# What must come out of a line.
OUTPUT = {"id; ls /": b"uid=1000", "sum(range(10))": b"45\n", "cat note": b"hello\n",
          "session list": b"work", "token create": b"box_", "boxcli doctor": b"ok    seccomp",
          "boxcli drill": b" 0 broken,",
          "--json status": b'"backend": "namespace"'}


def blocks(source, section, language):
    text = open(os.path.join(source, "README.md"), encoding="utf-8").read()
    part = text.split(f"## {section}\n")[1].split("\n## ")[0]
    return re.findall(rf"```{language}\n(.*?)```", part, re.S)


def run(argv, **options):
    return subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                          timeout=120, **options)


def wanted(table, line, default):
    return next((value for key, value in table.items() if key in line), default)


def check_terminal(source, here):
    lines = [line for line in blocks(source, "At a terminal", "sh")[0].splitlines() if line]
    assert len(lines) >= 12, lines
    for line in lines:
        done = run(["bash", "-c", line], cwd=here)
        assert done.returncode == wanted(STATUS, line, 0), (line, done)
        assert wanted(OUTPUT, line, b"") in done.stdout, (line, done)
    done = run(["bash", "-c", "source <(boxcli completion bash) && complete -p boxcli"])
    assert done.returncode == 0, done


def sit_at(line, here):
    """Exit code of a line on a terminal, whose program is told Ctrl-D at its prompt."""
    pid, master = pty.fork()
    if pid == 0:
        os.chdir(here)
        os.execvp("bash", ["bash", "-c", line])
    seen = b""
    while select.select([master], [], [], 60)[0]:
        try:
            seen += os.read(master, 4096)
        except OSError:  # its end
            break
        if seen.endswith((b"$ ", b">>> ")):
            seen += b"<Ctrl-D>"
            os.write(master, b"\x04")
    os.close(master)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), seen


def check_interactive(source, here):
    lines = blocks(source, "At a terminal", "sh")[1].splitlines()
    assert len(lines) == 2, lines
    for line in lines:
        code, seen = sit_at(line, here)
        assert code == 0 and b"<Ctrl-D>" in seen, (line, code, seen)


def check_programs(source, node_modules):
    stubs, = blocks(source, "From a program", "sh")
    python, = blocks(source, "From a program", "python")
    node, = blocks(source, "From a program", "js")
    with tempfile.TemporaryDirectory() as here:
        os.symlink(os.path.join(source, "proto"), os.path.join(here, "proto"))
        done = run(["bash", "-ec", stubs], cwd=here)
        assert done.returncode == 0, done
        done = run(["/usr/bin/python3", "-B", "-c", python], cwd=here)
        assert done.stdout == b"b'42\\n'\n", done
        env = dict(os.environ, NODE_PATH=node_modules)
        done = run(["node", "-e", node],
                   cwd=here, env=env)
        assert done.stdout == b"42\n\n", done


def main():
    source, programs, node_modules = sys.argv[1:]
    os.environ["PATH"] = programs + os.pathsep + os.environ["PATH"]
    with tempfile.TemporaryDirectory() as here:
        check_terminal(source, here)
        check_interactive(source, here)
    check_programs(source, node_modules)


main()
