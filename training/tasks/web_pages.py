"""Tasks about HTML pages, style sheets and Markdown documents."""

from collections.abc import Sequence

from training.tasks.code_parts import CHANGED, WRITTEN, done, exact, read_first, text
from training.tasks.draw import Draw, template
from training.tasks.pools import PEOPLE
from training.tasks.task import Check, Task, shell, write

COLOURS = (
    "teal",
    "navy",
    "maroon",
    "olive",
    "crimson",
    "indigo",
    "tomato",
    "orchid",
    "sienna",
    "khaki",
    "coral",
    "plum",
)
SITES = ("meadow", "lantern", "harvest", "saddle", "pebble", "cinder", "marble", "thistle", "willow", "cobalt", "amber")
PHRASES = (
    "Small Boats",
    "Bread and Butter",
    "The Old Mill",
    "Winter Tales",
    "Open Doors",
    "Three Rivers",
    "Paper Birds",
    "Northern Lights",
    "Slow Food",
    "Second Spring",
    "House of Games",
    "Village Choir",
    "Long Walks",
    "Blue Notes",
)
"""Titles of pages."""


def _inside(page: str, tag: str) -> str:
    """Return a command that prints what stands in the elements of a page, in order, one per line."""
    return (
        "python3 -I -c \"import re; print(*[' '.join(each.split()) for each in"
        f" re.findall(r'(?is)<{tag}(?:\\s[^>]*)?>(.*?)</{tag}>', open('{page}').read())], sep='\\n')\""
    )


def _links(page: str) -> str:
    """Return a command that prints where the links of a page go, and their words."""
    return (
        "python3 -I -c \"import re; [print(to, ' '.join(words.split())) for to, words in"
        f" re.findall(r'(?is)<a\\s[^>]*href=.([^>]*?)[\\x22\\x27][^>]*>(.*?)</a>', open('{page}').read())]\""
    )


def page_of(title: str, *body: str, head: Sequence[str] = ()) -> str:
    """Return a page."""
    return text(
        "<!DOCTYPE html>",
        '<html lang="en">',
        "<head>",
        '  <meta charset="utf-8">',
        f"  <title>{title}</title>",
        *(f"  {each}" for each in head),
        "</head>",
        "<body>",
        *(f"  {each}" for each in body),
        "</body>",
        "</html>",
    )


@template
def page_from_facts(draw: Draw) -> Task:
    """A new page with title, heading and paragraphs."""
    page, title, heading = draw.file("html"), *draw.sample(PHRASES, 2)
    sentences = [draw.sentence() for _ in range(draw.randint(1, 3))]
    shown = " / ".join(sentences)
    count = len(sentences)
    task = draw.task(
        {
            "en": [
                "Write an HTML page {page} with the title {title}, a heading (h1) {heading} and for each of these"
                " sentences a"
                " paragraph: {shown}",
                "{page}: html, title {title}, h1 {heading}, paragraphs: {shown}",
                "I need a simple web page in {page}. The browser tab should say {title}, the main heading"
                " {heading}; below it"
                " {count} paragraph(s), separated here by slashes: {shown}",
                "Could you create {page} for me? Title: {title}. Heading h1: {heading}. Paragraphs (divided by"
                " /): {shown}",
            ],
            "de": [
                "Schreib eine HTML-Seite {page} mit dem Titel {title}, der Überschrift (h1) {heading} und den Absätzen"
                " (durch / getrennt): {shown}"
            ],
            "es": [
                "Crea una página HTML {page} con el título {title}, un h1 {heading} y estos párrafos (separados"
                " por /): {shown}",
            ],
        },
        page=page,
        title=title,
        heading=heading,
        shown=shown,
        count=count,
        files={},
        steps=[write(page, page_of(title, f"<h1>{heading}</h1>", *(f"<p>{each}</p>" for each in sentences)))],
        check=Check(
            prints={_inside(page, "title"): title, _inside(page, "h1"): heading, _inside(page, "p"): text(*sentences)},
            free=[page],
        ),
        **exact(title, heading, shown),
    )
    return done(task, WRITTEN, file=page)


