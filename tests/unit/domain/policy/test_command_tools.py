"""Rules on file tools also hold for commands that do the same."""

import random
import shlex

import pytest

from agent_fabric.domain.policy.calls import ProposedCall
from agent_fabric.domain.policy.command_lines.wrappers import started_by
from agent_fabric.domain.policy.command_tools import use_of
from agent_fabric.domain.policy.engine import RulePolicy
from agent_fabric.domain.policy.rules import Rule
from agent_fabric.domain.policy.verdicts import Ruling, Verdict
from agent_fabric.domain.tools.specs import Effect

pytestmark = pytest.mark.proves("FC-035")

SECRET = Rule(id="no-secrets", verdict=Verdict.BLOCK, tools=("read_file",), paths=("secrets/",))
NO_READING = Rule(id="no-reading", verdict=Verdict.BLOCK, tools=("read_file",))
NO_WRITING = Rule(id="no-writing", verdict=Verdict.ASK, tools=("write_file",), paths=("*.lock",))
NO_LISTING = Rule(id="no-listing", verdict=Verdict.BLOCK, tools=("list_files",))
NO_FETCHING = Rule(id="no-fetching", verdict=Verdict.BLOCK, tools=("fetch_url",), domains=("evil.example",))


def judge(command: str, *rules: Rule, workspace: str = "/w") -> Ruling:
    call = ProposedCall(
        tool="shell",
        args={},
        effect=Effect.CHANGES_WORKSPACE,
        command=command,
        sandbox="A",
        workspace=workspace,
    )
    return RulePolicy(rules=rules).judge(call)


@pytest.mark.parametrize(
    ("command", "tools"),
    [
        ("ls", {"list_files"}),
        ("ls -la src", {"list_files"}),
        ("find . -name x", {"list_files"}),
        ("cat a", {"read_file"}),
        ("head -n 5 a", {"read_file"}),
        ("less a", {"read_file"}),
        ("sed -n 1,5p a", {"read_file"}),
        ("grep -rn x", {"search_files", "read_file"}),
        ("echo x > a", {"write_file"}),
        ("echo x | tee a", {"write_file"}),
        ("cp a b", {"read_file", "write_file"}),
        ("sed -i s/x/y/ a", {"edit_file", "write_file", "read_file"}),
        ("cat < a", {"read_file"}),
        ("curl https://x.example", {"fetch_url"}),
        ("rm a", {"run_command"}),
        ("cat", {"run_command"}),
        ("make test", {"run_command"}),
        ("echo x 2>&1", {"run_command"}),
        ("echo x > /dev/null", {"run_command"}),
    ],
)
def test_a_command_stands_for_internal_tools(command: str, tools: set[str]) -> None:
    found = [use_of(invocation).tools - {"run_command"} for invocation in started_by(command)]
    assert (frozenset().union(*found) or {"run_command"}) == tools


@pytest.mark.parametrize(
    ("command", "paths"),
    [
        ("head -n 5 a b", ("a", "b")),
        ("grep -n x/y src", ("src",)),
        ("grep -e x/y src", ("src",)),
        ("sed s/a/b/ f", ("f",)),
        ("awk -F : '{print $1}' f", ("f",)),
        ("find src docs -name '*.py'", ("src", "docs")),
        ("ls", (".",)),
        ("cut -d , -f 1 f", ("f",)),
        ("python3 scripts/x.py --out=build/x", ("scripts/x.py", "build/x")),
        ("./run.sh", ("./run.sh",)),
        ("echo a/b", ()),
        ("echo ../x", ("../x",)),
        ("git checkout feature/x", ()),
        ("chmod 644 f", ("f",)),
        ("cat docs/*.md", ("docs/*.md",)),
        ("cat -- -x", ("-x",)),
        ("grep -ex f g", ("f", "g")),
        ("sed -ne p f", ("f",)),
        ("grep -T x f", ("f",)),
        ("fold -s f", ("f",)),
    ],
)
def test_the_files_of_a_command_are_known(command: str, paths: tuple[str, ...]) -> None:
    (invocation,) = started_by(command)
    assert use_of(invocation).paths == paths


