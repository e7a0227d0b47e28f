"""What the hostile tests share: the real Box (tests/interop/boxd_lib.py) and programs compiled inside.

A test file is run for one class of it at a time, so that every row is a test of CTest by itself:
    test_x.py PROGRAMS STUBS CLASS...
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "interop"))

from boxd_lib import *  # noqa: E402,F401,F403 pylint: disable=wildcard-import,unused-wildcard-import,wrong-import-position
import boxd_lib  # noqa: E402 pylint: disable=wrong-import-position


class HostileCase(boxd_lib.BoxdCase):
    """A test against the one server of the run; `self.sid` is a session name of its own."""

    def compile(self, name, session_id, *flags):
        """Compiles a C file of this folder inside the session, as /workspace/NAME."""
        with open(os.path.join(HERE, name + ".c"), "rb") as f:
            source = f.read()
        self.completes(self.client.run(
            f"cat >{name}.c && gcc -w -O1 -o {name} {name}.c {' '.join(flags)}", session_id,
            stdin=source))

    def honest(self):
        """Another caller's command still works."""
        self.assertEqual(self.client.out(["echo", "honest"]), "honest")


def main():
    """As boxd_lib.main; `python test_x.py PROGRAMS STUBS CLASS...`."""
    boxd_lib.main()
