"""A workflow drawn: as text for terminals, and for Mermaid and Graphviz."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from agent_fabric.domain.workflows.definition import BuiltIn, Mode, Step, WorkflowDefinition

FORMATS = ("text", "mermaid", "dot")
_SHORT = 60


class Drawn(NamedTuple):
    """A step in its place."""

    step: Step
    level: int
    """Steps of one level can run at once; counted from 1. 0: it runs after the one before."""
    depth: int
    """How many steps are around it."""
    branch: str
    """`then` or `else`, where the first step of one begins."""


def draw(definition: WorkflowDefinition) -> Iterator[Drawn]:
    """Return every step, those that can start earlier first, each followed by what is inside it."""
    ordered = definition.execution.mode is Mode.SEQUENTIAL
    yield from _list(definition.steps, ordered=ordered, depth=0, branch="")


def graph_text(definition: WorkflowDefinition) -> str:
    """Return the graph as lines: the level of each step, what it does, and what it waits for."""
    steps = list(draw(definition))
    names = max((2 * each.depth + len(each.step.id) for each in steps), default=0)
    actions = max((len(each.step.action) for each in steps), default=0)
    lines: list[str] = []
    for each in steps:
        step, indent = each.step, "  " * each.depth
        if each.branch:
            lines.append(f"     {indent[:-1]}{each.branch}:")
        number = f"{each.level:>3}" if each.level else "  ."
        after = f"  after {', '.join(step.depends_on)}" if step.depends_on else ""
        only = f"  if {_short(step.condition)}" if step.condition else ""
        what = _about(step)
        line = f"{number}  {f'{indent}{step.id}':<{names}}  {step.action:<{actions}}  {what}".rstrip()
        lines.append(f"{line}{only}{after}")
    return "\n".join(lines) + "\n"


def graph_mermaid(definition: WorkflowDefinition) -> str:
    """Return the graph as Mermaid draws it."""
    lines = ["flowchart TD"]
    for step in definition.all_steps():
        left, right = _MERMAID_SHAPES.get(step.action, ("[", "]"))
        lines.append(f'  s_{step.id}{left}"{_html(step.id)}<br/>{_html(_what(step))}"{right}')
    for first, second, label, inside in _edges(definition):
        arrow = "-.->" if inside else "-->"
        lines.append(f"  s_{first} {arrow}{f'|{label}|' if label else ''} s_{second}")
    return "\n".join(lines) + "\n"


def graph_dot(definition: WorkflowDefinition) -> str:
    """Return the graph as Graphviz draws it."""
    lines = [f"digraph {_quote(definition.name)} {{", "  node [shape=box];"]
    for step in definition.all_steps():
        shape = _DOT_SHAPES.get(step.action, "box")
        lines.append(f"  {_quote(step.id)} [label={_quote(step.id, _what(step))}, shape={shape}];")
    for first, second, label, inside in _edges(definition):
        marks = [*(["style=dashed"] if inside else []), *([f"label={_quote(label)}"] if label else [])]
        shown = f" [{', '.join(marks)}]" if marks else ""
        lines.append(f"  {_quote(first)} -> {_quote(second)}{shown};")
    return "\n".join([*lines, "}"]) + "\n"


_MERMAID_SHAPES = {
    BuiltIn.CONDITIONAL.value: ("{", "}"),
    BuiltIn.PARALLEL_GROUP.value: ("[[", "]]"),
    BuiltIn.FOR_EACH.value: ("[[", "]]"),
    BuiltIn.APPROVE.value: ("([", "])"),
    BuiltIn.WAIT.value: ("([", "])"),
}
_DOT_SHAPES = {
    BuiltIn.CONDITIONAL.value: "diamond",
    BuiltIn.PARALLEL_GROUP.value: "box3d",
    BuiltIn.FOR_EACH.value: "box3d",
    BuiltIn.APPROVE.value: "oval",
    BuiltIn.WAIT.value: "oval",
}


def _list(steps: Sequence[Step], *, ordered: bool, depth: int, branch: str) -> Iterator[Drawn]:
    levels = dict.fromkeys((step.id for step in steps), 0) if ordered else _levels(steps)
    for nth, step in enumerate(sorted(steps, key=lambda each: levels[each.id])):
        yield Drawn(step, levels[step.id], depth, branch if nth == 0 else "")
        for inner, name in ((step.steps, ""), (step.then, "then"), (step.otherwise, "else")):
            within = step.action != BuiltIn.PARALLEL_GROUP
            yield from _list(inner, ordered=within, depth=depth + 1, branch=name)


def _levels(steps: Sequence[Step]) -> dict[str, int]:
    """Return at which level each step can start; what it waits for is at lower ones."""
    levels: dict[str, int] = {}
    waiting = {step.id: {name for name in step.depends_on if name != step.id} for step in steps}
    waiting = {name: needs & waiting.keys() for name, needs in waiting.items()}
    followers: dict[str, list[str]] = {}
    for name, needs in waiting.items():
        for each in needs:
            followers.setdefault(each, []).append(name)
    ready = [name for name, needs in waiting.items() if not needs]
    levels.update(dict.fromkeys(ready, 1))
    for name in ready:  # grows as it is walked
        for follower in followers.get(name, ()):
            levels[follower] = max(levels.get(follower, 0), levels[name] + 1)
            waiting[follower].discard(name)
            if not waiting[follower]:
                ready.append(follower)
    return levels


def _edges(definition: WorkflowDefinition) -> Iterator[tuple[str, str, str, bool]]:
    """Return who comes before whom, what to write on the arrow, and whether the second is inside the first."""
    ordered = definition.execution.mode is Mode.SEQUENTIAL
    ahead: list[tuple[Sequence[Step], bool, Step | None, str]] = [(definition.steps, ordered, None, "")]
    for steps, one_by_one, owner, label in ahead:  # grows as it is walked
        for nth, step in enumerate(steps):
            before = [steps[nth - 1].id] if one_by_one and nth else [] if one_by_one else list(step.depends_on)
            yield from ((each, step.id, "", False) for each in before)
            if not before and owner is not None:
                yield owner.id, step.id, label, True
            ahead.append((step.steps, step.action != BuiltIn.PARALLEL_GROUP, step, ""))
            ahead.append((step.then, True, step, "then"))
            ahead.append((step.otherwise, True, step, "else"))


def _about(step: Step) -> str:
    """Return what a step is going to do, as it is written."""
    command = step.command if isinstance(step.command, str) else " ".join(step.command)
    said = step.agent or step.workflow or command
    for key in ("url", "message", "event", "seconds", "until", "approval", "items"):
        said = said or str(step.inputs.get(key, ""))
    return _short(said)


def _what(step: Step) -> str:
    if step.action == BuiltIn.CONDITIONAL:
        return _short(step.condition)
    return f"{step.action} {step.agent or step.workflow}".rstrip()


def _short(text: str) -> str:
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return line if len(line) <= _SHORT else line[: _SHORT - 1] + "…"


def _html(text: str) -> str:
    return re.sub(r"[^\w .,:;!?()+*/=_-]", lambda found: f"#{ord(found.group())};", text)


def _quote(*lines: str) -> str:
    escaped = "\\n".join(line.replace("\\", "\\\\").replace('"', '\\"') for line in lines)
    return f'"{escaped}"'
