"""What is wrong with a command line is said in plain words, not in those of a library."""

import pytest

from agent_fabric.interfaces.cli.main import main


@pytest.mark.proves("DU-11")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run", "--max-steps", "abc", "x"), "'abc' is not a whole number"),
        (("run", "--max-steps", "1.5", "x"), "'1.5' is not a whole number"),
        (("run", "--max-steps", "0", "x"), "0 is not at least 1"),
        (("run", "--max-steps", "5000", "x"), "5000 is not at most 1000"),
        (("logs", "list", "--status", "wating"), "hint: See `fabric logs list --help`."),
        (("approvals", "approve", "--last"), "hint: See `fabric approvals approve --help`."),
        (("gc", "--older-than", "soon"), "'soon' is not a length of time"),
        (("secrets", "rotate", "--drop-old"), "This needs confirmation; add --yes."),
    ],
)
def test_a_wrong_value_is_named_with_what_is_wanted(
    arguments: tuple[str, ...],
    said: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: object,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert said in error
    assert "Input should" not in error
