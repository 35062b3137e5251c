"""Tasks that take, change, sort and remove columns and rows of one table."""

from training.tasks.draw import Draw, template
from training.tasks.figures import told
from training.tasks.table_texts import draw_table
from training.tasks.task import Check, Task, finish, shell


@template
def table_column_to_lines(draw: Draw) -> Task:
    """The heading is no value."""
    table, name, group, _, _ = draw_table(draw)
    column = draw.choice([name, name, group])
    source, target = draw.file(table.ending), draw.file()
    task = draw.task(
        {
            "en": [
                "Take the column {column} out of {source} and put its values into {target}, one per line, no heading.",
                "i only need what's in the {column} column of {source}. one per line in {target}, no header",
                "Could you make {target} for me? It should list every {column} of {source}, header left out.",
                "{target}: all values of {column} from {source}, in the same order, without the name of the column",
            ],
            "de": [
                "Schreib die Werte der Spalte {column} aus {source} zeilenweise in {target}, ohne die Überschrift.",
                "ich brauche nur die spalte {column} von {source}, je zeile ein wert, ohne kopfzeile, in {target}",
            ],
            "fr": ["Mets les valeurs de la colonne {column} de {source} dans {target}, une par ligne, sans l'en-tête."],
            "es": ["Pon en {target} los valores de la columna {column} de {source}, uno por línea, sin el encabezado."],
        },
        source=source,
        target=target,
        column=column,
        files={source: table.text()},
        steps=[
            shell(f"tail -n +2 {source} | {table.cut} -f{table.at(column)} > {target}"),
            finish(f"{target} has the values of the column {column} of {source}, without the heading."),
        ],
        check=Check(files={target: "\n".join(table.values(column))}),
    )
    return told(
        task,
        {
            "de": f"In {target} stehen die Werte der Spalte {column}, ohne Überschrift.",
            "fr": f"{target} contient les valeurs de la colonne {column}, sans l'en-tête.",
            "es": f"{target} tiene los valores de la columna {column}, sin el encabezado.",
        },
    )


@template
def table_keep_two_columns(draw: Draw) -> Task:
    """The columns that are kept stand in the order of the table."""
    table, *_ = draw_table(draw, amounts=2)
    kept = sorted(draw.sample(table.columns, 2), key=table.at)
    source, target = draw.file(table.ending), draw.file(table.ending)
    places = [table.at(each) for each in kept]
    return draw.task(
        {
            "en": [
                "Make {target} from {source} with nothing but the columns {one} and {two}. Keep the header line.",
                "from {source} i want just {one} and {two}, header included, as {target}",
                "Please save a smaller version of {source} as {target}: only {one} and {two}, with their headings.",
                "Which columns do I need? {one} and {two}. Store those of {source}, with header, in {target}.",
            ],
            "de": ["Erstelle {target} aus {source}, aber nur mit den Spalten {one} und {two} samt Kopfzeile."],
            "fr": ["Crée {target} à partir de {source}, avec seulement les colonnes {one} et {two} et leur en-tête."],
            "pt": ["Crie {target} a partir de {source} só com as colunas {one} e {two}, com o cabeçalho."],
        },
        source=source,
        target=target,
        one=kept[0],
        two=kept[1],
        files={source: table.text()},
        steps=[
            shell(f"{table.cut} -f{places[0]},{places[1]} {source} > {target}"),
            finish(f"{target} has the columns {kept[0]} and {kept[1]} of {source}."),
        ],
        check=Check(
            files={
                target: "\n".join(table.line([row[at - 1] for at in places]) for row in (table.columns, *table.rows))
            }
        ),
    )


@template
def table_drop_column(draw: Draw) -> Task:
    """The table is changed where it is."""
    table, *_ = draw_table(draw, amounts=draw.choice([1, 2]))
    column = draw.choice(table.columns)
    at = table.at(column)
    source = draw.file(table.ending)
    left = [each for each in range(1, len(table.columns) + 1) if each != at]
    fields = ",".join(str(each) for each in left)
    return draw.task(
        {
            "en": [
                "Remove the column {column} from {source}.",
                "{source} shouldn't have a {column} column any more, can you take it out?",
                "get rid of {column} in {source} (the whole column, header too)",
                "I'd like {source} without its {column} column; everything else stays the way it is.",
            ],
            "de": [
                "Entferne die Spalte {column} aus {source}.",
                "in {source} soll die spalte {column} weg, rest bleibt",
            ],
            "es": ["Quita la columna {column} de {source}."],
            "pt": ["Tire a coluna {column} de {source}, o resto fica como está."],
        },
        source=source,
        column=column,
        files={source: table.text()},
        steps=[
            shell(f"{table.cut} -f{fields} {source} > {source}.new && mv {source}.new {source}"),
            finish(f"The column {column} is no longer in {source}."),
        ],
        check=Check(
            files={source: "\n".join(table.line([r[i - 1] for i in left]) for r in (table.columns, *table.rows))}
        ),
    )


