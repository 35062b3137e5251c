import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_fabric.config.loader import Loaded, read_config
from agent_fabric.config.problems import ConfigProblem

Load = Callable[..., Loaded]
Refuse = Callable[..., ConfigProblem]


def refusal(path: Path) -> ConfigProblem:
    with pytest.raises(ConfigProblem) as caught:
        read_config({"FABRIC_CONFIG_PATH": str(path)})
    return caught.value


@pytest.mark.proves("C05")
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.json", '{"budget": {"max_steps": 5}}'),
        ("a.yaml", "budget:\n  max_steps: 5\n"),
        ("a.yml", "{budget: {max_steps: 5}}"),
        ("a.toml", "[budget]\nmax_steps = 5\n"),
        ("bom.json", '\ufeff{"budget": {"max_steps": 5}}'),
    ],
)
def test_the_suffix_tells_the_format(chosen: Load, name: str, content: str) -> None:
    assert chosen(content, name).config.budget.max_steps == 5


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.json", ""), ("a.json", " \n"), ("a.yaml", "# nothing yet\n"), ("a.toml", ""), ("a.json", "{}")],
)
def test_an_empty_file_has_no_settings(chosen: Load, name: str, content: str) -> None:
    assert set(chosen(content, name).origins.values()) == {"default"}


def test_a_file_that_does_not_exist_is_named(tmp_path: Path) -> None:
    found = refusal(tmp_path / "none.json")
    assert found.message == f"{tmp_path / 'none.json'} does not exist"
    assert "FABRIC_CONFIG_PATH" in found.hint


def test_a_directory_is_not_a_file(tmp_path: Path) -> None:
    (tmp_path / "folder.json").mkdir()
    assert refusal(tmp_path / "folder.json").message.endswith("folder.json is a directory")


def test_a_file_that_cannot_be_read_is_named_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert refusal(tmp_path / "file/a.json").message.endswith("a.json cannot be read: Not a directory")
    assert refusal(tmp_path / f"{'a' * 300}.json").message.endswith("a.json cannot be read: File name too long")


def test_a_named_pipe_is_refused_instead_of_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    assert refusal(tmp_path / "pipe.json").message.endswith("pipe.json is not a regular file")


def test_a_link_that_leads_nowhere_is_not_ignored(tmp_path: Path) -> None:
    (tmp_path / ".fabric").mkdir()
    (tmp_path / ".fabric/config.json").symlink_to(tmp_path / "gone.json")
    with pytest.raises(ConfigProblem, match="does not exist"):
        read_config({}, fabric_folder=tmp_path / ".fabric")


@pytest.mark.parametrize("name", ["fabric.ini", "fabric", "fabric.JSON.bak"])
def test_a_suffix_that_tells_no_format_is_refused(refused: Refuse, name: str) -> None:
    found = refused("{}", name)
    assert found.message.endswith("the name does not show the format")
    assert found.hint == "Use a name that ends in .json, .yaml, .yml or .toml."


def test_a_file_over_one_mebibyte_is_refused(refused: Refuse, chosen: Load) -> None:
    assert "larger than 1 MiB" in refused(b" " * (1024 * 1024 + 1)).message
    assert set(chosen(b" " * (1024 * 1024)).origins.values()) == {"default"}


def test_a_file_that_is_not_utf8_is_refused_with_its_line(refused: Refuse) -> None:
    assert refused(b'{"a":\n"\xff"}').message.endswith("is not UTF-8 text (line 2)")
    assert "is not UTF-8" in refused('{"a": 1}'.encode("utf-16")).message


@pytest.mark.parametrize(
    ("name", "content", "place"),
    [
        ("a.json", '{\n  "a": 1\n  "b": 2\n}', "(line 3, column 3)"),
        ("a.json", "{'a': 1}", "(line 1, column 2)"),
        ("a.yaml", "a: 1\nb: [1, 2\nc: 3\n", "(line 3, column 2)"),
        ("a.yaml", "a: 1\n\tb: 2\n", "(line 2, column 1)"),
        ("a.toml", "a = 1\nb = \n", "(line 2, column 5)"),
        ("a.toml", 'a = "x', "(line 1, column 7)"),
    ],
)
def test_a_mistake_in_the_syntax_is_named_with_line_and_column(
    refused: Refuse, name: str, content: str, place: str
) -> None:
    found = refused(content, name)
    assert f"{name} {place}: " in found.message
    assert found.hint.startswith("The file must be ")


