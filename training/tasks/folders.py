"""Tasks that make, copy and move files and folders."""

from shlex import quote

from training.tasks import pools
from training.tasks.answers import LOWER, answered, filled, moved, shown, spaced, text_of
from training.tasks.draw import Draw, template
from training.tasks.task import Check, Task, finish, shell


@template
def make_some_folders(draw: Draw) -> Task:
    """Folders by name, sometimes one inside another."""
    names = draw.words(draw.randint(2, 4), pools.FOLDERS)
    if draw.random() < 0.4:
        names[-1] = f"{names[0]}/{names[-1]}"
    return answered(
        draw.task(
            {
                "en": [
                    "Create the folders {listed} and {last}.",
                    "new folders please: {listed} and {last}",
                    "I need these folders here: {listed} and {last}",
                    "Could you set up folders named {listed} and {last}? Nothing has to be in them yet.",
                ],
                "de": ["Lege die Ordner {listed} und {last} an.", "ich brauche hier die ordner {listed} und {last}"],
                "fr": ["Crée les dossiers {listed} et {last}."],
                "es": ["Crea las carpetas {listed} y {last}."],
                "pt": ["Crie as pastas {listed} e {last}."],
            },
            listed=", ".join(names[:-1]),
            last=names[-1],
            files={},
            steps=[shell(f"mkdir -p {' '.join(names)}")],
            check=Check(folders=names),
        ),
        {
            "en": f"The folders {', '.join(names)} are there now.",
            "de": f"Die Ordner {', '.join(names)} sind jetzt da.",
            "fr": f"Les dossiers {', '.join(names)} sont créés.",
            "es": f"Las carpetas {', '.join(names)} están creadas.",
            "pt": f"As pastas {', '.join(names)} foram criadas.",
        },
    )


@template
def folder_for_each_line(draw: Draw) -> Task:
    """Names with spaces, and sometimes no newline at the end of the list."""
    source, parent = draw.file(), draw.folder()
    names = [
        f"{name} {draw.word(LOWER).capitalize()}" if draw.random() < 0.5 else name
        for name in draw.words(draw.randint(2, 7), pools.PEOPLE)
    ]
    ending = draw.choice(["\n", ""])
    return draw.task(
        {
            "en": [
                "Make one folder inside {parent} for every line of {source}, named like the line.",
                "each name in {source} should get its own folder in {parent}",
                "Please go through {source} and create a subfolder of {parent} for each person on it.",
                "{source} lists people, one per line. In {parent}, I want a folder for each of them.",
            ],
            "de": ["Lege in {parent} für jede Zeile von {source} einen Ordner mit diesem Namen an."],
            "fr": ["Pour chaque ligne de {source}, crée un dossier de ce nom dans {parent}."],
            "es": ["Crea en {parent} una carpeta por cada nombre de {source}."],
        },
        source=source,
        parent=parent,
        files={source: "\n".join(names) + ending},
        steps=[
            shell(f"xargs -d '\\n' -I NAME mkdir -p '{parent}/NAME' < {source}"),
            finish(f"{parent} has {len(names)} folders now, one for each line of {source}."),
        ],
        check=Check(folders=[f"{parent}/{name}" for name in names]),
    )


@template
def numbered_folders(draw: Draw) -> Task:
    """Numbers with two digits; `{1..12}` would not do."""
    stem, last = draw.word(LOWER), draw.randint(3, 31)
    first = f"{stem}-01"
    return draw.task(
        {
            "en": [
                "Create folders {first} to {end}, numbers with two digits.",
                "i need a folder for each number from {first} up to {end}",
                "Set up {count} empty folders here: {first}, then the next number, and so on until {end}.",
                "Can you make the folders {first} … {end} for me?",
            ],
            "de": ["Ich brauche die Ordner {first} bis {end}, alle mit zwei Ziffern."],
            "fr": ["Crée les dossiers {first} à {end}."],
            "pt": ["Crie as pastas de {first} até {end}, sempre com dois dígitos."],
        },
        first=first,
        end=f"{stem}-{last:02}",
        count=last,
        files={},
        steps=[
            shell(f"mkdir {stem}-{{01..{last:02}}}"),
            finish(f"The {last} folders {first} to {stem}-{last:02} are there now."),
        ],
        check=Check(
            folders=[f"{stem}-{at:02}" for at in range(1, last + 1)], gone=[f"{stem}-1", f"{stem}-{last + 1:02}"]
        ),
    )


