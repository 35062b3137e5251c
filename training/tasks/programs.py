"""Tasks that ask for a small program that prints numbers."""

from collections.abc import Mapping, Sequence
from typing import Any

from training.tasks.code_parts import exact, program, ran, text
from training.tasks.draw import Draw, template
from training.tasks.task import Check, Task, shell, write

Wordings = Mapping[str, Sequence[str]]


def printing(draw: Draw, wordings: Wordings, code: str, printed: str, **values: Any) -> Task:
    """Return the task of writing a program that prints this."""
    name = program(draw)
    task = draw.task(
        wordings,
        file=name,
        files={},
        steps=[write(name, code), shell(f"python3 {name}")],
        check=Check(prints={f"python3 -B {name}": printed}, free=[name]),
        **values,
    )
    return ran(task, name, printed)


@template
def program_prints_multiples(draw: Draw) -> Task:
    """Multiples between two limits, sometimes downwards."""
    step = draw.randint(3, 19)
    low = step * draw.randint(2, 9)
    high = low + step * draw.randint(3, 9) + draw.randint(0, step - 1)
    found = list(range(low, high + 1, step))
    down = draw.random() < 0.3
    if down:
        loop = f"range({found[-1]}, {low - 1}, -{step})"
        found.reverse()
    else:
        loop = f"range({low}, {high + 1}, {step})"
    order = {
        "en": "the largest first" if down else "the smallest first",
        "de": "die größte zuerst" if down else "die kleinste zuerst",
        "pt": "do maior para o menor" if down else "do menor para o maior",
    }
    return printing(
        draw,
        {
            "en": [
                f"Write {{file}}. It prints every multiple of {{step}} between {{low}} and {{high}}, {order['en']},"
                " each on a line of its own.",
                f"i need a python program {{file}} listing the multiples of {{step}} from {{low}} up to at most"
                f" {{high}},"
                f" {order['en']}, one on each line",
                f"Can you make {{file}}, a Python script for the numbers between {{low}} and {{high}} (both included)"
                f" that {{step}} divides? One number a line, {order['en']}.",
                f"{{file}} should output all numbers from {{low}} to {{high}} divisible by {{step}}, {order['en']},"
                " nothing else. Please write and run it.",
            ],
            "de": [
                f"Schreib ein Programm {{file}}, das alle Vielfachen von {{step}} zwischen {{low}} und {{high}}"
                " ausgibt,"
                f" {order['de']}, jede Zahl in einer eigenen Zeile."
            ],
            "pt": [
                f"Escreva {{file}}, que imprime os múltiplos de {{step}} entre {{low}} e {{high}}, {order['pt']},"
                " um por linha."
            ],
        },
        text(f"for number in {loop}:", "    print(number)"),
        text(*map(str, found)),
        step=step,
        low=low,
        high=high,
    )


@template
def program_prints_a_sum(draw: Draw) -> Task:
    """One number: the sum of squares, cubes, odd or even numbers."""
    last = draw.randint(5, 120)
    kind, term, loop = draw.choice(
        [
            ("squares", "number * number", "range(1, {0})"),
            ("cubes", "number ** 3", "range(1, {0})"),
            ("odd", "number", "range(1, {0}, 2)"),
            ("even", "number", "range(2, {0}, 2)"),
        ]
    )
    loop = loop.format(last + 1)
    result = {
        "squares": sum(n * n for n in range(last + 1)),
        "cubes": sum(n**3 for n in range(last + 1)),
        "odd": sum(n for n in range(last + 1) if n % 2),
        "even": sum(n for n in range(last + 1) if not n % 2),
    }[kind]
    english = {
        "squares": "the squares of all numbers",
        "cubes": "the cubes of all numbers",
        "odd": "all odd numbers",
        "even": "all even numbers",
    }[kind]
    german = {"squares": "Quadrate der", "cubes": "dritten Potenzen der", "odd": "ungeraden", "even": "geraden"}[kind]
    french = {
        "squares": "des carrés des nombres",
        "cubes": "des cubes des nombres",
        "odd": "des nombres impairs",
        "even": "des nombres pairs",
    }[kind]
    return printing(
        draw,
        {
            "en": [
                f"Write a Python program {{file}} that adds up {english} from 1 to {{last}} and prints the sum.",
                f"{{file}}: sum of {english} from 1 to {{last}}, print just the result",
                f"What do {english} from 1 to {{last}} come to? Write {{file}} for it, it should print only that"
                " number.",
                f"I'd like a script called {{file}} which works out the sum of {english} from 1 up to {{last}}.",
            ],
            "de": [
                f"Schreibe {{file}}: Es soll die Summe der {german} Zahlen von 1 bis {{last}} ausgeben, sonst nichts."
            ],
            "fr": [f"Écris un programme {{file}} qui affiche la somme {french} de 1 à {{last}}, rien d'autre."],
        },
        text(f"print(sum({term} for number in {loop}))") if term != "number" else text(f"print(sum({loop}))"),
        str(result),
        last=last,
    )


