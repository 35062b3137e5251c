"""Tasks that delete, count and tidy up files and folders."""

from shlex import quote

from training.tasks import pools
from training.tasks.answers import (
    LOWER,
    NOT_THERE,
    answered,
    filled,
    moved,
    number_said,
    said,
    shown,
    spaced,
    text_of,
)
from training.tasks.draw import Draw, template
from training.tasks.task import Check, Task, finish, shell


@template
def delete_by_ending(draw: Draw) -> Task:
    """Either here only, or in all subfolders, too; or there is none."""
    ending, deep, found = (
        draw.choice(["bak", "swp", "cache", "part", "log", "old"]),
        draw.random() < 0.6,
        draw.random() < 0.85,
    )
    here = [spaced(draw, ending, 0.2) for _ in range(draw.randint(1, 3))] if found else []
    below = [f"{draw.folder()}/{draw.file(ending)}" for _ in range(draw.randint(1, 3))] if found or not deep else []
    files = filled(draw, [*here, *below, f"{draw.file(ending)}.txt", f"{draw.folder()}/{draw.file('md')}"])
    gone = [*here, *below] if deep else here
    scope = (
        ("in all subfolders too", "auch in Unterordnern", "même dans les sous-dossiers")
        if deep
        else ("but not those in subfolders", "aber nicht die in Unterordnern", "mais pas dans les sous-dossiers")
    )
    find = f"find . {'' if deep else '-maxdepth 1 '}-type f -name '*.{ending}'"
    return answered(
        draw.task(
            {
                "en": [
                    "Delete the files here that end in .{ending}, {scope[0]}. Say how many you deleted.",
                    "clean up: all .{ending} files can go, {scope[0]}. how many did you find?",
                    "I don't need .{ending} files here ({scope[0]}), remove them and tell me how many there were.",
                    "Could you throw away every .{ending} file, {scope[0]}, and say how many there were?",
                ],
                "de": ["Lösche alle .{ending}-Dateien, {scope[1]}. Sag mir, wie viele es waren."],
                "fr": ["Supprime les fichiers .{ending}, {scope[2]}, et dis-moi combien il y en avait."],
            },
            ending=ending,
            scope=scope,
            files=files,
            others=0,
            steps=[shell(find), *([shell(f"{find} -delete")] if gone else [])],
            check=Check(gone=gone, says=[number_said(len(gone)) if gone else f"{NOT_THERE}|{number_said(0)}"]),
        ),
        {
            "en": f"I deleted {len(gone)} .{ending} files." if gone else f"There are no .{ending} files to delete.",
            "de": f"Ich habe {len(gone)} .{ending}-Dateien gelöscht." if gone else f"Es gibt keine .{ending}-Dateien.",
            "fr": f"J'ai supprimé {len(gone)} fichiers .{ending}." if gone else f"Il n'y a aucun fichier .{ending}.",
        },
    )


@template
def delete_all_but_one(draw: Draw) -> Task:
    """One file of a folder is kept."""
    where, keep = draw.folder(), spaced(draw, share=0.3)
    names = [f"{where}/{spaced(draw, draw.choice(['txt', 'md']), 0.2)}" for _ in range(draw.randint(2, 6))]
    files = filled(draw, [*names, f"{where}/{keep}", draw.file()])
    return draw.task(
        {
            "en": [
                "Delete everything in {where} except {keep}.",
                "in {where} only {keep} is still needed, the rest can be deleted",
                "Please empty the folder {where}, but keep {keep}.",
                "I want nothing but {keep} to remain in {where}.",
            ],
            "de": ["Lösche alles in {where} außer {keep}."],
            "fr": ["Supprime tout dans {where} sauf {keep}."],
            "es": ["Borra todo lo que hay en {where} menos {keep}."],
        },
        where=where,
        keep=shown(keep),
        files=files,
        steps=[
            shell(f"find {where} -type f ! -name {quote(keep)} -delete"),
            shell(f"ls -A {where}"),
            finish(f"Only {keep} is left in {where}."),
        ],
        check=Check(gone=names),
    )