@template
def tree_with_a_file_in_each(draw: Draw) -> Task:
    """A folder with folders, each of which gets an empty file."""
    top, file = draw.word(LOWER), draw.choice([draw.file("md"), ".gitkeep", draw.file("txt"), "__init__.py"])
    inner = draw.words(draw.randint(2, 4), pools.FOLDERS)
    braces = f"{top}/{{{','.join(inner)}}}"
    return draw.task(
        {
            "en": [
                "Create a folder {top} with the subfolders {listed} and {last}, each with an empty file {file}.",
                "new folder {top}, in it {listed} and {last}, and each of those has an empty {file}",
                "I would like {top} to contain the folders {listed} and {last}, every one with an empty {file} in it.",
                "Below {top} (not there yet) set up {listed} and {last}; an empty {file} belongs in every one.",
            ],
            "de": ["Lege {top} mit den Unterordnern {listed} und {last} an, in jedem eine leere Datei {file}."],
            "fr": ["Crée {top} avec les sous-dossiers {listed} et {last}, chacun avec un fichier vide {file}."],
        },
        top=top,
        listed=", ".join(inner[:-1]),
        last=inner[-1],
        file=file,
        files={},
        steps=[
            shell(f"mkdir -p {braces} && touch {braces}/{file}"),
            finish(f"{top} has the folders {', '.join(inner)}, each with an empty {file}."),
        ],
        check=Check(files={f"{top}/{each}/{file}": "" for each in inner}),
    )


@template
def some_empty_files(draw: Draw) -> Task:
    """Empty files by name, here or in a folder."""
    where = draw.choice(["", draw.folder()])
    names = [f"{where}/{each}" if where else each for each in (draw.file() for _ in range(draw.randint(2, 4)))]
    there = {f"{where}/{draw.file()}": f"{draw.sentence()}\n"} if where and draw.random() < 0.5 else {}
    make = f"mkdir -p {where} && " if where and not there else ""
    return draw.task(
        {
            "en": [
                "Create the empty files {listed} and {last}.",
                "add {listed} and {last}, all of them empty for now",
                "I want to start with empty files: {listed} and {last}. Could you make them?",
                "Please make {listed} and {last} exist, with nothing in them.",
            ],
            "de": ["Lege die leeren Dateien {listed} und {last} an."],
            "es": ["Crea los archivos vacíos {listed} y {last}."],
            "pt": ["Crie os arquivos vazios {listed} e {last}."],
        },
        listed=", ".join(names[:-1]),
        last=names[-1],
        files=there,
        steps=[shell(f"{make}touch {' '.join(names)}"), finish(f"{', '.join(names)} are there now and are empty.")],
        check=Check(files=dict.fromkeys(names, "")),
    )


@template
def move_by_ending(draw: Draw) -> Task:
    """A trap: names that have the ending in the middle."""
    ending, target = draw.choice(["csv", "jpg", "log", "wav", "yml", "svg", "mp3", "xml"]), draw.folder()
    names = [spaced(draw, ending, 0.25) for _ in range(draw.randint(2, 5))]
    files = filled(draw, names)
    files |= filled(draw, [draw.file(), draw.file(draw.choice([f"{ending}.old", "md", f"{ending}x"]))])
    if exists := draw.random() < 0.4:
        files |= filled(draw, [f"{target}/{draw.file(ending)}"])
    return draw.task(
        {
            "en": [
                "Everything that ends in .{ending} belongs in the folder {target}. Please put it there.",
                "collect the .{ending} files from here in {target}",
                "I want the {ending} files out of the way: they should go to {target}.",
                "Can all files with the ending .{ending} be moved to {target}? The others stay where they are.",
            ],
            "de": ["Verschiebe alle Dateien mit der Endung .{ending} in den Ordner {target}."],
            "fr": ["Range tous les fichiers .{ending} dans le dossier {target}."],
            "es": ["Mueve todos los archivos .{ending} a la carpeta {target}."],
        },
        ending=ending,
        target=target,
        files=files,
        others=0,
        steps=[
            shell(f"mv *.{ending} {target}/" if exists else f"mkdir {target} && mv *.{ending} {target}/"),
            finish(f"The {len(names)} .{ending} files are in {target} now."),
        ],
        check=Check(files=moved(files, names, target), gone=names),
    )


