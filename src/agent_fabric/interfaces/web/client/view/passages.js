// What an answer could rest on: the passages and facts that its turn has looked up in memory, beside the answer.

import { html, useEffect, useState } from "../vendor/htm-preact.js";
import { citedFacts, toldFromMemory } from "../model/memory.js";
import { counted } from "../model/words.js";

/** @param {any} props `items` are the calls of `memory_search` of the turn, `answer` is the text. */
export function Passages({ items, answer, run, actions }) {
  const [whole, setWhole] = useState(/** @type {Record<number, any>} */ ({}));
  const cut = [...items.filter((/** @type {any} */ item) => item.cut).map((/** @type {any} */ item) => item.resultSeq), ...(run.knowledge?.cut && run.knowledge.passages?.length ? [run.knowledge.seq] : [])];
  useEffect(() => {
    // The log shows long texts cut; the whole of them is one request away.
    for (const seq of cut)
      actions.wholeEvent(run.id, seq).then(
        (/** @type {any} */ event) => setWhole((before) => ({ ...before, [seq]: event?.payload?.knowledge ?? read(event?.payload?.whole || event?.payload?.result) })),
        () => undefined, // what the log shows stays
      );
  }, [cut.length]);
  const before = run.knowledge ? [whole[run.knowledge.seq] ?? run.knowledge] : [];
  const { passages, facts } = toldFromMemory([...before, ...items.map((/** @type {any} */ item) => whole[item.resultSeq] ?? read(item.result))]);
  const cited = citedFacts(answer);
  if (!passages.length && !facts.length) return null;
  return html`<details class="passages" data-test="passages"><summary>From memory: ${[passages.length && counted(passages.length, "passage"), facts.length && counted(facts.length, "fact")].filter(Boolean).join(", ")}</summary>
    <ul class="rows">${passages.map((each, nth) => html`<li key=${nth}><blockquote class="passage">${each.text}</blockquote>
        <span class="row-facts"><button type="button" class="link-button" onClick=${() => actions.show("memory", `document/${each.document}`)}>${each.title || "document"}</button><span>${each.headings.join(" › ")}</span><span>${each.shown}</span></span></li>`)}
      ${facts.map((each) => html`<li key=${each.id}><blockquote class="passage">${each.text}</blockquote>
        <span class="row-facts"><button type="button" class="link-button" onClick=${() => actions.show("memory", `fact/${each.id}`)}>fact</button><span>${each.saidBy}</span>${cited.has(each.id) && html`<span class="status ready">cited</span>`}</span></li>`)}</ul></details>`;
}

/** @param {any} result */
function read(result) {
  if (typeof result !== "string") return result;
  try {
    return JSON.parse(result);
  } catch {
    return null; // cut somewhere
  }
}
