"""Tasks with files of settings: INI, .env, YAML, TOML. One value changes, and comments stay."""

from typing import Final

from training.tasks.draw import Draw, template
from training.tasks.figures import NOTHING, seen_first, told
from training.tasks.task import Check, Task, finish, shell, write

_KEYS: Final = {
    "port": (1024, 9900),
    "timeout": (5, 300),
    "retries": (1, 9),
    "workers": (1, 32),
    "max_size": (10, 900),
    "interval": (2, 120),
    "limit": (10, 5000),
    "width": (300, 2000),
    "cache_days": (1, 60),
    "pool": (2, 50),
}
_SECTIONS: Final = ("server", "client", "storage", "mail", "backup", "display", "search", "network", "queue", "printer")
_COMMENTS: Final = ("do not touch", "ask the owner first", "see the handbook", "measured in June", "default", "for now")


def _number(draw: Draw, key: str, *but: str) -> str:
    while (number := str(draw.randint(*_KEYS[key]))) in but:
        pass
    return number


def _ini(draw: Draw, sections: list[str], keys: list[str]) -> tuple[list[str], dict[tuple[str, str], int]]:
    """Return lines, and where each key of each section stands."""
    lines, places = [], {}
    equals = draw.choice([" = ", "=", " = "])
    for section in sections:
        lines.append(f"[{section}]")
        if draw.random() < 0.4:
            lines.append(f"{draw.choice(['#', ';'])} {draw.choice(_COMMENTS)}")
        for key in keys:
            places[section, key] = len(lines)
            lines.append(f"{key}{equals}{_number(draw, key)}")
        if draw.random() < 0.6:
            lines.append(f"label{equals}{draw.word().lower()}")
        lines.append("")
    return lines[:-1], places


def _in_section(section: str, key: str) -> str:
    return f"/^\\[{section}\\]/,/^\\[/ s/^({key} *= *).*/"


@template
def ini_value_in_section(draw: Draw) -> Task:
    """A trap: the same key stands in another section, perhaps with the same value."""
    sections = draw.sample(_SECTIONS, draw.randint(2, 3))
    keys = draw.sample(list(_KEYS), draw.randint(1, 3))
    lines, places = _ini(draw, sections, keys)
    section, key = draw.choice(list(places))
    at = places[section, key]
    new = _number(draw, key, lines[at].split("=")[1].strip())
    changed = [
        line if number != at else line[: line.index("=") + 1] + _gap(line) + new for number, line in enumerate(lines)
    ]
    source = draw.file(draw.choice(["ini", "cfg", "conf"]))
    text = "\n".join(lines) + "\n"
    return draw.task(
        {
            "en": [
                "In {source}, set {key} in the section {section} to {new}.",
                "{source}: [{section}] {key} should be {new}, other sections stay",
                "Could you change the {key} of {section} in {source}? It has to be {new}.",
                "The section {section} of {source} has a wrong {key}; {new} is right.",
            ],
            "de": ["Setz in {source} im Abschnitt {section} den Wert {key} auf {new}."],
            "fr": ["Dans {source}, mets {key} de la section {section} à {new}."],
            "es": ["En {source}, pon {key} de la sección {section} en {new}."],
        },
        source=source,
        section=section,
        key=key,
        new=new,
        files={source: text},
        steps=[
            *seen_first(source, text),
            shell(f"sed -i -E '{_in_section(section, key)}\\1{new}/' {source}"),
            shell(f"cat {source}"),
            finish(f"{key} in the section {section} of {source} is {new} now."),
        ],
        check=Check(files={source: "\n".join(changed)}),
    )


def _gap(line: str) -> str:
    return " " if "= " in line else ""


