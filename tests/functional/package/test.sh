#!/bin/bash
# install.package BUILD SOURCE CC CXX: installs a build into a temporary prefix and uses it as a stranger would.
set -euo pipefail
build=$1 source=$2 cc=$3 cxx=$4
here=$source/tests/functional/package
work=$(mktemp -d /tmp/box-package-XXXXXX)
trap 'rm -rf "$work"' EXIT
prefix=$work/first

die() {
    printf 'install.package: %s\n' "$*" >&2
    exit 1
}

step() {
    printf -- '-- %s\n' "$*"
}

step "install, then move the tree: nothing may depend on where it was"
cmake --install "$build" --prefix "$prefix" >"$work/install.log"
for unit in boxd.service box-warden@.service; do
    grep -q "^ExecStart=$prefix/" "$prefix/lib/systemd/system/$unit" || die "$unit does not name the installed program"
    ! grep -q '@[A-Z]' "$prefix/lib/systemd/system/$unit" || die "$unit has a place that was not filled"
done
if command -v systemd-analyze >/dev/null; then
    step "units"
    cp "$prefix/lib/systemd/system/box-warden@.service" "$work/box-warden@namespace.service"
    cp "$prefix/lib/systemd/system/boxd.service" "$work"
    systemd-analyze verify --man=no "$work/boxd.service" "$work/box-warden@namespace.service" 2>"$work/verify.log" ||
        die "$(cat "$work/verify.log")"
    ! grep -E 'boxd|box-warden' "$work/verify.log" || die "systemd has complaints"
fi
mv "$prefix" "$work/prefix"
prefix=$work/prefix
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig

step "programs"
for program in bin/boxd bin/boxcli bin/boxbench libexec/box/box-warden libexec/box/box-agent libexec/box/box-files; do
    [ -x "$prefix/$program" ] || die "$program is not installed"
done
[ "$("$prefix/bin/boxcli" --version)" = "boxcli $(pkg-config --modversion box)" ] || die "boxcli has another version"
"$prefix/bin/boxd" --config "$prefix/share/doc/box/examples/boxd.yaml" --check-config
peer=$(id -un)
sed "s/^peer_uid: box$/peer_uid: $peer/" "$prefix/share/doc/box/examples/warden-namespace.yaml" >"$work/warden.yaml"
"$prefix/libexec/box/box-warden" --backend namespace --config "$work/warden.yaml" --check-config

[ -f "$prefix/lib/sysctl.d/60-box.conf" ] || die "the kernel settings are not installed"

step "no path of the build or source tree in what is read by people and tools"
! grep -rIlE "$build|$source" "$prefix/include" "$prefix/lib/pkgconfig" "$prefix/lib/cmake" "$prefix/lib/systemd" \
    "$prefix/share" || die "the files above name it"
! find "$prefix/include" -name '*.box.h' | grep . || die "server headers are installed"

step "every header stands alone, in C and C++"
while read -r header; do
    for mode in "$cc -std=c11 -pedantic -x c" "$cxx -std=c++17 -pedantic -x c++"; do
        # shellcheck disable=SC2046,SC2086
        printf '#include <%s>\n' "$header" | $mode -Wall -Wextra -Werror -fsyntax-only $(pkg-config --cflags box) - ||
            die "$header: $mode"
    done
done < <(cd "$prefix/include" && find box -name '*.h' | sort)

check_example() {
    local out code=0
    out=$("$1" 2>&1) && code=0 || code=$?
    [[ $code == 2 && $out == "libbox $(pkg-config --modversion box):"* ]] || die "$1: $out"
    out=$(BOX_ENDPOINT=unix:$work/nobody "$1" true 2>&1) && code=0 || code=$?
    [[ $code == 125 && $out == RUNTIME_UNAVAILABLE:* ]] || die "$1: $out"
}

step "pkg-config"
# shellcheck disable=SC2046
"$cc" -Wall -Wextra -Werror "$here/example.c" -o "$work/example" $(pkg-config --cflags --libs box)
check_example "$work/example"

step "the example of the README"
awk '/^```c$/ { on = 1; next } /^```$/ { on = 0 } on' "$source/README.md" >"$work/readme.c"
# shellcheck disable=SC2046
"$cc" -Wall -Wextra -Werror "$work/readme.c" -o "$work/readme" $(pkg-config --cflags --libs box)
out=$(BOX_ENDPOINT=unix:$work/nobody "$work/readme" 2>&1) && die "the README's example found a server"
[[ $out == "cannot connect to $work/nobody:"* ]] || die "the README's example: $out"

step "pkg-config, from C++"
# shellcheck disable=SC2046
printf '#include <cstdio>\n#include <box/v1/control.client.h>\nint main() { std::puts(box_version()); }\n' |
    "$cxx" -std=c++17 -Wall -Wextra -pedantic -Werror -x c++ - -o "$work/example-cxx" $(pkg-config --cflags --libs box)
[ "$("$work/example-cxx")" = "$(pkg-config --modversion box)" ] || die "the C++ program failed"

step "CMake"
cmake -G Ninja -S "$here" -B "$work/cmake" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc" \
    -DCMAKE_C_FLAGS="-Wall -Wextra -Werror" >"$work/cmake.log"
cmake --build "$work/cmake" >"$work/build.log" || die "$(cat "$work/build.log")"
check_example "$work/cmake/example"

step "completion"
bash -n "$prefix/share/bash-completion/completions/boxcli"
grep -q 'complete .*boxcli' "$prefix/share/bash-completion/completions/boxcli" || die "the completion completes nothing"

step "protos"
protoc -I "$prefix/share/box/proto" --descriptor_set_out=/dev/null "$prefix"/share/box/proto/box/v1/*.proto
