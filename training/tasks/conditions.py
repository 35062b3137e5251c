"""Tasks with a condition: look first, then act on what is there, or say that nothing is to be done."""

from training.tasks import pools
from training.tasks.answers import (
    LOWER,
    NOT_THERE,
    answered,
    filled,
    kept,
    number_said,
    text_of,
)
from training.tasks.draw import Draw, template
from training.tasks.task import Check, Task, finish, shell, write

ANYTHING = r"\w"
"""Something is said: in tasks where nothing may have to be done, the files alone prove nothing."""


@template
def line_if_it_is_missing(draw: Draw) -> Task:
    """A line is added only if no line is the same; a longer line is another one."""
    source, lines = draw.file(), draw.words(draw.randint(4, 9), LOWER)
    new, there = draw.word(LOWER), draw.random() < 0.5
    lines[draw.randrange(len(lines))] = f"{new} {draw.amount()}"
    if there:
        lines.insert(draw.randrange(len(lines)), new)
    result = lines if there else [*lines, new]
    return answered(
        draw.task(
            {
                "en": [
                    "Add the line {new} to {source}, unless it already has exactly this line.",
                    "{source} should have a line {new}. already there? then leave the file and tell me",
                    "If no line of {source} is just {new}, append it. Otherwise say that it is there.",
                    "Make sure that {new} is a line of {source}. It must not be in there twice.",
                    "Does {source} have the line {new}? If not, please add it at the end.",
                ],
                "de": ["Hänge {new} als Zeile an {source} an, falls genau diese Zeile noch fehlt."],
                "fr": ["Ajoute la ligne {new} à {source} si elle n'y figure pas encore."],
            },
            source=source,
            new=new,
            files={source: text_of(lines)},
            steps=[shell(f"grep -nx {new} {source}"), *([] if there else [shell(f"echo {new} >> {source}")])],
            check=Check(files={source: text_of(result)}, says=[ANYTHING]),
        ),
        {
            "en": f"{source} already has the line {new}; nothing was changed."
            if there
            else f"I added {new} to {source}.",
            "de": f"{source} hat die Zeile {new} schon." if there else f"Ich habe {new} an {source} angehängt.",
            "fr": f"{source} contient déjà la ligne {new}." if there else f"J'ai ajouté {new} à {source}.",
        },
    )


@template
def file_if_it_is_missing(draw: Draw) -> Task:
    """A file is made if it is missing; if not, a line is added or nothing is done."""
    name, folder, text = draw.file(), draw.folder(), draw.sentence()
    path, there, append = f"{folder}/{name}", draw.random() < 0.5, draw.random() < 0.5
    old = f"{draw.sentence()}\n"
    files = filled(draw, [f"{folder}/{draw.file()}"]) | ({path: old} if there else {})
    otherwise = (
        ("add this line at its end", "hänge die Zeile an") if append else ("leave it alone", "lass sie, wie sie ist")
    )
    act = shell(f"echo '{text}' >> {path}") if there else write(path, f"{text}\n")
    result = (old + text if append else old) if there else text
    return draw.task(
        {
            "en": [
                'If {path} does not exist, create it with the line "{text}". If it exists, {otherwise[0]}.',
                '{path} missing? then make it with "{text}" in it. otherwise {otherwise[0]}',
                'I need {path} with "{text}", but when the file is already there, {otherwise[0]}.',
                'Is there a {path}? If so, {otherwise[0]}; if not, create it so that it says "{text}".',
            ],
            "de": ['Falls es {path} nicht gibt, lege sie mit der Zeile "{text}" an; sonst {otherwise[1]}.'],
            "es": ['Si no existe {path}, créalo con la línea "{text}"; si existe, {spanish}.'],
        },
        path=path,
        text=text,
        otherwise=otherwise,
        spanish="añade esa línea al final" if append else "no lo toques",
        **kept(text),
        files=files,
        steps=[
            shell(f"ls {folder}"),
            *([act] if append or not there else []),
            finish(
                f"{path} was there; {'I added the line' if append else 'I left it'}." if there else f"I created {path}."
            ),
        ],
        check=Check(files={path: result}, says=[ANYTHING]),
    )


