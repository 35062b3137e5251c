// What a person can do on the page. Each verb talks to the server, and puts what came of it into the store.

import { get, keepPageToken, newKey, pageToken, Problem, request } from "../net/api.js";
import { PageSocket } from "../net/socket.js";
import { SETTLED } from "./fold.js";

const PAGE = 50;
const SESSIONS = 100;
const UNDO_MS = 10_000;
const UNSENT_KEY = "fabric.unsent";

/** The verbs. There is one for the whole page. */
export class Actions {
  /** @param {import("./store.js").Store} store */
  constructor(store) {
    this.store = store;
    this.toasts = 0;
    this.wasOpen = false;
    /** @type {Map<string, number>} Sessions that go when their time is over. */
    this.leaving = new Map();
    this.socket = new PageSocket({
      onMessage: (message) => this.#hear(message),
      onState: (state) => this.#connection(state),
      after: (run) => store.runs.get(run)?.lastSeq ?? -1,
    });
  }

  /** Take up what the address and this browser hold, before anything is shown: what is typed at once belongs to this session. */
  prepare() {
    const [, kind, id] = location.pathname.split("/");
    if (kind === "s" && id) this.store.current = decodeURIComponent(id);
    this.#readUnsent();
  }

  /**
   * Log in with what the address or the browser holds.
   *
   * @returns {Promise<boolean>} Whether somebody is logged in now.
   */
  async begin() {
    const code = /^#login=([\w-]{8,128})$/.exec(location.hash)?.[1];
    if (code) {
      history.replaceState(null, "", location.pathname + location.search);
      try {
        await this.logIn({ code });
      } catch (error) {
        if (!pageToken()) throw error;
      }
    }
    if (!pageToken()) return false;
    this.socket.open();
    const shown = Promise.all([this.loadSessions(), this.#openAddress()]); // all at once: each round trip counts
    try {
      this.store.set({ start: await get("/api/v1/web/start") });
    } catch (error) {
      this.socket.close();
      await shown; // they were refused, too
      if (!(error instanceof Problem) || error.status !== 401) throw error;
      keepPageToken("");
      return false;
    }
    await shown;
    return true;
  }


  /** @param {{code?: string, username?: string, password?: string}} shown */
  async logIn(shown) {
    const opened = await request("POST", "/api/v1/web/session", { body: shown });
    keepPageToken(opened.page_token);
  }

  async logOut() {
    this.socket.close();
    try {
      await request("POST", "/api/v1/web/logout");
    } finally {
      keepPageToken("");
      this.store.set({ start: null, connection: "logged_out" });
    }
  }

  async loadSessions(more = false) {
    const { store } = this;
    try {
      const before = more && store.sessionsBefore !== null ? `&before=${store.sessionsBefore}` : "";
      const told = await get(`/api/v1/sessions?limit=${SESSIONS}${before}`);
      for (const session of told.sessions) this.takeSession(session);
      const oldest = told.sessions.length === SESSIONS ? told.sessions.at(-1).updated_at : null;
      store.set({ sessionsState: "ready", sessionsBefore: oldest, sessionsProblem: null });
    } catch (error) {
      store.set({ sessionsState: store.sessions.size ? "ready" : "failed", sessionsProblem: error });
    }
  }

  /** @param {import("./store.js").Session} session */
  takeSession(session) {
    if (this.leaving.has(session.id)) return;
    if (session.archived_at) this.store.dropSession(session.id);
    else this.store.putSession(session);
  }

  /** Show a session; empty: a new one. @param {string} id @param {boolean} [keepAddress] */
  async open(id, keepAddress = false) {
    const { store } = this;
    if (!keepAddress && store.current !== id) history.pushState(null, "", id ? `/s/${encodeURIComponent(id)}` : "/");
    store.set({ current: id, sidebar: false });
    this.socket.watch(id);
    if (!id) return;
    await this.loadMessages(id);
    this.markRead(id);
  }

  /** @param {string} id */
  async loadMessages(id, older = false) {
    const { store } = this;
    const talk = store.conversation(id);
    if (talk.loading) return;
    talk.loading = true;
    store.changed();
    try {
      const before = older && talk.before ? `&before=${encodeURIComponent(talk.before)}` : "";
      const told = await get(`/api/v1/sessions/${encodeURIComponent(id)}/messages?limit=${PAGE}${before}`);
      const known = new Set(told.messages.map((/** @type {any} */ each) => each.id));
      const first = told.messages[0]?.created_at ?? 0;
      const kept = talk.messages.filter((each) => !known.has(each.id) && (older || each.created_at < first));
      talk.messages = older ? [...told.messages, ...kept] : [...kept, ...told.messages];
      if (older || !talk.loaded) talk.before = told.has_older ? told.messages[0].id : null;
      if (told.session) this.takeSession(told.session);
      talk.loaded = true;
      talk.problem = null;
      if (!older) this.#followTurns(id, told.messages);
    } catch (error) {
      talk.problem = error;
    }
    talk.loading = false;
    store.changed();
  }

  /** Load the log of a turn that is not shown yet. @param {string} run */
  async loadRun(run) {
    const { store } = this;
    let path = `/runs/${run}/events?after=${store.runs.get(run)?.lastSeq ?? -1}&limit=500`;
    while (path) {
      const told = await get(path);
      for (const event of told.events) store.takeEvent(event);
      path = told.next ?? "";
    }
  }

  /** Fetch an event whose text was cut. @param {string} run @param {number} seq @returns {Promise<any>} */
  async wholeEvent(run, seq) {
    const told = await get(`/runs/${run}/events?after=${seq - 1}&limit=1&full=true`);
    return told.events[0];
  }

  /**
   * Send a message. It is kept in this browser until the server has it, and never sent twice.
   *
   * @param {string} content
   * @param {{session?: string, key?: string, options?: Record<string, any>}} [more]
   */
  async send(content, more = {}) {
    const { store } = this;
    const key = more.key ?? newKey();
    let session = more.session ?? store.current;
    if (!session) {
      const made = await request("POST", "/api/v1/sessions", { body: more.options ?? {}, key: `${key}-session` });
      session = made.id;
      this.takeSession({ has_unread: false, created_at: Date.now() / 1000, updated_at: Date.now() / 1000, title: "", ...made });
      history.replaceState(null, "", `/s/${encodeURIComponent(session)}`);
      store.conversation(session).loaded = true;
      store.set({ current: session });
      this.socket.watch(session);
    }
    store.unsent.set(key, { key, session, content });
    this.#keepUnsent();
    store.changed();
    await this.#deliver({ key, session, content });
  }

  /** Begin a chat with the sysadmin about a machine. @param {string} node */
  async talkAbout(node) {
    const made = await request("POST", "/api/v1/sessions", { body: { pack: "sysadmin", node } });
    this.takeSession({ has_unread: false, created_at: Date.now() / 1000, updated_at: Date.now() / 1000, title: "", ...made });
    this.show("");
    await this.open(made.id);
    document.getElementById("composer")?.focus();
  }

  /** @param {import("./store.js").Unsent} unsent */
  async #deliver({ key, session, content }) {
    try {
      const told = await request("POST", `/api/v1/sessions/${encodeURIComponent(session)}/messages`, { body: { content }, key });
      this.#settle(key);
      this.#addQuestion(session, content, told);
    } catch (error) {
      if (error instanceof Problem && error.offline) return; // sent again when the server is back
      this.#settle(key);
      throw error;
    }
  }

  /** @param {string} session @param {string} content @param {any} told */
  #addQuestion(session, content, told) {
    const talk = this.store.conversation(session);
    const id = told.message_id ?? `${told.run_id}-1`;
    const metadata = { run_id: told.run_id, ...(told.queued ? { status: "queued" } : {}) };
    const place = talk.messages.findIndex((each) => each.id === id);
    if (place < 0) talk.messages.push({ id, role: "user", content, metadata, created_at: Date.now() / 1000 });
    else talk.messages[place] = { ...talk.messages[place], metadata };
    const listed = this.store.sessions.get(session);
    if (listed) {
      const turn = told.queued ? listed.turn : told.run_id;
      this.takeSession({ ...listed, turn, updated_at: Date.now() / 1000, title: listed.title || content.slice(0, 60) });
    }
    this.store.changed();
  }

