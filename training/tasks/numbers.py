"""Tasks with files of numbers: add, compare, round, convert, and write sequences."""

from decimal import Decimal

from training.tasks.draw import Draw, template
from training.tasks.figures import forms, quotient, told
from training.tasks.number_texts import lines_of, numbers_for
from training.tasks.task import Check, Task, finish, shell


@template
def numbers_added(draw: Draw) -> Task:
    """Some are below zero, and the last line may have no end."""
    numbers = numbers_for(draw)
    source, target = draw.file(), draw.file()
    total = sum(numbers)
    task = draw.task(
        {
            "en": [
                "Add all the numbers of {source} and save the result to {target}.",
                "sum of {source} -> {target}",
                "What do the numbers in {source} make in total? Keep the answer in {target}.",
                "I want the total of the numbers listed in {source}, written to {target} and nowhere else.",
            ],
            "de": ["Zähl alle Zahlen aus {source} zusammen und schreib das Ergebnis in {target}."],
            "fr": ["Additionne tous les nombres de {source} et mets le résultat dans {target}."],
            "pt": ["Some todos os números de {source} e grave o resultado em {target}."],
        },
        source=source,
        target=target,
        files={source: lines_of(numbers).rstrip("\n") + draw.choice(["", "\n"])},
        steps=[
            shell(f"awk '{{s += $1}} END {{print s}}' {source} | tee {target}"),
            finish(f"The numbers add up to {total}; {target} has the sum."),
        ],
        check=Check(either={target: forms(total)}),
    )
    return told(
        task,
        {
            "de": f"Zusammen sind es {total}; die Summe steht in {target}.",
            "fr": f"La somme est {total} ; elle est dans {target}.",
            "pt": f"A soma é {total}; está em {target}.",
        },
    )


@template
def number_largest_or_smallest(draw: Draw) -> Task:
    """9 is less than 10, and -4 is less than 4."""
    numbers = numbers_for(draw, negative=0.6)
    large = draw.random() < 0.5
    best = max(numbers) if large else min(numbers)
    source = draw.file()
    word = ("largest", "größte", "plus grand") if large else ("smallest", "kleinste", "plus petit")
    task = draw.task(
        {
            "en": [
                "What is the {word} number in {source}?",
                "{word} number of {source}?",
                "Could you look into {source} and tell me its {word} number?",
                "I need to know the {word} of the numbers that {source} holds.",
            ],
            "de": ["Welches ist die {deutsch} Zahl in {source}?"],
            "fr": ["Quel est le {francais} nombre de {source} ?"],
        },
        source=source,
        word=word[0],
        deutsch=word[1],
        francais=word[2],
        files={source: lines_of(numbers)},
        steps=[
            shell(f"sort -n {source} | {'tail' if large else 'head'} -n 1"),
            finish(f"The {word[0]} number in {source} is {best}."),
        ],
        check=Check(says=[rf"(?<![\d-]){best}(?!\d)"]),
    )
    return told(
        task,
        {
            "de": f"Die {word[1]} Zahl in {source} ist {best}.",
            "fr": f"Le {word[2]} nombre de {source} est {best}.",
        },
    )


@template
def numbers_sorted_by_size(draw: Draw) -> Task:
    """By value, not by letters."""
    numbers = numbers_for(draw)
    down = draw.random() < 0.4
    same = draw.random() < 0.5
    source = draw.file()
    target = source if same else draw.file()
    wanted = sorted(numbers, reverse=down)
    order = (
        ("from the largest to the smallest", "absteigend", "de mayor a menor")
        if down
        else ("from the smallest to the largest", "aufsteigend", "de menor a mayor")
    )
    where = ("in place", "in der Datei selbst", "en el mismo archivo") if same else (f"into {target}",) * 3
    flag = "-nr" if down else "-n"
    return draw.task(
        {
            "en": [
                "Sort the numbers of {source} {order}, {where}.",
                "{source}: numbers {order} please, {where}",
                "Can you order the numbers in {source} {where}? I need them {order}.",
                "The numbers in {source} are in no order. I'd like to have them {order}, {where}.",
            ],
            "de": ["Sortiere die Zahlen aus {source} {deutsch} ({wo})."],
            "es": ["Ordena los números de {source} {espanol} ({donde})."],
        },
        source=source,
        order=order[0],
        where=where[0],
        deutsch=order[1],
        wo=where[1],
        espanol=order[2],
        donde=where[2],
        files={source: lines_of(numbers)},
        steps=[
            shell(f"sort {flag} {source} -o {target}" if same else f"sort {flag} {source} > {target}"),
            shell(f"cat {target}"),
            finish(f"{target} has the numbers {order[0]}."),
        ],
        check=Check(files={target: lines_of(wanted)}),
    )


