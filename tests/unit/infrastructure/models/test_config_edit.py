"""A choice is written into a person's configuration file without destroying anything in it."""

import contextlib
import copy
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from agent_fabric.config.files import read_settings
from agent_fabric.config.problems import ConfigProblem
from agent_fabric.infrastructure.models.config_edit import apply_change, file_to_change, save_model, with_model

USE = {"backend": "embedded", "base_url": None, "model": "qwen:1.5b"}

YAML_FILES = {
    "empty": "",
    "only a comment": "# nothing yet\n",
    "no end of line": "offline: true",
    "other settings": "# mine\noffline: true # stay here\n",
    "no models yet": "models:\noffline: true\n",
    "another model": "models:\n    # slow\n    cloud:\n        base_url: https://x.example/v1 # c\n\noffline: true\n",
    "an entry without settings": "models:\n  quality:\n  fast: {backend: auto}\n",
    "the model in braces": "models:\n  quality: {backend: generic, base_url: http://x/v1, temperature: 0.3} # here\n",
    "the model in full": (
        "models:\n  # the good one\n  quality:\n    # where\n    base_url: http://x/v1 # there\n"
        "    model: 'old' # my favourite\n    temperature: 0.3\n  fast:\n    model: other\noffline: true\n"
    ),
    "lists and text": "specialists:\n  a:\n    keywords:\n    - models\n    description: |\n      models:\n        x\n",
    "all in braces": "{offline: true, models: {quality: {base_url: http://x/v1}}} # mine\n",
    "models in braces": "models: {fast: {backend: auto}} # two\noffline: true\n",
    "windows": "models:\r\n  quality:\r\n    model: old\r\noffline: true\r\n",
    "document marks": "---\nmodels:\n  quality:\n    model: old\n",
    "a text of several lines": "models:\n  quality:\n    model: >-\n      long\n      name\n",
    "an end mark": "offline: true\n...\n",
    "words that YAML 1.1 reads as booleans": "offline: yes\nmodels:\n  fast:\n    model: 'on'\n",
}
TOML_FILES = {
    "empty": "",
    "only a comment": "# nothing yet\n",
    "no end of line": "offline = true",
    "other settings": "# mine\noffline = true # stay here\n\n[budget]\nmax_steps = 3 # few\n",
    "the model in full": (
        "[models.fast]\nmodel = 'x'\n\n[models.quality] # good\n# where\nbase_url = 'http://x/v1' # there\n"
        'model = "old" # my favourite\ntemperature = 0.3\n\n[budget]\nmax_steps = 3\n'
    ),
    "a table without settings": "[models.quality]",
    "dotted keys": 'models.quality.model = "x"\n',
    "an inline table": "[models]\nquality = {model = 'x'}\n",
    "a multi-line text": "[models.quality]\nmodel = '''x'''\n",
}


def with_change(settings: dict[str, Any]) -> dict[str, Any]:
    changed = copy.deepcopy(settings)
    apply_change(changed, "quality", USE)
    return changed


