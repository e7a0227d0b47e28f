made = 0
os.mkdir("/workspace/many")
try:
    while made < 200000:
        os.close(os.open("/workspace/many/%d" % made, os.O_WRONLY | os.O_CREAT, 0o600))
        made += 1
except OSError as error:
    held.append("refused after %d files: %s" % (made, error.strerror))
must("the limit stopped it, after %d" % made, made < 200000)
for i in range(made):
    os.unlink("/workspace/many/%d" % i)
os.rmdir("/workspace/many")
report()
