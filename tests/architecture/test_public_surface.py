"""Nothing that other people's scripts and files name has gone: commands, routes, keys, event fields, tables."""

import pytest

from public_surface import frozen_surface, public_surface

SURFACE = public_surface()


@pytest.mark.proves("RM-14")
@pytest.mark.parametrize("kind", frozen_surface())
def test_no_public_name_is_gone(kind: str) -> None:
    gone = sorted(set(frozen_surface()[kind]) - set(SURFACE[kind]))
    assert gone == [], "a public name stays; if it goes on purpose, see tests/public_surface.py"


def test_the_frozen_list_has_every_kind() -> None:
    assert frozen_surface().keys() == SURFACE.keys()
    assert all(frozen_surface().values())
