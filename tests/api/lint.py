"""Checks the .proto files against the rules of the API.

    lint.py --protoc PROTOC --proto DIR --reasons reason.def --scopes identity.h

Each rule is a function that yields one line for each thing that breaks it.
"""
import argparse
import keyword
import re
import sys

import descriptors as d

# Names that do not work as a struct member in C or C++: keywords, and macros of common headers.
C_NAMES = set("""
    auto break case char const continue default do double else enum extern float for goto if inline
    int long register restrict return short signed sizeof static struct switch typedef union unsigned
    void volatile while
    alignas alignof and and_eq asm bitand bitor bool catch char16_t char32_t class compl concept
    const_cast constexpr decltype delete dynamic_cast explicit export false friend mutable namespace
    new noexcept not not_eq nullptr operator or or_eq private protected public reinterpret_cast
    requires static_assert static_cast template this thread_local throw true try typeid typename
    using virtual wchar_t xor xor_eq
    errno stdin stdout stderr linux unix i386 assert offsetof major minor makedev complex
    imaginary noreturn va_list va_start va_end va_arg setjmp st_atime st_mtime st_ctime
    si_pid si_uid si_status si_value sa_handler sa_sigaction s_addr h_addr environ
    """.split())
# Lists that never need pages; their comment says why.
UNPAGED = {"ListBackends", "ListTools", "ListErrors"}
MAX_DEPTH = 8
OPTIONS = ["go_package", "java_package", "java_multiple_files", "java_outer_classname",
           "csharp_namespace", "objc_class_prefix", "php_namespace", "ruby_package"]


def camel(name):
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def upper_snake(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).upper()


def fields(files):
    for file in files:
        for full, message, _ in d.messages(file):
            if not message.options.map_entry:
                for f in message.field:
                    yield full + "." + f.name, message, f


def methods(files):
    for file in files:
        for si, service in enumerate(file.service):
            for mi, method in enumerate(service.method):
                yield file, service, method, (6, si, 2, mi)


def comments(file):
    return {tuple(l.path): l.leading_comments for l in file.source_code_info.location
            if l.leading_comments.strip()}


def check_files(files, _):
    for file in files:
        if file.syntax != "proto3" or file.package != "box.v1":
            yield "%s: must be proto3, package box.v1" % file.name
        for name in file.dependency:
            if not name.startswith(("box/v1/", "google/protobuf/")):
                yield "%s: imports %s; only google/protobuf/* is allowed" % (file.name, name)
        for option in OPTIONS:
            if not file.options.HasField(option):
                yield "%s: option %s is missing" % (file.name, option)


def check_comments(files, _):
    for file in files:
        have = comments(file)
        things = []
        for full, m, path in d.messages(file):
            if m.options.map_entry:
                continue
            things.append((full, path))
            things += [(full + "." + f.name, path + (2, i)) for i, f in enumerate(m.field)]
            synthetic = {f.oneof_index for f in m.field if f.proto3_optional}
            things += [(full + "." + o.name, path + (8, i)) for i, o in enumerate(m.oneof_decl)
                       if i not in synthetic]
        for full, e, path in d.enums(file):
            things.append((full, path))
            things += [(full + "." + v.name, path + (2, i)) for i, v in enumerate(e.value)]
        for i, s in enumerate(file.service):
            things.append((s.name, (6, i)))
        things += [(s.name + "." + m.name, path) for f, s, m, path in methods([file])]
        for name, path in things:
            if path not in have:
                yield "%s: %s has no comment" % (file.name, name.lstrip("."))


def check_recursion(files, _):
    uses = {}
    for file in files:
        for full, message, _path in d.messages(file):
            uses[full] = [f.type_name for f in message.field if f.type == d.FIELD.TYPE_MESSAGE]

    def depth(name, above):
        if name in above:
            raise RecursionError(" -> ".join(above + [name]))
        return 1 + max([depth(n, above + [name]) for n in uses.get(name, [])], default=0)

    for name in uses:
        try:
            if depth(name, []) > MAX_DEPTH:
                yield "%s: nested deeper than %d messages" % (name, MAX_DEPTH)
        except RecursionError as loop:
            yield "recursive: %s" % loop


def check_fields(files, _):
    for full, message, f in fields(files):
        name = full.lstrip(".")
        if f.proto3_optional and f.type == d.FIELD.TYPE_MESSAGE:
            yield "%s: optional on a message field" % name
        if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", f.name):
            yield "%s: not lower_snake_case" % name
        if f.name in C_NAMES or keyword.iskeyword(f.name):
            yield "%s: a keyword or macro in C, C++ or Python" % name
        if f.type in (d.FIELD.TYPE_FLOAT, d.FIELD.TYPE_DOUBLE):
            yield "%s: floating point has no place in the API" % name
        if f.name.startswith("n_") and any(
                o.name == f.name[2:] and o.label == d.FIELD.LABEL_REPEATED for o in message.field):
            yield "%s: protobuf-c makes that name for the count of %s" % (name, f.name[2:])


