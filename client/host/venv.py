"""Makes the virtual environment of a project, once for all that need the same:

    python3 -c SCRIPT PROJECT FOLDER HASH

PROJECT is where the project is, FOLDER that of all environments, HASH stands for all files of the project.
Says on stdout where the environment is, in one line, and PATH with its programs first in the next; an empty
first line: the project wants none. What pip says goes to stderr. Two at once wait for each other; one that
ends early, however, leaves nothing that counts as made.
"""
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys

MANIFESTS = ("requirements.txt", "pyproject.toml", "setup.py", "setup.cfg")
LOCAL_ENDS = (".whl", ".zip", ".tar.gz")


def read(project):
    """What the project says it needs, by name of file."""
    found = {}
    for name in MANIFESTS:
        path = os.path.join(project, name)
        if os.path.isfile(path):
            with open(path, "rb") as f:
                found[name] = f.read()
    return found


def lines(content):
    """Of requirements.txt, without comments."""
    text = content.decode("utf-8", "replace").splitlines()
    return [line.strip() for line in text if line.strip() and not line.strip().startswith("#")]


def wanted(found):
    """What pip is to install, as arguments."""
    if "requirements.txt" in found:
        return ["-r", "requirements.txt"] if lines(found["requirements.txt"]) else []
    declared = [line for line in found.get("pyproject.toml", b"").splitlines()
                if line.startswith((b"[project", b"[build-system"))]
    return ["."] if declared or "setup.py" in found else []


def is_local(found):
    """Other files of the project decide what is installed."""
    if "requirements.txt" not in found:
        return True
    return any(line.startswith(("-", ".", "/")) or "file:" in line or line.endswith(LOCAL_ENDS)
               for line in lines(found["requirements.txt"]))


def key(found, content):
    """The environment's name: interpreter, version, what is needed."""
    h = hashlib.sha256()
    parts = [os.path.realpath(sys.executable).encode(), sys.version.encode()]
    for name, data in found.items():
        parts += [name.encode(), data]
    if is_local(found):
        parts.append(content.encode())
    for part in parts:
        h.update(len(part).to_bytes(8, "big") + part)
    return h.hexdigest()[:32]


def run(command, project, temporary):
    """Its stdout is not ours."""
    env = dict(os.environ, TMPDIR=temporary, PIP_NO_INPUT="1", PIP_DISABLE_PIP_VERSION_CHECK="1",
               PIP_NO_CACHE_DIR="1")
    code = subprocess.call(command, cwd=project, env=env, stdin=subprocess.DEVNULL, stdout=2)
    if code != 0:
        sys.exit(f"{' '.join(command[1:4])} ended with {code}")


def make(project, venv, install):
    """Where it will be: its programs hold their own path."""
    temporary = venv + ".tmp"
    for left in (venv, temporary):
        shutil.rmtree(left, ignore_errors=True)
    os.makedirs(temporary)
    try:
        pip = [] if install else ["--without-pip"]
        run([sys.executable, "-m", "venv", *pip, venv], project, temporary)
        if install:
            run([os.path.join(venv, "bin", "python"), "-m", "pip", "install", "--quiet", *install], project,
                temporary)
        os.close(os.open(os.path.join(venv, "made"), os.O_CREAT | os.O_WRONLY, 0o644))
    except BaseException:
        shutil.rmtree(venv, ignore_errors=True)
        raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def main():
    project, folder, content = sys.argv[1:4]
    found = read(project)
    if not found:
        print()
        return
    venv = os.path.join(folder, key(found, content))
    os.makedirs(folder, exist_ok=True)
    with open(venv + ".lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # goes with this process
        if not os.path.exists(os.path.join(venv, "made")):
            make(project, venv, wanted(found))
    print(venv)
    print(os.path.join(venv, "bin") + ":" + os.environ.get("PATH", "/usr/bin:/bin"))


main()
