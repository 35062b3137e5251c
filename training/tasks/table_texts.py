"""Tables that templates draw: their columns, rows and texts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from training.tasks import pools
from training.tasks.draw import Draw

Row = tuple[str, ...]
THINGS: Final = ("item", "product", "article", "part", "label", "object", "thing", "entry", "lot")
PERSONS: Final = ("name", "person", "member", "player", "guest", "pupil", "driver", "tenant")
GROUPS: Final = {
    "city": ("Lisbon", "Oslo", "Vienna", "Madrid", "Prague", "Athens", "Dublin", "Riga", "Sofia"),
    "color": ("red", "blue", "green", "white", "black", "orange"),
    "region": ("north", "south", "east", "west"),
    "status": ("open", "closed", "late", "paid", "waiting"),
    "team": ("owls", "lions", "wolves", "bears", "otters"),
    "size": ("small", "medium", "large", "huge"),
    "month": ("January", "March", "May", "August", "October"),
    "floor": ("ground", "first", "second", "attic", "cellar"),
    "kind": ("new", "used", "rented", "borrowed"),
    "grade": ("A", "B", "C", "D"),
    "branch": ("harbor", "station", "market", "airport"),
}
AMOUNTS: Final = (
    ("price", 3, 95),
    ("pieces", 1, 60),
    ("points", 5, 120),
    ("weight", 2, 80),
    ("age", 18, 79),
    ("visits", 1, 400),
    ("length", 10, 300),
    ("cost", 4, 250),
    ("score", 1, 100),
    ("minutes", 5, 180),
    ("pages", 20, 600),
    ("distance", 2, 90),
    ("rent", 300, 900),
    ("days", 1, 45),
)


@dataclass(frozen=True, slots=True)
class Table:
    """A table with a line of headings."""

    columns: Row
    rows: tuple[Row, ...]
    separator: str = ","

    def line(self, cells: Sequence[str]) -> str:
        """Return a row as a line, without its end."""
        return self.separator.join(cells)

    def text(self, rows: Sequence[Row] | None = None, *, header: bool = True) -> str:
        """Return the text of the table, or of some of its rows."""
        lines = [self.line(each) for each in (self.rows if rows is None else rows)]
        return "".join(f"{line}\n" for line in ([self.line(self.columns)] if header else []) + lines)

    def at(self, column: str) -> int:
        """Return the number of a column, from 1."""
        return self.columns.index(column) + 1

    def values(self, column: str) -> list[str]:
        """Return what stands in a column."""
        return [row[self.at(column) - 1] for row in self.rows]

    @property
    def quoted(self) -> str:
        """The separator, as bash takes it."""
        return {"\t": "'\\t'", ";": "';'"}.get(self.separator, self.separator)

    @property
    def awk(self) -> str:
        """`awk`, told what separates the columns."""
        return f"awk -F{self.quoted}"

    @property
    def awk_table(self) -> str:
        """`awk` that writes a table again."""
        return f"awk -F{self.quoted} -v OFS={self.quoted}"

    @property
    def cut(self) -> str:
        """`cut`, told what separates the columns."""
        return "cut" if self.separator == "\t" else f"cut -d{self.quoted}"

    @property
    def sort(self) -> str:
        """`sort`, told what separates the columns."""
        return "sort -t$'\\t'" if self.separator == "\t" else f"sort -t{self.quoted}"

    @property
    def ending(self) -> str:
        """How names of such files end."""
        return "tsv" if self.separator == "\t" else "csv"


class Drawn(NamedTuple):
    """A table with the columns that a template asks about."""

    table: Table
    name: str
    group: str
    amount: str
    second: str
    """Another amount; empty: there is none."""


def draw_table(
    draw: Draw,
    *,
    low: int = 4,
    high: int = 9,
    amounts: int = 1,
    separators: Sequence[str] = (",", ",", ",", ";", "\t"),
    decimals: float = 0.0,
) -> Drawn:
    """Draw a table with a column of names, one of groups, and amounts that are all different."""
    count = draw.randint(low, high)
    persons = draw.random() < 0.4
    name = draw.choice(PERSONS if persons else THINGS)
    group = draw.choice(list(GROUPS))
    chosen = draw.sample(AMOUNTS, amounts)
    groups = draw.sample(GROUPS[group], min(len(GROUPS[group]), draw.randint(2, 4)))
    columns = {name: draw.words(count, pools.PEOPLE if persons else pools.NOUNS)}
    columns[group] = groups + draw.choices(groups, k=count - len(groups)) if count >= len(groups) else groups[:count]
    draw.shuffle(columns[group])
    for amount, least, most in chosen:
        numbers = draw.sample(range(least, max(most, least + 3 * count)), count)
        columns[amount] = [str(each) for each in numbers]
        if draw.random() < decimals:
            columns[amount] = [f"{each}.{draw.choice(['50', '25', '90', '05', '75'])}" for each in numbers]
    order = list(columns)
    if draw.random() < 0.4:
        draw.shuffle(order)
    if draw.random() < 0.25:
        columns["id"] = [str(each) for each in range(draw.choice([1, 100, 2001]), 3000)][:count]
        order.insert(0, "id")
    rows = tuple(tuple(columns[each][at] for each in order) for at in range(count))
    table = Table(tuple(order), rows, draw.choice(list(separators)))
    return Drawn(table, name, group, chosen[0][0] if chosen else "", chosen[1][0] if amounts > 1 else "")
