"""Tasks with JSON objects: make, change, merge, mend."""

import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any, Final

from training.tasks.draw import Draw, template
from training.tasks.figures import seen_first, told
from training.tasks.json_texts import GROUPS, ask, change, draw_object, laid_out, other_value, said, value_of
from training.tasks.task import Check, Task, finish, shell, write


def _listed(value: dict[str, Any]) -> str:
    return ", ".join(f"{key} {said(each)}" for key, each in value.items())


@template
def json_object_made(draw: Draw) -> Task:
    """Numbers are numbers and true is true; texts that look like numbers are said to be texts."""
    value = draw_object(draw, plain=draw.randint(2, 4))
    numbers = [f"{key} {json.dumps(each) if isinstance(each, str) else said(each)}" for key, each in value.items()]
    target = draw.file("json")
    return draw.task(
        {
            "en": [
                "Make a JSON file {target} with these keys and values: {pairs}.",
                "new file {target}, json: {pairs}",
                "I need a JSON object saved as {target}. It has {pairs}.",
                "Could you write {target} for me? JSON, one object with {pairs}.",
            ],
            "de": ["Leg {target} als JSON-Objekt an: {pairs}."],
            "fr": ["Crée {target}, un objet JSON avec {pairs}."],
            "es": ["Crea el archivo JSON {target} con {pairs}."],
        },
        target=target,
        pairs=", ".join(numbers),
        files={},
        steps=[
            write(target, json.dumps(value, indent=2) + "\n"),
            shell(f"python3 -m json.tool {target}"),
            finish(f"{target} is a JSON object with {', '.join(value)}."),
        ],
        check=Check(values={target: value}),
    )


@template
def json_nested_object_made(draw: Draw) -> Task:
    """An object in an object, and a list."""
    group = draw.choice(list(GROUPS))
    inner = {key: value_of(draw, key) for key in draw.sample(GROUPS[group], 2)}
    words = [word.lower() for word in draw.words(draw.randint(2, 4))]
    key, listed = "title", draw.choice(["tags", "colors", "stops", "parts", "names"])
    value = {key: draw.word().lower(), group: inner, listed: words}
    target = draw.file("json")
    return draw.task(
        {
            "en": [
                "Write {target} (JSON) with title {title}, an object {group} that holds {inner}, and a list "
                "{listed} of "
                "{words}.",
                "json file {target}: title = {title}; {group} = object with {inner}; {listed} = list {words}",
                "Please set up {target} as JSON. The title is {title}, {listed} is a list with {words}, and "
                "under {group} "
                "there are {inner}.",
                "Can you create the JSON {target}? Three keys: title ({title}), {group} (an object: {inner}) "
                "and {listed} "
                "(a list: {words}).",
            ],
            "de": [
                "Erstelle {target} als JSON: title {title}, ein Objekt {group} mit {inner}, eine Liste {listed} mit "
                "{words}."
            ],
            "pt": [
                "Crie o JSON {target} com title {title}, um objeto {group} com {inner} e uma lista {listed} com "
                "{words}."
            ],
        },
        target=target,
        title=value[key],
        group=group,
        inner=_listed(inner),
        listed=listed,
        words=", ".join(words),
        files={},
        steps=[
            write(target, json.dumps(value, indent=2) + "\n"),
            shell(f"python3 -m json.tool {target}"),
            finish(f"{target} has title, {group} and {listed}."),
        ],
        check=Check(values={target: value}),
    )


@template
def json_key_added(draw: Draw) -> Task:
    """A plain value at the top."""
    value = draw_object(draw, plain=draw.randint(2, 4), groups=draw.choice([0, 1]))
    key = draw.choice(["title", "label", "archived", "notify", "edition", "rank", "folder"])
    new = value_of(draw, key)
    source = draw.file("json")
    text = laid_out(draw, value)
    return draw.task(
        {
            "en": [
                "{source} should also have a key {key} with the value {new}.",
                "put {key}: {new} into {source}, top level, keep what's there",
                "Could you extend {source} by {key}? Its value is {new}.",
                "Please set {key} to {new} in {source}; that key is not there yet.",
            ],
            "de": ["Ergänze {source} um {key} mit dem Wert {new}.", "in {source} fehlt noch {key}, wert {new}"],
            "fr": ["Ajoute à {source} la clé {key}, qui vaut {new}."],
            "es": ["Añade a {source} la clave {key} con el valor {new}."],
        },
        source=source,
        key=key,
        new=said(new),
        files={source: text},
        steps=[change(source, f"d['{key}'] = {new!r}"), shell(f"cat {source}"), finish(f"{source} has {key} now.")],
        check=Check(values={source: {**value, key: new}}),
    )


