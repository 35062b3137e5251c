"""Questions about files, which are answered in words; no file is changed."""

from training.tasks import pools
from training.tasks.answers import (
    LOWER,
    NOT_THERE,
    affirmed,
    answered,
    by_case,
    filled,
    number_said,
    said,
    text_of,
    unsaid,
)
from training.tasks.draw import Draw, template
from training.tasks.task import Check, Task, shell


@template
def which_file_has_a_word(draw: Draw) -> Task:
    """One file or none has the word, beyond its first lines; a longer word is another one."""
    where, word, there = draw.folder(), draw.word(LOWER), draw.random() < 0.75
    names = [f"{where}/{draw.file()}" for _ in range(draw.randint(3, 6))]
    texts = {each: [draw.sentence(), draw.sentence(), draw.sentence()] for each in names}
    hit = draw.choice(names)
    texts[draw.choice([each for each in names if each != hit])].append(f"{word}ish, they said.")
    if there:
        texts[hit].insert(draw.randint(1, 3), f"My {word} is lost.")
    short = hit.partition("/")[2]
    return answered(
        draw.task(
            {
                "en": [
                    "Which file in {where} contains the word {word}?",
                    "where in {where} did i write about {word}? need the file name. if nowhere, say so",
                    "One of the files in {where} may have the word {word}. Tell me which one, or that there is none.",
                    "Search the folder {where} for the word {word} and tell me where it is.",
                ],
                "de": ["In welcher Datei in {where} steht das Wort {word}?"],
                "fr": ["Quel fichier de {where} contient le mot {word} ?"],
                "es": ["¿Qué archivo de {where} contiene la palabra {word}?"],
            },
            where=where,
            word=word,
            files={each: text_of(lines) for each, lines in texts.items()},
            steps=[shell(f"grep -rnw {word} {where}")],
            check=Check(says=[said(short)] if there else [NOT_THERE, unsaid([short])]),
        ),
        by_case(
            {
                "en": f"No file in {where} has the word {word}.",
                "de": f"Keine Datei in {where} enthält das Wort {word}.",
                "fr": f"Aucun fichier de {where} ne contient le mot {word}.",
                "es": f"Ningún archivo de {where} contiene la palabra {word}.",
            },
            {
                "en": f"It is in {hit}.",
                "de": f"Es steht in {hit}.",
                "fr": f"C'est le fichier {hit}.",
                "es": f"Está en {hit}.",
            },
            there,
        ),
    )


@template
def how_many_lines_or_words(draw: Draw) -> Task:
    """A long file is counted; sometimes only the lines that have a word."""
    source, word = draw.file(), draw.word(LOWER)
    lines = [f"{draw.choice(pools.PEOPLE)} {draw.choice([word, 'rest', 'more'])}" for _ in range(draw.randint(5, 40))]
    some = draw.random() < 0.5
    count = sum(word in line for line in lines) if some else len(lines)
    en, de, pt = (
        (f"lines with {word}", f"Zeilen mit {word}", f"linhas com {word}") if some else ("lines", "Zeilen", "linhas")
    )
    return answered(
        draw.task(
            {
                "en": [
                    "How many {en} are there in {source}?",
                    "count of {en} in {source}?",
                    "I need to know the number of {en} in {source}. No file has to be written.",
                    "Just tell me how many {en} {source} has, please.",
                ],
                "de": ["Wie viele {de} hat {source}?"],
                "pt": ["Quantas {pt} há em {source}?"],
            },
            source=source,
            en=en,
            de=de,
            pt=pt,
            word=word,
            files={source: text_of(lines)},
            steps=[shell(f"grep -cw {word} {source}" if some else f"wc -l < {source}")],
            check=Check(says=[number_said(count)]),
        ),
        {"en": f"{source}: {count} {en}.", "de": f"{source} hat {count} {de}.", "pt": f"{source} tem {count} {pt}."},
    )


