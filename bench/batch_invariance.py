#!/usr/bin/env python3
"""Measures what batch invariance costs on a GPU: step times with and without it, in alternation.

    make tests && make cuda-free
    bench/batch_invariance.py OUT.json [--turns 5] [1024:1,2,4,256,64+448 2048:1 ...]

CONTEXT:ROWS are the arguments of tests/check_batch_rows.c: steps of ROWS decode rows at position
CONTEXT; 64+448 is a step of 64 decode rows and 448 prefill rows. A turn runs build/tests/
check_batch_rows once with the plug-in of build/ (batch invariant) and once with that of build-free/
(not). Turns alternate in which of the two runs first. OUT.json gets the step time (the median of a
process) and the stage times of every turn. The printed table has the medians over the turns in us.
"""
import argparse
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys

DEFAULT = ["1024:1,2,4,8,16,32,64,128,256", "1024:64+448,64+1984,256+256,256+1792", "2048:1",
           "32768:1"]
LINE = re.compile(r"\s*([\d+]+) rows:\s+([\d.]+) us,[^:]*:(.*)")
STAGE = re.compile(r"(\w+) (\d+)(?: \(|  |$)")


def steps_of(options, folder, spec):
    """{rows: {"us": ..., stage: us}} of one process."""
    context, rows = spec.split(":")
    command = [options.check_batch_rows, options.device, options.shape, options.layers, context,
               "generated", *rows.split(",")]
    environment = {**os.environ, "OSPREY_PLUGIN_DIR": str(pathlib.Path(folder).resolve())}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} with {folder}: exit status {done.returncode}\n"
                 f"{done.stdout}{done.stderr}")
    steps = {}
    for line in done.stdout.splitlines():
        if found := LINE.match(line):
            stages = {name: int(us) for name, us in STAGE.findall(found[3])}
            steps[found[1]] = {"us": float(found[2]), **stages}
    if list(steps) != rows.split(","):
        sys.exit(f"{' '.join(command)}: expected a line for each of {rows}, found\n"
                 f"{done.stdout}{done.stderr}")
    return steps


def machine_of():
    """The GPU as its driver names it, "" without a GPU, and the machine."""
    try:
        query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
        gpu = subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip()
    except FileNotFoundError:
        gpu = ""
    return {"gpu": gpu, "usable_cpus": len(os.sched_getaffinity(0)), "system": platform.platform()}


def build_of(options):
    """The value of --build, else the build-id that `make` wrote beside the invariant plug-in."""
    noted = pathlib.Path(options.rule, "build-id")
    return options.build or (noted.read_text().strip() if noted.exists() else "")


def median_of(turns, side, rows, what):
    return statistics.median(turn[side][rows][what] for turn in turns)


def print_table(spec, turns):
    rows_of = list(turns[0]["rule"])
    stages = [k for k in turns[0]["rule"][rows_of[0]] if k != "us"]
    print(f"\ncontext {spec.split(':')[0]}, {len(turns)} turns\n")
    print("| rows | batch invariant, us | not, us | cost | " + " | ".join(stages) + " |")
    print("|---|---:|---:|---:|" + "---:|" * len(stages))
    for rows in rows_of:
        pairs = [(median_of(turns, "rule", rows, k), median_of(turns, "free", rows, k))
                 for k in ["us", *stages]]
        rule, free = pairs[0]
        print(f"| {rows} | {rule:,.0f} | {free:,.0f} | {100 * (rule / free - 1):.1f} % | "
              + " | ".join(f"{a:.0f}/{b:.0f}" for a, b in pairs[1:]) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("specs", nargs="*", default=DEFAULT)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--check-batch-rows", default="build/tests/check_batch_rows")
    parser.add_argument("--rule", default="build", help="folder of the batch invariant plug-in")
    parser.add_argument("--free", default="build-free", help="folder of the other plug-in")
    parser.add_argument("--build", default="",
                        help="name of the build, if the folder has no build-id")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--shape", default="gpt-oss-120b")
    parser.add_argument("--layers", default="36")
    options = parser.parse_intermixed_args()
    folders = {"rule": options.rule, "free": options.free}
    turns = {spec: [] for spec in options.specs}
    for i in range(options.turns):
        for spec in options.specs:
            sides = ["rule", "free"] if i % 2 == 0 else ["free", "rule"]
            steps = {side: steps_of(options, folders[side], spec) for side in sides}
            turns[spec].append({side: steps[side] for side in folders})
    result = {"command": sys.argv, "build": build_of(options),
              "weights": f"generated, {options.shape}, all MXFP4", "machine": machine_of(),
              "turns": turns}
    pathlib.Path(options.out).write_text(json.dumps(result, indent=1) + "\n")
    for spec in options.specs:
        print_table(spec, turns[spec])


if __name__ == "__main__":
    main()
