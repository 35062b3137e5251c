// Words, links, graphs and timelines, without a page.

import assert from "node:assert/strict";
import test from "node:test";

import { delayBefore } from "../../src/agent_fabric/interfaces/web/client/net/socket.js";
import { graphOf } from "../../src/agent_fabric/interfaces/web/client/model/graph.js";
import { lanesOf } from "../../src/agent_fabric/interfaces/web/client/model/timeline.js";
import { agoText, callText, costText, durationText, evidenceText, safeLink, sizeText } from "../../src/agent_fabric/interfaces/web/client/model/words.js";

test("only http, https and mail are followed, and where they lead is known", () => {
  assert.deepEqual(safeLink("https://a.example/x?y#z"), { href: "https://a.example/x?y#z", host: "a.example" });
  assert.equal(safeLink("mailto:ann@a.example")?.host, "ann@a.example");
  for (const bad of ["javascript:alert(1)", "JAVASCRIPT:alert(1)", " java\nscript:alert(1)", "data:text/html,x", "vbscript:x", "file:///etc/passwd", "blob:https://x/1", "//evil.example", "/local", "ftp://x", "https://", ""])
    assert.equal(safeLink(bad), null, bad);
  assert.equal(safeLink("https://good.example@evil.example/")?.host, "evil.example");
});

test("numbers are in words", () => {
  assert.equal(sizeText(1234), "1.2 KB");
  assert.equal(sizeText(0), "0 B");
  assert.equal(durationText(0.25), "250 ms");
  assert.equal(durationText(75), "1 min 15 s");
  assert.equal(agoText(100, 130), "just now");
  assert.equal(agoText(0, 7200), "2 h ago");
  assert.equal(callText("shell", { command: "x".repeat(500) }).about.length, 160);
});

test("attempts come back later and later, and not all at once", () => {
  for (const random of [0, 0.5, 1]) {
    assert.ok(delayBefore(0, random) >= 500);
    assert.ok(delayBefore(20, random) <= 15_000);
  }
  assert.notEqual(delayBefore(5, 0.1), delayBefore(5, 0.9));
});

test("a step is drawn below those that it waits for, even in a circle", () => {
  const { boxes, edges } = graphOf([{ id: "a" }, { id: "b", depends_on: ["a"] }, { id: "c", depends_on: ["a", "b"] }]);
  assert.ok(boxes[2].y > boxes[1].y && boxes[1].y > boxes[0].y);
  assert.equal(edges.length, 3);
  assert.equal(graphOf([{ id: "a", depends_on: ["b"] }, { id: "b", depends_on: ["a"] }]).boxes.length, 2);
});

test("a cost has the digits that say something", () => {
  assert.deepEqual([0, 0.000001, 0.0012345, 0.5, 12.3].map(costText), ["0", "0.000001", "0.00123", "0.5", "12.30"]);
});

test("evidence says what was shown, and a mark counts more than a proof", () => {
  const told = (proof, more = {}) => evidenceText({ ...more, _meta: { proof: { kind: "none", command: "", tests: null, ...proof } } });
  const tests = { kind: "tests", command: "pytest", tests: { ran: 2, passed: 2, failed: 0 } };
  assert.deepEqual(told({}), { proven: true, text: "" });
  assert.deepEqual(told({ kind: "program", command: "./a" }), { proven: true, text: "it runs: ./a" });
  assert.equal(told({ ...tests, own_tests: true, changed_tests: ["test_a.py"] }).text, "2 tests of its own passed (it changed test_a.py): pytest");
  assert.deepEqual(told(tests, { unproven: "nothing was changed" }), { proven: false, text: "nothing was changed" });
});

test("lanes show what took how long", () => {
  const at = (ts, kind, payload = {}, lane = "one") => ({ ts, kind, payload, lane, seq: ts, run_id: "r" });
  const { names, spans } = lanesOf([at(0, "llm_request"), at(2, "llm_response"), at(2, "tool_call", { call_id: "c", tool: "shell" }), at(5, "tool_result", { call_id: "c" })]);
  assert.deepEqual(names, ["one"]);
  assert.deepEqual(spans.map((span) => [span.kind, span.to - span.from]), [["model", 2], ["tool", 3]]);
});
