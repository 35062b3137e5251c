// The page begins here: it finds out who is there, and shows the login or the conversation.

import { html, render } from "./vendor/htm-preact.js";
import { Actions } from "./model/actions.js";
import { Store } from "./model/store.js";
import { pageToken } from "./net/api.js";
import { App } from "./view/app.js";
import { applyTheme } from "./view/parts.js";

const root = /** @type {HTMLElement} */ (document.getElementById("page"));
const store = new Store();
const actions = new Actions(store);

applyTheme();
actions.prepare();
store.early = earlyText();
if (store.current) import("./view/turn.js"); // while its messages are asked for
window.addEventListener("popstate", () => actions.navigate());
window.addEventListener("pagehide", () => actions.leave());
window.addEventListener("online", () => actions.socket.retry());
document.addEventListener("visibilitychange", () => {
  if (document.hidden) return;
  actions.socket.retry();
  if (store.current) actions.markRead(store.current);
});

root.replaceChildren();
render(html`<${App} store=${store} actions=${actions} />`, root);

/** What was typed into the box that came with the page, before this program ran. @returns {import("./model/store.js").Early | null} */
function earlyText() {
  const box = document.getElementById("composer");
  return box instanceof HTMLTextAreaElement && box.value ? { text: box.value, send: box.dataset.early === "send" && pageToken() !== "" } : null;
}
