// Webhooks: other systems that are told what happens here.

import { html, useState } from "../vendor/htm-preact.js";
import { get, post, request } from "../net/api.js";
import { agoText, dateText } from "../model/words.js";
import { Empty } from "../view/parts.js";
import { Act, Dialog, Heading, problemText, useFirstField, useLive } from "./pieces.js";

const PATH = "/api/v1/subscriptions";

/** @param {import("../view/app.js").Props} props */
export function Receivers({ store, actions }) {
  const { value, view, again } = useLive(() => get(PATH), store);
  const [open, setOpen] = useState(/** @type {{rotate: string} | null} */ (null));
  /** @param {any} told */
  const tested = (told) => actions.say(told.status ? `It answered ${told.status}.` : `It was not reached: ${told.problem}`);
  return html`<${Heading} text="Webhooks"><button type="button" onClick=${() => setOpen({ rotate: "" })}>New webhook</button><//>
    ${view}
    ${value && !value.subscriptions.length && html`<${Empty} text="No other system is told anything." hint="A webhook sends what happens here to an address, signed. What others send here is set in the configuration." />`}
    <ul class="rows">${(value?.subscriptions ?? []).map((/** @type {any} */ each) => html`<li key=${each.name}><span class="row-title">${each.name}: ${each.url}</span>
      <span class="row-facts"><span class=${`status ${each.is_active ? "ready" : "failed"}`}>${each.is_active ? "on" : "disabled"}</span>${each.disabled_because && html`<span>${each.disabled_because}</span>`}<span>${each.subjects.join(", ")}</span>
        ${each.failing_since && html`<span class="status waiting">failing since ${dateText(each.failing_since)}</span>`}<span>${each.secret ? `signed with ${each.secret}` : "not signed"}</span><span>made ${agoText(each.created_at, Date.now() / 1000)}</span></span>
      <div class="buttons small"><${Act} label="Test" actions=${actions} act=${() => post(`${PATH}/${each.name}/test`)} after=${tested} />
        <button type="button" onClick=${() => setOpen({ rotate: each.name })}>Other secret…</button>
        <${Act} label="Remove" danger=${true} sure=${`Send nothing more to ${each.name}?`} actions=${actions} act=${() => request("DELETE", `${PATH}/${each.name}`)} after=${again} /></div></li>`)}</ul>
    ${open && html`<${Dialog} title=${open.rotate ? `Another secret for ${open.rotate}` : "New webhook"} close=${() => setOpen(null)}><${Receiver} name=${open.rotate} done=${() => (setOpen(null), again())} /><//>`}`;
}

/** @param {{name: string, done: () => void}} props */
function Receiver({ name, done }) {
  const place = useFirstField();
  const [problem, setProblem] = useState("");
  /** @param {SubmitEvent} event */
  const save = async (event) => {
    event.preventDefault();
    const form = new FormData(/** @type {HTMLFormElement} */ (event.target));
    const secret = String(form.get("secret"));
    try {
      if (name) await post(`${PATH}/${name}/rotate`, { secret });
      else await post(PATH, { name: form.get("name"), url: form.get("url"), subjects: String(form.get("subjects")).split(/[\s,]+/).filter(Boolean), secret: secret || null });
      done();
    } catch (error) {
      setProblem(problemText(error));
    }
  };
  return html`<form class="form" ref=${place} onSubmit=${save}>
    ${!name && html`<label>Name <input name="name" required maxlength="80" pattern="[A-Za-z0-9][A-Za-z0-9_.\\-]*" autocomplete="off" /></label>
      <label>Address <input name="url" type="url" required placeholder="https://example.com/hook" /></label>
      <label>Subjects <input name="subjects" required value="agent33.workflow.completed" class="code-input" /><span class="quiet">Several with commas; * stands for one part, a final > for all that follow.</span></label>`}
    <label>Secret <input name="secret" required=${Boolean(name)} placeholder="env:HOOK_SECRET" class="code-input" autocomplete="off" /><span class="quiet">Where it is, never the secret itself.${name ? " For 24 hours messages are signed with both." : ""}</span></label>
    ${problem && html`<p class="note warning" role="alert">${problem}</p>`}
    <div class="buttons"><button type="submit" class="primary">${name ? "Sign with it" : "Add"}</button></div>
  </form>`;
}
