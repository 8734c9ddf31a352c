"""Trains the Eagle3 draft head of osprey-nano on answers that the model itself writes, and exports it.

    python3 tools/nano/train_draft.py --prompts build/draft-prompts.npz --write-prompts 14000
    python3 tools/nano/train_draft.py --prompts build/draft-prompts.npz --seconds 100 --out models/osprey-nano-eagle3

The first call writes token ids of training prompts, and held-out ones (the development split), and needs the
tokenizer's packages; the second one PyTorch and safetensors alone. The loss is the cross entropy to the target's
distribution, at each of DEPTHS guesses in a row.
"""

import argparse
import json
import pathlib
import random
import time

import numpy as np
import torch
from safetensors.torch import save_file

import draft_head
import draft_target
import model

BOUNDARIES = (4, 6, 8)  # the target's states that the head reads: nvidia v3's choice for 36 layers, scaled
INTERMEDIATE = 512
DEPTHS = 4
DEPTH_WEIGHT = 0.85  # of a guess, against the guess before it
PROMPT_WEIGHT = 0.03  # of the loss on prompt tokens; an answer token counts 1
ANSWER_TOKENS_MAX = 160
CROP_TOKENS = 1024  # training rows; of longer documents the end
TOKENS_AT_ONCE = 16384  # of a training step
STOP = ("<|return|>", "<|call|>", "<|endoftext|>")


# ---- prompts ----


def write_prompts(path, n, folder):
    import conversations
    import harmony
    import make_eval
    import tokenizer

    encoder = tokenizer.load(folder)
    maker = conversations.Maker(random.Random("draft"))
    train = [encoder(harmony.prompt_pieces(maker.conversation()[0])) for _ in range(n)]
    held_out = [encoder(harmony.prompt_pieces(line)) for line, _ in make_eval.lines(encoder, 7, "dev")]
    flat = lambda lists: (np.array([t for l in lists for t in l], np.int16), np.array([len(l) for l in lists]))
    (a, n_a), (b, n_b) = flat(train), flat(held_out)
    stop = [encoder.special_ids[s] for s in STOP]
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, train=a, train_lengths=n_a, held_out=b, held_out_lengths=n_b, stop=stop)


def read_lists(data, name):
    ends = np.cumsum(data[name + "_lengths"])
    return [part.tolist() for part in np.split(data[name].astype(int), ends[:-1])]


def groups(lists, cost_max, cost):
    """Indices of lists of similar length, cost(rows, width) of each group at most cost_max."""
    order, out = sorted(range(len(lists)), key=lambda i: len(lists[i])), []
    while order:
        n = 1
        while n < len(order) and cost(n + 1, len(lists[order[n]])) <= cost_max and n < 1024:
            n += 1
        out.append(order[:n])
        order = order[n:]
    return out


def answered(target, prompts, stop, temperatures):
    """(prompt, answer) of every prompt whose answer ends."""
    heads, documents = target.shape.heads, []
    cost = lambda rows, width: rows * heads * (width + ANSWER_TOKENS_MAX) ** 2
    for n, group in enumerate(groups(prompts, draft_target.SCORES_AT_ONCE, cost)):
        temperature = temperatures[n % len(temperatures)]
        chosen = [prompts[i] for i in group]
        answers = target.answer(chosen, ANSWER_TOKENS_MAX, stop, temperature)
        documents += [(p, a) for p, a in zip(chosen, answers) if a]
    return documents


# ---- batches ----


def to_rows(documents, device):
    """tokens (B, L) padded at the right, valid, positions, and the number of prompt tokens of each row."""
    length = max(len(p) + len(a) for p, a in documents)
    tokens = torch.zeros(len(documents), length, dtype=torch.long)
    n_all, n_prompt = (torch.tensor([f(d) for d in documents]) for f in (lambda d: len(d[0]) + len(d[1]), lambda d: len(d[0])))
    for row, (prompt, answer) in enumerate(documents):
        tokens[row, : n_all[row]] = torch.tensor(prompt + answer)
    positions = torch.arange(length).expand_as(tokens)
    return [t.to(device) for t in (tokens, positions < n_all[:, None], positions.contiguous(), n_prompt)]


def features(target, tokens, valid, positions):
    boundaries, logits = target.states(tokens, valid, positions)
    return torch.cat([boundaries[k] for k in BOUNDARIES], -1), logits


def loss_of(head, target, documents, device):
    tokens, valid, positions, n_prompt = to_rows(documents, device)
    states, logits = features(target, tokens, valid, positions)
    crop = max(0, tokens.shape[1] - CROP_TOKENS)
    cut = lambda t: t[:, crop:].clone()
    following = tokens.roll(-1, 1)
    goal = logits.roll(-1, 1).softmax(-1)  # of the token at p + 2
    weight = torch.where(positions + 2 >= n_prompt[:, None], 1.0, PROMPT_WEIGHT) * valid.roll(-2, 1)
    weight[:, -2:] = 0
    guesses = head(cut(states), target.embed[cut(following)], cut(positions), cut(valid), DEPTHS, target.head)
    weight, goal, total, scale = cut(weight), cut(goal), 0.0, 0.0
    for depth, guess in enumerate(guesses):
        w = weight.clone()
        w[:, :depth] = 0
        entropy = -(goal * guess.log_softmax(-1)).sum(-1)
        total = total + DEPTH_WEIGHT**depth * (entropy * w).sum() / w.sum()
        scale += DEPTH_WEIGHT**depth
    return total / scale