@template
def is_it_in_there(draw: Draw) -> Task:
    """Is a word in a file, and on which line; capital letters differ sometimes."""
    source, word, there = draw.file(), draw.word(LOWER), draw.random() < 0.6
    lines = [draw.sentence() for _ in range(draw.randint(6, 14))]
    at = draw.randrange(3, len(lines))
    lines[at] = f"{draw.choice([word, word.capitalize()]) if there else f'{word}like'} and nothing else"
    return answered(
        draw.task(
            {
                "en": [
                    "Does {source} mention {word} (whole word)? On which line?",
                    "is there a {word} in {source}? line number?",
                    "I wonder if {source} has the word {word}. Tell me the number of the line, or that it isn't there.",
                    "Check {source} for the word {word} and give me the line number if it is there.",
                ],
                "de": ["Kommt das Wort {word} in {source} vor? In welcher Zeile?"],
                "es": ["¿Aparece la palabra {word} en {source}? ¿En qué línea?"],
            },
            source=source,
            word=word,
            files={source: text_of(lines)},
            steps=[shell(f"grep -inw {word} {source}")],
            check=Check(says=[number_said(at + 1)] if there else [NOT_THERE]),
        ),
        by_case(
            {
                "en": f"No, {source} does not have the word {word}.",
                "de": f"Nein, {word} kommt in {source} nicht vor.",
                "es": f"No, {word} no aparece en {source}.",
            },
            {
                "en": f"Yes, {word} is on line {at + 1} of {source}.",
                "de": f"Ja, {word} steht in Zeile {at + 1} von {source}.",
                "es": f"Sí, está en la línea {at + 1} de {source}.",
            },
            there,
        ),
    )


@template
def which_file_is_longest(draw: Draw) -> Task:
    """By lines, not by bytes."""
    where, few = draw.folder(), draw.random() < 0.3
    counts = draw.sample(range(1, 12), draw.randint(3, 5))
    names = [f"{where}/{draw.file()}" for _ in counts]
    files = {
        name: text_of(" ".join(draw.choices(LOWER, k=draw.choice([1, 1, 9]))) for _ in range(count))
        for name, count in zip(names, counts, strict=True)
    }
    count = min(counts) if few else max(counts)
    best = names[counts.index(count)].partition("/")[2]
    en, de, es = ("fewest", "wenigsten", "menos") if few else ("most", "meisten", "más")
    return answered(
        draw.task(
            {
                "en": [
                    "Which file in {where} has the {en} lines, and how many?",
                    "{where}: file with the {en} lines? and the number of them",
                    "Tell me which of the files in {where} has the {en} lines and how many it has.",
                    "I'm looking for the file in {where} that has the {en} lines; give me its name and line count.",
                ],
                "de": ["Welche Datei in {where} hat die {de} Zeilen, und wie viele?"],
                "es": ["¿Qué archivo de {where} tiene {es} líneas, y cuántas?"],
            },
            where=where,
            en=en,
            de=de,
            es=es,
            files=files,
            steps=[shell(f"wc -l {where}/*")],
            check=Check(says=[said(best), number_said(count)]),
        ),
        {
            "en": f"{best} has the {en} lines: {count}.",
            "de": f"Die {de} Zeilen hat {best}: {count}.",
            "es": f"{best}, con {count} líneas.",
        },
    )


@template
def how_many_files_in_there(draw: Draw) -> Task:
    """Files of a folder; subfolders and hidden files are told apart."""
    where = draw.folder()
    plain = [f"{where}/{draw.file(draw.choice(['txt', 'md', 'csv']))}" for _ in range(draw.randint(1, 11))]
    folders = draw.words(draw.randint(0, 3), pools.FOLDERS)
    ask_folders = bool(folders) and draw.random() < 0.4
    files = filled(draw, plain) | filled(draw, [f"{where}/{each}/{draw.file()}" for each in folders])
    count = len(folders) if ask_folders else len(plain)
    en, de, fr = ("subfolders", "Unterordner", "sous-dossiers") if ask_folders else ("files", "Dateien", "fichiers")
    kind = "d" if ask_folders else "f"
    return answered(
        draw.task(
            {
                "en": [
                    "How many {en} are directly in {where}?",
                    "number of {en} in {where}, top level only?",
                    "Please count the {en} of {where} for me; don't look into deeper folders.",
                    "I want to know how many {en} the folder {where} itself contains, nothing below.",
                ],
                "de": ["Wie viele {de} liegen direkt in {where}?"],
                "fr": ["Combien de {fr} se trouvent directement dans {where} ?"],
            },
            where=where,
            en=en,
            de=de,
            fr=fr,
            files=files,
            steps=[shell(f"find {where} -mindepth 1 -maxdepth 1 -type {kind} | wc -l")],
            check=Check(says=[number_said(count)]),
        ),
        {
            "en": f"There are {count} {en} directly in {where}." if count > 1 else f"There is 1 in {where}.",
            "de": f"Direkt in {where} liegen {count} {de}.",
            "fr": f"Il y a {count} {fr} dans {where}.",
        },
    )


