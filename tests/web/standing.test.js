// How the model stands, told from the newest turn.

import assert from "node:assert/strict";
import test from "node:test";

import { newRun, standingOf } from "../../src/agent_fabric/interfaces/web/client/model/fold.js";

/** @param {object} more */
const standing = (more) => standingOf({ connected: true, run: { ...newRun("r"), ...more } });

test("a turn that waits for its model says behind how many", () => {
  assert.deepEqual(standing({ notice: "waiting for qwen3:8b, 2 ahead", progress: true }), { state: "queued", title: "waiting for qwen3:8b, 2 ahead", ahead: 2 });
});

test("a model that cannot be used is blocked, with the remedy", () => {
  const error = { code: "model_unreachable", message: "No model server.", hint: "Start it." };
  assert.deepEqual(standing({ status: "failed", error }), { state: "blocked", title: "No model server. Start it.", ahead: 0 });
  assert.equal(standing({ status: "failed", error: { ...error, code: "tool_failed" } }).state, "ready");
});

test("loading, answering, ready and away", () => {
  assert.equal(standing({ notice: "loading qwen3", progress: true }).state, "loading");
  assert.equal(standing({ thinking: true }).state, "busy");
  assert.equal(standing({}).state, "ready");
  assert.equal(standingOf({ connected: true, run: undefined }).state, "ready");
  assert.equal(standingOf({ connected: false, run: undefined }).state, "unknown");
});
