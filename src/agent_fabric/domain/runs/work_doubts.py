"""Holds the result of a lane against the work that it has done."""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from posixpath import normpath, splitext
from typing import Any

from agent_fabric.domain.evidence.asked_for import AskedFor, asked_for, asked_part, not_as_asked, wants_empty
from agent_fabric.domain.evidence.claims import (
    NOTHING_CHANGED,
    Deeds,
    failed_tests,
    false_claims,
    find_untested,
    find_weakened,
    left_out,
    meant_tests_not_run,
    programs_left_untested,
    rewritten,
    tells_of_failures,
)
from agent_fabric.domain.evidence.events import WorkspaceCompared
from agent_fabric.domain.evidence.statements import find_unsupported
from agent_fabric.domain.evidence.suite_files import how_to_run
from agent_fabric.domain.models.messages import Role
from agent_fabric.domain.runs.finish import Doubts
from agent_fabric.domain.runs.state import Lane, RunState
from agent_fabric.domain.tools.program_files import can_be_run, is_plain_text
from agent_fabric.domain.tools.specs import FINISH_TASK

_NO_PROOF = "no test, build or run command succeeded after the last file change"
_ONLY_LOOKED = (
    "You have changed nothing so far. If the task wants something made, changed or deleted, do it now with shell. "
    f"If it only wants an answer, call {FINISH_TASK} again."
)
_MAKE_THE_CHANGE = (
    "Nothing in the workspace is different from before. Make the change that the task asks for, and look at it. "
    f"If no change is needed, say why in the summary, and call {FINISH_TASK} again."
)
HOW_TO_PROVE = (
    "Run the tests, the build or the program with shell. Where nothing can be run, read what you changed and "
    f"compare it with the task. Fix what is wrong, then call {FINISH_TASK} again."
)
_MAX_NAMED = 3
_MAX_QUOTED = 100


def doubts_about_work(state: RunState, lane: Lane, payload: Mapping[str, Any]) -> Doubts:
    """Say what of a result does not hold, and what the model should do about it."""
    unproven: list[str] = []
    requests: list[str] = []
    _doubt(lane, payload, deeds_of(state, lane), unproven, requests)
    return Doubts(unproven=tuple(unproven), ask_for=" ".join(requests), unverified=_unverified_claims(lane, payload))


def _doubt(lane: Lane, payload: Mapping[str, Any], deeds: Deeds, unproven: list[str], requests: list[str]) -> None:
    false = false_claims(payload, deeds)
    unproven += map(str, false)
    if any(claim.why == NOTHING_CHANGED for claim in false):
        left = left_out(deeds) if lane.model.compact else ()
        requests.append(_write_it_down(left[0], payload) if left else _MAKE_THE_CHANGE)
        return
    if false:
        requests.append(f"{'; '.join(map(str, false))}. Do it, or do not say it; then call {FINISH_TASK} again.")
    if lost := find_weakened(deeds):
        less = f"he tests check less than before: {', '.join(lost)}"
        unproven.append(f"t{less}")
        requests.append(f"T{less}. Put back what they checked, and fix the program instead.")
    if other := rewritten(deeds):
        said = f"nly what tests expect was changed: {', '.join(other[:_MAX_NAMED])}"
        unproven.append(f"o{said}")
        requests.append(f"O{said}. Put back what they expect, and fix the program; or say why the tests were wrong.")
    failed, tests = failed_tests(deeds), find_untested(deeds)
    named = ", ".join(tests[:_MAX_NAMED])
    if failed is not None and failed.tests is not None and (tests or not tells_of_failures(payload)):
        count = f"{failed.tests.failed} of {failed.tests.ran} tests failed: {failed.command}"
        unproven.append(count)
        requests.append(f"{count}. Fix what is wrong, and run them again.")
    elif tests:
        unproven.append(f"the tests of what was changed were not run: {named}")
        requests.append(f"{named} tests what you changed. Run the tests: {_how_to_test(tests[:_MAX_NAMED], deeds)}")
    elif others := meant_tests_not_run(deeds):
        named, about = ", ".join(others[:_MAX_NAMED]), ", ".join(deeds.compared.meant[:_MAX_NAMED])
        unproven.append(f"the tests of what the task is about were not run: {named}")
        requests.append(f"{named} tests {about}. Run the tests: {how_to_run(others[:_MAX_NAMED])}")
    elif left := programs_left_untested(deeds):
        unproven.append(f"no test uses {', '.join(left[:_MAX_NAMED])}")  # nothing that was there could have shown more
    elif (lane.unproved_change or (deeds.to_prove.paths and not lane.proof)) and not deeds.to_prove.unchanged:
        unproven.append(_NO_PROOF)
        # Asked to prove a text, a small model changes it in unwanted ways; others only lose time.
        shown = {*lane.wrote, *deeds.to_prove.paths}
        texts = bool(shown) and all(map(is_plain_text, shown))
        if any(map(can_be_run, lane.wrote)) if lane.model.compact else not texts:
            requests.append(f"{_NO_PROOF[0].upper()}{_NO_PROOF[1:]}. {_how_to_prove(lane, deeds)}")
    if lane.model.compact and not requests:
        _doubt_small(lane, deeds, unproven, requests)


