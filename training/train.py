"""Trains the adapter: all that the expert wrote in the conversations, and nothing else, is to be learned.

    python -m training.train BASE.gguf tokens.npz adapter.npz --epochs 2

`--held-out` names tokens of the other half of the templates: their loss is told, and nothing learns from them.
"""

import argparse
import math
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from training.qwen2 import Qwen2, Weights


class Batch(NamedTuple):
    """Conversations of like length, side by side."""

    tokens: Tensor
    marks: Tensor


class Data:
    """Conversations as tokens."""

    def __init__(self, path: Path, device: torch.device) -> None:
        with np.load(path) as found:
            self._tokens, self._marks, self._begins = found["tokens"], found["marks"], found["begins"]
        self._device = device

    def batches(self, most: int, seed: int) -> Iterator[Batch]:
        """Return all conversations in batches of at most so many tokens, in another order for each seed."""
        order = random.Random(seed)
        lengths = np.diff(self._begins)
        numbers = sorted(range(len(lengths)), key=lambda at: (int(lengths[at]), order.random()))
        groups: list[list[int]] = [[]]
        for number in numbers:
            if groups[-1] and (len(groups[-1]) + 1) * int(lengths[number]) > most:
                groups.append([])
            groups[-1].append(number)
        order.shuffle(groups)
        for group in groups:
            yield self._batch(group)

    def _batch(self, numbers: Sequence[int]) -> Batch:
        longest = max(int(self._begins[at + 1] - self._begins[at]) for at in numbers)
        tokens = torch.zeros(len(numbers), longest, dtype=torch.long)
        marks = torch.zeros(len(numbers), longest, dtype=torch.bool)
        for row, at in enumerate(numbers):
            begin, end = int(self._begins[at]), int(self._begins[at + 1])
            tokens[row, : end - begin] = torch.from_numpy(self._tokens[begin:end].astype(np.int64))
            marks[row, : end - begin] = torch.from_numpy(self._marks[begin:end].astype(bool))
        return Batch(tokens.to(self._device), marks.to(self._device))


def loss_of(model: Qwen2, batch: Batch) -> Tensor:
    """Return the mean loss of the tokens that are to be learned."""
    said = model(batch.tokens[:, :-1])[batch.marks[:, 1:]]
    logits = functional.linear(said, model.output).float()
    return functional.cross_entropy(logits, batch.tokens[:, 1:][batch.marks[:, 1:]])


def held_out_loss(model: Qwen2, data: Data, most: int) -> float:
    """Return the mean loss over all batches, without learning."""
    with torch.no_grad():
        losses = [(float(loss_of(model, each)), int(each.marks.sum())) for each in data.batches(most, seed=0)]
    return sum(loss * count for loss, count in losses) / sum(count for _, count in losses)


def train(model: Qwen2, data: Data, held_out: Data | None, wanted: argparse.Namespace) -> None:
    """Learn, and tell how it goes."""
    adapted = [each for layer in model.adapted().values() for each in (layer.a, layer.b)]
    optimizer = torch.optim.AdamW(adapted, lr=wanted.rate, betas=(0.9, 0.98), weight_decay=0.01)
    steps = wanted.epochs * sum(1 for _ in data.batches(wanted.batch, seed=0))
    begun, step, seen = time.monotonic(), 0, 0
    for epoch in range(wanted.epochs):
        for batch in data.batches(wanted.batch, seed=wanted.seed + epoch):
            warm = min(1.0, (step + 1) / max(1, steps // 20))
            for group in optimizer.param_groups:
                group["lr"] = wanted.rate * warm * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * step / steps)))
            loss = loss_of(model, batch)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(adapted, 1.0)
            optimizer.step()
            optimizer.zero_grad()
            step += 1
            seen += batch.tokens.numel()
            if step % wanted.tell == 0 or step == steps:
                speed = seen / (time.monotonic() - begun)
                print(f"step {step} of {steps}: loss {loss.item():.4f}, {speed:.0f} tokens/s", flush=True)
            if wanted.seconds and time.monotonic() - begun > wanted.seconds:
                print("the time is over", flush=True)
                return
        if held_out is not None:
            print(f"epoch {epoch + 1}: held out {held_out_loss(model, held_out, wanted.batch):.4f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Train an adapter for a GGUF model.")
    parser.add_argument("base", type=Path)
    parser.add_argument("tokens", type=Path)
    parser.add_argument("adapter", type=Path, help="an .npz file; `training.to_gguf` makes an adapter of it")
    parser.add_argument("--held-out", type=Path)
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--alpha", type=float, default=32.0)
    parser.add_argument("--rate", type=float, default=2e-4)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch", type=int, default=16_384, help="tokens at a time")
    parser.add_argument("--seconds", type=float, default=0.0, help="stop after so long; 0: no limit")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tell", type=int, default=20, help="tell the loss each so many steps")
    wanted = parser.parse_args()
    torch.manual_seed(wanted.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    kind = torch.bfloat16 if device.type == "cuda" else torch.float32
    model = Qwen2(Weights(wanted.base, device, kind), rank=wanted.rank, alpha=wanted.alpha)
    held_out = Data(wanted.held_out, device) if wanted.held_out else None
    if held_out is not None:
        print(f"held out before: {held_out_loss(model, held_out, wanted.batch):.4f}", flush=True)
    train(model, Data(wanted.tokens, device), held_out, wanted)
    learned = {
        f"{name}.{part}": getattr(layer, part).detach().float().cpu().numpy().astype(np.float16)
        for name, layer in model.adapted().items()
        for part in ("a", "b")
    }
    np.savez(wanted.adapter, alpha=np.float32(wanted.alpha), **learned)


if __name__ == "__main__":
    main()
