// The state of the page, in one place; whoever shows some of it is told once a frame when it has changed.

import { useEffect, useReducer, useRef } from "../vendor/htm-preact.js";
import { addDelta, evolve, newRun, showPartial } from "./fold.js";

/**
 * @typedef {import("./fold.js").RunView} RunView
 * @typedef {{id: string, title: string, has_unread: boolean, created_at: number, updated_at: number, turn?: string | null,
 *   queued?: number, model_key?: string, pack?: string, node?: string, owner?: string, visibility?: string,
 *   archived_at?: number | null, snippet?: string}} Session
 * @typedef {{id: string, role: string, content: string, metadata: Record<string, any>, created_at: number}} ChatMessage
 * @typedef {{messages: ChatMessage[], before: string | null, loading: boolean, loaded: boolean, problem: any}} Conversation
 * @typedef {{name: string, kind: string, scopes: string[], version: string, build: string, sandbox: string,
 *   policy_profile: string, default_model_key: string, model_keys: string[], packs: string[], features: Record<string, any>}} Start
 * @typedef {{key: string, session: string, content: string}} Unsent
 * @typedef {{text: string, send: boolean}} Early
 */

/** What the whole page knows. */
export class Store {
  constructor() {
    /** @type {Start | null} */
    this.start = null;
    /** @type {"connecting" | "open" | "offline" | "logged_out"} */
    this.connection = "connecting";
    /** @type {Map<string, Session>} */
    this.sessions = new Map();
    /** Counts changes of them, so that whoever shows all of them need not compare each. */
    this.sessionsVersion = 0;
    /** @type {"loading" | "ready" | "failed"} */
    this.sessionsState = "loading";
    /** @type {any} */
    this.sessionsProblem = null;
    /** When something was last said in the oldest session that is listed; null: all are. @type {number | null} */
    this.sessionsBefore = null;
    /** @type {Map<string, Conversation>} */
    this.conversations = new Map();
    /** @type {Map<string, RunView>} */
    this.runs = new Map();
    /** @type {Map<string, Record<string, any>>} */
    this.approvals = new Map();
    /** @type {Map<string, Unsent>} */
    this.unsent = new Map();
    /** The session that is shown; empty: a new one. */
    this.current = "";
    /** What was typed before the composer was there, until it takes it. @type {Early | null} */
    this.early = null;
    /** @type {{name: string, about: string} | null} */
    this.drawer = null;
    this.sidebar = false;
    /** What the polite region says. */
    this.announced = "";
    /** @type {{id: number, text: string, action?: string, act?: () => void} | null} */
    this.toast = null;
    this.outdated = false;
    this.version = 0;
    /** @type {Set<() => void>} */
    this.watchers = new Set();
    this.frame = 0;
  }

  /** Tell everybody that something has changed, once a frame. */
  changed() {
    this.version += 1;
    if (this.frame) return;
    const tell = () => {
      this.frame = 0;
      for (const watcher of [...this.watchers]) watcher();
    };
    // A page in the background gets no frames, but has to keep up.
    this.frame = document.hidden ? window.setTimeout(tell, 200) : requestAnimationFrame(tell);
  }

  /** @param {Partial<Store>} patch */
  set(patch) {
    Object.assign(this, patch);
    this.changed();
  }

  /** Keep what is known of a session; what is known already changes nothing. @param {Session} session */
  putSession(session) {
    const before = /** @type {Record<string, any> | undefined} */ (this.sessions.get(session.id));
    const now = /** @type {Record<string, any>} */ ({ ...before, ...session });
    if (before && Object.keys(now).every((key) => now[key] === before[key])) return;
    this.sessions.set(session.id, /** @type {Session} */ (now));
    this.sessionsVersion += 1;
    this.changed();
  }

  /** @param {string} id */
  dropSession(id) {
    if (!this.sessions.delete(id)) return;
    this.sessionsVersion += 1;
    this.changed();
  }

  /** @param {string} id @returns {RunView} */
  run(id) {
    let run = this.runs.get(id);
    if (run === undefined) {
      run = newRun(id);
      this.runs.set(id, run);
    }
    return run;
  }

  /** @param {string} id @returns {Conversation} */
  conversation(id) {
    let found = this.conversations.get(id);
    if (found === undefined) {
      found = { messages: [], before: null, loading: false, loaded: false, problem: null };
      this.conversations.set(id, found);
    }
    return found;
  }

  /** @param {import("./fold.js").LogEvent} event @returns {boolean} Whether it was new. */
  takeEvent(event) {
    const isNew = evolve(this.run(event.run_id), event);
    if (isNew) this.changed();
    return isNew;
  }

  /** @param {any} message @returns {boolean} Whether it fitted. */
  takeText(message) {
    const run = this.run(message.run_id);
    const fitted = message.type === "partial" ? (showPartial(run, message), true) : addDelta(run, message);
    this.changed();
    return fitted;
  }

  /** @param {string} scope @returns {boolean} Whether this person may do what needs a scope. */
  may(scope) {
    return this.start?.scopes.includes(scope) ?? false;
  }
}

/**
 * Draw again whenever the store has changed.
 *
 * @param {Store} store
 * @param {(store: Store) => unknown} [select] Only when this has changed.
 */
export function useStore(store, select = (all) => all.version) {
  const [, draw] = useReducer((/** @type {number} */ count) => count + 1, 0);
  const seen = useRef({ select, value: select(store) });
  seen.current = { select, value: select(store) };
  useEffect(() => {
    const look = () => {
      const { select: chosen, value } = seen.current;
      if (chosen(store) !== value) draw(undefined);
    };
    store.watchers.add(look);
    look();
    return () => {
      store.watchers.delete(look);
    };
  }, [store]);
  return store;
}
