// Review: what runs propose to remember, each with the words that it rests on. Accepted or rejected by key or by button.

import { html, useEffect, useRef, useState } from "../vendor/htm-preact.js";
import { get, post } from "../net/api.js";
import { factSource } from "../model/memory.js";
import { dateText } from "../model/words.js";
import { Empty } from "../view/parts.js";
import { useLive, useSome } from "./pieces.js";

const PATH = "/api/v1/memory/facts";

/** @param {import("../view/app.js").Props} props */
export function Review({ store, actions }) {
  const { value, view, again } = useLive(() => get(`${PATH}?status=proposed`), store);
  const [decided, setDecided] = useState(/** @type {Set<string>} */ (new Set()));
  const list = useRef(/** @type {HTMLElement | null} */ (null));
  const may = store.may("runs");
  const waiting = (value?.facts ?? []).filter((/** @type {any} */ fact) => !decided.has(fact.id));
  const [shown, more] = useSome(waiting, 20);
  /** @param {string} id @param {string} decision @param {string} [replaces] */
  const decide = async (id, decision, replaces) => {
    const next = cards().find((each, nth, all) => all[nth - 1]?.dataset.id === id) ?? cards().find((each) => each.dataset.id !== id);
    try {
      await post(`${PATH}/${id}/review`, { decision, ...(replaces ? { replaces } : {}) });
      setDecided((before) => new Set([...before, id]));
      next?.focus();
      again();
    } catch (error) {
      actions.tell(error);
    }
  };
  /** @returns {HTMLElement[]} */
  const cards = () => [...(list.current?.querySelectorAll("[data-id]") ?? [])].map((each) => /** @type {HTMLElement} */ (each));
  /** @param {KeyboardEvent} event */
  const key = (event) => {
    const target = /** @type {HTMLElement} */ (event.target);
    const card = /** @type {HTMLElement | null} */ (target.closest("[data-id]"));
    if (!card || event.ctrlKey || event.metaKey || event.altKey || target.matches("select, input, textarea")) return;
    const all = cards();
    const at = all.indexOf(card);
    if (may && event.key === "a") card.querySelector("[data-test=accept]")?.dispatchEvent(new MouseEvent("click", { bubbles: true }));
    else if (may && event.key === "r") card.querySelector("[data-test=reject]")?.dispatchEvent(new MouseEvent("click", { bubbles: true }));
    else if (event.key === "ArrowDown") all[at + 1]?.focus();
    else if (event.key === "ArrowUp") all[at - 1]?.focus();
    else return;
    event.preventDefault();
  };
  return html`${view}
    ${value && !waiting.length && html`<${Empty} text="Nothing waits for a review." hint="Agents propose what they want to remember; nothing is remembered before you have agreed." />`}
    ${waiting.length > 0 && may && html`<p class="quiet"><kbd>a</kbd> accepts, <kbd>r</kbd> rejects, the arrows move.</p>`}
    <div ref=${list} onKeyDown=${key} data-test="review">${shown.map((fact) => html`<${Card} key=${fact.id} fact=${fact} may=${may} decide=${decide} actions=${actions} />`)}</div>${more}`;
}

/** @param {any} props */
function Card({ fact, may, decide, actions }) {
  const [others, setOthers] = useState(/** @type {any[]} */ ([]));
  const [replaces, setReplaces] = useState("");
  useEffect(() => {
    get(`${PATH}/${fact.id}`).then((told) => setOthers(told.contradicts ?? []), () => undefined); // the button says what is wrong
  }, [fact.id]);
  return html`<article class="approval" tabindex="0" data-id=${fact.id} aria-label=${`Remember: ${fact.text}`}>
    <p><strong>${fact.text}</strong></p>
    ${fact.source_quote && html`<blockquote class="passage">${fact.source_quote}</blockquote>`}
    <p class="row-facts"><span>${fact.kind}</span><span>${factSource(fact)}</span><span>${dateText(fact.created_at)}</span>${fact.untrusted?.length > 0 && html`<span class="status waiting">untrusted text was read</span>`}
      ${fact.source_run && html`<button type="button" class="link-button" onClick=${() => actions.show("runs", `${fact.source_run}#${fact.source_seq}`)}>where it was said</button>`}</p>
    ${others.length > 0 && html`<div class="note warning"><p>Something else is remembered about this:</p><ul>${others.map((each) => html`<li key=${each.id}>${each.text}</li>`)}</ul>
      ${may && html`<label>It <select value=${replaces} onChange=${(/** @type {any} */ event) => setReplaces(event.target.value)}><option value="">stands beside it</option>${others.map((each) => html`<option key=${each.id} value=${each.id}>replaces “${each.text.slice(0, 60)}”</option>`)}</select></label>`}</div>`}
    ${may && html`<div class="buttons"><button type="button" class="primary" data-test="accept" onClick=${() => decide(fact.id, "accept", replaces)}>Accept</button>
      <button type="button" class="danger" data-test="reject" onClick=${() => decide(fact.id, "reject")}>Reject</button></div>`}
  </article>`;
}
