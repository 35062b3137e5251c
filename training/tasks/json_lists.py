"""Tasks with lists of JSON objects: filter, sort, count, change, and tables made of them."""

import json

from training.tasks.draw import Draw, template
from training.tasks.figures import NOTHING, forms, seen_first
from training.tasks.json_texts import ask, change, draw_records, laid_out, said
from training.tasks.task import Check, Task, finish, shell


@template
def json_list_item_added(draw: Draw) -> Task:
    """At the end of a list of objects, or of words."""
    items, *_ = draw_records(draw)
    *held, new = items
    source = draw.file("json")
    text = laid_out(draw, held)
    return draw.task(
        {
            "en": [
                "Add another entry to the list in {source}: {entry}.",
                "{source} gets one more object at the end: {entry}",
                "Could you append an object with {entry} to the JSON list {source}?",
                "The list {source} is missing one entry, {entry}. It goes last.",
            ],
            "de": ["Häng an die Liste in {source} ein Objekt an: {entry}."],
            "fr": ["Ajoute à la fin de la liste {source} un objet avec {entry}."],
            "pt": ["Acrescente no fim da lista {source} um objeto com {entry}."],
        },
        source=source,
        entry=", ".join(f"{key} {said(each)}" for key, each in new.items()),
        files={source: text},
        steps=[
            change(source, f"d.append({new!r})"),
            shell(f"python3 -m json.tool {source}"),
            finish(f"The list in {source} has one more entry."),
        ],
        check=Check(values={source: items}),
    )


@template
def json_word_in_list(draw: Draw) -> Task:
    """A list inside of an object; what is there already is not added again."""
    key = draw.choice(["tags", "members", "colors", "stops", "rooms"])
    words = [word.lower() for word in draw.words(draw.randint(3, 5))]
    new = draw.word().lower()
    there = draw.random() < 0.35
    if there:
        words.insert(draw.randint(0, len(words)), new)
    value = {"title": draw.word(), key: words, "count": draw.randint(1, 9)}
    source = draw.file("json")
    text = laid_out(draw, value)
    steps = (
        [finish(f"{new} is already in the list {key} of {source}, so nothing was changed.")]
        if there
        else [change(source, f"d['{key}'].append('{new}')"), finish(f"{new} is the last one of {key} in {source} now.")]
    )
    return draw.task(
        {
            "en": [
                "Add {new} at the end of {key} in {source}, unless it is in there; then say so.",
                "append {new} to {key} in {source}. already listed? do nothing and tell me",
                "Is {new} among the {key} of {source}? If not, put it last; if so, just let me know.",
                "I want {new} in the list {key} of {source}, at the end, but never twice. Tell me if it was "
                "there before.",
            ],
            "de": ["Häng {new} an {key} in {source} an. Falls es schon drin ist, sag es nur."],
            "es": ["Añade {new} al final de {key} en {source}; si ya está, dímelo y no cambies nada."],
        },
        source=source,
        key=key,
        new=new,
        files={source: text},
        steps=[shell(f"grep -w '{new}' {source}"), *steps],
        check=Check(
            values={source: value if there else {**value, key: [*words, new]}}, says=(NOTHING,) if there else ()
        ),
    )


