"""Two or three things in one request, sometimes in an order that matters."""

from training.tasks import pools
from training.tasks.answers import LOWER, answered, filled, kept, moved, number_said, said, shown, spaced, text_of
from training.tasks.draw import Draw, template
from training.tasks.task import Check, Task, finish, shell


@template
def move_then_list(draw: Draw) -> Task:
    """Files go to a folder, and a list of them is written beside it, not into it."""
    ending, folder, listing = draw.choice(["csv", "jpg", "wav", "bak", "svg"]), draw.folder(), draw.file()
    names = sorted(draw.file(ending) for _ in range(draw.randint(2, 6)))
    files = filled(draw, [*names, draw.file(), draw.file("md")])
    return draw.task(
        {
            "en": [
                "Put all .{ending} files into a new folder {folder} and write their names to {listing}, one per line.",
                "new folder {folder} for the .{ending} files, plus a list of their names here in {listing}",
                "I want the .{ending} files moved to {folder}, which is new. Then make {listing} with their names.",
                "Can you move what ends in .{ending} to {folder} (create it) and list the names in {listing}?",
            ],
            "de": [
                "Verschiebe die .{ending}-Dateien in einen neuen Ordner {folder} und schreib ihre Namen in {listing}."
            ],
            "fr": ["Mets les fichiers .{ending} dans un nouveau dossier {folder} et note leurs noms dans {listing}."],
        },
        ending=ending,
        folder=folder,
        listing=listing,
        files=files,
        others=0,
        steps=[
            shell(f"mkdir {folder} && mv *.{ending} {folder}/ && ls {folder} > {listing}"),
            finish(f"The {len(names)} .{ending} files are in {folder}; {listing} has their names."),
        ],
        check=Check(files=moved(files, names, folder), unordered={listing: names}, gone=names),
    )


@template
def sort_then_number(draw: Draw) -> Task:
    """Numbers are given after sorting; the other way round they would be in disorder."""
    source, mark, back = draw.file(), draw.choice([". ", ") ", ": "]), draw.random() < 0.3
    lines = draw.words(draw.randint(4, 9), LOWER)
    result = [f"{at}{mark}{line}" for at, line in enumerate(sorted(lines, reverse=back), 1)]
    en, de, es = (
        ("from z to a", "von z bis a", "de la z a la a") if back else ("from a to z", "von a bis z", "de la a a la z")
    )
    return draw.task(
        {
            "en": [
                'Sort {source} {en}, then number the lines; the first should be "{example}".',
                '{source}: {en} please and with numbers in front, like "{example}"',
                'I want {source} as a numbered list in order {en}. It starts with "{example}".',
                'Number the lines of {source} after sorting them {en}, so that "{example}" is on top.',
            ],
            "de": ['Sortiere {source} {de} und nummeriere dann die Zeilen; die erste ist "{example}".'],
            "es": ['Ordena {source} {es} y luego numera las líneas; la primera será "{example}".'],
        },
        source=source,
        en=en,
        de=de,
        es=es,
        example=result[0],
        **kept(result[0]),
        files={source: text_of(lines)},
        steps=[
            shell(
                f"sort {'-r ' * back}{source} | awk '{{print NR \"{mark}\" $0}}' > {source}.new"
                f" && mv {source}.new {source}"
            ),
            finish(f"{source} is sorted {en} and numbered."),
        ],
        check=Check(files={source: text_of(result)}),
    )


