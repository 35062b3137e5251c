"""Tasks that write texts: notes, lists, letters, templates that are filled in, headings."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from training.tasks import pools
from training.tasks.answers import LOWER, filled, kept, shown, spaced, text_of
from training.tasks.draw import Draw, template
from training.tasks.task import Check, Task, finish, shell, write

_MONTHS: Mapping[str, str] = {
    "en": "January February March April May June July August September October November December",
    "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
}
MONTHS: Mapping[str, Sequence[str]] = {language: names.split(" ") for language, names in _MONTHS.items()}
CITIES = tuple(each for each in pools.NOUNS if each[0].isupper())
CHORES = ("Water the", "Pick up the", "Clean the", "Return the", "Ask about the", "Paint the", "Bring the", "Sell the")


def _holding(name: str, *facts: str) -> Check:
    """A text may say it in its own way, but must have these words or numbers."""
    tests = " && ".join(f"grep -qi -- '{each}' '{name}'" for each in facts)
    return Check(free=[name], prints={f"{tests} && echo yes": "yes"})


@template
def note_of_some_lines(draw: Draw) -> Task:
    """Lines that are given, in a new file."""
    name = spaced(draw, draw.choice(["txt", "md"]), 0.25)
    lines = [f"{draw.choice(CHORES)} {draw.word(LOWER)}" for _ in range(draw.randint(2, 5))]
    listed = " / ".join(lines)
    return draw.task(
        {
            "en": [
                "Make a file {name} with these lines: {listed}",
                "new file {name}, each part on its own line: {listed}",
                "I'd like to have a note {name}. It says, line by line: {listed}",
                "Could you write down the following in {name}, a line for each thing? {listed}",
            ],
            "de": ["Leg eine Datei {name} mit diesen Zeilen an: {listed}"],
            "fr": ["Crée un fichier {name} avec ces lignes : {listed}"],
            "pt": ["Crie o arquivo {name} com estas linhas: {listed}"],
        },
        name=shown(name),
        listed=listed,
        **kept(listed),
        files={},
        steps=[write(name, text_of(lines)), finish(f"{name} has the {len(lines)} lines.")],
        check=Check(files={name: text_of(lines)}),
    )


@template
def note_with_signs(draw: Draw) -> Task:
    """A text that a shell would change: dollars, quotes, backslashes, exclamation marks."""
    name = draw.file()
    text = draw.choice(
        [
            "{0} costs ${1} (not $1{1})",
            "It's {0}'s turn!",
            'say "{0}" {1} times',
            "C:\\{0}\\{1}",
            "100% of `{0}` & more; {1}",
            "* {0} * {1} *",
            "#{1}: {0} -> ~{0}",
            "{0}!!{1}!",
            "$HOME is where the {0} is",
        ]
    ).format(draw.word(LOWER), draw.amount())
    return draw.task(
        {
            "en": [
                "Write exactly this into a new file {name}: {text}",
                "{name} should contain just the following line: {text}",
                "I need the file {name}. Its only line, sign by sign: {text}",
                "Could you save this for me as {name}? {text}",
            ],
            "de": ["Schreib genau das in eine neue Datei {name}: {text}"],
            "es": ["Escribe exactamente esto en un archivo nuevo {name}: {text}"],
            "fr": ["Écris exactement ceci dans un nouveau fichier {name} : {text}"],
        },
        name=name,
        text=text,
        **kept(text),
        files={},
        steps=[write(name, f"{text}\n"), finish(f"{name} has exactly this line.")],
        check=Check(files={name: text}),
    )


@template
def note_of_enumeration(draw: Draw) -> Task:
    """Things that are named in a sentence become a list of bullets with a title."""
    name, words = draw.file("md"), draw.words(draw.randint(3, 6), LOWER)
    title = draw.choice(["Groceries", "To pack", "Errands", "Supplies", "Wanted"])
    return draw.task(
        {
            "en": [
                "Write {name}: the title {title} as a Markdown heading, an empty line, then {listed} as - bullets.",
                "{name} in markdown please. heading: {title}, empty line, then a list with - : {listed}",
                "I want a Markdown list in {name}: heading {title}, a blank line, one - entry for each of {listed}.",
                "Can you make a {name} headed {title}? After a blank line follow {listed}, as a list with dashes.",
            ],
            "de": ["Schreib {name} in Markdown: Überschrift {title}, Leerzeile, dann {listed} als Liste mit -."],
            "fr": ["Écris {name} en Markdown : le titre {title}, une ligne vide, puis {listed} en liste avec -."],
        },
        name=name,
        title=title,
        listed=", ".join(words),
        **kept(title, ", ".join(words)),
        files={},
        steps=[
            write(name, f"# {title}\n\n{text_of(f'- {each}' for each in words)}"),
            finish(f"{name} has the heading {title} and {len(words)} entries."),
        ],
        check=Check(
            either={name: [f"{level} {title}\n\n{text_of(f'- {each}' for each in words)}" for level in ("#", "##")]}
        ),
    )


@template
def invitation(draw: Draw) -> Task:
    """A letter in its own words, with all the facts; in the language of the prompt."""
    name, guest, host = spaced(draw), draw.word(pools.PEOPLE), draw.word(pools.PEOPLE)
    day, month, hour, city = draw.randint(1, 28), draw.randrange(12), draw.randint(14, 21), draw.word(CITIES)
    task = draw.task(
        {
            "en": [
                "Write an invitation to {name}: {host} invites {guest} to a party in {city} on {date}, {hour}:00.",
                "invite {guest} to my party pls. {date} at {hour}:00, in {city}. i am {host}. save as {name}",
                "I need an invitation in {name}. Guest: {guest}. Place: {city}. Time: {date}, {hour}:00. Host: {host}.",
                "Could you draft a letter to {guest} ({name}) that asks them to come to {city} on {date} at {hour}:00 "
                "for my party? My name is {host}.",
            ],
            "de": [
                "Schreib eine Einladung an {guest} in {name}: Feier in {city} am {date_de} um {hour}:00, von {host}."
            ],
            "fr": [
                "Écris une invitation à {guest} dans {name} : fête à {city}, le {date_fr} à {hour}:00. Signe {host}."
            ],
        },
        name=shown(name),
        guest=guest,
        host=host,
        city=city,
        hour=hour,
        date=f"{day} {MONTHS['en'][month]}",
        date_de=f"{day}. {MONTHS['de'][month]}",
        date_fr=f"{day} {MONTHS['fr'][month]}",
        **kept(*(MONTHS[each][month] for each in MONTHS)),
        files={},
        steps=[],
        check=Check(),
    )
    named = MONTHS[task.language][month]
    text = {
        "en": f"Dear {guest},\n\nI would like to invite you to my party in {city} on {day} {named} at {hour}:00.\n"
        f"I hope that you can come.\n\nBest wishes,\n{host}\n",
        "de": f"Hallo {guest},\n\nich lade dich zu meiner Feier in {city} am {day}. {named} um {hour}:00 Uhr ein.\n"
        f"Ich freue mich auf dich.\n\nViele Grüße\n{host}\n",
        "fr": f"Bonjour {guest},\n\nje t'invite à ma fête à {city}, le {day} {named} à {hour}:00.\n"
        f"J'espère que tu pourras venir.\n\nAmitiés,\n{host}\n",
    }[task.language]
    check = _holding(name, guest, host, city, str(day), named, str(hour))
    return replace(task, steps=[write(name, text), finish(f"The invitation to {guest} is in {name}.")], check=check)


@template
def letter_of_thanks(draw: Draw) -> Task:
    """A thank-you or an apology with two facts, in the language of the prompt."""
    name, friend, me, thing = draw.file(), draw.word(pools.PEOPLE), draw.word(pools.PEOPLE), draw.word(LOWER)
    sorry = draw.random() < 0.4
    task = draw.task(
        {
            "en": [
                "Write a short {kind} note to {friend} about the {thing}, signed {me}, in {name}.",
                "{kind} note for {friend} ({thing}), from {me}, file {name}",
                "I want to {verb} {friend} for the {thing}. Please put a few lines into {name}; my name is {me}.",
                "Could you write {name}, a few friendly lines in which {me} wants to {verb} {friend} for the {thing}?",
            ],
            "de": ["Schreib in {name} ein paar Zeilen an {friend}, in denen sich {me} für {thing} {german}."],
            "es": ["Escribe en {name} una nota breve para {friend}, de parte de {me}, {spanish} {thing}."],
        },
        kind="apology" if sorry else "thank-you",
        verb="apologise to" if sorry else "thank",
        german="entschuldigt" if sorry else "bedankt",
        spanish="pidiendo perdón por" if sorry else "dando las gracias por",
        friend=friend,
        me=me,
        thing=thing,
        name=name,
        files={},
        steps=[],
        check=_holding(name, friend, me, thing),
    )
    text = {
        "en": f"Dear {friend},\n\n{'I am sorry about' if sorry else 'thank you very much for'} the {thing}. "
        f"{'It will not happen again.' if sorry else 'I was very glad about it.'}\n\nYours,\n{me}\n",
        "de": f"Hallo {friend},\n\n{'bitte entschuldige das mit' if sorry else 'vielen Dank für'} {thing}. "
        f"{'Es kommt nicht wieder vor.' if sorry else 'Ich habe mich sehr gefreut.'}\n\nViele Grüße\n{me}\n",
        "es": f"Hola, {friend}:\n\n{'Te pido perdón por' if sorry else 'Muchas gracias por'} {thing}. "
        f"{'No volverá a pasar.' if sorry else 'Me ha gustado mucho.'}\n\nUn abrazo,\n{me}\n",
    }[task.language]
    return replace(task, steps=[write(name, text), finish(f"The note to {friend} is in {name}.")])


@template
def filled_in_template(draw: Draw) -> Task:
    """Placeholders of a template get values; the template stays."""
    source, target = draw.file(), spaced(draw, share=0.25)
    form = draw.choice(["{{{}}}", "[{}]", "<{}>", "__{}__"])
    values = {"NAME": draw.word(pools.PEOPLE), "CITY": draw.word(CITIES), "AMOUNT": str(draw.amount(100, 999))}
    keys = draw.sample(list(values), draw.randint(2, 3))
    sentences = {
        "NAME": "Dear NAME,\n",
        "CITY": "see you in CITY soon.\n",
        "AMOUNT": "Please bring AMOUNT coins.\n",
    }
    text = "".join(
        sentences[each].replace(each, form.format(each)) for each in ("NAME", "CITY", "AMOUNT") if each in keys
    )
    text += f"{form.format(keys[0])} again.\n"
    result = text
    for each in keys:
        result = result.replace(form.format(each), values[each])
    signs = {each: form.format(each).replace("[", "\\[").replace("]", "\\]") for each in keys}
    command = " ".join(f"-e 's/{signs[each]}/{values[each]}/g'" for each in keys)
    listed = ", ".join(f"{form.format(each)} = {values[each]}" for each in keys)
    return draw.task(
        {
            "en": [
                "Fill in the template {source} and save the result as {target}: {listed}",
                "{target} from {source} with {listed}",
                "Take {source}, put in these values ({listed}) and keep what comes out as {target}. {source} stays.",
                "I need a copy of {source} called {target} in which the placeholders are replaced: {listed}",
            ],
            "de": ["Fülle die Vorlage {source} aus und speichere sie als {target}: {listed}"],
            "fr": ["Remplis le modèle {source} et enregistre le résultat dans {target} : {listed}"],
        },
        source=source,
        target=shown(target),
        listed=listed,
        **kept(listed),
        files={source: text},
        steps=[
            shell(f"sed {command} {source} > '{target}'"),
            finish(f"{target} is {source} with the values filled in."),
        ],
        check=Check(files={target: result}),
    )


@template
def letter_for_each_name(draw: Draw) -> Task:
    """A template, a list of names, and a file for each name."""
    source, names, where = draw.file(), draw.file(), draw.folder()
    people = draw.words(draw.randint(2, 6), pools.PEOPLE)
    mark = draw.choice(["NAME", "@name", "{name}", "XXX"])
    text = f"Dear {mark},\n{draw.sentence()}\nBye, {mark}!\n"
    end = draw.choice(["\n", "\n", ""])
    return draw.task(
        {
            "en": [
                "For each person in {names}, write {where}/<person>.txt: the text of {source}, with the person "
                "in place of {mark}.",
                "{source} is a template with {mark}, {names} has the people. one file per person in {where}, "
                "called like the person plus .txt",
                "I want letters for everybody listed in {names}, made from {source} (the name goes where {mark} is). "
                "They go to {where}, e.g. {where}/{first}.txt.",
                "Can you turn {source} into one letter per line of {names}? {mark} stands for the name; "
                "the first letter is {where}/{first}.txt.",
            ],
            "de": [
                "Mach aus {source} für jede Person in {names} einen Brief, etwa {where}/{first}.txt; {mark} ist der "
                "Namen."
            ],
            "es": [
                "Para cada persona de {names}, crea {where}/<persona>.txt: {source} con su nombre en vez de {mark}."
            ],
        },
        names=names,
        where=where,
        source=source,
        mark=mark,
        first=people[0],
        files={source: text, names: "\n".join(people) + end},
        steps=[
            shell(
                f'mkdir -p {where} && while IFS= read -r person || [ -n "$person" ]; do '
                f'sed "s/{mark}/$person/g" {source} > "{where}/$person.txt"; done < {names}'
            ),
            shell(f"head {where}/*"),
            finish(f"{where} has a letter for each of the {len(people)} people."),
        ],
        check=Check(files={f"{where}/{each}.txt": text.replace(mark, each) for each in people}),
    )


@template
def signature_under_each(draw: Draw) -> Task:
    """All letters of a folder get the same last line; one of them has no newline at its end."""
    where, ending, line = draw.folder(), draw.choice(["txt", "md"]), f"{draw.word(pools.PEOPLE)}, {draw.word(CITIES)}"
    files = filled(draw, [f"{where}/{draw.file(ending)}" for _ in range(draw.randint(2, 5))])
    if draw.random() < 0.5:
        files = {name: text.rstrip("\n") for name, text in files.items()}
    other = filled(draw, [f"{where}/{draw.file('log')}"])
    return draw.task(
        {
            "en": [
                'Add the line "{line}" to the end of every .{ending} file in {where}.',
                '"{line}" as last line in all .{ending} files of {where}',
                'The .{ending} files in {where} should all be signed: a new last line "{line}".',
                'Could you put "{line}" below the text of each .{ending} file in {where}?',
            ],
            "de": ['Hänge an jede .{ending}-Datei in {where} die Zeile "{line}" an.'],
            "fr": ['Ajoute la ligne "{line}" à la fin de chaque fichier .{ending} de {where}.'],
        },
        line=line,
        ending=ending,
        where=where,
        **kept(line),
        files={**files, **other},
        steps=[
            shell(f"sed -i '$a {line}' {where}/*.{ending}"),
            finish(f"{len(files)} files in {where} end with the line {line}."),
        ],
        check=Check(files={name: f"{text.rstrip()}\n{line}\n" for name, text in files.items()}),
    )


@template
def heading_on_top(draw: Draw) -> Task:
    """A title and a blank line before a text."""
    source = draw.file("md")
    title = f"{draw.word(LOWER).capitalize()} {draw.choice(['in', 'and', 'of', 'for'])} {draw.word(CITIES)}"
    text = text_of(draw.sentence() for _ in range(draw.randint(1, 4)))
    return draw.task(
        {
            "en": [
                'Put the heading "# {title}" and a blank line at the top of {source}.',
                '{source} needs a title: "# {title}", then an empty line, then the text as it is',
                'I would like {source} to start with "# {title}", followed by an empty line.',
                'Could you give {source} the heading "# {title}"? Leave one blank line below it.',
            ],
            "de": ['Setze an den Anfang von {source} die Überschrift "# {title}" und eine Leerzeile.'],
            "fr": ['Mets le titre "# {title}" et une ligne vide au début de {source}.'],
        },
        source=source,
        title=title,
        **kept(title),
        files={source: text},
        steps=[
            shell(f"sed -i '1i # {title}\\n' {source}"),
            shell(f"head -n 3 {source}"),
            finish(f"{source} has a title now."),
        ],
        check=Check(files={source: f"# {title}\n\n{text}"}),
    )


@template
def contents_of_headings(draw: Draw) -> Task:
    """The headings of a document, of one level or of all; a comment in code is no heading in the question."""
    source, target = draw.file("md"), draw.file()
    titles = [f"{draw.word(LOWER).capitalize()} {draw.amount()}" for _ in range(draw.randint(3, 6))]
    levels = [1, *(draw.choice([2, 2, 3]) for _ in titles[1:])]
    levels[1] = 2
    parts = [f"{'#' * level} {title}\n\n{draw.sentence()}\n" for level, title in zip(levels, titles, strict=True)]
    wanted = [title for level, title in zip(levels, titles, strict=True) if level == 2]
    return draw.task(
        {
            "en": [
                "Write the headings of the second level (##) in {source} to {target}, without the signs.",
                "list of all ## headings of {source} in {target}, just the text of each",
                "I need {target} as a table of contents: the text of each ## heading of {source}, one per line.",
                "Which second-level headings (##, not ###) does {source} have? Put them into {target} without the ##.",
            ],
            "de": ["Schreib die Überschriften zweiter Ebene (##) aus {source} ohne die Zeichen nach {target}."],
            "pt": ["Grave em {target} os títulos de segundo nível (##) de {source}, sem os sinais."],
        },
        source=source,
        target=target,
        files={source: "\n".join(parts)},
        steps=[
            shell(f"sed -n 's/^## //p' {source} > {target}"),
            shell(f"cat {target}"),
            finish(f"{target} lists the {len(wanted)} headings of the second level."),
        ],
        check=Check(files={target: text_of(wanted)}),
    )


@template
def name_changed_in_letter(draw: Draw) -> Task:
    """A letter goes to somebody else; the name stands in it more than once."""
    source, target = draw.file(), draw.file()
    (old, new, me), copy = draw.words(3, pools.PEOPLE), draw.random() < 0.5
    text = f"Dear {old},\n\n{draw.sentence()}\n{draw.sentence()}\nGreetings, {old}, and to {old}'s family.\n\n{me}\n"
    text = text.replace(f" and to {old}'s family", "") if draw.random() < 0.4 else text
    command = f"sed 's/{old}/{new}/g' {source} > {target}" if copy else f"sed -i 's/{old}/{new}/g' {source}"
    result = target if copy else source
    return draw.task(
        {
            "en": [
                "The letter {source} is for {old}. {do[0]} so that it is for {new}.",
                "{source}: {old} -> {new} everywhere. {do[1]}",
                "I wrote to {old} in {source} and want to send the same to {new}. {do[1]}",
                "Could the letter in {source} be addressed to {new} instead of {old}? {do[1]}",
            ],
            "de": ["Der Brief {source} ist an {old}. Er soll an {new} gehen. {do[2]}"],
            "fr": ["La lettre {source} est pour {old} ; il la faut pour {new}. {do[3]}"],
        },
        source=source,
        old=old,
        new=new,
        do=(
            (
                f"Make a copy {target} and change it",
                f"Save it as {target}, the old one stays.",
                f"Speichere ihn als {target}, der alte bleibt.",
                f"Enregistre-la dans {target}, sans changer l'originale.",
            )
            if copy
            else ("Change it", "Change the file itself.", "Ändere die Datei selbst.", "Change le fichier lui-même.")
        ),
        files={source: text},
        steps=[shell(command), finish(f"{result} is addressed to {new}.")],
        check=Check(files={result: text.replace(old, new)}),
    )


@template
def entry_in_a_diary(draw: Draw) -> Task:
    """A dated entry at the end, in the form of the others."""
    source, year, month = draw.file(draw.choice(["txt", "md"])), draw.randint(2021, 2026), draw.randint(1, 12)
    form = draw.choice(["{}: {}", "[{}] {}", "{} - {}", "* {} {}"])
    days = sorted(draw.sample(range(1, 29), draw.randint(3, 6)))
    dates = [f"{year}-{month:02}-{day:02}" for day in days]
    entries = [form.format(date, draw.sentence()) for date in dates]
    new = draw.sentence()
    return draw.task(
        {
            "en": [
                "Add an entry for {date} to {source}, in the same form as the others: {new}",
                "{source}, new entry at the end, date {date}, looks like the ones above: {new}",
                "On {date} I want to have noted in {source}: {new} Please write it like the other entries.",
                "Can you append this to {source} for {date}, in its usual format? {new}",
            ],
            "de": ["Ergänze in {source} am Ende einen Eintrag für {date}, in der Form der anderen: {new}"],
            "es": ["Añade al final de {source} una entrada del {date}, con la misma forma que las otras: {new}"],
        },
        source=source,
        date=dates[-1],
        new=new,
        **kept(new),
        files={source: text_of(entries[:-1])},
        steps=[
            shell(f"echo '{form.format(dates[-1], new)}' >> {source}"),
            shell(f"tail -n 2 {source}"),
            finish(f"{source} has the entry for {dates[-1]}."),
        ],
        check=Check(files={source: text_of([*entries[:-1], form.format(dates[-1], new)])}),
    )


@template
def numbered_headings_made(draw: Draw) -> Task:
    """A file of lines that differ in their number only."""
    name, stem, last = (
        draw.file(),
        draw.choice(["Chapter", "Week", "Room", "Part", "Table", "Lesson"]),
        draw.randint(4, 40),
    )
    first, mark = draw.choice([1, 1, 1, 5]), draw.choice(["", ":", ".", " -"])
    last += first
    lines = [f"{stem} {at}{mark}" for at in range(first, last + 1)]
    return draw.task(
        {
            "en": [
                'Create {name} with the lines "{one}" to "{end}".',
                '{name}: one line each, "{one}", then the next number, … up to "{end}"',
                'I need a list in {name} that goes from "{one}" to "{end}", a line for every number.',
                'Please fill {name} with "{one}" on the first line and so on until "{end}".',
            ],
            "de": ['Schreib in {name} die Zeilen "{one}" bis "{end}".'],
            "fr": ['Crée {name} avec les lignes de "{one}" à "{end}".'],
        },
        name=name,
        one=lines[0],
        end=lines[-1],
        **kept(stem),
        files={},
        steps=[
            shell(f"printf '{stem} %d{mark}\\n' {{{first}..{last}}} > {name}"),
            finish(f"{name} has {len(lines)} lines, from {lines[0]} to {lines[-1]}."),
        ],
        check=Check(files={name: text_of(lines)}),
    )
