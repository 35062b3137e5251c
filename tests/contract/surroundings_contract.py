"""What every Clock, IdSource and Workspaces promises."""

import asyncio

from agent_fabric.application.ports.clock import Clock, IdSource
from agent_fabric.application.ports.runs import Workspaces
from contract.run_repository_contract import OTHER, RUN


class ClockContract:
    """Derive from this and give `clock`."""

    async def test_time_never_goes_back_and_a_wait_takes_as_long_as_it_says(self, clock: Clock) -> None:
        date, before = clock.now(), clock.monotonic()
        await clock.sleep(0.01)
        assert clock.monotonic() - before >= 0.009
        assert clock.now() >= date
        assert isinstance(date, float)

    async def test_others_go_on_while_one_waits(self, clock: Clock) -> None:
        seen: list[str] = []

        async def other() -> None:
            seen.append("other")

        task = asyncio.create_task(other())
        await clock.sleep(0.0)
        await task
        assert seen == ["other"]


class IdSourceContract:
    """Derive from this and give `ids`."""

    def test_no_id_is_given_twice(self, ids: IdSource) -> None:
        assert len({ids.new_run_id() for _ in range(1_000)}) == 1_000


class WorkspacesContract:
    """Derive from this and give `workspaces`."""

    def test_every_run_has_a_workspace_of_its_own(self, workspaces: Workspaces) -> None:
        assert RUN in workspaces.workspace(RUN)
        assert workspaces.workspace(RUN) != workspaces.workspace(OTHER)

    async def test_a_workspace_can_be_used_once_it_is_there_and_copied(self, workspaces: Workspaces) -> None:
        await workspaces.prepare(RUN)
        await workspaces.prepare(RUN)
        assert workspaces.usable(workspaces.workspace(RUN))
        await workspaces.copy(workspaces.workspace(RUN), OTHER)
        assert workspaces.usable(workspaces.workspace(OTHER))
