"""Tasks with files that programs and machines are set up by: packages, versions, Docker, make, cron, hosts, nginx."""

from typing import Final

from training.tasks.draw import Draw, template
from training.tasks.figures import NOTHING, seen_first
from training.tasks.task import Check, Task, finish, shell

_PACKAGES: Final = (
    "rich",
    "attrs",
    "numpy",
    "pandas",
    "jinja2",
    "httpx",
    "pillow",
    "lxml",
    "tqdm",
    "redis",
    "scipy",
    "arrow",
)


def _version(draw: Draw) -> str:
    return f"{draw.randint(1, 9)}.{draw.randint(0, 30)}.{draw.randint(0, 9)}"


def _requirements(draw: Draw) -> tuple[str, dict[str, str]]:
    name = draw.choice([f"{draw.folder()}/requirements.txt", f"requirements-{draw.word().lower()}.txt"])
    packages = {each: f"=={_version(draw)}" for each in draw.sample(_PACKAGES, draw.randint(3, 6))}
    return name, packages


def _pinned(packages: dict[str, str]) -> str:
    return "".join(f"{name}{version}\n" for name, version in packages.items())


@template
def requirement_version(draw: Draw) -> Task:
    """A trap: another package begins with the same name."""
    source, packages = _requirements(draw)
    name = draw.choice(list(packages))
    if draw.random() < 0.7:
        packages = {f"{name}-{draw.choice(['extra', 'stubs', 'plus'])}": packages[name], **packages}
    new = _version(draw)
    text = _pinned(packages)
    return draw.task(
        {
            "en": [
                "Pin {name} to {new} in {source}.",
                "{name} in {source} has to be version {new}",
                "Could you raise or lower {name} to {new} in {source}? Only that package.",
                "We use {name} {new} now, please update {source}.",
            ],
            "de": ["Setz {name} in {source} auf Version {new}."],
            "fr": ["Passe {name} à la version {new} dans {source}."],
            "es": ["Cambia la versión de {name} en {source} a {new}."],
        },
        source=source,
        name=name,
        new=new,
        files={source: text},
        steps=[
            shell(f"sed -i 's/^{name}==.*/{name}=={new}/' {source}"),
            shell(f"cat {source}"),
            finish(f"{name} is pinned to {new} in {source}."),
        ],
        check=Check(files={source: _pinned({**packages, name: f"=={new}"})}),
    )


@template
def requirement_added_unless_there(draw: Draw) -> Task:
    """Perhaps it is there, in another version; or only a package whose name begins alike."""
    source, packages = _requirements(draw)
    there = draw.random() < 0.4
    name = draw.choice(list(packages)) if there else draw.choice([each for each in _PACKAGES if each not in packages])
    if not there and draw.random() < 0.5:
        packages[f"{name}-stubs"] = "==1.0.2"
    version = _version(draw)
    text = _pinned(packages)
    end = draw.choice(["", "\n"])
    old = text.rstrip("\n") + end
    return draw.task(
        {
            "en": [
                "Add {name}=={version} to {source} unless {name} is listed there already. In that case, just say so.",
                "does {source} list {name}? if not append {name}=={version}, if yes leave the file and tell me",
                "Please put {name}=={version} at the end of {source}. If some version of {name} is in it, do "
                "nothing but "
                "tell me.",
                "I want {name} in {source}, as {name}=={version}, but an entry that exists must stay. Tell me "
                "in that case.",
            ],
            "de": ["Häng {name}=={version} an {source} an. Steht {name} schon drin, sag es nur."],
            "pt": ["Acrescente {name}=={version} a {source}; se {name} já estiver lá, só me avise."],
        },
        source=source,
        name=name,
        version=version,
        files={source: old},
        steps=[
            shell(f"grep '^{name}==' {source}"),
            *(
                [finish(f"{name} is already in {source}; nothing was changed.")]
                if there
                else [
                    shell(f"sed -i '$a {name}=={version}' {source}"),
                    finish(f"{name}=={version} is in {source} now."),
                ]
            ),
        ],
        check=Check(files={source: text if there else f"{text}{name}=={version}"}, says=(NOTHING,) if there else ()),
    )


