"""`osprey bench` in process and against `osprey serve`, its formats, comparison, drawing and matrix;
`osprey eval quality` with the bounds that the bundled model's default kernels must keep."""

import csv
import io
import json
import os
import subprocess
import xml.etree.ElementTree

import pytest

from conftest import PROGRAM, ROOT, run

QUICK = ("bench", "--pp", "48", "--tg", "8", "--runs", "2", "--warmup-runs", "0")


def bench(*arguments, timeout_s=120):
    done = run(*QUICK, *arguments, timeout_s=timeout_s)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    """One measurement with everything in it: its JSON, and its folder."""
    folder = tmp_path_factory.mktemp("bench")
    bench("--depth", "0,32", "--concurrency", "1,3", "--stages", "--format", "json",
          "--output", str(folder / "a.json"), "--plot", str(folder / "a.svg"))
    return json.loads((folder / "a.json").read_text()), folder


def test_rows(result):
    report, _ = result
    rows = {(r["context_size"], r["concurrency"]): r for r in report["benchmarks"]}
    assert set(rows) == {(0, 1), (0, 3), (32, 1), (32, 3)}
    for (depth, concurrency), row in rows.items():
        assert row["failed"] == 0 and row["short"] == 0
        assert row["prompt_tokens"] == 48 + depth and row["completion_tokens"] == 8
        assert len(row["pp_throughput"]["values"]) == 2
        assert len(row["pp_req_throughput"]["values"]) == 2 * concurrency
        assert row["tg_throughput"]["mean"] > 0
        for name in ("ttft_ms", "tpot_ms", "itl_ms", "e2el_ms"):
            assert 0 < row[name]["p50"] <= row[name]["p99"]
        assert row["ttft_ms"]["p50"] <= row["e2el_ms"]["p50"]
        outside = row["outside_share"]["values"]
        assert len(outside) == 2 and all(0 <= share < 1 for share in outside) and max(outside) > 0
    assert report["machine"]["cpu"] and report["machine"]["memory_bytes"] > 0
    assert len(report["weights"]["hash"]) == 16 and report["weights"]["bytes"] > 1e6
    assert report["process"]["peak_bytes"] > 1e6 and report["process"]["cpus_busy"] > 0
    assert 0 < report["start"]["load_s"] <= report["start"]["ready_s"] + 0.02


def test_stages_add_up(result):
    report, _ = result
    assert report["probe"]["read_gb_per_s"] > 0 and report["probe"]["f32_gop_per_s"] > 0
    assert report["probe"]["read_mean_gb_per_s"] > 0
    assert 0 < report["benchmarks"][0]["decode_read_share"] < 20
    for row in report["benchmarks"]:
        for name in ("prefill_stages", "decode_stages"):
            if row["concurrency"] > 1:
                assert name not in row
                continue
            lines = row[name]
            assert lines[-1]["stage"] == "other" and lines[-1]["percent"] > -1
            assert sum(line["percent"] for line in lines) == pytest.approx(100, abs=0.1)
            experts = next(line for line in lines if line["stage"] == "experts")
            assert experts["ms"] > 0 and experts["bytes"] > 0 and experts["flops"] > 0
            assert experts["roof_percent"] > 0


def test_plot(result):
    _, folder = result
    svg = xml.etree.ElementTree.parse(folder / "a.svg").getroot()
    space = "{http://www.w3.org/2000/svg}"
    assert svg.tag == f"{space}svg"
    assert len(svg.findall(f"{space}polyline")) == 4
    assert len(svg.findall(f"{space}circle")) == 8
    done = run("bench", "--from", f"{folder}/a.json,{folder}/a.json", "--plot", f"{folder}/b.svg")
    assert done.returncode == 0, done.stderr
    both = xml.etree.ElementTree.parse(folder / "b.svg").getroot()
    assert len(both.findall(f"{space}polyline")) == 8
    many = run("bench", "--from", ",".join([f"{folder}/a.json"] * 9), "--plot", f"{folder}/c.svg")
    assert many.returncode != 0 and "at most 8 results" in many.stderr


