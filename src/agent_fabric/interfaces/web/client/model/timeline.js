// A run over time: which lane did what, and when it waited.

/**
 * @typedef {{lane: string, kind: "model" | "tool" | "wait", from: number, to: number, text: string}} Span
 */

const NO_LANE = "run";

/**
 * Return the spans of each lane: what began, until it ended or the log does.
 *
 * @param {import("./fold.js").LogEvent[]} events
 * @returns {{names: string[], spans: Span[], tokens: Record<string, {prompt: number, completion: number}>, from: number, to: number}}
 */
export function lanesOf(events) {
  /** @type {Span[]} */
  const spans = [];
  /** @type {Map<string, Span>} */
  const open = new Map();
  /** @type {string[]} */
  const names = [];
  /** @type {Record<string, {prompt: number, completion: number}>} */
  const tokens = {};
  const last = events.at(-1)?.ts ?? 0;
  /** @param {string} key @param {Span} span */
  const begin = (key, span) => {
    end(key, span.from);
    open.set(key, span);
    spans.push(span);
  };
  /** @param {string} key @param {number} at */
  const end = (key, at) => {
    const span = open.get(key);
    if (span !== undefined) span.to = at;
    open.delete(key);
  };
  for (const event of events) {
    const lane = event.lane ?? NO_LANE;
    const said = event.payload ?? {};
    if (!names.includes(lane)) names.push(lane);
    switch (event.kind) {
      case "llm_request":
        begin(`${lane} model`, { lane, kind: "model", from: event.ts, to: last, text: `${said.model ?? "model"}` });
        break;
      case "llm_response":
      case "context_compacted": {
        const before = tokens[lane] ?? { prompt: 0, completion: 0 };
        tokens[lane] = { prompt: before.prompt + (said.usage?.prompt_tokens ?? 0), completion: before.completion + (said.usage?.completion_tokens ?? 0) };
        end(`${lane} model`, event.ts);
        break;
      }
      case "llm_error":
        end(`${lane} model`, event.ts);
        break;
      case "tool_call":
        begin(`${lane} ${said.call_id}`, { lane, kind: "tool", from: event.ts, to: last, text: String(said.tool) });
        break;
      case "tool_result":
      case "tool_error":
        end(`${lane} ${said.call_id}`, event.ts);
        break;
      case "approval_requested":
        begin(`approval ${said.approval_id}`, { lane, kind: "wait", from: event.ts, to: last, text: "waits for an answer" });
        break;
      case "approval_decided":
        end(`approval ${said.approval_id}`, event.ts);
        break;
      case "run_waiting":
        begin("waiting", { lane: NO_LANE, kind: "wait", from: event.ts, to: last, text: "waits" });
        break;
      case "run_resumed":
        end("waiting", event.ts);
        break;
      default:
    }
  }
  const used = names.filter((name) => spans.some((span) => span.lane === name));
  return { names: used.length ? used : names.slice(0, 1), spans, tokens, from: events[0]?.ts ?? 0, to: last };
}

/** @param {import("./fold.js").LogEvent} event @returns {string} An event in one line. */
export function lineOf(event) {
  const said = event.payload ?? {};
  switch (event.kind) {
    case "run_created":
      return "Created";
    case "recruitment":
      return `Specialists: ${(said.specialist_ids ?? []).join(", ")}`;
    case "pack_start":
      return `${said.specialist_id} begins with ${said.model?.model ?? "a model"}`;
    case "llm_request":
      return said.purpose === "turn" ? "Asks the model" : `Asks the model (${said.purpose})`;
    case "llm_response":
      return said.tool_calls?.length ? `Calls ${said.tool_calls.map((/** @type {any} */ call) => call.tool).join(", ")}` : `Says: ${(said.content ?? "").slice(0, 80)}`;
    case "llm_error":
      return `The model failed: ${said.error_message ?? ""}`;
    case "tool_call":
      return `Runs ${said.tool}`;
    case "tool_result":
      return `${said.tool} worked`;
    case "tool_error":
      return `${said.tool} did not work: ${(said.error_message ?? "").slice(0, 80)}`;
    case "approval_requested":
      return `Asks for approval: ${said.tool}`;
    case "approval_decided":
      return `${said.decision ?? "Decided"} by ${said.by ?? "nobody"}`;
    case "run_waiting":
      return "Waits";
    case "run_resumed":
      return "Goes on";
    case "run_complete":
      return "Completed";
    case "run_failed":
      return `Failed: ${said.message ?? ""}`;
    case "run_cancelled":
      return `Cancelled by ${said.by ?? ""}`;
    default:
      return event.kind.replaceAll("_", " ");
  }
}
