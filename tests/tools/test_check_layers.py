"""tools/check_layers finds every kind of planted violation, and nothing in a clean tree."""
import pathlib
import subprocess
import sys

import pytest

TOOL = pathlib.Path(__file__).parents[2] / "tools" / "check_layers"

CLEAN = {
    "include/osprey_status.h": "enum osp_status { OSP_OK };\n",
    "include/osprey.h": '#include <stdint.h>\n#include "osprey_status.h"\n',
    "src/base/status.h": '#include "osprey_status.h"\n',
    "src/base/cpus.c": "#include <linux/futex.h>\n#if defined(__x86_64__)\n#endif\n",
    "src/store/json.h": "#include <jansson.h>\n",
    "src/store/json.c": '#include "store/json.h"\n#include "base/status.h"\n',
    "src/store/checkpoint.h": '#include "base/status.h"\n',
    "src/model/model.c": '#include "store/checkpoint.h"\n',
    "src/serve/core/serve.h": "\n",
    "src/cli/main.c": '#include "serve/core/serve.h"\n#include "osprey.h"\n#include <histedit.h>\n',
    "src/cpu/kernels/kernels_avx2.c": "#include <immintrin.h>\n",
    "src/cuda/launch/launch.h": '#include "backend/backend.h"\n',
    "src/cuda/decode/decode.h": '#include "cuda/launch/launch.h"\n',
    "src/cuda/program/step.c": '#include "cuda/decode/decode.h"\n',
    "examples/embed.c": "#include <osprey.h>\n#include <stdio.h>\n",
}

PLANTED = [
    ("src/text/token/bad.c", '#include "store/checkpoint.h"\n', "text may not include store/checkpoint.h"),
    ("src/cpu/stages/bad.c", '#include "model/forward.h"\n', "cpu may not include"),
    ("src/base/bad.c", '#include "text/x.h"\n', "base may not include text/x.h"),
    ("src/serve/bad.c", '#include "engine/x.h"\n', "serve may not include"),
    ("src/cli/bad.c", '#include "serve/http/http.h"\n', "cli may not include"),
    ("src/model/bad.c", '#include "osprey.h"\n', "model may not include osprey.h"),
    ("src/engine/bad.c", "#include <jansson.h>\n", "<jansson.h> belongs in"),
    ("src/engine/core/bad.c", '#include "engine/sched/sched_internal.h"\n', "is private to src/engine/sched/*"),
    ("src/serve/routes.c", "#include <uv.h>\n", "<uv.h> belongs in"),
    ("src/cpu/stages/stages.c", "#include <immintrin.h>\n", "<immintrin.h> belongs in"),
    ("src/model/bad.c", '#include "store/json.h"\n', "brings <jansson.h> into another folder"),
    ("src/model/bad.c", "  #  if defined(__AVX2__)\n", "platform #if"),
    ("src/model/bad.c", "#include <boost/any.h>\n", "neither libc nor a known library"),
    ("src/extra/bad.c", "\n", "the folder is not in the table"),
    ("src/cuda/bad.c", "\n", "the folder is not in the table"),
    ("src/cuda/extra/bad.c", "\n", "the folder is not in the table"),
    ("src/base/extra/bad.c", "\n", "the folder is not in the table"),
    ("src/cuda/common/bad.h", '#include "cuda/decode/decode.h"\n', "cuda/common may not include"),
    ("src/cuda/decode/bad.h", '#include "cuda/prefill/gemm.h"\n', "of cuda it may include common"),
    ("include/bad.h", "#include <uv.h>\n", "not allowed in include/"),
    ("include/bad.h", '#include "base/status.h"\n', "only the public headers"),
    ("examples/bad.c", '#include "base/status.h"\n', "only the public headers"),
]


def run(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return subprocess.run([sys.executable, TOOL, root], capture_output=True, text=True)


def test_clean_tree(tmp_path):
    done = run(tmp_path, CLEAN)
    assert done.stdout == "layers: 0 violations\n"
    assert done.returncode == 0


@pytest.mark.parametrize("name,text,message", PLANTED)
def test_planted_violation(tmp_path, name, text, message):
    done = run(tmp_path, {**CLEAN, name: text})
    assert done.returncode == 1
    assert f"{name}:1: " in done.stdout
    assert message in done.stdout
    assert "layers: 1 violations" in done.stdout
