"""Tasks that count and add by the values of a column."""

from collections import Counter

from training.tasks.draw import Draw, template
from training.tasks.figures import forms, told
from training.tasks.table_texts import draw_table
from training.tasks.task import Check, Task, finish, shell


@template
def table_count_by_group(draw: Draw) -> Task:
    """How often each value stands there, in a form that is given."""
    table, _, group, _, _ = draw_table(draw, low=5, high=12)
    counted = Counter(table.values(group))
    source, target = draw.file(table.ending), draw.file()
    mark, shown = draw.choice([(": ", "{0}: {1}"), (",", "{0},{1}"), (" ", "{0} {1}"), ("=", "{0}={1}")])
    first = min(counted)
    return draw.task(
        {
            "en": [
                "Count the rows of {source} for each {group}. Write lines like {example} to {target}, sorted by "
                "{group}.",
                "how often does each {group} occur in {source}? lines such as {example} in {target}, alphabetical",
                "I need a count by {group} for {source}: {target}, one line each in the form {example}, from A to Z.",
                "Please tally {source} by {group} in {target}. A line looks like {example}; sort them by {group}.",
            ],
            "de": [
                "Zähle die Zeilen von {source} je {group}, als Zeilen wie {example} in {target}, nach {group} sortiert."
            ],
            "fr": ["Compte les lignes de {source} par {group} : des lignes comme {example} dans {target}, triées."],
            "es": ["Cuenta las filas de {source} por {group} y escribe líneas como {example} en {target}, ordenadas."],
        },
        source=source,
        target=target,
        group=group,
        example=shown.format("some" + first[-1:], 3) if draw.random() < 0.3 else shown.format("xyz", 7),
        files={source: table.text()},
        steps=[
            shell(
                f"{table.awk} 'NR>1 {{n[${table.at(group)}]++}} END {{for (k in n) print k \"{mark}\" n[k]}}' {source} "
                f"| LC_ALL=C sort > {target}"
            ),
            shell(f"cat {target}"),
            finish(f"{target} has the number of rows for each {group}."),
        ],
        check=Check(
            either={
                target: [
                    "\n".join(shown.format(each, counted[each]) for each in sorted(counted)),
                    "\n".join(shown.format(each, counted[each]) for each in sorted(counted, key=str.casefold)),
                ]
            }
        ),
    )


@template
def table_sum_by_group(draw: Draw) -> Task:
    """A table of sums, with a header of its own."""
    table, _, group, amount, _ = draw_table(draw, low=5, high=10)
    sums: dict[str, int] = {}
    for name, number in zip(table.values(group), table.values(amount), strict=True):
        sums[name] = sums.get(name, 0) + int(number)
    source, target = draw.file(table.ending), draw.file("csv")
    a, b = table.at(group), table.at(amount)
    return draw.task(
        {
            "en": [
                "Sum up {amount} per {group} in {source}. Save a CSV {target} with the header {group},{amount}, "
                "sorted by {group}.",
                "{target}: total {amount} for each {group} of {source}, as csv, header {group},{amount}, a to z",
                "How much {amount} does each {group} have in {source}? I want that as {target}: first line "
                "{group},{amount}, then the sums in the order of the alphabet.",
                "Please total the {amount} of {source} by {group} into the CSV file {target} (header {group},{amount}; "
                "rows sorted by {group}).",
            ],
            "de": ["Summiere {amount} je {group} aus {source} in {target}: Kopfzeile {group},{amount}, dann sortiert."],
            "pt": ["Some {amount} por {group} de {source} em {target}: cabeçalho {group},{amount} e linhas ordenadas."],
        },
        source=source,
        target=target,
        group=group,
        amount=amount,
        files={source: table.text()},
        steps=[
            shell(
                f"(echo {group},{amount}; {table.awk} 'NR>1 {{s[${a}] += ${b}}} END "
                f'{{for (k in s) print k "," s[k]}}\' '
                f"{source} | LC_ALL=C sort) > {target}"
            ),
            shell(f"cat {target}"),
            finish(f"{target} has the sum of {amount} for each {group}."),
        ],
        check=Check(files={target: f"{group},{amount}\n" + "".join(f"{each},{sums[each]}\n" for each in sorted(sums))}),
    )


