"""Command lines as people publish them for vLLM and llama-server: each starts a server that answers, or
says what to do instead. Only the model, the address and the port are put in here."""

import json
import re
import shlex
import subprocess
import urllib.request

import pytest

from conftest import PROGRAM, ROOT, run

MODEL = str(ROOT / "models" / "osprey-nano")

VLLM = [
    "MODEL",
    "MODEL --tool-call-parser openai --enable-auto-tool-choice --reasoning-parser openai_gptoss "
    "--tool-server demo --max-model-len 8192 --dtype auto",
    "MODEL --kv-cache-dtype fp8 --no-enable-prefix-caching --max-cudagraph-capture-size 2048 "
    "--max-num-batched-tokens 8192 --stream-interval 20",
    "MODEL --async-scheduling --gpu-memory-utilization 0.95 --max-num-seqs 128 "
    """--compilation-config '{"pass_config": {"enable_fi_allreduce_fusion": true}, "level": 3}'""",
    "MODEL --quantization mxfp4 --mxfp4-backend CUTLASS --mxfp4-layers moe,qkv,o,lm_head "
    "--attention-backend FLASHINFER --gpu-memory-utilization 0.70 --max-model-len 131072 "
    "--max-num-seqs 2 --max-num-batched-tokens 8192 --enable-prefix-caching",
    "--model MODEL --host 0.0.0.0 --port 8000 --served-model-name gpt-oss-20b --api-key token-abc123 "
    "--disable-log-requests --uvicorn-log-level warning",
    "MODEL --max_model_len 32k --max_num_seqs=4 --enforce_eager --trust_remote_code --seed 0",
    "MODEL --tensor-parallel-size 1 --pipeline-parallel-size 1 --swap-space 16 --block-size 16 "
    "--enable-chunked-prefill --disable-custom-all-reduce --download-dir /models --revision main",
    "MODEL --max-model-len -1 --generation-config vllm --override-generation-config "
    """'{"temperature": 0.6}' --allowed-origins '["*"]' --chat-template-content-format string""",
    "MODEL --load-format safetensors --enable-expert-parallel --data-parallel-size 1 -O3 "
    """--default-chat-template-kwargs '{"reasoning_effort": "low"}' --structured-outputs-config '{}'""",
]

LLAMA = [
    "-m MODEL -c 0 -fa on --jinja --reasoning-format none -ngl 99",
    """--model MODEL --ctx-size 101072 -ngl 99 --override-tensor ".*_exps=CPU" --threads 2 """
    "--threads-batch 2 --host 127.0.0.1 -fa --jinja --temp 0.6 --top-p 1.0 "
    """--chat-template-kwargs '{"reasoning_effort": "high"}' --port 8080""",
    """-m MODEL --alias gpt-oss-120b --no-webui --numa numactl --threads 2 --ctx-size 131072 """
    """--n-gpu-layers 37 -ot "exps=CPU" --no-op-offload -ub 4096 -b 4096 --seed 3407 --temp 0.6 """
    "--top-p 1.0 --log-colors --flash-attn --host 0.0.0.0 --jinja --port 11434",
    "-m MODEL --top-k 0 --min-p 0.0 --repeat-penalty 1.0 --presence-penalty 0 --frequency-penalty 0.0",
    "-m MODEL -c 32768 -np 4 -cb --metrics --slots --props --no-warmup --prio 2 -v",
    "-m MODEL --no-context-shift --cache-reuse 256 --swa-full --cache-ram 8192 --ctx-checkpoints 32",
    "-m MODEL --reasoning-budget -1 --reasoning-format auto --timeout 600 --no-mmap --mlock -t -1 -np -1",
    "-m MODEL --n-cpu-moe 36 -ctk f16 -ctv f16 -sm layer -mg 0 -ts 1,1 -dev CUDA0 --fit on -kvu",
    "-m MODEL -md draft.gguf --draft-max 16 --draft-min 4 -ngld 99 -n -1 -s 42 --log-disable",
    "-m MODEL --no-mmproj --no-kv-offload -lv 4 --log-file server.log --log-timestamps --no-slots --offline",
]

REFUSED = [
    ("openai/gpt-oss-20b --tool-call-parser openai", "hf download openai/gpt-oss-20b"),
    ("MODEL --tensor-parallel-size 2", "only 1 is supported"),
    ("MODEL --config server.yaml", "OSPREY_NAME"),
    ("MODEL --enable-lora --lora-modules a=b", "merge them"),
    ("MODEL --ssl-keyfile key.pem --ssl-certfile cert.pem", "reverse proxy"),
    ("MODEL --presence-penalty 1.5", "only 0 is supported"),
    ("-hf ggml-org/gpt-oss-20b-GGUF -c 0 --jinja", "hf download openai/gpt-oss-20b"),
    ("-m gpt-oss-20b-mxfp4.gguf -c 0", "GGUF files are not read"),
    ("-m MODEL --api-key-file keys.txt", "OSPREY_API_KEY"),
    ("-m MODEL --embedding --pooling mean", "no embeddings"),
    ("-m MODEL --rpc 192.168.88.10:50052", "one process"),
    ("-m MODEL --grammar-file json.gbnf", "grammar"),
]


def words_of(line):
    line = re.sub(r"--host \S+", "", re.sub(r"--port \d+", "", line)).replace("MODEL", shlex.quote(MODEL))
    return [*shlex.split(line), "--port", "0"]


@pytest.mark.parametrize("line", VLLM + LLAMA)
def test_runs(line):
    key = "token-abc123" if "--api-key" in line else "none"
    server = subprocess.Popen(
        [PROGRAM, "serve", *words_of(line)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    url = server.stdout.readline().strip()
    assert url.startswith("http://127.0.0.1:"), server.communicate()[1]
    body = {"messages": [{"role": "user", "content": "What is the capital of France?"}], "max_tokens": 2}
    request = urllib.request.Request(
        f"{url}/v1/chat/completions",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json", "Authorization": f"Bearer {key}"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert json.load(answer)["usage"]["completion_tokens"] == 2
    server.terminate()
    log = server.communicate(timeout=30)[1]
    assert server.returncode == 0, log
    # One line for each option that was ignored, with a reason.
    ignored = [x for x in log.splitlines() if "is ignored" in x]
    assert all(re.fullmatch(r"osprey: --?[\w-]+ is ignored: \S.+", x) for x in ignored)
    assert len(set(ignored)) == len(ignored)


@pytest.mark.parametrize("line, advice", REFUSED)
def test_refused_with_advice(line, advice):
    done = run("serve", *words_of(line))
    assert done.returncode in (1, 2)
    assert advice in done.stderr and done.stdout == ""


def test_the_table_in_the_documentation():
    table = run("help", "--foreign").stdout
    assert f"```\n$ osprey help --foreign\n{table}```\n" in (ROOT / "docs" / "foreign-options.md").read_text()
