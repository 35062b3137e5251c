"""Questions about lists of people, dates, amounts, tasks and settings, which are answered in words."""

from training.tasks import pools
from training.tasks.answers import (
    LOWER,
    NOT_THERE,
    answered,
    by_case,
    kept,
    number_said,
    said,
    text_of,
    unsaid,
)
from training.tasks.draw import Draw, template
from training.tasks.task import Check, Task, shell

_MONTHS = {
    "January": "jan",
    "March": "m[aä]r",
    "April": "apr|avr",
    "May": "ma[iy]",
    "June": "jui?n",
    "July": "jui?l",
    "August": "aug|ao[uû]",
    "October": "o[ck]t",
    "November": "nov",
}
"""Months, and patterns for an answer in another language."""


@template
def who_has_the_most(draw: Draw) -> Task:
    """The highest or lowest number of a list of names; numbers have one or two digits, some are negative."""
    source, low = draw.file(), draw.random() < 0.4
    people = draw.words(draw.randint(4, 14), pools.PEOPLE)
    numbers = draw.sample(range(-15 if draw.random() < 0.4 else 2, 120), len(people))
    forms = {"{}: {}": "-t: -k2n", "{} {}": "-k2n", "{}, {}": "-t, -k2n", "{} - {} points": "-t- -k2n"}
    form, sort = draw.choice(list(forms.items())[: 4 if min(numbers) >= 0 else 3])
    best = people[numbers.index(min(numbers) if low else max(numbers))]
    value = min(numbers) if low else max(numbers)
    en, de, fr = ("lowest", "kleinste", "le plus petit") if low else ("highest", "größte", "le plus grand")
    return answered(
        draw.task(
            {
                "en": [
                    "Who has the {en} number in {source}?",
                    "{source}: {en} number, who is it and how much?",
                    "Please tell me the name with the {en} number in {source}.",
                    "I'd like to know whose number in {source} is the {en}.",
                ],
                "de": ["Wer hat in {source} die {de} Zahl?"],
                "fr": ["Qui a {fr} nombre dans {source} ?"],
            },
            source=source,
            en=en,
            de=de,
            fr=fr,
            files={source: text_of(form.format(*each) for each in zip(people, numbers, strict=True))},
            steps=[shell(f"sort {sort} {source} | {'head' if low else 'tail'} -n 1")],
            check=Check(says=[said(best)]),
        ),
        {
            "en": f"{best} has the {en} number, {value}.",
            "de": f"Die {de} Zahl hat {best}: {value}.",
            "fr": f"C'est {best}, avec {value}.",
        },
    )


@template
def when_is_it(draw: Draw) -> Task:
    """An event of a calendar; it may be missing, and one with a longer name is another event."""
    source, there = draw.file(draw.choice(["txt", "md"])), draw.random() < 0.75
    events = [
        f"{draw.word(LOWER)} {draw.choice(['class', 'meeting', 'dinner', 'trip'])}" for _ in range(draw.randint(4, 9))
    ]
    dates = [f"{draw.randint(1, 28)} {draw.choice(list(_MONTHS))}" for _ in events]
    wanted = draw.randrange(len(events))
    day, month = dates[wanted].split()
    lines = [f"{date}: {event}" for date, event in zip(dates, events, strict=True)]
    event = events[wanted]
    if not there:
        lines[wanted] = f"{dates[wanted]}: {event.split()[0]} party"
    return answered(
        draw.task(
            {
                "en": [
                    "When is the {event}? Look in {source}. If it isn't there, say so.",
                    "date of the {event}, acc. to {source}?",
                    "{source} is my calendar. On what day do I have the {event}?",
                    "Please look up the {event} in {source} and tell me its date, or that there is none.",
                ],
                "de": ["Wann ist laut {source} der Termin {event}? Wenn er fehlt, sag es."],
                "fr": ["Quelle est la date de « {event} » dans {source} ? Si elle n'y est pas, dis-le."],
            },
            source=source,
            event=event,
            **kept(event),
            files={source: text_of(lines)},
            steps=[shell(f"grep -n '{event}' {source}" if there else f"cat {source}")],
            check=Check(says=[number_said(int(day)), _MONTHS[month]] if there else [NOT_THERE]),
        ),
        by_case(
            {
                "en": f"There is no {event} in {source}.",
                "de": f"In {source} gibt es keinen Termin {event}.",
                "fr": f"« {event} » n'est pas dans {source}.",
            },
            {
                "en": f"The {event} is on {dates[wanted]}.",
                "de": f"{event}: {dates[wanted]}.",
                "fr": f"C'est le {dates[wanted]}.",
            },
            there,
        ),
    )


