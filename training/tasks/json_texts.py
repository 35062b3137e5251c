"""JSON that templates draw, and the steps that change it."""

import json
from typing import Any, Final

from training.tasks import pools
from training.tasks.draw import Draw
from training.tasks.table_texts import draw_table
from training.tasks.task import Step, shell

GROUPS: Final = {
    "database": ("host", "port", "user"),
    "server": ("host", "port", "workers"),
    "window": ("width", "height", "title"),
    "mail": ("sender", "host", "port"),
    "cache": ("folder", "limit", "active"),
    "logging": ("level", "file", "limit"),
    "printer": ("paper", "copies", "duplex"),
    "player": ("volume", "shuffle", "theme"),
}
PLAIN: Final = (
    "name",
    "version",
    "owner",
    "theme",
    "language",
    "timeout",
    "retries",
    "debug",
    "limit",
    "city",
    "public",
)
_WORDS: Final = {
    "theme": ("dark", "light", "sepia"),
    "language": ("en", "de", "fr", "pt"),
    "level": ("info", "warning", "verbose"),
    "paper": ("A4", "A5", "letter"),
}
_SWITCHES: Final = ("debug", "public", "active", "duplex", "shuffle", "archived", "notify")
_TEXTS: Final = ("name", "title", "user", "folder", "file", "host", "sender", "city", "label", "owner")


def value_of(draw: Draw, key: str) -> Any:
    """Return a value that suits a key."""
    if key in _SWITCHES:
        return draw.random() < 0.5
    if key in _WORDS:
        return draw.choice(_WORDS[key])
    if key == "version":
        return f"{draw.randint(0, 5)}.{draw.randint(0, 12)}.{draw.randint(0, 9)}"
    if key in _TEXTS:
        word = draw.word(pools.PEOPLE) if key in {"owner", "user"} else draw.word().lower()
        return f"{word}.example.org" if key in {"host", "sender"} else word
    return draw.randint(2, 9000) if key == "port" else draw.randint(1, 99)


def other_value(draw: Draw, key: str, old: Any) -> Any:
    """Return another value that suits a key."""
    if isinstance(old, bool):
        return not old
    new = old
    while new == old:
        new = value_of(draw, key)
    return new


def draw_object(draw: Draw, *, plain: int = 4, groups: int = 0) -> dict[str, Any]:
    """Return an object with plain values and objects in it."""
    parts: list[tuple[str, Any]] = [(key, value_of(draw, key)) for key in draw.sample(PLAIN, plain)]
    chosen = draw.sample(list(GROUPS), groups)
    parts += [(group, {key: value_of(draw, key) for key in GROUPS[group]}) for group in chosen]
    if draw.random() < 0.5:
        draw.shuffle(parts)
    return dict(parts)


def draw_records(draw: Draw, low: int = 3, high: int = 6) -> tuple[list[dict[str, Any]], str, str, str]:
    """Return a list of objects, and the keys of their name, their group and their number."""
    table, name, group, amount, _ = draw_table(draw, low=low, high=high)
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    return [{k: int(v) if k in {amount, "id"} else v for k, v in row.items()} for row in rows], name, group, amount


def laid_out(draw: Draw, value: Any) -> str:
    """Return JSON as text, in one of several layouts."""
    if isinstance(value, list) and draw.random() < 0.5:
        return "[\n" + ",\n".join(f"  {json.dumps(each)}" for each in value) + "\n]\n"
    return json.dumps(value, indent=draw.choice([2, 2, 2, 4, None])) + "\n"


def said(value: Any) -> str:
    """Return a value as a person writes it."""
    return value if isinstance(value, str) else json.dumps(value)


def change(path: str, *statements: str, into: str = "") -> Step:
    """Load JSON as `d`, run statements that have no double quotes, and save `d`."""
    done = "; ".join(statements)
    return shell(
        f"python3 -c \"import json; d = json.load(open('{path}')); {done}; "
        f"json.dump(d, open('{into or path}', 'w'), indent=2)\""
    )


def ask(path: str, expression: str) -> str:
    """Return the command that prints an expression of the JSON `d`."""
    return f"python3 -c \"import json; d = json.load(open('{path}')); print({expression})\""
