#!/bin/sh
# Installs the distribution packages for building (run), for building and testing (test) or for the
# tests of deploy/ (deploy), prints their names, and writes a file that the Makefile includes. Needs the network only when a package
# is missing. Supports Debian 12 and Ubuntu 24.04; on other systems it prints the names of the
# libraries and exits.
#
#   tools/setup.sh run|test|deploy STAMP-FILE
set -eu

profile=$1
stamp=$2

# One word a package; a|b: the first one that the distribution has.
run_packages="gcc make libc6-dev pkg-config libuv1-dev libssl-dev libllhttp-dev|node-llhttp
              libjansson-dev libedit-dev libcurl4-openssl-dev libzmq3-dev
              libmsgpack-c-dev|libmsgpack-dev"
test_packages="$run_packages libcmocka-dev clang clang-format-14|clang-format python3 python3-venv
               openssl openmpi-bin libzmq5"
# The NEON kernels are also tested on other processors, by a cross compiler and an emulator.
[ "$(uname -m)" = aarch64 ] ||
    test_packages="$test_packages gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user"

# Debian packages, a Debian that boots, images of containers.
deploy_packages="$run_packages python3 python3-venv git curl dpkg-dev debhelper fakeroot lintian
                 mmdebstrap systemd-container buildah iproute2 shellcheck"

say() { echo "setup: $*"; }

# No package of these lists is virtual (as llhttp-dev is), so dpkg's status is enough.
is_installed() {
    [ "$(dpkg-query -W -f '${db:Status-Abbrev}' "$1" 2>/dev/null | cut -c1-2)" = ii ]
}

is_known() { # whether apt has a version of the package to install
    apt-cache policy "$1" 2>/dev/null | grep -q '^  Candidate: [0-9]'
}

any_installed() { # a|b
    for name in $(echo "$1" | tr '|' ' '); do
        is_installed "$name" && return 0
    done
    return 1
}

first_known() { # a|b
    for name in $(echo "$1" | tr '|' ' '); do
        is_known "$name" && { echo "$name"; return; }
    done
    echo "setup: no package of $1 is known to apt" >&2
    exit 1
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null 2>&1; then
        sudo "$@"
    else
        say "this command needs root: $*" >&2
        say "run make as root, or install sudo" >&2
        exit 1
    fi
}

install_packages() { # a list of packages and of alternatives a|b
    say "missing: $*"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq update
    names=
    for alternatives in "$@"; do
        name=$(first_known "$alternatives")
        names="$names $name"
    done
    say "installing with apt-get:$names"
    # shellcheck disable=SC2086 # a list of words
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o Dpkg::Use-Pty=0 \
        --no-install-recommends install $names >build/setup/apt.log 2>&1 || {
        tail -n 20 build/setup/apt.log >&2
        say "apt-get failed; its full output is in build/setup/apt.log" >&2
        exit 1
    }
}

# Programs that only tests start. They are unpacked and not installed: nginx's package would start
# a server at once and at every boot. A program that the system has is used as it is; without one
# its tests are skipped.
unpack_program() { # package and program
    command -v "$1" >/dev/null 2>&1 || [ -x "/usr/sbin/$1" ] && return
    folder=build/setup/programs/$1
    [ -x "$(echo "$folder"/usr/*bin/"$1")" ] && return
    rm -rf "$folder"
    mkdir -p "$folder"
    is_known "$1" || (as_root apt-get -qq update) >build/setup/apt.log 2>&1 || true
    if (cd "$folder" && apt-get -qq download "$1") >build/setup/apt.log 2>&1 &&
        dpkg-deb -x "$folder/$1"_*.deb "$folder" 2>>build/setup/apt.log; then
        say "unpacked $1 in $folder"
    else
        say "no package of $1 can be downloaded with apt-get; its tests will be skipped"
        rm -rf "$folder"
    fi
}

mkdir -p build/setup "$(dirname "$stamp")"
case $profile in
run) wanted=$run_packages ;;
test) wanted=$test_packages ;;
deploy) wanted=$deploy_packages ;;
*) say "unknown profile $profile; expected run, test or deploy" >&2; exit 2 ;;
esac

if command -v dpkg-query >/dev/null 2>&1; then
    missing=
    for package in $wanted; do
        any_installed "$package" || missing="$missing $package"
    done
    # shellcheck disable=SC2086
    [ -z "$missing" ] || install_packages $missing
    say "all packages for '$profile' are installed"
    if [ "$profile" = test ]; then
        unpack_program nginx
        unpack_program caddy
    fi
    if [ "$profile" = deploy ]; then
        unpack_program nginx
        unpack_program prometheus
    fi
else
    # shellcheck disable=SC2086
    say "this system has no dpkg; install these packages by hand:" $wanted
fi
echo "# Written by tools/setup.sh: the packages for '$profile' are installed." >"$stamp"
