"""Two runs beside each other."""

from agent_fabric.domain.runs.comparison import ComparedCall, ComparedRun, Comparison, FileDifference, Turn, TurnPair
from agent_fabric.wire.shape import Shape

COMPARISON = Shape(
    Comparison,
    "a b same settings parts_at pairs files same_files",
    name="RunComparison",
    parts=[
        Shape(ComparedRun, name="ComparedRun"),
        Shape(TurnPair, name="TurnPair"),
        Shape(Turn, name="ComparedTurn"),
        Shape(ComparedCall, name="ComparedCall"),
        Shape(FileDifference, name="FileDifference"),
    ],
)
