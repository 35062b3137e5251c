// What a model had been told by an event: the conversation of each lane as it was then.

import { html } from "../vendor/htm-preact.js";
import { get } from "../net/api.js";
import { counted } from "../model/words.js";
import { Output, useLoaded } from "../view/parts.js";

const SHOWN_CHARS = 600;

/** @param {{run: string, seq: number}} props */
export function Context({ run, seq }) {
  const { value, view } = useLoaded(() => get(`/runs/${run}/context?seq=${seq}`), [run, seq]);
  if (view) return view;
  if (!value.lanes.length) return html`<p class="quiet">No model had been told anything yet.</p>`;
  return value.lanes.map((/** @type {any} */ lane) => html`<section key=${lane.lane} data-test="context"><h4>${lane.lane}</h4>
    <p class="row-facts"><span>${lane.model}</span><span>${counted(lane.messages.length, "message")}</span><span>about ${lane.tokens.toLocaleString()} tokens</span></p>
    ${lane.messages.map((/** @type {any} */ message, /** @type {number} */ nth) => html`<div key=${nth}><p class="label">${message.role}</p><${Output} text=${messageText(message)} most=${SHOWN_CHARS} /></div>`)}</section>`);
}

/** @param {any} message */
const messageText = (message) => [message.content, ...(message.tool_calls ?? []).map((/** @type {any} */ call) => `→ ${call.tool} ${call.arguments}`)].filter(Boolean).join("\n");
