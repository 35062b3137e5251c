"""Tasks that change source text: names, versions, constants, prints, imports; in Python, JavaScript and C."""

from collections.abc import Sequence
from typing import Final

from training.tasks.code_parts import CHANGED, done, exact, module, stem_of, text
from training.tasks.draw import Draw, template
from training.tasks.task import Check, Task, shell, write

VERBS = (
    "load",
    "save",
    "send",
    "fetch",
    "draw",
    "parse",
    "merge",
    "clean",
    "count",
    "print",
    "build",
    "check",
    "store",
    "show",
)
THINGS = (
    "order",
    "ticket",
    "letter",
    "packet",
    "member",
    "message",
    "picture",
    "route",
    "lesson",
    "invoice",
    "sensor",
    "parcel",
    "window",
    "garden",
    "recipe",
    "league",
    "engine",
    "harbor",
    "meeting",
    "payment",
)
"""What names of functions are made of."""


PARAMETERS: Final[Sequence[tuple[str, str | int, str]]] = (
    ("suffix", "", "end"),
    ("prefix", "", "start"),
    ("times", 1, "repeat"),
    ("upper", False, "upper"),
    ("mark", "", "around"),
)
"""Names of parameters, what they are when they are not given, what they do."""


def _named(draw: Draw) -> str:
    return f"{draw.word(VERBS)}_{draw.word(THINGS)}"


def _defined(language: str, name: str, number: int) -> list[str]:
    """Return a function of one parameter."""
    if language == "py":
        return [f"def {name}(value):", f"    return value + {number}"]
    if language == "js":
        return [f"function {name}(value) {{", f"  return value + {number};", "}"]
    return [f"int {name}(int value)", "{", f"    return value + {number};", "}"]


@template
def function_renamed_in_all_files(draw: Draw) -> Task:
    """A longer name begins with the old one, and stays; a word in a comment with the name is the name."""
    language = draw.choice(["py", "js", "c"])
    old, new = _named(draw), _named(draw)
    longer = draw.choice([f"{old}s", f"{old}_all", f"un{old}", f"{old}2"])
    sign = {"py": "#", "js": "//", "c": "//"}[language]
    end = "" if language == "py" else ";"
    one, two, three = (module(draw, language) for _ in range(3))
    files = {
        one: text(*_defined(language, old, draw.amount()), "", *_defined(language, longer, draw.amount())),
        two: text(
            f"{sign} uses {old} and {longer}", f"first = {old}({draw.amount()}){end}", f"second = {longer}(1){end}"
        ),
        three: text(f"{sign} {draw.sentence()}", f"other = {longer}({draw.amount()}){end}"),
    }
    if draw.random() < 0.4:
        files = {f"{draw.folder()}/{two}" if path == two else path: found for path, found in files.items()}
    after = {path: _renamed(found, old, new) for path, found in files.items()}
    task = draw.task(
        {
            "en": [
                "The function {old} shall be called {new} from now on, in all .{language} files. {longer} keeps"
                " its name.",
                "rename {old} -> {new} everywhere ({longer} is something else!)",
                "I don't like the name {old}. Please use {new} instead, wherever that function is defined, called"
                " or mentioned;"
                " {longer} is another function and stays.",
                "Can you change {old} to {new} in the whole project without changing {longer}?",
            ],
            "de": ["Die Funktion {old} soll überall {new} heißen. {longer} ist etwas anderes und bleibt."],
            "es": ["Cambia el nombre de la función {old} por {new} en todos los archivos, pero no el de {longer}."],
        },
        old=old,
        new=new,
        longer=longer,
        language=language,
        files=files,
        steps=[
            shell(f"grep -rnw {old} ."),
            shell(f"grep -rlw --include='*.{language}' {old} . | xargs sed -i 's/\\b{old}\\b/{new}/g'"),
            shell(f"grep -rnw -e {old} -e {new} ."),
        ],
        check=Check(files=after),
    )
    said = {
        "en": "{old} is {new} in all files now; {longer} is as it was.",
        "de": "{old} heißt jetzt überall {new}; {longer} ist unverändert.",
        "es": "{old} se llama ahora {new} en todos los archivos; {longer} sigue igual.",
    }
    return done(task, said, old=old, new=new, longer=longer)


def _renamed(source: str, old: str, new: str) -> str:
    words: list[str] = []
    current = ""
    for letter in f"{source}\0":
        if letter.isalnum() or letter == "_":
            current += letter
        else:
            words += [new if current == old else current, letter]
            current = ""
    return "".join(words)[:-1]


