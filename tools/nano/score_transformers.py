"""Scores a model folder on its eval.jsonl with Hugging Face Transformers, greedy, in float32.

    python3 tools/nano/score_transformers.py [--model models/osprey-nano] [--no-sinks] [--ask "..."]

--no-sinks sets every sink to minus infinity, which leaves the plain softmax. Prints the table as JSON.
"""

import argparse
import json
import pathlib

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, Mxfp4Config

import harmony
import scoring
import tokenizer

TOKENS_AT_ONCE = 200_000  # prompt tokens, padding included, in one batch


def load(folder, device, sinks=True):
    model = AutoModelForCausalLM.from_pretrained(
        folder,
        dtype=torch.float32,
        attn_implementation="eager",
        quantization_config=Mxfp4Config(dequantize=True),
    )
    model = model.float().to(device).eval()
    if not sinks:
        for layer in model.model.layers:
            layer.self_attn.sinks.data.fill_(float("-inf"))
    return model


@torch.inference_mode()
def complete(model, prompts, limits, stop, pad):
    """Greedy continuations of token id lists, batched by length; returns lists of new ids."""
    order, out = sorted(range(len(prompts)), key=lambda n: len(prompts[n])), [None] * len(prompts)
    device = next(model.parameters()).device
    while order:
        longest = len(prompts[order[0]])
        group = [n for n in order[:1024] if len(prompts[n]) <= longest * 1.3 + 50]
        group = group[: max(1, TOKENS_AT_ONCE // len(prompts[group[-1]]))]
        order = order[len(group) :]
        width = max(len(prompts[n]) for n in group)
        ids = torch.tensor([[pad] * (width - len(prompts[n])) + prompts[n] for n in group])
        mask = torch.tensor([[0] * (width - len(prompts[n])) + [1] * len(prompts[n]) for n in group])
        new = model.generate(
            ids.to(device),
            attention_mask=mask.to(device),
            do_sample=False,
            eos_token_id=stop,
            pad_token_id=pad,
            max_new_tokens=max(limits[n] for n in group),
        )[:, width:].tolist()
        for n, row in zip(group, new):
            end = next((i + 1 for i, t in enumerate(row) if t in stop), len(row))
            out[n] = row[: min(end, limits[n])]
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--model",
        type=pathlib.Path,
        default=pathlib.Path(__file__).resolve().parents[2] / "models/osprey-nano",
    )
    parser.add_argument("--eval", type=pathlib.Path, help="default: eval.jsonl of the model folder")
    parser.add_argument("--no-sinks", action="store_true")
    parser.add_argument("--limit", type=int, help="only the first N lines of each ability")
    parser.add_argument("--failures", type=pathlib.Path, help="write what went wrong here")
    parser.add_argument(
        "--ask", action="append", help="print the answers to these questions instead of scoring"
    )
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model, encoder = load(args.model, device, not args.no_sinks), tokenizer.load(args.model)
    reader = AutoTokenizer.from_pretrained(args.model)
    stop = [encoder.special_ids[t] for t in ("<|return|>", "<|call|>", "<|endoftext|>")]
    if args.ask:
        lines = [
            {
                "effort": effort,
                "date": "2026-05-01",
                "messages": [{"role": "user", "content": q}],
                "max_tokens": 200,
            }
            for q in args.ask
            for effort in ("low", "medium", "high")
        ]
    else:
        lines, counts = [], {}
        for text in (args.eval or args.model / "eval.jsonl").read_text(encoding="utf-8").splitlines():
            line = json.loads(text)
            counts[line["ability"]] = counts.get(line["ability"], 0) + 1
            if not args.limit or counts[line["ability"]] <= args.limit:
                lines.append(line)
    prompts = [encoder(harmony.prompt_pieces(line)) for line in lines]
    ids = complete(
        model, prompts, [line["max_tokens"] for line in lines], stop, encoder.special_ids["<|endoftext|>"]
    )
    texts = reader.batch_decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
    if args.ask:
        for line, text in zip(lines, texts):
            print(line["messages"][0]["content"], "|", line["effort"], "|", text)
        return
    figures, failures = scoring.table(lines, texts, lambda text: len(encoder.encode(text)))
    print(json.dumps({"sinks": not args.no_sinks, **figures}, indent=2))
    if args.failures:
        args.failures.write_text(
            "".join(json.dumps(f, ensure_ascii=False) + "\n" for f in failures), encoding="utf-8"
        )


if __name__ == "__main__":
    main()
