"""The turns: what is timed, in which order, and the search for llama.cpp's best options."""

import random
from itertools import product

from engines import Llama
from machine import Others, median

TG_PROMPT = 16  # tokens before the decode that is timed
TUNE_TG, TUNE_PP = 8, 512
TUNE_TURNS = {"tg": 3, "pp": 1}
DEFAULTS = {"load": "mmap", "repack": "on", "flash": "on", "ubatch": 512}


def prompt_of(n, seed):
    """Token ids below the control tokens; the same for both engines."""
    rng = random.Random(seed)
    return [rng.randrange(100_000) for _ in range(n)]


class Measure:
    """"tg32": 32 decode steps. "pp512": a prompt of 512 tokens up to its first token."""

    def __init__(self, kind, n):
        self.kind, self.n, self.name = kind, n, f"{kind}{n}"

    def turn(self, engine, seed):
        """One sample."""
        with Others(engine) as others:
            if self.kind == "tg":
                out = engine.run(prompt_of(TG_PROMPT, seed), self.n + 1)
                seconds = out["decode_seconds"]
            else:
                out = engine.run(prompt_of(self.n, seed), 1)
                seconds = out["prefill_seconds"]
        return {"tokens_per_second": self.n / seconds, "seconds": seconds, "others": others.share,
                "seed": seed, "out": {k: out[k] for k in ("tokens", "text", "bytes") if k in out}}


def alternate(measure, engines, rounds, seed, progress):
    """A B A B ...; a short turn before each first one, not counted. Engine name -> samples."""
    samples = {engine.name: [] for engine in engines}
    for engine in engines:
        Measure(measure.kind, min(measure.n, 64)).turn(engine, seed)
    for i in range(rounds):
        for engine in engines:
            sample = measure.turn(engine, seed + 1 + i)
            samples[engine.name].append(sample)
            progress(f"{measure.name}, {engine.name}: "
                     f"{sample['tokens_per_second']:.2f} tokens/s")
    return samples


def step_bytes(osprey, seed):
    """Bytes of one decode step by the engine's own count: two runs that differ by TUNE_TG steps."""
    prompt = prompt_of(TG_PROMPT, seed)
    short, long = (osprey.run(prompt, n)["bytes"] for n in (1, 1 + TUNE_TG))
    return (long - short) / TUNE_TG


def tune(folder, gguf, cpus, lengths, tokens_max, progress):
    """llama.cpp's best options by trying: first how the file is loaded and repacked, then flash
    attention and the rows of a batch. Gives {"tg": options, 512: options, ...} and all tries."""
    tries = []

    def attempt(worker, kind, n, options):
        worker.set_context(options)
        worker.run(prompt_of(TG_PROMPT, 1), 2)
        figure = median([Measure(kind, n).turn(worker, 7 + i)["tokens_per_second"]
                         for i in range(TUNE_TURNS[kind])])
        tries.append({"measure": f"{kind}{n}", "options": options, "tokens_per_second": figure})
        progress(f"try {text_of(options)}: {kind}{n} {figure:.2f} tokens/s")

    def best(name):
        of_name = [t for t in tries if t["measure"] == name]
        return max(of_name, key=lambda t: t["tokens_per_second"])["options"]

    def on(files, changes, kinds):
        worker = Llama(folder, gguf, cpus, files, tokens_max)
        for change in changes:
            for kind, n in kinds:
                attempt(worker, kind, n, dict(files, **change))
        worker.close()

    tg, pp = ("tg", TUNE_TG), ("pp", TUNE_PP)
    for files in product("mmap read".split(), "on off".split()):
        on(dict(DEFAULTS, load=files[0], repack=files[1]), [{}], [tg, pp])
    on(best(f"tg{TUNE_TG}"), [{"flash": "off"}], [tg])
    on(best(f"pp{TUNE_PP}"), [{"flash": "off"}, {"ubatch": TUNE_PP // 2}], [pp])
    chosen = {"tg": best(f"tg{TUNE_TG}"), "tries": tries}
    for n in lengths:
        chosen[n] = best(f"pp{TUNE_PP}")
        if n > TUNE_PP:
            on(chosen[n], [{"ubatch": TUNE_PP}, {"ubatch": n}], [("pp", n)])
            chosen[n] = best(f"pp{n}")
    return chosen


def text_of(options):
    return " ".join(f"{k}={v}" for k, v in options.items())


def parse_options(text):
    """"load=mmap,repack=on,flash=on,ubatch=512" """
    options = dict(DEFAULTS)
    allowed = {"load": ("mmap", "read"), "repack": ("on", "off"), "flash": ("on", "off")}
    for item in filter(None, text.split(",")):
        key, _, value = item.partition("=")
        if key == "ubatch" and value.isdigit():
            options[key] = int(value)
        elif value in allowed.get(key, ()):
            options[key] = value
        else:
            raise SystemExit(f"peers: --llama-options: {item} is none of "
                             "load=mmap|read repack=on|off flash=on|off ubatch=N")
    return options
