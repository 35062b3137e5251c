"""Tasks that ask for a small program that prints shapes, dates, letters or a bill."""

import calendar
from datetime import date

from training.tasks.code_parts import done, exact, program, text
from training.tasks.draw import Draw, template
from training.tasks.programs import printing
from training.tasks.task import Check, Task, shell, write


@template
def program_prints_a_shape(draw: Draw) -> Task:
    """A triangle or a frame of signs, as high as asked for."""
    sign, height = draw.choice(["*", "#", "o", "+", "@", "x", "%"]), draw.randint(3, 9)
    width = height + draw.randint(1, 6)
    name, english, german, code, rows = draw.choice(
        [
            (
                "up",
                f"a triangle of {sign} signs, 1 in the first line, 2 in the second, up to {height} in the last",
                f"ein Dreieck aus {sign}: 1 in der ersten Zeile, 2 in der zweiten, bis {height} in der letzten",
                [f"for width in range(1, {height + 1}):", f'    print("{sign}" * width)'],
                [sign * n for n in range(1, height + 1)],
            ),
            (
                "down",
                f"lines of {sign} signs that get shorter, from {height} in the first line to 1 in the last",
                f"Zeilen aus {sign}, die kürzer werden: {height} in der ersten bis 1 in der letzten",
                [f"for width in range({height}, 0, -1):", f'    print("{sign}" * width)'],
                [sign * n for n in range(height, 0, -1)],
            ),
            (
                "box",
                f"an empty box of {sign} signs, {width} wide and {height} high (spaces inside)",
                f"einen leeren Kasten aus {sign}, {width} breit und {height} hoch (innen Leerzeichen)",
                [
                    f'print("{sign}" * {width})',
                    f"for _ in range({height - 2}):",
                    f'    print("{sign}" + " " * {width - 2} + "{sign}")',
                    f'print("{sign}" * {width})',
                ],
                [sign * width, *[sign + " " * (width - 2) + sign] * (height - 2), sign * width],
            ),
            (
                "right",
                f"a staircase of {sign} signs against the right edge, {height} lines: 1 sign in the first line,"
                f" {height}"
                " in the last, spaces before them",
                f"eine Treppe aus {sign} am rechten Rand, {height} Zeilen: 1 in der ersten, {height} in der"
                " letzten, davor"
                " Leerzeichen",
                [f"for width in range(1, {height + 1}):", f'    print(("{sign}" * width).rjust({height}))'],
                [(sign * n).rjust(height) for n in range(1, height + 1)],
            ),
        ]
    )
    french = {
        "up": f"un triangle de {sign} : 1 sur la première ligne, 2 sur la deuxième, jusqu'à {height} sur la dernière",
        "down": f"des lignes de {sign} de plus en plus courtes : {height} sur la première, 1 sur la dernière",
        "box": f"un cadre vide de {sign}, large de {width} et haut de {height} (des espaces à l'intérieur)",
        "right": f"un escalier de {sign} aligné à droite : 1 signe sur la première ligne, {height} sur la dernière",
    }[name]
    return printing(
        draw,
        {
            "en": [
                "Write a Python program {file} which prints {shape}.",
                "draw {shape}, in python, save it as {file}",
                "Please make {file}. When I run it, I want to see {shape}.",
                "How about a little script {file} that draws {shape}?",
            ],
            "de": ["Schreib ein Programm {file}, es zeichnet {german}."],
            "fr": ["Écris {file} : il dessine {french}."],
        },
        text(*code),
        text(*rows),
        shape=english,
        german=german,
        french=french,
    )


@template
def program_prints_leap_years(draw: Draw) -> Task:
    """Whole centuries are a trap."""
    low = draw.choice([1880, 1890, 1896, 1990, 2000, 2090, draw.randint(1700, 2080)])
    high = low + draw.randint(12, 40)
    found = [year for year in range(low, high + 1) if calendar.isleap(year)]
    count_only = draw.random() < 0.3
    listing = text("import calendar", "", f"for year in range({low}, {high + 1}):", "    if calendar.isleap(year):")
    counting = text("import calendar", "", f"print(sum(calendar.isleap(year) for year in range({low}, {high + 1})))")
    en = "how many leap years there are" if count_only else "the leap years, one per line,"
    de = "wie viele Schaltjahre es gibt" if count_only else "die Schaltjahre (jedes in einer Zeile)"
    pt = "quantos anos bissextos há" if count_only else "os anos bissextos, um por linha,"
    return printing(
        draw,
        {
            "en": [
                f"Write {{file}} to print {en} from {{low}} to {{high}}.",
                f"leap years! script {{file}}, it should print {en} between {{low}} and {{high}} (both included)",
                f"I want to know {en} between {{low}} and {{high}}, first and last year included. A Python program"
                " called"
                " {file} should print that.",
                f"Could you write a program {{file}} that prints {en} from {{low}} up to {{high}}?",
            ],
            "de": [f"Schreib {{file}}: Es gibt aus, {de}, von {{low}} bis {{high}}."]
            if count_only
            else [f"Schreib {{file}}: Es gibt {de} aus, von {{low}} bis {{high}}."],
            "pt": [f"Escreva um programa {{file}} que mostra {pt} de {{low}} a {{high}}."],
        },
        counting if count_only else listing + "        print(year)\n",
        str(len(found)) if count_only else text(*map(str, found)),
        low=low,
        high=high,
    )


