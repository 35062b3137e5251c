// Dead letters: what could not be carried out, kept until a person decides.

import { html, useState } from "../vendor/htm-preact.js";
import { get, post, request } from "../net/api.js";
import { dateText } from "../model/words.js";
import { Empty, Output } from "../view/parts.js";
import { Act, Heading, useLive, useSome } from "./pieces.js";

const PATH = "/api/v1/dead-letters";
const STEP = 20;

/** @param {import("../view/app.js").Props} props */
export function Letters({ store, actions }) {
  const [all, setAll] = useState(false);
  return html`<${Heading} text="Dead letters"><label class="check"><input type="checkbox" checked=${all} onChange=${() => setAll(!all)} /> also settled</label><//>
    <${List} key=${String(all)} all=${all} store=${store} actions=${actions} />`;
}

/** @param {any} props */
function List({ all, store, actions }) {
  const { value, view, again } = useLive(() => get(`${PATH}?all=${all}&limit=500`), store);
  const [shown, more] = useSome(value?.dead_letters ?? [], STEP);
  return html`${view}
    ${value && !value.dead_letters.length && html`<${Empty} text="Nothing was left undone." hint="What could not be started or delivered waits here." />`}
    <ul class="rows">${shown.map((each) => html`<${Letter} key=${each.id} letter=${each} actions=${actions} again=${again} />`)}</ul>${more}`;
}

/** @param {any} props */
function Letter({ letter, actions, again }) {
  const [whole, setWhole] = useState(/** @type {any} */ (null));
  const path = `${PATH}/${letter.id}`;
  const show = () => (whole ? setWhole(null) : get(path).then(setWhole, (error) => actions.tell(error)));
  return html`<li data-test="letter"><span class="row-title">${letter.source}</span>
    <span class="row-facts"><span class=${`status ${letter.status === "dead" ? "failed" : ""}`}>${letter.status}</span><span>${letter.kind.replaceAll("_", " ")}</span><span>${dateText(letter.created_at)}</span>${letter.settled_by && html`<span>by ${letter.settled_by}</span>`}${letter.outcome && html`<span>${letter.outcome}</span>`}</span>
    <p>${letter.reason}</p>
    <div class="buttons small"><button type="button" aria-expanded=${Boolean(whole)} onClick=${show}>${whole ? "Hide" : "Show"}</button>
      ${letter.status === "dead" && html`<${Act} label="Retry" title="Under the id that it had: it happens once" actions=${actions} act=${() => post(`${path}/replay`, { again: false })} after=${(/** @type {any} */ told) => (actions.say(`Carried out${told.outcome ? `: ${told.outcome}` : ""}.`), again())} />
        <${Act} label="Drop" danger=${true} sure="Never carry it out?" actions=${actions} act=${() => request("DELETE", path)} after=${again} />`}
      ${letter.status === "replayed" && html`<${Act} label="Once more" sure="Carry it out again, as something new?" actions=${actions} act=${() => post(`${path}/replay`, { again: true })} after=${again} />`}</div>
    ${whole && html`<${Output} text=${JSON.stringify(whole.payload, null, 2)} />`}</li>`;
}