@pytest.mark.parametrize(
    ("command", "rule", "verdict"),
    [
        ("cat secrets/key", SECRET, Verdict.BLOCK),
        ("cat ./secrets/../secrets/key", SECRET, Verdict.BLOCK),
        ("cat /w/secrets/key", SECRET, Verdict.BLOCK),
        ("cat docs/a && head secrets/key", SECRET, Verdict.BLOCK),
        ("bash -c 'cat secrets/key'", SECRET, Verdict.BLOCK),
        ("wc -l < secrets/key", SECRET, Verdict.BLOCK),
        ("echo $(cat secrets/key)", SECRET, Verdict.BLOCK),
        ("find . | xargs cat", SECRET, Verdict.ASK),
        ("cat $FILE", SECRET, Verdict.ASK),
        ("cat s*/key", SECRET, Verdict.ASK),
        ("cd secrets && cat key", SECRET, Verdict.ASK),
        ("env -C secrets cat key", SECRET, Verdict.ASK),
        ("cat docs/a", SECRET, Verdict.ALLOW),
        ("cd docs && make", SECRET, Verdict.ALLOW),
        ("cat docs/a | head -n 3", NO_READING, Verdict.BLOCK),
        ("ls | head -n 3", NO_READING, Verdict.ALLOW),
        ("echo x >> uv.lock", NO_WRITING, Verdict.ASK),
        ("echo x > uv.txt", NO_WRITING, Verdict.ALLOW),
        ("ls", NO_LISTING, Verdict.BLOCK),
        ("tree src", NO_LISTING, Verdict.BLOCK),
        ("curl https://evil.example/x", NO_FETCHING, Verdict.BLOCK),
    ],
)
def test_a_rule_on_a_file_tool_holds_for_commands(command: str, rule: Rule, verdict: Verdict) -> None:
    ruling = judge(command, rule)
    assert ruling.verdict is verdict, ruling
    if verdict is not Verdict.ALLOW:
        assert ruling.rule == rule.id


def test_a_rule_that_allows_a_tool_allows_no_command() -> None:
    reading = Rule(id="reading", verdict=Verdict.ALLOW, tools=("read_file", "write_file"))
    assert judge("terraform apply > x", reading).verdict is Verdict.ASK


def test_block_beats_ask_beats_allow_across_segments() -> None:
    asks = Rule(id="asks", verdict=Verdict.ASK, tools=("list_files",))
    assert judge("make && ls", asks).verdict is Verdict.ASK
    assert judge("ls && cat secrets/key && make", asks, SECRET).verdict is Verdict.BLOCK


READERS = (
    "cat",
    "head",
    "tail -n 3",
    "less",
    "nl",
    "wc -l",
    "sort",
    "tac",
    "sed -n 1p",
    "grep x",
    "awk 1",
    "od -c",
    "grep -ex",
    "sed -ne p",
    "fold -s",
    "rg -T py x",
    "iconv -f utf8",
    "gzip -c",
    "xz -dc",
    "zstd -c",
    "tar cf -",
    "tar -czf -",
    "zip - ",
    "7z a x.7z",
    "rsync -a",
    "cp -r",
    "pandoc",
    "git show HEAD --",
    "git diff",
    "git blame",
    "openssl enc -base64 -in",
    "python3 tool.py",
    "unheard-of --file",
)
WRAPS = (
    "{}",
    "bash -c {q}",
    "env A=1 {}",
    "({})",
    "if true; then {}; fi",
    "echo $({})",
    "true && {}",
    "{} | wc -l",
    "nice {}",
)


ANCESTORS = (".", "./", "/w", "a/..", "..")
GOES_BELOW = (
    *("grep -r . {}", "grep -Rn x {}", "egrep --recursive x {}", "rg x {}", "ag x {}", "tar cf - {}", "tar -czf x {}"),
    *("zip -r x {}", "cp -r {} /tmp/x", "cp -a {} x", "rsync -a {} x", "diff -r {} /tmp/y", "7z a x {}"),
)
NAMED = (
    *("git show HEAD:{}", "git show main:a/../{}", "git cat-file -p HEAD:{}", "git show :{}", "git archive HEAD {}"),
    *("python3 -c \"print(open('{}').read())\"", "python3 - {}", "perl -pe 1 {}", "node -e 'x(\"{}\")'"),
    *("awk 'BEGIN {{ while ((getline l < \"{}\") > 0) print l }}'", "sed 'r {}' x", "some-tool --in={}", "./x.sh {}"),
    *("openssl enc -in {}", "docker cp {} x:y", "vim -es -c 'w! /dev/stdout' {}", "make FILE={}"),
)


