// Agents: what each is for, and a form to let one work.

import { html } from "../vendor/htm-preact.js";
import { Definitions } from "./definitions.js";

/** @type {import("./definitions.js").Kind} */
const AGENTS = {
  name: "agents",
  none: "No agents.",
  hint: "An agent is a file; see the guide on agents.",
  verb: "run",
  heading: "Let it work",
  status: (each) => each.role,
  about: (value) => html`<p class="row-facts"><span>${value.role}</span><span>version ${value.version}</span><span>${(value.capabilities ?? []).join(", ")}</span></p>`,
};

/** @param {import("../view/app.js").Props & {about: string}} props */
export function Agents(props) {
  return html`<${Definitions} kind=${AGENTS} ...${props} />`;
}
