"""Joins the rules of the configuration with the built-in ones, and with those who are told."""

from collections.abc import Sequence

from agent_fabric.application.observability import raise_alert, take_vitals
from agent_fabric.config.schema.observability import AlertConfig
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.observability.alerts import BUILT_IN, USER, AlertRule, Severity, Threshold, condition_of

WATCHED = frozenset(take_vitals.MEANINGS) | frozenset(raise_alert.MEANINGS)
"""The names of all values that rules can be about."""


def alert_rules(configured: Sequence[AlertConfig]) -> list[AlertRule]:
    """Return the rules in force.

    Raises:
        ConfigError: one is no rule.
    """
    rules = {rule.name: rule for rule in BUILT_IN}
    seen: set[str] = set()
    for each in configured:
        if each.name in seen:
            raise ConfigError(f"Two alerts have the name {each.name!r}", hint="Give one of them another name.")
        seen.add(each.name)
        rules[each.name] = _rule(each, rules.get(each.name))
        if not each.enabled:
            del rules[each.name]
    return list(rules.values())


def _rule(each: AlertConfig, built_in: AlertRule | None) -> AlertRule:
    if each.when is None:
        if built_in is None:
            names = ", ".join(rule.name for rule in BUILT_IN)
            raise ConfigError(f"The alert {each.name!r} does not say when", hint=f"Set `when`. Built in are: {names}.")
        when = built_in.when
    else:
        try:
            when = condition_of(each.when)
        except ValueError as problem:
            raise ConfigError(f"`when` of the alert {each.name!r} {problem}", hint=_watched_values()) from None
    if isinstance(when, Threshold) and when.metric not in WATCHED:
        raise ConfigError(f"The alert {each.name!r} is about {when.metric!r}, which is unknown", hint=_watched_values())
    base = built_in or AlertRule(name=each.name, when=when)
    return AlertRule(
        name=each.name,
        when=when,
        for_s=base.for_s if each.for_s is None else each.for_s,
        severity=base.severity if each.severity is None else Severity(each.severity),
        notify=base.notify if each.notify is None else each.notify,
    )


def _watched_values() -> str:
    return f"Values that can be watched: {', '.join(sorted(WATCHED))}."


def webhooks_of(configured: Sequence[AlertConfig]) -> dict[str, str | None]:
    """Return the addresses that are told, each with the reference to its secret."""
    found: dict[str, str | None] = {}
    for each in configured:
        for place in each.notify or ():
            if place not in {"log", "bus"} and not place.startswith(USER):
                found[place] = each.secret or found.get(place)
    return found
