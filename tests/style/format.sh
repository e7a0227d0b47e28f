#!/bin/sh
# All C code is laid out as .clang-format says. To mend: clang-format -i FILE.
set -eu
cd "$1"
clang-format --version 2>/dev/null | grep -q 'version 14\.' || {
    echo "needs clang-format 14: other versions lay the same code out differently"
    exit 77
}
git rev-parse --is-inside-work-tree >/dev/null 2>&1 || {
    echo "needs a git checkout, which knows the files that are ours"
    exit 77
}
# What protoc-gen-boxc writes has a layout of its own.
git ls-files '*.c' '*.h' ':!tests/gen/expected' | xargs -r clang-format --dry-run -Werror