@template
def what_is_on_a_line(draw: Draw) -> Task:
    """A line by its number, from the beginning or the end; there may not be so many."""
    source, lines = draw.file(), draw.words(draw.randint(8, 30), LOWER)
    last, there = draw.random() < 0.3, draw.random() < 0.8
    at = len(lines) if last and there else draw.randint(3, len(lines)) if there else len(lines) + draw.randint(1, 9)
    en, de, pt = f"line {at}", f"Zeile {at}", f"na linha {at}"
    if last and there:
        en, de, pt = "the last line", "der letzten Zeile", "na última linha"
    return answered(
        draw.task(
            {
                "en": [
                    "What does {en} of {source} say?",
                    "{en} of {source}?",
                    "Please tell me what stands on {en} of {source}. If it has no such line, tell me that.",
                    "I'd like to know the content of {en} in {source}.",
                ],
                "de": ["Was steht in {de} von {source}?"],
                "pt": ["O que está {pt} de {source}?"],
            },
            source=source,
            en=en,
            de=de,
            pt=pt,
            files={source: text_of(lines)},
            steps=[shell(f"tail -n 1 {source}" if last and there else f"sed -n '{at}p' {source}")]
            + ([] if there else [shell(f"wc -l < {source}")]),
            check=Check(says=[said(lines[at - 1])] if there else [NOT_THERE + "|only|nur|só|apenas"]),
        ),
        by_case(
            {
                "en": f"There is no line {at}: {source} has {len(lines)} lines.",
                "de": f"Es gibt keine Zeile {at}: {source} hat {len(lines)} Zeilen.",
                "pt": f"Não há linha {at}: {source} tem {len(lines)} linhas.",
            },
            {
                "en": f"{en.capitalize()} of {source} says {lines[at - 1] if there else at}.",
                "de": f"Dort steht {lines[at - 1] if there else at}.",
                "pt": f"Lá está {lines[at - 1] if there else at}.",
            },
            there,
        ),
    )


@template
def same_or_different(draw: Draw) -> Task:
    """Two files that begin alike; if they differ, the line is asked for."""
    one, two, same = draw.file(), draw.file(), draw.random() < 0.35
    lines = [draw.sentence() for _ in range(draw.randint(6, 10))]
    at, other = draw.randrange(4, len(lines)), list(lines)
    if not same:
        other[at] = other[at].replace(" the ", " a ", 1) if " the " in other[at] else f"{other[at]}!"
    equal = (
        r"\b(?:same|identical|equal|alike|gleich|identisch|identiques?|mêmes?|pareils?|no difference\w*|not differ)\b"
    )
    return answered(
        draw.task(
            {
                "en": [
                    "Do {one} and {two} differ? If so, on which line?",
                    "is {two} identical to {one}, and if not, what line is different?",
                    "Tell me whether {one} and {two} are the same. If they are not, I need the number of the line.",
                    "I suspect that one line in {two} was changed compared to {one}. Which one is it, if any?",
                ],
                "de": ["Sind {one} und {two} gleich? Wenn nicht, welche Zeile ist anders?"],
                "fr": ["{one} et {two} sont-ils identiques ? Sinon, quelle ligne diffère ?"],
            },
            one=one,
            two=two,
            files={one: text_of(lines), two: text_of(other)},
            steps=[shell(f"diff {one} {two}")],
            check=Check(says=[f"{equal}|{NOT_THERE}"] if same else [number_said(at + 1)]),
        ),
        by_case(
            {
                "en": f"They differ on line {at + 1}.",
                "de": f"Nein, Zeile {at + 1} ist anders.",
                "fr": f"Non, la ligne {at + 1} diffère.",
            },
            {
                "en": f"{one} and {two} are the same; no line is different.",
                "de": f"Ja, {one} und {two} sind gleich.",
                "fr": f"Oui, {one} et {two} sont identiques.",
            },
            same,
        ),
    )