@template
def table_count_rows_of_group(draw: Draw) -> Task:
    """A trap: the word stands in another column, or inside another word."""
    table, name, group, _, _ = draw_table(draw, low=5, high=12)
    wanted = draw.choice(table.values(group))
    rows = list(table.rows)
    for number in draw.sample(range(len(rows)), draw.choice([0, 1, 2])):
        trap = draw.choice([wanted, f"{wanted}by", f"mc{wanted}"])
        rows[number] = tuple(trap if at == table.at(name) - 1 else cell for at, cell in enumerate(rows[number]))
    count = table.values(group).count(wanted)
    source, target = draw.file(table.ending), draw.file()
    task = draw.task(
        {
            "en": [
                "In how many rows of {source} is {wanted} the {group}? The number belongs in {target}.",
                "count rows with {group} {wanted} in {source}, result to {target} (number only)",
                "Please find out how many entries of {source} have {wanted} as {group} and note the count in {target}.",
                "{target} should contain the number of rows in {source} whose {group} is {wanted}.",
            ],
            "de": ["In wie vielen Zeilen von {source} ist {group} gleich {wanted}? Die Anzahl kommt in {target}."],
            "fr": ["Combien de lignes de {source} ont {wanted} comme {group} ? Mets ce nombre dans {target}."],
            "es": ["¿En cuántas filas de {source} es {wanted} el valor de {group}? Apunta el número en {target}."],
        },
        source=source,
        target=target,
        group=group,
        wanted=wanted,
        files={source: table.text(rows)},
        steps=[
            shell(f"{table.awk} '${table.at(group)} == \"{wanted}\"' {source} | wc -l | tee {target}"),
            finish(f"{count} rows of {source} have the {group} {wanted}; {target} has the number."),
        ],
        check=Check(files={target: str(count)}),
    )
    return told(
        task,
        {
            "de": f"In {count} Zeilen ist {group} gleich {wanted}; die Zahl steht in {target}.",
            "fr": f"{count} lignes ont {wanted} comme {group} ; le nombre est dans {target}.",
            "es": f"{count} filas tienen {wanted} en {group}; el número está en {target}.",
        },
    )


@template
def table_sum_of_one_group(draw: Draw) -> Task:
    """Only the rows of one value are added."""
    table, _, group, amount, _ = draw_table(draw, low=6, high=12)
    wanted = draw.choice(table.values(group))
    pairs = zip(table.values(group), table.values(amount), strict=True)
    total = sum(int(number) for each, number in pairs if each == wanted)
    source, target = draw.file(table.ending), draw.file()
    return draw.task(
        {
            "en": [
                "Add the {amount} of all rows in {source} that have {wanted} as {group}. Save the result as {target}.",
                "total {amount} in {source} but only for {group} {wanted}, into {target}",
                "How much {amount} do the rows with the {group} {wanted} have in {source} altogether? Note it "
                "in {target}.",
                "I need one figure in {target}: the sum of {amount} over those rows of {source} whose {group} "
                "is {wanted}.",
            ],
            "de": ["Addiere {amount} nur für die Zeilen mit {group} {wanted} in {source}; Ergebnis nach {target}."],
            "fr": [
                "Additionne {amount} des seules lignes de {source} où {group} vaut {wanted} ; résultat dans {target}."
            ],
            "pt": ["Some {amount} só das linhas de {source} com {group} {wanted} e grave em {target}."],
        },
        source=source,
        target=target,
        group=group,
        amount=amount,
        wanted=wanted,
        files={source: table.text()},
        steps=[
            shell(
                f"{table.awk} '${table.at(group)} == \"{wanted}\" {{s += ${table.at(amount)}}} END {{print s}}' "
                f"{source} "
                f"| tee {target}"
            ),
            finish(f"The {amount} of {wanted} adds up to {total}; {target} has it."),
        ],
        check=Check(either={target: forms(total)}),
    )