@template
def ini_key_added_to_section(draw: Draw) -> Task:
    """The new line belongs to the section; where in it does not matter much."""
    sections = draw.sample(_SECTIONS, draw.randint(2, 3))
    keys = draw.sample(list(_KEYS), 3)
    lines, _ = _ini(draw, sections, keys[:2])
    section, value = draw.choice(sections), _number(draw, keys[2])
    equals = " = " if " = " in "\n".join(lines) else "="
    line = f"{keys[2]}{equals}{value}"
    begin = lines.index(f"[{section}]")
    end = next((at for at in range(begin + 1, len(lines)) if lines[at].startswith("[")), len(lines) + 1)
    either = [
        "\n".join([*lines[:at], written, *lines[at:]])
        for at in range(begin + 1, min(end, len(lines)) + 1)
        for written in (line, f"{keys[2]} = {value}", f"{keys[2]}={value}")
    ]
    source = draw.file("ini")
    return draw.task(
        {
            "en": [
                "Add {key} with the value {value} to the section {section} of {source}.",
                "new setting in {source} under [{section}]: {key}, value {value}",
                "Please extend the {section} section in {source} by {key}, which is {value}.",
                "Could {source} get a {key} of {value}? It belongs to {section}.",
            ],
            "de": ["Ergänze in {source} im Abschnitt {section} die Einstellung {key} mit {value}."],
            "es": ["Añade {key} con el valor {value} a la sección {section} de {source}."],
        },
        source=source,
        section=section,
        key=keys[2],
        value=value,
        files={source: "\n".join(lines) + "\n"},
        steps=[
            shell(f"sed -i '/^\\[{section}\\]/a {line}' {source}"),
            shell(f"cat {source}"),
            finish(f"The section {section} of {source} has {keys[2]} now."),
        ],
        check=Check(either={source: either}),
    )


@template
def ini_section_added(draw: Draw) -> Task:
    """At the end, with its keys."""
    *sections, new = draw.sample(_SECTIONS, draw.randint(2, 4))
    keys = draw.sample(list(_KEYS), 2)
    lines, _ = _ini(draw, sections, keys)
    values = [_number(draw, key) for key in keys]
    source = draw.file(draw.choice(["ini", "conf"]))
    equals = " = " if " = " in "\n".join(lines) else "="
    old = "\n".join(lines) + "\n"
    added = [[f"{key}{sign}{value}" for key, value in zip(keys, values, strict=True)] for sign in (equals, "=", " = ")]
    shown = "\\n".join(["", f"[{new}]", *added[0], ""])
    return draw.task(
        {
            "en": [
                "{source} needs a new section {new} at the end, with {pairs}.",
                "append section [{new}] to {source} ({pairs})",
                "Could you add a section called {new} below the others in {source}? It has {pairs}.",
                "Please put {pairs} into a section {new} of its own, last in {source}.",
            ],
            "de": ["Häng an {source} einen Abschnitt {new} an, mit {pairs}."],
            "pt": ["Acrescente no fim de {source} uma seção {new} com {pairs}."],
        },
        source=source,
        new=new,
        pairs=" and ".join(f"{key} {value}" for key, value in zip(keys, values, strict=True)),
        files={source: old},
        steps=[
            shell(f"printf '{shown}' >> {source}"),
            shell(f"tail -n 5 {source}"),
            finish(f"{source} has a section {new} at its end."),
        ],
        check=Check(
            either={source: [old + gap + "\n".join([f"[{new}]", *each]) for each in added for gap in ("\n", "")]}
        ),
    )


_ENV: Final = ("HOST", "PORT", "TOKEN", "MODE", "REGION", "LEVEL", "BUCKET", "TIMEZONE", "THEME", "WORKERS", "QUEUE")


def _env(draw: Draw, count: int) -> tuple[str, list[str], dict[str, str]]:
    prefix = draw.choice(["", "", "APP_", "WEB_", "SHOP_"])
    keys = [prefix + each for each in draw.sample(_ENV, count)]
    return prefix, keys, {key: draw.choice([draw.word().lower(), str(draw.randint(2, 9999))]) for key in keys}


def _env_lines(draw: Draw, values: dict[str, str]) -> list[str]:
    lines = [f"{key}={value}" for key, value in values.items()]
    for _ in range(draw.choice([0, 1, 2])):
        lines.insert(draw.randint(0, len(lines)), f"# {draw.choice(_COMMENTS)}")
    return lines


def _env_file(draw: Draw) -> str:
    return draw.choice([draw.file("env"), f"{draw.folder()}/.env", f".env.{draw.word()}".lower()])


