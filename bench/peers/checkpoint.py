"""Reads a checkpoint in the published safetensors layout: the config, and its tensors as NumPy arrays
that are mapped, not copied. BF16 comes as its 16-bit words; `f32` widens them. Knows nothing of what
the tensors mean."""

import json
import struct
from pathlib import Path

import numpy as np

DTYPES = {"BF16": "<u2", "F32": "<f4", "U8": "u1"}


class Checkpoint:
    def __init__(self, folder):
        self.folder = Path(folder)
        self.config = json.loads((self.folder / "config.json").read_text())
        self.tensors = {}
        for path in sorted(self.folder.glob("*.safetensors")):
            self.tensors.update(mapped(path))

    def has(self, name):
        return name in self.tensors

    def raw(self, name):
        if name not in self.tensors:
            raise SystemExit(f"{self.folder}: no tensor {name}")
        return self.tensors[name]

    def f32(self, name, rows=slice(None)):
        """Those rows, widened: BF16 is the upper half of a float."""
        data = self.raw(name)[rows]
        if data.dtype == np.float32:
            return np.ascontiguousarray(data)
        return (data.astype(np.uint32) << 16).view(np.float32)


def mapped(path):
    """Name -> array of one file."""
    with open(path, "rb") as file:
        (n_bytes,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(n_bytes))
    data = np.memmap(path, dtype=np.uint8, mode="r", offset=8 + n_bytes)
    out = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        out[name] = data[begin:end].view(DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return out
