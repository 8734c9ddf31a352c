"""Packs conversations into rows of tokens, in worker processes, reproducibly by seed."""

import multiprocessing
import random
from dataclasses import dataclass

import numpy as np

import conversations
import harmony
import tokenizer

PAD, PROMPT, TARGET = 0, 1, 2  # kinds of a label


@dataclass
class Batch:
    """Arrays (rows, row length): tokens, document of each token, its position there, kind of its label."""

    tokens: np.ndarray
    documents: np.ndarray
    positions: np.ndarray
    kinds: np.ndarray

    @classmethod
    def empty(cls, rows, length):
        return cls(
            np.zeros((rows, length), np.int16),
            np.full((rows, length), -1, np.int16),
            np.zeros((rows, length), np.int16),
            np.zeros((rows, length), np.int8),
        )


def pack(documents, rows, length):
    """Packs (prompt ids, target ids) first fit. Returns the batch, the places (row, begin, end) by document
    and the documents that found no place."""
    batch, used, places, left = Batch.empty(rows, length), [0] * rows, [], []
    for prompt, target in documents:
        n = len(prompt) + len(target)
        row = next((r for r in range(rows) if used[r] + n <= length), None)
        if row is None:
            left.append((prompt, target))
            places.append(None)
            continue
        begin, end = used[row], used[row] + n
        batch.tokens[row, begin:end] = prompt + target
        batch.documents[row, begin:end] = begin
        batch.positions[row, begin:end] = np.arange(n)
        batch.kinds[row, begin : end - 1] = PROMPT  # the kind of the label: the token that follows
        batch.kinds[row, begin + len(prompt) - 1 : end - 1] = TARGET
        places.append((row, begin + len(prompt) - 1, end - 1))
        used[row] = end
    return batch, places, left


def produce(queue, worker, seed, folder, rows, length, mix):
    encoder = tokenizer.load(folder)
    maker = conversations.Maker(random.Random(f"{seed} {worker}"))
    maker.MIX = {**maker.MIX, **mix}
    waiting = []
    while True:
        size = sum(len(p) + len(t) for p, t in waiting)
        while size < rows * length * 1.03:
            conversation, target = maker.conversation()
            document = encoder(harmony.prompt_pieces(conversation)), encoder(harmony.target_pieces(target))
            if len(document[0]) + len(document[1]) <= length:
                waiting.append(document)
                size += len(document[0]) + len(document[1])
        batch, _, waiting = pack(waiting, rows, length)
        queue.put(batch)


class Stream:
    """Batches of all workers in turn, so that the order does not depend on their speed."""

    def __init__(self, n_workers, seed, folder, rows, length, mix):
        context = multiprocessing.get_context("fork")  # the workers never touch the GPU
        self.queues = [context.Queue(maxsize=6) for _ in range(n_workers)]
        self.workers = [
            context.Process(target=produce, daemon=True, args=(q, w, seed, folder, rows, length, mix))
            for w, q in enumerate(self.queues)
        ]
        for process in self.workers:
            process.start()
        self.turn = 0

    def next(self):
        batch = self.queues[self.turn % len(self.queues)].get()
        self.turn += 1
        return batch

    def close(self):
        for process in self.workers:
            process.terminate()
