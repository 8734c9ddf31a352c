"""Trains osprey-nano on one GPU and exports it.

    python3 tools/nano/train.py --minutes 9 --out build/nano
    python3 tools/nano/train.py --minutes 6 --out build/nano2 --init build/nano --rate 0.5

Writes checkpoint-0.safetensors, checkpoint-1.safetensors (the parameters in BF16, the experts before
quantisation), log.jsonl, and the model folder as export.py makes it from them.
"""

import argparse
import json
import pathlib
import time

import torch
from torch.nn.attention.flex_attention import AuxRequest, create_block_mask, flex_attention

import checkpoint
import export
import harmony
import make_eval
import model
import packing
import tokenizer

PROMPT_WEIGHT = 0.05  # of the loss on prompt tokens; an answer token counts 1
BALANCE_WEIGHT = 0.01
DECAY_FROM = 0.25  # part of the time after which the rate falls linearly to 0


class Optimizer:
    """Muon for the stacked matrices, Adam for everything else, with decoupled weight decay for the matrices."""

    MATRICES = ("wq", "wk", "wv", "wo", "w1", "w2")

    def __init__(self, net, rate):
        self.rate, self.step_count = rate, 0
        trained = {n: p for n, p in net.named_parameters() if p.requires_grad}
        self.matrices = {n: p for n, p in trained.items() if n in self.MATRICES}
        rest = [p for n, p in trained.items() if n not in self.MATRICES]
        self.momentum = {n: torch.zeros_like(p) for n, p in self.matrices.items()}
        self.adam = torch.optim.Adam(rest, lr=0.0, betas=(0.9, 0.97), eps=1e-10, fused=rest[0].is_cuda)

    @torch.no_grad()
    def step(self, scale):
        """One update at scale (0..1) times the full rate."""
        for group in self.adam.param_groups:
            group["lr"] = 4e-3 * self.rate * scale
        self.adam.step()
        rate = 3e-3 * self.rate * scale
        for name, p in self.matrices.items():
            moment = self.momentum[name]
            moment.lerp_(p.grad, 0.05)
            update = orthogonal(p.grad.lerp(moment, 0.95).flatten(0, -3))
            # An orthogonal matrix has entries of size 1/sqrt(longest side); this gives them size 0.2.
            size = 0.2 * max(p.shape[-2:]) ** 0.5
            p.mul_(1 - rate * 0.05).add_(update.view_as(p), alpha=-rate * size)
        for p in list(self.matrices.values()):
            p.grad = None
        self.adam.zero_grad()


def orthogonal(g):
    """The nearest orthogonal matrices to g (batch, rows, columns), by five odd polynomial steps."""
    tall = g.shape[-2] > g.shape[-1]
    x = g.mT if tall else g
    x = x.bfloat16() if x.is_cuda else x
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-10)
    for _ in range(5):
        s = x @ x.mT
        x = 3.4445 * x + (-4.7750 * s + 2.0315 * s @ s) @ x
    return (x.mT if tall else x).float()


class Runner:
    """The network on its device, with the attention that the device is good at."""

    def __init__(self, net, rows, length, compiled):
        self.net, self.compiled = net, compiled
        self.device = next(net.parameters()).device
        self.documents = torch.full((rows, length), -1, dtype=torch.int32, device=self.device)
        self.forward = torch.compile(self._flex_forward, dynamic=False) if compiled else self._plain_forward
        self.make_mask = torch.compile(create_block_mask, dynamic=False) if compiled else None
        documents, window = self.documents, net.shape.window
        self.full_rule = lambda b, h, q, k: (q >= k) & (documents[b, q] == documents[b, k])
        self.window_rule = (
            lambda b, h, q, k: (q >= k) & (q - k < window) & (documents[b, q] == documents[b, k])
        )

    def _flex_forward(self, tokens, labels, weights, positions, window_mask, full_mask):
        def attend(mask):
            def attention(q, k, v):
                out, aux = flex_attention(
                    q, k, v, block_mask=mask, enable_gqa=True, return_aux=AuxRequest(lse=True)
                )
                return out, aux.lse

            return attention

        return self.net(tokens, labels, weights, positions, attend(window_mask), attend(full_mask))

    def _plain_forward(self, tokens, labels, weights, positions, window, full):
        return self.net(tokens, labels, weights, positions, window, full)

    def __call__(self, batch):
        put = lambda a: torch.from_numpy(a).to(self.device)
        tokens = put(batch.tokens).long()
        kinds = put(batch.kinds)
        self.documents.copy_(put(batch.documents))
        weights = torch.where(
            kinds == packing.TARGET, 1.0, torch.where(kinds == packing.PROMPT, PROMPT_WEIGHT, 0.0)
        )
        weights = torch.where(self.documents < 0, -1.0, weights)  # negative: no token at all
        if self.compiled:
            b, l = tokens.shape
            masks = [
                self.make_mask(rule, b, None, l, l, device=self.device)
                for rule in (self.window_rule, self.full_rule)
            ]
        else:
            masks = [model.dense_attention(self.documents, w) for w in (self.net.shape.window, None)]
        return self.forward(tokens, tokens.roll(-1, 1), weights, put(batch.positions).int(), *masks)