@template
def json_list_filtered(draw: Draw) -> Task:
    """Into another file, as a list."""
    items, _, group, amount = draw_records(draw, 4, 8)
    by_number = draw.random() < 0.5
    source, target = draw.file("json"), draw.file("json")
    text = laid_out(draw, items)
    if by_number:
        limit = sorted(item[amount] for item in items)[len(items) // 2]
        kept = [item for item in items if item[amount] > limit]
        what, test = (f"{amount} is above {limit}", f"{amount} über {limit}"), f"i['{amount}'] > {limit}"
    else:
        wanted = draw.choice(items)[group]
        kept = [item for item in items if item[group] == wanted]
        what, test = (f"{group} is {wanted}", f"{group} gleich {wanted}"), f"i['{group}'] == '{wanted}'"
    return draw.task(
        {
            "en": [
                "Save those objects of {source} whose {what} as a JSON list in {target}.",
                "filter {source}: keep entries where {what}, write them to {target} (a list again)",
                "Which entries of {source} match this: {what}? I need them as JSON list {target}.",
                "Please make {target} from {source}. It is a list, too, but has only the objects whose {what}.",
            ],
            "de": ["Speichere aus {source} nur die Objekte mit {was} als Liste in {target}."],
            "pt": ["Crie a lista JSON {target} só com os objetos de {source} em que {what}."],
        },
        source=source,
        target=target,
        what=what[0],
        was=what[1],
        files={source: text},
        steps=[
            change(source, f"d = [i for i in d if {test}]", into=target),
            shell(f"cat {target}"),
            finish(f"{target} has the {len(kept)} objects whose {what[0]}."),
        ],
        check=Check(values={target: kept}),
    )


@template
def json_list_sorted(draw: Draw) -> Task:
    """By number or by name, up or down, in place."""
    items, name, _, amount = draw_records(draw, 3, 8)
    key = draw.choice([amount, amount, name])
    down = draw.random() < 0.4
    wanted = sorted(items, key=lambda item: item[key], reverse=down)
    if wanted == items:
        items = items[::-1]
    order = ("descending", "absteigend", "descendente") if down else ("ascending", "aufsteigend", "ascendente")
    source = draw.file("json")
    return draw.task(
        {
            "en": [
                "Sort the objects in {source} by {key}, {order}.",
                "{source}: order the list by {key} ({order}), same file",
                "Could the list in {source} be in {order} order of {key}?",
                "I need the entries of {source} arranged by their {key}, {order}, and nothing lost.",
            ],
            "de": ["Sortiere die Objekte in {source} nach {key}, {deutsch}."],
            "es": ["Ordena los objetos de {source} por {key}, en orden {espanol}."],
        },
        source=source,
        key=key,
        order=order[0],
        deutsch=order[1],
        espanol=order[2],
        files={source: laid_out(draw, items)},
        steps=[
            change(source, f"d.sort(key=lambda i: i['{key}']{', reverse=True' if down else ''})"),
            shell(f"cat {source}"),
            finish(f"The objects in {source} are sorted by {key}, {order[0]}."),
        ],
        check=Check(values={source: wanted}),
    )


@template
def json_list_counted(draw: Draw) -> Task:
    """All objects, or those with a value."""
    items, _, group, _ = draw_records(draw, 3, 9)
    source, target = draw.file("json"), draw.file()
    all_of_them = draw.random() < 0.4
    wanted = draw.choice(items)[group]
    count = len(items) if all_of_them else sum(item[group] == wanted for item in items)
    what = "" if all_of_them else f" with the {group} {wanted}"
    expression = "len(d)" if all_of_them else f"sum(i['{group}'] == '{wanted}' for i in d)"
    return draw.task(
        {
            "en": [
                "Count the objects{what} in {source} and save the number in {target}.",
                "number of entries{what} in {source} -> {target}",
                "How many entries{what} does the list {source} hold? The answer goes to {target}, as a bare number.",
                "Please put into {target} how many objects{what} there are in {source}.",
            ],
            "de": ["Zähle die Objekte{mit} in {source} und leg die Zahl in {target} ab."],
            "fr": ["Compte les objets{avec} de {source} et mets le nombre dans {target}."],
        },
        source=source,
        target=target,
        what=what,
        mit="" if all_of_them else f" mit {group} {wanted}",
        avec="" if all_of_them else f" dont {group} est {wanted}",
        files={source: laid_out(draw, items)},
        steps=[
            shell(f"{ask(source, expression)} | tee {target}"),
            finish(f"{source} has {count} objects{what}; {target} has the number."),
        ],
        check=Check(files={target: str(count)}),
    )


@template
def json_names_to_lines(draw: Draw) -> Task:
    """One value of each object, a line each."""
    items, name, group, amount = draw_records(draw, 3, 8)
    key = draw.choice([name, name, group, amount])
    source, target = draw.file("json"), draw.file()
    return draw.task(
        {
            "en": [
                "List the {key} of every object of {source} in {target}, one per line.",
                "pull all {key} values out of {source} into {target}, a line each, same order",
                "Can you write to {target} what each entry of {source} has as {key}? Line by line.",
                "I want {target} to be a plain list of each {key} found in {source}.",
            ],
            "de": ["Schreib von jedem Objekt in {source} den Wert {key} als eigene Zeile in {target}."],
            "fr": ["Écris dans {target}, ligne par ligne, le {key} de chaque objet de {source}."],
            "es": ["Pon en {target} el {key} de cada objeto de {source}, uno por línea."],
        },
        source=source,
        target=target,
        key=key,
        files={source: laid_out(draw, items)},
        steps=[
            shell(f"python3 -c \"import json; [print(i['{key}']) for i in json.load(open('{source}'))]\" > {target}"),
            shell(f"cat {target}"),
            finish(f"{target} has the {key} of each object."),
        ],
        check=Check(files={target: "\n".join(said(item[key]) for item in items)}),
    )


@template
def json_numbers_added(draw: Draw) -> Task:
    """The sum, or the largest, of a value of all objects."""
    items, name, _, amount = draw_records(draw, 3, 8)
    source, target = draw.file("json"), draw.file()
    numbers = [item[amount] for item in items]
    if draw.random() < 0.6:
        words = ("the sum of all {0} values", "die Summe aller Werte von {0}", "la somme de tous les {0}")
        expression, right = f"sum(i['{amount}'] for i in d)", forms(sum(numbers))
    else:
        best = max(items, key=lambda item: item[amount])
        words = (
            f"the {name} of the object with the largest {{0}}",
            f"den Wert {name} des Objekts mit dem größten {{0}}",
            f"le {name} de l'objet qui a le plus grand {{0}}",
        )
        expression, right = f"max(d, key=lambda i: i['{amount}'])['{name}']", [best[name]]
    return draw.task(
        {
            "en": [
                "Work out {what} in {source} and write it to {target}.",
                "{source} -> {target}: {what}, nothing more",
                "Could you save {what} from {source} in {target}?",
                "I have a list of objects in {source}. What I need in {target} is {what}.",
            ],
            "de": ["Schreib {was} aus {source} in {target}."],
            "fr": ["Écris dans {target} {quoi} de {source}."],
        },
        source=source,
        target=target,
        what=words[0].format(amount),
        was=words[1].format(amount),
        quoi=words[2].format(amount),
        files={source: laid_out(draw, items)},
        steps=[
            shell(f"{ask(source, expression)} | tee {target}"),
            finish(f"{target} has {words[0].format(amount)}: {right[0]}."),
        ],
        check=Check(either={target: right}),
    )


@template
def json_object_of_list_changed(draw: Draw) -> Task:
    """One object, found by its name; it may not be there."""
    items, name, _, amount = draw_records(draw, 3, 7)
    number = draw.randrange(len(items))
    there = draw.random() < 0.75
    gone = items[number]
    if not there:
        items = [item for item in items if item is not gone]
    who, new = gone[name], draw.randint(401, 999)
    source = draw.file("json")
    delete = draw.random() < 0.4
    wanted = [{**item, amount: new} if item is gone else item for item in items if not (delete and item is gone)]
    if delete:
        act = ("remove the object of {0}", "entferne das Objekt von {0}", "quita el objeto de {0}")
        step = change(source, f"d = [i for i in d if i['{name}'] != '{who}']")
    else:
        act = (
            f"set the {amount} of {{0}} to {new}",
            f"setz bei {{0}} {amount} auf {new}",
            f"pon {new} en {amount} de {{0}}",
        )
        step = change(source, f"[i.update({amount}={new}) for i in d if i['{name}'] == '{who}']")
    return draw.task(
        {
            "en": [
                "In the list {source}, {act}. If {who} is not in it, say so and change nothing.",
                "{source}: {act}, or tell me if {who} isn't listed (then leave it)",
                "Could you {act} in {source}? Should there be no {who}, only tell me.",
                "Please {act} in {source}, provided that {who} occurs there. Otherwise a short word is enough.",
            ],
            "de": ["In {source}: {tu}. Wenn {who} nicht vorkommt, sag es nur."],
            "es": ["En {source}, {haz}. Si {who} no está, solo dímelo."],
        },
        source=source,
        who=who,
        act=act[0].format(who),
        tu=act[1].format(who),
        haz=act[2].format(who),
        files={source: laid_out(draw, items)},
        steps=[
            shell(f"grep -w '{who}' {source}"),
            *(
                [step, finish(f"Done in {source}: {act[0].format(who)}.")]
                if there
                else [finish(f"{who} is not in {source}, so nothing was changed.")]
            ),
        ],
        check=Check(values={source: wanted}, says=() if there else (NOTHING,)),
    )


@template
def csv_to_json_list(draw: Draw) -> Task:
    """Numbers may be numbers or texts, unless it is said."""
    items, _, _, amount = draw_records(draw, 2, 6)
    source, target = draw.file("csv"), draw.file("json")
    header = list(items[0])
    text = ",".join(header) + "\n" + "".join(",".join(said(item[key]) for key in header) + "\n" for item in items)
    numbers = [key for key in header if not isinstance(items[0][key], str)]
    turned = "; ".join(f"[i.update({key}=int(i['{key}'])) for i in d]" for key in numbers)
    return draw.task(
        {
            "en": [
                "Convert {source} into a JSON list of objects, {target}; {amount} as numbers, not as texts.",
                "{source} -> {target}: json array, one object per row, keys from the header, real numbers for {amount}",
                "Could you write the rows of {source} as JSON objects to {target}? Anything numeric (such as {amount}) "
                "should be a number.",
                "I need {target}, a JSON array with an object for each row of {source}. Numbers stay numbers.",
            ],
            "de": ["Mach aus {source} eine JSON-Liste von Objekten in {target}; Zahlen wie {amount} als Zahlen."],
            "fr": ["Convertis {source} en une liste JSON d'objets dans {target}, avec de vrais nombres pour {amount}."],
            "es": ["Convierte {source} en una lista JSON de objetos, {target}; {amount} debe ser un número."],
        },
        source=source,
        target=target,
        amount=amount,
        files={source: text},
        steps=[
            shell(
                f"python3 -c \"import csv, json; d = list(csv.DictReader(open('{source}'))); {turned}; "
                f"json.dump(d, open('{target}', 'w'), indent=2)\""
            ),
            shell(f"cat {target}"),
            finish(f"{target} has an object for each of the {len(items)} rows of {source}."),
        ],
        check=Check(values={target: items}),
    )


@template
def json_list_to_csv(draw: Draw) -> Task:
    """The keys become the header, in their order."""
    items, *_ = draw_records(draw, 2, 7)
    source, target = draw.file("json"), draw.file("csv")
    text = laid_out(draw, items)
    header = list(items[0])
    rows = "".join(",".join(said(item[key]) for key in header) + "\n" for item in items)
    return draw.task(
        {
            "en": [
                "Write the objects of {source} as a CSV table to {target}, with the keys as header.",
                "{source} as csv please -> {target}. header = keys, same order",
                "Could you turn the JSON list {source} into {target}, comma separated, first line {header}?",
                "I'd like to open {source} in a spreadsheet: make {target} from it, columns {header}.",
            ],
            "de": ["Schreib die Objekte aus {source} als CSV nach {target}, Kopfzeile {header}."],
            "pt": ["Converta a lista {source} em CSV, {target}, com o cabeçalho {header}."],
        },
        source=source,
        target=target,
        header=",".join(header),
        files={source: text},
        steps=[
            shell(
                f"python3 -c \"import csv, json; d = json.load(open('{source}')); "
                f"w = csv.writer(open('{target}', 'w'), lineterminator='\\n'); "
                f'w.writerow(d[0]); w.writerows(i.values() for i in d)"'
            ),
            shell(f"cat {target}"),
            finish(f"{target} has a header and {len(items)} rows."),
        ],
        check=Check(files={target: f"{','.join(header)}\n{rows}"}),
    )


@template
def json_lines_to_list(draw: Draw) -> Task:
    """One object on each line, or a list: from one to the other."""
    items, *_ = draw_records(draw, 2, 6)
    lines = "".join(json.dumps(item) + "\n" for item in items)
    source = draw.file("jsonl")
    target = draw.file("json")
    add = draw.choice(["", "", "\n"])
    return draw.task(
        {
            "en": [
                "Each line of {source} is a JSON object. Make one JSON list of them in {target}.",
                "{source} has an object per line; i want a proper json array in {target}",
                "Could you collect the objects that stand in {source}, line by line, into a single JSON array "
                "{target}?",
                "Turn the JSON lines of {source} into a normal JSON list called {target}, same order.",
            ],
            "de": ["In {source} steht je Zeile ein JSON-Objekt. Mach daraus eine JSON-Liste in {target}."],
            "es": ["Cada línea de {source} es un objeto JSON. Haz con ellos una lista JSON en {target}."],
        },
        source=source,
        target=target,
        files={source: lines + add},
        steps=[
            shell(
                f"python3 -c \"import json; d = [json.loads(s) for s in open('{source}') if s.strip()]; "
                f"json.dump(d, open('{target}', 'w'), indent=2)\""
            ),
            shell(f"cat {target}"),
            finish(f"{target} is a list of {len(items)} objects."),
        ],
        check=Check(values={target: items}),
    )


@template
def json_numbers_raised(draw: Draw) -> Task:
    """Each object's number grows by the same."""
    items, _, group, amount = draw_records(draw, 3, 6)
    by = draw.randint(1, 20)
    part = draw.random() < 0.5
    wanted = draw.choice(items)[group]
    source = draw.file("json")
    text = laid_out(draw, items)
    whose = f" where {group} is {wanted}" if part else ""
    test = f" if i['{group}'] == '{wanted}'" if part else ""
    return draw.task(
        {
            "en": [
                "Raise {amount} by {by} for every object{whose} in {source}.",
                "{source}: add {by} to each {amount}{whose}",
                "Could you increase every {amount}{whose} by {by} in {source}?",
                "In {source} all values of {amount}{whose} are too low by {by}. Please correct that.",
            ],
            "de": ["Erhöhe in {source} {amount} um {by}, bei jedem Objekt{bei}."],
            "fr": ["Dans {source}, augmente {amount} de {by} pour chaque objet{dont}."],
        },
        source=source,
        amount=amount,
        by=by,
        whose=whose,
        bei=f" mit {group} {wanted}" if part else "",
        dont=f" dont {group} est {wanted}" if part else "",
        files={source: text},
        steps=[
            *seen_first(source, text),
            change(source, f"[i.update({amount}=i['{amount}'] + {by}) for i in d{test}]"),
            finish(f"{amount} is higher by {by} in {source}{whose}."),
        ],
        check=Check(
            values={
                source: [
                    {**item, amount: item[amount] + by} if not part or item[group] == wanted else item for item in items
                ]
            }
        ),
    )
