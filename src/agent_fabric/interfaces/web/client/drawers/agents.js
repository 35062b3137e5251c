// Agents: what each is for, and a form to let one work.

import { html, useState } from "../vendor/htm-preact.js";
import { get, request } from "../net/api.js";
import { Empty, useLoaded } from "../view/parts.js";
import { InputFields, inputsFrom } from "./inputs.js";

/** @param {import("../view/app.js").Props & {about: string}} props */
export function Agents({ store, actions, about }) {
  return about ? html`<${One} key=${about} name=${about} store=${store} actions=${actions} />` : html`<${List} actions=${actions} />`;
}

/** @param {any} props */
function List({ actions }) {
  const { value, view } = useLoaded(() => get("/api/v1/agents"), []);
  if (view) return view;
  if (!value.agents.length) return html`<${Empty} text="No agents." hint="An agent is a file; see the guide on agents." />`;
  return html`<ul class="rows">${value.agents.map((/** @type {any} */ each) => html`<li key=${each.name}><button type="button" class="row-button" onClick=${() => actions.show("agents", each.name)}>
    <span class="row-title">${each.name}</span><span class="row-facts"><span class=${`status ${each.usable ? "ready" : "failed"}`}>${each.usable ? each.role : "cannot be used"}</span><span>${each.description}</span></span></button></li>`)}</ul>`;
}

/** @param {any} props */
function One({ name, store, actions }) {
  const { value, view } = useLoaded(() => get(`/api/v1/agents/${encodeURIComponent(name)}`), [name]);
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  /** @param {SubmitEvent} event */
  const run = async (event) => {
    event.preventDefault();
    setBusy(true);
    setProblem("");
    try {
      const inputs = inputsFrom(new FormData(/** @type {HTMLFormElement} */ (event.target)), value.inputs);
      const told = await request("POST", `/api/v1/agents/${encodeURIComponent(name)}/run?wait=false`, { body: inputs });
      actions.show("runs", told._meta?.run_id ?? told.run_id);
    } catch (error) {
      const said = /** @type {any} */ (error);
      setProblem([said.message, said.hint].filter(Boolean).join(" "));
    }
    setBusy(false);
  };
  return html`<button type="button" class="quiet-button" onClick=${() => actions.show("agents")}>All agents</button>
    ${view ?? html`<h3>${value.name}</h3><p>${value.description}</p>
      <p class="row-facts"><span>${value.role}</span><span>version ${value.version}</span><span>${(value.capabilities ?? []).join(", ")}</span></p>
      ${value.problems.map((/** @type {any} */ each) => html`<p class="note warning">${each.message} ${each.hint}</p>`)}
      ${store.may("workflows") && value.usable && html`<h3>Let it work</h3><form class="form" onSubmit=${run}><${InputFields} inputs=${value.inputs} prefix=${`agent-${name}`} />
        ${problem && html`<p class="note warning" role="alert">${problem}</p>`}
        <button type="submit" class="primary" disabled=${busy}>Run</button></form>`}`}`;
}
