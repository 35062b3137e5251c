"""The JSON schema of a configuration file, for editors and other programs."""

from typing import Any

from agent_fabric.config.defaults import default_settings
from agent_fabric.config.docstrings import field_docs
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.config.structure import models_below


def fabric_json_schema() -> dict[str, Any]:
    """Return the schema of a configuration file.

    A file need not say everything: no key is required at the top, and an entry that is built in may be given in part.
    """
    schema = FabricConfig.model_json_schema(mode="validation")
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema.pop("required")
    for model, _ in models_below(FabricConfig):
        target = schema if model is FabricConfig else schema["$defs"][model.__name__]
        for name, text in field_docs(model).items():
            target["properties"][name].setdefault("description", text)
    for group, entries in default_settings().items():
        whole = schema["properties"][group]["additionalProperties"]
        name = whole["$ref"].rpartition("/")[2]
        part = f"{name}Part"
        schema["$defs"][part] = {key: item for key, item in schema["$defs"][name].items() if key != "required"}
        schema["properties"][group]["properties"] = {entry: {"$ref": f"#/$defs/{part}"} for entry in entries}
    return schema
