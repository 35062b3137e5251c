// Sessions: the newest first, searched as one types, each with its dot and its bin.

import { html, useEffect, useState } from "../vendor/htm-preact.js";
import { get } from "../net/api.js";
import { useStore } from "../model/store.js";
import { agoText } from "../model/words.js";
import { Empty, Icon, IconButton, Loading, Trouble } from "./parts.js";

const SEARCH_PAUSE_MS = 150;

/** @param {import("./app.js").Props} props */
export function Sidebar({ store, actions }) {
  useStore(store, (all) => `${all.sidebar} ${all.current} ${all.sessionsState} ${all.sessionsVersion}`);
  const [words, setWords] = useState("");
  const [found, setFound] = useState(/** @type {any[] | null} */ (null));
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const [, setMinute] = useState(0);
  useEffect(() => {
    const timer = window.setInterval(() => setMinute((minute) => minute + 1), 60_000); // "just now" does not stay true
    return () => clearInterval(timer);
  }, []);
  useEffect(() => {
    if (!words.trim()) {
      setFound(null);
      setProblem(null);
      return undefined;
    }
    const stopped = new AbortController();
    const timer = window.setTimeout(() => {
      get(`/api/v1/sessions/search?q=${encodeURIComponent(words)}`, stopped.signal).then(
        (told) => (setFound(foundSessions(told.found)), setProblem(null)),
        (error) => error.name === "AbortError" || setProblem(error),
      );
    }, SEARCH_PAUSE_MS);
    return () => {
      clearTimeout(timer);
      stopped.abort();
    };
  }, [words]);
  const shown = found ?? [...store.sessions.values()].sort((one, other) => (other.updated_at ?? other.created_at) - (one.updated_at ?? one.created_at));
  return html`<nav class=${`sidebar ${store.sidebar ? "open" : ""}`} aria-label="Sessions">
    <div class="sidebar-head">
      <button type="button" class="new" onClick=${() => actions.open("").then(() => document.getElementById("composer")?.focus())}><${Icon} name="plus" /> New chat</button>
      <${IconButton} icon="close" label="Close sessions" class="icon-button only-narrow" onClick=${() => store.set({ sidebar: false })} />
    </div>
    <label class="search"><${Icon} name="search" /><span class="hidden">Search sessions</span>
      <input id="search" type="search" placeholder="Search" value=${words} onInput=${(/** @type {any} */ event) => setWords(event.target.value)} /></label>
    ${problem && html`<${Trouble} problem=${problem} />`}
    ${!found && store.sessionsState === "loading" && html`<${Loading} />`}
    ${!found && store.sessionsState === "failed" && html`<${Trouble} problem=${store.sessionsProblem} retry=${() => actions.loadSessions()} />`}
    ${found?.length === 0 && html`<${Empty} text="Nothing was found." />`}
    ${!found && store.sessionsState === "ready" && !shown.length && html`<${Empty} text="No chats yet." hint="Ask something: it appears here." />`}
    <ul class="sessions">
      ${shown.map((session) => html`<${Entry} key=${session.id} session=${session} store=${store} actions=${actions} />`)}
    </ul>
    ${!found && store.sessionsBefore !== null && html`<button type="button" class="quiet-button" onClick=${() => actions.loadSessions(true)}>Older chats</button>`}
  </nav>`;
}

/**
 * The sessions of what was found, each once, with the words of its newest message.
 *
 * @param {{session: any, message: any}[]} found
 */
export function foundSessions(found) {
  const sessions = new Map();
  for (const { session, message } of found)
    if (!sessions.has(session.id)) sessions.set(session.id, { ...session, snippet: message?.content.slice(0, 160) ?? "" });
  return [...sessions.values()];
}

/** @param {import("./app.js").Props & {session: import("../model/store.js").Session}} props */
function Entry({ session, store, actions }) {
  const current = session.id === store.current;
  /** @param {Event} event */
  const open = (event) => {
    event.preventDefault();
    actions.open(session.id);
  };
  return html`<li class=${`session ${current ? "current" : ""}`} data-test="session" data-id=${session.id}>
    <a href=${`/s/${encodeURIComponent(session.id)}`} onClick=${open} aria-current=${current ? "page" : undefined}>
      ${session.has_unread && !current && html`<span class="unread" data-test="unread"><span class="hidden">Unread: </span></span>`}
      ${session.turn && html`<span class="spinner small" title="Answering"></span>`}
      <span class="session-title">${session.title || "New chat"}</span>
      ${session.snippet && html`<span class="snippet">${session.snippet}</span>`}
      <span class="when">${agoText(session.updated_at ?? session.created_at, Date.now() / 1000)}</span>
    </a>
    <${IconButton} icon="trash" label=${`Delete ${session.title || "New chat"}`} class="icon-button delete" onClick=${() => actions.remove(session.id)} />
  </li>`;
}