@template
def delete_empty_files(draw: Draw) -> Task:
    """Files of zero bytes; one with a single character is not empty."""
    where = draw.folder()
    empty = [f"{where}/{spaced(draw, share=0.2)}" for _ in range(draw.randint(1, 4))]
    files = dict.fromkeys(empty, "") | filled(draw, [f"{where}/{draw.file()}" for _ in range(draw.randint(1, 3))])
    files[f"{where}/{draw.file()}"] = draw.choice("0x-")
    items = list(files.items())
    draw.shuffle(items)
    return draw.task(
        {
            "en": [
                "Remove the empty files from {where}.",
                "some files in {where} have nothing in them, delete those",
                "I only want to keep files in {where} that have content.",
                "Are there files of zero bytes in {where}? Delete them.",
            ],
            "de": ["Lösche die leeren Dateien in {where}."],
            "fr": ["Supprime les fichiers vides de {where}."],
            "pt": ["Apague os arquivos vazios da pasta {where}."],
        },
        where=where,
        files=dict(items),
        steps=[
            shell(f"find {where} -type f -empty -print -delete"),
            finish(f"I deleted {len(empty)} empty file{'s' * (len(empty) > 1)} in {where}."),
        ],
        check=Check(gone=empty),
    )


@template
def delete_empty_folders(draw: Draw) -> Task:
    """Folders without files; one that has a hidden file is not empty."""
    empty = draw.words(draw.randint(1, 4), pools.FOLDERS)
    files = filled(draw, [f"{draw.folder()}/{draw.file()}" for _ in range(draw.randint(1, 3))])
    if draw.random() < 0.4:
        files[f"{draw.folder()}/.keep"] = "keep\n"
    return draw.task(
        {
            "en": [
                "Delete the empty folders here.",
                "remove all folders that have nothing in them, keep the others",
                "I have created too many folders. Those without any file in them can go.",
                "Could you get rid of the folders that are empty?",
            ],
            "de": ["Lösche alle leeren Ordner.", "ordner, in denen nichts ist, können weg"],
            "fr": ["Supprime les dossiers vides."],
            "es": ["Borra las carpetas vacías."],
        },
        files=files,
        folders=empty,
        steps=[
            shell("find . -mindepth 1 -type d -empty -print -delete"),
            finish(f"I deleted {len(empty)} empty folder{'s' * (len(empty) > 1)}: {', '.join(empty)}."),
        ],
        check=Check(gone=empty, folders=[each.partition("/")[0] for each in files]),
    )


@template
def delete_folder_not_file(draw: Draw) -> Task:
    """A folder with all that is in it; a file has its name, too."""
    where = draw.folder()
    inner = [f"{where}/{draw.file()}", f"{where}/{draw.folder()}/{draw.file()}"]
    files = filled(draw, [*inner, f"{where}.{draw.choice(['txt', 'md', 'zip.txt'])}", f"{where}2/{draw.file()}"])
    return draw.task(
        {
            "en": [
                "Delete the folder {where} with everything in it.",
                "{where}/ can go completely",
                "I no longer need the folder {where}. Please remove it, including its subfolders.",
                "Would you throw the directory {where} away? Nothing else, just this one.",
            ],
            "de": ["Lösche den Ordner {where} samt Inhalt."],
            "fr": ["Supprime le dossier {where} et tout ce qu'il contient."],
            "es": ["Elimina la carpeta {where} con todo su contenido."],
        },
        where=where,
        files=files,
        steps=[shell(f"rm -r {where}"), finish(f"The folder {where} is deleted.")],
        check=Check(gone=[where]),
    )


