import time

made = 0
try:
    while made < 1000:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
        made += 1
except OSError as error:
    held.append("refused after %d: %s" % (made, error.strerror))
must("the limit stopped it, after %d" % made, made < 100)
report()
