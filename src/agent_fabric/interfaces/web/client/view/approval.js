// A question that a run asks: the whole call, everything else that one has to know, and the answers. It never answers by accident.

import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../vendor/htm-preact.js";
import { get } from "../net/api.js";
import { argsFrom, editable, shortHash, sizeOf, summary, wholeText } from "../model/call.js";
import { blastRadius, machineCall } from "../model/machines.js";
import { useStore } from "../model/store.js";
import { hides, visible } from "../model/visible.js";
import { boxText, counted, dateText, durationText } from "../model/words.js";
import { Later, Loading } from "./parts.js";

const SAFE_AFTER_MS = 500;
const MOST_NAMES = 8;
const FEW_LINES = 12;
const FEW_CHARS = 1500;
const COUNTED_UP_TO = 200;
const DECISIONS = /** @type {Record<string, string>} */ ({ approve: "Agreed", approved: "Agreed", deny: "Denied", denied: "Denied", done: "Counted as done", expired: "Expired", cancelled: "No longer needed" });

/**
 * The log shows long calls cut, so what is agreed to is never taken from there: `asked` is only for what is settled.
 *
 * @param {any} props
 */
export function ApprovalCard({ id, asked, decision, by, reason, changed, store, actions }) {
  useStore(store, (all) => all.approvals.get(id));
  const known = store.approvals.get(id);
  const settled = decision || (known && known.status !== "pending" ? known.status : "");
  const [trouble, setTrouble] = useState(/** @type {any} */ (null));
  const load = () => {
    setTrouble(null);
    get(`/approvals/${id}`).then((told) => (store.approvals.set(id, told), store.changed()), setTrouble);
  };
  const card = known?.text === undefined ? null : known;
  useEffect(() => {
    if (!settled && !card) load();
  }, [settled]);
  if (settled) {
    const ran = changed ?? known?.changed;
    const isCall = asked.question !== "answer";
    return html`<div class="approval settled" data-test="approval" data-status=${settled}>
      <p><strong>${DECISIONS[settled] ?? settled}${ran && isCall ? ", with changes" : ""}</strong>${by || known?.decided_by ? ` by ${by || known.decided_by}` : ""}: <code>${visible(summary(asked, (isCall && ran) || asked.args))}</code></p>
      ${ran && isCall && html`<p class="quiet">Asked for, and not run: <code>${visible(summary(asked, asked.args))}</code></p>`}
      ${(reason || known?.decided_because) && html`<p class="quiet">${reason || known.decided_because}</p>`}
    </div>`;
  }
  return html`<${Pending} id=${id} card=${card} tool=${asked.tool} trouble=${trouble} again=${load} store=${store} actions=${actions} />`;
}

