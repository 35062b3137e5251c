"""Tasks that write sequences of numbers, and turn each number of a file into another."""

from decimal import Decimal
from itertools import accumulate
from typing import Final

from training.tasks.draw import Draw, template
from training.tasks.number_texts import lines_of, numbers_for
from training.tasks.task import Check, Task, finish, shell


@template
def numbers_running_total(draw: Draw) -> Task:
    """Each line is the sum of what has come so far."""
    numbers = numbers_for(draw, high=9)
    beside = draw.random() < 0.3
    source, target = draw.file(), draw.file()
    sums = list(accumulate(numbers))
    lines = [f"{number} {total}" if beside else str(total) for number, total in zip(numbers, sums, strict=True)]
    note = ", behind the number and a space" if beside else ""
    german = ", hinter der Zahl und einem Leerzeichen" if beside else ""
    french = ", après le nombre et une espace" if beside else ""
    return draw.task(
        {
            "en": [
                "Write the running total of {source} to {target}, line by line{note}.",
                "cumulative sum of {source} -> {target}, one line per number{note}",
                "For every line of {source} I need the sum up to that line in {target}{note}.",
                "Can you make {target} show how the numbers of {source} add up step by step? A line each{note}.",
            ],
            "de": ["Schreib zu jeder Zeile von {source} die Summe bis dahin in {target}{dahinter}."],
            "fr": ["Écris dans {target} le total cumulé de {source}, ligne par ligne{apres}."],
        },
        source=source,
        target=target,
        note=note,
        dahinter=german,
        apres=french,
        files={source: lines_of(numbers)},
        steps=[
            shell(f"awk '{{s += $1; print {'$1, ' if beside else ''}s}}' {source} > {target}"),
            shell(f"cat {target}"),
            finish(f"{target} has the running total; it ends with {sums[-1]}."),
        ],
        check=Check(files={target: "\n".join(lines)}),
    )


_UNITS: Final = (
    ("kilometers", "meters", 1000, "Kilometer", "Meter"),
    ("hours", "minutes", 60, "Stunden", "Minuten"),
    ("minutes", "seconds", 60, "Minuten", "Sekunden"),
    ("kilograms", "grams", 1000, "Kilogramm", "Gramm"),
    ("feet", "inches", 12, "Fuß", "Zoll"),
    ("meters", "centimeters", 100, "Meter", "Zentimeter"),
    ("weeks", "days", 7, "Wochen", "Tage"),
    ("liters", "milliliters", 1000, "Liter", "Milliliter"),
    ("dozens", "pieces", 12, "Dutzend", "Stück"),
)


@template
def numbers_to_another_unit(draw: Draw) -> Task:
    """To the smaller unit or, with an exact result, to the larger one."""
    large, small, factor, gross, klein = draw.choice(_UNITS)
    numbers = numbers_for(draw, high=8, negative=0)
    up = draw.random() < 0.35
    given = [each * factor for each in numbers] if up else numbers
    wanted = numbers if up else [each * factor for each in numbers]
    one, other, eins, zwei = (small, large, klein, gross) if up else (large, small, gross, klein)
    source, target = draw.file(), draw.file()
    return draw.task(
        {
            "en": [
                "The numbers in {source} are {one}. Write them as {other} to {target}, only numbers.",
                "{source} is in {one}, i need {other} in {target}, same order, no units",
                "Could you convert every line of {source} from {one} to {other}? The results go to {target}.",
                "Please turn the {one} of {source} into {other} and store them line by line as {target}.",
            ],
            "de": ["In {source} stehen {eins}. Rechne sie in {zwei} um, nach {target}, nur Zahlen."],
            "es": ["Convierte los números de {source} de {one} a {other} y guárdalos en {target}, uno por línea."],
        },
        source=source,
        target=target,
        one=one,
        other=other,
        eins=eins,
        zwei=zwei,
        files={source: lines_of(given)},
        steps=[
            shell(f"awk '{{print $1 {'/' if up else '*'} {factor}}}' {source} > {target}"),
            shell(f"cat {target}"),
            finish(f"{target} has the numbers of {source} as {other}."),
        ],
        check=Check(files={target: lines_of(wanted)}),
    )