@template
def first_lines_then_sorted(draw: Draw) -> Task:
    """The first lines are taken before sorting; or the list is sorted before its first lines are taken."""
    source, target, lines = draw.file(), draw.file(), draw.words(draw.randint(6, 12), LOWER)
    count, cut_first = draw.randint(2, 4), draw.random() < 0.5
    wanted = sorted(lines[:count]) if cut_first else sorted(lines)[:count]
    en, de, fr = (
        (
            f"take the first {count} lines of {source} as they are now, sort these",
            f"Nimm die ersten {count} Zeilen von {source}, wie sie jetzt dastehen, sortiere sie",
            f"Prends les {count} premières lignes de {source}, trie-les",
        )
        if cut_first
        else (
            f"sort the lines of {source}, take the first {count} of the sorted ones",
            f"Sortiere die Zeilen von {source}, nimm dann die ersten {count}",
            f"Trie les lignes de {source}, garde ensuite les {count} premières",
        )
    )
    command = (
        f"head -n {count} {source} | sort > {target}" if cut_first else f"sort {source} | head -n {count} > {target}"
    )
    return draw.task(
        {
            "en": [
                "Please {en} and save that as {target}.",
                "{en}, result to {target}. {source} itself stays",
                "I need {target}. To get it, {en}, and write them to {target}.",
                "Could you {en}, then store the result in {target}?",
            ],
            "de": ["{de} und speichere das als {target}."],
            "fr": ["{fr} et enregistre le résultat dans {target}."],
        },
        source=source,
        target=target,
        en=en,
        de=de,
        fr=fr,
        files={source: text_of(lines)},
        steps=[shell(command), shell(f"cat {target}"), finish(f"{target} has {count} lines: {', '.join(wanted)}.")],
        check=Check(files={target: text_of(wanted)}),
    )


@template
def without_doubles_and_how_many(draw: Draw) -> Task:
    """Double lines go, the order stays, and the number of lines that are left is written down."""
    source, target, words = draw.file(), draw.file(), draw.words(draw.randint(3, 8), LOWER)
    lines = draw.sample([*words, *draw.choices(words, k=draw.randint(2, 5))], k=len(words) + 2)
    lines.append(lines[0])
    left = list(dict.fromkeys(lines))
    return draw.task(
        {
            "en": [
                "Remove the repeated lines from {source}, keep the order, and write how many are left to {target}.",
                "{source}: each line once, same order. number of remaining lines goes to {target}",
                "I'd like each line of {source} only once (the first time), and {target} to say how many remain.",
                "Can you take duplicates out of {source}, keep its order, and put the new number of lines in {target}?",
            ],
            "de": [
                "Entferne doppelte Zeilen aus {source}, ohne zu sortieren, und schreib die neue Zeilenzahl in {target}."
            ],
            "pt": ["Tire as linhas repetidas de {source} sem mudar a ordem e grave em {target} quantas ficaram."],
        },
        source=source,
        target=target,
        files={source: text_of(lines)},
        steps=[
            shell(
                f"awk '!seen[$0]++' {source} > {source}.new && mv {source}.new {source} && wc -l < {source} > {target}"
            ),
            shell(f"cat {target}"),
            finish(f"{source} has each line once; {len(left)} are left, as {target} says."),
        ],
        check=Check(files={source: text_of(left), target: str(len(left))}),
    )


@template
def copy_then_change(draw: Draw) -> Task:
    """The copy is changed, the original is not."""
    source, target = spaced(draw, draw.choice(["txt", "cfg"]), 0.2), draw.file("cfg")
    keys = draw.words(draw.randint(3, 6), LOWER)
    values = [draw.amount() for _ in keys]
    at, new = draw.randrange(len(keys)), draw.amount(100, 999)
    lines = [f"{key}={value}" for key, value in zip(keys, values, strict=True)]
    result = [*lines[:at], f"{keys[at]}={new}", *lines[at + 1 :]]
    return draw.task(
        {
            "en": [
                "Make a copy of {source} named {target} and set {key} to {new} in the copy.",
                "{target} = {source}, only with {key}={new}. dont change {source}",
                "I need a second version of {source}, called {target}, where {key} is {new}.",
                "Could you duplicate {source} as {target} and change {key} there (not in {source}) to {new}?",
            ],
            "de": ["Kopiere {source} nach {target} und setze dort {key} auf {new}."],
            "fr": ["Copie {source} vers {target} et mets-y {key} à {new}."],
        },
        source=shown(source),
        target=target,
        key=keys[at],
        new=new,
        files={source: text_of(lines)},
        steps=[
            shell(f"sed 's/^{keys[at]}=.*/{keys[at]}={new}/' '{source}' > {target}"),
            finish(f"{target} is like {source}, but with {keys[at]}={new}."),
        ],
        check=Check(files={target: text_of(result)}),
    )


