"""A server that is killed before it could answer does not start a second run when the request comes again."""

import json
from pathlib import Path

import pytest

from agent_fabric.testing.scripted_model import Finish, Script, ScriptedModel, Slow
from e2e.fabric_process import Fabric, settings
from e2e.server_process import PATIENCE_S, serving
from integration.http.served import LOOK, Stream, bearer, data_of, ids

SUMMARY = Finish(summary="all done", artifacts=[], next_steps=[], notes="")
SCRIPT = Script(turns=(LOOK, Slow(SUMMARY, 1.0)))
BODY = {"prompt": "do it", "pack": "engineering"}


@pytest.mark.proves("A33-074")
@pytest.mark.parametrize("path", ["/run", "/run/stream"])
async def test_a_request_that_is_sent_again_after_a_kill_comes_to_the_same_run(tmp_path: Path, path: str) -> None:
    async with ScriptedModel(SCRIPT) as model:
        fabric = Fabric(tmp_path, settings(model.base_url))
        async with serving(fabric) as server:
            headers = {"Idempotency-Key": "one", **bearer(server.token)}
            first = await Stream.send(server.port, "POST", path, body=BODY, headers=headers)
            await model.wait_for_requests(1, timeout_s=PATIENCE_S)
            await server.kill()
            first.close()
        async with serving(fabric) as server:
            headers = {"Idempotency-Key": "one", **bearer(server.token)}
            again = await Stream.send(server.port, "POST", path, body=BODY, headers=headers)
            again.head = (await again.reader.readuntil(b"\r\n\r\n")).decode()
            assert " 200 " in again.head
            assert "idempotency-replayed: true" in again.head.lower()
            if path == "/run/stream":
                frames = await again.frames()
                assert ids(frames) == list(range(len(frames) - 1)), "from the beginning, nothing twice"
                result = data_of(frames[-1])["payload"]
            else:
                length = int(again.head.lower().split("content-length: ")[1].split("\r\n")[0])
                result = json.loads(await again.reader.readexactly(length))
            assert result["summary"] == "all done"
            (only,) = await server.runs()
            assert only["run_id"] == result["_meta"]["run_id"]
            again.close()