@template
def env_value_changed(draw: Draw) -> Task:
    """A trap: another name ends in the same word, or a comment has it."""
    _, keys, values = _env(draw, draw.randint(3, 5))
    key = draw.choice(keys)
    if draw.random() < 0.6:
        values = {f"OLD_{key}": values[key], **values}
    new = draw.choice([draw.word().lower(), str(draw.randint(10000, 20000))])
    lines = _env_lines(draw, values)
    if draw.random() < 0.4:
        lines.insert(0, f"# {key}=example")
    source = _env_file(draw)
    wanted = [f"{key}={new}" if line.startswith(f"{key}=") else line for line in lines]
    return draw.task(
        {
            "en": [
                "Set {key} in {source} to {new}.",
                "{key} -> {new} in {source}, rest untouched",
                "Would you change {key} in {source}? The new value is {new}.",
                "{source} ought to say {new} for {key}.",
            ],
            "de": ["In {source} soll {key} den Wert {new} haben."],
            "fr": ["Dans {source}, donne à {key} la valeur {new}."],
            "es": ["En {source}, {key} debe valer {new}."],
        },
        source=source,
        key=key,
        new=new,
        files={source: "\n".join(lines) + "\n"},
        steps=[
            shell(f"sed -i 's/^{key}=.*/{key}={new}/' {source}"),
            shell(f"grep {key} {source}"),
            finish(f"{key} is {new} in {source} now."),
        ],
        check=Check(files={source: "\n".join(wanted)}),
    )


@template
def env_set_unless_there(draw: Draw) -> Task:
    """A value that is there already stays as it is."""
    prefix, keys, values = _env(draw, draw.randint(3, 5))
    there = draw.random() < 0.5
    key = draw.choice(keys) if there else f"{prefix}{draw.choice(['DEBUG', 'LOCALE', 'PROXY', 'RETRIES'])}"
    new = draw.word().lower()
    lines = _env_lines(draw, values)
    source = _env_file(draw)
    text = "\n".join(lines) + "\n"
    return draw.task(
        {
            "en": [
                "If {source} has no {key}, add {key}={new} at the end. If it has one, leave it and tell me.",
                "{source}: append {key}={new} but only when {key} isn't set yet. let me know if it was",
                "Does {source} set {key}? If not, append the line {key}={new}; if it does, only say so.",
                "Please make sure that {source} sets {key}. The default {new} goes last, but a value that is "
                "there stays "
                "and you say so.",
            ],
            "de": ["Wenn {key} in {source} fehlt, häng {key}={new} an; ist es schon da, sag es nur."],
            "fr": ["Si {key} manque dans {source}, ajoute {key}={new} à la fin ; sinon dis-le seulement."],
        },
        source=source,
        key=key,
        new=new,
        files={source: text},
        steps=[
            shell(f"grep '^{key}=' {source}"),
            *(
                [finish(f"{source} already sets {key}, to {values[key]}; nothing was changed.")]
                if there
                else [
                    shell(f"echo '{key}={new}' >> {source}"),
                    finish(f"{source} had no {key}; it has {key}={new} at its end now."),
                ]
            ),
        ],
        check=Check(files={source: text if there else f"{text}{key}={new}"}, says=(NOTHING,) if there else ()),
    )


@template
def env_copied_and_changed(draw: Draw) -> Task:
    """The example stays as it is."""
    _, keys, values = _env(draw, draw.randint(3, 5))
    changed = draw.sample(keys, draw.choice([1, 2]))
    new = {key: draw.word().lower() for key in changed}
    stem = draw.word().lower()
    source, target = draw.choice([(f"{stem}.sample", f"{stem}.env"), (f"{stem}.env.dist", f"{stem}.env")])
    lines = _env_lines(draw, values)
    wanted = [
        f"{line.split('=')[0]}={new[line.split('=')[0]]}" if line.split("=")[0] in new else line for line in lines
    ]
    edits = "; ".join(f"s/^{key}=.*/{key}={value}/" for key, value in new.items())
    return draw.task(
        {
            "en": [
                "Make {target} from {source}, with {pairs}. Leave {source} as it is.",
                "copy {source} to {target} and in the copy set {pairs}",
                "I need my own {target}: same as {source} except for {pairs}.",
                "Could you create {target} out of {source} and fill in {pairs}?",
            ],
            "de": ["Kopiere {source} nach {target} und setz dort {pairs}."],
            "es": ["Copia {source} como {target} y en la copia pon {pairs}."],
        },
        source=source,
        target=target,
        pairs=", ".join(f"{key}={value}" for key, value in new.items()),
        files={source: "\n".join(lines) + "\n"},
        steps=[
            shell(f"cp {source} {target} && sed -i '{edits}' {target}"),
            shell(f"cat {target}"),
            finish(f"{target} is a copy of {source} with {', '.join(changed)} changed."),
        ],
        check=Check(files={target: "\n".join(wanted)}),
    )


