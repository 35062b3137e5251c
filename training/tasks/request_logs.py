"""Tasks with logs of requests: addresses, paths, how long they took."""

from collections import Counter
from typing import NamedTuple

from training.tasks.draw import Draw, template
from training.tasks.figures import quotient, told
from training.tasks.task import Check, Task, finish, shell


class _Request(NamedTuple):
    time: str
    address: str
    method: str
    path: str
    status: int
    took: int

    @property
    def line(self) -> str:
        return f"{self.time} {self.address} {self.method} {self.path} {self.status} {self.took}ms"


def _requests(draw: Draw, low: int = 6, high: int = 14) -> list[_Request]:
    base = f"10.{draw.randint(0, 40)}.{draw.randint(0, 99)}"
    addresses = [f"{base}.{each}" for each in draw.sample(range(2, 60), draw.randint(2, 5))]
    if draw.random() < 0.4:
        addresses.append(f"{addresses[0]}{draw.randint(0, 4)}")
    paths = [f"/{each.lower()}" for each in draw.words(4)]
    count = draw.randint(low, high)
    times = sorted(draw.sample(range(8 * 3600, 19 * 3600), count))
    took = draw.sample(range(3, 2400), count)
    return [
        _Request(
            f"{time // 3600:02}:{time // 60 % 60:02}:{time % 60:02}",
            draw.choice(addresses),
            draw.choice(["GET", "GET", "GET", "POST", "PUT"]),
            draw.choice(paths),
            draw.choice([200, 200, 200, 301, 404, 500, 503]),
            each,
        )
        for time, each in zip(times, took, strict=True)
    ]


def _log(requests: list[_Request]) -> str:
    return "".join(f"{each.line}\n" for each in requests)


@template
def log_different_addresses(draw: Draw) -> Task:
    """How many there are, or which, in the order of the log."""
    requests = _requests(draw)
    addresses = list(dict.fromkeys(each.address for each in requests))
    source, target = draw.file("log"), draw.file()
    number = draw.random() < 0.5
    if number:
        words = ("how many different addresses", "wie viele verschiedene Adressen", "cuántas direcciones distintas")
        command, right = f"awk '{{print $2}}' {source} | sort -u | wc -l", [str(len(addresses))]
    else:
        words = ("each address once", "jede Adresse einmal", "cada dirección una sola vez")
        command, right = f"awk '!seen[$2]++ {{print $2}}' {source}", addresses
    verb = ("there are", "es gibt", "hay") if number else ("that occurs", "die vorkommt", "que aparece")
    return draw.task(
        {
            "en": [
                "Note in {target} {what} {verb} in {source}.",
                "{source} -> {target}: {what} {verb} in the log",
                "Could you find out {what} {verb} in {source}, and put the result in {target}?",
                "What I'd like to have in {target}: {what} {verb} in the log {source}.",
            ],
            "de": ["Schreib in {target}, {was} {gibt} in {source}."],
            "es": ["Anota en {target} {que} {hay} en {source}."],
        },
        source=source,
        target=target,
        what=words[0],
        was=words[1],
        que=words[2],
        verb=verb[0],
        gibt=verb[1],
        hay=verb[2],
        files={source: _log(requests)},
        steps=[
            shell(f"{command} | tee {target}"),
            finish(f"{source} has {len(addresses)} different addresses; {target} says {'so' if number else 'which'}."),
        ],
        check=Check(unordered={target: right}),
    )


@template
def log_slowest_request(draw: Draw) -> Task:
    """By number: 90ms is less than 1000ms."""
    requests = _requests(draw)
    slow = draw.random() < 0.7
    best = (max if slow else min)(requests, key=lambda each: each.took)
    source, target = draw.file("log"), draw.file()
    whole = draw.random() < 0.5
    word = ("slowest", "langsamste", "plus lente") if slow else ("fastest", "schnellste", "plus rapide")
    what = (
        ("the whole line", "die ganze Zeile", "toute la ligne")
        if whole
        else ("only its path", "nur den Pfad", "seulement le chemin")
    )
    keys = f"sed 's/ms$//' {source} | sort -k6,6{'nr' if slow else 'n'} | head -n 1"
    done = f"{keys} | sed 's/$/ms/' | tee {target}" if whole else f"{keys} | awk '{{print $4}}' | tee {target}"
    return draw.task(
        {
            "en": [
                "Which request in {source} was the {word}? Store {what} in {target}.",
                "{word} request of {source}, {what}, into {target}",
                "Please look for the {word} request in {source} and write {what} to {target}.",
                "I want to know the {word} one of the requests in {source}: {what}, saved as {target}.",
            ],
            "de": ["Such in {source} die {deutsch} Anfrage und schreib {was} in {target}."],
            "fr": ["Trouve dans {source} la requête la {francais} et écris {quoi} dans {target}."],
        },
        source=source,
        target=target,
        word=word[0],
        what=what[0],
        deutsch=word[1],
        was=what[1],
        francais=word[2],
        quoi=what[2],
        files={source: _log(requests)},
        steps=[shell(done), finish(f"The {word[0]} request took {best.took} ms; {target} has {what[0]}.")],
        check=Check(files={target: best.line if whole else best.path}),
    )


