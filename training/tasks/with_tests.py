"""Tasks about functions and their tests: writing them, making them pass, adding what is missing."""

from collections.abc import Sequence

from training.tasks.code_functions import Function, functions
from training.tasks.code_parts import PASSES, camel, done, module, read_first, stem_of, text
from training.tasks.draw import Draw, template
from training.tasks.task import Check, Step, Task, shell, write

Examples = Sequence[tuple[str, str]]


def tests_of(source: str, tested: Sequence[tuple[str, Examples]]) -> str:
    """Return the text of a file of tests, one test for each example."""
    names = ", ".join(name for name, _ in tested)
    methods: list[str] = []
    for name, examples in tested:
        for at, (given, result) in enumerate(examples, start=1):
            number = f"_{at}" if len(examples) > 1 else ""
            methods += [
                f"    def test_{name}{number}(self):",
                f"        self.assertEqual({name}({given}), {result})",
                "",
            ]
    head = [
        "import unittest",
        "",
        f"from {source} import {names}",
        "",
        "",
        f"class {camel(source)}Test(unittest.TestCase):",
    ]
    return text(*head, *methods[:-1])


def _run(test: str) -> Step:
    return shell(f"python3 -m unittest {stem_of(test)}")


def _runs(test: str) -> str:
    return f"python3 -B -m unittest -q {stem_of(test)}"


def _notices(test: str, file: str, name: str) -> dict[str, str]:
    """Return a check that the tests pass, and fail with a function that does nothing."""
    stub = f"printf 'def {name}(*given):\\n    return object()\\n' > {file}"
    return {_runs(test): "", f"{stub}; ! {_runs(test)} 2> /dev/null": ""}


@template
def function_and_its_test(draw: Draw) -> Task:
    """A function and a file of tests, both new; the tests must notice a function that is wrong."""
    [(name, function)] = functions(draw, 1)
    file = module(draw)
    test = f"test_{file}"
    command, printed = function.printed(name, stem_of(file))
    task = draw.task(
        {
            "en": [
                "Write {file} with a function {call}, it {does}. Also write {test} with unittest tests for it and"
                " run them.",
                "{file}: {call}, {does}. plus tests in {test} (unittest)",
                "I need a Python function {call} that {does}, in {file}, and tests of it in {test}, made with"
                " unittest. The"
                " tests have to pass.",
                "Could you create {file} and {test}? In the first there is a function {call}: it {does}. The"
                " second tests it"
                " with the unittest module.",
            ],
            "de": [
                "Schreib {file} mit einer Funktion {call}, die {german}, und dazu {test} mit Tests (unittest)."
                " Führ die Tests"
                " aus."
            ],
            "fr": ["Écris {file} avec une fonction {call} qui {french}, et {test} avec des tests unittest pour elle."],
        },
        file=file,
        test=test,
        call=f"{name}({function.takes})",
        does=function.does["en"],
        german=function.does["de"],
        french=function.does["fr"],
        files={},
        steps=[
            write(file, function.code(name)),
            write(test, tests_of(stem_of(file), [(name, function.examples[:3])])),
            _run(test),
        ],
        check=Check(prints={command: printed, **_notices(test, file, name)}, free=[file, test]),
    )
    said = {
        "en": "{file} has the function {name} and {test} its tests; they pass.",
        "de": "{file} hat die Funktion {name}, {test} ihre Tests; sie laufen durch.",
        "fr": "{file} contient la fonction {name} et {test} ses tests ; ils passent.",
    }
    return done(task, said, file=file, name=name, test=test)


@template
def test_for_a_function_that_is_there(draw: Draw) -> Task:
    """Only the tests are missing; the program stays as it is."""
    [(name, function)] = functions(draw, 1)
    file = module(draw)
    test = f"test_{file}"
    count = draw.randint(2, 3)
    source = function.code(name)
    task = draw.task(
        {
            "en": [
                "{file} has no tests. Write {test} with at least {count} unittest tests of {name} and run it.",
                "unit tests for {name} ({file}) please, in {test}, {count} or more",
                "I would like to have tests for the function {name} of {file}: a file {test} using unittest,"
                " {count} tests or"
                " more, all passing. {file} itself must not change.",
                "Can you test {name} from {file} in a new file {test}? {count} cases will do.",
            ],
            "de": ["Schreib {test} mit mindestens {count} Tests (unittest) für {name} aus {file} und führ sie aus."],
            "pt": ["Escreva {test} com pelo menos {count} testes unittest para {name} de {file} e execute."],
        },
        file=file,
        test=test,
        name=name,
        count=count,
        files={file: source},
        steps=[
            *read_first({file: source}, file),
            write(test, tests_of(stem_of(file), [(name, function.examples[:count])])),
            _run(test),
        ],
        check=Check(prints=_notices(test, file, name), free=[test]),
    )
    said = {
        "en": "{test} tests {name} with {count} cases, and they pass.",
        "de": "{test} prüft {name} mit {count} Fällen; sie laufen durch.",
        "pt": "{test} testa {name} com {count} casos, e todos passam.",
    }
    return done(task, said, test=test, name=name, count=count)


