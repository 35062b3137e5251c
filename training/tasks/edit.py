"""Tasks that change, sort, filter and count lines of text files."""

from training.tasks.draw import Draw, template
from training.tasks.task import Check, Task, finish, shell


@template
def sort_into_another_file(draw: Draw) -> Task:
    """Sorting keeps lines that stand there twice."""
    source, target = draw.file(), draw.file()
    lines = draw.words(draw.randint(3, 9))
    lines += draw.choices(lines, k=draw.choice([0, 0, 1, 2]))
    draw.shuffle(lines)
    return draw.task(
        {
            "en": [
                "Sort the lines of {source} alphabetically and write them to {target}.",
                "put the lines of {source} in alphabetical order into {target}",
                "I need {source} sorted from A to Z. Save it as {target}, leave the original alone.",
                "{source} is a mess, make a sorted copy called {target} please",
                "Please create {target} with the lines of {source} in alphabetical order.",
            ],
            "de": [
                "Sortiere die Zeilen von {source} alphabetisch und schreibe sie nach {target}.",
                "mach mir bitte eine sortierte Kopie von {source}, sie soll {target} heißen",
            ],
            "fr": ["Trie les lignes de {source} par ordre alphabétique dans {target}."],
            "es": ["Ordena las líneas de {source} alfabéticamente y guárdalas en {target}."],
            "pt": ["Ordene as linhas de {source} em ordem alfabética e grave em {target}."],
        },
        source=source,
        target=target,
        files={source: "\n".join(lines) + "\n"},
        steps=[shell(f"LC_ALL=C sort {source} > {target}"), finish(f"{target} has the lines of {source}, sorted.")],
        check=Check(
            either={
                target: [
                    "\n".join(sorted(lines)),
                    "\n".join(sorted(lines, key=str.casefold)),
                ]
            }
        ),
    )


@template
def first_time_each_in_order(draw: Draw) -> Task:
    """A trap: `sort -u` would lose the order."""
    source = draw.file()
    different = draw.words(draw.randint(3, 7))
    lines = different + draw.choices(different, k=draw.randint(2, 4))
    draw.shuffle(lines)
    return draw.task(
        {
            "en": [
                "Remove duplicate lines from {source} but keep the order of the lines.",
                "some lines are in {source} twice or more. keep only the first of each, same order as now",
                "Deduplicate {source} in place; the order must not change.",
            ],
            "de": ["In {source} stehen Zeilen mehrfach. Lass jede nur einmal stehen, in der gleichen Reihenfolge."],
            "fr": ["Supprime les lignes en double de {source} sans changer l'ordre."],
            "es": ["Quita las líneas repetidas de {source} sin cambiar el orden."],
        },
        source=source,
        files={source: "\n".join(lines) + "\n"},
        steps=[
            shell(f"awk '!seen[$0]++' {source} > {source}.new && mv {source}.new {source}"),
            finish(f"{source} has each line once now, in the same order."),
        ],
        check=Check(files={source: "\n".join(dict.fromkeys(lines))}),
    )


@template
def count_lines_with_a_word(draw: Draw) -> Task:
    """Counts lines, not words."""
    source, target = draw.file("log"), draw.file()
    word, other = draw.choice(["error", "warning", "failed", "timeout", "denied"]), draw.words(4)
    lines = [
        f"{draw.amount(10, 23)}:{draw.amount(10, 59)} {draw.choice(other)} {word if draw.random() < 0.5 else 'ok'}"
        for _ in range(draw.randint(4, 12))
    ]
    count = sum(word in line for line in lines)
    return draw.task(
        {
            "en": [
                "How many lines of {source} contain the word {word}? Write the number to {target}.",
                "count the lines with {word} in {source}, put only the number in {target}",
            ],
            "de": ["Wie viele Zeilen von {source} enthalten {word}? Schreib nur die Zahl in {target}."],
            "fr": ["Combien de lignes de {source} contiennent {word} ? Écris le nombre dans {target}."],
        },
        source=source,
        target=target,
        word=word,
        files={source: "\n".join(lines) + "\n"},
        steps=[
            shell(f"grep -c {word} {source} > {target}"),
            shell(f"cat {target}"),
            finish(f"{count} lines of {source} contain {word}; {target} has the number."),
        ],
        check=Check(files={target: str(count)}),
    )
