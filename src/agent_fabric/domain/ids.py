"""Names of things, each a type of its own so that they cannot be mixed up."""

from typing import NewType

RunId = NewType("RunId", str)
"""A run: a UUID in text form, also the name of its folder."""

SpecialistId = NewType("SpecialistId", str)
"""A pack as configuration names it, for example `engineering`."""

LaneId = NewType("LaneId", str)
"""One strand of work inside a run; within a task force each specialist has its own."""

CallId = NewType("CallId", str)
"""One tool call; unique within its turn."""

EvalId = NewType("EvalId", str)
"""An evaluation: a UUID in text form."""

SessionId = NewType("SessionId", str)
"""A conversation with a person: a UUID in text form."""

DocumentId = NewType("DocumentId", str)
"""A document that agents look up: 16 hexadecimal digits."""

FactId = NewType("FactId", str)
"""A fact that agents remember: 12 hexadecimal digits."""
