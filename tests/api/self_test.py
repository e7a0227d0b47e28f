"""The API tests tested: each rule is broken once, in a small API, and must be found."""
import argparse
import os
import sys
import tempfile
import unittest

import descriptors as d
import lint
import listing

OPTIONS = "".join('option %s = %s;\n' % (o, "true" if o == "java_multiple_files" else '"x/y"')
                  for o in listing.OPTIONS)
GOOD = """
// The file.
syntax = "proto3";
package box.v1;
import "google/protobuf/duration.proto";
""" + OPTIONS + """
// A service.
service ThingService {
  // Gets. Scope session.read. Errors: VALIDATION.
  rpc ListThings(ListThingsRequest) returns (ListThingsResponse);
}
// Colour.
enum Colour {
  // None.
  COLOUR_UNSPECIFIED = 0;
  // Red.
  COLOUR_RED = 1;
}
// A thing.
message Thing {
  // Its name.
  string name = 1;
  // Its size.
  optional int64 size_bytes = 2;
  // How long.
  google.protobuf.Duration timeout = 3;
  // Its colour.
  Colour colour = 4;
  // One of.
  oneof choice {
    // Left.
    string left = 5;
  }
  // Marks.
  map<string, string> labels = 6;
}
// Request.
message ListThingsRequest {
  // Size.
  int32 page_size = 1;
  // Token.
  string page_token = 2;
}
// Response.
message ListThingsResponse {
  // Things.
  repeated Thing things = 1;
  // Token.
  string next_page_token = 2;
}
"""
ARGS = argparse.Namespace()
PROTOC = "protoc"


def parse(text):
    with tempfile.TemporaryDirectory() as tmp:
        os.makedirs(os.path.join(tmp, "box/v1"))
        with open(os.path.join(tmp, "box/v1/thing.proto"), "w", encoding="utf-8") as f:
            f.write(text)
        return d.load(PROTOC, tmp)


def changed(old, new):
    assert GOOD.count(old) == 1, old
    return GOOD.replace(old, new)


# What is broken, by what it is replaced, and what must be said about it.
BROKEN_RULES = [
    ("package box.v1;", "package box.v2;", "must be proto3, package box.v1"),
    ("option go_package = \"x/y\";\n", "", "option go_package is missing"),
    ("  // Its name.\n", "", "box.v1.Thing.name has no comment"),
    ("  // Red.\n", "", "COLOUR_RED has no comment"),
    ("// Colour.\n", "", "box.v1.Colour has no comment"),
    ("  // One of.\n", "", "choice has no comment"),
    ("// A service.\n", "", "ThingService has no comment"),
    ("  google.protobuf.Duration timeout", "  optional google.protobuf.Duration timeout",
     "optional on a message field"),
    ("Colour colour = 4", "Thing colour = 4", "recursive"),
    ("string name = 1", "string Name = 1", "not lower_snake_case"),
    ("string name = 1", "string template = 1", "keyword or macro"),
    ("string name = 1", "string errno = 1", "keyword or macro"),
    ("string name = 1", "string lambda = 1", "keyword or macro"),
    ("string name = 1", "double name = 1", "floating point"),
    ("  int32 page_size = 1;", "  int32 page_size = 1;\n  // N.\n  int32 n_x = 3;\n  // X.\n"
     "  repeated int32 x = 4;", "for the count of x"),
    ("optional int64 size_bytes", "optional int32 size_bytes", "must be int64 or bytes"),
    ("google.protobuf.Duration timeout", "int32 timeout", "must be google.protobuf.Duration"),
    ("string name = 1", "int64 created_at = 1", "must be google.protobuf.Timestamp"),
    ("string name = 1", "optional string Choice = 1", "case type ChoiceCase is taken"),
    ("string name = 1", "string choice_case = 1", "member choice_case is taken"),
    ("COLOUR_UNSPECIFIED = 0", "COLOUR_NONE = 0", "must be COLOUR_UNSPECIFIED = 0"),
    ("COLOUR_RED = 1", "RED = 1", "does not begin with COLOUR_"),
    ("returns (ListThingsResponse)", "returns (Thing)", "must be called ListThingsResponse"),
    ("Colour colour = 4", "ListThingsRequest colour = 4", "field of another message"),
    ("  rpc ListThings(", "  // Scope session.read.\n  rpc Init(ListThingsRequest) returns "
     "(ListThingsResponse);\n  // Scope session.read.\n  rpc ListThings(", "generated name"),
    ("string page_token = 2", "bytes page_token = 2", "a list has page_size"),
    ("Scope session.read.", "", "names no scope"),
    ("Scope session.read.", "Scope session.eat.", "no scope is called session.eat"),
    ("Errors: VALIDATION.", "Errors: NONSENSE.", "no reason is called NONSENSE"),
]

