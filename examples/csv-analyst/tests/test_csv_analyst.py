"""Tests of the tools on their own, and of the pack in the real engine with a model that follows a list."""

from pathlib import Path

import pytest
from agent_fabric.testing.packs import call_tool, calls, sandbox_in
from agent_fabric.testing.workbench import workbench

from csv_analyst.pack import build
from csv_analyst.tools import profile_csv, total_by

SALES = "region,amount\nnorth,10\nsouth,2.5\nnorth,\n"


async def test_a_profile_tells_what_is_in_each_column(tmp_path: Path) -> None:
    (tmp_path / "sales.csv").write_text(SALES)
    result = await call_tool(profile_csv, sandbox_in(tmp_path), path="sales.csv")
    assert result.output == {
        "rows": 3,
        "columns": {
            "region": {"missing": 0, "distinct": 2, "most_frequent": {"north": 2, "south": 1}},
            "amount": {"missing": 1, "distinct": 2, "smallest": 2.5, "largest": 10.0, "mean": 6.25},
        },
    }


async def test_totals_come_largest_first(tmp_path: Path) -> None:
    (tmp_path / "sales.csv").write_text("region,amount\na,1\nb,5\na,2\n")
    result = await call_tool(total_by, sandbox_in(tmp_path), path="sales.csv", group="region", value="amount")
    assert list(result.output["totals"].items()) == [("b", 5.0), ("a", 3.0)]


@pytest.mark.parametrize(
    ("text", "value", "reason"),
    [
        (SALES, "amount", "row 3: '' is not a number"),
        (SALES, "price", "the columns are: region, amount"),
        ("region,amount\na,1,2\n", "amount", "row 1 has more values than there are columns"),
    ],
)
async def test_what_cannot_be_added_up_is_explained(tmp_path: Path, text: str, value: str, reason: str) -> None:
    (tmp_path / "sales.csv").write_text(text)
    with pytest.raises(ValueError, match=reason):
        await call_tool(total_by, sandbox_in(tmp_path), path="sales.csv", group="region", value=value)


async def test_a_file_outside_the_workspace_is_out_of_reach(tmp_path: Path) -> None:
    with pytest.raises(PermissionError):
        await call_tool(profile_csv, sandbox_in(tmp_path), path="../sales.csv")


async def test_the_pack_answers_a_question(tmp_path: Path) -> None:
    bench = workbench(
        lambda workspace: build(workspace, False, sandbox=sandbox_in(tmp_path)),
        calls(
            ("write_file", {"path": "sales.csv", "content": "region,amount\na,1\nb,5\n"}),
            ("profile_csv", {"path": "sales.csv"}),
            ("total_by", {"path": "sales.csv", "group": "region", "value": "amount"}),
            ("finish_task", {"summary": "b sold most.", "figures": [{"name": "b", "value": 5}]}),
        ),
    )
    result = await bench.run("Which region sold most? region,amount: a,1; b,5")
    assert result.payload["figures"] == [{"name": "b", "value": 5}]
    assert "tool_error" not in bench.kinds()
