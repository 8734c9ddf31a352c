#!/usr/bin/env bash
# Packs the program, its shared libraries, the bundled model and the test programs with their
# vectors into one folder. The folder runs on any Linux of the same processor family without
# packages: it contains the C library and its loader, so the versions on that machine do not matter.
#
#   tools/bundle.sh BUILD-FOLDER BUNDLE-FOLDER
set -euo pipefail
build=$1
out=$2
limit_mib=70
umask 022 # a plug-in that others can write is not loaded (docs/cuda.md)

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
    */check_long_context | */check_batch_rows | */check_shape) continue ;; # mainly for GPUs
    # tests whose results do not depend on the machine: the command line, HTTP, allocation failures,
    # grammars, and the parts of the engine without arithmetic
    */test_option* | */test_bench | */test_eval | */test_http_* | */test_serve_* | */test_sse) continue ;;
    */test_no_memory | */test_api_keys | */test_web | */test_response_* | */test_worker) continue ;;
    */test_engine_[!m]* | */test_answer_grammar | */test_schema | */test_completion_cache) continue ;;
    */check_answers | */check_calls | */test_grammar_queue | */test_engine_masks) continue ;;
    */test_log | */test_worker_frames | */test_task_queue | */test_json_limits | */test_printable) continue ;;
    */test_hub | */test_gguf | */test_draft* | */test_service | */check_drafts) continue ;;
    */test_sched_clients | */test_sampling_state | */test_device_options | */test_chat_json | */test_program) continue ;;
    */test_message* | */test_validate | */test_pack_cache | */test_dummy) continue ;;
    */test_harmony* | */test_sched*) continue ;;
    */test_router | */test_replicas | */test_kv_events | */test_doctor | */check_ranks) continue ;;
    */test_ranks | */test_rank_* | */test_engine_memory | */test_step_memory) continue ;;
    */check_behind | */test_batch | */test_copy_rows | */test_kv | */test_request | */test_chat) continue ;;
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
# The program looks for the plug-in beside the running executable, which is the loader in lib/.
[ ! -f "$build/osprey-cuda.so" ] || copy_stripped "$build/osprey-cuda.so" "$out/lib/osprey-cuda.so"

cp -r models/osprey-nano models/osprey-nano-eagle3 "$out/models/"
cp -r tests/golden "$out/tests/"
rm -rf "$out/tests/golden/launches" # of tests that are built with nvcc
mkdir "$out/docs"
cp docs/harmony.md "$out/docs/" # a test reads its table
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
    bin/osprey --help               all commands
    bench/scaling.sh                speed by number of threads, on this machine
    ./run-tests                     the tests, on this machine

The GPU plug-in lib/osprey-cuda.so, if it is there, is loaded only when the file and its folder belong
to root or to the user who runs the program. As root, unpack with tar --no-same-owner, or run
chown -R root on this folder.

Packed on $(. /etc/os-release && echo "$PRETTY_NAME") for $(uname -m).
EOT

size_kib=$(du -sk "$out" | cut -f1)
echo "bundle: $out, $(((size_kib + 512) / 1024)) MiB"
if [ "$size_kib" -ge $((limit_mib * 1024)) ]; then
    echo "bundle: over the limit of $limit_mib MiB:" >&2
    du -m "$out" | sort -rn | head -n 12 >&2
    exit 1
fi
