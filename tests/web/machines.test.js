// Machines: calls, waves, labels and policies, without a page.

import assert from "node:assert/strict";
import test from "node:test";

import { blastRadius, labelChanges, labelsFrom, labelsText, machineCall, machineCallText, policyFrom, policyInForce, ruleOrigin, wavesOf } from "../../src/agent_fabric/interfaces/web/client/model/machines.js";

test("a question about a machine names it, what runs there and how far that reaches", () => {
  const one = machineCall({ tool: "node-command", args: { node: "web-1", tool_name: "run_command", arguments: { command: "reboot" }, execution_id: "x" } });
  assert.deepEqual(one, { kind: "command", nodes: ["web-1"], tool: "run_command", args: { command: "reboot" }, waves: [] });
  assert.match(blastRadius(one), /the machine web-1 .* cannot be taken back/);
  const tool = machineCall({ tool: "node_run_command", args: { node: "web-2", command: "df -h", timeout_s: 5 } });
  assert.deepEqual([tool.nodes, tool.tool, tool.args], [["web-2"], "run_command", { command: "df -h", timeout_s: 5 }]);
  assert.equal(machineCallText(tool.tool, tool.args), 'df -h\n{"timeout_s":5}');
  const plan = machineCall({ tool: "fleet-plan", args: { nodes: ["a", "b", "c"], waves: [1, 2], tool_name: "run_command", arguments: { command: "uptime" } } });
  assert.equal(blastRadius(plan), "3 machines: first 1, then 2; what changes there cannot be taken back");
  assert.equal(machineCall({ tool: "shell", args: { command: "ls" } }), null);
  assert.equal(machineCall({ tool: "node_list", args: {} }), null);
});

test("labels are read, written and changed", () => {
  assert.deepEqual(labelsFrom("role=web, env=prod\nrack=7"), { role: "web", env: "prod", rack: "7" });
  assert.equal(labelsText({ role: "web", env: "prod" }), "env=prod, role=web");
  for (const bad of ["role", "=web", "role="]) assert.throws(() => labelsFrom(bad), /no label/);
  assert.deepEqual(labelChanges({ a: "1", b: "2" }, { b: "3", c: "4" }), { a: null, b: "3", c: "4" });
});

test("a plan is shown wave by wave, wherever it stands", () => {
  const calls = ["a", "b", "c", "d"].map((node, index) => ({ node, node_id: `id-${node}`, wave: index ? 1 : 0 }));
  const plan = { status: "halted", wave: 1, waves: 2, calls, outcomes: { "id-a": "success", "id-b": "error" } };
  const [canary, wave] = wavesOf(plan);
  assert.deepEqual([canary.name, canary.state, canary.done], ["Canary", "done", 1]);
  assert.deepEqual([wave.name, wave.state, wave.done], ["Wave 2", "halted", 1]);
  assert.deepEqual(wave.calls.map((call) => call.outcome), ["error", "", ""]);
  assert.equal(wavesOf({ ...plan, status: "waiting", wave: 0, outcomes: {} })[0].state, "not begun");
});

test("what is in force is told rule by rule, with who says so and what has no effect", () => {
  const policy = {
    otherwise: "node",
    otherwise_by: ["floor"],
    rules: [
      { id: "blocked_commands.0", source: "floor", verdict: "block", about: ["reboot"], reason: "", effective: true, note: "" },
      { id: "mine", source: "hub", verdict: "allow", about: [], reason: "why", effective: false, note: "the node's own file asks about it (not_read_only)" },
    ],
  };
  const { usual, why, lines } = policyInForce(policy);
  assert.match(usual, /everything else asks/);
  assert.equal(why, "its own file says profile “node”");
  assert.deepEqual(lines.map((line) => [line.words, line.from, line.effective]), [["reboot", "its own file, rule blocked_commands.0", true], ["everything (why)", "the hub, rule mine", false]]);
  assert.match(policyInForce({ otherwise: "open", otherwise_by: ["floor", "hub"], rules: [] }).why, /its own file and the hub say/);
  assert.equal(ruleOrigin("blocked_commands.0", policy), "its own file");
  assert.equal(ruleOrigin("not_read_only", policy), "");
});

test("a policy of a form says all that the form shows, and refuses what is no list", () => {
  const fields = { profile: "node", always: true, blocked: "reboot\n\n halt ", asking: "", rules: "" };
  assert.deepEqual(policyFrom(fields), { profile: "node", hitl_enabled: true, blocked_commands: ["reboot", "halt"], requires_approval_for: [], rules: [] });
  assert.throws(() => policyFrom({ ...fields, rules: "{}" }), SyntaxError);
});
