"""The alternating measurements, and the search for llama.cpp's best options."""

import random
import time
from itertools import product

from engines import Llama
from machine import Others, median

TG_PROMPT = 1  # as llama-bench: decode from an empty context; the prompt costs one more step
TUNE_TG, TUNE_PP = 8, 512  # the search's measures; prompts: the shortest that is asked for
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
        decodes = self.kind == "tg"
        with Others(engine) as others:
            if decodes:
                out = engine.run(prompt_of(TG_PROMPT, seed), self.n + 1)
            else:
                out = engine.run(prompt_of(self.n, seed), 1)
        seconds = out["decode_seconds" if decodes else "prefill_seconds"]
        return {"tokens_per_second": self.n / seconds, "seconds": seconds,
                "cpu_seconds_per_token": others.own_seconds / (self.n + decodes),
                "others": others.share, "disk_pages": others.n_disk_pages,
                "disturbed": others.disturbed(), "seed": seed,
                "out": {k: out[k] for k in ("tokens", "text", "bytes") if k in out}}


def alternate(measure, engines, rounds, seed, patience_seconds, progress):
    """A B A B ...; a short turn before each first one, not counted. A round that was disturbed is taken
    again while patience lasts. Gives engine name -> samples, and how many rounds were taken again."""
    samples = {engine.name: [] for engine in engines}
    end, n_again = time.monotonic() + patience_seconds, 0
    for engine in engines:
        Measure(measure.kind, min(measure.n, 64)).turn(engine, seed)
    while len(samples[engines[0].name]) < rounds:
        seed += 1
        taken = [measure.turn(engine, seed) for engine in engines]
        again = any(sample["disturbed"] for sample in taken) and time.monotonic() < end
        progress(f"{measure.name}: " + ", ".join(
            f"{engine.name} {sample['tokens_per_second']:.2f} tokens/s"
            for engine, sample in zip(engines, taken))
                 + (" (disturbed, again)" if again else ""))
        n_again += again
        for engine, sample in zip(engines, [] if again else taken):
            samples[engine.name].append(sample)
    return samples, n_again


def step_bytes(osprey, seed):
    """Bytes of one decode step by the engine's own count: two runs that differ by TUNE_TG steps."""
    prompt = prompt_of(TG_PROMPT, seed)
    short, long = (osprey.run(prompt, n)["bytes"] for n in (1, 1 + TUNE_TG))
    return (long - short) / TUNE_TG


class Search:
    """Tries llama.cpp's options; remembers every try."""

    def __init__(self, folder, gguf, cpus, tokens_max, progress):
        self.place, self.tokens_max = (folder, gguf, cpus), tokens_max
        self.progress, self.tries = progress, []

    def on(self, files, changes, kinds):
        """Measures each kind, ("tg", 8), with each change to the options, on one loaded file."""
        worker = Llama(*self.place, files, self.tokens_max)
        for options in [dict(files, **change) for change in changes]:
            worker.set_context(options)
            worker.run(prompt_of(TG_PROMPT, 1), 2)
            for kind, n in kinds:
                self.attempt(worker, Measure(kind, n), options)
        worker.close()

    def attempt(self, worker, measure, options):
        figure = median([measure.turn(worker, 7 + i)["tokens_per_second"]
                         for i in range(TUNE_TURNS[measure.kind])])
        self.tries.append({"measure": measure.name, "options": options,
                           "tokens_per_second": figure})
        self.progress(f"try {text_of(options)}: {measure.name} {figure:.2f} tokens/s")

    def best(self, kind, n):
        tries = [t for t in self.tries if t["measure"] == f"{kind}{n}"]
        return max(tries, key=lambda t: t["tokens_per_second"])["options"]


def tune(folder, gguf, cpus, lengths, tokens_max, progress):
    """llama.cpp's best options by trying: first how the file is loaded and repacked, then flash
    attention and the rows of a batch. Gives {"tg": options, 512: options, ...} and all tries."""
    search = Search(folder, gguf, cpus, tokens_max, progress)
    shortest = min(lengths, default=TUNE_PP)
    tg, pp = ("tg", TUNE_TG), ("pp", shortest)
    for load, repack in product(("mmap", "read"), ("on", "off")):
        search.on(dict(DEFAULTS, load=load, repack=repack), [{}], [tg, pp])
    search.on(search.best(*tg), [{"flash": "off"}], [tg])
    search.on(search.best(*pp), [{"flash": "off"}, {"ubatch": max(32, min(shortest, 512) // 2)}],
              [pp])
    chosen = {"tg": search.best(*tg), "tries": search.tries}
    for n in lengths:
        chosen[n] = search.best(*pp)
        if n > max(shortest, 512):
            search.on(chosen[n], [{"ubatch": 512}, {"ubatch": n}], [("pp", n)])
            chosen[n] = search.best("pp", n)
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
            raise SystemExit(f"peers: --llama-options: {item} is not one of "
                             "load=mmap|read repack=on|off flash=on|off ubatch=N")
    return options
