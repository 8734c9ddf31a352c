#!/bin/sh
# Measures speed by number of threads: runs `osprey bench` at gpt-oss-20b's shape (12 layers, all
# MXFP4, generated weights) with 1, 2, 4... threads up to the number of usable CPUs. Needs only
# osprey, sh and awk, so it also runs from the folder of `make bundle`.
#
#   bench/scaling.sh [OSPREY] [more options of osprey bench]
#
#   bench/scaling.sh build/osprey --layers 4
#   bench/scaling.sh bin/osprey --layers 24 --pp 512 --tg 64
#
# OSPREY   the program (default: build/osprey, else bin/osprey beside or above this script)
# THREADS  the numbers of threads, "1 2 4 8 12 16" (default: powers of two, and all)
# LOGS     a folder for the output of every run (default: not kept)
#
# Prints one line for each number of threads. Decode and prefill each have tokens/s, the speedup
# over the first line, and the efficiency, which is the speedup per thread. Then follow the bytes/s
# that a decode step reads, the bandwidth of plain reads with as many threads in the same run, the
# ratio of the two, and the number of busy CPUs.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
osprey=
case ${1-} in
'' | -*) ;;
*) osprey=$1; shift ;;
esac
if [ -z "$osprey" ]; then
    for osprey in "$here/../build/osprey" "$here/../bin/osprey" "$here/bin/osprey"; do
        [ -x "$osprey" ] && break
    done
fi
[ -x "$osprey" ] || { echo "scaling: $osprey is not an executable file" >&2; exit 2; }

usable_cpus() { nproc 2>/dev/null || getconf _NPROCESSORS_ONLN; }

powers_up_to() { # N
    n=1
    while [ "$n" -lt "$1" ]; do
        printf '%d ' "$n"
        n=$((2 * n))
    done
    echo "$1"
}

: "${THREADS:=$(powers_up_to "$(usable_cpus)")}" "${LOGS:=}"
exec 3>&1 # the table; standard output of line_of is captured for the numbers of the first line
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# Prints one line of the table from the output of a run: its tests, the sum of a decode step, the
# probe.
line_of() { # threads, first decode tokens/s, first prompt tokens/s, first threads
    awk -F'|' -v threads="$1" -v tg1="$2" -v pp1="$3" -v n1="$4" '
        function number(text) { sub(/^ +/, "", text); return text + 0 }
        $3 ~ /^ pp[0-9]/ && $4 ~ /±/ { pp = number($4) }
        $3 ~ /^ tg[0-9]/ && $4 ~ /±/ { tg = number($4) }
        /^A decode step/ { decode = 1 }
        decode && $2 ~ /^ sum / { gbs = number($6) }
        /^memory:/ && match($0, /CPU: [0-9.]+/) { busy = substr($0, RSTART + 5, RLENGTH - 5) }
        /^probe,/ && match($0, /[0-9.]+ GB\/s read/) { read = number(substr($0, RSTART, RLENGTH)) }
        END {
            if (tg <= 0 || pp <= 0 || read <= 0) exit 1
            if (tg1 <= 0) { tg1 = tg; pp1 = pp; n1 = threads }
            printf "| %d | %.2f | %.2f | %.0f %% | %.1f | %.2f | %.0f %% | %.1f | %.1f | %.0f %% | %s |\n",
                threads, tg, tg / tg1, 100 * tg / tg1 * n1 / threads,
                pp, pp / pp1, 100 * pp / pp1 * n1 / threads, gbs, read, 100 * gbs / read, busy
            printf "%s %s %s\n", tg1, pp1, n1 >"/dev/stderr"
        }' "$log"
}

echo "| threads | decode t/s | speedup | efficiency | prefill t/s | speedup | efficiency |" \
    "decode GB/s | plain reads GB/s | ratio | CPUs busy |"
echo "|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
first="0 0 0"
for n in $THREADS; do
    "$osprey" bench --load-format dummy --shape gpt-oss-20b --layers 12 \
        --mxfp4-layers qkv,o,lm_head --pp 128 --tg 32 \
        --runs 2 "$@" --concurrency 1 --stages --format md --threads "$n" >"$log" || {
        cat "$log" >&2
        echo "scaling: the run with $n threads failed" >&2
        exit 1
    }
    [ -z "$LOGS" ] || { mkdir -p "$LOGS" && cp "$log" "$LOGS/threads-$n.md"; }
    # shellcheck disable=SC2086 # three words
    first=$({ line_of "$n" $first >&3; } 2>&1) || {
        cat "$log" >&2
        echo "scaling: the run with $n threads printed no speed" >&2
        exit 1
    }
done
echo
sed -n '/^osprey bench (/,$p' "$log"
