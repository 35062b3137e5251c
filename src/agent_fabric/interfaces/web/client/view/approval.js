// A question that a run asks: everything that one has to know, and the answers. It never answers by accident.

import { html, useEffect, useRef, useState } from "../vendor/htm-preact.js";
import { get } from "../net/api.js";
import { blastRadius, machineCall, machineCallText } from "../model/machines.js";
import { boxText, counted, dateText, durationText } from "../model/words.js";
import { Later, Output } from "./parts.js";

const SAFE_AFTER_MS = 500;
const DECISIONS = /** @type {Record<string, string>} */ ({ approve: "Agreed", approved: "Agreed", deny: "Denied", denied: "Denied", done: "Counted as done", expired: "Expired", cancelled: "No longer needed" });

/** @param {any} props */
export function ApprovalCard({ id, asked, decision, by, reason, store, actions }) {
  const card = store.approvals.get(id);
  const settled = decision || (card && card.status !== "pending" ? card.status : "");
  const [appeared] = useState(() => performance.now());
  const [editing, setEditing] = useState(false);
  const [denying, setDenying] = useState(false);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState("");
  const [left, setLeft] = useState(asked.expires_at - Date.now() / 1000);
  const edited = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  const why = useRef(/** @type {HTMLInputElement | null} */ (null));
  useEffect(() => {
    if (settled) return undefined;
    const timer = window.setInterval(() => setLeft(asked.expires_at - Date.now() / 1000), 1000);
    if (!card) get(`/approvals/${id}`).then((told) => (store.approvals.set(id, told), store.changed()), () => undefined);
    return () => clearInterval(timer);
  }, [settled]);
  if (settled) return html`<div class="approval settled" data-test="approval" data-status=${settled}>
    <p><strong>${DECISIONS[settled] ?? settled}</strong>${by || card?.decided_by ? ` by ${by || card.decided_by}` : ""}: <code>${summary(asked)}</code></p>
    ${(reason || card?.decided_because) && html`<p class="quiet">${reason || card.decided_because}</p>`}
  </div>`;
  /** @param {Record<string, any>} answer */
  const say = async (answer) => {
    if (performance.now() - appeared < SAFE_AFTER_MS) return; // whoever was typing did not mean this
    setBusy(true);
    setProblem("");
    try {
      await actions.answer(id, answer);
    } catch (error) {
      const told = /** @type {any} */ (error);
      setProblem([told.message, told.hint].filter(Boolean).join(" "));
    }
    setBusy(false);
  };
  const approveEdited = () => {
    try {
      say({ decision: "approve", args: JSON.parse(edited.current?.value ?? "") });
    } catch {
      setProblem("The arguments are not valid JSON.");
    }
  };
  const may = store.may("approvals");
  const doubt = asked.question === "did_it_happen";
  const machines = machineCall(asked);
  const command = machines ? machineCallText(machines.tool, machines.args) : typeof asked.args?.command === "string" ? asked.args.command : null;
  const touches = reach(asked);
  return html`<section class="approval" data-test="approval" data-status="pending" aria-label="Approval needed">
    <h3>${doubt ? "Did this happen?" : "May this run?"} <span class="tool-name">${machines ? `on ${machines.kind === "plan" ? counted(machines.nodes.length, "machine") : machines.nodes[0]}` : asked.tool}</span></h3>
    ${asked.reason && html`<p>${asked.reason}</p>`}
    ${editing
      ? html`<label class="label" for=${`args-${id}`}>Arguments</label><textarea id=${`args-${id}`} class="code-input" rows="6" ref=${edited} spellcheck=${false}>${JSON.stringify(asked.args, null, 2)}</textarea>`
      : html`<${Output} text=${command ?? JSON.stringify(asked.args, null, 2)} most=${20000} />`}
    <dl class="facts">
      ${fact("Rule", asked.rule)} ${machines ? fact(machines.kind === "plan" ? "Machines" : "Machine", machines.nodes.join(", ")) : fact("Where", [asked.target, boxText(asked.sandbox)].filter(Boolean).join(", "))}
      ${fact("Goes to", asked.destination)} ${fact("Outside the box", asked.outside?.words ?? (asked.outside ? "yes" : ""))}
      ${fact("Has read untrusted text from", (asked.untrusted ?? []).join(", "))} ${fact("Has read private data from", (asked.private ?? []).join(", "))}
      ${fact("Reaches", touches)} ${fact("Expires", left > 0 ? `in ${durationText(left)}, ${dateText(asked.expires_at)}` : "now")}
    </dl>
    ${machines?.kind === "command" && html`<${Later} load=${() => import("./machine_facts.js")} name="MachineFacts" node=${machines.nodes[0]} rule=${asked.rule ?? ""} store=${store} />`}
    ${problem && html`<p class="note warning" role="alert">${problem}</p>`}
    ${!may && html`<p class="note">You may see this question, but not answer it: that needs the scope “approvals”.</p>`}
    ${denying
      ? html`<div class="buttons"><label class="grow">Why <input ref=${why} maxlength="2000" placeholder="The model is told" /></label>
          <button type="button" class="danger" disabled=${busy} onClick=${() => say({ decision: "deny", reason: why.current?.value ?? "" })}>Deny</button>
          <button type="button" onClick=${() => setDenying(false)}>Back</button></div>`
      : may && html`<div class="buttons">
          ${editing
            ? html`<button type="button" class="primary" disabled=${busy} onClick=${approveEdited}>Run as edited</button><button type="button" onClick=${() => setEditing(false)}>Back</button>`
            : html`<button type="button" class="primary" disabled=${busy} data-test="approve" onClick=${() => say({ decision: "approve" })}>${doubt ? "Run it again" : "Once"}</button>
              ${asked.alike && !doubt && html`<button type="button" disabled=${busy} title=${asked.alike} onClick=${() => say({ decision: "approve", scope: "run" })}>For this run</button>`}
              ${doubt && html`<button type="button" disabled=${busy} onClick=${() => say({ decision: "done" })}>It is done</button>`}
              ${!doubt && !machines && html`<button type="button" disabled=${busy} onClick=${() => setEditing(true)}>Edit…</button>`}
              <button type="button" class="danger" disabled=${busy} data-test="deny" onClick=${() => setDenying(true)}>${doubt ? "Skip it…" : "Deny…"}</button>`}
        </div>`}
  </section>`;
}

/** @param {string} name @param {string} value */
const fact = (name, value) => (value ? html`<div><dt>${name}</dt><dd>${value}</dd></div>` : null);

/** @param {Record<string, any>} asked */
function summary(asked) {
  const machines = machineCall(asked);
  const words = machines ? `${machines.kind === "plan" ? counted(machines.nodes.length, "machine") : machines.nodes[0]}: ${machineCallText(machines.tool, machines.args)}` : typeof asked.args?.command === "string" ? asked.args.command : `${asked.tool} ${JSON.stringify(asked.args ?? {})}`;
  return words.slice(0, 300);
}

/** What the call could touch, and whether that can be taken back. @param {Record<string, any>} asked */
export function reach(asked) {
  const machines = machineCall(asked);
  if (machines) return blastRadius(machines);
  if (asked.outside || asked.destination || asked.rule === "outward_effect") return "another machine; what was sent cannot be taken back";
  if (asked.sandbox === "C") return "all files of this user; changes outside the workspace cannot be taken back";
  return "the workspace; changes can be taken back";
}
