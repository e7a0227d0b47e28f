#!/bin/sh
# Every global name that our archives define begins with box_ or is one a generator made: a program
# that links libbox.a keeps all other names for itself.
#   symbols.sh NM ARCHIVE...
set -eu
nm=$1
shift
[ $# -gt 0 ] || { echo "no archive to look at"; exit 1; }
found=$("$nm" -g --defined-only -A "$@" | awk 'NF >= 3 { print $NF }' | sort -u)
echo "$found" | grep -q '^box_' || { echo "$nm shows nothing of ours"; exit 1; }
# __: the compiler's and the sanitizers' own. grpc_: tables of grpc.health and grpc.reflection.
strange=$(echo "$found" | grep -vE '^(box_|box__|Box__|grpc_|grpc__|google__|__)' || true)
[ -z "$strange" ] || { printf 'global names without the prefix box_:\n%s\n' "$strange"; exit 1; }