@template
def setting_changed_or_added(draw: Draw) -> Task:
    """A setting gets a value, whether it is there or not; one with a longer name stays."""
    source, sign = draw.file(draw.choice(["conf", "cfg", "env", "txt"])), draw.choice(["=", ": ", " = "])
    key, value, there = draw.word(LOWER), draw.amount(100, 999), draw.random() < 0.5
    lines = [f"{each}{sign}{draw.amount()}" for each in draw.words(draw.randint(2, 6), LOWER)]
    lines.insert(1, f"{key}_{draw.word(LOWER)}{sign}{draw.amount()}")
    new = f"{key}{sign}{value}"
    result = [*lines, new]
    if there:
        at = draw.randint(0, len(lines))
        result = [*lines[:at], new, *lines[at:]]
        lines = [*lines[:at], f"{key}{sign}{draw.amount()}", *lines[at:]]
    act = f"sed -i 's/^{key}{sign}.*/{new}/' {source}" if there else f"echo '{new}' >> {source}"
    return draw.task(
        {
            "en": [
                "Set {key} to {value} in {source}. If {source} has no {key} yet, add it as a last line.",
                '{source}: "{new}" please, change it if {key} is there, else append it',
                "I want {key} to be {value} in {source}, whether there already is a line for it or not.",
                "Does {source} have {key}? Then change its value to {value}; otherwise add the line {new} at the end.",
            ],
            "de": ["Setze in {source} {key} auf {value}; falls {key} fehlt, hänge {new} als Zeile an."],
            "fr": ["Dans {source}, mets {key} à {value} ; si {key} n'y est pas, ajoute {new} à la fin."],
        },
        source=source,
        key=key,
        value=value,
        new=new,
        files={source: text_of(lines)},
        steps=[
            shell(f"grep -n '^{key}{sign.rstrip()}' {source}"),
            shell(act),
            finish(f"{key} is {value} in {source} now; the line was {'changed' if there else 'added'}."),
        ],
        check=Check(files={source: text_of(result)}),
    )


@template
def by_the_number_of_lines(draw: Draw) -> Task:
    """More than so many lines: shortened or moved; otherwise untouched, which is said."""
    source, folder, limit = draw.file(), draw.folder(), draw.randint(4, 9)
    count = limit + draw.choice([-2, -1, 0, 1, 2, 3])
    lines, cut = draw.words(count, LOWER), draw.random() < 0.5
    en, de, pt = (
        (
            f"keep only its first {limit} lines",
            f"behalte nur die ersten {limit} Zeilen",
            f"deixe só as primeiras {limit} linhas",
        )
        if cut
        else (f"move it to {folder}", f"verschiebe sie nach {folder}", f"mova-o para {folder}")
    )
    act = f"sed -i '{limit + 1},$d' {source}" if cut else f"mkdir -p {folder} && mv {source} {folder}/"
    files = {source: text_of(lines)}
    if count > limit:
        result = {source if cut else f"{folder}/{source}": text_of(lines[:limit] if cut else lines)}
        check = Check(files=result, gone=[] if cut else [source], says=[ANYTHING])
    else:
        check = Check(files=files, says=[ANYTHING])
    told = "I did so" if count > limit else "I did nothing"
    return draw.task(
        {
            "en": [
                "If {source} has more than {limit} lines, {en}. Otherwise do nothing.",
                "more than {limit} lines in {source}? then {en}, else leave everything",
                "I don't want {source} to get too long: {en} when it has over {limit} lines, and else change nothing.",
                "Please count the lines of {source}. Should there be more than {limit}, {en}; if not, just say so.",
            ],
            "de": ["Wenn {source} mehr als {limit} Zeilen hat, {de}. Sonst tu nichts."],
            "pt": ["Se {source} tiver mais de {limit} linhas, {pt}. Senão, não faça nada."],
        },
        source=source,
        limit=limit,
        en=en,
        de=de,
        pt=pt,
        files=files,
        steps=[
            shell(f"wc -l < {source}"),
            *([shell(act)] if count > limit else []),
            finish(f"{source} has {count} lines, and the limit is {limit}. {told}."),
        ],
        check=check,
    )


