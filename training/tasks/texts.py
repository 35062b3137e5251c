"""Tasks that change or measure what stands in texts: words, case, spaces, formats, counts."""

from training.tasks import pools
from training.tasks.answers import LOWER, answered, number_said, text_of
from training.tasks.draw import Draw, template
from training.tasks.task import Check, Task, finish, shell

_MISSPELT = (
    ("calender", "calendar"),
    ("adress", "address"),
    ("tommorow", "tomorrow"),
    ("wich", "which"),
    ("definately", "definitely"),
    ("begining", "beginning"),
    ("neccessary", "necessary"),
    ("untill", "until"),
    ("goverment", "government"),
)


def _date(draw: Draw) -> tuple[int, int, int]:
    return draw.randint(2019, 2027), draw.randint(1, 12), draw.randint(1, 28)


@template
def word_replaced_whole(draw: Draw) -> Task:
    """A trap: the word is also a part of longer words, which stay."""
    source = draw.file(draw.choice(["txt", "md"]))
    old, longer = draw.choice(
        [
            ("cat", "category"),
            ("car", "cargo"),
            ("pan", "company"),
            ("rat", "rather"),
            ("hen", "when"),
            ("ear", "early"),
        ]
    )
    new = draw.word(LOWER)
    lines = [
        f"The {old} is near the {draw.word(LOWER)}.",
        f"See {longer} {draw.amount()}.",
        draw.sentence(),
        f"A {old} and a {draw.word(LOWER)}, {longer} too.",
        f"No {old}, no {old}!",
    ]
    lines = draw.sample(lines, draw.randint(3, 5))
    lines += [f"One {old} for {draw.word(pools.PEOPLE)}."]
    result = [" ".join(_exchange(word, old, new) for word in line.split(" ")) for line in lines]
    return draw.task(
        {
            "en": [
                "Replace the word {old} with {new} in {source}. {longer} is another word and stays.",
                "{source}: every {old} becomes {new}, but dont touch words like {longer}",
                "In {source} I wrote {old} where I meant {new}. Please correct it, whole words only.",
                "Could you exchange the word {old} for {new} throughout {source}, without damage to {longer}?",
            ],
            "de": ["Ersetze in {source} das Wort {old} durch {new}; {longer} bleibt, wie es ist."],
            "fr": ["Dans {source}, remplace le mot {old} par {new}, sans toucher à {longer}."],
        },
        source=source,
        old=old,
        new=new,
        longer=longer,
        files={source: text_of(lines)},
        steps=[
            shell(f"sed -i 's/\\b{old}\\b/{new}/g' {source}"),
            finish(f"Every {old} in {source} is {new} now; longer words are as they were."),
        ],
        check=Check(files={source: text_of(result)}),
    )


def _exchange(word: str, old: str, new: str) -> str:
    bare = word.rstrip(".,!")
    return new + word[len(bare) :] if bare == old else word


@template
def word_replaced_in_a_folder(draw: Draw) -> Task:
    """All files of a folder, subfolders too; the same word outside of it stays."""
    where, (old, new) = draw.folder(), draw.words(2, LOWER)
    names = [
        f"{where}/{draw.choice(['', 'deep/'])}{draw.file(draw.choice(['txt', 'md']))}"
        for _ in range(draw.randint(2, 4))
    ]
    form = "{}\nThe word is {} here, and {} there.\n"
    files = {each: form.format(draw.sentence(), old, old) for each in names}
    files[f"{where}/{draw.file()}"] = f"{draw.sentence()}\n"
    outside = {draw.file(): form.format(draw.sentence(), old, old)}
    return draw.task(
        {
            "en": [
                "In all files of the folder {where}, subfolders included, change {old} to {new}.",
                "{old} -> {new} everywhere inside {where} (also deeper)",
                "We renamed {old}: it is {new} now. Please update every file in {where} and below.",
                "Can every {old} in the files under {where} be turned into {new}? Files elsewhere stay.",
            ],
            "de": ["Ändere in allen Dateien unter {where} das Wort {old} in {new}."],
            "es": ["En todos los archivos de {where} y sus subcarpetas, cambia {old} por {new}."],
        },
        where=where,
        old=old,
        new=new,
        files={**files, **outside},
        steps=[
            shell(f"grep -rl {old} {where} | xargs -d '\\n' sed -i 's/{old}/{new}/g'"),
            shell(f"grep -rc {new} {where}"),
            finish(f"{len(names)} files under {where} say {new} instead of {old} now."),
        ],
        check=Check(files={each: text.replace(old, new) for each, text in files.items()}),
    )


