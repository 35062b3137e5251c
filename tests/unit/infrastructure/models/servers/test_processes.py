"""What a model server gets to know."""

from agent_fabric.infrastructure.models.servers.processes import server_environment


def test_keys_and_tokens_do_not_reach_a_model_server() -> None:
    given = {"PATH": "/bin", "LC_ALL": "C", "OPENAI_API_KEY": "sk-1", "GITHUB_TOKEN": "x", "HF_TOKEN": "y"}
    assert server_environment(given) == {"PATH": "/bin", "LC_ALL": "C", "GOMP_SPINCOUNT": "0"}


def test_who_sets_how_threads_wait_is_obeyed() -> None:
    assert server_environment({"GOMP_SPINCOUNT": "100", "OMP_WAIT_POLICY": "active"}) == {
        "GOMP_SPINCOUNT": "100",
        "OMP_WAIT_POLICY": "active",
    }