@template
def one_of_two_words_written(draw: Draw) -> Task:
    """A number in a file is above a limit or not; below zero, too."""
    source, target, key = draw.file(), draw.file(), draw.choice(["temperature", "balance", "level", "stock", "score"])
    limit = draw.choice([0, 0, 5, 10, -5, 50])
    value = limit + draw.choice([-12, -7, -3, -1, 1, 4, 9])
    yes, no = draw.choice([("high", "low"), ("enough", "too little"), ("yes", "no"), ("OK", "ALARM")])
    lines = [f"{each}: {draw.randint(-20, 60)}" for each in draw.words(draw.randint(1, 3), LOWER)]
    lines.insert(draw.randint(0, len(lines)), f"{key}: {value}")
    word = yes if value > limit else no
    return draw.task(
        {
            "en": [
                "Look up {key} in {source}. If it is above {limit}, write {yes} to {target}, otherwise write {no}.",
                "{target}: {yes} if {key} in {source} is more than {limit}, else {no}",
                "I want {target} to say {yes} when the {key} in {source} is greater than {limit}, and else {no}.",
                "Is the {key} in {source} above {limit}? The answer, {yes} or {no}, goes to {target}.",
            ],
            "de": ["Wenn {key} in {source} über {limit} liegt, schreib {yes} in {target}, sonst {no}."],
            "es": ["Si {key} en {source} es mayor que {limit}, escribe {yes} en {target}; si no, {no}."],
        },
        key=key,
        source=source,
        target=target,
        limit=limit,
        yes=yes,
        no=no,
        **kept(yes, no),
        files={source: text_of(lines)},
        steps=[
            shell(f"grep {key} {source}"),
            shell(f"echo {word} > {target}"),
            finish(f"{key} is {value}, which is {'' if value > limit else 'not '}above {limit}: {target} says {word}."),
        ],
        check=Check(files={target: word}),
    )


@template
def the_longer_of_two(draw: Draw) -> Task:
    """Of two files, the one with more (or fewer) lines is copied or kept."""
    one, two, target = draw.file(), draw.file(), draw.file()
    short, delete = draw.random() < 0.3, draw.random() < 0.4
    counts = draw.sample(range(2, 9), 2)
    texts = [text_of(draw.word(LOWER) for _ in range(count)) for count in counts]
    best = (one, two)[counts.index(min(counts) if short else max(counts))]
    other = two if best == one else one
    en, de, fr = ("fewer", "weniger", "le moins") if short else ("more", "mehr", "le plus")
    act = (
        (
            f"Delete the one of them that has {en} lines",
            f"Lösche die mit {de} Zeilen",
            f"Supprime celui qui a {fr} de lignes",
        )
        if delete
        else (
            f"Copy the one that has {en} lines to {target}",
            f"Kopiere die mit {de} Zeilen nach {target}",
            f"Copie celui qui a {fr} de lignes dans {target}",
        )
    )
    files = {one: texts[0], two: texts[1]}
    return draw.task(
        {
            "en": [
                "Compare {one} and {two}. {act[0]}.",
                "{one} or {two}? look at the number of lines. {act[0]}.",
                "I have {one} and {two} and don't know which has {en} lines. {act[0]}, please.",
                "{act[0]}: it is either {one} or {two}.",
            ],
            "de": ["Vergleiche {one} und {two}. {act[1]}."],
            "fr": ["Compare {one} et {two}. {act[2]}."],
        },
        one=one,
        two=two,
        act=act,
        en=en,
        files=files,
        steps=[
            shell(f"wc -l {one} {two}"),
            shell(f"rm {best}" if delete else f"cp {best} {target}"),
            finish(f"{best} has {en} lines than {other}; I {'deleted it' if delete else f'copied it to {target}'}."),
        ],
        check=Check(gone=[best]) if delete else Check(files={target: files[best]}),
    )