@template
def json_nested_value_changed(draw: Draw) -> Task:
    """A trap: the same key stands in two objects."""
    value = draw_object(draw, plain=draw.randint(1, 3), groups=2)
    group = draw.choice([key for key, each in value.items() if isinstance(each, dict)])
    key = draw.choice(GROUPS[group])
    new = other_value(draw, key, value[group][key])
    other = draw.choice([each for each, held in value.items() if isinstance(held, dict) and each != group])
    if draw.random() < 0.5:
        value[other][key] = value[group][key]
    wanted = deepcopy(value)
    wanted[group][key] = new
    source = draw.file("json")
    text = laid_out(draw, value)
    return draw.task(
        {
            "en": [
                "Change the {key} of {group} to {new} in {source}.",
                "{source}: {group} {key} must be {new}, rest as it is",
                "In {source}, under {group}, I'd like {key} to be {new}.",
                "Could you set {group}.{key} to {new} in {source} without touching anything else?",
            ],
            "de": ["Setz in {source} bei {group} den Wert von {key} auf {new}."],
            "fr": ["Dans {source}, mets {key} de {group} à {new}."],
            "es": ["En {source}, cambia {key} de {group} a {new}."],
            "pt": ["Em {source}, mude {key} de {group} para {new}."],
        },
        source=source,
        group=group,
        key=key,
        new=said(new),
        files={source: text},
        steps=[
            *seen_first(source, text),
            change(source, f"d['{group}']['{key}'] = {new!r}"),
            finish(f"In {source}, {key} of {group} is {said(new)} now."),
        ],
        check=Check(values={source: wanted}),
    )


@template
def json_key_removed(draw: Draw) -> Task:
    """At the top, or in an object."""
    value = draw_object(draw, plain=draw.randint(2, 4), groups=1)
    group = next(key for key, each in value.items() if isinstance(each, dict))
    wanted = deepcopy(value)
    inside = draw.random() < 0.5
    key = draw.choice(list(value[group] if inside else value))
    del (wanted[group] if inside else wanted)[key]
    source = draw.file("json")
    text = laid_out(draw, value)
    what = f"{key} from {group}" if inside else f"the key {key}"
    place = f"['{group}']['{key}']" if inside else f"['{key}']"
    return draw.task(
        {
            "en": [
                "Remove {what} in {source}.",
                "drop {what} in {source}, leave the others",
                "We don't need {what} any longer. Can you delete it in {source}?",
                "Take {what} out of the JSON file {source}, please.",
            ],
            "de": ["Entferne {was} in {source}."],
            "fr": ["Supprime {quoi} dans {source}."],
            "es": ["Quita {que} en {source}, lo demás se queda."],
        },
        source=source,
        what=what,
        was=f"{key} aus {group}" if inside else f"den Schlüssel {key}",
        quoi=f"{key} de {group}" if inside else f"la clé {key}",
        que=f"{key} de {group}" if inside else f"la clave {key}",
        files={source: text},
        steps=[
            *seen_first(source, text),
            change(source, f"del d{place}"),
            finish(f"{source} has no such key any more."),
        ],
        check=Check(values={source: wanted}),
    )


@template
def json_key_renamed(draw: Draw) -> Task:
    """The value stays; a value may be the same word."""
    value = draw_object(draw, plain=draw.randint(3, 5))
    key = draw.choice(list(value))
    new = draw.choice(["label", "mode", "kind", "area", "number", "setting", "flag"])
    if draw.random() < 0.5:
        value["note"] = key
    wanted = {new if each == key else each: held for each, held in value.items()}
    source = draw.file("json")
    text = laid_out(draw, value)
    return draw.task(
        {
            "en": [
                "The key {key} in {source} should be called {new}; its value does not change.",
                "rename key {key} -> {new} in {source}",
                "Please call {key} {new} in the JSON file {source}. Only the key, no value.",
                "Can {source} use the key {new} instead of {key}? Same value.",
            ],
            "de": ["Benenne in {source} den Schlüssel {key} in {new} um, der Wert bleibt gleich."],
            "fr": ["Dans {source}, renomme la clé {key} en {new} sans changer sa valeur."],
            "pt": ["Em {source}, troque o nome da chave {key} por {new}; o valor fica."],
        },
        source=source,
        key=key,
        new=new,
        files={source: text},
        steps=[
            shell(f'sed -i \'s/"{key}":/"{new}":/\' {source}'),
            shell(f"python3 -m json.tool {source}"),
            finish(f"The key {key} of {source} is called {new} now."),
        ],
        check=Check(values={source: wanted}),
    )


