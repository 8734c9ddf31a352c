#!/bin/sh
# Prints the folder whose lib/libcudart_static.a links the CUDA plug-in for an aarch64 host: that of the
# toolkit's own target, or of NVIDIA's package on PyPI, which is fetched into FETCHED. Where something is
# missing it says what, and how to get it, on standard error.
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
    echo "for an aarch64 host: libcudart_static.a of CUDA $version for sbsa is missing, neither in" \
        "$home/targets/sbsa-linux nor to be fetched (pip download $package==$version.*)" >&2
    exit 1
}
echo "$unpacked"
