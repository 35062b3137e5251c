// The whole page: a conversation in the middle, sessions on the left, everything else on the right.

import { html, useEffect, useState } from "../vendor/htm-preact.js";
import { useStore } from "../model/store.js";
import { pageToken } from "../net/api.js";
import { Composer } from "./composer.js";
import { Header } from "./header.js";
import { Later, Loading, Trouble } from "./parts.js";
import { Sidebar } from "./sidebar.js";
import { Transcript } from "./transcript.js";

/** @typedef {{store: import("../model/store.js").Store, actions: import("../model/actions.js").Actions}} Props */

/** @param {Props} props */
export function App({ store, actions }) {
  useStore(store, (all) => `${all.start?.name} ${all.connection === "logged_out"}`);
  const [state, setState] = useState(/** @type {{ready: boolean, problem: any}} */ ({ ready: false, problem: null }));
  // Whoever was logged in is probably still: one can write while the server is asked.
  const [early] = useState(() => pageToken() !== "" && !location.hash.startsWith("#login="));
  const begin = () =>
    actions.begin().then(
      () => setState({ ready: true, problem: null }),
      (problem) => setState({ ready: true, problem }),
    );
  useEffect(() => void begin(), []);
  if (state.problem && !store.start) return html`<main class="alone"><${Trouble} problem=${state.problem} retry=${begin} /><${Later} load=${() => import("./login.js")} name="Login" store=${store} actions=${actions} begin=${begin} /></main>`;
  if (store.start || (early && !state.ready)) return html`<${Page} store=${store} actions=${actions} />`;
  if (!state.ready) return html`<main class="alone"><${Loading} /></main>`;
  return html`<main class="alone"><${Later} load=${() => import("./login.js")} name="Login" store=${store} actions=${actions} begin=${begin} /></main>`;
}

/** @param {Props} props */
function Page({ store, actions }) {
  useStore(store, (all) => `${all.drawer?.name} ${all.drawer?.about} ${all.sidebar} ${all.outdated} ${all.connection} ${all.toast?.id} ${all.announced}`);
  useEffect(() => listenToKeys(store, actions), []);
  return html`<div class=${`frame ${store.drawer ? "with-drawer" : ""}`}>
    <a class="skip" href="#composer" onClick=${focusComposer}>Skip to the message box</a>
    <${Sidebar} store=${store} actions=${actions} />
    ${store.sidebar && html`<div class="backdrop" onClick=${() => store.set({ sidebar: false })}></div>`}
    <main class="middle">
      <${Header} store=${store} actions=${actions} />
      <${Banner} store=${store} actions=${actions} />
      <${Transcript} store=${store} actions=${actions} />
      <${Composer} store=${store} actions=${actions} />
    </main>
    ${store.drawer && html`<${Later} load=${() => import("../drawers/drawer.js")} name="Drawer" key="drawer" store=${store} actions=${actions} />`}
    <div class="said" role="status" aria-live="polite">${store.announced}</div>
    ${store.toast && html`<div class="toast" role="status">${store.toast.text}
      ${store.toast.action && html`<button type="button" onClick=${store.toast.act}>${store.toast.action}</button>`}</div>`}
  </div>`;
}

/** @param {Props} props */
function Banner({ store, actions }) {
  if (store.outdated)
    return html`<div class="banner" role="status">The page has a new version. <button type="button" onClick=${() => location.reload()}>Reload</button></div>`;
  if (store.connection === "offline")
    return html`<div class="banner warning" role="status" data-test="offline">The server cannot be reached. What you write is kept, and sent when it is back.
      <button type="button" onClick=${() => actions.socket.retry()}>Try now</button></div>`;
  return null;
}

/** @param {Event} [event] */
function focusComposer(event) {
  event?.preventDefault();
  document.getElementById("composer")?.focus();
}

const TWICE_MS = 3000;

/**
 * Keys that work everywhere. Esc closes what is nearest and never throws away what was written: a run is stopped by the
 * second one, after a hint. While a word is being composed, Esc belongs to the input method.
 *
 * @param {Props["store"]} store
 * @param {Props["actions"]} actions
 */
function listenToKeys(store, actions) {
  let escapedAt = -TWICE_MS;
  /** @param {KeyboardEvent} event */
  const leaveToInputMethod = (event) => {
    if (event.key === "Escape" && (event.isComposing || event.keyCode === 229)) event.stopImmediatePropagation();
  };
  const stopAtSecond = () => {
    const first = performance.now() - escapedAt > TWICE_MS;
    escapedAt = first ? performance.now() : -TWICE_MS;
    if (first) actions.say("Press Esc once more to stop the answer.");
    else actions.stop(store.current).catch((error) => actions.tell(error));
  };
  /** @param {KeyboardEvent} event */
  const hear = (event) => {
    if (document.querySelector("dialog[open]")) return; // its own keys count
    const command = event.ctrlKey || event.metaKey;
    const typing = event.target instanceof HTMLElement && event.target.closest("input, textarea, select, [contenteditable]") !== null;
    if (command && event.key.toLowerCase() === "k") {
      event.preventDefault();
      document.getElementById("search")?.focus(); // at once: the next letter may be typed before a frame is drawn
      store.set({ sidebar: true });
      requestAnimationFrame(() => document.getElementById("search")?.focus()); // where it was hidden before
    } else if (command && event.shiftKey && event.key.toLowerCase() === "o") {
      event.preventDefault();
      actions.open("").then(() => focusComposer());
    } else if (event.key === "Escape" && !event.defaultPrevented) {
      const turn = store.current && store.sessions.get(store.current)?.turn;
      if (store.drawer) actions.show("");
      else if (store.sidebar) store.set({ sidebar: false });
      else if (typing && event.target !== document.getElementById("composer")) focusComposer(); // a field is left first
      else if (turn) stopAtSecond();
    } else if (event.key === "?" && !typing && !command) actions.show("keys");
  };
  document.addEventListener("keydown", leaveToInputMethod, true);
  document.addEventListener("keydown", hear);
  return () => {
    document.removeEventListener("keydown", leaveToInputMethod, true);
    document.removeEventListener("keydown", hear);
  };
}
