"""Arithmetic with packed vectors: numpy where it is installed, plain Python elsewhere."""

import math
import operator
import os
import sys
from array import array
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any

from agent_fabric.application.ports.embeddings import Vector

BYTES_EACH = 4
_THREADS = "OPENBLAS_NUM_THREADS"
"""Read by numpy's library when it is loaded."""


def pack_vector(values: Iterable[float]) -> Vector:
    """Return a vector of length 1; one of no length, or with numbers that are none, becomes zeros.

    Raises:
        OverflowError, TypeError: a value does not fit or is not a number.
    """
    numbers = array("f", values)
    length = math.sqrt(sum(map(operator.mul, numbers, numbers)))
    if not math.isfinite(length) or length == 0:
        return bytes(BYTES_EACH * len(numbers))
    numbers = array("f", [each / length for each in numbers])
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def similarities(vectors: Sequence[Vector], question: Vector) -> list[float]:
    """Return the cosine of each vector with the question; all have the same size."""
    if not vectors:
        return []
    numpy = find_numpy()
    if numpy is not None:
        matrix = numpy.frombuffer(b"".join(vectors), dtype="<f4").reshape(len(vectors), -1)
        found: list[float] = (matrix @ numpy.frombuffer(question, dtype="<f4")).tolist()
        return found
    asked = unpack_vector(question)
    return [sum(map(operator.mul, unpack_vector(each), asked)) for each in vectors]


def unpack_vector(vector: Vector) -> "array[float]":
    """Return the numbers of a vector."""
    numbers = array("f", vector)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def find_numpy() -> Any:
    """Return the module, or None where it is not installed.

    It computes on one thread, unless the environment says otherwise: our products are small, and the threads of its
    library wait for each other in a loop that keeps a processor busy. Measured: 3 to 8 times the processor time.
    """
    decided = _THREADS in os.environ or "numpy" in sys.modules
    if not decided:
        os.environ[_THREADS] = "1"
    try:
        return import_module("numpy")
    except ImportError:
        return None
    finally:
        if not decided:
            os.environ.pop(_THREADS, None)  # another thread may have been here as well
