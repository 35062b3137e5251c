"""Prints the tables of ways in and ways out as `docs/operate/security.md` has them: `python tests/ways_tables.py`."""

from agent_fabric.domain.policy.ways import WayIn, WayOut


def ways_in() -> list[str]:
    head = ["| what a run reads | exposed | private | |", "|---|---|---|---|"]
    rows = (way.value for way in WayIn)
    return [*head, *(f"| {each.what} | {each.exposed} | {each.private} | {each.note} |" for each in rows)]


def ways_out() -> list[str]:
    head = ["| where text goes | who decides | |", "|---|---|---|"]
    rows = (way.value for way in WayOut)
    return [*head, *(f"| {each.what} | {each.judged} | {each.note} |" for each in rows)]


if __name__ == "__main__":
    print("\n".join((*ways_in(), "", *ways_out())))