@template
def folder_removed_if_empty(draw: Draw) -> Task:
    """An empty folder goes; one with files stays, and the answer says how many it has."""
    where, full = draw.folder(), draw.random() < 0.5
    names = [f"{where}/{draw.choice(['', '.'])}{draw.file()}" for _ in range(draw.randint(1, 4))] if full else []
    return answered(
        draw.task(
            {
                "en": [
                    "Remove the folder {where} if it is empty. If not, tell me how many files it has.",
                    "{where} empty? delete it. else: number of files in it please (hidden ones count)",
                    "I think {where} has nothing in it and can go. Should there be files, say how many and keep it.",
                    "Can {where} be deleted, or are there files in it? Delete only if empty, else tell me the number.",
                ],
                "de": [
                    "Lösche den Ordner {where}, falls er leer ist. Wenn nicht, sag mir, wie viele Dateien darin sind."
                ],
                "es": ["Borra la carpeta {where} si está vacía; si no, dime cuántos archivos tiene."],
            },
            where=where,
            files=filled(draw, names),
            folders=[] if full else [where],
            steps=[shell(f"ls -A {where}"), *([] if full else [shell(f"rmdir {where}")])],
            check=Check(folders=[where], says=[number_said(len(names))])
            if full
            else Check(gone=[where], says=[ANYTHING]),
        ),
        {
            "en": f"{where} is not empty, it has {len(names)} files." if full else f"{where} was empty and is deleted.",
            "de": f"{where} ist nicht leer, Dateien: {len(names)}." if full else f"{where} war leer und ist gelöscht.",
            "es": f"{where} no está vacía, tiene {len(names)} archivos."
            if full
            else f"{where} estaba vacía y está borrada.",
        },
    )


@template
def as_many_files_as(draw: Draw) -> Task:
    """How many files are to be made stands in a file, among other numbers."""
    source, stem, key = draw.file(), draw.word(LOWER), draw.choice(["seats", "copies", "tables", "teams", "groups"])
    count = draw.randint(2, 12)
    lines = [f"{each}: {draw.amount()}" for each in draw.words(draw.randint(1, 4), LOWER)]
    lines.insert(draw.randint(0, len(lines)), f"{key}: {count}")
    folders = draw.random() < 0.5
    names = [f"{stem}-{at}{'' if folders else '.txt'}" for at in range(1, count + 1)]
    what = ("folders", "Ordner", "dossiers") if folders else ("empty files", "leere Dateien", "fichiers vides")
    command = f"mkdir {stem}-{{1..{count}}}" if folders else f"touch {stem}-{{1..{count}}}.txt"
    return draw.task(
        {
            "en": [
                "Create as many {what[0]} as {source} gives for {key}: {one}, {two}, …",
                "{source} has a number for {key}. make that many {what[0]}, named {one}, {two} and so on",
                "For each of the {key} (the number is in {source}) I need one of these {what[0]}: {one}, {two}, …",
                "How many {key} are given in {source}? Set up the same number of {what[0]}: {one}, {two}, …",
            ],
            "de": ["Lege so viele {what[1]} an, wie in {source} bei {key} steht: {one}, {two}, …"],
            "fr": ["Crée autant de {what[2]} que {source} indique pour {key} : {one}, {two}, …"],
        },
        what=what,
        source=source,
        key=key,
        one=names[0],
        two=names[1],
        files={source: text_of(lines)},
        steps=[
            shell(f"grep {key} {source}"),
            shell(command),
            finish(f"{source} says {count} for {key}; {names[0]} to {names[-1]} are there."),
        ],
        check=Check(
            files={} if folders else dict.fromkeys(names, ""),
            folders=names if folders else [],
            gone=[f"{stem}-{count + 1}{'' if folders else '.txt'}"],
        ),
    )


