import time

for _ in range(200):
    pid = os.fork()
    if pid == 0:
        if os.fork() == 0:
            time.sleep(0.01)
        os._exit(0)
    os.waitpid(pid, 0)


def zombies():
    found = 0
    for name in os.listdir("/proc"):
        try:
            found += name.isdigit() and ") Z " in open("/proc/%s/stat" % name).read()
        except OSError:
            pass
    return found


for _ in range(200):  # 20 s: a loaded machine is no broken one
    if zombies() == 0:
        break
    time.sleep(0.1)
must("all 200 orphans were reaped", zombies() == 0)
report()
