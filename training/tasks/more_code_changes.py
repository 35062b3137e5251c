"""Tasks that take something out of source text, or put something in, in one file or in many."""

from training.tasks.code_changes import THINGS, VERBS
from training.tasks.code_parts import CHANGED, done, exact, module, read_first, stem_of, text
from training.tasks.draw import Draw, template
from training.tasks.pools import PEOPLE
from training.tasks.task import Check, Task, shell, write


def _functions(draw: Draw, count: int) -> list[str]:
    return [f"{draw.word(VERBS)}_{draw.word(THINGS)}" for _ in range(count)]


@template
def unused_function_removed(draw: Draw) -> Task:
    """Either the function is named, or the one that nobody calls is to be found."""
    main, file = module(draw), module(draw)
    names = _functions(draw, 3)
    numbers = [draw.amount() for _ in names]
    unused = draw.randrange(3)
    is_named = draw.random() < 0.5
    blocks = [text(f"def {name}(value):", f"    return value * {n}") for name, n in zip(names, numbers, strict=True)]
    used = [at for at in range(3) if at != unused]
    calls = {at: draw.amount() for at in used}
    printed = text(*(str(given * numbers[at]) for at, given in calls.items()))
    imported = ", ".join(names[at] for at in used)
    source, after = "\n\n".join(blocks), "\n\n".join(block for at, block in enumerate(blocks) if at != unused)
    lines = [f"print({names[at]}({given}))" for at, given in calls.items()]
    program = text(f"from {stem_of(file)} import {imported}", "", *lines)
    which = {
        "en": f"the function {names[unused]}" if is_named else "the one function that nothing uses",
        "de": f"die Funktion {names[unused]}" if is_named else "die eine Funktion, die nicht benutzt wird,",
        "pt": f"a função {names[unused]}" if is_named else "a única função que ninguém usa",
    }
    files = {file: source, main: program}
    task = draw.task(
        {
            "en": [
                f"Remove {which['en']} from {{file}}; {{main}} must still work.",
                f"{{file}} -> delete {which['en']}. ({{main}} is the only program here)",
                f"Please clean up {{file}} by deleting {which['en']}. {{main}} imports from it and stays as it is.",
                f"Could you take {which['en']} out of {{file}}? Have a look at {{main}}, which imports the others.",
            ],
            "de": [f"Entferne {which['de']} aus {{file}}; {{main}} muss weiter laufen."],
            "pt": [f"Remova {which['pt']} de {{file}}; {{main}} deve continuar funcionando."],
        },
        file=file,
        main=main,
        files=files,
        steps=[shell(f"cat {file} {main}"), write(file, after), shell(f"python3 {main}")],
        check=Check(
            prints={
                f"python3 -B {main}": printed,
                f"grep -o '^def [a-z_]*' {file}": text(*(f"def {names[at]}" for at in used)),
                f"! grep -w {names[unused]} {file}": "",
            },
            free=[file],
        ),
    )
    said = {
        "en": "{name} is removed from {file}; {main} runs as before.",
        "de": "{name} ist aus {file} entfernt; {main} läuft wie vorher.",
        "pt": "{name} foi removida de {file}; {main} funciona como antes.",
    }
    return done(task, said, name=names[unused], file=file, main=main)


@template
def constant_with_a_new_value(draw: Draw) -> Task:
    """Constants with names that contain each other, in a header of C, in JavaScript or in Python."""
    language = draw.choice(["h", "js", "py"])
    file = module(draw, language)
    base = draw.choice(["SIZE", "LIMIT", "COUNT", "WIDTH", "SPEED", "DEPTH"])
    names = [base, f"MAX_{base}", f"{base}_MIN"]
    draw.shuffle(names)
    same = draw.amount()
    form = {"h": "#define {} {}", "js": "const {} = {};", "py": "{} = {}"}[language]
    values = {name: draw.choice([same, draw.amount()]) for name in names}
    new = draw.randint(100, 999)
    lines = [form.format(name, value) for name, value in values.items()]
    after = [form.format(name, new if name == base else value) for name, value in values.items()]
    old = values[base]
    task = draw.task(
        {
            "en": [
                "{base} in {file} should have the value {new}. The other constants keep theirs.",
                "{file}: {base} {old} -> {new}",
                "Please raise {base} to {new} in {file} and do not mix it up with the constants whose names are alike.",
                "Could you set {base} (now {old}) to {new} in {file}?",
            ],
            "de": ["{base} soll in {file} den Wert {new} haben, die anderen Konstanten bleiben."],
            "es": ["Pon {base} a {new} en {file}; las demás constantes no cambian."],
        },
        base=base,
        file=file,
        old=old,
        new=new,
        files={file: text(*lines)},
        steps=[shell(f"sed -i 's/^{form.format(base, old)}$/{form.format(base, new)}/' {file} && cat {file}")],
        check=Check(files={file: text(*after)}),
    )
    return done(task, CHANGED, file=file)


