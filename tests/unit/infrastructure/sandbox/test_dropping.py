from pathlib import Path

import pytest

from agent_fabric.infrastructure.sandbox.dropping import is_run_workspace

ID = "0c5a9b54-5d1e-4a37-9d2b-0a4a5f1f9a3b"


def test_a_workspace_in_fabrics_own_folder_is_known_by_its_name() -> None:
    assert is_run_workspace(Path(f"/p/.fabric/runs/{ID}/workspace"), Path("/p/.fabric"))


@pytest.mark.parametrize(
    ("workspace", "fabric"),
    [
        ("/usr", None),
        ("/usr", "/"),
        ("/usr", "/usr"),
        ("/p", "/p/.fabric"),
        ("/p/.fabric", "/p/.fabric"),
        ("/p/.fabric/runs", "/p/.fabric"),
        (f"/p/.fabric/runs/{ID}", "/p/.fabric"),
        (f"/p/.fabric/runs/{ID}/workspace/deeper", "/p/.fabric"),
        (f"/p/.fabric/runs/{ID}/other", "/p/.fabric"),
        (f"/p/.fabric/other/{ID}/workspace", "/p/.fabric"),
        ("/p/.fabric/runs/../workspace", "/p/.fabric"),
        ("/p/.fabric/runs/etc/workspace", "/p/.fabric"),
        (f"/p/.fabric/runs/{ID}\n/workspace", "/p/.fabric"),
        (f"/elsewhere/runs/{ID}/workspace", "/p/.fabric"),
        (f"runs/{ID}/workspace", "."),
    ],
)
def test_no_other_folder_is(workspace: str, fabric: str | None) -> None:
    assert not is_run_workspace(Path(workspace), None if fabric is None else Path(fabric))