@template
def page_of_links(draw: Draw) -> Task:
    """A list of links from a text file with names and addresses, in the order of the file."""
    source, page, title = draw.file(), draw.file("html"), draw.choice(PHRASES)
    between = draw.choice([" ", ", ", " = ", "\t"])
    entries = [(word, f"https://{draw.word(SITES)}.example/{word.lower()}") for word in draw.words(draw.randint(2, 5))]
    lines = [f"{word}{between}{address}" for word, address in entries]
    items = [f'<li><a href="{address}">{word}</a></li>' for word, address in entries]
    task = draw.task(
        {
            "en": [
                "Make a page {page} with the heading {title} (h1, and title of the page) and a list of links: one"
                " for each"
                " line of {source}, in the same order.",
                "html from {source}: {page}, every line has name and address, make them links in a list (ul)."
                " title and h1:"
                " {title}",
                "{source} has names and addresses. I'd like a web page {page} that lists them as links, the names"
                " being the"
                " text to click on. Title and heading: {title}",
                "Can you turn {source} into {page}, an HTML page named {title} (title and h1) with an unordered"
                " list of links?",
            ],
            "de": [
                "Mach aus {source} eine HTML-Seite {page}: Titel und h1 {title}, darunter eine Liste von Links, einer"
                " pro Zeile."
            ],
            "fr": [
                "Fais de {source} une page {page} : titre et h1 {title}, puis une liste de liens, un par ligne du"
                " fichier.",
            ],
        },
        source=source,
        page=page,
        title=title,
        files={source: text(*lines)},
        steps=[
            *read_first({source: text(*lines)}, source),
            write(page, page_of(title, f"<h1>{title}</h1>", "<ul>", *(f"  {each}" for each in items), "</ul>")),
        ],
        check=Check(
            prints={
                _links(page): text(*(f"{address} {word}" for word, address in entries)),
                _inside(page, "title"): title,
                _inside(page, "h1"): title,
                f"grep -o '<li' {page} | wc -l": str(len(entries)),
            },
            free=[page],
        ),
        **exact(title),
    )
    said = {
        "en": "{page} has the {count} links of {source}, in the same order.",
        "de": "{page} hat die {count} Links aus {source}, in der gleichen Reihenfolge.",
        "fr": "{page} contient les {count} liens de {source}, dans le même ordre.",
    }
    return done(task, said, page=page, count=len(entries), source=source)


@template
def title_and_not_the_heading(draw: Draw) -> Task:
    """Title and heading are alike, and only one is to change."""
    page, old, new = draw.file("html"), *draw.sample(PHRASES, 2)
    of_title = draw.random() < 0.5
    body = [f"<p>{draw.sentence()}</p>" for _ in range(draw.randint(1, 2))]
    before = page_of(old, f"<h1>{old}</h1>", *body)
    tag, other = ("title", "h1") if of_title else ("h1", "title")
    after = before.replace(f"<{tag}>{old}<", f"<{tag}>{new}<")
    en, de, pt = (
        ("title", "den Titel", "o título (title)") if of_title else ("h1 heading", "die Überschrift h1", "o h1")
    )
    task = draw.task(
        {
            "en": [
                f"In {{page}}, the {en} shall be {{new}}. The {other} stays {{old}}.",
                f"{{page}}: set {en} to {{new}}, don't touch the {other}",
                f"Please give {{page}} a new {en}, {{new}}, and leave everything else in the page.",
                f"Would you change only the {en} of {{page}} from {{old}} to {{new}}?",
            ],
            "de": [f"Ändere in {{page}} nur {de} in {{new}}."],
            "pt": [f"Mude em {{page}} só {pt} para {{new}}."],
        },
        page=page,
        old=old,
        new=new,
        files={page: before},
        steps=[shell(f"sed -i 's|<{tag}>{old}</{tag}>|<{tag}>{new}</{tag}>|' {page} && grep -n '{tag}>' {page}")],
        check=Check(files={page: after}),
        **exact(old, new),
    )
    return done(task, CHANGED, file=page)


def _sheet(rules: Sequence[tuple[str, Sequence[tuple[str, str]]]]) -> str:
    blocks = [text(f"{name} {{", *(f"  {key}: {value};" for key, value in rows), "}") for name, rows in rules]
    return "\n".join(blocks)


