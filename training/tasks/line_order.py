"""Tasks about the order of lines: number, turn around, move, join, split, take parts."""

from training.tasks import pools
from training.tasks.answers import LOWER, kept, text_of
from training.tasks.draw import Draw, template
from training.tasks.task import Check, Task, finish, shell


@template
def lines_numbered(draw: Draw) -> Task:
    """Each line gets its number, in one of several forms."""
    source, lines = draw.file(), draw.words(draw.randint(3, 13), LOWER)
    mark = draw.choice([". ", ") ", ": ", " - "])
    return draw.task(
        {
            "en": [
                'Number the lines of {source} so that the first reads "{example}".',
                'put numbers in front of the lines in {source} like this: "{example}"',
                '{source} should be a numbered list: "{example}", and so on.',
                'Could every line of {source} begin with its number? The first would then be "{example}".',
            ],
            "de": ['Nummeriere die Zeilen von {source}; die erste lautet dann "{example}".'],
            "fr": ['Numérote les lignes de {source} ; la première devient "{example}".'],
            "pt": ['Numere as linhas de {source}; a primeira fica "{example}".'],
        },
        source=source,
        example=f"1{mark}{lines[0]}",
        **kept(lines[0]),
        files={source: text_of(lines)},
        steps=[
            shell(f"awk '{{print NR \"{mark}\" $0}}' {source} > {source}.new && mv {source}.new {source}"),
            finish(f"The {len(lines)} lines of {source} are numbered."),
        ],
        check=Check(files={source: text_of(f"{at}{mark}{line}" for at, line in enumerate(lines, 1))}),
    )


@template
def lines_reversed(draw: Draw) -> Task:
    """The last line comes first."""
    source, target, lines = draw.file(), draw.file(), [draw.sentence() for _ in range(draw.randint(3, 8))]
    same = draw.random() < 0.5
    step = f"tac {source} > {source}.new && mv {source}.new {source}" if same else f"tac {source} > {target}"
    en, de = ("in the same file", "in derselben Datei") if same else (f"in {target}", f"in {target}")
    return draw.task(
        {
            "en": [
                "Turn the order of the lines of {source} around, so that the last one comes first; result {en}.",
                "{source} backwards, last line on top ({en})",
                "I want the lines of {source} in reverse order {en}.",
                "Could you write the lines of {source} from bottom to top {en}?",
            ],
            "de": ["Kehre die Reihenfolge der Zeilen von {source} um, Ergebnis {de}."],
            "fr": ["Inverse l'ordre des lignes de {source} ({french})."],
        },
        source=source,
        en=en,
        de=de,
        french="dans le même fichier" if same else f"résultat dans {target}",
        files={source: text_of(lines)},
        steps=[shell(step), finish(f"The lines of {source} are in reverse order {en}.")],
        check=Check(files={source if same else target: text_of(reversed(lines))}),
    )


@template
def lines_joined(draw: Draw) -> Task:
    """All lines become one, with a sign between them and none at the end."""
    source, target, lines = draw.file(), draw.file(), draw.words(draw.randint(3, 9), LOWER)
    sign, en, de = draw.choice(
        [
            (", ", "comma and a space", "Komma und Leerzeichen"),
            (";", "semicolon", "Strichpunkt"),
            (" ", "space", "Leerzeichen"),
        ]
    )
    end = draw.choice(["\n", ""])
    step = (
        f"paste -sd '{sign}' {source} > {target}"
        if len(sign) == 1
        else f"paste -sd , {source} | sed 's/,/, /g' > {target}"
    )
    return draw.task(
        {
            "en": [
                "Join the lines of {source} into a single line, separated by a {en}, and save it as {target}.",
                "all lines of {source} on one line in {target}, {en} in between",
                "{target} should have one line with everything from {source}; put a {en} between the entries.",
                "Can you write the entries of {source} one after another, with a {en} between two, to {target}?",
            ],
            "de": ["Verbinde die Zeilen von {source} zu einer einzigen in {target}, dazwischen {de}."],
            "es": ["Une las líneas de {source} en una sola, separadas por «{sign}», y guárdala en {target}."],
        },
        source=source,
        target=target,
        sign=sign,
        en=en,
        de=de,
        files={source: "\n".join(lines) + end},
        steps=[shell(step), finish(f"{target} has the {len(lines)} entries on one line.")],
        check=Check(files={target: sign.join(lines)}),
    )


