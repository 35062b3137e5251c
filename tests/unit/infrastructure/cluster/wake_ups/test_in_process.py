"""Wake-ups within one process."""

import pytest

from agent_fabric.infrastructure.cluster.wake_ups.in_process import InProcessWakeUps
from contract.wake_ups_contract import Pair, WakeUpsContract


class TestInProcess(WakeUpsContract):
    @pytest.fixture
    def pair(self) -> Pair:
        wake_ups = InProcessWakeUps()

        async def ready() -> None:
            pass

        return Pair(wake_ups, wake_ups, ready)
