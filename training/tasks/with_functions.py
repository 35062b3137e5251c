"""Tasks that ask for a function by its name, in a new file or in one that is there."""

from training.tasks.code_functions import Function, functions
from training.tasks.code_parts import TRIED, done, module, read_first, stem_of, text
from training.tasks.draw import Draw, template
from training.tasks.task import Check, Task, shell, write


def trial(name: str, function: Function, source: str) -> str:
    """Return a command that tries a function with two examples."""
    calls = "; ".join(f"print({name}({given}))" for given, _ in function.examples[:2])
    return f'python3 -c "from {stem_of(source)} import {name}; {calls}"'


@template
def function_asked_for(draw: Draw) -> Task:
    """One function in a new file, sometimes with an example in the prompt."""
    [(name, function)] = functions(draw, 1)
    file = module(draw)
    given, result = draw.choice(function.examples)
    shown = draw.random() < 0.5
    extra = {
        "en": f" For example, {name}({given}) is {result}." if shown else "",
        "de": f" Zum Beispiel ist {name}({given}) gleich {result}." if shown else "",
        "fr": f" Par exemple, {name}({given}) donne {result}." if shown else "",
    }
    command, printed = function.printed(name, stem_of(file))
    task = draw.task(
        {
            "en": [
                "Please write {file}, a Python module with one function {call}. It {does}.{example}",
                "{file}: def {call}, which {does}.{example}",
                "I need a function {call} in {file} which {does}.{example}",
                "Could you put a function {call} into a new file {file}? What it does: it {does}.{example}",
            ],
            "de": ["Schreib {file} mit einer Funktion {call}, die {german}.{beispiel}"],
            "fr": ["Crée {file} avec une fonction {call} qui {french}.{exemple}"],
        },
        file=file,
        call=f"{name}({function.takes})",
        does=function.does["en"],
        german=function.does["de"],
        french=function.does["fr"],
        example=extra["en"],
        beispiel=extra["de"],
        exemple=extra["fr"],
        files={},
        steps=[write(file, function.code(name)), shell(trial(name, function, file))],
        check=Check(prints={command: printed}, free=[file]),
    )
    return done(task, TRIED, file=file, function=name)


@template
def two_functions_asked_for(draw: Draw) -> Task:
    """Two functions in one file."""
    (one, first), (two, second) = functions(draw, 2)
    file = module(draw)
    command, printed = first.printed(one, stem_of(file))
    other, also = second.printed(two, stem_of(file))
    task = draw.task(
        {
            "en": [
                "Write {file} with two functions. {call} {does}. {other} {also}.",
                "new module {file}, 2 functions:\n- {call}: {does}\n- {other}: {also}",
                "Please make a file {file} for me that has the functions {call} and {other}. The first one"
                " {does}; the second"
                " one {also}.",
                "Can {file} have these functions? {call}, which {does}, and {other}, which {also}.",
            ],
            "de": ["Schreib {file} mit zwei Funktionen: {call}, die {german}, und {other}, die {auch}."],
            "fr": ["Écris {file} avec deux fonctions : {call}, qui {french}, et {other}, qui {aussi}."],
        },
        file=file,
        call=f"{one}({first.takes})",
        does=first.does["en"],
        german=first.does["de"],
        french=first.does["fr"],
        other=f"{two}({second.takes})",
        also=second.does["en"],
        auch=second.does["de"],
        aussi=second.does["fr"],
        files={},
        steps=[
            write(file, f"{first.code(one)}\n\n{second.code(two)}"),
            shell(f"{trial(one, first, file)} && {trial(two, second, file)}"),
        ],
        check=Check(prints={command: printed, other: also}, free=[file]),
    )
    said = {
        "en": "{file} has the functions {one} and {two}; I tried both.",
        "de": "{file} hat die Funktionen {one} und {two}; ich habe beide ausprobiert.",
        "fr": "{file} contient les fonctions {one} et {two} ; j'ai essayé les deux.",
    }
    return done(task, said, file=file, one=one, two=two)


@template
def function_added_to_a_module(draw: Draw) -> Task:
    """What is there already must go on working."""
    (there, present), (name, wanted) = functions(draw, 2)
    file = module(draw)
    before = f'"""{draw.sentence()}"""\n\n\n{present.code(there)}' if draw.random() < 0.5 else present.code(there)
    command, printed = wanted.printed(name, stem_of(file))
    old, still = present.printed(there, stem_of(file))
    task = draw.task(
        {
            "en": [
                "Put another function into {file}, below the one that is there: {call}, it {does}.",
                "{file} needs one more function, {call}, that one {does}. keep the rest",
                "Please extend {file} by {call}. The new function {does}; nothing else in the file changes.",
                "Can you add {call} to {file}? It {does}. Leave {there} alone.",
            ],
            "de": ["Ergänze {file} um eine Funktion {call}, die {german}. Der Rest bleibt, wie er ist."],
            "fr": ["Ajoute à {file} une fonction {call} qui {french}. Ne touche pas au reste."],
        },
        file=file,
        there=there,
        call=f"{name}({wanted.takes})",
        does=wanted.does["en"],
        german=wanted.does["de"],
        french=wanted.does["fr"],
        files={file: before},
        steps=[
            *read_first({file: before}, file),
            write(file, f"{before}\n\n{wanted.code(name)}"),
            shell(trial(name, wanted, file)),
        ],
        check=Check(prints={command: printed, old: still}, free=[file]),
    )
    return done(task, TRIED, file=file, function=name)


