"""Command lines as people publish them for vLLM and llama-server: each starts a server that answers, or
says what to do instead. Only the model, the address and the port are put in here."""

import json
import os
import pathlib
import re
import shlex
import shutil
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
    "MODEL --quantization mxfp4 --tensor-parallel-size 2 --gpu-memory-utilization 0.70 --max-model-len 131072 "
    "--max-num-seqs 2 --max-num-batched-tokens 8192 --enforce-eager --enable-prefix-caching --load-format fastsafetensors "
    """--attention-backend FLASHINFER --attention-config '{"backend": "FLASHINFER", "use_cudnn_prefill": true}' """
    "--kv-cache-dtype fp8 --async-scheduling --enable-auto-tool-choice --tool-call-parser openai "
    "--reasoning-parser openai_gptoss --mxfp4-backend CUTLASS --mxfp4-layers moe,qkv,o,lm_head",
    "--model MODEL --host 0.0.0.0 --port 8000 --served-model-name gpt-oss-20b --api-key token-abc123 "
    "--disable-log-requests --uvicorn-log-level warning",
    "MODEL --max_model_len 32k --max_num_seqs=4 --enforce_eager --trust_remote_code --seed 0",
    "MODEL --tensor-parallel-size 1 --pipeline-parallel-size 1 --swap-space 16 --block-size 16 "
    "--enable-chunked-prefill --disable-custom-all-reduce --download-dir /models --revision main",
    "MODEL --max-model-len -1 --generation-config vllm --override-generation-config "
    """'{"temperature": 0.6}' --allowed-origins '["*"]' --chat-template-content-format string""",
    "MODEL --max-model-len auto --enable-log-outputs --enable-prompt-tokens-details --enable-request-id-headers "
    "--otlp-traces-endpoint http://localhost:4317",
    "--model-path MODEL --tp-size 1 --mem-fraction-static 0.8 --context-length 4096 --max-running-requests 4 "
    "--chunked-prefill-size 512 --disable-radix-cache",
    "MODEL --load-format safetensors --enable-expert-parallel --data-parallel-size 1 -O3 "
    """--default-chat-template-kwargs '{"reasoning_effort": "low"}' --structured-outputs-config '{}'""",
    """MODEL --speculative-config '{"method": "ngram", "num_speculative_tokens": 5, "prompt_lookup_max": 4}'""",
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
    "-m MODEL -fa on -ctk q8_0 -ctv q8_0",
    "-m MODEL -ctk q8_0 --cache-type-v q4_0",
    "-m MODEL --draft-max 16 --draft-min 4 -ngld 99 -n -1 -s 42 --log-disable",
    "-m MODEL --no-mmproj --no-kv-offload -lv 4 --log-file server.log --log-timestamps --no-slots --offline",
]

REFUSED = [
    ("openai/gpt-oss-20b --tool-call-parser openai", "run osprey pull openai/gpt-oss-20b, or add --pull"),
    ("MODEL --nnodes 2", "only the value 1 is supported"),
    ("MODEL --config server.yaml", "server.yaml"),
    ("MODEL --load-format gguf", "load format gguf"),
    ("MODEL --attention-config FLASHINFER", "must be a JSON object"),
    ("MODEL --enable-lora --lora-modules a=b", "merge them"),
    ("MODEL --ssl-keyfile key.pem --ssl-certfile cert.pem", "--ssl-certfile: cert.pem"),
    ("MODEL --ssl-ca-certs ca.pem --ssl-cert-reqs 2", "certificates of clients"),
    ("MODEL --presence-penalty 1.5", "only the value 0 is supported"),
    ("-hf ggml-org/gpt-oss-20b-GGUF -c 0 --jinja --offline", "without them osprey pull ggml-org/gpt-oss-20b-GGUF"),
    ("--docker-repo ai/gpt-oss -c 0 --jinja", "osprey downloads from Hugging Face only"),
    ("-m gpt-oss-20b-mxfp4.gguf -c 0", "gpt-oss-20b-mxfp4.gguf: no such file"),
    ("-m MODEL --api-key-file no-such-keys.txt", "--api-key-file: no-such-keys.txt"),
    ("-m MODEL --embedding --pooling mean", "no embedding or reranking models"),
    ("-m MODEL --rpc 192.168.88.10:50052", "with --hosts for several hosts"),
    ("-m MODEL --grammar-file json.gbnf", "grammar"),
    ("-m MODEL --spec-type eagle3", "use --model-draft FOLDER"),
    ("""MODEL --speculative-config '{"method": "mtp", "model": "x"}'""", "method mtp is not supported yet"),
    ("""MODEL --speculative-config '{"model": ""}'""", "must be the folder of an Eagle3 draft head"),
    ("""MODEL --speculative-config '{"method": "ngram", "num_speculative_tokens": 17}'""", "an integer from 1 to 16"),
    ("""MODEL --speculative-config '{"method": "ngram", "k": 3}'""", "unknown member k"),
    ("MODEL --speculative-config ngram", "must be a JSON object"),
    ("MODEL --draft-max 2 --draft-min 3", "fewest draft tokens are 3"),
    ("-m MODEL --allowed-origins https://a.example,https://b.example/", '"https://b.example/" is not an origin'),
    ("-m MODEL --allowed-origins https://", '"https://" is not an origin'),
    ("-m MODEL -ctk q8_0 -ctv f16", "KV cache types q8_0 and f16: keys and values must have the same type"),
]


def words_of(line):
    line = re.sub(r"--host \S+", "", re.sub(r"--port \d+", "", line)).replace("MODEL", shlex.quote(MODEL))
    return [*shlex.split(line), "--port", "0"]


