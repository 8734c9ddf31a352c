"""The two engines as processes that answer lines (llama_worker.py, osprey_worker.c), each started on
given CPUs. Both stay loaded while turns alternate: between its turns an engine only waits."""

import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TOKENIZER = ROOT / "tests/golden/tokenizer/o200k_base.tiktoken"


class Worker:
    """A process on some CPUs. Its messages go to a file, shown when it dies."""

    def __init__(self, command, cpus, log):
        environment = dict(os.environ, OMP_PROC_BIND="true", OMP_NUM_THREADS=str(len(cpus)))
        self.log = log
        with open(log, "w") as errors:
            self.process = subprocess.Popen(
                [str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=errors, text=True, env=environment,
                preexec_fn=lambda: os.sched_setaffinity(0, cpus))
        self.opened = self.hear()

    def ask(self, line):
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        return self.hear()

    def hear(self):
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            raise SystemExit(f"{self.process.args[0]} ended with exit status "
                             f"{self.process.returncode}\n{Path(self.log).read_text()[-2000:]}")
        return json.loads(line)

    def used(self):
        """Processor time of all its threads so far in seconds, and pages that came from the disk."""
        words = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK"), int(words[9])

    def resident_bytes(self):
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
        return 0

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


class Osprey(Worker):
    name = "osprey"

    def __init__(self, folder, checkpoint, cpus, tokens_max, mxfp4="moe", batch=0,
                 tokenizer=TOKENIZER):
        super().__init__([folder / "osprey_worker", checkpoint, tokenizer, len(cpus), tokens_max,
                          mxfp4, batch], cpus, folder / "osprey.log")

    def run(self, prompt, n_generate):
        out = self.ask(" ".join(str(n) for n in [n_generate, len(prompt), *prompt]))
        out["text"] = bytes.fromhex(out["text"]).decode(errors="replace")
        return out


def osprey_bench(checkpoint, cpus, mxfp4, batch, n_prompt, n_generate):
    """What `osprey bench` says of the same, in a process of its own: one prompt, one answer."""
    command = [ROOT / "build/osprey", "bench", checkpoint, "--tokenizer", TOKENIZER,
               "--threads", len(cpus), "--mxfp4-layers", mxfp4, "--max-num-seqs", 1,
               "--max-model-len", n_prompt + n_generate + 64, "--pp", n_prompt, "--tg", n_generate,
               "--runs", 1, "--warmup-runs", 1, "--format", "json"]
    if batch:
        command += ["--max-num-batched-tokens", batch]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          preexec_fn=lambda: os.sched_setaffinity(0, cpus))
    if done.returncode != 0:
        raise SystemExit(f"osprey bench ended with exit status {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout)


class Llama(Worker):
    name = "llama.cpp"

    def __init__(self, folder, gguf, cpus, options, tokens_max):
        super().__init__([sys.executable, HERE / "llama_worker.py", gguf, options["load"],
                          options["repack"]], cpus, folder / "llama.log")
        self.cpus, self.tokens_max = cpus, tokens_max
        self.set_context(options)

    def set_context(self, options):
        self.ask(json.dumps({"context": {
            "tokens_max": self.tokens_max, "threads": len(self.cpus), "flash": options["flash"],
            "ubatch": options["ubatch"]}}))

    def run(self, prompt, n_generate):
        return self.ask(json.dumps({"prompt": prompt, "generate": n_generate}))