@template
def style_of_one_selector(draw: Draw) -> Task:
    """Another selector has the same line."""
    sheet = draw.file("css")
    names = draw.sample(["h1", "h2", "p", "a", ".note", ".box", "nav", "footer", "#main"], 3)
    colour, other, new = draw.words(3, COLOURS)
    key = draw.choice(["color", "background-color", "border-color"])
    at = draw.randrange(2)

    def rules(changed: str) -> str:
        values = [changed if n == at else colour for n in range(2)] + [other]
        sizes = ["4px", "6px", "9px"]
        return _sheet(
            [(name, [(key, value), ("margin", size)]) for name, value, size in zip(names, values, sizes, strict=True)]
        )

    before = rules(colour)
    selector = names[at].replace(".", r"\.")
    task = draw.task(
        {
            "en": [
                "In {sheet}, {key} of {name} should be {new}. The other rules stay.",
                "{sheet}: {name} gets {key} {new}",
                "I want the {key} of {name} to be {new} instead of {old}; please edit {sheet}, only that rule.",
                "Can you set {key} to {new} for {name} in {sheet}? Nothing else has to change.",
            ],
            "de": ["Setz in {sheet} {key} von {name} auf {new}. Die anderen Regeln bleiben."],
            "fr": ["Dans {sheet}, mets {key} de {name} à {new}, sans changer les autres règles."],
        },
        sheet=sheet,
        key=key,
        name=names[at],
        old=colour,
        new=new,
        files={sheet: before},
        steps=[shell(f"sed -i '/^{selector} {{/,/}}/s/{key}: {colour};/{key}: {new};/' {sheet} && cat {sheet}")],
        check=Check(files={sheet: rules(new)}),
    )
    return done(task, CHANGED, file=sheet)


@template
def style_sheet_and_its_link(draw: Draw) -> Task:
    """A new style sheet, and the page that loads it."""
    page, sheet, title = draw.file("html"), draw.file("css"), draw.choice(PHRASES)
    colour, ground = draw.words(2, COLOURS)
    before = page_of(title, f"<h1>{title}</h1>", f"<p>{draw.sentence()}</p>")
    link = f'<link rel="stylesheet" href="{sheet}">'
    after = before.replace("</title>\n", f"</title>\n  {link}\n")
    wanted = f"{sheet} {colour} {ground}"
    check = (
        f"python3 -I -c \"import re; page, css = open('{page}').read(), open('{sheet}').read();"
        " head = page[page.index('<head'):page.index('</head')];"
        " print(*re.findall(r'<link[^>]*href=.([^\\s>]*?)[\\x22\\x27]', head),"
        " *re.findall(r'(?s)h1\\s*{[^}]*?(?<!-)color:\\s*([a-z]+)', css),"
        " *re.findall(r'(?s)body\\s*{[^}]*?background(?:-color)?:\\s*([a-z]+)', css))\""
    )
    task = draw.task(
        {
            "en": [
                "Write a style sheet {sheet}: h1 has the color {colour}, body the background-color {ground}. Link"
                " it in the"
                " head of {page}.",
                "new {sheet} (h1 color {colour}, body background-color {ground}) and load it in {page}",
                "My page {page} looks dull. Please make {sheet} with {colour} as color of h1 and {ground} as"
                " background-color"
                " of body, and let the page use it.",
                "Could {page} get a style sheet? Name it {sheet}; color of h1: {colour}; background-color of"
                " body: {ground}.",
            ],
            "de": ["Schreib {sheet} (h1: color {colour}, body: background-color {ground}) und binde es in {page} ein."],
            "es": [
                "Escribe {sheet} (h1: color {colour}, body: background-color {ground}) y enlázalo en el head de"
                " {page}.",
            ],
        },
        page=page,
        sheet=sheet,
        colour=colour,
        ground=ground,
        files={page: before},
        steps=[
            write(sheet, _sheet([("h1", [("color", colour)]), ("body", [("background-color", ground)])])),
            shell(f"sed -i 's|</title>|&\\n  {link}|' {page} && grep -n link {page}"),
        ],
        check=Check(
            prints={
                check: wanted,
                f"grep -v '<link' {page}": text(*(line for line in after.split("\n") if "<link" not in line)),
            },
            free=[page, sheet],
        ),
    )
    said = {
        "en": "{sheet} is written, and {page} links it.",
        "de": "{sheet} ist geschrieben und in {page} eingebunden.",
        "es": "{sheet} está escrito y enlazado en {page}.",
    }
    return done(task, said, sheet=sheet, page=page)


