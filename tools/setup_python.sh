#!/bin/sh
# Creates a Python environment for tests and installs the pinned packages. Needs the network the
# first time and when the list of packages changes.
#
#   tools/setup_python.sh FOLDER REQUIREMENTS
set -eu

[ -x "$1/bin/pip" ] || { echo "setup: creating the Python environment $1"; python3 -m venv "$1"; }
echo "setup: installing the test clients of $2 (pip)"
"$1/bin/pip" install --quiet --disable-pip-version-check --no-input -r "$2"
