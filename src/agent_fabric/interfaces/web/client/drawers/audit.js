// The audit record: whether it is whole, and who did what to the server.

import { html } from "../vendor/htm-preact.js";
import { get } from "../net/api.js";
import { counted, dateText } from "../model/words.js";
import { Empty, useLoaded } from "../view/parts.js";

export function Audit() {
  const chain = useLoaded(() => get("/api/v1/audit/verify"), []);
  const acts = useLoaded(() => get("/api/v1/audit/acts?limit=200"), []);
  return html`<h3>The record</h3>
    ${chain.view ?? html`<p><span class=${`status ${chain.value.holds ? "completed" : "failed"}`}>${chain.value.holds ? "whole" : "damaged"}</span> ${counted(chain.value.entries, "entry", "entries")} of ${counted(chain.value.runs, "run")}</p>
      ${(chain.value.damage ?? []).map((/** @type {any} */ each, /** @type {number} */ nth) => html`<p class="note warning" key=${nth}>${typeof each === "string" ? each : JSON.stringify(each)}</p>`)}
      <p class="quiet">Head <code>${String(chain.value.head).slice(0, 16)}…</code></p>`}
    <h3>What was done to the server</h3>
    ${acts.view ?? (acts.value.acts.length ? html`<ul class="rows">${acts.value.acts.map((/** @type {any} */ act, /** @type {number} */ nth) => html`<li key=${nth}>${act.act.replaceAll("_", " ")} ${act.about && html`<code>${act.about}</code>`}<div class="row-facts"><span>${act.by} (${act.credential})</span><span>${dateText(act.created_at)}</span><span>${act.detail}</span></div></li>`)}</ul>` : html`<${Empty} text="Nothing yet." />`)}`;
}