@template
def program_prints_primes(draw: Draw) -> Task:
    """Primes between limits, on one line or below each other; 1 is none."""
    low = draw.choice([1, 2, draw.randint(3, 60)])
    high = low + draw.randint(12, 60)
    found = [n for n in range(max(low, 2), high + 1) if all(n % k for k in range(2, n))]
    one_line = draw.random() < 0.4
    how = {
        "en": "on one line with spaces between them" if one_line else "each on its own line",
        "de": "in einer Zeile mit Leerzeichen dazwischen" if one_line else "jede in einer eigenen Zeile",
        "es": "en una sola línea, separados por espacios" if one_line else "cada uno en su línea",
    }
    code = text(
        "def is_prime(number):",
        "    return number > 1 and all(number % divisor for divisor in range(2, int(number**0.5) + 1))",
        "",
        "",
        f"primes = [number for number in range({low}, {high + 1}) if is_prime(number)]",
        "print(*primes)" if one_line else 'print(*primes, sep="\\n")',
    )
    return printing(
        draw,
        {
            "en": [
                f"Write {{file}} to print all primes from {{low}} to {{high}}, {how['en']}.",
                f"make a script {{file}} that shows the prime numbers between {{low}} and {{high}}, {how['en']}",
                f"Which numbers from {{low}} to {{high}} are prime? I want a program for that, {{file}}; it prints them"
                f" {how['en']}.",
                f"Prime numbers between {{low}} and {{high}} please, {how['en']}, by a Python program {{file}}.",
            ],
            "de": [f"Schreib mir {{file}}, das die Primzahlen von {{low}} bis {{high}} ausgibt, {how['de']}."],
            "es": [f"Escribe {{file}}, un programa que muestre los números primos de {{low}} a {{high}}, {how['es']}."],
        },
        code,
        " ".join(map(str, found)) if one_line else text(*map(str, found)),
        low=low,
        high=high,
    )


@template
def program_prints_a_times_table(draw: Draw) -> Task:
    """A table of products in a form that the prompt shows."""
    factor, last = draw.randint(3, 25), draw.randint(6, 15)
    sign = draw.choice(["x", "*", "times"])
    line = draw.choice(["{a} {sign} {b} = {c}", "{b} {sign} {a} = {c}", "{a} {sign} {b} is {c}"])
    rows = [line.format(a=factor, b=n, c=factor * n, sign=sign) for n in range(1, last + 1)]
    shown = line.format(a=factor, b="{number}", c=f"{{{factor} * number}}", sign=sign)
    return printing(
        draw,
        {
            "en": [
                "Write a program {file} for the times table of {factor} up to {last}. The first line it prints is"
                " {first} and the last one {final}.",
                "times table of {factor} as a python script {file}, lines like {first}, going up to {final}",
                "My son learns to multiply by {factor}. Please write {file}; it prints {first}, then {second},"
                " and so on"
                " until {final}.",
                "Could {file} print a multiplication table? It begins with {first} and ends with {final}, {last}"
                " lines.",
            ],
            "fr": [
                "Écris {file} : il affiche la table de multiplication de {factor}, de {first} à {final}, une ligne par"
                " produit."
            ],
            "pt": [
                "Faça um programa {file} que mostra a tabuada do {factor}: a primeira linha é {first}, a última"
                " {final}."
            ],
        },
        text(f"for number in range(1, {last + 1}):", f'    print(f"{shown}")'),
        text(*rows),
        factor=factor,
        last=last,
        first=rows[0],
        second=rows[1],
        final=rows[-1],
        **exact("times"),
    )


