// Settings: how the page looks, who one is, and the settings of the server.

import { html, useState } from "../vendor/htm-preact.js";
import { get, request } from "../net/api.js";
import { applyTheme, Later, theme, useLoaded } from "../view/parts.js";

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
    <${Later} load=${() => import("./node_policy.js")} name="AgentPolicies" store=${store} actions=${actions} />
    ${store.may("admin") && html`<${ServerSettings} actions=${actions} />`}
    <h3>Server</h3><p class="quiet">Version ${store.start?.version}, page ${store.start?.build}</p>`;
}

/** @param {any} props */
function ServerSettings({ actions }) {
  const { value, view, again } = useLoaded(() => get("/api/v1/settings"), []);
  const [problem, setProblem] = useState(/** @type {Record<string, string>} */ ({}));
  /** @param {string} path @param {any} next */
  const change = async (path, next) => {
    try {
      await request("PATCH", "/api/v1/settings", { body: { values: { [path]: next } } });
      setProblem({});
      actions.say("Saved. It counts when the server starts again.");
      again();
    } catch (error) {
      const told = /** @type {any} */ (error);
      setProblem({ [path]: [told.message, told.hint].filter(Boolean).join(" ") });
    }
  };
  return html`<h3>Settings of the server</h3>
    <p class="quiet">Kept in the fabric folder: over its files, below the environment. They count when the server starts again.</p>
    ${view ?? value.settings.map((/** @type {any} */ setting) => html`<div class="form setting" key=${setting.path}>
      <${Field} setting=${setting} change=${change} />
      <span class="row-facts"><span>${setting.about}</span><span>From: ${setting.origin}</span>
        ${setting.overruled && html`<span class="status ask">the environment counts</span>`}
        ${!setting.overruled && JSON.stringify(setting.value) !== JSON.stringify(setting.running) && html`<span class="status ask">after a restart</span>`}
        ${setting.stored && html`<button type="button" class="quiet-button" onClick=${() => change(setting.path, null)}>Take back</button>`}</span>
      ${problem[setting.path] && html`<p class="note warning" role="alert">${problem[setting.path]}</p>`}</div>`)}`;
}

/** @param {any} props */
function Field({ setting, change }) {
  const id = `setting-${setting.path}`;
  /** @param {any} event */
  const changed = (event) => {
    const input = event.target;
    if (setting.kind === "boolean") change(setting.path, input.checked);
    else if (setting.kind === "number") change(setting.path, input.value === "" ? null : Number(input.value));
    else change(setting.path, input.value);
  };
  const label = html`<label for=${id}><code>${setting.path}</code></label>`;
  if (setting.kind === "boolean") return html`<label class="check" for=${id}><input id=${id} type="checkbox" checked=${setting.value} onChange=${changed} /><code>${setting.path}</code></label>`;
  if (setting.kind === "choice") return html`${label}<select id=${id} value=${setting.value ?? ""} onChange=${changed}>${setting.choices.map((/** @type {string} */ choice) => html`<option value=${choice}>${choice || "(chosen each time)"}</option>`)}</select>`;
  return html`${label}<input id=${id} type=${setting.kind === "number" ? "number" : "text"} step="any" value=${setting.value ?? ""} placeholder=${setting.optional ? "no limit" : ""} onChange=${changed} />`;
}
