"""Tasks that ask for a program that reads a file and reports, or writes another one."""

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from training.tasks.code_parts import done, exact, module, ran, read_first, text
from training.tasks.draw import Draw, template
from training.tasks.pools import PEOPLE
from training.tasks.task import Check, Task, shell, write

Wordings = Mapping[str, Sequence[str]]


def _reading(draw: Draw, wordings: Wordings, code: str, sources: Sequence[tuple[str, str, str]], **values: Any) -> Task:
    """Return a task about a program that reads a file; `sources`: name, text and print, first what is there."""
    name = module(draw)
    (source, first, printed), *further = sources
    later = {f"printf %s {shlex.quote(other)} > {path} && python3 -B {name}": shown for path, other, shown in further}
    task = draw.task(
        wordings,
        file=name,
        source=source,
        files={source: first},
        steps=[*read_first({source: first}, source), write(name, code), shell(f"python3 {name}")],
        check=Check(prints={f"python3 -B {name}": printed, **later}, free=[name]),
        **values,
    )
    return ran(task, name, printed)


@template
def program_reports_numbers_of_a_file(draw: Draw) -> Task:
    """Sum, smallest, largest, count; negative numbers and empty lines may be there."""
    asked = draw.sample(["sum", "smallest", "largest", "count"], draw.randint(2, 3))
    how: dict[str, Callable[[list[int]], int]] = {"sum": sum, "smallest": min, "largest": max, "count": len}
    python = {"sum": "sum", "smallest": "min", "largest": "max", "count": "len"}
    gaps = draw.random() < 0.3

    def source(size: int) -> tuple[str, str]:
        values = [draw.randint(-40, 200) for _ in range(size)]
        lines = [str(each) for each in values]
        if gaps:
            lines.insert(draw.randint(1, size - 1), "")
        return text(*lines), text(*(f"{each}: {how[each](values)}" for each in asked))

    path = draw.file()
    english = {"sum": "their sum", "smallest": "the smallest", "largest": "the largest", "count": "how many there are"}
    what = ", ".join(english[each] for each in asked)
    form = ", ".join(f"{each}: …" for each in asked)
    extra = {
        "en": " Empty lines are to be skipped." if gaps else "",
        "de": " Leere Zeilen zählen nicht." if gaps else "",
        "fr": " Les lignes vides ne comptent pas." if gaps else "",
    }
    return _reading(
        draw,
        {
            "en": [
                f"{{source}} has a number on each line. Write {{file}} that reads it and prints {{what}}, a line for"
                f" each: {{form}}.{extra['en']}",
                f"python program {{file}} reading the numbers in {{source}}, prints a line each: {{form}}{extra['en']}",
                f"Please write {{file}}; from the numbers of {{source}} it should work out {{what}} and print it this"
                f" way, a line each: {{form}}.{extra['en']}",
                f"Could I get a script {{file}} for the numbers in {{source}}? A line each is printed for {{what}}:"
                f" {{form}}.{extra['en']}",
            ],
            "de": [
                f"In {{source}} steht auf jeder Zeile eine Zahl. Schreib {{file}}, das die Datei liest und diese Zeilen"
                f" ausgibt: {{form}}.{extra['de']}"
            ],
            "fr": [
                f"{{source}} contient un nombre par ligne. Écris {{file}}, qui le lit et affiche ces lignes : {{form}}."
                f"{extra['fr']}"
            ],
        },
        text(
            f'with open("{path}") as file:',
            "    numbers = [int(line) for line in file if line.strip()]"
            if gaps
            else "    numbers = [int(line) for line in file]",
            *(f'print("{each}:", {python[each]}(numbers))' for each in asked),
        ),
        [(path, *source(draw.randint(3, 9))), (path, *source(draw.randint(3, 6)))],
        what=what,
        form=form,
    )