@template
def letters_of_another_size(draw: Draw) -> Task:
    """A whole file in capitals, or without any."""
    source, target, upper = draw.file(), draw.file(), draw.random() < 0.6
    lines = [draw.sentence() for _ in range(draw.randint(1, 5))]
    same = draw.random() < 0.4
    source_text = text_of(lines)
    text = source_text.upper() if upper else source_text.lower()
    case = ("a-z A-Z" if upper else "A-Z a-z").split()
    command = f"tr {case[0]} {case[1]} < {source} > {target}"
    if same:
        command = f"sed -i 's/.*/\\{'U' if upper else 'L'}&/' {source}"
    result = source if same else target
    en, de, fr = (
        ("upper case", "Großbuchstaben", "majuscules") if upper else ("lower case", "Kleinbuchstaben", "minuscules")
    )
    return draw.task(
        {
            "en": [
                "Convert {source} to {en}{how}.",
                "{source} in {en} please{how}",
                "I'd like to have the text of {source} all in {en}{how}.",
                "Could you write everything that {source} says in {en}{how}?",
            ],
            "de": ["Schreib den ganzen Text von {source} in {de}{german}."],
            "fr": ["Mets tout le texte de {source} en {fr}{french}."],
        },
        source=source,
        en=en,
        de=de,
        fr=fr,
        how=", same file" if same else f" and save that as {target}",
        german=", in derselben Datei" if same else f" nach {target}",
        french=", dans le même fichier" if same else f" dans {target}",
        files={source: source_text},
        steps=[shell(command), finish(f"{result} has the text in {en}.")],
        check=Check(files={result: text}),
    )


@template
def capital_at_the_beginning(draw: Draw) -> Task:
    """The first letter of each line, or of each word."""
    source, each_word = draw.file(), draw.random() < 0.4
    lines = [" ".join(draw.words(draw.randint(1, 3), LOWER)) for _ in range(draw.randint(3, 8))]
    result = [line.title() if each_word else line.capitalize() for line in lines]
    what = ("every word", "jedes Wort", "cada palabra") if each_word else ("every line", "jede Zeile", "cada línea")
    command = f"sed -i 's/\\b[a-z]/\\U&/g' {source}" if each_word else f"sed -i 's/^./\\U&/' {source}"
    return draw.task(
        {
            "en": [
                "Let {what[0]} in {source} begin with a capital letter.",
                "{source}: capital letter at the start of {what[0]}",
                "In {source}, {what[0]} starts with a small letter. I want a capital there; leave the other letters.",
                "Could you capitalise the first letter of {what[0]} in {source}?",
            ],
            "de": ["In {source} soll {what[1]} mit einem Großbuchstaben beginnen."],
            "es": ["Haz que {what[2]} de {source} empiece con mayúscula."],
        },
        what=what,
        source=source,
        files={source: text_of(lines)},
        steps=[shell(command), finish(f"{what[0].capitalize()} in {source} begins with a capital now.")],
        check=Check(files={source: text_of(result)}),
    )