@template
def rename_then_add(draw: Draw) -> Task:
    """A file gets a new name and a new line, sometimes it is moved, too."""
    old, new, folder = draw.file(), draw.file(), draw.choice(["", draw.folder()])
    text, line = text_of(draw.sentence() for _ in range(draw.randint(1, 4))), draw.sentence()
    path = f"{folder}/{new}" if folder else new
    make = f"mkdir {folder} && " if folder else ""
    return draw.task(
        {
            "en": [
                'Rename {old} to {path}, then add the line "{line}" at its end.',
                '{old} -> {path}, and append "{line}"',
                'I want {old} to be {path} from now on, with one more line below: "{line}"',
                'Can you first give {old} the name {path} and then put "{line}" as a last line into it?',
            ],
            "de": ['Aus {old} soll {path} werden; hänge danach die Zeile "{line}" an.'],
            "es": ['Cambia {old} a {path} y añade al final la línea "{line}"'],
        },
        old=old,
        path=path,
        line=line,
        **kept(line),
        files={old: text},
        steps=[
            shell(f"{make}mv {old} {path} && echo '{line}' >> {path}"),
            finish(f"{old} is {path} now and has the new line at its end."),
        ],
        check=Check(files={path: text + line}, gone=[old]),
    )


@template
def merge_sorted_then_delete(draw: Draw) -> Task:
    """Two or three lists become one, sorted, each entry once; the old ones go."""
    sources, target = [draw.file() for _ in range(draw.randint(2, 3))], draw.file()
    words = draw.words(draw.randint(5, 9), LOWER)
    lists = [draw.sample(words, draw.randint(2, 4)) for _ in sources]
    wanted = sorted({each for one in lists for each in one})
    ends = [draw.choice(["\n", "\n", ""]) if each == sources[-1] else "\n" for each in sources]
    return draw.task(
        {
            "en": [
                "Merge {listed} into {target}, alphabetically and every line only once. Then delete {listed}.",
                "{listed} should become one sorted list without doubles, {target}; the old files can go after that",
                "I have the lists {listed}. I only want one, {target}: sorted, no line twice, and the others removed.",
                "Could you combine {listed} to {target}, in alphabetical order without repetitions, and remove those?",
            ],
            "de": [
                "Füge {listed} zu {target} zusammen, sortiert und jede Zeile nur einmal; lösche dann die alten Dateien."
            ],
            "fr": ["Réunis {listed} dans {target}, trié et sans doublons, puis supprime les anciens fichiers."],
        },
        listed=" + ".join(sources),
        target=target,
        files={each: "\n".join(one) + end for each, one, end in zip(sources, lists, ends, strict=True)},
        steps=[
            shell(f"sort -u {' '.join(sources)} > {target} && rm {' '.join(sources)}"),
            finish(f"{target} has the {len(wanted)} different lines; the old files are deleted."),
        ],
        check=Check(files={target: text_of(wanted)}, gone=sources),
    )


@template
def divide_by_word(draw: Draw) -> Task:
    """Lines with a word go to one file, the others to another, and the source goes."""
    source, one, two, word = draw.file(), draw.file(), draw.file(), draw.choice(["yes", "paid", "done", "north"])
    lines = [f"{each} {draw.choice([word, 'no', 'open'])}" for each in draw.words(draw.randint(4, 10), LOWER)]
    lines[0], lines[1] = f"{lines[0].split()[0]} {word}", f"{lines[1].split()[0]} open"
    draw.shuffle(lines)
    hits, rest = [each for each in lines if word in each.split()], [each for each in lines if word not in each.split()]
    return draw.task(
        {
            "en": [
                "Split {source}: lines with {word} go to {one}, all others to {two}. Delete {source} afterwards.",
                "{source} -> {one} (lines with {word}) and {two} (the rest), then get rid of {source}",
                "I want the lines of {source} that say {word} in {one}, all others in {two}. {source} may go then.",
                "Can you divide {source} into {one}, with each line that has {word}, and {two}, with the rest? "
                "After that I don't need {source}.",
            ],
            "de": ["Teile {source} auf: Zeilen mit {word} nach {one}, die übrigen nach {two}. Lösche dann {source}."],
            "es": ["Separa {source}: las líneas con {word} en {one}, las demás en {two}. Después borra {source}."],
        },
        source=source,
        one=one,
        two=two,
        word=word,
        files={source: text_of(lines)},
        steps=[
            shell(f"grep -w {word} {source} > {one} && grep -vw {word} {source} > {two} && rm {source}"),
            finish(f"{one} has {len(hits)} lines, {two} has {len(rest)}; {source} is deleted."),
        ],
        check=Check(files={one: text_of(hits), two: text_of(rest)}, gone=[source]),
    )


