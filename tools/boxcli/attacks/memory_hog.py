taken = []
for _ in range(512):
    taken.append(bytearray(b"x") * (1 << 20))
print("broken: 512 MiB were there to take")