def _failing(draw: Draw, function: Function, name: str) -> tuple[str, Examples]:
    """Return a wrong source, and all examples: some fail."""
    return function.broken(name, draw), function.examples


@template
def failing_test_made_to_pass(draw: Draw) -> Task:
    """The function is wrong; the tests are right and stay as they are."""
    [(name, function)] = functions(draw, 1)
    file = module(draw)
    test = f"test_{file}"
    wrong, examples = _failing(draw, function, name)
    files = {file: wrong, test: tests_of(stem_of(file), [(name, examples)])}
    command, printed = function.printed(name, stem_of(file))
    task = draw.task(
        {
            "en": [
                "Not all tests in {test} pass. Correct {file}, not the tests.",
                "{test} is red, something in {name} must be wrong, pls repair {file}",
                "When I run the tests of {test}, there are failures. Could you find the mistake in {file} and"
                " correct it?"
                " The tests are fine.",
                "I want {test} to pass, so please mend {file} ({name} is to blame).",
            ],
            "de": ["Die Tests in {test} schlagen fehl. Korrigiere {file}, nicht die Tests."],
            "es": ["Las pruebas de {test} fallan. Corrige {file}; las pruebas no se tocan."],
        },
        file=file,
        test=test,
        name=name,
        files=files,
        steps=[
            _run(test),
            *read_first(files, file, test),
            write(file, function.code(name)),
            _run(test),
        ],
        check=Check(prints={_runs(test): "", command: printed}, free=[file]),
    )
    return done(task, PASSES, file=file, test=test)


@template
def one_of_several_functions_fails(draw: Draw) -> Task:
    """Three functions, one of which is wrong; the others stay."""
    drawn = functions(draw, 3)
    bad = draw.randrange(3)
    file = module(draw)
    test = f"test_{file}"
    right = [function.code(name) for name, function in drawn]
    wrong = [function.broken(name, draw) if at == bad else right[at] for at, (name, function) in enumerate(drawn)]
    files = {
        file: "\n\n".join(wrong),
        test: tests_of(stem_of(file), [(name, function.examples) for name, function in drawn]),
    }
    checks = dict(function.printed(name, stem_of(file)) for name, function in drawn)
    task = draw.task(
        {
            "en": [
                "One of the functions in {file} is broken, {test} shows which. Repair it.",
                "{test} has failures. fix the function in {file} that causes them, don't touch the others",
                "Please look at the failing tests of {test} and correct the function in {file} that is wrong. All"
                " the tests"
                " should pass afterwards, without being changed.",
                "Which function of {file} makes {test} fail? Correct that one.",
            ],
            "de": ["In {file} ist eine Funktion falsch, {test} zeigt welche. Korrigiere sie, die anderen bleiben."],
            "fr": ["Une des fonctions de {file} est fausse, {test} montre laquelle. Corrige-la."],
        },
        file=file,
        test=test,
        files=files,
        steps=[_run(test), shell(f"cat {file}"), write(file, "\n\n".join(right)), _run(test)],
        check=Check(prints={_runs(test): "", **checks}, free=[file]),
    )
    said = {
        "en": "The mistake was in {name}; {file} is mended and {test} passes.",
        "de": "Der Fehler war in {name}; {file} ist korrigiert, und {test} läuft durch.",
        "fr": "L'erreur était dans {name} ; {file} est corrigé et {test} passe.",
    }
    return done(task, said, name=drawn[bad][0], file=file, test=test)


@template
def module_written_for_its_tests(draw: Draw) -> Task:
    """Only the tests are there; what the function is to do stands in them and in the prompt."""
    [(name, function)] = functions(draw, 1)
    file = module(draw)
    test = f"test_{file}"
    files = {test: tests_of(stem_of(file), [(name, function.examples)])}
    command, printed = function.printed(name, stem_of(file))
    task = draw.task(
        {
            "en": [
                "{test} is there already, but {file} is not. Write it: the function {call} {does}. The tests must"
                " pass.",
                "write {file} so that {test} passes. {call} {does}",
                "I wrote the tests first ({test}). Now I need the module {file} with {call}, which {does}.",
                "Can you write the missing {file} for {test}? {call} is a function that {does}.",
            ],
            "de": ["{test} gibt es schon, {file} fehlt. Schreib es: {call} ist eine Funktion, die {german}."],
            "fr": ["{test} existe, mais pas {file}. Écris-le : {call} est une fonction qui {french}."],
        },
        file=file,
        test=test,
        call=f"{name}({function.takes})",
        does=function.does["en"],
        german=function.does["de"],
        french=function.does["fr"],
        files=files,
        steps=[*read_first(files, test), write(file, function.code(name)), _run(test)],
        check=Check(prints={_runs(test): "", command: printed}, free=[file]),
    )
    said = {
        "en": "{file} is written with {name}; {test} passes.",
        "de": "{file} mit {name} ist geschrieben; {test} läuft durch.",
        "fr": "{file} est écrit avec {name} ; {test} passe.",
    }
    return done(task, said, file=file, name=name, test=test)


