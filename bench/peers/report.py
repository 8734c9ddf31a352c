"""The report: one line a measure, then the details of the figures."""

from importlib.metadata import version

import prepare
from machine import median
from measure import text_of

HEADER = ("threads", "measure", "osprey", "llama.cpp", "ratio", "by CPU time", "spread",
          "others", "osprey share", "llama.cpp share")


def versions():
    return {"osprey": prepare.source_version(), "osprey_built": prepare.library_time(),
            "llama-cpp-python": version("llama-cpp-python"),
            "gguf": version("gguf"), "numpy": version("numpy"),
            "llama_cmake": (prepare.HERE / "cmake_args").read_text().split()}


def text(result):
    lines = [tuple(HEADER)]
    for run in result["runs"]:
        lines += [row(result, run, m) for m in run["measures"]]
    return "\n".join(table(lines) + [""] + notes(result))


def table(lines):
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEADER))]
    out = ["| " + " | ".join(c.rjust(w) for c, w in zip(line, widths)) + " |" for line in lines]
    return out[:1] + ["|" + "|".join("-" * (w + 1) + ":" for w in widths) + "|"] + out[1:]


def row(result, run, m):
    ours, theirs = (m["samples"][name] for name in ("osprey", "llama.cpp"))
    a, b = (median([s["tokens_per_second"] for s in each]) for each in (ours, theirs))
    cpu = [median([s["cpu_seconds_per_token"] for s in each]) for each in (ours, theirs)]
    return (str(run["threads"]), m["name"], f"{a:.2f} t/s", f"{b:.2f} t/s", f"{a / b:.2f}x",
            f"{cpu[1] / cpu[0]:.2f}x" if cpu[0] > 0 else "-", spread(ours, theirs), f"{worst(m):.0%}",
            share(result, run, m, a, "osprey"), share(result, run, m, b, "llama.cpp"))


def spread(*groups):
    """Of each engine: (max - min) / median."""
    out = []
    for samples in groups:
        rates = [s["tokens_per_second"] for s in samples]
        out.append(f"{(max(rates) - min(rates)) / median(rates):.0%}")
    return " ".join(out)


def worst(m):
    return max(s["others"] for samples in m["samples"].values() for s in samples)


def share(result, run, m, rate, name):
    """Decode: of the read bandwidth. Prompts: the arithmetic that was reached."""
    if m["kind"] == "pp":
        return f"{rate * result['prompt_flops'] / 1e9:.0f} Gflop/s"
    n_bytes = run["osprey_step_bytes"] if name == "osprey" else result["llama_step_bytes"]
    return f"{rate * n_bytes / 1e9 / median(run['read_gb_s']):.0%} of memory"


def notes(result):
    machine, args = result["machine"], result["arguments"]
    out = [f"gpt-oss-20b's shape, {args['layers']} layers, generated weights (seed {args['seed']}); "
           f"osprey's MXFP4 layers: {args['mxfp4_layers']}; llama.cpp: experts MXFP4, the rest Q8_0",
           f"llama.cpp: {result['llama_step_bytes'] / 1e9:.3f} GB a token (weights)"]
    for run in result["runs"]:
        speeds = run["read_gb_s"]
        out.append(f"{run['threads']} threads: osprey {run['osprey_step_bytes'] / 1e9:.3f} GB a token "
                   f"(its own count); reading alone {median(speeds):.1f} GB/s "
                   f"({min(speeds):.1f} to {max(speeds):.1f})")
        out += [f"{run['threads']} threads, {m['name']}: llama.cpp {text_of(m['llama_options'])}; "
                f"same greedy tokens {agreement(m)}; rounds taken again {m['rounds_again']}"
                for m in run["measures"]]
        out += said_by_bench(run)
    out += [f"tried: {t['measure']} {t['tokens_per_second']:.2f} tokens/s with "
            f"{text_of(t['options'])}" for t in result["llama_tries"]]
    out.append(f"{machine['host_cpu']}, {len(machine['cpus'])} CPUs; osprey "
               f"{result['versions']['osprey']} (built {result['versions']['osprey_built']}, tree at "
               f"{machine['osprey_commit'][:12]}), llama-cpp-python "
               f"{result['versions']['llama-cpp-python']}")
    return out + [disturbance(r["threads"], m) for r in result["runs"] for m in r["measures"]
                  if any(s["disturbed"] for each in m["samples"].values() for s in each)]


def disturbance(threads, m):
    pages = max(s["disk_pages"] for each in m["samples"].values() for s in each)
    return (f"DISTURBED: {threads} threads, {m['name']}: in a turn others took up to {worst(m):.0%} of "
            f"the CPUs, up to {pages} pages came from the disk")


def said_by_bench(run):
    """The same figures by `osprey bench`, which must not differ by more than the spread."""
    return [f"{run['threads']} threads, `osprey bench`: pp{b['prompt_size']} "
            f"{b['pp_throughput']['mean']:.2f}, then tg{b['response_size']} "
            f"{b['tg_throughput']['mean']:.2f} tokens/s"
            for b in run.get("osprey_bench", {}).get("benchmarks", [])]


def agreement(m):
    """How many tokens both engines chose alike before the first difference, by the text they make."""
    pieces = prepare.token_bytes()
    same = total = 0
    for ours, theirs in zip(m["samples"]["osprey"], m["samples"]["llama.cpp"]):
        tokens = theirs["out"]["tokens"]
        total += len(tokens)
        for n in range(len(tokens), 0, -1):
            said = b"".join(pieces.get(t, b"") for t in tokens[:n]).decode(errors="replace")
            if ours["out"]["text"].startswith(said):
                same += n
                break
    return f"{same} of {total}"
