"""Commands in a real box reach what the proxy allows, and nothing else."""

import sys
from pathlib import Path

from agent_fabric.infrastructure.sandbox.bubblewrap import BubblewrapSandbox
from agent_fabric.infrastructure.sandbox.egress.policy import EgressPolicy
from integration.egress.wire import PUBLIC, Net, bench, listening
from services import need, need_program

need_program("bwrap", package="bubblewrap")
need(sys.platform == "linux", "boxes of this kind are Linux's")

FETCH = (
    "import sys, urllib.request\n"
    "try: print(urllib.request.urlopen(sys.argv[1], timeout=10).read().decode())\n"
    "except Exception as problem: print(problem)\n"
)


async def test_a_command_in_a_box_reaches_an_allowed_host_and_reads_why_another_is_refused(tmp_path: Path) -> None:
    async with listening() as server, listening() as secret:
        net = Net({"example.org": [PUBLIC], "evil.example": [PUBLIC]}, server.port)
        async with bench(EgressPolicy(allow_domains=("example.org",)), net) as b:
            box = BubblewrapSandbox(tmp_path, "run", egress_socket=b.proxy.socket_path)
            try:
                await box.write_file("fetch.py", FETCH.encode())

                async def fetch(url: str) -> str:
                    outcome = await box.run_command(f"python3 fetch.py {url}", timeout_s=30)
                    return outcome.stdout.decode() + outcome.stderr.decode()

                assert await fetch("http://example.org/") == "hello\n"
                assert "403" in await fetch("http://evil.example/")
                refused = await fetch("https://evil.example/")
                assert "403 Forbidden by agent-fabric - evil.example is not among the hosts" in refused
                assert "403" in await fetch("http://169.254.169.254/latest/meta-data/")
                direct = await box.run_command(
                    f"unset http_proxy HTTP_PROXY; exec 3<>/dev/tcp/127.0.0.1/{secret.port} && echo reached",
                    timeout_s=30,
                )
                assert b"reached" not in direct.stdout
            finally:
                await box.aclose()
    assert net.dialled == [(PUBLIC, 80)]
    assert (server.connections, secret.connections) == (1, 0)
    assert {refusal.host for refusal in b.refusals} == {"evil.example", "169.254.169.254"}
