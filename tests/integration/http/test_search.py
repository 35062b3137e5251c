"""`GET /runs/search` on the real server."""

from pathlib import Path

import pytest

from integration.embeddings.embedding_server import MODEL, embedding_server
from integration.http.served import served, task


@pytest.mark.proves("AF-147")
async def test_settled_runs_are_found_by_meaning_and_a_server_that_is_gone_is_a_problem(tmp_path: Path) -> None:
    async with embedding_server() as embeddings:
        index = {"embedding_model": MODEL, "embedding_base_url": f"{embeddings.url}/v1"}
        async with served(tmp_path, run_index=index) as server:
            run_id = (await server.client.post("/run", json=task())).json()["_meta"]["run_id"]
            answer = await server.client.get("/runs/search", params={"q": "all done"})
            assert answer.status_code == 200
            assert answer.json()["unread"] == 0
            (found,) = answer.json()["runs"]
            assert found["run_id"] == run_id
            assert 0 < found["score"] <= 1
            assert (await server.client.get("/runs/search")).status_code == 422
            assert (await server.client.get("/runs/search?q=%20")).json() == {"runs": [], "unread": 0}
            await embeddings.stop()
            gone = await server.client.get("/runs/search?q=x")
            assert (gone.status_code, gone.json()["code"]) == (502, "model_unreachable")