@template
def delete_numbered_range(draw: Draw) -> Task:
    """A trap: 3 and 30 begin alike."""
    stem, first = draw.word(LOWER), draw.randint(1, 6)
    last = first + draw.randint(1, 3)
    numbers = sorted({*range(max(1, first - 1), last + 3), first * 10, last * 10 + 1})
    files = filled(draw, [f"{stem}-{at}.txt" for at in numbers])
    gone = [f"{stem}-{at}.txt" for at in range(first, last + 1)]
    return draw.task(
        {
            "en": [
                "Delete {first} to {last} and keep the other {stem} files.",
                "the files from {first} up to {last} can be deleted",
                "I don't need {first} through {last} any more.",
                "Please throw away the {stem} files whose number is from {low} to {high}.",
            ],
            "de": ["Lösche {first} bis {last}; die anderen bleiben."],
            "fr": ["Supprime les fichiers de {first} à {last}."],
        },
        stem=stem,
        first=gone[0],
        last=gone[-1],
        low=first,
        high=last,
        files=files,
        steps=[shell(f"rm {stem}-{{{first}..{last}}}.txt"), finish(f"{', '.join(gone)} are deleted.")],
        check=Check(gone=gone),
    )


@template
def delete_by_year_in_name(draw: Draw) -> Task:
    """Files older than a year that their names give."""
    where, limit = draw.folder(), draw.randint(2020, 2024)
    years = [limit - 2, limit - 1, limit, limit + 1]
    names = [f"{where}/{draw.word(LOWER)}-{draw.choice(years)}.txt" for _ in range(draw.randint(3, 7))]
    names += [f"{where}/{draw.word(LOWER)}-{limit - 1}.txt", f"{where}/{draw.word(LOWER)}-{limit}.txt"]
    files = filled(draw, draw.sample(names, len(names)))
    gone = [each for each in names if int(each[-8:-4]) < limit]
    return draw.task(
        {
            "en": [
                "Delete the files in {where} from before {limit}; the year is in the name.",
                "in {where} i only need the files of {limit} and later, delete the older ones",
                "Everything in {where} whose name has a year earlier than {limit} should be removed.",
                "Can you clear out {where}? What is older than {limit} by its name can go.",
            ],
            "de": ["Lösche in {where} alle Dateien, deren Name ein Jahr vor {limit} nennt."],
            "es": ["Borra de {where} los archivos anteriores a {limit}; el año está en el nombre."],
        },
        where=where,
        limit=limit,
        files=files,
        steps=[
            shell(f"ls {where}"),
            shell("rm " + " ".join(sorted(gone))),
            finish(f"I deleted the {len(gone)} files in {where} from before {limit}."),
        ],
        check=Check(gone=gone),
    )


@template
def keep_the_newest(draw: Draw) -> Task:
    """Of files with a date in their names only the latest is kept, or the older ones are put away."""
    stem, ending = draw.word(LOWER), draw.choice(["txt", "log", "sql"])
    dates = sorted(
        {
            f"{draw.randint(2022, 2025)}-{draw.randint(1, 12):02}-{draw.randint(1, 28):02}"
            for _ in range(draw.randint(3, 6))
        }
    )
    names = [f"{stem}-{each}.{ending}" for each in dates]
    files = filled(draw, draw.sample([*names, f"{stem}.{ending}"], len(names) + 1))
    old, target = names[:-1], draw.folder()
    move = draw.random() < 0.4
    en, de, fr = (
        (
            f"move the older ones to {target}",
            f"verschiebe die älteren nach {target}",
            f"déplace les autres dans {target}",
        )
        if move
        else ("delete the older ones", "lösche die älteren", "supprime les plus anciens")
    )
    act = f"mkdir -p {target} && mv {' '.join(old)} {target}/" if move else f"rm {' '.join(old)}"
    return draw.task(
        {
            "en": [
                "Of the {stem} files with a date keep only the newest, {en}.",
                "there are many {stem}-<date> files. newest one stays, {en}",
                "I only care about the latest dated {stem} file. Please {en}; {plain} has no date and stays.",
                "Which of the dated {stem} files is the newest? Leave that one and {en}.",
            ],
            "de": ["Behalte von den {stem}-Dateien mit Datum nur die neueste und {de}."],
            "fr": ["Garde seulement le fichier {stem} daté le plus récent et {fr}."],
        },
        stem=stem,
        plain=f"{stem}.{ending}",
        en=en,
        de=de,
        fr=fr,
        files=files,
        steps=[
            shell(f"ls {stem}-*"),
            shell(act),
            finish(
                f"{names[-1]} is the newest and stays; the {len(old)} older ones are {'moved' if move else 'deleted'}."
            ),
        ],
        check=Check(files=moved(files, old, target) if move else {}, gone=old),
    )