# The same for the golden listing.
BREAKING = [
    ("string name = 1", "string title = 1", "removed: field box.v1.Thing.name"),
    ("string name = 1", "string name = 9", "changed: field box.v1.Thing.name"),
    ("string name = 1", "bytes name = 1", "changed: field box.v1.Thing.name"),
    ("string name = 1", "repeated string name = 1", "changed: field box.v1.Thing.name"),
    ("optional int64 size_bytes", "int64 size_bytes", "changed: field box.v1.Thing.size_bytes"),
    ("map<string, string> labels", "map<string, int32> labels",
     "changed: field box.v1.Thing.labels"),
    ("  oneof choice {", "  oneof selection {", "changed: field box.v1.Thing.left"),
    ("COLOUR_RED = 1", "COLOUR_RED = 2", "changed: value box.v1.Colour.COLOUR_RED"),
    ("returns (ListThingsResponse)", "returns (stream ListThingsResponse)",
     "changed: method box.v1.ThingService.ListThings"),
    ("rpc ListThings(", "rpc GetThings(", "removed: method box.v1.ThingService.ListThings"),
    ("option java_package = \"x/y\"", "option java_package = \"z\"",
     "changed: option box/v1/thing.proto:java_package"),
]


class ApiTests(unittest.TestCase):
    def test_a_good_api_passes_the_lint(self):
        self.assertEqual(lint.lint(parse(GOOD), ARGS), [])

    def test_each_broken_rule_is_found(self):
        for old, new, says in BROKEN_RULES:
            with self.subTest(new):
                found = lint.lint(parse(changed(old, new)), ARGS)
                self.assertTrue(any(says in line for line in found), found)

    def test_a_foreign_import_is_found(self):
        text = changed("string name = 1", "google.protobuf.Duration name = 1")
        parsed = parse(text)
        parsed.file[-1].dependency.append("google/rpc/status.proto")
        self.assertIn("imports google/rpc/status.proto", lint.lint(parsed, ARGS)[0])

    def test_the_same_api_equals_its_golden(self):
        lines = listing.listing(parse(GOOD))
        self.assertEqual(listing.compare(lines, lines), ([], []))

    def test_each_breaking_change_is_found(self):
        golden = listing.listing(parse(GOOD))
        for old, new, says in BREAKING:
            with self.subTest(new):
                broken, _ = listing.compare(golden, listing.listing(parse(changed(old, new))))
                self.assertTrue(any(says in line for line in broken), broken)

    def test_an_addition_breaks_nothing_and_is_named(self):
        golden = listing.listing(parse(GOOD))
        text = changed("string name = 1;", "string name = 1;\n  // More.\n  string more = 7;")
        broken, added = listing.compare(golden, listing.listing(parse(text)))
        self.assertEqual(broken, [])
        self.assertEqual(added, ["added: field box.v1.Thing.more = 7 string implicit"])


if __name__ == "__main__":
    PROTOC, ARGS.reasons, ARGS.scopes = sys.argv[1:4]
    unittest.main(argv=sys.argv[:1])
