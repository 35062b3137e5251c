"""Reads rules from files and from the configuration, and tries their examples."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_fabric.config.files import parse_settings, read_text
from agent_fabric.config.plain import dotted_path
from agent_fabric.config.problems import MAX_REPORTED, ConfigProblem, combine
from agent_fabric.config.schema.policy import PolicyFile, RuleConfig
from agent_fabric.config.structure import nearest
from agent_fabric.domain.policy.rules import CommandPattern, Rule
from agent_fabric.domain.policy.verdicts import Verdict
from agent_fabric.domain.tools.specs import Effect

MAX_EXPRESSION_CHARS = 2_000
_MAX_MEMORY_BYTES = 1 << 20


def expression(text: str) -> CommandPattern:
    """Make a pattern of a regular expression.

    Raises:
        ConfigProblem: it is too long, or RE2 does not know it.
    """
    import re2  # type: ignore[import-untyped]  # it has no types  # noqa: PLC0415 - see above

    if len(text) > MAX_EXPRESSION_CHARS:
        raise ConfigProblem(f"is an expression of more than {MAX_EXPRESSION_CHARS} characters")
    options = re2.Options()
    options.max_mem = _MAX_MEMORY_BYTES
    options.log_errors = False
    options.dot_nl = True
    try:
        compiled = re2.compile(text, options)
    except (re2.error, UnicodeEncodeError) as error:
        reason = (
            error.args[0].decode(errors="replace") if error.args and isinstance(error.args[0], bytes) else str(error)
        )
        raise ConfigProblem(
            f"is no regular expression that can be used: {reason}",
            hint="Look-around and back references are left out of RE2, so that no expression can hang.",
        ) from None
    return CommandPattern(
        text=text,
        expression=lambda command: compiled.search(_plain(command)) is not None,
        whole=lambda command: compiled.fullmatch(_plain(command)) is not None,
    )


def _plain(command: str) -> str:
    # Halves of characters cannot be encoded, and a judge never raises.
    return command.encode("utf-8", "replace").decode()


if TYPE_CHECKING:
    import yaml

MAX_RULES = 1_000
"""Every call is held against every rule."""
_SUFFIXES = {".yaml", ".yml", ".json"}


def rules_in(path: Path) -> tuple[Rule, ...]:
    """Read a policy file.

    Raises:
        ConfigProblem: it cannot be read, holds what is not known, or an example does not come out as it says.
    """
    return rules_from(text_of(path), path)


def text_of(path: Path) -> str:
    """Return what stands in a policy file.

    Raises:
        ConfigProblem: it cannot be read.
    """
    if path.suffix not in _SUFFIXES:
        raise ConfigProblem(f"{path}: a policy file ends in .yaml, .yml or .json")
    return read_text(path)


def rules_from(text: str, path: Path) -> tuple[Rule, ...]:
    """Return the rules in a file's text; for errors see `rules_in`."""
    settings = parse_settings(text, path)
    try:
        written = PolicyFile.model_validate(settings)
    except ValueError as error:
        from agent_fabric.config.explain import count_of, details_of  # noqa: PLC0415 - only for what is wrong

        line_in = lines_of(text)
        raise combine(
            [_explain(path, line_in, details) for details in details_of(error, at_most=MAX_REPORTED)],
            count=count_of(error),
        ) from None
    return checked_rules(written.rules, str(path))


def checked_rules(written: Sequence[RuleConfig], origin: str) -> tuple[Rule, ...]:
    """Make rules of what was written, once their examples come out right.

    Raises:
        ConfigProblem: a rule says nothing, an expression cannot be used, or an example does not come out as it says.
    """
    if len(written) > MAX_RULES:
        raise ConfigProblem(f"{origin}: there are more than {MAX_RULES} rules")
    rules: list[Rule] = []
    problems: list[ConfigProblem] = []
    for each in written:
        try:
            rules.append(_rule(each, origin))
        except ConfigProblem as problem:
            problems.append(ConfigProblem(f"{origin}: rule {each.id!r} {problem.message}", hint=problem.hint))
    if problems:
        raise combine(problems)
    refuse_doubles(rules)
    return tuple(rules)


