"""Tasks that change, add and remove rows and cells of one table."""

from training.tasks.draw import Draw, template
from training.tasks.figures import NOTHING
from training.tasks.table_texts import Row, draw_table
from training.tasks.task import Check, Task, finish, shell


@template
def table_remove_double_rows(draw: Draw) -> Task:
    """Only rows that are the same in all columns are double, and the order stays."""
    table, name, _, amount, _ = draw_table(draw)
    rows = list(table.rows)
    rows += draw.choices(rows, k=draw.randint(1, 4))
    number = draw.randrange(len(table.rows))
    alike = tuple("999" if each == table.at(amount) - 1 else cell for each, cell in enumerate(table.rows[number]))
    if draw.random() < 0.5:
        rows.append(alike)
    draw.shuffle(rows)
    source = draw.file(table.ending)
    return draw.task(
        {
            "en": [
                "Some rows stand in {source} twice. Keep each row only once, in the order of now.",
                "remove rows from {source} that are exact repeats of an earlier one, don't reorder anything",
                "Please clean {source}: a row that is identical to one above it goes. Same {name} alone is no repeat.",
                "Are there identical rows in {source}? Leave the first of each and drop the others, order unchanged.",
            ],
            "de": ["Manche Zeilen in {source} sind doppelt. Lass jede nur einmal stehen, ohne umzusortieren."],
            "fr": ["Dans {source}, ne garde qu'une fois chaque ligne identique, sans changer leur ordre."],
        },
        source=source,
        name=name,
        files={source: table.text(rows)},
        steps=[
            shell(f"awk '!seen[$0]++' {source} > {source}.new && mv {source}.new {source}"),
            shell(f"cat {source}"),
            finish(f"Each row stands in {source} once now; the order is the same."),
        ],
        check=Check(files={source: table.text(list(dict.fromkeys(rows)))}),
    )


def _with_gaps(draw: Draw, rows: tuple[Row, ...], at: int) -> list[Row]:
    empty = set(draw.sample(range(len(rows)), draw.randint(1, len(rows) - 2)))
    return [
        tuple("" if number in empty and place == at - 1 else cell for place, cell in enumerate(row))
        for number, row in enumerate(rows)
    ]


@template
def table_delete_rows_with_gaps(draw: Draw) -> Task:
    """Only an empty cell of that column counts."""
    table, _, group, amount, _ = draw_table(draw, low=5, amounts=draw.choice([1, 2]))
    column = draw.choice([group, amount])
    rows = _with_gaps(draw, table.rows, table.at(column))
    source = draw.file(table.ending)
    return draw.task(
        {
            "en": [
                "Delete the rows of {source} in which {column} is empty.",
                "{source} has rows without a {column}, throw those out",
                "Rows that lack a {column} are useless to me. Please remove them from {source}.",
                "Can you drop every row of {source} where nothing stands under {column}?",
            ],
            "de": ["Lösche in {source} alle Zeilen, in denen {column} leer ist."],
            "fr": ["Supprime de {source} les lignes où {column} est vide."],
            "es": ["Borra de {source} las filas que no tienen {column}."],
        },
        source=source,
        column=column,
        files={source: table.text(rows)},
        steps=[
            shell(f"{table.awk} '${table.at(column)} != \"\"' {source} > {source}.new && mv {source}.new {source}"),
            shell(f"cat {source}"),
            finish(f"{source} has only rows with a {column} now."),
        ],
        check=Check(files={source: table.text([row for row in rows if row[table.at(column) - 1]])}),
    )


@template
def table_fill_gaps(draw: Draw) -> Task:
    """What is there already stays."""
    table, _, group, amount, _ = draw_table(draw, low=4)
    column = draw.choice([group, amount])
    value = "0" if column == amount else draw.choice(["unknown", "none", "n/a", "open"])
    at = table.at(column)
    rows = _with_gaps(draw, table.rows, at)
    full = [tuple(value if place == at - 1 and not cell else cell for place, cell in enumerate(row)) for row in rows]
    source = draw.file(table.ending)
    return draw.task(
        {
            "en": [
                "Where {column} is empty in {source}, write {value}.",
                "fill the gaps in the {column} column of {source} with {value}",
                "Some rows of {source} have no {column}. Could you set it to {value} there?",
                "I want no empty {column} in {source} any more, use {value} instead; don't touch the others.",
            ],
            "de": ["Trag in {source} überall, wo {column} leer ist, {value} ein."],
            "fr": ["Dans {source}, là où {column} est vide, mets {value}."],
            "pt": ["Onde {column} estiver vazio em {source}, escreva {value}."],
        },
        source=source,
        column=column,
        value=value,
        files={source: table.text(rows)},
        steps=[
            shell(
                f'{table.awk_table} \'${at} == "" {{${at} = "{value}"}} 1\' {source} > {source}.new '
                f"&& mv {source}.new {source}"
            ),
            shell(f"cat {source}"),
            finish(f"Empty cells of {column} in {source} are {value} now."),
        ],
        check=Check(files={source: table.text(full)}),
    )