@template
def first_line_added_where_missing(draw: Draw) -> Task:
    """Files that have the line already must not get it twice."""
    ending, line = draw.choice(
        [
            ("js", '"use strict";'),
            ("py", "from __future__ import annotations"),
            ("c", '#include "common.h"'),
            ("sh", "#!/bin/bash"),
            ("css", '@charset "utf-8";'),
        ]
    )
    folder = draw.folder()
    names = [f"{folder}/{module(draw, ending)}" for _ in range(draw.randint(2, 4))]
    body = {"js": "let a = {};", "py": "a = {}", "c": "int a = {};", "sh": "echo {}", "css": "p {{ margin: {}px; }}"}[
        ending
    ]
    files = {}
    for at, name in enumerate(names):
        lines = [body.format(draw.amount())]
        files[name] = text(*([line] if at and draw.random() < 0.5 else []), *lines)
    after = {name: found if found.startswith(line) else f"{line}\n{found}" for name, found in files.items()}
    files[f"{folder}/{draw.file('txt')}"] = f"{draw.sentence()}\n"
    count = sum(files[name] != after[name] for name in names)
    grep = f"grep -L -xF '{line}' {folder}/*.{ending}"
    task = draw.task(
        {
            "en": [
                "Every .{ending} file in {folder} should begin with this line, if it does not yet: {line}",
                "first line of all {folder}/*.{ending} must be {line} (skip those that have it)",
                "Some of the .{ending} files in {folder} lack the line {line} at the top. Please put it there in"
                " those, not in"
                " the others.",
                "Can you make sure that {line} is the first line in each .{ending} file of {folder}, just once?",
            ],
            "de": ["Jede .{ending}-Datei in {folder} soll mit dieser Zeile beginnen, falls sie noch fehlt: {line}"],
            "fr": ["Chaque fichier .{ending} de {folder} doit commencer par cette ligne, si elle manque : {line}"],
        },
        ending=ending,
        folder=folder,
        line=line,
        files=files,
        steps=[
            shell(grep),
            shell(f"{grep} | xargs sed -i '1i {line}' && head -n 1 {folder}/*.{ending}"),
        ],
        check=Check(files=after),
        **exact(line),
    )
    said = {
        "en": "{line} was missing in {count} of the .{ending} files in {folder}; all of them begin with it now.",
        "de": "{line} fehlte in {count} der .{ending}-Dateien von {folder}; jetzt beginnen alle damit.",
        "fr": "{line} manquait dans {count} des fichiers .{ending} de {folder} ; tous commencent par elle maintenant.",
    }
    return done(task, said, count=count, line=line, ending=ending, folder=folder)


