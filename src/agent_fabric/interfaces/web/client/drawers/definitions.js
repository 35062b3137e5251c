// What is defined in a file and can be run: a list, one of it, and a form to let it work. Agents and workflows are such.

import { html, useState } from "../vendor/htm-preact.js";
import { get, request } from "../net/api.js";
import { Empty, useLoaded } from "../view/parts.js";
import { InputFields, inputsFrom } from "./inputs.js";

/**
 * @typedef {{
 *   name: string, none: string, hint: string, verb: string, heading: string,
 *   status: (each: any) => string, about: (value: any) => unknown,
 * }} Kind
 *
 * `name` is that of its drawer, of its address and of its list; `verb` is what the address to run one ends with;
 * `status` is said of one that can be used, and `about` is shown between its description and its form.
 */

/** @param {import("../view/app.js").Props & {about: string, kind: Kind}} props */
export function Definitions({ kind, store, actions, about }) {
  return about ? html`<${One} key=${about} kind=${kind} name=${about} store=${store} actions=${actions} />` : html`<${List} kind=${kind} actions=${actions} />`;
}

/** @param {any} props */
function List({ kind, actions }) {
  const { value, view } = useLoaded(() => get(`/api/v1/${kind.name}`), []);
  if (view) return view;
  if (!value[kind.name].length) return html`<${Empty} text=${kind.none} hint=${kind.hint} />`;
  return html`<ul class="rows">${value[kind.name].map((/** @type {any} */ each) => html`<li key=${each.name}><button type="button" class="row-button" onClick=${() => actions.show(kind.name, each.name)}>
    <span class="row-title">${each.name}</span><span class="row-facts"><span class=${`status ${each.usable ? "ready" : "failed"}`}>${each.usable ? kind.status(each) : "cannot be used"}</span><span>${each.description}</span></span></button></li>`)}</ul>`;
}

/** @param {any} props */
function One({ kind, name, store, actions }) {
  const path = `/api/v1/${kind.name}/${encodeURIComponent(name)}`;
  const { value, view } = useLoaded(() => get(path), [name]);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState("");
  /** @param {SubmitEvent} event */
  const run = async (event) => {
    event.preventDefault();
    setBusy(true);
    setProblem("");
    try {
      const inputs = inputsFrom(new FormData(/** @type {HTMLFormElement} */ (event.target)), value.inputs);
      const told = await request("POST", `${path}/${kind.verb}?wait=false`, { body: inputs });
      actions.show("runs", told._meta?.run_id ?? told.run_id);
    } catch (error) {
      const said = /** @type {any} */ (error);
      setProblem([said.message, said.hint].filter(Boolean).join(" "));
    }
    setBusy(false);
  };
  return html`<button type="button" class="quiet-button" onClick=${() => actions.show(kind.name)}>All ${kind.name}</button>
    ${view ?? html`<h3>${value.name}</h3><p>${value.description}</p>
      ${value.problems.map((/** @type {any} */ each) => html`<p class="note warning">${each.message} ${each.hint}</p>`)}
      ${kind.about(value)}
      ${store.may("workflows") && value.usable && html`<h3>${kind.heading}</h3><form class="form" onSubmit=${run}><${InputFields} inputs=${value.inputs} prefix=${`${kind.name}-${name}`} />
        ${problem && html`<p class="note warning" role="alert">${problem}</p>`}
        <button type="submit" class="primary" disabled=${busy}>Run</button></form>`}`}`;
}