@template
def second_of_equals_deleted(draw: Draw) -> Task:
    """Two files are the same or differ in one line; only the same one goes."""
    one, two, same = draw.file(), draw.file(), draw.random() < 0.5
    lines = [draw.sentence() for _ in range(draw.randint(3, 7))]
    other = list(lines)
    if not same:
        other[draw.randrange(1, len(other))] = draw.sentence()
    return answered(
        draw.task(
            {
                "en": [
                    "If {one} and {two} are identical, delete {two}. If they differ, keep both and say so.",
                    "same content in {one} and {two}? then {two} can go. otherwise leave them and tell me they differ",
                    "I think {two} is just a copy of {one}. Delete it if that is true; if not, tell me that it is not.",
                    "Is {two} the same as {one}, line by line? Only in that case remove {two}.",
                ],
                "de": ["Wenn {one} und {two} gleich sind, lösche {two}. Wenn nicht, sag es und lass beide."],
                "pt": ["Se {one} e {two} forem iguais, apague {two}. Se não, avise e deixe os dois."],
            },
            one=one,
            two=two,
            files={one: text_of(lines), two: text_of(other)},
            steps=[shell(f"cmp {one} {two} && echo same"), *([shell(f"rm {two}")] if same else [])],
            check=Check(gone=[two], says=[ANYTHING])
            if same
            else Check(files={two: text_of(other)}, says=[f"differ|unterschied|verschieden|diferente|{NOT_THERE}"]),
        ),
        {
            "en": f"They are identical; I deleted {two}." if same else f"{one} and {two} differ, so both stay.",
            "de": f"Sie sind gleich; {two} ist gelöscht."
            if same
            else f"{one} und {two} sind nicht gleich; beide bleiben.",
            "pt": f"São iguais; apaguei {two}." if same else f"{one} e {two} não são iguais; os dois ficam.",
        },
    )


@template
def rename_unless_taken(draw: Draw) -> Task:
    """The new name may be taken; then another one is used, and nothing is written over."""
    old, taken = draw.file(), draw.random() < 0.5
    new = draw.file()
    second = new.replace(".txt", draw.choice(["-2.txt", "_new.txt"]))
    files = filled(draw, [old, new] if taken else [old])
    final = second if taken else new
    return draw.task(
        {
            "en": [
                "Rename {old} to {new}. If there is a {new} already, use {second} instead.",
                "{old} should become {new}, or {second} if {new} is taken",
                "Please give {old} the name {new}, but overwrite nothing: should {new} exist, then take {second}.",
                "Is the name {new} still free? Then call {old} that, else {second}.",
            ],
            "de": ["Benenne {old} in {new} um, oder in {second}, falls es {new} schon gibt."],
            "fr": ["Renomme {old} en {new}, ou en {second} si {new} existe déjà."],
        },
        old=old,
        new=new,
        second=second,
        files=files,
        steps=[
            shell("ls"),
            shell(f"mv {old} {final}"),
            finish(f"{new} {'is taken' if taken else 'was free'}; {old} is called {final} now."),
        ],
        check=Check(files={final: files[old]}, gone=[old]),
    )


@template
def delete_or_say_it_is_not_there(draw: Draw) -> Task:
    """A file may be missing; one that looks alike is not meant."""
    name, there = draw.file(), draw.random() < 0.5
    stem, _, ending = name.rpartition(".")
    alike = draw.choice([f"{stem}2.{ending}", f"{stem}.md", f"{stem}-old.{ending}", f"{draw.folder()}/{draw.file()}"])
    files = filled(draw, [alike, name] if there else [alike])
    return answered(
        draw.task(
            {
                "en": [
                    "Delete {name} if there is such a file here; if not, just tell me.",
                    "get rid of {name}. not there? then say that, touch nothing else",
                    "If {name} exists, I want it gone. If it does not exist, I want to know that.",
                    "Could you check whether there is a {name} and then delete it? Otherwise say it isn't there.",
                ],
                "de": ["Lösche {name}, falls es die Datei gibt; wenn nicht, sag es mir."],
                "fr": ["Supprime {name} s'il existe ; sinon, dis-le moi."],
                "es": ["Borra {name} si existe; si no, dímelo."],
            },
            name=name,
            files=files,
            steps=[shell("ls"), *([shell(f"rm {name}")] if there else [])],
            check=Check(gone=[name], says=[ANYTHING if there else NOT_THERE]),
        ),
        {
            "en": f"{name} is deleted." if there else f"There is no {name} here, so I changed nothing.",
            "de": f"{name} ist gelöscht." if there else f"Es gibt hier keine Datei {name}; ich habe nichts geändert.",
            "fr": f"{name} est supprimé." if there else f"Il n'y a pas de fichier {name} ; je n'ai rien changé.",
            "es": f"{name} está borrado." if there else f"No hay ningún archivo {name}; no he cambiado nada.",
        },
    )


