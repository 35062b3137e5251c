// A run as the page shows it: the fold of its events, as on the server. Nothing else is known about a run.

/**
 * @typedef {{kind: string, seq: number, ts: number, run_id: string, lane?: string, step?: string, call_id?: string,
 *   payload: Record<string, any>, cut?: Record<string, any>}} LogEvent
 * @typedef {{kind: "text", seq: number, lane: string, text: string, cut: boolean}} TextItem
 * @typedef {{kind: "tool", seq: number, lane: string, callId: string, tool: string, args: Record<string, any>,
 *   state: "running" | "done" | "failed", result: any, error: string, origin: string, seconds: number,
 *   resultSeq: number, cut: boolean, approvedBy: string, signals: any[]}} ToolItem
 * @typedef {{kind: "approval", seq: number, id: string, asked: Record<string, any>, decision: string, by: string, reason: string,
 *   changed: Record<string, any> | null}} ApprovalItem
 * @typedef {{kind: "note", seq: number, text: string, tone: "plain" | "warning"}} NoteItem
 * @typedef {{kind: "thought", seq: number, text: string, cut: boolean}} ThoughtItem
 * @typedef {TextItem | ToolItem | ApprovalItem | NoteItem | ThoughtItem} Item
 * @typedef {{
 *   id: string, lastSeq: number, status: string, session: string, prompt: string, model: string, pack: string[],
 *   sandbox: string, items: Item[], partial: Record<string, string>, partialLength: Record<string, number>,
 *   thinking: boolean, notice: string, progress: boolean, error: {code: string, message: string, hint: string} | null,
 *   tokens: number, startedAt: number, endedAt: number, version: number, knowledge: Record<string, any> | null,
 *   outcome: string,
 * }} RunView
 */

/** @param {string} id @returns {RunView} */
export function newRun(id) {
  return {
    id,
    lastSeq: -1,
    status: "running",
    session: "",
    prompt: "",
    model: "",
    pack: [],
    sandbox: "",
    items: [],
    partial: {},
    partialLength: {},
    thinking: false,
    notice: "",
    progress: false,
    error: null,
    knowledge: null,
    outcome: "",
    tokens: 0,
    startedAt: 0,
    endedAt: 0,
    version: 0,
  };
}

export const SETTLED = new Set(["completed", "failed", "cancelled"]);

/** @param {string} text */
const pointsIn = (text) => {
  let count = 0;
  for (const _ of text) count += 1;
  return count;
};

/**
 * Take in an event. One that is known already changes nothing, so events may come more than once.
 *
 * @param {RunView} run
 * @param {LogEvent} event
 * @returns {boolean} Whether it was new.
 */