@template
def move_named_files(draw: Draw) -> Task:
    """Two or three files by name; one may have a space, and one looks alike."""
    target, names = draw.folder(), [spaced(draw) for _ in range(draw.randint(2, 3))]
    alike = names[0].removesuffix(".txt") + draw.choice([".txt.old", "2.txt", ".md"])
    files = filled(draw, [*names, alike])
    return draw.task(
        {
            "en": [
                "Move {listed} and {last} into a new folder {target}.",
                "{listed} and {last} should be in {target}, not here",
                "Please make a folder {target}, that is where {listed} and {last} go.",
                "Could you put {listed} and {last} away into {target}? That folder does not exist yet.",
            ],
            "de": ["Verschiebe {listed} und {last} in einen neuen Ordner {target}."],
            "fr": ["Déplace {listed} et {last} dans un nouveau dossier {target}."],
            "pt": ["Mova {listed} e {last} para uma nova pasta {target}."],
        },
        listed=", ".join(map(shown, names[:-1])),
        last=shown(names[-1]),
        target=target,
        files=files,
        steps=[
            shell(f"mkdir {target} && mv {' '.join(map(quote, names))} {target}/"),
            finish(f"{', '.join(names)} are in {target} now."),
        ],
        check=Check(files=moved(files, names, target), gone=names),
    )


@template
def move_by_content(draw: Draw) -> Task:
    """Which files are to be moved stands in them, not in their names."""
    source, target = draw.folder(), draw.folder()
    word = draw.choice(["urgent", "paid", "done", "confidential", "private", "cancelled"])
    names = [f"{source}/{draw.file()}" for _ in range(draw.randint(4, 8))]
    chosen = set(draw.sample(names, draw.randint(1, len(names) - 1)))
    status = {each: word if each in chosen else draw.choice(["open", "new"]) for each in names}
    files = {each: f"{draw.sentence()}\n{draw.sentence()}\nStatus: {status[each]}\n" for each in names}
    return draw.task(
        {
            "en": [
                "Move the files of {source} that contain the word {word} to a new folder {target}.",
                "in {source} some files say {word}. those belong in {target}",
                "I would like every file in {source} with the word {word} in its text to be moved to {target}.",
                "Can you look into the files in {source} and put the ones marked {word} into {target}?",
            ],
            "de": ["Verschiebe alle Dateien aus {source}, in denen {word} steht, nach {target}."],
            "fr": ["Déplace vers {target} les fichiers de {source} qui contiennent le mot {word}."],
            "es": ["Pasa a {target} los archivos de {source} que contienen la palabra {word}."],
        },
        source=source,
        target=target,
        word=word,
        files=files,
        steps=[
            shell(f"mkdir -p {target} && grep -lw {word} {source}/* | xargs -d '\\n' mv -t {target}"),
            shell(f"ls {target} {source}"),
            finish(f"{len(chosen)} of the {len(names)} files in {source} contain {word}; they are in {target} now."),
        ],
        check=Check(files=moved(files, chosen, target), gone=sorted(chosen)),
    )


@template
def copy_folder_beside(draw: Draw) -> Task:
    """A folder with all that is in it, under another name."""
    source = draw.folder()
    target = draw.choice([f"{source}-{draw.word(pools.QUALIFIERS)}", f"{source}_copy", draw.folder()])
    inner = [f"{draw.folder()}/{draw.file()}" for _ in range(draw.randint(1, 2))]
    files = filled(draw, [f"{source}/{each}" for each in [*inner, *(draw.file() for _ in range(draw.randint(1, 3)))]])
    return draw.task(
        {
            "en": [
                "Make a copy of the folder {source} and call it {target}.",
                "copy {source} with everything in it, the copy is called {target}",
                "Before I change anything in {source}, I want a full copy of it in {target}.",
                "Could you duplicate {source}, subfolders too, as {target}?",
            ],
            "de": ["Kopiere den Ordner {source} mit allem, was darin ist; die Kopie soll {target} heißen."],
            "fr": ["Fais une copie complète du dossier {source} sous le nom {target}."],
            "es": ["Haz una copia de la carpeta {source} que se llame {target}."],
        },
        source=source,
        target=target,
        files=files,
        steps=[shell(f"cp -r {source} {target}"), finish(f"{target} is a copy of {source} with all its files.")],
        check=Check(files={f"{target}{name.removeprefix(source)}": text for name, text in files.items()}),
    )


@template
def copy_folder_into_folder(draw: Draw) -> Task:
    """A folder becomes a folder of another one."""
    source, target = draw.folder(), draw.folder()
    files = filled(draw, [f"{source}/{draw.file()}" for _ in range(draw.randint(1, 4))])
    there = filled(draw, [f"{target}/{draw.file()}"])
    move = draw.random() < 0.5
    verb = ("Move", "move", "verschiebe", "déplace") if move else ("Copy", "copy", "kopiere", "copie")
    new = {f"{target}/{name}": text for name, text in files.items()}
    return draw.task(
        {
            "en": [
                "{verb[0]} the whole folder {source} into {target}.",
                "{verb[1]} {source} into {target} please, so that there is {target}/{source}",
                "I want to find {source} inside of {target}: {verb[1]} it there.",
                "{target} should hold {source} as a subfolder. Please {verb[1]} the folder, do not change its files.",
            ],
            "de": ["Bitte {verb[2]} den ganzen Ordner {source} in den Ordner {target}."],
            "fr": ["S'il te plaît, {verb[3]} tout le dossier {source} dans {target}."],
        },
        verb=verb,
        source=source,
        target=target,
        files={**files, **there},
        steps=[
            shell(f"mv {source} {target}/" if move else f"cp -r {source} {target}/"),
            finish(f"{target} has the folder {source} in it now."),
        ],
        check=Check(files=new, gone=[source] if move else []),
    )


