#!/bin/sh
# Makes the Python environment of the tests and fills it with the pinned packages. Needs the network
# the first time and when the list changes.
#
#   tools/setup_python.sh FOLDER REQUIREMENTS
set -eu

[ -x "$1/bin/pip" ] || { echo "setup: making the Python environment $1"; python3 -m venv "$1"; }
echo "setup: installing the test clients of $2 (pip)"
"$1/bin/pip" install --quiet --disable-pip-version-check --no-input -r "$2"