@template
def numbers_below_zero(draw: Draw) -> Task:
    """The negative ones, or those that are not; -4 and 4 both stand there."""
    numbers = numbers_for(draw, low=5, negative=1)
    if draw.random() < 0.3:
        numbers.insert(draw.randint(0, len(numbers)), 0)
    below = draw.random() < 0.6
    kept = [each for each in numbers if (each < 0) == below]
    word = (
        ("negative numbers", "negativen Zahlen", "nombres négatifs")
        if below
        else ("numbers that are not negative", "nicht negativen Zahlen", "nombres qui ne sont pas négatifs")
    )
    source, target = draw.file(), draw.file()
    return draw.task(
        {
            "en": [
                "Copy the {word} of {source} to {target}, in the same order.",
                "{word} from {source} into {target}, keep the order",
                "Would you write to {target} all {word} that occur in {source}, as they come?",
                "{target} should be {source} reduced to the {word}.",
            ],
            "de": ["Schreib die {deutsch} aus {source} in gleicher Reihenfolge nach {target}."],
            "fr": ["Copie les {francais} de {source} dans {target}, dans le même ordre."],
        },
        source=source,
        target=target,
        word=word[0],
        deutsch=word[1],
        francais=word[2],
        files={source: lines_of(numbers)},
        steps=[
            shell(f"grep {'' if below else '-v '}'^-' {source} > {target}"),
            shell(f"cat {target}"),
            finish(f"{target} has the {len(kept)} {word[0]} of {source}."),
        ],
        check=Check(files={target: lines_of(kept)}),
    )


@template
def numbers_mean_rounded(draw: Draw) -> Task:
    """Rounded to as many places as asked."""
    numbers = numbers_for(draw, negative=0.3)
    digits = draw.choice([0, 1, 2, 2, 3])
    places = ["no decimals", "one decimal", "two decimals", "three decimals"][digits]
    stellen = ["ohne Nachkommastelle", "mit einer Nachkommastelle", "mit zwei Nachkommastellen", "mit drei Stellen"][
        digits
    ]
    decimales = ["sin decimales", "con un decimal", "con dos decimales", "con tres decimales"][digits]
    source, target = draw.file(), draw.file()
    return draw.task(
        {
            "en": [
                "Write the mean of the numbers in {source} to {target}, with {places}.",
                "average of {source}, {places}, save to {target}",
                "What is the average of the numbers in {source}? Give it with {places} in {target}.",
                "In {target} I'd like the arithmetic mean of {source}, rounded, with {places}.",
            ],
            "de": ["Schreib den Mittelwert der Zahlen aus {source} {stellen} in {target}."],
            "es": ["Escribe en {target} la media de los números de {source}, {decimales}."],
        },
        source=source,
        target=target,
        places=places,
        stellen=stellen,
        decimales=decimales,
        files={source: lines_of(numbers)},
        steps=[
            shell(f"awk '{{s += $1}} END {{printf \"%.{digits}f\\n\", s / NR}}' {source} | tee {target}"),
            finish(f"{target} has the mean of the numbers in {source}, with {places}."),
        ],
        check=Check(either={target: [*quotient(sum(numbers), len(numbers), digits), "-0"]}),
    )


