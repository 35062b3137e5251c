"""Where the store is, found without loading the configuration; the loader finds the same."""

import itertools
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from agent_fabric.config.loader import read_config
from agent_fabric.config.problems import ConfigProblem
from agent_fabric.config.secret_references import secrets_named_in
from agent_fabric.config.show import show_config, show_origins
from agent_fabric.config.store_address import StoreAddress, find_store_address, without_password

A, B, C, D = (f"postgresql://fabric:geheim@{name}.example.org/fabric" for name in "abcd")
PASSWORD = "s3cret-w0rd"


def write(folder: Path, text: str, name: str = "config.json") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


def both(environ: Mapping[str, str], folder: Path) -> StoreAddress | None:
    """Return what is found in the short way, after a look at what the loader says."""
    found = find_store_address(environ, folder)
    try:
        store = read_config(environ, fabric_folder=folder).config.store
    except ConfigProblem:
        assert found is None
    else:
        if found is not None and not store.url.startswith("env:"):
            assert found[:2] == (store.url, store.pool)
    return found


def test_without_a_word_about_it_the_store_is_in_the_folder(tmp_path: Path) -> None:
    write(tmp_path / ".fabric", '{"budget": {"max_steps": 3}}')
    assert both({"HOME": str(tmp_path)}, tmp_path / ".fabric") == StoreAddress()


def test_the_later_layer_wins_and_the_loader_agrees(tmp_path: Path) -> None:
    for number, layers in enumerate(itertools.product([False, True], repeat=4)):
        home = tmp_path / str(number)
        folder = home / ".fabric"
        environ = {"HOME": str(home)}
        user, project, dotenv, variable = layers
        if user:
            write(home / ".config/agent-fabric", f"store:\n  url: {A}\n  pool: 3\n", "config.yaml")
        if project:
            write(folder, json.dumps({"store": {"url": B, "pool": 4}}))
        if dotenv:
            write(home, f"FABRIC_STORE__URL={C}\n", ".env")
        if variable:
            environ |= {"FABRIC_STORE__URL": D, "FABRIC_STORE__POOL": "5"}
        found = both(environ, folder)
        assert found is not None
        url = D if variable else C if dotenv else B if project else A if user else ""
        pool = 5 if variable else 4 if project else 3 if user else 8
        assert found == (url, pool, bool(url) and not variable and (dotenv or project))


def test_a_chosen_file_stands_in_for_both_files(tmp_path: Path) -> None:
    write(tmp_path / ".fabric", json.dumps({"store": {"url": A}}))
    write(tmp_path, f'[store]\nurl = "{B}"\n', "own.toml")
    environ = {"HOME": str(tmp_path), "FABRIC_CONFIG_PATH": str(tmp_path / "own.toml")}
    assert both(environ, tmp_path / ".fabric") == (B, 8, False)


@pytest.mark.parametrize(
    "text",
    [
        '{"store": {"url": 5}}',
        '{"store": {"pool": true}}',
        '{"store": {"pool": 1}}',
        '{"store": "here"}',
        '{"store": {"adress": "x"}}',
        '{"store": {"url": "mysql://x"}}',
        '{"store": {"url": "postgresql://a b"}}',
        '{"store": ',
    ],
)
def test_what_is_odd_is_left_to_the_loader(tmp_path: Path, text: str) -> None:
    write(tmp_path / ".fabric", text)
    assert both({"HOME": str(tmp_path)}, tmp_path / ".fabric") is None


def test_the_group_as_one_variable_or_with_escapes_is_left_to_the_loader(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "FABRIC_STORE": json.dumps({"url": A})}
    assert both(environ, tmp_path / ".fabric") is None
    write(tmp_path / ".fabric", '{"\\u0073tore": ' + json.dumps({"url": B}) + "}")
    assert both({"HOME": str(tmp_path)}, tmp_path / ".fabric") == (B, 8, True)


def test_an_unreadable_file_that_says_nothing_of_the_store_is_no_obstacle(tmp_path: Path) -> None:
    write(tmp_path / ".fabric", '{"budget": ')
    assert find_store_address({"HOME": str(tmp_path)}, tmp_path / ".fabric") == StoreAddress()


def test_a_reference_is_looked_up_in_the_environment(tmp_path: Path) -> None:
    write(tmp_path / ".fabric", '{"store": {"url": "env:DATABASE"}}')
    environ = {"HOME": str(tmp_path), "DATABASE": A}
    assert both(environ, tmp_path / ".fabric") == (A, 8, True)
    with pytest.raises(ConfigProblem, match="DATABASE, which is not set"):
        find_store_address({"HOME": str(tmp_path)}, tmp_path / ".fabric")
    with pytest.raises(ConfigProblem, match="holds no address") as refused:
        find_store_address(environ | {"DATABASE": PASSWORD}, tmp_path / ".fabric")
    assert PASSWORD not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"postgresql://ada:{PASSWORD}@h:5432/d", "postgresql://ada:***@h:5432/d"),
        (f"postgresql://ada:{PASSWORD}@x@h/d", "postgresql://ada:***@h/d"),
        (f"postgresql://ada:a/b{PASSWORD}@h/d?sslmode=require", "postgresql://ada:***@h/d?sslmode=require"),
        (f"postgresql://h/d?user=ada&password={PASSWORD}&x=1", "postgresql://h/d?user=ada&password=***&x=1"),
        (f"postgresql://h/d?sslpassword={PASSWORD}", "postgresql://h/d?sslpassword=***"),
        (f"postgresql://:{PASSWORD}@h/d", "postgresql://:***@h/d"),
        ("postgresql://ada@h1:1,h2:2/d", "postgresql://ada@h1:1,h2:2/d"),
        ("env:DATABASE", "env:DATABASE"),
        ("", ""),
    ],
)
def test_a_password_is_never_shown(url: str, shown: str) -> None:
    assert without_password(url) == shown
    assert PASSWORD not in repr(StoreAddress(url))
    loaded = read_config({}, overrides={"store": {"url": url}})
    assert show_config(loaded.config)["store"]["url"] == shown
    assert PASSWORD not in str(show_origins(loaded)) + repr(loaded.config) + str(loaded.config.store)


def test_a_refused_address_is_not_repeated() -> None:
    with pytest.raises(ConfigProblem) as refused:
        read_config({"FABRIC_STORE__URL": f"mysql://ada:{PASSWORD}@h/d"})
    assert PASSWORD not in refused.value.message + refused.value.hint
    assert "store.url must be the address of a PostgreSQL database" in refused.value.message


def test_an_encoded_password_is_kept_out_of_logs_in_both_forms() -> None:
    config = read_config({}, overrides={"store": {"url": "postgresql://ada:p%40ss%2Fword@h/d"}}).config
    assert secrets_named_in(config.model_dump(), {}) >= {"p%40ss%2Fword", "p@ss/word"}


def test_reading_runs_loads_neither_pydantic_nor_a_driver(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from agent_fabric.bootstrap.records import open_records;"
        "records = open_records(Path('.fabric')); records.catalogue; records.close();"
        "print([name for name in ('pydantic', 'psycopg', 'yaml') if name in sys.modules])"
    )
    environ = {"HOME": str(tmp_path), "PYTHONPATH": ":".join(sys.path)}
    for more, loaded in (({}, "[]"), ({"FABRIC_STORE__URL": A}, "['psycopg']")):
        done = subprocess.run(
            [sys.executable, "-c", script],
            cwd=tmp_path,
            env=environ | more,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.stdout.strip() == loaded, done.stderr
