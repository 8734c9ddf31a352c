"""The order of turns, what is taken again, the search for options, the refusals and the table, with
engines that only pretend."""

import json

import machine
import measure
import prepare
import pytest
import report


class Pretended:
    """Takes a given time a token; at given runs it has to read pages from the disk."""

    def __init__(self, name, seconds, disk_pages_at=()):
        self.name, self.seconds, self.disk_pages_at = name, seconds, set(disk_pages_at)
        self.n_runs, self.n_pages = 0, 0
        self.heard = []

    def used(self):
        return 0.0, self.n_pages

    def run(self, prompt, n_generate):
        self.n_runs += 1
        self.heard.append((list(prompt), n_generate))
        if self.n_runs in self.disk_pages_at:
            self.n_pages += 1000
        return {"prefill_seconds": len(prompt) * self.seconds, "tokens": [5] * n_generate,
                "decode_seconds": (n_generate - 1) * self.seconds, "text": "&" * n_generate,
                "bytes": 1000.0 * (len(prompt) + n_generate)}


@pytest.fixture(autouse=True)
def calm(monkeypatch):
    """Whatever this machine does meanwhile."""
    monkeypatch.setattr(machine, "ticks", lambda: (0.0, 1.0))


def test_turns_alternate_with_the_same_prompts():
    a, b = Pretended("osprey", 0.1), Pretended("llama.cpp", 0.2)
    samples, n_again = measure.alternate(measure.Measure("pp", 40), [a, b], 3, 1, 0, lambda text: None)
    assert a.heard == b.heard and len(a.heard) == 4 and n_again == 0
    assert len({tuple(prompt) for prompt, _ in a.heard[1:]}) == 3
    assert [s["tokens_per_second"] for s in samples["osprey"]] == pytest.approx([10] * 3)
    assert [s["tokens_per_second"] for s in samples["llama.cpp"]] == pytest.approx([5] * 3)


def test_decode_is_timed_without_its_prompt():
    sample = measure.Measure("tg", 8).turn(Pretended("osprey", 0.1), 1)
    assert sample["tokens_per_second"] == pytest.approx(10)


def test_a_disturbed_round_is_taken_again_by_both():
    a, b = Pretended("osprey", 0.1), Pretended("llama.cpp", 0.2, disk_pages_at=[3])
    samples, n_again = measure.alternate(measure.Measure("tg", 4), [a, b], 2, 1, 60, lambda text: None)
    assert n_again == 1 and a.n_runs == b.n_runs == 4
    assert not any(s["disturbed"] for each in samples.values() for s in each)


def test_without_patience_it_counts_and_is_told():
    a, b = Pretended("osprey", 0.1), Pretended("llama.cpp", 0.2, disk_pages_at=[2])
    samples, n_again = measure.alternate(measure.Measure("tg", 4), [a, b], 2, 1, 0, lambda text: None)
    assert n_again == 0 and samples["llama.cpp"][0]["disturbed"]


def test_bytes_of_a_step_are_a_difference():
    assert measure.step_bytes(Pretended("osprey", 0.1), 1) == 1000


def test_options_of_the_command_line():
    assert measure.parse_options("flash=off,ubatch=64") == {
        "load": "mmap", "repack": "on", "flash": "off", "ubatch": 64}
    for text in ("flash=maybe", "speed=high", "ubatch=many"):
        with pytest.raises(SystemExit, match="--llama-options"):
            measure.parse_options(text)


def test_too_little_room_is_refused_with_the_figures(tmp_path):
    with pytest.raises(SystemExit, match=r"GB free, needs 1000000\.0"):
        machine.need_room(tmp_path, 10**15, 0)
    with pytest.raises(SystemExit, match=r"memory are available, needs 1000000\.0"):
        machine.need_room(tmp_path, 0, 10**15)


def test_only_what_is_whole_is_used_again(tmp_path):
    target, made = tmp_path / "weights", []

    def make():
        made.append(1)
        target.write_text("bytes")

    prepare.once(target, "12 layers", make)
    prepare.once(target, "12 layers", make)
    assert len(made) == 1
    prepare.once(target, "6 layers", make)
    assert len(made) == 2
    (tmp_path / "weights.complete").unlink()
    prepare.once(target, "6 layers", make)
    assert len(made) == 3