@template
def parameter_added(draw: Draw) -> Task:
    """A parameter with a default, so that old calls go on as they were."""
    file, name = module(draw), _named(draw)
    parameter, default, kind = draw.choice(PARAMETERS)
    word = draw.word()
    what = {
        "end": "which is put after the text",
        "start": "which is put before the text",
        "repeat": "which says how often the text is repeated",
        "upper": "with which the text comes in capital letters if it is True",
        "around": "which is put before and after the text",
    }[kind]
    german = {
        "end": "der hinter den Text kommt",
        "start": "der vor den Text kommt",
        "repeat": "der sagt, wie oft der Text wiederholt wird",
        "upper": "bei dem der Text in Großbuchstaben kommt, wenn er True ist",
        "around": "der vor und hinter den Text kommt",
    }[kind]
    french = {
        "end": "qui est mis après le texte",
        "start": "qui est mis avant le texte",
        "repeat": "qui dit combien de fois le texte est répété",
        "upper": "avec lequel le texte est en majuscules s'il vaut True",
        "around": "qui est mis avant et après le texte",
    }[kind]
    result = {
        "end": "text + suffix",
        "start": "prefix + text",
        "repeat": "text * times",
        "upper": "text.upper() if upper else text",
        "around": "mark + text + mark",
    }[kind]
    value = {"end": "'?'", "start": "'- '", "repeat": "3", "upper": "True", "around": "'_'"}[kind]
    shown = {"end": f"{word}?", "start": f"- {word}", "repeat": word * 3, "upper": word.upper(), "around": f"_{word}_"}[
        kind
    ]
    head, tail = f"def {name}(text", "):"
    extra = ["", "", f"print({name}('{word}'))"] if draw.random() < 0.6 else []
    before = text(f"{head}{tail}", "    return text", *extra)
    after = text(f"{head}, {parameter}={default!r}{tail}", f"    return {result}", *extra)
    runs = f"from {stem_of(file)} import {name}; print({name}('{word}')); print({name}('{word}', {value}));"
    task = draw.task(
        {
            "en": [
                "Give {name} in {file} a second parameter {parameter} (default {default}), {what}. Calls without"
                " it stay as they"
                " are.",
                "{file}: {name} needs an optional parameter {parameter}={default}, {what}",
                "I'd like to call {name} of {file} with another argument, {parameter}, {what}. Its default is"
                " {default}.",
                "Could {name} ({file}) take a second, optional parameter {parameter}, {what}? The default should"
                " be {default}.",
            ],
            "de": ["Gib {name} in {file} einen zweiten Parameter {parameter} (Vorgabe {default}), {german}."],
            "fr": ["Donne à {name} dans {file} un second paramètre {parameter} (par défaut {default}), {french}."],
        },
        name=name,
        file=file,
        parameter=parameter,
        default=repr(default),
        what=what,
        german=german,
        french=french,
        files={file: before},
        steps=[
            write(file, after),
            shell(f"python3 -c \"from {stem_of(file)} import {name}; print({name}('{word}', {value}))\""),
        ],
        check=Check(
            prints={
                f"python3 -B -c \"{runs} print({name}('{word}', {parameter}={value}))\"": text(
                    *([word] if extra else []), word, shown, shown
                )
            },
            free=[file],
        ),
        **exact(parameter),
    )
    said = {
        "en": "{name} has the parameter {parameter} with the default {default} now; I tried it.",
        "fr": "{name} a maintenant le paramètre {parameter} avec la valeur par défaut {default} ; je l'ai essayé.",
        "de": "{name} hat jetzt den Parameter {parameter} mit der Vorgabe {default}; ich habe es ausprobiert.",
    }
    return done(task, said, name=name, parameter=parameter, default=repr(default))