@template
def program_that_uses_a_function(draw: Draw) -> Task:
    """A module is there; a second file imports from it and prints a result."""
    [(name, function)] = functions(draw, 1)
    file, main = module(draw), module(draw)
    examples = draw.sample([each for each in function.examples if _shown(each[1])], 2)
    calls = [f"{name}({given})" for given, _ in examples]
    source = function.code(name)
    program = text(f"from {stem_of(file)} import {name}", "", *(f"print({call})" for call in calls))
    printed = text(*(_shown(result) for _, result in examples))
    task = draw.task(
        {
            "en": [
                "Write {main}, which imports {name} from {file} and prints what {first} and {second} give, each"
                " on a line.",
                "small script {main} using {name} from {file}: print {first}, then {second}",
                "There is a function {name} in {file}. I would like a program {main} that calls it and prints the"
                " results of"
                " {first} and of {second}.",
                "Can you make {main}? It takes {name} out of {file} and shows two results, for {first} and for"
                " {second}.",
            ],
            "de": [
                "Schreib {main}: Es importiert {name} aus {file} und gibt die Ergebnisse von {first} und {second} aus.",
            ],
            "es": ["Escribe {main}: importa {name} de {file} y muestra los resultados de {first} y de {second}."],
        },
        main=main,
        file=file,
        name=name,
        first=calls[0],
        second=calls[1],
        files={file: source},
        steps=[*read_first({file: source}, file), write(main, program), shell(f"python3 {main}")],
        check=Check(
            prints={f"python3 -B {main}": printed, f"grep -q {stem_of(file)} {main}": ""},
            free=[main],
        ),
    )
    said = {
        "en": "{main} is written; it prints {results}.",
        "de": "{main} ist geschrieben; es gibt {results} aus.",
        "es": "{main} está escrito; muestra {results}.",
    }
    return done(task, said, main=main, results=", ".join(printed.split("\n")[:2]))


def _shown(result: str) -> str:
    """Return how a result looks when it is printed."""
    return result[1:-1] if result.startswith("'") and result.endswith("'") else result


@template
def function_moved_to_its_own_file(draw: Draw) -> Task:
    """A function leaves the program for a module, and the program imports it."""
    [(name, function)] = functions(draw, 1)
    main, file = module(draw), module(draw)
    given, result = draw.choice([each for each in function.examples if _shown(each[1])])
    tail = text(f"print({name}({given}))", *([f'print("{draw.word()}")'] if draw.random() < 0.5 else []))
    printed = text(_shown(result), *[line[7:-2] for line in tail.split("\n")[1:] if line])
    before = f"{function.code(name)}\n\n{tail}"
    command, all_printed = function.printed(name, stem_of(file))
    task = draw.task(
        {
            "en": [
                "Move the function {name} from {main} to a new file {file}; {main} should import it and print the"
                " same as"
                " before.",
                "split {main}: {name} goes to {file}, {main} imports it from there",
                "{main} holds a function {name}. I'd rather have that in {file}, with an import in {main} so that"
                " it still"
                " works.",
                "Would you take {name} out of {main} and put it into a module {file} which {main} then uses?",
            ],
            "de": ["Verschieb die Funktion {name} aus {main} in eine neue Datei {file}; {main} soll sie importieren."],
            "fr": ["Déplace la fonction {name} de {main} vers un nouveau fichier {file} ; {main} doit l'importer."],
        },
        main=main,
        file=file,
        name=name,
        files={main: before},
        steps=[
            *read_first({main: before}, main),
            write(file, function.code(name)),
            write(main, f"from {stem_of(file)} import {name}\n\n{tail}"),
            shell(f"python3 {main}"),
        ],
        check=Check(
            prints={
                f"python3 -B {main}": printed,
                f"grep -c 'def {name}' {main} || true": "0",
                f"grep -c 'import.*{stem_of(file)}\\|from {stem_of(file)} import' {main}": "1",
                command: all_printed,
            },
            free=[main, file],
        ),
    )
    said = {
        "en": "{name} is in {file} now; {main} imports it and prints the same as before.",
        "de": "{name} steht jetzt in {file}; {main} importiert die Funktion und gibt dasselbe aus wie vorher.",
        "fr": "{name} se trouve maintenant dans {file} ; {main} l'importe et affiche la même chose qu'avant.",
    }
    return done(task, said, name=name, main=main, file=file)
