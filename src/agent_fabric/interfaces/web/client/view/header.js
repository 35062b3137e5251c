// The line above the conversation: where one is, which model answers, what waits for an answer, everything else.

import { html, useEffect } from "../vendor/htm-preact.js";
import { useStore } from "../model/store.js";
import { standingOf } from "../model/fold.js";
import { boxText, counted } from "../model/words.js";
import { IconButton, Later } from "./parts.js";

/** @param {import("./app.js").Props} props */
export function Header({ store, actions }) {
  useStore(store, (all) => {
    const session = all.sessions.get(all.current);
    return `${all.start?.name} ${all.current} ${session?.title} ${session?.model_key} ${session?.pack} ${session?.node} ${session?.turn} ${pendingIn(all)} ${JSON.stringify(modelStanding(all))}`;
  });
  const session = store.sessions.get(store.current);
  const pending = pendingIn(store);
  useEffect(() => {
    document.title = session?.title ? `${session.title} · agent-fabric` : "agent-fabric";
  }, [session?.title]);
  const start = store.start;
  if (start === null) return html`<header class="header"></header>`;
  const standing = modelStanding(store);
  const chosen = session?.model_key || start.default_model_key;
  /** @param {Event} event */
  const choose = (event) => {
    const key = /** @type {HTMLSelectElement} */ (event.target).value;
    if (session) actions.change(session.id, { model_key: key }).catch((error) => actions.tell(error));
    else localStorage.setItem("fabric.model_key", key);
  };
  const shield = pending ? `${counted(pending, "approval")} waiting` : `Nothing waits for an answer; ${boxText(start.sandbox)}`;
  return html`<header class="header">
    <${IconButton} icon="menu" label="Sessions" class="icon-button only-narrow" onClick=${() => store.set({ sidebar: !store.sidebar })} />
    <h1 class="title">${session?.title || "New chat"}</h1>
    <label class="model">
      <span class=${`dot ${standing.state}`} aria-hidden="true"></span>
      <span class="hidden">Model</span>
      <select data-test="model" value=${session ? chosen : (localStorage.getItem("fabric.model_key") ?? chosen)} onChange=${choose} title=${standing.title}>
        ${start.model_keys.map((key) => html`<option value=${key} key=${key}>${key}</option>`)}
      </select>
      ${standing.state === "queued" && html`<span class="model-state" data-test="model-state">${standing.ahead} ahead</span>`}
      ${standing.state === "blocked" && html`<span class="model-state warning" data-test="model-state" title=${standing.title}>blocked</span>`}
    </label>
    <${IconButton} icon="shield" label=${shield} data-test="shield" class=${`icon-button ${pending ? "alert" : ""}`} onClick=${() => actions.show("approvals")}>
      ${pending > 0 && html`<span class="badge">${pending}</span>`}
    <//>
    <${IconButton} icon="clock" label="Clock: schedules and triggers" data-test="clock" onClick=${() => actions.show("clock")} />
    <${IconButton} icon="panel" label="Runs, workflows, models and more" data-test="open-drawer" onClick=${() => actions.show(store.drawer ? "" : "runs")} />
    <${IconButton} icon="gear" label="Settings" onClick=${() => actions.show("settings")} />
    ${(session?.pack === "sysadmin" || session?.node) && html`<${Later} key=${session.id} load=${() => import("./node_choice.js")} name="NodeChoice" session=${session} store=${store} actions=${actions} />`}
  </header>`;
}

/** @param {import("../model/store.js").Store} store */
const pendingIn = (store) => [...store.approvals.values()].filter((card) => card.status === "pending").length;

/** @param {import("../model/store.js").Store} store */
function modelStanding(store) {
  const session = store.sessions.get(store.current);
  const run = session?.turn ?? store.conversations.get(store.current)?.messages.at(-1)?.metadata.run_id;
  return standingOf({ connected: store.connection === "open", run: run ? store.runs.get(run) : undefined });
}