@template
def dates_in_another_form(draw: Draw) -> Task:
    """Dates in the middle of texts get another form; other numbers stay."""
    source, to_iso = draw.file(), draw.random() < 0.65
    lines, result = [], []
    for _ in range(draw.randint(2, 6)):
        year, month, day = _date(draw)
        forms = [f"{day:02}.{month:02}.{year}", f"{year}-{month:02}-{day:02}"]
        before, after = forms if to_iso else forms[::-1]
        line = draw.choice(["{} {}", "{1}: {0}", "On {1}, {0} came for {2} days.", "v{2}.1 of {1} ({0})"])
        line = line if line != "{} {}" else "{0} {1}"
        words = draw.word(pools.PEOPLE), draw.amount()
        lines.append(line.format(words[0], before, words[1]))
        result.append(line.format(words[0], after, words[1]))
    forms = ["DD.MM.YYYY", "YYYY-MM-DD"]
    old, new = forms if to_iso else forms[::-1]
    command = (
        f"sed -i -E 's/([0-9]{{2}})\\.([0-9]{{2}})\\.([0-9]{{4}})/\\3-\\2-\\1/g' {source}"
        if to_iso
        else f"sed -i -E 's/([0-9]{{4}})-([0-9]{{2}})-([0-9]{{2}})/\\3.\\2.\\1/g' {source}"
    )
    return draw.task(
        {
            "en": [
                "Change the dates in {source} from {old} to {new}.",
                "dates in {source} look like {old}, they should look like {new}",
                "All dates of {source} have the form {old}; our tool needs {new}. Please convert them.",
                "Could you rewrite every date in {source} as {new} (now it is {old})?",
            ],
            "de": ["Ändere alle Datumsangaben in {source} von {old} zu {new}."],
            "fr": ["Convertis les dates de {source} du format {old} au format {new}."],
        },
        source=source,
        old=old,
        new=new,
        files={source: text_of(lines)},
        steps=[shell(command), shell(f"cat {source}"), finish(f"The dates in {source} have the form {new} now.")],
        check=Check(files={source: text_of(result)}),
    )


@template
def spaces_at_line_ends(draw: Draw) -> Task:
    """Spaces and tabs at the ends of lines; those at the beginning stay."""
    source = draw.file(draw.choice(["txt", "md", "py"]))
    lines = [f"{draw.choice(['', '    '])}{draw.sentence()}" for _ in range(draw.randint(3, 7))]
    dirty = [f"{line}{draw.choice(['', ' ', '   ', chr(9)])}" for line in lines]
    dirty[0] += "  "
    count = sum(line != line.rstrip() for line in dirty)
    return answered(
        draw.task(
            {
                "en": [
                    "Remove the spaces at the ends of the lines in {source} and tell me how many lines had some.",
                    "{source}: strip trailing whitespace. how many lines were affected?",
                    "Lines in {source} end in needless spaces or tabs. Please take these away; how many lines was it?",
                    "How many lines of {source} have blanks at their end? Clean them up.",
                ],
                "de": ["Entferne Leerzeichen am Zeilenende in {source} und sag, in wie vielen Zeilen welche waren."],
                "es": ["Quita los espacios al final de las líneas de {source} y dime en cuántas líneas había."],
            },
            source=source,
            files={source: text_of(dirty)},
            steps=[shell(f"grep -c '[[:space:]]$' {source}"), shell(f"sed -i 's/[[:space:]]*$//' {source}")],
            check=Check(
                files={source: text_of(lines)},
                prints={f"grep -c '[[:space:]]$' {source} || true": "0"},
                says=[number_said(count)],
            ),
        ),
        {
            "en": f"{count} lines of {source} had spaces or tabs at the end; they are gone.",
            "de": f"{count} Zeilen von {source} hatten Leerzeichen am Ende; sie sind weg.",
            "es": f"{count} líneas de {source} tenían espacios al final; ya no están.",
        },
    )


@template
def line_endings(draw: Draw) -> Task:
    """Windows line endings become Unix ones."""
    source = draw.file(draw.choice(["txt", "csv", "py", "sh"]))
    lines = [draw.sentence() for _ in range(draw.randint(2, 6))]
    to_unix = draw.random() < 0.7
    old, new = ("Windows", "Unix") if to_unix else ("Unix", "Windows")
    return draw.task(
        {
            "en": [
                "Convert {source} from {old} to {new} line endings.",
                "{source} has {old} line endings, i need {new} ones",
                "The line ends of {source} are those of {old}. Please make them {new} style; the text stays the same.",
                "Can you give {source} {new} line endings?",
            ],
            "de": ["{source} hat {old}-Zeilenenden; ich brauche {new}-Zeilenenden."],
            "fr": ["Convertis les fins de ligne de {source} au format {new}."],
        },
        source=source,
        old=old,
        new=new,
        files={source: text_of(lines).replace("\n", "\r\n" if to_unix else "\n")},
        steps=[
            shell(f"sed -i 's/\\r$//' {source}" if to_unix else f"sed -i 's/$/\\r/' {source}"),
            shell(f"file {source}"),
            finish(f"{source} has {new} line endings now."),
        ],
        check=Check(
            files={source: text_of(lines)},
            prints={f"tr -cd '\\r' < {source} | wc -c": str(0 if to_unix else len(lines))},
        ),
    )


