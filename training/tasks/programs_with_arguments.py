"""Tasks that ask for a program that works with its arguments, or with what is typed."""

from collections.abc import Mapping, Sequence
from typing import Any

from training.tasks.code_parts import exact, program, ran, text
from training.tasks.draw import Draw, template
from training.tasks.pools import PEOPLE
from training.tasks.task import Check, Task, shell, write

Wordings = Mapping[str, Sequence[str]]


def _called(draw: Draw, wordings: Wordings, code: str, calls: Mapping[str, str], **values: Any) -> Task:
    """Return a task about a program that is called with arguments; `calls` are arguments and what is printed."""
    name = program(draw)
    first = next(iter(calls))
    task = draw.task(
        wordings,
        file=name,
        files={},
        steps=[write(name, code), shell(f"python3 {name} {first}".strip())],
        check=Check(prints={f"python3 -B {name} {given}": shown for given, shown in calls.items()}, free=[name]),
        **values,
    )
    return ran(task, name, calls[first])


@template
def program_greets_who_is_named(draw: Draw) -> Task:
    """Names as arguments; without any it says something else."""
    word = draw.choice(["Hello", "Good evening", "Welcome back", "Ahoy", "Nice to see you", "Good luck"])
    end = draw.choice(["!", ".", ""])
    nobody = draw.choice(["Nobody is here", "No names given", "Who is there?", "Please name somebody"])
    one, two, three = draw.words(3, PEOPLE)
    return _called(
        draw,
        {
            "en": [
                "Write {file}: for each name it is called with it prints {shown} on a line of its own; without"
                " any name it"
                " prints {nobody}",
                "make a python script {file}, names as command-line arguments, one line per name like {shown},"
                " and if no"
                " name is given: {nobody}",
                "When I run {file} with the names {one} and {two}, I want to read {shown} and the same for {two}"
                " below. With"
                " no names it should say: {nobody}",
                "Could you write {file}, which takes any number of names and prints a line such as {shown} for each? If"
                " there are none, it prints: {nobody}",
            ],
            "de": [
                "Schreib {file}: Für jeden Namen, mit dem es aufgerufen wird, gibt es eine Zeile wie {shown} aus,"
                " ohne Namen"
                " nur: {nobody}"
            ],
            "es": [
                "Escribe {file}: por cada nombre que recibe como argumento muestra una línea como {shown}; sin nombres"
                " muestra: {nobody}"
            ],
        },
        text(
            "import sys",
            "",
            "names = sys.argv[1:]",
            "for name in names:",
            f'    print(f"{word}, {{name}}{end}")',
            "if not names:",
            f'    print("{nobody}")',
        ),
        {
            f"{one} {two}": text(f"{word}, {one}{end}", f"{word}, {two}{end}"),
            three: f"{word}, {three}{end}",
            "": nobody,
        },
        one=one,
        two=two,
        shown=f"{word}, {one}{end}",
        nobody=nobody,
        **exact(word, nobody),
    )


@template
def program_calculates_with_arguments(draw: Draw) -> Task:
    """Sum, product, largest or mean of the numbers on the command line."""
    kind, code = draw.choice(
        [
            ("the sum", "print(sum(numbers))"),
            ("the largest", "print(max(numbers))"),
            ("the smallest", "print(min(numbers))"),
            ("the product", "print(math.prod(numbers))"),
            ("the difference of the largest and the smallest", "print(max(numbers) - min(numbers))"),
        ]
    )

    def result(numbers: Sequence[int]) -> str:
        product = 1
        for number in numbers:
            product *= number
        results = {"the sum": sum(numbers), "the largest": max(numbers), "the smallest": min(numbers)}
        rest = product if kind == "the product" else max(numbers) - min(numbers)
        return str(results.get(kind, rest))

    lists = [[draw.randint(-9, 60) for _ in range(size)] for size in (3, draw.randint(2, 6), 1)]
    calls = {" ".join(map(str, numbers)): result(numbers) for numbers in lists}
    german = {
        "the sum": "die Summe",
        "the largest": "die größte",
        "the smallest": "die kleinste",
        "the product": "das Produkt",
    }.get(kind, "den Unterschied der größten und der kleinsten")
    french = {
        "the sum": "la somme",
        "the largest": "le plus grand",
        "the smallest": "le plus petit",
        "the product": "le produit",
    }.get(kind, "l'écart entre le plus grand et le plus petit")
    first, shown = next(iter(calls.items()))
    return _called(
        draw,
        {
            "en": [
                "Write {file} so that it prints {kind} of the whole numbers it is given as arguments: python3 {file}"
                " {given} prints {shown}.",
                "{file}: takes integers on the command line, outputs {kind} of them. e.g. {given} gives {shown}",
                "I need a small Python program, {file}. I call it with some whole numbers like {given}, and it"
                " answers with"
                " {kind} of them ({shown} here).",
                "Would you make a script {file} that shows {kind} of its arguments? They are whole numbers, for"
                " instance"
                " {given}, which must give {shown}.",
            ],
            "de": [
                "Schreib {file}: Es gibt von den ganzen Zahlen, mit denen es aufgerufen wird, {german} aus; bei"
                " {given} also"
                " {shown}."
            ],
            "fr": ["Écris {file} : il affiche {french} des entiers reçus en arguments ; avec {given} c'est {shown}."],
        },
        text(
            "import math" if "math" in code else "import sys",
            *(["import sys"] if "math" in code else []),
            "",
            "numbers = [int(each) for each in sys.argv[1:]]",
            code,
        ),
        calls,
        kind=kind,
        german=german,
        french=french,
        given=first,
        shown=shown,
    )