@template
def line_from_file_to_file(draw: Draw) -> Task:
    """A line is taken out of one file and put at the end of another."""
    source, target = draw.file(), draw.file()
    lines, there = draw.words(draw.randint(3, 8), LOWER), draw.words(draw.randint(1, 4), LOWER)
    line = draw.choice(lines)
    return answered(
        draw.task(
            {
                "en": [
                    "Move the line {line} from {source} to the end of {target}. How many lines has {source} then?",
                    "{line}: out of {source}, into {target} (last line). how many are left in {source}?",
                    "{line} is done. Take it off {source}, append it to {target}, and say how many {source} still has.",
                    "How many lines does {source} have after you move {line} from it to {target}, as its last? Do it.",
                ],
                "de": [
                    "Verschiebe die Zeile {line} von {source} ans Ende von {target}. Wie viele bleiben in {source}?"
                ],
                "pt": ["Passe a linha {line} de {source} para o fim de {target} e diga quantas ficam em {source}."],
            },
            line=line,
            source=source,
            target=target,
            files={source: text_of(lines), target: text_of(there)},
            steps=[
                shell(f"echo {line} >> {target} && sed -i '/^{line}$/d' {source}"),
                shell(f"wc -l < {source}"),
            ],
            check=Check(
                files={source: text_of(each for each in lines if each != line), target: text_of([*there, line])},
                says=[number_said(len(lines) - 1)],
            ),
        ),
        {
            "en": f"{line} is in {target} now; {source} has {len(lines) - 1} lines left.",
            "de": f"{line} steht jetzt in {target}; in {source} bleiben {len(lines) - 1} Zeilen.",
            "pt": f"{line} está em {target}; em {source} ficam {len(lines) - 1} linhas.",
        },
    )


@template
def backup_then_empty(draw: Draw) -> Task:
    """The copy comes before the emptying."""
    source, folder = draw.file(draw.choice(["log", "txt"])), draw.folder()
    text = text_of(draw.sentence() for _ in range(draw.randint(2, 6)))
    copy = draw.choice([f"{source}.bak", f"{folder}/{source}", f"{source.rpartition('.')[0]}-old.txt"])
    make = f"mkdir {folder} && " if copy.startswith(f"{folder}/") else ""
    line = draw.choice(["", draw.sentence()])
    act = f"echo '{line}' > {source}" if line else f"truncate -s 0 {source}"
    then = (f'has only the line "{line}"', f'nur noch die Zeile "{line}" enthält') if line else ("is empty", "leer ist")
    return draw.task(
        {
            "en": [
                "Save a copy of {source} as {copy}, and after that change {source} so that it {then[0]}.",
                "back up {source} to {copy} first. then make sure {source} {then[0]}",
                "I want to begin a new {source}: keep what it has as {copy}, and see to it that {source} {then[0]}.",
                "Could {source} be copied to {copy} and then be changed, so that it {then[0]}?",
            ],
            "de": ["Kopiere {source} nach {copy} und ändere {source} danach so, dass die Datei {then[1]}."],
            "fr": ["Copie {source} vers {copy}, puis fais que {source} {french}."],
        },
        source=source,
        copy=copy,
        then=then,
        french=f'ne contienne que la ligne "{line}"' if line else "soit vide",
        **kept(line),
        files={source: text},
        steps=[shell(f"{make}cp {source} {copy} && {act}"), finish(f"{copy} has the old text; {source} {then[0]}.")],
        check=Check(files={copy: text, source: line}),
    )


