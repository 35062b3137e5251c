// Settings: how the page looks, who one is, and the settings of the server.

import { html, useState } from "../vendor/htm-preact.js";
import { applyTheme, theme } from "../view/theme.js";

/** @param {import("../view/app.js").Props} props */
export function Settings({ store, actions }) {
  const [chosen, setChosen] = useState(theme());
  /** @param {any} event */
  const choose = (event) => {
    applyTheme(event.target.value);
    setChosen(event.target.value);
  };
  return html`<h3>Appearance</h3><div class="form"><label>Theme <select value=${chosen} onChange=${choose}><option value="system">As the system</option><option value="light">Light</option><option value="dark">Dark</option></select></label></div>
    <h3>You</h3><p>${store.start?.name} <span class="quiet">${store.start?.kind === "local" ? "the owner of this folder" : store.start?.scopes.join(", ")}</span></p>
    <button type="button" onClick=${() => actions.logOut().catch((error) => actions.tell(error))}>Log out</button>
    <h3>Server</h3><p class="quiet">Version ${store.start?.version}, page ${store.start?.build}</p>`;
}