@template
def line_split_up(draw: Draw) -> Task:
    """One line with several entries becomes several lines."""
    source, target, words = draw.file(), draw.file(), draw.words(draw.randint(3, 9), LOWER)
    sign, name = draw.choice([(", ", "commas"), (";", "semicolons"), (" | ", "bars"), (",", "commas")])
    step = f"sed 's/{sign}/\\n/g' {source} > {target}"
    return draw.task(
        {
            "en": [
                "{source} has one line, its entries separated by {name}. Write each on a line of its own to {target}.",
                "split {source} at the {name}, one entry per line, into {target}",
                "I'd like the entries from {source} listed below each other in {target}.",
                "Please make {target} from {source}: every entry between the {name} gets its own line.",
            ],
            "de": ["Schreib die Einträge aus {source} einzeln untereinander in {target}."],
            "fr": ["Mets chaque élément de {source} sur sa propre ligne dans {target}."],
            "pt": ["Coloque cada item de {source} em uma linha própria em {target}."],
        },
        source=source,
        target=target,
        name=name,
        files={source: sign.join(words) + "\n"},
        steps=[shell(step), finish(f"{target} has the {len(words)} entries, one per line.")],
        check=Check(files={target: text_of(words)}),
    )


@template
def line_moved_to_an_end(draw: Draw) -> Task:
    """One line goes to the top or to the bottom; the others keep their order."""
    source, lines = draw.file(), draw.words(draw.randint(4, 9), LOWER)
    at, top = draw.randint(1, len(lines) - 2), draw.random() < 0.5
    line = lines[at]
    rest = [*lines[:at], *lines[at + 1 :]]
    en, de, es = ("top", "an den Anfang", "al principio") if top else ("bottom", "ans Ende", "al final")
    step = (
        f"{{ grep -x {line} {source}; grep -vx {line} {source}; }} > {source}.new"
        if top
        else f"{{ grep -vx {line} {source}; grep -x {line} {source}; }} > {source}.new"
    )
    return draw.task(
        {
            "en": [
                "Move the line {line} to the {en} of {source}.",
                "{line} belongs at the {en} of {source}, rest in the same order",
                "In {source}, {line} stands somewhere in the middle. I want it at the {en}.",
                "Can {line} be at the very {en} of {source}?",
            ],
            "de": ["Setze in {source} die Zeile {line} {de}."],
            "es": ["En {source}, mueve la línea {line} {es}."],
        },
        source=source,
        line=line,
        en=en,
        de=de,
        es=es,
        files={source: text_of(lines)},
        steps=[shell(f"{step} && mv {source}.new {source}"), finish(f"{line} is at the {en} of {source} now.")],
        check=Check(files={source: text_of([line, *rest] if top else [*rest, line])}),
    )


@template
def two_lines_swapped(draw: Draw) -> Task:
    """Two lines change places."""
    source, lines = draw.file(), draw.words(draw.randint(4, 9), LOWER)
    one, two = sorted(draw.sample(range(len(lines)), 2))
    first, second = lines[one], lines[two]
    result = list(lines)
    result[one], result[two] = second, first
    return draw.task(
        {
            "en": [
                "Swap the lines {first} and {second} in {source}.",
                "in {source}, {first} and {second} are in the wrong places, exchange them",
                "{source} has {first} where {second} should be, and the reverse. Please correct that.",
                "Could {first} and {second} trade places in {source}?",
            ],
            "de": ["Vertausche in {source} die Zeilen {first} und {second}."],
            "fr": ["Échange les lignes {first} et {second} dans {source}."],
        },
        source=source,
        first=first,
        second=second,
        files={source: text_of(lines)},
        steps=[
            shell(f"sed -i -e 's/^{first}$/{second}/;t' -e 's/^{second}$/{first}/' {source}"),
            finish(f"{first} and {second} have changed places in {source}."),
        ],
        check=Check(files={source: text_of(result)}),
    )


@template
def file_cut_in_two(draw: Draw) -> Task:
    """The first lines go to one file, the rest to another."""
    source, one, two = draw.file(), draw.file(), draw.file()
    lines = draw.words(draw.randint(5, 14), LOWER)
    count = draw.randint(1, len(lines) - 2)
    return draw.task(
        {
            "en": [
                "Split {source}: the first {count} lines into {one}, the rest into {two}.",
                "first {count} lines of {source} -> {one}, all the others -> {two}",
                "I need two files from {source}. {one} gets the first {count} lines and {two} what is left.",
                "Can you put the first {count} lines of {source} in {one} and the remaining ones in {two}?",
            ],
            "de": ["Teile {source}: die ersten {count} Zeilen nach {one}, den Rest nach {two}."],
            "pt": ["Divida {source}: as primeiras {count} linhas em {one}, o resto em {two}."],
        },
        source=source,
        one=one,
        two=two,
        count=count,
        files={source: text_of(lines)},
        steps=[
            shell(f"head -n {count} {source} > {one} && tail -n +{count + 1} {source} > {two}"),
            finish(f"{one} has the first {count} lines of {source}, {two} the other {len(lines) - count}."),
        ],
        check=Check(files={one: text_of(lines[:count]), two: text_of(lines[count:])}),
    )