@template
def total_below_the_lines(draw: Draw) -> Task:
    """A last line with the number of lines, which is not counted itself; or with the sum of the numbers."""
    source, add = draw.file(), draw.random() < 0.5
    numbers = [draw.amount() for _ in range(draw.randint(3, 9))]
    lines = [f"{draw.word(LOWER)} {number}" for number in numbers]
    total = sum(numbers) if add else len(lines)
    word = draw.choice(["total", "sum", "all"]) if add else draw.choice(["total", "count", "entries"])
    en, de, es = (
        ("the sum of the numbers", "der Summe der Zahlen", "la suma de los números")
        if add
        else ("the number of lines above it", "der Anzahl der Zeilen darüber", "el número de líneas anteriores")
    )
    command = (
        f"awk '{{sum += $2; print}} END {{print \"{word} \" sum}}'" if add else f"awk '1; END {{print \"{word} \" NR}}'"
    )
    return draw.task(
        {
            "en": [
                'Add a last line "{word} N" to {source}, with {en} in place of N.',
                '{source} needs a final line: "{word} " and then {en}',
                "At the bottom of {source} I want a line with the word {word}, a space, and {en}.",
                'Could you work out {en} for {source} and append it there as "{word} …" (with the number)?',
            ],
            "de": ['Hänge an {source} eine Zeile "{word} N" an, mit {de} statt N.'],
            "es": ['Añade a {source} una última línea "{word} N", donde N es {es}.'],
        },
        source=source,
        word=word,
        en=en,
        de=de,
        es=es,
        files={source: text_of(lines)},
        steps=[
            shell(f"{command} {source} > {source}.new && mv {source}.new {source}"),
            shell(f"tail -n 1 {source}"),
            finish(f'The last line of {source} is "{word} {total}" now.'),
        ],
        check=Check(files={source: text_of([*lines, f"{word} {total}"])}),
    )


@template
def names_passed_on(draw: Draw) -> Task:
    """A chain of names, in which the last one must be renamed first."""
    stem, count = draw.word(LOWER), draw.randint(2, 3)
    names = [f"{stem}.{at}.txt" for at in range(1, count + 1)]
    new = [f"{stem}.{at}.txt" for at in range(2, count + 2)]
    files = filled(draw, names)
    listed = ", ".join(f"{one} becomes {two}" for one, two in zip(names, new, strict=True))
    pairs = list(zip(names, new, strict=True))[::-1]
    return draw.task(
        {
            "en": [
                "Move the {stem} files up by one: {listed}. Then create an empty {first}.",
                "rotate: {listed}, and a new empty {first}. no content may be lost",
                "I'd like every {stem} file to get the next number ({listed}) and then a fresh, empty {first}.",
                "Could you shift the numbers of the {stem} files ({listed}), and add an empty {first} in the end?",
            ],
            "de": ["Zähle die Nummern der {stem}-Dateien um eins hoch und lege dann eine leere {first} an."],
            "fr": ["Décale d'un numéro les fichiers {stem} (jusqu'à {last}), puis crée un {first} vide."],
        },
        stem=stem,
        listed=listed,
        first=names[0],
        last=new[-1],
        files=files,
        steps=[
            shell(" && ".join(f"mv {one} {two}" for one, two in pairs) + f" && touch {names[0]}"),
            finish(f"The {stem} files have moved up by one, and {names[0]} is empty."),
        ],
        check=Check(files={names[0]: "", **{two: files[one] for one, two in pairs}}),
    )


