"""Signs that a text tries to give instructions to a model. They are recorded and shown; they are no protection.

An attacker finds other words. What protects is where a text came from (`Trust`), the policy, and the box.
"""

import base64
import codecs
import re
from collections.abc import Iterable, Iterator
from itertools import islice

from agent_fabric.domain.policy.injection.folding import INVISIBLE, ZERO_WIDTH, cap, fold
from agent_fabric.domain.policy.injection.phrases import Idea, findings_in

SIGNS = (
    *("authority", "encoded", "exfiltration", "hidden_text", "override", "persona", "prompt_leak", "secrecy", "shell"),
    *("tool_call", "turn_marker"),
)
"""All signs that a scan may name."""


def signals_in(text: str) -> tuple[str, ...]:
    """Name the signs in a text, sorted; empty if there are none.

    The work grows with the length of the text only, and ends at `folding.LIMIT` characters: of a longer text the head
    and the tail are read.
    """
    text = cap(text)
    plain = fold(text)
    words = findings_in(plain)
    signs = set(words.signs) | signs_in_markup(plain, words.ideas)
    if hides_characters(text):
        signs.add("hidden_text")
    if hides_orders(text, plain, words.ideas):
        signs.add("encoded")
    return tuple(sorted(signs))


_TAGS = "(?:^|[^\U0001f3f4\U000e0020-\U000e007f])[\U000e0020-\U000e007f]"
"""Tag characters that do not follow a black flag, where they spell the flag of a region."""
_BETWEEN_LETTERS = f"(?:[A-Za-z][{ZERO_WIDTH}]){{4}}"
_RUN = f"[{ZERO_WIDTH}]{{6}}|[\ufe00-\ufe0f\U000e0100-\U000e01ef]{{4}}"
_TURNED = ("\u202d", "\u202e")
"""They turn the direction of letters around; ordinary text of any script does without."""


def hides_characters(text: str) -> bool:
    """Whether the text carries letters that are not shown, or not as they stand."""
    if text.isascii() or not re.search(INVISIBLE, text):
        return False
    return any(map(text.__contains__, _TURNED)) or any(
        re.search(pattern, text) for pattern in (_TAGS, _BETWEEN_LETTERS, _RUN)
    )


# Orders in disguise: base64, hexadecimal, ROT13, letters backwards.
_RUNS = r"[A-Za-z0-9+/_-]{24,}"
_MAX_RUNS = 64
_ADDRESSED = int(Idea.ADDRESSED)
_MAX_RUN_CHARS = 4_096
_ROT13 = tuple(
    codecs.encode(word, "rot13") for word in ("ignore", "instructions", "password", "previous", "delete the")
)
_BACKWARDS = tuple(word[::-1] for word in ("ignore", "instructions", "password", "previous"))


def hides_orders(text: str, plain: str, ideas: int) -> bool:
    """Whether something in the text, once decoded, gives orders or is meant for a model that the text speaks to.

    `plain` is the text folded, `ideas` what was found in it.
    """
    return any(ideas & _ADDRESSED or findings_in(fold(hidden)).signs for hidden in _decodings(text, plain))


def _decodings(text: str, plain: str) -> Iterator[str]:
    for nth, match in enumerate(re.finditer(_RUNS, text)):
        if nth == _MAX_RUNS:
            break
        run = match[0][:_MAX_RUN_CHARS]
        yield from _readable(run)
    if any(map(plain.__contains__, _ROT13)):
        yield codecs.encode(plain, "rot13")
    if any(map(plain.__contains__, _BACKWARDS)):
        yield plain[::-1]


def _readable(run: str) -> Iterator[str]:
    """What the run stands for, if that is text."""
    for decode in (bytes.fromhex, _from_base64):
        try:
            hidden = decode(run[: len(run) // 4 * 4]).decode()
        except ValueError:
            continue
        if " " in hidden and hidden.replace("\n", " ").isprintable():
            yield hidden


def _from_base64(run: str) -> bytes:
    return base64.b64decode(run.replace("-", "+").replace("_", "/"), validate=True)


# Each pattern begins with a character of its own, so that searching for it skips what cannot match.
# Signs in the shape of a text: turns and tool calls of a chat, orders in parts of a page that are not shown.
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
_MAX_PART_CHARS = 2_000
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
            stop = plain.find(end, at, at + _MAX_PART_CHARS)
            stop = stop if stop > 0 else at + _MAX_PART_CHARS
            if not at or plain[at - 1] not in _QUOTES:
                yield plain[at + len(begin) : stop]
            at = plain.find(begin, stop)
    for element in islice(filter(_is_unseen, re.finditer(_ELEMENT, plain)), _MAX_PARTS):
        shown = plain.find("<", element.end(), element.end() + _MAX_PART_CHARS)
        yield plain[element.end() : shown if shown > 0 else element.end() + _MAX_PART_CHARS]
    for image in islice(re.finditer(_ALTERNATIVE, plain), _MAX_PARTS):
        yield image[1]


def _is_unseen(element: re.Match[str]) -> bool:
    tag = element[0].replace(" ", "")
    return any(map(tag.__contains__, _UNSEEN)) or " hidden" in element[0] or _white_on_white(tag)


def _white_on_white(tag: str) -> bool:
    return any(map(tag.__contains__, _WHITE)) and ("background:#fff" in tag or "background:white" in tag)
