"""Counts how trials ended: right or wrong, against proven, it runs, unproven and sent back, over all evaluations given.

A right result was sent back *for nothing* if no file was changed and nothing was proven after that.

    fabric eval show EVAL --json > one.json
    python benchmarks/tool_tasks/finishes.py --fabric .fabric one.json other.json
"""

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def helped(run: Path) -> bool:
    """Tell whether a run changed or proved something after its finish had been sent back."""
    events = [json.loads(line) for line in (run / "runlog.jsonl").read_text().splitlines()]
    sent = next(at for at, event in enumerate(events) if _sends_back(event))
    after = [event["payload"] for event in events[sent + 1 :] if event["kind"] == "tool_result"]
    return any(each.get("wrote") or each.get("proved") for each in after)


def _sends_back(event: dict[str, Any]) -> bool:
    said = {"tool_error": ("error_type", "Unproven"), "guidance": ("reason", "unproven")}.get(event["kind"])
    return said is not None and bool(event["payload"].get(said[0]) == said[1])


def count(trials: Sequence[dict[str, Any]], fabric: Path) -> Counter[tuple[str, str]]:
    """Return how many trials of each grade ended in each way."""
    found: Counter[tuple[str, str]] = Counter()
    for each in trials:
        found[each["grade"], each["evidence"]] += 1
        if each["sent_back"]:
            found[each["grade"], "sent back"] += 1
            if each["grade"] == "right" and not helped(fabric / "runs" / each["run_id"]):
                found["right", "for nothing"] += 1
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fabric", type=Path, default=Path(".fabric"), help="the folder with the runs")
    parser.add_argument("evals", nargs="+", type=Path, help="what `fabric eval show --json` has printed")
    arguments = parser.parse_args()
    trials = [trial for path in arguments.evals for trial in json.loads(path.read_text())["trials"]]
    judged = [trial for trial in trials if trial["grade"] in {"right", "wrong"}]
    found = count(judged, arguments.fabric)
    columns = ("proven", "runs", "unproven", "sent back", "for nothing")
    print(f"{len(judged)} trials  " + "  ".join(columns))
    for grade in ("right", "wrong"):
        print(f"{grade:10}  " + "  ".join(f"{found[grade, name]:{len(name)}}" for name in columns))


if __name__ == "__main__":
    main()
