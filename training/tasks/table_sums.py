"""Tasks that add, count and compare what stands in tables."""

from decimal import Decimal

from training.tasks.draw import Draw, template
from training.tasks.figures import forms, quotient, told
from training.tasks.table_texts import draw_table
from training.tasks.task import Check, Task, finish, shell


@template
def table_sum_to_file(draw: Draw) -> Task:
    """Some numbers have decimals."""
    table, _, _, amount, _ = draw_table(draw, high=14, amounts=draw.choice([1, 2]), decimals=0.3)
    values = [Decimal(each) for each in table.values(amount)]
    source, target = draw.file(table.ending), draw.file()
    form = '"%.2f\\n"' if any("." in each for each in table.values(amount)) else ""
    shown = f"printf {form}, s" if form else "print s"
    task = draw.task(
        {
            "en": [
                "Add up {amount} in {source}. Only the sum goes into {target}.",
                "sum of the {amount} column in {source} -> {target}, just the figure",
                "What is the total of the column {amount} in {source}? Please save it in {target}, nothing else.",
                "I'd like to see in {target} what all values of {amount} in {source} make together.",
            ],
            "de": [
                "Addiere die Spalte {amount} von {source} und schreib nur die Summe in {target}.",
                "was ergibt {amount} in {source} zusammen? nur die zahl nach {target}",
            ],
            "fr": ["Additionne la colonne {amount} de {source} et note la somme seule dans {target}."],
            "es": ["Suma la columna {amount} de {source} y guarda solo el total en {target}."],
            "pt": ["Some a coluna {amount} de {source} e grave só o total em {target}."],
        },
        source=source,
        target=target,
        amount=amount,
        files={source: table.text()},
        steps=[
            shell(f"{table.awk} 'NR>1 {{s += ${table.at(amount)}}} END {{{shown}}}' {source} | tee {target}"),
            finish(f"The values of {amount} add up to {sum(values)}; {target} has the sum."),
        ],
        check=Check(either={target: forms(sum(values))}),
    )
    return told(
        task,
        {
            "de": f"Die Summe von {amount} ist {sum(values)}; sie steht in {target}.",
            "fr": f"La somme de {amount} est {sum(values)} ; elle est dans {target}.",
            "es": f"La suma de {amount} es {sum(values)}; está en {target}.",
            "pt": f"A soma de {amount} é {sum(values)}; está em {target}.",
        },
    )


@template
def table_average_rounded(draw: Draw) -> Task:
    """Rounded as asked; the header and the number of rows are traps."""
    table, _, _, amount, _ = draw_table(draw, high=12)
    digits = draw.choice([0, 1, 1, 2, 2])
    numbers = [int(each) for each in table.values(amount)]
    wanted = quotient(sum(numbers), len(numbers), digits)
    source, target = draw.file(table.ending), draw.file()
    places = {
        0: ("a whole number", "eine ganze Zahl", "un nombre entier"),
        1: ("one decimal", "eine Nachkommastelle", "une décimale"),
        2: ("two decimals", "zwei Nachkommastellen", "deux décimales"),
    }[digits]
    return draw.task(
        {
            "en": [
                "Write the average of the column {amount} in {source} to {target}, rounded to {places}.",
                "avg of {amount} in {source}, round it to {places}, put it in {target}",
                "What is the mean {amount} of the rows in {source}? Round to {places} and store it as {target}.",
                "I want {target} to hold the average {amount} from {source}, with rounding to {places}.",
            ],
            "de": [
                "Berechne den Durchschnitt von {amount} in {source}, auf {german} gerundet, und leg ihn in {target} ab."
            ],
            "fr": ["Calcule la moyenne de {amount} dans {source}, arrondie à {french}, et mets-la dans {target}."],
        },
        source=source,
        target=target,
        amount=amount,
        places=places[0],
        german=places[1],
        french=places[2],
        files={source: table.text()},
        steps=[
            shell(
                f"{table.awk} 'NR>1 {{s += ${table.at(amount)}; n++}} END {{printf \"%.{digits}f\\n\", s / n}}' "
                f"{source} "
                f"| tee {target}"
            ),
            finish(f"{target} has the average of {amount}, rounded to {places[0]}."),
        ],
        check=Check(either={target: wanted}),
    )


