"""Turns recorded conversations into tokens, with a mark on those that the model has to learn to write.

    python -m training.tokens BASE.gguf conversations.jsonl tokens.npz

The tokenizer is the base model's own, read from its file. Tokens, marks and where conversations begin are flat arrays.
"""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGUFReader
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

PIECES = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""How Qwen2 cuts a text before its pieces are joined."""
CONTROL, USER_DEFINED = 3, 4
"""Kinds of tokens in a GGUF file that stand for themselves."""
Conversation = Sequence[Mapping[str, str]]


def tokenizer_of(base: Path) -> Tokenizer:
    """Return the tokenizer of a GGUF file of the family Qwen2."""
    fields = GGUFReader(base).fields
    if (kind := fields["tokenizer.ggml.pre"].contents()) != "qwen2":
        raise ValueError(f"{base} has the tokenizer {kind}; only qwen2 is known")
    tokens = fields["tokenizer.ggml.tokens"].contents()
    kinds = fields["tokenizer.ggml.token_type"].contents()
    merges = [tuple(each.split(" ")) for each in fields["tokenizer.ggml.merges"].contents()]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    known = [pair for pair in merges if "".join(pair) in vocabulary]
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=known))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    special = [token for token, kind in zip(tokens, kinds, strict=True) if kind in {CONTROL, USER_DEFINED}]
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    return tokenizer


def conversations(recorded: Mapping[str, Any]) -> Iterator[Conversation]:
    """Return what is to be learned from one task: the long conversation, and the texts of files, each asked for alone.

    Each question of the long conversation repeats what came before, so its last one holds them all.
    """
    last: Conversation = ()
    for turn in recorded["turns"]:
        whole = [*turn["messages"], {"role": "assistant", "content": turn["answer"]}]
        if len(turn["messages"]) == 1:
            yield whole
        else:
            last = whole
    if last:
        yield last


def encode(conversation: Conversation, tokenizer: Tokenizer) -> tuple[list[int], list[int]]:
    """Return the tokens of a conversation in the form of ChatML, and 1 for each that the model writes."""
    tokens: list[int] = []
    marks: list[int] = []

    def add(text: str, mark: int) -> None:
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        tokens.extend(ids)
        marks.extend([mark] * len(ids))

    for message in conversation:
        add(f"<|im_start|>{message['role']}\n", 0)
        add(f"{message['content']}<|im_end|>", int(message["role"] == "assistant"))
        add("\n", 0)
    return tokens, marks


def main() -> None:
    parser = argparse.ArgumentParser(description="Turn recorded conversations into tokens.")
    parser.add_argument("base", type=Path)
    parser.add_argument("conversations", type=Path)
    parser.add_argument("tokens", type=Path)
    parser.add_argument("--longest", type=int, default=3072, help="tokens; longer conversations are left out")
    wanted = parser.parse_args()
    tokenizer = tokenizer_of(wanted.base)
    tokens: list[int] = []
    marks: list[int] = []
    begins = [0]
    left_out = 0
    with wanted.conversations.open(encoding="utf-8") as file:
        for line in file:
            for conversation in conversations(json.loads(line)):
                more, marked = encode(conversation, tokenizer)
                if len(more) > wanted.longest:
                    left_out += 1
                    continue
                tokens += more
                marks += marked
                begins.append(len(tokens))
    np.savez(
        wanted.tokens,
        tokens=np.array(tokens, np.int32),
        marks=np.array(marks, np.int8),
        begins=np.array(begins, np.int64),
    )
    print(f"{len(begins) - 1} conversations, {len(tokens)} tokens, {sum(marks)} to be learned; {left_out} left out")


if __name__ == "__main__":
    main()
