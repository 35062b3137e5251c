// An invitation: a form, and then one line for the machine, shown once.

import { html, useEffect, useRef, useState } from "../vendor/htm-preact.js";
import { post } from "../net/api.js";
import { labelsFrom } from "../model/machines.js";
import { counted, dateText } from "../model/words.js";
import { copyText } from "../view/clipboard.js";
import { problemText, useFirstField } from "./pieces.js";

/** @param {any} props */
export function Invite({ actions }) {
  const place = useFirstField();
  const [made, setMade] = useState(/** @type {any} */ (null));
  const [problem, setProblem] = useState("");
  const ready = useRef(/** @type {HTMLButtonElement | null} */ (null));
  useEffect(() => {
    if (made) ready.current?.focus();
  }, [made]);
  /** @param {SubmitEvent} event */
  const invite = async (event) => {
    event.preventDefault();
    const form = new FormData(/** @type {HTMLFormElement} */ (event.target));
    try {
      const uses = Number(form.get("uses"));
      const wish = { name: String(form.get("name") ?? "").trim(), labels: labelsFrom(String(form.get("labels"))), uses, expires_in_s: Number(form.get("expires")), confirm: form.get("confirm") !== null };
      setMade({ ...(await post("/api/v1/nodes/invites", wish)), uses });
      setProblem("");
    } catch (error) {
      setProblem(problemText(error));
    }
  };
  const copy = () => copyText(made.command).then((/** @type {boolean} */ copied) => actions.say(copied ? "Copied." : "The browser does not let us copy: mark it and copy it."));
  if (made)
    return html`<p>Run this line on ${made.uses === 1 ? "the machine" : `each of up to ${counted(made.uses, "machine")}`}. It fetches the node's program, checks it, and joins. It needs Python 3.11.</p>
      <div class="output"><pre tabindex="0" data-test="invite-line">${made.command}</pre></div>
      <p class="note">It holds a token that is shown this once, and counts until ${dateText(made.expires_at)}. Then start it there: <code>python3 fabric-node.pyz run</code>, or <code>install</code> for systemd.</p>
      <div class="buttons"><button type="button" class="primary" ref=${ready} onClick=${copy}>Copy</button><button type="button" onClick=${() => setMade(null)}>Another one</button></div>`;
  return html`<form class="form" ref=${place} onSubmit=${invite}>
    <label>Name <input name="name" placeholder="what the machine calls itself" pattern="[A-Za-z0-9](?:[A-Za-z0-9._\\-]{0,62}[A-Za-z0-9])?" title="Letters, digits, dots, dashes and underscores" autocomplete="off" /></label>
    <label>Labels <input name="labels" placeholder="role=web, env=prod" autocomplete="off" /></label>
    <div class="pair"><label>Machines <input name="uses" type="number" min="1" max="10000" step="1" required defaultValue="1" /></label>
      <label>Valid for <select name="expires"><option value="3600">an hour</option><option value="86400">a day</option><option value="604800">a week</option></select></label></div>
    <label class="check"><input name="confirm" type="checkbox" /> Confirm each machine by a code</label>
    ${problem && html`<p class="note warning" role="alert">${problem}</p>`}
    <div class="buttons"><button type="submit" class="primary">Invite</button></div>
  </form>`;
}
