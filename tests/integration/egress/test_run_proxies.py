"""Each run has a way out of its own, with its own counts, that ends with the run."""

import asyncio
from pathlib import Path

from agent_fabric.config.schema.sandbox import EgressConfig
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.sandbox.egress.policy import EgressRefusal
from agent_fabric.infrastructure.sandbox.egress.run_proxies import RunProxies
from integration.egress.wire import PUBLIC, Net, listening, status

ONE, TWO = RunId("one"), RunId("two")


async def ask(path: Path, url: str) -> bytes:
    async with asyncio.timeout(60):
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(f"GET {url} HTTP/1.1\r\n\r\n".encode())
        answer = await reader.read()
        writer.close()
        return answer


async def test_runs_are_counted_told_and_ended_apart() -> None:
    refused: list[tuple[RunId, EgressRefusal]] = []
    async with listening() as server:
        net = Net({"example.org": [PUBLIC]}, server.port)
        proxies = RunProxies(
            EgressConfig(allow_domains=("example.org",)),
            on_refused=lambda run_id, refusal: refused.append((run_id, refusal)),
            lookup=net.lookup,
            connect=net.connect,
        )
        one, two = proxies.socket_for(ONE), proxies.socket_for(TWO)
        assert one != two
        assert proxies.socket_for(ONE) == one
        assert status(await ask(one, "http://example.org/")) == 200
        assert status(await ask(two, "http://evil.example/")) == 403
        first, second = proxies.record_of(ONE), proxies.record_of(TWO)
        assert first is not None
        assert second is not None
        assert (first.uses["example.org:80"].connections, first.refused) == (1, 0)
        assert (second.uses, second.refused) == ({}, 1)
        assert [(run_id, refusal.host) for run_id, refusal in refused] == [(TWO, "evil.example")]
        await proxies.close(ONE)
        assert not one.exists()
        assert proxies.record_of(ONE) is None
        assert status(await ask(two, "http://example.org/")) == 200
        await proxies.aclose()
        assert not two.exists()


async def test_one_that_was_never_used_is_ended_too() -> None:
    proxies = RunProxies(EgressConfig())
    path = proxies.socket_for(ONE)
    await proxies.close(ONE)
    assert not path.exists()
    await proxies.close(ONE)
