import stat

open("/workspace/program", "w").close()
for path in ("/workspace/program",):
    for bit, name in ((stat.S_ISUID, "setuid"), (stat.S_ISGID, "setgid")):
        refused("chmod %s" % name, lambda: os.chmod(path, 0o755 | bit))
refused("open with setuid", lambda: os.open("/workspace/new", os.O_CREAT | os.O_WRONLY, 0o4755))
for name, call in (("setuid 0", lambda: os.setuid(0)), ("setgid 0", lambda: os.setgid(0)),
                   ("setresuid 0", lambda: os.setresuid(0, 0, 0)), ("setgroups", lambda: os.setgroups([0])),
                   ("chown to root", lambda: os.chown("/workspace/program", 0, 0))):
    refused(name, call)
must("not root", os.getuid() != 0 and os.geteuid() != 0)
status = dict(line.split(":\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\t" in line)
for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
    must("%s is empty" % name, int(status[name], 16) == 0)
must("no_new_privs", status["NoNewPrivs"] == "1")
must("seccomp filter", status["Seccomp"] == "2")
report()
