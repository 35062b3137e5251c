// One machine: how it fares, what is done on it, what waits for it, and who may what there.

import { html, useState } from "../vendor/htm-preact.js";
import { get, post, request } from "../net/api.js";
import { labelChanges, labelsFrom, labelsText } from "../model/machines.js";
import { dateText, sizeText } from "../model/words.js";
import { Later } from "../view/parts.js";
import { NodeStatus, seen } from "./fleet.js";
import { Act, Back, Dialog, problemText, useFirstField, useLive, useNow } from "./pieces.js";

/** @param {import("../view/app.js").Props & {item: string}} props */
export function OneNode({ store, actions, item }) {
  const path = `/api/v1/nodes/${encodeURIComponent(item)}`;
  const { value, view, again } = useLive(() => get(path), store);
  const now = useNow(5000);
  const [editing, setEditing] = useState(false);
  const back = html`<${Back} to="fleet" words="All machines" actions=${actions} />`;
  if (view) return html`${back}${view}`;
  const admin = store.may("admin");
  const usable = value.status === "online" || value.status === "offline";
  const sysadmin = store.may("runs") && store.start?.packs.includes("sysadmin");
  return html`${back}
    <h3>${value.name}</h3>
    <p class="row-facts"><${NodeStatus} node=${value} /><span>${seen(value, now)}</span><span>${labelsText(value.labels)}</span></p>
    <${Trouble} node=${value} path=${path} admin=${admin} actions=${actions} again=${again} />
    <div class="buttons">
      ${sysadmin && html`<${Act} label="Ask the sysadmin" actions=${actions} act=${() => actions.talkAbout(value.name)} />`}
      <button type="button" onClick=${() => actions.show("fleet", `policy/${value.name}`)}>What may happen there</button>
      ${store.may("nodes") && html`<button type="button" onClick=${() => setEditing(true)}>Name and labels…</button>`}
    </div>
    ${store.may("nodes") && usable && html`<${Later} key="run" load=${() => import("./node_commands.js")} name="RunCommand" store=${store} actions=${actions} node=${value} path=${path} />`}
    ${store.may("nodes") && value.status === "online" && value.supported_tools?.includes("shell") && html`<${Later} key="shell" load=${() => import("./node_shell.js")} name="Shell" store=${store} actions=${actions} path=${path} />`}
    ${store.may("nodes") && value.status === "online" && value.supported_tools?.includes("file_get") && html`<${Later} key="files" load=${() => import("./node_files.js")} name="Files" store=${store} actions=${actions} path=${path} />`}
    <${Later} key="commands" load=${() => import("./node_commands.js")} name="Commands" store=${store} actions=${actions} path=${path} />
    <h3>About it</h3>
    <${About} node=${value} />
    ${admin && value.status !== "revoked" && html`<h3>Trust</h3><div class="buttons">
      <${Act} label="Compare records" actions=${actions} act=${() => get(`${path}/audit`)} after=${(/** @type {any} */ told) => actions.say(auditText(told))} />
      <${Act} label="New key" sure="Give it a new key?" actions=${actions} act=${() => post(`${path}/rotate`)} after=${again} />
      <${Act} label="Revoke" danger=${true} sure="Revoke it for ever? Its queue is cancelled." actions=${actions} act=${() => request("DELETE", path)} after=${() => actions.show("fleet")} /></div>`}
    ${editing && html`<${Dialog} title=${`Name and labels of ${value.name}`} close=${() => setEditing(false)}><${Edit} node=${value} path=${path} done=${(/** @type {any} */ changed) => (setEditing(false), changed.name === value.name ? again() : actions.show("fleet", `node/${changed.name}`))} /><//>`}`;
}

/** @param {any} told */
function auditText(told) {
  const odd = Object.entries(told).filter(([, each]) => Array.isArray(each) && each.length).map(([name, each]) => `${name.replaceAll("_", " ")}: ${/** @type {any[]} */ (each).length}`);
  return odd.length ? `The records differ. ${odd.join(", ")}` : "Both records say the same.";
}

/** A machine that nothing is sent to before a person has decided. @param {any} props */
function Trouble({ node, path, admin, actions, again }) {
  if (node.status !== "pending" && node.status !== "conflict") return null;
  const pending = node.status === "pending";
  return html`<div class="note warning"><p>${pending ? html`It waits to be confirmed. Compare the code that it shows: <strong>${node.note}</strong>` : `Two machines show this identity: ${node.note}. Nothing is sent to either.`}</p>
    ${admin
      ? html`<div class="buttons"><${Act} label=${pending ? "The code is the same" : "Keep it"} sure=${pending ? "Let it in?" : "Let the next one of them connect?"} actions=${actions} act=${() => post(`${path}/resolve`, { keep: true })} after=${again} />
          <${Act} label=${pending ? "Refuse it" : "Revoke both"} danger=${true} sure="It has to join again. Sure?" actions=${actions} act=${() => post(`${path}/resolve`, { keep: false })} after=${() => actions.show("fleet")} /></div>`
      : html`<p>An admin decides.</p>`}</div>`;
}

/** @param {any} props */
function About({ node }) {
  const { reported = {} } = node;
  const facts = /** @type {[string, any][]} */ ([
    ["Host", node.hostname],
    ["System", [node.platform, node.arch].filter(Boolean).join(" ")],
    ["Memory", node.memory_total ? sizeText(node.memory_total) : ""],
    ["Commands run as", reported.uid === undefined ? "" : reported.uid === 0 ? "root" : `user ${reported.uid}`],
    ["Approvals", reported.approvals === "signed" ? "only signed ones count there" : reported.approvals ? "by the hub" : ""],
    ["Version", reported.version],
    ["Tools", (node.supported_tools ?? []).join(", ")],
    ["Tool servers", (reported.mcp_servers ?? []).map((/** @type {any} */ each) => each?.name ?? each).join(", ")],
    ["Can also", ["file_transfer", "pty_support"].filter((name) => reported[name] === true).map((name) => name.replaceAll("_", " ")).join(", ")],
    ["Joined", dateText(node.created_at)],
    ["Connected", `${node.generation} times`],
    ["Id", node.id],
  ]);
  return html`<dl class="facts">${facts.filter(([, each]) => each).map(([name, each]) => html`<div key=${name}><dt>${name}</dt><dd>${each}</dd></div>`)}</dl>`;
}

/** @param {any} props */
function Edit({ node, path, done }) {
  const place = useFirstField();
  const [problem, setProblem] = useState("");
  /** @param {SubmitEvent} event */
  const save = async (event) => {
    event.preventDefault();
    const form = new FormData(/** @type {HTMLFormElement} */ (event.target));
    try {
      const name = String(form.get("name")).trim();
      const labels = labelChanges(node.labels ?? {}, labelsFrom(String(form.get("labels"))));
      done(await request("PATCH", path, { body: { ...(name === node.name ? {} : { name }), ...(Object.keys(labels).length ? { labels } : {}) } }));
    } catch (error) {
      setProblem(problemText(error));
    }
  };
  return html`<form class="form" ref=${place} onSubmit=${save}>
    <label>Name <input name="name" required defaultValue=${node.name} autocomplete="off" /></label>
    <label>Labels <textarea name="labels" rows="3" defaultValue=${labelsText(node.labels)} placeholder="role=web, env=prod"></textarea><span class="quiet">They select machines for plans.</span></label>
    ${problem && html`<p class="note warning" role="alert">${problem}</p>`}
    <div class="buttons"><button type="submit" class="primary">Save</button></div>
  </form>`;
}
