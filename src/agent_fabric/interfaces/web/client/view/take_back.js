// Takes the files of a chat back to a message: first what would happen and what cannot be taken back, then the deed.

import { html, useState } from "../vendor/htm-preact.js";
import { get, request } from "../net/api.js";
import { counted } from "../model/words.js";
import { useLoaded } from "./parts.js";
import { Diff } from "./diff.js";

/** @param {import("./app.js").Props & {message: string, close: () => void}} props */
export function TakeBack({ message, close, store, actions }) {
  const path = `/api/v1/sessions/${encodeURIComponent(store.current)}/messages/${encodeURIComponent(message)}`;
  const { value, view, again } = useLoaded(() => get(`${path}/changes`), [message]);
  const [busy, setBusy] = useState(false);
  const [refused, setRefused] = useState(/** @type {any[]} */ ([]));
  if (view) return view;
  const runs = value.runs.filter((/** @type {any} */ run) => run.changes.length);
  const changes = runs.flatMap((/** @type {any} */ run) => run.changes);
  const final = changes.filter((/** @type {any} */ change) => !change.undoable);
  const paths = new Set(changes.filter((/** @type {any} */ change) => change.undoable).map((/** @type {any} */ change) => change.path));
  /** @param {boolean} force */
  const undo = async (force) => {
    setBusy(true);
    try {
      const told = await request("POST", `${path}/undo`, { body: { force } });
      const left = told.runs.flatMap((/** @type {any} */ run) => run.refused).filter((/** @type {any} */ each) => !each.final);
      const done = new Set(told.runs.flatMap((/** @type {any} */ run) => run.done));
      actions.say(done.size ? `${counted(done.size, "file")} taken back.` : "No file was touched.");
      setRefused(left);
      if (left.length) again();
      else close();
    } catch (error) {
      actions.tell(error);
    }
    setBusy(false);
  };
  return html`<section class="take-back" aria-label="Take files back" data-test="take-back">
    <h3>${paths.size ? `Take ${counted(paths.size, "file")} back to here?` : "No file has to be taken back."}</h3>
    <${Final} sent=${value.cannot_be_taken_back} final=${final} actions=${actions} />
    ${runs.map((/** @type {any} */ run) => html`<${Changed} key=${run.run_id} run=${run} />`)}
    ${refused.length > 0 && html`<p class="note warning" role="alert">Left alone: ${refused.map((each) => `${each.path} (${each.reason})`).join(", ")}.</p>`}
    <div class="buttons">
      ${paths.size > 0 && !refused.length && html`<button type="button" class="danger" disabled=${busy} data-test="undo" onClick=${() => undo(false)}>Take back</button>`}
      ${refused.length > 0 && html`<button type="button" class="danger" disabled=${busy} onClick=${() => undo(true)}>Overwrite what was edited; it is kept</button>`}
      <button type="button" onClick=${close}>${paths.size ? "Leave as it is" : "Close"}</button>
    </div>
  </section>`;
}

/** What stays, whatever is done about files. @param {any} props */
function Final({ sent, final, actions }) {
  if (!sent.length && !final.length) return html`<p class="quiet">Nothing was sent or pushed since: all of it can be taken back.</p>`;
  /** @param {Event} event @param {any} each */
  const open = (event, each) => (event.preventDefault(), actions.show("runs", `${each.run_id}#${each.seq}`));
  return html`<div class="note warning"><p><strong>Cannot be taken back</strong></p><ul>
    ${sent.map((/** @type {any} */ each) => html`<li key=${`${each.run_id}${each.seq}`}><code>${each.what}</code> ${each.certain ? "was carried out" : "may have been carried out"}, <a href=${`/r/${each.run_id}#${each.seq}`} onClick=${(/** @type {Event} */ event) => open(event, each)}>event ${each.seq}</a></li>`)}
    ${final.map((/** @type {any} */ each) => html`<li key=${each.path}><code>${each.path}</code>: ${each.reason}</li>`)}</ul></div>`;
}

/** The files that one turn has changed, and what it did to them. @param {any} props */
function Changed({ run }) {
  const [diff, setDiff] = useState(/** @type {any} */ (null));
  const load = () => diff === null && get(`/runs/${run.run_id}/diff`).then(setDiff, () => setDiff({ changes: run.changes }));
  return html`<details onToggle=${load}><summary>${counted(run.changes.length, "change")}: ${run.changes.map((/** @type {any} */ change) => change.path).slice(0, 5).join(", ")}${run.changes.length > 5 ? " …" : ""}</summary>
    ${diff?.changes.map((/** @type {any} */ change) => html`<${Diff} key=${change.path} change=${change} />`)}</details>`;
}
