// Users and API keys, for admins.

import { html, useState } from "../vendor/htm-preact.js";
import { get, post, request } from "../net/api.js";
import { agoText, dateText } from "../model/words.js";
import { Empty, useLoaded } from "../view/parts.js";

const ROLES = ["viewer", "member", "approver", "operator", "admin"];

/** @param {import("../view/app.js").Props} props */
export function People({ actions }) {
  return html`<${Users} actions=${actions} /><${ApiKeys} actions=${actions} />`;
}

/** @param {any} props */
function Users({ actions }) {
  const { value, view, again } = useLoaded(() => get("/api/v1/users"), []);
  /** @param {Promise<any>} asked */
  const after = (asked) => asked.then(again, (/** @type {any} */ error) => actions.tell(error));
  /** @param {SubmitEvent} event */
  const add = (event) => {
    event.preventDefault();
    const form = /** @type {HTMLFormElement} */ (event.target);
    const given = Object.fromEntries(new FormData(form));
    after(post("/api/v1/users", given).then(() => form.reset()));
  };
  return html`<h3>Users</h3>
    ${view ?? html`${!value.users.length && html`<${Empty} text="No users." hint="Only the owner of this machine's folder can log in." />`}
      <ul class="rows">${value.users.map((/** @type {any} */ user) => html`<li key=${user.name}><span class="row-title">${user.name}</span>
        <span class="row-facts"><label><span class="hidden">Role of ${user.name}</span><select value=${user.role} onChange=${(/** @type {any} */ event) => after(request("PATCH", `/api/v1/users/${user.name}`, { body: { role: event.target.value } }))}>${ROLES.map((role) => html`<option value=${role}>${role}</option>`)}</select></label>
        ${user.disabled && html`<span class="status failed">disabled</span>`}
        <button type="button" class="quiet-button" onClick=${() => after(request("PATCH", `/api/v1/users/${user.name}`, { body: { disabled: !user.disabled } }))}>${user.disabled ? "Enable" : "Disable"}</button>
        <button type="button" class="quiet-button" onClick=${() => after(request("DELETE", `/api/v1/users/${user.name}`))}>Remove</button></span></li>`)}</ul>`}
    <details><summary>Add a user</summary><form class="form" onSubmit=${add}>
      <label>Name <input name="name" required pattern="[a-z0-9][a-z0-9._@\\-]{0,63}" autocomplete="off" /></label>
      <label>Password <input name="password" type="password" required minlength="12" autocomplete="new-password" /></label>
      <label>Role <select name="role">${ROLES.map((role) => html`<option value=${role}>${role}</option>`)}</select></label>
      <button type="submit" class="primary">Add</button></form></details>`;
}

/** @param {any} props */
function ApiKeys({ actions }) {
  const { value, view, again } = useLoaded(() => get("/api/v1/keys"), []);
  const [made, setMade] = useState("");
  /** @param {SubmitEvent} event */
  const add = async (event) => {
    event.preventDefault();
    const form = /** @type {HTMLFormElement} */ (event.target);
    const given = new FormData(form);
    try {
      const told = await post("/api/v1/keys", { name: given.get("name"), scopes: [given.get("scope")] });
      setMade(told.key);
      form.reset();
      again();
    } catch (error) {
      actions.tell(error);
    }
  };
  return html`<h3>API keys</h3>
    ${made && html`<p class="note" role="status">Copy it now, it is not shown again: <code>${made}</code></p>`}
    ${view ?? html`${!value.keys.length && html`<${Empty} text="No keys." />`}
      <ul class="rows">${value.keys.map((/** @type {any} */ key) => html`<li key=${key.id}><span class="row-title">${key.name}</span>
        <span class="row-facts"><span class=${`status ${key.status}`}>${key.status}</span><span>${key.scopes.join(", ")}</span><span>made ${agoText(key.created_at, Date.now() / 1000)} by ${key.created_by}</span>
        ${key.expires_at && html`<span>until ${dateText(key.expires_at)}</span>`}
        ${key.status === "live" && html`<button type="button" class="quiet-button" onClick=${() => request("DELETE", `/api/v1/keys/${key.id}`).then(again, (error) => actions.tell(error))}>Revoke</button>`}</span></li>`)}</ul>`}
    <details><summary>Make a key</summary><form class="form" onSubmit=${add}>
      <label>Name <input name="name" required autocomplete="off" /></label>
      <label>Scope <select name="scope">${["runs:read", "runs", "workflows", "approvals", "admin"].map((scope) => html`<option value=${scope}>${scope}</option>`)}</select></label>
      <button type="submit" class="primary">Make</button></form></details>`;
}