@template
def log_paths_of_status(draw: Draw) -> Task:
    """The status at its place; other numbers may look like it."""
    requests = _requests(draw, 7)
    status = draw.choice([each.status for each in requests])
    requests.append(requests[-1]._replace(status=204, took=status, path=f"/{status}"))
    source, target = draw.file("log"), draw.file()
    paths = sorted({each.path for each in requests if each.status == status})
    return draw.task(
        {
            "en": [
                "Which paths in {source} were answered with {status}? Each once, in alphabetical order, in {target}.",
                "paths with status {status} from {source}, sorted, no repeats -> {target}",
                "Please list in {target} every path of {source} that got the status {status}, sorted and only once.",
                "I need the different paths whose status is {status} in {source}; from A to Z, as {target}.",
            ],
            "de": ["Schreib die Pfade mit Status {status} aus {source} sortiert und je einmal in {target}."],
            "pt": ["Liste em {target}, em ordem e sem repetir, os caminhos de {source} com status {status}."],
        },
        source=source,
        target=target,
        status=status,
        files={source: _log(requests)},
        steps=[
            shell(f"awk '$5 == {status} {{print $4}}' {source} | LC_ALL=C sort -u > {target}"),
            shell(f"cat {target}"),
            finish(f"{target} has the {len(paths)} paths with the status {status}."),
        ],
        check=Check(files={target: "\n".join(paths)}),
    )


@template
def log_requests_of_address(draw: Draw) -> Task:
    """10.0.0.1 is not 10.0.0.12; the answer is said."""
    requests = _requests(draw)
    address = draw.choice([each.address for each in requests])
    if draw.random() < 0.7:
        requests += [each._replace(address=f"{address}{draw.randint(0, 9)}") for each in requests[:2]]
    count = sum(each.address == address for each in requests)
    source = draw.file("log")
    task = draw.task(
        {
            "en": [
                "How many requests came from {address} according to {source}?",
                "{source}: number of requests by {address}?",
                "Would you count for me how often {address} made a request in {source}?",
                "I'd like to know how many lines of {source} belong to {address}, exactly this address.",
            ],
            "de": ["Wie viele Anfragen kamen laut {source} von {address}?"],
            "fr": ["Combien de requêtes viennent de {address} dans {source} ?"],
            "es": ["¿Cuántas peticiones hizo {address} según {source}?"],
        },
        source=source,
        address=address,
        files={source: _log(requests)},
        steps=[
            shell(f"awk '$2 == \"{address}\"' {source} | wc -l"),
            finish(f"{count} requests came from {address}."),
        ],
        check=Check(says=[rf"(?<![\d.]){count}(?![\d.]\d|\d)"]),
    )
    return told(
        task,
        {
            "de": f"Von {address} kamen {count} Anfragen.",
            "fr": f"{count} requêtes viennent de {address}.",
            "es": f"{address} hizo {count} peticiones.",
        },
    )


