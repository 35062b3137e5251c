// Documents: drop a file, see how far it has been read, read it, erase it.

import { html, useState } from "../vendor/htm-preact.js";
import { get, post, request } from "../net/api.js";
import { documentColour } from "../model/memory.js";
import { agoText, counted, dateText, sizeText } from "../model/words.js";
import { Empty, Output } from "../view/parts.js";
import { Left } from "./fact.js";
import { Act, Back, Heading, owns, problemText, useLive, useSome } from "./pieces.js";

const PATH = "/api/v1/documents";

/** @param {import("../view/app.js").Props} props */
export function Documents({ store, actions }) {
  const { value, view, again } = useLive(() => get(PATH), store);
  const [shown, more] = useSome(value?.documents ?? [], 30);
  return html`<${Heading} text="Documents" />
    ${store.may("runs") && html`<${Drop} again=${again} />`}
    ${view}
    ${value && !value.documents.length && html`<${Empty} text="No documents." hint="Add your handbook, and ask about it: answers show the sentence that they rest on." />`}
    <ul class="rows">${shown.map((each) => html`<li key=${each.id} data-test="document"><button type="button" class="row-button" onClick=${() => actions.show("memory", `document/${each.id}`)}><span class="row-title">${each.title}</span>
      <span class="row-facts"><span class=${`status ${documentColour(each)}`}>${each.standing}</span><span>${counted(each.passages, "passage")}</span><span>${sizeText(each.size)}</span><span>${each.labels.join(", ")}</span>${each.visibility !== "private" && html`<span>shared with the team</span>`}<span>${agoText(each.updated_at, Date.now() / 1000)}</span></span>
      ${each.notes.length > 0 && html`<span class="row-facts"><span class="status waiting">${each.notes.join("; ")}</span></span>`}</button></li>`)}</ul>${more}`;
}

/** @param {File} file @returns {Promise<string>} Its bytes in Base64. */
function base64Of(file) {
  return new Promise((done, fail) => {
    const reader = new FileReader();
    reader.onload = () => done(String(reader.result).split(",", 2)[1] ?? "");
    reader.onerror = () => fail(reader.error);
    reader.readAsDataURL(file);
  });
}

/** @param {any} props */
function Drop({ again }) {
  const [over, setOver] = useState(false);
  const [team, setTeam] = useState(false);
  const [labels, setLabels] = useState("");
  const [sent, setSent] = useState(/** @type {Record<string, {state: string, problem: string}>} */ ({}));
  /** @param {FileList | null | undefined} files */
  const take = async (files) => {
    for (const file of files ?? []) {
      const say = (/** @type {string} */ state, problem = "") => setSent((before) => ({ ...before, [file.name]: { state, problem } }));
      say("being read…");
      try {
        const made = await post(PATH, { source: file.name, content: await base64Of(file), ...(file.type ? { media_type: file.type } : {}), labels: labels.split(/[\s,]+/).filter(Boolean), visibility: team ? "team" : "private" });
        say(made.standing, [made.problem, ...(made.notes ?? [])].filter(Boolean).join("; "));
      } catch (error) {
        say("not added", problemText(error));
      }
      again();
    }
  };
  return html`<div class=${`drop ${over ? "over" : ""}`} data-test="drop" onDragOver=${(/** @type {DragEvent} */ event) => (event.preventDefault(), setOver(true))} onDragLeave=${() => setOver(false)}
      onDrop=${(/** @type {DragEvent} */ event) => (event.preventDefault(), setOver(false), take(event.dataTransfer?.files))}>
      <label>Drop files here, or choose them <input type="file" multiple onChange=${(/** @type {any} */ event) => take(event.target.files).then(() => (event.target.value = ""))} /></label>
      <div class="pair"><label>Labels <input value=${labels} placeholder="team, handbook" onInput=${(/** @type {any} */ event) => setLabels(event.target.value)} /></label>
      <label class="check"><input type="checkbox" checked=${team} onChange=${() => setTeam(!team)} /> Share with the team</label></div>
    </div>
    <ul class="rows" aria-live="polite" data-test="sent">${Object.entries(sent).map(([name, told]) => html`<li key=${name}><span class="row-title">${name}: ${told.state}</span>${told.problem && html`<p class="note warning">${told.problem}</p>`}</li>`)}</ul>`;
}

/** @param {import("../view/app.js").Props & {item: string}} props */
export function OneDocument({ store, actions, item }) {
  const path = `${PATH}/${encodeURIComponent(item)}`;
  const [gone, setGone] = useState(/** @type {any} */ (null));
  const { value, view } = useLive(() => get(path), store, 10_000);
  const back = html`<${Back} to="memory" about="documents" words="All documents" actions=${actions} />`;
  if (gone) return html`${back}<${Left} gone=${gone} actions=${actions} />`;
  if (view) return html`${back}${view}`;
  return html`${back}
    <h3>${value.title}</h3>
    <p class="row-facts"><span class=${`status ${documentColour(value)}`}>${value.standing}</span><span>${counted(value.passages, "passage")}</span><span>${sizeText(value.size)}</span><span>${value.media_type}</span><span>of ${value.owner}</span></p>
    <p class="quiet">From ${value.source}, ${dateText(value.updated_at)}</p>
    ${[value.problem, ...value.notes].filter(Boolean).map((/** @type {string} */ each, /** @type {number} */ nth) => html`<p class="note warning" key=${nth}>${each}</p>`)}
    ${store.may("runs") && owns(store, value.owner) && html`<div class="buttons"><${Act} label="Erase" danger=${true} sure="Erase its text, words and vectors?" actions=${actions} act=${() => request("DELETE", path)} after=${setGone} />
      <${Act} label="Erase with runs" danger=${true} sure="Erase it, and delete your runs whose logs hold passages of it? This cannot be taken back." actions=${actions} act=${() => request("DELETE", `${path}?runs=true`)} after=${setGone} /></div>`}
    <h3>What stands in it</h3>
    <${Output} text=${value.text ?? ""} />`;
}
