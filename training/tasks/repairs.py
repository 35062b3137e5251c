"""Tasks about a program with one mistake: it stops with an error, or prints what is not right."""

from collections.abc import Mapping, Sequence
from typing import Any

from training.tasks.code_parts import MENDED, done, program, read_first, text
from training.tasks.draw import Draw, template
from training.tasks.pools import PEOPLE
from training.tasks.task import Check, Task, shell, write

Wordings = Mapping[str, Sequence[str]]


def repairing(draw: Draw, wordings: Wordings, right: str, wrong: tuple[str, str], printed: str, **values: Any) -> Task:
    """Return the task of mending a program in which a part of the right text is replaced."""
    name = program(draw)
    beside: dict[str, str] = values.pop("files", {})
    broken = right.replace(*wrong, 1)
    task = draw.task(
        wordings,
        file=name,
        files={name: broken, **beside},
        steps=[
            shell(f"python3 {name}"),
            *read_first({name: broken}, name),
            write(name, right),
            shell(f"python3 {name}"),
        ],
        check=Check(prints={f"python3 -B {name}": printed, **values.pop("also", {})}, free=[name]),
        **values,
    )
    return done(task, MENDED, file=name)


@template
def last_number_is_missing(draw: Draw) -> Task:
    """A range that ends one too early."""
    low, high, factor = draw.randint(1, 5), draw.randint(8, 30), draw.randint(2, 9)
    last = low + (high - low) // 4
    word = draw.word().lower()
    form = draw.choice([f"{{number}} {word}", f"{word} {{number}}", f"{{number}} x {factor} = {{number * {factor}}}"])
    right = text(f"for number in range({low}, {last + 1}):", f'    print(f"{form}")')
    rows = [
        form.replace("{number}", str(n)).replace(f"{{number * {factor}}}", str(n * factor))
        for n in range(low, last + 1)
    ]
    return repairing(
        draw,
        {
            "en": [
                "{file} should go up to {last}, but the line with {last} never comes. Please correct that.",
                "{file} stops too early, the last number has to be {last}",
                "I expect {count} lines from {file}, from {low} to {last}, and get one less. Can you find out why"
                " and mend it?",
                "Why does {file} leave out {last}? It must print {low} to {last}.",
            ],
            "de": ["{file} soll von {low} bis {last} gehen, aber die letzte Zeile fehlt. Korrigiere das bitte."],
            "fr": ["{file} devrait aller de {low} à {last}, mais il manque la dernière ligne. Corrige-le."],
        },
        right,
        (f", {last + 1})", f", {last})"),
        text(*rows),
        low=low,
        last=last,
        count=last - low + 1,
    )


@template
def wrong_operator_in_a_sum(draw: Draw) -> Task:
    """Plus for times, minus for plus."""
    names = [each.lower() for each in draw.words(draw.randint(2, 4))]
    rows = [(name, draw.randint(2, 9), draw.randint(2, 40)) for name in names]
    shipping = draw.randint(3, 15)
    total = sum(count * price for _, count, price in rows) + shipping
    right = text(
        "basket = [",
        *(f'    ("{name}", {count}, {price}),' for name, count, price in rows),
        "]",
        f"shipping = {shipping}",
        "total = 0",
        "for name, count, price in basket:",
        "    total += count * price",
        'print("total", total + shipping)',
    )
    wrong = draw.choice(
        [
            ("count * price", "count + price"),
            ("total + shipping", "total - shipping"),
            ("total += count", "total = count"),
        ]
    )
    return repairing(
        draw,
        {
            "en": [
                "The total that {file} prints is wrong: number times price of everything plus shipping makes"
                " {total}. Please"
                " repair the program.",
                "{file} calculates nonsense, the right total would be {total}",
                "I worked it out by hand, and {file} ought to print total {total} (all items, count times price,"
                " and the"
                " shipping on top). Could you correct it?",
                "Can you see why {file} does not print {total}? Shipping is added to count times price of each"
                " item. Mend it.",
            ],
            "de": ["{file} rechnet falsch: Anzahl mal Preis plus Versand ergibt {total}. Bitte korrigieren."],
            "es": ["El total de {file} está mal: cantidad por precio más el envío son {total}. Corrígelo."],
        },
        right,
        wrong,
        f"total {total}",
        total=total,
    )