@template
def constant_moved_to_settings(draw: Draw) -> Task:
    """Two programs have the same constant; it moves to a module which both import."""
    one, two, settings = (module(draw) for _ in range(3))
    name = draw.choice(["LIMIT", "RATE", "WIDTH", "MAXIMUM", "FACTOR", "STEP"])
    value, first, second = draw.randint(2, 90), draw.amount(), draw.amount()
    bodies = [f"print({name} + {first})", f"print({name} * {second})"]
    files = {path: text(f"{name} = {value}", "", body) for path, body in zip((one, two), bodies, strict=True)}
    line = f"from {stem_of(settings)} import {name}"
    task = draw.task(
        {
            "en": [
                "{name} stands in {one} and in {two}. Put it into a new file {settings} and import it from there"
                " in both.",
                "move the constant {name} out of {one} and {two} into {settings}, both should import it",
                "I don't want to keep {name} in two places. Please make {settings} with it and let {one} and"
                " {two} import it;"
                " they should print what they print now.",
                "Could {one} and {two} share {name}? Define it once, in {settings}.",
            ],
            "de": [
                "{name} steht in {one} und in {two}. Verschieb es in eine neue Datei {settings}, beide sollen es"
                " importieren.",
            ],
            "fr": [
                "{name} est dans {one} et dans {two}. Mets-le dans un nouveau fichier {settings} que les deux"
                " importent.",
            ],
        },
        name=name,
        one=one,
        two=two,
        settings=settings,
        files=files,
        steps=[
            write(settings, f"{name} = {value}\n"),
            shell(f"sed -i 's/^{name} = .*/{line}/' {one} {two} && python3 {one} && python3 {two}"),
        ],
        check=Check(
            prints={
                f"python3 -B {one} && python3 -B {two}": text(str(value + first), str(value * second)),
                f"grep -c '^{name} = {value}' {settings}": "1",
                f"cat {one} {two} | grep -c '^{name} *=' || true": "0",
                f"sed -i 's/{value}/1000/' {settings} && python3 -B {one}": str(1000 + first),
            },
            free=[one, two, settings],
        ),
    )
    said = {
        "en": "{name} is in {settings} now; {one} and {two} import it and print the same as before.",
        "de": "{name} steht jetzt in {settings}; {one} und {two} importieren es und geben dasselbe aus wie vorher.",
        "fr": "{name} est maintenant dans {settings} ; {one} et {two} l'importent et affichent la même chose.",
    }
    return done(task, said, name=name, settings=settings, one=one, two=two)


@template
def debug_lines_removed(draw: Draw) -> Task:
    """Only the lines that print for debugging; other prints stay."""
    language = draw.choice(["py", "js"])
    file = module(draw, language)
    call, end = ("print", "") if language == "py" else ("console.log", ";")
    mark = draw.choice(["debug", "DEBUG", "trace", "xxx", "TEMP"])
    indent = "    " if language == "py" else "  "
    names = draw.words(2, THINGS)
    rows = [
        f"{names[0]} = {draw.amount()}{end}",
        f'{call}("{mark}", {names[0]}){end}',
        f"if ({names[0]} > 3) {{" if language == "js" else f"if {names[0]} > 3:",
        f'{indent}{call}("{mark} big"){end}',
        f'{indent}{call}("{draw.word()}"){end}',
        *(["}"] if language == "js" else []),
        f'{call}("{names[1]}"){end}',
        *([f'{call}("{mark}: end"){end}'] if draw.random() < 0.5 else []),
    ]
    kept = [row for row in rows if f'("{mark}' not in row]
    count = len(rows) - len(kept)
    task = draw.task(
        {
            "en": [
                "Take out of {file} the lines that print something with {mark}. Other output stays.",
                "{file}: remove all the {mark} prints, nothing else",
                "I left some output for debugging in {file}: lines which print a text beginning with {mark}."
                " Please remove"
                " exactly those.",
                "Would you clean up {file}? The lines printing {mark} are no longer needed.",
            ],
            "de": ["Entferne aus {file} die Zeilen, die etwas mit {mark} ausgeben. Andere Ausgaben bleiben."],
            "pt": ["Tire de {file} as linhas que mostram {mark}; as outras saídas ficam."],
        },
        file=file,
        mark=mark,
        files={file: text(*rows)},
        steps=[
            shell(f"grep -n '{mark}' {file}"),
            shell(f"sed -i '/{call.replace('.', chr(92) + '.')}(\"{mark}/d' {file} && cat {file}"),
        ],
        check=Check(files={file: text(*kept)}),
        **exact(mark),
    )
    said = {
        "en": "{count} lines with {mark} are removed from {file}.",
        "de": "{count} Zeilen mit {mark} sind aus {file} entfernt.",
        "pt": "{count} linhas com {mark} foram tiradas de {file}.",
    }
    return done(task, said, count=count, mark=mark, file=file)