def _yaml(draw: Draw, sections: list[str], keys: list[str]) -> tuple[list[str], dict[tuple[str, str], int]]:
    lines, places = [f"name: {draw.word().lower()}"], {}
    for section in sections:
        lines.append(f"{section}:")
        for key in keys:
            places[section, key] = len(lines)
            note = f"  # {draw.choice(_COMMENTS)}" if draw.random() < 0.3 else ""
            lines.append(f"  {key}: {_number(draw, key)}{note}")
        if draw.random() < 0.5:
            lines.append(f"  label: {draw.word().lower()}")
    return lines, places


@template
def yaml_nested_value(draw: Draw) -> Task:
    """The same key stands in two sections, and the note behind it stays."""
    sections = draw.sample(_SECTIONS, draw.randint(2, 3))
    keys = draw.sample(list(_KEYS), draw.randint(1, 2))
    lines, places = _yaml(draw, sections, keys)
    section, key = draw.choice(list(places))
    at = places[section, key]
    old = lines[at].split()[1]
    new = _number(draw, key, old)
    changed = [line.replace(f": {old}", f": {new}", 1) if number == at else line for number, line in enumerate(lines)]
    source = draw.file(draw.choice(["yaml", "yml"]))
    text = "\n".join(lines) + "\n"
    return draw.task(
        {
            "en": [
                "In {source}, change {key} under {section} to {new}; keep the comments.",
                "{section}.{key} in {source} = {new} please",
                "Could you give {section} a {key} of {new} in {source}? The rest must stay as it is.",
                "I want the {key} of {section} to be {new}. It is set in {source}.",
            ],
            "de": ["Ändere in {source} {key} unter {section} auf {new}, ohne sonst etwas anzufassen."],
            "fr": ["Dans {source}, change {key} sous {section} en {new} sans toucher au reste."],
            "pt": ["Em {source}, mude {key} de {section} para {new}; o resto fica."],
        },
        source=source,
        section=section,
        key=key,
        new=new,
        files={source: text},
        steps=[
            *seen_first(source, text),
            shell(f"sed -i -E '/^{section}:/,/^[a-z]+:$/ s/^(  {key}: )[0-9]+/\\1{new}/' {source}"),
            shell(f"cat {source}"),
            finish(f"{key} under {section} is {new} in {source} now."),
        ],
        check=Check(files={source: "\n".join(changed)}),
    )


@template
def yaml_list_item(draw: Draw) -> Task:
    """Added to the list, or taken out of it; another list follows."""
    first, second = draw.sample(["plugins", "hosts", "rooms", "users", "topics", "days"], 2)
    one, other = [[w.lower() for w in draw.words(draw.randint(2, 4))] for _ in range(2)]
    add = draw.random() < 0.5
    item = draw.word().lower() if add else draw.choice(one)
    indent = draw.choice(["  ", "", "    "])
    twin = draw.random() < 0.4 and not add
    if twin:
        other.append(item)
    source = draw.file(draw.choice(["yaml", "yml"]))

    def text(items: list[str]) -> str:
        lines = [f"{first}:", *(f"{indent}- {each}" for each in items), f"{second}:"]
        return "\n".join([*lines, *(f"{indent}- {each}" for each in other)]) + "\n"

    wanted = [*one, item] if add else [each for each in one if each != item]
    command = (
        f"sed -i 's/^{indent}- {one[-1]}$/&\\n{indent}- {item}/' {source}"
        if add
        else f"sed -i '/^{first}:/,/^{second}:/ {{/^{indent}- {item}$/d}}' {source}"
    )
    act = (
        ("add {0} at the end of", "füge {0} am Ende an:", "ajoute {0} à la fin de")
        if add
        else ("remove {0} from", "entferne {0} aus", "retire {0} de")
    )
    return draw.task(
        {
            "en": [
                "Please {act} the list {first} in {source}.",
                "{source}: {act} {first}",
                "Could you {act} {first} in {source}, leaving {second} alone?",
                "What I need in {source}: {act} {first}. That is all.",
            ],
            "de": ["In {source}: {tu} {first}."],
            "fr": ["Dans {source}, {fais} la liste {first}."],
        },
        source=source,
        first=first,
        second=second,
        act=act[0].format(item),
        tu=act[1].format(item),
        fais=act[2].format(item),
        files={source: text(one)},
        steps=[
            shell(command),
            shell(f"cat {source}"),
            finish(f"{item} is {'the last one of' if add else 'no longer in'} {first} in {source}."),
        ],
        check=Check(files={source: text(wanted)}),
    )


