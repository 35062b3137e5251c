"""Tasks that rename files and folders."""

from shlex import quote

from training.tasks import pools
from training.tasks.answers import LOWER, answered, filled, shown, spaced
from training.tasks.draw import Draw, template
from training.tasks.task import Check, Task, finish, shell


@template
def rename_one_file(draw: Draw) -> Task:
    """One file, with or without a space in its names; another one looks alike."""
    old, new = spaced(draw), spaced(draw)
    alike = old.removesuffix(".txt") + draw.choice([" 2.txt", ".md", "s.txt", "_old.txt"])
    files = filled(draw, [old, alike] if draw.random() < 0.6 else [old])
    return answered(
        draw.task(
            {
                "en": [
                    "Please rename {old} to {new}.",
                    "{old} should be called {new}",
                    "I picked a bad name for {old}; {new} is better. Can you change it?",
                    "give {old} the new name {new}",
                ],
                "de": ["Benenne {old} in {new} um.", "{old} soll ab jetzt {new} heißen"],
                "fr": ["Renomme {old} en {new}."],
                "es": ["Cambia el nombre de {old} a {new}."],
                "pt": ["Renomeie {old} para {new}."],
            },
            old=shown(old),
            new=shown(new),
            files=files,
            steps=[shell(f"mv {quote(old)} {quote(new)}")],
            check=Check(files={new: files[old]}, gone=[old]),
        ),
        {
            "en": f"{old} is called {new} now.",
            "de": f"{old} heißt jetzt {new}.",
            "fr": f"{old} s'appelle maintenant {new}.",
            "es": f"{old} se llama ahora {new}.",
            "pt": f"{old} agora se chama {new}.",
        },
    )


@template
def rename_folder(draw: Draw) -> Task:
    """A trap: a file has the name of the folder, with an ending."""
    old, new = draw.words(2, pools.FOLDERS)
    if draw.random() < 0.4:
        new = f"{old}-{draw.word(pools.QUALIFIERS)}"
    inner = [f"{old}/{draw.file()}", f"{old}/{draw.folder()}/{draw.file()}"]
    files = filled(draw, [*inner, f"{old}.txt"])
    return draw.task(
        {
            "en": [
                "The folder {old} should be named {new}.",
                "rename the {old} folder, new name: {new}",
                "Could you change the name of the folder {old} to {new}? The file {old}.txt keeps its name.",
                "I'd rather call the folder {new} than {old}.",
            ],
            "de": ["Der Ordner {old} soll {new} heißen."],
            "fr": ["Renomme le dossier {old} en {new}."],
            "es": ["La carpeta {old} debe llamarse {new}."],
        },
        old=old,
        new=new,
        files=files,
        steps=[shell(f"mv {old} {new}"), finish(f"The folder {old} is called {new} now.")],
        check=Check(files={f"{new}{each.removeprefix(old)}": files[each] for each in inner}, gone=[old]),
    )


@template
def underscores_for_spaces(draw: Draw) -> Task:
    """Every space in every name, sometimes two in one."""
    sign, sign_name = draw.choice([("_", "underscores"), ("-", "hyphens")])
    names = [f"{draw.word(LOWER)} {draw.word(LOWER)}.txt" for _ in range(draw.randint(2, 5))]
    names[0] = f"{draw.word(pools.QUALIFIERS)} {names[0]}"
    files = filled(draw, names)
    return draw.task(
        {
            "en": [
                "Replace the spaces in the file names here with {sign_name}.",
                "no spaces in file names please, use {sign} instead",
                "Some names of files here have spaces. I would like a {sign} in place of each space.",
                "Can the files be renamed so that {sign_name} stand where spaces are now?",
            ],
            "de": ["Ersetze in den Dateinamen hier jedes Leerzeichen durch {sign}."],
            "fr": ["Remplace les espaces dans les noms de fichiers par {sign}."],
            "es": ["Cambia los espacios de los nombres de archivo por {sign}."],
        },
        sign=sign,
        sign_name=sign_name,
        files=files,
        steps=[
            shell(f'for file in *" "*; do mv "$file" "${{file// /{sign}}}"; done'),
            finish(f"{len(names)} files have {sign_name} instead of spaces in their names."),
        ],
        check=Check(files={each.replace(" ", sign): text for each, text in files.items()}, gone=names),
    )


