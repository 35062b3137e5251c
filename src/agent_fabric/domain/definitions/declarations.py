"""How inputs and outputs are declared in files of workflows and agents.

Apart from `parameters`, which every run imports: the description of files is only needed to check them.
"""

from typing import Final

from agent_fabric.domain.definitions.fields import (
    ANYTHING,
    FLAG,
    IDENTIFIER_TEXT,
    LIST,
    Either,
    Entries,
    Field,
    Group,
    one_of,
    optional,
    text,
)
from agent_fabric.domain.definitions.parameter import Parameter
from agent_fabric.domain.definitions.parameters import TYPES, unfit
from agent_fabric.domain.definitions.problems import CheckPosition, ProblemCollector

_TYPE_ALIASES: Final = {
    **dict.fromkeys(("str", "text"), "string"),
    **dict.fromkeys(("float", "double"), "number"),
    **dict.fromkeys(("dict", "map", "mapping"), "object"),
    "int": "integer",
    "bool": "boolean",
    "list": "array",
    "json": "any",
}
_TYPE: Final = one_of(TYPES, _TYPE_ALIASES)

PARAMETER: Final = Group(
    "input",
    "A declared value.",
    {
        "type": Field(_TYPE, "Type of the value.", default="any"),
        "description": Field(text(least=0), "What it is, for people."),
        "required": Field(FLAG, "Whether a run cannot start without it.", default=False),
        "default": optional(ANYTHING, "The value when none is given."),
        "enum": Field(LIST, "The only values that it may have."),
    },
)
PARAMETERS: Final = Entries(
    Either(_TYPE, PARAMETER, "Write NAME: string, or NAME: {type: string}"),
    IDENTIFIER_TEXT,
    "Write `name: string`, or `name:` with `type`, `description`, `required` and `default` below it.",
)


def declared_parameters(plain: object, place: CheckPosition, findings: ProblemCollector) -> dict[str, Parameter]:
    """Return the parameters that are declared well enough to check others against; note defaults that do not fit."""
    declared: dict[str, Parameter] = {}
    for name, each in plain.items() if isinstance(plain, dict) else ():
        about = {"type": each} if isinstance(each, str) else each if isinstance(each, dict) else {}
        kind = about.get("type", "any")
        choices = about.get("enum")
        declared[name] = parameter = Parameter(
            type=kind if isinstance(kind, str) and kind in TYPES else "any",
            required=about.get("required") is True,
            has_default="default" in about,
            choices=tuple(choices) if isinstance(choices, list) else (),
        )
        at = place.below(name)
        if choices == []:
            findings.add(at.below("enum"), f"{at.name}.enum allows nothing", "Name the values, or leave it out.")
        for index, choice in enumerate(parameter.choices):
            for message in unfit(Parameter(type=parameter.type), choice, f"{at.name}.enum[{index}]"):
                findings.add(at.below("enum", index), message)
        if parameter.has_default:
            for message in unfit(parameter, about["default"], f"{at.name}.default"):
                hint = "Change the default, or the type." if not parameter.choices else ""
                findings.add(at.below("default"), message, hint)
    return declared