@template
def message_changed_in_sources(draw: Draw) -> Task:
    """A text between quotes in several files; a variable of the same name stays."""
    language = draw.choice(["py", "js", "c"])
    word, new = (each.lower() for each in draw.words(2, THINGS))
    one, two = module(draw, language), module(draw, language)
    call = {"py": "print({})", "js": "console.log({});", "c": "puts({});"}[language]
    end = "" if language == "py" else ";"
    old_text, new_text = (
        f"{draw.choice(['no', 'lost', 'next', 'bad'])} {word}",
        f"{draw.choice(['empty', 'late', 'last'])} {new}",
    )
    extra = call.format(f'"{old_text}"')
    files = {
        one: text(
            f"{word} = {draw.amount()}{end}", extra, *([call.format(f'"{draw.word()}"')] if draw.random() < 0.6 else [])
        ),
        two: text(call.format(f'"{draw.word()}"'), extra, *([extra] if draw.random() < 0.3 else [])),
    }
    task = draw.task(
        {
            "en": [
                "Instead of '{old_text}' the files {one} and {two} should say '{new_text}'.",
                "change the message '{old_text}' to '{new_text}' in {one} and {two}",
                "The message '{old_text}' in {one} and {two} is misleading. Please let them say '{new_text}';"
                " variables keep"
                " their names.",
                "Could the programs {one} and {two} print '{new_text}' where they print '{old_text}' now?",
            ],
            "de": ["In {one} und {two} soll statt '{old_text}' die Meldung '{new_text}' stehen."],
            "pt": ["Em {one} e {two}, troque a mensagem '{old_text}' por '{new_text}'."],
        },
        one=one,
        two=two,
        old_text=old_text,
        new_text=new_text,
        files=files,
        steps=[shell(f"sed -i 's/{old_text}/{new_text}/g' {one} {two} && grep -n '{new_text}' {one} {two}")],
        check=Check(files={path: found.replace(old_text, new_text) for path, found in files.items()}),
        **exact(old_text, new_text),
    )
    said = {
        "en": "{one} and {two} say '{new}' now.",
        "de": "In {one} und {two} steht jetzt '{new}'.",
        "pt": "{one} e {two} dizem agora '{new}'.",
    }
    return done(task, said, one=one, two=two, new=new_text)


@template
def names_of_functions_listed(draw: Draw) -> Task:
    """What a source defines; calls and comments do not count."""
    language = draw.choice(["py", "js"])
    file, target = module(draw, language), draw.file()
    names = _functions(draw, draw.randint(2, 5))
    lines: list[str] = []
    for name in names:
        if language == "py":
            lines += [f"def {name}({draw.choice(['', 'a', 'a, b'])}):", f"    return {draw.amount()}", ""]
        else:
            lines += [f"function {name}({draw.choice(['', 'a', 'a, b'])}) {{", f"  return {draw.amount()};", "}", ""]
    lines.append(f"# def {draw.word(THINGS)}: later" if language == "py" else f"// function {draw.word(THINGS)}: later")
    lines.append(f"{names[0]}()" if language == "py" else f"{names[0]}();")
    word = "def" if language == "py" else "function"
    by_name = draw.random() < 0.4
    shown = sorted(names) if by_name else names
    order_by = " | LC_ALL=C sort" if by_name else ""
    order = {
        "en": "in alphabetical order" if by_name else "in the order of the file",
        "de": "alphabetisch" if by_name else "in der Reihenfolge der Datei",
        "es": "en orden alfabético" if by_name else "en el orden del archivo",
    }
    task = draw.task(
        {
            "en": [
                f"Write the names of all functions that {{file}} defines to {{target}}, one per line, {order['en']}.",
                f"{{target}}: function names of {{file}}, only the names, {order['en']}",
                f"Please make a list of the functions in {{file}} ({order['en']}, without brackets) and save it in"
                f" {{target}}.",
                f"Which functions are defined in {{file}}? I need just their names in {{target}}, a line each,"
                f" {order['en']}.",
            ],
            "de": [f"Schreib die Namen aller Funktionen, die {{file}} definiert, nach {{target}}, {order['de']}."],
            "es": [
                f"Escribe en {{target}} los nombres de las funciones que define {{file}}, uno por línea,"
                f" {order['es']}.",
            ],
        },
        file=file,
        target=target,
        files={file: text(*lines)},
        steps=[
            shell(f"sed -n 's/^{word} \\([A-Za-z0-9_]*\\).*/\\1/p' {file}{order_by} > {target}"),
            shell(f"cat {target}"),
        ],
        check=Check(files={target: text(*shown)}),
    )
    said = {
        "en": "{target} has the names of the {count} functions in {file}.",
        "de": "{target} enthält die Namen der {count} Funktionen von {file}.",
        "es": "{target} tiene los nombres de las {count} funciones de {file}.",
    }
    return done(task, said, target=target, count=len(names), file=file)