@template
def ignore_patterns_added(draw: Draw) -> Task:
    """One of them may be there already."""
    source = f"{draw.folder()}/{draw.choice(['.gitignore', '.dockerignore'])}"
    pool = ["*.bak", "*.swp", "target/", ".cache/", "*.o", "coverage/", ".idea/", "*.zip", "venv/", "out/", "*.pyc"]
    chosen = draw.sample(pool, 6)
    held, new = chosen[: draw.randint(2, 3)], chosen[4:]
    there = draw.random() < 0.4
    if there:
        held.insert(draw.randint(0, len(held)), new[0])
    draw.shuffle(new)
    old = "\n".join(held) + "\n"
    missing = [each for each in new if each not in held]
    lines = [[*held, *missing], [*held, *missing[::-1]]]
    return draw.task(
        {
            "en": [
                "{source} should also ignore {one} and {two}. No pattern twice, new ones at the end.",
                "ignore {one} and {two} as well in {source}, unless a pattern is in there",
                "Please see to it that {one} and {two} are in {source}; append what is missing.",
                "Could you extend {source} by the patterns {one} and {two}? Don't repeat one that is listed.",
            ],
            "de": ["In {source} sollen auch {one} und {two} stehen; häng nur an, was fehlt."],
            "fr": ["Ajoute {one} et {two} à la fin de {source}, sauf ce qui y est déjà."],
        },
        source=source,
        one=new[0],
        two=new[1],
        files={source: old},
        steps=[
            shell(f"cat {source}"),
            shell(f"printf '{''.join(f'{each}{chr(92)}n' for each in missing)}' >> {source}"),
            finish(
                f"{' and '.join(missing)} {'were' if len(missing) > 1 else 'was'} added to {source}"
                + (f"; {next(each for each in new if each in held)} was there already." if there else ".")
            ),
        ],
        check=Check(either={source: ["\n".join(each) for each in lines]}),
    )


@template
def version_in_several_files(draw: Draw) -> Task:
    """Only the version of the project itself; another number that looks alike stays."""
    major, minor, patch = draw.randint(0, 4), draw.randint(0, 20), draw.randint(0, 9)
    old, new = f"{major}.{minor}.{patch}", f"{major}.{minor + 1}.0"
    stem, alike = draw.word().lower(), f"{major}.{minor}.{patch}{draw.randint(0, 9)}"
    twin = draw.random() < 0.6
    other = alike if twin else "9.9.9"
    texts = {
        draw.file("toml"): f'name = "{stem}"\nversion = "{{0}}"\nneeds = "{other}"\n',
        draw.file("md"): f"# {stem.title()}\n\nThe current version is {{0}}.\n",
        draw.file("py"): f'"""{stem.title()}."""\n\nVERSION = "{{0}}"\n',
        draw.file("json"): f'{{{{\n  "name": "{stem}",\n  "version": "{{0}}"\n}}}}\n',
    }
    names = draw.sample(list(texts), draw.randint(2, 4))
    files = {name: texts[name].format(old) for name in names}
    listed = ", ".join(names)
    expression = old.replace(".", "\\.")
    return draw.task(
        {
            "en": [
                "The version {old} stands in {listed}. Change it to {new} in all of them.",
                "bump {old} to {new} in {listed}, other numbers stay",
                "Would you please update the version from {old} to {new}? It occurs in {listed}.",
                "We release {new}. Wherever {listed} say {old}, they should say that instead.",
            ],
            "de": ["Ersetze die Version {old} durch {new} in {listed}."],
            "es": ["Cambia la versión {old} por {new} en {listed}."],
        },
        old=old,
        new=new,
        listed=listed,
        files=files,
        steps=[
            shell(f"sed -i 's/\\b{expression}\\b/{new}/g' {' '.join(names)}"),
            shell(f"grep -n '{new}' {' '.join(names)}"),
            finish(f"The version is {new} in {listed} now."),
        ],
        check=Check(files={name: texts[name].format(new) for name in names}),
    )


_IMAGES: Final = ("alpine", "debian", "node", "golang", "ruby", "nginx", "rust", "perl")