/** @param {any} props `card`: all of the question; null: it is not here yet, and without it nobody can agree. */
function Pending({ id, card, tool, trouble, again, store, actions }) {
  const [appeared] = useState(() => performance.now());
  const [editing, setEditing] = useState(false);
  const [denying, setDenying] = useState(false);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState("");
  const edited = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  const why = useRef(/** @type {HTMLInputElement | null} */ (null));
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  const back = useRef(false);
  const draft = useRef(/** @type {{edit: string | null, why: string}} */ ({ edit: null, why: "" })); // going back loses nothing
  const edit = useMemo(() => card && editable(card.args), [card?.binding]);
  useLayoutEffect(() => { // what was pressed is gone, and the focus with it: before the next key can come
    if (denying) why.current?.focus();
    else if (editing) edited.current?.focus();
    else if (back.current) /** @type {HTMLElement | null | undefined} */ (place.current?.querySelector("[data-test=deny]"))?.focus();
    back.current = denying || editing;
  }, [denying, editing]);
  /** @param {Record<string, any>} answer */
  const say = async (answer) => {
    if (performance.now() - appeared < SAFE_AFTER_MS) return; // whoever was typing did not mean this
    const focused = place.current?.contains(document.activeElement);
    setBusy(true);
    setProblem("");
    try {
      await actions.answer(id, card ? { ...answer, binding: card.binding } : answer);
      if (focused) document.getElementById("composer")?.focus(); // the buttons go
    } catch (error) {
      const told = /** @type {any} */ (error);
      setProblem([told.message, told.hint].filter(Boolean).join(" "));
    }
    setBusy(false);
  };
  const approveEdited = () => {
    const text = edited.current?.value ?? "";
    try {
      say(text === edit?.text ? { decision: "approve" } : { decision: "approve", args: argsFrom(/** @type {any} */ (edit), text) });
    } catch (error) {
      setProblem(/** @type {Error} */ (error).message);
    }
  };
  const deny = () => say({ decision: "deny", reason: why.current?.value ?? "" });
  /** Esc leaves the field, which keeps what was written. @param {KeyboardEvent} event */
  const escape = (event) => {
    if (event.key !== "Escape" || !(denying || editing)) return;
    event.preventDefault();
    event.stopPropagation();
    if (denying) setDenying(false);
    else setEditing(false);
  };
  const may = store.may("approvals");
  const doubt = card?.question === "did_it_happen";
  const machines = card && machineCall(card);
  return html`<section class="approval" ref=${place} data-test="approval" data-status="pending" aria-label="Approval needed" onKeyDown=${escape}>
    <h3>${doubt ? "Did this happen?" : "May this run?"} <span class="tool-name">${machines ? `on ${machines.kind === "plan" ? counted(machines.nodes.length, "machine") : machines.nodes[0]}` : tool}</span></h3>
    ${!card && (trouble ? html`<p class="note warning" role="alert">The call could not be loaded, so nobody can agree to it here. ${trouble.message} <button type="button" onClick=${again}>Try again</button></p>` : html`<${Loading} />`)}
    ${card?.reason && html`<p>${card.reason}</p>`}
    ${card && (editing
      ? html`<label class="label" for=${`args-${id}`}>${edit.asJson ? "Arguments" : "Command"}</label><textarea id=${`args-${id}`} class="code-input" rows="6" ref=${edited} spellcheck=${false} defaultValue=${draft.current.edit ?? edit.text} onInput=${(/** @type {any} */ event) => (draft.current.edit = event.target.value)}></textarea>`
      : html`<${Call} card=${card} />`)}
    ${card && html`<${Facts} card=${card} machines=${machines} />`}
    ${machines?.kind === "command" && html`<${Later} load=${() => import("./machine_facts.js")} name="MachineFacts" node=${machines.nodes[0]} rule=${card.rule ?? ""} store=${store} />`}
    ${card?.for_run && !doubt && html`<p class="quiet" data-test="covers">“For this run” covers, until the run ends: ${visible(card.for_run)}</p>`}
    ${card && !edit && html`<p class="note">It has numbers that a page cannot keep exactly. To edit it: <code>fabric approvals approve ${id} --args @FILE</code></p>`}
    ${problem && html`<p class="note warning" role="alert">${problem}</p>`}
    ${!may && html`<p class="note">You may see this question, but not answer it: that needs the scope “approvals”.</p>`}
    ${denying
      ? html`<div class="buttons"><label class="grow">Why <input ref=${why} maxlength="2000" placeholder="The model is told" defaultValue=${draft.current.why} onInput=${(/** @type {any} */ event) => (draft.current.why = event.target.value)} onKeyDown=${(/** @type {KeyboardEvent} */ event) => event.key === "Enter" && !event.isComposing && deny()} /></label>
          <button type="button" class="danger" disabled=${busy} onClick=${deny}>Deny</button>
          <button type="button" onClick=${() => setDenying(false)}>Back</button></div>`
      : may && html`<div class="buttons">
          ${editing
            ? html`<button type="button" class="primary" disabled=${busy} onClick=${approveEdited}>Run as edited</button><button type="button" onClick=${() => setEditing(false)}>Back</button>`
            : html`${card && html`<button type="button" class="primary" disabled=${busy} data-test="approve" onClick=${() => say({ decision: "approve" })}>${doubt ? "Run it again" : "Once"}</button>
              ${card.for_run && !doubt && html`<button type="button" disabled=${busy} onClick=${() => say({ decision: "approve", scope: "run" })}>For this run</button>`}
              ${doubt && html`<button type="button" disabled=${busy} onClick=${() => say({ decision: "done" })}>It is done</button>`}
              ${!doubt && !machines && edit && html`<button type="button" disabled=${busy} onClick=${() => setEditing(true)}>Edit…</button>`}`}
              <button type="button" class="danger" disabled=${busy} data-test="deny" onClick=${() => setDenying(true)}>${doubt ? "Skip it…" : "Deny…"}</button>`}
        </div>`}
  </section>`;
}

