import pytest

from agent_fabric.infrastructure.sandbox.mounts_protected import is_harmless

USUAL = """[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = false
\tlogallrefupdates = true
[remote "origin"]
\turl = https://example.com/a.git
\tfetch = +refs/heads/*:refs/remotes/origin/*
[branch "main"]
\tremote = origin
\tmerge = refs/heads/main
# a remark
[user]
\tname = A Person; and a half
"""


def test_settings_that_git_writes_by_itself_are_harmless() -> None:
    assert is_harmless(USUAL)
    assert is_harmless("")


@pytest.mark.parametrize(
    "text",
    [
        "[core]\nfsmonitor = evil",
        "[core]\n\thooksPath=/tmp",
        "[CORE]\nFSMONITOR = evil",
        "[core] fsmonitor = evil",
        "[core]\nbare = false\\\nfsmonitor = evil",
        "[core]\nsshCommand = evil",
        '[alias]\nst = "!evil"',
        '[filter "x"]\nclean = evil',
        "[include]\npath = /tmp/x",
        '[includeIf "gitdir:/"]\npath = x',
        "[remote.origin]\nuploadpack = evil",
        '[remote "origin"]\nuploadpack = evil',
        '[user "]\n[core]\nfsmonitor = evil\n"]',
        "fsmonitor = evil",
        "[core]\nbare",
        "\ufeff[core]\nfsmonitor = x",
    ],
)
def test_settings_that_start_something_or_cannot_be_read_for_sure_are_not(text: str) -> None:
    assert not is_harmless(text)


def test_a_file_that_is_no_text_is_not() -> None:
    assert not is_harmless(None)