@template
def program_reads_what_is_typed(draw: Draw) -> Task:
    """Standard input: sums numbers, turns lines around, or counts them."""
    name = program(draw)
    kind, code = draw.choice(
        [
            ("sum", ["print(sum(int(line) for line in sys.stdin))"]),
            ("largest", ["print(max(int(line) for line in sys.stdin))"]),
            ("backwards", ["for line in sys.stdin:", '    print(line.rstrip("\\n")[::-1])']),
            ("capitals", ["for line in sys.stdin:", '    print(line.rstrip("\\n").upper())']),
            ("count", ["print(sum(1 for _ in sys.stdin))"]),
        ]
    )
    english = {
        "sum": "whole numbers, one per line, and prints their sum",
        "largest": "whole numbers, one per line, and prints the largest",
        "backwards": "lines and prints each with its characters in reverse",
        "capitals": "lines and prints each in capital letters",
        "count": "lines and prints how many they were",
    }[kind]
    german = {
        "sum": "ganze Zahlen, eine pro Zeile, und gibt ihre Summe aus",
        "largest": "ganze Zahlen, eine pro Zeile, und gibt die größte aus",
        "backwards": "Zeilen und gibt jede rückwärts aus",
        "capitals": "Zeilen und gibt jede in Großbuchstaben aus",
        "count": "Zeilen und gibt aus, wie viele es waren",
    }[kind]
    spanish = {
        "sum": "números enteros, uno por línea, y muestra la suma",
        "largest": "números enteros, uno por línea, y muestra el mayor",
        "backwards": "líneas y muestra cada una al revés",
        "capitals": "líneas y muestra cada una en mayúsculas",
        "count": "líneas y muestra cuántas eran",
    }[kind]

    def given() -> tuple[str, str]:
        numbers = [draw.randint(-20, 90) for _ in range(draw.randint(2, 5))]
        words = draw.words(len(numbers))
        lines = [str(number) for number in numbers] if kind in ("sum", "largest") else words
        printed = {
            "sum": str(sum(numbers)),
            "largest": str(max(numbers)),
            "backwards": text(*(word[::-1] for word in words)),
            "capitals": text(*(word.upper() for word in words)),
            "count": str(len(words)),
        }[kind]
        return f"printf '{'%s'.join(['', *[chr(92) + 'n'] * len(lines)])}' {' '.join(lines)}", printed

    (first, printed), (second, also) = given(), given()
    task = draw.task(
        {
            "en": [
                "Write {file}. It reads from standard input {what}.",
                "python filter {file}: takes from stdin {what}",
                "I'd like to pipe things into a program called {file}: it gets {what}. Please write it.",
                "Can you create {file}, a script which reads (stdin, until the end) {what}?",
            ],
            "de": ["Schreib {file}: Es liest von der Standardeingabe {german}."],
            "es": ["Escribe {file}: lee de la entrada estándar {spanish}."],
        },
        file=name,
        what=english,
        german=german,
        spanish=spanish,
        files={},
        steps=[write(name, text("import sys", "", *code)), shell(f"{first} | python3 {name}")],
        check=Check(
            prints={f"{first} | python3 -B {name}": printed, f"{second} | python3 -B {name}": also}, free=[name]
        ),
    )
    return ran(task, name, printed)