@template
def json_merged(draw: Draw) -> Task:
    """Where both have a key, it is said which file wins."""
    keys = draw.sample(["name", "theme", "language", "timeout", "retries", "limit", "city", "volume", "copies"], 6)
    one = {key: value_of(draw, key) for key in keys[:4]}
    other = {key: value_of(draw, key) for key in keys[2:]}
    for key in keys[2:4]:
        other[key] = other_value(draw, key, one[key])
    first, second, target = draw.file("json"), draw.file("json"), draw.file("json")
    wins = draw.random() < 0.7
    winner = second if wins else first
    wanted = {**one, **other} if wins else {**other, **one}
    order = (first, second) if wins else (second, first)
    return draw.task(
        {
            "en": [
                "Merge {first} and {second} into {target}. If both have a key, the value of {winner} counts.",
                "combine the json of {first} + {second} as {target}, {winner} wins when a key is in both",
                "I'd like one JSON object {target} with all keys of {first} and {second}; {winner} takes precedence.",
                "Could you join the objects {first} and {second} in {target}? Prefer {winner} for keys they share.",
            ],
            "de": ["Führe {first} und {second} in {target} zusammen; bei gleichen Schlüsseln gilt {winner}."],
            "es": ["Une {first} y {second} en {target}; si una clave está en los dos, vale la de {winner}."],
        },
        first=first,
        second=second,
        target=target,
        winner=winner,
        files={first: laid_out(draw, one), second: laid_out(draw, other)},
        steps=[
            change(order[0], f"d.update(json.load(open('{order[1]}')))", into=target),
            shell(f"cat {target}"),
            finish(f"{target} has the keys of both files; {winner} wins."),
        ],
        check=Check(values={target: wanted}),
    )


@template
def json_value_to_text(draw: Draw) -> Task:
    """A value from inside, without quotes."""
    value = draw_object(draw, plain=draw.randint(1, 3), groups=draw.choice([1, 2]))
    group = draw.choice([key for key, each in value.items() if isinstance(each, dict)])
    key = draw.choice([each for each in GROUPS[group] if not isinstance(value[group][each], bool)])
    source, target = draw.file("json"), draw.file()
    found = value[group][key]
    return draw.task(
        {
            "en": [
                "Which {key} does {group} have in {source}? Note it, and only it, in {target}.",
                "get {group} / {key} from {source} into {target}, no quotes",
                "Please copy the value of {key} (inside {group}) from {source} to {target}.",
                "{target} should hold what {source} says for {key} under {group}, as plain text.",
            ],
            "de": ["Schreib den Wert von {key} unter {group} aus {source} in {target}, ohne Anführungszeichen."],
            "fr": ["Écris dans {target} la valeur de {key} sous {group} de {source}, sans guillemets."],
            "pt": ["Grave em {target} o valor de {key} em {group} de {source}, sem aspas."],
        },
        source=source,
        target=target,
        group=group,
        key=key,
        files={source: laid_out(draw, value)},
        steps=[
            shell(ask(source, f"d['{group}']['{key}']") + f" | tee {target}"),
            finish(f"The {key} of {group} is {said(found)}; {target} has it."),
        ],
        check=Check(files={target: said(found)}),
    )


@template
def json_question(draw: Draw) -> Task:
    """The answer is said; nothing is written."""
    value = draw_object(draw, plain=draw.randint(2, 5), groups=draw.choice([1, 2]))
    group = draw.choice([key for key, each in value.items() if isinstance(each, dict)])
    key = draw.choice([each for each in GROUPS[group] if not isinstance(value[group][each], bool)])
    source = draw.file("json")
    text = laid_out(draw, value)
    found = said(value[group][key])
    task = draw.task(
        {
            "en": [
                "What does {source} say about the {key} of {group}?",
                "{key} of {group} in {source}?",
                "I have forgotten the {key} that is set for {group} in {source}. Can you tell me?",
                "Tell me the {group} {key}, it is in {source}. Don't change anything.",
            ],
            "de": ["Welchen Wert hat {key} bei {group} in {source}?"],
            "fr": ["Que vaut {key} de {group} dans {source} ?"],
            "es": ["¿Cuánto vale {key} de {group} en {source}?"],
        },
        source=source,
        group=group,
        key=key,
        files={source: text},
        steps=[shell(ask(source, f"d['{group}']['{key}']")), finish(f"The {key} of {group} is {found}.")],
        check=Check(says=[rf"(?<!\w){found.replace('.', chr(92) + '.')}(?!\w)"]),
    )
    return told(
        task,
        {
            "de": f"{key} hat bei {group} den Wert {found}.",
            "fr": f"{key} de {group} vaut {found}.",
            "es": f"{key} de {group} vale {found}.",
        },
    )


