"""The command line of a comparison. Needs nothing but Python, so that --help always answers."""

import argparse
import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ABOUT = """Compares osprey with llama.cpp on this machine: same weights, same prompts, same CPUs, turn by turn.

The weights are generated (gpt-oss-20b's shape with
fewer layers); osprey reads them as a checkpoint, llama.cpp as GGUF. Each measure alternates between
the engines, osprey, llama.cpp, osprey, ..., while both are loaded and the other one waits. Beside it
stand the bytes that a token needs of each, and the memory's read speed measured in the same run.
"""


def arguments():
    parser = argparse.ArgumentParser(prog="bench/peers/run.sh", description=ABOUT,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--layers", type=int, default=12, help="of gpt-oss-20b's 24 (default 12)")
    add("--threads", default="1,2", help="numbers of threads (default 1,2)")
    add("--prefill", default="512,2048", help="lengths of prompts (default 512,2048; empty: none)")
    add("--generate", type=int, default=32, help="decode steps of a turn (default 32)")
    add("--rounds", type=int, default=5, help="turns of each engine, decode (default 5)")
    add("--prefill-rounds", type=int, default=2, help="turns of each engine, prompts (default 2)")
    add("--patience", type=float, default=0, metavar="SECONDS",
        help="a measure's rounds that other processes disturbed are taken again for so long")
    add("--mxfp4-layers", default="all",
        help="layers that osprey has in MXFP4: \"moe\" is the published form, else any of moe,qkv,o,lm_head,embed "
             "or all (default); llama.cpp has the experts in MXFP4 and the rest in Q8_0")
    add("--batch", type=int, default=0, help="osprey's rows of a step (default: its own)")
    add("--no-bench", action="store_true",
        help="do not also ask `osprey bench`, at the end of each number of threads")
    add("--llama-options", metavar="LIST",
        help="load=mmap|read,repack=on|off,flash=on|off,ubatch=N in place of the search")
    add("--seed", type=int, default=1)
    add("--folder", type=Path, default=ROOT / "build/peers",
        help="for weights and programs (default build/peers)")
    add("--output", type=Path, help="write everything measured to this JSON file")
    add("--keep", action="store_true", help="leave the weights for the next run")
    args = parser.parse_args()
    args.threads = [int(n) for n in args.threads.split(",")]
    args.prefill = [int(n) for n in args.prefill.split(",") if n]
    check(parser, args)
    return args


def check(parser, args):
    usable = len(os.sched_getaffinity(0))
    if min(args.threads) < 1 or max(args.threads) > usable:
        parser.error(f"--threads: 1 to {usable}, the CPUs that this process may use")
    if not 1 <= args.layers <= 24:
        parser.error("--layers: 1 to 24")
    if args.rounds < 1 or args.prefill_rounds < 1 or args.generate < 1:
        parser.error("--rounds, --prefill-rounds and --generate must be at least 1")
    if args.prefill and min(args.prefill) < 1:
        parser.error("--prefill: lengths must be at least 1")


if __name__ == "__main__":
    arguments()
