// Facts: what is remembered, why, which answers rest on it, and how it is forgotten.

import { html, useState } from "../vendor/htm-preact.js";
import { get, post, request } from "../net/api.js";
import { factSource, factStanding } from "../model/memory.js";
import { agoText, counted, dateText } from "../model/words.js";
import { Empty } from "../view/parts.js";
import { Act, Back, Dialog, Heading, problemText, RunLink, useFirstField, useLive, useSome } from "./pieces.js";

const PATH = "/api/v1/memory/facts";
const COLOUR = /** @type {Record<string, string>} */ ({ active: "ready", pinned: "ready", proposed: "waiting", expired: "waiting", rejected: "failed" });

/** @param {import("../view/app.js").Props} props */
export function Facts({ store, actions }) {
  const { value, view, again } = useLive(() => get(PATH), store);
  const [all, setAll] = useState(false);
  const [adding, setAdding] = useState(false);
  const now = Date.now() / 1000;
  const facts = (value?.facts ?? []).filter((/** @type {any} */ fact) => all || ["active", "proposed"].includes(fact.status));
  const [shown, more] = useSome(facts, 30);
  return html`<${Heading} text="Facts"><label class="check"><input type="checkbox" checked=${all} onChange=${() => setAll(!all)} /> also past ones</label>
      ${store.may("runs") && html`<button type="button" data-test="new-fact" onClick=${() => setAdding(true)}>New fact</button>`}<//>
    ${view}
    ${value && !facts.length && html`<${Empty} text="Nothing is remembered." hint="Add a fact, or accept what agents propose under Review. Each is yours alone." />`}
    <ul class="rows">${shown.map((fact) => html`<li key=${fact.id} data-test="fact"><button type="button" class="row-button" onClick=${() => actions.show("memory", `fact/${fact.id}`)}><span class="row-title">${fact.text}</span>
      <span class="row-facts"><span class=${`status ${COLOUR[factStanding(fact, now)] ?? ""}`}>${factStanding(fact, now)}</span><span>${fact.kind}</span><span>${factSource(fact)}</span><span>${agoText(fact.created_at, now)}</span></span></button></li>`)}</ul>${more}
    ${adding && html`<${Dialog} title="New fact" close=${() => setAdding(false)}><${FactForm} done=${() => (setAdding(false), again())} /><//>`}`;
}

/** @param {any} props */
function FactForm({ fact, done }) {
  const place = useFirstField();
  const [problem, setProblem] = useState("");
  /** @param {SubmitEvent} event */
  const save = async (event) => {
    event.preventDefault();
    const form = new FormData(/** @type {HTMLFormElement} */ (event.target));
    const text = String(form.get("text")).trim();
    try {
      done(fact ? await request("PATCH", `${PATH}/${fact.id}`, { body: { text } }) : await post(PATH, { text, kind: form.get("kind"), pinned: form.get("pinned") !== null }));
    } catch (error) {
      setProblem(problemText(error));
    }
  };
  return html`<form class="form" ref=${place} onSubmit=${save}>
    <label>One sentence <textarea name="text" rows="3" required maxlength="400" defaultValue=${fact?.text ?? ""}></textarea>${fact && html`<span class="quiet">It replaces the old one, which stays with the time until which it held.</span>`}</label>
    ${!fact && html`<label>Kind <select name="kind"><option value="fact">a fact; it expires if nobody confirms it</option><option value="preference">a preference; it does not expire</option></select></label>
      <label class="check"><input type="checkbox" name="pinned" /> Tell it to agents without being looked up</label>`}
    ${problem && html`<p class="note warning" role="alert">${problem}</p>`}
    <div class="buttons"><button type="submit" class="primary">${fact ? "Save" : "Remember"}</button></div>
  </form>`;
}

