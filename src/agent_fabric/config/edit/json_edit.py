"""Changes a model in JSON, which has no comments that could get lost."""

import json
import re

from agent_fabric.config.edit.change import Change, applied


def with_model(text: str, key: str, change: Change) -> str:
    """Return the text with the change made; a valid text is given."""
    indent = re.search(r"^([ \t]+)\S", text, re.MULTILINE)
    settings = applied(json.loads(text) if text.strip() else {}, key, change)
    return json.dumps(settings, indent=indent[1] if indent else 2, ensure_ascii=False) + "\n"


def lines(key: str, change: Change) -> str:
    """Return what a person would write."""
    return json.dumps(applied({}, key, change), ensure_ascii=False)