@template
def who_is_missing(draw: Draw) -> Task:
    """Names of one list that another does not have; or nobody is missing."""
    first, second = draw.file(), draw.file()
    people = draw.words(draw.randint(4, 10), pools.PEOPLE)
    missing = draw.sample(people, draw.choice([0, 1, 1, 2, 3]))
    there = [each for each in people if each not in missing]
    listed = ", ".join(sorted(missing))
    says = [*map(said, missing), unsaid(there)] if missing else [NOT_THERE]
    return answered(
        draw.task(
            {
                "en": [
                    "Who is in {first} but not in {second}?",
                    "which names from {first} are missing in {second}? just those, please",
                    "{first} lists everyone who was invited, {second} who has answered. Who has not answered?",
                    "Compare {first} with {second} and name the people that only {first} has.",
                ],
                "de": ["Wer steht in {first}, aber nicht in {second}?"],
                "es": ["¿Quién está en {first} pero no en {second}?"],
            },
            first=first,
            second=second,
            files={first: text_of(people), second: text_of(draw.sample(there, len(there)))},
            steps=[shell(f"grep -vxFf {second} {first}")],
            check=Check(says=says),
        ),
        by_case(
            {
                "en": f"Nobody: all of {first} are in {second}.",
                "de": f"Niemand: Alle aus {first} stehen auch in {second}.",
                "es": f"Nadie: todos los de {first} están en {second}.",
            },
            {
                "en": f"Only in {first}: {listed}.",
                "de": f"Nur in {first}: {listed}.",
                "es": f"Solo en {first}: {listed}.",
            },
            missing,
        ),
    )


@template
def who_is_on_both(draw: Draw) -> Task:
    """Names that two lists share; sometimes there is none."""
    first, second = draw.file(), draw.file()
    people = draw.words(draw.randint(6, 12), pools.PEOPLE)
    both, one, two = people[: draw.choice([0, 1, 2, 3])], people[3 : len(people) - 2], people[-2:]
    listed = ", ".join(sorted(both))
    return answered(
        draw.task(
            {
                "en": [
                    "Which names are both in {first} and in {second}?",
                    "anyone on both lists, {first} and {second}? who?",
                    "Please name everybody who appears in {first} as well as in {second}.",
                    "I need to know who is listed twice, that is, in {first} and also in {second}.",
                ],
                "de": ["Wer steht sowohl in {first} als auch in {second}?"],
                "fr": ["Qui figure à la fois dans {first} et dans {second} ?"],
            },
            first=first,
            second=second,
            files={
                first: text_of(draw.sample([*both, *one], len(both) + len(one))),
                second: text_of(draw.sample([*both, *two], len(both) + len(two))),
            },
            steps=[shell(f"grep -xFf {first} {second}")],
            check=Check(says=[*map(said, both), unsaid([*one, *two])] if both else [NOT_THERE]),
        ),
        by_case(
            {
                "en": "No name is on both lists.",
                "de": "Kein Name steht auf beiden Listen.",
                "fr": "Aucun nom ne figure sur les deux listes.",
            },
            {"en": f"On both lists: {listed}.", "de": f"In beiden: {listed}.", "fr": f"Dans les deux : {listed}."},
            both,
        ),
    )