@template
def program_prints_days_of_a_month(draw: Draw) -> Task:
    """The dates of one weekday."""
    year, month, weekday = draw.randint(2019, 2032), draw.randint(1, 12), draw.randrange(7)
    days = [d for d in range(1, calendar.monthrange(year, month)[1] + 1) if date(year, month, d).weekday() == weekday]
    german_form = draw.random() < 0.3
    form = "%d.%m.%Y" if german_form else "%Y-%m-%d"
    rows = [date(year, month, d).strftime(form) for d in days]
    name = calendar.day_name[weekday]
    german = "Montage Dienstage Mittwoche Donnerstage Freitage Samstage Sonntage".split()[weekday]  # noqa: SIM905
    spanish = "lunes martes miércoles jueves viernes sábados domingos".split()[weekday]  # noqa: SIM905
    return printing(
        draw,
        {
            "en": [
                "Write {file}, printing the date of each {day} in {month} {year}, one per line, in this form: {form}",
                "which dates are {day}s in {month} {year}? python program {file} please, a line per date, form {form}",
                "Our club meets every {day}. I need a script {file} that lists those dates for {month} {year}, a"
                " line each,"
                " written as {form}",
                "A program {file} shall print all {day}s of {month} {year}; one date a line, such as {form}",
            ],
            "de": [
                "Schreib {file}: Es gibt alle {german} im Monat {number}/{year} aus, je Zeile ein Datum in der"
                " Form {form}"
            ],
            "es": [
                "Escribe {file}, que muestre las fechas de los {spanish} del mes {number}/{year}, una por línea,"
                " así: {form}"
            ],
        },
        text(
            "from datetime import date, timedelta",
            "",
            f"day = date({year}, {month}, 1)",
            f"while day.month == {month}:",
            f"    if day.weekday() == {weekday}:",
            f'        print(day.strftime("{form}"))' if german_form else "        print(day)",
            "    day += timedelta(days=1)",
        ),
        text(*rows),
        day=name,
        german=german,
        spanish=spanish,
        month=calendar.month_name[month],
        number=month,
        year=year,
        form="31.12.2020" if german_form else "2020-12-31",
    )


@template
def program_counts_days(draw: Draw) -> Task:
    """Days from one date to another, with or without the last one."""
    first = date.fromordinal(date(2018, 1, 1).toordinal() + draw.randint(0, 4000))
    last = date.fromordinal(first.toordinal() + draw.randint(9, 900))
    both = draw.random() < 0.4
    days = (last - first).days + both
    extra = {
        "en": " Count the first and the last day, too." if both else "",
        "de": " Der erste und der letzte Tag zählen mit." if both else "",
        "fr": " Le premier et le dernier jour comptent aussi." if both else "",
    }
    return printing(
        draw,
        {
            "en": [
                f"Write {{file}}. It prints how many days there are from {{first}} to {{last}}.{extra['en']}",
                f"days from {{first}} to {{last}} as a python script named {{file}}, just the number.{extra['en']}",
                f"We left on {{first}} and came back on {{last}}. How many days is that? Let a program {{file}} work it"
                f" out and print the number.{extra['en']}",
                f"I would like {{file}} to tell me the number of days between the dates {{first}} and"
                f" {{last}}.{extra['en']}",
            ],
            "de": [
                f"Schreib {{file}}: Wie viele Tage sind es vom {{first}} bis zum {{last}}? Nur die Zahl.{extra['de']}"
            ],
            "fr": [f"Écris {{file}}, qui affiche combien de jours il y a du {{first}} au {{last}}.{extra['fr']}"],
        },
        text(
            "from datetime import date",
            "",
            f"first = date({first.year}, {first.month}, {first.day})",
            f"last = date({last.year}, {last.month}, {last.day})",
            "print((last - first).days + 1)" if both else "print((last - first).days)",
        ),
        str(days),
        first=first,
        last=last,
    )