@template
def program_prints_fibonacci(draw: Draw) -> Task:
    """As many numbers as asked for, or all below a limit."""
    by_count = draw.random() < 0.5
    limit = draw.randint(6, 20) if by_count else draw.randint(50, 5000)
    start = draw.choice([(0, 1), (1, 1), (1, 2), (2, 5)])
    a, b = start
    found: list[int] = []
    while len(found) < limit if by_count else a < limit:
        found.append(a)
        a, b = b, a + b
    loop = f"for _ in range({limit}):" if by_count else f"while a < {limit}:"
    first = f"{start[0]} and {start[1]}"
    end = {
        "en": f"{limit} numbers in all" if by_count else f"only numbers below {limit}",
        "de": f"insgesamt {limit} Zahlen" if by_count else f"nur Zahlen unter {limit}",
        "fr": f"{limit} nombres en tout" if by_count else f"seulement les nombres inférieurs à {limit}",
    }
    return printing(
        draw,
        {
            "en": [
                f"Write {{file}}: it prints a sequence that begins with {first}, and every further number is the sum of"
                f" the two before it. Print {end['en']}, one per line.",
                f"fibonacci style sequence starting with {first}, {end['en']}, one a line. put it in {{file}} and"
                " run it",
                f"Please create a Python program {{file}} for the Fibonacci sequence; start with {first}, print"
                f" {end['en']}, each on a new line.",
                f"Can I have a script {{file}} that starts with {first} and goes on adding the last two numbers?"
                f" {end['en'].capitalize()}, one on each line.",
            ],
            "de": [
                f"Schreib {{file}}: Die Folge beginnt mit {start[0]} und {start[1]}, jede weitere Zahl ist die"
                " Summe der"
                f" beiden davor; {end['de']}, eine pro Zeile."
            ],
            "fr": [
                f"Écris {{file}} : une suite qui commence par {start[0]} et {start[1]}, chaque nombre suivant est"
                " la somme"
                f" des deux précédents ; {end['fr']}, un par ligne."
            ],
        },
        text(f"a, b = {start[0]}, {start[1]}", loop, "    print(a)", "    a, b = b, a + b"),
        text(*map(str, found)),
    )


@template
def program_prints_a_conversion_table(draw: Draw) -> Task:
    """Two columns with one decimal."""
    unit, other, factor, formula = draw.choice(
        [
            ("kilometres", "miles", 0.6214, "{0} * 0.6214"),
            ("kilograms", "pounds", 2.2046, "{0} * 2.2046"),
            ("litres", "gallons", 0.2642, "{0} * 0.2642"),
            ("metres", "feet", 3.2808, "{0} * 3.2808"),
            ("inches", "centimetres", 2.54, "{0} * 2.54"),
        ]
    )
    start, step = draw.choice([1, 5, 10, 20]), draw.choice([1, 2, 5, 10, 25])
    last = start + step * draw.randint(3, 9)
    between = draw.choice([" ", " = ", " -> ", ": ", ";"])
    rows = [f"{n}{between}{n * factor:.1f}" for n in range(start, last + 1, step)]
    value = formula.format("value")
    return printing(
        draw,
        {
            "en": [
                "Write a program {file} that prints a table of {unit} and {other} (1 of the first is {factor} of the"
                " second): {start} to {last} {unit} in steps of {step}, one decimal. The first line is {first}",
                "{file} = table {unit} to {other}, factor {factor}, from {start} to {last} by {step}, rounded to one"
                " decimal. lines look like this: {first}",
                "I need to convert {unit} into {other}, times {factor}. Please make a Python script {file} which lists"
                " {start}, {second} … {last} {unit} with one decimal, like {first}",
                "How many {other} are {start} to {last} {unit}? Multiply by {factor}. {file} should print it for every"
                " {step} {unit}, one decimal, the first line being {first}",
            ],
            "de": [
                "Schreib {file}: eine Tabelle von {start} bis {last} in Schritten von {step}, jeweils mal {factor}, auf"
                " eine Nachkommastelle. Die erste Zeile ist {first}"
            ],
            "es": [
                "Haz un programa {file} que muestre una tabla de {start} a {last}, de {step} en {step},"
                " multiplicado por"
                " {factor} con un decimal. La primera línea es {first}"
            ],
        },
        text(
            f"for value in range({start}, {last + 1}, {step}):",
            f'    print(f"{{value}}{between}{{{value}:.1f}}")',
        ),
        text(*rows),
        unit=unit,
        other=other,
        factor=factor,
        start=start,
        step=step,
        second=start + step,
        last=last,
        first=rows[0],
    )