@template
def whichever_is_there(draw: Draw) -> Task:
    """One of two files is there, and its line is changed."""
    (one, two), key, value = draw.words(2, pools.STEMS), draw.word(LOWER), draw.amount(100, 999)
    one, two = f"{one}.cfg", f"{two}.cfg"
    real = draw.choice([one, two])
    lines = [f"{each}={draw.amount()}" for each in draw.words(draw.randint(1, 4), LOWER)]
    at = draw.randint(0, len(lines))
    before, after = list(lines), list(lines)
    before.insert(at, f"{key}={draw.amount()}")
    after.insert(at, f"{key}={value}")
    return draw.task(
        {
            "en": [
                "There is a {one} or a {two}, only one of them. Set {key} to {value} in it.",
                "change {key} to {value} in {one} (or {two}, if that is the one i have)",
                "The settings are either in {one} or in {two}. In whichever exists, {key} should be {value}.",
                "Could you set {key} to {value}? The file is called {one}, or maybe {two}.",
            ],
            "de": ["Setze {key} auf {value}, entweder in {one} oder in {two}, je nachdem, welche es gibt."],
            "es": ["Pon {key} a {value} en {one} o en {two}, el que exista."],
        },
        one=one,
        two=two,
        key=key,
        value=value,
        files={real: text_of(before)},
        steps=[
            shell(f"sed -i 's/^{key}=.*/{key}={value}/' {real}"),
            finish(f"It is {real}; {key} is {value} there now."),
        ],
        check=Check(files={real: text_of(after)}),
    )


@template
def files_of_a_list_that_are_missing(draw: Draw) -> Task:
    """A list names files; those that are missing are made, or written to a file."""
    source, where = draw.file("lst"), draw.folder()
    names = [draw.file() for _ in range(draw.randint(3, 7))]
    missing = [each for each in names if draw.random() < 0.5] or names[-1:]
    there = [each for each in names if each not in missing]
    target, make = draw.file(), draw.random() < 0.5
    files = filled(draw, [f"{where}/{each}" for each in [*there, draw.file()]])
    en, de = (
        ("create the missing ones as empty files", "lege die fehlenden leer an")
        if make
        else (f"write the names of the missing ones to {target}", f"schreib die Namen der fehlenden nach {target}")
    )
    act = f'[ -e "{where}/$name" ] || ' + (f'touch "{where}/$name"' if make else 'echo "$name"')
    loop = f"while IFS= read -r name; do {act}; done < {source}{'' if make else f' > {target}'}"
    return draw.task(
        {
            "en": [
                "Check which of the files listed in {source} are missing in {where} and {en}.",
                "{source} = files that should be in {where}. {en}",
                "All files named in {source} should exist in {where}. Please {en}.",
                "Are all the files of {source} there in {where}? If not, {en}.",
            ],
            "de": ["In {source} stehen Dateien, die in {where} liegen sollen: {de}."],
            "fr": ["{source} énumère des fichiers attendus dans {where} : {fr}."],
        },
        source=source,
        where=where,
        en=en,
        de=de,
        fr="crée vides ceux qui manquent" if make else f"écris dans {target} les noms de ceux qui manquent",
        files={**files, source: text_of(names)},
        steps=[shell(loop), finish(f"{len(missing)} of the {len(names)} files were missing: {', '.join(missing)}.")],
        check=Check(files={f"{where}/{each}": "" for each in missing} if make else {target: text_of(missing)}),
    )


@template
def on_the_list_or_not(draw: Draw) -> Task:
    """A person is taken off a list if on it, and otherwise put on it."""
    source, person = draw.file(), draw.word(pools.PEOPLE)
    lines = draw.words(draw.randint(3, 8), pools.PEOPLE)
    lines[0] = f"{person}{draw.choice(['bel', 'lina', 'son'])}"
    there = draw.random() < 0.5
    result = [*lines, person]
    if there:
        lines, result = [*lines[:2], person, *lines[2:]], lines
    return draw.task(
        {
            "en": [
                "If {person} is on the list {source}, remove the line; otherwise add {person} at the end.",
                "toggle {person} in {source}: out if in, in (last line) if out",
                "{person} has changed their mind. When {source} has a line {person}, delete it, else append one.",
                "Is {person} in {source}? If yes, take the name off, and if not, put it on as the last line.",
            ],
            "de": ["Steht {person} in {source}, dann lösche die Zeile; sonst hänge {person} an."],
            "pt": ["Se {person} estiver em {source}, tire a linha; se não, acrescente {person} no fim."],
        },
        person=person,
        source=source,
        files={source: text_of(lines)},
        steps=[
            shell(f"grep -nx {person} {source}"),
            shell(f"sed -i '/^{person}$/d' {source}" if there else f"echo {person} >> {source}"),
            finish(f"{person} {'was on the list and is removed' if there else 'was not on the list and is added'}."),
        ],
        check=Check(files={source: text_of(result)}),
    )


