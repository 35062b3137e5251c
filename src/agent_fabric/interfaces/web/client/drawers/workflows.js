// Workflows: what there is, its graph, and a form to run it.

import { html } from "../vendor/htm-preact.js";
import { graphOf } from "../model/graph.js";
import { Definitions } from "./definitions.js";

/** @type {import("./definitions.js").Kind} */
const WORKFLOWS = {
  name: "workflows",
  none: "No workflows.",
  hint: "A workflow is a file in workflow-definitions; see the guide on workflows.",
  verb: "execute",
  heading: "Run it",
  status: (each) => `version ${each.version}`,
  about: (value) => html`<${Graph} steps=${value.definition?.steps ?? []} />`,
};

/** @param {import("../view/app.js").Props & {about: string}} props */
export function Workflows(props) {
  return html`<${Definitions} kind=${WORKFLOWS} ...${props} />`;
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