@template
def program_prints_until_one(draw: Draw) -> Task:
    """Halve an even number, else triple it and add one: prints the numbers, or only how many steps it took."""
    start = draw.randint(5, 90)
    path = [start]
    while path[-1] != 1:
        path.append(path[-1] // 2 if path[-1] % 2 == 0 else 3 * path[-1] + 1)
    only_count = draw.random() < 0.5
    loop = [
        "while number != 1:",
        "    number = number // 2 if number % 2 == 0 else 3 * number + 1",
    ]
    if only_count:
        code = text(f"number = {start}", "steps = 0", *loop, "    steps += 1", "print(steps)")
    else:
        code = text(f"number = {start}", "print(number)", *loop, "    print(number)")
    asked = {
        "en": "print only how many steps it took"
        if only_count
        else f"print every number, {start} and 1 too, one per line",
        "fr": "affiche seulement le nombre d'étapes"
        if only_count
        else f"affiche chaque nombre, {start} et 1 compris, un par ligne",
        "pt": "mostre apenas quantos passos foram"
        if only_count
        else f"mostre cada número, {start} e 1 também, um por linha",
    }
    return printing(
        draw,
        {
            "en": [
                "Write {file}. Start with {start}; halve it if it is even, else triple it and add 1, and so on until"
                f" it is 1. The program shall {asked['en']}.",
                f"collatz sequence of {{start}} in python, file {{file}}, {asked['en']}",
                f"A program {{file}} should play this game: an even number is halved, an odd one becomes three times"
                f" itself plus 1, and it stops at 1. Begin with {{start}} and {asked['en']}.",
                f"Would you write {{file}} for the Collatz sequence that starts at {{start}}? It should {asked['en']}.",
            ],
            "fr": [
                "Écris {file} : on part de {start} ; un nombre pair est divisé par 2, un nombre impair est triplé puis"
                f" augmenté de 1, jusqu'à 1 ; {asked['fr']}."
            ],
            "pt": [
                "Escreva {file}: comece com {start}; se for par, divida por 2, senão multiplique por 3 e some 1, até"
                f" chegar a 1; {asked['pt']}."
            ],
        },
        code,
        str(len(path) - 1) if only_count else text(*map(str, path)),
        start=start,
    )


@template
def program_says_words_for_multiples(draw: Draw) -> Task:
    """Words instead of some numbers; both words together where both divide."""
    first, second = draw.sample([2, 3, 4, 5, 6, 7], 2)
    one, two = draw.words(2, ("Tick", "Tock", "Ping", "Pong", "Hip", "Hop", "Zig", "Zag", "Bim", "Bam", "Snip", "Snap"))
    last = draw.randint(first * second, first * second + 20)
    rows = [((one if n % first == 0 else "") + (two if n % second == 0 else "")) or str(n) for n in range(1, last + 1)]
    return printing(
        draw,
        {
            "en": [
                "Write {file}, counting from 1 to {last}, a line each. Instead of multiples of {first} it says {one},"
                " instead of multiples of {second} {two}, and for multiples of both {one}{two}.",
                "like fizzbuzz but with other words: numbers 1 to {last}, {one} when divisible by {first}, {two} when"
                " divisible by {second}, {one}{two} when both. file {file}",
                "For a party game I want a Python script {file} that counts to {last}, one line per number. {first} and"
                " its multiples become {one}; {second} and its multiples become {two}; if both apply: {one}{two}.",
                "Can you write {file}? Lines 1 to {last}; {one} replaces what {first} divides, {two} replaces"
                " what {second}"
                " divides, {one}{two} where both do.",
            ],
            "de": [
                "Schreib {file}: Es zählt von 1 bis {last}, eine Zeile pro Zahl. Statt der Vielfachen von {first} kommt"
                " {one}, statt der Vielfachen von {second} {two}, und bei beidem {one}{two}."
            ],
            "es": [
                "Escribe {file}: cuenta de 1 a {last}, una línea por número. En vez de los múltiplos de {first}"
                " dice {one},"
                " en vez de los de {second} dice {two}, y si es múltiplo de los dos, {one}{two}."
            ],
        },
        text(
            f"for number in range(1, {last + 1}):",
            '    said = ""',
            f"    if number % {first} == 0:",
            f'        said += "{one}"',
            f"    if number % {second} == 0:",
            f'        said += "{two}"',
            "    print(said or number)",
        ),
        text(*rows),
        first=first,
        second=second,
        one=one,
        two=two,
        last=last,
    )
