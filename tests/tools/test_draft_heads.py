"""Eagle3 draft heads: every published layout gives the logits and guesses of its formulas (draft_heads.py), and a head
that does not fit is refused with a message that names the file, the tensor or key, and what was expected."""
import os
import pathlib
import subprocess

import numpy as np
import pytest

import draft_heads
from draft_heads import LAYOUTS, VOCAB, WIDTH, Head

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("OSPREY_BUILD", ROOT / "build"))
N_TOKENS, N_GUESSES = 90, 4  # more than a page of positions


def run(folder, tokens, status=0):
    done = subprocess.run([BUILD / "tests" / "print_draft", folder, str(N_GUESSES)],
                          input=np.array(tokens, np.int32).tobytes(), capture_output=True, timeout=60,
                          env={**os.environ, "OSPREY_CPU_FEATURES": "ref"})
    assert done.returncode == status, done.stderr.decode()
    return done


def outputs(head, folder, tokens):
    raw = run(folder, tokens).stdout
    n, s = len(tokens), len(head.states)
    n_logits = head.layout.get("head", VOCAB)
    sizes = [n * s * WIDTH, (n - 1) * n_logits, (N_GUESSES - 1) * n_logits]
    numbers = np.frombuffer(raw[:-4 * N_GUESSES], np.float32)
    assert len(numbers) == sum(sizes)
    taps, first, again = np.split(numbers, np.cumsum(sizes)[:-1])
    guesses = np.frombuffer(raw[-4 * N_GUESSES:], np.int32).tolist()
    return taps.reshape(n, s * WIDTH), first.reshape(n - 1, -1), again.reshape(N_GUESSES - 1, -1), guesses


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layout(layout, tmp_path):
    head = Head(layout)
    tokens = np.random.default_rng(7).integers(0, 1900, N_TOKENS)
    taps, first, again, guesses = outputs(head, head.write(tmp_path / layout), tokens)
    cache, positions = [], np.arange(N_TOKENS - 1)
    want, states = head.step(head.input_of(taps[:-1]), tokens[1:], positions, cache)
    np.testing.assert_allclose(first, want, atol=2e-3)
    state, logits = states[-1:], first[-1]
    for i, guess in enumerate(guesses):
        assert head.token(logits.argmax()) == guess
        if i + 1 == N_GUESSES:
            break
        want, state = head.step(state, [guess], np.array([N_TOKENS - 1 + i]), cache)
        np.testing.assert_allclose(again[i], want[0], atol=2e-3)
        logits = again[i]


def model_logits(tokens):
    raw = subprocess.run([BUILD / "tests" / "print_logits", draft_heads.NANO],
                         input=tokens.astype(np.int32).tobytes(), capture_output=True, check=True,
                         env={**os.environ, "OSPREY_CPU_FEATURES": "ref"}).stdout
    return np.frombuffer(raw, np.float32).reshape(len(tokens), -1)


def test_states_are_boundaries(tmp_path):
    """Boundary 0 is the embedding, the last one is what the final norm reads."""
    tokens = np.random.default_rng(3).integers(0, 1900, 9)
    want = model_logits(tokens)
    head = Head("specforge")
    taps = outputs(head, head.write(tmp_path / "a"), tokens)[0]
    assert head.states[3] == 0
    np.testing.assert_array_equal(taps[:, 3 * WIDTH:], draft_heads.EMBED[tokens])
    head = Head("nvidia-v3")
    taps = outputs(head, head.write(tmp_path / "b"), tokens)[0]
    assert head.states[2] == 8
    final = head.rms(taps[:, 2 * WIDTH:], draft_heads.read_target("model.norm.weight"))
    np.testing.assert_allclose(final @ draft_heads.HEAD.T, want, atol=1e-3)
    head = Head("nvidia-short-context")
    final = outputs(head, head.write(tmp_path / "c"), tokens)[0]
    np.testing.assert_allclose(final @ draft_heads.HEAD.T, want, atol=1e-3)


def without(name):
    return lambda tensors: {k: v for k, v in tensors.items() if k != name}


def other(name, array):
    return lambda tensors: {**tensors, name: array}


