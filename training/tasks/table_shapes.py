"""Tasks that turn tables into other forms, split them, stack them and join them."""

from training.tasks.draw import Draw, template
from training.tasks.figures import told
from training.tasks.table_texts import Table, draw_table
from training.tasks.task import Check, Task, finish, shell, write


def _markdown(table: Table) -> str:
    lines = [table.columns, ("---",) * len(table.columns), *table.rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


@template
def table_to_markdown(draw: Draw) -> Task:
    """The line below the headings may be drawn in several ways."""
    table, *_ = draw_table(draw)
    source, target = draw.file(table.ending), draw.file("md")
    by_awk = (
        f'{table.awk} \'{{printf "|"; for (i = 1; i <= NF; i++) printf " %s |", $i; print ""}} '
        f'NR==1 {{printf "|"; for (i = 1; i <= NF; i++) printf " --- |"; print ""}}\' {source} > {target}'
    )
    wanted = _markdown(table)
    dashes = [wanted.replace("---", each) for each in ("---", "-----", ":---", "--", "-", "----")]
    tight = [wanted.replace("| ---", "|---").replace("--- |", "---|"), wanted.replace(" --- ", "---")]
    return draw.task(
        {
            "en": [
                "Turn {source} into a Markdown table and save it as {target}.",
                "{target} should be {source} as a markdown table",
                "Could you write the table {source} in Markdown, with pipes, to {target}?",
                "I want to paste {source} into a wiki. Make a Markdown table of it in {target}, headings included.",
            ],
            "de": ["Mach aus {source} eine Markdown-Tabelle und speichere sie als {target}."],
            "fr": ["Fais de {source} un tableau Markdown dans {target}."],
            "es": ["Convierte {source} en una tabla Markdown y guárdala en {target}."],
        },
        source=source,
        target=target,
        files={source: table.text()},
        steps=[
            shell(by_awk),
            shell(f"cat {target}"),
            finish(f"{target} has the rows of {source} as a Markdown table."),
        ],
        check=Check(either={target: [*dashes, *tight]}),
    )


@template
def markdown_to_csv(draw: Draw) -> Task:
    """Pipes, spaces and the line of dashes go."""
    table, *_ = draw_table(draw, separators=(",",))
    source, target = draw.file("md"), draw.file("csv")
    title = draw.choice(["", f"# The {draw.word()}\n\n", f"{draw.sentence()}\n\n"])
    return draw.task(
        {
            "en": [
                "Save the table of {source} as a CSV file {target}, with the headings.",
                "make a csv called {target} from the markdown table in {source}",
                "There is a table in {source}. I need it as comma separated values in {target}.",
                "Can you convert the Markdown table in {source} to {target}? Commas, no spaces around them.",
            ],
            "de": ["Speichere die Markdown-Tabelle aus {source} als CSV-Datei {target}, mit Kopfzeile."],
            "fr": ["Enregistre le tableau Markdown de {source} en CSV dans {target}."],
            "pt": ["Guarde a tabela Markdown de {source} como CSV em {target}."],
        },
        source=source,
        target=target,
        files={source: title + _markdown(table)},
        steps=[
            shell(f"grep '^|' {source} | grep -v -- '---' | sed 's/^| *//; s/ *|$//; s/ *| */,/g' > {target}"),
            shell(f"cat {target}"),
            finish(f"{target} has the table of {source} as CSV."),
        ],
        check=Check(files={target: table.text()}),
    )


@template
def table_change_separator(draw: Draw) -> Task:
    """From one separator to another, in a new file or in place."""
    table, *_ = draw_table(draw)
    names = {",": "commas", ";": "semicolons", "\t": "tabs"}
    german = {",": "Kommas", ";": "Strichpunkte", "\t": "Tabulatoren"}
    spanish = {",": "comas", ";": "punto y coma", "\t": "tabuladores"}
    new = draw.choice([each for each in names if each != table.separator])
    source = draw.file(table.ending)
    target = draw.file("tsv" if new == "\t" else "csv")
    shown = {"\t": "\\t"}
    return draw.task(
        {
            "en": [
                "The columns of {source} are separated by {old}. Write the same table with {new} to {target}.",
                "{source} uses {old}, i need {new}. save it as {target}",
                "Make a copy of {source} called {target} in which {new} stand between the columns instead of {old}.",
                "Could you convert {source} from {old} to {new}? The new file is {target}, the old one stays.",
            ],
            "de": ["In {source} trennen {deutsch_alt} die Spalten. Schreib sie mit {deutsch} nach {target}."],
            "es": ["Copia {source} a {target} con {espanol} entre las columnas."],
        },
        source=source,
        target=target,
        old=names[table.separator],
        new=names[new],
        deutsch_alt=german[table.separator],
        deutsch=german[new] + ("n" if new == "\t" else ""),
        espanol=spanish[new],
        files={source: table.text()},
        steps=[
            shell(f"tr '{shown.get(table.separator, table.separator)}' '{shown.get(new, new)}' < {source} > {target}"),
            finish(f"{target} is {source} with {names[new]} between the columns."),
        ],
        check=Check(files={target: table.text().replace(table.separator, new)}),
    )


@template
def tables_stack(draw: Draw) -> Task:
    """One header is enough."""
    table, *_ = draw_table(draw, low=5)
    cut = sorted(draw.sample(range(1, len(table.rows)), draw.choice([1, 1, 2])))
    parts = [table.rows[a:b] for a, b in zip([0, *cut], [*cut, len(table.rows)], strict=True)]
    sources, target = [draw.file(table.ending) for _ in parts], draw.file(table.ending)
    listed = ", ".join(sources[:-1]) + f" {{}} {sources[-1]}"
    rest = " ".join(sources[1:])
    first = f"cat {sources[0]} > {target} && " if len(sources) < 3 else ""
    command = (
        f"{first}tail -n +2 {rest} >> {target}" if first else f"awk 'FNR > 1 || NR == 1' {sources[0]} {rest} > {target}"
    )
    return draw.task(
        {
            "en": [
                "Put the tables {listed}, in this order, together into {target}. The header belongs there once.",
                "stack {listed} on top of each other as {target}, a single header line please",
                "{target} should have all rows of {listed}, one after the other, below one header.",
                "Could you combine {listed} in {target}? They have the same columns, so keep one heading only.",
            ],
            "de": ["Häng {gelistet} in dieser Reihenfolge zu {target} zusammen, mit nur einer Kopfzeile."],
            "fr": ["Réunis {liste} dans {target}, dans cet ordre, avec un seul en-tête."],
            "es": ["Junta {lista} en {target}, en este orden, con un solo encabezado."],
        },
        target=target,
        listed=listed.format("and"),
        gelistet=listed.format("und"),
        liste=listed.format("et"),
        lista=listed.format("y"),
        files={name: table.text(part) for name, part in zip(sources, parts, strict=True)},
        steps=[
            shell(command),
            shell(f"cat {target}"),
            finish(f"{target} has the rows of all the tables, below one header."),
        ],
        check=Check(files={target: table.text()}),
    )


@template
def table_split_by_group(draw: Draw) -> Task:
    """A file for each value, each with the header."""
    table, _, group, _, _ = draw_table(draw, low=4, high=8)
    source = draw.file(table.ending)
    values = list(dict.fromkeys(table.values(group)))
    at = table.at(group)
    files = {f"{each}.{table.ending}": [r for r in table.rows if r[at - 1] == each] for each in values}
    example = f"{values[0]}.{table.ending}"
    return draw.task(
        {
            "en": [
                "Split {source} by {group}: a file for each value, named after it, such as {example}, each with "
                "the header.",
                "one file per {group} from {source} please (like {example}), header in every file",
                "I want the rows of {source} in separate files by {group}, e.g. {example}. Repeat the header in each.",
                "Could you divide {source} into several tables, one for each {group}? Names as in {example}; "
                "all have the header.",
            ],
            "de": ["Teile {source} nach {group} auf: je Wert eine Datei wie {example}, jede mit Kopfzeile."],
            "fr": ["Découpe {source} selon {group} : un fichier par valeur, comme {example}, chacun avec l'en-tête."],
        },
        source=source,
        group=group,
        example=example,
        others=0,
        files={source: table.text()},
        steps=[
            shell(
                f'{table.awk} \'NR==1 {{h = $0; next}} {{f = ${at} ".{table.ending}"; '
                f"if (!(f in seen)) {{print h > f; seen[f] = 1}} print > f}}' {source}"
            ),
            shell(f"head -n 3 {' '.join(f'{each}.{table.ending}' for each in sorted(values))}"),
            finish(f"{source} is split into {len(values)} files, one for each {group}, each with the header."),
        ],
        check=Check(files={name: table.text(rows) for name, rows in files.items()}),
    )


@template
def tables_join(draw: Draw) -> Task:
    """The second table is in another order, and may have a row too many."""
    table, name, _, _, _ = draw_table(draw, low=4, high=7, separators=(",",))
    field = draw.choice(["phone", "room", "desk", "locker", "tax", "bonus"])
    who = table.values(name)
    known = {each: str(draw.randint(100, 999)) for each in who}
    order = [*who, *draw.words(draw.choice([0, 1]), ("Ada", "Zora", "fig", "kiwi"))]
    draw.shuffle(order)
    other = "".join(f"{each},{known.get(each, '555')}\n" for each in order)
    source, second, target = draw.file("csv"), draw.file("csv"), draw.file("csv")
    at = table.at(name)
    rows = [table.line((*row, known[row[at - 1]])) for row in table.rows]
    return draw.task(
        {
            "en": [
                "Write {target}: the rows of {source}, each with the {field} from {second} as a new last column. "
                "Both have a column {name}.",
                "join {source} and {second} on {name} into {target}, so {field} comes last and the order of "
                "{source} stays",
                "For every {name} of {source} the {field} stands in {second}. Make {target} with all columns of "
                "{source} "
                "plus {field}.",
                "Could you look up the {field} of each {name} in {second} and add it at the end of the rows of "
                "{source}? "
                "Save that as {target}.",
            ],
            "de": ["Schreib {target}: die Zeilen von {source}, ergänzt um {field} aus {second} (gleicher {name})."],
            "es": ["Crea {target} con las filas de {source} y, como última columna, {field} de {second} según {name}."],
        },
        source=source,
        second=second,
        target=target,
        name=name,
        field=field,
        files={source: table.text(), second: f"{name},{field}\n{other}"},
        steps=[
            shell(f"awk -F, 'NR==FNR {{a[$1] = $2; next}} {{print $0 \",\" a[${at}]}}' {second} {source} > {target}"),
            shell(f"cat {target}"),
            finish(f"{target} has the rows of {source} with the {field} from {second}."),
        ],
        check=Check(files={target: "\n".join([table.line((*table.columns, field)), *rows])}),
    )


@template
def tables_missing_in_second(draw: Draw) -> Task:
    """Rows of the one table whose name is not in the other."""
    table, name, _, _, _ = draw_table(draw, low=5, separators=(",",))
    at = table.at(name)
    who = table.values(name)
    there = draw.sample(who, draw.randint(1, len(who) - 2))
    listed = [
        *there,
        *(f"{each}{draw.choice(['s', 'er'])}" for each in who if each not in there and draw.random() < 0.4),
    ]
    draw.shuffle(listed)
    source, second, target = draw.file("csv"), draw.file("csv"), draw.file()
    return draw.task(
        {
            "en": [
                "Which {name}s of {source} are not in {second}? List them in {target}, one per line, as ordered "
                "in {source}.",
                "compare {source} with {second}: every {name} that the second one lacks goes to {target}, a line each",
                "Please write to {target} each {name} of {source} that does not occur in {second}, in the same order.",
                "{second} should have everybody of {source} but does not. I want the missing ones ({name}) in "
                "{target}.",
            ],
            "de": ["Schreib alle {name} aus {source}, die in {second} fehlen, untereinander in {target}."],
            "fr": ["Liste dans {target} les {name} de {source} qui manquent dans {second}, un par ligne."],
        },
        source=source,
        second=second,
        target=target,
        name=name,
        files={
            source: table.text(),
            second: f"{name},since\n" + "".join(f"{each},{draw.randint(2001, 2026)}\n" for each in listed),
        },
        steps=[
            shell(
                f"awk -F, 'NR==FNR {{a[$1]; next}} FNR>1 && !(${at} in a) {{print ${at}}}' {second} {source} > {target}"
            ),
            shell(f"cat {target}"),
            finish(f"{target} lists each {name} of {source} that is not in {second}."),
        ],
        check=Check(files={target: "\n".join(each for each in who if each not in there)}),
    )


@template
def table_add_row_numbers(draw: Draw) -> Task:
    """The header gets a heading, and the first row the number 1."""
    table, *_ = draw_table(draw)
    source, column = draw.file(table.ending), draw.choice(["no", "nr", "row", "rank", "position"])
    begin = draw.choice([1, 1, 1, 10, 100])
    return draw.task(
        {
            "en": [
                "Number the rows of {source}: a new first column {column}, beginning with {begin}.",
                "put a column {column} in front of {source} that counts up from {begin}",
                "Could you give {source} a first column called {column} with {begin}, {next} and so on?",
                "The rows of {source} need numbers on the left, from {begin} upwards; the heading is {column}.",
            ],
            "de": ["Nummeriere die Zeilen von {source} in einer neuen ersten Spalte {column}, ab {begin}."],
            "pt": ["Numere as linhas de {source} numa nova primeira coluna {column}, a partir de {begin}."],
        },
        source=source,
        column=column,
        begin=begin,
        next=begin + 1,
        files={source: table.text()},
        steps=[
            shell(
                f"{table.awk_table} 'NR==1 {{print \"{column}\", $0; next}} {{print NR - 2 + {begin}, $0}}' {source} "
                f"> {source}.new && mv {source}.new {source}"
            ),
            shell(f"head -n 3 {source}"),
            finish(f"The rows of {source} are numbered from {begin} in the first column {column}."),
        ],
        check=Check(
            files={
                source: "\n".join(
                    [
                        table.line((column, *table.columns)),
                        *(table.line((str(at), *row)) for at, row in enumerate(table.rows, start=begin)),
                    ]
                )
            }
        ),
    )


@template
def table_put_header_on_top(draw: Draw) -> Task:
    """The table has no headings yet."""
    table, *_ = draw_table(draw)
    source = draw.file(table.ending)
    listed = ", ".join(table.columns)
    header = table.line(table.columns)
    return draw.task(
        {
            "en": [
                "{source} has no header. Add one at the top: {listed}.",
                "headings for {source} please, they're missing: {listed}",
                "Could you put a first line with the column names {listed} above the rows of {source}?",
                "The columns of {source} are {listed}, but there is no line that says so. Insert it, same separator.",
            ],
            "de": ["In {source} fehlt die Kopfzeile. Setz sie oben ein: {listed}."],
            "fr": ["{source} n'a pas d'en-tête. Ajoute-le en haut : {listed}."],
            "es": ["A {source} le falta el encabezado. Ponlo arriba: {listed}."],
        },
        source=source,
        listed=listed,
        files={source: table.text(header=False)},
        steps=[
            shell(f"sed -i '1i {header.replace(chr(9), chr(92) + 't')}' {source}"),
            shell(f"head -n 2 {source}"),
            finish(f"{source} begins with the headings now."),
        ],
        check=Check(files={source: table.text()}),
    )


_QUOTED = (
    '"Bell, {0}"',
    '"The {0}, part {1}"',
    '"{0}, {2}"',
    '"{0} and {2}, used"',
)


@template
def quoted_commas_column(draw: Draw) -> Task:
    """A comma inside of quotes separates nothing."""
    heading = draw.choice(["title", "company", "description", "address", "what"])
    other = draw.choice(["price", "pages", "year", "votes", "rank"])
    rows = []
    for at in range(draw.randint(3, 7)):
        quoted = at == 0 or draw.random() < 0.5
        text = draw.choice(_QUOTED) if quoted else "{0}"
        rows.append((text.format(draw.word(), draw.randint(1, 9), draw.word()), str(draw.randint(2, 999))))
    draw.shuffle(rows)
    ask_first = draw.random() < 0.4
    column = heading if ask_first else other
    values = [row[0].strip('"') if ask_first else row[1] for row in rows]
    source, target = draw.file("csv"), draw.file()
    return draw.task(
        {
            "en": [
                "List the {column} of each row of {source} in {target}, one per line, without header and quotes.",
                "i want all {column} values from {source} as plain lines in {target}. careful, some cells have commas",
                "{source} has cells with commas in quotes. Please write its column {column} to {target}, a "
                "value per line, "
                "no heading.",
                "What stands under {column} in {source}? Save these values line by line as {target}, quotes removed.",
            ],
            "de": [
                "Schreib die Spalte {column} aus {source} zeilenweise in {target}, ohne Überschrift und Anführungen."
            ],
            "fr": ["Écris la colonne {column} de {source} dans {target}, ligne par ligne, sans en-tête ni guillemets."],
        },
        source=source,
        target=target,
        column=column,
        files={source: f"{heading},{other}\n" + "".join(f"{a},{b}\n" for a, b in rows)},
        steps=[
            shell(
                f"python3 -c \"import csv; [print(row['{column}']) for row in "
                f"csv.DictReader(open('{source}'))]\" > {target}"
            ),
            shell(f"cat {target}"),
            finish(f"{target} has the column {column} of {source}."),
        ],
        check=Check(files={target: "\n".join(values)}),
    )


@template
def table_look_up(draw: Draw) -> Task:
    """The answer is said, and no file changes."""
    table, name, group, amount, _ = draw_table(draw, high=12)
    column = draw.choice([group, amount])
    number = draw.randrange(len(table.rows))
    who = table.values(name)[number]
    value = table.values(column)[number]
    source = draw.file(table.ending)
    task = draw.task(
        {
            "en": [
                "What is the {column} of {who} in {source}?",
                "look up {who} in {source}, i need the {column}",
                "Please tell me which {column} {source} gives for {who}.",
                "I'd like to know {who}'s {column}; it is in {source}.",
            ],
            "de": ["Was steht in {source} bei {who} unter {column}?", "sag mir {column} von {who} laut {source}"],
            "fr": ["Quel est le {column} de {who} d'après {source} ?"],
            "es": ["¿Qué {column} tiene {who} en {source}?"],
        },
        source=source,
        who=who,
        column=column,
        files={source: table.text()},
        steps=[
            shell(f"{table.awk} '${table.at(name)} == \"{who}\" {{print ${table.at(column)}}}' {source}"),
            finish(f"The {column} of {who} is {value}."),
        ],
        check=Check(says=[rf"(?<![\w.-]){value}(?![\w])"]),
    )
    return told(
        task,
        {
            "de": f"Bei {who} steht unter {column}: {value}.",
            "fr": f"Le {column} de {who} est {value}.",
            "es": f"{who} tiene {value} en {column}.",
        },
    )


@template
def table_make_from_words(draw: Draw) -> Task:
    """A table that is told in a sentence."""
    table, *_ = draw_table(draw, low=2, high=4, separators=(",",))
    target = draw.file("csv")
    rows = "; ".join(" ".join(row) for row in table.rows)
    return draw.task(
        {
            "en": [
                "Create the CSV file {target} with the columns {columns} and these rows: {rows}.",
                "make a csv {target}. columns: {columns}. rows: {rows}",
                "I need a comma separated table in {target}. Its header is {columns}, and it holds {rows}.",
                "Could you set up {target} as CSV? {columns} are the columns, the entries are {rows}.",
            ],
            "de": ["Leg die CSV-Datei {target} mit den Spalten {columns} und diesen Zeilen an: {rows}."],
            "fr": ["Crée le fichier CSV {target} avec les colonnes {columns} et ces lignes : {rows}."],
            "pt": ["Crie o arquivo CSV {target} com as colunas {columns} e estas linhas: {rows}."],
        },
        target=target,
        columns=", ".join(table.columns),
        rows=rows,
        files={},
        steps=[
            write(target, table.text()),
            finish(f"{target} has the columns {', '.join(table.columns)} and {len(table.rows)} rows."),
        ],
        check=Check(files={target: table.text()}),
    )
