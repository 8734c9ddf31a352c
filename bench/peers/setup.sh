#!/bin/sh
# Makes the Python environment of the peers and fills it with the pinned packages. llama-cpp-python is
# compiled here, so that llama.cpp uses all that this machine's CPU has: about 20 minutes on two cores,
# once. Needs the network, cmake and a C++ compiler.
#
#   bench/peers/setup.sh FOLDER
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$1
stamp=$folder/peers-stamp
wanted=$(cat "$here/requirements.txt" "$here/cmake_args")

[ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ] && exit 0
for tool in cmake c++ python3; do
    command -v "$tool" >/dev/null || { echo "peers: $tool is not installed" >&2; exit 1; }
done
[ -x "$folder/bin/pip" ] || python3 -m venv "$folder"
echo "peers: installing packages and compiling llama.cpp (once, about 20 minutes on 2 cores)" >&2
log=$folder/peers-setup.log
CMAKE_ARGS=$(cat "$here/cmake_args") CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)} \
    "$folder/bin/pip" install -v --disable-pip-version-check --no-input --no-cache-dir \
    --no-binary llama-cpp-python -r "$here/requirements.txt" >"$log" 2>&1 ||
    { tail -n 20 "$log" >&2; echo "peers: that failed; all of it: $log" >&2; exit 1; }
printf '%s' "$wanted" >"$stamp"