@template
def tabs_and_spaces(draw: Draw) -> Task:
    """Tabs at the beginnings of lines become spaces."""
    source, width = draw.file(draw.choice(["py", "txt", "js"])), draw.choice([2, 4, 8])
    name, back = draw.word(LOWER), draw.random() < 0.35
    levels = [0, *(draw.randint(1, 2) for _ in range(draw.randint(2, 5))), 0, 1]
    words = [f"{name}({draw.amount()})" for _ in levels]
    tabbed = text_of("\t" * level + word for level, word in zip(levels, words, strict=True))
    blank = text_of(" " * width * level + word for level, word in zip(levels, words, strict=True))
    command = f"unexpand --first-only -t {width} {source}" if back else f"expand -i -t {width} {source}"
    texts = (
        (f"{width} spaces", "one tab", f"je {width} Leerzeichen", "einen Tabulator")
        if back
        else ("each tab", f"{width} spaces", "jeden Tabulator", f"{width} Leerzeichen")
    )
    return draw.task(
        {
            "en": [
                "In the indentation of {source}, replace {texts[0]} by {texts[1]}.",
                "{source}: indent with {texts[1]} instead of {texts[0]}",
                "The lines of {source} are indented, {texts[0]} for a level. I prefer {texts[1]}; please change it.",
                "Can you convert the indentation in {source}, so that {texts[1]} stands for {texts[0]}?",
            ],
            "de": ["Ersetze am Zeilenanfang in {source} {texts[2]} durch {texts[3]}."],
            "pt": ["Na indentação de {source}, use {portuguese}."],
        },
        source=source,
        texts=texts,
        portuguese=f"um tab em vez de {width} espaços" if back else f"{width} espaços em vez de cada tab",
        files={source: blank if back else tabbed},
        steps=[
            shell(f"{command} > {source}.new && mv {source}.new {source}"),
            finish(f"{source} is indented with {texts[1]} for a level now."),
        ],
        check=Check(files={source: tabbed if back else blank}),
    )


@template
def one_space_between_words(draw: Draw) -> Task:
    """Several spaces become one."""
    source = draw.file()
    lines = [draw.sentence() for _ in range(draw.randint(2, 5))]
    wide = [" ".join(f"{word}{draw.choice(['', '', ' ', '  '])}" for word in line.split()).strip() for line in lines]
    wide[0] = wide[0].replace(" ", "  ")
    return draw.task(
        {
            "en": [
                "Make sure that there is only one space between two words in {source}.",
                "double spaces in {source} should be single ones",
                "{source} has several spaces in a row in many places. One is enough.",
                "Could you squeeze repeated spaces in {source} to one?",
            ],
            "de": ["In {source} stehen oft mehrere Leerzeichen hintereinander. Mach daraus immer eines."],
            "fr": ["Dans {source}, remplace les espaces multiples par un seul."],
            "es": ["En {source}, deja un solo espacio entre palabras."],
        },
        source=source,
        files={source: text_of(wide)},
        steps=[shell(f"sed -i 's/  */ /g' {source}"), finish(f"{source} has single spaces only.")],
        check=Check(files={source: text_of(lines)}),
    )


