"""Research as a person does it: the real program, a web on loopback, a scripted model, and then `fabric verify`."""

import csv
import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw
import pytest

from agent_fabric.testing.scripted_model import Call, Entry, Finish, ScriptedModel
from e2e.fabric_process import Fabric, read_lines, settings
from e2e.loopback_site import LoopbackSite

_FILLER = "".join(
    f"<p>Paragraph {n} says at some length what nobody needs to quote in any report.</p>" for n in range(9)
)
PAGES = {
    "/caffeine": f"<html><head><title>Caffeine</title></head><body><article><h1>Caffeine and sleep</h1>"
    f"<p>Total sleep time fell by forty-five minutes after the evening dose.</p>{_FILLER}</article></body></html>",
    "/tea": f"<html><head><title>Tea</title></head><body><article><h1>Tea</h1>"
    f"<p>Tea contains less caffeine than coffee, as most people know.</p>{_FILLER}</article></body></html>",
}
QUOTE = "Total sleep time fell by forty-five minutes"
CLAIM = "Caffeine in the evening shortens sleep."


@dataclass
class Study:
    """A site, a model that follows a script, and the program between them."""

    site: LoopbackSite
    model: ScriptedModel
    fabric: Fabric

    async def run(self, *arguments: str, pack: str = "research") -> tuple[int, dict[str, Any], Path]:
        """Do the task; return the exit code, the result and the run's folder."""
        ended = await self.fabric("run", "What does caffeine do?", "--pack", pack, "--json", *arguments)
        assert ended.out, ended.err
        return ended.code, ended.json, Path(ended.json["_meta"]["run_dir"])

    @property
    def offered(self) -> list[str]:
        """The tools that the model was offered."""
        return [tool["function"]["name"] for tool in self.model.requests[0].body["tools"]]


@asynccontextmanager
async def study(folder: Path, script: Callable[[str], Sequence[Entry]]) -> AsyncIterator[Study]:
    """Give a study whose script is made for the site's address."""
    async with LoopbackSite(PAGES) as site, ScriptedModel(script(site.url)) as model:
        web = {"search_url": site.url, "allow_hosts": ["127.0.0.1"]}
        yield Study(site, model, Fabric(folder, settings(model.base_url, web=web)))


def honest(site: str) -> Sequence[Entry]:
    """Search, read, note, write, finish."""
    url = f"{site}/caffeine"
    return (
        Call("web_search", {"query": "caffeine sleep"}),
        Call("fetch_url", {"url": url, "reason": "a study of sleep"}),
        Call("fetch_url", {"url": f"{site}/gone", "reason": "another study"}),
        Call("record_evidence", {"url": url, "quote": QUOTE, "claim": CLAIM}),
        Call("write_file", {"path": "report.md", "content": f"# Caffeine\n\n{CLAIM} [study]({url})\n"}),
        Finish(
            summary=f"{CLAIM} See {url}.",
            deliverables=["report.md"],
            citations=[{"url": url, "quote": QUOTE, "claim": CLAIM}],
            limitations="One study.",
        ),
    )


