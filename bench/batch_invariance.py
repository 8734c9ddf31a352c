#!/usr/bin/env python3
"""What the rule of the same tokens costs on a card: steps of a build that keeps it and of one that is free of it, by turns.

    make tests && make cuda-free
    bench/batch_invariance.py OUT.json [--turns 5] [1024:1,2,4,256,64+448 2048:1 ...]

CONTEXT:ROWS, as tests/check_batch_rows takes them: generated rows at that position, 64+448 with 448 rows of a prompt behind. Each turn
is a process of build/tests/check_batch_rows with the plug-in of build/, and one with that of build-free/; the first turn begins
with one, the second with the other. OUT.json gets every turn's step time (a process's median) and stages; printed is a table
of the medians over the turns, us, and of the stages.
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

DEFAULT = ["1024:1,2,4,8,16,32,64,128,256", "1024:64+448,64+1984,256+256,256+1792", "2048:1", "32768:1"]
LINE = re.compile(r"\s*([\d+]+) rows:\s+([\d.]+) us,[^:]*:(.*)")
STAGE = re.compile(r"(\w+) (\d+)(?: \(|  |$)")


def steps_of(options, folder, spec):
    """{rows: {"us": ..., stage: us}} of one process."""
    context, rows = spec.split(":")
    command = [options.check_rows, options.device, options.shape, options.layers, context, "generated", *rows.split(",")]
    done = subprocess.run(command, capture_output=True, text=True, check=False,
                          env={**os.environ, "OSPREY_PLUGIN_DIR": str(pathlib.Path(folder).resolve())})
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} with {folder}: status {done.returncode}\n{done.stdout}{done.stderr}")
    steps = {}
    for line in done.stdout.splitlines():
        if found := LINE.match(line):
            stages = {name: int(us) for name, us in STAGE.findall(found[3])}
            steps[found[1]] = {"us": float(found[2]), **stages}
    if list(steps) != rows.split(","):
        sys.exit(f"{' '.join(command)}: expected a line for each of {rows}\n{done.stdout}{done.stderr}")
    return steps


def machine_of():
    """The card as its driver names it, "" where there is none, and the machine around it."""
    try:
        card = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
                              capture_output=True, text=True, check=False).stdout.strip()
    except FileNotFoundError:
        card = ""
    return {"card": card, "usable_cpus": len(os.sched_getaffinity(0)), "system": platform.platform()}


def build_of(options):
    """What `make` noted beside the plug-in that keeps the rule, unless it was told."""
    noted = pathlib.Path(options.rule, "build-id")
    return options.build or (noted.read_text().strip() if noted.exists() else "")


def median_of(turns, side, rows, what):
    return statistics.median(turn[side][rows][what] for turn in turns)


def print_table(spec, turns):
    rows_of = list(turns[0]["rule"])
    stages = [k for k in turns[0]["rule"][rows_of[0]] if k != "us"]
    print(f"\ncontext {spec.split(':')[0]}, {len(turns)} turns\n")
    print("| rows | with the rule, us | free of it, us | cost | " + " | ".join(stages) + " |")
    print("|---|---:|---:|---:|" + "---:|" * len(stages))
    for rows in rows_of:
        pairs = [(median_of(turns, "rule", rows, k), median_of(turns, "free", rows, k)) for k in ["us", *stages]]
        rule, free = pairs[0]
        print(f"| {rows} | {rule:,.0f} | {free:,.0f} | {100 * (rule / free - 1):.1f} % | "
              + " | ".join(f"{a:.0f}/{b:.0f}" for a, b in pairs[1:]) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("specs", nargs="*", default=DEFAULT)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--check-rows", default="build/tests/check_batch_rows")
    parser.add_argument("--rule", default="build", help="the folder of the plug-in that keeps the rule")
    parser.add_argument("--free", default="build-free", help="that of the other")
    parser.add_argument("--build", default="", help="its name, where the folder has none")
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
    result = {"command": sys.argv, "build": build_of(options), "weights": f"generated, {options.shape}, all MXFP4",
              "machine": machine_of(), "turns": turns}
    pathlib.Path(options.out).write_text(json.dumps(result, indent=1) + "\n")
    for spec in options.specs:
        print_table(spec, turns[spec])


if __name__ == "__main__":
    main()