@pytest.mark.parametrize(
    ("name", "content", "got"),
    [
        ("a.json", "[1]", "a list"),
        ("a.json", "null", "nothing (null)"),
        ("a.json", '"models"', "text"),
        ("a.yaml", "- a\n", "a list"),
        ("a.yaml", "just words\n", "text"),
    ],
)
def test_the_top_level_must_be_a_mapping(refused: Refuse, name: str, content: str, got: str) -> None:
    assert refused(content, name).message.endswith(f"the top level must be a mapping of keys to settings, got {got}")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.json", '{"budget": {"max_steps": 1, "max_steps": 2}}', "'max_steps' appears twice"),
        ("a.yaml", "budget: {}\nshell: {}\nbudget: {}\n", "(line 3, column 1): the key 'budget' appears twice"),
        ("a.yaml", "models:\n- ? {a: 1, a: 2}\n  : 1\n", "'a' appears twice"),
        ("a.toml", "a = 1\na = 2\n", "(line 2, column"),
    ],
)
def test_a_key_given_twice_is_refused(refused: Refuse, name: str, content: str, said: str) -> None:
    assert said in refused(content, name).message


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.json", "[" * 10_000),
        ("a.json", '{"a":' * 10_000 + "1" + "}" * 10_000),
        ("a.json", '{"a":' * 100 + "1" + "}" * 100),
        ("a.yaml", "[" * 10_000),
        ("a.yaml", "a: " + "[" * 10_000 + "]" * 10_000),
        ("a.toml", "a = " + "[" * 10_000 + "]" * 10_000),
        ("a.toml", ".".join("a" * 400_000) + " = 1"),
    ],
)
def test_a_file_nested_without_end_is_refused(refused: Refuse, name: str, content: str) -> None:
    assert "nested too deeply" in refused(content, name).message


def test_yaml_aliases_are_refused_before_they_multiply(refused: Refuse) -> None:
    bomb = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 60))
    found = refused(bomb, "bomb.yaml")
    assert "bomb.yaml (line 2, column 10): aliases are not supported: write the value out" in found.message


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.yaml", "a: !!python/object/apply:os.system [id]\n", "could not determine a constructor"),
        ("a.yaml", "a: 1\n---\nb: 2\n", "but found another document"),
        ("a.yaml", "a: 2024-02-31\n", "a value that cannot be what it looks like"),
        ("a.yaml", "a: \x00\n", "character"),
        ("a.yaml", "5: x\n", "the key 5 at the top must be text, got a whole number"),
        ("a.yaml", "models: {on: x}\n", "the key True in models must be text"),
        ("a.yaml", "default_model_key: 2024-01-01\n", "default_model_key is a date, which no setting takes"),
        ("a.toml", "default_model_key = 2024-01-01\n", "default_model_key is a date, which no setting takes"),
        ("a.toml", "a = nan\n", "a must be a finite number"),
        ("a.yaml", "a: .inf\n", "a must be a finite number"),
        ("a.json", '{"a": NaN}', "NaN is not a number that JSON knows"),
        ("a.json", '{"a": ' + "9" * 5_000 + "}", "a number that is too long"),
        ("a.toml", "a = " + "9" * 5_000, "a number or date that cannot be"),
        ("a.json", '{"\\ud800": 1}', "half a character"),
        ("a.json", '{"default_model_key": "\\udfff"}', "default_model_key contains half a character"),
    ],
)
def test_values_that_no_setting_can_have_are_explained(refused: Refuse, name: str, content: str, said: str) -> None:
    assert said in refused(content, name).message


def test_an_unknown_key_is_reported_with_its_file(refused: Refuse, tmp_path: Path) -> None:
    assert refused("modles: {}\n", "a.yaml").message == (
        f"file {tmp_path / 'a.yaml'}: unknown key 'modles'; did you mean 'models'?"
    )
