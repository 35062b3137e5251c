// Everything that waits for an answer, and what was answered lately.

import { html, useEffect } from "../vendor/htm-preact.js";
import { get } from "../net/api.js";
import { useStore } from "../model/store.js";
import { boxText } from "../model/words.js";
import { ApprovalCard } from "../view/approval.js";
import { Empty, useLoaded } from "../view/parts.js";

/** @param {import("../view/app.js").Props} props */
export function Approvals({ store, actions }) {
  useStore(store, (all) => [...all.approvals.values()].map((card) => card.id + card.status).join());
  const { value, view } = useLoaded(() => get("/approvals?settled=true"), []);
  useEffect(() => {
    for (const card of value?.approvals ?? []) if (!store.approvals.has(card.id)) store.approvals.set(card.id, card);
    if (value) store.changed();
  }, [value]);
  const cards = [...store.approvals.values()];
  const pending = cards.filter((card) => card.status === "pending");
  const settled = cards.filter((card) => card.status !== "pending").sort((one, other) => other.created_at - one.created_at).slice(0, 50);
  return html`<p class="quiet">Commands run in ${boxText(store.start?.sandbox ?? "")}; the policy profile is “${store.start?.policy_profile}”. <button type="button" class="quiet-button" onClick=${() => actions.show("policy")}>Check a command</button></p>
    ${view}
    <h3>Waiting</h3>
    ${!pending.length && html`<${Empty} text="Nothing waits for an answer." />`}
    ${pending.map((card) => html`<${ApprovalCard} key=${card.id} id=${card.id} asked=${card} decision="" by="" reason="" store=${store} actions=${actions} />`)}
    ${settled.length > 0 && html`<h3>Answered</h3>`}
    ${settled.map((card) => html`<${ApprovalCard} key=${card.id} id=${card.id} asked=${card} decision="" by="" reason="" store=${store} actions=${actions} />`)}`;
}