@template
def table_highest_row_name(draw: Draw) -> Task:
    """By number: 9 is less than 10. Highest or lowest."""
    table, name, _, amount, _ = draw_table(draw, high=12)
    high = draw.random() < 0.5
    numbers = [int(each) for each in table.values(amount)]
    best = (max if high else min)(numbers)
    who = table.values(name)[numbers.index(best)]
    source, target = draw.file(table.ending), draw.file()
    words = ("highest", "höchsten", "le plus grand") if high else ("lowest", "niedrigsten", "le plus petit")
    order = "nr" if high else "n"
    return draw.task(
        {
            "en": [
                "Which {name} has the {word} {amount} in {source}? Write it to {target}, only the {name}.",
                "find the {name} with the {word} {amount} in {source} and save that {name} in {target}",
                "Please put the {name} whose {amount} is the {word} of {source} into {target}, without anything else.",
                "In {target} I want one thing: the {name} from {source} with the {word} {amount}.",
            ],
            "de": ["Welcher Eintrag ({name}) hat in {source} den {deutsch} Wert bei {amount}? Nur ihn nach {target}."],
            "fr": ["Quel {name} de {source} a {francais} {amount} ? Écris seulement ce {name} dans {target}."],
        },
        source=source,
        target=target,
        name=name,
        amount=amount,
        word=words[0],
        deutsch=words[1],
        francais=words[2],
        files={source: table.text()},
        steps=[
            shell(
                f"tail -n +2 {source} | {table.sort} -k{table.at(amount)},{table.at(amount)}{order} | head -n 1 "
                f"| {table.cut} -f{table.at(name)} | tee {target}"
            ),
            finish(f"{who} has the {words[0]} {amount}; {target} says so."),
        ],
        check=Check(files={target: who}),
    )


@template
def table_top_rows(draw: Draw) -> Task:
    """The best few, below the header."""
    table, _, _, amount, _ = draw_table(draw, low=6, high=12)
    count = draw.randint(2, 4)
    low = draw.random() < 0.3
    rows = sorted(table.rows, key=lambda row: int(row[table.at(amount) - 1]), reverse=not low)[:count]
    source, target = draw.file(table.ending), draw.file(table.ending)
    at = table.at(amount)
    words = (
        ("lowest", "kleinsten", "más bajo", "lowest first")
        if low
        else ("highest", "größten", "más alto", "highest first")
    )
    return draw.task(
        {
            "en": [
                "Save the {count} rows of {source} with the {word} {amount} as {target}, header on top, {order}.",
                "top {count} of {source} by {amount} ({order}), with header, into {target}",
                "Could you make {target} with the header of {source} and the {count} rows that have the {word} "
                "{amount}, "
                "{order}?",
                "From {source}, only the {count} with the {word} {amount} interest me. Header and those, "
                "{order}: {target}.",
            ],
            "de": [
                "Speichere Kopfzeile und die {count} Zeilen mit dem {deutsch} {amount} aus {source} in {target}, "
                "sortiert danach."
            ],
            "es": [
                "Guarda en {target} el encabezado y las {count} filas de {source} con {amount} {espanol}, por orden."
            ],
        },
        source=source,
        target=target,
        amount=amount,
        count=count,
        word=words[0],
        order=words[3],
        deutsch=words[1],
        espanol=words[2],
        files={source: table.text()},
        steps=[
            shell(
                f"(head -n 1 {source}; tail -n +2 {source} | {table.sort} -k{at},{at}{'n' if low else 'nr'} "
                f"| head -n {count}) > {target}"
            ),
            shell(f"cat {target}"),
            finish(f"{target} has the {count} rows with the {words[0]} {amount}, {words[3]}."),
        ],
        check=Check(files={target: table.text(rows)}),
    )


