"""Writes a trained adapter as a GGUF file, bound by its hash to the base that it was trained on.

    python -m training.to_gguf BASE.gguf adapter.npz NAME.gguf

The larger half of each pair is kept in 8 bits (q8_0), the other in 16: a block of q8_0 has 32 numbers, a rank fewer.
"""

import argparse
import hashlib
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter
from gguf.quants import quantize

BLOCK = 32


def main() -> None:
    parser = argparse.ArgumentParser(description="Write a trained adapter as a GGUF file.")
    parser.add_argument("base", type=Path)
    parser.add_argument("adapter", type=Path)
    parser.add_argument("gguf", type=Path)
    wanted = parser.parse_args()
    with wanted.base.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    base = GGUFReader(wanted.base).fields
    writer = GGUFWriter(wanted.gguf, str(base["general.architecture"].contents()))
    writer.add_string("general.type", "adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_string("general.name", wanted.gguf.stem)
    writer.add_string("general.license", "apache-2.0")
    writer.add_string("agent_fabric.base_sha256", digest)
    with np.load(wanted.adapter) as learned:
        writer.add_float32("adapter.lora.alpha", float(learned["alpha"]))
        for name in learned.files:
            if name != "alpha":
                _add(writer, name, learned[name])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    print(f"{wanted.gguf}: {wanted.gguf.stat().st_size} bytes, for the base {digest}")


def _add(writer: GGUFWriter, name: str, values: "np.ndarray[tuple[int, ...], np.dtype[np.float16]]") -> None:
    layer, _, part = name.rpartition(".")
    wanted = f"{layer}.weight.lora_{part}"
    if values.shape[-1] % BLOCK:
        writer.add_tensor(wanted, np.ascontiguousarray(values))
        return
    kind = GGMLQuantizationType.Q8_0
    writer.add_tensor(wanted, quantize(values.astype(np.float32), kind), raw_dtype=kind)


if __name__ == "__main__":
    main()