def check_units(files, _):
    for full, _message, f in fields(files):
        kind = d.type_name(f)
        want = None
        if f.name.endswith("_bytes"):
            want = ("int64", "bytes")
        elif f.name.endswith("_millis"):
            want = ("int32",)
        elif f.name.endswith("_at"):
            want = ("google.protobuf.Timestamp",)
        elif kind != "bool" and re.search(r"(^|_)(timeout|ttl|grace|backoff|interval|wait)$", f.name):
            want = ("google.protobuf.Duration",)
        if want and kind not in want:
            yield "%s: is %s, must be %s" % (full.lstrip("."), kind, " or ".join(want))


def check_oneofs(files, _):
    """protobuf-c makes type M__XCase and member x_case for a oneof x, also for that of optional x."""
    for file in files:
        for full, message, _path in d.messages(file):
            taken = {n.name for n in message.nested_type} | {e.name for e in message.enum_type}
            names = {f.name for f in message.field}
            for oneof in message.oneof_decl:
                case = camel(oneof.name) + "Case"
                if case in taken:
                    yield "%s.%s: its case type %s is taken" % (full, oneof.name, case)
                taken.add(case)
                if oneof.name + "_case" in names:
                    yield "%s.%s: member %s_case is taken" % (full, oneof.name, oneof.name)


def check_enums(files, _):
    for file in files:
        for full, enum, _path in d.enums(file):
            prefix = upper_snake(enum.name) + "_"
            if enum.value[0].number != 0 or enum.value[0].name != prefix + "UNSPECIFIED":
                yield "%s: the first value must be %sUNSPECIFIED = 0" % (full, prefix)
            for v in enum.value:
                if not v.name.startswith(prefix):
                    yield "%s: %s does not begin with %s" % (full, v.name, prefix)


def check_methods(files, _):
    used = {f.type_name for _full, _m, f in fields(files) if f.type == d.FIELD.TYPE_MESSAGE}
    seen = {}
    for file, service, m, _path in methods(files):
        name = service.name + "." + m.name
        for kind, actual in (("Request", m.input_type), ("Response", m.output_type)):
            if actual != ".%s.%s%s" % (file.package, m.name, kind):
                yield "%s: its %s must be called %s%s" % (name, kind.lower(), m.name, kind)
            if actual in seen:
                yield "%s: shares %s with %s" % (name, actual, seen[actual])
            if actual in used:
                yield "%s: %s is a field of another message" % (name, actual)
            seen[actual] = name
        if m.name in ("Init", "Descriptor") or m.name.lower() in C_NAMES:
            yield "%s: collides with a generated name or a keyword" % name


def check_pages(files, _):
    shape = {full: {f.name: d.type_name(f) for f in m.field}
             for file in files for full, m, _path in d.messages(file)}
    for _file, service, m, _path in methods(files):
        if not m.name.startswith("List") or m.name in UNPAGED:
            continue
        request, response = shape[m.input_type], shape[m.output_type]
        if request.get("page_size") != "int32" or request.get("page_token") != "string" \
                or response.get("next_page_token") != "string":
            yield "%s.%s: a list has page_size, page_token and next_page_token" % (
                service.name, m.name)


def check_method_comments(files, args):
    """Each comment names a scope that exists (or any token) and only reasons that exist."""
    with open(args.reasons, encoding="utf-8") as f:
        reasons = set(re.findall(r"^BOX_REASON\((\w+),", f.read(), re.M))
    with open(args.scopes, encoding="utf-8") as f:
        scopes = {s.lower().replace("_", ".") for s in
                  re.findall(r"^\s*BOX_SCOPE_(\w+) = 1 <<", f.read(), re.M)}
    for file, service, m, path in methods(files):
        name = service.name + "." + m.name
        text = " ".join(comments(file).get(path, "").split())
        named = re.findall(r"[Ss]cope ([a-z]+\.[a-z]+)", text)
        if not named and "Any token." not in text:
            yield "%s: the comment names no scope" % name
        for scope in set(named) - scopes:
            yield "%s: no scope is called %s" % (name, scope)
        for sentence in re.findall(r"Errors: (.*)", text):
            for reason in set(re.findall(r"\b[A-Z][A-Z_]{3,}\b", sentence)) - reasons:
                yield "%s: no reason is called %s" % (name, reason)


RULES = [check_files, check_comments, check_recursion, check_fields, check_units, check_oneofs,
         check_enums, check_methods, check_pages, check_method_comments]


def lint(descriptor_set, args, rules=None):
    files = d.own_files(descriptor_set)
    return [line for rule in rules or RULES for line in rule(files, args)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--protoc", default="protoc")
    parser.add_argument("--proto", required=True)
    parser.add_argument("--reasons", required=True)
    parser.add_argument("--scopes", required=True)
    args = parser.parse_args()
    found = lint(d.load(args.protoc, args.proto), args)
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
