// Machines of the fleet: calls, waves, labels and policies in words. Pure: nothing here knows a page.

/**
 * @typedef {{kind: "command" | "plan", nodes: string[], tool: string, args: Record<string, any>, waves: number[]}} MachineCall
 * @typedef {{verdict: string, words: string, from: string, effective: boolean, note: string}} PolicyLine
 */

const NODE_PREFIX = "node_";

/**
 * What a question of a run is about, if it is about machines.
 *
 * @param {Record<string, any>} asked An approval.
 * @returns {MachineCall | null}
 */
export function machineCall(asked) {
  const args = asked.args ?? {};
  if (asked.tool === "fleet-plan") return { kind: "plan", nodes: args.nodes ?? [], tool: args.tool_name ?? "", args: args.arguments ?? {}, waves: args.waves ?? [] };
  if (asked.tool === "node-command") return { kind: "command", nodes: [String(args.node ?? "")], tool: args.tool_name ?? "", args: args.arguments ?? {}, waves: [] };
  if (asked.tool?.startsWith(NODE_PREFIX) && typeof args.node === "string") {
    const { node, ...rest } = args;
    return { kind: "command", nodes: [node], tool: asked.tool.slice(NODE_PREFIX.length), args: rest, waves: [] };
  }
  return null;
}

/** The call itself, as a person would type it. @param {string} tool @param {Record<string, any>} args */
export function machineCallText(tool, args) {
  const { command, ...rest } = args;
  if (tool !== "run_command" || typeof command !== "string") return `${tool} ${JSON.stringify(args)}`;
  return Object.keys(rest).length ? `${command}\n${JSON.stringify(rest)}` : command;
}

/** How far a call reaches. @param {MachineCall} call */
export function blastRadius(call) {
  if (call.kind === "command") return `the machine ${call.nodes[0]} and what it is connected to; what changes there cannot be taken back`;
  const [first = 0, ...later] = call.waves;
  const waves = later.length ? `: first ${first}, then ${later.join(", then ")}` : "";
  return `${call.nodes.length} ${call.nodes.length === 1 ? "machine" : "machines"}${waves}; what changes there cannot be taken back`;
}

/** @param {Record<string, string> | undefined} labels */
export function labelsText(labels) {
  return Object.entries(labels ?? {})
    .map(([name, value]) => `${name}=${value}`)
    .sort()
    .join(", ");
}

/**
 * Read labels that a person has written.
 *
 * @param {string} text Such as `role=web, env=prod`.
 * @returns {Record<string, string>}
 */
export function labelsFrom(text) {
  /** @type {Record<string, string>} */
  const labels = {};
  for (const part of text.split(/[\s,]+/).filter(Boolean)) {
    const cut = part.indexOf("=");
    if (cut < 1 || cut === part.length - 1) throw new TypeError(`“${part}” is no label: write name=value.`);
    labels[part.slice(0, cut)] = part.slice(cut + 1);
  }
  return labels;
}

/**
 * What has to be said so that a machine has other labels: null removes one.
 *
 * @param {Record<string, string>} before
 * @param {Record<string, string>} after
 * @returns {Record<string, string | null>}
 */
export function labelChanges(before, after) {
  /** @type {Record<string, string | null>} */
  const changes = {};
  for (const name of Object.keys(before)) if (!(name in after)) changes[name] = null;
  for (const [name, value] of Object.entries(after)) if (before[name] !== value) changes[name] = value;
  return changes;
}

/**
 * A plan, wave by wave.
 *
 * @param {Record<string, any>} plan
 * @returns {{number: number, name: string, state: string, calls: {node: string, outcome: string}[], done: number}[]}
 */
export function wavesOf(plan) {
  const waves = [];
  for (let number = 0; number < plan.waves; number += 1) {
    const calls = plan.calls
      .filter((/** @type {any} */ call) => call.wave === number)
      .map((/** @type {any} */ call) => ({ node: call.node, outcome: plan.outcomes[call.node_id] ?? plan.outcomes[call.node] ?? "" }));
    const done = calls.filter((/** @type {any} */ call) => call.outcome).length;
    const under = plan.status === "running" || plan.status === "halted";
    const state = done === calls.length ? "done" : under && number === plan.wave ? (plan.status === "halted" ? "halted" : "under way") : "not begun";
    waves.push({ number, name: number === 0 && plan.waves > 1 ? "Canary" : `Wave ${number + 1}`, state, calls, done });
  }
  return waves;
}

/** What a profile means. @param {string} profile */
const profileWords = (profile) => (profile === "open" ? "Nothing is asked about" : "What surely only reads runs at once; everything else asks");

/** Where a rule stands. */
export const SOURCES = /** @type {Record<string, string>} */ ({ floor: "its own file", hub: "the hub", all_nodes: "the hub, for all machines" });

/**
 * What is in force on a machine, and why, as the server explains it.
 *
 * @param {Record<string, any>} policy
 * @returns {{usual: string, why: string, lines: PolicyLine[]}}
 */
export function policyInForce(policy) {
  const who = policy.otherwise_by.map((/** @type {string} */ each) => SOURCES[each]).join(" and ");
  const lines = policy.rules.map((/** @type {any} */ rule) => ({
    verdict: rule.verdict,
    words: `${rule.about.join(", ") || "everything"}${rule.reason ? ` (${rule.reason})` : ""}`,
    from: `${SOURCES[rule.source]}, rule ${rule.id}`,
    effective: rule.effective,
    note: rule.note,
  }));
  return { usual: profileWords(policy.otherwise), why: `${who} ${policy.otherwise_by.length > 1 ? "say" : "says"} profile “${policy.otherwise}”`, lines };
}

/**
 * Whose rule it is that a ruling names; empty: it comes from the profile.
 *
 * @param {string} rule
 * @param {Record<string, any>} policy
 */
export function ruleOrigin(rule, policy) {
  const found = policy.rules.filter((/** @type {any} */ each) => each.id === rule).map((/** @type {any} */ each) => SOURCES[each.source]);
  return found.join(", or ");
}

/**
 * The hub's policy for a machine, as a form says it.
 *
 * @param {{profile: string, always: boolean, blocked: string, asking: string, rules: string}} fields Lists have a line for each; rules are JSON.
 * @returns {Record<string, any>}
 */
export function policyFrom(fields) {
  const linesIn = (/** @type {string} */ text) => text.split("\n").map((each) => each.trim()).filter(Boolean);
  const rules = fields.rules.trim() ? JSON.parse(fields.rules) : [];
  if (!Array.isArray(rules)) throw new SyntaxError("rules is a list");
  return {
    profile: fields.profile,
    hitl_enabled: fields.always,
    blocked_commands: linesIn(fields.blocked),
    requires_approval_for: linesIn(fields.asking),
    rules,
  };
}