@template
def entry_at_its_place(draw: Draw) -> Task:
    """A word comes into a sorted list, at its place."""
    source, words = draw.file(), draw.words(draw.randint(4, 10), LOWER)
    count = draw.choice([1, 1, 2])
    new, there = words[:count], sorted(words[count:])
    return draw.task(
        {
            "en": [
                "{source} is an alphabetical list. Add {new} at the right place.",
                "put {new} into {source}, the list has to stay in alphabetical order",
                "I keep {source} sorted from a to z. Can {new} be added to it?",
                "Please enter {new} in the sorted list {source}, each on its own line, where it belongs.",
            ],
            "de": ["{source} ist alphabetisch sortiert. Füge {new} an der richtigen Stelle ein."],
            "fr": ["La liste {source} est triée. Ajoute {new} au bon endroit."],
            "es": ["Añade {new} a la lista ordenada {source}, en su sitio."],
        },
        source=source,
        new=" + ".join(new),
        **kept(*new),
        files={source: text_of(there)},
        steps=[
            shell(f"printf '%s\\n' {' '.join(new)} >> {source} && sort -o {source} {source}"),
            finish(f"{' and '.join(new)} stand{'s' * (count == 1)} at the right place in {source}."),
        ],
        check=Check(files={source: text_of(sorted(words))}),
    )


@template
def every_other_line(draw: Draw) -> Task:
    """Every second or third line."""
    source, target, lines = draw.file(), draw.file(), draw.words(draw.randint(6, 14), LOWER)
    step = draw.choice([2, 2, 3])
    start = draw.choice([1, step])
    wanted = lines[start - 1 :: step]
    listed = ", ".join(str(start + step * at) for at in range(2))
    return draw.task(
        {
            "en": [
                "Write lines {listed}, … (every {name} line) of {source} to {target}.",
                "{target} = every {name} line of {source}, starting with line {start}",
                "Beginning with line {start}, I want every {name} line from {source} in {target}.",
                "Can you copy each {name} line of {source}, the first being line {start}, to {target}?",
            ],
            "de": ["Schreib jede {german} Zeile von {source}, ab Zeile {start}, nach {target}."],
            "pt": ["Grave em {target} as linhas {listed}, … de {source}."],
        },
        source=source,
        target=target,
        name="second" if step == 2 else "third",
        german="zweite" if step == 2 else "dritte",
        start=start,
        listed=listed,
        files={source: text_of(lines)},
        steps=[shell(f"sed -n '{start}~{step}p' {source} > {target}"), finish(f"{target} has {len(wanted)} lines.")],
        check=Check(files={target: text_of(wanted)}),
    )


@template
def part_of_each_line(draw: Draw) -> Task:
    """The first or the last word of each line."""
    source, target, last = draw.file(), draw.file(), draw.random() < 0.5
    lines = [
        " ".join(
            [draw.word(pools.PEOPLE), *draw.words(draw.randint(1, 2), LOWER), str(draw.amount())][: draw.randint(2, 4)]
        )
        for _ in range(draw.randint(3, 8))
    ]
    wanted = [line.split()[-1 if last else 0] for line in lines]
    en, de, fr = ("last", "letzte", "dernier") if last else ("first", "erste", "premier")
    return draw.task(
        {
            "en": [
                "Write the {en} word of each line of {source} to {target}.",
                "{en} words of the lines in {source} into {target}, one per line",
                "{target} should hold just the {en} word from every line of {source}, same order.",
                "From {source} I need only the {en} word of every line, as {target}.",
            ],
            "de": ["Schreib von jeder Zeile in {source} nur das {de} Wort nach {target}."],
            "fr": ["Mets dans {target} le {fr} mot de chaque ligne de {source}."],
        },
        source=source,
        target=target,
        en=en,
        de=de,
        fr=fr,
        files={source: text_of(lines)},
        steps=[
            shell(f"awk '{{print {'$NF' if last else '$1'}}}' {source} > {target}"),
            finish(f"{target} has the {en} word of each of the {len(lines)} lines."),
        ],
        check=Check(files={target: text_of(wanted)}),
    )