@template
def docstring_added(draw: Draw) -> Task:
    """A docstring for one function, or for the module."""
    file, name, other = module(draw), _named(draw), _named(draw)
    sentence = draw.choice(
        ["Return the {} with {} added.", "Add to the {}, up to {} times.", "Look at every {} and return {}."]
    )
    sentence = sentence.format(draw.word().lower(), draw.amount())
    one, two = _defined("py", name, draw.amount()), _defined("py", other, draw.amount())
    for_module = draw.random() < 0.3
    before = text(*one, "", "", *two)
    after = text(f'"""{sentence}"""', "", "", *one, "", "", *two) if for_module else ""
    after = after or text(one[0], f'    """{sentence}"""', one[1], "", "", *two)
    what, german, french = ("the module", "das Modul", "le module") if for_module else (name, name, name)
    target = stem_of(file) if for_module else f"{stem_of(file)}.{name}"
    printed = f"print({target}.__doc__.strip()); print({stem_of(file)}.{other}.__doc__)"
    shown = f'python3 -B -c "import {stem_of(file)}; {printed}"'
    task = draw.task(
        {
            "en": [
                "Add a docstring to {what} in {file}: {sentence}",
                "{file}, {what}: docstring '{sentence}' please",
                "Please document {what} of {file}. The docstring should be: {sentence}",
                "Can you put this docstring where it belongs for {what} in {file}? {sentence}",
            ],
            "de": ["Gib {german_what} in {file} diesen Docstring: {sentence}"],
            "fr": ["Ajoute à {french_what} dans {file} cette docstring : {sentence}"],
        },
        what=what,
        german_what=german if not for_module else "dem Modul",
        french_what=french,
        file=file,
        sentence=sentence,
        files={file: before},
        steps=[write(file, after), shell(f'python3 -c "import {stem_of(file)}; print({target}.__doc__)"')],
        check=Check(
            prints={
                shown: text(sentence, "None"),
                f'python3 -B -c "from {stem_of(file)} import *; print({name}(1), {other}(2))"': " ".join(
                    [str(1 + int(one[1].split()[-1])), str(2 + int(two[1].split()[-1]))]
                ),
            },
            free=[file],
        ),
        **exact(sentence, name),
    )
    said = {
        "en": "The docstring is in {file}.",
        "de": "Der Docstring steht jetzt in {file}.",
        "fr": "La docstring est dans {file}.",
    }
    return done(task, said, file=file)


@template
def version_raised_in_all_places(draw: Draw) -> Task:
    """Several files name the version; a dependency has the same number and stays."""
    major, minor, patch = draw.randint(0, 4), draw.randint(0, 12), draw.randint(0, 9)
    old = f"{major}.{minor}.{patch}"
    new = draw.choice([f"{major}.{minor}.{patch + 1}", f"{major}.{minor + 1}.0", f"{major + 1}.0.0"])
    name, tool = draw.words(2, THINGS)
    source, manifest, notes = module(draw), draw.file("toml"), draw.file("md")
    trap = draw.random() < 0.6
    files = {
        source: text(f'NAME = "{name}"', f'VERSION = "{old}"'),
        manifest: text(
            "[project]", f'name = "{name}"', f'version = "{old}"', f'requires = ["{tool}=={old if trap else "1.1"}"]'
        ),
        notes: text(f"# {name}", "", f"Version {old} needs {tool} {old if trap else '1.1'}."),
    }
    after = {
        source: files[source].replace(old, new),
        manifest: files[manifest].replace(f'version = "{old}"', f'version = "{new}"'),
        notes: files[notes].replace(f"Version {old}", f"Version {new}"),
    }
    dotted = old.replace(".", "\\.")
    task = draw.task(
        {
            "en": [
                "Raise the version of {name} from {old} to {new} in {source}, {manifest} and {notes}. What is"
                " said about {tool}"
                " stays.",
                "bump {name} to {new}: {source}, {manifest}, {notes}. not the version of {tool}!",
                "We release {name} {new} today. Please put that version in place of {old} in {source}, {manifest}"
                " and {notes};"
                " the one of {tool} must not change.",
                "Could you set our version to {new} ({source}, {manifest}, {notes})? It was {old}. Leave {tool} alone.",
            ],
            "de": [
                "Setz die Version von {name} in {source}, {manifest} und {notes} von {old} auf {new}. {tool} bleibt.",
            ],
            "es": [
                "Sube la versión de {name} de {old} a {new} en {source}, {manifest} y {notes}; la de {tool} no cambia.",
            ],
        },
        name=name,
        tool=tool,
        old=old,
        new=new,
        source=source,
        manifest=manifest,
        notes=notes,
        files=files,
        steps=[
            shell(f"grep -n '{dotted}' {source} {manifest} {notes}"),
            shell(
                f'sed -i \'s/^VERSION = "{dotted}"/VERSION = "{new}"/; s/^version = "{dotted}"/version ='
                f' "{new}"/;'
                f" s/^Version {dotted}/Version {new}/' {source} {manifest} {notes} && cat {source} {manifest} {notes}"
            ),
        ],
        check=Check(files=after),
        **exact(name, tool),
    )
    said = {
        "en": "The version of {name} is {new} in all three files; {tool} is as it was.",
        "de": "Die Version von {name} ist jetzt in allen drei Dateien {new}; {tool} ist unverändert.",
        "es": "La versión de {name} es {new} en los tres archivos; {tool} sigue igual.",
    }
    return done(task, said, name=name, new=new, tool=tool)