@template
def table_count_different_values(draw: Draw) -> Task:
    """How many different ones, or which."""
    table, _, group, _, _ = draw_table(draw, low=5, high=14)
    values = sorted(set(table.values(group)))
    source, target = draw.file(table.ending), draw.file()
    at = table.at(group)
    listed = f"tail -n +2 {source} | {table.cut} -f{at} | LC_ALL=C sort -u"
    if draw.random() < 0.5:
        return draw.task(
            {
                "en": [
                    "How many different values has the column {group} in {source}? Save the number as {target}.",
                    "count the distinct {group} values in {source}, number goes to {target}",
                    "Please note in {target} how many different entries there are under {group} in {source}.",
                ],
                "de": ["Wie viele verschiedene Werte hat {group} in {source}? Die Anzahl nach {target}."],
                "es": ["¿Cuántos valores distintos tiene {group} en {source}? Guarda el número en {target}."],
            },
            source=source,
            target=target,
            group=group,
            files={source: table.text()},
            steps=[
                shell(f"{listed} | wc -l | tee {target}"),
                finish(f"{group} has {len(values)} different values; {target} has the number."),
            ],
            check=Check(files={target: str(len(values))}),
        )
    return draw.task(
        {
            "en": [
                "List every {group} of {source} once, in alphabetical order, in {target}.",
                "which {group} values are there in {source}? each once, sorted, to {target}",
                "I'd like {target} to show the different values of {group} from {source}, from A to Z, one per line.",
            ],
            "de": ["Schreib jeden Wert von {group} aus {source} einmal, alphabetisch, in {target}."],
            "fr": ["Liste dans {target} chaque valeur de {group} de {source} une seule fois, par ordre alphabétique."],
        },
        source=source,
        target=target,
        group=group,
        files={source: table.text()},
        steps=[shell(f"{listed} > {target}"), finish(f"{target} has each {group} once, sorted.")],
        check=Check(either={target: ["\n".join(values), "\n".join(sorted(values, key=str.casefold))]}),
    )


@template
def table_most_common_value(draw: Draw) -> Task:
    """One value stands there more often than the others."""
    table, _, group, _, _ = draw_table(draw, low=5, high=10)
    at = table.at(group)
    best = draw.choice(table.values(group))
    more = [tuple(best if each == at - 1 else cell for each, cell in enumerate(row)) for row in table.rows[:3]]
    rows = [*table.rows, *more]
    counted = Counter(row[at - 1] for row in rows)
    while [number for _, number in counted.most_common(2)][-1] == counted[best] and len(counted) > 1:
        rows.append(more[0])
        counted[best] += 1
    best = counted.most_common(1)[0][0]
    draw.shuffle(rows)
    source, target = draw.file(table.ending), draw.file()
    return draw.task(
        {
            "en": [
                "Which {group} occurs most often in {source}? Put it alone into {target}.",
                "most frequent {group} of {source} into {target} (only the value)",
                "Please determine the commonest {group} in {source} and write nothing but it to {target}.",
                "{target} should name the {group} that most rows of {source} have.",
            ],
            "de": ["Welcher Wert von {group} kommt in {source} am häufigsten vor? Nur ihn nach {target}."],
            "pt": ["Qual {group} aparece mais vezes em {source}? Grave só ele em {target}."],
        },
        source=source,
        target=target,
        group=group,
        files={source: table.text(rows)},
        steps=[
            shell(f"tail -n +2 {source} | {table.cut} -f{at} | sort | uniq -c | sort -nr"),
            shell(f"echo {best} > {target}"),
            finish(f"{best} occurs most often as {group}; {target} has it."),
        ],
        check=Check(files={target: best}),
    )