@template
def numbers_within_limits(draw: Draw) -> Task:
    """Above, below or between; the limit itself stands in the file."""
    numbers = numbers_for(draw, low=6, high=14, negative=0.2)
    low, high = sorted(draw.sample(sorted(numbers), 2))
    kind = draw.choice(["above", "at least", "below", "between"])
    test, kept, words = {
        "above": (
            f"$1 > {low}",
            [n for n in numbers if n > low],
            (f"greater than {low}", f"größer als {low}", f"maiores que {low}"),
        ),
        "at least": (
            f"$1 >= {high}",
            [n for n in numbers if n >= high],
            (f"{high} or greater", f"ab {high}", f"de {high} para cima"),
        ),
        "below": (
            f"$1 < {high}",
            [n for n in numbers if n < high],
            (f"less than {high}", f"kleiner als {high}", f"menores que {high}"),
        ),
        "between": (
            f"$1 >= {low} && $1 <= {high}",
            [n for n in numbers if low <= n <= high],
            (
                f"from {low} to {high} (both included)",
                f"von {low} bis {high} einschließlich",
                f"de {low} a {high}, inclusive",
            ),
        ),
    }[kind]
    source, target = draw.file(), draw.file()
    return draw.task(
        {
            "en": [
                "Pick the numbers {which} from {source} and put them into {target}.",
                "only numbers {which} of {source} -> {target}, order unchanged",
                "Which numbers in {source} are {which}? I'd like to have them in {target}, one per line.",
                "Please filter {source}: {target} gets every number {which}.",
            ],
            "de": ["Schreib die Zahlen {welche} aus {source} in {target}, in gleicher Reihenfolge."],
            "pt": ["Copie para {target} os números {quais} de {source}, na mesma ordem."],
        },
        source=source,
        target=target,
        which=words[0],
        welche=words[1],
        quais=words[2],
        files={source: lines_of(numbers)},
        steps=[
            shell(f"awk '{test}' {source} > {target}"),
            shell(f"cat {target}"),
            finish(f"{target} has the {len(kept)} numbers {words[0]}."),
        ],
        check=Check(files={target: lines_of(kept)}),
    )


@template
def numbers_even_or_odd_counted(draw: Draw) -> Task:
    """How many; negative odd numbers count too."""
    numbers = numbers_for(draw, high=16)
    even = draw.random() < 0.5
    count = sum(each % 2 == (0 if even else 1) for each in numbers)
    source, target = draw.file(), draw.file()
    test = "$1 % 2 == 0" if even else "$1 % 2 != 0"
    return draw.task(
        {
            "en": [
                "How many {parity} numbers does {source} have? Record the count in {target}.",
                "count the {parity} ones in {source}, result into {target}",
                "Please determine how many numbers of {source} are {parity} and leave that count in {target}.",
                "{target} is to hold one number: how often {source} has an {parity} number.",
            ],
            "de": ["Wie viele {deutsch} Zahlen hat {source}? Die Anzahl in {target} schreiben."],
            "pt": ["Quantos números {portugues} há em {source}? Anote a quantidade em {target}."],
        },
        source=source,
        target=target,
        parity="even" if even else "odd",
        deutsch="gerade" if even else "ungerade",
        portugues="pares" if even else "ímpares",
        files={source: lines_of(numbers)},
        steps=[
            shell(f"awk '{test}' {source} | wc -l | tee {target}"),
            finish(f"{source} has {count} {'even' if even else 'odd'} numbers; {target} has the count."),
        ],
        check=Check(files={target: str(count)}),
    )


