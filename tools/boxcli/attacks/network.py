import socket
import sys

port = int(sys.argv[1])
targets = [(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", port), "this machine's loopback"),
           (socket.AF_INET6, socket.SOCK_STREAM, ("::1", port), "this machine's IPv6 loopback"),
           (socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 5410), "Box's port"),
           (socket.AF_INET, socket.SOCK_STREAM, ("169.254.169.254", 80), "a cloud's metadata"),
           (socket.AF_INET, socket.SOCK_STREAM, ("192.0.2.1", 80), "the world (TCP)"),
           (socket.AF_INET6, socket.SOCK_STREAM, ("2001:db8::1", 80), "the world (IPv6)"),
           (socket.AF_INET, socket.SOCK_DGRAM, ("192.0.2.1", 53), "the world (UDP)")]


def reach(family, kind, address):
    with socket.socket(family, kind) as s:
        s.settimeout(2)
        s.connect(address)
        s.send(b"box-drill")


for family, kind, address, name in targets:
    refused(name, lambda: reach(family, kind, address))
for family, kind, name in ((17, socket.SOCK_RAW, "AF_PACKET"), (socket.AF_INET, socket.SOCK_RAW, "raw IP"),
                           (40, socket.SOCK_STREAM, "AF_VSOCK"), (38, socket.SOCK_SEQPACKET, "AF_ALG"),
                           (31, socket.SOCK_RAW, "bluetooth")):
    def make():
        socket.socket(family, kind, 1 if name == "raw IP" else 0).close()
    refused(name, make)
names = [name for _, name in socket.if_nameindex()]
must("no interface but lo", names in ([], ["lo"]))
report()