@template
def delete_hidden_files(draw: Draw) -> Task:
    """Hidden files of a folder, none of the others."""
    where = draw.folder()
    hidden = [f"{where}/.{draw.file(draw.choice(['txt', 'swp', '']))}" for _ in range(draw.randint(1, 4))]
    files = filled(draw, [*hidden, *(f"{where}/{draw.file()}" for _ in range(draw.randint(1, 3)))])
    return draw.task(
        {
            "en": [
                "Delete the hidden files in {where}.",
                "{where} has files that start with a dot, remove them",
                "I want no hidden files in the folder {where}; the others stay.",
                "Would you clear {where} of hidden files, please?",
            ],
            "de": ["Lösche die versteckten Dateien in {where}."],
            "fr": ["Supprime les fichiers cachés de {where}."],
            "pt": ["Apague os arquivos ocultos da pasta {where}."],
        },
        where=where,
        files=files,
        steps=[
            shell(f"find {where} -type f -name '.*' -print -delete"),
            finish(f"I deleted {len(hidden)} hidden file{'s' * (len(hidden) > 1)} in {where}."),
        ],
        check=Check(gone=hidden),
    )


@template
def delete_copies(draw: Draw) -> Task:
    """Names with (1), (2) are copies."""
    names = [spaced(draw, draw.choice(["txt", "jpg", "md"]), 0.2) for _ in range(draw.randint(2, 4))]
    files = filled(draw, names)
    copies = []
    for name in draw.sample(names, draw.randint(1, len(names))):
        stem, _, ending = name.rpartition(".")
        copies += [f"{stem} ({at}).{ending}" for at in range(1, draw.randint(1, 2) + 1)]
    files |= {each: files[f"{each.rpartition(' (')[0]}.{each.rpartition('.')[2]}"] for each in copies}
    return draw.task(
        {
            "en": [
                "Delete the downloaded copies, that is, files with a number in brackets such as {example}.",
                "files like {example} are duplicates, get rid of them",
                "I have several copies with (1) or (2) in the name. The originals are enough.",
                "Could you remove every file whose name ends in a bracketed number, like {example}?",
            ],
            "de": ["Dateien wie {example} sind Kopien, bitte lösche sie alle."],
            "fr": ["Supprime les copies comme {example}, les originaux suffisent."],
        },
        example=shown(copies[0]),
        files=files,
        steps=[
            shell('rm *" ("[0-9]")".*'),
            finish(f"I deleted {len(copies)} cop{'y' if len(copies) == 1 else 'ies'}; the originals are there."),
        ],
        check=Check(gone=copies),
    )