@template
def notes_in_code_listed(draw: Draw) -> Task:
    """Comments with a mark, with file and line, or how many there are in each file."""
    language = draw.choice(["py", "js", "c"])
    sign = "#" if language == "py" else "//"
    mark, target = draw.choice(["TODO", "FIXME", "XXX", "LATER"]), draw.file()
    names = sorted({module(draw, language) for _ in range(draw.randint(2, 4))})
    files: dict[str, str] = {}
    found: list[str] = []
    for name in names:
        lines = _defined(language, _named(draw), draw.amount())
        for _ in range(draw.randint(0, 2)):
            lines.insert(draw.randint(0, len(lines)), f"{sign} {mark}: {draw.sentence()}")
        if draw.random() < 0.3:
            lines.append(f"{sign} {draw.sentence()}")
        files[name] = text(*lines)
        found += [f"{name}:{at}:{line}" for at, line in enumerate(lines, start=1) if mark in line]
    if not found:
        files[names[0]] += f"{sign} {mark}: {draw.sentence()}\n"
        found = [f"{names[0]}:{files[names[0]].count(chr(10))}:{files[names[0]].split(chr(10))[-2]}"]
    task = draw.task(
        {
            "en": [
                "Write each line with {mark} in the .{language} files to {target}, in the form file:line number:line.",
                "list of all {mark} in *.{language} with file name and line number -> {target} (name:number:text)",
                "I need to know what is left to do: please gather the {mark} comments of all .{language} files in"
                " {target}; every"
                " entry has the name of the file, a colon, the number of the line, a colon and the line.",
                "Where are the {mark} comments in my .{language} files? Save file, line number and line,"
                " separated by colons, as"
                " {target}.",
            ],
            "de": [
                "Schreib alle Zeilen mit {mark} aus den .{language}-Dateien nach {target}, in der Form"
                " Datei:Nummer:Zeile.",
            ],
            "fr": [
                "Écris dans {target} toutes les lignes avec {mark} des fichiers .{language}, sous la forme"
                " fichier:numéro:ligne.",
            ],
        },
        mark=mark,
        language=language,
        target=target,
        files=files,
        steps=[shell(f"grep -n {mark} *.{language} > {target}; cat {target}")]
        if len(names) > 1
        else [shell(f"grep -Hn {mark} *.{language} > {target}; cat {target}")],
        check=Check(unordered={target: found}),
        **exact(mark),
    )
    said = {
        "en": "{target} has all lines with {mark}, {count} in number.",
        "de": "{target} enthält alle Zeilen mit {mark}, insgesamt {count}.",
        "fr": "{target} contient toutes les lignes avec {mark}, {count} en tout.",
    }
    return done(task, said, target=target, count=len(found), mark=mark)


@template
def imports_put_in_order(draw: Draw) -> Task:
    """Only the imports at the top; other lines stay where they are."""
    names = draw.sample(
        ["os", "sys", "json", "csv", "re", "math", "random", "time", "string", "shutil", "pathlib"], draw.randint(3, 6)
    )
    if names == sorted(names):
        names.reverse()
    file, word = module(draw), draw.word()
    rest = [
        "",
        f'print("{word}", math.pi > 3)' if "math" in names else f'print("{word}")',
        f"print({names[0]}.__name__)",
    ]
    before, after = ([f"import {name}" for name in each] for each in (names, sorted(names)))
    count = len(names)
    task = draw.task(
        {
            "en": [
                "Sort the import lines in {file} alphabetically. The rest of the program stays.",
                "{file}: imports in alphabetical order pls",
                "The {count} imports at the top of {file} are in no order; put them from a to z and change"
                " nothing below.",
                "Could you bring the imports of {file} into alphabetical order?",
            ],
            "de": ["Ordne die Importe in {file} alphabetisch, der Rest bleibt, wie er ist."],
            "es": ["Ordena alfabéticamente los imports de {file} sin cambiar lo demás."],
        },
        file=file,
        count=count,
        files={file: text(*before, *rest)},
        steps=[
            shell(f"(grep '^import ' {file} | sort; grep -v '^import ' {file}) > {file}.new && mv {file}.new {file}"),
            shell(f"cat {file} && python3 {file}"),
        ],
        check=Check(files={file: text(*after, *rest)}),
    )
    return done(task, CHANGED, file=file)