@template
def how_often_in_a_text(draw: Draw) -> Task:
    """Occurrences, not lines; perhaps none."""
    source, word = draw.file(), draw.word(LOWER)
    forms = ["{0} and {0}", "no {0} for {1}", "{0}, {0}, {0}", "{1}", "{1} or {1}"]
    lines = [draw.choice(forms[3:] if draw.random() < 0.5 else forms) for _ in range(draw.randint(4, 10))]
    text = text_of(each.format(word, draw.word(LOWER)) for each in lines)
    count = sum(each.count("{0}") for each in lines)
    return answered(
        draw.task(
            {
                "en": [
                    "How often does {word} occur in {source}? It may stand on a line more than once.",
                    "count {word} in {source}, all of them, not just lines",
                    "Tell me the number of times that {source} says {word}; several on a line count as several.",
                    "I'd like to know how many {word} there are in the text {source} altogether.",
                ],
                "de": ["Wie oft steht {word} insgesamt in {source}?"],
                "es": ["¿Cuántas veces aparece {word} en total en {source}?"],
            },
            word=word,
            source=source,
            files={source: text},
            steps=[shell(f"grep -ow {word} {source} | wc -l")],
            check=Check(says=[number_said(count) if count else f"{NOT_THERE}|{number_said(0)}"]),
        ),
        {
            "en": f"{word} occurs {count} times in {source}."
            if count
            else f"{word} does not occur in {source}: 0 times.",
            "de": f"{word} steht {count}-mal in {source}.",
            "es": f"{word} aparece {count} veces en {source}.",
        },
    )


@template
def which_files_are_empty(draw: Draw) -> Task:
    """Files of zero bytes, named; or none."""
    where = draw.folder()
    names = [draw.file(draw.choice(["txt", "csv", "log"])) for _ in range(draw.randint(3, 7))]
    empty = draw.sample(names, draw.choice([0, 1, 2, 2, 3]))
    files = {f"{where}/{each}": "" if each in empty else f"{draw.sentence()}\n" for each in names}
    listed = ", ".join(sorted(empty))
    rest = [each for each in names if each not in empty]
    return answered(
        draw.task(
            {
                "en": [
                    "Which files in {where} are empty? Name only these.",
                    "any empty files in {where}? which?",
                    "Please tell me the names of the files in {where} that have no content at all.",
                    "I'd like to know which files of {where} have zero bytes.",
                ],
                "de": ["Welche Dateien in {where} sind leer?"],
                "fr": ["Quels fichiers de {where} sont vides ?"],
            },
            where=where,
            files=files,
            steps=[shell(f"find {where} -type f -empty")],
            check=Check(says=[*map(said, empty), unsaid(rest)] if empty else [NOT_THERE]),
        ),
        by_case(
            {
                "en": f"No file in {where} is empty.",
                "de": f"Keine Datei in {where} ist leer.",
                "fr": f"Aucun fichier de {where} n'est vide.",
            },
            {"en": f"Empty: {listed}.", "de": f"Leer sind: {listed}.", "fr": f"Fichiers vides : {listed}."},
            empty,
        ),
    )


@template
def is_the_file_there(draw: Draw) -> Task:
    """Is there a file, and where; it may be in a deeper folder, or only one that looks alike is there."""
    name, there = draw.file(draw.choice(["txt", "csv", "md"])), draw.random() < 0.65
    stem, _, ending = name.rpartition(".")
    folders = [draw.folder(), f"{draw.folder()}/{draw.folder()}", draw.folder()]
    paths = [f"{each}/{draw.file()}" for each in folders] + [f"{folders[0]}/{stem}s.{ending}"]
    where = draw.choice(folders)
    files = filled(draw, [*paths, f"{where}/{name}"] if there else paths)
    return answered(
        draw.task(
            {
                "en": [
                    "Is there a file {name} anywhere in here? In which folder?",
                    "where is {name}? say so if it doesn't exist",
                    "I have lost {name}. Which folder is it in, if it is here at all?",
                    "Find {name} for me and tell me its folder. Maybe it does not exist any more.",
                ],
                "de": ["Gibt es hier irgendwo die Datei {name}? In welchem Ordner?"],
                "es": ["¿Hay aquí un archivo {name}? ¿En qué carpeta?"],
            },
            name=name,
            files=files,
            steps=[shell(f"find . -name {name}")],
            check=Check(says=[affirmed(where)] if there else [NOT_THERE]),
        ),
        by_case(
            {
                "en": f"There is no {name} here.",
                "de": f"Eine Datei {name} gibt es hier nicht.",
                "es": f"No hay ningún archivo {name} aquí.",
            },
            {"en": f"{name} is in {where}.", "de": f"{name} liegt in {where}.", "es": f"{name} está en {where}."},
            there,
        ),
    )