@template
def json_pretty(draw: Draw) -> Task:
    """One long line becomes many; what it holds stays."""
    value = draw_object(draw, plain=draw.randint(2, 4), groups=draw.choice([1, 1, 2]))
    width = draw.choice([2, 4])
    source = draw.file("json")
    text = json.dumps(value, separators=draw.choice([(",", ":"), (", ", ": ")])) + draw.choice(["", "\n"])
    layouts = [json.dumps(value, indent=width), json.dumps(value, indent=width, sort_keys=True)]
    return draw.task(
        {
            "en": [
                "Format {source} so that a person can read it: indent by {width} spaces, one key per line.",
                "pretty print {source} in place, {width} spaces",
                "Could you lay out {source} nicely? Every key on a line of its own, indented with {width} blanks.",
                "The JSON in {source} is all on one line. I want it indented ({width} spaces) in the same file.",
            ],
            "de": ["Formatiere {source} lesbar, eingerückt um {width} Leerzeichen."],
            "es": ["Da formato a {source} con sangría de {width} espacios, una clave por línea."],
        },
        source=source,
        width=width,
        files={source: text},
        steps=[
            shell(f"python3 -m json.tool --indent {width} {source} {source}.new && mv {source}.new {source}"),
            shell(f"cat {source}"),
            finish(f"{source} is indented by {width} spaces now."),
        ],
        check=Check(either={source: layouts}),
    )


def _unquoted(text: str, draw: Draw) -> str:
    keys = [line.split('"')[1] for line in text.split("\n") if '": ' in line]
    key = draw.choice(keys)
    return text.replace(f'"{key}"', key, 1)


_BREAKS: Final[dict[str, Callable[[str, Draw], str]]] = {
    "a comma too many": lambda text, _: text.replace("\n}", ",\n}", 1),
    "a comma too few": lambda text, _: text.replace(",\n", "\n", 1),
    "a missing brace at the end": lambda text, _: text.rstrip().removesuffix("}").rstrip() + "\n",
    "a key without quotes": _unquoted,
    "single quotes": lambda text, _: text.replace('"', "'"),
    "an equals sign": lambda text, _: text.replace('": ', '" = ', 1),
    "a comment": lambda text, draw: text.replace("{\n", "{\n  // " + draw.sentence() + "\n", 1),
}


@template
def json_mended(draw: Draw) -> Task:
    """First what is wrong is seen; no value is lost."""
    value = draw_object(draw, plain=draw.randint(3, 5), groups=draw.choice([0, 0, 1]))
    right = json.dumps(value, indent=2) + "\n"
    kind = draw.choice(list(_BREAKS))
    broken = _BREAKS[kind](right, draw)
    source = draw.file("json")
    tried = f"python3 -m json.tool {source}"
    return draw.task(
        {
            "en": [
                "{source} is not valid JSON. Repair it without losing a value.",
                "my program says {source} is broken json, pls fix the syntax only",
                "Could you find out why {source} can't be parsed as JSON, and correct that?",
                "There is a mistake in {source}: it cannot be read as JSON. All keys and values are right, so "
                "keep them.",
            ],
            "de": ["{source} ist kein gültiges JSON. Repariere es, die Werte bleiben."],
            "fr": ["{source} n'est pas du JSON valide. Corrige-le sans changer de valeur."],
            "pt": ["{source} não é JSON válido. Conserte sem perder nenhum valor."],
        },
        source=source,
        files={source: broken},
        steps=[
            shell(tried),
            *seen_first(source, broken),
            write(source, right),
            shell(tried),
            finish(f"{source} is valid JSON again; the mistake was: {kind}."),
        ],
        check=Check(values={source: value}),
    )


