"""Where a command of a command line runs."""

import pytest

from agent_fabric.domain.policy.working_folders import ELSEWHERE, folder_of, inside

PROJECT = "/home/me/project"


@pytest.mark.parametrize(
    ("line", "folder"),
    [
        ("pytest", "."),
        ("cd sub && pytest", "sub"),
        ("cd sub; pytest", "sub"),
        ("cd sub\npytest", "sub"),
        ("cd ./sub/ && cd deep && pytest", "sub/deep"),
        ("cd sub && cd .. && pytest", "."),
        ("cd sub && pytest && cd .. && pytest", "."),
        ("pushd sub && pytest && popd", "sub"),
        ("pushd sub && popd && pytest", ELSEWHERE),
        ("cd -P -- sub && pytest", "sub"),
        ("(cd sub && make) && pytest", "."),
        ("(cd sub && pytest)", "."),
        ("if cd sub; then :; fi; pytest", "sub"),
        ("bash -c 'cd sub && pytest'", "sub"),
        ("cd sub && timeout 5 pytest", "sub"),
        ("env -C sub pytest", "sub"),
        ("env --chdir=sub pytest", "sub"),
        ("env A=b pytest", "."),
        (f"cd {PROJECT} && pytest", "."),
        (f"cd {PROJECT}/sub && pytest", "sub"),
        ("cd /mnt/home/me/project && pytest", "."),  # the same folder by another name
        ("cd /workspace && pytest", "."),
        ("cd /workspace/sub && pytest", "sub"),
        ("cd /tmp/copy && pytest", ELSEWHERE),
        ("cd /tmp && cd copy && pytest", ELSEWHERE),
        (f"cd /tmp && cd {PROJECT} && pytest", "."),
        ("cd && pytest", ELSEWHERE),
        ("cd ~/x && pytest", ELSEWHERE),
        ("cd - && pytest", ELSEWHERE),
        ('cd "$DIR" && pytest', ELSEWHERE),
        ('cd "$PWD" && pytest', "."),
        ("cd $(git rev-parse --show-toplevel) && pytest", "."),
        ('cd "$PWD/sub" && pytest', "sub"),
        ("cd 'unfinished && pytest", "."),
    ],
)
def test_the_folder_of_a_command(line: str, folder: str) -> None:
    assert folder_of(line, "pytest", PROJECT) == folder


def test_a_path_is_seen_from_the_workspace() -> None:
    assert inside("a/../b", "") == "b"
    assert inside("/workspace", "") == "."
    assert inside("/home/me/project/a/b.py", PROJECT) == "a/b.py"
    assert inside("/home/you/project/a/b.py", PROJECT) == ELSEWHERE