@template
def another_ending_in_a_folder(draw: Draw) -> Task:
    """Only the files of one folder; the same ending stands elsewhere, too."""
    where = draw.folder()
    old, new = draw.sample(["txt", "md", "text", "log", "dat", "csv", "bak", "htm", "html", "jpeg", "jpg"], 2)
    names = [f"{where}/{spaced(draw, old, 0.2)}" for _ in range(draw.randint(2, 5))]
    files = filled(draw, [*names, draw.file(old), f"{where}/{draw.file('ini')}"])
    return draw.task(
        {
            "en": [
                "Change the ending of all .{old} files in {where} to .{new}.",
                "in {where}: every .{old} becomes .{new}, just the name, nothing else",
                "The files in {where} that end in .{old} should end in .{new} instead.",
                "Can the {old} files of the folder {where} become .{new} files? Leave other folders alone.",
            ],
            "de": ["Im Ordner {where} sollen alle .{old}-Dateien die Endung .{new} bekommen."],
            "fr": ["Dans {where}, remplace l'extension .{old} de tous les fichiers par .{new}."],
            "pt": ["Na pasta {where}, troque a extensão .{old} por .{new} em todos os arquivos."],
        },
        where=where,
        old=old,
        new=new,
        files=files,
        steps=[
            shell(f'for file in {where}/*.{old}; do mv "$file" "${{file%.{old}}}.{new}"; done'),
            finish(f"{len(names)} files in {where} end in .{new} now."),
        ],
        check=Check(files={f"{each.removesuffix(old)}{new}": files[each] for each in names}, gone=names),
    )


@template
def prefix_for_each_name(draw: Draw) -> Task:
    """The same beginning for all names of a folder."""
    where = draw.folder()
    prefix = draw.choice(
        [
            f"{draw.word(pools.QUALIFIERS)}-",
            f"{draw.randint(2018, 2026)}_",
            f"{draw.word(pools.PEOPLE).lower()}_",
            "copy-",
        ]
    )
    names = [spaced(draw, draw.choice(["txt", "md"]), 0.3) for _ in range(draw.randint(2, 6))]
    files = filled(draw, [*(f"{where}/{each}" for each in names)])
    return draw.task(
        {
            "en": [
                "Put {prefix} in front of the name of each file in {where}.",
                "all file names in {where} should start with {prefix}",
                "I want {where}/{example} to be {where}/{prefix}{example}, and the same for every other file there.",
                "Could you add the prefix {prefix} to the files in {where}?",
            ],
            "de": ["Stelle den Namen aller Dateien in {where} ein {prefix} voran."],
            "fr": ["Ajoute {prefix} au début du nom de chaque fichier de {where}."],
        },
        where=where,
        prefix=prefix,
        example=names[0],
        files=files,
        steps=[
            shell(f'cd {where} && for file in *; do mv "$file" "{prefix}$file"; done'),
            finish(f"The {len(names)} files in {where} begin with {prefix} now."),
        ],
        check=Check(
            files={f"{where}/{prefix}{each}": files[f"{where}/{each}"] for each in names},
            gone=[f"{where}/{each}" for each in names],
        ),
    )


@template
def prefix_taken_away(draw: Draw) -> Task:
    """Files with a prefix lose it; a file that has it in the middle does not."""
    prefix = f"{draw.choice(['draft', 'tmp', 'copy', 'img', 'scan', 'old'])}{draw.choice('-_')}"
    names = [f"{prefix}{draw.file()}" for _ in range(draw.randint(2, 5))]
    files = filled(draw, [*names, f"{draw.word(LOWER)}_{prefix}{draw.amount()}.txt"])
    return draw.task(
        {
            "en": [
                "Remove {prefix} from the beginning of the file names.",
                "the names that start with {prefix} should lose it",
                "Files here are called {example} and the like. I don't want the {prefix} at the start any more.",
                "Could you strip the prefix {prefix} off all files that have it?",
            ],
            "de": ["Entferne bei allen Dateien das {prefix} am Anfang des Namens."],
            "es": ["Quita {prefix} del principio de los nombres de archivo."],
        },
        prefix=prefix,
        example=names[0],
        files=files,
        steps=[
            shell(f'for file in {prefix}*; do mv "$file" "${{file#{prefix}}}"; done'),
            finish(f"{len(names)} files have lost the prefix {prefix}."),
        ],
        check=Check(files={each.removeprefix(prefix): files[each] for each in names}, gone=names),
    )


