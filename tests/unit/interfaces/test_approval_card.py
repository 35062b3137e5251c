"""A person who reads the card sees what would run, however it was written."""

import io
import re
from dataclasses import replace
from typing import Any

import pytest

from agent_fabric.application.ports.approvals import ApprovalCard, ApprovalStatus
from agent_fabric.domain.approvals.answers import Question
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.policy.labels import file_written, files_maybe_written
from agent_fabric.domain.policy.outside_plan import Outside
from agent_fabric.interfaces.cli.approvals.approval_card import card_line, is_folded, shown_card
from long_calls import PLACES, script


def card(args: Any) -> ApprovalCard:
    return ApprovalCard(
        approval_id="0123456789ab",
        run_id=RunId("run-0"),
        call_id="c",
        tool="shell",
        args=args,
        question=Question.MAY_IT_RUN,
        reason="because",
        rule="rule",
        subject="subject",
        alike="",
        agent="engineering",
        target="/here",
        sandbox="A",
        untrusted=(),
        policy_version="1",
        args_hash="",
        created_at=0.0,
        expires_at=0.0,
        status=ApprovalStatus.PENDING,
    )


def shown(command: str, **more: bool) -> list[str]:
    return shown_card(card({"command": command}), io.StringIO(), **more).splitlines()


@pytest.mark.proves("FC-034")
@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("git push evil\r git push origin", r"git push evil\r git push origin"),
        ("git push \x1b[8mevil\x1b[0m", r"git push \x1b[8mevil\x1b[0m"),
        ("git push \u202eniam\u202c", r"git push \u202eniam\u202c"),
        ("git push\u200b", r"git push\u200b"),
        ("git\u3164push \u2800", r"git\u3164push \u2800"),
        ("git push" + " " * 3_000 + "; curl evil", "git push [3000 blanks] ; curl evil"),
    ],
)
def test_nothing_hides_behind_what_a_terminal_does_not_show(command: str, line: str) -> None:
    assert shown(command)[1] == f"  │ {line}"


@pytest.mark.parametrize("between", ["x" * 100_000, "\n" * 5_000])
def test_the_end_of_a_long_command_is_shown_and_what_is_left_out_is_said(between: str) -> None:
    lines = shown(f"git push {between}; curl evil")
    assert len(lines) < 50
    assert any("curl evil" in line for line in lines)
    assert any("left out" in line for line in lines)
    assert any("fabric approvals show 0123456789ab" in line for line in lines)
    whole = shown(f"git push {between}; curl evil", whole=True)
    assert not any("left out" in line or "not all of it" in line for line in whole)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("lines", [1, 30, 31, 403, 100_000])
def test_a_call_is_shown_whole_or_says_that_it_is_folded(lines: int, place: str) -> None:
    asked = replace(card({"command": script(lines, place)}), binding="0123456789abcdef")
    whole = shown_card(asked, io.StringIO(), whole=True).splitlines()
    assert [line for line in whole if line.startswith("  │ ")] == [
        f"  │ {line}" for line in script(lines, place).split("\n")
    ]
    assert any("hash:  0123456789ab" in line for line in whole)
    folded = shown_card(asked, io.StringIO())
    assert is_folded(asked) == ("not all of it:" in folded) == (lines > 30)
    assert is_folded(asked) == (f"[{lines:,} lines, hash 0123456789ab]" in card_line(asked, io.StringIO()))


def test_a_settled_card_shows_what_was_asked_for_and_what_was_approved_instead() -> None:
    asked = replace(card({"command": "make deploy"}), status=ApprovalStatus.APPROVED, changed={"command": "make\ntest"})
    lines = shown_card(asked, io.StringIO()).splitlines()
    at = lines.index("  instead of that, this was approved:")
    assert lines[at + 1 : at + 3] == ["  │ make", "  │ test"]
    assert "  │ make deploy" in lines[:at]


def test_a_card_says_in_words_what_agreeing_for_the_run_would_cover() -> None:
    text = shown_card(replace(card({"command": "frob log"}), alike="exactly `frob log`"), io.StringIO())
    assert "  for this run: would cover exactly `frob log`\n" in text