def _rule(written: RuleConfig, origin: str) -> Rule:
    patterns = [CommandPattern(text=text) for text in written.commands if text.split()]
    patterns += [expression(text) for text in written.commands_matching]
    rule = Rule(
        id=written.id,
        verdict=Verdict(written.verdict),
        reason=written.reason,
        tools=written.tools,
        commands=tuple(patterns),
        paths=written.paths,
        domains=written.domains,
        effects=frozenset(Effect(effect) for effect in written.effects),
        agents=written.agents,
        nodes=written.nodes,
        scopes=written.scopes,
        unless_scopes=written.unless_scopes,
        matches=written.matches,
        matches_not=written.matches_not,
        origin=origin,
    )
    if rule.allows and not (rule.tools or rule.commands or rule.paths or rule.domains or rule.effects):
        raise ConfigProblem("allows everything", hint="Name tools, commands, paths, domains or effects.")
    if problem := rule.pipe_problem:
        raise ConfigProblem(problem, hint="Write it like this: `curl | sh`, in a rule that blocks or asks.")
    from agent_fabric.domain.policy.examples import misfits  # noqa: PLC0415 - few people write rules, and it reads much

    if wrong := misfits(rule):
        raise ConfigProblem(
            f"{'fits' if wrong.fits else 'does not fit'} its example {wrong.example!r}",
            hint=f"The example stands under `{'matches_not' if wrong.fits else 'matches'}`: correct it or the rule.",
        )
    return rule


def refuse_doubles(rules: Iterable[Rule]) -> None:
    """See to it that every rule has a name of its own.

    Raises:
        ConfigProblem: two have the same.
    """
    seen: dict[str, Rule] = {}
    for rule in rules:
        other = seen.setdefault(rule.id, rule)
        if other is not rule:
            places = " and ".join(dict.fromkeys((other.origin, rule.origin)))
            raise ConfigProblem(
                f"two rules are called {rule.id!r} ({places})",
                hint="Rules never replace each other, the strictest one wins. Give one of them another id.",
            )


def _explain(path: Path, line_in: Callable[[Sequence[str | int]], int], details: Any) -> ConfigProblem:
    loc: tuple[str | int, ...] = details["loc"]
    line = line_in(loc)
    place = f"{path} (line {line})" if line else str(path)
    if details["type"] == "extra_forbidden":
        known = list((PolicyFile if len(loc) == 1 else RuleConfig).model_fields)
        meant = nearest(str(loc[-1]), known)
        guess = f"; did you mean {meant!r}?" if meant else ""
        return ConfigProblem(
            f"{place}: unknown key {str(loc[-1])!r}{guess}", hint=f"Valid keys here: {', '.join(known)}."
        )
    if details["type"] == "missing":
        return ConfigProblem(f"{place}: {dotted_path(loc)} is missing")
    problem = details.get("ctx", {}).get("error")
    if isinstance(problem, ConfigProblem):
        return ConfigProblem(f"{place}: {dotted_path(loc)} {problem.message}", hint=problem.hint)
    return ConfigProblem(f"{place}: {dotted_path(loc)}: {details['msg'][:1].lower()}{details['msg'][1:]}")


def lines_of(text: str) -> Callable[[Sequence[str | int]], int]:
    """Read a file's text once; return what tells the line of something in it, or of the nearest thing around it.

    It tells 0 if that is not known.
    """
    import yaml  # noqa: PLC0415 - only to explain a mistake; JSON is YAML enough for that

    loader = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
    try:
        root: yaml.Node | None = yaml.compose(text, Loader=loader)
    except (yaml.YAMLError, RecursionError):
        return lambda _: 0
    return partial(_line_below, root)


def _line_below(node: "yaml.Node | None", loc: Sequence[str | int]) -> int:
    import yaml  # noqa: PLC0415 - as above

    line = 0
    for part in loc:
        found: yaml.Node | None = None
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                if isinstance(key, yaml.ScalarNode) and key.value == str(part):
                    found, line = value, key.start_mark.line + 1
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            found = node.value[part]
            line = found.start_mark.line + 1
        if found is None:
            break
        node = found
    return line
