import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_fabric.domain.policy.command_lines.grammar import MAX_COMMAND_BYTES, parse_command
from agent_fabric.domain.policy.command_lines.invocation import Connector, Redirect, UnparsableCommand
from agent_fabric.domain.policy.command_lines.wrappers import started_by, wrapped_commands
from effort import effort, examples
from services import need


def programs(text: str) -> list[str]:
    return [invocation.program for invocation in parse_command(text) if invocation.words]


def started(text: str) -> list[str]:
    return ["?" if invocation.dynamic else invocation.program for invocation in started_by(text) if invocation.words]


def test_a_command_is_its_words_without_quotes() -> None:
    [invocation] = parse_command(r"""grep -n 'a b' "c d" e\ f g'h'"i" $'\x72m\t' """)
    assert invocation.words == ("grep", "-n", "a b", "c d", "e f", "ghi", "rm\t")
    assert invocation.program == "grep"
    assert not invocation.dynamic
    assert not invocation.nested


def test_the_program_is_told_as_written_and_by_its_name() -> None:
    [invocation] = parse_command("/usr/bin/git push")
    assert (invocation.program, invocation.name) == ("/usr/bin/git", "git")


def test_connectors_tell_how_commands_are_joined() -> None:
    connectors = [invocation.connector for invocation in parse_command("a && b || c | d |& e; f & g\nh")]
    assert connectors == [
        Connector.AND,
        Connector.OR,
        Connector.PIPE,
        Connector.PIPE,
        Connector.THEN,
        Connector.BACKGROUND,
        Connector.THEN,
        Connector.END,
    ]


@pytest.mark.parametrize("text", ["a;", "a\n", "a # why\n\n", "a ; # why", "\n# first\na"])
def test_nothing_follows_a_command_that_only_comments_and_empty_lines_follow(text: str) -> None:
    [invocation] = parse_command(text)
    assert invocation.connector is Connector.END


def test_assignments_and_redirects_are_kept_apart_from_words() -> None:
    [invocation] = parse_command("A=1 B='x y' 2>&1 prog -v >out 2>/dev/null <in &>>all >|over")
    assert invocation.words == ("prog", "-v")
    assert invocation.assignments == (("A", "1"), ("B", "x y"))
    assert invocation.redirects == (
        Redirect(">&", "1"),
        Redirect(">", "out"),
        Redirect(">", "/dev/null"),
        Redirect("<", "in"),
        Redirect("&>>", "all"),
        Redirect(">|", "over"),
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("echo $(a $(b)) `c \\`d\\``", ["echo", "a", "b", "c", "d"]),
        ('echo "x $(a "y $(b)")"', ["echo", "a", "b"]),
        ("diff <(a) <(b | c) > >(d)", ["diff", "a", "b", "c", "d"]),
        ('echo ${x:-$(a)} ${y/"$(b)"/z}', ["echo", "a", "b"]),
        ("x=$(a) y=(1 $(b) 3)", ["a", "b"]),
        ("echo $((1 + $(a))); ((i = $(b)))", ["echo", "a", "b"]),
        ("(a; b) && { c; d; }", ["a", "b", "c", "d"]),
        ("if a; then b; elif c\nthen d; else e; fi", ["a", "b", "c", "d", "e"]),
        ("if (a) then b; fi", ["a", "b"]),
        ("for x in 1 $(a) *.py # why\ndo b $x; done; for ((i=0;i<3;i++)); do c; done", ["a", "b", "c"]),
        ("while a | b; do c; done < <(d); until e; do f; done", ["a", "b", "c", "d", "e", "f"]),
        ("case $(a) in x|y) b;; (z) c ;& *) d;; esac", ["a", "b", "c", "d"]),
        ("! a | b && time -p c; time d", ["a", "b", "c", "d"]),
        ("[[ -f x && $(a) =~ ^(y|z)+$ || ! q < r ]] && b", ["a", "b"]),
        ("a 'it is' # it's a comment\nb", ["a", "b"]),
        ("a \\\n  -x && \\\n b", ["a", "b"]),
        ("declare -A m=([k]=1 [l]=$(a)); b", ["declare", "a", "b"]),
        ("echo {a,b}{1..3} a#b $# ${#x} $$", ["echo"]),
        ('a <<< "$(b)"', ["a", "b"]),
        ("{ a; } 2>&1 | b", ["a", "b"]),
        ("A=1", []),
        ("", []),
        ("# nothing", []),
    ],
)
def test_every_program_of_a_line_is_found(text: str, expected: list[str]) -> None:
    assert programs(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cat <<EOF\n$(a) `b` \\$(c)\nEOF\nd", ["cat", "a", "b", "d"]),
        ("cat <<'EOF'\n$(a)\nEOF\nd", ["cat", "d"]),
        ('cat <<"E F" | x\n$(a)\nE F\nd', ["cat", "x", "d"]),
        ("cat <<-EOF\n\t$(a)\n\tEOF\nd", ["cat", "a", "d"]),
        ("cat <<A - <<'B' && x\n$(a)\nA\n$(b)\nB\nd", ["cat", "x", "a", "d"]),
        ("cat <<EOF\nno end \\\nEOF\nEOF\nd", ["cat", "d"]),
        ("x=$(cat <<EOF\nit's (\nEOF\n)\nd", ["cat", "d"]),
        ("if a; then cat <<EOF; fi\nfi\nEOF\nd", ["a", "cat", "d"]),
    ],
)
def test_a_heredoc_is_text_and_only_its_substitutions_run(text: str, expected: list[str]) -> None:
    assert programs(text) == expected