@template
def temperatures_converted(draw: Draw) -> Task:
    """With one decimal, and some of them below zero."""
    count, to_f = draw.randint(3, 8), draw.random() < 0.6
    given = [draw.randint(-25, 42) * (1 if to_f else 2) for _ in range(count)]
    wanted = [Decimal(each) * 9 / 5 + 32 if to_f else (Decimal(each) - 32) * 5 / 9 for each in given]
    one, other = ("Celsius", "Fahrenheit") if to_f else ("Fahrenheit", "Celsius")
    formula = "$1 * 9 / 5 + 32" if to_f else "($1 - 32) * 5 / 9"
    source, target = draw.file(), draw.file()
    return draw.task(
        {
            "en": [
                "Convert the temperatures in {source} from {one} to {other}, one decimal each, into {target}.",
                "{source} has degrees {one}. make {target} with degrees {other}, 1 decimal",
                "Could you write the {one} values of {source} in {other} to {target}? One digit after the point.",
                "I measure in {other}, but {source} is in {one}. Please give me {target}, rounded to one decimal.",
            ],
            "de": [
                "Rechne die Temperaturen in {source} von {one} in {other} um, mit einer Nachkommastelle, nach {target}."
            ],
            "fr": ["Convertis les températures de {source} de {one} en {other}, avec une décimale, dans {target}."],
        },
        source=source,
        target=target,
        one=one,
        other=other,
        files={source: lines_of(given)},
        steps=[
            shell(f"awk '{{printf \"%.1f\\n\", {formula}}}' {source} > {target}"),
            shell(f"cat {target}"),
            finish(f"{target} has the temperatures in {other}."),
        ],
        check=Check(
            either={
                target: ["\n".join(f"{each:.1f}".replace("-0.0", zero) for each in wanted) for zero in ("-0.0", "0.0")]
            }
        ),
    )


@template
def multiplication_table(draw: Draw) -> Task:
    """In a form that an example shows."""
    number, last = draw.randint(2, 25), draw.choice([5, 9, 10, 10, 12, 20])
    first = draw.choice([1, 1, 1, 2])
    form = draw.choice(["{0} x {1} = {2}", "{1} * {0} = {2}", "{0} times {1} is {2}", "{2}"])
    lines = [form.format(at, number, at * number) for at in range(first, last + 1)]
    target = draw.file()
    shown = form.format("$i", number, "$((i * " + str(number) + "))")
    return draw.task(
        {
            "en": [
                "Write the multiplication table of {number} to {target}: from {example} up to {ending}, a line each.",
                "{target}: times table of {number}, first line {example}, last line {ending}",
                "Could you fill {target} with the multiples of {number}? It begins with {example} and ends with "
                "{ending}.",
                "My daughter learns the table of {number}. Please make {target}, lines from {example} to {ending}.",
            ],
            "de": ["Schreib das Einmaleins mit {number} in {target}, von {example} bis {ending}, je eine Zeile."],
            "es": ["Escribe la tabla del {number} en {target}, desde {example} hasta {ending}, una línea cada vez."],
        },
        number=number,
        example=lines[0],
        ending=lines[-1],
        target=target,
        files={},
        others=draw.choice([0, 1, 2]),
        steps=[
            shell(f'for i in $(seq {first} {last}); do echo "{shown}"; done > {target}'),
            shell(f"cat {target}"),
            finish(f"{target} has the table of {number}, {len(lines)} lines."),
        ],
        check=Check(files={target: "\n".join(lines)}),
    )


@template
def sequence_of_numbers(draw: Draw) -> Task:
    """Up or down, by steps; one per line, or on one line with commas."""
    step = draw.choice([1, 1, 2, 3, 5, 10, 25, -1, -1, -5, -7])
    first = draw.randint(-20, 60)
    last = first + step * draw.randint(4, 25)
    numbers = range(first, last + (1 if step > 0 else -1), step)
    mark, form = draw.choice(
        [
            ("\n", "one per line"),
            ("\n", "each on its own line"),
            (",", "on one line, with commas"),
            (" ", "on one line, with spaces"),
        ]
    )
    flag = "" if mark == "\n" else f"-s{mark} " if mark == "," else "-s ' ' "
    target = draw.file()
    texts = [mark.join(str(each) for each in numbers)] + ([", ".join(map(str, numbers))] if mark == "," else [])
    by = f" in steps of {abs(step)}" if abs(step) > 1 else ""
    return draw.task(
        {
            "en": [
                "Write the numbers from {first} to {last}{by} to {target}, {form}.",
                "{target}: {first} to {last}{by}, {form}",
                "Could you create {target} with the numbers {first} to {last}{by}? Put them {form}.",
                "I need a file {target} that counts from {first} to {last}{by}, {form}.",
            ],
            "de": ["Schreib die Zahlen von {first} bis {last}{schritt} in {target}, {wie}."],
            "fr": ["Écris les nombres de {first} à {last}{pas} dans {target}, {comme}."],
        },
        first=first,
        last=last,
        by=by,
        form=form,
        schritt=f" in Schritten von {abs(step)}" if abs(step) > 1 else "",
        wie={"\n": "je Zeile eine", ",": "in einer Zeile mit Kommas", " ": "in einer Zeile mit Leerzeichen"}[mark],
        pas=f" de {abs(step)} en {abs(step)}" if abs(step) > 1 else "",
        comme={"\n": "un par ligne", ",": "sur une ligne avec des virgules", " ": "sur une ligne avec des espaces"}[
            mark
        ],
        target=target,
        files={},
        steps=[
            shell(f"seq {flag}{first} {f'{step} ' if step != 1 else ''}{last} > {target}"),
            finish(f"{target} has the numbers from {first} to {last}{by}."),
        ],
        check=Check(either={target: texts}),
    )


