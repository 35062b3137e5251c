"""Put on the path of `fabric` processes by a test: the models of the catalogue are small files that a stand-in has."""

import json
import os
from dataclasses import replace

from agent_fabric.infrastructure.models.weights import catalogue

WEIGHTS = json.loads(os.environ["STAND_IN_WEIGHTS"])

catalogue.CATALOGUE = tuple(  # type: ignore[misc]  # the real ones take a gigabyte
    replace(model, sha256=WEIGHTS["sha256"], size_bytes=WEIGHTS["size"], mirrors=model.mirrors[:1])
    for model in catalogue.CATALOGUE
)
catalogue.find.__defaults__ = (catalogue.CATALOGUE,)
