// Plans: one call on many machines, frozen, agreed to as a whole, rolled out wave by wave.

import { html, useEffect, useState } from "../vendor/htm-preact.js";
import { get, newKey, post } from "../net/api.js";
import { machineCallText, wavesOf } from "../model/machines.js";
import { agoText, counted, dateText } from "../model/words.js";
import { useStore } from "../model/store.js";
import { ApprovalCard } from "../view/approval.js";
import { Empty, Output } from "../view/parts.js";
import { Act, Back, Dialog, Heading, problemText, RunLink, useFirstField, useLive, useSome } from "./pieces.js";

const PATH = "/api/v1/fleet/plans";
const FAST_MS = 1000;
const LOOK_PAUSE_MS = 250;
const COLOUR = /** @type {Record<string, string>} */ ({ waiting: "waiting", running: "running", halted: "failed", completed: "completed", incomplete: "failed", aborted: "failed", denied: "block" });
/** Whether an outcome is none that the plan counts as an error. @param {any} plan @param {string} node @param {string} outcome */
const isGood = (plan, node, outcome) => outcome === "success" || (outcome === "skipped" && !plan.online.includes(node));

/** @param {import("../view/app.js").Props} props */
export function Plans({ store, actions }) {
  const { value, view } = useLive(() => get(`${PATH}?limit=200`), store);
  const [making, setMaking] = useState(false);
  const [shown, more] = useSome(value?.plans ?? [], 10);
  return html`<${Heading} text="Plans">${store.may("nodes") && html`<button type="button" data-test="new-plan" onClick=${() => setMaking(true)}>New plan</button>`}<//>
    ${view}
    ${value && !value.plans.length && html`<${Empty} text="No plans." hint="A plan runs one command on many machines: first on a canary, then in waves, and halts when something fails." />`}
    <ul class="rows">${shown.map((plan) => html`<li key=${plan.id}><button type="button" class="row-button" onClick=${() => actions.show("fleet", `plan/${plan.id}`)}>
      <span class="row-title">${plan.name || machineCallText(plan.tool_name, plan.arguments).split("\n")[0]}</span>
      <span class="row-facts"><span class=${`status ${COLOUR[plan.status] ?? ""}`}>${plan.status}</span><span>${counted(plan.calls.length, "machine")}</span><span>${Object.keys(plan.outcomes).length} done</span>${plan.errors > 0 && html`<span class="status failed">${plan.errors} failed</span>`}${plan.skipped.length > 0 && html`<span class="status failed">${plan.skipped.length} skipped</span>`}<span>${agoText(plan.created_at, Date.now() / 1000)} by ${plan.created_by}</span></span></button></li>`)}</ul>${more}
    ${making && html`<${Dialog} title="New plan" close=${() => setMaking(false)}><${PlanForm} done=${(/** @type {any} */ made) => (setMaking(false), actions.show("fleet", `plan/${made.id}`))} /><//>`}`;
}

/** @param {import("../view/app.js").Props & {item: string}} props */
export function OnePlan({ store, actions, item }) {
  useStore(store, (all) => [...all.approvals.values()].map((card) => card.id + card.status).join());
  const path = `${PATH}/${encodeURIComponent(item)}`;
  const { value, view, again } = useLive(() => get(path), store, FAST_MS);
  const back = html`<${Back} to="fleet" words="All machines and plans" actions=${actions} />`;
  if (view) return html`${back}${view}`;
  const may = store.may("nodes");
  const card = [...store.approvals.values()].find((each) => each.run_id === value.run_id && each.status === "pending");
  const done = Object.keys(value.outcomes).length;
  /** @param {string} verb @param {string} label @param {string} [sure] @param {boolean} [danger] */
  const button = (verb, label, sure, danger) => html`<${Act} key=${verb} label=${label} sure=${sure} danger=${danger} actions=${actions} act=${() => post(`${path}/${verb}`)} after=${again} />`;
  return html`${back}
    <h3>${value.name || "Plan"}</h3>
    <p class="row-facts"><span class=${`status ${COLOUR[value.status] ?? ""}`} data-test="plan-status">${value.status}</span><span>${done} of ${counted(value.calls.length, "machine")}</span><span>halts after more than ${counted(value.max_errors, "failure")}</span>${value.pause_s > 0 && html`<span>${value.pause_s} s between waves</span>`}<span>machines that are away: ${value.on_offline}</span></p>
    ${value.note && html`<p class="note warning" role="status">${value.note}</p>`}
    ${Object.keys(value.away).length > 0 && html`<p class="note" role="status" data-test="plan-away">Waits for ${counted(Object.keys(value.away).length, "machine")} to come back: ${Object.entries(value.away).map(([node, since]) => `${node} (away since ${dateText(Number(since))})`).join(", ")}</p>`}
    <${Output} text=${machineCallText(value.tool_name, value.arguments)} />
    ${value.check && html`<p class="label">Checked afterwards by</p><${Output} text=${value.check} />`}
    ${may && html`<div class="buttons">
      ${value.status === "waiting" && !value.run_id && html`<${Act} label="Apply" actions=${actions} class="primary" act=${() => post(`${path}/apply`)} after=${again} />`}
      ${value.status === "running" && button("halt", "Halt", undefined, true)}
      ${value.status === "halted" && button("resume", "Resume")}
      ${["waiting", "running", "halted"].includes(value.status) && button("abort", "Abort", "End it for good?", true)}</div>`}
    ${card && html`<${ApprovalCard} key=${card.id} id=${card.id} asked=${card} decision="" by="" reason="" store=${store} actions=${actions} />`}
    ${value.status === "waiting" && value.run_id && !card && html`<p class="note">It waits for somebody who may agree.</p>`}
    <div data-test="waves">${wavesOf(value).map((wave) => html`<${Wave} key=${wave.number} wave=${wave} plan=${value} actions=${actions} />`)}</div>
    <h3>Frozen</h3>
    <dl class="facts"><div><dt>Hash</dt><dd><code>${value.hash.slice(0, 16)}…</code></dd></div><div><dt>Made</dt><dd>${dateText(value.created_at)} by ${value.created_by}</dd></div>${value.approver && html`<div><dt>Agreed by</dt><dd>${value.approver}</dd></div>`}</dl>
    ${value.run_id && html`<p><${RunLink} run=${value.run_id} actions=${actions} /></p>`}`;
}