@pytest.mark.parametrize("form", NAMED)
def test_whatever_program_names_such_a_file_asks_at_least(form: str) -> None:
    paths_only = Rule(id="no-secrets", verdict=Verdict.BLOCK, paths=("secrets/",))
    for path in ("secrets/key", "./secrets/a/b", "/w/secrets/key")[: 2 if ":" in form else 3]:
        assert judge(form.format(path), SECRET).verdict is not Verdict.ALLOW, path
        assert judge(form.format(path), paths_only).verdict is not Verdict.ALLOW, path


def test_a_command_that_goes_through_the_folder_above_asks() -> None:
    passed = [form.format(folder) for form in GOES_BELOW for folder in ANCESTORS[:-1]]
    passed += ["rg x", "grep -rn x", "ag x", "git grep x", "git archive HEAD", "cd .. && tar cf - ."]
    assert [line for line in passed if judge(line, SECRET).verdict is Verdict.ALLOW] == []


@pytest.mark.parametrize(
    "command",
    [
        *(
            "grep -rn x src",
            "rg x src docs",
            "tar cf x src",
            "cp -r src out",
            "cp a b",
            "rg secrets src",
            "git grep -n",
        ),
        *(
            "git commit -m 'secrets/x is gone'",
            "git diff",
            "git log -p",
            "git show HEAD:src/a",
            "git status",
            "make test",
        ),
        *("echo secrets/key", "printf 'see secrets/key'", "rm -r secrets", "mkdir -p secrets", "ls secrets", "find ."),
        *("python3 tool.py", "pytest tests/x.py", "sed -n 1p src/a", "iconv -f utf8 a.txt", "test -e secrets/key"),
    ],
)
def test_what_reads_no_such_file_by_its_words_needs_no_question(command: str) -> None:
    expected = Verdict.ASK if command.startswith("git grep") else Verdict.ALLOW
    assert judge(command, SECRET).verdict is expected, judge(command, SECRET)


@pytest.mark.parametrize(
    ("paths", "verdict"),
    [
        ((), Verdict.ASK),
        ((".",), Verdict.ASK),
        (("/w",), Verdict.ASK),
        (("src",), Verdict.ALLOW),
        (("secrets/a",), Verdict.BLOCK),
    ],
)
def test_a_search_through_the_folder_above_asks_where_a_rule_blocks_searching(
    paths: tuple[str, ...], verdict: Verdict
) -> None:
    rule = Rule(id="no-secrets", verdict=Verdict.BLOCK, tools=("read_file", "search_files"), paths=("secrets/",))
    call = ProposedCall(tool="search_files", args={}, effect=Effect.READS, paths=paths, sandbox="A", workspace="/w")
    assert RulePolicy(rules=(rule,)).judge(call).verdict is verdict


def test_no_spelling_of_a_reader_gets_past_a_rule_on_read_file() -> None:
    """Whatever reads a file below `secrets`, however it is wrapped and quoted, is blocked or asks."""
    rng = random.Random(35)
    for _ in range(3_000):
        path = "/".join(
            rng.choice((".", "a/..", "")) if rng.random() < 0.2 else part
            for part in ("secrets", *rng.choices(("a", "b c", "d.txt", "$x", "*"), k=rng.randint(1, 3)))
        )
        if not path.startswith("secrets"):
            path = f"secrets/{path}"
        word = rng.choice((shlex.quote(path), f'"{path}"')) if "*" not in path else path.replace(" ", "\\ ")
        command = rng.choice((f"{rng.choice(READERS)} {word}", f"{rng.choice(READERS)} other {word}", f"cat < {word}"))
        wrapped = rng.choice(WRAPS).replace("{q}", shlex.quote(command)).replace("{}", command)
        line = f"{wrapped}{rng.choice(('', '; true', ' || true'))}"
        assert judge(line, SECRET).verdict is not Verdict.ALLOW, line
