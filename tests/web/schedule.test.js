// Schedules in words and as requests, without a page.

import assert from "node:assert/strict";
import test from "node:test";

import { emptyFields, fieldsOf, firingText, intervalText, ruleOf, startsText, untilText, wishOf, zonedText } from "../../src/agent_fabric/interfaces/web/client/model/schedule.js";

test("intervals and waits are in words", () => {
  assert.equal(intervalText(60), "every minute");
  assert.equal(intervalText(5400), "every 90 minutes");
  assert.equal(intervalText(172_800), "every 2 days");
  assert.equal(untilText(100, 160), "now");
  assert.equal(untilText(160, 100), "in 1 min");
  assert.equal(untilText(100 + 7260, 100), "in 2 h 1 min");
  assert.equal(untilText(100 + 90_000, 100), "in 1 d 1 h");
});

test("what became of an instant is said with its reason", () => {
  assert.equal(firingText(null), "has not fired yet");
  assert.equal(firingText({ status: "fired", count: 1 }), "fired");
  assert.equal(firingText({ status: "skipped", count: 3, reason: "overlap" }), "skipped 3 times: the run before was still under way");
  assert.equal(firingText({ status: "skipped", count: 1, reason: "brand_new" }), "skipped: brand new");
});

test("an instant is shown on the clocks of its zone, and a zone that nobody knows breaks nothing", () => {
  assert.match(zonedText(1_794_880_800, "Europe/Berlin"), /2026/);
  assert.notEqual(zonedText(1_794_880_800, "Europe/Berlin"), zonedText(1_794_880_800, "Asia/Tokyo"));
  assert.match(zonedText(1_794_880_800, "Nowhere/Never"), /2026/);
});

test("a form asks for what it shows, and nothing of what it hides", () => {
  const fields = { ...emptyFields("Europe/Berlin"), instruction: "Look", target: "left over" };
  assert.deepEqual(ruleOf(fields), { cron_expression: "0 3 * * *", timezone: "Europe/Berlin" });
  const task = wishOf(fields, { never: 1 });
  assert.equal(task.target_kind, "agent");
  assert.equal(task.target, "");
  assert.deepEqual(task.inputs, {});
  const workflow = wishOf({ ...fields, kind: "workflow", target: "nightly", timing: "every", every: "5", unit: "m" }, { who: "Ada" });
  assert.equal(workflow.every, "5m");
  assert.equal("cron_expression" in workflow, false);
  assert.equal(workflow.task_instruction, "");
  assert.deepEqual(workflow.inputs, { who: "Ada" });
  const said = wishOf({ ...fields, kind: "channel", target: "ann@telegram" }, {});
  assert.deepEqual([said.target_kind, said.target, said.task_instruction], ["channel", "ann@telegram", "Look"]);
  const node = wishOf({ ...fields, kind: "node", target: "web-1", instruction: "df -h" }, {});
  assert.deepEqual([node.target_kind, node.target, node.task_instruction], ["node_command", "web-1", "df -h"]);
});

test("a schedule that is opened and saved unchanged stays what it is", () => {
  const kept = {
    ...{ name: "n", every: 90, timezone: "UTC", target_kind: "chat", task_instruction: "Hello", use_persistent_chat: true, chat_session_id: "s1" },
    ...{ misfire: "all", overlap: "queue", max_late_s: 90, pause_after_failures: 0, daily_runs: 3, jitter_s: 1.5, required_model: "fast" },
  };
  const wish = wishOf(fieldsOf(kept), {});
  assert.equal(wish.every, "90s");
  assert.equal(wish.max_late_s, 90);
  for (const name of ["target_kind", "task_instruction", "use_persistent_chat", "chat_session_id", "misfire", "overlap", "pause_after_failures", "daily_runs", "jitter_s", "required_model"])
    assert.equal(wish[name], kept[name], name);
  assert.equal(startsText(kept), "chat: Hello");
});
