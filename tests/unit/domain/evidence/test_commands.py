import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_fabric.domain.evidence.commands import Assessment, assess, count_failed_tests, find_test_command, shown_by
from agent_fabric.domain.tools.findings import ProofKind, TestCount
from effort import examples


@pytest.mark.proves("AF-124")
@pytest.mark.parametrize(
    ("command", "proves"),
    [
        ("pytest -q", "pytest -q"),
        ("pytest\n", "pytest"),
        ("cd x && pytest", "pytest"),
        ("cd x; pytest", "pytest"),
        ("pytest -q 2>&1 | tail -5", "pytest -q"),
        ("pytest && echo done", "pytest"),
        ("pytest && echo a && { echo b; echo c; }", "pytest"),
        ("A=1 timeout 60 env B=2 nice -n 5 pytest tests", "pytest tests"),
        ("time pytest", "pytest"),
        ("uv run pytest -x", "pytest -x"),
        ("bash -c 'cd x && pytest'", "pytest"),
        ("bash -o pipefail -c 'pytest | tail'", "pytest"),
        ("eval 'pytest | tail'", "pytest"),
        ("set -euo pipefail; pytest", "pytest"),
        ("source .venv/bin/activate && pytest", "pytest"),
        ("false || true && pytest", "pytest"),
        ("ruff check . && pytest", "pytest"),
        ("python3 app.py --help", "python3 app.py --help"),
        ("python -m pytest -q", "python -m pytest -q"),
        ("python -W error -m unittest", "python -W error -m unittest"),
        ("python -c 'import x; x.check()'", "python -c 'import x; x.check()'"),
        ("python3 - <<'EOF'\nimport x\nEOF", "python3 -"),
        (".venv/bin/python a.py", ".venv/bin/python a.py"),
        ("make", "make"),
        ("make -j 4 CC=gcc test", "make -j 4 CC=gcc test"),
        ("npm test", "npm test"),
        ("npm --prefix web run build", "npm --prefix web run build"),
        ("node app.js", "node app.js"),
        ("go test ./...", "go test ./..."),
        ("cargo +nightly build", "cargo +nightly build"),
        ("gcc -o x x.c && ./x", "./x"),
        ("cmake --build build", "cmake --build build"),
        ("mypy src", "mypy src"),
        ("ruff check src", "ruff check src"),
        ("coverage run -m pytest", "coverage run -m pytest"),
        ("bash build.sh", "bash build.sh"),
        ("[[ -f x ]] && pytest", "pytest"),
        ("for x in 1 2; do echo $x; done; pytest", "pytest"),
        ("exec pytest", "pytest"),
    ],
)
def test_a_successful_line_proves_its_last_test_build_or_run(command: str, proves: str) -> None:
    found = assess(command)
    assert (found.changes, found.proves) == (False, proves)


@pytest.mark.proves("AF-124")
@pytest.mark.parametrize(
    "command",
    [
        "pytest; echo done",
        "pytest\necho done",
        "pytest || true",
        "pytest &",
        "pytest & wait",
        "! pytest",
        "true || pytest",
        "true || pytest && echo x",
        "true || echo x | pytest",
        "pytest && echo a || echo b",
        "pytest && { true; }; echo x",
        "pytest && ! grep x y; echo x",
        "(pytest)",
        "if pytest; then echo x; fi",
        "echo $(pytest)",
        "f() { pytest; }; f",
        "pytest() { true; }; pytest",
        "exit 0; pytest",
        "trap 'exit 0' EXIT; pytest",
        "set +o pipefail; pytest | cat",
        "set -n\npytest",
        "exec true; pytest",
        "eval 'exit 0'; pytest",
        "bash -c 'pytest | tail'",
        "bash -c 'pytest; true'",
        "bash -c 'pytest' || true",
        "ls | xargs pytest",
        "find . -exec pytest {} \\;",
        "timeout $t pytest",
        "$x",
        "pytest --help",
        "pytest --version",
        "pytest --collect-only",
        "pytest --setup-plan",
        "ruff check --exit-zero .",
        "npm run build --if-present",
        "make --touch",
        "make -i check",
        "python --version",
        "python -V",
        "python",
        "make --version",
        "make -n test",
        "make -C x clean",
        "make -nB",
        "make -sk -tB",
        "make MAKEFLAGS=-i test",
        "MAKEFLAGS=n make test",
        "go test -list . ./...",
        "go test -exec true ./...",
        "command -v pytest",
        "which pytest",
        "echo pytest",
        "cat test.log",
        "git status && git commit -m pytest",
        "npm --version",
        "go version",
        "ls",
        "",
    ],
)
def test_what_does_not_follow_from_the_status_is_not_proved(command: str) -> None:
    assert assess(command) == Assessment(changes=False, proves="")