@template
def result_is_none(draw: Draw) -> Task:
    """A function that returns nothing."""
    function = draw.word(("double_it", "with_tax", "squared", "tripled", "minus_ten", "halved", "plus_one", "negative"))
    formula = draw.choice(["value * 2", "value * value", "value - 10", "value * 3 + 1", "-value", "value // 2"])
    numbers = [draw.randint(2, 90) for _ in range(2)]
    results = [str(eval(formula, {"value": each})) for each in numbers]
    right = text(
        f"def {function}(value):",
        f"    result = {formula}",
        "    return result",
        "",
        "",
        *(f"print({function}({each}))" for each in numbers),
    )
    wrong = draw.choice(
        [("    return result", "    result"), ("    return result\n", ""), ("    return result", "    return")]
    )
    return repairing(
        draw,
        {
            "en": [
                "{file} prints None, but I want {results}. Please repair it.",
                "{file} says None None, expected {results}. fix?",
                "The function {function} in {file} seems to give nothing back. The output should be {results};"
                " could you"
                " look into it?",
                "How come {file} only prints None? Change it so that {results} come out, one on each line.",
            ],
            "de": ["{file} gibt None aus statt {results}. Korrigiere das."],
            "pt": ["{file} mostra None em vez de {results}. Corrija, por favor."],
        },
        right,
        wrong,
        text(*results),
        function=function,
        results=", ".join(results),
    )


@template
def misspelt_name(draw: Draw) -> Task:
    """A variable or a function that is spelt in two ways."""
    plural = draw.word(("amounts", "lengths", "counts", "heights", "speeds", "volumes", "distances", "weights"))
    numbers = [draw.randint(2, 80) for _ in range(draw.randint(3, 6))]
    title = draw.word()
    right = text(
        f"{plural} = {numbers}",
        f"largest = max({plural})",
        f"smallest = min({plural})",
        f'print("{title}", largest - smallest)',
    )
    wrong = draw.choice(
        [
            (f"max({plural})", f"max({plural[:-1]})"),
            (f"min({plural})", f"min({plural[0]}{plural[2:]})"),
            ("largest - smallest", "largest - smalest"),
            ("print(", "prnt("),
            ("largest - ", "lagrest - "),
        ]
    )
    return repairing(
        draw,
        {
            "en": [
                "I get a NameError from {file}. Please correct the program; it should print {title} and the"
                " difference.",
                "NameError in {file}, probably a typo. fix please",
                "There must be a spelling mistake in {file}, since Python does not know a name in it. Can you"
                " repair that?",
                "Would you mend {file}? It ends with an error instead of printing {title} and a number.",
            ],
            "de": ["{file} endet mit einem NameError, wohl ein Tippfehler. Bitte beheben."],
            "fr": ["{file} s'arrête avec une NameError, sans doute une faute de frappe. Corrige-la."],
        },
        right,
        wrong,
        f"{title} {max(numbers) - min(numbers)}",
        title=title,
    )