@template
def table_count_above(draw: Draw) -> Task:
    """The answer is said; the limit stands in a row."""
    table, _, _, amount, _ = draw_table(draw, low=6, high=14)
    numbers = [int(each) for each in table.values(amount)]
    limit = sorted(numbers)[draw.randint(1, len(numbers) - 2)]
    above = draw.random() < 0.6
    count = sum(each > limit if above else each < limit for each in numbers)
    source = draw.file(table.ending)
    sign = ">" if above else "<"
    words = ("above", "über", "supérieur à") if above else ("below", "unter", "inférieur à")
    task = draw.task(
        {
            "en": [
                "How many rows of {source} have a {amount} {word} {limit}?",
                "number of rows in {source} where {amount} is {word} {limit}?",
                "Please tell me in how many rows of {source} the {amount} lies {word} {limit}.",
                "I wonder how often {amount} is {word} {limit} in {source}.",
            ],
            "de": ["In wie vielen Zeilen von {source} liegt {amount} {deutsch} {limit}?"],
            "fr": ["Combien de lignes de {source} ont un {amount} {francais} {limit} ?"],
        },
        source=source,
        amount=amount,
        limit=limit,
        word=words[0],
        deutsch=words[1],
        francais=words[2],
        files={source: table.text()},
        steps=[
            shell(f"{table.awk} 'NR>1 && ${table.at(amount)} {sign} {limit}' {source} | wc -l"),
            finish(f"In {count} rows of {source} the {amount} is {words[0]} {limit}."),
        ],
        check=Check(says=[rf"(?<![\d.-]){count}(?!\d)"]),
    )
    return told(
        task,
        {
            "de": f"In {count} Zeilen von {source} liegt {amount} {words[1]} {limit}.",
            "fr": f"{count} lignes de {source} ont un {amount} {words[2]} {limit}.",
        },
    )


@template
def table_without_header_sum(draw: Draw) -> Task:
    """A trap: the first line is a row too."""
    table, _, _, amount, _ = draw_table(draw, high=10)
    source, target = draw.file(table.ending), draw.file()
    number = table.at(amount)
    ordinal, german = ["first", "second", "third", "fourth"][number - 1], ["ersten", "zweiten", "dritten", "vierten"]
    total = sum(int(each) for each in table.values(amount))
    count = draw.random() < 0.3
    what = "the number of rows" if count else f"the sum of the {ordinal} column"
    return draw.task(
        {
            "en": [
                "{source} has no header. Write {what} to {target}.",
                "need {what} of {source} in {target}. no heading in there, the first line counts",
                "Could you work out {what} in {source}, which has no line of headings, and keep it in {target}?",
                "The file {source} begins with data at once. I want {what} in {target}, as a bare number.",
            ],
            "de": ["{source} hat keine Kopfzeile. Schreib {was} in {target}."],
            "es": ["{source} no tiene encabezado. Escribe {que} en {target}."],
        },
        source=source,
        target=target,
        what=what,
        was="die Anzahl der Zeilen" if count else f"die Summe der {german[number - 1]} Spalte",
        que="el número de filas" if count else f"la suma de la columna {number}",
        files={source: table.text(header=False)},
        steps=[
            shell(
                f"wc -l < {source} | tee {target}"
                if count
                else f"{table.awk} '{{s += ${number}}} END {{print s}}' {source} | tee {target}"
            ),
            finish(f"{target} has {what}: {len(table.rows) if count else total}."),
        ],
        check=Check(either={target: [str(len(table.rows))] if count else forms(total)}),
    )


@template
def table_add_total_row(draw: Draw) -> Task:
    """A last row with the sum."""
    table, _, _, amount, _ = draw_table(draw, high=8)
    name, number = table.columns[0], table.at(amount)
    if number == 1:
        name = table.columns[1]
    word = draw.choice(["total", "sum", "TOTAL", "all"])
    total = sum(int(each) for each in table.values(amount))
    cells = {table.at(name): word, number: str(total)}
    row = table.line([cells.get(at, "") for at in range(1, len(table.columns) + 1)])
    mark = '"' + ("\\t" if table.separator == "\t" else table.separator) + '"'
    parts = [{table.at(name): f'"{word}"', number: "s"}.get(at, '""') for at in range(1, len(table.columns) + 1)]
    line = f" {mark} ".join(parts)
    source = draw.file(table.ending)
    return draw.task(
        {
            "en": [
                "Add a last row to {source}: {word} under {name}, the sum of {amount} under {amount}, the other "
                "cells empty.",
                "{source} needs a row at the bottom with {word} as {name} and the sum of all {amount}; rest of "
                "it empty",
                "Please finish {source} with a row of totals ({name}: {word}, {amount}: the sum, anything else blank).",
                "Could the table {source} end with a row that has {word} in {name} and the total in {amount}? "
                "Leave its other cells empty.",
            ],
            "de": ["Häng an {source} eine Summenzeile an: {name} ist {word}, {amount} die Summe, der Rest leer."],
            "fr": ["Termine {source} par une ligne : {word} sous {name}, la somme sous {amount}, le reste vide."],
        },
        source=source,
        word=word,
        name=name,
        amount=amount,
        files={source: table.text()},
        steps=[
            shell(
                f"{table.awk} 'NR>1 {{s += ${number}}} 1; END {{print {line}}}' {source} > {source}.new "
                f"&& mv {source}.new {source}"
            ),
            shell(f"tail -n 2 {source}"),
            finish(f"The last row of {source} has the sum of {amount}, {total}."),
        ],
        check=Check(files={source: table.text() + row}),
    )