class Exam:
    """Held-out prompts, scored in one pass: an answer is right when every token is the likeliest."""

    def __init__(self, lines, args):
        encoder = tokenizer.load(args.tokenizer)
        documents, self.abilities = [], []
        for line, target in lines:
            document = encoder(harmony.prompt_pieces(line)), encoder(harmony.target_pieces(target))
            if len(document[0]) + len(document[1]) <= args.length:
                documents.append(document)
                self.abilities.append(line["ability"])
        self.batches, names = [], list(self.abilities)
        while documents:
            batch, places, documents = packing.pack(documents, args.rows, args.length)
            self.batches.append((batch, [(n, p) for n, p in zip(names, places) if p]))
            names = [n for n, p in zip(names, places) if not p]

    def score(self, runner):
        right, total = {}, {}
        for batch, places in self.batches:
            correct = runner(batch)[2].cpu()
            for ability, (row, begin, end) in places:
                total[ability] = total.get(ability, 0) + 1
                right[ability] = right.get(ability, 0) + bool(correct[row, begin:end].all())
        return {a: round(100 * right[a] / total[a], 1) for a in total}


def scale_at(progress, step, warmup):
    return min(1.0, (step + 1) / warmup, max(0.0, (1 - progress) / (1 - DECAY_FROM)))


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=15.0, help="length of the training itself")
    parser.add_argument("--out", type=pathlib.Path, default=root / "build/nano")
    parser.add_argument(
        "--tokenizer", type=pathlib.Path, default=root / "models/osprey-nano", help="folder of tokenizer.json"
    )
    parser.add_argument("--init", type=pathlib.Path, help="folder of a checkpoint to go on from")
    parser.add_argument("--rate", type=float, default=1.0, help="factor on the learning rates")
    parser.add_argument(
        "--mix", type=json.loads, default={}, help='changed shares of the tasks, as {"recall": 30}'
    )
    parser.add_argument(
        "--freeze", nargs="*", default=[], help="parameters that stay as they are, such as w1 w2"
    )
    parser.add_argument("--warmup", type=int, default=60, help="steps until the full rate")
    parser.add_argument("--plain", action="store_true", help="do not compile; for short runs with short rows")
    parser.add_argument("--no-exam", action="store_true", help="do not score held-out prompts on the way")
    parser.add_argument("--rows", type=int, default=16)
    parser.add_argument("--length", type=int, default=4096, help="tokens in a row")
    parser.add_argument("--exam-every", type=float, default=60.0, help="seconds between scores")
    parser.add_argument("--workers", type=int, default=14)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(args.seed)
    args.out.mkdir(parents=True, exist_ok=True)
    log = (args.out / "log.jsonl").open("w")

    def note(**facts):
        print(json.dumps(facts), flush=True)
        log.write(json.dumps(facts) + "\n")
        log.flush()

    stream = packing.Stream(args.workers, args.seed, args.tokenizer, args.rows, args.length, args.mix)
    net = model.Nano(model.Shape(), args.seed)
    if args.init:
        net.load_state_dict(checkpoint.load(args.init))
    net = net.to(device)
    for name in args.freeze:
        getattr(net, name).requires_grad_(False)
    if device == "cpu":
        net.compute = torch.float32
    runner, optimizer = Runner(net, args.rows, args.length, device == "cuda" and not args.plain), Optimizer(
        net, args.rate
    )
    exam = Exam([] if args.no_exam else make_eval.lines(tokenizer.load(args.tokenizer), 7, "dev"), args)
    note(parameters=sum(p.numel() for p in net.parameters()), exam=len(exam.abilities))

    begin = time.monotonic()
    first = runner(stream.next())  # compiles
    (first[0] + first[1]).backward()
    optimizer.step(0.0)
    exam.score(runner)
    note(compile_s=round(time.monotonic() - begin, 1), loss=round(first[0].item(), 3))
    begin = last_exam = last_note = time.monotonic()
    step, n_tokens, waited = 0, 0, 0.0
    while (progress := (time.monotonic() - begin) / (60 * args.minutes)) < 1:
        asked = time.monotonic()
        batch = stream.next()
        waited += time.monotonic() - asked
        loss, balance, _ = runner(batch)
        (loss + BALANCE_WEIGHT * balance).backward()
        optimizer.step(scale_at(progress, step, args.warmup))
        step, n_tokens = step + 1, n_tokens + int((batch.documents >= 0).sum())
        now = time.monotonic()
        if now - last_note > 10:
            note(
                step=step,
                seconds=round(now - begin, 1),
                loss=round(loss.item(), 4),
                balance=round(balance.item(), 3),
                tokens=n_tokens,
                waited_s=round(waited, 1),
                sinks=round(net.sinks.mean().item(), 2),
            )
            last_note = now
        if now - last_exam > args.exam_every:
            note(step=step, exam=exam.score(runner))
            last_exam = now
    stream.close()
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(p.bfloat16())
    note(step=step, seconds=round(time.monotonic() - begin, 1), tokens=n_tokens, exam=exam.score(runner))
    checkpoint.save({n: p.detach().cpu() for n, p in net.named_parameters()}, args.out)
    export.export(args.out, args.tokenizer, args.out / "model")


if __name__ == "__main__":
    main()