def _how_to_test(files: Sequence[str], deeds: Deeds) -> str:
    """Return what runs files of tests: a runner, or Python alone where the file itself does the checks."""
    scripts = deeds.compared.check_scripts
    return f"python3 {shlex.quote(files[0])}" if files[0] in scripts else how_to_run(files)


def _write_it_down(file: str, payload: Mapping[str, Any]) -> str:
    """Ask for what was said to be put where the task wants it: small models answer, and write nothing."""
    said = str(payload.get("summary") or "").strip()[:_MAX_QUOTED]
    return (
        f"You say {said!r}, but nothing was changed: {file} is as it was. Do what the task asks for; write an "
        f"answer that you have found already into its file. Then call {FINISH_TASK} again."
    )


def _how_to_prove(lane: Lane, deeds: Deeds) -> str:
    """Say what to run; a small model gets the command, since it does not find one by itself."""
    gone = deeds.compared.deleted
    starts = {".py": "python3", ".sh": "bash"}
    for path in sorted(lane.wrote) if lane.model.compact else ():
        if (program := starts.get(splitext(path)[1])) and path not in gone:
            command = shlex.join([program, path])
            return (
                f"Run it with shell: {command}. If that shows something wrong, mend it; then call {FINISH_TASK} again."
            )
    return HOW_TO_PROVE


def _how_to_make(path: str, deeds: Deeds) -> str:
    """Say how a file that is left out comes to be; it may have been made under the same name in other letters."""
    made = next((each for each in deeds.compared.created if each != path and each.casefold() == path.casefold()), "")
    return f"Rename what you have made: {shlex.join(['mv', made, path])}" if made else "Do that part, too"


def _doubt_small(lane: Lane, deeds: Deeds, unproven: list[str], requests: list[str]) -> None:
    """Find what a small model likes to leave out."""
    if left := left_out(deeds):
        program = "the program " if can_be_run(left[0]) else ""
        said = f"{program}{', '.join(left[:_MAX_NAMED])}: named in the task, but neither made nor changed"
        unproven.append(said)
        requests.append(f"{said}. {_how_to_make(left[0], deeds)}, then call {FINISH_TASK} again.")
    elif broken := _still_broken(lane):
        said = "; ".join(f"{path} is {problem}" for path, problem in broken.items())
        unproven.append(said)
        requests.append(f"{said}. Mend it, then call {FINISH_TASK} again.")
    elif wrong_form := _wrong_form(lane, deeds.prompt):
        unproven.append(wrong_form)
        requests.append(f"{wrong_form}. Then call {FINISH_TASK} again.")
    elif advice := _ignored_advice(lane, deeds.prompt):
        requests.append(f"{advice} Then call {FINISH_TASK} again.")
    elif not lane.proof and _only_looked(deeds) and asked_for(deeds.prompt) is not AskedFor.ANSWER:
        requests.append(_ONLY_LOOKED)  # small models like to call a task done that they have only looked at


def deeds_of(state: RunState, lane: Lane) -> Deeds:
    """Return what a lane has done.

    Specialists of a task force share the workspace. What only others wrote is not a lane's work: a lane proves its
    own, and texts need no proof.
    """
    compared = lane.compared or WorkspaceCompared(known=False)
    makers = _other_makers(state, lane)
    theirs = frozenset(path for path in compared.paths if normpath(path) in makers)
    return Deeds(
        prompt=state.task.prompt if state.task is not None else "",
        workspace=state.workspace,
        compared=compared,
        by_others=theirs,
        proven_by_others=frozenset(path for path in theirs if makers[normpath(path)] or is_plain_text(path)),
        commands=lane.commands,
        last_change=lane.last_change,
        elsewhere=lane.acted_elsewhere,
        proof=lane.proof,
    )


