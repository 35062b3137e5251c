"""What a person does at the terminal to a fabric folder itself is on record, also what changes files only."""

import json
from dataclasses import replace
from pathlib import Path

from e2e.fabric_process import Fabric, settings
from e2e.server.test_identity import UNREACHED, piped

SECRET = "sesame-open-sesame-open"


async def test_secrets_backups_and_restores_are_on_record(tmp_path: Path) -> None:
    home = tmp_path / "one"
    home.mkdir()
    fabric = Fabric(home, settings(UNREACHED))
    assert (await piped(home, SECRET, "secrets", "set", "LAB", "--stdin"))[0] == 0
    assert (await piped(home, "x", "secrets", "set", "no name", "--stdin"))[0] != 0
    for arguments in (("secrets", "rotate"), ("secrets", "remove", "LAB"), ("token", "rotate")):
        ended = await fabric(*arguments)
        assert ended.code == 0, ended.err
    assert (await fabric("secrets", "remove", "LAB")).code != 0
    made = await fabric("db", "backup", str(tmp_path), "--json")
    listed = json.loads((await fabric("audit", "list", "--kind", "admin", "--json")).out)
    assert [(entry["act"], entry["about"]) for entry in listed] == [
        ("secret_set", "LAB"),
        ("secrets_rotated", listed[1]["about"]),
        ("secret_removed", "LAB"),
        ("local_token_rotated", None),
        ("backup_made", made.json["path"]),
    ]
    assert {(entry["credential"], bool(entry["by"])) for entry in listed} == {("local", True)}
    assert SECRET not in repr(listed)

    other = replace(fabric, folder=tmp_path / "two", home=home)
    other.folder.mkdir()
    done = await other("db", "restore", made.json["path"])
    assert done.code == 0, done.err
    listed = json.loads((await other("audit", "list", "--json")).out)
    assert [entry["act"] for entry in listed][-2:] == ["local_token_rotated", "backup_restored"]
    assert (await other("audit", "verify")).code == 0
