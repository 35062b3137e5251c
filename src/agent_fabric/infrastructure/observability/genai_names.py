"""Attribute names of OpenTelemetry's conventions for generative AI, and our own.

Upstream still calls all of the former incubating and moves them around between releases, so the ones that we use are
written down here.
"""

from typing import Final

OPERATION: Final = "gen_ai.operation.name"
AGENT_NAME: Final = "gen_ai.agent.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
RESPONSE_MODEL: Final = "gen_ai.response.model"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
ERROR_TYPE: Final = "error.type"

INVOKE_AGENT: Final = "invoke_agent"
CHAT: Final = "chat"
EXECUTE_TOOL: Final = "execute_tool"

RUN_ID: Final = "fabric.run_id"
LANE: Final = "fabric.lane"
STEP: Final = "fabric.step"
STEP_ID: Final = "fabric.step_id"
ACTION: Final = "fabric.action"
ATTEMPT: Final = "fabric.attempt"
SPECIALIST_IDS: Final = "fabric.specialist_ids"
MODEL_KEY: Final = "fabric.model_key"
SANDBOX: Final = "fabric.sandbox"
RESUMED_BY: Final = "fabric.resumed_by"
PURPOSE: Final = "fabric.purpose"
DELAY_S: Final = "fabric.delay_s"
USAGE_ESTIMATED: Final = "fabric.usage_estimated"
REPEATED: Final = "fabric.repeated"
OUTCOME: Final = "fabric.outcome"
EVENT_TYPE: Final = "fabric.event_type"