@template
def missing_test_added(draw: Draw) -> Task:
    """One more test in a file that has some; its example is in the prompt."""
    [(name, function)] = functions(draw, 1)
    file = module(draw)
    test = f"test_{file}"
    *known, new = draw.sample(function.examples, draw.randint(2, min(3, len(function.examples))))
    before, source = tests_of(stem_of(file), [(name, known)]), function.code(name)
    method = text(
        "", f"    def test_{name}_{len(known) + 1}(self):", f"        self.assertEqual({name}({new[0]}), {new[1]})"
    )
    after = before + method
    files = {file: source, test: before}
    other = "return object() if given == [{0}] else real(*given)"
    wrapper = text(
        f"import {stem_of(file)}",
        f"real = {stem_of(file)}.{name}",
        "def strange(*given):",
        f"    {other.format(new[0])}".replace("given == [", "list(given) == ["),
        f"{stem_of(file)}.{name} = strange",
        "import unittest",
        f"unittest.main(module='{stem_of(test)}', argv=['x', '-q'])",
    )
    counted = f"{_runs(test).replace(' -q', ' -v')} 2>&1 | grep -c ' ok$'"
    quoted = wrapper.replace("'", '"')
    task = draw.task(
        {
            "en": [
                "Add a test to {test}: {call} must be {result}. Keep the tests that are there, and run them all.",
                "{test} is missing the case {call} == {result}, add it as a test of its own",
                "Please write one more test method in {test}, which says that {call} gives {result}.",
                "Is {call} equal to {result}? Nothing tests it yet. Put a test for it into {test}.",
            ],
            "de": ["Ergänze {test} um einen Test: {call} muss {result} ergeben. Die anderen Tests bleiben."],
            "es": ["Añade a {test} una prueba: {call} debe dar {result}. Las demás pruebas se quedan."],
        },
        test=test,
        call=f"{name}({new[0]})",
        result=new[1],
        files=files,
        steps=[*read_first(files, test), write(test, after), _run(test)],
        check=Check(
            prints={counted: str(len(known) + 1), f"! python3 -B -c '{_escaped(quoted)}' 2> /dev/null": ""},
            free=[test],
        ),
    )
    said = {
        "en": "{test} has the test for {call} too, and all tests pass.",
        "de": "{test} hat jetzt auch den Test für {call}; alle Tests laufen durch.",
        "es": "{test} tiene también la prueba de {call}; todas pasan.",
    }
    return done(task, said, test=test, call=f"{name}({new[0]})")


def _escaped(code: str) -> str:
    return code.rstrip("\n")


@template
def wrong_test_corrected(draw: Draw) -> Task:
    """Here the program is right and one expectation is wrong."""
    [(name, function)] = functions(draw, 1)
    file = module(draw)
    test = f"test_{file}"
    examples = draw.sample(function.examples, min(3, len(function.examples)))
    results = [result for _, result in examples]
    given, right = next(
        ((given, result) for given, result in examples if results.count(result) == 1 and len(set(results)) > 1),
        examples[0],
    )
    wrong = draw.choice([each for each in {result for _, result in function.examples} | {"99"} if each != right])
    before = tests_of(stem_of(file), [(name, [(g, wrong if g == given else r) for g, r in examples])])
    after = tests_of(stem_of(file), [(name, examples)])
    files = {file: function.code(name), test: before}
    call = f"{name}({given})"
    task = draw.task(
        {
            "en": [
                "{file} is right, but {test} expects {wrong} for {call}. It must be {right}. Correct the test.",
                "wrong expectation in {test}: {call} is {right}, not {wrong}. fix the test only",
                "I made a mistake in {test}. The right result of {call} is {right}; please change that one test,"
                " then run"
                " all of them.",
                "Could you correct the test in {test} that thinks {call} was {wrong}? It is {right}.",
            ],
            "de": ["{file} stimmt, aber {test} erwartet für {call} {wrong} statt {right}. Korrigiere den Test."],
            "fr": ["{file} est juste, mais {test} attend {wrong} pour {call} au lieu de {right}. Corrige le test."],
        },
        file=file,
        test=test,
        wrong=wrong,
        call=call,
        right=right,
        files=files,
        steps=[*read_first(files, test), write(test, after), _run(test)],
        check=Check(files={test: after}, prints={_runs(test): ""}),
    )
    said = {
        "en": "{test} expects {right} for {call} now, and all tests pass.",
        "de": "{test} erwartet jetzt {right} für {call}; alle Tests laufen durch.",
        "fr": "{test} attend maintenant {right} pour {call} ; tous les tests passent.",
    }
    return done(task, said, test=test, right=right, call=call)


