"""The README's commands and programs do what it says, as they stand there. The server is in the
environment (with_boxd.py).

    readme_test.py SOURCE PROGRAMS NODE_MODULES
"""

import fcntl
import json
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import urllib.request

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
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
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


def begin(line, here):
    return subprocess.Popen(["bash", "-c", f"exec {line}"], cwd=here, stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def check_lasting(source, here):
    """What one looks at, or through, as long as one likes."""
    logs, forward, attach, terminal = (
        line.split("  #")[0] for line in blocks(source, "At a terminal", "sh")[2].splitlines())
    for name, command in (("web", "echo begins; exec python3 -m http.server 8000"),
                          ("my-mcp-server", "exec cat")):
        done = run(["boxcli", "process", "start", "work", "--id", name, "--shell", command], cwd=here)
        assert done.returncode == 0, done
    child = begin(logs, here)
    assert child.stdout.readline() == b"begins\n"
    assert child.poll() is None
    child.terminate()
    child.communicate()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    child = begin(forward.replace("9000:", f"{port}:") + " --wait 30s", here)
    assert b"port 8000 of work" in child.stdout.readline()
    with urllib.request.urlopen(f"http://localhost:{port}", timeout=60) as page:
        assert b"Directory listing" in page.read()
    child.send_signal(signal.SIGINT)
    child.communicate()
    assert child.returncode == 0, child.returncode
    done = run(["bash", "-c", attach], cwd=here, input=b"a request\n")
    assert (done.returncode, done.stdout) == (0, b"a request\n"), done
    code, seen = sit_at(terminal, here)
    assert code == 0 and b"<Ctrl-D>" in seen, (code, seen)
    done = run(["boxcli", "session", "delete", "work"])
    assert done.returncode == 0, done


def check_mcp(source, here):
    """Entries of a client's configuration: its file is JSON, their commands begin and end."""
    box, mine = (json.loads(text)["mcpServers"] for text in blocks(source, "From a model", "json"))
    done = run([box["box"]["command"], *box["box"]["args"]], cwd=here, input=b"")
    assert (done.returncode, done.stdout) == (0, b""), done
    project = os.path.join(here, "home/me/notes")
    os.makedirs(project)
    with open(os.path.join(project, "server.py"), "w", encoding="utf-8") as f:
        f.write("import sys\nfor line in sys.stdin:\n    print('got', line, end='', flush=True)\n")
    command = [mine["notes"]["command"], *(word.replace("/home/me", os.path.join(here, "home/me"))
                                           for word in mine["notes"]["args"])]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/")
    child.stdin.write(b"it\n")
    child.stdin.flush()
    assert child.stdout.readline() == b"got it\n"
    child.communicate()
    assert child.returncode == 0, child.returncode
    done = run(["boxcli", "session", "delete", "mcp-shared"])
    assert done.returncode == 0, done


def check_service(source, programs, here):
    """The two configurations are valid; where a file is missing, its name is said."""
    boxd, warden = blocks(source, "Running it for real", "yaml")[:2]
    for program, text, extra in (("boxd", boxd, []), ("box-warden", warden, ["--backend", "namespace"])):
        text = text.replace("/etc/box", here).replace("peer_uid: box\n", "peer_uid: root\n")
        config = os.path.join(here, program + ".yaml")
        with open(config, "w", encoding="utf-8") as f:
            f.write(text)
        check = [os.path.join(programs, program), *extra, "--check-config", "--config", config]
        if program == "boxd":
            done = run(check)
            assert done.returncode == 1 and b"server.pem: No such file" in done.stderr, done
            made = run([os.path.join(source, "certs/make"), here])
            assert made.returncode == 0, made
        done = run(check)
        assert done.returncode == 0, done


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
        check_lasting(source, here)
        check_mcp(source, here)
        check_service(source, programs, here)
    check_programs(source, node_modules)


main()
