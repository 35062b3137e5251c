"""Tasks about the lines of a text: put in, take out, replace, filter, compare."""

from shlex import quote

from training.tasks import pools
from training.tasks.answers import LOWER, answered, kept, number_said, shown, spaced, text_of
from training.tasks.draw import Draw, template
from training.tasks.task import Check, Task, finish, shell

_INSIDE = (
    ("car", "carpet"),
    ("tin", "meeting"),
    ("tea", "teacher"),
    ("art", "party"),
    ("ham", "hammer"),
    ("pen", "open"),
    ("cat", "category"),
    ("sun", "sunday"),
    ("ice", "price"),
    ("ant", "want"),
    ("log", "logo"),
    ("bus", "busy"),
)
"""Words, and longer words that they are a part of."""


def _sentences(draw: Draw, low: int, high: int) -> list[str]:
    return [draw.sentence() for _ in range(draw.randint(low, high))]


@template
def line_after_a_line(draw: Draw) -> Task:
    """A line is put in before or after another one, which is named."""
    source, lines = spaced(draw), draw.words(draw.randint(3, 9), LOWER)
    new, before = draw.word(LOWER), draw.random() < 0.4
    at = draw.randrange(len(lines))
    result = [*lines[: at + (not before)], new, *lines[at + (not before) :]]
    en, de, fr = ("before", "vor", "avant") if before else ("after", "nach", "après")
    return draw.task(
        {
            "en": [
                "In {source}, insert the line {new} right {en} the line {line}.",
                "{source}: {new} is missing, it comes directly {en} {line}",
                "I forgot {new} in {source}. It should be on its own line, {en} {line}.",
                "Can you add a line with {new} to {source}, {en} the one with {line}?",
            ],
            "de": ["Füge in {source} die Zeile {new} direkt {de} der Zeile {line} ein."],
            "fr": ["Dans {source}, insère la ligne {new} juste {fr} la ligne {line}."],
        },
        source=shown(source),
        new=new,
        line=lines[at],
        en=en,
        de=de,
        fr=fr,
        files={source: text_of(lines)},
        steps=[
            shell(f"sed -i '/^{lines[at]}$/{'i' if before else 'a'} {new}' {quote(source)}"),
            finish(f"{new} stands {en} {lines[at]} in {source} now."),
        ],
        check=Check(files={source: text_of(result)}),
    )


@template
def line_replaced_by_number(draw: Draw) -> Task:
    """A line is named by its number; its text may stand twice."""
    source, lines = draw.file(), draw.words(draw.randint(4, 12), LOWER)
    at, new = draw.randint(1, len(lines)), draw.sentence()
    lines[draw.randrange(len(lines))] = lines[at - 1]
    where = draw.choice(["last", "number"]) if at == len(lines) else "number"
    en, de, es = (
        ("the last line", "die letzte Zeile", "la última línea")
        if where == "last"
        else (f"line {at}", f"Zeile {at}", f"la línea {at}")
    )
    return draw.task(
        {
            "en": [
                'Replace {en} of {source} by: "{new}"',
                '{source}, {en} should read "{new}"',
                'The text of {en} in {source} is wrong. It has to be "{new}"',
                'Could you change {en} of {source} to "{new}" and leave all others?',
            ],
            "de": ['Ersetze {de} von {source} durch: "{new}"'],
            "es": ['Cambia {es} de {source} por: "{new}"'],
        },
        source=source,
        en=en,
        de=de,
        es=es,
        new=new,
        **kept(new),
        files={source: text_of(lines)},
        steps=[
            shell(f"sed -i '{'$' if where == 'last' else at}c {new}' {source}"),
            finish(f'{en.capitalize()} of {source} is "{new}" now.'),
        ],
        check=Check(files={source: text_of([*lines[: at - 1], new, *lines[at:]])}),
    )


@template
def lines_with_a_word_deleted(draw: Draw) -> Task:
    """A trap: the word is a part of other words, which stay."""
    source = draw.file()
    word, inside = draw.choice(_INSIDE)
    lines = [
        f"{draw.word(LOWER)} {word if draw.random() < 0.4 else draw.word(LOWER)}" for _ in range(draw.randint(3, 8))
    ]
    lines += [f"{inside} {draw.amount()}", f"{word} {draw.amount()}"]
    draw.shuffle(lines)
    left = [line for line in lines if word not in line.split()]
    return draw.task(
        {
            "en": [
                "Delete the lines of {source} that have the word {word}. Words such as {inside} do not count.",
                "take every line with the word {word} out of {source} ({inside} is a different word)",
                "I don't want any line with {word} in {source}, but lines with {inside} should stay.",
                "Can you clean {source} of all lines where {word} stands as a whole word?",
            ],
            "de": ["Lösche aus {source} alle Zeilen mit dem Wort {word}; {inside} bleibt stehen."],
            "fr": ["Supprime de {source} les lignes qui contiennent le mot {word} (pas {inside})."],
        },
        source=source,
        word=word,
        inside=inside,
        files={source: text_of(lines)},
        steps=[
            shell(f"sed -i '/\\b{word}\\b/d' {source}"),
            finish(f"{len(lines) - len(left)} lines with the word {word} are deleted from {source}."),
        ],
        check=Check(files={source: text_of(left)}),
    )


