"""Carries out what a hub asks of a node, each call at most once, and nothing that the node's own floor forbids."""

import asyncio
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from agent_fabric.application.ports.node import ApprovalCheck, CallSpool, NodeToolbox, SpooledCall, SpoolState
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.fleet.binding import BoundCall
from agent_fabric.domain.fleet.chain import head_message
from agent_fabric.domain.fleet.node_policy import NodePolicy, proposed_call
from agent_fabric.domain.fleet.node_tools import NODE_TOOLS
from agent_fabric.domain.fleet.protocol import MAX_IN_FLIGHT, MAX_LIFETIME_S, RpcCode
from agent_fabric.domain.policy.calls import argument_hash
from agent_fabric.domain.policy.verdicts import Verdict
from agent_fabric.domain.tools.json_schema import problems_with

CLOCK_TOLERANCE_S = 300.0
"""How far the clocks of hub and node may differ."""
EXECUTION_ID: Final = re.compile(r"[A-Za-z0-9_-]{8,64}")
"""It becomes the name of a file with a long output: nothing else may be in it."""
_CANCELLED: Final = {"status": "cancelled", "error": "the call was ended"}
_MAX_WAITING = 256
"""Calls that wait for one that is under way to end."""


class CallRefused(Exception):
    """A call is not carried out."""

    def __init__(self, code: RpcCode, message: str, **data: Any) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSelf:
    """Who the node is."""

    agent_id: str
    public_key: str
    uid: int
    """The user that commands run as."""