@template
def words_for_variables_made_new(draw: Draw) -> Task:
    """`var` becomes `let` in JavaScript; a name or a text with var in it stays."""
    file = module(draw, "js")
    names = draw.words(3, THINGS)
    word = draw.choice(["let", "const"])
    lines = [
        f"var {names[0]} = {draw.amount()};",
        f'console.log("various {names[1]}");',
        f"var {names[2]} = {names[0]} + {draw.amount()};",
        f"const {draw.choice(['variant', 'vary', 'varied'])} = {names[2]};",
        *([f"for (const each of [1, 2]) {{\n  var {names[1]} = each;\n}}"] if draw.random() < 0.5 else []),
    ]
    before = text(*lines)
    after = before.replace("var ", f"{word} ")
    task = draw.task(
        {
            "en": [
                "Use {word} instead of var for the variables in {file}.",
                "{file}: var -> {word} (the keyword, not words that contain it)",
                "We don't write var any longer. Please turn each var of {file} into {word}; names and texts do"
                " not change.",
                "Could you replace the keyword var by {word} throughout {file}?",
            ],
            "de": ["Ersetze in {file} das Schlüsselwort var durch {word}, sonst nichts."],
            "fr": ["Remplace le mot-clé var par {word} dans {file}, sans toucher au reste."],
        },
        file=file,
        word=word,
        files={file: before},
        steps=[shell(f"sed -i 's/\\bvar\\b/{word}/g' {file} && cat {file}")],
        check=Check(files={file: after}),
    )
    return done(task, CHANGED, file=file)


@template
def tabs_in_sources_turned_into_spaces(draw: Draw) -> Task:
    """Tabs at the beginning of lines; a tab inside of a text stays."""
    language, width = draw.choice([("py", 4), ("js", 2), ("c", 4), ("js", 4)])
    file = module(draw, language)
    name, word = draw.word(THINGS), draw.word()
    if language == "py":
        lines = [f"def {name}(value):", "\tif value:", f"\t\treturn {draw.amount()}", f'\treturn "{word}"']
    else:
        head = f"function {name}(value) {{" if language == "js" else f"int {name}(int value) {{"
        lines = [head, "\tif (value) {", f"\t\treturn {draw.amount()};", "\t}", f"\treturn {draw.amount()};", "}"]
    if draw.random() < 0.6 and language == "py":
        lines += [f'rows = "{word}\t{draw.amount()}"']
    after = [" " * (width * (len(line) - len(line.lstrip("\t")))) + line.lstrip("\t") for line in lines]
    task = draw.task(
        {
            "en": [
                "Indent {file} with {width} spaces instead of each tab.",
                "{file} has tabs for indentation, make that {width} spaces per tab",
                "Please replace the tabs at the beginning of the lines of {file} by {width} spaces each.",
                "Can the tabs that indent {file} become spaces? {width} for every tab.",
            ],
            "de": ["Rücke {file} mit je {width} Leerzeichen statt Tabulatoren ein."],
            "es": ["Cambia la sangría de {file}: {width} espacios en lugar de cada tabulador."],
        },
        file=file,
        width=width,
        files={file: text(*lines)},
        steps=[
            shell(f"expand -i -t {width} {file} > {file}.new && mv {file}.new {file} && cat -A {file} | head"),
        ],
        check=Check(files={file: text(*after)}),
    )
    return done(task, CHANGED, file=file)


@template
def commented_out_code_removed(draw: Draw) -> Task:
    """Lines of code that are commented out go, explanations stay."""
    file, name = module(draw), draw.word(THINGS)
    mark = draw.choice(["#old ", "#- ", "#x ", "#~ "])
    lines = [
        f"# {draw.sentence()}",
        f"{name} = {draw.amount()}",
        f"{mark}{name} = {draw.amount()}",
        f"for number in range({draw.randint(2, 5)}):",
        f"    {mark}print(number)",
        f"    print({name} + number)",
        *([f"{mark}print('{draw.word()}')"] if draw.random() < 0.5 else []),
        f'print("{mark.strip()}")',
    ]
    kept = [line for line in lines if not line.lstrip().startswith(mark)]
    task = draw.task(
        {
            "en": [
                "Lines in {file} that begin with {mark} (also indented ones) are old code. Remove them; other"
                " comments stay.",
                "{file}: drop every line starting with {mark}, keep the rest",
                "I marked code that is not needed any more with {mark} at the beginning of the line. Please"
                " delete those lines"
                " from {file}, and only those.",
                "Would you delete the lines of {file} whose first characters, after spaces, are {mark}?",
            ],
            "de": ["Zeilen, die in {file} mit {mark} beginnen (auch eingerückt), sind alter Code. Entferne sie."],
            "fr": [
                "Dans {file}, les lignes qui commencent par {mark} (même indentées) sont du vieux code. Supprime-les.",
            ],
        },
        file=file,
        mark=mark.strip(),
        files={file: text(*lines)},
        steps=[shell(f"sed -i '/^ *{mark.strip()}/d' {file} && python3 {file}")],
        check=Check(files={file: text(*kept)}),
    )
    said = {
        "en": "{count} lines with {mark} are removed from {file}, and it still runs.",
        "de": "{count} Zeilen mit {mark} sind aus {file} entfernt; es läuft weiterhin.",
        "fr": "{count} lignes avec {mark} sont supprimées de {file} ; il fonctionne toujours.",
    }
    return done(task, said, count=len(lines) - len(kept), mark=mark.strip(), file=file)