export function evolve(run, event) {
  if (event.seq <= run.lastSeq) return false;
  run.lastSeq = event.seq;
  run.version += 1;
  const lane = event.lane ?? "";
  const said = event.payload ?? {};
  if (event.kind !== "llm_request") run.notice = "";
  switch (event.kind) {
    case "run_created":
      run.prompt = said.prompt ?? "";
      run.session = said.session ?? "";
      run.sandbox = said.sandbox ?? "";
      run.startedAt = event.ts;
      break;
    case "recruitment":
      run.pack = said.specialist_ids ?? [];
      break;
    case "pack_start":
      run.model = said.model?.model ?? run.model;
      if (said.knowledge) run.knowledge = { ...said.knowledge, seq: event.seq, cut: Boolean(event.cut) };
      for (const notice of said.notices ?? []) note(run, event.seq, notice, "warning");
      break;
    case "llm_request":
      if (said.purpose === "turn") {
        run.thinking = true;
        forget(run, lane);
      }
      if (said.purpose === "compaction") run.notice = "Summarising what was said before…";
      run.model = said.purpose === "routing" ? run.model : (said.model ?? run.model);
      break;
    case "llm_response":
      run.thinking = false;
      if (said.content) answered(run, event, lane);
      if (said.cut) note(run, event.seq, `This answer was cut after ${said.cut.toLocaleString("en")} characters. The model was told to answer shorter.`, "warning");
      forget(run, lane);
      run.tokens += (said.usage?.prompt_tokens ?? 0) + (said.usage?.completion_tokens ?? 0);
      break;
    case "reasoning":
      thought(run, event);
      break;
    case "llm_error":
      run.thinking = false;
      forget(run, lane);
      note(run, event.seq, `${said.error_message ?? "The model did not answer."} ${said.hint ?? ""}`.trim(), "warning");
      break;
    case "tool_call":
      if (said.tool !== "finish_task") call(run, event, lane, said);
      break;
    case "tool_result":
    case "tool_error":
      result(run, event, said);
      break;
    case "approval_requested":
      run.items.push({ kind: "approval", seq: event.seq, id: said.approval_id, asked: said, decision: "", by: "", reason: "", changed: null });
      break;
    case "approval_decided":
      for (const item of run.items)
        if (item.kind === "approval" && item.id === said.approval_id) {
          item.decision = said.decision ?? "approve";
          item.by = said.by ?? "";
          item.reason = said.reason ?? "";
          item.changed = said.args ?? null;
        }
      break;
    case "security_event":
      note(run, event.seq, said.message ?? said.reason ?? "Something was refused.", "warning");
      break;
    case "context_compacted":
      note(run, event.seq, "What was said earlier was summarised, so that it fits the model's window.", "plain");
      break;
    case "context_truncated":
      note(run, event.seq, said.hint ?? "The model server dropped the beginning of the conversation.", "warning");
      break;
    case "cloud_fallback":
      note(run, event.seq, `${said.cloud_model} was asked instead of ${said.local_model}.`, "warning");
      break;
    case "budget_exhausted":
      note(run, event.seq, "The limit of this turn is reached.", "warning");
      break;
    case "run_waiting":
      run.status = "waiting";
      break;
    case "run_resumed":
      run.status = "running";
      break;
    case "run_complete":
      run.outcome = said.outcome ?? "";
      end(run, event, "completed");
      break;
    case "run_failed":
      run.error = { code: said.code ?? "", message: said.message ?? "It failed.", hint: said.hint ?? "" };
      end(run, event, "failed");
      break;
    case "run_cancelled":
      if (said.said && !lastText(run).startsWith(said.said))
        run.items.push({ kind: "text", seq: event.seq, lane, text: said.said, cut: Boolean(event.cut) });
      end(run, event, "cancelled");
      break;
    case "run_interrupted":
      run.status = "interrupted";
      break;
    default: // kinds that a newer server knows are kept in the log, and not shown here
  }
  return true;
}

/**
 * Show all that has been written of an answer so far.
 *
 * @param {RunView} run
 * @param {{lane: string, text: string}} message
 */
export function showPartial(run, message) {
  run.partial[message.lane] = message.text;
  run.partialLength[message.lane] = pointsIn(message.text);
  run.version += 1;
}

/**
 * Add what follows.
 *
 * @param {RunView} run
 * @param {{lane: string, offset: number, text: string}} message
 * @returns {boolean} Whether it fitted; if not, something was missed, and the run has to be followed again.
 */
export function addDelta(run, message) {
  const length = run.partialLength[message.lane] ?? 0;
  if (message.offset !== length) return false;
  run.partial[message.lane] = (run.partial[message.lane] ?? "") + message.text;
  run.partialLength[message.lane] = length + pointsIn(message.text);
  run.version += 1;
  return true;
}

/** @param {RunView} run @returns {string} What is being written, or was written last. */
export function lastText(run) {
  const writing = Object.values(run.partial).find((text) => text);
  if (writing) return writing;
  for (let index = run.items.length - 1; index >= 0; index -= 1) {
    const item = run.items[index];
    if (item.kind === "text") return item.text;
    if (item.kind === "tool") return "";
  }
  return "";
}

/**
 * The turn in two parts: what was done, and the answer.
 *
 * @param {RunView} run
 * @returns {{steps: Item[], answer: TextItem | null, writing: string}}
 */
export function partsOf(run) {
  const writing = Object.values(run.partial).find((text) => text) ?? "";
  const last = run.items.at(-1);
  const ends = SETTLED.has(run.status) || (!writing && !run.thinking);
  if (last?.kind === "text" && ends) return { steps: run.items.slice(0, -1), answer: last, writing };
  return { steps: run.items, answer: null, writing };
}

/** @param {RunView} run @returns {string} One line on what is going on; empty: nothing is. */
export function activity(run) {
  if (SETTLED.has(run.status)) return "";
  if (run.notice) return run.notice;
  if (run.items.some((item) => item.kind === "approval" && !item.decision)) return "Waiting for your answer";
  if (run.status === "waiting") return "Waiting";
  if (run.status === "interrupted") return "Interrupted: nobody works on it at the moment";
  const running = run.items.find((item) => item.kind === "tool" && item.state === "running");
  if (running?.kind === "tool") return `Running ${running.tool}`;
  if (Object.values(run.partial).some((text) => text)) return "Answering";
  return run.thinking ? "Thinking" : "Starting";
}

