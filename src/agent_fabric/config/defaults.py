"""What holds when nobody configured anything: a local Ollama server and the built-in specialists."""

from typing import Any, Final

from agent_fabric.config.schema.fabric import FabricConfig

OLLAMA_URL: Final = "http://localhost:11434/v1"


def default_settings() -> dict[str, Any]:
    """Return the built-in entries in the shape of a file, for other layers to be merged over."""
    return {
        "models": {
            "fast": {"base_url": OLLAMA_URL, "model": "qwen2.5:7b", "backend": "ollama"},
            "quality": {"base_url": OLLAMA_URL, "model": "qwen2.5:14b", "backend": "ollama"},
        },
        "specialists": {
            "engineering": {
                "description": "Builds, tests, repairs and reviews software in the run's workspace.",
                "keywords": [
                    "build",
                    "code",
                    "implement",
                    "develop",
                    "program",
                    "script",
                    "function",
                    "class",
                    "module",
                    "library",
                    "api",
                    "endpoint",
                    "cli",
                    "test",
                    "bug",
                    "fix",
                    "debug",
                    "error",
                    "traceback",
                    "refactor",
                    "compile",
                    "deploy",
                    "git",
                    "repository",
                    "database",
                    "sql",
                    "python",
                    "javascript",
                    "typescript",
                    "rust",
                ],
                "workflow": ["plan", "implement", "test", "review", "iterate"],
            },
        },
    }


def default_config() -> FabricConfig:
    """Return the configuration of a fresh installation."""
    return FabricConfig.model_validate(default_settings())