/** @param {import("../view/app.js").Props & {item: string}} props */
export function OneFact({ store, actions, item }) {
  const path = `${PATH}/${encodeURIComponent(item)}`;
  const [gone, setGone] = useState(/** @type {any} */ (null));
  const [editing, setEditing] = useState(false);
  const { value, view, again } = useLive(() => get(path), store, 10_000);
  const back = html`<${Back} to="memory" about="facts" words="All facts" actions=${actions} />`;
  if (gone) return html`${back}<${Left} gone=${gone} actions=${actions} />`;
  if (view) return html`${back}${view}`;
  const standing = factStanding(value, Date.now() / 1000);
  const may = store.may("runs");
  const held = value.status === "active";
  const facts = /** @type {[string, any][]} */ ([
    ["Because", factSource(value)],
    ["Agreed by", value.reviewed_by],
    ["Remembered since", dateText(value.created_at)],
    ["Held until", value.valid_to && dateText(value.valid_to)],
    ["Expires", value.expires_at && dateText(value.expires_at)],
    ["Holds for", value.subject ? `${value.scope} ${value.subject}` : "you, everywhere"],
    ["Replaces", value.supersedes],
    ["Replaced by", value.superseded_by],
    ["Cited as", `[m:${value.id}]`],
  ]);
  return html`${back}
    <h3>${value.text}</h3>
    <p class="row-facts"><span class=${`status ${COLOUR[standing] ?? ""}`}>${standing}</span><span>${value.kind}</span></p>
    ${may && html`<div class="buttons">
      ${held && value.expires_at && html`<${Act} label="It still holds" actions=${actions} act=${() => post(`${path}/review`, { decision: "confirm" })} after=${again} />`}
      ${held && html`<${Act} key=${String(value.pinned)} label=${value.pinned ? "Unpin" : "Pin"} actions=${actions} act=${() => request("PATCH", path, { body: { pinned: !value.pinned } })} after=${again} />
        <button type="button" onClick=${() => setEditing(true)}>Change…</button>
        <${Act} label="Forget" sure="Use it no more? It stays listed as retired." actions=${actions} act=${() => request("DELETE", path)} after=${setGone} />`}
      <${Act} label="Erase" danger=${true} sure="Erase it from the store? This cannot be taken back." actions=${actions} act=${() => request("DELETE", `${path}?erase=true`)} after=${setGone} />
      <${Act} label="Erase with runs" danger=${true} sure="Erase it, and delete your runs whose logs hold it? This cannot be taken back." actions=${actions} act=${() => request("DELETE", `${path}?erase=true&runs=true`)} after=${setGone} /></div>`}
    <h3>Why</h3>
    ${value.source_quote && html`<blockquote class="passage">${value.source_quote}</blockquote>`}
    <dl class="facts" data-test="why-fact">${facts.filter(([, each]) => each).map(([name, each]) => html`<div key=${name}><dt>${name}</dt><dd>${each}</dd></div>`)}</dl>
    ${value.source_run && html`<p><button type="button" class="link-button" onClick=${() => actions.show("runs", `${value.source_run}#${value.source_seq}`)}>Where it was said</button></p>`}
    ${value.contradicts?.length > 0 && html`<div class="note warning"><p>Something else is remembered about this:</p><ul>${value.contradicts.map((/** @type {any} */ each) => html`<li key=${each.id}><button type="button" class="link-button" onClick=${() => actions.show("memory", `fact/${each.id}`)}>${each.text}</button></li>`)}</ul></div>`}
    <h3>Answers that used it</h3>
    <${Uses} uses=${value.uses} actions=${actions} />
    ${editing && html`<${Dialog} title="Change a fact" close=${() => setEditing(false)}><${FactForm} fact=${value} done=${(/** @type {any} */ made) => (setEditing(false), actions.show("memory", `fact/${made.id}`))} /><//>`}`;
}

/** @param {any} props */
export function Uses({ uses, actions }) {
  const [shown, more] = useSome(uses ?? [], 20);
  if (!uses?.length) return html`<p class="quiet">None yet.</p>`;
  return html`<ul class="rows">${shown.map((each) => html`<li key=${each.run_id}><span class="row-facts"><${RunLink} run=${each.run_id} actions=${actions} /><span>${dateText(each.used_at)}</span><span>${each.cited ? "cites it" : "was told it"}</span></span></li>`)}</ul>${more}`;
}

/** What is left of something that was forgotten. @param {any} props */
export function Left({ gone, actions }) {
  return html`<h3>It is ${gone.status}.</h3>
    <p data-test="left">${gone.influenced.length ? `${counted(gone.influenced.length, "answer rests", "answers rest")} on it:` : "No answer rests on it."}</p>
    ${gone.influenced.length > 0 && html`<${Uses} uses=${gone.influenced} actions=${actions} />`}
    ${gone.removed.length > 0 && html`<p>${counted(gone.removed.length, "run")} deleted that held it.</p>`}
    ${gone.notes.length > 0 && html`<ul class="rows" data-test="left-notes">${gone.notes.map((/** @type {string} */ note) => html`<li key=${note}>${note}</li>`)}</ul>`}
    ${gone.sessions.length > 0 && html`<p>Messages of ${counted(gone.sessions.length, "session")} may hold it; they go when you delete the session.</p>`}
    ${gone.logs.length > 0 && html`<p>The logs of these runs still hold it:</p>
      <ul class="rows">${gone.logs.map((/** @type {string} */ run) => html`<li key=${run}><${RunLink} run=${run} actions=${actions} /></li>`)}</ul>`}`;
}