@template
def lines_kept_with_a_word(draw: Draw) -> Task:
    """Lines with a word, or those without it, go to another file; the order is kept."""
    source, target = draw.file(), spaced(draw, share=0.2)
    word, without = draw.word(LOWER), draw.random() < 0.4
    lines = [
        f"{draw.word(pools.PEOPLE)} {draw.choice([word, 'juggling', 'nothing'])}" for _ in range(draw.randint(4, 11))
    ]
    lines[draw.randrange(3)] = f"{draw.word(pools.PEOPLE)} {word}"
    wanted = [line for line in lines if (word in line) != without]
    en, de, es = ("without", "ohne", "sin") if without else ("with", "mit", "con")
    return draw.task(
        {
            "en": [
                "Copy the lines {en} {word} from {source} to {target}.",
                "all lines {en} {word} in {source} -> {target}, same order",
                "{target} should contain those lines of {source} {en} the word {word}.",
                "Please filter {source}: I want the lines {en} {word}, saved as {target}.",
            ],
            "de": ["Schreib alle Zeilen {de} {word} aus {source} nach {target}."],
            "es": ["Guarda en {target} las líneas {es} {word} de {source}."],
        },
        source=source,
        target=shown(target),
        word=word,
        en=en,
        de=de,
        es=es,
        files={source: text_of(lines)},
        steps=[
            shell(f"grep {'-vw' if without else '-w'} {word} {source} > {quote(target)}"),
            finish(f"{target} has the {len(wanted)} lines {en} {word}."),
        ],
        check=Check(files={target: text_of(wanted)}),
    )


@template
def some_lines_deleted_by_place(draw: Draw) -> Task:
    """The first, the last, or some in the middle."""
    source, lines = draw.file(), _sentences(draw, 7, 12)
    count = draw.randint(2, 3)
    first = draw.randint(2, len(lines) - count - 1)
    en, de, fr, sed, left = draw.choice(
        [
            (
                f"the first {count} lines",
                f"die ersten {count} Zeilen",
                f"les {count} premières lignes",
                f"1,{count}d",
                lines[count:],
            ),
            (
                f"lines {first} to {first + count}",
                f"die Zeilen {first} bis {first + count}",
                f"les lignes {first} à {first + count}",
                f"{first},{first + count}d",
                [*lines[: first - 1], *lines[first + count :]],
            ),
            (
                f"line {first}",
                f"Zeile {first}",
                f"la ligne {first}",
                f"{first}d",
                [*lines[: first - 1], *lines[first:]],
            ),
            ("the last line", "die letzte Zeile", "la dernière ligne", "$d", lines[:-1]),
            (
                "the first and the last line",
                "die erste und die letzte Zeile",
                "la première et la dernière ligne",
                "1d;$d",
                lines[1:-1],
            ),
        ]
    )
    return draw.task(
        {
            "en": [
                "Delete {en} of {source}.",
                "{source}: drop {en}",
                "I don't need {en} in {source} any more. All others stay.",
                "Could you take {en} out of {source}?",
            ],
            "de": ["Lösche {de} aus {source}."],
            "fr": ["Supprime {fr} de {source}."],
        },
        source=source,
        en=en,
        de=de,
        fr=fr,
        files={source: text_of(lines)},
        steps=[shell(f"sed -i '{sed}' {source}"), finish(f"I deleted {en} of {source}.")],
        check=Check(files={source: text_of(left)}),
    )