  /** @param {string} key */
  #settle(key) {
    this.store.unsent.delete(key);
    this.#keepUnsent();
    this.store.changed();
  }

  #keepUnsent() {
    localStorage.setItem(UNSENT_KEY, JSON.stringify([...this.store.unsent.values()]));
  }

  #readUnsent() {
    try {
      for (const each of JSON.parse(localStorage.getItem(UNSENT_KEY) ?? "[]")) this.store.unsent.set(each.key, each);
    } catch {
      localStorage.removeItem(UNSENT_KEY);
    }
  }

  /**
   * Change a message that waits for its turn, or withdraw it: without words.
   *
   * @param {string} session
   * @param {string} message
   * @param {string} content
   */
  async reword(session, message, content) {
    const path = `/api/v1/sessions/${encodeURIComponent(session)}/messages/${encodeURIComponent(message)}`;
    try {
      if (content) await request("PATCH", path, { body: { content } });
      else await request("DELETE", path);
    } finally {
      await this.loadMessages(session); // also when its turn has begun meanwhile
    }
  }

  /** Stop the answer of a session. @param {string} session */
  async stop(session) {
    await request("POST", `/api/v1/sessions/${encodeURIComponent(session)}/stop`, {});
  }

  /** @param {string} session @param {Record<string, any>} change */
  async change(session, change) {
    this.takeSession(await request("PATCH", `/api/v1/sessions/${encodeURIComponent(session)}`, { body: change }));
  }

  /** @param {string} session */
  async markRead(session) {
    const known = this.store.sessions.get(session);
    if (!known?.has_unread || document.hidden) return;
    this.takeSession({ ...known, has_unread: false });
    await request("POST", `/api/v1/sessions/${encodeURIComponent(session)}/read`, {}).catch(() => undefined);
  }

  /** Delete a session, but for ten seconds it can be had back. @param {string} id */
  remove(id) {
    const { store } = this;
    const session = store.sessions.get(id);
    if (session === undefined) return;
    store.dropSession(id);
    if (store.current === id) this.open("");
    const timer = window.setTimeout(() => this.#reallyRemove(id), UNDO_MS);
    this.leaving.set(id, timer);
    this.say(`“${session.title || "New chat"}” is deleted.`, "Undo", () => {
      clearTimeout(timer);
      this.leaving.delete(id);
      this.takeSession(session);
    });
  }

  /** @param {string} id */
  async #reallyRemove(id) {
    try {
      await request("DELETE", `/api/v1/sessions/${encodeURIComponent(id)}`, { keepalive: true });
      this.store.conversations.delete(id);
    } catch (error) {
      if (error instanceof Problem && error.status !== 404) this.say(error.message);
    } finally {
      this.leaving.delete(id);
    }
  }

  /** The page is being closed: what was deleted goes now. */
  leave() {
    for (const [id, timer] of this.leaving) {
      clearTimeout(timer);
      this.#reallyRemove(id);
    }
  }

  /**
   * Answer what a run asks.
   *
   * @param {string} id
   * @param {{decision: string, reason?: string, scope?: string, args?: Record<string, any>}} answer
   */
  async answer(id, answer) {
    const card = await request("POST", `/approvals/${encodeURIComponent(id)}`, { body: answer });
    this.store.approvals.set(id, card);
    this.store.changed();
    return card;
  }

  /** Show a short message for a while. @param {string} text @param {string} [action] @param {() => void} [act] */
  say(text, action, act) {
    this.toasts += 1;
    const id = this.toasts;
    const clear = () => {
      if (this.store.toast?.id === id) this.store.set({ toast: null });
    };
    this.store.set({ toast: { id, text, action, act: act && (() => (act(), clear())) } });
    window.setTimeout(clear, UNDO_MS);
  }

  /** @param {unknown} error */
  tell(error) {
    if (error instanceof Problem) this.say([error.message, error.hint].filter(Boolean).join(" "));
    else throw error;
  }

  /** @param {string} name @param {string} [about] */
  show(name, about = "") {
    this.store.set({ drawer: name ? { name, about } : null });
  }

  async #openAddress() {
    const [, kind, id] = location.pathname.split("/");
    if (kind === "s" && id) await this.open(decodeURIComponent(id), true);
    else if (kind === "r" && id) this.show("runs", decodeURIComponent(id) + location.hash);
  }

  /** The address was changed by the browser: back, forward. */
  async navigate() {
    await this.#openAddress();
    if (location.pathname === "/") await this.open("", true);
  }

  /** @param {string} session @param {import("./store.js").ChatMessage[]} messages */
  #followTurns(session, messages) {
    const answered = new Set(messages.filter((each) => each.role === "assistant").map((each) => each.metadata.run_id));
    for (const message of messages) {
      const run = message.metadata.run_id;
      const view = this.store.runs.get(run);
      // It ended while nobody told us.
      if (view && answered.has(run) && !SETTLED.has(view.status)) this.loadRun(run).catch(() => undefined);
      const follows = run === this.store.sessions.get(session)?.turn; // the socket follows the turn by itself
      if (message.role === "user" && run && !follows && !answered.has(run) && message.metadata.status !== "queued") this.socket.follow(run);
    }
  }

  /** @param {"connecting" | "open" | "offline" | "logged_out"} state */
  #connection(state) {
    const before = this.store.connection;
    this.store.set({ connection: state });
    if (state === "logged_out") {
      keepPageToken("");
      this.store.set({ start: null });
    }
    if (state === "open") {
      for (const unsent of [...this.store.unsent.values()]) this.#deliver(unsent).catch((error) => this.tell(error));
      if (before !== "open" && this.wasOpen) this.#catchUp();
      this.wasOpen = true;
    }
  }

  /** What was missed while the server was away is fetched again. */
  #catchUp() {
    this.loadSessions();
    if (this.store.current && this.store.conversation(this.store.current).loaded) this.loadMessages(this.store.current);
  }

  /** @param {import("../net/socket.js").Message} message */
  #hear(message) {
    const { store } = this;
    switch (message.type) {
      case "hello":
        if (store.start && message.build !== store.start.build) store.set({ outdated: true });
        break;
      case "event":
        this.#event(message.event);
        break;
      case "partial":
      case "delta":
        if (!store.takeText(message)) this.socket.follow(message.run_id);
        break;
      case "notice":
        if (message.run_id) {
          const run = store.run(message.run_id);
          run.notice = message.text;
          run.progress = Boolean(message.progress);
          run.version += 1;
          store.changed();
        }
        break;
      case "session": {
        const { id } = message.session;
        const waiting = store.sessions.get(id)?.queued;
        if (message.deleted) store.dropSession(id);
        else this.takeSession(message.session);
        if (id === store.current && message.session.has_unread) this.markRead(id);
        // What waits was changed elsewhere, or begins.
        if (id === store.current && waiting !== message.session.queued && store.conversation(id).loaded) this.loadMessages(id);
        break;
      }
      case "approval":
        store.approvals.set(message.approval.id, { ...store.approvals.get(message.approval.id), ...message.approval });
        if (message.approval.status === "pending") store.announced = "Approval needed";
        store.changed();
        break;
      case "reset":
        this.#catchUp();
        break;
      default:
    }
  }

  /** @param {import("./fold.js").LogEvent} event */
  #event(event) {
    const { store } = this;
    if (!store.takeEvent(event)) return;
    const run = store.run(event.run_id);
    if (event.kind === "run_created" && run.session && run.session === store.current) {
      this.#addQuestion(run.session, run.prompt, { run_id: run.id });
    }
    if (event.kind === "llm_request") store.announced = "Answering";
    if (event.kind === "approval_requested") store.announced = "Approval needed";
    if (SETTLED.has(run.status)) {
      store.announced = "Answer complete";
      this.socket.unfollow(run.id);
      const session = store.sessions.get(run.session);
      if (session?.turn === run.id) this.takeSession({ ...session, turn: null });
      if (run.session && run.session === store.current) {
        this.loadMessages(run.session).then(() => this.markRead(run.session));
      }
    }
  }
}
