"""Tasks about programs that read files, or consist of several files, and have one mistake."""

from itertools import pairwise

from training.tasks.code_parts import MENDED, done, module, program, stem_of, text
from training.tasks.draw import Draw, template
from training.tasks.pools import PEOPLE
from training.tasks.repairs import repairing
from training.tasks.task import Check, Task, shell, write


@template
def largest_of_negative_numbers(draw: Draw) -> Task:
    """The search starts with 0, so all numbers below zero are overlooked; or it looks the wrong way."""
    values = [-draw.randint(1, 60) for _ in range(draw.randint(3, 6))]
    key = draw.word(("depths", "temperatures", "balances", "changes", "losses", "levels", "offsets", "debts"))
    right = text(
        f"{key} = {values}",
        f"best = {key}[0]",
        f"for value in {key}:",
        "    if value > best:",
        "        best = value",
        "print(best)",
    )
    wrong = draw.choice([(f"best = {key}[0]", "best = 0"), ("value > best", "value < best")])
    if len(set(values)) == 1:
        values[0] -= 1
        right = right.replace(right.split("\n")[0], f"{key} = {values}")
    return repairing(
        draw,
        {
            "en": [
                "{file} is to print the largest of the {key}, and that is {best}. It prints something else."
                " Please mend it.",
                "wrong maximum in {file}: should be {best}",
                "All the {key} in {file} are below zero. The largest of them is {best}, but the program does not"
                " see that."
                " Could you correct it?",
                "Can you find out why {file} does not print {best}, the greatest of the numbers, and repair it?",
            ],
            "de": ["{file} soll die größte Zahl ausgeben, das ist {best}. Es kommt etwas anderes. Korrigiere es."],
            "es": ["{file} debe mostrar el número más grande, que es {best}, y no lo hace. Corrígelo."],
        },
        right,
        wrong,
        str(max(values)),
        key=key,
        best=max(values),
    )


@template
def numbers_sorted_as_text(draw: Draw) -> Task:
    """Lines of a file are compared as text: 10 comes before 9."""
    source = draw.file()
    numbers = [
        draw.randint(2, 9),
        draw.randint(10, 99),
        draw.randint(100, 999),
        *(draw.randint(1, 400) for _ in range(3)),
    ]
    draw.shuffle(numbers)
    kind = draw.choice(["sorted", "max"])
    body = ["for number in sorted(numbers):", "    print(number)"] if kind == "sorted" else ["print(max(numbers))"]
    if kind == "max":
        numbers = [n for n in numbers if n < 100] + [9, 100 + draw.randint(0, 99)]
    right = text(f'with open("{source}") as file:', "    numbers = [int(line) for line in file]", *body)
    printed = text(*map(str, sorted(numbers))) if kind == "sorted" else str(max(numbers))
    what = "the numbers from small to large" if kind == "sorted" else "the largest number"
    german = "die Zahlen von klein nach groß" if kind == "sorted" else "die größte Zahl"
    french = "les nombres du plus petit au plus grand" if kind == "sorted" else "le plus grand nombre"
    return repairing(
        draw,
        {
            "en": [
                "{file} should print {what} of {source}, but it gets them wrong. Please correct it.",
                "{file} thinks 9 is more than 10?! it should print {what} in {source}",
                "I'd expect {what} when I run {file} (it reads {source}). It seems to compare them like words."
                " Mend it, please.",
                "Could you look at {file}? It reads {source} and is meant to print {what}; that does not work"
                " with numbers"
                " of different length.",
            ],
            "de": ["{file} soll {german} aus {source} ausgeben, macht es aber falsch. Bitte korrigieren."],
            "fr": ["{file} devrait afficher {french} de {source}, mais il se trompe. Corrige-le."],
        },
        right,
        ("int(line)", "line.strip()"),
        printed,
        source=source,
        what=what,
        german=german,
        french=french,
        files={source: text(*map(str, numbers))},
    )


@template
def header_read_as_number(draw: Draw) -> Task:
    """The first line of a CSV file is a header."""
    source = draw.file("csv")
    column = draw.choice(["amount", "hours", "weight", "price", "count"])
    rows = [(name, draw.randint(1, 90)) for name in draw.words(draw.randint(3, 6))]
    total = sum(number for _, number in rows)
    right = text(
        "total = 0",
        f'with open("{source}") as file:',
        "    next(file)",
        "    for line in file:",
        '        total += int(line.split(",")[1])',
        "print(total)",
    )
    return repairing(
        draw,
        {
            "en": [
                "{file} adds up {column} of {source} and stops with a ValueError. Can you mend it? {source} is fine.",
                "ValueError in {file}: the first line in {source} is a header and should be skipped",
                "Please correct {file}. It trips over the heading line of {source}; the sum of {column} is what"
                " it should"
                " print.",
                "I keep getting 'invalid literal for int' from {file}, which reads {source}. Please repair the"
                " program.",
            ],
            "de": ["{file} summiert {column} aus {source} und bricht mit ValueError ab. Korrigiere das Programm."],
            "pt": ["{file} soma {column} de {source} e para com ValueError. Corrija o programa, não os dados."],
        },
        right,
        ("    next(file)\n", ""),
        str(total),
        source=source,
        column=column,
        files={source: text(f"name,{column}", *(f"{name},{number}" for name, number in rows))},
    )