@template
def lines_only_in_one(draw: Draw) -> Task:
    """Lines of one file that the other does not have, in their order."""
    first, second, target = draw.file(), draw.file(), draw.file()
    words = draw.words(draw.randint(5, 10), LOWER)
    one = draw.sample(words, draw.randint(3, len(words)))
    two = draw.sample([*words, *draw.words(2, LOWER)], draw.randint(3, 6))
    both = draw.random() < 0.4
    wanted = [each for each in one if (each in two) == both]
    wanted = wanted or [draw.word(LOWER)]
    if not any((each in two) == both for each in one):
        one += wanted
        two += wanted if both else []
    en, de, fr = (
        ("are also in", "auch in", "figurent aussi dans") if both else ("are not in", "nicht in", "ne sont pas dans")
    )
    return draw.task(
        {
            "en": [
                "Write the lines of {first} that {en} {second} to {target}, in the order of {first}.",
                "which lines of {first} {en} {second}? list them in {target}, keep the order",
                "I need {target} with those entries from {first} that {en} {second}.",
                "Compare {first} with {second}. Entries of {first} that {en} {second} should go to {target}.",
            ],
            "de": ["Schreib die Zeilen von {first}, die {de} {second} stehen, nach {target}."],
            "fr": ["Écris dans {target} les lignes de {first} qui {fr} {second}."],
        },
        first=first,
        second=second,
        target=target,
        en=en,
        de=de,
        fr=fr,
        files={first: text_of(one), second: text_of(two)},
        steps=[
            shell(f"grep -{'' if both else 'v'}xFf {second} {first} > {target}"),
            finish(f"{target} has the {len(wanted)} lines of {first} that {en} {second}."),
        ],
        check=Check(files={target: text_of(wanted)}),
    )


@template
def blank_lines_out(draw: Draw) -> Task:
    """Empty lines go; a line of spaces is empty, too."""
    source = draw.file(draw.choice(["txt", "md"]))
    lines = _sentences(draw, 3, 6)
    mixed: list[str] = []
    for line in lines:
        mixed += [line, *[draw.choice(["", "", "  "]) for _ in range(draw.randint(0, 2))]]
    mixed.insert(1, "")
    return draw.task(
        {
            "en": [
                "Remove the blank lines from {source}.",
                "{source} has too many empty lines, take all of them out",
                "I want {source} without empty lines (lines with only spaces are empty, too).",
                "Could you close the gaps in {source}? No blank lines should remain.",
            ],
            "de": ["Entferne die leeren Zeilen aus {source}."],
            "es": ["Elimina las líneas en blanco de {source}."],
            "fr": ["Retire les lignes vides de {source}."],
        },
        source=source,
        files={source: text_of(mixed)},
        steps=[shell(f"sed -i '/^\\s*$/d' {source}"), finish(f"{source} has no blank lines any more.")],
        check=Check(files={source: text_of(lines)}),
    )


@template
def part_between_marks(draw: Draw) -> Task:
    """What stands between two lines that are named, without these lines."""
    source, target = draw.file(draw.choice(["txt", "md"])), draw.file()
    begin, end = draw.choice([("BEGIN", "END"), ("--- start", "--- stop"), ("[first]", "[last]"), ("# from", "# to")])
    before, inner, after = _sentences(draw, 1, 4), _sentences(draw, 2, 5), _sentences(draw, 1, 4)
    one, two = begin.replace("[", "\\[").replace("]", "\\]"), end.replace("[", "\\[").replace("]", "\\]")
    return draw.task(
        {
            "en": [
                'Copy what is between the lines "{begin}" and "{end}" of {source} to {target}, without these two.',
                'everything between "{begin}" and "{end}" in {source} should go into {target} (not the marks)',
                'I only need the part of {source} after "{begin}" and before "{end}". Save it as {target}.',
                'Can you cut out the block from "{begin}" to "{end}" of {source}, marks not included, into {target}? '
                "{source} stays as it is.",
            ],
            "de": ['Kopiere den Teil von {source} zwischen den Zeilen "{begin}" und "{end}" nach {target}.'],
            "fr": ['Copie dans {target} ce qui se trouve entre les lignes "{begin}" et "{end}" de {source}.'],
        },
        source=source,
        target=target,
        begin=begin,
        end=end,
        **kept(begin, end),
        files={source: text_of([*before, begin, *inner, end, *after])},
        steps=[
            shell(f"sed -n '/^{one}$/,/^{two}$/p' {source} | sed '1d;$d' > {target}"),
            finish(f"{target} has the {len(inner)} lines between the marks."),
        ],
        check=Check(files={target: text_of(inner)}),
    )


