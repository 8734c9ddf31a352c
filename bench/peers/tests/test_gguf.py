"""The GGUF file holds the checkpoint's weights: read back with the gguf package and widened by it,
compared with the checkpoint widened here, from the published description of MXFP4."""

import json
from pathlib import Path

import gguf
import numpy as np
import pytest
import write_gguf
from checkpoint import Checkpoint

ROOT = Path(__file__).resolve().parents[3]
GOLDEN = ROOT / "tests/golden/model"
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)
FOLDERS = [ROOT / "tests/golden/checkpoints/hf", GOLDEN / "gqa8", GOLDEN / "many",
           ROOT / "models/osprey-nano"]


def widened(checkpoint, name):
    """(E, rows, columns): nibble low first, times 2^(scale - 127)."""
    blocks, scales = checkpoint.raw(name + "_blocks"), checkpoint.raw(name + "_scales")
    codes = np.stack([blocks & 15, blocks >> 4], axis=-1).reshape(*blocks.shape[:-1], 32)
    values = E2M1[codes] * np.exp2(scales.astype(np.float32) - 127)[..., None]
    return values.reshape(*blocks.shape[:-2], -1)


class File:
    def __init__(self, path):
        self.reader = gguf.GGUFReader(path)
        self.tensors = {t.name: t for t in self.reader.tensors}

    def values(self, name):
        t = self.tensors[name]
        return gguf.dequantize(t.data, t.tensor_type).reshape(tuple(reversed(t.shape.tolist())))

    def key(self, name):
        return self.reader.get_field(name).contents()


@pytest.fixture(scope="module", params=FOLDERS, ids=lambda p: p.name)
def pair(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("gguf") / "model.gguf"
    write_gguf.write(request.param, path)
    return Checkpoint(request.param), File(path)


def test_experts_are_the_same_values(pair):
    checkpoint, file = pair
    for i in range(checkpoint.config["num_hidden_layers"]):
        p = f"model.layers.{i}.mlp.experts."
        gate_up, down = widened(checkpoint, p + "gate_up_proj"), widened(checkpoint, p + "down_proj")
        for name, ours in (("gate", gate_up[:, 0::2]), ("up", gate_up[:, 1::2]), ("down", down)):
            np.testing.assert_array_equal(file.values(f"blk.{i}.ffn_{name}_exps.weight"), ours)
            assert np.abs(ours).max() > 0


def test_small_tensors_are_the_same_values(pair):
    checkpoint, file = pair
    p, t = "model.layers.1.", "blk.1."
    bias = checkpoint.f32(p + "mlp.experts.gate_up_proj_bias")
    for ours, theirs in ((checkpoint.f32(p + "self_attn.sinks"), "attn_sinks.weight"),
                         (checkpoint.f32(p + "input_layernorm.weight"), "attn_norm.weight"),
                         (checkpoint.f32(p + "post_attention_layernorm.weight"),
                          "post_attention_norm.weight"),
                         (checkpoint.f32(p + "mlp.router.weight"), "ffn_gate_inp.weight"),
                         (checkpoint.f32(p + "self_attn.o_proj.bias"), "attn_output.bias"),
                         (bias[:, 0::2], "ffn_gate_exps.bias"), (bias[:, 1::2], "ffn_up_exps.bias")):
        np.testing.assert_array_equal(file.values(t + theirs), ours)


def test_dense_matrices_are_within_half_a_step(pair):
    checkpoint, file = pair
    for ours, theirs in (("model.layers.0.self_attn.q_proj.weight", "blk.0.attn_q.weight"),
                         ("model.layers.1.self_attn.o_proj.weight", "blk.1.attn_output.weight"),
                         ("model.embed_tokens.weight", "token_embd.weight")):
        exact, read = checkpoint.f32(ours), file.values(theirs)
        blocks = exact.reshape(-1, 32)
        step = np.abs(blocks).max(axis=1) / 127
        error = np.abs(read.reshape(-1, 32) - blocks).max(axis=1)
        assert (error <= step * 0.57).all()  # half a step, and the scale in half precision
        assert file.tensors[theirs].tensor_type == gguf.GGMLQuantizationType.Q8_0


def test_head_is_the_embedding_when_tied(pair):
    checkpoint, file = pair
    head = "lm_head.weight" if checkpoint.has("lm_head.weight") else "model.embed_tokens.weight"
    assert np.abs(file.values("output.weight") - checkpoint.f32(head)).max() < 0.05


def test_config(pair):
    checkpoint, file = pair
    c = checkpoint.config
    assert file.key("general.architecture") == "gpt-oss"
    assert file.key("gpt-oss.block_count") == c["num_hidden_layers"]
    assert file.key("gpt-oss.attention.key_length") == c["head_dim"]
    assert file.key("gpt-oss.expert_used_count") == c["num_experts_per_tok"]
    assert file.key("gpt-oss.vocab_size") == c["vocab_size"]
    assert file.key("gpt-oss.rope.scaling.type") == "yarn"


def test_exact_matrices(tmp_path):
    write_gguf.write(GOLDEN / "gqa8", tmp_path / "f32.gguf", "f32")
    checkpoint, file = Checkpoint(GOLDEN / "gqa8"), File(tmp_path / "f32.gguf")
    np.testing.assert_array_equal(file.values("output.weight"), checkpoint.f32("lm_head.weight"))


def test_what_llama_cpp_has_no_form_for_is_refused(tmp_path):
    with pytest.raises(SystemExit, match="layer_types"):
        write_gguf.write(GOLDEN / "full", tmp_path / "full.gguf")


def test_a_missing_tensor_is_named(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(Checkpoint(GOLDEN / "gqa8").config))
    with pytest.raises(SystemExit, match="no tensor"):
        write_gguf.write(tmp_path, tmp_path / "x.gguf")