@template
def table_rename_column(draw: Draw) -> Task:
    """A trap: the word of the heading stands in a row as well."""
    table, name, *_ = draw_table(draw)
    column = draw.choice([name, *table.columns])
    new = draw.choice(["title", "value", "total", "customer", "place", "code", "count", "type"])
    rows = list(table.rows)
    if draw.random() < 0.6:
        number = draw.randrange(len(rows))
        rows[number] = tuple(column if at == table.at(name) - 1 else cell for at, cell in enumerate(rows[number]))
    header = [new if each == column else each for each in table.columns]
    source = draw.file(table.ending)
    return draw.task(
        {
            "en": [
                "In {source}, the column {column} should be called {new}.",
                "rename column {column} to {new} in {source}",
                "Could you rename the {column} heading of {source} to {new}? Only the heading, not the rows.",
                "The heading {column} in {source} is wrong: it ought to say {new}. Leave all rows as they are.",
            ],
            "de": ["Benenne in {source} die Spalte {column} in {new} um, die Zeilen bleiben."],
            "fr": ["Renomme la colonne {column} de {source} en {new}, sans toucher aux lignes."],
            "es": ["Cambia el nombre de la columna {column} de {source} por {new}; las filas quedan igual."],
        },
        source=source,
        column=column,
        new=new,
        files={source: table.text(rows)},
        steps=[
            shell(f"sed -i '1s/\\b{column}\\b/{new}/' {source}"),
            shell(f"head -n 2 {source}"),
            finish(f"The column {column} of {source} is called {new} now."),
        ],
        check=Check(files={source: table.line(header) + "\n" + table.text(rows, header=False)}),
    )


@template
def table_add_constant_column(draw: Draw) -> Task:
    """The heading is not the value."""
    table, *_ = draw_table(draw)
    source = draw.file(table.ending)
    column = draw.choice(["year", "currency", "checked", "source", "country", "state", "edition"])
    value = {
        "year": str(draw.randint(1990, 2030)),
        "currency": draw.choice(["EUR", "USD", "CHF", "NOK"]),
        "checked": draw.choice(["yes", "no"]),
    }.get(column, draw.word())
    rows = [table.line((*row, value)) for row in table.rows]
    return draw.task(
        {
            "en": [
                "Add a column {column} at the end of {source}; every row gets {value}.",
                "{source} needs one more column on the right, {column}, with {value} in each row",
                "Can you append a {column} column to {source} and fill it with {value} everywhere?",
                "new last column for {source}: heading {column}, value {value} for all",
            ],
            "de": ["Häng an {source} eine letzte Spalte {column} an, in jeder Zeile steht {value}."],
            "fr": ["Ajoute à la fin de {source} une colonne {column} qui vaut {value} à chaque ligne."],
            "pt": ["Acrescente no fim de {source} a coluna {column}, com {value} em cada linha."],
        },
        source=source,
        column=column,
        value=value,
        files={source: table.text()},
        steps=[
            shell(f"sed -i '1s/$/{_sed(table.separator)}{column}/; 2,$s/$/{_sed(table.separator)}{value}/' {source}"),
            finish(f"{source} has a last column {column} with {value} in each row."),
        ],
        check=Check(files={source: "\n".join([table.line((*table.columns, column)), *rows])}),
    )


def _sed(separator: str) -> str:
    return "\\t" if separator == "\t" else separator