@template
def program_finds_the_longest_word(draw: Draw) -> Task:
    """The longest or shortest word; the first one where several are as long."""
    longest = draw.random() < 0.6
    path = draw.file()

    def source() -> tuple[str, str]:
        words = [word.lower() for word in draw.words(draw.randint(5, 9))]
        cut = draw.randint(2, len(words) - 2)
        found = (max if longest else min)(words, key=len)
        return text(" ".join(words[:cut]), " ".join(words[cut:])), found

    kind = {"en": "longest", "de": "längste", "pt": "mais longa"} if longest else {}
    kind = kind or {"en": "shortest", "de": "kürzeste", "pt": "mais curta"}
    return _reading(
        draw,
        {
            "en": [
                f"Write {{file}}. It reads {{source}} and prints the {kind['en']} word in it, the first if several are"
                " equally long.",
                f"script {{file}}: print the {kind['en']} word of {{source}} (if there's a tie take the first one)",
                f"Which word in {{source}} is the {kind['en']}? I'd like a Python program {{file}} that prints it;"
                " where two"
                " have the same length, the one that comes first.",
                f"Please create {{file}} so that it shows me the {kind['en']} word of {{source}}; in a tie the"
                " earlier wins.",
            ],
            "de": [
                f"Schreib {{file}}: Es liest {{source}} und gibt das {kind['de']} Wort aus, bei Gleichstand das erste.",
            ],
            "pt": [
                f"Escreva {{file}}, que lê {{source}} e mostra a palavra {kind['pt']}; em caso de empate, a primeira.",
            ],
        },
        text(
            f'with open("{path}") as file:',
            "    words = file.read().split()",
            f"print({'max' if longest else 'min'}(words, key=len))",
        ),
        [(path, *source()), (path, *source())],
    )


@template
def program_counts_words_of_a_file(draw: Draw) -> Task:
    """Every word with its number, alphabetical or the most frequent first."""
    path = draw.file()
    by_number = draw.random() < 0.5

    def source() -> tuple[str, str]:
        words = [word.lower() for word in draw.words(4)]
        counts = dict(zip(words, draw.sample(range(1, 6), 4), strict=True))
        spread = [word for word in words for _ in range(counts[word])]
        draw.shuffle(spread)
        lines = [" ".join(spread[at : at + 4]) for at in range(0, len(spread), 4)]
        key = (lambda word: (-counts[word], word)) if by_number else (lambda word: (0, word))
        return text(*lines), text(*(f"{word} {counts[word]}" for word in sorted(words, key=key)))

    order = {
        "en": "the most frequent first" if by_number else "in alphabetical order",
        "de": "das häufigste zuerst" if by_number else "alphabetisch geordnet",
        "es": "primero la más frecuente" if by_number else "en orden alfabético",
    }
    sort = "sorted(counts, key=counts.get, reverse=True)" if by_number else "sorted(counts)"
    return _reading(
        draw,
        {
            "en": [
                f"Write a program {{file}} to count the words in {{source}}: a line for each word with the word, a"
                " space and"
                f" its number, {order['en']}.",
                f"word frequencies of {{source}} with {{file}}, lines 'word number', {order['en']}",
                f"I'd like to see how often each word is used in {{source}}. Let {{file}} print word and number on"
                " a line,"
                f" {order['en']}.",
                f"How often does every word of {{source}} occur? {{file}} should tell: one word per line, then a"
                " blank, then"
                f" the number, {order['en']}.",
            ],
            "de": [
                f"Schreib {{file}}: Es zählt die Wörter von {{source}}, je Zeile Wort, Leerzeichen, Anzahl,"
                f" {order['de']}.",
            ],
            "es": [
                f"Escribe {{file}}, que cuenta las palabras de {{source}}: en cada línea la palabra, un espacio y"
                " cuántas"
                f" veces está, {order['es']}."
            ],
        },
        text(
            "counts = {}",
            f'with open("{path}") as file:',
            "    for word in file.read().split():",
            "        counts[word] = counts.get(word, 0) + 1",
            f"for word in {sort}:",
            "    print(word, counts[word])",
        ),
        [(path, *source()), (path, *source())],
    )


