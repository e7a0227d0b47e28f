"""The golden listing of the API: one line for each thing that a client depends on.

    listing.py --protoc PROTOC --proto DIR --golden FILE [--update [--breaking]]

Without --update it compares. What the golden file has must be there unchanged: a removal, another
number, type, label, presence or streaming breaks clients and fails. An addition fails too, with the
command that records it, so that nothing joins the API unseen.
"""
import argparse
import sys

import descriptors as d

OPTIONS = ["go_package", "java_package", "java_multiple_files", "java_outer_classname",
           "csharp_namespace", "objc_class_prefix", "php_namespace", "ruby_package"]


def presence(message, field):
    if d.map_entry(message, field) is not None:
        return "map"
    if field.label == d.FIELD.LABEL_REPEATED:
        return "repeated"
    if field.proto3_optional:
        return "optional"
    if field.HasField("oneof_index"):
        return "oneof:" + message.oneof_decl[field.oneof_index].name
    return "message" if field.type == d.FIELD.TYPE_MESSAGE else "implicit"


def field_type(message, field):
    entry = d.map_entry(message, field)
    if entry is None:
        return d.type_name(field)
    return "map<%s,%s>" % (d.type_name(entry.field[0]), d.type_name(entry.field[1]))


def file_lines(file):
    yield "file %s package=%s syntax=%s" % (file.name, file.package, file.syntax)
    for option in OPTIONS:
        if file.options.HasField(option):
            yield "option %s:%s %s" % (file.name, option, getattr(file.options, option))
    for full, message, _ in d.messages(file):
        if message.options.map_entry:
            continue
        name = full.lstrip(".")
        yield "message %s" % name
        for f in message.field:
            yield "field %s.%s = %d %s %s" % (name, f.name, f.number, field_type(message, f),
                                              presence(message, f))
        for r in message.reserved_range:
            yield "reserved %s:%d..%d" % (name, r.start, r.end - 1)
    for full, enum, _ in d.enums(file):
        yield "enum %s" % full.lstrip(".")
        for v in enum.value:
            yield "value %s.%s = %d" % (full.lstrip("."), v.name, v.number)
    for service in file.service:
        name = "%s.%s" % (file.package, service.name)
        yield "service %s" % name
        for m in service.method:
            yield "method %s.%s %s%s -> %s%s" % (
                name, m.name, "stream " if m.client_streaming else "", m.input_type.lstrip("."),
                "stream " if m.server_streaming else "", m.output_type.lstrip("."))


def listing(descriptor_set):
    return [line for file in d.own_files(descriptor_set) for line in file_lines(file)]


def index(lines):
    """{(kind, name): the rest}."""
    out = {}
    for line in lines:
        if line and not line.startswith("#"):
            kind, name, *rest = line.split(" ", 2)
            out[kind, name] = rest[0] if rest else ""
    return out


def compare(golden, now):
    """(what breaks clients, what is new), each a list of text."""
    old, new = index(golden), index(now)
    broken = []
    for key, value in old.items():
        if key not in new:
            broken.append("removed: %s %s %s" % (key + (value,)))
        elif new[key] != value:
            broken.append("changed: %s %s\n    was %s\n    is  %s" % (key + (value, new[key])))
    added = ["added: %s %s %s" % (key + (new[key],)) for key in new if key not in old]
    return broken, added


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--protoc", default="protoc")
    parser.add_argument("--proto", required=True)
    parser.add_argument("--golden", required=True)
    parser.add_argument("--update", action="store_true", help="record additions")
    parser.add_argument("--breaking", action="store_true", help="with --update: record all else too")
    args = parser.parse_args()

    now = listing(d.load(args.protoc, args.proto))
    try:
        with open(args.golden, encoding="utf-8") as f:
            golden = f.read().splitlines()
    except FileNotFoundError:
        golden = []
    broken, added = compare(golden, now)
    for line in broken + added:
        print(line)
    if broken and not (args.update and args.breaking):
        print("%d changes break clients: give new things new names and numbers" % len(broken))
        return 1
    if args.update:
        with open(args.golden, "w", encoding="utf-8") as f:
            f.write("# The API as clients see it, written by listing.py --update: do not edit.\n")
            f.write("\n".join(now) + "\n")
        return 0
    if added:
        print("%d additions: when they are meant, record them with\n    /usr/bin/python3 %s --proto %s "
              "--golden %s --update" % (len(added), sys.argv[0], args.proto, args.golden))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