@template
def table_add_product_column(draw: Draw) -> Task:
    """The product of two columns, as a last one."""
    table, _, _, one, two = draw_table(draw, amounts=2)
    source, column = draw.file(table.ending), draw.choice(["total", "sum_total", "result", "product", "value"])
    a, b = table.at(one), table.at(two)
    plus = draw.random() < 0.4
    sign, word = ("+", "plus") if plus else ("*", "times")
    numbers = [int(r[a - 1]) + int(r[b - 1]) if plus else int(r[a - 1]) * int(r[b - 1]) for r in table.rows]
    lines = [table.line((*row, str(number))) for row, number in zip(table.rows, numbers, strict=True)]
    formula = f"{one} {word} {two}"
    return draw.task(
        {
            "en": [
                "Give {source} one more column, {column}, which is {formula} of the row.",
                "add {column} ({formula}) as last column to {source}",
                "Could you work out {formula} for each row of {source} and write it in a new last column {column}?",
                "What I miss in {source} is a column {column} on the right: {formula}.",
            ],
            "de": ["Ergänze {source} rechts um die Spalte {column}: {one} {sign} {two}."],
            "fr": ["Ajoute à droite dans {source} une colonne {column} : {one} {sign} {two}."],
            "es": ["Añade a {source} una última columna {column} con {one} {sign} {two}."],
        },
        source=source,
        column=column,
        formula=formula,
        sign=sign,
        one=one,
        two=two,
        files={source: table.text()},
        steps=[
            shell(
                f"{table.awk_table} 'NR==1 {{print $0, \"{column}\"; next}} {{print $0, ${a} {sign} ${b}}}' {source} "
                f"> {source}.new && mv {source}.new {source}"
            ),
            shell(f"head -n 3 {source}"),
            finish(f"{source} has a last column {column}, which is {formula}."),
        ],
        check=Check(files={source: "\n".join([table.line((*table.columns, column)), *lines])}),
    )


@template
def table_filter_by_value(draw: Draw) -> Task:
    """A trap: the value stands in another column too, or inside another word."""
    table, name, group, _, _ = draw_table(draw, low=5)
    wanted = draw.choice(table.values(group))
    rows = list(table.rows)
    if draw.random() < 0.6:
        number = draw.choice([at for at, row in enumerate(rows) if row[table.at(group) - 1] != wanted] or [0])
        trap = draw.choice([wanted, f"{wanted}ish", f"un{wanted}"])
        rows[number] = tuple(trap if at == table.at(name) - 1 else cell for at, cell in enumerate(rows[number]))
    source, target = draw.file(table.ending), draw.file(table.ending)
    found = [row for row in rows if row[table.at(group) - 1] == wanted]
    return draw.task(
        {
            "en": [
                "Copy the header and the rows of {source} whose {group} is {wanted} to {target}.",
                "filter {source} by {group} = {wanted}, save as {target} with the header line",
                "I need {target}, a table like {source} but only with rows whose {group} is {wanted}. Header stays.",
                "Which rows of {source} have the {group} {wanted}? Put them in {target}, below the same header.",
            ],
            "de": [
                "Speichere die Zeilen von {source}, in denen {group} gleich {wanted} ist, mit Kopfzeile als {target}.",
                "aus {source} bitte nur die mit {group} {wanted}, mit kopfzeile, nach {target}",
            ],
            "fr": ["Garde dans {target} l'en-tête et les lignes de {source} dont {group} vaut {wanted}."],
            "es": ["Copia a {target} el encabezado y las filas de {source} cuyo {group} es {wanted}."],
        },
        source=source,
        target=target,
        group=group,
        wanted=wanted,
        files={source: table.text(rows)},
        steps=[
            shell(f"{table.awk} 'NR==1 || ${table.at(group)} == \"{wanted}\"' {source} > {target}"),
            finish(f"{target} has the header and the rows of {source} whose {group} is {wanted}."),
        ],
        check=Check(files={target: table.text(found)}),
    )