@template
def yaml_made(draw: Draw) -> Task:
    """A new file, with a list in it."""
    section, (one, two) = draw.choice(_SECTIONS), draw.sample(list(_KEYS), 2)
    a, b, name = _number(draw, one), _number(draw, two), draw.word().lower()
    items = [word.lower() for word in draw.words(draw.randint(2, 3))]
    listed = draw.choice(["tags", "rooms", "topics", "stops"])
    target = draw.file(draw.choice(["yaml", "yml"]))
    top, inner = f"name: {name}\n", f"{section}:\n{{0}}{one}: {a}\n{{0}}{two}: {b}\n"
    texts = [
        top + inner.format(gap) + f"{listed}:\n" + "".join(f"{dash}- {item}\n" for item in items)
        for gap in ("  ", "    ")
        for dash in ("  ", "", "    ")
    ] + [top + inner.format("  ") + f"{listed}: [{', '.join(items)}]\n"]
    return draw.task(
        {
            "en": [
                "Write a YAML file {target}: name {name}, then {section} with {one} {a} and {two} {b}, then a "
                "list {listed} "
                "of {items}.",
                "yaml {target} -> name: {name}, {section} (has {one} {a}, {two} {b}), {listed} = list of {items}",
                "Could you create {target} in YAML? In this order: the name {name}; {section}, holding {one} {a} and "
                "{two} {b}; the list {listed}: {items}.",
                "I need {target} as YAML with three keys in order: name ({name}), {section} ({one} {a}, {two} {b}) and "
                "{listed} (the list {items}).",
            ],
            "de": [
                "Schreib {target} als YAML: name {name}, dann {section} mit {one} {a} und {two} {b}, dann die Liste "
                "{listed}: {items}."
            ],
            "es": [
                "Crea el YAML {target}: name {name}, luego {section} con {one} {a} y {two} {b}, y la lista "
                "{listed} con "
                "{items}."
            ],
        },
        target=target,
        name=name,
        section=section,
        one=one,
        two=two,
        a=a,
        b=b,
        listed=listed,
        items=", ".join(items),
        files={},
        steps=[
            write(target, texts[0]),
            finish(f"{target} has the name, {section} and the list {listed}."),
        ],
        check=Check(either={target: texts}),
    )


@template
def toml_value_changed(draw: Draw) -> Task:
    """Texts keep their quotes, numbers have none."""
    sections = draw.sample(_SECTIONS, 2)
    key = draw.choice(list(_KEYS))
    text_key = draw.choice(["title", "owner", "folder", "theme"])
    blocks, values = [], {}
    for section in sections:
        values[section, key], values[section, text_key] = _number(draw, key), f'"{draw.word().lower()}"'
        pairs = [f"{each} = {values[section, each]}" for each in draw.sample([key, text_key], 2)]
        blocks.append("\n".join([f"[{section}]", *pairs]) + "\n")
    source = draw.file("toml")
    section, changed = draw.choice(list(values))
    new = _number(draw, key, values[section, key]) if changed == key else draw.word().lower()
    written = new if changed == key else f'"{new}"'
    at = sections.index(section)
    wanted = list(blocks)
    wanted[at] = blocks[at].replace(f"{changed} = {values[section, changed]}", f"{changed} = {written}")
    text = "\n".join(blocks)
    return draw.task(
        {
            "en": [
                "Set {key} of {section} to {new} in {source}.",
                "in {source} the {key} below [{section}] becomes {new}",
                "Please correct {source}: in the table {section}, {key} is {new}.",
                "Can {section} have {new} as its {key} in {source}? Nothing else changes.",
            ],
            "de": ["Ändere in {source} {key} von {section} auf {new}."],
            "es": ["Cambia {key} de {section} en {source} a {new}."],
        },
        source=source,
        section=section,
        key=changed,
        new=new,
        files={source: text},
        steps=[
            *seen_first(source, text),
            shell(f"sed -i '/^\\[{section}\\]/,/^\\[/ s/^{changed} = .*/{changed} = {written}/' {source}"),
            shell(f"cat {source}"),
            finish(f"{changed} of {section} is {new} in {source} now."),
        ],
        check=Check(files={source: "\n".join(wanted)}),
    )


