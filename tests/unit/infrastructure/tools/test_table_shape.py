import pytest

from agent_fabric.infrastructure.tools.table_shape import Table, table_in


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("id,name\n1,Ada\n2,Kim\n", Table(",", ("id", "name"), 2, (1,), ("smallest id: 1, largest id: 2, sum: 3",))),
        ("name\temail\nAda\tada@example.com\n", Table("\t", ("name", "email"), 1)),
        (
            "a;b\n1;2\n\n3;4",
            Table(
                ";",
                ("a", "b"),
                2,
                (1, 2),
                ("smallest a: 1, largest a: 3, sum: 4", "smallest b: 2 (1), largest b: 4 (3), sum: 6"),
            ),
        ),
        (
            'what,amount\n"train, bus",3.50\nfood,-1\n',
            Table(
                ",",
                ("what", "amount"),
                2,
                (2,),
                ("smallest amount: -1 (food), largest amount: 3.50 (train, bus), sum: 2.50",),
            ),
        ),
        ("name,city\nAda,Oslo\nKim,Rome\n", Table(",", ("name", "city"), 2)),
        ("red,big\nblue,small\n", Table(",", (), 2)),
        ("Name,city\n", Table(",", (), 1)),
        ("1,2\n3,4\n", Table(",", (), 2, (1, 2))),
        ("Ada,Oslo\nKim,Rome\n", Table(",", (), 2)),
        ("name,name\nAda,3\n", Table(",", (), 2)),
    ],
)
def test_a_table_is_told_from_its_first_line(text: str, table: Table) -> None:
    assert table_in(text) == table


@pytest.mark.parametrize("text", ["", "one\ntwo\n", '"a,\0b\n'])
def test_what_has_no_columns_is_no_table(text: str) -> None:
    found = table_in(text)
    assert found is None or not found.columns


def test_many_columns_are_not_all_named() -> None:
    many = table_in(",".join(f"c{chr(97 + n)}" for n in range(20)) + "\n" + ",".join("1" * 20))
    assert "…" in str(many)
