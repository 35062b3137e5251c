"""Tasks that ask for a shell script that does a chore."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from training.tasks.code_parts import TRIED_OUT, done, exact, module, text
from training.tasks.draw import Draw, template
from training.tasks.pools import PEOPLE
from training.tasks.task import Check, Step, Task, shell, write

Wordings = Mapping[str, Sequence[str]]
TITLES = (
    "spring fair",
    "old barn",
    "first draft",
    "two owls",
    "long road",
    "green door",
    "late train",
    "big wave",
    "new roof",
)
"""Names of files with a space."""


def _ended(sentence: str) -> str:
    return sentence if sentence[-1] in ".?!" else f"{sentence}."


def _script(draw: Draw, wordings: Wordings, code: Sequence[str], *, call: str, check: Check, **values: Any) -> Task:
    """Return a task about a script; `{0}` in `call` and in the commands of the check is how it is started.

    Sometimes the prompt wants it to be executable, and then it is started by its name.
    """
    name = module(draw, "sh")
    ready = draw.random() < 0.6
    start = f"./{name}" if ready else f"bash {name}"
    more = {
        "en": draw.choice(
            [" It must be executable.", " Give it the right to be executed.", " Set its executable bit, too."]
        ),
        "de": " Mach es ausführbar.",
        "fr": " Rends-le exécutable.",
        "es": " Hazlo ejecutable.",
        "pt": " Deixe-o executável.",
    }
    wordings = {
        language: [_ended(each) + more[language] if ready else each for each in wordings[language]]
        for language in wordings
    }
    first = f"chmod +x {name} && {call.format(start)}" if ready else call.format(start)
    steps: list[Step] = [write(name, text("#!/bin/bash", *code)), shell(first)]
    prints = {command.format(start): printed for command, printed in check.prints.items()}
    checked = Check(
        files=check.files,
        unordered=check.unordered,
        gone=check.gone,
        folders=check.folders,
        prints=prints,
        free=[name, *check.free],
    )
    files = values.pop("files", {})
    return done(draw.task(wordings, file=name, files=files, steps=steps, check=checked, **values), TRIED_OUT, file=name)


@template
def script_greets_its_argument(draw: Draw) -> Task:
    """An argument, or a word instead of it."""
    word, default = (
        draw.choice(["Hello", "Welcome", "Good day", "Bye", "Thanks"]),
        draw.choice(["friend", "stranger", "all"]),
    )
    name, other = draw.words(2, PEOPLE)
    return _script(
        draw,
        {
            "en": [
                "Write a bash script {file}: called with a name it prints {shown}, called without one {word},"
                " {default}.",
                "{file}: bash, prints '{word}, NAME' for the name given as first argument, '{word}, {default}' if"
                " there is"
                " none.",
                "I want a little shell script {file}. With the argument {name} it should say {shown}; with no"
                " argument it"
                " should say {word}, {default}.",
                "Could you make {file}, a script for bash, which prints {shown} when I give it {name}, and"
                " {word}, {default}"
                " when I give it nothing?",
            ],
            "de": ["Schreib ein Bash-Skript {file}: Mit einem Namen gibt es {shown} aus, ohne {word}, {default}."],
            "es": ["Escribe un script de bash {file}: con un nombre muestra {shown}; sin nombre, {word}, {default}."],
        },
        [f'echo "{word}, ${{1:-{default}}}"'],
        call=f"{{0}} {name}",
        check=Check(prints={f"{{0}} {other}": f"{word}, {other}", "{0}": f"{word}, {default}"}),
        word=word,
        default=default,
        name=name,
        shown=f"{word}, {name}",
        **exact(word),
    )


@template
def script_copies_files_of_a_kind(draw: Draw) -> Task:
    """All files with an ending go into a folder that the script makes; a name has a space."""
    ending, other = draw.sample(["txt", "md", "csv", "log", "ini"], 2)
    folder = draw.folder()
    names = [f"{draw.choice(TITLES)}.{ending}", *(draw.file(ending) for _ in range(draw.randint(1, 3)))]
    files = {each: f"{draw.sentence()}\n" for each in [*names, draw.file(other)]}
    copies = {f"{folder}/{each}": files[each] for each in names}
    return _script(
        draw,
        {
            "en": [
                "Write a shell script {file} that copies all .{ending} files from here into a folder {folder},"
                " and run it.",
                "bash script {file}, makes {folder} and puts a copy of every .{ending} file there. run it once",
                "Every week I copy my .{ending} files into {folder}. Please write {file} for that, with bash, and"
                " start it.",
                "Can a script called {file} copy each .{ending} file to the folder {folder} (made if needed)? Run"
                " it, please.",
            ],
            "de": [
                "Schreib ein Skript {file}, das alle .{ending}-Dateien in einen Ordner {folder} kopiert, und führ"
                " es aus.",
            ],
            "fr": [
                "Écris un script {file} qui copie tous les fichiers .{ending} dans un dossier {folder}, et lance-le.",
            ],
        },
        [f"mkdir -p {folder}", f"cp -- *.{ending} {folder}/"],
        call="{0}",
        check=Check(
            files=copies,
            prints={f"rm -r {folder} && {{0}} > /dev/null && ls {folder} | wc -l": str(len(names))},
        ),
        files=files,
        others=0,
        ending=ending,
        folder=folder,
    )


@template
def script_counts_files_of_a_kind(draw: Draw) -> Task:
    """Folders and other endings do not count; there may be none."""
    ending = draw.choice(["txt", "md", "csv", "log"])
    folder = draw.folder()
    names = [draw.file(ending) for _ in range(draw.randint(0, 5))]
    files = {f"{folder}/{each}": draw.sentence() for each in [*names, f"{draw.word().lower()}.dat"]}
    files[f"{folder}/inner/{draw.file(ending)}"] = draw.sentence()
    count = len(set(names))
    return _script(
        draw,
        {
            "en": [
                "Write {file}, a bash script that prints how many .{ending} files lie directly in the folder it"
                " is given, so"
                " {file} {folder} prints {count}.",
                "shell script {file} FOLDER -> number of .{ending} files in that folder, subfolders not included"
                " ({folder}: {count})",
                "I need a script {file} to count .{ending} files. The folder is its argument, what is in folders"
                " below does"
                " not count, and it prints only the number; {count} for {folder}.",
                "How many .{ending} files does a folder have? Make {file} (bash) tell me, without those in"
                " subfolders; for"
                " {folder} that is {count}.",
            ],
            "de": [
                "Schreib ein Bash-Skript {file}: Es gibt aus, wie viele .{ending}-Dateien direkt im genannten"
                " Ordner liegen"
                " (bei {folder} sind es {count})."
            ],
            "pt": [
                "Escreva um script {file} que mostra quantos arquivos .{ending} há na pasta dada ({folder}: {count}).",
            ],
        },
        [f'find "$1" -maxdepth 1 -type f -name "*.{ending}" | wc -l'],
        call=f"{{0}} {folder}",
        check=Check(
            prints={
                f"{{0}} {folder}": str(count),
                f"mkdir -p xx/yy && touch xx/a.{ending} xx/yy/b.{ending} && {{0}} xx": "1",
            }
        ),
        files=files,
        ending=ending,
        folder=folder,
        count=count,
    )


@template
def script_changes_endings(draw: Draw) -> Task:
    """Renames all files of one ending; one name has a space and one has the ending in its middle."""
    old, new = draw.sample(["txt", "md", "text", "bak", "dat", "old"], 2)
    names = [draw.choice(TITLES), draw.word().lower(), *(draw.word().lower() for _ in range(draw.randint(0, 2)))]
    if draw.random() < 0.4:
        names.append(f"{draw.word().lower()}.{old}.x")
    files = {f"{each}.{old}": f"{draw.sentence()}\n" for each in names}
    files[f"{draw.word().lower()}.cfg"] = "size = 1\n"
    return _script(
        draw,
        {
            "en": [
                "Write a bash script {file} which renames all .{old} files here so that they end in .{new}, then"
                " run it.",
                "{file}: rename *.{old} to *.{new} (bash). run it too",
                "My files end in .{old}, but they should end in .{new}. Let a shell script {file} rename them,"
                " and start it.",
                "Would you write and run {file}, a bash script that gives every .{old} file the ending .{new} instead?",
            ],
            "de": ["Schreib ein Bash-Skript {file}, das alle .{old}-Dateien in .{new} umbenennt, und führ es aus."],
            "es": [
                "Escribe y ejecuta un script {file} que cambie la extensión .{old} de todos los archivos por .{new}.",
            ],
        },
        [f"for file in *.{old}; do", f'    mv -- "$file" "${{file%.{old}}}.{new}"', "done"],
        call="{0}",
        check=Check(
            files={f"{each}.{new}": files[f"{each}.{old}"] for each in names},
            gone=[f"{each}.{old}" for each in names],
            prints={f"touch 'a b.{old}' && {{0}} > /dev/null && ls 'a b.{new}'": f"a b.{new}"},
        ),
        files=files,
        others=0,
        old=old,
        new=new,
    )


@template
def script_lists_lines_of_files(draw: Draw) -> Task:
    """The number of lines of each file of a kind, in a file."""
    ending = draw.choice(["txt", "csv", "log"])
    target, between = draw.file("out"), draw.choice([": ", " ", " = "])
    names = sorted({f"{word.lower()}.{ending}" for word in draw.words(draw.randint(2, 4))})
    sizes = {each: draw.randint(0, 6) for each in names}
    files = {each: "".join(f"{word}\n" for word in draw.words(size)) for each, size in sizes.items()}
    rows = [f"{each}{between}{sizes[each]}" for each in names]
    return _script(
        draw,
        {
            "en": [
                "Write {file} with bash: it saves the number of lines of each .{ending} file in {target}, in the"
                " form {form}."
                " Run it.",
                "{file} -> {target}: one line per .{ending} file, {form}. make the bash script, run it",
                "Please write and run a shell script {file} that makes {target}. For every .{ending} file it has"
                " a line like"
                " {form}, the number being how many lines the file has.",
                "How many lines has each .{ending} file? A bash script {file} should write that to {target}, like"
                " {form};"
                " please run it, too.",
            ],
            "de": [
                "Schreib ein Skript {file}: Es schreibt zu jeder .{ending}-Datei die Zeilenzahl nach {target}, in der"
                " Form {form}. Führ es aus."
            ],
            "fr": [
                "Écris et lance un script {file} : il met dans {target} le nombre de lignes de chaque fichier .{ending}"
                " sous la forme {form}."
            ],
        },
        [
            f"for file in *.{ending}; do",
            f'    echo "$file{between}$(wc -l < "$file")"',
            f"done > {target}",
        ],
        call="{0}",
        check=Check(
            unordered={target: rows},
            prints={f"echo one > zz.{ending} && {{0}} > /dev/null && tail -n 1 {target}": f"zz.{ending}{between}1"},
        ),
        files=files,
        others=0,
        ending=ending,
        target=target,
        form=rows[0],
    )


@template
def script_makes_numbered_folders(draw: Draw) -> Task:
    """Folders with numbers of two digits, sometimes with a file in each."""
    stem, count = draw.choice(["week", "day", "part", "lesson", "chapter", "unit", "box", "round"]), draw.randint(9, 14)
    with_file = draw.random() < 0.5
    note = draw.choice(["plan.txt", "todo.txt", "log.md", "text.md", "diary.md"])
    names = [f"{stem}{number:02}" for number in range(1, count + 1)]
    extra = {
        "en": f" with an empty file {note} in each" if with_file else "",
        "de": f" mit einer leeren Datei {note} in jedem" if with_file else "",
        "pt": f" com um arquivo vazio {note} em cada uma" if with_file else "",
    }
    code = [f"for number in {{01..{count:02}}}; do", f'    mkdir -p "{stem}$number"']
    return _script(
        draw,
        {
            "en": [
                f"Write a shell script {{file}} that makes the folders {{first}}, {{second}} …"
                f" {{last}}{extra['en']}. Run it.",
                f"{{file}} (bash): create folders {{first}} to {{last}}{extra['en']}, then run it",
                f"I need {{count}} folders, {{first}} up to {{last}}{extra['en']}. Please let a script named"
                f" {{file}} make them,"
                " and start the script.",
                f"Can you write {{file}} so that it creates {{first}} to {{last}}{extra['en']}, and execute it?",
            ],
            "de": [
                f"Schreib ein Skript {{file}}, das die Ordner {{first}} bis {{last}} anlegt{extra['de']}, und führ"
                " es aus.",
            ],
            "pt": [f"Escreva e execute um script {{file}} que cria as pastas de {{first}} a {{last}}{extra['pt']}."],
        },
        [*code, *([f'    touch "{stem}$number/{note}"'] if with_file else []), "done"],
        call="{0}",
        check=Check(
            folders=names,
            files={f"{each}/{note}": "" for each in names} if with_file else {},
            prints={f"rm -r {stem}[0-9]*; {{0}} > /dev/null; ls -d {stem}* | wc -l": str(count)},
        ),
        first=names[0],
        second=names[1],
        last=names[-1],
        count=count,
    )


@template
def script_needs_its_argument(draw: Draw) -> Task:
    """Prints the first or last lines of a file, and a message and status 1 without one."""
    source, number = draw.file(), draw.randint(1, 4)
    last = draw.random() < 0.5
    message = draw.choice(["no file given", "which file?", "usage: name a file", "a file is needed"])
    lines = draw.words(draw.randint(5, 8))
    shown = lines[-number:] if last else lines[:number]
    part = {
        "en": "last" if last else "first",
        "de": "letzten" if last else "ersten",
        "es": "últimas" if last else "primeras",
    }
    return _script(
        draw,
        {
            "en": [
                f"Write a bash script {{file}} that prints the {part['en']} {{number}} lines of the file it is"
                " given. Without"
                " an argument it prints {message} and ends with status 1.",
                f"{{file}} FILE: {part['en']} {{number}} lines of FILE. no FILE: print {{message}}, exit 1. bash",
                f"Please make a shell script {{file}}. When I call it with {{source}}, I see its {part['en']}"
                f" {{number}} lines;"
                " when I forget the file, it says {message} and its exit status is 1.",
                f"Could {{file}} be a script that shows the {part['en']} {{number}} lines of a file, e.g."
                f" {{source}}, and fails"
                " (exit status 1) with the line {message} if no file is named?",
            ],
            "de": [
                f"Schreib ein Bash-Skript {{file}}: Es gibt die {part['de']} {{number}} Zeilen der genannten Datei"
                " aus; ohne"
                " Datei gibt es {message} aus und endet mit Status 1."
            ],
            "es": [
                f"Escribe un script {{file}}: muestra las {part['es']} {{number}} líneas del archivo dado; sin"
                " archivo muestra"
                " {message} y termina con estado 1."
            ],
        },
        [
            'if [ -z "$1" ]; then',
            f'    echo "{message}"',
            "    exit 1",
            "fi",
            f'{"tail" if last else "head"} -n {number} "$1"',
        ],
        call=f"{{0}} {source}",
        check=Check(prints={f"{{0}} {source}": text(*shown), "{0} 2>&1; test $? = 1": message}),
        files={source: text(*lines)},
        source=source,
        number=number,
        message=message,
        **exact(message),
    )


@template
def script_removes_empty_files(draw: Draw) -> Task:
    """Empty files go, others and folders stay; only here, or in folders too."""
    deep = draw.random() < 0.5
    folder = draw.folder()
    empty = [draw.file() for _ in range(draw.randint(1, 3))]
    inner = f"{folder}/{draw.file()}"
    files = dict.fromkeys([*empty, inner], "") | {
        draw.file(): f"{draw.sentence()}\n",
        f"{folder}/{draw.file()}": "kept\n",
    }
    where = {
        "en": "here and in all folders below" if deep else "in this folder (not in the ones below)",
        "de": "hier und in allen Unterordnern" if deep else "in diesem Ordner (nicht in Unterordnern)",
        "fr": "ici et dans tous les sous-dossiers" if deep else "dans ce dossier (pas dans les sous-dossiers)",
    }
    return _script(
        draw,
        {
            "en": [
                f"Write a script {{file}} for bash that deletes all empty files {where['en']}, and run it.",
                f"bash {{file}}: remove files of size 0 {where['en']}. run it afterwards",
                f"There are empty files around. I'd like a shell script {{file}} to get rid of those"
                f" {where['en']}; please"
                " start it as well.",
                f"Can you write {{file}}, which removes files without any content {where['en']}, and then run it?",
            ],
            "de": [f"Schreib ein Bash-Skript {{file}}, das alle leeren Dateien {where['de']} löscht, und führ es aus."],
            "fr": [f"Écris un script {{file}} qui supprime tous les fichiers vides {where['fr']}, et lance-le."],
        },
        [f"find . {'' if deep else '-maxdepth 1 '}-type f -empty -delete"],
        call="{0}",
        check=Check(
            gone=[*empty, *([inner] if deep else [])],
            prints={"touch zero.x && echo 1 > one.x && {0} > /dev/null; ls *.x": "one.x"},
        ),
        files=files,
        others=0,
    )


@template
def script_adds_its_arguments(draw: Draw) -> Task:
    """Sums or multiplies whole numbers."""
    times = draw.random() < 0.3
    numbers = [draw.randint(2, 30) for _ in range(draw.randint(2, 5))]
    product = 1
    for number in numbers:
        product *= number
    result = product if times else sum(numbers)
    given = " ".join(map(str, numbers))
    what = {
        "en": "the product" if times else "the sum",
        "de": "das Produkt" if times else "die Summe",
        "pt": "o produto" if times else "a soma",
    }
    return _script(
        draw,
        {
            "en": [
                f"Write a bash script {{file}} that prints {what['en']} of all its arguments; for {{given}} it prints"
                " {result}.",
                f"{{file}} in bash: {what['en']} of the whole numbers given, e.g. {{given}} -> {{result}}.",
                f"I want to type some numbers after {{file}} and read {what['en']}. With {{given}} it must be"
                f" {{result}}. Please"
                " write it as a shell script.",
                f"Can you make {{file}}, a shell script calculating {what['en']} of its arguments (like {{given}},"
                " which"
                " makes {result})?",
            ],
            "de": [
                f"Schreib ein Bash-Skript {{file}}: Es gibt {what['de']} seiner Argumente aus, bei {{given}} also"
                f" {{result}}.",
            ],
            "pt": [
                f"Escreva um script {{file}} em bash que mostra {what['pt']} dos argumentos: {{given}} dá {{result}}.",
            ],
        },
        [
            f"result={int(times)}",
            'for number in "$@"; do',
            f"    result=$((result {'*' if times else '+'} number))",
            "done",
            'echo "$result"',
        ],
        call=f"{{0}} {given}",
        check=Check(prints={f"{{0}} {given}": str(result), "{0} 7 5": "35" if times else "12", "{0} 9": "9"}),
        given=given,
        result=result,
    )


@template
def script_says_what_is_there(draw: Draw) -> Task:
    """Folder, file or nothing: three answers."""
    folder, source, absent = draw.folder(), draw.file(), draw.file()
    answers = draw.choice([("folder", "file", "nothing"), ("a folder", "a file", "missing"), ("dir", "file", "none")])
    return _script(
        draw,
        {
            "en": [
                "Write {file} (bash). Its argument is a path; it prints {one} if that is a folder, {two} if it is"
                " a file and"
                " {three} if it does not exist.",
                "script {file} PATH: prints {one} / {two} / {three} depending on what PATH is (folder, file, not"
                " there)",
                "I'd like to ask a shell script {file} about a path: {one} is the answer for folders like"
                " {folder}, {two} for"
                " files like {source}, {three} for what is not there.",
                "Could {file} tell me whether something is a folder ({one}), a file ({two}) or absent ({three})?"
                " In bash,"
                " with the path as its argument.",
            ],
            "de": [
                "Schreib {file} (bash): Zu einem Pfad gibt es {one} (Ordner), {two} (Datei) oder {three} (nicht"
                " da) aus.",
            ],
            "es": [
                "Escribe {file} (bash): para una ruta muestra {one} (carpeta), {two} (archivo) o {three} (no existe).",
            ],
        },
        [
            'if [ -d "$1" ]; then',
            f'    echo "{answers[0]}"',
            'elif [ -e "$1" ]; then',
            f'    echo "{answers[1]}"',
            "else",
            f'    echo "{answers[2]}"',
            "fi",
        ],
        call=f"{{0}} {folder}",
        check=Check(
            prints={
                f"{{0}} {folder}": answers[0],
                f"{{0}} {shlex.quote(source)}": answers[1],
                f"{{0}} {absent}": answers[2],
            }
        ),
        files={source: text(draw.sentence()), f"{folder}/{draw.file()}": text(draw.sentence())},
        folder=folder,
        source=source,
        one=answers[0],
        two=answers[1],
        three=answers[2],
    )


@template
def script_runs_programs_in_order(draw: Draw) -> Task:
    """Stops where one fails: the next is not run."""
    one, two, three = (module(draw) for _ in range(3))
    words = draw.words(3)
    fails = draw.choice([None, None, 1, 2])
    codes = {
        name: text(
            *(["import sys", ""] if fails == at else []), f'print("{word}")', *(["sys.exit(1)"] if fails == at else [])
        )
        for at, (name, word) in enumerate(zip((one, two, three), words, strict=True))
    }
    shown = words if fails is None else words[: fails + 1]
    return _script(
        draw,
        {
            "en": [
                "Write a bash script {file} that runs {one}, {two} and {three} with python3, in this order, and"
                " stops as soon"
                " as one of them fails.",
                "{file}: python3 {one}, then {two}, then {three}; if one fails don't go on. bash",
                "I always start {one}, {two} and {three} one after the other. Please write {file}, a shell script"
                " for that;"
                " after a failure it should not continue.",
                "Could a shell script {file} run my Python programs {one}, {two}, {three}, each only if the one"
                " before went"
                " well?",
            ],
            "de": [
                "Schreib ein Skript {file}: Es startet {one}, {two} und {three} der Reihe nach und hört auf, wenn eins"
                " scheitert."
            ],
            "fr": [
                "Écris un script {file} qui lance {one}, {two} et {three} dans cet ordre et s'arrête si l'un échoue.",
            ],
        },
        ["set -e", f"python3 {one}", f"python3 {two}", f"python3 {three}"],
        call="{0}",
        check=Check(
            prints={
                "{0} || true": text(*shown),
                f"echo 'raise SystemExit(3)' > {one}; {{0}} || echo failed": "failed",
            }
        ),
        files=codes,
        one=one,
        two=two,
        three=three,
    )


@template
def script_mended_for_names_with_spaces(draw: Draw) -> Task:
    """A script that is there stumbles over a name with a space; the quotes are missing."""
    name, folder = module(draw, "sh"), draw.folder()
    ending = draw.choice(["txt", "md", "log"])
    titles = draw.sample(TITLES, 2)
    names = [*(f"{title}.{ending}" for title in titles), draw.file(ending)]
    files = {each: f"{draw.sentence()}\n" for each in names}
    right = text(
        "#!/bin/bash",
        f"mkdir -p {folder}",
        f"for file in *.{ending}; do",
        f'    cp "$file" {folder}/',
        "done",
        'echo "done"',
    )
    task = draw.task(
        {
            "en": [
                "{file} does not copy files with a space in their name to {folder}. Mend it and run it again.",
                "{file} breaks on names with spaces, please fix, then run it",
                "The script {file} should copy every .{ending} file to {folder}, but '{title}' is left out. Can"
                " you correct"
                " and start it?",
                "Why does {file} leave out '{title}'? Repair the script, and let it run so that {folder} is complete.",
            ],
            "de": [
                "{file} kopiert Dateien mit Leerzeichen im Namen nicht nach {folder}. Korrigiere es und führ es aus.",
            ],
            "pt": ["{file} não copia para {folder} os arquivos com espaço no nome. Corrija e execute de novo."],
        },
        file=name,
        folder=folder,
        ending=ending,
        title=names[0],
        files={name: right.replace('"$file"', "$file"), **files},
        steps=[shell(f"bash {name}"), write(name, right), shell(f"bash {name} && ls {folder}")],
        check=Check(
            files={f"{folder}/{each}": files[each] for each in names},
            free=[name],
            prints={f"rm -r {folder} && bash {name} && ls {folder} | wc -l": f"done\n{len(names)}"},
        ),
        others=0,
        **exact(names[0]),
    )
    said = {
        "en": "{file} copes with spaces in names now; all {count} files are in {folder}.",
        "de": "{file} kommt jetzt mit Leerzeichen zurecht; alle {count} Dateien sind in {folder}.",
        "pt": "{file} agora aceita espaços nos nomes; os {count} arquivos estão em {folder}.",
    }
    return done(task, said, file=name, count=len(names), folder=folder)