def test_a_heredoc_carries_its_body() -> None:
    invocations = parse_command("python3 - <<'EOF' && echo $x <<E2\nprint(1)\nEOF\n$y\nE2\n")
    assert [invocation.redirects for invocation in invocations] == [
        (Redirect("<<", "print(1)\n"),),
        (Redirect("<<", "$y\n", unknown=True),),
    ]


@pytest.mark.parametrize(
    "text", ["$x a", "$(which a) b", "`a` b", "${x} y", "a$x", "{curl,x}", "/bin/c?rl", "/bin/c*", "~/bin/x", '"$x"']
)
def test_a_program_that_only_run_time_knows_is_dynamic(text: str) -> None:
    assert parse_command(text)[0].dynamic


@pytest.mark.parametrize("text", ["a $x", "'$x'", r"\$x", "[ -f x ]", "a{b", "'*'", "a$", "x~"])
def test_a_program_written_out_is_not_dynamic(text: str) -> None:
    assert not parse_command(text)[0].dynamic


def test_words_only_known_at_run_time_are_marked() -> None:
    [invocation] = parse_command("a $x '$x' *.py b")
    assert invocation.unknown == {1, 3}


@pytest.mark.parametrize(
    "text",
    [
        "(a)",
        "{ a; }",
        "! a",
        "if a; then :; fi",
        "for x in y; do a; done",
        "echo $(a)",
        "f() { a; }",
        "case x in y) a;; esac",
    ],
)
def test_what_stands_inside_something_else_is_nested(text: str) -> None:
    assert [invocation.nested for invocation in parse_command(text) if invocation.program == "a"] == [True]


def test_a_compound_command_adds_its_redirects_and_connector() -> None:
    *_, whole, last = parse_command("for x in 1 2; do a; done > out 2>&1; b")
    assert (whole.words, whole.connector, whole.nested) == ((), Connector.THEN, False)
    assert whole.redirects == (Redirect(">", "out"), Redirect(">&", "1"))
    assert last.program == "b"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f() { a; }; f x; b", ["a", "b"]),
        ("function f { a; }\nf && g", ["a", "g"]),
        ("f() (a); f | b", ["a", "b"]),
        ("f; f() { a; }", ["f", "a"]),
        ("false && f() { a; }; f", ["false", "a", "f"]),
        ("(f() { a; }); f", ["a", "f"]),
        ("f() { a; } & f", ["a", "f"]),
        ("f() { a; }; unset -f f; f", ["a", "unset", "f"]),
    ],
)
def test_calls_of_a_function_are_not_programs_once_it_is_surely_defined(text: str, expected: list[str]) -> None:
    assert programs(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "a 'b",
        'a "b',
        "a $(b",
        "a `b",
        "a ${b",
        "a &&",
        "| a",
        "a ;; b",
        "a ; ; b",
        "(a",
        "a)",
        "{ a;",
        "if a; then b",
        "then",
        "for x in y; b; done",
        "case x in y) a",
        "cat <<EOF\nx",
        "cat <<EOF",
        "a >",
        "a <<",
        "((a); b)",
        "$((a); b)",
        "echo !(a)",
        "coproc a",
        "a\0b",
        "a \\",
        "echo ${x@P}",
        "echo ${x:-<(a)}",
        "echo $[1]",
        "echo ${ a; }",
        "x=$(cat <<EOF)\na\nEOF",
        "f()",
        "[[ a",
        "(( a",
        "a & & b",
        "&\\\n& a",
        '"$\\\n(a)"',
    ],
)
def test_what_is_not_surely_understood_is_refused(text: str) -> None:
    with pytest.raises(UnparsableCommand):
        parse_command(text)