@template
def program_counts_letters(draw: Draw) -> Task:
    """Each letter of a text with its number, in the order of the alphabet; spaces are not letters."""
    words = [word.lower() for word in draw.words(draw.randint(2, 3))]
    phrase = " ".join(words)
    between = draw.choice([" ", ": ", "=", " - "])
    letters = sorted(set("".join(words)))
    rows = [f"{letter}{between}{phrase.count(letter)}" for letter in letters]
    return printing(
        draw,
        {
            "en": [
                "Write {file}: it counts how often each letter occurs in '{phrase}' and prints a line for each in"
                " alphabetical order, beginning with {first}",
                "count the letters of '{phrase}' with a script {file}, no spaces, alphabetical, lines like {first}",
                "Please make a Python program {file} that prints the letters in '{phrase}' from a to z, each with its"
                " number, as in {first}. Leave out letters which are not there.",
                "Which letters does '{phrase}' have, and how many of each? {file} should print them sorted, in the form"
                " {first}",
            ],
            "de": [
                "Schreib {file}: Es zählt die Buchstaben von '{phrase}' und gibt sie alphabetisch aus, je Zeile"
                " einer, so:"
                " {first}"
            ],
            "pt": [
                "Escreva {file}, que conta as letras de '{phrase}' e mostra cada uma em ordem alfabética, assim:"
                " {first}"
            ],
        },
        text(
            f'text = "{phrase}"',
            'for letter in sorted(set(text) - {" "}):',
            f'    print(f"{{letter}}{between}{{text.count(letter)}}")',
        ),
        text(*rows),
        phrase=phrase,
        first=rows[0],
        **exact(phrase),
    )


@template
def program_prints_divisors(draw: Draw) -> Task:
    """The number itself counts, or does not."""
    number = draw.choice([24, 28, 36, 48, 60, 84, 90, 96, 100, 120]) * draw.randint(1, 6) + draw.choice([0, 0, 1, 7])
    without = draw.random() < 0.4
    found = [d for d in range(1, number + 1) if number % d == 0]
    found = found[:-1] if without else found
    extra = {
        "en": f", but not {number} itself" if without else f", {number} included",
        "es": f", menos el propio {number}" if without else f", incluido {number}",
        "fr": f", sauf {number} lui-même" if without else f", {number} compris",
    }
    return printing(
        draw,
        {
            "en": [
                f"Write a script {{file}} that prints all divisors of {{number}}{extra['en']}, smallest first, one"
                " a line.",
                f"{{file}}: divisors of {{number}} one per line in ascending order{extra['en']}",
                f"I want to see by which numbers {{number}} can be divided{extra['en']}. Write {{file}}, a line"
                " per number,"
                " from small to large.",
                f"By what is {{number}} divisible? Print it with {{file}}, going up, one number on a"
                f" line{extra['en']}.",
            ],
            "es": [
                f"Escribe {{file}}: muestra los divisores de {{number}} de menor a mayor, uno por línea{extra['es']}."
            ],
            "fr": [
                f"Écris {{file}}, qui affiche les diviseurs de {{number}} en ordre croissant, un par"
                f" ligne{extra['fr']}."
            ],
        },
        text(
            f"number = {number}",
            f"for divisor in range(1, number{'' if without else ' + 1'}):",
            "    if number % divisor == 0:",
            "        print(divisor)",
        ),
        text(*map(str, found)),
        number=number,
    )