@template
def same_footer_in_all_pages(draw: Draw) -> Task:
    """A year, a name or an address in the footers of several pages; the texts have it, too."""
    pages = [draw.file("html") for _ in range(draw.randint(2, 4))]
    old, new = sorted(draw.sample(range(2012, 2031), 2))
    owner = draw.word(PEOPLE)
    files = {
        page: page_of(draw.choice(PHRASES), f"<p>In {old}: {draw.sentence()}</p>", f"<footer>{owner}, {old}</footer>")
        for page in pages
    }
    task = draw.task(
        {
            "en": [
                "All html pages have the year {old} in the footer. Make it {new} there, and only there.",
                "footer year {old} -> {new} in every .html, but not in the text of the pages",
                "The footers of my web pages say {old}; it is {new} now. Please update them. The paragraphs must"
                " not change.",
                "Can you put {new} in place of {old} in the footer of each .html file?",
            ],
            "de": ["In der Fußzeile (footer) aller HTML-Seiten steht {old}. Ändere das in {new}, aber nur dort."],
            "fr": ["Le pied de page (footer) de toutes les pages html dit {old}. Mets {new}, mais seulement là."],
        },
        old=old,
        new=new,
        files=files,
        steps=[shell(f"sed -i '/<footer>/s/{old}/{new}/' *.html && grep -n footer *.html")],
        check=Check(files={page: found.replace(f", {old}<", f", {new}<") for page, found in files.items()}),
    )
    said = {
        "en": "The footers of all {count} pages say {new} now; the paragraphs are as they were.",
        "de": "In den Fußzeilen aller {count} Seiten steht jetzt {new}; die Absätze sind unverändert.",
        "fr": "Les pieds des {count} pages disent {new} ; les paragraphes n'ont pas changé.",
    }
    return done(task, said, count=len(set(pages)), new=new)


@template
def link_added_to_a_menu(draw: Draw) -> Task:
    """At the end of the list or at its beginning; every page, or the one that is named."""
    page, *targets = (draw.file("html") for _ in range(4))
    words = [target.rsplit(".", 1)[0].capitalize() for target in targets]
    items = [f'    <li><a href="{target}">{word}</a></li>' for target, word in zip(targets, words, strict=True)]
    first = draw.random() < 0.4
    title = draw.choice(PHRASES)

    def menu(shown: Sequence[str]) -> str:
        return page_of(title, "<ul>", *(each[2:] for each in shown), "</ul>", f"<p>{title}</p>")

    before, added = menu(items[:2]), items[2]
    after = menu([added, *items[:2]] if first else [*items[:2], added])
    place = {"en": "first", "de": "an den Anfang", "es": "al principio"} if first else {}
    place = place or {"en": "last", "de": "ans Ende", "es": "al final"}
    sed = f"/<ul>/a\\    {added.strip()}" if first else f"/<\\/ul>/i\\    {added.strip()}"
    shown = [*words[:2], words[2]] if not first else [words[2], *words[:2]]
    order = {words[at]: targets[at] for at in range(3)}
    task = draw.task(
        {
            "en": [
                f"Put a link to {{target}} with the text {{word}} into the list of {{page}}, as the {place['en']}"
                " entry.",
                f"{{page}}: add {{word}} ({{target}}) to the list of links, {place['en']} position",
                f"My page {{page}} has a list of links. Please add one that says {{word}} and goes to {{target}};"
                " it should"
                f" come {place['en']}.",
                f"Could the list in {{page}} have a further link {{word}} to {{target}}? Place it {place['en']}.",
            ],
            "de": [f"Setz in {{page}} einen Link auf {{target}} mit dem Text {{word}} {place['de']} der Liste."],
            "es": [f"Añade en {{page}} un enlace a {{target}} con el texto {{word}} {place['es']} de la lista."],
        },
        page=page,
        target=targets[2],
        word=words[2],
        files={page: before},
        steps=[*read_first({page: before}, page), shell(f"sed -i '{sed}' {page} && grep -n href {page}")],
        check=Check(
            prints={
                _links(page): text(*(f"{order[word]} {word}" for word in shown)),
                f"grep -o '<li' {page} | wc -l": "3",
                f"grep -v '<li' {page}": text(*(line for line in after.split("\n") if "<li" not in line)),
            },
            free=[page],
        ),
    )
    return done(task, CHANGED, file=page)