@template
def line_added_at_an_end(draw: Draw) -> Task:
    """A trap: the file has no newline at its end."""
    source, lines = spaced(draw), _sentences(draw, 1, 5)
    new, top, end = draw.sentence(), draw.random() < 0.35, draw.choice(["\n", "", ""])
    en, de, es = ("top", "oben", "al principio") if top else ("end", "am Ende", "al final")
    step = f"sed -i '1i {new}' {quote(source)}" if top else f"sed -i '$a {new}' {quote(source)}"
    return draw.task(
        {
            "en": [
                'Add "{new}" as a new line at the {en} of {source}.',
                'one more line for {source}, at the {en}: "{new}"',
                'I would like {source} to have the sentence "{new}" at the {en}, on a line of its own.',
                'Could you write "{new}" to the {en} of {source}? The rest stays.',
            ],
            "de": ['Füge in {source} {de} die Zeile "{new}" ein.'],
            "es": ['Añade {es} de {source} la línea "{new}"'],
        },
        source=shown(source),
        new=new,
        en=en,
        de=de,
        es=es,
        **kept(new),
        files={source: "\n".join(lines) + end},
        steps=[shell(step), finish(f"The line is at the {en} of {source} now.")],
        check=Check(files={source: text_of([new, *lines] if top else [*lines, new])}),
    )


@template
def list_with_bullets(draw: Draw) -> Task:
    """Lines get a sign in front, or lose it."""
    source, sign = draw.file(draw.choice(["md", "txt"])), draw.choice(["- ", "* ", "> ", "# ", "- [ ] ", "    "])
    plain = draw.words(draw.randint(3, 9), LOWER)
    marked, off = [f"{sign}{each}" for each in plain], draw.random() < 0.35
    pattern = sign.replace("*", "\\*").replace("[", "\\[").replace("]", "\\]")
    step = f"sed -i 's/^{pattern}//' {source}" if off else f"sed -i 's/^/{sign}/' {source}"
    name = "four spaces" if sign == "    " else f'"{sign}"'
    return draw.task(
        {
            "en": (
                [
                    "Remove {name} from the beginning of every line in {source}.",
                    "{source}: lines start with {name}, i want them without",
                    "The {name} in front of the lines of {source} should go.",
                    "Could you clear away {name} at the start of the lines of {source}?",
                ]
                if off
                else [
                    "Put {name} in front of every line of {source}.",
                    "{source}: every line should start with {name}",
                    "I want each entry of {source} to begin with {name}.",
                    "Could you prefix the lines in {source} with {name}?",
                ]
            ),
            "de": ["{german} in {source} {name} am Anfang jeder Zeile."],
            "fr": ["{french} {name} au début de chaque ligne de {source}."],
        },
        source=source,
        name=name,
        german="Entferne" if off else "Ergänze",
        french="Enlève" if off else "Ajoute",
        **kept("four spaces"),
        files={source: text_of(marked if off else plain)},
        steps=[shell(step), finish(f"The {len(plain)} lines of {source} are changed.")],
        check=Check(files={source: text_of(plain if off else marked)}),
    )


@template
def done_in_a_task_list(draw: Draw) -> Task:
    """One or two entries of a list are ticked; ticked ones stay."""
    source, items = (
        draw.file("md"),
        [f"{draw.choice(['buy', 'clean', 'fetch', 'paint'])} {draw.word(LOWER)}" for _ in range(draw.randint(3, 10))],
    )
    done = set(draw.sample(items, draw.randint(1, len(items) - 1)))
    left = len(items) - len(done) - 1
    new = draw.choice([each for each in items if each not in done])
    before = [f"- [{'x' if each in done else ' '}] {each}" for each in items]
    after = [f"- [{'x' if each in done or each == new else ' '}] {each}" for each in items]
    return answered(
        draw.task(
            {
                "en": [
                    'In {source}, tick off "{new}" and tell me how many entries are still open.',
                    '"{new}" is done, mark it in {source}. what number of things is left?',
                    'I have finished "{new}". Please check it off in {source} and say how many open entries remain.',
                    'How many entries of {source} are open once "{new}" is ticked? Please tick it.',
                ],
                "de": ['Hake in {source} "{new}" ab und sag mir, wie viele Punkte noch offen sind.'],
                "fr": ['Coche "{new}" dans {source} et dis-moi combien de points restent ouverts.'],
            },
            source=source,
            new=new,
            **kept(new),
            files={source: text_of(before)},
            steps=[shell(f"sed -i 's/^- \\[ \\] {new}$/- [x] {new}/' {source} && grep -c '^- \\[ \\]' {source}")],
            check=Check(files={source: text_of(after)}, says=[number_said(left)]),
        ),
        {
            "en": f"{new} is ticked off in {source}; entries still open: {left}.",
            "de": f"{new} ist in {source} abgehakt; noch offen: {left}.",
            "fr": f"{new} est coché dans {source} ; points encore ouverts : {left}.",
        },
    )