@template
def program_adds_up_groups(draw: Draw) -> Task:
    """A CSV file with a header; a sum for each group, in alphabetical order."""
    path = draw.file("csv")
    group, amount = draw.choice(
        [("place", "sold"), ("person", "hours"), ("room", "visitors"), ("day", "rain"), ("kind", "cost")]
    )
    note = draw.random() < 0.4

    def source() -> tuple[str, str]:
        names = draw.words(3)
        rows = [(draw.choice(names), draw.randint(1, 60)) for _ in range(draw.randint(4, 8))]
        sums: dict[str, int] = {}
        for name, number in rows:
            sums[name] = sums.get(name, 0) + number
        head = f"{group},note,{amount}" if note else f"{group},{amount}"
        lines = [f"{name},{draw.amount()},{number}" if note else f"{name},{number}" for name, number in rows]
        return text(head, *lines), text(*(f"{name}: {sums[name]}" for name in sorted(sums)))

    return _reading(
        draw,
        {
            "en": [
                "Write {file}, a program that reads {source} and prints the sum of {amount} for every {group},"
                " sorted by"
                " {group}, in the form {form}",
                "sum {amount} per {group} from {source}, python, file name {file}, lines like {form} sorted"
                " alphabetically",
                "Please make {file} for me: for each {group} in {source} one line like {form} where the number is"
                " all its"
                " {amount} together; the lines alphabetically.",
                "What is the {amount} of each {group} in {source} altogether? {file} should print it as {form},"
                " one {group}"
                " per line from A to Z.",
            ],
            "de": [
                "Schreib {file}: Es liest {source} und gibt für jedes {group} die Summe von {amount} aus,"
                " alphabetisch, in der"
                " Form {form}"
            ],
            "fr": [
                "Écris {file}, qui lit {source} et affiche pour chaque {group} la somme de {amount}, par ordre"
                " alphabétique,"
                " sous la forme {form}"
            ],
        },
        text(
            "import csv",
            "",
            "sums = {}",
            f'with open("{path}", newline="") as file:',
            "    for row in csv.DictReader(file):",
            f'        sums[row["{group}"]] = sums.get(row["{group}"], 0) + int(row["{amount}"])',
            "for name in sorted(sums):",
            '    print(f"{name}: {sums[name]}")',
        ),
        [(path, *source()), (path, *source())],
        group=group,
        amount=amount,
        form=f"{draw.word()}: {draw.amount()}",
    )


def _numbered(lines: Sequence[str]) -> list[str]:
    return [f"{at}. {line}" for at, line in enumerate(lines, start=1)]


@template
def program_writes_a_changed_copy(draw: Draw) -> Task:
    """The program reads one file and writes another; it is run once, and would work for other lines."""
    name, source, target = module(draw), draw.file(), draw.file()
    kind, make, loop = draw.choice(
        [
            (
                "numbered",
                _numbered,
                ["for number, line in enumerate(lines, start=1):", '    print(f"{number}. {line}", file=file)'],
            ),
            (
                "backwards",
                lambda lines: list(reversed(lines)),
                ["for line in reversed(lines):", "    print(line, file=file)"],
            ),
            (
                "capitals",
                lambda lines: [each.upper() for each in lines],
                ["for line in lines:", "    print(line.upper(), file=file)"],
            ),
            (
                "lengths",
                lambda lines: [f"{each} {len(each)}" for each in lines],
                ["for line in lines:", "    print(line, len(line), file=file)"],
            ),
        ]
    )
    english = {
        "numbered": "with a number before each line (1. 2. 3. and a space)",
        "backwards": "with the last line first and the first line last",
        "capitals": "in capital letters",
        "lengths": "with a space and the number of its characters after every line",
    }[kind]
    german = {
        "numbered": "mit einer Nummer vor jeder Zeile (1. 2. 3. und ein Leerzeichen)",
        "backwards": "mit der letzten Zeile zuerst und der ersten zuletzt",
        "capitals": "in Großbuchstaben",
        "lengths": "mit einem Leerzeichen und der Anzahl der Zeichen hinter jeder Zeile",
    }[kind]
    portuguese = {
        "numbered": "com um número antes de cada linha (1. 2. 3. e um espaço)",
        "backwards": "com a última linha primeiro e a primeira por último",
        "capitals": "em letras maiúsculas",
        "lengths": "com um espaço e o número de caracteres depois de cada linha",
    }[kind]
    lines, others = [f"{one} {two}" for one, two in zip(draw.words(4), draw.words(4), strict=True)], draw.words(3)
    again = f"printf %s {shlex.quote(text(*others))} > {source} && python3 -B {name} > /dev/null && cat {target}"
    task = draw.task(
        {
            "en": [
                "Write a program {file} that copies {source} to {target} {how}. Run it.",
                "{file} should read {source} and write {target}: the same text {how}. write it, run it",
                "I want {target} to be {source} {how}. Please do it with a Python script named {file}, and run"
                " that script.",
                "Can you write and run {file}? It takes {source} and makes {target} out of it, {how}.",
            ],
            "de": ["Schreib {file} und führ es aus: Es kopiert {source} nach {target}, {german}."],
            "pt": ["Escreva {file} e execute: ele copia {source} para {target} {portuguese}."],
        },
        file=name,
        source=source,
        target=target,
        how=english,
        german=german,
        portuguese=portuguese,
        files={source: text(*lines)},
        steps=[
            write(
                name,
                text(
                    f'with open("{source}") as file:',
                    "    lines = file.read().splitlines()",
                    f'with open("{target}", "w") as file:',
                    *(f"    {each}" for each in loop),
                ),
            ),
            shell(f"python3 {name} && cat {target}"),
        ],
        check=Check(files={target: text(*make(lines))}, free=[name], prints={again: text(*make(others))}),
    )
    said = {
        "en": "{file} is written and was run: {target} is there.",
        "de": "{file} ist geschrieben und ausgeführt: {target} ist da.",
        "pt": "{file} foi escrito e executado: {target} está pronto.",
    }
    return done(task, said, file=name, target=target)


