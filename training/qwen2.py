"""A Qwen2 model in PyTorch, read from a GGUF file, with a low-rank adapter beside each linear layer.

Nothing but the adapter learns. The weights are those of the file, after its quantisation, as they will be used.
"""

from pathlib import Path

import numpy as np
import torch
from gguf import GGUFReader
from gguf.quants import dequantize
from torch import Tensor, nn
from torch.nn import functional

LAYERS = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
"""The linear layers of a block, by their names in the file."""


class Weights:
    """The tensors and fields of a GGUF file."""

    def __init__(self, path: Path, device: torch.device, kind: torch.dtype) -> None:
        reader = GGUFReader(path)
        self._tensors = {each.name: each for each in reader.tensors}
        self._fields = reader.fields
        self._device, self._kind = device, kind

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def tensor(self, name: str) -> Tensor:
        """Return a tensor, without its quantisation."""
        found = self._tensors[name]
        values = np.ascontiguousarray(dequantize(found.data, found.tensor_type))
        return torch.from_numpy(values).to(self._device, self._kind)

    def number(self, name: str) -> float:
        """Return a field of the architecture."""
        return float(self._fields[f"qwen2.{name}"].contents())


class Adapted(nn.Module):
    """A frozen linear layer, and what the adapter adds to it."""

    def __init__(self, weights: Weights, name: str, rank: int, scale: float) -> None:
        super().__init__()
        self.weight = weights.tensor(f"{name}.weight")
        self.bias = weights.tensor(f"{name}.bias") if f"{name}.bias" in weights else None
        out, inward = self.weight.shape
        self.name, self.scale = name, scale
        self.a = nn.Parameter(torch.randn(rank, inward, device=self.weight.device) / inward**0.5)
        self.b = nn.Parameter(torch.zeros(out, rank, device=self.weight.device))

    def forward(self, x: Tensor) -> Tensor:
        plain = functional.linear(x, self.weight, self.bias)
        more = functional.linear(functional.linear(x, self.a.to(x.dtype)), self.b.to(x.dtype))
        return plain + self.scale * more


class Block(nn.Module):
    """One layer of the transformer."""

    def __init__(self, weights: Weights, number: int, rank: int, scale: float) -> None:
        super().__init__()
        place = f"blk.{number}"
        self.attn_norm = weights.tensor(f"{place}.attn_norm.weight")
        self.ffn_norm = weights.tensor(f"{place}.ffn_norm.weight")
        self.eps = weights.number("attention.layer_norm_rms_epsilon")
        self.heads = int(weights.number("attention.head_count"))
        self.shared = int(weights.number("attention.head_count_kv"))
        for layer in LAYERS:
            setattr(self, layer, Adapted(weights, f"{place}.{layer}", rank, scale))

    def forward(self, x: Tensor, turns: tuple[Tensor, Tensor]) -> Tensor:
        inner = functional.rms_norm(x, x.shape[-1:], self.attn_norm, self.eps)
        query = turned(self._split(self.attn_q(inner), self.heads), turns)
        key = turned(self._split(self.attn_k(inner), self.shared), turns)
        value = self._split(self.attn_v(inner), self.shared)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        x = x + self.attn_output(seen.transpose(1, 2).flatten(2))
        inner = functional.rms_norm(x, x.shape[-1:], self.ffn_norm, self.eps)
        return x + self.ffn_down(functional.silu(self.ffn_gate(inner)) * self.ffn_up(inner))

    def _split(self, x: Tensor, heads: int) -> Tensor:
        return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def turned(x: Tensor, turns: tuple[Tensor, Tensor]) -> Tensor:
    """Turn queries and keys by their places: the first half of each with the second."""
    cosine, sine = turns
    first, second = x.chunk(2, dim=-1)
    return x * cosine + torch.cat((-second, first), dim=-1) * sine


class Qwen2(nn.Module):
    """The whole model; it returns what each place says about the token behind it."""

    def __init__(self, weights: Weights, *, rank: int, alpha: float) -> None:
        super().__init__()
        self.rank, self.alpha = rank, alpha
        self.embeddings = weights.tensor("token_embd.weight")
        self.norm = weights.tensor("output_norm.weight")
        self.output = weights.tensor("output.weight") if "output.weight" in weights else self.embeddings
        self.eps = weights.number("attention.layer_norm_rms_epsilon")
        self.base = weights.number("rope.freq_base")
        count = int(weights.number("block_count"))
        self.blocks = nn.ModuleList(Block(weights, number, rank, alpha / rank) for number in range(count))

    def forward(self, tokens: Tensor) -> Tensor:
        x = functional.embedding(tokens, self.embeddings)
        heads = self.blocks[0].heads
        turns = self._turns(tokens.shape[1], x.shape[-1] // int(heads), x)
        for block in self.blocks:
            x = block(x, turns)
        return functional.rms_norm(x, x.shape[-1:], self.norm, self.eps)

    def _turns(self, length: int, width: int, like: Tensor) -> tuple[Tensor, Tensor]:
        speeds = self.base ** -(torch.arange(0, width, 2, device=like.device, dtype=torch.float32) / width)
        angles = torch.outer(torch.arange(length, device=like.device, dtype=torch.float32), speeds).repeat(1, 2)
        return angles.cos().to(like.dtype), angles.sin().to(like.dtype)

    def adapted(self) -> dict[str, Adapted]:
        """Return the layers that learn, by their names in the file."""
        return {each.name: each for each in self.modules() if isinstance(each, Adapted)}