@template
def lower_case_names(draw: Draw) -> Task:
    """Names with capitals, among some without."""
    where = draw.folder()
    names = [
        draw.choice([str.upper, str.capitalize, str.lower])(spaced(draw, share=0.2)) for _ in range(draw.randint(2, 5))
    ]
    names.append(draw.file().upper())
    files = filled(draw, [f"{where}/{each}" for each in names])
    changed = [f"{where}/{each}" for each in names if each != each.lower()]
    return draw.task(
        {
            "en": [
                "Make all file names in {where} lower case.",
                "no capitals in the names of the files in {where} please",
                "The names in {where} are a mix of upper and lower case. I want them all lower case.",
                "Can you rename the files of {where} so that none has a capital letter?",
            ],
            "de": ["Alle Dateinamen in {where} sollen kleingeschrieben sein."],
            "fr": ["Mets tous les noms de fichiers de {where} en minuscules."],
            "es": ["Pon en minúsculas los nombres de los archivos de {where}."],
        },
        where=where,
        files=files,
        steps=[
            shell(f'cd {where} && for file in *[A-Z]*; do mv "$file" "${{file,,}}"; done'),
            finish(f"All files in {where} have lower-case names now."),
        ],
        check=Check(
            files={f"{where}/{each.lower()}": files[f"{where}/{each}"] for each in names},
            gone=[each for each in changed if each not in {f"{where}/{name.lower()}" for name in names}],
        ),
    )


@template
def two_names_swapped(draw: Draw) -> Task:
    """Two files change their names; neither text may be lost."""
    first, second = spaced(draw, share=0.2), spaced(draw, share=0.2)
    files = filled(draw, [first, second])
    one, two = quote(first), quote(second)
    return draw.task(
        {
            "en": [
                "{first} and {second} have been mixed up. Swap their names.",
                "swap {first} and {second}",
                "What is in {first} should be in {second}, and the other way round.",
                "Please exchange the contents of {first} and {second}.",
            ],
            "de": ["Vertausche die Inhalte von {first} und {second}."],
            "fr": ["Échange les contenus de {first} et {second}."],
            "pt": ["Troque os conteúdos de {first} e {second}."],
        },
        first=shown(first),
        second=shown(second),
        files=files,
        steps=[
            shell(f"mv {one} swap.tmp && mv {two} {one} && mv swap.tmp {two}"),
            finish(f"{first} and {second} have changed places."),
        ],
        check=Check(files={first: files[second], second: files[first]}),
    )


@template
def numbered_names(draw: Draw) -> Task:
    """Files get numbers in the order of their names."""
    where, digits = draw.folder(), draw.choice([2, 2, 3])
    names = sorted(f"{each}.txt" for each in draw.words(draw.randint(3, 12), LOWER))
    files = filled(draw, [f"{where}/{each}" for each in names])
    new = {f"{where}/{at:0{digits}}-{each}": files[f"{where}/{each}"] for at, each in enumerate(names, 1)}
    return draw.task(
        {
            "en": [
                "Number the files in {where} in alphabetical order: {example}, and so on.",
                "put {first}-, {second}-, … before the names in {where}, a to z",
                "Each file of {where} should begin with its alphabetical place, the first one is {example}.",
                "Can the names in {where} start with {first}-, {second}- etc. in alphabetical order?",
            ],
            "de": ["Nummeriere die Dateien in {where} alphabetisch, die erste heißt dann {example}."],
            "fr": ["Numérote les fichiers de {where} par ordre alphabétique : le premier devient {example}, etc."],
        },
        where=where,
        example=f"{1:0{digits}}-{names[0]}",
        first=f"{1:0{digits}}",
        second=f"{2:0{digits}}",
        files=files,
        steps=[
            shell(
                f'cd {where} && n=1; for file in *; do mv "$file" "$(printf %0{digits}d $n)-$file"; n=$((n + 1)); done'
            ),
            shell(f"ls {where}"),
            finish(f"The {len(names)} files in {where} are numbered in alphabetical order."),
        ],
        check=Check(files=new, gone=[f"{where}/{each}" for each in names]),
    )