@template
def decimal_commas(draw: Draw) -> Task:
    """Commas within numbers become points; commas in texts stay."""
    source, lines, result = draw.file(), [], []
    for _ in range(draw.randint(3, 7)):
        whole, cents, thing = draw.amount(0, 40), draw.randint(10, 99), draw.word(LOWER)
        form = draw.choice(["{0}, fresh: {1}", "{0} {1}", "{1} for {0}, or so"])
        lines.append(form.format(thing, f"{whole},{cents}"))
        result.append(form.format(thing, f"{whole}.{cents}"))
    return draw.task(
        {
            "en": [
                "The prices in {source} have a decimal comma. Change it to a point, but leave other commas.",
                "{source}: {example} should be {new} and so on (only in numbers)",
                "I need decimal points instead of commas in the numbers of {source}.",
                "Could you turn numbers such as {example} in {source} into {new}? Commas between words stay.",
            ],
            "de": ["Ersetze in {source} das Komma in Zahlen durch einen Punkt; andere Kommas bleiben."],
            "fr": ["Dans {source}, écris les nombres avec un point : {new} au lieu de {example}."],
        },
        source=source,
        example=f"{whole},{cents}",
        new=f"{whole}.{cents}",
        files={source: text_of(lines)},
        steps=[
            shell(f"sed -i -E 's/([0-9]),([0-9])/\\1.\\2/g' {source}"),
            finish(f"The numbers in {source} have decimal points now."),
        ],
        check=Check(files={source: text_of(result)}),
    )


@template
def words_counted(draw: Draw) -> Task:
    """The number of words, lines or characters of a text, without its name."""
    source, target = draw.file(), draw.file()
    text = text_of(draw.sentence() for _ in range(draw.randint(2, 7)))
    (en, de, es), flag, count = draw.choice(
        [
            (("words", "Wörter", "palabras"), "-w", len(text.split())),
            (("lines", "Zeilen", "líneas"), "-l", text.count("\n")),
            (("bytes", "Bytes", "bytes"), "-c", len(text.encode())),
        ]
    )
    return draw.task(
        {
            "en": [
                "Count the {en} of {source}; only the number should be in {target}.",
                "number of {en} in {source} -> {target}",
                "I want to know how many {en} the text {source} has. Please note the bare number in {target}.",
                "Please determine how many {en} {source} has and store this figure (nothing else) as {target}.",
            ],
            "de": ["Wie viele {de} hat {source}? Die Zahl soll in {target} stehen."],
            "es": ["¿Cuántas {es} tiene {source}? Guarda el número en {target}."],
        },
        source=source,
        target=target,
        en=en,
        de=de,
        es=es,
        files={source: text},
        steps=[
            shell(f"wc {flag} < {source} > {target}"),
            shell(f"cat {target}"),
            finish(f"{source} has {count} {en}; the number is in {target}."),
        ],
        check=Check(files={target: str(count)}),
    )


@template
def how_often_a_word_occurs(draw: Draw) -> Task:
    """A trap: several times on one line, and inside of other words."""
    source, target = draw.file(), draw.file()
    word, longer = draw.choice(
        [("sea", "season"), ("old", "golden"), ("rain", "train"), ("ring", "bring"), ("one", "stone")]
    )
    forms = [
        f"{word} and {word}",
        f"the {word}",
        f"{longer} of the {word}",
        f"a {longer}",
        draw.sentence(),
        f"{word}, {word}, {word}",
    ]
    lines = [draw.choice(forms) for _ in range(draw.randint(3, 8))]
    lines.append(forms[0])
    count = sum(each.strip(".,") == word for line in lines for each in line.split())
    return draw.task(
        {
            "en": [
                "How many times is the word {word} in {source}? Put the number in {target}; {longer} is another word.",
                "count every {word} in {source} (whole word, can be several on a line), number to {target}",
                "I'd like {target} to say how often {source} uses the word {word}, not as a part of {longer}.",
                "Note in {target} how often {word} stands in {source} as a word of its own.",
            ],
            "de": ["Wie oft kommt das Wort {word} in {source} vor? Schreib die Zahl in {target}."],
            "fr": ["Combien de fois le mot {word} apparaît-il dans {source} ? Mets le nombre dans {target}."],
        },
        word=word,
        longer=longer,
        source=source,
        target=target,
        files={source: text_of(lines)},
        steps=[
            shell(f"grep -ow {word} {source} | wc -l > {target}"),
            shell(f"cat {target}"),
            finish(f"{word} occurs {count} times in {source}; {target} has the number."),
        ],
        check=Check(files={target: str(count)}),
    )


