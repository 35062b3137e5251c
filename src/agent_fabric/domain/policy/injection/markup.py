"""Signs in the shape of a text: turns and tool calls of a chat, orders in parts of a page that are not shown."""

import re
from collections.abc import Iterable, Iterator
from itertools import islice

from agent_fabric.domain.policy.injection.ideas import Idea
from agent_fabric.domain.policy.injection.phrases import findings_in

# Each pattern begins with a character of its own, so that searching for it skips what cannot match.
_TURNS = (
    (
        r"<(?:\|(?:im_start|start_header_id|start)\|>\s{0,3}(?:<\||(?:system|user|assistant|tool|developer)\b)"
        r"|\|(?:im_end|eot_id|end|endoftext|end_of_text)\|>\s{0,5}<\|"
        r"|\|(?:system|user|assistant)\|>\s{0,3}\w[^<]{0,200}<\|(?:system|user|assistant|end)\|>"
        r"|<sys>>\s{0,3}you\b"
        r"|start_of_turn>\s{0,2}(?:user|model)\b"
        r"|/(?:tool_result|tool_response|function_results?|untrusted[a-z_]{0,20}|user_input|search_results?)>\s{0,5}[<\w]"
        r"|/[a-z_]{1,30}>\s{0,5}<system(?:_message|_prompt|-reminder)?>)"
    ),
    r"\[(?:inst\]\s{0,3}<<sys>>|system\]\(#)",
    (
        r"\n(?:#{2,4} ?(?:system|new instructions?|system message|system prompt):"
        r"|system: ?(?:\[|you (?:must|are|will|shall)\b))"
    ),
)
_BANNER = r"[-=#*] ?(?:begin|new|start of|end of) (?:new )?(?:system|admin|developer) (?:message|prompt|instructions)"
_CALLS = (
    r"<(?:tool_call>\s{0,3}\{|function_calls?>\s{0,3}<|invoke name=)",
    r"\[tool_calls\]\s{0,3}\[",
    r"```tool_code",
    r"\"tool_calls\"\s{0,3}:\s{0,3}\[\s{0,3}\{\s{0,3}\"",
    (
        r"\{\s{0,3}\"(?:name|tool|function|action)\"\s{0,3}:\s{0,3}\"[a-z_.\-]{2,60}\"\s{0,3},\s{0,3}"
        r"\"(?:arguments|args|action_input|tool_input)\""
    ),
    r"\n(?:action: ?[a-z_]{2,40}\s{0,3}\n\s{0,3}action input:|function_call: ?[a-z_]{2,40}\()",
)
_IMAGES = (
    r"!\[[^\[\]\n]{0,100}\]\(https?://[^\s()]{0,300}",
    r"<img\b[^<>]{0,100}src=[\"']https?://[^\s\"'<>]{0,300}",
)
_CARRIED = r"(?:=\{|=<|=\$|=%7b|secret|chat|conversation|history|password|token|base64|private)"
_SPEAKER = r"\n\s?(?:human|user|assistant|system): "
_ELEMENT = r"<[a-z]{1,12}\b[^<>]{1,400}>"
_ALTERNATIVE = r"\balt=[\"']([^\"'<>]{1,400})"
_UNSEEN = ("display:none", "visibility:hidden", "opacity:0", "font-size:0", "font-size:1px", "left:-9", 'color="white"')
_WHITE = ("color:#fff", "color:white")
_COMMENTS = (("<!--", "-->"), ("[//]: # (", ")\n"), ("[comment]: # (", ")\n"), ("{#", "#}"))
_QUOTES = "`'\""
_LONGEST_PART = 2_000
_MAX_PARTS = 200
_ORDERS = sum(
    (Idea.MUST, Idea.GRANT, Idea.SEND, Idea.IGNORE, Idea.TELL, Idea.RUN, Idea.FETCH, Idea.INSTR, Idea.USER, Idea.NEG)
)
_TO_A_MODEL = sum((Idea.AI, Idea.ADDRESSED))
_WORTH_STEALING = sum((Idea.SENSITIVE, Idea.PROMPT, Idea.KEYFILE))
_SENDS_SECRETS = sum((Idea.SEND, Idea.SENSITIVE))


def signs_in_markup(plain: str, ideas: int) -> set[str]:
    """Signs in the shape of a folded text, in which these ideas were found."""
    signs, lines = set(), f"\n{plain}"
    if _any_of(_TURNS, lines) or ("system " in plain and re.search(_BANNER, plain)) or _false_turn(lines, ideas):
        signs.add("turn_marker")
    if _any_of(_CALLS, lines):
        signs.add("tool_call")
    if any(re.search(_CARRIED, image.partition("?")[2]) for pattern in _IMAGES for image in re.findall(pattern, plain)):
        signs.add("exfiltration")
    if ideas & (_TO_A_MODEL | _WORTH_STEALING) and any(_speaks_to_a_model(part) for part in _hidden_parts(plain)):
        signs.add("hidden_text")
    return signs


def _any_of(patterns: Iterable[str], text: str) -> bool:
    return any(re.search(pattern, text) for pattern in patterns)


def _false_turn(lines: str, ideas: int) -> bool:
    """Whether speakers appear after other text, and something worth stealing is named."""
    return bool(ideas & _WORTH_STEALING) and len(re.findall(_SPEAKER, lines)) > 1 and not re.match(_SPEAKER, lines)


def _speaks_to_a_model(part: str) -> bool:
    found = findings_in(part)
    if found.ideas & _SENDS_SECRETS == _SENDS_SECRETS:
        return True
    return bool(found.signs or (found.ideas & _TO_A_MODEL and found.ideas & _ORDERS))


def _hidden_parts(plain: str) -> Iterator[str]:
    """Texts of comments and of elements that a browser does not show, the first of them, each cut."""
    for begin, end in _COMMENTS:
        at = plain.find(begin)
        for _ in range(_MAX_PARTS):
            if at < 0:
                break
            stop = plain.find(end, at, at + _LONGEST_PART)
            stop = stop if stop > 0 else at + _LONGEST_PART
            if not at or plain[at - 1] not in _QUOTES:
                yield plain[at + len(begin) : stop]
            at = plain.find(begin, stop)
    for element in islice(filter(_is_unseen, re.finditer(_ELEMENT, plain)), _MAX_PARTS):
        shown = plain.find("<", element.end(), element.end() + _LONGEST_PART)
        yield plain[element.end() : shown if shown > 0 else element.end() + _LONGEST_PART]
    for image in islice(re.finditer(_ALTERNATIVE, plain), _MAX_PARTS):
        yield image[1]


def _is_unseen(element: re.Match[str]) -> bool:
    tag = element[0].replace(" ", "")
    return any(map(tag.__contains__, _UNSEEN)) or " hidden" in element[0] or _white_on_white(tag)


def _white_on_white(tag: str) -> bool:
    return any(map(tag.__contains__, _WHITE)) and ("background:#fff" in tag or "background:white" in tag)