@template
def copy_into_each_folder(draw: Draw) -> Task:
    """One file goes into every folder."""
    source, folders = draw.file(draw.choice(["txt", "md", "cfg"])), draw.words(draw.randint(2, 5), pools.FOLDERS)
    files = filled(draw, [source, *(f"{each}/{draw.file()}" for each in folders)])
    return draw.task(
        {
            "en": [
                "Put a copy of {source} into every folder here.",
                "each subfolder should have its own {source}, same as the one here",
                "I need {source} in all the folders of this directory; the one here stays.",
                "Please distribute {source}: one copy for each folder you find here.",
            ],
            "de": ["Kopiere {source} in jeden Ordner, der hier liegt."],
            "fr": ["Copie {source} dans chacun des dossiers."],
            "pt": ["Coloque uma cópia de {source} em cada pasta daqui."],
        },
        source=source,
        files=files,
        steps=[
            shell(f'for folder in */; do cp {source} "$folder"; done'),
            finish(f"{len(folders)} folders have a copy of {source} now."),
        ],
        check=Check(files={f"{each}/{source}": files[source] for each in folders}),
    )


@template
def up_from_the_subfolders(draw: Draw) -> Task:
    """Files of subfolders go up, and the subfolders go."""
    top, folders = draw.folder(), draw.words(draw.randint(2, 4), pools.FOLDERS)
    deep = [f"{top}/{each}/{spaced(draw, share=0.2)}" for each in folders for _ in range(draw.randint(1, 2))]
    files = filled(draw, [*deep, f"{top}/{draw.file()}"])
    return draw.task(
        {
            "en": [
                "Move all files from the subfolders of {top} directly into {top} and remove the subfolders.",
                "flatten {top}: no more subfolders, all files right in {top}",
                "I don't want any folders inside {top}. Their files should lie in {top} itself.",
                "Would you take the files in {top} out of their subfolders, so that only {top} is left?",
            ],
            "de": ["Hole alle Dateien aus den Unterordnern von {top} direkt nach {top} und lösche die leeren Ordner."],
            "fr": ["Remonte tous les fichiers des sous-dossiers de {top} dans {top} et supprime ces sous-dossiers."],
        },
        top=top,
        files=files,
        steps=[
            shell(f"find {top} -mindepth 2 -type f -exec mv -t {top} {{}} + && find {top} -mindepth 1 -type d -delete"),
            finish(f"All files lie in {top} itself now; its {len(folders)} subfolders are gone."),
        ],
        check=Check(files=moved(files, deep, top), gone=[f"{top}/{each}" for each in folders]),
    )


@template
def folders_by_date_in_name(draw: Draw) -> Task:
    """Files go where the date in their names says; one without a date stays."""
    by_year = draw.random() < 0.5
    length, unit = (4, draw.choice(["year", "year"])) if by_year else (7, "month")
    dates = {
        f"{draw.randint(2019, 2026)}-{draw.randint(1, 12):02}-{draw.randint(1, 28):02}"
        for _ in range(draw.randint(3, 7))
    }
    names = [f"{date}{draw.choice('_- ')}{draw.word(LOWER)}.txt" for date in sorted(dates)]
    files = filled(draw, names)
    return draw.task(
        {
            "en": [
                "Sort the files whose name begins with a date into folders by {unit}, such as {example}.",
                "the dated files should go into one folder per {unit}, like {example}/",
                "I'd like a folder for each {unit} ({example} and so on) with the files of that {unit} in it.",
                "Can you file everything that has a date in its name by {unit}? Name the folders like this: {example}",
            ],
            "de": ["Räume die Dateien mit Datum im Namen in Ordner nach {german}, zum Beispiel {example}."],
            "es": ["Ordena los archivos con fecha en carpetas por {spanish}, por ejemplo {example}."],
        },
        unit=unit,
        german="Jahr" if by_year else "Monat",
        spanish="año" if by_year else "mes",
        example=names[0][:length],
        files=files,
        steps=[
            shell(
                "for file in 20??-??-??*; do "
                f'mkdir -p "${{file:0:{length}}}" && mv "$file" "${{file:0:{length}}}/"; done'
            ),
            finish(f"The {len(names)} files with a date are in folders by {unit} now."),
        ],
        check=Check(files={f"{each[:length]}/{each}": files[each] for each in names}, gone=names),
    )