@template
def setting_commented_or_not(draw: Draw) -> Task:
    """A line gets a # in front, or loses it."""
    _, keys, values = _env(draw, draw.randint(3, 6))
    keys = [key.lower() for key in keys]
    hidden = draw.choice(keys)
    on = draw.random() < 0.5
    dash = draw.choice(["# ", "#"])
    lines = [f"{key} {value}" for key, value in zip(keys, values.values(), strict=True)]
    plain = next(line for line in lines if line.startswith(f"{hidden} "))
    source = draw.file("conf")
    with_mark = [f"{dash}{line}" if line == plain else line for line in lines]
    act = (
        ("uncomment", "auskommentierte Zeile {0} wieder aktivieren", "réactive la ligne {0}")
        if on
        else ("comment out", "Zeile {0} mit # auskommentieren", "mets en commentaire (#) la ligne {0}")
    )
    either = [[f"{mark}{line}" if line == plain else line for line in lines] for mark in ("# ", "#")]
    command = f"sed -i 's/^# *{hidden} /{hidden} /' {source}" if on else f"sed -i 's/^{hidden} /{dash}&/' {source}"
    return draw.task(
        {
            "en": [
                "Please {act} the line {key} in {source}.",
                "{source}: {act} {key}, the other lines stay",
                "Could you {act} the setting {key} in {source}? A # marks a comment.",
                "I'd like you to {act} {key} in {source} and not to delete anything.",
            ],
            "de": ["In {source} bitte: {tu}."],
            "fr": ["Dans {source}, {fais}."],
        },
        source=source,
        key=hidden,
        act=act[0],
        tu=act[1].format(hidden),
        fais=act[2].format(hidden),
        files={source: "\n".join(with_mark if on else lines) + "\n"},
        steps=[
            shell(command),
            shell(f"grep {hidden} {source}"),
            finish(f"{hidden} is {'in force again' if on else 'a comment now'} in {source}."),
        ],
        check=Check(either={source: ["\n".join(lines)] if on else ["\n".join(each) for each in either]}),
    )


@template
def setting_asked(draw: Draw) -> Task:
    """From the right section; the answer is said."""
    sections = draw.sample(_SECTIONS, draw.randint(2, 4))
    keys = draw.sample(list(_KEYS), draw.randint(2, 3))
    yaml = draw.random() < 0.5
    lines, places = (_yaml if yaml else _ini)(draw, sections, keys)
    section, key = draw.choice(list(places))
    value = lines[places[section, key]].split("#")[0].replace("=", ":").split(":")[1].strip()
    source = draw.file("yaml" if yaml else "ini")
    begins = f"/^{section}:/,/^[a-z]*:$/" if yaml else f"/^\\[{section}\\]/,/^\\[/"
    task = draw.task(
        {
            "en": [
                "Which {key} is set for {section} in {source}?",
                "{key} of {section}? it's in {source}",
                "Would you tell me the {key} that {source} gives in {section}?",
                "I need to know what {key} is under {section} in {source}. Just tell me, write nothing.",
            ],
            "de": ["Wie ist {key} bei {section} in {source} eingestellt?"],
            "fr": ["Quelle est la valeur de {key} pour {section} dans {source} ?"],
            "pt": ["Qual é o {key} de {section} em {source}?"],
        },
        source=source,
        section=section,
        key=key,
        files={source: "\n".join(lines) + "\n"},
        steps=[
            shell(f"sed -n '{begins} {{/{key}/p}}' {source}"),
            finish(f"The {key} of {section} is {value}."),
        ],
        check=Check(says=[rf"(?<![\d.]){value}(?!\d)"]),
    )
    return told(
        task,
        {
            "de": f"{key} steht bei {section} auf {value}.",
            "fr": f"{key} vaut {value} pour {section}.",
            "pt": f"O {key} de {section} é {value}.",
        },
    )
