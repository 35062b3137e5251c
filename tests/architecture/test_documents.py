"""Documents name files and links that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src/agent_fabric"


def test_every_link_between_the_documents_leads_somewhere() -> None:
    files = (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"))
    links = [(file, link) for file in files for link in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", file.read_text())]
    assert len(links) > 300
    assert [f"{file.relative_to(ROOT)}: {link}" for file, link in links if not (file.parent / link).exists()] == []


def test_every_place_that_the_glossary_and_the_table_of_places_name_exists() -> None:
    table = (ROOT / "CONTRIBUTING.md").read_text().partition("## Where is it")[2].partition("\n## ")[0]
    text = table + (ROOT / "docs/reference/glossary.md").read_text()
    places = re.findall(r"`([a-z_]+(?:/[a-z_0-9]+)+(?:\.py)?)(?::(\w+))?`", text)
    assert len(places) > 60
    for place, name in places:
        if place == "src/agent_fabric":
            continue
        path = SOURCE / place
        assert path.exists(), f"{place} was moved: change CONTRIBUTING.md and docs/reference/glossary.md"
        assert not name or re.search(rf"\b{name}\b", path.read_text()), f"{place} has no {name} any more"


def test_every_decision_has_its_own_number() -> None:
    numbers = [path.name[:4] for path in (ROOT / "docs/decisions").glob("[0-9]*.md")]
    assert sorted(set(numbers)) == sorted(numbers)