@template
def program_prints_a_bill(draw: Draw) -> Task:
    """Things with prices, then their total; sometimes sorted by price."""
    names = [name.lower() for name in draw.words(draw.randint(3, 5))]
    prices = draw.sample(range(2, 60), len(names))
    ordered = draw.random() < 0.5
    pairs = list(zip(names, prices, strict=True))
    shown = sorted(pairs, key=lambda pair: pair[1]) if ordered else pairs
    rows = [f"{name}: {price}" for name, price in shown]
    total = sum(prices)
    extra = {
        "en": "from cheap to expensive" if ordered else "in this order",
        "de": "vom billigsten zum teuersten" if ordered else "in dieser Reihenfolge",
        "pt": "do mais barato ao mais caro" if ordered else "nesta ordem",
    }
    listing = ", ".join(f"{name} {price}" for name, price in pairs)
    loop = "sorted(prices.items(), key=lambda item: item[1])" if ordered else "prices.items()"
    return printing(
        draw,
        {
            "en": [
                f"Write {{file}} with these prices: {{listing}}. It prints a line for each, {extra['en']}, such as"
                f" {{first}},"
                " and at the end total: and the sum.",
                f"python bill {{file}}. items {{listing}}. print them {extra['en']} (form {{first}}), last line is"
                " total:"
                " with the sum",
                f"I bought {{listing}}. Please let a program {{file}} print the bill, {extra['en']}, lines like"
                f" {{first}};"
                " the last line should begin with total: and show the sum.",
                f"Can {{file}} print what I bought ({{listing}}) {extra['en']}? Lines such as {{first}}, then a"
                " final line"
                " total: plus the sum of all.",
            ],
            "de": [
                f"Schreib {{file}} mit diesen Preisen: {{listing}}. Es gibt je Zeile einen aus, {extra['de']}, so:"
                f" {{first}};"
                " am Ende steht total: und die Summe."
            ],
            "pt": [
                f"Escreva {{file}} com estes preços: {{listing}}. Ele mostra um por linha, {extra['pt']}, como"
                f" {{first}}, e"
                " no fim total: e a soma."
            ],
        },
        text(
            "prices = {",
            *[f'    "{name}": {price},' for name, price in pairs],
            "}",
            f"for name, price in {loop}:",
            '    print(f"{name}: {price}")',
            'print(f"total: {sum(prices.values())}")',
        ),
        text(*rows, f"total: {total}"),
        listing=listing,
        first=rows[0],
        **exact(*names, "total:"),
    )


@template
def program_writes_numbers_to_a_file(draw: Draw) -> Task:
    """The numbers go into a file and not to the screen; the program is run once."""
    name, target = program(draw), draw.file()
    count, start, factor = draw.randint(4, 12), draw.randint(1, 9), draw.choice([2, 3, 10])
    doubles = draw.random() < 0.5
    values = [start * factor**n if doubles else start + factor * n for n in range(count)]
    rule = {
        "en": f"each {factor} times the one before" if doubles else f"each {factor} more than the one before",
        "de": f"jede das {factor}fache der vorigen" if doubles else f"jede um {factor} größer als die vorige",
        "es": f"cada uno {factor} veces el anterior" if doubles else f"cada uno {factor} más que el anterior",
    }
    task = draw.task(
        {
            "en": [
                f"Write a program {{file}} that saves {{count}} numbers in {{target}}, a line each: the first is"
                f" {{start}},"
                f" {rule['en']}. Then run it once.",
                f"{{target}} should hold {{count}} numbers, starting with {{start}}, {rule['en']}, one per line."
                " do that with"
                " a python script {file} and run the script",
                f"Please write {{file}} and execute it. It creates {{target}} with {{count}} lines: {{start}} and"
                " then the"
                f" following numbers, {rule['en']}.",
                f"Could you write and start {{file}}? I want {{count}} numbers in {{target}} (one a line) from it,"
                " beginning"
                f" with {{start}}, {rule['en']}.",
            ],
            "de": [
                f"Schreib {{file}} und führ es aus: Es schreibt {{count}} Zahlen nach {{target}}, eine pro Zeile,"
                " die erste"
                f" ist {{start}}, {rule['de']}."
            ],
            "es": [
                f"Escribe {{file}} y ejecútalo: guarda {{count}} números en {{target}}, uno por línea; el primero es"
                f" {{start}}, {rule['es']}."
            ],
        },
        file=name,
        target=target,
        count=count,
        start=start,
        files={},
        steps=[
            write(
                name,
                text(
                    f"number = {start}",
                    f'with open("{target}", "w") as file:',
                    f"    for _ in range({count}):",
                    "        print(number, file=file)",
                    f"        number {'*' if doubles else '+'}= {factor}",
                ),
            ),
            shell(f"python3 {name} && cat {target}"),
        ],
        check=Check(
            files={target: text(*map(str, values))},
            free=[name],
            prints={f"rm {target}; python3 -B {name} > /dev/null && cat {target}": text(*map(str, values))},
        ),
    )
    said = {
        "en": "{file} is written and was run; {target} has the {count} numbers.",
        "de": "{file} ist geschrieben und ausgeführt; {target} hat die {count} Zahlen.",
        "es": "{file} está escrito y ejecutado; {target} tiene los {count} números.",
    }
    return done(task, said, file=name, target=target, count=count)
