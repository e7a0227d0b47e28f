"""Reads .proto files through protoc into google.protobuf descriptors."""
import os
import subprocess
import tempfile

from google.protobuf import descriptor_pb2

FIELD = descriptor_pb2.FieldDescriptorProto

SCALARS = {
    FIELD.TYPE_DOUBLE: "double", FIELD.TYPE_FLOAT: "float", FIELD.TYPE_INT64: "int64",
    FIELD.TYPE_UINT64: "uint64", FIELD.TYPE_INT32: "int32", FIELD.TYPE_FIXED64: "fixed64",
    FIELD.TYPE_FIXED32: "fixed32", FIELD.TYPE_BOOL: "bool", FIELD.TYPE_STRING: "string",
    FIELD.TYPE_BYTES: "bytes", FIELD.TYPE_UINT32: "uint32", FIELD.TYPE_SFIXED32: "sfixed32",
    FIELD.TYPE_SFIXED64: "sfixed64", FIELD.TYPE_SINT32: "sint32", FIELD.TYPE_SINT64: "sint64",
}


def load(protoc, proto_dir):
    """The FileDescriptorSet of every .proto below proto_dir, imports and comments included."""
    names = []
    for base, _, files in os.walk(proto_dir):
        for name in files:
            path = os.path.relpath(os.path.join(base, name), proto_dir)
            if name.endswith(".proto") and path.startswith("box/"):
                names.append(path)
    with tempfile.TemporaryDirectory() as tmp:
        out = os.path.join(tmp, "set.pb")
        subprocess.run(
            [protoc, "-I" + proto_dir, "--include_imports", "--include_source_info",
             "--descriptor_set_out=" + out] + sorted(names), check=True)
        with open(out, "rb") as f:
            return descriptor_pb2.FileDescriptorSet.FromString(f.read())


def own_files(descriptor_set):
    return [f for f in descriptor_set.file if not f.name.startswith("google/protobuf/")]


def messages(file):
    """(full name, descriptor, source-info path) of every message, nested ones included."""
    def walk(prefix, items, path, tag):
        for i, m in enumerate(items):
            here = path + (tag, i)
            yield prefix + "." + m.name, m, here
            yield from walk(prefix + "." + m.name, m.nested_type, here, 3)
    yield from walk("." + file.package, file.message_type, (), 4)


def enums(file):
    """The same of every enum."""
    for i, e in enumerate(file.enum_type):
        yield "." + file.package + "." + e.name, e, (5, i)
    for name, m, path in messages(file):
        for i, e in enumerate(m.enum_type):
            yield name + "." + e.name, e, path + (4, i)


def map_entry(message, field):
    """The entry message of a map field, else None."""
    if field.type != FIELD.TYPE_MESSAGE:
        return None
    for nested in message.nested_type:
        if nested.options.map_entry and field.type_name.endswith("." + nested.name):
            return nested
    return None


def type_name(field):
    return SCALARS.get(field.type) or field.type_name.lstrip(".")
