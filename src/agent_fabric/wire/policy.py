"""Rules, and what they say about calls."""

from agent_fabric.application.policy.check_command import CheckedCommand
from agent_fabric.application.policy.simulate_policy import DecisionChange, Simulation
from agent_fabric.domain.policy.engine import Judgement, RulePolicy
from agent_fabric.domain.policy.rules import Rule
from agent_fabric.domain.policy.verdicts import Ruling
from agent_fabric.domain.tools.allowlists import Allowlists
from agent_fabric.wire.shape import Shape

RULING = Shape(Ruling, "verdict rule subject reason", name="RulingShown")
CHECKED_COMMAND = Shape(
    CheckedCommand,
    "*decided alike=decided.alike policy_version level parts outside outside_refusal",
    parts=[RULING, Shape(Judgement, "*decided said", name="CheckedPart", parts=[RULING])],
)
POLICY = Shape(
    RulePolicy,
    "version profile rules allowed_commands capabilities allowlist=floor agent_allowlists",
    name="PolicyInForce",
    about="What may happen without a question, what asks, and what never happens.",
    parts=[
        Shape(
            Allowlists,
            "commands paths domains",
            name="AllowlistInForce",
            about="The only commands, paths and domains that may be used; an empty list does not limit.",
        ),
        Shape(
            Rule,
            "id verdict reason origin warning *conditions",
            name="RuleInForce",
            about="One rule, with the conditions that it has: `tools`, `commands`, `paths`, `domains`, and others.",
        ),
    ],
)
SIMULATION = Shape(
    Simulation,
    name="PolicySimulation",
    parts=[
        Shape(
            DecisionChange,
            "run_id=past.run_id ts=past.ts tool=past.call.tool args=past.call.args what before after",
            name="ChangedRuling",
            parts=[RULING],
        )
    ],
)