@template
def tables_compare_sums(draw: Draw) -> Task:
    """Two tables, one answer; the columns may be in another order."""
    one, _, _, amount, _ = draw_table(draw, low=3, high=8)
    other = one
    while other.columns == one.columns or amount not in other.columns:
        other, *_ = draw_table(draw, low=3, high=8, separators=(one.separator,))
        if amount not in other.columns:
            other = type(other)((*other.columns[:-1], amount), other.rows, other.separator)
            numbers = [str(draw.randint(1, 200)) for _ in other.rows]
            rows = tuple((*row[:-1], number) for row, number in zip(other.rows, numbers, strict=True))
            other = type(other)(other.columns, rows, other.separator)
    sums = [sum(int(each) for each in table.values(amount)) for table in (one, other)]
    first, second, target = draw.file(one.ending), draw.file(one.ending), draw.file()
    best = first if sums[0] >= sums[1] else second
    same = sums[0] == sums[1]
    return draw.task(
        {
            "en": [
                "Which of {first} and {second} has the larger sum of {amount}? Write the name of that file to "
                "{target}.",
                "compare {first} and {second}: where is the total {amount} bigger? file name into {target}",
                "Please find out whether {first} or {second} has more {amount} in total, and put its file name "
                "in {target}.",
                "I want the name of one file in {target}: {first} or {second}, whichever has the higher total "
                "{amount}.",
            ],
            "de": ["Welche Datei hat die größere Summe bei {amount}, {first} oder {second}? Ihren Namen in {target}."],
            "fr": ["Lequel de {first} et {second} a la plus grande somme de {amount} ? Son nom dans {target}."],
        },
        first=first,
        second=second,
        target=target,
        amount=amount,
        files={first: one.text(), second: other.text()},
        steps=[
            shell(f"{one.awk} 'NR>1 {{s += ${one.at(amount)}}} END {{print s}}' {first}"),
            shell(f"{other.awk} 'NR>1 {{s += ${other.at(amount)}}} END {{print s}}' {second}"),
            shell(f"echo {best} > {target}"),
            finish(f"{best} has the larger sum: {max(sums)} against {min(sums)}."),
        ],
        check=Check(either={target: [first, second] if same else [best]}),
    )


@template
def tables_sum_over_files(draw: Draw) -> Task:
    """All tables of a folder, each with a header; another file lies among them."""
    folder = draw.folder()
    table, _, _, amount, _ = draw_table(draw, low=6, high=12, separators=(",",))
    cut = sorted(draw.sample(range(1, len(table.rows)), draw.randint(1, 3)))
    parts = [table.rows[a:b] for a, b in zip([0, *cut], [*cut, len(table.rows)], strict=True)]
    names = [f"{folder}/{draw.file('csv')}" for _ in parts]
    files = {name: table.text(part) for name, part in zip(names, parts, strict=True)}
    if draw.random() < 0.5:
        files[f"{folder}/{draw.file('txt')}"] = f"{draw.sentence()}\n1,2,3,44\n"
    target = draw.file()
    total = sum(int(each) for each in table.values(amount))
    return draw.task(
        {
            "en": [
                "Add up the column {amount} of all CSV files in the folder {folder}; the one sum goes to {target}.",
                "sum {amount} over every csv in {folder}, put the grand total in {target}",
                "The folder {folder} has several tables with a column {amount}. I need their overall total in "
                "{target}.",
                "What do all the {amount} values in the .csv files of {folder} make? Store that number as {target}.",
            ],
            "de": ["Addiere {amount} über alle CSV-Dateien im Ordner {folder}; die Gesamtsumme kommt in {target}."],
            "es": ["Suma {amount} de todos los CSV de la carpeta {folder} y guarda el total en {target}."],
        },
        folder=folder,
        target=target,
        amount=amount,
        files=files,
        steps=[
            shell(f"awk -F, 'FNR>1 {{s += ${table.at(amount)}}} END {{print s}}' {folder}/*.csv | tee {target}"),
            finish(f"All {amount} values in {folder} add up to {total}; {target} has it."),
        ],
        check=Check(either={target: forms(total)}),
    )