@template
def wrong_indentation(draw: Draw) -> Task:
    """Inside of the loop, or outside; or an error of indentation."""
    names = draw.words(draw.randint(3, 5))
    word = draw.choice(["letters", "characters", "signs"])
    total = sum(map(len, names))
    right = text(
        f"names = {names}",
        "total = 0",
        "for name in names:",
        "    print(name)",
        "    total += len(name)",
        f'print("{word}", total)',
    )
    wrong = draw.choice(
        [
            (f'print("{word}"', f'    print("{word}"'),
            ("    total +=", "total +="),
            ("    print(name)", "print(name)"),
            ("    total +=", "      total +="),
        ]
    )
    return repairing(
        draw,
        {
            "en": [
                "Something is not right with {file}: it should print the {count} names and then, once, {word} {total}."
                " Please put it in order.",
                "{file}: indentation must be wrong somewhere. wanted: all names, at the end one line {word} {total}",
                "When all is well, {file} lists {count} names, and its last line is {word} {total}. Right now it"
                " is not so;"
                " can you correct it?",
                "Could you repair {file}, so that there is one line per name and a single line {word} {total}"
                " after them?",
            ],
            "de": [
                "In {file} stimmt die Einrückung nicht. Es soll {count} Namen ausgeben und am Ende einmal {word}"
                " {total}.",
            ],
            "es": [
                "{file} está mal sangrado: debe mostrar los {count} nombres y al final una sola vez {word} {total}.",
            ],
        },
        right,
        wrong,
        text(*names, f"{word} {total}"),
        count=len(names),
        word=word,
        total=total,
    )


@template
def missing_import(draw: Draw) -> Task:
    """A module of the standard library is used and not imported."""
    number = draw.randint(2, 60)
    name, line, printed, other = draw.choice(
        [
            ("math", f"print(math.factorial({number % 9 + 3}))", str(_factorial(number % 9 + 3)), "sys"),
            ("json", f'print(json.dumps({{"size": {number}}}))', f'{{"size": {number}}}', "os"),
            ("math", f"print(math.gcd({number * 6}, {number * 4}))", str(number * 2), "json"),
            (
                "textwrap",
                f'print(textwrap.shorten("one {number} three", 9, placeholder="*"))',
                f"one {number}*",
                "math",
            ),
            ("string", f"print(string.ascii_lowercase[{number % 20}])", chr(97 + number % 20), "sys"),
            ("os", f'print(os.path.basename("a/b{number}.txt"))', f"b{number}.txt", "json"),
            ("statistics", f"print(statistics.median([{number}, 1, {number + 4}]))", str(number), "os"),
        ]
    )
    title = draw.word()
    has_other = draw.random() < 0.5
    first = [f"import {each}" for each in sorted([name, *([other] if has_other else [])])]
    right = text(*first, "", f'print("{title}")', line, *([f"print({other}.__name__)"] if has_other else []))
    return repairing(
        draw,
        {
            "en": [
                "{file} prints {title} and then it breaks off, a name is not defined. Please make it run to the end.",
                "{file} crashes after the first line, looks like an import is missing",
                "Python says in {file} that {module} is not known. I'd like you to correct this.",
                "Could you see to it that {file} runs? It complains about {module}.",
            ],
            "de": ["{file} bricht ab, weil {module} nicht bekannt ist. Bitte korrigieren."],
            "pt": ["{file} para com um erro: {module} não é conhecido. Corrija."],
        },
        right,
        (f"import {name}\n" if has_other else f"import {name}\n\n", ""),
        text(title, printed, *([other] if has_other else [])),
        title=title,
        module=name,
    )


def _factorial(number: int) -> int:
    return number * _factorial(number - 1) if number > 1 else 1