def saved(folder: Path, name: str, text: str) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Write a file and change it; return its new text, and its settings before and after."""
    path = folder / name
    path.write_bytes(text.encode())
    before = read_settings(path)
    done = save_model(path, "quality", USE)
    assert done.backup is not None
    assert done.backup.read_bytes() == text.encode(), "the file as it was is kept"
    return path.read_bytes().decode(), before, read_settings(path)


@pytest.mark.parametrize("text", YAML_FILES.values(), ids=YAML_FILES)
def test_yaml_gets_the_choice_and_keeps_every_comment(text: str, tmp_path: Path) -> None:
    after, was, now = saved(tmp_path, "config.yaml", text)
    assert now == with_change(was)
    assert now["models"]["quality"]["model"] == "qwen:1.5b"
    comments = {line[line.index("#") :].strip() for line in text.splitlines() if "#" in line} - {"# there"}
    assert all(comment in after for comment in comments)
    assert after.count("\r\n") == (after.count("\n") if "\r\n" in text else 0)


@pytest.mark.parametrize("text", TOML_FILES.values(), ids=TOML_FILES)
def test_toml_gets_the_choice_and_keeps_every_comment(text: str, tmp_path: Path) -> None:
    after, was, now = saved(tmp_path, "config.toml", text)
    assert now == with_change(was)
    comments = {line[line.index("#") :].strip() for line in text.splitlines() if "#" in line} - {"# there"}
    assert all(comment in after for comment in comments)


def test_json_gets_the_choice_and_keeps_its_indentation(tmp_path: Path) -> None:
    text = '{\n    "offline": true,\n    "models": {"fast": {"backend": "auto"}}\n}\n'
    after, was, now = saved(tmp_path, "config.json", text)
    assert now == with_change(was)
    assert after.startswith('{\n    "offline": true,\n')


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("config.yaml", "models: {\n  # mine\n  fast: {backend: auto}}\n"),
        ("config.yaml", "models:\n  quality: [1]\n"),
        ("config.json", '{"models": "all"}'),
        ("config.toml", "[[models]]\nquality = 1\n"),
    ],
)
def test_a_file_that_is_hard_to_change_is_left_alone_and_the_lines_are_told(
    name: str, text: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(ConfigProblem, match="was left as it is") as caught:
        save_model(path, "quality", USE)
    assert path.read_text() == text
    assert list(tmp_path.iterdir()) == [path], "nothing is left beside it"
    assert "qwen:1.5b" in caught.value.hint


def test_a_new_file_belongs_to_its_owner_alone(tmp_path: Path) -> None:
    path = file_to_change({"HOME": str(tmp_path)})
    done = save_model(path, "quality", USE)
    assert (path.name, done.backup) == ("config.yaml", None)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_settings(path) == {"models": {"quality": {"backend": "embedded", "model": "qwen:1.5b"}}}
    assert done.lines == path.read_text()


def test_the_file_that_is_read_is_the_one_that_is_changed(tmp_path: Path) -> None:
    folder = tmp_path / "agent-fabric"
    folder.mkdir()
    (folder / "config.toml").write_text("offline = true\n")
    assert file_to_change({"XDG_CONFIG_HOME": str(tmp_path)}) == folder / "config.toml"
    assert file_to_change({"FABRIC_CONFIG_PATH": "/a/b.json"}) == Path("/a/b.json")
    with pytest.raises(ConfigProblem, match="no home folder"):
        file_to_change({})


def test_a_link_to_a_file_elsewhere_stays_a_link_and_the_rights_stay(tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.yaml"
    real.write_text("offline: true\n")
    real.chmod(0o640)
    link = tmp_path / "config.yaml"
    link.symlink_to(real)
    save_model(link, "quality", USE)
    assert link.is_symlink()
    assert read_settings(real)["models"]["quality"]["backend"] == "embedded"
    assert stat.S_IMODE(real.stat().st_mode) == 0o640


def test_a_folder_that_cannot_be_written_is_said_with_the_lines(tmp_path: Path) -> None:
    in_the_way = tmp_path / "folder"
    in_the_way.write_text("a file, so not even root can put anything below it")
    with pytest.raises(ConfigProblem, match="cannot be") as caught:
        save_model(in_the_way / "config.yaml", "quality", USE)
    assert "qwen:1.5b" in caught.value.hint


@pytest.mark.parametrize("text", ["models: [1", "- a\n", "\x00"])
def test_a_broken_file_is_not_touched(text: str, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(ConfigProblem):
        save_model(path, "quality", USE)
    assert path.read_text() == text


_NAMES = st.sampled_from(["models", "quality", "fast", "backend", "base_url", "model", "offline", "a b", "0", "true"])
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 9) | st.text("ab #:'\"\n-", max_size=6),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_NAMES, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(_NAMES, _VALUES, max_size=4), st.sampled_from([None, False, True]))
def test_whatever_a_yaml_file_looks_like_it_is_changed_rightly_or_not_at_all(
    settings: dict[str, Any], flow: bool | None
) -> None:
    text = yaml.safe_dump(settings, default_flow_style=flow, sort_keys=False)
    try:
        after = with_model(text, ".yaml", "quality", USE)
    except ValueError:
        return
    try:
        found = yaml.safe_load(after)
    except yaml.YAMLError:
        return  # `save_model` sees that, too, and writes nothing
    if isinstance(settings.get("models"), dict) and isinstance(settings["models"].get("quality"), dict):
        assert found == with_change(settings)


@given(st.text("[]models.quality=\"'#\n ab", max_size=60))
def test_no_text_makes_the_toml_editor_fail_in_an_unknown_way(text: str) -> None:
    with contextlib.suppress(ValueError):
        with_model(text, ".toml", "quality", USE)
