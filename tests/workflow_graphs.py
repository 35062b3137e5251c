"""Random workflows, and a simple idea of what they must come to.

The oracle knows nothing of schedules: it walks the definition once, in order, and says for every step how it ends.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agent_fabric.domain.approvals.answers import Decision
from agent_fabric.domain.approvals.events import ApprovalRequested
from agent_fabric.domain.ids import LaneId
from workflow_world import Gave

Plain = dict[str, Any]
_SIMPLE = ("work", "work", "work", "run-command", "transform", "transform", "validate", "wait", "approve", "workflow")
_ALL = (*_SIMPLE, "parallel-group", "conditional", "for-each")


@dataclass
class Graph:
    """A random workflow and everything that will come of its steps, fixed beforehand."""

    plain: Plain
    seed: int
    signals: list[str] = field(default_factory=list)
    asks: set[str] = field(default_factory=set)
    calm: bool = False
    """Nothing ever fails."""

    def roll(self, *of: object) -> float:
        """Return chance that depends on nothing but its name, not on when it is asked."""
        return random.Random(f"{self.seed}/{of}").random()

    def script(self, lane: LaneId, attempt: int, args: Mapping[str, Any]) -> Gave:
        fails = not self.calm and self.roll(lane, attempt) < 0.15
        if "command" in args:
            return Gave({"exit_code": 3 if fails else 0, "stdout": "out", "stderr": "err"})
        if fails:
            return Gave(error_type="Broken", error="on purpose")
        return Gave({"v": args["x"] + args["base"]})

    def answer(self, asked: ApprovalRequested, lane: LaneId) -> Gave:
        if asked.question.value == "did_it_happen":
            return Gave()
        refused = not self.calm and self.roll(lane, "answer") < 0.15
        return Gave(decision=Decision.DENY if refused else Decision.APPROVE)


def random_graph(seed: int, *, calm: bool = False, continue_on_error: bool | None = None) -> Graph:
    rng = random.Random(seed)
    graph = Graph({}, seed, calm=calm)
    mode = rng.choice(("dependency-aware", "dependency-aware", "sequential", "parallel"))
    execution = {
        "mode": mode,
        "parallel_limit": rng.choice((1, 2, 4, 32)),
        "continue_on_error": rng.random() < 0.5 if continue_on_error is None else continue_on_error,
        "fail_fast": rng.random() < 0.4,
    }
    steps = _Made(graph, rng).steps(rng.randint(1, 9), 0, ordered=mode == "sequential")
    graph.plain = {"name": "w", "version": "1.0.0", "steps": steps, "execution": execution}
    return graph


class _Made:
    """Makes up steps."""

    def __init__(self, graph: Graph, rng: random.Random) -> None:
        self.graph = graph
        self.rng = rng
        self.names = 0
        self.density = rng.choice((0.1, 0.35))

    def steps(self, count: int, depth: int, *, ordered: bool) -> list[Plain]:
        rng = self.rng
        made: list[Plain] = []
        for _ in range(count):
            self.names += 1
            one: Plain = {"id": f"s{self.names}", "action": rng.choice(_ALL if depth < 2 else _SIMPLE)}
            seen = [each["id"] for each in made if rng.random() < self.density][-3:]
            if seen:
                one["depends_on"] = seen
            visible = [each["id"] for each in made][-2:] if ordered and rng.random() < 0.5 else seen
            self.fill(one, visible, depth)
            made.append(one)
        if not ordered:
            rng.shuffle(made)
        return made

    def fill(self, one: Plain, visible: list[str], depth: int) -> None:
        rng = self.rng
        total = " + ".join(["0", *(f"({name}.v | default(0))" for name in visible)])
        one["_visible"] = visible
        base = one["_base"] = rng.randrange(5)
        if one["action"] != "conditional" and rng.random() < 0.2:
            one["condition"] = f"({total} + {base}) % 2 == 0"
        if rng.random() < 0.4:
            one["retry"] = {"max_attempts": rng.randint(1, 3), "delay_seconds": rng.choice((0, 1))}
        one["idempotent"] = rng.random() < 0.5
        if one["action"] in ("parallel-group", "conditional", "for-each"):
            self.fill_container(one, total, depth + 1)
        else:
            self.fill_simple(one, total, depth)

    def fill_container(self, one: Plain, total: str, depth: int) -> None:
        rng = self.rng
        if one["action"] == "parallel-group":
            one["steps"] = self.steps(rng.randint(0, 4), depth, ordered=False)
        elif one["action"] == "for-each":
            one["inputs"] = {"items": list(range(rng.randrange(4)))}
            one["steps"] = self.steps(rng.randint(1, 3), depth, ordered=True)
        else:
            one["condition"] = f"{{{{ ({total} + {one['_base']}) % 2 == 0 }}}}"
            one["then"] = self.steps(rng.randint(0, 3), depth, ordered=True)
            one["else"] = self.steps(rng.randint(0, 2), depth, ordered=True)

    def fill_simple(self, one: Plain, total: str, depth: int) -> None:
        rng, graph, base = self.rng, self.graph, one["_base"]
        match one["action"]:
            case "work" | "workflow" as action:
                one["inputs"] = {"x": f"{{{{ {total} }}}}", "base": base}
                if action == "workflow":
                    one["workflow"] = "other"
                elif rng.random() < 0.2:
                    graph.asks.add(one["id"])
            case "run-command":
                one["command"] = f"do {{{{ {total} }}}}"
            case "transform":
                one["inputs"] = {"v": f"{{{{ {total} + {base} }}}}"}
            case "validate":
                rules = ["data >= 0"] if graph.calm else ["data >= 0", f"(data + {base}) % 5 != 4"]
                one["inputs"] = {"data": f"{{{{ {total} }}}}", "rules": rules}
            case "approve":
                one["inputs"] = {"message": "ok?", "required": rng.random() < 0.7}
            case _ if rng.random() < 0.5:
                one["inputs"] = {"seconds": rng.randrange(3)}
            case _:
                one["inputs"] = {"event": f"e{rng.randrange(2)}"}
                graph.signals += [one["inputs"]["event"]] * (1 if depth == 0 else 6)


End = tuple[str, Any]
"""Status and value of `v`, if it has one."""


class Oracle:
    """Says how every lane ends when nothing stops the others: with `continue_on_error`, or where nothing fails."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.ends: dict[str, End] = {}
        self.failed: set[str] = set()
        self._list(graph.plain["steps"], "", {})

    def _list(self, steps: list[Plain], prefix: str, around: dict[str, Any]) -> bool:
        """Walk a list; tell whether nothing in it failed."""
        broken: set[str] = set()
        values = dict(around)
        left = list(steps)
        ids = {each["id"] for each in steps}
        done: set[str] = set()
        while left:
            one = next(each for each in left if set(each.get("depends_on", ())) & ids <= done)
            left.remove(one)
            done.add(one["id"])
            lane = prefix + one["id"]
            if broken & set(one.get("depends_on", ())):
                self._skip(one, prefix)
                broken.add(one["id"])
                continue
            status, value = self._one(one, lane, prefix, values)
            if status == "skipped":
                self._skip(one, prefix)
            self.ends[lane] = (status, value)
            if status == "failed":
                broken.add(one["id"])
                self.failed.add(lane)
            elif status == "success" and value is not None:
                values[one["id"]] = value
        return not any(prefix + each["id"] in self.failed for each in steps)

    def _skip(self, one: Plain, prefix: str) -> None:
        self.ends[prefix + one["id"]] = ("skipped", None)
        if one["action"] == "for-each":
            return
        for key in ("steps", "then", "else"):
            for each in one.get(key, ()):
                self._skip(each, prefix)

    def _one(self, one: Plain, lane: str, prefix: str, values: dict[str, Any]) -> End:
        total = sum(values.get(name, 0) for name in one["_visible"])
        even = (total + one["_base"]) % 2 == 0
        if "condition" in one and one["action"] != "conditional" and not even:
            return "skipped", None
        match one["action"]:
            case "transform":
                return "success", total + one["_base"]
            case "validate":
                holds = len(one["inputs"]["rules"]) == 1 or (total + one["_base"]) % 5 != 4
                return ("success" if holds else "failed"), None
            case "wait":
                return "success", None
            case "approve":
                gave = self.graph.calm or self.graph.roll(lane, "answer") >= 0.15
                return ("success" if gave or not one["inputs"]["required"] else "failed"), None
            case "parallel-group":
                return ("success" if self._list(one["steps"], prefix, values) else "failed"), None
            case "conditional":
                taken, left = (one["then"], one["else"]) if even else (one["else"], one["then"])
                for each in left:
                    self._skip(each, prefix)
                return ("success" if self._list(taken, prefix, values) else "failed"), None
            case "for-each":
                sound = [self._list(one["steps"], f"{lane}[{index}].", values) for index in one["inputs"]["items"]]
                return ("success" if all(sound) else "failed"), None
            case _:
                return self._attempts(one, lane, total)

    def _attempts(self, one: Plain, lane: str, total: int) -> End:
        refused = self.graph.roll(lane, "answer") < 0.15 and not self.graph.calm
        if one["id"] in self.graph.asks and refused:
            return "failed", None
        for attempt in range(1, one.get("retry", {}).get("max_attempts", 1) + 1):
            if self.graph.calm or self.graph.roll(lane, attempt) >= 0.15:
                return "success", None if one["action"] == "run-command" else total + one["_base"]
        return "failed", None
