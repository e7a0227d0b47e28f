import signal
import time

for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
                signal.signal(number, signal.SIG_IGN)
            for fd in range(3):
                os.close(fd)
            time.sleep(60)
        os._exit(0)
for _ in range(3):
    os.wait()