@template
def word_changed_if_it_occurs(draw: Draw) -> Task:
    """A word may be missing; then this is said and no file is changed."""
    source, (old, new) = draw.file(), draw.words(2, LOWER)
    there = draw.random() < 0.6
    lines = [draw.sentence() for _ in range(draw.randint(4, 8))]
    if there:
        lines.insert(draw.randint(3, len(lines)), f"Nothing but {old}, {old} every day.")
    text = text_of(lines)
    return answered(
        draw.task(
            {
                "en": [
                    "Replace {old} by {new} in {source}. If {old} does not occur there, tell me and change nothing.",
                    "{source}: {old} -> {new}. no {old} in it? then just say so",
                    "Should {source} mention {old}, make that {new}. Should it not, I'd like to be told.",
                    "Does {source} have the word {old}? If it does, change it to {new}; if it doesn't, let me know.",
                ],
                "de": ["Ersetze {old} in {source} durch {new}. Falls {old} nicht vorkommt, sag es mir."],
                "fr": ["Remplace {old} par {new} dans {source}. Si {old} n'y est pas, dis-le."],
            },
            source=source,
            old=old,
            new=new,
            files={source: text},
            steps=[
                shell(f"grep -n {old} {source}"),
                *([shell(f"sed -i 's/{old}/{new}/g' {source}")] if there else []),
            ],
            check=Check(files={source: text.replace(old, new)}, says=[ANYTHING if there else NOT_THERE]),
        ),
        {
            "en": f"{old} is {new} in {source} now." if there else f"{source} does not have the word {old}; no change.",
            "de": f"In {source} steht jetzt {new}." if there else f"{old} kommt in {source} nicht vor.",
            "fr": f"{source} contient maintenant {new}." if there else f"{old} n'est pas dans {source}.",
        },
    )


@template
def whose_turn_it_is(draw: Draw) -> Task:
    """The last line decides which file gets a line."""
    source, (one, two) = draw.file(), draw.words(2, pools.PEOPLE)
    files = filled(draw, [f"{one}.txt", f"{two}.txt"])
    turns = draw.choices([one, two], k=draw.randint(3, 20))
    lines = [f"{draw.amount(1, 28)} {draw.word(LOWER)} {each}" for each in turns]
    nxt, new = two if turns[-1] == one else one, draw.sentence()
    return draw.task(
        {
            "en": [
                '{source} says who did it last (last line). Add "{new}" to {one}.txt if that was {two}, '
                "and to {two}.txt if that was {one}.",
                'last line of {source}: is it {one} or {two}? the other one gets the line "{new}" in their file',
                'See the end of {source}. If the last one is {one}, append "{new}" to {two}.txt, else to {one}.txt.',
                '{one} and {two} take turns, see {source}. Who is not on the last line should get "{new}" as a new '
                "line in {one}.txt or {two}.txt.",
            ],
            "de": [
                'Nennt die letzte Zeile von {source} {one}, dann hänge "{new}" an {two}.txt an, sonst an {one}.txt.'
            ],
            "es": ['Si la última línea de {source} es de {one}, añade "{new}" a {two}.txt; si no, a {one}.txt.'],
        },
        source=source,
        one=one,
        two=two,
        new=new,
        **kept(new),
        files={**files, source: text_of(lines)},
        steps=[
            shell(f"tail -n 1 {source}"),
            shell(f"echo '{new}' >> {nxt}.txt"),
            finish(f"The last entry is of {turns[-1]}, so {nxt}.txt has the new line."),
        ],
        check=Check(files={f"{nxt}.txt": f"{files[f'{nxt}.txt']}{new}"}),
    )
