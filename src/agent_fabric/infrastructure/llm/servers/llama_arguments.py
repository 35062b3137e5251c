"""llama-server's command line."""

from pathlib import Path

from agent_fabric.config.schema.managed_llama import ManagedLlamaConfig


def llama_command(config: ManagedLlamaConfig, *, port: int, key_file: Path) -> list[str]:
    """Return the words that start llama-server; the key itself is not among them, since every user can see them."""
    return [
        *config.command,
        *("--model", str(config.model)),
        *("--host", "127.0.0.1", "--port", str(port), "--api-key-file", str(key_file)),
        *("--parallel", str(config.parallel)),
        *("--ctx-size", str(config.context_window * config.parallel)),  # llama.cpp divides it among the conversations
        *("--flash-attn", config.flash_attention),
        *("--cache-type-k", config.cache_type_k, "--cache-type-v", config.cache_type_v),
        *_gpu_layers(config.gpu_layers),
        *(("--threads", str(config.threads)) if config.threads else ()),
        *("--slots", "--jinja", "--no-webui"),
        *config.extra_args,
    ]


def _gpu_layers(layers: int | str) -> tuple[str, ...]:
    # Left out when llama.cpp shall decide: older ones know numbers only, and decide anyway.
    return () if layers == "auto" else ("--n-gpu-layers", "999" if layers == "all" else str(layers))