/** @param {any} props */
function Wave({ wave, plan, actions }) {
  const failed = wave.calls.filter((/** @type {any} */ call) => call.outcome && !isGood(plan, call.node, call.outcome)).length;
  const [shown, more] = useSome(wave.calls, 50);
  return html`<${Heading} text=${`${wave.name}: ${counted(wave.calls.length, "machine")}`}><span class="quiet">${wave.state}${failed ? `, ${failed} failed` : ""}</span><//>
    <progress max=${wave.calls.length} value=${wave.done} aria-label=${`${wave.name}: ${wave.done} of ${wave.calls.length} done`}></progress>
    <ul class="chips">${shown.map((/** @type {any} */ call) => html`<li key=${call.node}><button type="button" class="chip" onClick=${() => actions.show("fleet", `node/${call.node}`)}>${call.node} <span class=${`status ${call.outcome ? (isGood(plan, call.node, call.outcome) ? "completed" : "failed") : ""}`}>${call.outcome.replaceAll("_", " ") || (call.node in plan.away ? "away, waited for" : "waits")}</span></button></li>`)}</ul>${more}`;
}

/** @param {any} props */
function PlanForm({ done }) {
  const place = useFirstField();
  const [selector, setSelector] = useState("all");
  const [nodes, setNodes] = useState(/** @type {any[] | null} */ (null));
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    let stale = false;
    const timer = window.setTimeout(() => {
      get(`/api/v1/nodes?selector=${encodeURIComponent(selector.trim())}`).then(
        (told) => stale || (setNodes(told.nodes), setProblem("")),
        (error) => stale || (setNodes(null), setProblem(problemText(error))),
      );
    }, LOOK_PAUSE_MS);
    return () => {
      stale = true;
      clearTimeout(timer);
    };
  }, [selector]);
  /** @param {SubmitEvent} event */
  const freeze = async (event) => {
    event.preventDefault();
    const form = new FormData(/** @type {HTMLFormElement} */ (event.target));
    const waves = String(form.get("waves")).split(/[\s,]+/).filter(Boolean);
    const check = String(form.get("check") ?? "").trim();
    setBusy(true);
    try {
      done(
        await post(
          PATH,
          {
            ...{ selector: selector.trim(), name: String(form.get("name")).trim(), tool_name: "run_command", arguments: { command: String(form.get("command")) } },
            ...{ canary: Number(form.get("canary")), waves, max_errors: Number(form.get("errors")), pause_s: Number(form.get("pause")), on_offline: form.get("offline") },
            ...(check ? { check } : {}),
          },
          newKey(),
        ),
      );
    } catch (error) {
      setProblem(problemText(error));
      setBusy(false);
    }
  };
  return html`<form class="form" ref=${place} onSubmit=${freeze} data-test="plan-form">
    <label>Machines <input required value=${selector} onInput=${(/** @type {any} */ event) => setSelector(event.target.value)} autocomplete="off" class="code-input" /><span class="quiet">all, a name, or labels such as role=web,env!=dev</span></label>
    <p class="note" aria-live="polite" data-test="selected">${nodes ? (nodes.length ? `${counted(nodes.length, "machine")}: ${nodes.slice(0, 12).map((node) => node.name).join(", ")}${nodes.length > 12 ? " …" : ""}` : "No machine fits.") : "…"}</p>
    <label>Command <textarea name="command" class="code-input" rows="2" required spellcheck=${false}></textarea></label>
    <label>Check each machine afterwards with <input name="check" class="code-input" maxlength="4000" placeholder="systemctl is-active nginx" autocomplete="off" spellcheck=${false} /></label>
    <label>Name <input name="name" maxlength="200" placeholder="what it is for" autocomplete="off" /></label>
    <div class="pair"><label>Canaries first <input name="canary" type="number" min="0" max="1000" step="1" required defaultValue="1" /></label><label>Then up to <input name="waves" required defaultValue="10%, 50%, 100%" /></label></div>
    <div class="pair"><label>Failures before it halts <input name="errors" type="number" min="0" step="1" required defaultValue="0" /></label><label>Pause between waves (seconds) <input name="pause" type="number" min="0" max="86400" step="any" required defaultValue="0" /></label></div>
    <label>Machines that are away <select name="offline"><option value="skip">are left out</option><option value="queue">get it when they are back</option><option value="fail">count as failures</option></select></label>
    ${problem && html`<p class="note warning" role="alert">${problem}</p>`}
    <p class="quiet">Nothing is sent yet: the plan is frozen first, and then applied.</p>
    <div class="buttons"><button type="submit" class="primary" disabled=${busy || !nodes?.length}>Freeze</button></div>
  </form>`;
}