@template
def missing_sign(draw: Draw) -> Task:
    """A colon, a quote, a bracket, a comma or an equals sign is missing: a SyntaxError."""
    words, number = draw.words(3), draw.randint(2, 40)
    limit = draw.randint(3, 6)
    right = text(
        f'things = ["{words[0]}", "{words[1]}", "{words[2]}"]',
        "",
        "",
        "def describe(thing):",
        f"    if len(thing) > {limit}:",
        f'        return f"{{thing}} is long ({number})"',
        '    return f"{thing} is short"',
        "",
        "",
        "for thing in things:",
        "    print(describe(thing))",
    )
    wrong = draw.choice(
        [
            ("describe(thing):", "describe(thing)"),
            (f"> {limit}:", f"> {limit}"),
            ("in things:", "in things"),
            (f'"{words[1]}", ', f'"{words[1]}, '),
            ('is short"', "is short"),
            ('"]', '"'),
            ("print(describe(thing))", "print(describe(thing)"),
            (
                "things = [",
                "things [",
            )
            if draw.random() < 0.3
            else ("if len(thing)", "if len(thing"),
            (f'f"{{thing}} is long ({number})"', f'f"{{thing}} is long ({number})'),
        ]
    )
    rows = [f"{word} is long ({number})" if len(word) > limit else f"{word} is short" for word in words]
    return repairing(
        draw,
        {
            "en": [
                "There's a SyntaxError in {file}. Please correct it and change nothing else.",
                "{file} -> SyntaxError, pls fix",
                "Python refuses to run {file} because of its syntax. Could you put in what is missing?",
                "I must have lost a character in {file}; it does not even start. Please find the place and repair it.",
            ],
            "de": ["{file} läuft nicht, Python meldet einen SyntaxError. Bitte beheben."],
            "fr": ["{file} ne démarre pas : SyntaxError. Corrige-le, s'il te plaît."],
        },
        right,
        wrong,
        text(*rows),
    )


@template
def mean_without_decimals(draw: Draw) -> Task:
    """Whole division, or division by a fixed number."""
    key = draw.word(("marks", "minutes", "lengths", "ratings", "goals", "temperatures", "pages", "visits"))
    numbers = [draw.randint(1, 30) for _ in range(draw.choice([2, 4, 5, 8]))]
    if sum(numbers) % len(numbers) == 0:
        numbers[0] += 1
    mean = sum(numbers) / len(numbers)
    right = text(
        f"{key} = {numbers}",
        "",
        "",
        "def mean(values):",
        "    return sum(values) / len(values)",
        "",
        "",
        f"print(mean({key}))",
    )
    wrong = draw.choice(
        [
            ("/ len(values)", "// len(values)"),
            ("/ len(values)", "/ (len(values) - 1)"),
            ("sum(values) /", "max(values) /"),
        ]
    )
    return repairing(
        draw,
        {
            "en": [
                "{file} gives the wrong mean of the {key}. It ought to be {mean}. Please repair it.",
                "mean in {file} is off, should be {mean}",
                "By my pocket calculator the mean is {mean}, but {file} prints something else. Can you correct"
                " the program?",
                "Why isn't {mean} what {file} prints? That is the average of the {key}. Put it right please.",
            ],
            "de": ["{file} berechnet den Durchschnitt falsch, es müssten {mean} sein. Bitte korrigieren."],
            "es": ["{file} calcula mal la media; debería dar {mean}. Corrígelo."],
        },
        right,
        wrong,
        str(mean),
        key=key,
        mean=mean,
    )


@template
def list_that_remembers(draw: Draw) -> Task:
    """A mutable default argument."""
    function = draw.word(("collect", "gather", "put_in", "take_up", "note_down", "register", "append_to", "stack_up"))
    one, two, three = draw.words(3)
    what = draw.word(("items", "things", "entries", "found", "bag", "shelf", "pile", "rows"))
    right = text(
        f"def {function}(thing, {what}=None):",
        f"    if {what} is None:",
        f"        {what} = []",
        f"    {what}.append(thing)",
        f"    return {what}",
        "",
        "",
        f'print({function}("{one}"))',
        f'print({function}("{two}"))',
        f'print({function}("{three}", ["{one}"]))',
    )
    default = f"{what}=None):\n    if {what} is None:\n        {what} = []\n"
    return repairing(
        draw,
        {
            "en": [
                "In {file} every call of {function} without a list should begin with an empty one, but the second line"
                " shows what the first call put in. Please correct it.",
                "{file}: {function} remembers things from the call before. second line should be just ['{two}']",
                "The second line that {file} prints has {one} in it, where only {two} belongs. Could you find the"
                " cause in"
                " {function} and remove it?",
                "Can you repair {function} in {file}? Called twice, it mixes up the two lists: I expect ['{two}']"
                " in line 2.",
            ],
            "de": [
                "In {file} merkt sich {function} den vorigen Aufruf: Zeile 2 soll nur ['{two}'] zeigen."
                " Korrigiere das.",
            ],
            "fr": [
                "Dans {file}, {function} se souvient de l'appel précédent : la ligne 2 doit être ['{two}']."
                " Corrige-le.",
            ],
        },
        right,
        (default, f"{what}=[]):\n"),
        text(f"['{one}']", f"['{two}']", f"['{one}', '{three}']"),
        function=function,
        one=one,
        two=two,
    )


