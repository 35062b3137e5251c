"""llama-server's command line."""

from agent_fabric.config.schema.managed_llama import ManagedLlamaConfig


def llama_arguments(config: ManagedLlamaConfig) -> list[str]:
    """Return the arguments of llama-server, without its address and its key, which each start chooses anew."""
    return [
        *("--model", str(config.model)),
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