@template
def table_filter_by_limit(draw: Draw) -> Task:
    """The limit itself stands in a row: more than it, at least it, less than it."""
    table, _, _, amount, _ = draw_table(draw, low=5)
    numbers = sorted(int(each) for each in table.values(amount))
    limit = draw.choice([numbers[len(numbers) // 2], numbers[len(numbers) // 2], numbers[1] + 1])
    sign, english, german, french = draw.choice(
        [
            (">", "more than {0}", "mehr als {0}", "plus de {0}"),
            (">=", "{0} or more", "{0} oder mehr", "{0} ou plus"),
            ("<", "less than {0}", "weniger als {0}", "moins de {0}"),
            ("<=", "at most {0}", "höchstens {0}", "au plus {0}"),
        ]
    )
    at = table.at(amount)
    found = [
        row
        for row in table.rows
        if {">": int(row[at - 1]) > limit, ">=": int(row[at - 1]) >= limit}.get(sign, False)
        or {"<": int(row[at - 1]) < limit, "<=": int(row[at - 1]) <= limit}.get(sign, False)
    ]
    source, target = draw.file(table.ending), draw.file(table.ending)
    return draw.task(
        {
            "en": [
                "Put the rows of {source} with a {amount} of {english} into {target}, with the header.",
                "{target} = header of {source} + all rows where {amount} is {english}",
                "Please pick the rows whose {amount} is {english} from {source} and save them, header first, as "
                "{target}.",
                "can you give me only those lines of {source} that have {english} in {amount}? header on top, "
                "file: {target}",
            ],
            "de": ["Schreib die Kopfzeile und alle Zeilen von {source} mit {german} bei {amount} nach {target}."],
            "fr": ["Enregistre dans {target} l'en-tête et les lignes de {source} qui ont {french} dans {amount}."],
        },
        source=source,
        target=target,
        amount=amount,
        english=english.format(limit),
        german=german.format(limit),
        french=french.format(limit),
        files={source: table.text()},
        steps=[
            shell(f"{table.awk} 'NR==1 || ${at} {sign} {limit}' {source} > {target}"),
            finish(f"{target} has the header and the rows with {amount} {sign} {limit}."),
        ],
        check=Check(files={target: table.text(found)}),
    )


@template
def table_sort_by_number(draw: Draw) -> Task:
    """9 comes before 10, and the header stays on top."""
    table, _, _, amount, _ = draw_table(draw, decimals=0.2)
    down = draw.random() < 0.5
    rows = sorted(table.rows, key=lambda row: float(row[table.at(amount) - 1]), reverse=down)
    same = draw.random() < 0.4
    source = draw.file(table.ending)
    target = source if same else draw.file(table.ending)
    where = "in the same file" if same else f"as {target}"
    german = "in derselben Datei" if same else f"als {target}"
    french = "dans le même fichier" if same else f"dans {target}"
    english = ("largest first", "absteigend", "décroissant") if down else ("smallest first", "aufsteigend", "croissant")
    at = table.at(amount)
    written = f"{source}.new && mv {source}.new {source}" if same else target
    return draw.task(
        {
            "en": [
                "Sort the rows of {source} by {amount}, {order}, {where}. The header stays at the top.",
                "order {source} by the numbers in {amount} ({order}) and save it {where}, header on top",
                "I'd like {source} sorted {where} by its column {amount}, {order}. Mind the header.",
                "Could you sort the table {source} by {amount}? {order} please, saved {where}, below the header.",
            ],
            "de": ["Sortiere die Zeilen von {source} {german} nach {amount}, {deutsch}. Die Kopfzeile bleibt oben."],
            "fr": ["Trie les lignes de {source} par {amount} en ordre {francais}, {french}, avec l'en-tête en haut."],
        },
        source=source,
        amount=amount,
        order=english[0],
        deutsch=english[1],
        francais=english[2],
        where=where,
        german=german,
        french=french,
        files={source: table.text()},
        steps=[
            shell(
                f"(head -n 1 {source}; tail -n +2 {source} | {table.sort} -k{at},{at}{'nr' if down else 'n'}) > "
                f"{written}"
            ),
            shell(f"cat {target}"),
            finish(f"{target} is sorted by {amount}, {english[0]}; the header is still the first line."),
        ],
        check=Check(files={target: table.text(rows)}),
    )


@template
def table_sort_by_name(draw: Draw) -> Task:
    """Alphabetical, below the header."""
    table, name, *_ = draw_table(draw)
    source = draw.file(table.ending)
    at = table.at(name)
    orders = [sorted(table.rows, key=lambda r: r[at - 1]), sorted(table.rows, key=lambda r: r[at - 1].casefold())]
    return draw.task(
        {
            "en": [
                "Sort {source} alphabetically by {name}, keep the first line where it is.",
                "the rows of {source} should be in alphabetical order of {name} (not the header obviously)",
                "Would you put the rows of {source} into alphabetical order by {name}, below the heading?",
                "{source} from A to Z by {name}, in place, header untouched.",
            ],
            "de": ["Sortiere {source} alphabetisch nach {name}; die erste Zeile bleibt die Überschrift."],
            "es": ["Ordena {source} alfabéticamente por {name} y deja el encabezado arriba."],
            "pt": ["Ordene {source} por {name}, de A a Z, com o cabeçalho em cima."],
        },
        source=source,
        name=name,
        files={source: table.text()},
        steps=[
            shell(
                f"(head -n 1 {source}; tail -n +2 {source} | LC_ALL=C {table.sort} -k{at},{at}) > {source}.new "
                f"&& mv {source}.new {source}"
            ),
            finish(f"{source} is sorted by {name}, with the header on top."),
        ],
        check=Check(either={source: [table.text(rows) for rows in orders]}),
    )