@template
def delete_by_size(draw: Draw) -> Task:
    """Files above a size go, or are moved."""
    where, limit = draw.folder(), draw.choice([100, 200, 500, 1000, 2000])
    sizes = [draw.randint(limit + 5, limit * 3) for _ in range(draw.randint(1, 3))]
    sizes += [draw.randint(5, limit - 5) for _ in range(draw.randint(1, 4))]
    draw.shuffle(sizes)
    names = [f"{where}/{draw.file('dat')}" for _ in sizes]
    files = {name: (draw.word(LOWER) + " ") * size for name, size in zip(names, sizes, strict=True)}
    files = {name: files[name][: size - 1] + "\n" for name, size in zip(names, sizes, strict=True)}
    big = [name for name, size in zip(names, sizes, strict=True) if size > limit]
    target = draw.folder() if draw.random() < 0.5 else ""
    find = f"find {where} -type f -size +{limit}c"
    en, de = (f"move them to {target}", f"verschiebe sie nach {target}") if target else ("delete them", "lösche sie")
    return draw.task(
        {
            "en": [
                "Find the files in {where} that are bigger than {limit} bytes and {en}.",
                "files over {limit} bytes in {where}: {en}",
                "Some files in {where} are too big, more than {limit} bytes. Please {en}.",
                "Is anything in {where} larger than {limit} bytes? If so, {en}.",
            ],
            "de": ["Suche in {where} die Dateien mit mehr als {limit} Bytes und {de}."],
            "es": ["Busca en {where} los archivos de más de {limit} bytes y {es}."],
        },
        where=where,
        limit=limit,
        en=en,
        de=de,
        es=f"muévelos a {target}" if target else "bórralos",
        files=files,
        steps=[
            shell(f"mkdir -p {target} && {find} -exec mv -t {target} {{}} +" if target else f"{find} -print -delete"),
            finish(f"{len(big)} files were bigger than {limit} bytes; they are {'moved' if target else 'deleted'}."),
        ],
        check=Check(files=moved(files, big, target) if target else {}, gone=big),
    )


@template
def count_files_of_folder(draw: Draw) -> Task:
    """A trap: a subfolder is no file, and `ls -l` has a line more."""
    where, target = draw.folder(), draw.file()
    names = [f"{where}/{spaced(draw, draw.choice(['txt', 'md', 'png']), 0.2)}" for _ in range(draw.randint(2, 9))]
    deep = [f"{where}/{draw.folder()}/{draw.file()}" for _ in range(draw.randint(0, 2))]
    whole = draw.random() < 0.4
    count = len(names) + (len(deep) if whole else 0)
    scope = (
        ("with those in subfolders", "mit Unterordnern") if whole else ("not those in subfolders", "ohne Unterordner")
    )
    return draw.task(
        {
            "en": [
                "Count the files in {where} ({scope[0]}) and save the number in {target}.",
                "how many files are in {where}, {scope[0]}? number goes in {target}",
                "{target} should have one number: how many files {where} holds, {scope[0]}.",
                "Please find out how many files there are in the folder {where}, {scope[0]}, and note it in {target}.",
            ],
            "de": ["Zähle die Dateien in {where} ({scope[1]}) und schreib die Anzahl nach {target}."],
            "fr": ["Compte les fichiers de {where} ({french}) et note le nombre dans {target}."],
        },
        where=where,
        target=target,
        scope=scope,
        french="avec les sous-dossiers" if whole else "sans les sous-dossiers",
        files=filled(draw, [*names, *deep]),
        steps=[
            shell(f"find {where} {'' if whole else '-maxdepth 1 '}-type f | wc -l > {target}"),
            shell(f"cat {target}"),
            finish(f"{where} has {count} files; the number is in {target}."),
        ],
        check=Check(files={target: str(count)}),
    )


@template
def count_folders(draw: Draw) -> Task:
    """A trap: `find` counts the folder itself."""
    where, target = draw.folder(), draw.file()
    inner = draw.words(draw.randint(2, 6), pools.FOLDERS)
    files = filled(draw, [f"{where}/{each}/{draw.file()}" for each in inner[:-1]] + [f"{where}/{draw.file()}"])
    return draw.task(
        {
            "en": [
                "How many folders are there in {where}? Put the number into {target}.",
                "count the subfolders of {where} -> {target}",
                "I want to know how many subfolders {where} has. Note the number in {target}.",
                "Write to {target} the number of folders (no files) that lie directly in {where}.",
            ],
            "de": ["Wie viele Ordner liegen in {where}? Schreib die Zahl in {target}."],
            "fr": ["Combien de dossiers y a-t-il dans {where} ? Note le nombre dans {target}."],
            "es": ["Cuenta las carpetas que hay en {where} y guarda el número en {target}."],
        },
        where=where,
        target=target,
        files=files,
        folders=[f"{where}/{inner[-1]}"],
        steps=[
            shell(f"find {where} -mindepth 1 -maxdepth 1 -type d | wc -l > {target}"),
            shell(f"cat {target}"),
            finish(f"{where} has {len(inner)} folders; {target} has the number."),
        ],
        check=Check(files={target: str(len(inner))}),
    )


