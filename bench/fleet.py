#!/usr/bin/env python3
"""Runs the simulations of docs/fleet.md and prints their tables.

Usage: bench/fleet.py FILE [TABLE...]     from the root of the repository; tables: see TABLES (default: all)

FLEET  the program (build/tests/measure_fleet)
JOBS   simulations at a time (2)

Writes one JSON object a line into FILE, with the table of each.
"""
import concurrent.futures
import json
import os
import subprocess
import sys

FLEET = os.environ.get("FLEET", "build/tests/measure_fleet")
ROUTING = ["round-robin", "least load", "session", "random", "prefix and load"]
CHAT, AGENTS, BENCHMARK = 0, 1, 2
MS = ["first_token_ms_p50", "first_token_ms_p99", "token_ms_p50", "token_ms_p99"]


def routings(which, **options):
    return [dict(options, routing=routing) for routing in which]


# name -> what varies, other columns, simulations
TABLES = {
    "benchmark": (["users"], ["tokens_s", "token_ms_p50"],
                  [dict(replicas=1, workload=BENCHMARK, seqs=512, routing=0, seconds=300, users=n)
                   for n in (1, 8, 64, 128, 256, 512)]),
    "chat-load": (["users"], ["tokens_s_replica", *MS, "cache_hit"],
                  [dict(replicas=4, users=4 * n, seconds=180) for n in (20, 40, 80, 160, 240, 320, 400, 480)]),
    "agents-load": (["users"], ["tokens_s_replica", *MS, "cache_hit"],
                    [dict(replicas=4, workload=AGENTS, apps=10, users=4 * n, seconds=180)
                     for n in (5, 10, 20, 40, 60, 80, 120)]),
    "chat-routing": (["replicas", "routing"], ["tokens_s_replica", *MS, "cache_hit"],
                     routings([0, 1, 2, 4], replicas=10, users=2400, seconds=120)
                     + routings([1, 4], replicas=100, users=16000, seconds=45)),
    "agents-routing": (["replicas", "routing"], ["tokens_s_replica", *MS, "cache_hit"],
                       routings([0, 1, 2, 4], replicas=10, workload=AGENTS, apps=10, users=400, seconds=120)
                       + routings([1, 4], replicas=100, workload=AGENTS, apps=10, users=4000, seconds=45)),
    "thousand": (["workload", "routing"], ["tokens_s_replica", *MS, "cache_hit"],
                 routings([0, 1, 4], replicas=1000, users=160000, seconds=45)
                 + routings([1, 4], replicas=1000, workload=AGENTS, apps=10, users=40000, seconds=45)),
    "lost": (["lost", "resend", "routing"], ["requests", "lost_requests", "resent", *MS, "cache_hit"],
             [one for lost, resend in ((0, 1), (1, 1), (1, 0), (5, 1), (5, 0))
              for one in routings([1, 4], replicas=20, users=4800, seconds=90, lost=lost, reload=20, resend=resend)]),
    "slow": (["slow", "routing"], ["tokens_s_replica", *MS, "cache_hit"],
             [one for slow in (1, 5) for one in routings([0, 1, 2, 4], replicas=20, users=4800, seconds=90, slow=slow)]),
}


def simulate(options):
    command = [FLEET, *(f"{key}={value}" for key, value in options.items())]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def shown(key, value):
    if key == "routing":
        return ROUTING[value]
    if key == "cache_hit":
        return f"{100 * value:.0f} %"
    return f"{value:,.0f}" if key != "token_ms_p50" and key != "token_ms_p99" else f"{value:.1f}"


def main():
    names = sys.argv[2:] or list(TABLES)
    if len(sys.argv) < 2 or not set(names) <= set(TABLES):
        sys.exit(__doc__)
    with open(sys.argv[1], "w") as out, concurrent.futures.ThreadPoolExecutor(int(os.environ.get("JOBS", "2"))) as pool:
        for name in names:
            varies, columns, simulations = TABLES[name]
            print(f"\n{name}\n\n| {' | '.join(varies + columns)} |\n|{'---|' * len(varies + columns)}")
            for figures in pool.map(simulate, simulations):
                out.write(json.dumps({"table": name, **figures}) + "\n")
                out.flush()
                print(f"| {' | '.join(shown(key, figures[key]) for key in varies + columns)} |", flush=True)


if __name__ == "__main__":
    main()