@template
def replace_and_say_how_often(draw: Draw) -> Task:
    """A word is replaced, and the number of places is told."""
    source, (old, new) = draw.file(), draw.words(2, LOWER)
    forms = [f"{old} and {old}", f"the {old}", f"no {{}}, but {old}", "only {}", "{} or {}"]
    lines = [draw.choice(forms).format(draw.word(LOWER), draw.word(LOWER)) for _ in range(draw.randint(4, 9))]
    lines.insert(draw.randint(0, 3), f"my {old}")
    count = sum(line.replace(",", "").split().count(old) for line in lines)
    return answered(
        draw.task(
            {
                "en": [
                    "Replace {old} by {new} in {source} and tell me at how many places you did it.",
                    "{source}: {old} -> {new}. how many times was it in there?",
                    "Before you turn every {old} in {source} into {new}, count them; I want to know the number.",
                    "How often does {old} stand in {source}? Tell me, and change all of them to {new}.",
                ],
                "de": ["Ersetze {old} in {source} durch {new} und sag mir, an wie vielen Stellen."],
                "fr": ["Remplace {old} par {new} dans {source} et dis-moi combien de fois."],
            },
            source=source,
            old=old,
            new=new,
            files={source: text_of(lines)},
            steps=[shell(f"grep -ow {old} {source} | wc -l"), shell(f"sed -i 's/\\b{old}\\b/{new}/g' {source}")],
            check=Check(files={source: text_of(lines).replace(old, new)}, says=[number_said(count)]),
        ),
        {
            "en": f"I replaced {old} by {new} at {count} places in {source}.",
            "de": f"Ich habe {old} an {count} Stellen durch {new} ersetzt.",
            "fr": f"J'ai remplacé {old} par {new} {count} fois.",
        },
    )


@template
def join_files_in_order(draw: Draw) -> Task:
    """Files are put one after another in the order that is given, each under its name."""
    names, target, titled = [draw.file() for _ in range(draw.randint(2, 4))], draw.file("md"), draw.random() < 0.5
    files = {each: text_of(draw.sentence() for _ in range(draw.randint(1, 3))) for each in names}
    parts = [f"# {each}\n{files[each]}" if titled else files[each] for each in names]
    how = (
        "with a line like # {} before each",
        "mit einer Zeile wie # {} vor jedem Text",
        "con una línea como # {} delante",
    )
    en, de, es = (
        (each.format(names[0]) for each in how)
        if titled
        else ("with nothing between", "ohne etwas dazwischen", "sin nada entre ellos")
    )
    command = (
        f'for file in {" ".join(names)}; do echo "# $file"; cat $file; done' if titled else f"cat {' '.join(names)}"
    )
    return draw.task(
        {
            "en": [
                "Put {listed} together in {target}, in this order, {en}. Delete the single files then.",
                "{target} = {listed} (exactly this order), {en}; remove the parts afterwards",
                "I want a single file {target} with the texts of {listed}, one after another, {en}. The parts can go.",
                "Could you make {target} out of {listed}, in the given order and {en}, and then delete those?",
            ],
            "de": ["Füge {listed} in dieser Reihenfolge zu {target} zusammen, {de}, und lösche dann die Teile."],
            "es": ["Une {listed} en {target}, en este orden y {es}; después borra las partes."],
        },
        listed=", ".join(names),
        target=target,
        en=en,
        de=de,
        es=es,
        files=files,
        steps=[
            shell(f"{command} > {target} && rm {' '.join(names)}"),
            finish(f"{target} has the texts of {', '.join(names)}; the parts are deleted."),
        ],
        check=Check(files={target: "".join(parts)}, gone=names),
    )


@template
def folder_with_note_and_copies(draw: Draw) -> Task:
    """A folder, a copy of a file in it, and a note that says what it is."""
    source, folder, note = spaced(draw, share=0.3), draw.folder(), draw.file("md")
    text, files = draw.sentence(), {}
    files[source] = text_of(draw.sentence() for _ in range(draw.randint(1, 3)))
    move = draw.random() < 0.4
    verb = ("move", "verschiebe", "déplaces-y") if move else ("copy", "kopiere", "copies-y")
    return draw.task(
        {
            "en": [
                'Make a folder {folder}, {verb[0]} {source} into it, and add a file {note} there that says "{text}"',
                'new folder {folder}. {verb[0]} {source} there, and {note} in it with the text "{text}"',
                'I need a folder {folder} with {source} ({verb[0]} it) and a new {note}, which reads "{text}"',
                'Could you set up {folder}, {verb[0]} {source} there, and write "{text}" to {folder}/{note}?',
            ],
            "de": ['Lege {folder} an, {verb[1]} {source} dorthin und schreib "{text}" in {folder}/{note}'],
            "fr": ['Crée {folder}, {french} {source} et écris "{text}" dans {folder}/{note}'],
        },
        source=shown(source),
        folder=folder,
        note=note,
        text=text,
        verb=verb,
        french="déplaces-y" if move else "copies-y",
        **kept(text),
        files=files,
        steps=[
            shell(
                f"mkdir {folder} && {'mv' if move else 'cp'} '{source}' {folder}/ && echo '{text}' > {folder}/{note}"
            ),
            finish(f"{folder} has {source} and {note}."),
        ],
        check=Check(
            files={f"{folder}/{source}": files[source], f"{folder}/{note}": text}, gone=[source] if move else []
        ),
    )