def test_compare(result):
    report, folder = result
    a, b = str(folder / "a.json"), folder / "slow.json"
    for row in report["benchmarks"]:
        row["tg_throughput"]["mean"] *= 0.9
    b.write_text(json.dumps(report))
    done = run("bench", "--compare", a, a, "--strict")
    assert done.returncode == 0 and "0 regressions" in done.stdout
    done = run("bench", "--compare", a, str(b))
    assert done.returncode == 0 and done.stdout.count("WORSE") == 4
    assert run("bench", "--compare", a, str(b), "--strict").returncode == 1
    assert run("bench", "--compare", a, a, "--output", f"{folder}/same.md").stdout == ""
    assert "0 regressions" in (folder / "same.md").read_text()
    assert run("bench", "--compare", a).returncode == 2
    assert run("bench", "--compare", a, "/nowhere.json").returncode == 1
    (folder / "bad.json").write_text("{")
    assert f"{folder}/bad.json: line 1" in run("bench", "--compare", a, f"{folder}/bad.json").stderr


@pytest.mark.parametrize("options, text", [
    (["--strict"], "--strict needs --compare"),
    (["--quality-file", "x"], "--quality-file needs --quality"),
    (["--from", "a.json"], "--from needs --plot"),
    (["--plain-body"], "--plain-body needs --url"),
    (["--plot", "/nowhere/a.svg"], "/nowhere/a.svg: cannot be written"),
    (["--matrix", "x", "--from", "y", "--plot", "a.svg"], "--matrix and --plot cannot be combined"),
    (["--from", "a", "--plot", "a.svg"], "a: cannot open"),
])  # fmt: skip
def test_options_that_would_say_nothing(options, text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run("bench", *options)
    assert done.returncode in (1, 2) and text in done.stderr and done.stdout == ""


def test_table_and_csv():
    table = bench()
    assert "| osprey-nano | pp48 |" in table and "| osprey-nano | tg8 |" in table
    rows = [line for line in table.splitlines() if line.startswith("| osprey-nano")]
    head = next(line for line in table.splitlines() if line.startswith("| model"))
    assert all(line.count("|") == head.count("|") for line in rows)
    lines = list(csv.reader(io.StringIO(bench("--format", "csv"))))
    assert len(lines) == 2 and len(lines[0]) == len(lines[1])
    cells = dict(zip(*lines))
    assert cells["prompt_size"] == "48" and 0 <= float(cells["outside_share_mean"]) < 1
    head = next(line for line in table.splitlines() if line.startswith("| test |"))
    times = next(line for line in table.splitlines() if line.startswith("| pp48+tg8 |"))
    assert head.endswith("| outside the backend (%) |") and head.count("|") == times.count("|")


def test_server(server):
    report = json.loads(bench("--url", server.url, "--concurrency", "1,2", "--format", "json",
                              "--server-pid", str(server.process.pid)))
    assert report["model"] == "osprey-nano" and report["latency_mode"] == "api"
    assert report["latency_ms"] > 0
    assert report["process"]["peak_bytes"] > 1e6
    for row in report["benchmarks"]:
        assert row["failed"] == 0 and row["short"] == 0  # ignore_eos holds
        assert 0.8 * 48 < row["prompt_tokens"]
        assert row["pp_throughput"]["mean"] > 0 and row["e2el_ms"]["p99"] > 0
        assert row["outside_share"] is None  # nobody but the engine's own process knows


def test_arrivals_and_lengths(server):
    """12 requests of random lengths that arrive at random, at most two at once, here and through a server,
    with what the engine counted meanwhile."""
    options = ("--concurrency", "2", "--num-prompts", "12", "--request-rate", "100",
               "--random-range-ratio", "0.5", "--runs", "1", "--format", "json")
    for where in ((), ("--url", server.url)):
        report = json.loads(bench(*options, *where))
        assert report["request_rate"] == 100 and report["range_ratio"] == 0.5
        row, = report["benchmarks"]
        assert row["requests"] == 12 and row["failed"] == 0 and row["short"] == 0
        assert row["output_throughput"]["mean"] > 0
        engine = row["engine"]
        assert engine["first_tokens"] == engine["admissions"] == 12
        steps = {kind: engine[f"{kind}_steps"] for kind in ("decode", "prefill", "mixed")}
        assert steps["decode"] > 0 and steps["prefill"] > 0
        rows = sum(engine[f"{kind}_rows"] for kind in steps)
        assert 12 * (24 + 4) <= rows + 12 <= 12 * (1.2 * 72 + 12) and engine["decode_graphs"] == 0
        assert 0 < engine["ttft_ms"] < row["e2el_ms"]["p99"]


def test_server_of_before_with_v1(server):
    table = bench("--url", f"{server.url}/v1/", "--plain-body")
    assert f"server: {server.url}/v1/" in table


def test_no_server():
    done = run(*QUICK, "--url", "http://127.0.0.1:9")
    assert done.returncode == 1 and "127.0.0.1:9" in done.stderr


def test_key_is_not_told(server):
    assert "secret-key" not in bench("--url", server.url, "--api-key", "secret-key")


def test_matrix(tmp_path):
    flags = tmp_path / "flags"
    flags.write_text("--threads 1 2 # two\n--shape osprey-nano moon\n")
    options = ("--matrix", str(flags), "--load-format", "dummy", "--layers", "2")
    done = run(*QUICK, *options, "--format", "json", timeout_s=120)
    assert done.returncode == 1  # two of the four cannot work
    cells = json.loads(done.stdout)["matrix"]
    assert [c["flags"]["--threads"] for c in cells] == ["1", "1", "2", "2"]
    for cell in cells:
        moon = cell["flags"]["--shape"] == "moon"
        assert ("moon" in cell["failure"]) == moon
        assert len(cell["benchmarks"]) == (0 if moon else 1)
    table = run(*QUICK, *options, timeout_s=120).stdout
    assert table.count("\n") == 6 and "model shape moon is unknown" in table


@pytest.mark.parametrize("arguments", [
    ("--pp", "x"), ("--pp", "0"), ("--format", "xml"), ("--from", "a.json"), ("--matrix", "/nowhere"),
    ("--output", "/nowhere/x"), ("a", "b"), ("--url", "http://127.0.0.1:9", "--stages"),
    ("--server-pid", "1"),
])
def test_wrong_options(arguments):
    done = run(*QUICK, *arguments)
    assert done.returncode in (1, 2) and done.stderr.startswith("osprey: ")


def test_default_kernels_keep_to_the_reference():
    """The bounds of docs/quality.md, on the bundled model, with one conversation of each ability;
    check_isas measures every ISA over more."""
    done = run("eval", "quality", "--limit", "1", "--json", "--kl-max", "1e-4", "--same-top-min", "96", timeout_s=280)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["tokens"] > 2500
    assert report["perplexity"] == pytest.approx(report["reference_perplexity"], rel=0.01)


def test_reference_is_itself(tmp_path):
    text = tmp_path / "text"
    text.write_text("The capital of France is Paris. " * 8)
    same = run("eval", "quality", "--cpu-features", "ref", "--file", str(text), "--json",
               "--kl-max", "0", "--same-top-min", "100")
    assert same.returncode == 0, same.stderr
    assert json.loads(same.stdout)["kl_max"] == 0
    alone = run("eval", "quality", "--alone", "--file", str(text), "--max-tokens", "20", "--json")
    assert json.loads(alone.stdout)["tokens"] == 19
    bound = run("eval", "quality", "--no-sinks", "--file", str(text), "--kl-max", "0.001")
    assert bound.returncode == 1 and "KL mean" in bound.stderr


def test_scaling_script():
    """A line for each number of threads; what it compares itself with is in the same line."""
    done = subprocess.run(
        ["sh", ROOT / "bench/scaling.sh", PROGRAM, "--shape", "osprey-nano", "--layers", "2", "--pp", "16",
         "--tg", "4", "--runs", "1"],
        env={**os.environ, "THREADS": "1 2"}, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    rows = [[c.strip() for c in line.split("|")[1:-1]] for line in done.stdout.splitlines()[2:4]]
    assert [row[0] for row in rows] == ["1", "2"]
    assert rows[0][2] == "1.00" and rows[0][3] == "100 %"
    assert all(float(row[1]) > 0 and float(row[4]) > 0 and float(row[8]) > 0 for row in rows)
    done = subprocess.run(["sh", ROOT / "bench/scaling.sh", PROGRAM, "--shape", "none"], capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 1 and "failed" in done.stderr
