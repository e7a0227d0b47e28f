import time

end = time.monotonic() + 2
for _ in range(3):
    if os.fork() == 0:
        break
while time.monotonic() < end:
    pass
