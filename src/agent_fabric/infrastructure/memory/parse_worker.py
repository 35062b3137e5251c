"""A process that reads one document and ends. Whatever stands in it, no file but programs is opened, and no network.

Parsers are the part of a program that strangers' bytes break first. So this process imports them, shuts all doors
behind itself, and only then takes the document from its standard input. Its answer is one JSON object.
"""

import ctypes
import json
import os
import resource
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import agent_fabric
from agent_fabric.domain.errors import FabricError
from agent_fabric.infrastructure.memory.document_parser import PDF, WORD, parse_document
from agent_fabric.infrastructure.web.extract import HTML

MEMORY_BYTES: Final = 512 * 1024 * 1024
CPU_S: Final = 60
_PR_SET_SECCOMP, _FILTER = 22, 2


class _Program(ctypes.Structure):
    _fields_ = (("count", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def main() -> None:
    """Read `{"source", "media_type"}` on the first line and the document behind it; write what was found."""
    head = json.loads(sys.stdin.buffer.readline())
    _import_parser(head["kind"])
    close_doors()
    data = sys.stdin.buffer.read()
    try:
        found = parse_document(data, head["source"], head["media_type"])
        answer: dict[str, Any] = {"text": found.text, "title": found.title, "notes": found.notes}
    except FabricError as problem:
        answer = {"problem": problem.message, "hint": problem.hint, "code": problem.code}
    sys.stdout.buffer.write(json.dumps(answer).encode("utf-8", "replace"))
    sys.stdout.buffer.flush()


def close_doors() -> None:
    """Confine this process: memory, time, files, network. What the kernel does not know is left out."""
    for kind, most in (
        (resource.RLIMIT_DATA, MEMORY_BYTES),
        (resource.RLIMIT_CPU, CPU_S),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(kind)
        least = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (least, least))
    if sys.platform != "linux":
        return
    from agent_fabric.infrastructure.sandbox.landlock_rules import (  # noqa: PLC0415 - only this kernel has it
        Allowed,
        Ruleset,
        give_up_new_privileges,
        landlock_version,
    )
    from agent_fabric.infrastructure.sandbox.seccomp import filter_bytes, supported  # noqa: PLC0415 - as above

    give_up_new_privileges()
    if landlock_version():
        own = Path(agent_fabric.__file__).parent
        programs = (*filter(os.path.isdir, sys.path), sys.prefix, sys.base_prefix, str(own))
        Ruleset(Allowed(read=programs, devices=())).lay_on_this_process()
    if supported():
        text = filter_bytes(sockets="none")
        program = _Program(len(text) // 8, text)
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_PR_SET_SECCOMP, ctypes.c_ulong(_FILTER), ctypes.byref(program), 0, 0):
            raise OSError(ctypes.get_errno(), "seccomp was refused")


def _import_parser(kind: str) -> None:
    """Import what a document of this kind needs, by reading a tiny one: its limits are for the document."""
    samples = {HTML: b"<html><body><p>A page with a sentence.</p></body></html>", PDF: b"%PDF-1.4\n", WORD: b"PK"}
    with suppress(FabricError):
        parse_document(samples.get(kind, b"text"), "sample", kind)


if __name__ == "__main__":
    main()
