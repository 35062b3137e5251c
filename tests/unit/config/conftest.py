from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.config.loader import Loaded, read_config
from agent_fabric.config.problems import ConfigProblem


@pytest.fixture
def chosen(tmp_path: Path) -> Callable[..., Loaded]:
    """Load a file with the given name and content through FABRIC_CONFIG_PATH."""

    def load(content: str | bytes, name: str = "fabric.json", **environ: Any) -> Loaded:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return read_config({"FABRIC_CONFIG_PATH": str(path), **environ})

    return load


@pytest.fixture
def refused(chosen: Callable[..., Loaded]) -> Callable[..., ConfigProblem]:
    """Load such a file and return the problem it causes."""

    def load(content: str | bytes, name: str = "fabric.json", **environ: Any) -> ConfigProblem:
        with pytest.raises(ConfigProblem) as caught:
            chosen(content, name, **environ)
        return caught.value

    return load
