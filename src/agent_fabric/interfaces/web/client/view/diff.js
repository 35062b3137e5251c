// What became of one file, line by line.

import { html } from "../vendor/htm-preact.js";

/** @param {{change: any}} props */
export function Diff({ change }) {
  return html`<details><summary><code>${change.path}</code> <span class="quiet">${change.change}${change.added !== undefined ? ` +${change.added} −${change.removed}` : ""}</span></summary>
    ${change.diff && html`<div class="diff" tabindex="0">${change.diff.split("\n").map((/** @type {string} */ line, /** @type {number} */ nth) => html`<div key=${nth} class=${line.startsWith("+") ? "add" : line.startsWith("-") ? "del" : ""}>${line || " "}</div>`)}</div>`}</details>`;
}
