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
from engines import Llama, Osprey


def make(args):
    """Checks the room, then makes programs and weights: osprey's checkpoint, the source of both, the
    GGUF file."""
    n, key = args.layers, f"{args.layers} layers, seed {args.seed}"
    quantises = args.mxfp4_layers != "moe"
    weights = prepare.checkpoint_bytes(n)
    args.folder.mkdir(parents=True, exist_ok=True)
    needed = weights + prepare.gguf_bytes(n) + (weights if quantises else 0) + (1 << 30)
    present = sum(f.stat().st_size for f in args.folder.glob("*") if f.suffix == ".gguf") + sum(
        f.stat().st_size for f in args.folder.glob("checkpoint*/*"))
    machine.need_room(args.folder, max(0, needed - present),
                      weights + prepare.gguf_bytes(n) + (2 << 30))
    prepare.programs(args.folder)
    source = prepare.checkpoint(args.folder, n, args.seed)
    gguf = prepare.gguf(args.folder, source, key)
    ours = source
    if quantises:
        ours = prepare.quantised(args.folder, source, args.mxfp4_layers, key)
    return ours, source, gguf


def measures(args):
    """Each with its rounds, and the key of llama.cpp's options for it."""
    yield measure.Measure("tg", args.generate), args.rounds, "tg"
    for n in args.prefill:
        yield measure.Measure("pp", n), args.prefill_rounds, n


def on_threads(args, n_threads, ours, gguf, chosen, result):
    cpus = sorted(os.sched_getaffinity(0))[:n_threads]
    tokens_max = max([measure.TG_PROMPT + args.generate + 1, *args.prefill]) + 64
    probe = machine.read_bandwidth(args.folder, n_threads)
    osprey = Osprey(args.folder, ours, cpus, tokens_max, args.batch)
    out = {"threads": n_threads, "cpus": cpus, "measures": [], "osprey": osprey.opened}
    result["runs"].append(out)
    for what, rounds, key in measures(args):
        llama = Llama(args.folder, gguf, cpus, chosen[key], tokens_max)
        samples = measure.alternate(what, [osprey, llama], rounds, args.seed, prepare.say)
        out["llama.cpp"] = llama.opened
        out["measures"].append({"name": what.name, "kind": what.kind, "n": what.n,
                                "llama_options": chosen[key], "samples": samples,
                                "resident_bytes": {e.name: e.resident_bytes() for e in (osprey, llama)}})
        llama.close()
    out["osprey_step_bytes"] = measure.step_bytes(osprey, args.seed)
    osprey.close()
    out["read_gb_s"] = probe + machine.read_bandwidth(args.folder, n_threads)


def run(args):
    ours, source, gguf = make(args)
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
        on_threads(args, n, ours, gguf, chosen, result)
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
