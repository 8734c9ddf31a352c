#!/bin/sh
# Compares osprey with llama.cpp on this machine; see `bench/peers/run.sh --help` and README.md.
#
# PEERS_VENV  the Python environment (build/peers/venv); made the first time
set -eu
here=$(cd "$(dirname "$0")" && pwd)
venv=${PEERS_VENV:-$here/../../build/peers/venv}

case " $* " in
*" -h "* | *" --help "*) exec python3 "$here/arguments.py" --help ;;
esac
"$here/setup.sh" "$venv"
PYTHONDONTWRITEBYTECODE=1 exec "$venv/bin/python" "$here/compare.py" "$@"
