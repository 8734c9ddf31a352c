#!/bin/sh
# Packs the last commit as OUT/osprey-VERSION.tar.gz. Every machine gets the same bytes: git sorts
# the files and gives them the time of the commit, and gzip -n writes no time.
#
#   tools/dist.sh VERSION OUT
set -eu
version=$1 out=$2
name=osprey-$version
mkdir -p "$out"
git rev-parse --verify -q HEAD >/dev/null || {
    echo "dist: this is not a git checkout; the tarball is made from a commit" >&2
    exit 1
}
[ -z "$(git status --porcelain)" ] || echo "dist: changes that are not committed are left out" >&2
git -c tar.umask=0022 -c core.abbrev=12 archive --format=tar --prefix="$name/" HEAD >"$out/$name.tar"
gzip -n -f "$out/$name.tar"
(cd "$out" && sha256sum "$name.tar.gz")
