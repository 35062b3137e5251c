// Which machine a chat with the sysadmin is about: one of those that have joined.

import { html } from "../vendor/htm-preact.js";
import { get } from "../net/api.js";
import { useLoaded } from "./parts.js";

/** @param {any} props */
export function NodeChoice({ session, actions }) {
  const { value, problem } = useLoaded(() => get("/api/v1/nodes"), []);
  const names = (value?.nodes ?? []).map((/** @type {any} */ node) => node.name);
  if (session.node && !names.includes(session.node)) names.push(session.node);
  /** @param {any} event */
  const choose = (event) => actions.change(session.id, { node: event.target.value }).catch((/** @type {any} */ error) => actions.tell(error));
  return html`<label class="machine">Machine <select data-test="machine" value=${session.node ?? ""} onChange=${choose}><option value="">any</option>${names.map((/** @type {string} */ name) => html`<option key=${name} value=${name}>${name}</option>`)}</select>
    ${problem && html`<span class="quiet">${problem.message}</span>`}</label>`;
}