@template
def dockerfile_changed(draw: Draw) -> Task:
    """The image, the port or a variable; the rest stays."""
    source = draw.choice([f"{draw.folder()}/Dockerfile", f"Dockerfile.{draw.word().lower()}"])
    image, old, new = draw.choice(_IMAGES), f"{draw.randint(2, 30)}", f"{draw.randint(31, 60)}"
    port, to = draw.sample(range(2000, 9900), 2)
    mode, name = draw.words(2)
    lines = [
        f"FROM {image}:{old}",
        f"# {draw.choice(['keep this small', 'built every night', 'see the wiki'])}",
        f"ENV MODE={mode.lower()} LIMIT={old}",
        f"WORKDIR /{draw.word().lower()}",
        f"EXPOSE {port}",
        f'CMD ["./{name.lower()}", "--port", "{port}"]' if draw.random() < 0.4 else f'CMD ["./{name.lower()}"]',
    ]
    if draw.random() < 0.5:
        what, value = ("the base image", "das Basis-Image", "l'image de base"), f"{image}:{new}"
        at, line, command = 0, f"FROM {value}", f"s/^FROM .*/FROM {value}/"
    else:
        what, value = ("the exposed port", "den Port bei EXPOSE", "le port de EXPOSE"), str(to)
        at, line, command = 4, f"EXPOSE {value}", f"s/^EXPOSE .*/EXPOSE {value}/"
    wanted = [line if number == at else each for number, each in enumerate(lines)]
    return draw.task(
        {
            "en": [
                "In {source}, change {what} to {value}, and no other line.",
                "{source}: {what} -> {value}, that's the only edit",
                "Could you edit {source} so that {what} becomes {value}? One line, nothing more.",
                "{value} is what I want for {what} in {source}. Leave the lines around it alone.",
            ],
            "de": ["Ändere in {source} {was} auf {value}, sonst nichts."],
            "fr": ["Dans {source}, change {quoi} en {value}, et rien d'autre."],
        },
        source=source,
        what=what[0],
        was=what[1],
        quoi=what[2],
        value=value,
        files={source: "\n".join(lines) + "\n"},
        steps=[
            shell(f"sed -i '{command}' {source}"),
            shell(f"cat {source}"),
            finish(f"{source} has the line {line} now."),
        ],
        check=Check(files={source: "\n".join(wanted)}),
    )


@template
def nginx_value_changed(draw: Draw) -> Task:
    """One of two servers; the other one stays."""
    hosts = [f"{each.lower()}.example.net" for each in draw.words(2)]
    ports = draw.sample(range(1025, 9900), 3)
    roots = [f"/srv/{each.lower()}" for each in draw.words(3)]
    source = draw.file("conf")
    number = draw.randrange(2)
    by_root = draw.random() < 0.5

    def text(ports: list[int], roots: list[str]) -> str:
        return "\n".join(
            f"server {{\n    listen {port};\n    server_name {host};\n    root {root};\n}}\n"
            for port, host, root in zip(ports, hosts, roots, strict=True)
        )

    new_ports, new_roots = ports[:2], roots[:2]
    if by_root:
        new_roots = [roots[2] if at == number else each for at, each in enumerate(new_roots)]
        key, new, old = "root", roots[2], roots[number]
    else:
        new_ports = [ports[2] if at == number else each for at, each in enumerate(new_ports)]
        key, new, old = "listen", str(ports[2]), str(ports[number])
    before = text(ports[:2], roots[:2])
    return draw.task(
        {
            "en": [
                "In {source}, the server {host} should have {new} as {key}.",
                "{source}: {key} of {host} -> {new}",
                "Could you set {key} to {new} for {host} in {source}? The other server is fine.",
                "For {host} the {key} in {source} has changed, it is {new} from today on.",
            ],
            "de": ["Setz in {source} beim Server {host} den Wert von {key} auf {new}."],
            "es": ["En {source}, el servidor {host} debe tener {new} en {key}."],
        },
        source=source,
        host=hosts[number],
        key=key,
        new=new,
        files={source: before},
        steps=[
            *seen_first(source, before),
            shell(f"sed -i 's|{key} {old};|{key} {new};|' {source}"),
            shell(f"cat {source}"),
            finish(f"{hosts[number]} has {key} {new} in {source} now."),
        ],
        check=Check(files={source: text(new_ports, new_roots)}),
    )


