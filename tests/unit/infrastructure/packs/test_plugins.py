"""Packs of installed packages are found by their entry points."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_fabric.config.installed_packs import installed_packs
from agent_fabric.config.layers import Offer
from installed_packages import laid_out

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Make a package importable, as an installer does."""

    def install(entry_points: str, *, module: str = "", name: str = "tables") -> None:
        monkeypatch.syspath_prepend(laid_out(tmp_path, name, entry_points, module))
        monkeypatch.delitem(sys.modules, f"{name}_module", raising=False)

    return install


def found() -> list[Offer]:
    return [offer for offer in installed_packs() if offer.package.partition(" ")[0] in {"tables", "others"}]


@pytest.mark.proves("AF-106", "AF-110")
@pytest.mark.parametrize("module", ["PACK = {'builder': 'a:b'}", "def PACK():\n    return {'builder': 'a:b'}"])
def test_a_package_offers_a_mapping_or_a_function_that_returns_one(install: Install, module: str) -> None:
    install("[agent_fabric.packs]\nanalyst = tables_module:PACK\n[console_scripts]\nx = y:z\n", module=module)
    assert found() == [Offer("analyst", "tables 1.0", {"builder": "a:b"})]


@pytest.mark.parametrize(
    ("module", "problem"),
    [
        ("import no_such_module_at_all", "ModuleNotFoundError: No module named 'no_such_module_at_all'"),
        ("", "AttributeError: module 'tables_module' has no attribute 'PACK'"),
        ("def PACK():\n    raise OSError('no licence')", "OSError: no licence"),
        ("raise SystemExit('bye')", "SystemExit: bye"),
        ("PACK = 'text'", "TypeError: tables_module:PACK must be a mapping or return one, not str"),
        ("def PACK(needed): ...", "TypeError: "),
    ],
)
def test_a_package_that_fails_says_why(install: Install, module: str, problem: str) -> None:
    install("[agent_fabric.packs]\nanalyst = tables_module:PACK\n", module=module)
    (offer,) = found()
    assert offer[:3] == ("analyst", "tables 1.0", {})
    assert offer.problem.startswith(problem)


def test_packs_come_in_the_order_of_their_names(install: Install) -> None:
    install("[agent_fabric.packs]\nb = tables_module:PACK\n", module="PACK = {}")
    install("[agent_fabric.packs]\nc = others_module:PACK\na = others_module:PACK\n", module="PACK = {}", name="others")
    assert [offer.specialist_id for offer in found()] == ["a", "b", "c"]


def test_what_a_package_prints_does_not_spoil_a_commands_output(
    install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    install("[agent_fabric.packs]\nanalyst = tables_module:PACK\n", module="print('hello')\nPACK = {}")
    assert found()
    assert capsys.readouterr() == ("", "hello\n")