@template
def number_of_a_person(draw: Draw) -> Task:
    """A telephone number; two people have the same first name, or the person is missing."""
    source, there = draw.file(), draw.random() < 0.8
    first, (last, other) = draw.word(pools.PEOPLE), [each.capitalize() for each in draw.words(2, LOWER)]
    people = [f"{each} {draw.word(LOWER).capitalize()}" for each in draw.words(draw.randint(2, 9), pools.PEOPLE)]
    people += [f"{first} {other}", *([f"{first} {last}"] if there else [])]
    draw.shuffle(people)
    numbers = {each: f"{draw.randint(200, 999)} {draw.randint(1000, 9999)}" for each in people}
    form, wanted = draw.choice(["{}: {}", "{}, {}", "{} - {}", "{}\t{}"]), f"{first} {last}"
    number = numbers.get(wanted, "")
    return answered(
        draw.task(
            {
                "en": [
                    "What is the number of {wanted} in {source}?",
                    "{source}: phone of {wanted}?",
                    "I want to call {wanted}. Which number does {source} give? If there is none, tell me.",
                    "Please look up {wanted} in {source} and give me the phone number.",
                ],
                "de": ["Welche Nummer hat {wanted} laut {source}?"],
                "pt": ["Qual é o número de {wanted} em {source}?"],
            },
            wanted=wanted,
            source=source,
            first=first,
            last=last,
            files={source: text_of(form.format(*each) for each in numbers.items())},
            steps=[shell(f"grep -i '{wanted}' {source}"), *([] if there else [shell(f"cat {source}")])],
            check=Check(says=[number.replace(" ", "[ -]?")] if there else [NOT_THERE]),
        ),
        by_case(
            {
                "en": f"{source} has no number of {wanted}, only of {first} {other}.",
                "de": f"{wanted} steht nicht in {source}, nur {first} {other}.",
                "pt": f"{wanted} não está em {source}, só {first} {other}.",
            },
            {
                "en": f"The number of {wanted} is {number}.",
                "de": f"{wanted} hat die Nummer {number}.",
                "pt": f"O número de {wanted} é {number}.",
            },
            there,
        ),
    )


@template
def how_much_together(draw: Draw) -> Task:
    """A sum of some or all numbers of a list; other numbers stand in the texts."""
    source = draw.file()
    people, some = draw.words(2, pools.PEOPLE), draw.random() < 0.5
    rows = [(draw.choice(people), draw.word(LOWER), draw.amount()) for _ in range(draw.randint(4, 10))]
    rows[0] = (people[0], *rows[0][1:])
    total = sum(amount for who, _, amount in rows if not some or who == people[0])
    lines = [f"{who} bought {draw.choice(['a', '2', '3'])} {thing} for {amount}" for who, thing, amount in rows]
    who = people[0] if some else "everybody"
    condition = f"/^{people[0]} / " if some else ""
    return answered(
        draw.task(
            {
                "en": [
                    "How much did {who} spend according to {source}? The amount is the last number of a line.",
                    "{source}: sum of the amounts (end of line) of {who}?",
                    "I want to know what {who} paid in total, see {source}. Amounts are at the line ends.",
                    "Add up the amounts of {who} in {source} and tell me the sum. Each line ends with its amount.",
                ],
                "de": ["Wie viel {german} laut {source} zusammen ausgegeben? Der Betrag steht am Zeilenende."],
                "es": ["¿Cuánto suman en {source} los importes de {spanish}? Están al final de las líneas."],
            },
            who=who,
            german=f"hat {people[0]}" if some else "haben alle",
            spanish=people[0] if some else "todos",
            source=source,
            files={source: text_of(lines)},
            steps=[shell(f"awk '{condition}{{sum += $NF}} END {{print sum}}' {source}")],
            check=Check(says=[number_said(total)]),
        ),
        {
            "en": f"The sum for {who} is {total}.",
            "de": f"Zusammen sind es {total}.",
            "es": f"En total son {total}.",
        },
    )


