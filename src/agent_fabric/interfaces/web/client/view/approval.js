// A question that a run asks: everything that one has to know, and the answers. It never answers by accident.

import { html, useEffect, useRef, useState } from "../vendor/htm-preact.js";
import { get } from "../net/api.js";
import { blastRadius, machineCall, machineCallText } from "../model/machines.js";
import { useStore } from "../model/store.js";
import { hides, visible } from "../model/visible.js";
import { boxText, counted, dateText, durationText } from "../model/words.js";
import { Later, Output } from "./parts.js";

const SAFE_AFTER_MS = 500;
const MOST_NAMES = 8;
const FEW_LINES = 12;
const COUNTED_UP_TO = 200;
const DECISIONS = /** @type {Record<string, string>} */ ({ approve: "Agreed", approved: "Agreed", deny: "Denied", denied: "Denied", done: "Counted as done", expired: "Expired", cancelled: "No longer needed" });

/** @param {any} props */
export function ApprovalCard({ id, asked, decision, by, reason, store, actions }) {
  useStore(store, (all) => all.approvals.get(id));
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
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  const back = useRef(false);
  useEffect(() => {
    if (settled) return undefined;
    const timer = window.setInterval(() => setLeft(asked.expires_at - Date.now() / 1000), 1000);
    if (!card?.reach) get(`/approvals/${id}`).then((told) => (store.approvals.set(id, told), store.changed()), () => undefined);
    return () => clearInterval(timer);
  }, [settled]);
  useEffect(() => { // what was pressed is gone, and the focus with it
    if (denying) why.current?.focus();
    else if (editing) edited.current?.focus();
    else if (back.current) /** @type {HTMLElement | null | undefined} */ (place.current?.querySelector("[data-test=deny]"))?.focus();
    back.current = denying || editing;
  }, [denying, editing]);
  if (settled) return html`<div class="approval settled" data-test="approval" data-status=${settled}>
    <p><strong>${DECISIONS[settled] ?? settled}</strong>${by || card?.decided_by ? ` by ${by || card.decided_by}` : ""}: <code>${visible(summary(asked))}</code></p>
    ${(reason || card?.decided_because) && html`<p class="quiet">${reason || card.decided_because}</p>`}
  </div>`;
  /** @param {Record<string, any>} answer */
  const say = async (answer) => {
    if (performance.now() - appeared < SAFE_AFTER_MS) return; // whoever was typing did not mean this
    const focused = place.current?.contains(document.activeElement);
    setBusy(true);
    setProblem("");
    try {
      await actions.answer(id, answer);
      if (focused) document.getElementById("composer")?.focus(); // the buttons go
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
  const deny = () => say({ decision: "deny", reason: why.current?.value ?? "" });
  const may = store.may("approvals");
  const doubt = asked.question === "did_it_happen";
  const machines = machineCall(asked);
  const only = typeof asked.args?.command === "string" && Object.keys(asked.args).length === 1 ? asked.args.command : null;
  const whole = machines ? machineCallText(machines.tool, machines.args) : (only ?? JSON.stringify(asked.args, null, 2));
  const lines = whole.split("\n").length;
  return html`<section class="approval" ref=${place} data-test="approval" data-status="pending" aria-label="Approval needed">
    <h3>${doubt ? "Did this happen?" : "May this run?"} <span class="tool-name">${machines ? `on ${machines.kind === "plan" ? counted(machines.nodes.length, "machine") : machines.nodes[0]}` : asked.tool}</span></h3>
    ${asked.reason && html`<p>${asked.reason}</p>`}
    ${editing
      ? html`<label class="label" for=${`args-${id}`}>Arguments</label><textarea id=${`args-${id}`} class="code-input" rows="6" ref=${edited} spellcheck=${false}>${JSON.stringify(asked.args, null, 2)}</textarea>`
      : html`<${Output} text=${visible(whole)} most=${20000} />`}
    ${lines > FEW_LINES && html`<p class="quiet">${lines} lines: scroll to see all of them.</p>`}
    ${hides(whole) && html`<p class="note warning" role="alert">It has hidden characters, shown above as escapes.</p>`}
    <dl class="facts">
      ${fact("Rule", asked.rule)} ${machines ? fact(machines.kind === "plan" ? "Machines" : "Machine", machines.nodes.join(", ")) : fact("Where", [asked.target, boxText(asked.sandbox)].filter(Boolean).join(", "))}
      ${fact("Goes to", asked.destination)} ${fact("Outside the box", asked.outside ? `${(asked.outside.words ?? []).join(" ")}, as ${asked.outside.account}` : "")}
      ${fact("Has read untrusted text from", (asked.untrusted ?? []).join(", "))} ${fact("Has read private data from", (asked.private ?? []).join(", "))}
      ${card?.reach && html`<${Reach} reach=${card.reach} why=${machines ? blastRadius(machines) : card.reach.why} rule=${asked.rule} before=${card.agreed_before} />`} ${fact("Expires", left > 0 ? `in ${durationText(left)}, ${dateText(asked.expires_at)}` : "now")}
    </dl>
    ${machines?.kind === "command" && html`<${Later} load=${() => import("./machine_facts.js")} name="MachineFacts" node=${machines.nodes[0]} rule=${asked.rule ?? ""} store=${store} />`}
    ${problem && html`<p class="note warning" role="alert">${problem}</p>`}
    ${!may && html`<p class="note">You may see this question, but not answer it: that needs the scope “approvals”.</p>`}
    ${denying
      ? html`<div class="buttons"><label class="grow">Why <input ref=${why} maxlength="2000" placeholder="The model is told" onKeyDown=${(/** @type {KeyboardEvent} */ event) => event.key === "Enter" && !event.isComposing && deny()} /></label>
          <button type="button" class="danger" disabled=${busy} onClick=${deny}>Deny</button>
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
const fact = (name, value) => (value ? html`<div><dt>${name}</dt><dd>${visible(value)}</dd></div>` : null);

/** @param {Record<string, any>} asked */
function summary(asked) {
  const machines = machineCall(asked);
  const words = machines ? `${machines.kind === "plan" ? counted(machines.nodes.length, "machine") : machines.nodes[0]}: ${machineCallText(machines.tool, machines.args)}` : typeof asked.args?.command === "string" ? asked.args.command : `${asked.tool} ${JSON.stringify(asked.args ?? {})}`;
  return words.slice(0, 300);
}

/** What the call could touch, whether that can be taken back, and how often it was agreed to. @param {{reach: any, why: string, rule: string, before: number}} props */
function Reach({ reach, why, rule, before }) {
  const counts = [reach.files.length && counted(reach.files.length, "file"), reach.hosts.length && counted(reach.hosts.length, "host"), reach.nodes.length && counted(reach.nodes.length, "node")].filter(Boolean);
  const names = [...reach.files, ...reach.hosts, ...reach.nodes];
  return html`${fact("Reaches", `${why[0].toUpperCase()}${why.slice(1)}`)}
    ${fact("Names", counts.length ? `${counts.join(", ")}: ${names.slice(0, MOST_NAMES).join(", ")}${names.length > MOST_NAMES ? ", …" : ""}` : "no file, host or node")}
    ${fact("Can be taken back", reach.reversible ? "yes" : "no")}
    ${fact("Agreed before", before ? `${before >= COUNTED_UP_TO ? "at least " : ""}${counted(before, "time")} under the rule ${rule}` : `never under the rule ${rule}`)}`;
}