const AHEAD = /^waiting for (.+), (\d+) ahead$/;

/**
 * How the model of a session stands, told from its newest turn.
 *
 * @typedef {{state: "unknown" | "ready" | "busy" | "loading" | "queued" | "blocked", title: string, ahead: number}} Standing
 *
 * @param {{connected: boolean, run: RunView | undefined}} now `run` is the newest turn.
 * @returns {Standing}
 */
export function standingOf({ connected, run }) {
  if (!connected) return { state: "unknown", title: "Not connected", ahead: 0 };
  if (run?.status === "failed" && run.error?.code.startsWith("model_"))
    return { state: "blocked", title: [run.error.message, run.error.hint].filter(Boolean).join(" "), ahead: 0 };
  const ahead = AHEAD.exec(run?.notice ?? "");
  if (ahead) return { state: "queued", title: run?.notice ?? "", ahead: Number(ahead[2]) };
  if (run?.progress && run.notice) return { state: "loading", title: run.notice, ahead: 0 };
  return run?.thinking ? { state: "busy", title: "Answering", ahead: 0 } : { state: "ready", title: "Ready", ahead: 0 };
}

/** @param {RunView} run @param {number} seq @param {string} text @param {"plain" | "warning"} tone */
function note(run, seq, text, tone) {
  run.items.push({ kind: "note", seq, text, tone });
}

/** Long answers are cut in the log; what was seen of one while it was written is not taken away. @param {RunView} run @param {LogEvent} event @param {string} lane */
function answered(run, event, lane) {
  const { content } = event.payload;
  const seen = run.partial[lane] ?? "";
  const chars = event.cut?.content?.chars;
  const text = event.cut && seen.length > content.length && seen.startsWith(content) ? seen : content;
  const whole = !event.cut || (text === seen && run.partialLength[lane] === chars);
  run.items.push({ kind: "text", seq: event.seq, lane, text, cut: !whole });
}

/** What was thought stands before what was then said. @param {RunView} run @param {LogEvent} event */
function thought(run, event) {
  const last = run.items.at(-1);
  const at = last?.kind === "text" && last.seq === event.seq - 1 ? run.items.length - 1 : run.items.length;
  run.items.splice(at, 0, { kind: "thought", seq: event.seq, text: event.payload.text ?? "", cut: Boolean(event.cut) });
}

/** @param {RunView} run @param {string} lane */
function forget(run, lane) {
  delete run.partial[lane];
  delete run.partialLength[lane];
}

/** @param {RunView} run @param {LogEvent} event @param {string} lane @param {Record<string, any>} said */
function call(run, event, lane, said) {
  const known = find(run, said.call_id);
  if (known && known.state === "running") return; // another attempt at the same call, after a crash
  run.items.push({
    kind: "tool",
    seq: event.seq,
    lane,
    callId: said.call_id,
    tool: said.tool,
    args: said.args ?? {},
    state: "running",
    result: null,
    error: "",
    origin: "",
    seconds: 0,
    resultSeq: -1,
    cut: Boolean(event.cut),
    approvedBy: said.approved_by ?? "",
    signals: [],
  });
}

/** @param {RunView} run @param {LogEvent} event @param {Record<string, any>} said */
function result(run, event, said) {
  let item = find(run, said.call_id);
  if (item === undefined && event.kind === "tool_error" && said.tool !== "finish_task") {
    call(run, event, event.lane ?? "", { ...said, args: {} }); // refused before it began
    item = find(run, said.call_id);
  }
  if (item === undefined) return;
  item.state = event.kind === "tool_result" ? "done" : "failed";
  item.result = said.result ?? null;
  item.error = said.error_message ?? "";
  item.origin = said.origin ?? "";
  item.seconds = said.duration_s ?? 0;
  item.resultSeq = event.seq;
  item.cut = item.cut || Boolean(event.cut);
  item.signals = said.signals ?? [];
}

/** @param {RunView} run @param {string} callId @returns {ToolItem | undefined} */
function find(run, callId) {
  for (let index = run.items.length - 1; index >= 0; index -= 1) {
    const item = run.items[index];
    if (item.kind === "tool" && item.callId === callId) return item;
  }
  return undefined;
}

/** @param {RunView} run @param {LogEvent} event @param {string} status */
function end(run, event, status) {
  run.status = status;
  run.endedAt = event.ts;
  run.thinking = false;
  run.notice = "";
  run.partial = {};
  run.partialLength = {};
}
