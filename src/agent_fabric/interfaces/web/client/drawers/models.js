// Models: what each key means and how it stands, what is on the shelf, and downloads with their progress.

import { html, useEffect, useState } from "../vendor/htm-preact.js";
import { get, post } from "../net/api.js";
import { sizeText } from "../model/words.js";
import { Empty, useLoaded } from "../view/parts.js";

const LOOK_MS = 1000;
/** Whether all of a model's file is there. @param {{stored: string}} entry */
const isHere = (entry) => entry.stored === "downloaded" || entry.stored === "unchecked";

/** @param {import("../view/app.js").Props} props */
export function Models({ store, actions }) {
  const { value, view, again } = useLoaded(() => get("/models"), []);
  const [pulling, setPulling] = useState("");
  useEffect(() => {
    if (!pulling) return undefined;
    const timer = window.setInterval(again, LOOK_MS);
    return () => clearInterval(timer);
  }, [pulling]);
  if (view) return view;
  const session = store.sessions.get(store.current);
  /** @param {string} name */
  const pull = async (name) => {
    setPulling(name);
    try {
      await post("/models/pull", { name });
      actions.say(`${name} is here.`);
    } catch (error) {
      actions.tell(error);
    }
    setPulling("");
    again();
  };
  return html`<h3>Keys</h3><ul class="rows">${value.models.map((/** @type {any} */ model) => html`<li key=${model.key}><span class="row-title">${model.key}: <code>${model.model}</code></span>
      <span class="row-facts"><span class=${`status ${model.standing}`}>${model.standing}</span><span>${model.backend}</span><span>${model.local ? "on this machine" : "another machine"}</span><span>${model.why}</span>${model.note && html`<span>${model.note}</span>`}</span>
      ${model.fix && html`<p class="note warning">${model.fix}</p>`}
      ${session && session.model_key !== model.key && html`<button type="button" class="quiet-button" onClick=${() => actions.change(session.id, { model_key: model.key }).then(() => actions.say(`This chat uses ${model.key} now.`), (error) => actions.tell(error))}>Use in this chat</button>`}</li>`)}</ul>
    ${value.embedded && html`<h3>On the shelf</h3><p class="quiet">Models that this program can run by itself, in ${value.embedded.folder}.</p>
      <ul class="rows">${(value.embedded.catalogue ?? []).map((/** @type {any} */ entry) => html`<li key=${entry.name}><span class="row-title">${entry.name}</span>
        <span class="row-facts"><span class=${`status ${isHere(entry) ? "ready" : ""}`}>${isHere(entry) ? "here" : "not here"}</span><span>${sizeText(entry.size_bytes)}, ${sizeText(entry.memory_bytes)} of memory</span><span>${entry.licence}</span><span>${entry.measured || "not measured"}</span></span>
        ${(pulling === entry.name || entry.stored === "begun") && html`<progress max=${entry.size_bytes} value=${entry.begun_bytes} aria-label=${`Download of ${entry.name}`}></progress>`}
        ${!isHere(entry) && store.may("admin") && html`<button type="button" class="quiet-button" disabled=${pulling !== ""} onClick=${() => pull(entry.name)}>${pulling === entry.name ? `Downloading, ${sizeText(entry.begun_bytes)} so far` : "Download"}</button>`}</li>`)}</ul>`}
    ${!value.models.length && html`<${Empty} text="No models." />`}`;
}
