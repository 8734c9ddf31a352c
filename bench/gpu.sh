#!/bin/sh
# Measures the table of docs/performance-gpu.md on the GPU of this machine: one JSON file per row, in
# FOLDER.
#
#   bench/gpu.sh FOLDER [ROW...]     from the root of the repository; rows: see below (default: all)
#
# OSPREY   the program (build/osprey)
# FILES    folder of a checkpoint of gpt-oss-20b's shape, 13.8 GB (/dev/shm/osprey-20b). Only the
#          row "files" needs it, and writes it if it does not exist.
set -eu
: "${OSPREY:=build/osprey}" "${FILES:=/dev/shm/osprey-20b}"
[ $# -ge 1 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 2; }
folder=$1
shift
[ $# -gt 0 ] || set -- decode-120b decode-20b decode-120b-bf16 decode-120b-32k prefill-120b \
    together-120b many-120b-256 many-120b-512 many-120b-1024 churn-120b-256 churn-120b-512 \
    served-120b served-120b-many served-120b-poisson drafts-120b-none drafts-120b-80 \
    drafts-120b-90 drafts-120b-8-none drafts-120b-8-80 files
export OSPREY_MODEL_DIR="${OSPREY_MODEL_DIR:-$PWD/models/osprey-nano}"
mkdir -p "$folder"

row() { # NAME OPTION...
    name=$1
    shift
    echo "== $name" >&2
    "$OSPREY" bench --device cuda --format json --output "$folder/$name.json" "$@" ||
        echo "FAILED $name" >&2
}

arrivals=
many="--mxfp4-layers all --pp 128 --tg 128 -b 8192 --runs 1 --warmup-runs 0"

# answers long enough that the controller's first steps do not count
drafts="--mxfp4-layers all --pp 2048 --tg 1024 --runs 2"

large() { # NAME OPTION...: gpt-oss-120b, generated weights
    name=$1
    shift
    row "$name" --load-format dummy --shape gpt-oss-120b "$@"
}

# Through `osprey serve`; $arrivals: options of the client.
served() { # NAME CONCURRENCY PROMPT-TOKENS ANSWER-TOKENS OPTION...
    name=$1 together=$2 prompt=$3 answer=$4
    shift 4
    echo "== $name" >&2
    at="$folder/$name.url"
    "$OSPREY" serve --port 0 --log-level warn "$@" >"$at" 2>"$folder/$name.err" &
    server=$!
    until [ -s "$at" ]; do
        kill -0 "$server" 2>/dev/null || { cat "$folder/$name.err" >&2; return; }
        sleep 0.1
    done
    "$OSPREY" bench --url "$(head -n 1 "$at")" --format json --output "$folder/$name.json" \
        --concurrency "$together" --pp "$prompt" --tg "$answer" --runs 1 --warmup-runs 0 $arrivals ||
        echo "FAILED $name" >&2
    kill "$server"
    wait "$server" || echo "FAILED $name: the server's exit status" >&2
    rm -f "$at"
}

for wanted in "$@"; do
    case $wanted in
    decode-120b) large decode-120b --mxfp4-layers all --pp 2048 --tg 128 --stages --kernels \
        --routing ;;
    decode-20b) row decode-20b --load-format dummy --shape gpt-oss-20b --mxfp4-layers all \
        --pp 2048 --tg 128 --stages --kernels ;;
    decode-120b-bf16) large decode-120b-bf16 --pp 2048 --tg 128 --stages --kernels ;;
    decode-120b-32k) large decode-120b-32k --mxfp4-layers all --depth 30720 --pp 2048 --tg 128 \
        -b 2048 --stages ;;
    prefill-120b) large prefill-120b --mxfp4-layers all --pp 2048,8192 --tg 2 -b 8192 --stages \
        --kernels ;;
    # the median step is at a context of 1,024
    together-120b) large together-120b --mxfp4-layers all --concurrency 64 --pp 896 --tg 256 \
        -b 2048 --runs 1 --warmup-runs 0 ;;
    # steps of many rows: their median is at a context of 192
    many-120b-256) large many-120b-256 $many --concurrency 256 ;;
    many-120b-512) large many-120b-512 $many --concurrency 512 ;;
    many-120b-1024) large many-120b-1024 $many --concurrency 1024 --kv-cache-dtype fp8 ;;
    # random lengths: how many steps are graphs
    churn-120b-*) large "$wanted" --mxfp4-layers all --pp 512 --tg 256 --random-range-ratio 0.9 \
        --concurrency "${wanted##*-}" --num-prompts $((${wanted##*-} * 5 / 2)) --runs 1 \
        --warmup-runs 0 -b 8192 ;;
    drafts-120b-none) large drafts-120b-none $drafts ;;
    drafts-120b-80) large drafts-120b-80 $drafts -md dummy --draft-max 8 --draft-acceptance 0.8 ;;
    drafts-120b-90) large drafts-120b-90 $drafts -md dummy --draft-max 8 --draft-acceptance 0.9 ;;
    drafts-120b-8-none) large drafts-120b-8-none $drafts --concurrency 8 ;;
    drafts-120b-8-80) large drafts-120b-8-80 $drafts --concurrency 8 -md dummy --draft-max 3 \
        --draft-acceptance 0.8 ;;
    served-120b) served served-120b 1,8,64,128,256 1024 1024 --device cuda --load-format dummy \
        --shape gpt-oss-120b --mxfp4-layers all --max-num-seqs 256 --max-model-len 2304 \
        --max-queue 1024 ;;
    # two or four GPUs: as many streams on each replica as on one alone
    replicas-120b | replicas-120b-four)
        case $wanted in *-four) sizes="1 4" ;; *) sizes="1 2" ;; esac
        for n in $sizes; do
            served "replicas-120b-$n" $((64 * n)) 1024 512 --device cuda --load-format dummy \
                --shape gpt-oss-120b --mxfp4-layers all -np 64 -c 4096 --max-queue 512 \
                --data-parallel-size "$n"
        done ;;
    served-120b-many) served served-120b-many 1,4,16,64,256,512 1024 1024 --device cuda --load-format dummy \
        --shape gpt-oss-120b --mxfp4-layers all --max-num-seqs 512 --max-model-len 2304 \
        --max-queue 1024 ;;
    # its last column alone, in about 65 s
    served-120b-512) served served-120b-512 512 1024 1024 --device cuda --load-format dummy \
        --shape gpt-oss-120b --mxfp4-layers all --max-num-seqs 512 --max-model-len 2304 \
        --max-queue 1024 ;;
    # the last column of served-120b alone, in about 45 s
    served-120b-256) served served-120b-256 256 1024 1024 --device cuda --load-format dummy \
        --shape gpt-oss-120b --mxfp4-layers all --max-num-seqs 256 --max-model-len 2304 \
        --max-queue 1024 ;;
    # about 70 % of what 256 streams can take: the time to the first token
    served-120b-poisson)
        arrivals="--request-rate 4.8 --num-prompts 200"
        served served-120b-poisson 256 1024 1024 --device cuda --load-format dummy \
            --shape gpt-oss-120b --mxfp4-layers all --max-num-seqs 256 --max-model-len 2304 \
            --max-queue 1024
        arrivals=
        ;;
    files)
        [ -e "$FILES/config.json" ] ||
            python3 tools/make_checkpoint.py "$FILES" --shape 20b --layout hf
        row files "$FILES" --tokenizer tests/golden/tokenizer/o200k_base.tiktoken --pp 128 --tg 32 \
            --runs 1
        ;;
    *) echo "gpu.sh: unknown row $wanted; the rows are in docs/performance-gpu.md" >&2; exit 2 ;;
    esac