BAD = [  # layout, changes of config.json, change of the tensors, words of the message
    ("nvidia-v3", {"hidden_size": 352}, None, ["hidden_size 352", "this model's is 320"]),
    ("nvidia-v3", {"vocab_size": 4096, "draft_vocab_size": 4096}, None, ["vocabulary of 4096", "has 2048"]),
    ("redhat", {"target_hidden_size": 2880}, None, ["hidden_size 2880", "this model's is 320"]),
    ("nvidia-v3", {"eagle_aux_hidden_state_layer_ids": [24, 30, 36]}, None, ["ids[0] is 24", "8 layers"]),
    ("nvidia-v3", {"eagle_aux_hidden_state_layer_ids": []}, None, ["eagle_aux_hidden_state_layer_ids", "1 to 8"]),
    ("nvidia-v3", {"eagle_aux_hidden_state_layer_ids": [4, 6]}, None, ["fc.weight", "[320, 960]", "[320, 640]"]),
    ("nvidia-v3", {}, without("midlayer.hidden_norm.weight"), ["midlayer.hidden_norm.weight is missing", "[320]"]),
    ("nvidia-v3", {}, without("input_norm.weight"), ["input_norm.weight is missing", "[960]"]),
    ("nvidia-v3", {"norm_before_fc": False}, None, ["model.safetensors", "input_norm.weight is not part"]),
    ("nvidia-v3", {}, other("midlayer.mlp.up_proj.weight", np.zeros((384, 352), np.float32)),
     ["model.safetensors", "midlayer.mlp.up_proj.weight", "[384, 352], expected [384, 320]"]),
    ("nvidia-v3", {}, other("norm.weight", np.zeros(320, np.int64)), ["norm.weight", "dtype is I64"]),
    ("lmsys", {}, without("d2t"), ["d2t is missing", "draft_vocab_size"]),
    ("lmsys", {}, without("lm_head.weight"), ["lm_head.weight is missing", "[512, 320]"]),
    ("lmsys", {}, other("d2t", np.full(512, 4000, np.int64)), ["d2t", "entry 0 is 4000", "-2048 to 2048"]),
    ("lmsys", {}, other("d2t", np.full(512, 2048, np.int64)), ["d2t", "entry 0 is 2048", "token 2048", "0 to 2047"]),
    ("lmsys", {}, other("d2t", np.full(512, 2**63 - 1, np.int64)), ["d2t", "entry 0 is 9223372036854775807"]),
    ("lmsys", {"draft_vocab_size": 4096}, None, ["draft_vocab_size is 4096", "2048"]),
    ("nvidia-v3", {"architectures": ["LlamaForCausalLM"]}, None, ["LlamaForCausalLM", "Eagle3"]),
    ("redhat", {"speculators_model_type": "dflash"}, None, ["dflash", "eagle3"]),
    ("nvidia-v3", {"num_hidden_layers": 2}, None, ["num_hidden_layers is 2"]),
    ("nvidia-v3", {"attention_bias": True}, None, ["attention_bias is true"]),
    ("nvidia-v3", {"fc_norm": True}, None, ["norm_before_fc and fc_norm"]),
    ("nvidia-v3", {"num_key_value_heads": 3}, None, ["num_key_value_heads, 3"]),
    ("nvidia-v3", {"num_attention_heads": 512, "num_key_value_heads": 512, "head_dim": None}, None,
     ["head_dim is 0", "at least 2", "320 / 512"]),
    ("nvidia-v3", {"num_attention_heads": 128, "num_key_value_heads": 128, "head_dim": 2}, None,
     ["num_key_value_heads is 128", "at most 127"]),
    ("nvidia-v3", {"rope_theta": 0.5}, None, ["rope_theta is 0.5", "above 1"]),
    ("nvidia-v3", {"hidden_size": "wide"}, None, ["hidden_size is a string, expected an integer"]),
]


@pytest.mark.parametrize("layout,changes,change,words", BAD, ids=range(len(BAD)))
def test_bad_head(layout, changes, change, words, tmp_path):
    head = Head(layout)
    head.write(tmp_path / "head", change(head.tensors()) if change else None, **changes)
    message = run(tmp_path / "head", [1, 2, 3], status=2).stderr.decode()
    assert "/head" in message and all(word in message for word in words), message


def test_no_files(tmp_path):
    assert "config.json" in run(tmp_path / "none", [1, 2], status=2).stderr.decode()
    Head("nvidia-v3").write(tmp_path / "head")
    (tmp_path / "head" / "model.safetensors").unlink()
    assert "safetensors" in run(tmp_path / "head", [1, 2], status=2).stderr.decode()