@template
def author_named_in_sources(draw: Draw) -> Task:
    """The name after `@author` or in `__author__`; the same name in a text stays."""
    old, new = draw.words(2, PEOPLE)
    count = draw.randint(2, 3)
    files: dict[str, str] = {}
    after: dict[str, str] = {}
    for _ in range(count):
        language = draw.choice(["js", "c", "py"])
        name = module(draw, language)
        sign, end = ("#", "") if language == "py" else ("//", ";")
        body = [f'title = "{old} and {draw.word()}"{end}', f"size = {draw.amount()}{end}"]
        files[name] = text(f"{sign} @author {old}", *body)
        after[name] = text(f"{sign} @author {new}", *body)
    names = " ".join(files)
    listed = ", ".join(files)
    task = draw.task(
        {
            "en": [
                "The @author of {listed} is {new} now, not {old}. Other places with {old} stay.",
                "@author {old} -> @author {new} in {listed}, nothing else",
                "{new} has taken over from {old}. Please change the @author lines of {listed} and only them.",
                "Can you name {new} as @author, in place of {old}, in {listed}?",
            ],
            "de": ["In {listed} soll hinter @author {new} statt {old} stehen, sonst ändert sich nichts."],
            "pt": ["Em {listed}, o @author passa de {old} para {new}; o resto não muda."],
        },
        listed=listed,
        old=old,
        new=new,
        files=files,
        steps=[shell(f"sed -i 's/@author {old}$/@author {new}/' {names} && head -n 1 {names}")],
        check=Check(files=after),
    )
    said = {
        "en": "{new} is the @author in {count} files now.",
        "de": "{new} steht jetzt in {count} Dateien als @author.",
        "pt": "{new} é agora o @author em {count} arquivos.",
    }
    return done(task, said, new=new, count=count)


@template
def line_added_to_one_function(draw: Draw) -> Task:
    """One function reports what it returns; the other one, which looks alike, stays silent."""
    file = module(draw)
    one, two = _functions(draw, 2)
    number, other, word = draw.amount(), draw.amount(), draw.word().lower()
    block = [f"def {one}(value):", f"    result = value + {number}", "    return result"]
    second = text(f"def {two}(value):", f"    result = value - {other}", "    return result")
    changed = text(*block[:2], f'    print("{word}", result)', block[2])
    pair = [(text(*block), changed), (second, second)]
    if draw.random() < 0.5:
        pair.reverse()
    before, after = ("\n\n".join(each) for each in zip(*pair, strict=True))
    calls = f"from {stem_of(file)} import {one}, {two}; {one}(5); {two}(7); print({one}(1) + {two}(2))"
    printed = text(f"{word} {5 + number}", f"{word} {1 + number}", str(3 + number - other))
    task = draw.task(
        {
            "en": [
                "{one} in {file} should print {word} and its result before it returns; {two} should not.",
                "{file}: let {one} print '{word}' and the result, then return as before",
                "I want to see what {one} of {file} returns. Please make it print {word}, a space and the result"
                " each time; it"
                " returns the same as now, and {two} does not change.",
                "Can {one} ({file}) say {word} and the number that it is about to return?",
            ],
            "de": ["{one} in {file} soll vor der Rückgabe {word} und das Ergebnis ausgeben; {two} bleibt."],
            "es": ["{one} en {file} debe mostrar {word} y el resultado antes de devolverlo; {two} no cambia."],
        },
        one=one,
        two=two,
        file=file,
        word=word,
        files={file: before},
        steps=[
            *read_first({file: before}, file),
            write(file, after),
            shell(f'python3 -c "from {stem_of(file)} import {one}; {one}(5)"'),
        ],
        check=Check(prints={f'python3 -B -c "{calls}"': printed}, free=[file]),
    )
    return done(task, CHANGED, file=file)