@template
def key_that_is_not_there(draw: Draw) -> Task:
    """A KeyError: the keys differ in spelling; the data stay."""
    key = draw.word(("birthday", "postcode", "street", "phone", "colour", "country", "language", "quantity"))
    wrong = draw.choice([key.capitalize(), f"{key}s", f"{key[:2]}_{key[2:]}", key[:-1]])
    people = draw.words(draw.randint(2, 4), PEOPLE)
    entries = {person: draw.randint(10, 99) for person in people}
    right = text(
        "people = [",
        *(f'    {{"name": "{person}", "{key}": {value}}},' for person, value in entries.items()),
        "]",
        "for person in people:",
        f'    print(person["name"], person["{key}"])',
    )
    return repairing(
        draw,
        {
            "en": [
                "{file} fails with a KeyError. It should print name and {key} of each person. Please correct it.",
                "KeyError in {file}, each line should be the name and the {key}",
                "Someone changed {file}, now it crashes with a KeyError. The key is {key}. Can you repair the program?",
                "How do I get rid of the KeyError in {file}? I only want to see the names with their {key}. Do it"
                " for me.",
            ],
            "de": ["{file} endet mit einem KeyError; es soll Name und {key} jeder Person ausgeben. Bitte beheben."],
            "es": ["{file} falla con un KeyError; debe mostrar el nombre y {key} de cada persona. Corrígelo."],
        },
        right,
        (f'person["{key}"]', f'person["{wrong}"]'),
        text(*(f"{person} {value}" for person, value in entries.items())),
        key=key,
    )


@template
def index_out_of_range(draw: Draw) -> Task:
    """One place too far at the end of a list."""
    names = draw.words(draw.randint(3, 6))
    what = draw.choice(["last", "pairs"])
    if what == "last":
        right = text(f"names = {names}", 'print("first:", names[0])', 'print("last:", names[len(names) - 1])')
        wrong, printed = ("len(names) - 1", "len(names)"), text(f"first: {names[0]}", f"last: {names[-1]}")
    else:
        right = text(
            f"names = {names}", "for at in range(len(names) - 1):", '    print(names[at], "->", names[at + 1])'
        )
        wrong = ("len(names) - 1", "len(names)")
        printed = text(*(f"{one} -> {two}" for one, two in pairwise(names)))
    final = printed.rstrip().split("\n")[-1]
    return repairing(
        draw,
        {
            "en": [
                "{file} ends with 'list index out of range'. The final line should be {final}. Please put that right.",
                "IndexError in {file}; last line must be {final}",
                "I don't know why {file} goes beyond its list. It should end with the line {final} and without an"
                " error;"
                " can you correct it?",
                "Please remove the IndexError from {file}: after {final} nothing more is to be printed.",
            ],
            "de": ["{file} bricht mit einem IndexError ab. Die letzte Zeile soll {final} sein. Korrigiere es."],
            "fr": ["{file} s'arrête avec une IndexError. La dernière ligne doit être {final}. Corrige-le."],
        },
        right,
        wrong,
        printed,
        final=final,
        **{f"kept_{at}": word for at, word in enumerate(final.split())},
    )


@template
def words_counted_apart(draw: Draw) -> Task:
    """Upper and lower case, or a full stop, make two words of one."""
    source = draw.file()
    word, other, third = (each.lower() for each in draw.words(3))
    spread = [word, word.capitalize(), other, word, f"{third}", other.capitalize(), word]
    draw.shuffle(spread)
    count = 4
    right = text(
        f'with open("{source}") as file:',
        "    words = file.read().lower().split()",
        f'print("{word}", words.count("{word}"))',
    )
    return repairing(
        draw,
        {
            "en": [
                "{file} should count {word} in {source} whether it is written with a capital or not: {count}. It"
                " does not."
                " Please correct the program.",
                "{file} misses the {word} with a capital letter in {source}; right answer is {count}",
                "There are {count} times {word} in {source}, if you do not care about capital letters. Let {file}"
                " count them"
                " all.",
                "Could {file} count {word} regardless of upper and lower case? For {source} that is {count}.",
            ],
            "de": [
                "{file} zählt {word} in {source} falsch: Mit Groß- und Kleinschreibung zusammen sind es {count}."
                " Korrigiere.",
            ],
            "pt": ["{file} conta {word} em {source} errado: com maiúsculas e minúsculas são {count}. Corrija."],
        },
        right,
        (".lower()", ""),
        f"{word} {count}",
        source=source,
        word=word,
        count=count,
        files={source: text(" ".join(spread[:4]), " ".join(spread[4:]))},
    )


