import pytest

from agent_fabric.domain.errors import Forbidden, InvalidInputs
from agent_fabric.domain.identity.accounts import require_may_grant
from agent_fabric.domain.identity.principals import (
    AnyScope,
    Kind,
    Principal,
    Scope,
    holds_scope,
    known_scopes,
    narrow_scopes,
    scope_from,
    widen,
)

pytestmark = pytest.mark.proves("A33-017")


def scopes(*names: str) -> frozenset[AnyScope]:
    return frozenset(map(scope_from, names))


@pytest.mark.parametrize("name", ["tools:*", "tools:shell", "tools:mcp__files__*", "tools:read", "tools:none", *Scope])
def test_a_scope_is_known_by_its_name(name: str) -> None:
    assert scope_from(name) == name


@pytest.mark.parametrize(
    "name", ["", "tools", "tools:", "tool:shell", "tools:a b", "tools:a\n", "god", "tools:" + "x" * 129]
)
def test_other_names_are_no_scopes(name: str) -> None:
    with pytest.raises(ValueError, match="there is no scope"):
        scope_from(name)


@pytest.mark.parametrize(
    ("held", "wanted", "included"),
    [
        ("tools:*", "tools:shell", True),
        ("tools:*", "tools:execute", True),
        ("tools:*", "runs", False),
        ("tools:mcp__*", "tools:mcp__files__read", True),
        ("tools:mcp__*", "tools:shell", False),
        ("tools:write", "tools:read", True),
        ("tools:read", "tools:write", False),
        ("tools:read", "tools:read_file", False),
        ("tools:r*", "tools:read", False),
        ("admin", "nodes", True),
        ("runs", "nodes", False),
    ],
)
def test_a_scope_includes_smaller_ones(held: str, wanted: str, included: bool) -> None:
    assert holds_scope(frozenset({held}), wanted) is included


@pytest.mark.parametrize(
    ("token", "user", "effective"),
    [
        (("runs",), ("runs",), ("runs",)),
        (("runs",), ("runs", "tools:read"), ("runs", "tools:read")),
        (("runs", "tools:shell"), ("runs",), ("runs", "tools:shell")),
        (("runs", "tools:shell"), ("runs", "tools:*"), ("runs", "tools:shell")),
        (("runs", "tools:*"), ("runs", "tools:shell"), ("runs", "tools:shell")),
        (("runs", "tools:shell"), ("runs", "tools:read_file"), ("runs", "tools:none")),
        (("runs", "nodes", "tools:write"), ("runs", "tools:read"), ("runs", "tools:read")),
    ],
)
def test_a_token_never_has_more_tools_than_its_user(
    token: tuple[str, ...], user: tuple[str, ...], effective: tuple[str, ...]
) -> None:
    assert narrow_scopes(scopes(*token), scopes(*user)) == set(effective)


def test_a_stored_tool_scope_that_cannot_be_read_still_narrows() -> None:
    assert known_scopes(["runs", "tools:~", "gone", 7]) == {"runs", "tools:~"}


def test_admin_cannot_be_narrowed_by_a_tool_scope() -> None:
    owner = Principal("owner", Kind.LOCAL, widen((Scope.ADMIN,)))
    require_may_grant(owner, scopes("runs", "tools:read"))
    with pytest.raises(InvalidInputs, match="includes every tool"):
        require_may_grant(owner, scopes("admin", "tools:read"))


def test_a_caller_with_few_tools_cannot_grant_more() -> None:
    some = Principal("some", Kind.KEY, widen(scopes("runs", "tools:read_file")))
    require_may_grant(some, scopes("runs", "tools:read_file"))
    for more in (("runs",), ("runs", "tools:*"), ("runs", "tools:shell"), ("nodes", "tools:read_file")):
        with pytest.raises(Forbidden, match="does not have"):
            require_may_grant(some, scopes(*more))
