// The fleet: machines and how they fare, plans, invitations; one machine, one plan, one policy at a time.

import { html, useState } from "../vendor/htm-preact.js";
import { get } from "../net/api.js";
import { labelsText } from "../model/machines.js";
import { agoText, counted, dateText } from "../model/words.js";
import { Empty, Later } from "../view/parts.js";
import { Dialog, Heading, useLive, useNow, useSome } from "./pieces.js";

const STEP = 50;
const ORDER = ["conflict", "pending", "offline", "online", "revoked"];
const STATUS = /** @type {Record<string, string>} */ ({ online: "ready", offline: "", pending: "waiting", conflict: "failed", revoked: "revoked" });

/** @param {import("../view/app.js").Props & {about: string}} props */
export function Fleet({ store, actions, about }) {
  const cut = about.indexOf("/");
  const [kind, item] = cut < 0 ? [about, ""] : [about.slice(0, cut), about.slice(cut + 1)];
  const props = { store, actions, item };
  if (kind === "node") return html`<${Later} key=${about} load=${() => import("./node.js")} name="OneNode" ...${props} />`;
  if (kind === "policy") return html`<${Later} key=${about} load=${() => import("./node_policy.js")} name="NodePolicy" ...${props} />`;
  if (kind === "plan") return html`<${Later} key=${about} load=${() => import("./plan.js")} name="OnePlan" ...${props} />`;
  return html`<${Machines} store=${store} actions=${actions} />
    <${Later} key="plans" load=${() => import("./plan.js")} name="Plans" ...${props} />
    ${store.may("admin") && html`<${Invites} store=${store} />`}`;
}

/** @param {any} props */
export function NodeStatus({ node }) {
  return html`<span class=${`status ${STATUS[node.status] ?? ""}`}>${node.status}</span>`;
}

/** @param {import("../view/app.js").Props} props */
function Machines({ store, actions }) {
  const { value, view } = useLive(() => get("/api/v1/nodes"), store);
  const [words, setWords] = useState("");
  const [inviting, setInviting] = useState(false);
  const now = useNow(5000);
  const all = [...(value?.nodes ?? [])].sort((one, other) => ORDER.indexOf(one.status) - ORDER.indexOf(other.status) || one.name.localeCompare(other.name));
  const wanted = words.toLowerCase();
  const found = wanted ? all.filter((node) => `${node.name} ${node.hostname} ${node.status} ${labelsText(node.labels)}`.toLowerCase().includes(wanted)) : all;
  const [shown, more] = useSome(found, STEP);
  const online = all.filter((node) => node.status === "online").length;
  return html`<${Heading} text="Machines">${all.length > 0 && html`<span class="quiet">${online} of ${counted(all.length, "machine")} online</span>`}
      ${store.may("admin") && html`<button type="button" data-test="invite" onClick=${() => setInviting(true)}>Invite…</button>`}<//>
    ${view}
    ${value && !all.length && html`<${Empty} text="No machine has joined." hint=${store.may("admin") ? "Invite one: you get one line to run there." : "An admin invites machines."} />`}
    ${all.length > STEP / 5 && html`<div class="form"><label>Find <input type="search" placeholder="name, status or label" value=${words} onInput=${(/** @type {any} */ event) => setWords(event.target.value)} /></label></div>`}
    <ul class="rows">${shown.map((node) => html`<li key=${node.id} data-test="node"><button type="button" class="row-button" onClick=${() => actions.show("fleet", `node/${node.name}`)}>
      <span class="row-title">${node.name}</span>
      <span class="row-facts"><${NodeStatus} node=${node} /><span>${seen(node, now)}</span><span>${labelsText(node.labels)}</span><span>${[node.platform, node.arch].filter(Boolean).join(" ")}</span></span>
      ${node.note && html`<span class="row-facts"><span>${node.status === "pending" ? `shows the code ${node.note}` : node.note}</span></span>`}</button></li>`)}</ul>
    ${more}
    ${inviting && html`<${Dialog} title="Invite machines" close=${() => setInviting(false)}><${Later} load=${() => import("./invite.js")} name="Invite" store=${store} actions=${actions} /><//>`}`;
}

/** @param {any} node @param {number} now */
export function seen(node, now) {
  if (node.status === "online") return "connected";
  return node.last_seen ? `last seen ${agoText(node.last_seen, now)}` : "never seen";
}

/** @param {any} props */
function Invites({ store }) {
  const { value, view } = useLive(() => get("/api/v1/nodes/invites"), store);
  if (view || !value.invites.length) return view;
  return html`<${Heading} text="Open invitations" /><ul class="rows">${value.invites.map((/** @type {any} */ each) => html`<li key=${each.id}><span class="row-title">${each.name || "any name"}</span>
    <span class="row-facts"><span>for ${counted(each.uses_left, "machine")}</span><span>until ${dateText(each.expires_at)}</span><span>by ${each.created_by}</span><span>${labelsText(each.labels)}</span>${each.confirm && html`<span>each is confirmed</span>`}</span></li>`)}</ul>`;
}
