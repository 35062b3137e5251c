// Name and password, for whoever did not come with `fabric web`.

import { html, useState } from "../vendor/htm-preact.js";
import { Problem } from "../net/api.js";

/** @param {{actions: import("../model/actions.js").Actions, begin: () => Promise<void>}} props */
export function Login({ actions, begin }) {
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  /** @param {SubmitEvent} event */
  const submit = async (event) => {
    event.preventDefault();
    const form = new FormData(/** @type {HTMLFormElement} */ (event.target));
    setBusy(true);
    try {
      await actions.logIn({ username: String(form.get("username")), password: String(form.get("password")) });
      await begin();
    } catch (error) {
      setProblem(error instanceof Problem ? `${error.message}. ${error.hint}` : String(error));
      setBusy(false);
    }
  };
  return html`<form class="login" onSubmit=${submit} data-test="login">
    <h1>agent-fabric</h1>
    <p>On the server's own machine, <code>fabric web</code> opens this page logged in. Otherwise:</p>
    <label>Name <input name="username" autocomplete="username" required autocapitalize="none" spellcheck=${false} /></label>
    <label>Password <input name="password" type="password" autocomplete="current-password" required /></label>
    ${problem && html`<p class="warning" role="alert">${problem}</p>`}
    <button type="submit" class="primary" disabled=${busy}>Log in</button>
  </form>`;
}