@pytest.mark.proves("AF-124")
@pytest.mark.parametrize(
    "command",
    [
        "echo x > a.py",
        "echo x >> a.py",
        "cat <<'EOF' > a.py\nx\nEOF",
        "echo x &> out",
        "{ echo a; echo b; } > f",
        "for f in *.py; do sed -i s/a/b/ $f; done",
        "sed -i.bak s/a/b/ x",
        "sed -Ei s/a/b/ x",
        "perl -pi -e s/a/b/ x",
        "cp a b",
        "mv a b",
        "rm -rf build",
        "echo x | tee a.py",
        "patch -p1 < x.diff",
        "git -C x apply y.diff",
        "git checkout -- .",
        "git stash",
        "unzip x.zip",
        "tar xzf x.tgz",
        "pip install x",
        "python -m pip install x",
        "npm ci",
        "env A=1 touch x",
        "find . -name x -delete",
        "find . -name x -exec rm {} +",
        "ls | xargs rm",
        "bash -c 'echo x > a.py'",
        "python3 - <<'EOF'\nopen('a.py', 'w').write('x')\nEOF",
        "python3 -c \"from pathlib import Path; Path('a').write_text('x')\"",
        "ruff check --fix .",
        "ruff format .",
        "echo $(touch x)",
        "ls 'unclosed",
        "bash -c 'ls &&'",
    ],
)
def test_a_change_without_a_later_proof_counts_as_a_change(command: str) -> None:
    assert assess(command) == Assessment(changes=True, proves="")


@pytest.mark.proves("AF-124")
@pytest.mark.parametrize(
    ("command", "changes", "proves"),
    [
        ("echo x > a.py && python3 a.py", False, "python3 a.py"),
        ("sed -i s/a/b/ x; pytest", False, "pytest"),
        ("pip install x && pytest", False, "pytest"),
        ("bash -c 'echo x > a.py && python a.py'", False, "python a.py"),
        ("pytest > out.txt", False, "pytest"),
        ("pytest 2>&1 | tee out.txt", False, "pytest"),
        ("pytest | grep x > out.txt", False, "pytest"),
        ("pytest && git commit -am x", False, "pytest"),
        ("pytest && echo x > a.py", True, "pytest"),
        ("pytest && rm a.py", True, "pytest"),
        ("bash -c 'pytest && rm a.py'", True, "pytest"),
        ("pytest && { sed -i s/a/b/ x; }", True, "pytest"),
        ("pytest | xargs rm", True, "pytest"),
        ("touch x; pytest; echo done", True, ""),
        ("touch x && pytest || true", True, ""),
    ],
)
def test_only_changes_after_the_last_proof_count(command: str, changes: bool, proves: str) -> None:
    found = assess(command)
    assert (found.changes, found.proves) == (changes, proves)


@pytest.mark.parametrize("command", ["ls >/dev/null 2>&1", "ls >&2", "ls 2>&-", "grep -i x y", "tee", "sed -n 1p x"])
def test_reading_and_discarding_change_nothing(command: str) -> None:
    assert assess(command) == Assessment(changes=False, proves="")


@settings(max_examples=examples(150), deadline=None)
@given(st.text(max_size=50))
def test_every_text_gets_an_assessment(command: str) -> None:
    assert isinstance(assess(command), Assessment)


def test_a_line_of_a_thousand_wrappers_proves_nothing_and_is_quick() -> None:
    assert assess("env " * 1000 + "pytest") == Assessment(changes=True, proves="")


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("pytest -q", "tests"),
        ("python3 -m pytest tests", "tests"),
        ("python3 -m unittest", "tests"),
        ("go test ./...", "tests"),
        ("cargo t", "tests"),
        ("npm test", "tests"),
        ("npm run test:unit", "tests"),
        ("node --test x.test.js", "tests"),
        ("make test", "tests"),
        ("make -C sub check", "tests"),
        ("mvn verify", "tests"),
        ("gradle check", "tests"),
        ("uv run pytest", "tests"),
        ("make", "build"),
        ("cargo check", "build"),
        ("go build ./...", "build"),
        ("gcc -o a a.c", "build"),
        ("mypy src", "build"),
        ("python3 hello.py", "program"),
        ("cargo run", "program"),
        ("node index.js", "program"),
        ("./hello", "program"),
        ("bash x.sh", "program"),
        ("npm start", "program"),
    ],
)
def test_a_proof_has_a_kind(command: str, kind: str) -> None:
    assert assess(command).kind.value == kind


