// Runs: the list, and one of them with its timeline, its files and what it changed.

import { html, useEffect, useState } from "../vendor/htm-preact.js";
import { get } from "../net/api.js";
import { agoText } from "../model/words.js";
import { Empty, Later, useLoaded } from "../view/parts.js";

/** @param {import("../view/app.js").Props & {about: string}} props */
export function Runs({ store, actions, about }) {
  const [run, seq] = about.split("#");
  if (run)
    return html`<button type="button" class="quiet-button" onClick=${() => actions.show("runs")}>All runs</button>
      <${Later} key=${run} load=${() => import("./run.js")} name="Run" store=${store} actions=${actions} run=${run} seq=${seq ? Number(seq) : -1} asked=${store.drawer} />`;
  return html`<${List} store=${store} actions=${actions} />`;
}

/** @param {import("../view/app.js").Props} props */
function List({ actions }) {
  const [words, setWords] = useState("");
  const [pages, setPages] = useState(/** @type {any[]} */ ([]));
  const query = words.trim() ? `&q=${encodeURIComponent(words.trim())}` : "";
  const { value, view, again } = useLoaded(() => get(`/runs?limit=30${query}`), [words]);
  useEffect(() => setPages([]), [value]);
  const last = pages.at(-1) ?? value;
  const runs = [...(value?.runs ?? []), ...pages.flatMap((page) => page.runs)];
  const more = () => get(last.next).then((page) => setPages([...pages, page]), (error) => actions.tell(error));
  return html`<div class="form"><label>Search <input type="search" value=${words} onChange=${(/** @type {any} */ event) => setWords(event.target.value)} /></label></div>
    ${view}
    ${value && !runs.length && html`<${Empty} text="No runs." hint="Every task and every turn of a chat is a run." />`}
    <ul class="rows">${runs.map((run) => html`<li key=${run.run_id}><button type="button" class="row-button" onClick=${() => actions.show("runs", run.run_id)}>
      <span class="row-title">${run.prompt.slice(0, 140) || "(no words)"}</span>
      <span class="row-facts"><span class=${`status ${run.outcome === "refused" ? "failed" : run.status}`}>${["refused", "incomplete"].includes(run.outcome) ? run.outcome : run.status}</span><span>${run.specialist_ids.join(", ")}</span><span>${agoText(run.created_at, Date.now() / 1000)}</span><span>${run.owner}</span></span>
    </button></li>`)}</ul>
    ${last?.next && html`<button type="button" class="quiet-button" onClick=${more}>Older runs</button>`}
    <button type="button" class="quiet-button" onClick=${again}>Refresh</button>`;
}