@template
def latest_or_earliest(draw: Draw) -> Task:
    """Dates that are not in order; day and month come first in some."""
    source, early = draw.file(), draw.random() < 0.5
    things = draw.words(draw.randint(4, 9), LOWER)
    days = draw.sample(
        [(year, month, day) for year in (2023, 2024, 2025) for month in (2, 5, 9, 11) for day in (3, 17, 28)], 9
    )
    days = days[: len(things)]
    form = draw.choice(["{0}-{1:02}-{2:02}", "{2:02}.{1:02}.{0}"])
    lines = [f"{thing}: {form.format(*day)}" for thing, day in zip(things, days, strict=True)]
    at = days.index(min(days) if early else max(days))
    order = f"sort -t: -k2 {source}"
    if form.startswith("{2"):
        order = f"sed -E 's/(.*): (..)\\.(..)\\.(....)/\\4-\\3-\\2 \\1/' {source} | sort"
    en, de, fr = ("earliest", "frühesten", "la plus ancienne") if early else ("latest", "spätesten", "la plus récente")
    return answered(
        draw.task(
            {
                "en": [
                    "Which entry of {source} has the {en} date?",
                    "{source}: what is the entry with the {en} date?",
                    "Look through the dates in {source} and tell me the entry whose date is the {en}.",
                    "I need the name of the {en} entry in {source} by its date.",
                ],
                "de": ["Welcher Eintrag in {source} hat das Datum, das am {de} ist?"],
                "fr": ["Quelle entrée de {source} a la date {fr} ?"],
            },
            source=source,
            en=en,
            de=de,
            fr=fr,
            files={source: text_of(lines)},
            steps=[shell(f"{order} | {'head' if early else 'tail'} -n 1")],
            check=Check(says=[said(things[at])]),
        ),
        {
            "en": f"It is {things[at]}, on {form.format(*days[at])}.",
            "de": f"Das ist {things[at]}: {form.format(*days[at])}.",
            "fr": f"C'est {things[at]}, le {form.format(*days[at])}.",
        },
    )


@template
def value_of_a_setting(draw: Draw) -> Task:
    """A setting that also stands in a comment with another value, or is only in a comment."""
    source, key, there = draw.file(draw.choice(["conf", "cfg", "ini"])), draw.word(LOWER), draw.random() < 0.75
    value, old = draw.sample(range(100, 999), 2)
    lines = [f"{each} = {draw.amount()}" for each in draw.words(draw.randint(3, 8), LOWER)]
    lines.insert(draw.randint(0, 2), f"# {key} = {old}")
    lines.insert(draw.randint(1, len(lines)), f"{key}_max = {draw.randint(1000, 5000)}")
    if there:
        lines.insert(draw.randint(0, len(lines)), f"{key} = {value}")
    return answered(
        draw.task(
            {
                "en": [
                    "What value does {key} have in {source}? Comments do not count.",
                    "{source}: {key} = ? (not the commented one)",
                    "Tell me what {key} is set to in {source}. If it is not set, say that.",
                    "Is {key} set in {source}, and to what? Lines with # are comments.",
                ],
                "de": ["Welchen Wert hat {key} in {source}? Kommentare zählen nicht."],
                "pt": ["Que valor tem {key} em {source}? Comentários não contam."],
            },
            key=key,
            source=source,
            files={source: text_of(lines)},
            steps=[shell(f"grep -n {key} {source}")],
            check=Check(says=[number_said(value)] if there else [NOT_THERE]),
        ),
        by_case(
            {
                "en": f"{key} is not set in {source}, it is only in a comment.",
                "de": f"{key} ist in {source} nicht gesetzt, es steht nur in einem Kommentar.",
                "pt": f"{key} não está definido em {source}, só em um comentário.",
            },
            {
                "en": f"{key} is {value} in {source}.",
                "de": f"{key} hat in {source} den Wert {value}.",
                "pt": f"{key} vale {value} em {source}.",
            },
            there,
        ),
    )