@template
def longest_line(draw: Draw) -> Task:
    """The longest or the shortest line goes to a file."""
    source, target, short = draw.file(), draw.file(), draw.random() < 0.4
    lines: dict[int, str] = {}
    while len(lines) < 4:
        line = " ".join(draw.choices(LOWER, k=draw.randint(1, 7)))
        lines[len(line)] = line
    wanted = lines[min(lines) if short else max(lines)]
    texts = draw.sample(list(lines.values()), 4)
    en, de, fr = ("shortest", "kürzeste", "la plus courte") if short else ("longest", "längste", "la plus longue")
    sort = "sort -n" if short else "sort -rn"
    return draw.task(
        {
            "en": [
                "Find the {en} line of {source} and write it to {target}.",
                "{target} should be the {en} line from {source}",
                "Which line of {source} is the {en}? I want to have it in {target}.",
                "Look through {source} for the line that is {en} and copy it into {target}.",
            ],
            "de": ["Schreib die {de} Zeile von {source} nach {target}."],
            "fr": ["Copie dans {target} la ligne {fr} de {source}."],
        },
        source=source,
        target=target,
        en=en,
        de=de,
        fr=fr,
        files={source: text_of(texts)},
        steps=[
            shell(f"awk '{{print length, $0}}' {source} | {sort} | head -n 1 | cut -d' ' -f2- > {target}"),
            shell(f"cat {target}"),
            finish(f'The {en} line of {source} is "{wanted}"; it is in {target}.'),
        ],
        check=Check(files={target: wanted}),
    )


@template
def misspelling_in_both_cases(draw: Draw) -> Task:
    """A misspelt word stands with and without a capital."""
    source = draw.file(draw.choice(["md", "txt"]))
    bad, good = draw.choice(_MISSPELT)
    lines = [f"{bad.capitalize()} {draw.word(LOWER)} {draw.amount()}", f"{draw.word(pools.PEOPLE)} wrote {bad}, {bad}!"]
    lines = [*(draw.sentence() for _ in range(draw.randint(0, 3))), *draw.sample(lines, 2), draw.sentence()]
    text = text_of(lines)
    return draw.task(
        {
            "en": [
                "{source} spells {good} wrongly as {bad}, sometimes with a capital letter. Correct all of them.",
                "fix the spelling in {source}: {bad} is {good}. also at the start of a sentence",
                "I always write {bad} for {good}. Please put that right in {source}, capitals as they are.",
                "Could you correct {bad} to {good} all over {source}, also where it begins with a capital?",
            ],
            "de": ["In {source} steht {bad} statt {good}, auch großgeschrieben. Verbessere es überall."],
            "es": ["En {source} pone {bad} en lugar de {good}, a veces con mayúscula. Corrígelo en todas partes."],
        },
        source=source,
        bad=bad,
        good=good,
        files={source: text},
        steps=[
            shell(f"sed -i -e 's/{bad}/{good}/g' -e 's/{bad.capitalize()}/{good.capitalize()}/g' {source}"),
            finish(f"Every {bad} in {source} is {good} now."),
        ],
        check=Check(files={source: text.replace(bad, good).replace(bad.capitalize(), good.capitalize())}),
    )


@template
def comments_taken_out(draw: Draw) -> Task:
    """Lines that begin with a sign go; the sign within a line stays."""
    source, sign = draw.file(draw.choice(["txt", "conf", "cfg"])), draw.choice(["#", ";", "//"])
    lines = [f"{draw.word(LOWER)} = {draw.amount()}" for _ in range(draw.randint(2, 5))]
    lines.append(f"{draw.word(LOWER)} = a{sign}{draw.amount()}")
    comments = [f"{sign} {draw.sentence()}" for _ in range(draw.randint(2, 4))]
    mixed = draw.sample([*lines, *comments], len(lines) + len(comments))
    pattern = sign.replace("/", "\\/")
    return draw.task(
        {
            "en": [
                "Remove all lines that begin with {sign} from {source}.",
                "{source}: throw out the comment lines (those that start with {sign})",
                "I want a {source} without comments, that is, without lines whose first sign is {sign}.",
                "Could you delete every line of {source} which starts with {sign}? A {sign} later in a line is fine.",
            ],
            "de": ["Lösche aus {source} alle Zeilen, die mit {sign} anfangen."],
            "fr": ["Supprime de {source} les lignes qui commencent par {sign}."],
        },
        source=source,
        sign=sign,
        files={source: text_of(mixed)},
        steps=[
            shell(f"sed -i '/^{pattern}/d' {source}"),
            finish(f"{len(comments)} lines that began with {sign} are deleted from {source}."),
        ],
        check=Check(files={source: text_of(line for line in mixed if not line.startswith(sign))}),
    )


