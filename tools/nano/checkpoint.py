"""Checkpoints of the training: all parameters in BF16, the experts before quantisation, in two files."""

import pathlib

import torch
from safetensors.torch import load_file, save_file


def save(parameters, folder):
    files = [{}, {}]
    for name in sorted(parameters, key=lambda n: -parameters[n].numel()):
        smaller = min(files, key=lambda f: sum(p.numel() for p in f.values()))
        smaller[name] = parameters[name].bfloat16().contiguous()
    for n, tensors in enumerate(files):
        save_file(tensors, pathlib.Path(folder) / f"checkpoint-{n}.safetensors")


def load(folder):
    tensors = {}
    for n in range(2):
        tensors |= load_file(pathlib.Path(folder) / f"checkpoint-{n}.safetensors")
    return {name: t.to(torch.float32) for name, t in tensors.items()}
