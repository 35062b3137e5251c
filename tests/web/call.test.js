// An edit sends exactly what was written, and what is settled shows the call that was run.

import assert from "node:assert/strict";
import test from "node:test";

import { argsFrom, editable, shortHash, sizeOf, summary, wholeText } from "../../src/agent_fabric/interfaces/web/client/model/call.js";

test("a command is edited as it is, however long", () => {
  for (const lines of [1, 2, 403, 100000]) {
    const command = Array.from({ length: lines }, (_, at) => `echo ${at}`).join("\n");
    const edit = editable({ command });
    assert.deepEqual(edit, { asJson: false, text: command });
    assert.deepEqual(argsFrom(edit, `${edit.text}\nmake deploy`), { command: `${command}\nmake deploy` });
  }
});

test("what a field would change or hide is edited as JSON, and comes back unchanged", () => {
  for (const args of [{ command: "a\r\nb" }, { command: "ls \u202ecod \u{e0041}" }, { path: "x", content: "1\n2\u200b" }, {}]) {
    const edit = editable(args);
    assert.equal(edit?.asJson, true);
    assert.doesNotMatch(edit?.text ?? "", /[\r\u202e\u200b]|\u{e0041}/u);
    assert.deepEqual(argsFrom(/** @type {any} */ (edit), edit?.text ?? ""), args);
  }
});

test("a number that would be rounded is neither offered for an edit nor sent", () => {
  assert.equal(editable(JSON.parse('{"amount": 9007199254740993}')), null);
  assert.throws(() => argsFrom({ asJson: true }, '{"deep": [{"amount": 9007199254740993}]}'), TypeError);
  assert.throws(() => argsFrom({ asJson: true }, '{"amount": 1e999}'), TypeError);
  assert.deepEqual(argsFrom({ asJson: true }, '{"amount": 0.25, "count": -3}'), { amount: 0.25, count: -3 });
});

test("what is no object is refused", () => {
  for (const text of ["", "{", "[]", "null", "3"]) assert.throws(() => argsFrom({ asJson: true }, text), TypeError);
});

test("a long call is counted, and a summary says where it ends", () => {
  assert.equal(sizeOf("a\nb"), "2 lines");
  assert.equal(sizeOf("x".repeat(12345)), "12,345 characters");
  assert.equal(shortHash("0123456789abcdef"), "0123456789ab");
  assert.equal(summary({ tool: "shell" }, { command: "ls" }), "ls");
  assert.match(summary({ tool: "shell" }, { command: "x".repeat(400) }), /…$/);
});

test("of a command for one machine the command is shown, of everything else all of it", () => {
  assert.equal(wholeText({ tool: "node_run_command", args: { node: "web", command: "ls" }, text: "all" }), "ls");
  assert.equal(wholeText({ tool: "node_run_command", args: { node: "web", command: "ls", cwd: "/" }, text: "all" }), "all");
  assert.equal(wholeText({ tool: "shell", args: { command: "ls" }, text: "ls" }), "ls");
});
