"""Labels of a call: where its results come from, and which files of a project are third-party text."""

import asyncio

from agent_fabric.application.ports.file_origins import FileOrigins
from agent_fabric.application.tools.call_site import CallSite
from agent_fabric.domain.policy.calls import ProposedCall
from agent_fabric.domain.policy.labels import NO_BOX, WORKSPACE_FILES
from agent_fabric.domain.tools.specs import Effect, ToolSpec, Trust


async def note_files(files: FileOrigins | None, spec: ToolSpec, call: ProposedCall, site: CallSite) -> str:
    """Return why the files that a call may read are strangers' text, and note that it may make them so.

    Raises:
        StoreUnavailable: neither can be done, so the call must not run.
    """
    if files is None or WORKSPACE_FILES not in site.flow.private:
        return ""
    return await asyncio.to_thread(_look_at_files, files, spec, call, site)


def _look_at_files(files: FileOrigins, spec: ToolSpec, call: ProposedCall, site: CallSite) -> str:
    exposes = ""
    if spec.trust.vouched_for and not site.flow.results:
        paths = [call.from_workspace(path) for path in call.paths] or ["."]
        exposes = files.exposing(site.target, paths, reader=site.run_id)
    if may_bring_text(spec, call, site):
        files.may_write(site.target, site.run_id, site.root or site.run_id)
    return exposes


def may_bring_text(spec: ToolSpec, call: ProposedCall, site: CallSite) -> bool:
    """Tell whether a call may write strangers' text into files of the workspace.

    A run that has pushed has read what the other side said. It still writes nothing with `git status`.
    """
    if site.outside is not None:
        return site.outside.brings_files
    if spec.effect is Effect.READS or not (site.flow.exposed or not spec.trust.vouched_for):
        return False
    return not (call.command and _only_reads(call.command))


def _only_reads(command: str) -> bool:
    from agent_fabric.domain.policy.command_lines.invocation import UnparsableCommand  # noqa: PLC0415 - few runs ask this
    from agent_fabric.domain.policy.command_lines.wrappers import started_by  # noqa: PLC0415 - as above
    from agent_fabric.domain.policy.read_only import only_reads  # noqa: PLC0415 - as above

    try:
        return all(map(only_reads, started_by(command)))
    except UnparsableCommand:
        return False


def origin_of(spec: ToolSpec, judged: ProposedCall, exposes: str, origin: str = "") -> str:
    """Say where text came from that is not vouched for; empty: the owner or the workspace wrote it."""
    if spec.trust is Trust.NODE and judged.server:
        return judged.server
    return exposes if spec.trust.vouched_for else f"{spec.trust.value}: {spec.server or origin or spec.name}"


def is_from_outside(spec: ToolSpec) -> bool:
    """Tell whether addresses in a result count as read; a machine prints what a command of the model made."""
    if spec.trust.vouched_for or spec.trust is Trust.NODE:
        return False
    return not spec.server or bool(spec.sends_to)


def private_source(spec: ToolSpec, judged: ProposedCall, *, boxed: bool) -> str:
    """Say where a call has read what the world must not have, apart from the workspace."""
    if spec.trust is Trust.NODE and judged.server:
        return judged.server
    if spec.server and spec.private:
        return f"{spec.trust.value}: {spec.server}"
    return NO_BOX if spec.command_argument and not boxed else ""
