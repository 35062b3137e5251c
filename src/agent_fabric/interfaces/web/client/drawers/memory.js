// Memory: what waits for a review, what is remembered, and the documents that are looked up.

import { html, useState } from "../vendor/htm-preact.js";
import { get } from "../net/api.js";
import { Empty, Later } from "../view/parts.js";
import { problemText } from "./pieces.js";

const PARTS = /** @type {[string, string][]} */ ([
  ["review", "Review"],
  ["facts", "Facts"],
  ["documents", "Documents"],
]);

/** @param {import("../view/app.js").Props & {about: string}} props */
export function Memory({ store, actions, about }) {
  const [kind, item = ""] = about.split("/");
  const props = { store, actions, item };
  if (kind === "fact") return html`<${Later} key=${about} load=${() => import("./fact.js")} name="OneFact" ...${props} />`;
  if (kind === "document") return html`<${Later} key=${about} load=${() => import("./documents.js")} name="OneDocument" ...${props} />`;
  const shown = kind || "review";
  return html`<${Search} actions=${actions} />
    <div class="tabs" role="group" aria-label="Parts of memory">${PARTS.map(([name, words]) => html`<button type="button" key=${name} aria-pressed=${name === shown} onClick=${() => actions.show("memory", name)}>${words}</button>`)}</div>
    ${shown === "review" && html`<${Later} key="review" load=${() => import("./review.js")} name="Review" ...${props} />`}
    ${shown === "facts" && html`<${Later} key="facts" load=${() => import("./fact.js")} name="Facts" ...${props} />`}
    ${shown === "documents" && html`<${Later} key="documents" load=${() => import("./documents.js")} name="Documents" ...${props} />`}`;
}

/** @param {any} props */
function Search({ actions }) {
  const [found, setFound] = useState(/** @type {any[] | null} */ (null));
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  /** @param {SubmitEvent} event */
  const search = async (event) => {
    event.preventDefault();
    const words = String(new FormData(/** @type {HTMLFormElement} */ (event.target)).get("q")).trim();
    setBusy(true);
    try {
      setFound(words ? (await get(`/api/v1/memory/search?q=${encodeURIComponent(words)}`)).found : null);
      setProblem("");
    } catch (error) {
      setProblem(problemText(error));
    }
    setBusy(false);
  };
  return html`<form class="form inline" role="search" onSubmit=${search}><label>Search memory <input type="search" name="q" placeholder="a question, or a few words" maxlength="2000" /></label><button type="submit" disabled=${busy}>Search</button></form>
    <div aria-live="polite" data-test="found">${problem && html`<p class="note warning">${problem}</p>`}
      ${found?.length === 0 && html`<${Empty} text="Memory has nothing about this." />`}
      ${found && found.length > 0 && html`<ul class="rows">${found.map((each, nth) => html`<li key=${nth}><blockquote class="passage">${each.passage}</blockquote>
        <span class="row-facts">${each.fact
          ? html`<button type="button" class="link-button" onClick=${() => actions.show("memory", `fact/${each.fact}`)}>fact</button><span>${each.source}</span>`
          : html`<button type="button" class="link-button" onClick=${() => actions.show("memory", `document/${each.document}`)}>${each.title}</button><span>${each.headings.join(" › ")}</span><span>${each.first === 0 && each.last === each.passages - 1 ? "whole" : `${each.last - each.first + 1} of ${each.passages} passages`}</span>`}</span></li>`)}</ul>`}</div>`;
}