@pytest.mark.parametrize(
    "text",
    ["$(" * 60 + "a" + ")" * 60, "( " * 60 + "a" + " )" * 60, "! " * 60 + "a", "${x:-" * 60 + "}" * 60, "a" * 100_001],
)
def test_texts_too_deep_or_too_long_are_refused(text: str) -> None:
    with pytest.raises(UnparsableCommand):
        parse_command(text)


@pytest.mark.parametrize(
    "piece",
    [
        "a;",
        "a|",
        "a ",
        "\\\n",
        "'",
        '"$(',
        "`a`",
        "`",
        "<<A ",
        "((",
        "{a,",
        "${x",
        "a=(",
        "x$(a)",
        "a[",
        "env ",
        "$'",
        "f(){ a;};",
    ],
)
def test_reading_takes_linear_time(piece: str) -> None:
    text = piece * (MAX_COMMAND_BYTES // 3 // len(piece))
    before = time.process_time()
    with contextlib.suppress(UnparsableCommand):
        started_by(text)
    assert time.process_time() - before < 2  # about 0.2 s on a calm machine; a quadratic reader needs minutes


def test_many_commands_are_fine() -> None:
    assert len(parse_command(" && ".join(f"p{n} $(q{n})" for n in range(500)))) == 1000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('env -i -u X A=1 B="$x" a b', ["env", "a"]),
        ("nice -n 5 nohup timeout -k 1 5s stdbuf -oL setsid a", ["nice", "nohup", "timeout", "stdbuf", "setsid", "a"]),
        ("command -p a; command -v b; exec -a n c; exec >f", ["command", "a", "command", "exec", "c", "exec"]),
        ("ls | xargs -0 -n 1 a b", ["ls", "xargs", "a"]),
        ("xargs -I{} {} x", ["xargs", "?"]),
        ("find . -name '*.py' -exec a {} \\; -o -execdir b {} +", ["find", "a", "b"]),
        ("find . -exec {} \\;", ["find", "?"]),
        ("bash -c 'a && b $(c)'", ["bash", "a", "b", "c"]),
        ("bash -euo pipefail -c 'a' name; sh -lc b", ["bash", "a", "sh", "b"]),
        ('bash -c "$x"', ["bash", "?"]),
        ("bash -c \"sh -c 'a'\"", ["bash", "sh", "a"]),
        ("bash script.sh; bash < script.sh; bash --version", ["bash", "./script.sh", "bash", "bash"]),
        ("bash <<'EOF'\na\nEOF", ["bash", "a"]),
        ("bash -s x <<< 'a'", ["bash", "a"]),
        ("bash <<EOF\n$x\nEOF", ["bash", "?"]),
        ("echo a | bash", ["echo", "bash", "?"]),
        ("bash <(a)", ["bash", "?", "a"]),
        ("source <(a)", ["source", "?", "a"]),
        ("source .venv/bin/activate", ["source"]),
        ("eval 'a; b'; eval \"$x\"", ["eval", "a", "b", "eval", "?"]),
        ("trap 'a; b' EXIT; trap - INT", ["trap", "a", "b", "trap"]),
        ("alias x='a b'", ["alias", "?"]),
        ("timeout $t a", ["timeout", "?"]),
        ("env -S'a b'", ["env", "?"]),
        ("env $x", ["env", "?"]),
        ("uv run --with x a -q; uv run s.py; uv sync", ["uv", "a", "uv", "python", "uv"]),
        ("uv --directory d run a; npx -y b; npx -c 'd'", ["uv", "a", "npx", "b", "npx", "?"]),
        ("'time' a; env; b | time c", ["time", "a", "env", "b", "time", "c"]),
    ],
)
def test_wrappers_are_seen_through(text: str, expected: list[str]) -> None:
    assert started(text) == expected


