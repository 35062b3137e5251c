// The keys, for whoever presses `?`.

import { html } from "../vendor/htm-preact.js";

const KEYS = [
  ["Enter", "Send"],
  ["Shift+Enter", "A new line"],
  ["Esc", "Close what is open"],
  ["Esc Esc", "Stop the answer"],
  ["Ctrl+K", "Search sessions"],
  ["Ctrl+Shift+O", "New chat"],
  ["?", "This list"],
];

export function Keys() {
  return html`<dl class="facts">${KEYS.map(([key, does]) => html`<div key=${key}><dt><kbd>${key}</kbd></dt><dd>${does}</dd></div>`)}</dl>`;
}
