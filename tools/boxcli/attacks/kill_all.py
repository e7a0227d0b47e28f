import signal

for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP, signal.SIGSEGV):
    refused("kill 1 with %s" % number.name, lambda: os.kill(1, number))
    try:
        os.kill(-1, number)  # whoever may be killed is
    except OSError:
        pass
report()