@template
def numbers_of_two_files(draw: Draw) -> Task:
    """Line by line: sums or differences."""
    one = numbers_for(draw, high=8, negative=0.2)
    other = [draw.randint(1, 300) for _ in one]
    minus = draw.random() < 0.5
    wanted = [a - b if minus else a + b for a, b in zip(one, other, strict=True)]
    first, second, target = draw.file(), draw.file(), draw.file()
    act = (
        ("subtract {1} from {0}", "zieh {1} von {0} ab", "resta {1} de {0}")
        if minus
        else ("add {0} and {1}", "addiere {0} und {1}", "suma {0} y {1}")
    )
    return draw.task(
        {
            "en": [
                "Line by line, {act}, and write the results to {target}.",
                "{act}, number by number, results -> {target}",
                "Could you {act} (first line with first line and so on) and save that as {target}?",
                "In {target} I want one result per line: {act}, each number with the one on the same line.",
            ],
            "de": ["Rechne zeilenweise: {tu}. Die Ergebnisse kommen in {target}."],
            "es": ["Línea por línea, {haz} y escribe los resultados en {target}."],
        },
        act=act[0].format(first, second),
        tu=act[1].format(first, second),
        haz=act[2].format(first, second),
        target=target,
        files={first: lines_of(one), second: lines_of(other)},
        steps=[
            shell(f"paste {first} {second} | awk '{{print $1 {'-' if minus else '+'} $2}}' > {target}"),
            shell(f"cat {target}"),
            finish(f"{target} has the {'differences' if minus else 'sums'}, line by line."),
        ],
        check=Check(files={target: lines_of(wanted)}),
    )


@template
def numbers_on_one_line(draw: Draw) -> Task:
    """The numbers stand on one line, between commas or spaces; or words stand among them."""
    numbers = numbers_for(draw, high=8, negative=0.2)
    mark = draw.choice([", ", ",", " ", "; "])
    source, target = draw.file(), draw.file()
    best = max(numbers)
    spread = f"tr -s '{mark}' '\\n' < {source}"
    kind = draw.choice(["sum", "largest", "lines"])
    words, wanted, command = {
        "sum": (
            ("the sum", "die Summe", "la somme"),
            forms(sum(numbers)),
            f"{spread} | awk '{{s += $1}} END {{print s}}'",
        ),
        "largest": (("the largest", "die größte", "le plus grand"), forms(best), f"{spread} | sort -n | tail -n 1"),
        "lines": (
            ("a list, one per line,", "eine Liste, je Zeile eine,", "une liste, un par ligne,"),
            [lines_of(numbers)],
            spread,
        ),
    }[kind]
    return draw.task(
        {
            "en": [
                "The numbers in {source} are all on one line. Put {what} of them into {target}.",
                "{source} (everything on a single line): {what} of these numbers to {target}",
                "Could you give me {what} of the numbers on the line in {source}? Save it as {target}.",
                "There is one line with numbers in {source}. I need {what} of them, in {target}.",
            ],
            "de": ["In {source} stehen die Zahlen in einer Zeile. Schreib {was} davon in {target}."],
            "fr": ["Les nombres de {source} sont sur une ligne. Mets {quoi} de ces nombres dans {target}."],
        },
        source=source,
        target=target,
        what=words[0],
        was=words[1],
        quoi=words[2],
        files={source: mark.join(str(each) for each in numbers) + "\n"},
        steps=[
            shell(f"{command} | tee {target}"),
            finish(f"{target} has {words[0]} of the numbers in {source}."),
        ],
        check=Check(either={target: wanted}),
    )


@template
def numbers_median(draw: Draw) -> Task:
    """The middle one by value; of an even count, halfway between two."""
    numbers = numbers_for(draw, low=3, high=9, negative=0.3)
    ordered = sorted(numbers)
    half = len(ordered) // 2
    median = Decimal(ordered[half]) if len(ordered) % 2 else Decimal(ordered[half - 1] + ordered[half]) / 2
    source, target = draw.file(), draw.file()
    return draw.task(
        {
            "en": [
                "Determine the median of the numbers in {source}; it belongs in {target}.",
                "median of {source} into {target} pls",
                "What is the median of {source}? Save just that value in {target}.",
                "I need the median (not the mean) of the numbers from {source} as {target}.",
            ],
            "de": ["Bestimme den Median der Zahlen in {source} und speichere ihn in {target}."],
            "pt": ["Calcule a mediana dos números de {source} e grave em {target}."],
        },
        source=source,
        target=target,
        files={source: lines_of(numbers)},
        steps=[
            shell(
                f"python3 -c \"import statistics; print(statistics.median([int(s) for s in open('{source}')]))\" "
                f"| tee {target}"
            ),
            finish(f"The median is {f'{median.normalize():f}'}; {target} has it."),
        ],
        check=Check(either={target: forms(median)}),
    )