@template
def program_converts_its_argument(draw: Draw) -> Task:
    """One argument, one result in a form the prompt shows."""
    kind = draw.choice(["binary", "clock", "backwards", "celsius", "letters"])
    number, other = draw.randint(65, 500), draw.randint(5, 3000)
    word, second = draw.word().lower(), draw.word().lower()
    cases = {
        "binary": (
            "a whole number and prints it in binary",
            "eine ganze Zahl und gibt sie binär aus",
            "um número inteiro e o mostra em binário",
            'print(f"{int(sys.argv[1]):b}")',
            {str(number): f"{number:b}", str(other): f"{other:b}"},
        ),
        "clock": (
            "a number of minutes and prints hours and minutes, both with two digits",
            "eine Anzahl Minuten und gibt Stunden und Minuten aus, beide mit zwei Ziffern",
            "uma quantidade de minutos e mostra horas e minutos, ambos com dois dígitos",
            'minutes = int(sys.argv[1])\nprint(f"{minutes // 60:02}:{minutes % 60:02}")',
            {str(each): f"{each // 60:02}:{each % 60:02}" for each in (number, other)},
        ),
        "backwards": (
            "a word and prints it backwards",
            "ein Wort und gibt es rückwärts aus",
            "uma palavra e a mostra ao contrário",
            "print(sys.argv[1][::-1])",
            {each: each[::-1] for each in (word, second)},
        ),
        "celsius": (
            "degrees Fahrenheit and prints degrees Celsius with one decimal",
            "Grad Fahrenheit und gibt Grad Celsius mit einer Nachkommastelle aus",
            "graus Fahrenheit e mostra graus Celsius com uma casa decimal",
            'print(f"{(float(sys.argv[1]) - 32) * 5 / 9:.1f}")',
            {str(each): f"{(each - 32) * 5 / 9:.1f}" for each in (number, other)},
        ),
        "letters": (
            "a word and prints its letters with a hyphen between them",
            "ein Wort und gibt seine Buchstaben mit Bindestrichen dazwischen aus",
            "uma palavra e mostra as letras separadas por hífens",
            'print("-".join(sys.argv[1]))',
            {each: "-".join(each) for each in (word, second)},
        ),
    }
    english, german, portuguese, code, calls = cases[kind]
    given, shown = next(iter(calls.items()))
    return _called(
        draw,
        {
            "en": [
                "Write {file}, it takes {what}: with {given} it prints {shown}",
                "script {file}. argument: {what}. so {given} gives {shown}",
                "I call a program {file} with {what}. Example: {given} becomes {shown}. Please write that program"
                " in Python.",
                "Could {file} be a Python script that takes {what}, for example {shown} for {given}?",
            ],
            "de": ["Schreib {file}: Es nimmt {german}; bei {given} also {shown}"],
            "pt": ["Escreva {file}: ele recebe {portuguese}; com {given} mostra {shown}"],
        },
        text("import sys", "", *code.split("\n")),
        calls,
        what=english,
        german=german,
        portuguese=portuguese,
        given=given,
        shown=shown,
    )


@template
def program_searches_a_file(draw: Draw) -> Task:
    """Called with a file and a word, it prints the lines with that word; a word inside a word is a trap."""
    name, source = program(draw), draw.file()
    word, absent, *others = [each.lower() for each in draw.words(6)]
    lines = [f"{draw.choice(others)} {draw.choice([word, word, word + 's', draw.choice(others)])}" for _ in range(6)]
    lines[draw.randrange(6)] = f"{word} {others[0]}"
    lines[draw.randrange(5)] += " end"
    found = [f"{at}: {line}" for at, line in enumerate(lines, start=1) if word in line.split()]
    nothing = draw.choice(["nothing found", "not there", "no such word", "none"])
    if not found:
        lines.append(word)
        found = [f"7: {word}"]
    task = draw.task(
        {
            "en": [
                "Write {file}; I call it with the name of a file and a word, and it prints the lines that have"
                " this whole"
                " word, with their numbers (like {shown}). If there is no such line, it prints {nothing}",
                "search script {file} FILE WORD: prints 'number: line' for lines with exactly that word between"
                " the spaces,"
                " else prints {nothing}. test it with {source} and {word}",
                "Please make a Python program {file} that finds a word in a file. Both are arguments; the output"
                " has lines"
                " such as {shown}, or just {nothing} if the word is in no line. Words inside of longer words do"
                " not count.",
                "Could you write {file}, called as in: {file} {source} {word}? It lists the lines where the word"
                " stands by"
                " itself in the form {shown}, and says {nothing} when there are none.",
            ],
            "de": [
                "Schreib {file}: Es bekommt eine Datei und ein Wort und gibt die Zeilen mit diesem ganzen Wort"
                " samt Nummer"
                " aus, etwa {shown}; gibt es keine, dann {nothing}"
            ],
            "pt": [
                "Escreva {file}: recebe um arquivo e uma palavra e mostra as linhas com essa palavra inteira e o"
                " seu número,"
                " como {shown}; se não houver, mostra {nothing}"
            ],
        },
        file=name,
        source=source,
        word=word,
        shown=found[0],
        nothing=nothing,
        files={source: text(*lines)},
        steps=[
            write(
                name,
                text(
                    "import sys",
                    "",
                    "path, word = sys.argv[1:]",
                    "found = False",
                    "with open(path) as file:",
                    "    for number, line in enumerate(file, start=1):",
                    "        if word in line.split():",
                    '            print(f"{number}: {line.rstrip()}")',
                    "            found = True",
                    "if not found:",
                    f'    print("{nothing}")',
                ),
            ),
            shell(f"python3 {name} {source} {word}"),
        ],
        check=Check(
            prints={
                f"python3 -B {name} {source} {word}": text(*found),
                f"python3 -B {name} {source} {absent}x": nothing,
            },
            free=[name],
        ),
        **exact(nothing, found[0]),
    )
    return ran(task, name, text(*found))