@pytest.mark.parametrize(
    "command", ["python3 test_dates.py", "python3 tests/test_x.py", "pytest test_x.py", "make test"]
)
@pytest.mark.parametrize("output", ["", "all good", "no tests ran in 0.01s", "Ran 0 tests in 0.000s\n\nOK"])
def test_success_without_a_test_executed_proves_nothing(command: str, output: str) -> None:
    shown = shown_by(assess(command), output)
    assert (shown.proved, shown.missing) == ("", "no test was executed")


def test_tests_that_were_executed_are_counted_whatever_started_them() -> None:
    for command in ("python3 test_dates.py", "make", "./run_checks.sh", "pytest"):
        shown = shown_by(assess(command), "Ran 3 tests in 0.001s\n\nOK\n")
        assert (shown.kind, shown.tests) == (ProofKind.TESTS, TestCount(ran=3, passed=3, failed=0))


def test_tests_that_failed_prove_nothing_though_the_command_ended_well() -> None:
    shown = shown_by(assess("make test"), "1 failed, 2 passed in 0.1s")
    assert (shown.proved, shown.missing) == ("", "1 of 3 tests have failed")


WORDS = "3 passed in 0.01s\n"


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("pytest -q", ProofKind.TESTS),
        ("pytest -q && echo done", ProofKind.TESTS),
        ("pytest -q && python3 app.py", ProofKind.TESTS),
        ("bash run_tests.sh", ProofKind.TESTS),
        ("python3 -c 'import pytest; pytest.main()'", ProofKind.TESTS),
        ("python3 -c 'print(3)'", ProofKind.PROGRAM),
        ("python3 - <<'EOF'\nprint(3)\nEOF", ProofKind.PROGRAM),
        ("python3 app.py && cat results.log", ProofKind.PROGRAM),
        ("head results.log; python3 app.py", ProofKind.PROGRAM),
        ("python3 app.py && echo '3 passed in 0.01s'", ProofKind.PROGRAM),
    ],
)
def test_words_of_a_runner_count_where_a_runner_may_have_said_them(command: str, kind: ProofKind) -> None:
    assert shown_by(assess(command), WORDS).kind is kind


def test_a_build_with_nothing_to_build_proves_nothing() -> None:
    for said in ("make: Nothing to be done for 'all'.", "make: 'out.txt' is up to date."):
        assert shown_by(assess("make"), said).missing == "there was nothing to build"


@pytest.mark.parametrize(
    ("command", "tests"),
    [
        ("cd x && pytest -q | tail -3", "pytest -q"),
        ("python3 -m unittest || true", "python3 -m unittest"),
        ("cat results.log", ""),
        ("echo 'unfinished", ""),
    ],
)
def test_tests_that_failed_are_known_by_their_command(command: str, tests: str) -> None:
    assert find_test_command(command) == tests
    failed = count_failed_tests(command, "1 failed, 2 passed in 0.1s")
    assert failed == (TestCount(ran=3, passed=2, failed=1) if tests else None)
    assert count_failed_tests(command, WORDS) is None


@pytest.mark.parametrize(
    "command",
    [
        "python3 -O -m pytest",
        "python3 -OO -m unittest",
        "python3 -BO -m pytest",
        "python3 -Om pytest",
        "PYTHONOPTIMIZE=1 pytest",
        "env PYTHONOPTIMIZE=1 pytest",
        "export PYTHONOPTIMIZE=1; pytest",
        "export PYTHONOPTIMIZE=1 && make test",
    ],
)
def test_without_assertions_nothing_is_shown(command: str) -> None:
    assert not assess(command).proves


@pytest.mark.parametrize("command", ["python3 -B -m pytest", "PYTHONOPTIMIZE= pytest", "export A=1; pytest"])
def test_with_assertions_it_is(command: str) -> None:
    assert assess(command).kind is ProofKind.TESTS
