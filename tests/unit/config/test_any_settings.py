"""Whatever is written as configuration either loads or is explained."""

import json
import string
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_fabric.config.defaults import default_settings
from agent_fabric.config.loader import Loaded, read_config
from agent_fabric.config.problems import ConfigProblem
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.config.show import show_config, show_origins
from effort import examples

any_text = st.text(st.characters(exclude_categories=()), max_size=8)  # half characters, too
known_names = st.sampled_from(
    sorted(
        {"fast", "quality", "engineering", "name", "command", "url", "transport", "env", "base_url", "model", "api_key"}
        | set(FabricConfig.model_fields)
        | {"headers", "ca_file", "max_steps", "mcp_servers", "keywords", "builder", "model_key", "enabled", "timeout_s"}
    )
)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | any_text
    | known_names
    | st.sampled_from(["http://a/v1", "http://[", "env:KEY", "stdio", "http", "~nobody-here/x", "~/x", "a:b", "always"])
)
any_json = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(known_names | any_text, inner, max_size=4),
    max_leaves=12,
)
documents = st.dictionaries(known_names | any_text, any_json, max_size=4)

quick = settings(max_examples=examples(50), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def attempt(
    environ: dict[str, str], overrides: dict[str, Any] | None
) -> tuple[Loaded, None] | tuple[None, ConfigProblem]:
    try:
        return read_config(environ, overrides=overrides), None
    except ConfigProblem as problem:
        return None, problem


def loads_or_explains(environ: dict[str, str], overrides: dict[str, Any] | None = None) -> Loaded | None:
    loaded, problem = attempt(environ, overrides)
    if loaded is None:
        assert problem is not None
        assert problem.message.encode()
        return None
    assert [row.path for row in show_origins(loaded)] == list(loaded.origins)
    assert json.dumps(show_config(loaded.config))
    return loaded


@pytest.mark.proves("AF-150")
@quick
@given(document=documents)
def test_any_json_file_loads_or_is_explained(document: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "any.json"
    path.write_text(json.dumps(document))
    loads_or_explains({"FABRIC_CONFIG_PATH": str(path)})


@quick
@given(document=documents)
def test_any_override_loads_or_is_explained(document: dict[str, Any]) -> None:
    loads_or_explains({}, document)


@quick
@given(changes=st.dictionaries(st.sampled_from(sorted(FabricConfig.model_fields)), any_json, max_size=2))
def test_a_valid_file_with_any_change_loads_or_is_explained(changes: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "any.json"
    path.write_text(json.dumps({**default_settings(), **changes}))
    loads_or_explains({"FABRIC_CONFIG_PATH": str(path)})


@quick
@given(
    content=st.binary(max_size=60) | st.text(string.printable, max_size=60).map(str.encode),
    suffix=st.sampled_from([".json", ".yaml", ".toml"]),
)
def test_any_bytes_load_or_are_explained(content: bytes, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"any{suffix}"
    path.write_bytes(content)
    loads_or_explains({"FABRIC_CONFIG_PATH": str(path)})


@quick
@given(content=st.text(st.sampled_from("{}[]:,-?&*!|>'\"%@`#<= \n\t0a1.e~"), max_size=40))
def test_any_yaml_loads_or_is_explained(content: str, tmp_path: Path) -> None:
    path = tmp_path / "any.yaml"
    path.write_text(content)
    loads_or_explains({"FABRIC_CONFIG_PATH": str(path)})


@quick
@given(
    name=st.sampled_from(["BUDGET", "MODELS", "MODELS__FAST", "MODELS__FAST__CA_FILE", "SHELL__TIMEOUT_S", "TELEMETRY"])
    | st.text(string.ascii_uppercase + "_-0", max_size=12),
    value=any_json.map(json.dumps) | any_text,
)
def test_any_variable_loads_or_is_explained(name: str, value: str) -> None:
    loads_or_explains({f"FABRIC_{name}": value})


@quick
@given(document=documents)
def test_a_file_means_the_same_in_json_and_yaml(document: dict[str, Any], tmp_path: Path) -> None:
    as_json, as_yaml = tmp_path / "any.json", tmp_path / "any.yaml"
    as_json.write_text(json.dumps(document))
    try:
        as_yaml.write_text(yaml.safe_dump(document), encoding="utf-8")
    except UnicodeEncodeError:
        return
    first = loads_or_explains({"FABRIC_CONFIG_PATH": str(as_json)})
    second = loads_or_explains({"FABRIC_CONFIG_PATH": str(as_yaml)})
    assert (first and first.config) == (second and second.config)
