#!/usr/bin/env bash
# Builds the container image and prints its size, which must stay below 200 MB.
#
#   deploy/build_image.sh [NAME[:TAG]] [BUILD-OPTION...]
#
#   deploy/build_image.sh                              osprey:VERSION, with the CUDA plug-in
#   deploy/build_image.sh osprey:cpu --build-arg CUDA= for the CPU alone
#
# BUILDER   docker, podman or buildah; default: the first one that works here
set -euo pipefail
cd "$(dirname "$0")/.."
limit_mb=200
version=$(sed -n 's/^#define OSP_VERSION "\(.*\)"/\1/p' include/osprey.h)
name=${1:-osprey:$version}
[ $# -eq 0 ] || shift

works() { "$1" info >/dev/null 2>&1; }

if [ -z "${BUILDER:-}" ]; then
    for BUILDER in docker podman buildah none; do
        works "$BUILDER" && break
    done
fi
case $BUILDER in
docker | podman)
    "$BUILDER" build -t "$name" -f deploy/docker/Dockerfile "$@" .
    bytes=$("$BUILDER" image inspect -f '{{.Size}}' "$name")
    ;;
buildah) # --format docker: OCI images have no health check
    buildah build --format docker -t "$name" -f deploy/docker/Dockerfile "$@" .
    size=$(buildah images --format '{{.Size}}' "$name" | head -n 1) # "135 MB"
    bytes=$(sed 's/ kB/K/; s/ \(.\)B/\1/; s/ B//' <<<"$size" | numfmt --from=si)
    ;;
*)
    echo "build_image: none of docker, podman and buildah works here" >&2
    exit 1
    ;;
esac
echo "$name: $(numfmt --to=si --format=%.1f "$bytes")B without models other than the bundled one"
if [ "$bytes" -gt $((limit_mb * 1000000)) ]; then
    echo "build_image: over the limit of $limit_mb MB" >&2
    exit 1
fi
