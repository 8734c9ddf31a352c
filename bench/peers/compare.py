#!/usr/bin/env python3
"""Runs a comparison (arguments.py says what it is): makes the weights, searches llama.cpp's best
options, takes turns, reports, cleans up. Started by run.sh."""

import json
import os
import sys

import machine
import measure
import prepare
import report
from arguments import arguments
from engines import Llama, Osprey, osprey_bench

SPARE_BYTES = 1 << 30  # on disk; twice that in memory, for caches, scratch and the rest of the system


def make(args):
    """Checks the room, then makes programs, checkpoint and GGUF file; gives the paths of both."""
    n, key = args.layers, f"{args.layers} layers, seed {args.seed}"
    weights, peer = prepare.checkpoint_bytes(n), prepare.gguf_bytes(n)
    args.folder.mkdir(parents=True, exist_ok=True)
    present = sum(f.stat().st_size for f in [args.folder / "peer.gguf",
                                             *args.folder.glob("checkpoint/*")] if f.exists())
    machine.need_room(args.folder, max(0, weights + peer + SPARE_BYTES - present),
                      weights + peer + 2 * SPARE_BYTES)
    prepare.programs(args.folder)
    source = prepare.checkpoint(args.folder, n, args.seed)
    return source, prepare.gguf(args.folder, source, key)


def measures(args):
    """Each with its rounds, and the key of llama.cpp's options for it."""
    yield measure.Measure("tg", args.generate), args.rounds, "tg"
    for n in args.prefill:
        yield measure.Measure("pp", n), args.prefill_rounds, n


def on_threads(args, n_threads, source, gguf, chosen, result):
    cpus = sorted(os.sched_getaffinity(0))[:n_threads]
    tokens_max = max([measure.TG_PROMPT + args.generate + 1, *args.prefill]) + 64
    probe = machine.read_bandwidth(args.folder, n_threads)
    osprey = Osprey(args.folder, source, cpus, tokens_max, args.mxfp4_layers, args.batch)
    out = {"threads": n_threads, "cpus": cpus, "measures": [], "osprey": osprey.opened}
    result["runs"].append(out)
    for what, rounds, key in measures(args):
        llama = Llama(args.folder, gguf, cpus, chosen[key], tokens_max)
        samples, n_again = measure.alternate(what, [osprey, llama], rounds, args.seed, args.patience,
                                             prepare.say)
        out["llama.cpp"] = llama.opened
        out["measures"].append({"name": what.name, "kind": what.kind, "n": what.n,
                                "llama_options": chosen[key], "samples": samples,
                                "rounds_again": n_again,
                                "resident_bytes": {e.name: e.resident_bytes() for e in (osprey, llama)}})
        llama.close()
    out["osprey_step_bytes"] = measure.step_bytes(osprey, args.seed)
    osprey.close()
    if not args.no_bench:
        out["osprey_bench"] = osprey_bench(source, cpus, args.mxfp4_layers, args.batch,
                                           min(args.prefill, default=64), args.generate)
    out["read_gb_s"] = probe + machine.read_bandwidth(args.folder, n_threads)


def run(args):
    source, gguf = make(args)
    disturbance = machine.others_now()
    if disturbance > machine.CALM:
        prepare.say(f"others use {disturbance:.0%} of the CPUs: the figures will be disturbed")
    cpus = sorted(os.sched_getaffinity(0))[:max(args.threads)]
    if args.llama_options is None:
        tokens_max = max([512, *args.prefill]) + 64
        chosen = measure.tune(args.folder, gguf, cpus, args.prefill, tokens_max, prepare.say)
    else:
        options = measure.parse_options(args.llama_options)
        chosen = {key: options for key in ["tg", *args.prefill]}
    result = {"machine": machine.describe(prepare.ROOT), "others_before": disturbance,
              "versions": report.versions(), "arguments": {k: str(v) for k, v in vars(args).items()},
              "llama_tries": chosen.pop("tries", []), "runs": [],
              "llama_step_bytes": prepare.step_bytes(source, 8.5),
              "prompt_flops": prepare.prompt_flops(source)}
    for n in args.threads:
        on_threads(args, n, source, gguf, chosen, result)
    return result


def main():
    args = arguments()
    try:
        result = run(args)
        print(report.text(result))
        if args.output:
            args.output.parent.mkdir(parents=True, exist_ok=True)
            args.output.write_text(json.dumps(result, indent=1) + "\n")
            prepare.say(f"written: {args.output}")
    finally:
        if not args.keep:
            prepare.clean(args.folder)


if __name__ == "__main__":
    sys.exit(main())