@template
def biggest_file(draw: Draw) -> Task:
    """The biggest or smallest file of a folder, by bytes, not by lines."""
    where, target, small = draw.folder(), draw.file(), draw.random() < 0.3
    sizes = draw.sample(range(30, 900, 10), draw.randint(3, 6))
    names = [draw.file() for _ in sizes]
    files = {}
    for name, size in zip(names, sizes, strict=True):
        word = draw.word(LOWER)
        files[f"{where}/{name}"] = (f"{word}{draw.choice(['', chr(10)])} " * size)[: size - 1] + "\n"
    best = names[sizes.index(min(sizes) if small else max(sizes))]
    en, de, fr = ("smallest", "kleinste", "le plus petit") if small else ("biggest", "größte", "le plus gros")
    return draw.task(
        {
            "en": [
                "Which file in {where} is the {en}? Write its name, without the folder, to {target}.",
                "find the {en} file in {where} (bytes), put just its name in {target}",
                "I'd like {target} to hold the name of the {en} file of {where}, nothing else.",
                "Look for the file in {where} with the {size} size and note its name in {target}.",
            ],
            "de": ["Wie heißt die {de} Datei in {where}? Schreib nur den Namen in {target}."],
            "fr": ["Quel est {fr} fichier de {where} ? Écris son nom dans {target}."],
        },
        where=where,
        target=target,
        en=en,
        size="lowest" if small else "largest",
        de=de,
        fr=fr,
        files=files,
        steps=[
            shell(f"ls -S{'r' * small} {where} | head -n 1 > {target}"),
            shell(f"cat {target}"),
            finish(f"The {en} file in {where} is {best}; {target} has its name."),
        ],
        check=Check(either={target: [best, f"{where}/{best}"]}),
    )


@template
def list_of_a_folder(draw: Draw) -> Task:
    """The names of the files of a folder, all or by ending, one per line."""
    where, target, ending = draw.folder(), draw.file(), draw.choice(["", "txt", "csv", "jpg"])
    names = [draw.file(draw.choice(["txt", "csv", "jpg"])) for _ in range(draw.randint(2, 7))]
    names.append(draw.file(ending or "md"))
    wanted = sorted(each for each in names if each.endswith(ending))
    step = f"(cd {where} && ls *.{ending}) > {target}" if ending else f"ls {where} > {target}"
    return draw.task(
        {
            "en": [
                "Write the names of all {what}files in {where} to {target}, one per line.",
                "i need a list ({target}) of the {what}files in {where}, only names",
                "{target} should list which {what}files are in {where}, a line for each, without the folder.",
                "Could you make {target}, a list of the {what}files that {where} holds?",
            ],
            "de": ["Schreib die Namen aller {what}Dateien aus {where} nach {target}, einen pro Zeile."],
            "fr": ["Écris dans {target} les noms de tous les fichiers {what}de {where}, un par ligne."],
        },
        where=where,
        target=target,
        what=f".{ending} " if ending else "",
        files=filled(draw, [f"{where}/{each}" for each in names]),
        steps=[shell(step), finish(f"{target} lists the {len(wanted)} files.")],
        check=Check(unordered={target: wanted}),
    )


