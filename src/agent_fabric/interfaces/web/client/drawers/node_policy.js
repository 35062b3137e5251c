// What may happen on a machine: what is in force and why, a trial, and the hub's part of it to edit.

import { html, useState } from "../vendor/htm-preact.js";
import { get, post, request } from "../net/api.js";
import { policyFrom, policyInForce, SOURCES } from "../model/machines.js";
import { Empty, useLoaded } from "../view/parts.js";
import { NodeStatus } from "./fleet.js";
import { Back, problemText } from "./pieces.js";

/** @param {import("../view/app.js").Props & {item: string}} props */
export function NodePolicy({ store, actions, item }) {
  const path = `/api/v1/nodes/${encodeURIComponent(item)}`;
  const { value, view, again } = useLoaded(() => Promise.all([get(path), get(`${path}/policy`)]), []);
  const back = html`<${Back} to="fleet" about=${`node/${item}`} words=${`Back to ${item}`} actions=${actions} />`;
  if (view) return html`${back}${view}`;
  const [node, policy] = value;
  const force = policyInForce(policy);
  const { reported = {} } = node;
  return html`${back}
    <h3>What is in force on ${node.name}</h3>
    <p class="quiet">The strictest decides: the machine's own file, which no hub can change, the hub's policy for it below, and the hub's rules for all machines. Version ${policy.version}.</p>
    <div data-test="in-force"><p><span class=${`status ${force.usual.startsWith("Nothing") ? "allow" : "ask"}`}>otherwise</span> ${force.usual}. <span class="quiet">Because ${force.why}.</span></p>
      ${reported.approvals === "signed" && html`<p class="note">Only approvals that are signed by its approvers count${reported.quorum > 1 ? `, ${reported.quorum} of them` : ""}. The page can ask, and not agree.</p>`}
      <ul class="rows">${force.lines.map((line, nth) => html`<li key=${nth}><span class=${`status ${line.effective ? line.verdict : ""}`}>${line.effective ? line.verdict : "no effect"}</span> <code>${line.words}</code><div class="row-facts"><span>${line.from}</span>${line.note && html`<span>${line.note}</span>`}</div></li>`)}</ul></div>
    <${Trial} path=${path} />
    ${store.may("admin") ? html`<${Editor} key=${policy.version} path=${path} hub=${policy.hub} again=${again} actions=${actions} />` : html`<p class="note">An admin changes it.</p>`}`;
}

/** @param {any} props */
function Trial({ path }) {
  const [told, setTold] = useState(/** @type {any} */ (null));
  const [problem, setProblem] = useState("");
  /** @param {SubmitEvent} event */
  const check = async (event) => {
    event.preventDefault();
    const command = String(new FormData(/** @type {HTMLFormElement} */ (event.target)).get("command"));
    try {
      setTold(await post(`${path}/policy/check`, { tool_name: "run_command", arguments: { command } }));
      setProblem("");
    } catch (error) {
      setTold(null);
      setProblem(problemText(error));
    }
  };
  return html`<form class="form inline" onSubmit=${check}><label>What would become of a command? <input name="command" class="code-input" required autocomplete="off" spellcheck=${false} placeholder="systemctl restart nginx" /></label><button type="submit">Check</button></form>
    <div aria-live="polite" data-test="trial">${problem && html`<p class="note warning">${problem}</p>`}${told && html`<p><span class=${`status ${told.verdict}`}>${told.verdict}</span> ${told.reason}</p>
      <ul class="rows">${told.said.map((/** @type {any} */ each, /** @type {number} */ nth) => html`<li key=${nth}><span class=${`status ${each.verdict}`}>${each.verdict}</span> <code>${each.subject}</code><div class="row-facts"><span>${SOURCES[each.source]}, ${each.rule}</span>${each.decides && html`<span>decides</span>`}</div></li>`)}</ul>`}</div>`;
}

/** @param {any} props */
function Editor({ path, hub, again, actions }) {
  const [problem, setProblem] = useState("");
  /** @param {SubmitEvent} event */
  const save = async (event) => {
    event.preventDefault();
    const form = new FormData(/** @type {HTMLFormElement} */ (event.target));
    const fields = { profile: String(form.get("profile")), always: form.has("always"), blocked: String(form.get("blocked")), asking: String(form.get("asking")), rules: String(form.get("rules")) };
    try {
      await request("PUT", `${path}/policy`, { body: policyFrom(fields) });
      setProblem("");
      actions.say("Saved. The machine is told at once.");
      again();
    } catch (error) {
      setProblem(error instanceof SyntaxError ? "The rules are not a list in JSON." : problemText(error));
    }
  };
  return html`<h3>The hub's policy for it</h3>
    <form class="form" onSubmit=${save} data-test="policy-form">
      <label>Otherwise <select name="profile"><option value="node" selected=${hub.profile !== "open"}>reads run at once, everything else asks</option><option value="open" selected=${hub.profile === "open"}>nothing is asked about, unless its own file says so</option></select></label>
      <label class="check"><input type="checkbox" name="always" checked=${hub.hitl_enabled === true} /> Every call asks, one that only reads too</label>
      <label>Blocked commands, one a line <textarea name="blocked" class="code-input" rows="3" spellcheck=${false} defaultValue=${(hub.blocked_commands ?? []).join("\n")} placeholder="reboot"></textarea></label>
      <label>Commands and tools that always ask, one a line <textarea name="asking" class="code-input" rows="3" spellcheck=${false} defaultValue=${(hub.requires_approval_for ?? []).join("\n")} placeholder="read_file"></textarea></label>
      <label>Rules (JSON) <textarea name="rules" class="code-input" rows="5" spellcheck=${false} defaultValue=${hub.rules?.length ? JSON.stringify(hub.rules, null, 2) : ""} placeholder='[{"id": "restart", "verdict": "allow", "commands": ["systemctl restart nginx"]}]'></textarea></label>
      ${problem && html`<p class="note warning" role="alert">${problem}</p>`}
      <div class="buttons"><button type="submit" class="primary">Save</button></div>
    </form>`;
}

/** Settings → Agents: the policy of each machine. @param {any} props */
export function AgentPolicies({ actions }) {
  const { value, view } = useLoaded(() => get("/api/v1/nodes"), []);
  return html`<h3>Agents</h3><p class="quiet">What may happen on each machine that has joined.</p>
    ${view ?? (value.nodes.length ? html`<ul class="rows">${value.nodes.map((/** @type {any} */ node) => html`<li key=${node.id}><button type="button" class="row-button" onClick=${() => actions.show("fleet", `policy/${node.name}`)}><span class="row-title">${node.name}</span><span class="row-facts"><${NodeStatus} node=${node} /><span>policy ${node.security_policy_json?.profile ?? "node"}</span><span>${(node.security_policy_json?.blocked_commands ?? []).length} blocked</span></span></button></li>`)}</ul>` : html`<${Empty} text="No machine has joined." hint="Invite one in the drawer Fleet." />`)}`;
}
