#!/bin/sh
# How speed grows with threads: `osprey bench` at gpt-oss-20b's shape (12 layers, MXFP4 throughout, generated
# weights) for 1, 2, 4... threads up to the CPUs that this process may use. Needs nothing but osprey, sh and awk, so it runs from
# the folder of `make bundle` too.
#
#   bench/scaling.sh [OSPREY] [more options of osprey bench]
#
#   bench/scaling.sh build/osprey --layers 4
#   bench/scaling.sh bin/osprey --layers 24 --pp 512 --tg 64
#
# OSPREY   the program (default: build/osprey, else bin/osprey beside or above this script)
# THREADS  the numbers of threads, "1 2 4 8 12 16" (default: powers of two, and all)
# LOGS     a folder that keeps what every run printed (default: none is kept)
#
# Prints a line for each number of threads: tokens/s of decode and of the prompt, each as a multiple of the
# first line's and, divided by the threads, as efficiency; bytes a second that a decode step reads, and
# their share of reading alone with as many threads, measured in the same run; CPUs busy.
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
[ -x "$osprey" ] || { echo "scaling: $osprey is no program" >&2; exit 2; }

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
exec 3>&1 # the table, from where the numbers of the first line are caught
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# One line of a table from what a run printed: the rows of tests, the sum of a decode step, the probe.
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

echo "| threads | decode t/s | times | efficiency | prompt t/s | times | efficiency | decode GB/s | reading alone GB/s | share | CPUs busy |"
echo "|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
first="0 0 0"
for n in $THREADS; do
    "$osprey" bench --load-format dummy --shape gpt-oss-20b --layers 12 --mxfp4-layers qkv,o,lm_head --pp 128 --tg 32 \
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