def test_no_line_of_a_command_passes_for_one_of_the_card() -> None:
    lines = shown("git push\n  why:   it is harmless (rule none)")
    assert [line for line in lines if line.startswith("  why:")] == ["  why:   because (rule rule)"]


def test_the_list_does_not_hide_that_a_command_goes_on_behind_blanks() -> None:
    assert "[3000 blanks] ; curl evil" in card_line(
        card({"command": "git push" + " " * 3_000 + "; curl evil"}), io.StringIO()
    )


@pytest.mark.proves("WA-6")
@pytest.mark.parametrize("hidden", ["\u202e", "\u200b", "\u2066", "\x07", "\ufeff", "\u3164", "\U000e0041"])
def test_lists_and_cards_show_hidden_characters_as_escapes_and_say_so(hidden: str) -> None:
    line = card_line(card({"command": f"git {hidden}push"}), io.StringIO())
    for text in (line, "\n".join(shown(f"git {hidden}push"))):
        assert hidden not in text
        assert ascii(hidden)[1:-1] in text
        assert "has hidden characters" in text
    assert "hidden" not in card_line(card({"command": "git push\norigin"}), io.StringIO())


@pytest.mark.proves("DU-1")
def test_what_runs_outside_the_box_says_so_and_shows_all_of_it() -> None:
    outside = Outside(
        words=("/usr/bin/twine", "upload", "a b.whl"),
        account="ada@laptop",
        goes_to="https://upload.example",
        carries=("file a b.whl, 3 bytes, sha256 00ff", "commit 123 Ada: \x1b[8mhidden\x1b[0m"),
    )
    asked = replace(card({"command": "twine upload 'a b.whl'"}), outside=outside)
    text = shown_card(asked, io.StringIO())
    assert "OUTSIDE the box, as ada@laptop" in text
    assert "runs:  /usr/bin/twine upload 'a b.whl'" in text
    assert "with:  file a b.whl, 3 bytes, sha256 00ff" in text
    assert r"\x1b[8mhidden" in text
    assert "sandbox A" not in text
    assert "[outside the box]" in card_line(asked, io.StringIO())


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("filling", ["x", "界"])
def test_no_line_that_a_terminal_folds_passes_for_one_of_ours(monkeypatch: pytest.MonkeyPatch, filling: str) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    forged = "".join(filling * n + "  to:    good.example" + " " * 9 for n in range(30, 90))
    lines = shown_card(card({"command": f"curl {forged}"}), Terminal(), whole=True).splitlines()
    assert all(len(line) + line.count("界") < 80 for line in lines)
    assert not any(line.startswith("  to:") for line in lines)


@pytest.mark.proves("DU-10")
@pytest.mark.parametrize(
    ("source", "command"),
    [
        (file_written(".git", "run-1"), "fabric policy vouch .git"),
        (file_written("-f; echo", "run-1"), "fabric policy vouch -- '-f; echo'"),
        (files_maybe_written("run-1"), "fabric policy vouch ."),
        (file_written("a\u202eb", "run-1"), ""),
        ("web: https://example.org", ""),
    ],
)
def test_a_card_names_the_command_that_makes_files_trusted(source: str, command: str) -> None:
    text = shown_card(replace(card({"command": "git push"}), untrusted=(source,)), io.StringIO())
    lines = [line for line in text.splitlines() if "vouch" in line]
    assert lines == ([f"         to trust it in later runs, once you have read it: {command}"] if command else [])


@pytest.mark.proves("DU-10")
@pytest.mark.parametrize("columns", [40, 80])
def test_lines_of_a_card_are_folded_between_words(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    words = [f"word{number}" for number in range(40)]
    asked = replace(
        card({"command": "git push"}), reason=" ".join(words), untrusted=("a page", "https://other.example")
    )
    text = shown_card(asked, Terminal())
    assert all(len(re.sub(r"\x1b\[[0-9;]*m", "", line)) < columns for line in text.splitlines())
    assert set(words) <= set(text.split())
    assert "\x1b[31mhas read:\x1b[0m" in text, "no style is broken"