@template
def two_digits_in_names(draw: Draw) -> Task:
    """Numbers below ten get a zero, others do not."""
    stem = draw.word(LOWER)
    numbers = sorted({draw.randint(1, 9) for _ in range(3)} | {draw.randint(10, 40) for _ in range(2)})
    names = [f"{stem}{at}.txt" for at in numbers]
    files = filled(draw, names)
    low = [at for at in numbers if at < 10]
    return draw.task(
        {
            "en": [
                "Rename the {stem} files so that all numbers have two digits, e.g. {old} becomes {new}.",
                "{old} -> {new}, same for the other {stem} files with one digit",
                "The {stem} files don't sort well. Numbers below ten need a leading zero in the name.",
                "Could you give each one-digit number in the names of the {stem} files a zero in front?",
            ],
            "de": ["Die Nummern in den Namen der {stem}-Dateien sollen zweistellig sein, also {new} statt {old}."],
            "es": ["Pon dos cifras en los nombres de los archivos {stem}: {new} en lugar de {old}."],
        },
        stem=stem,
        old=f"{stem}{low[0]}.txt",
        new=f"{stem}0{low[0]}.txt",
        files=files,
        steps=[
            shell(f'for file in {stem}[0-9].txt; do mv "$file" "${{file/{stem}/{stem}0}}"; done'),
            finish(f"{len(low)} {stem} files have a leading zero in their number now."),
        ],
        check=Check(
            files={f"{stem}0{at}.txt": files[f"{stem}{at}.txt"] for at in low}, gone=[f"{stem}{at}.txt" for at in low]
        ),
    )


@template
def shown_again(draw: Draw) -> Task:
    """A hidden file becomes one that is seen, or the other way round."""
    name, hide = draw.file(draw.choice(["txt", "cfg", "md"])), draw.random() < 0.4
    old, new = (name, f".{name}") if hide else (f".{name}", name)
    files = filled(draw, [old])
    what = ("Hide", "hidden") if hide else ("Unhide", "visible")
    return draw.task(
        {
            "en": [
                "{what[0]} the file {old}: its name should be {new}.",
                "make {old} {what[1]}, i.e. {new}",
                "I would like {old} to be {what[1]}, so it has to be named {new}.",
                "Can {old} get the name {new}, so that it is {what[1]}?",
            ],
            "de": ["Die Datei {old} soll {new} heißen."],
            "fr": ["Le fichier {old} doit s'appeler {new}."],
        },
        what=what,
        old=old,
        new=new,
        files=files,
        steps=[shell(f"mv {old} {new}"), finish(f"{old} is called {new} now and is {what[1]}.")],
        check=Check(files={new: files[old]}, gone=[old]),
    )


@template
def word_changed_in_names(draw: Draw) -> Task:
    """A word is replaced in all names that have it."""
    (old, new), where = draw.words(2, LOWER), draw.folder()
    forms = ["{}-{}.txt", "{1}-{0}.txt", "{1}_{0}_{2}.txt", "{0}{2}.md"]
    with_word = [
        f"{where}/{draw.choice(forms[:1]).format(old, draw.amount())}",
        *(
            f"{where}/{form.format(old, draw.word(LOWER), draw.amount())}"
            for form in draw.sample(forms[1:], draw.randint(1, 3))
        ),
    ]
    files = filled(draw, [*with_word, f"{where}/{draw.word(LOWER)}.txt"])
    return draw.task(
        {
            "en": [
                "In the names of the files in {where}, replace {old} by {new}.",
                "all files in {where} with {old} in the name: make that {new}, e.g. {example}",
                "We don't say {old} any more, it is {new} now. Rename the files in {where} accordingly.",
                "Can the files in {where} have {new} in their names wherever {old} stands today?",
            ],
            "de": ["Ersetze in den Dateinamen in {where} überall {old} durch {new}."],
            "fr": ["Dans les noms des fichiers de {where}, remplace {old} par {new}."],
            "es": ["En los nombres de los archivos de {where}, cambia {old} por {new}."],
        },
        where=where,
        old=old,
        new=new,
        example=with_word[0].partition("/")[2].replace(old, new),
        files=files,
        steps=[
            shell(f'cd {where} && for file in *{old}*; do mv "$file" "${{file//{old}/{new}}}"; done'),
            finish(f"{len(with_word)} files in {where} have {new} in their name instead of {old}."),
        ],
        check=Check(
            files={f"{where}/{each.partition('/')[2].replace(old, new)}": files[each] for each in with_word},
            gone=with_word,
        ),
    )