@dataclass(slots=True)
class ServeCommands:
    """Use case: judge, ask for the approval, remember, run, remember, answer."""

    node: NodeSelf
    spool: CallSpool
    toolbox: NodeToolbox
    check_approval: ApprovalCheck
    policy: NodePolicy
    """In force now; replaced when the hub's document changes."""
    sign: Callable[[bytes], str]
    clock: Callable[[], float] = time.time
    draining: bool = False
    """Whether no further calls are looked at: the hub sends them again."""
    _running: dict[str, "asyncio.Task[dict[str, Any]]"] = field(default_factory=dict)
    _unwanted: set[str] = field(default_factory=set)
    """Calls under way that the hub has asked to end."""
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_IN_FLIGHT))

    async def __call__(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Carry out a call, or return what it gave when it was carried out before.

        Raises:
            CallRefused: it is not carried out; the node's record says why, too.
        """
        bound = self._bound_call(params)
        call_hash, execution_id = bound.hash, bound.execution_id
        if (running := self._running.get(execution_id)) is not None:
            self._require_same(self.spool.find(execution_id), call_hash, execution_id)
            return await self._outcome(execution_id, running)
        seen = self.spool.find(execution_id)
        if seen is not None:
            self._require_same(seen, call_hash, execution_id)
            if seen.state is not SpoolState.RECEIVED:
                return self._remembered_result(seen)
        if self.draining:
            raise CallRefused(RpcCode.UNPROVEN, "the node is about to restart: send it again")
        self._require_allowed(params, bound)
        if len(self._running) >= _MAX_WAITING:
            raise CallRefused(RpcCode.BUSY, "too many calls wait on this node")
        is_started = seen is None and len(self._running) < MAX_IN_FLIGHT  # a slot is free for it
        if seen is None:
            self._receive(bound, call_hash, params, begins=is_started)
        task = asyncio.create_task(self._run(bound, is_started=is_started))
        self._running[execution_id] = task
        task.add_done_callback(lambda done: self._let_go(execution_id, done, is_started=is_started))
        return await self._outcome(execution_id, task)

    async def _outcome(self, execution_id: str, task: "asyncio.Task[dict[str, Any]]") -> Mapping[str, Any]:
        """Wait for a call; a caller that stops waiting does not stop it."""
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            seen = self.spool.find(execution_id) if task.cancelled() else None
            if seen is None or seen.result is None:  # it has not begun, or goes on without its caller
                raise
            return seen.result

    def cancel(self, execution_id: str) -> bool:
        """End a call that is under way or waits for its turn; tell whether there was one."""
        task = self._running.get(execution_id)
        if task is None:
            return False
        self._unwanted.add(execution_id)
        return task.cancel()

    def _let_go(self, execution_id: str, task: "asyncio.Task[dict[str, Any]]", *, is_started: bool) -> None:
        """Forget a call that is over; one that was ended before its first step is remembered as cancelled.

        One that only waited for its turn when the node stopped stays as it was received, and runs if it is sent again.
        """
        del self._running[execution_id]
        is_unwanted = execution_id in self._unwanted
        self._unwanted.discard(execution_id)
        if task.cancelled() and (is_started or is_unwanted):
            self._record_end(execution_id, dict(_CANCELLED))

    async def drain(self, timeout_s: float) -> bool:
        """Take no further calls, and wait until all but one have ended; tell whether they have."""
        self.draining = True
        others = [task for task in self._running.values() if task is not asyncio.current_task()]
        if others:
            await asyncio.wait(others, timeout=timeout_s)
        return all(task.done() for task in others)

    def take_calls(self) -> None:
        self.draining = False

    def settle(self, execution_id: str, result: dict[str, Any]) -> None:
        """Remember how a call ended that outlived the process which began it."""
        seen = self.spool.find(execution_id)
        if seen is not None and seen.result is None:
            self._record_end(execution_id, result)

    def list_unreported(self) -> Sequence[SpooledCall]:
        """Return what the hub may not know: calls that have ended, and those that a stop of the node left in doubt."""
        known = [each for each in self.spool.list_unreported() if each.execution_id not in self._running]
        for each in known:
            if each.state is SpoolState.STARTED:
                self._remembered_result(each)
        return [found for each in known if (found := self.spool.find(each.execution_id)) and found.result is not None]

    @property
    def busy(self) -> int:
        return len(self._running)

    def _bound_call(self, params: Mapping[str, Any]) -> BoundCall:
        """Read a call.

        Raises:
            CallRefused: it is none.
        """
        name, arguments = params.get("tool_name"), params.get("arguments")
        execution_id, expires_at = params.get("execution_id"), params.get("expires_at")
        version, issued_at = params.get("policy_version"), params.get("issued_at")
        if not isinstance(execution_id, str) or not EXECUTION_ID.fullmatch(execution_id):
            raise CallRefused(RpcCode.PARAMS, "execution_id is 8 to 64 letters, digits, - and _")
        if not isinstance(name, str) or not isinstance(arguments, dict):
            raise CallRefused(RpcCode.PARAMS, "tool_name and arguments are missing")
        moments = [each for each in (expires_at, issued_at) if isinstance(each, int | float)]
        if len(moments) != 2 or not isinstance(version, str):
            raise CallRefused(RpcCode.PARAMS, "issued_at, expires_at and policy_version are missing")
        if name not in self.toolbox.names():
            self.spool.note("refused", execution_id, {"tool_name": name[:100], "why": "unknown tool"})
            raise CallRefused(RpcCode.UNKNOWN, f"there is no tool {name[:100]!r} on this node")
        if problems := problems_with(arguments, NODE_TOOLS[name].parameters):
            raise CallRefused(RpcCode.PARAMS, "; ".join(problems))
        return BoundCall(
            agent_id=self.node.agent_id,
            node_key=self.node.public_key,
            execution_id=execution_id,
            tool_name=name,
            arguments=arguments,
            uid=self.node.uid,
            policy_version=version,
            expires_at=moments[0],
        )

    def _require_same(self, seen: SpooledCall | None, call_hash: str, execution_id: str) -> None:
        if seen is not None and seen.hash != call_hash:
            raise self._refusal(execution_id, RpcCode.REUSED, "the execution id belongs to another call")

    def _require_allowed(self, params: Mapping[str, Any], bound: BoundCall) -> None:
        now, execution_id = self.clock(), bound.execution_id
        if bound.expires_at <= now:
            raise self._refusal(execution_id, RpcCode.EXPIRED, "the call has expired")
        if bound.expires_at > now + MAX_LIFETIME_S + CLOCK_TOLERANCE_S:
            raise self._refusal(execution_id, RpcCode.EXPIRED, "a call lives for at most a day")
        if bound.policy_version != self.policy.version:
            raise self._refusal(
                execution_id,
                RpcCode.POLICY_CHANGED,
                "another policy is in force than the call was judged by",
                version=self.policy.version,
            )
        ruling = self.policy.judge(proposed_call(NODE_TOOLS[bound.tool_name], bound.arguments, bound.agent_id))
        if ruling.verdict is Verdict.BLOCK:
            raise self._refusal(execution_id, RpcCode.BLOCKED, ruling.reason, rule=ruling.rule)
        if ruling.verdict is Verdict.ASK:
            approval = params.get("approval")
            why = self.check_approval(bound.hash, approval if isinstance(approval, Mapping) else {})
            if why:
                reason = f"{ruling.reason} {why}"
                raise self._refusal(execution_id, RpcCode.APPROVAL, reason, rule=ruling.rule)

    def _refusal(self, execution_id: str, code: RpcCode, message: str, **data: Any) -> CallRefused:
        self.spool.note("refused", execution_id, {"code": int(code), "why": message[:500], **data})
        return CallRefused(code, message, **data)

    def _receive(self, bound: BoundCall, call_hash: str, params: Mapping[str, Any], *, begins: bool) -> None:
        approval = params.get("approval")
        approver = str(approval.get("approver", ""))[:200] if isinstance(approval, Mapping) else ""
        detail = {
            "tool_name": bound.tool_name,
            "call_hash": call_hash,
            "args_hash": argument_hash(bound.arguments),
            "approver": approver,
        }
        try:
            self.spool.receive(bound.execution_id, call_hash, bound.tool_name, detail, begins=begins)
        except Exception as problem:  # noqa: BLE001 - a full disk, a damaged file: what is not remembered is not run
            raise CallRefused(RpcCode.BUSY, f"the node cannot remember the call, so it is not run: {problem}") from None

    async def _run(self, bound: BoundCall, *, is_started: bool) -> dict[str, Any]:
        async with self._slots:
            if not is_started:
                if bound.expires_at <= self.clock():
                    return self._record_end(
                        bound.execution_id, {"status": "expired", "error": "it expired before its turn"}
                    )
                self.spool.start(bound.execution_id)
            try:
                result = await self.toolbox.run(bound.execution_id, bound.tool_name, bound.arguments)
            except asyncio.CancelledError:
                result = dict(_CANCELLED)
        return self._record_end(bound.execution_id, result)

    def _remembered_result(self, seen: SpooledCall) -> Mapping[str, Any]:
        if seen.result is not None:
            return seen.result
        doubt = {"status": "in_doubt", "error": "the node was stopped during the call, so it may have happened"}
        return self._record_end(seen.execution_id, doubt, kind="in_doubt")

    def _record_end(self, execution_id: str, result: dict[str, Any], kind: str = "finished") -> dict[str, Any]:
        """Remember a result together with the signed head of the record that it is part of."""
        position, head = self.spool.head
        signed = self.sign(head_message(self.node.agent_id, position, head))
        whole = {**result, "chain_head": {"position": position, "hash": head, "signature": signed}}
        detail = {"status": result.get("status", ""), "exit_code": result.get("exit_code")}
        self.spool.finish(execution_id, whole, detail, kind)
        return whole