@template
def log_busiest_address(draw: Draw) -> Task:
    """One address has more lines than the others."""
    requests = _requests(draw)
    address = draw.choice(requests).address
    counted = Counter(each.address for each in requests)
    while max((n for each, n in counted.items() if each != address), default=0) >= counted[address]:
        requests.append(draw.choice(requests)._replace(address=address, time=f"19:0{draw.randint(0, 9)}:11"))
        counted[address] += 1
    source, target = draw.file("log"), draw.file()
    return draw.task(
        {
            "en": [
                "Write the address with the most requests in {source} to {target}, without the count.",
                "top address of {source} -> {target}, just the address",
                "Which address occurs most in {source}? Only this address belongs in {target}.",
                "Somebody sends far too much. Please find the address with most lines in {source} and name it "
                "in {target}.",
            ],
            "de": ["Welche Adresse hat die meisten Zeilen in {source}? Nur sie kommt in {target}."],
            "es": ["Escribe en {target} la dirección con más peticiones de {source}, sin el número."],
        },
        source=source,
        target=target,
        files={source: _log(requests)},
        steps=[
            shell(f"awk '{{print $2}}' {source} | sort | uniq -c | sort -nr"),
            shell(f"echo {address} > {target}"),
            finish(f"{address} has the most requests, {counted[address]}; {target} names it."),
        ],
        check=Check(files={target: address}),
    )


@template
def log_average_time(draw: Draw) -> Task:
    """Of all requests or of one method, rounded."""
    requests = _requests(draw)
    method = draw.choice(["", requests[0].method])
    digits = draw.choice([0, 1, 2])
    took = [each.took for each in requests if not method or each.method == method]
    source, target = draw.file("log"), draw.file()
    kind = f"{method} requests" if method else "requests"
    places = ["without decimals", "with one decimal", "with two decimals"][digits]
    test = f'$3 == "{method}" ' if method else ""
    return draw.task(
        {
            "en": [
                "How long did the {kind} in {source} take on average? Put the milliseconds, {places}, into {target}.",
                "mean time of {kind} in {source} (ms, {places}, number only) -> {target}",
                "Please work out the average duration of the {kind} in {source}, in ms and {places}, and save "
                "it to {target}.",
                "I want {target} to contain the mean duration in ms of the {kind} from {source}, a number {places}.",
            ],
            "de": [
                "Wie lange dauerten die Anfragen{art} in {source} im Mittel? Nur die Zahl in ms, {stellen}, in "
                "{target}."
            ],
            "fr": [
                "Quelle est la durée moyenne en ms des requêtes{genre} de {source}, {decimales} ? Écris-la dans "
                "{target}."
            ],
        },
        source=source,
        target=target,
        kind=kind,
        places=places,
        art=f" mit {method}" if method else "",
        stellen=["ohne Nachkommastelle", "mit einer Nachkommastelle", "mit zwei Nachkommastellen"][digits],
        genre=f" {method}" if method else "",
        decimales=["sans décimale", "avec une décimale", "avec deux décimales"][digits],
        files={source: _log(requests)},
        steps=[
            shell(f"awk '{test}{{s += $6; n++}} END {{printf \"%.{digits}f\\n\", s / n}}' {source} | tee {target}"),
            finish(f"{target} has the average time of the {kind} in ms, {places}."),
        ],
        check=Check(either={target: quotient(sum(took), len(took), digits)}),
    )


@template
def log_addresses_hidden(draw: Draw) -> Task:
    """Every address becomes the same word; times and numbers stay."""
    requests = _requests(draw, 4, 9)
    word = draw.choice(["HIDDEN", "x.x.x.x", "-", "ADDRESS", "anonymous"])
    source = draw.file("log")
    same = draw.random() < 0.5
    target = source if same else draw.file("log")
    where = (
        ("in that file", "in der Datei selbst", "en el mismo archivo")
        if same
        else (f"in a copy named {target}", f"in einer Kopie {target}", f"en una copia {target}")
    )
    flag, into = ("-i ", "") if same else ("", f" > {target}")
    return draw.task(
        {
            "en": [
                "Replace each address in {source} by {word}, {where}.",
                "anonymise {source} {where}: {word} instead of the addresses",
                "Could you hide the addresses of {source} {where}? They should all read {word}.",
                "Nobody may see the addresses in {source}. Put {word} in their place, {where}.",
            ],
            "de": ["Ersetze alle Adressen in {source} durch {word}, {wo}."],
            "es": ["Sustituye cada dirección de {source} por {word}, {donde}."],
        },
        source=source,
        word=word,
        where=where[0],
        wo=where[1],
        donde=where[2],
        files={source: _log(requests)},
        steps=[
            shell(f"sed {flag}-E 's/[0-9]+(\\.[0-9]+){{3}}/{word}/' {source}{into}"),
            shell(f"head -n 3 {target}"),
            finish(f"The addresses in {target} are replaced by {word}."),
        ],
        check=Check(files={target: _log([each._replace(address=word) for each in requests])}),
    )