/** The whole call, from its first line to its last; a long one in a window of its own that opens. @param {{card: Record<string, any>}} props */
function Call({ card }) {
  const [open, setOpen] = useState(false);
  const { text, size, long, hidden } = useMemo(() => {
    const whole = wholeText(card);
    return { text: visible(whole), size: sizeOf(whole), long: whole.length > FEW_CHARS || whole.split("\n").length > FEW_LINES, hidden: hides(whole) };
  }, [card.binding]);
  return html`<div class=${`output call ${open ? "open" : ""}`}><pre tabindex="0" data-test="call">${text}</pre></div>
    <p class="quiet" data-test="call-size">${long ? `${size}, hash ` : "Hash "}<code title=${card.binding}>${shortHash(card.binding)}</code>
      ${long && html` <button type="button" class="quiet-button" aria-expanded=${open} onClick=${() => setOpen(!open)}>${open ? "Fold it" : `Unfold all ${size}`}</button>`}</p>
    ${hidden && html`<p class="note warning" role="alert">It has hidden characters, shown above as escapes.</p>`}`;
}

/** @param {{card: Record<string, any>, machines: import("../model/machines.js").MachineCall | null}} props */
function Facts({ card, machines }) {
  const { outside } = card;
  const where = outside ? `outside the box, as ${outside.account}` : [card.target, boxText(card.sandbox)].filter(Boolean).join(", ");
  return html`<dl class="facts">
    ${fact("Rule", card.rule)} ${machines ? fact(machines.kind === "plan" ? "Machines" : "Machine", machines.nodes.join(", ")) : fact("Where", where)}
    ${outside && html`${fact("Runs", (outside.words ?? []).join(" "))} ${(outside.carries ?? []).map((/** @type {string} */ each) => fact("With", each))}`}
    ${fact("Goes to", card.destination || outside?.goes_to)}
    ${fact("Has read untrusted text from", (card.untrusted ?? []).join(", "))} ${fact("Has read private data from", (card.private ?? []).join(", "))}
    <${Reach} reach=${card.reach} why=${machines ? blastRadius(machines) : card.reach.why} rule=${card.rule} before=${card.agreed_before} /> <${Expiry} at=${card.expires_at} />
  </dl>`;
}

/** How much time is left. @param {{at: number}} props */
function Expiry({ at }) {
  const [left, setLeft] = useState(at - Date.now() / 1000);
  useEffect(() => {
    const timer = window.setInterval(() => setLeft(at - Date.now() / 1000), 1000);
    return () => clearInterval(timer);
  }, [at]);
  return fact("Expires", left > 0 ? `in ${durationText(left)}, ${dateText(at)}` : "now");
}

/** @param {string} name @param {string} value */
const fact = (name, value) => (value ? html`<div><dt>${name}</dt><dd>${visible(value)}</dd></div>` : null);

/** What the call could touch, whether that can be taken back, and how often it was agreed to. @param {{reach: any, why: string, rule: string, before: number}} props */
function Reach({ reach, why, rule, before }) {
  const counts = [reach.files.length && counted(reach.files.length, "file"), reach.hosts.length && counted(reach.hosts.length, "host"), reach.nodes.length && counted(reach.nodes.length, "node")].filter(Boolean);
  const names = [...reach.files, ...reach.hosts, ...reach.nodes];
  return html`${fact("Reaches", `${why[0].toUpperCase()}${why.slice(1)}`)}
    ${fact("Names", counts.length ? `${counts.join(", ")}: ${names.slice(0, MOST_NAMES).join(", ")}${names.length > MOST_NAMES ? ", …" : ""}` : "no file, host or node")}
    ${fact("Can be taken back", reach.reversible ? "yes" : "no")}
    ${fact("Agreed before", before ? `${before >= COUNTED_UP_TO ? "at least " : ""}${counted(before, "time")} under the rule ${rule}` : `never under the rule ${rule}`)}`;
}