@template
def find_it_and_put_it_right(draw: Draw) -> Task:
    """One of several files has a wrong word; it is found, corrected, and named."""
    where, (bad, good) = draw.folder(), draw.words(2, LOWER)
    names = [f"{where}/{draw.file()}" for _ in range(draw.randint(3, 6))]
    files = {each: text_of([draw.sentence() for _ in range(4)]) for each in names}
    hit = draw.choice(names)
    files[hit] += f"It was the {bad}.\n"
    short = hit.partition("/")[2]
    return answered(
        draw.task(
            {
                "en": [
                    "One file in {where} mentions {bad}. It should be {good}. Correct it and tell me which it was.",
                    "somewhere in {where} it says {bad}, must be {good}. fix + name of the file please",
                    "I wrote {bad} instead of {good} in one of the files in {where}. Which one? Put it right, please.",
                    "Which file of {where} has {bad} in it? Please replace that by {good}.",
                ],
                "de": ["In einer Datei in {where} steht {bad} statt {good}. Verbessere das und sag mir, in welcher."],
                "pt": ["Um arquivo em {where} diz {bad} em vez de {good}. Corrija e diga qual era."],
            },
            where=where,
            bad=bad,
            good=good,
            files=files,
            steps=[shell(f"grep -rnw {bad} {where}"), shell(f"sed -i 's/\\b{bad}\\b/{good}/g' {hit}")],
            check=Check(files={hit: files[hit].replace(bad, good)}, says=[said(short)]),
        ),
        {
            "en": f"It was {short}; it says {good} now.",
            "de": f"Es war {short}; dort steht jetzt {good}.",
            "pt": f"Era {short}; agora diz {good}.",
        },
    )


@template
def two_folders_of_a_list(draw: Draw) -> Task:
    """Folders for groups, and each file of a list of pairs into the folder of its group."""
    source, groups = draw.file(), draw.words(2, pools.FOLDERS)
    names = [draw.file("csv") for _ in range(draw.randint(3, 6))]
    chosen = [groups[at % 2] if at < 2 else draw.choice(groups) for at in range(len(names))]
    files = filled(draw, names)
    sign = draw.choice([" ", ",", ": "])
    pairs = [f"{name}{sign}{group}" for name, group in zip(names, chosen, strict=True)]
    split = "" if sign == " " else f"tr -s '{sign}' ' ' < {source} | "
    loop = 'while read -r name folder; do mkdir -p "$folder" && mv "$name" "$folder/"; done'
    return draw.task(
        {
            "en": [
                "{source} says for each file to which folder it belongs. Create the folders and move the files.",
                "sort the csv files into folders as given in {source}, make the folders first",
                "I have noted in {source} where every csv file should go. Please make the folders and move the files.",
                "Could you read {source} and put each file that it names into the folder beside the name?",
            ],
            "de": [
                "In {source} steht, welche Datei in welchen Ordner soll. Lege die Ordner an und verschiebe die Dateien."
            ],
            "es": ["{source} dice a qué carpeta va cada archivo. Crea las carpetas y mueve los archivos."],
        },
        source=source,
        files={**files, source: text_of(pairs)},
        steps=[
            shell(f"{split}{loop}" if split else f"{loop} < {source}"),
            shell(f"ls {groups[0]} {groups[1]}"),
            finish(f"The {len(names)} files are in {groups[0]} and {groups[1]}, as {source} says."),
        ],
        check=Check(
            files={f"{group}/{name}": files[name] for name, group in zip(names, chosen, strict=True)}, gone=names
        ),
    )
