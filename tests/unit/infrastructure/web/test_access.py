"""Web access is built as the configuration says, and costs nothing until then."""

import json
import subprocess
import sys

import pytest

from agent_fabric.config.schema.tools import WebConfig
from agent_fabric.infrastructure.tools.search_engines import DdgsSearch, SearxngSearch
from agent_fabric.infrastructure.web.access import LazyWeb

SERVER = "http://localhost:8888"


@pytest.mark.parametrize(
    ("config", "search"),
    [
        (WebConfig(), DdgsSearch),
        (WebConfig(search_url=SERVER), SearxngSearch),
        (WebConfig(search_url=SERVER, search_provider="searxng"), SearxngSearch),
        (WebConfig(search_url=SERVER, search_provider="ddgs"), DdgsSearch),
    ],
)
async def test_the_configuration_chooses_who_searches(config: WebConfig, search: type) -> None:
    web = LazyWeb(config)
    assert isinstance(web.search_engine, search)
    await web.aclose()


def test_importing_web_access_imports_none_of_its_libraries() -> None:
    script = "import json, sys; import agent_fabric.infrastructure.web.access; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert not {"aiohttp", "trafilatura", "lxml", "ddgs", "orjson"}.intersection(json.loads(done.stdout))


def test_building_web_access_leaves_the_readers_of_pages_for_later() -> None:
    script = (
        "import json, sys; from agent_fabric.config.schema.tools import WebConfig;"
        "from agent_fabric.infrastructure.web.access import LazyWeb; web = LazyWeb(WebConfig());"
        "web._fetcher, web.search_engine, web._requests;"
        "print(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert not {"trafilatura", "lxml", "ddgs"}.intersection(json.loads(done.stdout))
