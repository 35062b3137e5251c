"""DocumentReader: text is read here, everything that needs a parser in a process that can do nothing else."""

import asyncio
import json
from typing import Any, Final

from agent_fabric.application.ports.memory import DocumentText
from agent_fabric.domain.errors import DocumentUnreadable, MissingExtra
from agent_fabric.infrastructure.memory.document_parser import is_plain, parse_document, type_of
from agent_fabric.infrastructure.memory.local_documents import MAX_BYTES
from agent_fabric.infrastructure.sandbox.confined_process import run_confined

PARSE_TIMEOUT_S: Final = 60.0
_WORKER: Final = "agent_fabric.infrastructure.memory.parse_worker"
_MAX_ANSWER_BYTES: Final = 130_000_000


class DocumentFiles:
    """DocumentReader of text, HTML, Word and PDF files."""

    async def read(self, data: bytes, *, source: str, media_type: str = "") -> DocumentText:
        if not data.strip():
            raise DocumentUnreadable(f"{source} is empty")
        if len(data) > MAX_BYTES:
            raise DocumentUnreadable(
                f"{source} is larger than {MAX_BYTES:,} bytes, and is not read",
                hint="Split it into parts.",
            )
        kind = type_of(data, source, media_type)
        if is_plain(kind):
            return await asyncio.to_thread(parse_document, data, source, media_type)
        return await _read_elsewhere(data, source, media_type, kind)


async def _read_elsewhere(data: bytes, source: str, media_type: str, kind: str) -> DocumentText:
    """Let another process read a document. It ends with us, and after its time."""
    head = json.dumps({"source": source, "media_type": media_type, "kind": kind}).encode()
    try:
        out = await run_confined(_WORKER, head + b"\n" + data, timeout_s=PARSE_TIMEOUT_S)
    except TimeoutError as problem:
        raise DocumentUnreadable(f"Reading {source} took longer than {PARSE_TIMEOUT_S:.0f} s") from problem
    return _read_text(out[:_MAX_ANSWER_BYTES], source)


def _read_text(out: bytes, source: str) -> DocumentText:
    try:
        answer: Any = json.loads(out)
        if "problem" in answer:
            if answer["code"] == MissingExtra.code:
                raise MissingExtra("documents", needed_for="Reading PDF files")
            raise DocumentUnreadable(str(answer["problem"]), hint=str(answer["hint"]))
        return DocumentText(str(answer["text"]), str(answer["title"]), tuple(map(str, answer["notes"])))
    except (ValueError, KeyError, TypeError) as problem:
        # It was ended by its limits, or by what stood in the document.
        raise DocumentUnreadable(
            f"{source} takes more memory or time than a document may", hint="Split it into parts."
        ) from problem
