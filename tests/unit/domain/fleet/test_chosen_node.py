"""A run about a machine: its calls mean that machine unless they name another one."""

from agent_fabric.application.fleet.fleet_policy import FleetDoor
from agent_fabric.domain.fleet.chosen_node import named_call, offered_about, words_about
from agent_fabric.domain.tools.json_schema import problems_with
from agent_fabric.domain.tools.specs import Effect, ToolSpec, Trust, object_schema
from agent_fabric.infrastructure.packs.sysadmin import node_tools

TOOLS = {spec.name: spec for spec, _ in node_tools(FleetDoor())}
READ = TOOLS["node_read_file"]
OTHER = ToolSpec(
    name="graph_neighbours",
    description="Something else that has nodes.",
    parameters=object_schema({"node": {"type": "string"}}, ("node",)),
    effect=Effect.READS,
    trust=Trust.MCP,
)


def test_a_call_without_a_machine_means_the_chosen_one() -> None:
    assert named_call(READ, {"path": "/etc/hosts"}, "web-1") == {"node": "web-1", "path": "/etc/hosts"}
    assert named_call(READ, {"node": "", "path": "/x"}, "web-1") == {"node": "web-1", "path": "/x"}
    assert named_call(READ, {"node": "db-1", "path": "/x"}, "web-1") == {"node": "db-1", "path": "/x"}
    assert named_call(READ, {"path": "/x"}, "") == {"path": "/x"}
    assert named_call(TOOLS["node_list"], {}, "web-1") == {}
    assert named_call(OTHER, {}, "web-1") == {}, "an argument of that name in another tool is something else"


def test_a_chosen_machine_need_not_be_named_and_no_other_argument_becomes_optional() -> None:
    (offered,) = offered_about([READ], "web-1")
    assert problems_with({"path": "/x"}, offered.parameters) == []
    assert problems_with({}, offered.parameters) != []
    assert problems_with({"path": "/x"}, READ.parameters) != []
    assert offered_about([READ, OTHER], "") == (READ, OTHER)
    assert offered_about([OTHER], "web-1") == (OTHER,)
    assert "required" not in offered_about([TOOLS["node_system_info"]], "web-1")[0].parameters


def test_the_model_is_told_which_machine_is_meant() -> None:
    assert "web-1" in words_about("web-1", TOOLS.values())
    assert "node_* tools" in words_about("web-1", TOOLS.values())
    assert "node_* tools" not in words_about("web-1", [OTHER])
