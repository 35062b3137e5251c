// Workflows: what there is, its graph, and a form to run it.

import { html, useState } from "../vendor/htm-preact.js";
import { get, request } from "../net/api.js";
import { graphOf } from "../model/graph.js";
import { Empty, useLoaded } from "../view/parts.js";
import { InputFields, inputsFrom } from "./inputs.js";

/** @param {import("../view/app.js").Props & {about: string}} props */
export function Workflows({ store, actions, about }) {
  return about ? html`<${One} key=${about} name=${about} store=${store} actions=${actions} />` : html`<${List} actions=${actions} />`;
}

/** @param {any} props */
function List({ actions }) {
  const { value, view } = useLoaded(() => get("/api/v1/workflows"), []);
  if (view) return view;
  if (!value.workflows.length) return html`<${Empty} text="No workflows." hint="A workflow is a file in workflow-definitions; see the guide on workflows." />`;
  return html`<ul class="rows">${value.workflows.map((/** @type {any} */ each) => html`<li key=${each.name}><button type="button" class="row-button" onClick=${() => actions.show("workflows", each.name)}>
    <span class="row-title">${each.name}</span><span class="row-facts"><span class=${`status ${each.usable ? "ready" : "failed"}`}>${each.usable ? `version ${each.version}` : "cannot be used"}</span><span>${each.description}</span></span></button></li>`)}</ul>`;
}

/** @param {any} props */
function One({ name, store, actions }) {
  const { value, view } = useLoaded(() => get(`/api/v1/workflows/${encodeURIComponent(name)}`), [name]);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState("");
  /** @param {SubmitEvent} event */
  const run = async (event) => {
    event.preventDefault();
    setBusy(true);
    setProblem("");
    try {
      const inputs = inputsFrom(new FormData(/** @type {HTMLFormElement} */ (event.target)), value.inputs);
      const told = await request("POST", `/api/v1/workflows/${encodeURIComponent(name)}/execute?wait=false`, { body: inputs });
      actions.show("runs", told.run_id ?? told._meta.run_id);
    } catch (error) {
      const said = /** @type {any} */ (error);
      setProblem([said.message, said.hint].filter(Boolean).join(" "));
    }
    setBusy(false);
  };
  return html`<button type="button" class="quiet-button" onClick=${() => actions.show("workflows")}>All workflows</button>
    ${view ?? html`<h3>${value.name}</h3><p>${value.description}</p>
      ${value.problems.map((/** @type {any} */ each) => html`<p class="note warning">${each.message} ${each.hint}</p>`)}
      <${Graph} steps=${value.definition?.steps ?? []} />
      ${store.may("workflows") && value.usable && html`<h3>Run it</h3><form class="form" onSubmit=${run}><${InputFields} inputs=${value.inputs} prefix=${`workflow-${name}`} />
        ${problem && html`<p class="note warning" role="alert">${problem}</p>`}
        <button type="submit" class="primary" disabled=${busy}>Run</button></form>`}`}`;
}

/** @param {{steps: any[]}} props */
function Graph({ steps }) {
  const { boxes, edges, width, height } = graphOf(steps);
  if (!boxes.length) return null;
  return html`<svg class="graph" viewBox=${`0 0 ${width} ${height}`} role="img" aria-label=${`Graph of ${boxes.length} steps: ${boxes.map((box) => box.id).join(", ")}`}>
    ${edges.map((edge, nth) => html`<path key=${nth} d=${edge} />`)}
    ${boxes.map((box) => html`<g key=${box.id}><rect x=${box.x} y=${box.y} width=${box.width} height=${box.height} rx="6" /><text x=${box.x + 10} y=${box.y + 16}>${box.id}</text><text x=${box.x + 10} y=${box.y + 31} class="second">${box.action}</text></g>`)}
  </svg>`;
}
