"""The real models that tests of this folder use."""

import asyncio
import os
from pathlib import Path

import pytest

from agent_fabric.domain.errors import FabricError
from agent_fabric.infrastructure.models.weights.catalogue import find
from agent_fabric.infrastructure.models.weights.download import Weights
from agent_fabric.infrastructure.models.weights.folder import ModelFolder, models_folder
from integration.llm.weights_mirrors import Fetched, Notices
from services import need


@pytest.fixture(scope="session")
def fast_weights() -> Path:
    """The smallest real model: from the user's models folder (`FABRIC_MODELS_DIR`), downloaded when it is not there."""
    if os.environ.get("FABRIC_SKIP_REAL_LLM") == "1":
        pytest.skip("FABRIC_SKIP_REAL_LLM=1: no real model")
    weights = Weights(ModelFolder(models_folder(os.environ)))
    try:
        return asyncio.run(weights.ensure(find("fast"), lambda _: None))
    except FabricError as problem:
        need(condition=False, reason=f"the real model cannot be had: {problem.message}")
        raise


@pytest.fixture(scope="session")
def fetched_weights(tmp_path_factory: pytest.TempPathFactory) -> Fetched:
    """The smallest real model as the default mirrors have it, whatever is in the user's models folder."""
    notices = Notices()
    weights = Weights(ModelFolder(tmp_path_factory.mktemp("fetched") / "models"))
    return Fetched(asyncio.run(weights.ensure(find("fast"), notices)), notices)
