#!/usr/bin/env bash
# Installs what building (and with --tests: testing) Box needs, as root on Debian 12. Does nothing where
# everything is there; says what is missing where it cannot install.
set -euo pipefail

build=(
    gcc cmake ninja-build pkg-config git
    protobuf-compiler libprotobuf-dev libprotoc-dev protobuf-c-compiler libprotobuf-c-dev
    libnghttp2-dev libssl-dev libuv1-dev libyaml-dev libjansson-dev libsqlite3-dev
    libseccomp-dev libcap-dev zlib1g-dev libpcre2-dev linux-libc-dev musl-tools
    python3 util-linux e2fsprogs ca-certificates
)
tests=(
    clang clang-format clang-tidy libclang-rt-14-dev libcmocka-dev uidmap
    python3-grpcio python3-protobuf protobuf-compiler-grpc python3-h2 python3-hpack python3-pip
    python3-venv patch
    openssl curl procps iproute2 bash-completion nghttp2-client nghttp2-server g++ libgrpc++-dev
    ruby-grpc golang-go golang-google-grpc-dev protoc-gen-go-1-3
)

wanted=("${build[@]}")
if [ "${1:-}" = --tests ]; then
    wanted+=("${tests[@]}")
    # Node and npm also come from elsewhere than Debian: taken from there only when they are absent.
    command -v node >/dev/null || wanted+=(nodejs)
    command -v npm >/dev/null || wanted+=(npm)
fi

missing=()
for package in "${wanted[@]}"; do
    dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null | grep -q '^ii' || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

if [ "$(id -u)" != 0 ]; then
    printf 'These packages are missing; install them as root:\n  apt-get install %s\n' "${missing[*]}" >&2
    exit 1
fi
printf 'installing %d packages\n' "${#missing[@]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
if ! { apt-get update -qq && apt-get install -y -qq --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
    cat "$log" >&2
    exit 1
fi