done
python3 - "$folder" <<'END'
import json, pathlib, sys

for path in sorted(pathlib.Path(sys.argv[1]).glob("*.json")):
    if path.stat().st_size == 0:  # its run was stopped
        print(f"{path.stem}: not measured")
        continue
    report = json.loads(path.read_text())
    for b in report["benchmarks"]:
        itl_ms = (b.get("itl_ms") or {}).get("p50", 0)
        engine = b.get("engine") or {}
        print(f"{path.stem}: pp{b['prompt_size']} depth {b['context_size']} x{b['concurrency']}: "
              f"pp {b['pp_throughput']['mean']:.0f} tok/s, tg {b['tg_throughput']['mean']:.1f} tok/s, "
              f"ITL p50 {itl_ms:.3f} ms, {b['concurrency'] * 1e3 / max(itl_ms, 1e-9):.0f} tok/s by it",
              end=", ")
        for kind in ("decode", "prefill", "mixed"):
            n = engine.get(f"{kind}_steps", 0)
            if n:
                print(f"{n:.0f} {kind} steps of {engine[f'{kind}_rows'] / n:.0f} rows in "
                      f"{engine[f'{kind}_seconds']:.2f} s, {100 * engine[f'{kind}_graphs'] / n:.2f} % graphs",
                      end=", ")
        if engine:
            print(f"idle {engine['idle_seconds']:.2f} s, {engine['preemptions']:.0f} preemptions, "
                  f"first token {engine['ttft_ms']:.1f} ms after arrival", end=", ")
        if "start" in report:
            print(f"ready {report['start']['ready_s']:.2f} s")
        else:
            print(f"{b['requests'] - b['failed']} of {b['requests']} answered, "
                  f"{b['output_throughput']['mean']:.0f} tok/s from the first request to the last "
                  f"byte, {b['concurrency'] * b['completion_tokens'] / b['e2el_ms']['mean'] * 1e3:.0f} "
                  "by the mean time of a request")
END