@template
def count_by_ending(draw: Draw) -> Task:
    """How many files of a kind are there, all folders counted; answered in words."""
    ending, top = draw.choice(["py", "csv", "jpg", "md", "txt"]), draw.folder()
    hits = [
        f"{top}/{each}{draw.file(ending)}" for each in draw.choices(["", f"{draw.folder()}/"], k=draw.randint(1, 9))
    ]
    misses = [f"{top}/{draw.file('ini')}", f"{top}/{draw.file(f'{ending}.bak')}"]
    files = filled(draw, draw.sample([*hits, *misses], len(hits) + 2))
    return answered(
        draw.task(
            {
                "en": [
                    "How many .{ending} files are in {top}, including its subfolders?",
                    "count of .{ending} files below {top}?",
                    "Tell me the number of .{ending} files that {top} and its folders hold.",
                    "I'd like to know how many files under {top} end in .{ending}.",
                ],
                "de": ["Wie viele .{ending}-Dateien gibt es in {top} und seinen Unterordnern?"],
                "fr": ["Combien de fichiers .{ending} y a-t-il dans {top}, sous-dossiers compris ?"],
                "es": ["¿Cuántos archivos .{ending} hay en {top} y sus subcarpetas?"],
            },
            ending=ending,
            top=top,
            files=files,
            steps=[shell(f"find {top} -type f -name '*.{ending}' | wc -l")],
            check=Check(says=[number_said(len(hits))]),
        ),
        {
            "en": f"{top} has {len(hits)} .{ending} files, those in subfolders included.",
            "de": f"In {top} gibt es mit Unterordnern {len(hits)} .{ending}-Dateien.",
            "fr": f"Il y a {len(hits)} fichiers .{ending} dans {top}, sous-dossiers compris.",
            "es": f"Hay {len(hits)} archivos .{ending} en {top} y sus subcarpetas.",
        },
    )


@template
def empty_but_keep(draw: Draw) -> Task:
    """A file is emptied, not deleted."""
    name = spaced(draw, draw.choice(["log", "txt"]))
    files = {name: text_of(draw.sentence() for _ in range(draw.randint(2, 6)))}
    return draw.task(
        {
            "en": [
                "Empty {name}, but do not delete it.",
                "clear {name}, the file itself has to stay",
                "I want {name} to be empty. It must still exist.",
                "Can you take everything out of {name} so that it has zero bytes?",
            ],
            "de": ["Leere {name}, aber lösche die Datei nicht."],
            "fr": ["Vide {name} sans supprimer le fichier."],
            "es": ["Vacía {name} sin borrar el archivo."],
        },
        name=shown(name),
        files=files,
        steps=[shell(f"truncate -s 0 {quote(name)}"), finish(f"{name} is empty now and still there.")],
        check=Check(files={name: ""}),
    )


@template
def delete_by_line(draw: Draw) -> Task:
    """Files are deleted for a line that they hold; the word alone is not enough."""
    where, word = draw.folder(), draw.choice(["obsolete", "done", "expired", "closed"])
    names = [f"{where}/{draw.file()}" for _ in range(draw.randint(4, 7))]
    bad = set(draw.sample(names, draw.randint(1, len(names) - 2)))
    files = {each: text_of([draw.sentence(), "status: " + (word if each in bad else "open")]) for each in names}
    trap = next(each for each in names if each not in bad)
    files[trap] += f"not {word} yet\n"
    return answered(
        draw.task(
            {
                "en": [
                    "Delete the files in {where} that have the line {line}, and tell me which ones those were.",
                    "{where}: remove every file with the line {line} and name them",
                    "Files of {where} with {line} on a line of its own can go. Drop them and say which.",
                    "Which files in {where} have the line {line}? Delete these.",
                ],
                "de": ["Lösche in {where} alle Dateien mit der Zeile {line} und nenne sie mir."],
                "es": ["Borra de {where} los archivos que tienen la línea {line} y dime cuáles eran."],
            },
            where=where,
            line=f'"status: {word}"',
            word=word,
            files=files,
            steps=[shell(f"grep -lx 'status: {word}' {where}/*"), shell(f"rm {' '.join(sorted(bad))}")],
            check=Check(gone=sorted(bad), says=[said(each.partition("/")[2]) for each in sorted(bad)]),
        ),
        {
            "en": f"Deleted: {', '.join(sorted(bad))}.",
            "de": f"Gelöscht: {', '.join(sorted(bad))}.",
            "es": f"Borrados: {', '.join(sorted(bad))}.",
        },
    )