@pytest.mark.parametrize("line", VLLM + LLAMA)
def test_runs(line):
    key = "token-abc123" if "--api-key" in line else "none"
    log = serve_once(words_of(line), key)
    # One line for each option that was ignored, with a reason.
    ignored = [x for x in log.splitlines() if "is ignored" in x]
    assert all(re.fullmatch(r"osprey: --?[\w-]+( \w+|: \w+)? is ignored: \S.+", x) for x in ignored)
    assert len(set(ignored)) == len(ignored)


def serve_once(words, key="none", environment=None, **more):
    """Starts a server, asks it once, and gives its log."""
    server = subprocess.Popen(
        [PROGRAM, "serve", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, **(environment or {})}
    )
    url = server.stdout.readline().strip()
    assert url.startswith("http://127.0.0.1:"), server.communicate()[1]
    body = {"messages": [{"role": "user", "content": "What is the capital of France?"}], "max_tokens": 2, **more}
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
    return log


@pytest.fixture
def cache(tmp_path):
    """openai/gpt-oss-120b in a cache as `hf download` leaves it: files are links to blobs."""
    model = tmp_path / "hub" / "models--openai--gpt-oss-120b"
    snapshot = model / "snapshots" / "b5c939de"
    for folder in (model / "refs", model / "blobs", snapshot):
        folder.mkdir(parents=True)
    (model / "refs" / "main").write_text("b5c939de")
    for n, file in enumerate(sorted(pathlib.Path(MODEL).iterdir())):
        shutil.copy(file, model / "blobs" / str(n))
        (snapshot / file.name).symlink_to(f"../../blobs/{n}")
    return tmp_path


def test_model_of_the_local_cache(cache):
    """By its name, as vLLM is told; clients call it by that name."""
    line = ["openai/gpt-oss-120b", "--max-model-len", "4096", "--port", "0"]
    serve_once(line, environment={"HF_HOME": str(cache), "HF_HUB_CACHE": ""}, model="openai/gpt-oss-120b")
    serve_once([*line, "--revision", "b5c939de", "--download-dir", str(cache / "hub")], model="openai/gpt-oss-120b")
    done = run("serve", *line, "--revision", "v2", environment={"HF_HUB_CACHE": str(cache / "hub")})
    assert done.returncode == 1 and "openai/gpt-oss-120b@v2 is not in the local Hugging Face cache" in done.stderr


def test_config_file_and_variables(tmp_path):
    config = tmp_path / "server.yaml"
    config.write_text(f'model: "{MODEL}"\nport: 0\nserved-model-name: from-file\nmax_model_len: 4k\n'
                      "tensor-parallel-size: 1\ntrust-remote-code: true\n")
    log = serve_once(["--config", str(config)], model="from-file")
    assert "context length 4000 tokens" in log and "--trust-remote-code is ignored" in log
    log = serve_once([], environment={"OSPREY_CONFIG": str(config), "OSPREY_SERVED_MODEL_NAME": "from-variable",
                                      "VLLM_MXFP4_BACKEND": "CUTLASS", "VLLM_MXFP4_MADE_UP": "1"}, model="from-variable")
    assert "VLLM_MXFP4_MADE_UP is ignored" in log and "VLLM_MXFP4_BACKEND" not in log


COMPLETIONS = {
    "bash": """source $FOLDER/_osprey
        COMP_WORDS=(osprey serve --max-m); COMP_CWORD=2; _osprey; echo "${COMPREPLY[@]}"
        COMP_WORDS=(osprey tok); COMP_CWORD=1; _osprey; echo "${COMPREPLY[@]}" """,
    "fish": """source $FOLDER/_osprey; complete -C 'osprey serve --max-m'; complete -C 'osprey tok'""",
    "zsh": """zmodload zsh/zpty; zpty shell TERM=dumb zsh -f -i
        zpty -w shell 'PS1=; PS2=; fpath=($FOLDER $fpath); autoload -U compinit; compinit -u -D; echo REA""DY'
        zpty -r -m shell line '*READY*'; zpty -w -n shell $'osprey serve --max-model\\t'
        zpty -r -m shell line '*max-model-len*'; print -r -- "$line"
        zpty -w -n shell $'\\C-uosprey tok\\t'; zpty -r -m shell line '*tokenize*'; print -r -- "$line"; zpty -d shell""",
}


@pytest.mark.parametrize("shell", COMPLETIONS)
def test_completion(shell, tmp_path):
    """The script in the shell itself, where there is one."""
    made = run("completion", shell)
    assert made.returncode == 0 and all(word in made.stdout for word in ("max-model-len", "config", "np", "serve"))
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    (tmp_path / "_osprey").write_text(made.stdout)
    done = subprocess.run([shell, "-c", COMPLETIONS[shell]], capture_output=True, text=True, timeout=60,
                          stdin=subprocess.DEVNULL, env={**os.environ, "FOLDER": str(tmp_path)})
    assert "--max-model-len" in done.stdout and "tokenize" in done.stdout, done


@pytest.mark.parametrize("line, advice", REFUSED)
def test_refused_with_advice(line, advice):
    done = run("serve", *words_of(line), environment={"HF_HUB_CACHE": "/nowhere"})
    assert done.returncode in (1, 2)
    assert advice in done.stderr and done.stdout == ""


def test_the_table_in_the_documentation():
    table = run("help", "--foreign").stdout
    assert f"```\n$ osprey help --foreign\n{table}```\n" in (ROOT / "docs" / "foreign-options.md").read_text()