@template
def addresses_picked_out(draw: Draw) -> Task:
    """E-mail addresses or links from a running text, one per line."""
    source, target, mail = draw.file(draw.choice(["txt", "md"])), draw.file(), draw.random() < 0.5
    found, lines = [], []
    for _ in range(draw.randint(2, 6)):
        host = f"{draw.word(LOWER)}.example"
        each = f"{draw.word(pools.PEOPLE).lower()}@{host}" if mail else f"https://{host}/{draw.word(LOWER)}"
        found.append(each)
        lines.append(draw.choice(["Write to {0} or call.", "{1} ({0}) knows", "see {0}", "{0} is new, {1} says"]))
        lines[-1] = lines[-1].format(each, draw.word(LOWER))
        lines += [draw.sentence()] * (draw.random() < 0.3)
    what = ("e-mail addresses", "E-Mail-Adressen", "adresses e-mail") if mail else ("links", "Links", "liens")
    pattern = "[A-Za-z0-9._-]+@[A-Za-z0-9.-]+" if mail else "https?://[A-Za-z0-9./_-]+"
    return draw.task(
        {
            "en": [
                "Collect the {what[0]} that occur in {source} in {target}, one per line.",
                "all {what[0]} from {source} into {target}",
                "{source} has some {what[0]} in its text. I need a list of them, called {target}.",
                "Can you pick the {what[0]} out of {source}? Put each on a line of {target}, in the same order.",
            ],
            "de": ["Schreib alle {what[1]} aus {source} nach {target}, eine pro Zeile."],
            "fr": ["Mets les {what[2]} de {source} dans {target}, une entrée par ligne."],
        },
        what=what,
        source=source,
        target=target,
        files={source: text_of(lines)},
        steps=[
            shell(f"grep -oE '{pattern}' {source} > {target}"),
            shell(f"cat {target}"),
            finish(f"{target} has the {len(found)} {what[0]} of {source}."),
        ],
        check=Check(files={target: text_of(found)}),
    )


@template
def long_lines_broken(draw: Draw) -> Task:
    """Lines of at most so many characters, broken at spaces; no word is lost."""
    source, width = draw.file(), draw.choice([30, 40, 50, 60])
    text = text_of(" ".join(draw.sentence() for _ in range(draw.randint(2, 5))) for _ in range(draw.randint(1, 3)))
    return draw.task(
        {
            "en": [
                "Break the lines of {source} so that none has more than {width} characters; break only between words.",
                "wrap {source} at {width} characters",
                "The lines in {source} are too long for me. I'd like {width} characters at most, words kept whole.",
                "Can {source} be wrapped to a width of {width}?",
            ],
            "de": ["Brich die Zeilen von {source} so um, dass keine länger als {width} Zeichen ist."],
            "es": ["Corta las líneas de {source} entre palabras para que ninguna pase de {width} caracteres."],
        },
        source=source,
        width=width,
        files={source: text},
        steps=[
            shell(f"fold -s -w {width} {source} > {source}.new && mv {source}.new {source}"),
            finish(f"No line of {source} has more than {width} characters now."),
        ],
        check=Check(
            free=[source],
            prints={
                f"sed 's/ *$//' {source} | awk 'length > {width}'": "",
                f"tr -s '[:space:]' ' ' < {source}": " ".join(text.split()),
            },
        ),
    )
