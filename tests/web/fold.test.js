// The page's idea of a run, without a page.

import assert from "node:assert/strict";
import test from "node:test";

import { activity, addDelta, evolve, newRun, partsOf, showPartial } from "../../src/agent_fabric/interfaces/web/client/model/fold.js";

/** @param {[string, object, string?][]} events */
const folded = (events) => {
  const run = newRun("r");
  events.forEach(([kind, payload, lane = "engineering"], seq) => evolve(run, { kind, seq, ts: seq, run_id: "r", lane, payload }));
  return run;
};

const BEGINNING = /** @type {[string, object][]} */ ([
  ["run_created", { prompt: "do it", session: "s" }],
  ["pack_start", { model: { model: "paper" } }],
  ["llm_request", { purpose: "turn", model: "paper" }],
]);

test("an event that comes twice changes nothing", () => {
  const run = folded(BEGINNING);
  const before = JSON.stringify(run);
  assert.equal(evolve(run, { kind: "llm_response", seq: 1, ts: 1, run_id: "r", payload: { content: "no" } }), false);
  assert.equal(JSON.stringify(run), before);
});

test("what is shown while an answer is written is always its beginning", () => {
  const run = folded(BEGINNING);
  showPartial(run, { lane: "engineering", text: "Grüße 👋 " });
  assert.equal(addDelta(run, { lane: "engineering", offset: 8, text: "aus" }), true);
  assert.equal(addDelta(run, { lane: "engineering", offset: 8, text: "aus" }), false, "what was heard already");
  assert.equal(addDelta(run, { lane: "engineering", offset: 99, text: "!" }), false, "something was missed");
  assert.equal(partsOf(run).writing, "Grüße 👋 aus");
  evolve(run, { kind: "llm_response", seq: 3, ts: 3, run_id: "r", lane: "engineering", payload: { content: "Grüße 👋 aus Ulm" } });
  assert.equal(partsOf(run).writing, "");
  assert.equal(partsOf(run).answer?.text, "Grüße 👋 aus Ulm");
});

test("what was seen of a long answer stays when the log shows it cut", () => {
  const cut = { content: { chars: 10, sha256: "" } };
  for (const [seen, text, isCut] of [["0123456789", "0123456789", false], ["01234567", "01234567", true], ["", "01234", true], ["9", "01234", true]]) {
    const run = folded(BEGINNING);
    if (seen) showPartial(run, { lane: "engineering", text: String(seen) });
    evolve(run, { kind: "llm_response", seq: 3, ts: 3, run_id: "r", lane: "engineering", payload: { content: "01234" }, cut });
    const { answer } = partsOf(run);
    assert.deepEqual([answer?.text, answer?.cut], [text, isCut]);
  }
});

test("what was thought stands before what was then said, and is no answer", () => {
  const run = folded([...BEGINNING, ["llm_response", { content: "It is 4." }], ["reasoning", { text: "2 and 2." }], ["llm_response", { content: "" }], ["reasoning", { text: "Done?" }]]);
  assert.deepEqual(run.items.map((item) => [item.kind, "text" in item && item.text]), [["thought", "2 and 2."], ["text", "It is 4."], ["thought", "Done?"]]);
});

test("another attempt begins anew", () => {
  const run = folded(BEGINNING);
  showPartial(run, { lane: "engineering", text: "I beg" });
  evolve(run, { kind: "llm_error", seq: 3, ts: 3, run_id: "r", lane: "engineering", payload: { error_message: "gone" } });
  evolve(run, { kind: "llm_request", seq: 4, ts: 4, run_id: "r", lane: "engineering", payload: { purpose: "turn" } });
  assert.equal(partsOf(run).writing, "");
});

test("a tool call is one line from its call to its result", () => {
  const run = folded([
    ...BEGINNING,
    ["llm_response", { content: "", tool_calls: [{ tool: "shell" }] }],
    ["tool_call", { tool: "shell", call_id: "c1", args: { command: "ls" } }],
  ]);
  assert.equal(activity(run), "Running shell");
  evolve(run, { kind: "tool_result", seq: 5, ts: 5, run_id: "r", lane: "engineering", payload: { tool: "shell", call_id: "c1", result: "a.txt", duration_s: 0.2 } });
  const [item] = run.items;
  assert.equal(item.kind === "tool" && item.state, "done");
  assert.equal(item.kind === "tool" && item.result, "a.txt");
});

test("a call that was refused before it began is shown as failed", () => {
  const run = folded([...BEGINNING, ["tool_error", { tool: "shell", call_id: "c1", error_message: "blocked" }]]);
  assert.deepEqual(run.items.map((item) => item.kind === "tool" && [item.tool, item.state, item.error]), [["shell", "failed", "blocked"]]);
});

test("a question is settled by its decision, wherever that was made", () => {
  const run = folded([...BEGINNING, ["approval_requested", { approval_id: "a1", tool: "shell" }]]);
  assert.equal(activity(run), "Waiting for your answer");
  evolve(run, { kind: "approval_decided", seq: 4, ts: 4, run_id: "r", lane: "engineering", payload: { approval_id: "a1", decision: "deny", by: "ann" } });
  const item = run.items.at(-1);
  assert.equal(item?.kind === "approval" && item.decision, "deny");
});

test("kinds that nobody knows are kept out of sight", () => {
  const run = folded([...BEGINNING, ["invented_tomorrow", { x: 1 }]]);
  assert.equal(run.items.length, 0);
  assert.equal(run.lastSeq, 3);
});

test("an answer that was stopped keeps what was said", () => {
  const run = folded([...BEGINNING, ["run_cancelled", { by: "ann", said: "Half of" }]]);
  assert.equal(run.status, "cancelled");
  assert.equal(partsOf(run).answer?.text, "Half of");
});

test("an answer that was cut says so", () => {
  const run = folded([...BEGINNING, ["llm_response", { content: "and so on", cut: 128000 }]]);
  assert.match(JSON.stringify(run), /cut after 128,000 characters/);
});