@template
def file_with_another_name(draw: Draw) -> Task:
    """The program opens a file that does not exist; the right one lies beside it."""
    source = draw.file()
    stem, ending = source.rsplit(".", 1)
    absent = draw.choice([f"{stem}s.{ending}", f"{stem}.text", f"{stem}.dat", f"my_{source}", f"data/{source}", stem])
    lines = [f"{word} {draw.amount()}" for word in draw.words(draw.randint(2, 5))]
    what = draw.choice(["count", "first", "all"])
    body = {
        "count": ["print(len(lines))"],
        "first": ["print(lines[0])"],
        "all": ["for line in lines:", "    print(line.upper())"],
    }[what]
    printed = {"count": str(len(lines)), "first": lines[0], "all": text(*(line.upper() for line in lines))}[what]
    right = text(f'with open("{source}") as file:', "    lines = file.read().splitlines()", *body)
    return repairing(
        draw,
        {
            "en": [
                "{file} does not find its data. They are in {source}; please correct the program.",
                "FileNotFoundError in {file}. the file is called {source}, change it in the program, don't rename"
                " anything",
                "I can't get {file} to run, since it looks for a file that is not there. It should read {source}.",
                "Could you make {file} read {source}? At the moment it stops with a FileNotFoundError.",
            ],
            "de": ["{file} findet seine Datei nicht, sie heißt {source}. Ändere das Programm."],
            "pt": ["{file} não encontra o arquivo; ele se chama {source}. Corrija o programa."],
        },
        right,
        (f'"{source}"', f'"{absent}"'),
        printed,
        source=source,
        files={source: text(*lines)},
    )


@template
def text_and_number_mixed(draw: Draw) -> Task:
    """A TypeError: text plus number."""
    name, age, more = draw.word(PEOPLE), draw.randint(20, 70), draw.randint(2, 20)
    unit = draw.choice(["years", "points", "metres", "euros", "steps"])
    kind = draw.choice(["join", "add"])
    if kind == "join":
        right = text(f'name = "{name}"', f"number = {age}", f'print(name + " has " + str(number) + " {unit}")')
        wrong, printed = ("str(number)", "number"), f"{name} has {age} {unit}"
    else:
        right = text(f'given = "{age}"', f"more = {more}", f'print("{name}:", int(given) + more, "{unit}")')
        wrong, printed = ("int(given)", "given"), f"{name}: {age + more} {unit}"
    return repairing(
        draw,
        {
            "en": [
                "A TypeError comes from {file}. It should print {shown}. Please repair it.",
                "{file} mixes text and numbers and crashes; expected output: {shown}",
                "I am a beginner and do not understand the error in {file}. The line I want to see is {shown}",
                "Can you help? {file} should say {shown} and ends with a TypeError instead.",
            ],
            "de": ["{file} bricht mit einem TypeError ab. Es soll {shown} ausgeben. Bitte beheben."],
            "fr": ["{file} s'arrête avec une TypeError. Il devrait afficher {shown}. Corrige-le."],
        },
        right,
        wrong,
        printed,
        shown=printed,
        **{f"kept_{at}": word for at, word in enumerate(printed.split())},
    )