@template
def program_reports_on_a_list_in_json(draw: Draw) -> Task:
    """Reads JSON and prints who passes a limit, in the order of the file; the limit itself is a trap."""
    path = draw.file("json")
    key = draw.choice(["age", "points", "visits", "height", "balance"])
    limit = draw.randint(20, 60)
    above = draw.random() < 0.5

    def source() -> tuple[str, str]:
        people = draw.words(4, PEOPLE)
        entries = [{"name": name, key: draw.choice([limit, draw.randint(1, 99)])} for name in people]
        entries[0][key], entries[1][key] = limit - 5, limit + 7
        draw.shuffle(entries)
        found = [str(e["name"]) for e in entries if (e[key] > limit if above else e[key] < limit)]  # type: ignore[operator]
        return json.dumps(entries, indent=2) + "\n", text(*found)

    sign = ">" if above else "<"
    return _reading(
        draw,
        {
            "en": [
                "Write {file}. It reads {source} and prints the names of all whose {key} is {sign} {limit}, one"
                " per line.",
                "{file} should print every name in {source} with {key} {sign} {limit}, a name per line, same order",
                "From the list in {source} I need the names where {key} {sign} {limit}; make a Python program"
                " {file} that"
                " prints them below each other.",
                "Who in {source} has {key} {sign} {limit}? Let a program called {file} print the names, each on"
                " its line.",
            ],
            "de": [
                "Schreib {file}: Es liest {source} und gibt die Namen aus, bei denen {key} {sign} {limit} ist, je"
                " einen pro Zeile.",
            ],
            "fr": [
                "Écris {file} : il lit {source} et affiche les noms pour lesquels {key} {sign} {limit}, un par ligne.",
            ],
        },
        text(
            "import json",
            "",
            f'with open("{path}") as file:',
            "    entries = json.load(file)",
            "for entry in entries:",
            f'    if entry["{key}"] {sign} {limit}:',
            '        print(entry["name"])',
        ),
        [(path, *source()), (path, *source())],
        key=key,
        sign=sign,
        limit=limit,
    )


@template
def program_draws_bars(draw: Draw) -> Task:
    """A line of signs for each number of a file."""
    path, sign = draw.file("csv"), draw.choice(["#", "*", "=", "+", "o"])

    def source() -> tuple[str, str]:
        rows = [(name.lower(), draw.randint(0, 15)) for name in draw.words(draw.randint(3, 5))]
        return text(*(f"{name},{n}" for name, n in rows)), text(*(f"{name} {sign * n}" for name, n in rows))

    shown = f"{draw.word().lower()} {sign * 4}"
    return _reading(
        draw,
        {
            "en": [
                "Every line of {source} is a name, a comma and a number. Write {file} to print the name, a space"
                " and that"
                " many {sign} signs for each, for instance {shown}",
                "bar chart in the terminal: {file} reads {source} (name,number) and prints lines like {shown}",
                "I would love to see {source} as bars. {file} should print a line for each entry, name, space,"
                " and as many"
                " {sign} as the number says: {shown} stands for 4.",
                "Can you write a program {file} which turns the lines of {source} into bars of {sign}? Like"
                " {shown} for 4.",
            ],
            "de": ["Schreib {file}: Es liest {source} (Name,Zahl) und gibt Balken aus, Zeilen wie {shown} für 4."],
            "es": ["Escribe {file}: lee {source} (nombre,número) y dibuja barras, con líneas como {shown} para 4."],
        },
        text(
            f'with open("{path}") as file:',
            "    for line in file:",
            '        name, number = line.strip().split(",")',
            f'        print(name, "{sign}" * int(number))',
        ),
        [(path, *source()), (path, *source())],
        sign=sign,
        shown=shown,
        **exact(shown),
    )