def test_text_inside_a_wrapper_that_is_not_understood_is_refused() -> None:
    with pytest.raises(UnparsableCommand):
        started_by("bash -c 'a &&'")


def test_what_xargs_reads_becomes_an_unknown_argument() -> None:
    [inner] = wrapped_commands(parse_command("xargs git")[0])
    assert inner.words[0] == "git"
    assert inner.unknown == {1}


SHELL_TEXT = st.text(alphabet=st.sampled_from("ab =$(){}[]<>|&;\"'`\\\n\t#!*?~-+0123,.ifdoEOF:@"), max_size=60)
SIGNS = """a b ; && || | & ( ) { } $( ${ $(( )) ` " ' \\ if then else fi for in do done case esac ;; [[ ]] (( <<E <<-E E
< > >& 2>&1 <( >( x= x=( # ! time function f() bash -c eval env xargs find -exec \\; $x *.py"""
PIECES = st.lists(st.sampled_from([*SIGNS.split(), "\n"]), max_size=25)


@settings(max_examples=examples(200), deadline=None)
@given(st.one_of(st.text(max_size=60), SHELL_TEXT, PIECES.map(" ".join), PIECES.map("".join)))
def test_no_text_raises_anything_but_unparsable(text: str) -> None:
    with contextlib.suppress(UnparsableCommand):
        started_by(text)


# ── the same lines, read by bash ──────────────────────────────────────────────────────────────────────────────────────