@template
def json_valid_or_not(draw: Draw) -> Task:
    """Two files, one of which is broken: which is it?"""
    good = json.dumps(draw_object(draw, plain=3), indent=2) + "\n"
    bad = _BREAKS[draw.choice([each for each in _BREAKS if each != "a comment"])](
        json.dumps(draw_object(draw, plain=3), indent=2) + "\n", draw
    )
    names = [draw.file("json") for _ in range(draw.choice([2, 2, 3]))]
    broken = draw.choice(names)
    target = draw.file()
    texts = {name: bad if name == broken else good for name in names}
    return draw.task(
        {
            "en": [
                "One of {listed} is no valid JSON. Put its name into {target}, and leave the files themselves alone.",
                "which of {listed} has a json syntax error? only the file name, in {target}. don't fix it",
                "Please check {listed}: which one cannot be parsed as JSON? I need its name in {target}.",
                "A file among {listed} is broken JSON. I'd like {target} to say which; do not repair it.",
            ],
            "de": [
                "Welche der Dateien {listed} ist kein gültiges JSON? Ihr Name kommt in {target}; nichts reparieren."
            ],
            "es": ["Uno de {listed} no es JSON válido. Escribe su nombre en {target} y no lo arregles."],
        },
        listed=", ".join(names),
        target=target,
        files=texts,
        steps=[
            shell(f"for f in {' '.join(names)}; do python3 -m json.tool $f > /dev/null || echo $f; done"),
            shell(f"echo {broken} > {target}"),
            finish(f"{broken} is no valid JSON; {target} has its name."),
        ],
        check=Check(files={target: broken}),
    )


@template
def json_switched_if_on(draw: Draw) -> Task:
    """First looked at, then changed or not."""
    value = draw_object(draw, plain=3, groups=draw.choice([0, 1]))
    key = draw.choice(["notify", "archived", "shuffle", "duplex", "active_now", "dry_run"])
    on = draw.random() < 0.5
    value = dict(draw.sample([*value.items(), (key, on)], len(value) + 1))
    number = draw.choice(["level", "step", "rank", "speed"])
    new = draw.randint(2, 50)
    source = draw.file("json")
    text = laid_out(draw, value)
    wanted = {**value, key: False} if on else {**value, number: new}
    yes, no = f"d['{key}'] = False", f"d['{number}'] = {new}"
    return draw.task(
        {
            "en": [
                "If {key} is true in {source}, set it to false; otherwise add {number} with the value {new}.",
                "check {key} in {source}: true -> make it false. false -> leave it and add {number} = {new}",
                "Is {key} switched on in {source}? Then switch it off. If it is off, put {number}: {new} into "
                "the file.",
                "In {source}, please turn {key} off when it is on, and when it is off add the key {number} ({new}).",
            ],
            "de": ["Wenn {key} in {source} true ist, setz es auf false, sonst ergänze {number} mit {new}."],
            "fr": ["Si {key} est true dans {source}, mets-le à false, sinon ajoute {number} avec {new}."],
        },
        source=source,
        key=key,
        number=number,
        new=new,
        files={source: text},
        steps=[
            shell(f"grep '\"{key}\"' {source}"),
            change(source, yes if on else no),
            finish(
                f"{key} was true in {source}, so it is false now."
                if on
                else f"{key} was false in {source}, so {number} was added with {new}."
            ),
        ],
        check=Check(values={source: wanted}),
    )


@template
def json_keys_missing_in_other(draw: Draw) -> Task:
    """Two files of words in two languages."""
    keys = [word.lower() for word in draw.words(draw.randint(4, 8))]
    missing = [key for key in keys if draw.random() < 0.35] or [draw.choice(keys)]
    english = {key: f"{key}!" for key in keys}
    other = {key: f"*{key[::-1]}*" for key in keys if key not in missing}
    first, second, target = draw.file("json"), draw.file("json"), draw.file()
    missing = [key for key in keys if key in missing]
    return draw.task(
        {
            "en": [
                "Which keys of {first} does {second} lack? One per line into {target}.",
                "keys that are in {first} but not in {second} -> {target}, line by line",
                "{second} is a translation of {first} that isn't complete. List the missing keys in {target}.",
                "Please compare the keys of {first} and {second}; those absent from {second} go to {target}, "
                "one a line.",
            ],
            "de": ["Welche Schlüssel aus {first} fehlen in {second}? Untereinander in {target}."],
            "fr": ["Quelles clés de {first} manquent dans {second} ? Une par ligne dans {target}."],
        },
        first=first,
        second=second,
        target=target,
        files={first: laid_out(draw, english), second: laid_out(draw, other)},
        steps=[
            shell(
                f"python3 -c \"import json; d = json.load(open('{first}')); e = json.load(open('{second}')); "
                f'[print(k) for k in d if k not in e]" | tee {target}'
            ),
            finish(f"{second} lacks {', '.join(missing)}; {target} lists them."),
        ],
        check=Check(unordered={target: missing}),
    )
