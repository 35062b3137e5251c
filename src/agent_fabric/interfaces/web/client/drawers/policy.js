// The policy: what it says about a command, and the rules in force.

import { html, useState } from "../vendor/htm-preact.js";
import { get, post } from "../net/api.js";
import { useLoaded } from "../view/parts.js";

/** @param {import("../view/app.js").Props} props */
export function Policy({ store }) {
  const { value, view } = useLoaded(() => get("/api/v1/policy"), []);
  const [told, setTold] = useState(/** @type {any} */ (null));
  const [problem, setProblem] = useState("");
  /** @param {SubmitEvent} event */
  const check = async (event) => {
    event.preventDefault();
    const form = new FormData(/** @type {HTMLFormElement} */ (event.target));
    try {
      setTold(await post("/api/v1/policy/check", { command: String(form.get("command")), level: store.start?.sandbox || "A" }));
      setProblem("");
    } catch (error) {
      setProblem(/** @type {any} */ (error).message);
    }
  };
  return html`<form class="form" onSubmit=${check}><label>What would become of a command? <input name="command" class="code-input" required placeholder="git push origin main" autocomplete="off" spellcheck=${false} /></label>
      <button type="submit" class="primary">Check</button></form>
    ${problem && html`<p class="note warning" role="alert">${problem}</p>`}
    ${told && html`<div aria-live="polite"><p><span class=${`status ${told.verdict}`}>${told.verdict}</span> ${told.reason} <span class="quiet">${told.rule}</span></p>
      <ul class="rows">${told.parts.map((/** @type {any} */ part, /** @type {number} */ nth) => html`<li key=${nth}><span class=${`status ${part.verdict}`}>${part.verdict}</span> <code>${part.subject}</code> <span class="quiet">${part.reason}</span></li>`)}</ul></div>`}
    <h3>Rules in force</h3>
    ${view ?? html`<p class="quiet">Profile “${value.profile}”, version ${value.version}. The strictest rule that matches wins.</p>
      <ul class="rows">${value.rules.map((/** @type {any} */ rule) => html`<li key=${rule.id}><span class=${`status ${rule.verdict}`}>${rule.verdict}</span> <code>${rule.id}</code><div class="row-facts"><span>${rule.reason}</span><span>${rule.origin}</span></div></li>`)}</ul>`}`;
}
