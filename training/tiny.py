"""Writes a tiny Qwen2 with random weights, so that every step of the training can be tried on a processor in seconds.

    python -m training.tiny tiny.gguf

It has the form of the real ones and a vocabulary of bytes; what it says means nothing.
"""

import argparse
from pathlib import Path

import numpy as np
from gguf import GGUFWriter, TokenType

WIDTH, INNER, HEADS, SHARED, BLOCKS, CONTEXT = 64, 128, 4, 2, 2, 4096
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CHAT = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def byte_letters() -> list[str]:
    """Return the letters that stand for the 256 bytes in vocabularies of this kind."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(byte) if byte in plain else chr(next(others)) for byte in range(256)]


def write_tiny(path: Path, seed: int = 1) -> None:
    """Write the model."""
    random = np.random.default_rng(seed)
    writer = GGUFWriter(path, "qwen2")
    writer.add_name("tiny")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(INNER)
    writer.add_block_count(BLOCKS)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(SHARED)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(1_000_000.0)
    tokens = [*byte_letters(), *SPECIAL]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types([TokenType.NORMAL] * 256 + [TokenType.CONTROL] * len(SPECIAL))
    writer.add_token_merges(["a b"])  # there must be one
    writer.add_eos_token_id(tokens.index("<|im_end|>"))
    writer.add_pad_token_id(tokens.index("<|endoftext|>"))
    writer.add_bos_token_id(tokens.index("<|endoftext|>"))
    writer.add_add_bos_token(value=False)
    writer.add_chat_template(CHAT)

    def tensor(name: str, *shape: int, plain: float | None = None) -> None:
        values = random.normal(0, shape[-1] ** -0.5, shape) if plain is None else np.full(shape, plain)
        writer.add_tensor(name, values.astype(np.float32))

    tensor("token_embd.weight", len(tokens), WIDTH)
    tensor("output_norm.weight", WIDTH, plain=1.0)
    shared = WIDTH // HEADS * SHARED
    for at in range(BLOCKS):
        for norm in ("attn_norm", "ffn_norm"):
            tensor(f"blk.{at}.{norm}.weight", WIDTH, plain=1.0)
        for name, out in (("attn_q", WIDTH), ("attn_k", shared), ("attn_v", shared)):
            tensor(f"blk.{at}.{name}.weight", out, WIDTH)
            tensor(f"blk.{at}.{name}.bias", out, plain=0.0)
        tensor(f"blk.{at}.attn_output.weight", WIDTH, WIDTH)
        tensor(f"blk.{at}.ffn_gate.weight", INNER, WIDTH)
        tensor(f"blk.{at}.ffn_up.weight", INNER, WIDTH)
        tensor(f"blk.{at}.ffn_down.weight", WIDTH, INNER)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> None:
    parser = argparse.ArgumentParser(description="Write a tiny model with random weights.")
    parser.add_argument("gguf", type=Path)
    write_tiny(parser.parse_args().gguf)


if __name__ == "__main__":
    main()
