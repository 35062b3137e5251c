"""What may leave the machine unasked: the one rule over the two labels of `labels`.

While a run is exposed and private, an outgoing call goes unasked only if it cannot carry data: its address stood
verbatim in the task or in what was read, or its arguments stood in the task or were sent before anything private was
read; each a bounded number of times, since choosing among them can spell. Everything that the model composed asks. What
a call would *do* outside asks as soon as the run is exposed.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from agent_fabric.domain.policy.calls import ProposedCall
from agent_fabric.domain.policy.globs import domain_fits, host_of
from agent_fabric.domain.policy.labels import OutgoingLimits, address_key, stands_in_task
from agent_fabric.domain.policy.parts import Part
from agent_fabric.domain.policy.verdicts import (
    ADDRESS_IN_TASK,
    ADDRESS_READ,
    ARGUMENTS_IN_TASK,
    ARGUMENTS_SENT_BEFORE,
    SEARCHED,
    Ruling,
    Verdict,
)
from agent_fabric.domain.tools.specs import SEARCH_ENGINE, Effect

_AGREE: Final = "a person has to agree"
_PLACEHOLDER: Final = re.compile(r"\[secret(?:[: ][^\]\n]{1,200})?\]")


def rule_outgoing(
    call: ProposedCall, part: Part, limits: OutgoingLimits, trusted_domains: Sequence[str]
) -> Iterator[Ruling]:
    """Yield what holds for a call that may carry something out, whatever the rules say."""
    if not leaves(call):
        return
    if found := _PLACEHOLDER.search(_text_of(call.args)):
        reason = f"{part.subject!r} would send {found[0]}, which stands for a secret"
        yield Ruling(Verdict.ASK, f"{reason}: {_AGREE}.", "secret_in_arguments", part.subject)
    if not call.flow.exposed or _goes_to_trusted(call, trusted_domains):
        return
    if carries_data(call) and call.flow.private_beside(call.server):
        yield _rule_on_data(call, part, limits)
    if call.effect is Effect.LEAVES_SANDBOX and not _only_from(call.server, call.flow.results):
        reason = f"{part.subject!r} has an effect outside of the box, and this run has read untrusted text"
        yield _asking(part, f"{reason}: {name_sources(call.flow.results)}", "untrusted_text")


def leaves(call: ProposedCall) -> bool:
    """Tell whether a call reaches outside of the box."""
    return bool(call.urls or call.sends_to) or call.effect is Effect.LEAVES_SANDBOX


def carries_data(call: ProposedCall) -> bool:
    """Tell whether a call can carry something out of the machine; a tool server in a box without network cannot."""
    return bool(call.sends_to) if call.server else leaves(call)


def rule_command(call: ProposedCall, part: Part, *, only_reads: bool, effect: str) -> Iterator[Ruling]:
    """Yield what holds for a command that may carry something out; `effect` says how it does, if that is known."""
    if not call.flow.exposed:
        return
    if effect and call.flow.results:
        reason = f"{part.subject!r} could send something out ({effect}), and this run has read untrusted text"
        yield _asking(part, f"{reason}: {name_sources(call.flow.results)}", "untrusted_text")
    elif call.commands_reach and call.flow.private and not only_reads:
        yield _asking(part, f"{part.subject!r} could send something to {call.commands_reach}. {_read(call)}")


def is_trusted(url: str, allowed_domains: Iterable[str]) -> bool:
    """Tell whether a rule allows the host that an address names."""
    host = host_of(url)
    return bool(host) and any(domain_fits(domain, host) for domain in allowed_domains)


def name_sources(sources: Iterable[str], most: int = 3) -> str:
    """Name sources in a sentence."""
    sources = tuple(dict.fromkeys(sources))
    shown = ", ".join(sources[:most])
    return shown + (f" and {len(sources) - most} more" if len(sources) > most else "")


def _rule_on_data(call: ProposedCall, part: Part, limits: OutgoingLimits) -> Ruling:
    """Rule on a call while both labels hold."""
    if call.sends_to == SEARCH_ENGINE:
        return _rule_on_search(call, part, limits)
    if call.sends_to:
        if call.effect is Effect.READS and call.from_task:
            allowed = Ruling(Verdict.ALLOW, "Its arguments stand in the task.", ARGUMENTS_IN_TASK, part.subject)
            return _within_task_calls(allowed, call, part, limits)
        if call.effect is Effect.READS and call.sent_before:
            reason = "The same was sent before the run had read private data."
            return _within_task_calls(
                Ruling(Verdict.ALLOW, reason, ARGUMENTS_SENT_BEFORE, part.subject), call, part, limits
            )
        return _asking(part, f"{part.subject!r} would send what the model wrote to {call.sends_to}. {_read(call)}")
    if call.urls and not call.sends:
        return _rule_on_addresses(call, part, limits)
    return _asking(part, f"{part.subject!r} would send what the model wrote. {_read(call)}")


def _rule_on_search(call: ProposedCall, part: Part, limits: OutgoingLimits) -> Ruling:
    size = sum(len(_text_of(value)) for value in call.args.values())
    if size > limits.query_chars:
        why = f"has {size} characters, more than web.exposed_query_chars ({limits.query_chars})"
    elif call.flow.searches >= limits.searches:
        why = f"comes after {limits.searches} others, as many as web.exposed_searches allows"
    else:
        return Ruling(Verdict.ALLOW, "Searches go to the engine that the owner chose.", SEARCHED, part.subject)
    return _asking(part, f"This search {why}. {_read(call)}")


def _rule_on_addresses(call: ProposedCall, part: Part, limits: OutgoingLimits) -> Ruling:
    flow, chosen, kept = call.flow, False, True
    for url in call.urls:
        key = address_key(url)
        if "#" in url and not call.reads_once and url not in flow.task:
            said = "has a part after # that the model wrote, which scripts of the page can read"
            return _asking(part, f"{part.subject!r} {said}. {_read(call)}")
        if call.reads_once and key in flow.fetched:
            continue
        kept = False
        if stands_in_task(url, flow.task) and call.only_address:
            continue
        if key not in flow.addresses or not call.only_address:
            said = "has an address that the model composed" if call.only_address else "carries more than an address"
            return _asking(part, f"{part.subject!r} {said}: it stood neither in the task nor on a page. {_read(call)}")
        if flow.fetches >= limits.fetches:
            used = f"{part.subject!r} comes after {limits.fetches} pages, as many as web.exposed_fetches allows"
            return _asking(part, f"{used}. {_read(call)}")
        chosen = True
    if chosen:
        return Ruling(Verdict.ALLOW, "Its address stood in what the run has read.", ADDRESS_READ, part.subject)
    if kept:
        return Ruling(Verdict.ALLOW, "The page was kept: nothing is sent.", "page_kept", part.subject)
    allowed = Ruling(Verdict.ALLOW, "Its address stands in the task.", ADDRESS_IN_TASK, part.subject)
    return _within_task_calls(allowed, call, part, limits)


def _within_task_calls(allowed: Ruling, call: ProposedCall, part: Part, limits: OutgoingLimits) -> Ruling:
    """Allow a call that the task names, a bounded number of times: repetition and order can spell."""
    if call.flow.task_calls < limits.task_calls:
        return allowed
    used = f"{part.subject!r} comes after {limits.task_calls} calls with addresses and arguments of the task"
    return _asking(part, f"{used}, as many as web.exposed_task_calls allows. {_read(call)}")


def _asking(part: Part, reason: str, rule: str = "private_data") -> Ruling:
    kind = f"{part.alike}, also after untrusted text" if part.alike else ""
    return Ruling(Verdict.ASK, f"{reason}. So {_AGREE}.", rule, part.subject, kind)


def _read(call: ProposedCall) -> str:
    flow = call.flow
    private, untrusted = name_sources(flow.private), name_sources(flow.exposed)
    return f"This run has read private data ({private}) and untrusted text ({untrusted})"


def _goes_to_trusted(call: ProposedCall, trusted_domains: Sequence[str]) -> bool:
    return not call.server and bool(call.urls) and all(is_trusted(url, trusted_domains) for url in call.urls)


def _only_from(server: str, sources: Sequence[str]) -> bool:
    """Tell whether all untrusted text came from the very server that the call goes to."""
    signs = f"{server} (signs of instructions"
    return not sources or (bool(server) and all(each == server or each.startswith(signs) for each in sources))


def _text_of(value: object) -> str:
    match value:
        case str():
            return value
        case dict():
            return "\n".join(f"{key}\n{_text_of(item)}" for key, item in value.items())
        case list() | tuple():
            return "\n".join(map(_text_of, value))
        case _:
            return ""