class Lines:
    """Random command lines over the programs p0 … p7; those with odd numbers fail.

    Every function has a name of its own that its body never uses, so that no line can call itself without end: one that
    does so in the background fills the machine with processes.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.functions = iter([f"fn{number}" for number in range(10_000)])
        self.shadowing = iter(["p8"])

    def program(self) -> str:
        name = f"p{self.random.randrange(8)}"
        return self.random.choice(
            [name, name, name, f'"{name}"', f"'{name}'", f"\\{name}", f"p'{name[1]}'", f"$'{name}'"]
        )

    def word(self, depth: int) -> str:
        plain = [
            "x",
            "'a b'",
            '"a b"',
            "$x",
            "{a,b}",
            "*.none",
            "a\\ b",
            "'#'",
            "x#y",
            "${x:-y}",
            "'$(p9)'",
            "\\$x",
            '";"',
        ]
        if depth <= 0 or self.random.random() < 0.6:
            return self.random.choice(plain)
        inner = self.line(depth - 1)
        return self.random.choice(
            [
                f"$( {inner}\n)",
                f'"x $( {inner}\n) y"',
                f"<( {inner}\n)",
                f"${{x:-$( {inner}\n)}}",
                f"$((1 + $( {inner}\n) 0))",
                f"`{self.program_plain()} \\`{self.program_plain()}\\``",
                f'"`{self.program_plain()}`"',
            ]
        )

    def program_plain(self) -> str:
        return f"p{self.random.randrange(8)} x"

    def simple(self, depth: int) -> str:
        words = " ".join(self.word(depth) for _ in range(self.random.randrange(3)))
        prefix = self.random.choice(["", "", "", "A=1 ", "A=$x B='c d' ", "2>&1 ", "A=(x y) "])
        suffix = self.random.choice(["", "", "", " >/dev/null", " 2>&1", " <<<x", " &>/dev/null"])
        return f"{prefix}{self.program()} {words}{suffix}"

    def command(self, depth: int) -> str:
        if depth <= 0 or self.random.random() < 0.4:
            return self.simple(depth)
        a, b, c = (self.line(depth - 1) for _ in range(3))
        quoted = self.line(0).replace("'", "'\\''")
        return self.random.choice(
            [
                f"( {a}\n)",
                f"{{ {a}\n}}",
                f"! {self.simple(depth)}",
                f"time {self.simple(depth)}",
                f"if {a}\nthen {b}\nelse {c}\nfi",
                f"if {a}\nthen {b}\nelif {c}\nthen :\nfi >/dev/null",
                f"for i in {self.word(depth)} y; do {a}\ndone",
                f"while {a}\ndo {b}\nbreak\ndone",
                f"case {self.word(depth)} in (x|y) {a}\n;; 'a b') {b} ;;\n *) {c}\nesac",
                f"[[ -n {self.word(0)} && x == x ]]",
                f"(( 1 + {self.random.randrange(2)} ))",
                f"{next(self.functions)}() {{ {a}\n}}",
                self.defined_and_called(next(self.functions), a, depth),
                self.defined_and_called(next(self.shadowing, next(self.functions)), b, depth),
                f"eval '{quoted}'",
                f"bash -c '{quoted}'",
                f"env A=1 {self.simple(depth - 1).lstrip('2>&1 ').replace('A=(x y) ', '')}",
                f"timeout 9 {self.program_plain()}",
                f"echo x | xargs -n1 {self.program_plain()}",
                f"{self.program_plain()} <<EOF\nit's $( {a}\n) `p1` \\$(p9)\nEOF\n:",
                f"{self.program_plain()} <<'E F' | {self.program_plain()} <<-END\n$(p9) ' \"\nE F\n\t$(p2)\n\tEND\n:",
                f"{self.program_plain()} # it's $(p9) \"\n",
                f"trap '{quoted}' EXIT",
            ]
        )

    def defined_and_called(self, name: str, body: str, depth: int) -> str:
        return f"{name}() {{ {body}\n}}; {name} {self.word(depth - 1)}"

    def line(self, depth: int) -> str:
        text = self.command(depth)
        for _ in range(self.random.randrange(3)):
            joint = self.random.choice([" && ", " || ", " | ", "; ", "\n", " & ", " \\\n && "])
            joint = "\n" if text.endswith("\n") else joint
            text += joint + self.command(depth)
        return text


LINES = range(effort(40, 2_000))


@pytest.fixture(scope="module")
def bash(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """The real bash, and a folder of programs that only write down their names."""
    found = shutil.which("bash")
    need(found is not None, "bash is not installed")
    assert found is not None
    folder = tmp_path_factory.mktemp("programs")
    for number in range(10):
        stub = folder / f"p{number}"
        stub.write_text(f'#!/bin/sh\necho p{number} >>"$STARTED"\nexit {number % 2}\n')
        stub.chmod(0o755)
    for name in ("bash", "env", "timeout", "xargs"):
        if real := shutil.which(name):
            (folder / name).symlink_to(real)
    return found, folder


def functions_of(line: str) -> list[str]:
    return re.findall(r"\b(\w+)\(\) \{", line)


def test_no_generated_line_defines_a_function_twice_or_calls_it_from_its_body() -> None:
    for seed in LINES:
        line = Lines(seed).line(2)
        names = functions_of(line)
        assert len(names) == len(set(names))
        # Defined once, and used at most once more: right behind the body, never in it.
        for name in names:
            rest = line.split(f"{name}() {{", 1)[1]
            assert len(re.findall(rf"\b{name}\b", line)) <= 2
            assert f"{name} " not in rest or f"\n}}; {name} " in rest


def test_every_program_that_bash_starts_was_reported(bash: tuple[str, Path], tmp_path: Path) -> None:
    executable, folder = bash
    ran = 0
    for seed in LINES:
        line = Lines(seed).line(2)
        record = tmp_path / f"{seed}"
        process = subprocess.Popen(
            [executable, "-o", "pipefail", "-c", line],
            env={"PATH": str(folder), "STARTED": str(record), "LC_ALL": "C.UTF-8", "FUNCNEST": "5"},
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            process.wait(timeout=60)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        really = set(record.read_text().split()) if record.exists() else set()
        try:
            told = started_by(line)
        except UnparsableCommand:
            continue  # arithmetic beside text that could be run: refused
        assert really <= {invocation.name for invocation in told} or any(each.dynamic for each in told), line
        ran += len(really)
    assert ran > 2 * len(LINES)  # the lines do run: more than two different programs each, on average