def test_the_table_has_ratio_and_shares():
    a, b = Pretended("osprey", 0.1), Pretended("llama.cpp", 0.2, disk_pages_at=[2])
    what = measure.Measure("tg", 4)
    samples, _ = measure.alternate(what, [a, b], 2, 1, 0, lambda text: None)
    options = dict(measure.DEFAULTS)
    result = {
        "machine": {"host_cpu": "CPU of a test", "cpus": [0], "osprey_commit": "0" * 40},
        "versions": report.versions(), "llama_step_bytes": 1e9, "prompt_flops": 1e9,
        "arguments": {"layers": "1", "seed": "1", "mxfp4_layers": "all"},
        "llama_tries": [{"measure": "tg8", "options": options, "tokens_per_second": 4.5}],
        "runs": [{"threads": 1, "osprey_step_bytes": 0.5e9, "read_gb_s": [10.0, 10.0, 12.0],
                  "measures": [{"name": what.name, "kind": "tg", "n": 4, "samples": samples,
                                "llama_options": options, "rounds_again": 0}]}]}
    text = report.text(json.loads(json.dumps(result)))
    line = next(line for line in text.splitlines() if " tg4 " in line)
    for cell in ("10.00 t/s", "5.00 t/s", "2.00x", "50% of memory"):
        assert cell in line
    assert line.count("50% of memory") == 2  # 10 x 0.5 GB and 5 x 1 GB of 10 GB/s
    assert "DISTURBED: 1 threads, tg4" in text and "1000 pages" in text
    assert "tried: tg8 4.50" in text


def test_bytes_and_operations_of_the_published_shape(tmp_path):
    config = dict(num_hidden_layers=24, hidden_size=2880, intermediate_size=2880, head_dim=64,
                  num_attention_heads=64, num_key_value_heads=8, num_local_experts=32,
                  num_experts_per_tok=4, vocab_size=201088)
    (tmp_path / "config.json").write_text(json.dumps(config))
    # 3.61 billion active parameters less the embedding, of which a row is read.
    dense = 24 * 26_542_080 + 579_133_440
    experts = 24 * 4 * 24_883_200
    assert prepare.step_bytes(tmp_path, 8.5) == pytest.approx(dense * 34 / 32 + experts * 17 / 32)
    assert prepare.prompt_flops(tmp_path) == pytest.approx(
        2 * (24 * (26_542_080 + 92_160) + experts))


def test_room_is_planned_for_the_published_shape():
    assert prepare.checkpoint_bytes(24) == pytest.approx(13_761_264_768, rel=1e-3)


def test_the_search_takes_the_fastest_of_each_kind(monkeypatch):
    opened = []

    class Peer(Pretended):
        """Repacking helps prompts and hurts decode; large batches help."""

        def __init__(self, folder, gguf, cpus, options, tokens_max):
            super().__init__("llama.cpp", 0.1)
            opened.append(options)

        def set_context(self, options):
            self.options = options

        def run(self, prompt, n_generate):
            out = super().run(prompt, n_generate)
            out["decode_seconds"] *= 2 if self.options["repack"] == "on" else 1
            out["prefill_seconds"] /= self.options["ubatch"]
            out["prefill_seconds"] *= 1 if self.options["repack"] == "on" else 2
            return out

        def close(self):
            pass

    monkeypatch.setattr(measure, "Llama", Peer)
    chosen = measure.tune("folder", "file", [0], [512, 2048], 4096, lambda text: None)
    assert chosen["tg"]["repack"] == "off"
    assert (chosen[512]["repack"], chosen[512]["ubatch"]) == ("on", 512)
    assert (chosen[2048]["repack"], chosen[2048]["ubatch"]) == ("on", 2048)
    assert {(o["load"], o["repack"]) for o in opened} == {
        (load, repack) for load in ("mmap", "read") for repack in ("on", "off")}
