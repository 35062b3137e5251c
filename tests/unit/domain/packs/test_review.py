"""Findings of a review are put in order, and those about files that the diff does not change are marked."""

import pytest

from agent_fabric.domain.packs.recruitment import Specialist, choosable
from agent_fabric.domain.packs.review import REVIEWER, Severity, findings_in, review_task

pytestmark = pytest.mark.proves("CP-14")

DIFF = """\
diff --git a/calc.py b/calc.py
--- a/calc.py
+++ b/calc.py
@@ -1,2 +1,2 @@
 def divide(a, b):
-    return a / b
+    return a // b
"""


def test_findings_come_worst_first_and_say_whether_the_diff_changes_their_file() -> None:
    told = [
        {"file": "other.py", "line": 3, "severity": "low", "problem": "unused"},
        {"file": "b/calc.py", "line": 2, "severity": "HIGH", "problem": "rounds down", "patch": "-a // b\n+a / b\n"},
        {"file": "./calc.py", "line": True, "severity": "huge", "problem": "?"},
        {"file": "calc.py", "line": 1, "severity": "low", "problem": " "},
        "nothing",
    ]
    found = findings_in({"findings": told}, DIFF)
    assert [(each.file, each.line, each.severity, each.in_diff) for each in found] == [
        ("calc.py", 2, Severity.HIGH, True),
        ("calc.py", 0, Severity.MEDIUM, True),
        ("other.py", 3, Severity.LOW, False),
    ]
    assert found[0].patch == "-a // b\n+a / b"
    assert [each.severity.is_serious for each in found] == [True, False, False]


@pytest.mark.parametrize("payload", [{}, {"findings": None}, {"findings": "many"}, {"findings": []}])
def test_what_lists_nothing_has_no_findings(payload: dict[str, object]) -> None:
    assert findings_in(payload, DIFF) == []


def test_the_task_holds_the_diff_as_material() -> None:
    assert review_task(DIFF).endswith("+    return a // b\n```")


def test_a_reviewer_is_chosen_only_where_it_is_named_or_the_configuration_says_for_what() -> None:
    plain = Specialist(specialist_id=REVIEWER, description="")
    own = Specialist(specialist_id=REVIEWER, description="", keywords=("review",))
    assert list(choosable([plain])) == []
    assert list(choosable([own])) == [own]