@template
def function_renamed_in_one_place(draw: Draw) -> Task:
    """Two files: the helper's function has a new name, and the program still uses the old one."""
    main, helper = module(draw), module(draw)
    verb = draw.word(("wrap", "frame", "mark", "quote", "label", "prefix", "border", "title"))
    old, new = f"{verb}_line", draw.choice([f"{verb}_text", f"{verb}_row", f"{verb}_string"])
    sign, word = draw.choice(["*", "-", "=", "+", "~"]), draw.word()
    by_name = draw.random() < 0.5
    source = text(f"def {new}(line):", f'    return "{sign} " + line + " {sign}"')
    stem = stem_of(helper)
    right = (
        text(f"from {stem} import {new}", "", f'print({new}("{word}"))')
        if by_name
        else text(f"import {stem}", "", f'print({stem}.{new}("{word}"))')
    )
    task = draw.task(
        {
            "en": [
                "{main} does not work any more since a function in {helper} has another name. Correct {main};"
                " {helper} stays.",
                "{main} uses a function of {helper} by its old name. fix {main} only",
                "After I renamed a function in {helper}, {main} stopped working. Could you bring {main} up to date?",
                "Why can't {main} find its function in {helper}? Please repair {main} and do not touch {helper}.",
            ],
            "de": ["{main} läuft nicht mehr, weil eine Funktion in {helper} jetzt anders heißt. Passe {main} an."],
            "fr": [
                "{main} ne marche plus, car une fonction de {helper} a changé de nom. Corrige {main}, pas {helper}.",
            ],
        },
        main=main,
        helper=helper,
        files={main: right.replace(new, old), helper: source},
        steps=[shell(f"python3 {main}"), write(main, right), shell(f"python3 {main}")],
        check=Check(prints={f"python3 -B {main}": f"{sign} {word} {sign}"}, free=[main]),
    )
    return done(task, MENDED, file=main)


@template
def broken_json_that_a_program_reads(draw: Draw) -> Task:
    """The program is right, its settings are no JSON."""
    name, source = program(draw), draw.file("json")
    word, number, other = draw.word(), draw.amount(), draw.amount()
    right = text("{", f'  "title": "{word}",', f'  "size": {number},', f'  "limit": {other}', "}")
    wrong = draw.choice(
        [
            (f'"limit": {other}', f'"limit": {other},'),
            (f"{number},", f"{number}"),
            ('"title"', "title"),
            (f'"{word}"', f"'{word}'"),
            ('"size":', '"size"'),
            ("\n}", ""),
        ]
    )
    code = text(
        "import json",
        "",
        f'with open("{source}") as file:',
        "    settings = json.load(file)",
        'print(settings["title"], settings["size"] * settings["limit"])',
    )
    task = draw.task(
        {
            "en": [
                "{file} cannot read {source}, the JSON in it is broken. Repair {source}; the values stay.",
                "{source} is invalid json and {file} dies on it. fix the json",
                "When I start {file}, it complains about {source}. I edited that by hand and must have made a"
                " mistake; can"
                " you correct it?",
                "What is wrong with {source}? {file} should be able to load it. Please change only what is needed.",
            ],
            "de": [
                "{file} kann {source} nicht lesen, das JSON ist fehlerhaft. Korrigiere {source}, die Werte bleiben.",
            ],
            "es": ["{file} no puede leer {source}: el JSON está mal. Arregla {source} sin cambiar los valores."],
        },
        file=name,
        source=source,
        files={name: code, source: right.replace(*wrong, 1)},
        steps=[shell(f"python3 {name}"), write(source, right), shell(f"python3 {name}")],
        check=Check(
            values={source: {"title": word, "size": number, "limit": other}},
            prints={f"python3 -B {name}": f"{word} {number * other}"},
        ),
    )
    said = {
        "en": "{source} is valid JSON again, and {file} runs.",
        "de": "{source} ist wieder gültiges JSON, und {file} läuft.",
        "es": "{source} vuelve a ser JSON válido y {file} funciona.",
    }
    return done(task, said, source=source, file=name)