@torch.inference_mode()
def acceptance(head, target, documents, device):
    """Share of right guesses at each depth, given that those before it were right: greedy, in answers."""
    right, tried = [0] * DEPTHS, [0] * DEPTHS
    cost = lambda rows, width: rows * width
    lists = [p + a for p, a in documents]
    for group in groups(lists, TOKENS_AT_ONCE, cost):
        tokens, valid, positions, n_prompt = to_rows([documents[i] for i in group], device)
        if tokens.shape[1] > 2 * CROP_TOKENS:
            continue
        states, _ = features(target, tokens, valid, positions)
        guesses = head(states, target.embed[tokens.roll(-1, 1)], positions, valid, DEPTHS, target.head)
        goal = tokens.roll(-2, 1)
        live = (positions + 2 > n_prompt[:, None]) & valid.roll(-2, 1) & (positions + 2 < tokens.shape[1])
        for depth, guess in enumerate(guesses):
            hit = guess.argmax(-1) == goal
            tried[depth] += int(live.sum())
            right[depth] += int((live & hit).sum())
            live = (live & hit).roll(1, 1) & valid.roll(-2, 1) & (positions + 2 < tokens.shape[1])
    return [round(r / max(1, t), 4) for r, t in zip(right, tried)]


def length_of(shares, k):
    """Mean tokens of a step with k drafts."""
    length, product = 1.0, 1.0
    for share in shares[:k]:
        product *= share
        length += product
    return round(length, 3)


# ---- export ----


def config(shape):
    return {
        "architectures": ["LlamaForCausalLMEagle3"],
        "attention_bias": False,
        "draft_vocab_size": shape.vocab,
        "eagle_config": {
            "eagle_aux_hidden_state_layer_ids": list(BOUNDARIES),
            "norm_before_fc": True,
            "norm_output": False,
            "use_aux_hidden_state": True,
        },
        "head_dim": shape.head_dim,
        "hidden_act": "silu",
        "hidden_size": shape.hidden,
        "intermediate_size": INTERMEDIATE,
        "max_position_embeddings": int(shape.rope_original * shape.rope_factor),
        "model_type": "llama",
        "num_attention_heads": shape.heads,
        "num_hidden_layers": 1,
        "num_key_value_heads": shape.kv_heads,
        "rms_norm_eps": shape.norm_eps,
        "rope_scaling": {
            "beta_fast": shape.beta_fast,
            "beta_slow": shape.beta_slow,
            "factor": shape.rope_factor,
            "original_max_position_embeddings": shape.rope_original,
            "rope_type": "yarn",
            "truncate": False,
        },
        "rope_theta": int(shape.rope_theta),
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "vocab_size": shape.vocab,
    }


def export(head, out):
    out.mkdir(parents=True, exist_ok=True)
    save_file(head.tensors(), out / "model.safetensors", metadata={"format": "pt"})
    (out / "config.json").write_text(json.dumps(config(head.shape), indent=2) + "\n")


# ---- training ----


def rate_at(progress):
    return min(1.0, progress / 0.03) * min(1.0, (1 - progress) / 0.6)


def train(args, device):
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = True
    target = draft_target.Target.load(args.model, device)
    data = np.load(args.prompts)
    stop = data["stop"].tolist()
    begin = time.monotonic()
    note = lambda **facts: print(json.dumps({"seconds": round(time.monotonic() - begin, 1), **facts}), flush=True)
    prompts = read_lists(data, "train")[: args.limit]
    documents = answered(target, prompts, stop, (0.0, 0.0, 1.0))
    held_out = answered(target, read_lists(data, "held_out")[:: args.held_out_stride], stop, (0.0,))
    note(documents=len(documents), of=len(prompts), tokens=sum(len(a) for _, a in documents), held_out=len(held_out))
    head = draft_head.Head(model.Shape(), INTERMEDIATE, len(BOUNDARIES)).to(device)
    optimizer = torch.optim.AdamW(head.parameters(), lr=args.rate, betas=(0.9, 0.98), weight_decay=0.01)
    lists = [p + a for p, a in documents]
    batches = groups(lists, TOKENS_AT_ONCE, lambda rows, width: rows * width)
    step, last, start = 0, time.monotonic(), time.monotonic()
    rng = random.Random(1)
    while (progress := (time.monotonic() - start) / args.seconds) < 1:
        if step % len(batches) == 0:
            rng.shuffle(batches)
        for group in optimizer.param_groups:
            group["lr"] = args.rate * rate_at(progress)
        loss = loss_of(head, target, [documents[i] for i in batches[step % len(batches)]], device)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(head.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        step += 1
        if time.monotonic() - last > 10:
            note(step=step, of=len(batches), loss=round(loss.item(), 4))
            last = time.monotonic()
    with torch.no_grad():
        for p in head.parameters():
            p.copy_(p.bfloat16())
    shares = acceptance(head, target, held_out, device)
    note(step=step, acceptance=shares, length_3=length_of(shares, 3))
    export(head, args.out)


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", type=pathlib.Path, default=root / "models/osprey-nano")
    parser.add_argument("--prompts", type=pathlib.Path, default=root / "build/draft-prompts.npz")
    parser.add_argument("--write-prompts", type=int, metavar="N", help="write N training prompts and stop")
    parser.add_argument("--limit", type=int, help="use only the first N of them")
    parser.add_argument("--held-out-stride", type=int, default=2, help="score every N-th held-out prompt")
    parser.add_argument("--seconds", type=float, default=100, help="length of the training itself")
    parser.add_argument("--rate", type=float, default=2e-3, help="largest learning rate")
    parser.add_argument("--out", type=pathlib.Path, default=root / "models/osprey-nano-eagle3")
    args = parser.parse_args()
    if args.write_prompts:
        write_prompts(args.prompts, args.write_prompts, args.model)
    else:
        train(args, "cuda" if torch.cuda.is_available() else "cpu")


if __name__ == "__main__":
    main()
