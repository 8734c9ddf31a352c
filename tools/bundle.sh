#!/usr/bin/env bash
# Packs the program, its shared libraries, the bundled model and the test programs with their vectors
# into one folder that runs on another Linux of the same processor family without any package: even
# the C library and its loader come along, so neither an older nor a newer one there matters.
#
#   tools/bundle.sh BUILD-FOLDER BUNDLE-FOLDER
set -euo pipefail
build=$1
out=$2
limit_mib=60
umask 022 # what others may write is not loaded as a plug-in (docs/cuda.md)

rm -rf "$out"
mkdir -p "$out"/{bin,lib,libexec,models,tests/unit}
programs=("$build/osprey" "$build"/tests/unit/test_* "$build"/tests/check_* "$build"/tests/sim_*)

copy_stripped() { # file, target
    install -m 755 "$1" "$2"
    strip --strip-unneeded "$2"
}

for program in "${programs[@]}"; do
    [ -f "$program" ] || continue
    case $program in
    */check_long_context | */check_batch_rows | */check_shape) continue ;; # of use with a card above all
    # what no other machine does otherwise: the command line, HTTP, memory that is not there, forms of answers, all of
    # the engine that is no arithmetic
    */test_option* | */test_bench | */test_eval | */test_http_* | */test_serve_* | */test_sse | */test_no_memory) continue ;;
    */test_keys | */test_web | */test_response_* | */test_worker | */test_engine_[!m]*) continue ;;
    */test_answer_form | */test_schema | */test_replay | */check_answers | */check_calls) continue ;;
    */test_grammar_queue | */test_engine_masks | */test_worker_frames | */test_background) continue ;;
    */test_json_limits | */test_printable | */test_sched_clients) continue ;;
    */unit/*) copy_stripped "$program" "$out/tests/unit/$(basename "$program")" ;;
    */tests/*) copy_stripped "$program" "$out/tests/$(basename "$program")" ;;
    *) copy_stripped "$program" "$out/libexec/osprey" ;;
    esac
    ldd "$program"
done | awk '$2 == "=>" && $3 ~ /^\// { print $3 } $1 ~ /^\// { print $1 }' | sort -u |
    while read -r library; do
        install -m 755 "$(readlink -f "$library")" "$out/lib/$(basename "$library")"
    done
loader=$(cd "$out/lib" && echo ld-linux*)
copy_stripped "$build/libosprey.so.0" "$out/lib/libosprey.so.0"
# Looked for beside the running program, and that is the loader.
[ ! -f "$build/osprey-cuda.so" ] || copy_stripped "$build/osprey-cuda.so" "$out/lib/osprey-cuda.so"

cp -r models/osprey-nano "$out/models/"
cp -r tests/golden "$out/tests/"
mkdir "$out/docs"
cp docs/harmony.md "$out/docs/" # its table is a test's data
install -m 755 tests/run_units tests/run_checks "$out/tests/"
mkdir "$out/bench"
install -m 755 bench/scaling.sh "$out/bench/"
cp LICENSE "$out/"

cat >"$out/bin/osprey" <<EOT
#!/bin/sh
# Starts osprey with the libraries and the loader of this folder.
here=\$(cd "\$(dirname "\$(readlink -f "\$0")")/.." && pwd)
: "\${OSPREY_MODEL_DIR:=\$here/models/osprey-nano}"
export OSPREY_MODEL_DIR
exec "\$here/lib/$loader" --library-path "\$here/lib" "\$here/libexec/osprey" "\$@"
EOT

cat >"$out/run-tests" <<EOT
#!/bin/sh
# Runs the test programs of this folder; the last line is "N passed, N failed".
cd "\$(dirname "\$(readlink -f "\$0")")" || exit 1
OSPREY_MODEL_DIR=\$PWD/models/osprey-nano
UNIT_WRAPPER="lib/$loader --library-path lib"
CHECK_WRAPPER=\$UNIT_WRAPPER
export OSPREY_MODEL_DIR UNIT_WRAPPER CHECK_WRAPPER
{
    tests/run_units tests/unit/test_*
    tests/run_checks tests/check_* tests/sim_*
} | awk '
    /^[0-9]+ passed, [0-9]+ failed\$/ { passed += \$1; failed += \$3; next }
    { print }
    END { print passed " passed, " failed + 0 " failed"; exit failed > 0 }'
EOT
chmod 755 "$out/bin/osprey" "$out/run-tests"

cat >"$out/README.txt" <<EOT
osprey: an engine for OpenAI's gpt-oss models. This folder runs without installation:

    bin/osprey chat                 talk to the bundled model
    bin/osprey serve --port 8000    the OpenAI API at http://127.0.0.1:8000/v1
    bin/osprey --help               everything else
    bench/scaling.sh                how speed grows with threads, on this machine
    ./run-tests                     the tests, on this machine

With a GPU plug-in (lib/osprey-cuda.so): it is loaded only where lib/ and itself belong to root or to the user who
runs the program. As root, unpack with tar --no-same-owner, or chown -R root this folder.

Packed on $(. /etc/os-release && echo "$PRETTY_NAME") for $(uname -m).
EOT

size_kib=$(du -sk "$out" | cut -f1)
echo "bundle: $out, $(((size_kib + 512) / 1024)) MiB"
if [ "$size_kib" -ge $((limit_mib * 1024)) ]; then
    echo "bundle: over the limit of $limit_mib MiB:" >&2
    du -m "$out" | sort -rn | head -n 12 >&2
    exit 1
fi