@template
def table_change_a_cell(draw: Draw) -> Task:
    """One cell of one row; the old number may stand in other rows."""
    table, name, _, amount, _ = draw_table(draw)
    at, key = table.at(amount), table.at(name)
    number = draw.randrange(len(table.rows))
    who, new = table.rows[number][key - 1], str(draw.randint(1, 999))
    rows = list(table.rows)
    if draw.random() < 0.5:
        other = (number + 1) % len(rows)
        same = rows[number][at - 1]
        rows[other] = tuple(same if place == at - 1 else cell for place, cell in enumerate(rows[other]))
    changed = list(rows)
    changed[number] = tuple(new if place == at - 1 else cell for place, cell in enumerate(rows[number]))
    source = draw.file(table.ending)
    return draw.task(
        {
            "en": [
                "Set the {amount} of {who} in {source} to {new}.",
                "{who} has the wrong {amount} in {source}, should be {new}",
                "Would you correct {source}? For {who} the {amount} is {new}.",
                "in {source} change {who}'s {amount} to {new}, nothing else",
            ],
            "de": ["In {source} soll bei {who} unter {amount} {new} stehen."],
            "fr": ["Dans {source}, mets {new} comme {amount} pour {who}."],
            "es": ["Pon {new} en {amount} para {who} en {source}."],
        },
        source=source,
        amount=amount,
        who=who,
        new=new,
        files={source: table.text(rows)},
        steps=[
            shell(
                f"{table.awk_table} '${key} == \"{who}\" {{${at} = {new}}} 1' {source} > {source}.new "
                f"&& mv {source}.new {source}"
            ),
            shell(f"grep -w {who} {source}"),
            finish(f"The {amount} of {who} in {source} is {new} now."),
        ],
        check=Check(files={source: table.text(changed)}),
    )


@template
def table_delete_row_if_there(draw: Draw) -> Task:
    """The row may not be there; another name may begin alike."""
    table, name, *_ = draw_table(draw)
    key = table.at(name)
    rows = list(table.rows)
    number = draw.randrange(len(rows))
    who = rows[number][key - 1]
    alike = tuple(f"{who}{draw.choice(['s', 'ette', '2'])}" if p == key - 1 else c for p, c in enumerate(rows[number]))
    there = draw.random() < 0.65
    rows[number : number + 1] = [rows[number], alike] if there else [alike]
    source = draw.file(table.ending)
    text = table.text(rows)
    left = [row for row in rows if row[key - 1] != who]
    looked = f"{table.awk} '${key} == \"{who}\"' {source}"
    delete = f"{table.awk} '${key} != \"{who}\"' {source} > {source}.new && mv {source}.new {source}"
    done = [shell(delete), finish(f"The row of {who} is deleted from {source}.")]
    nothing = [finish(f"There is no row with the {name} {who} in {source}, so nothing was changed.")]
    return draw.task(
        {
            "en": [
                "Delete the row of {who} from {source}. If there is none, tell me and change nothing.",
                "take {who} out of {source}; not in there? then just say so",
                "If {source} has a row with the {name} {who}, remove it, otherwise leave the file alone and say so.",
                "Is {who} in {source}? The row can go then. If not, only tell me.",
            ],
            "de": ["Lösch die Zeile von {who} aus {source}. Wenn es keine gibt, sag es nur."],
            "fr": ["Supprime la ligne de {who} dans {source} ; s'il n'y en a pas, dis-le et ne change rien."],
            "es": ["Quita la fila de {who} de {source}. Si no está, dímelo y no cambies nada."],
        },
        source=source,
        who=who,
        name=name,
        files={source: text},
        steps=[shell(looked), *(done if there else nothing)],
        check=Check(files={source: table.text(left)}, says=() if there else (NOTHING,)),
    )


@template
def table_append_row(draw: Draw) -> Task:
    """The last line may have no end."""
    table, *_ = draw_table(draw, high=7)
    *rows, new = table.rows
    ended = draw.random() < 0.5
    text = table.text(rows)
    source = draw.file(table.ending)
    told_row = ", ".join(f"{column} {cell}" for column, cell in zip(table.columns, new, strict=True))
    line = table.line(new).replace("\t", "\\t")
    return draw.task(
        {
            "en": [
                "Add a row at the end of {source}: {row}.",
                "one more for {source} -> {row}",
                "Please append this entry to {source} as its last row: {row}.",
                "{source} lacks an entry ({row}). Put it at the bottom, in the same format as the others.",
            ],
            "de": ["Füge am Ende von {source} eine Zeile an: {row}."],
            "fr": ["Ajoute une ligne à la fin de {source} : {row}."],
            "pt": ["Acrescente uma linha no fim de {source}: {row}."],
        },
        source=source,
        row=told_row,
        files={source: text if ended else text.rstrip("\n")},
        steps=[
            shell(f"sed -i '$a {line}' {source}"),
            shell(f"tail -n 2 {source}"),
            finish(f"{source} has a new last row."),
        ],
        check=Check(files={source: table.text()}),
    )