def rows(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as table:
        return list(csv.DictReader(table))


def payloads(run_dir: Path, kind: str) -> list[dict[str, Any]]:
    return [line["payload"] for line in read_lines(run_dir) if line["kind"] == kind]


@pytest.mark.proves("AF-101", "AF-126", "AF-127", "AF-134", "AF-174")
async def test_a_report_is_searched_read_written_and_verified(tmp_path: Path) -> None:
    async with study(tmp_path, honest) as done:
        code, result, run_dir = await done.run()
        verified = await done.fabric("verify", run_dir.name[:8])
    url = f"{done.site.url}/caffeine"
    assert code == 0
    assert "unproven" not in result
    assert result["citations"] == [{"url": url, "quote": QUOTE, "claim": CLAIM}]
    screened = {
        row["url"].removeprefix(done.site.url): row for row in rows(run_dir / "workspace" / "screening_log.csv")
    }
    assert {path: row["status"] for path, row in screened.items()} == {
        "/caffeine": "fetched",
        "/tea": "found",
        "/gone": "failed",
    }
    assert screened["/caffeine"]["query"] == "caffeine sleep"
    assert screened["/gone"]["reason"] == "another study"
    assert screened["/gone"]["problem"]
    (evidence,) = rows(run_dir / "workspace" / "evidence.csv")
    assert (evidence["claim"], evidence["quote"], evidence["url"]) == (CLAIM, QUOTE, url)
    assert (run_dir / "snapshots" / f"{evidence['sha256']}.html").read_text() == PAGES["/caffeine"]
    assert done.site.asked.count("/caffeine") == 1
    assert verified.code == 0, verified.out
    assert "✓ citation 1" in verified.out
    assert "✓ report.md" in verified.out
    assert "✗" not in verified.out


@pytest.mark.proves("AF-126")
async def test_a_page_that_was_not_fetched_cannot_be_cited(tmp_path: Path) -> None:
    def script(site: str) -> Sequence[Entry]:
        made_up = Finish(summary="s", citations=[{"url": f"{site}/tea", "quote": QUOTE, "claim": CLAIM}])
        return Call("fetch_url", {"url": f"{site}/caffeine"}), made_up, made_up

    async with study(tmp_path, script) as done:
        code, result, run_dir = await done.run()
        verified = await done.fabric("verify", run_dir.name)
    assert code == 0
    assert "/tea (citation 1) was not fetched in this run" in result["unproven"]
    assert result["citations"] == []
    assert [each["url"] for each in result["unfetched_citations"]] == [f"{done.site.url}/tea"]
    assert result["_meta"]["proof"]["kind"] == "none"
    (sent_back,) = payloads(run_dir, "tool_error")
    assert (sent_back["tool"], sent_back["error_type"]) == ("finish_task", "Unproven")
    assert "fetch it with fetch_url" in sent_back["error_message"]
    assert verified.code == 1
    assert "✗ citation 1" in verified.out


@pytest.mark.proves("AF-126")
async def test_a_result_that_is_sent_back_can_be_mended(tmp_path: Path) -> None:
    def script(site: str) -> Sequence[Entry]:
        url = f"{site}/caffeine"
        return (
            Call("fetch_url", {"url": url}),
            Call("write_file", {"path": "report.md", "content": f"See {site}/tea"}),
            Finish(
                summary="s", citations=[{"url": url, "quote": "a quote that nobody has ever written", "claim": CLAIM}]
            ),
            Call("write_file", {"path": "report.md", "content": f"See {url}"}),
            Finish(summary="s", citations=[{"url": url, "quote": QUOTE, "claim": CLAIM}]),
        )

    async with study(tmp_path, script) as done:
        code, result, run_dir = await done.run()
        verified = await done.fabric("verify", run_dir.name, "--json")
    assert code == 0
    assert "unproven" not in result
    (sent_back,) = payloads(run_dir, "tool_error")
    assert "The quote of citation 1 is not on the page" in sent_back["error_message"]
    assert "/tea (report.md) was not fetched" in sent_back["error_message"]
    assert verified.code == 0
    assert verified.json["holds"] is True


@pytest.mark.proves("AF-103", "AF-104", "C24")
async def test_without_the_network_nothing_is_fetched_and_the_result_says_so(tmp_path: Path) -> None:
    def script(site: str) -> Sequence[Entry]:
        return (
            Call("fetch_url", {"url": f"{site}/caffeine"}),
            Call("write_file", {"path": "report.md", "content": "Nothing could be fetched."}),
            Finish(summary="No source could be fetched.", deliverables=["report.md"], limitations="No network."),
        )

    async with study(tmp_path, script) as done:
        code, result, run_dir = await done.run("--no-network-allowed")
        verified = await done.fabric("verify", run_dir.name)
    assert code == 0
    assert result["unproven"] == "the network was not allowed, so no source was fetched"
    assert payloads(run_dir, "tool_error") == [], "nothing can be asked of the model"
    assert done.offered == ["write_file", "read_file", "list_files", "finish_task"]
    assert payloads(run_dir, "tool_result")[0]["result"]["error"] == "network disabled"
    assert done.site.asked == []
    assert verified.code == 1
    assert "marked as unproven" in verified.out


@pytest.mark.proves("AF-102", "AF-147")
async def test_an_earlier_run_is_found_and_cited(tmp_path: Path) -> None:
    async with study(tmp_path, honest) as earlier:
        _, _, first = await earlier.run()

    def script(_: str) -> Sequence[Entry]:
        cited = {"url": f"run:{first.name}", "quote": CLAIM, "claim": "We knew that."}
        return Call("cross_run_search", {"query": "caffeine"}), Finish(summary="We knew.", citations=[cited])

    async with study(tmp_path, script) as done:
        code, result, run_dir = await done.run(pack="enterprise_research")
        verified = await done.fabric("verify", run_dir.name)
    assert code == 0
    assert "unproven" not in result
    (found,) = payloads(run_dir, "tool_result")[0]["result"]["runs"]
    assert (found["run_id"], found["status"], found["specialist_ids"]) == (first.name, "completed", ["research"])
    assert verified.code == 0, verified.out
    assert f"run:{first.name}" in verified.out


async def test_a_run_that_was_killed_while_it_fetched_goes_on_and_loses_no_row(tmp_path: Path) -> None:
    async with study(tmp_path, honest) as done:
        done.site.hanging.add("/caffeine")
        started = await done.fabric.start("run", "What does caffeine do?", "--pack", "research", "--json")
        await done.site.was_asked_for("/caffeine")
        started.process.kill()
        await started.ended()
        (run_dir,) = done.fabric.run_dirs()
        unsettled = await done.fabric("verify", run_dir.name)
        done.site.hanging.clear()
        resumed = await done.fabric("resume", run_dir.name, "--json")
        verified = await done.fabric("verify", run_dir.name)
    assert unsettled.code == 1
    assert "the run has not settled" in unsettled.out
    assert resumed.code == 0, resumed.err
    assert "unproven" not in resumed.json
    statuses = [row["status"] for row in rows(run_dir / "workspace" / "screening_log.csv")]
    assert sorted(statuses) == ["failed", "fetched", "found"]
    assert verified.code == 0, verified.out


def _change_the_log(run_dir: Path) -> None:
    connection = apsw.Connection(str(run_dir.parents[1] / "fabric.db"))
    statement = "UPDATE events SET payload = CAST(replace(CAST(payload AS TEXT), 'shortens', 'prolongs') AS BLOB)"
    connection.execute(f"{statement} WHERE kind = 'run_complete'")
    connection.close()


def _change_a_quote(run_dir: Path) -> None:
    table = run_dir / "workspace" / "evidence.csv"
    table.write_text(table.read_text().replace("forty-five", "fifty"))


@pytest.mark.proves("AF-134")
async def test_whatever_was_changed_afterwards_is_noticed(tmp_path: Path) -> None:
    async with study(tmp_path / "one", honest) as done:
        _, _, run_dir = await done.run()
        changes: dict[str, Callable[[Path], object]] = {
            "log": _change_the_log,
            "page": lambda folder: next((folder / "snapshots").glob("*.html")).unlink(),
            "evidence.csv row 1": _change_a_quote,
            "file report.md": lambda folder: (folder / "workspace" / "report.md").unlink(),
            "report.md": lambda folder: (folder / "workspace" / "report.md").write_text("https://made.up/x"),
        }
        before = done.fabric.root.with_name("before")
        shutil.copytree(done.fabric.root, before)
        for about, change in changes.items():
            shutil.rmtree(done.fabric.root)
            shutil.copytree(before, done.fabric.root)
            change(run_dir)
            verified = await done.fabric("verify", run_dir.name, "--json")
            failed = [claim["about"] for claim in verified.json["claims"] if claim["standing"] == "fails"]
            assert verified.code == 1
            assert [name.partition(" ")[0] if about == "page" else name for name in failed] == [about]


@pytest.mark.proves("AF-134")
async def test_a_fabric_folder_that_was_given_to_somebody_else_can_be_verified_there(tmp_path: Path) -> None:
    async with study(tmp_path / "mine", honest) as done:
        _, _, run_dir = await done.run()
    (tmp_path / "yours").mkdir()
    done.fabric.root.rename(tmp_path / "yours" / ".fabric")
    verified = await Fabric(tmp_path / "yours", {})("verify", run_dir.name)
    assert verified.code == 0, verified.out


async def test_a_run_that_does_not_exist_is_wrong_usage(tmp_path: Path) -> None:
    async with study(tmp_path, honest) as done:
        nothing_here = await done.fabric("verify", "abc", "--json")
        await done.run()
        unknown = await done.fabric("verify", "no-such-run")
    assert nothing_here.code == unknown.code == 2
    assert nothing_here.json["error"]["code"] == "run_not_found"
    assert "There is no run" in unknown.err