@template
def readme_from_facts(draw: Draw) -> Task:
    """A README with headings in a given order, and what belongs under them."""
    name, program = draw.choice(PHRASES), draw.file("py")
    target = draw.choice(["README.md", draw.file("md")])
    person, year = draw.word(PEOPLE), draw.randint(2015, 2030)
    sentence = draw.sentence()
    heads = draw.sample(["Use", "Author", "About"], draw.randint(2, 3))
    under = {"Use": f"python3 {program}", "Author": f"{person}, {year}", "About": sentence}
    asked = "; ".join(f"{head}: {under[head]}" for head in heads)
    body = [line for head in heads for line in ("", f"## {head}", "", under[head])]
    task = draw.task(
        {
            "en": [
                "Write {target} in Markdown: the title is {name} (one #), then these sections (two ##), each with"
                " its text:"
                " {asked}",
                "{target}, markdown. # {name}, then ## sections with text. {asked}",
                "I need a {target} for my project {name}. Under the main heading there should be second-level"
                " headings in"
                " this order, with the text after the colon below each. {asked}",
                "Could you create {target}? Main heading {name}; sections of the second level as follows. {asked}",
            ],
            "de": ["Schreib {target} (Markdown): Titel {name}, dann Abschnitte mit ## und dem Text darunter. {asked}"],
            "pt": ["Escreva {target} em Markdown: título {name}, depois seções com ## e o texto abaixo. {asked}"],
        },
        target=target,
        name=name,
        asked=asked,
        files={},
        steps=[write(target, text(f"# {name}", *body))],
        check=Check(
            prints={
                f"grep -v '^```' {target} | tr -d '`' | grep -v '^ *$'": text(
                    f"# {name}", *(line for line in body if line)
                )
            },
            free=[target],
        ),
        **exact(name, asked),
    )
    return done(task, WRITTEN, file=target)


@template
def table_in_markdown(draw: Draw) -> Task:
    """From a CSV file; the header is the header."""
    source, target = draw.file("csv"), draw.file("md")
    columns = draw.sample(["name", "place", "size", "price", "year", "rank"], draw.randint(2, 3))
    rows = [columns]
    rows += [
        [draw.word() if each in ("name", "place") else str(draw.amount()) for each in columns]
        for _ in range(draw.randint(2, 5))
    ]
    plain = f"tr -d ' ' < {target} | grep -v '^$' | grep -v '^[|:-]*$'"
    rule = "|" + " --- |" * len(columns)
    task = draw.task(
        {
            "en": [
                "Make a Markdown table out of {source} and save it as {target}.",
                "{source} to a markdown table -> {target}",
                "I'd like to have the rows of {source} in {target} as a table in Markdown, the first row being"
                " the header.",
                "Can you write {target} with a Markdown table that has all the rows of {source}?",
            ],
            "de": ["Mach aus {source} eine Markdown-Tabelle in {target}."],
            "fr": ["Fais de {source} un tableau Markdown dans {target}."],
        },
        source=source,
        target=target,
        files={source: text(*(",".join(row) for row in rows))},
        steps=[shell(f"sed -e 's/,/ | /g; s/.*/| & |/' -e '1a {rule}' {source} > {target} && cat {target}")],
        check=Check(
            prints={
                plain: text(*(f"|{'|'.join(row)}|" for row in rows)),
                f"grep -v '^ *$' {target} | sed -n 2p | tr -d ' :-' ": "|" * (len(columns) + 1),
            },
            free=[target],
        ),
    )
    said = {
        "en": "{target} has the {count} rows of {source} as a Markdown table.",
        "de": "{target} enthält die {count} Zeilen von {source} als Markdown-Tabelle.",
        "fr": "{target} contient les {count} lignes de {source} en tableau Markdown.",
    }
    return done(task, said, target=target, count=len(rows) - 1, source=source)


@template
def headings_of_a_document(draw: Draw) -> Task:
    """The headings of one level; a # in a block of code is none."""
    source, target = draw.file("md"), draw.file()
    heads = draw.words(draw.randint(2, 5))
    lines = [f"# {draw.choice(PHRASES)}", "", draw.sentence(), ""]
    for head in heads:
        lines += [f"## {head}", "", draw.sentence(), ""]
        if draw.random() < 0.3:
            lines += [f"### {draw.word()}", "", draw.sentence(), ""]
    task = draw.task(
        {
            "en": [
                "List the second-level headings (##) of {source} in {target}, one per line, without the signs.",
                "{target}: all ## headings of {source}, just their text",
                "I would like an overview of {source}: save the text of each heading that begins with ## (not #"
                " and not ###)"
                " in {target}.",
                "Which sections (##) does {source} have? Put their names into {target}, a line each.",
            ],
            "de": ["Schreib die Überschriften zweiter Ebene (##) von {source} nach {target}, ohne die Zeichen ##."],
            "es": ["Escribe en {target} los títulos de segundo nivel (##) de {source}, uno por línea y sin ##."],
        },
        source=source,
        target=target,
        files={source: text(*lines)},
        steps=[shell(f"sed -n 's/^## //p' {source} > {target} && cat {target}")],
        check=Check(files={target: text(*heads)}),
    )
    said = {
        "en": "{target} has the {count} section headings of {source}.",
        "de": "{target} enthält die {count} Überschriften von {source}.",
        "es": "{target} tiene los {count} títulos de {source}.",
    }
    return done(task, said, target=target, count=len(heads), source=source)


