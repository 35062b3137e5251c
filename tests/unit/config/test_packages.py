"""Specialists that installed packages bring along: a layer above what is built in and below every file."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.config.layers import Offer
from agent_fabric.config.loader import Loaded, load_config, read_config
from agent_fabric.config.problems import ConfigProblem

ANALYST: Mapping[str, Any] = {
    "description": "Analyses tables.",
    "keywords": ("csv", "table"),
    "builder": "csv_analyst.pack:build",
}


def offer(
    settings: Mapping[Any, Any] = ANALYST, *, name: str = "analyst", package: str = "p 1.0", **more: str
) -> Offer:
    return Offer(name, package, settings, **more)


def read(*offers: Offer, file: Mapping[str, Any] | None = None, folder: Path | None = None, **environ: str) -> Loaded:
    if file is not None:
        assert folder is not None
        (folder / "chosen.json").write_text(json.dumps(file))
        environ["FABRIC_CONFIG_PATH"] = str(folder / "chosen.json")
    return read_config(environ, packages=lambda: offers)


@pytest.mark.proves("AF-106", "AF-110")
def test_a_package_adds_a_specialist_after_those_that_are_built_in() -> None:
    loaded = read(offer())
    assert list(loaded.config.specialists) == [*read().config.specialists, "analyst"]
    assert loaded.config.specialists["analyst"].keywords == ("csv", "table")
    assert loaded.origins["specialists.analyst.keywords"] == "package p 1.0"
    assert loaded.origins["specialists.analyst.workflow"] == "default"
    assert loaded.left_out == {}


def test_files_and_variables_change_what_a_package_brings(tmp_path: Path) -> None:
    file = {"specialists": {"analyst": {"keywords": ["sales"]}}}
    loaded = read(offer(), file=file, folder=tmp_path, FABRIC_SPECIALISTS__ANALYST__DESCRIPTION="Mine.")
    assert loaded.config.specialists["analyst"].keywords == ("sales",)
    assert loaded.config.specialists["analyst"].description == "Mine."
    assert loaded.origins["specialists.analyst.keywords"].startswith("file ")
    assert loaded.origins["specialists.analyst.builder"] == "package p 1.0"


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (offer({}, problem="ModuleNotFoundError: No module named 'pandas'"), "No module named 'pandas'"),
        (offer({"description": "d"}), "it names no `builder`"),
        (offer({**ANALYST, "keyword": []}), "did you mean 'keywords'?"),
        (offer({**ANALYST, "builder": "nonsense"}), "must be 'module:function'"),
        (offer({**ANALYST, "keywords": {1, 2}}), "is a set"),
        (offer({**ANALYST, 1: 2}), "must be text"),
        (offer(name="Analyst!"), "is not a usable name"),
        (offer(name="engineering"), "a pack of this name is built in"),
    ],
)
def test_an_offer_that_cannot_be_used_is_left_out_and_harms_nobody(broken: Offer, reason: str) -> None:
    loaded = read(broken, offer(name="other", package="q 2.0"))
    assert list(loaded.config.specialists) == [*read().config.specialists, "other"]
    assert list(loaded.left_out) == [broken.specialist_id]
    sentence = loaded.left_out[broken.specialist_id]
    assert sentence.startswith(f"The pack {broken.specialist_id!r} of package p 1.0 is left out: ")
    assert reason in sentence


def test_a_built_in_specialist_stays_what_it_is_when_a_package_has_its_name(tmp_path: Path) -> None:
    file = {"specialists": {"engineering": {"keywords": ["mine"]}}}
    loaded = read(offer(name="engineering"), file=file, folder=tmp_path)
    assert loaded.config.specialists["engineering"].builder is None
    assert loaded.config.specialists["engineering"].keywords == ("mine",)


def test_of_two_packages_with_one_name_neither_is_taken() -> None:
    loaded = read(offer(), offer(package="q 2.0"))
    assert "analyst" not in loaded.config.specialists
    assert "of package p 1.0 and q 2.0 is left out: more than one" in loaded.left_out["analyst"]


def test_what_a_file_says_about_a_pack_that_is_left_out_does_no_harm(tmp_path: Path) -> None:
    file = {"specialists": {"analyst": {"keywords": ["sales"], "description": "Mine."}}}
    loaded = read(offer({}, problem="it is broken"), file=file, folder=tmp_path)
    assert "analyst" not in loaded.config.specialists
    assert "analyst" in loaded.left_out
    with pytest.raises(ConfigProblem, match=r"specialists\.other\.description is missing"):
        read(offer({}, problem="it is broken"), file={"specialists": {"other": {"keywords": []}}}, folder=tmp_path)


def test_a_pack_of_ones_own_may_take_the_place_of_one_that_is_left_out(tmp_path: Path) -> None:
    file = {"specialists": {"analyst": {"description": "Mine.", "builder": "mine:build"}}}
    loaded = read(offer({}, problem="it is broken"), file=file, folder=tmp_path)
    assert loaded.config.specialists["analyst"].builder == "mine:build"


def test_packages_are_asked_once_per_process() -> None:
    asked: list[str] = []

    def packages() -> list[Offer]:
        asked.append("once")
        return [offer()]

    load_config.cache_clear()
    try:
        for _ in range(2):
            overrides = {"specialists": {"analyst": {"keywords": ["x"]}}}
            assert load_config(overrides, packages=packages).origins["specialists.analyst.keywords"] == "flag"
    finally:
        load_config.cache_clear()
    assert asked == ["once"]


@pytest.mark.parametrize(
    ("reference", "usable"),
    [("my_tools:count", True), ("a.b:c", True), ("count-words", True), ("", False), ("a:b:c", False), ("a b", False)],
)
@pytest.mark.proves("AF-111")
def test_tools_are_added_by_reference_or_by_name(reference: str, usable: bool) -> None:
    settings = {"specialists": {"engineering": {"tools": [reference]}}}
    if usable:
        assert read_config({}, overrides=settings).config.specialists["engineering"].tools == (reference,)
        return
    with pytest.raises(ConfigProblem, match=r"specialists\.engineering\.tools\[0\] must be 'module:function'"):
        read_config({}, overrides=settings)