@template
def how_many_tests_fail(draw: Draw) -> Task:
    """A question about a run of tests; nothing is to be repaired."""
    drawn = functions(draw, 2)
    file, target = module(draw), draw.file()
    test = f"test_{file}"
    broken = draw.random() < 0.75
    sources = [
        drawn[0][1].broken(drawn[0][0], draw) if broken else drawn[0][1].code(drawn[0][0]),
        drawn[1][1].code(drawn[1][0]),
    ]
    files = {
        file: "\n\n".join(sources),
        test: tests_of(stem_of(file), [(name, function.examples[:3]) for name, function in drawn]),
    }
    failed = _count_failures(files[file], drawn)
    task = draw.task(
        {
            "en": [
                "Run {test} and write into {target} how many of its tests fail or end with an error, only the"
                " number. Do not"
                " repair anything.",
                "how many tests of {test} don't pass? number into {target}, change nothing else",
                "I'd like to know how many tests in {test} are failing (errors count too). Please save just that"
                " number as"
                " {target}; the code stays as it is.",
                "Please count the tests of {test} that do not pass and put the count in {target}.",
            ],
            "de": ["Wie viele Tests von {test} gehen schief? Schreib nur die Zahl nach {target}, ändere sonst nichts."],
            "es": ["¿Cuántas pruebas de {test} fallan? Escribe solo el número en {target} y no cambies nada más."],
        },
        test=test,
        target=target,
        files=files,
        steps=[_run(test), write(target, f"{failed}\n")],
        check=Check(files={target: str(failed)}),
    )
    said = {
        "en": "{failed} of the tests in {test} do not pass; {target} has the number.",
        "de": "{failed} der Tests in {test} gehen schief; die Zahl steht in {target}.",
        "es": "{failed} de las pruebas de {test} no pasan; {target} tiene el número.",
    }
    return done(task, said, failed=failed, test=test, target=target)


def _count_failures(source: str, drawn: Sequence[tuple[str, Function]]) -> int:
    names: dict[str, object] = {}
    exec(source, names)
    failed = 0
    for name, function in drawn:
        for given, result in function.examples[:3]:
            try:
                failed += bool(eval(f"{name}({given}) != ({result})", names))
            except (ArithmeticError, LookupError, TypeError, ValueError):
                failed += 1
    return failed


@template
def checks_without_unittest(draw: Draw) -> Task:
    """A script of assert lines that stops at the first that does not hold."""
    [(name, function)] = functions(draw, 1)
    file = module(draw)
    test = f"{draw.choice(['check', 'verify', 'try'])}_{file}"
    lines = [f"assert {name}({given}) == {result}, {name}({given})" for given, result in function.examples]
    word = draw.choice(["all good", "ok", "everything holds", "passed", "no complaints"])
    wrong = function.broken(name, draw)
    files = {file: wrong, test: text(f"from {stem_of(file)} import {name}", "", *lines, f'print("{word}")')}
    command, printed = function.printed(name, stem_of(file))
    task = draw.task(
        {
            "en": [
                "python3 {test} stops with an AssertionError. The mistake is in {file}; please correct it.",
                "{test} doesn't get to '{word}' because {file} has a bug. repair {file}",
                "The program {test} checks {file}, and it should print {word}. It does not. Can you put {file}"
                " right? Leave"
                " {test} as it is.",
                "Something is wrong with {name} in {file}: {test} complains. I want to see '{word}' at the end.",
            ],
            "de": [
                "python3 {test} bricht ab, weil {file} einen Fehler hat. Korrigiere {file}, damit {word} erscheint.",
            ],
            "pt": ["python3 {test} para com um erro porque {file} está errado. Corrija {file}; {test} fica como está."],
        },
        test=test,
        file=file,
        word=word,
        name=name,
        files=files,
        steps=[
            shell(f"python3 {test}"),
            *read_first(files, file, test),
            write(file, function.code(name)),
            shell(f"python3 {test}"),
        ],
        check=Check(prints={f"python3 -B {test}": word, command: printed}, free=[file]),
    )
    return done(task, PASSES, file=file, test=test)
