"""PostgreSQL is an extra."""

import sys

import pytest

from agent_fabric.domain.errors import MissingExtra
from agent_fabric.infrastructure.persistence.open_postgres import postgres_store


def test_without_the_extra_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if ".persistence.postgres" in name]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtra) as caught:
        postgres_store()
    assert caught.value.hint == 'Install it with: pip install "agent-fabric[cluster]"'