@template
def table_sum_of_comma_decimals(draw: Draw) -> Task:
    """Numbers such as 12,50, between semicolons."""
    heading, amount = (
        draw.choice(["Ware", "article", "item", "what"]),
        draw.choice(["Preis", "price", "Betrag", "prix"]),
    )
    rows = [(draw.word(), Decimal(draw.randint(5, 4999)) / 100) for _ in range(draw.randint(3, 8))]
    total = sum((number for _, number in rows), Decimal(0))
    source, target = draw.file("csv"), draw.file()
    text = f"{heading};{amount}\n" + "".join(f"{name};{number:.2f}\n".replace(".", ",") for name, number in rows)
    either = [*forms(total), *(each.replace(".", ",") for each in forms(total))]
    return draw.task(
        {
            "en": [
                "The numbers in {source} have decimal commas. Write the sum of {amount} to {target}.",
                "sum up {amount} in {source} (12,50 means twelve and a half) and store it in {target}",
                "What is the total {amount} of {source}? Mind that it uses commas for decimals. Answer into {target}.",
                "Please save the total of {amount} from {source} in {target}; the columns are separated by semicolons.",
            ],
            "de": [
                "Wie hoch ist die Summe von {amount} in {source}? Schreib sie in {target}. Die Zahlen haben Kommas."
            ],
            "fr": [
                "Fais la somme de {amount} dans {source}, où les décimales ont une virgule, et mets-la dans {target}."
            ],
            "es": ["Suma {amount} de {source}, que usa coma decimal, y guarda el resultado en {target}."],
        },
        source=source,
        target=target,
        amount=amount,
        files={source: text},
        steps=[
            shell(f"tr , . < {source} | awk -F';' 'NR>1 {{s += $2}} END {{printf \"%.2f\\n\", s}}' | tee {target}"),
            finish(f"The sum of {amount} is {total}; {target} has it."),
        ],
        check=Check(either={target: either}),
    )


@template
def table_sum_of_products(draw: Draw) -> Task:
    """The product of each row, added up."""
    table, _, _, one, two = draw_table(draw, low=3, high=8, amounts=2)
    a, b = table.at(one), table.at(two)
    total = sum(int(row[a - 1]) * int(row[b - 1]) for row in table.rows)
    source, target = draw.file(table.ending), draw.file()
    return draw.task(
        {
            "en": [
                "Multiply {one} by {two} in each row of {source}, add the products and write the result to {target}.",
                "{target} = sum over {source} of {one} times {two}, one number",
                "What do you get when {one} times {two} is added over all rows of {source}? Keep the figure in "
                "{target}.",
                "I need the overall value of {source}, that is {one} * {two} of every row added up, in {target}.",
            ],
            "de": ["Multipliziere in {source} je Zeile {one} mit {two}, addiere alles und schreib es in {target}."],
            "es": ["Multiplica {one} por {two} en cada fila de {source}, súmalo todo y guárdalo en {target}."],
        },
        source=source,
        target=target,
        one=one,
        two=two,
        files={source: table.text()},
        steps=[
            shell(f"{table.awk} 'NR>1 {{s += ${a} * ${b}}} END {{print s}}' {source} | tee {target}"),
            finish(f"The products add up to {total}; {target} has the number."),
        ],
        check=Check(either={target: forms(total)}),
    )
