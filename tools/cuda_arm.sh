#!/bin/sh
# Prints the folder that has lib/libcudart_static.a for an aarch64 host, which the CUDA plug-in is
# linked with. It is the toolkit's aarch64 target, or NVIDIA's package from PyPI, downloaded into
# FETCHED. When a part is missing, prints its name and how to get it on standard error; exit status
# 1.
#
#     tools/cuda_arm.sh NVCC CXX FETCHED PYTHON
set -eu
nvcc=$1 cxx=$2 fetched=$3 python=$4
home=$(dirname "$(dirname "$(readlink -f "$nvcc")")")

command -v "$cxx" >/dev/null || {
    echo "for an aarch64 host: $cxx is missing (Debian: apt install g++-aarch64-linux-gnu)" >&2
    exit 1
}
has_runtime() { [ -f "$1/lib/libcudart_static.a" ]; }

version=$("$nvcc" --version | sed -n 's/.*release \([0-9]*\.[0-9]*\),.*/\1/p')
major=${version%%.*}
unpacked=$fetched/nvidia/cu$major
[ "$major" -ge 13 ] || unpacked=$fetched/nvidia/cuda_runtime
for folder in "$home/targets/sbsa-linux" "$unpacked"; do
    has_runtime "$folder" && echo "$folder" && exit
done

package=nvidia-cuda-runtime
[ "$major" -ge 13 ] || package=nvidia-cuda-runtime-cu$major
mkdir -p "$fetched"
if "$python" -m pip download -q --no-deps --only-binary=:all: --platform manylinux2014_aarch64 \
    -d "$fetched" "$package==$version.*" >&2; then
    "$python" -m zipfile -e "$fetched"/nvidia_cuda_runtime*.whl "$fetched"
fi
has_runtime "$unpacked" || {
    echo "for an aarch64 host: libcudart_static.a of CUDA $version for sbsa is missing: it is not in" \
        "$home/targets/sbsa-linux, and pip download $package==$version.* failed" >&2
    exit 1
}
echo "$unpacked"
