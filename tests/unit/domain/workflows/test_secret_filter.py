"""Secrets of a workflow: only what its author wrote names one, however outside data is put together."""

from collections.abc import Mapping
from typing import Any

import pytest

from agent_fabric.domain.secrets.references import secrets_in
from workflow_world import World, of, step, workflow

USES_IT = step("use", "transform", inputs={"auth": "Bearer {{ secrets.TOKEN }}", "plain": "x"})
ESCAPED = r"\u0024\u007bsecret\u003aTOKEN}"


def outputs(text: Any, **inputs: Any) -> Mapping[str, Any]:
    """Return what a step behind the one that uses the secret makes of a text."""
    last = step("t", "transform", inputs={"made": text}, depends_on=["use"])
    found: Mapping[str, Any] = of(World(workflow(USES_IT, last), inputs=inputs).run())["t"]["outputs"]
    return found


@pytest.mark.parametrize(
    ("text", "inputs"),
    [
        ("{{ inputs.a }}{{ inputs.b }}", {"a": "${secret", "b": ":TOKEN}"}),
        ("{{ inputs.a ~ inputs.b }}", {"a": "${sec", "b": "ret:TOKEN}"}),
        ("${{ inputs.a }}", {"a": "{secret:TOKEN}"}),
        ("{{ inputs.a | join('') }}", {"a": ["${secret", ":TOKEN}"]}),
        ("{{ inputs.a | replace('#', '') }}", {"a": "${sec#ret:TOKEN}"}),
        ("{{ inputs.a | from_json }}", {"a": f'{{"deep": ["{ESCAPED}"], "{ESCAPED}": 1}}'}),
        ("{% for part in inputs.a %}{{ part }}{% endfor %}", {"a": list("${secret:TOKEN}")}),
        ("{{ inputs.a[0] ~ inputs.a[2:] }} {{ use.plain }}", {"a": "$ {secret:TOKEN}"}),
        ({"{{ inputs.a }}{{ inputs.b }}": 1}, {"a": "${secret", "b": ":TOKEN}"}),
        (["{{ secrets.OTHER }}", "{{ inputs.a }}{{ inputs.b }}"], {"a": "${secret", "b": ":TOKEN}"}),
    ],
)
def test_outside_data_that_is_put_together_names_no_secret(text: Any, inputs: Mapping[str, Any]) -> None:
    assert "TOKEN" not in secrets_in(outputs(text, **inputs))


def test_a_step_s_own_outputs_name_no_secret_that_its_result_spells() -> None:
    read = step("r", "transform", inputs={"body": "{{ inputs.a }}"}, outputs={"read": "{{ result.body | from_json }}"})
    after = step("t", "transform", inputs={"made": "{{ r.read }}"}, depends_on=["r"])
    got = of(World(workflow(USES_IT, read, after), inputs={"a": f'"{ESCAPED}"'}).run())
    assert secrets_in(got["r"]["outputs"]) == secrets_in(got["t"]["outputs"]) == frozenset()
    assert "TOKEN" in got["r"]["outputs"]["read"], "it stays as text"


@pytest.mark.parametrize(
    "text",
    [
        "{{ use.auth }}",
        "{{ use }}",
        "{{ use.auth | replace('Bearer ', '') }}",
        "x {{ use['auth'] }} y",
        "{{ [use.auth, 1] | last if inputs.n > 2 else use.auth | trim }}",
        "{% for each in [use] %}{{ each.auth }}{% endfor %}",
        "{{ secrets.TOKEN }}{{ inputs.n }}",
        "${secret:TOKEN}{{ inputs.n }}",
    ],
)
def test_what_the_author_wrote_still_names_it_however_it_is_passed_on(text: str) -> None:
    assert secrets_in(outputs(text, n=1)) == {"TOKEN"}
