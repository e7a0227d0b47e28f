"""Our JSON against google.protobuf's: random messages of box.golden go through both, both ways.

usage: json_peer.py JSON_TOOL DESCRIPTOR_SET
"""
import json
import random
import subprocess
import sys

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.descriptor import FieldDescriptor as F

TYPES = ["Outer", "Scalars", "Optionals", "Lists", "Maps", "Choice", "Times"]
ROUNDS = 40
INT_RANGES = {
    F.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    F.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    F.CPPTYPE_UINT32: (0, 2**32 - 1),
    F.CPPTYPE_UINT64: (0, 2**64 - 1),
}
TEXTS = ["", "plain", 'a"b\\c\n\t\r\x01', "grüß 😀", "\u2028/\x7f", "x" * 300]
# No -0.0: protobuf-c takes it for zero when packing.
FLOATS = [0.0, 1.0, -1.5, 0.25, 16777216.0, float("inf"), float("-inf")]
DOUBLES = FLOATS + [0.1, 1 / 3, 1e300, 5e-324, -123456789.123]


def load(path):
    files = descriptor_pb2.FileDescriptorSet()
    with open(path, "rb") as f:
        files.ParseFromString(f.read())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    factory = message_factory.MessageFactory(pool)
    return {t: factory.GetPrototype(pool.FindMessageTypeByName("box.golden." + t)) for t in TYPES}


def scalar(r, field):
    kind = field.cpp_type
    if kind in INT_RANGES:
        low, high = INT_RANGES[kind]
        return r.choice([0, 1, low, high, r.randint(low, high)])
    if kind == F.CPPTYPE_BOOL:
        return r.random() < 0.5
    if kind == F.CPPTYPE_ENUM:
        return r.choice([0, 1, 7, 99]) if len(field.enum_type.values) > 2 else r.choice([0, 1])
    if kind == F.CPPTYPE_FLOAT:
        return r.choice(FLOATS)
    if kind == F.CPPTYPE_DOUBLE:
        return r.choice(DOUBLES)
    if field.type == F.TYPE_BYTES:
        return r.randbytes(r.randint(0, 20))
    return r.choice(TEXTS)


def fill_well_known(r, m):
    name = m.DESCRIPTOR.full_name
    nanos = r.choice([0, 500_000_000, 1_000, 999_999_999])
    if name == "google.protobuf.Timestamp":
        m.seconds, m.nanos = r.randint(-62135596800, 253402300799), nanos
    elif name == "google.protobuf.Duration":
        sign = r.choice([-1, 1])
        m.seconds, m.nanos = sign * r.randint(0, 315576000000 - 1), sign * nanos
    elif name == "google.protobuf.FieldMask":
        m.paths.extend(r.choice(["labels", "spec.cpu_millis", "a_b.c_d"]) for _ in range(3))
    else:
        return False
    return True


def fill_map(r, m, field):
    key, value = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
    entries = getattr(m, field.name)
    for _ in range(r.randint(0, 3)):
        k = scalar(r, key)
        if value.message_type:
            fill(r, entries[k])
        else:
            entries[k] = scalar(r, value)


def fill_field(r, m, field):
    if field.message_type and field.message_type.GetOptions().map_entry:
        fill_map(r, m, field)
    elif field.label == F.LABEL_REPEATED:
        for _ in range(r.randint(0, 4)):
            if field.message_type:
                fill(r, getattr(m, field.name).add())
            else:
                getattr(m, field.name).append(scalar(r, field))
    elif field.message_type:
        getattr(m, field.name).SetInParent()
        fill(r, getattr(m, field.name))
    else:
        setattr(m, field.name, scalar(r, field))


def fill(r, m):
    if fill_well_known(r, m):
        return
    for field in m.DESCRIPTOR.fields:
        if r.random() < 0.6:
            fill_field(r, m, field)


def run(tool, how, type_name, data):
    done = subprocess.run([tool, how, type_name], input=data, capture_output=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{how} {type_name} failed: {done.stderr.decode()} for {data!r}")
    return done.stdout


def compare(tool, type_name, make, m):
    ours = run(tool, "to-json", type_name, m.SerializeToString()).decode()
    theirs = json_format.MessageToJson(m)
    if json_format.Parse(ours, make()) != m:
        sys.exit(f"{type_name}: Python does not read what we wrote: {ours}")
    if json.loads(ours) != json.loads(theirs):
        sys.exit(f"{type_name}: not the same JSON:\n{ours}\n{theirs}")
    back = make()
    back.ParseFromString(run(tool, "from-json", type_name, theirs.encode()))
    if back != m:
        sys.exit(f"{type_name}: we read something else than Python wrote: {theirs}")


def main():
    tool, descriptor_set = sys.argv[1:]
    types = load(descriptor_set)
    r = random.Random(5410)
    for _ in range(ROUNDS):
        for type_name, make in types.items():
            m = make()
            fill(r, m)
            compare(tool, type_name, make, m)


main()