@template
def folder_for_each_ending(draw: Draw) -> Task:
    """Each kind of file gets a folder."""
    source = draw.folder()
    endings = draw.sample(["txt", "csv", "md", "log", "json", "py", "html", "css"], draw.randint(2, 4))
    names = [f"{source}/{draw.file(each)}" for each in endings for _ in range(draw.randint(1, 3))]
    files = filled(draw, names)
    new = {f"{source}/{each.rpartition('.')[2]}/{each.partition('/')[2]}": files[each] for each in names}
    return draw.task(
        {
            "en": [
                "Sort the files in {source} into subfolders named after their endings ({example} and so on).",
                "tidy up {source}: one subfolder per file ending, {example} etc., without the dot",
                "I want the contents of {source} split by type. Files ending in .{example} go to {source}/{example}, "
                "and the same for every other ending.",
                "Could you give each file type in {source} its own subfolder, such as {source}/{example}?",
            ],
            "de": ["Sortiere die Dateien in {source} nach Endung in Unterordner, etwa {source}/{example}."],
            "fr": ["Range les fichiers de {source} par extension dans des sous-dossiers comme {source}/{example}."],
        },
        source=source,
        example=endings[0],
        files=files,
        steps=[
            shell(f'cd {source} && for file in *.*; do mkdir -p "${{file##*.}}" && mv "$file" "${{file##*.}}/"; done'),
            finish(f"The {len(names)} files in {source} are sorted into {', '.join(endings)}."),
        ],
        check=Check(files=new, gone=names),
    )


@template
def merge_two_folders(draw: Draw) -> Task:
    """All of one folder goes into another, and the first goes."""
    source, target = draw.folder(), draw.folder()
    names = [f"{source}/{spaced(draw, share=0.2)}" for _ in range(draw.randint(1, 4))]
    files = filled(draw, [*names, f"{target}/{draw.file()}"])
    return draw.task(
        {
            "en": [
                "Move everything from {source} to {target} and remove the folder {source}.",
                "merge {source} into {target}, {source} can go then",
                "I have two folders, {source} and {target}, and want just {target} with the files of both.",
                "Why do I have {source} and {target}? Put all of it in {target} and drop the other folder.",
            ],
            "de": ["Verschiebe alles aus {source} nach {target} und lösche dann den Ordner {source}."],
            "fr": ["Mets tout le contenu de {source} dans {target}, puis supprime le dossier {source}."],
            "es": ["Pasa todo lo de {source} a {target} y borra la carpeta {source}."],
        },
        source=source,
        target=target,
        files=files,
        steps=[
            shell(f"mv {source}/* {target}/ && rmdir {source}"),
            finish(f"{target} has the files of both folders; {source} is gone."),
        ],
        check=Check(files=moved(files, names, target), gone=[source]),
    )


@template
def move_what_a_list_names(draw: Draw) -> Task:
    """A list of names says which files are meant."""
    source, target, listing = draw.folder(), draw.folder(), draw.file("lst")
    names = [spaced(draw, share=0.2) for _ in range(draw.randint(4, 8))]
    chosen = draw.sample(names, draw.randint(2, len(names) - 1))
    files = filled(draw, [f"{source}/{each}" for each in names])
    return draw.task(
        {
            "en": [
                "Copy the files of {source} that are listed in {listing} to {target}.",
                "{listing} has file names, one per line. take those from {source} and copy them into {target}",
                "I need just the files on my list ({listing}) in a new folder {target}; they all lie in {source}.",
                "Could you pick the files named in {listing} out of {source} and put copies of them into {target}?",
            ],
            "de": ["Kopiere die Dateien aus {source}, deren Namen in {listing} stehen, nach {target}."],
            "fr": ["Copie dans {target} les fichiers de {source} dont le nom figure dans {listing}."],
        },
        source=source,
        target=target,
        listing=listing,
        files={**files, listing: text_of(chosen)},
        steps=[
            shell(f"mkdir -p {target} && (cd {source} && xargs -d '\\n' cp -t ../{target}) < {listing}"),
            finish(f"The {len(chosen)} files named in {listing} are copied to {target}."),
        ],
        check=Check(files=moved(files, [f"{source}/{each}" for each in chosen], target)),
    )