@template
def first_and_last_entry(draw: Draw) -> Task:
    """The end of a long log, beyond what a listing shows."""
    source, last = draw.file("log"), draw.random() < 0.7
    people = [draw.choice(pools.PEOPLE) for _ in range(draw.randint(12, 40))]
    hours = sorted(draw.sample(range(6 * 60, 22 * 60), len(people)))
    lines = [
        f"{at // 60:02}:{at % 60:02} {draw.choice(['in', 'out'])} {who} ({draw.choice(['door', 'gate', 'desk'])})"
        for at, who in zip(hours, people, strict=True)
    ]
    who, time = people[-1 if last else 0], lines[-1 if last else 0][:5]
    en, de, fr = ("last", "zuletzt", "en dernier") if last else ("first", "zuerst", "en premier")
    return answered(
        draw.task(
            {
                "en": [
                    "Who came {en} in {source}, and when?",
                    "{en} entry of {source}: who and what time?",
                    "Please tell me the person and the time of the {en} entry in {source}.",
                    "I'd like to know who was {en} according to {source}, with the time.",
                ],
                "de": ["Wer steht {de} in {source}, und um welche Uhrzeit?"],
                "fr": ["Qui figure {fr} dans {source}, et à quelle heure ?"],
            },
            source=source,
            en=en,
            de=de,
            fr=fr,
            files={source: text_of(lines)},
            steps=[shell(f"{'tail' if last else 'head'} -n 1 {source}")],
            check=Check(says=[said(who), time]),
        ),
        {"en": f"{who}, at {time}.", "de": f"{who}, um {time} Uhr.", "fr": f"{who}, à {time}."},
    )


@template
def how_many_are_open(draw: Draw) -> Task:
    """Open and ticked entries of a list; perhaps all are done."""
    source, done_all = draw.file("md"), draw.random() < 0.15
    marks = ["x" if done_all else draw.choice("x  X") for _ in range(draw.randint(4, 14))]
    lines = [
        f"# {draw.word(LOWER).capitalize()}",
        "",
        *(f"- [{mark}] {draw.word(LOWER)} [{draw.amount()}]" for mark in marks),
    ]
    ask_done = not done_all and any(each != " " for each in marks) and draw.random() < 0.4
    count = sum((each != " ") == ask_done for each in marks)
    en, de, fr = ("done", "erledigt", "faites") if ask_done else ("still open", "noch offen", "encore à faire")
    return answered(
        draw.task(
            {
                "en": [
                    "How many tasks in {source} are {en}?",
                    "{source}: number of tasks that are {en}?",
                    "Please count the tasks of {source} that are {en}. I only need the number.",
                    "I'd like to know how much of {source} is {en}, as a number of tasks.",
                ],
                "de": ["Wie viele Aufgaben in {source} sind {de}?"],
                "fr": ["Combien de tâches de {source} sont {fr} ?"],
            },
            source=source,
            en=en,
            de=de,
            fr=fr,
            files={source: text_of(lines)},
            steps=[shell(f"grep -ci '^- \\[{'x' if ask_done else ' '}\\]' {source}")],
            check=Check(says=[number_said(count) if count else f"{NOT_THERE}|{number_said(0)}|\\ball\\b"]),
        ),
        {
            "en": f"{count} of the {len(marks)} tasks are {en}." if count else f"None of the tasks are {en}.",
            "de": f"{count} der {len(marks)} Aufgaben sind {de}." if count else f"Keine Aufgabe ist {de}.",
            "fr": f"{count} tâches sur {len(marks)} sont {fr}." if count else f"Aucune tâche : elles ne sont pas {fr}.",
        },
    )
