"""What boxcli does without a server: help, misuse, errors that say what to do, completion.

    boxcli_test.py BOXCLI
"""

import json
import os
import re
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import unittest

BOXCLI = ""
TIMEOUT_SECONDS = 60  # a limit, not a pause


def run(*args, program=None, env=None, **more):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("BOX_")}
    clean.update(env or {})
    return subprocess.run([program or BOXCLI, *args], env=clean, stdin=subprocess.DEVNULL,
                          stdout=more.pop("stdout", subprocess.PIPE), stderr=subprocess.PIPE,
                          text=True, timeout=TIMEOUT_SECONDS, check=False, **more)


def commands():
    return [line.split() for line in run("commands").stdout.splitlines()]


class Help(unittest.TestCase):
    def test_every_command_is_listed_and_has_help(self):
        overview = run("--help")
        self.assertEqual(overview.returncode, 0)
        self.assertGreaterEqual(len(commands()), 23)
        for words in commands():
            self.assertRegex(overview.stdout, r"(?m)^  " + " +".join(words) + " ")
            result = run(*words, "--help")
            with self.subTest(words=words):
                self.assertEqual((result.returncode, result.stderr), (0, ""))
                self.assertIn("Usage: boxcli " + " ".join(words), result.stdout)
                self.assertIn("--help", result.stdout)

    def test_a_noun_alone_shows_its_verbs(self):
        for noun in ("session", "tenant", "token"):
            asked, bare = run(noun, "--help"), run(noun)
            self.assertEqual((asked.returncode, asked.stderr), (0, ""))
            self.assertEqual((bare.returncode, bare.stdout), (2, ""))
            for words in commands():
                if words[0] == noun:
                    self.assertIn(" ".join(words[1:]), asked.stdout)
                    self.assertIn(" ".join(words[1:]), bare.stderr)
                else:
                    self.assertNotIn("  " + words[0], asked.stdout)

    def test_the_version(self):
        self.assertRegex(run("--version").stdout, r"^boxcli \d+\.\d+\.\d+\n$")

    def test_output_that_cannot_be_written_is_a_failure(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            for args in (("--help",), ("commands",)):
                result = run(*args, stdout=full)
                self.assertEqual(result.returncode, 1)
                self.assertEqual(result.stderr,
                                 "boxcli: cannot write the output: No space left on device\n")

    def test_a_reader_that_went_away_is_141_and_no_news(self):
        reader, writer = os.pipe()
        os.close(reader)
        with open(writer, "w", encoding="ascii") as gone:
            result = run("--help", stdout=gone)
        self.assertEqual((result.returncode, result.stderr), (141, ""))

    def test_help_has_no_stray_lines(self):
        for words in commands():
            for line in run(*words, "--help").stdout.splitlines():
                self.assertEqual(line, line.rstrip(), words)

    def test_update_offers_what_can_be_updated(self):
        text = run("session", "update", "--help").stdout
        self.assertEqual(set(re.findall(r"--[a-z-]+", text)) - {"--help", "--usage"},
                         {"--label", "--idle-ttl", "--max-parallel-execs", "--cpu", "--memory",
                          "--pids", "--tools"})
        self.assertEqual(run("session", "update", "x", "--image", "y").returncode, 2)

    def test_what_is_not_built_says_so(self):
        for words in (("run",), ("exec",), ("session", "create")):
            text = run(*words, "--help").stdout
            for option in ("image", "network"):
                self.assertRegex(text, rf"(?m)^ +--{option}.*not built yet\)$")


class Misuse(unittest.TestCase):
    def refused(self, *args, text="", code=2):
        result = run("--endpoint=unix:/nonexistent/box.sock", *args)
        with self.subTest(args=args):
            self.assertEqual(result.returncode, code, result.stderr)
            self.assertEqual(result.stdout, "")
            self.assertIn(text, result.stderr)

    def test_words_nobody_knows(self):
        self.refused()
        self.refused("nonsense", text="nonsense")
        self.refused("session", "nonsense", text="session nonsense")
        self.refused("--nonsense", "health", text="--nonsense")
        self.refused("--endpointx=1", "health", text="--endpointx")
        self.refused("health", "--nonsense", text="nonsense")
        self.refused("completion", "fish", text="fish")

    def test_a_missing_or_surplus_word(self):
        for verb in ("get", "update", "extend", "stop", "delete"):
            self.refused("session", verb, text="SESSION")
            self.refused("session", verb, "a", "b", "c")
        self.refused("tenant", "create", text="TENANT")
        self.refused("token", "revoke", text="TOKEN")
        self.refused("health", "now", text="now")
        self.refused("--token-file", text="--token-file")

    def test_a_run_without_a_command(self):
        self.refused("run", text="command", code=125)
        self.refused("run", "--", text="command", code=125)
        self.refused("run", "--shell", "true", "--", "true", text="exclude", code=125)
        self.refused("exec", text="session", code=125)
        self.refused("exec", "work", text="command", code=125)
        self.refused("exec", "", "--", "true", text="session", code=125)

    def test_misuse_of_run_and_exec_is_not_the_programs_exit_code(self):
        self.refused("run", "--nonsense", "--", "true", text="nonsense", code=125)
        self.refused("exec", "--nonsense", "work", "true", text="nonsense", code=125)
        self.refused("--nonsense", "run", "--", "true", text="--nonsense", code=125)
        self.refused("--nonsense", "whoami", "--", "run", text="--nonsense")

    def test_values_out_of_range(self):
        for option, values in {
                "--memory": ("lots", "1", "-1MiB", "1.5.2MiB", ""),
                "--cpu": ("0", "-1", "nan", "inf", "1x", ""),
                "--pids": ("0", "-5", "x", "99999999999999999999"),
                "--network": ("maybe", "ON"),
                "--host-path-mode": ("rx",),
                "--timeout": ("10", "-1s", "soon"),
                "--env": ("NAME", "=value"),
                "--label": ("NAME",),
        }.items():
            for value in values:
                if option == "--memory" and value == "1":
                    continue  # one byte: the server's to refuse
                self.refused("run", option, value, "--", "true", text=value, code=125)
        self.refused("session", "extend", "work", "soon", text="soon")
        self.refused("session", "list", "--state", "lost", text="lost")
        self.refused("session", "list", "--label", "NAME", text="NAME")
        self.refused("init", "--default-memory", "much", text="much")


class NoServer(unittest.TestCase):
    NOBODY = "--endpoint=unix:/nonexistent/box.sock"

    def test_a_server_that_is_not_there(self):
        for args in (("health",), ("session", "list"), ("session", "create"), ("whoami",)):
            result = run(self.NOBODY, *args)
            self.assertEqual((result.returncode, result.stdout), (1, ""))
            self.assertIn("cannot connect", result.stderr)
            self.assertIn("is boxd running?", result.stderr)
            self.assertEqual(run(self.NOBODY, "--json", *args).returncode, 1)

    def test_a_socket_one_may_not_open(self):
        nobody = 61235
        with tempfile.TemporaryDirectory(prefix="box-socket-") as folder, \
                socket.socket(socket.AF_UNIX) as listener:
            listener.bind(os.path.join(folder, "s"))
            listener.listen()
            if os.geteuid() != 0:
                os.chmod(os.path.join(folder, "s"), 0)
            who = {"user": nobody, "group": nobody} if os.geteuid() == 0 else {}
            os.chmod(folder, 0o711)
            program = shutil.copy(BOXCLI, os.path.join(folder, "boxcli"))
            result = run(f"--endpoint=unix:{folder}/s", "whoami", program=program, cwd="/", **who)
        self.assertEqual(result.returncode, 1)
        self.assertIn("Permission denied", result.stderr)
        self.assertIn("you may not open that socket", result.stderr)
        self.assertNotIn("is boxd running?", result.stderr)

    def test_errors_as_json(self):
        result = run(self.NOBODY, "--json", "whoami")
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        error = json.loads(result.stderr)["error"]
        self.assertEqual((error["code"], error["reason"]), ("UNAVAILABLE", "RUNTIME_UNAVAILABLE"))
        self.assertEqual((error["violations"], error["metadata"]), ([], {}))
        self.assertIn("/nonexistent/box.sock", error["message"])
        result = run(self.NOBODY, "--json", "run", "--", "true")
        self.assertEqual(result.returncode, 125)
        self.assertEqual(json.loads(result.stderr)["error"]["code"], "UNAVAILABLE")
        with open("/dev/full", "w", encoding="ascii") as full:
            error = json.loads(run("--json", "commands", stdout=full).stderr)["error"]
        self.assertIn("No space left on device", error["message"])

    def test_files_of_tls_that_cannot_be_read(self):
        server = "--endpoint=dns:///127.0.0.1:1"
        for option in ("--ca", "--cert"):
            given = run(server, option, "/nope", "whoami")
            self.assertEqual(given.returncode, 1)
            self.assertIn("/nope: No such file or directory", given.stderr)
            named = run(server, "whoami", env={f"BOX_{option[2:].upper()}": "/nope"})
            self.assertEqual(named.stderr, given.stderr)
        result = run(server, "--key", "/nope", "whoami")
        self.assertIn("key file /nope belongs to no certificate file", result.stderr)
        result = run("whoami", env={"BOX_ENDPOINT": "dns:///127.0.0.1:1", "BOX_CERT": "/nope"})
        self.assertIn("certificate file /nope: No such file or directory", result.stderr)

    def test_run_and_exec_end_with_125(self):
        for args in (("run",), ("exec", "work")):
            for more in ((), ("--json",)):
                self.assertEqual(run(self.NOBODY, *more, *args, "--", "true").returncode, 125)

    def test_no_server_named(self):
        result = run("health")
        self.assertEqual(result.returncode, 1)
        self.assertIn("BOX_ENDPOINT", result.stderr)
        self.assertEqual(run("health", env={"BOX_ENDPOINT": ""}).returncode, 1)
        result = run("health", env={"BOX_ENDPOINT": "https://localhost"})
        self.assertIn("dns:///", result.stderr)

    def test_a_token_file_that_is_not_there_or_empty(self):
        with tempfile.NamedTemporaryFile() as empty:
            for path in ("/nonexistent/token", empty.name):
                result = run(self.NOBODY, "--token-file", path, "health")
                self.assertEqual(result.returncode, 1)
                self.assertIn(path, result.stderr)
                self.assertIn("admin.token", result.stderr)

    def test_a_token_is_not_sent_in_clear_text_elsewhere(self):
        with tempfile.NamedTemporaryFile("w") as token:
            token.write("box_secret\n")
            token.flush()
            result = run("--endpoint=dns:///192.0.2.1:1", "--plaintext", "--token-file",
                         token.name, "health")
            self.assertEqual(result.returncode, 1)
            self.assertIn("without TLS", result.stderr)
            self.assertNotIn("secret", result.stderr)

    def test_a_refused_port(self):
        result = run("--endpoint=dns:///127.0.0.1:1", "--plaintext", "health")
        self.assertEqual(result.returncode, 1)
        self.assertIn("is boxd running?", result.stderr)


class Completion(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="box-completion-")
        cls.log = os.path.join(cls.folder.name, "log")
        cls.program = os.path.join(cls.folder.name, "boxcli")

    def setUp(self):
        with open(self.program, "w", encoding="ascii") as f:
            f.write(f'#!/bin/bash\nprintf "%s\\n" "$*" >>{self.log}\nexec {BOXCLI} "$@"\n')
        os.chmod(self.program, stat.S_IRWXU)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def complete(self, *words, ran=()):
        """What TAB offers behind the last of the words, which may be empty."""
        with open(self.log, "w", encoding="ascii"):
            pass
        script = ('set -u; source <("$1" completion bash); shift\n'
                  'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()\n'
                  '_boxcli "$1"; printf "%s\\n" "${COMPREPLY[@]+"${COMPREPLY[@]}"}"')
        result = subprocess.run(["/bin/bash", "--norc", "-c", script, "bash", BOXCLI,
                                 self.program, *words],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                timeout=TIMEOUT_SECONDS, check=True)
        self.assertEqual(result.stderr, "")
        with open(self.log, encoding="ascii") as f:
            for line in f.read().splitlines():
                self.assertTrue(line == "commands" or line in ran, line)
        return set(result.stdout.split())

    def test_it_is_registered(self):
        self.assertRegex(run("completion", "bash").stdout, r"(?m)^complete .*-F _boxcli boxcli$")

    def test_nouns_and_verbs(self):
        everything = self.complete("")
        for words in commands():
            self.assertIn(words[0], everything)
        self.assertIn("--endpoint", everything)
        self.assertEqual(self.complete("ses"), {"session"})
        self.assertEqual(self.complete("session", "st"), {"stop"})
        self.assertLessEqual({"create", "get", "list"}, self.complete("session", ""))
        self.assertEqual(self.complete("completion", ""), {"bash"})
        self.assertEqual(self.complete("nonsense", "x"), set())

    def test_files_are_offered_only_where_one_is_wanted(self):
        self.assertNotIn("-o default", run("completion", "bash").stdout.splitlines()[-1])

    def test_ids_of_sessions(self):
        """From a server that knows three, one of them with a name that nobody should run."""
        trap = os.path.join(self.folder.name, "trap")
        ids = ["work", "worse", "other", f"$(touch {trap})"]
        asked = 'session list --ids'
        with open(self.program, "w", encoding="ascii") as f:
            f.write(f'#!/bin/bash\nprintf "%s\\n" "$*" >>{self.log}\n'
                    f'[[ $* == "{asked}" ]] || exec {BOXCLI} "$@"\n'
                    f"printf '%s\\n' {' '.join(repr(i) for i in ids)}\n")
        for words in (("exec",), ("session", "get"), ("session", "update"), ("session", "extend"),
                      ("session", "stop"), ("session", "delete"), ("session", "watch")):
            self.assertEqual(self.complete(*words, "wo", ran={asked}), {"work", "worse"})
            self.assertLessEqual({"work", "other"}, self.complete(*words, "", ran={asked}))
        self.assertEqual(self.complete("session", "get", "work", "wo"), set())
        self.assertEqual(self.complete("session", "list", "wo"), set())
        self.assertEqual(self.complete("--tenant", "x", "session", "get", "wo"), set())
        self.assertFalse(os.path.exists(trap))

    def test_options_of_a_command(self):
        self.assertEqual(self.complete("run", "--mem", ran={"run --help"}), {"--memory"})
        self.assertEqual(self.complete("session", "create", "--idem",
                                       ran={"session create --help"}), {"--idempotency-key"})
        self.assertEqual(self.complete("doctor", "--on", ran={"doctor --help"}), {"--only"})
        self.assertEqual(self.complete("drill", "--b", ran={"drill --help"}), {"--backend"})
        self.assertIn("--allow-missing", self.complete("session", "delete", "work", "--",
                                                       ran={"session delete --help"}))

    def test_global_options_are_stepped_over(self):
        self.assertEqual(self.complete("--json", "ses"), {"session"})
        self.assertEqual(self.complete("--endpoint", "dns", ":", "///host", ":", "5410", "ses"),
                         {"session"})
        self.assertEqual(self.complete("--endpoint", "=", "unix", ":", "/run/x", "session", "st"),
                         {"stop"})
        self.assertEqual(self.complete("--token-file", "ses"), set())

    def test_nothing_that_was_typed_is_run(self):
        self.assertEqual(self.complete("run", "rm", "-"), set())
        self.assertEqual(self.complete("run", "--", "rm", "-"), set())
        self.assertEqual(self.complete("exec", "work", "rm", "-"), set())
        self.assertIn("--timeout", self.complete("exec", "work", "--", ran={"exec --help"}))


if __name__ == "__main__":
    BOXCLI = os.path.abspath(sys.argv.pop(1))
    unittest.main()