@template
def crontab_time_changed(draw: Draw) -> Task:
    """A job is found by its script; hours and minutes stand the other way round."""
    scripts = [f"{each.lower()}.sh" for each in draw.words(draw.randint(2, 4))]
    times = [(draw.randint(0, 23), draw.randint(0, 59)) for _ in scripts]
    number = draw.randrange(len(scripts))
    hour, minute = draw.randint(0, 23), draw.randint(1, 59)
    if (hour, minute) == times[number]:
        minute = 0 if minute == 59 else minute + 1
    days = [draw.choice(["*", "*", "1", "1-5", "0"]) for _ in scripts]
    source = draw.choice([draw.file("cron"), draw.file("crontab")])

    def text(times: list[tuple[int, int]]) -> str:
        lines = [f"{m} {h} * * {d} /opt/{s}" for (h, m), d, s in zip(times, days, scripts, strict=True)]
        return "# minute hour day month weekday command\n" + "\n".join(lines) + "\n"

    wanted = [(hour, minute) if at == number else each for at, each in enumerate(times)]
    return draw.task(
        {
            "en": [
                "In {source}, let {script} run at {time}; its days stay.",
                "{script} in {source} should start at {time} now",
                "Could you move the job {script} to {time} in {source}? Don't change the other jobs.",
                "The schedule {source} runs {script} at the wrong time. It must be {time}.",
            ],
            "de": ["In {source} soll {script} um {time} Uhr laufen, an denselben Tagen."],
            "fr": ["Dans {source}, {script} doit tourner à {time}, les mêmes jours."],
        },
        source=source,
        script=scripts[number],
        time=f"{hour:02}:{minute:02}",
        files={source: text(times)},
        steps=[
            shell(f"sed -i -E '/{scripts[number]}/s/^[0-9]+ [0-9]+/{minute} {hour}/' {source}"),
            shell(f"cat {source}"),
            finish(f"{scripts[number]} runs at {hour:02}:{minute:02} in {source} now."),
        ],
        check=Check(
            either={
                source: [
                    text(wanted),
                    text(wanted).replace(f"\n{minute} {hour} ", f"\n{minute:02} {hour:02} "),
                    text(wanted).replace(f"\n{minute} {hour} ", f"\n{minute:02} {hour} "),
                ]
            }
        ),
    )


def _address(draw: Draw) -> str:
    return f"10.{draw.randint(0, 9)}.{draw.randint(0, 99)}.{draw.randint(2, 250)}"


@template
def hosts_address_changed(draw: Draw) -> Task:
    """A name inside another name; the name may not be there."""
    names = [each.lower() for each in draw.words(draw.randint(3, 5))]
    name = names[0]
    entries = {each: _address(draw) for each in names}
    if draw.random() < 0.6:
        entries[f"{name}-{draw.choice(['old', 'test', 'two'])}"] = _address(draw)
    there = draw.random() < 0.65
    new = _address(draw)
    wanted = {**entries, name: new}
    if not there:
        entries.pop(name)
        wanted = {**entries, name: new}
    items = list(entries.items())
    draw.shuffle(items)
    source = draw.file(draw.choice(["hosts", "txt"]))
    top = draw.choice(["", "127.0.0.1 localhost\n", "# machines of the house\n127.0.0.1 localhost\n"])
    gap = draw.choice([" ", "\t"])

    def line(name: str, address: str) -> str:
        return f"{address}{gap}{name}\n"

    text = top + "".join(line(each, held) for each, held in items)
    changed = top + "".join(line(each, wanted[each]) for each, _ in items)
    added = line(name, new).replace("\t", "\\t").strip()
    return draw.task(
        {
            "en": [
                "In {source}, {name} shall have the address {new}. If {name} is not in it, add it as last line.",
                "{source}: point {name} to {new} (append it when it's missing)",
                "Could you give {name} the address {new} in {source}? Append a line if there is none for it.",
                "{name} has moved to {new}. Please correct {source}; should the name be missing there, put it "
                "at the end.",
            ],
            "de": ["Setz in {source} die Adresse von {name} auf {new}; fehlt {name}, häng es hinten an."],
            "es": ["En {source}, pon {new} como dirección de {name}; si no está, añádelo al final."],
        },
        source=source,
        name=name,
        new=new,
        files={source: text},
        steps=[
            shell(f"cat {source}"),
            shell(
                f"sed -i -E 's/^[0-9.]+(\\s+{name})$/{new}\\1/' {source}" if there else f"sed -i '$a {added}' {source}"
            ),
            finish(
                f"{name} has the address {new} in {source} now." if there else f"{name} was missing; it is last now."
            ),
        ],
        check=Check(
            either={
                source: [changed]
                if there
                else [text + line(name, new), text + f"{new} {name}", text + f"{new}\t{name}"]
            }
        ),
    )