@template
def number_missing_in_sequence(draw: Draw) -> Task:
    """One number is left out; the order may be mixed up."""
    first = draw.randint(1, 200)
    numbers = list(range(first, first + draw.randint(8, 20)))
    gone = sorted(draw.sample(numbers[1:-1], draw.choice([1, 1, 2])))
    left = [each for each in numbers if each not in gone]
    if draw.random() < 0.5:
        draw.shuffle(left)
    source, target = draw.file(), draw.file()
    what = "number is" if len(gone) == 1 else "numbers are"
    return draw.task(
        {
            "en": [
                "{source} should have every number from {first} to {last}. Which {what} missing? Write to {target}.",
                "find what is missing in {source} between {first} and {last}, put it in {target} (one per line)",
                "Could you check which of the numbers {first} to {last} do not occur in {source}? List those in "
                "{target}.",
                "From {first} to {last} nothing should be lacking in {source}, but something is. I want that in "
                "{target}.",
            ],
            "de": ["In {source} sollen alle Zahlen von {first} bis {last} stehen. Was fehlt, kommt in {target}."],
            "fr": ["Quels nombres de {first} à {last} manquent dans {source} ? Mets-les dans {target}, un par ligne."],
        },
        source=source,
        target=target,
        first=numbers[0],
        last=numbers[-1],
        what=what,
        files={source: lines_of(left)},
        steps=[
            shell(f"seq {numbers[0]} {numbers[-1]} | grep -vxFf {source} | tee {target}"),
            finish(f"{' and '.join(map(str, gone))} {'is' if len(gone) == 1 else 'are'} missing; see {target}."),
        ],
        check=Check(files={target: lines_of(gone)}),
    )


@template
def numbers_changed_by_percent(draw: Draw) -> Task:
    """Up or down by a share, with two decimals."""
    numbers = [draw.randint(2, 400) * 5 for _ in range(draw.randint(3, 8))]
    percent = draw.choice([5, 10, 15, 20, 25, 40])
    up = draw.random() < 0.6
    factor = Decimal(100 + percent if up else 100 - percent) / 100
    texts = [f"{each * factor:.2f}" for each in numbers]
    source, target = draw.file(), draw.file()
    word = ("higher", "höher", "superiores") if up else ("lower", "niedriger", "inferiores")
    return draw.task(
        {
            "en": [
                "Make every number of {source} {percent} % {word}, with two decimals, in {target}.",
                "{target} = numbers of {source}, {percent} percent {word}, two digits after the point",
                "Could you work out what the amounts in {source} are when they're {percent} % {word}? "
                "Two decimals each, to {target}.",
                "All amounts in {source} become {percent} % {word}. Please write the new ones (two decimals) to "
                "{target}.",
            ],
            "de": ["Schreib die Beträge aus {source} um {percent} % {deutsch} in {target}, mit zwei Nachkommastellen."],
            "es": ["Escribe en {target} los importes de {source} un {percent} % {espanol}, con dos decimales."],
        },
        source=source,
        target=target,
        percent=percent,
        word=word[0],
        deutsch=word[1],
        espanol=word[2],
        files={source: lines_of(numbers)},
        steps=[
            shell(f"awk '{{printf \"%.2f\\n\", $1 * {factor}}}' {source} > {target}"),
            shell(f"cat {target}"),
            finish(f"{target} has the amounts, {percent} % {word[0]}."),
        ],
        check=Check(files={target: "\n".join(texts)}),
    )
