"""The `.env` of a project sets what its `FABRIC_` variables say."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from agent_fabric.config.dotenv import parse_dotenv, read_dotenv
from agent_fabric.config.files import MAX_FILE_BYTES
from agent_fabric.config.loader import Loaded, read_config
from agent_fabric.config.problems import ConfigProblem
from agent_fabric.config.show import show_origins

FILE = Path("/project/.env")


def project(folder: Path, text: str) -> Path:
    """Write a `.env`; return the fabric folder beside it."""
    (folder / ".env").write_text(text)
    return folder / ".fabric"


def read(folder: Path, text: str, environ: Mapping[str, str] | None = None) -> Loaded:
    return read_config(environ or {}, fabric_folder=project(folder, text))


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("FABRIC_A=20", "20"),
        ("  export   FABRIC_A = 20  ", "20"),
        ("FABRIC_A=a b # not this", "a b"),
        ("FABRIC_A=a#b", "a#b"),
        ("FABRIC_A=#all", ""),
        ("FABRIC_A=", ""),
        ('FABRIC_A=\'["a", "b # c"]\'  # this', '["a", "b # c"]'),
        ("FABRIC_A='$HOME `id` \\n'", "$HOME `id` \\n"),
        ('FABRIC_A="a\\n\\t\\"b\\" \\\\ $HOME"', 'a\n\t"b" \\ $HOME'),
        ("FABRIC_A=$(touch x)\r", "$(touch x)"),
        ("FABRIC_A=1\nFABRIC_A=2", "2"),
    ],
)
def test_a_line_is_read_and_nothing_is_expanded(line: str, value: str) -> None:
    assert parse_dotenv(f"# first\n\n{line}\n", FILE)["FABRIC_A"].value == value


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("\n\nFABRIC_A", "line 3): FABRIC_A has no value"),
        ("export FABRIC_A", "line 1): FABRIC_A has no value"),
        ("FABRIC_A='open", "line 1): the quote of FABRIC_A is not closed"),
        ('X=1\nFABRIC_A="a" b', "line 2): there is text behind the closing quote of FABRIC_A"),
        ("FABRIC_URL=http://elsewhere", "line 1): FABRIC_URL works only in the environment"),
        ("FABRIC_CONFIG_PATH=a.json", "FABRIC_CONFIG_PATH works only in the environment"),
    ],
)
def test_a_line_that_cannot_be_understood_is_named(text: str, problem: str) -> None:
    with pytest.raises(ConfigProblem) as refused:
        parse_dotenv(text, FILE)
    assert "/project/.env (line" in refused.value.message
    assert problem in refused.value.message
    assert refused.value.hint


def test_variables_of_other_programs_are_skipped_whatever_they_look_like() -> None:
    text = "!!!\nKEY='-----BEGIN\nFABRIC_A=1\nEND'\nB=\"never closed\nA.B-C\nFABRIC_C=3\n"
    assert parse_dotenv(text, FILE) == {"FABRIC_C": ("3", 7)}


@pytest.mark.proves("C05")
def test_the_environment_counts_more_than_the_file_and_the_file_more_than_other_files(tmp_path: Path) -> None:
    chosen = tmp_path / "chosen.json"
    chosen.write_text('{"budget": {"max_steps": 1}}')
    text = "FABRIC_BUDGET__MAX_STEPS=2\nFABRIC_DEFAULT_MODEL_KEY=fast\n"

    below = read(tmp_path, text, {"FABRIC_CONFIG_PATH": str(chosen)})
    assert below.config.budget.max_steps == 2
    assert below.origins["budget.max_steps"] == f"file {tmp_path / '.env'}"

    above = read(tmp_path, text, {"FABRIC_BUDGET__MAX_STEPS": "3"})
    assert (above.config.budget.max_steps, above.config.default_model_key) == (3, "fast")
    assert above.origins["budget.max_steps"] == "env FABRIC_BUDGET__MAX_STEPS"

    shown = {each.path: each.origin for each in show_origins(above)}
    assert shown["default_model_key"] == f"file {tmp_path / '.env'}"


@pytest.mark.parametrize("line", ["FABRIC_BUDGET__MAX_STEP=2", "FABRIC_BUDGET__MAX_STEPS=many"])
def test_what_is_no_setting_is_told_with_its_line(tmp_path: Path, line: str) -> None:
    with pytest.raises(ConfigProblem, match=r"\.env \(line 2\): ") as refused:
        read(tmp_path, f"\n{line}\n")
    assert "FABRIC_BUDGET__MAX_STEP" in refused.value.message


def test_a_value_that_does_not_fit_is_blamed_on_the_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigProblem, match=r"\.env: .*max_steps"):
        read(tmp_path, "FABRIC_BUDGET__MAX_STEPS=-2")


def test_a_folder_or_a_large_or_a_binary_file_of_another_program_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / ".fabric"
    file = tmp_path / ".env"
    file.mkdir()
    assert read_dotenv(folder) == {}
    file.rmdir()
    for content in (b"\xff\xfe", b"#" * (MAX_FILE_BYTES + 9)):
        file.write_bytes(content)
        assert read_dotenv(folder) == {}
    for content, problem in ((b"FABRIC_A=\xff", "UTF-8"), (b"FABRIC_A=" + b"1" * MAX_FILE_BYTES, "1 MiB")):
        file.write_bytes(content)
        with pytest.raises(ConfigProblem, match=problem):
            read_dotenv(folder)


def test_only_a_folder_named_fabric_has_a_project_around_it(tmp_path: Path) -> None:
    project(tmp_path, "FABRIC_BUDGET__MAX_STEPS=2")
    assert read_dotenv(tmp_path / "elsewhere") == {}
    assert list(read_dotenv(tmp_path / ".fabric")) == ["FABRIC_BUDGET__MAX_STEPS"]