@template
def markdown_turned_into_a_page(draw: Draw) -> Task:
    """A short document becomes HTML: heading, paragraphs, list."""
    source, page = draw.file("md"), draw.file("html")
    title, sentence, words = draw.choice(PHRASES), draw.sentence(), draw.words(draw.randint(2, 4))
    bullet = draw.choice(["-", "*"])
    document = text(f"# {title}", "", sentence, "", *(f"{bullet} {word}" for word in words))
    body = [f"<h1>{title}</h1>", f"<p>{sentence}</p>", "<ul>", *(f"  <li>{word}</li>" for word in words), "</ul>"]
    task = draw.task(
        {
            "en": [
                "Turn {source} into an HTML page {page}: its heading as h1 and as title, the text as a paragraph,"
                " the list as"
                " ul with li.",
                "{source} as html in {page} please (title, h1, p, ul/li)",
                "I have {source} in Markdown and need it as a web page, {page}. The title of the page is the heading.",
                "Could you write {page}, the same as {source} but in HTML, with title, h1, p and ul?",
            ],
            "de": ["Mach aus {source} eine HTML-Seite {page}: Überschrift als h1 und title, Text als p, Liste als ul."],
            "pt": [
                "Transforme {source} em uma página HTML {page}: título como h1 e title, texto como p, lista como ul.",
            ],
        },
        source=source,
        page=page,
        files={source: document},
        steps=[*read_first({source: document}, source), write(page, page_of(title, *body))],
        check=Check(
            prints={
                _inside(page, "title"): title,
                _inside(page, "h1"): title,
                _inside(page, "p"): sentence,
                _inside(page, "li"): text(*words),
            },
            free=[page],
        ),
    )
    said = {
        "en": "{page} has the heading, the text and the list of {source} as HTML.",
        "de": "{page} enthält Überschrift, Text und Liste von {source} als HTML.",
        "pt": "{page} tem o título, o texto e a lista de {source} em HTML.",
    }
    return done(task, said, page=page, source=source)


@template
def address_changed_in_links(draw: Draw) -> Task:
    """A site has moved; a site whose name begins alike stays."""
    pages = [draw.file(draw.choice(["html", "md"])) for _ in range(draw.randint(2, 3))]
    old, new = draw.words(2, SITES)
    alike = draw.random() < 0.6
    files = {}
    for page in pages:
        rows = [f"https://{old}.example/{draw.word().lower()}" for _ in range(draw.randint(1, 2))]
        rows += [f"https://{old}-shop.example/{draw.amount()}"] if alike else []
        is_html = page.endswith("html")
        shown = [f'<p><a href="{row}">{old}</a></p>' if is_html else f"- [{old}]({row})" for row in rows]
        files[page] = (
            page_of(draw.choice(PHRASES), *shown) if is_html else text(f"# {draw.choice(PHRASES)}", "", *shown)
        )
    after = {page: found.replace(f"//{old}.example", f"//{new}.example") for page, found in files.items()}
    named = ", ".join(pages)
    task = draw.task(
        {
            "en": [
                "The site {old}.example has moved to {new}.example. Correct the links in {named}; other addresses"
                " and the words"
                " of the links stay.",
                "links to {old}.example must go to {new}.example now, files {named}. nothing else",
                "Please let all links in {named} that lead to https://{old}.example lead to"
                " https://{new}.example, and touch no"
                " other link.",
                "Could you update {named}? Each address at {old}.example becomes the same one at {new}.example.",
            ],
            "de": ["Die Seite {old}.example heißt jetzt {new}.example. Ändere die Links in {named}, sonst nichts."],
            "fr": ["Le site {old}.example est devenu {new}.example. Corrige les liens dans {named}, rien d'autre."],
        },
        old=old,
        new=new,
        named=named,
        files=files,
        steps=[
            shell(
                f"sed -i 's|//{old}\\.example|//{new}.example|g' {' '.join(pages)} && grep -n example {' '.join(pages)}"
            )
        ],
        check=Check(files=after),
        **exact(old, new),
    )
    said = {
        "en": "The links in {named} go to {new}.example now.",
        "de": "Die Links in {named} führen jetzt zu {new}.example.",
        "fr": "Les liens de {named} mènent maintenant à {new}.example.",
    }
    return done(task, said, named=named, new=new)
