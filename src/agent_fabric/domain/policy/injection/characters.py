"""Characters that are invisible to people, but not to a model."""

import re

from agent_fabric.domain.policy.injection.folding import INVISIBLE, ZERO_WIDTH

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