@template
def makefile_variable(draw: Draw) -> Task:
    """A variable at the top; its uses stay."""
    source = draw.choice([f"{draw.folder()}/Makefile", f"{draw.word().lower()}.mk"])
    name = draw.choice(["FLAGS", "OUT", "PREFIX", "TARGET", "IMAGE", "PORT"])
    old, new = (each.lower() for each in draw.words(2))
    sign = draw.choice([" = ", " := ", " ?= ", "="])
    other = draw.choice(["SHELL", "EDITOR", f"{name}_DIR", f"MY{name}"])
    rule = draw.word().lower()
    text = f"{other}{sign}{{1}}\n{name}{sign}{{0}}\n\n{rule}:\n\techo $({name})\n\ttouch {old}\n"
    keep = draw.choice([old, "bash"])
    return draw.task(
        {
            "en": [
                "The variable {name} in {source} should be {new}.",
                "{source}: {name} = {new}, keep the rest",
                "Can you assign {new} to {name} in {source}, without changing the rules?",
                "Please let {name} in {source} have the value {new}; it is the only thing to change.",
            ],
            "de": ["Die Variable {name} in {source} soll {new} sein, sonst bleibt alles."],
            "pt": ["A variável {name} em {source} deve ser {new}."],
        },
        source=source,
        name=name,
        new=new,
        files={source: text.format(old, keep)},
        steps=[
            shell(f"sed -i 's/^{name}{sign}.*/{name}{sign}{new}/' {source}"),
            shell(f"head -n 3 {source}"),
            finish(f"{name} is {new} in {source} now."),
        ],
        check=Check(files={source: text.format(new, keep)}),
    )


@template
def makefile_rule_added(draw: Draw) -> Task:
    """The command of a rule begins with a tab."""
    folder = draw.folder()
    source = f"{folder}/{draw.choice(['Makefile', 'rules.mk', 'GNUmakefile'])}"
    held, target = draw.sample(["build", "clean", "pack", "hello", "stamp", "show", "greet", "setup"], 2)
    word, other = draw.words(2)
    old = f"{held}:\n\techo {other}\n"
    name = source.split("/")[1]
    return draw.task(
        {
            "en": [
                "Add a rule {target} to {source} that runs: echo {word}. Try it.",
                "{source} needs a target {target} (command: echo {word}), check that it works",
                "Please append a target called {target} to {source}. All it does is echo {word}. Make sure it runs.",
                "Could {source} have another rule, {target}, with the command echo {word}? Test it, please.",
            ],
            "de": ["Ergänze {source} um die Regel {target}, die echo {word} ausführt, und probier sie aus."],
            "fr": ["Ajoute à {source} une règle {target} qui lance echo {word}, et essaie-la."],
        },
        source=source,
        target=target,
        word=word,
        files={source: old},
        steps=[
            shell(f"printf '\\n{target}:\\n\\techo {word}\\n' >> {source}"),
            shell(f"make -s -C {folder} -f {name} {target}"),
            finish(f"{source} has a rule {target}; it printed {word}."),
        ],
        check=Check(
            prints={
                f"make -s -C {folder} -f {name} {target}": word,
                f"make -s -C {folder} -f {name} {held}": other,
            },
            free=[source],
        ),
    )


@template
def packages_in_one_only(draw: Draw) -> Task:
    """Two lists of packages: which packages has only the first?"""
    packages = draw.sample(_PACKAGES, draw.randint(5, 8))
    only = packages[: draw.randint(1, 3)]
    both = packages[3:]
    first, second = draw.file("txt"), draw.file("txt")
    target = draw.file()
    one, two = [*only, *both], list(both)
    draw.shuffle(one)
    draw.shuffle(two)
    if draw.random() < 0.5:
        two.append(f"{only[0]}-tools")
    wanted = [name for name in one if name in only]
    return draw.task(
        {
            "en": [
                "Which packages are in {first} but not in {second}? Their names, without versions, belong in {target}.",
                "compare {first} and {second} (package==version). names only the first has -> {target}, one per line",
                "Please list in {target} the names of the packages that {second} lacks compared with {first}.",
                "{first} and {second} list packages with versions, which may differ. I need the names that only "
                "{first} has "
                "in {target}.",
            ],
            "de": ["Welche Pakete stehen nur in {first}, nicht in {second}? Nur die Namen, zeilenweise, in {target}."],
            "es": ["¿Qué paquetes de {first} no están en {second}? Escribe solo los nombres en {target}."],
        },
        first=first,
        second=second,
        target=target,
        files={
            first: _pinned({name: f"=={_version(draw)}" for name in one}),
            second: _pinned({name: f"=={_version(draw)}" for name in two}),
        },
        steps=[
            shell(f"awk -F== 'NR==FNR {{a[$1]; next}} !($1 in a) {{print $1}}' {second} {first} | tee {target}"),
            finish(f"Only {first} has {', '.join(wanted)}; {target} lists it."),
        ],
        check=Check(unordered={target: wanted}),
    )
