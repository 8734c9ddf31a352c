#!/bin/sh
# Builds the Debian packages from the tarball of `make dist`, in a folder of their own.
#
#   deploy/build_deb.sh VERSION OUT [DPKG-BUILDPACKAGE-OPTION...]
#
# DEB_BUILD_PROFILES=pkg.osprey.cuda also builds osprey-cuda (needs nvcc in PATH).
# DEB_REVISION       version of the package after the hyphen (default: that of debian/changelog)
set -eu
version=$1 out=$(realpath -m "$2")
shift 2
for tool in dpkg-buildpackage dh; do
    command -v $tool >/dev/null || {
        echo "deb: $tool is missing: apt install dpkg-dev debhelper" >&2
        exit 1
    }
done
work=$out/deb
rm -rf "$work"
mkdir -p "$work"
cp "$out/osprey-$version.tar.gz" "$work/osprey_$version.orig.tar.gz"
tar -C "$work" -xzf "$work/osprey_$version.orig.tar.gz"
cd "$work/osprey-$version"
cp -r deploy/debian debian
[ -z "${DEB_REVISION:-}" ] ||
    sed -i "1s/([^)]*)/($version-$DEB_REVISION)/" debian/changelog
dpkg-buildpackage -us -uc "$@"
cd "$work"
ls -l ./*.deb