def _other_makers(state: RunState, lane: Lane) -> Mapping[str, bool]:
    """Return the files that only tools of other lanes wrote, and whether one of those has to prove its result."""
    own = {normpath(path) for path in lane.wrote}
    makers: dict[str, bool] = {}
    for other in state.lanes.values():
        for path in map(normpath, other.wrote if other is not lane else ()):
            if path not in own:
                makers[path] = makers.get(path, False) or other.finish.needs_proof
    return makers


_ADVICE = re.compile(r'"hint": ?"(?P<hint>(?:[^"\\]|\\.)*\brun: (?:[^"\\]|\\.)*)"')
"""A hint that names the command to run."""
_MEANT_OTHERWISE = (
    (
        re.compile(r"is still there"),
        re.compile(r"\A(?!.*\b(?:all|every|everywhere|each)\b)", re.IGNORECASE | re.DOTALL),
    ),
    (re.compile(r"counts lines"), re.compile(r"\blines?\b", re.IGNORECASE)),
)
"""Hints, and the tasks that do not want what they advise."""


def _ignored_advice(lane: Lane, prompt: str) -> str:
    """Return the command that the model was advised to run, if it finishes right after that instead."""
    found = _ADVICE.search(lane.last_call.shown) if lane.last_call is not None else None
    if found is None or any(about.search(found["hint"]) and task.search(prompt) for about, task in _MEANT_OTHERWISE):
        return ""
    return str(json.loads(f'"{found["hint"]}"'))


def _still_broken(lane: Lane) -> Mapping[str, str]:
    """Return the files that a result called broken and that nothing has been written to since."""
    broken: dict[str, str] = {}
    for message in lane.messages:
        shown = _json_object(message.content) if message.role is Role.TOOL else {}
        touched = shown.get("changed_files")
        for path in (shown.get("path"), *(touched if isinstance(touched, dict) else ())):
            broken.pop(str(path), None)
        found = shown.get("broken")
        broken |= found if isinstance(found, dict) else {}
    return broken


def _json_object(text: str) -> Mapping[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _wrong_form(lane: Lane, prompt: str) -> str:
    """Say that the file which was written last has more in it than the task wants; empty: it has not."""
    for file, content in _written_last(lane).items():
        if content.strip() and wants_empty(prompt, file):
            return f"{file} must be empty, but it holds {content.strip()[:_MAX_QUOTED]!r}. Run: : > {shlex.quote(file)}"
        if what := not_as_asked(prompt, file, content):
            part = asked_part(what, content)
            mend = f"Run: {shlex.join(['echo', part])} > {shlex.quote(file)}" if part else "Write it again"
            return f"{file} must hold only the {what}, but it holds {content.strip()[:_MAX_QUOTED]!r}. {mend}"
    return ""


def _written_last(lane: Lane) -> Mapping[str, str]:
    """Return the short files that the last call has made, as far as its arguments or its result show them."""
    if lane.last_call is None:
        return {}
    given, shown = _json_object(lane.last_call.arguments), _json_object(lane.last_call.shown)
    if isinstance(given.get("path"), str) and isinstance(given.get("content"), str) and "bytes" in shown:
        return {given["path"]: given["content"]}
    made = shown.get("changed_files")
    created = () if lane.compared is None else lane.compared.created
    return {name: _as_it_is(text) for name, text in made.items() if name in created} if isinstance(made, dict) else {}


def _as_it_is(shown: str) -> str:
    """Return what is in a short file of which either the beginning is shown, or what went and came."""
    lines = shown.splitlines()
    came = [line[1:] for line in lines if line.startswith("+")]
    is_change = came and all(line.startswith(("-", "+")) for line in lines)
    return "\n".join(came) if is_change else shown


def _only_looked(deeds: Deeds) -> bool:
    return deeds.nothing_changed if deeds.compared.known else deeds.last_change < 0


def _unverified_claims(lane: Lane, payload: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what a summary says that stands in nothing the model was shown; after a summary that cannot be told."""
    summary = payload.get("summary")
    if lane.compacted or not isinstance(summary, str):
        return ()
    seen = (message.content for message in lane.messages if message.role is not Role.ASSISTANT)
    calls = (call.arguments for message in lane.messages for call in message.tool_calls if call.tool != FINISH_TASK)
    return find_unsupported(summary, (*seen, *calls), counts_of(lane))


def counts_of(lane: Lane) -> tuple[int, ...]:
    """Return the numbers that a summary may have counted by itself."""
    compared = lane.compared or WorkspaceCompared(known=False)
    files = (len(compared.paths), len(compared.created), len(compared.modified), len(compared.deleted))
    return (*files, len(lane.commands), lane.answers)
