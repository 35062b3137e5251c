// The one socket of this page: it comes back by itself, and what is followed goes on where it stopped.

import { pageToken } from "./api.js";

const FIRST_DELAY_MS = 500;
const LONGEST_DELAY_MS = 15_000;
const PING_MS = 20_000;
const UNAUTHENTICATED = 4401;

/**
 * @typedef {{type: string, [key: string]: any}} Message
 * @typedef {{
 *   onMessage: (message: Message) => void,
 *   onState: (state: "connecting" | "open" | "offline" | "logged_out") => void,
 *   after: (run: string) => number,
 * }} Listener
 */

/**
 * How long to wait before the next attempt: longer each time, and never the same for all pages at once.
 *
 * @param {number} attempt Counts from 0.
 * @param {number} random From 0 to 1.
 * @returns {number} Milliseconds.
 */
export function delayBefore(attempt, random) {
  const full = Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** attempt);
  return Math.max(FIRST_DELAY_MS, full * (0.5 + random / 2));
}

/** Follows runs and sessions for the page. */
export class PageSocket {
  /** @param {Listener} listener */
  constructor(listener) {
    this.listener = listener;
    /** @type {WebSocket | null} */
    this.socket = null;
    this.attempt = 0;
    this.greeted = false;
    this.closed = false;
    /** @type {Set<string>} */
    this.runs = new Set();
    this.session = "";
    this.timer = 0;
    this.pings = 0;
  }

  open() {
    this.closed = false;
    clearTimeout(this.timer);
    this.listener.onState("connecting");
    const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/api/v1/web/ws`);
    this.socket = socket;
    this.greeted = false;
    socket.onopen = () => socket.send(JSON.stringify({ type: "hello", page_token: pageToken() }));
    socket.onmessage = (event) => this.#hear(socket, JSON.parse(event.data));
    socket.onclose = (event) => this.#ended(socket, event.code);
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
    clearInterval(this.pings);
    this.socket?.close();
  }

  /** Try now instead of later. */
  retry() {
    if (!this.closed && (this.socket === null || this.socket.readyState > WebSocket.OPEN)) this.open();
  }

  /** @param {string} run */
  follow(run) {
    this.runs.add(run);
    this.#say({ type: "follow", run, after: this.listener.after(run) });
  }

  /** @param {string} run */
  unfollow(run) {
    if (this.runs.delete(run)) this.#say({ type: "unfollow", run });
  }

  /** @param {string} session The session that is shown; empty: none. */
  watch(session) {
    if (this.session && this.session !== session) this.#say({ type: "unfollow", session: this.session });
    this.session = session;
    if (session) this.#say({ type: "follow", session });
  }

  /** @param {WebSocket} socket @param {Message} message */
  #hear(socket, message) {
    if (socket !== this.socket) return;
    if (message.type === "hello") {
      this.greeted = true;
      this.attempt = 0;
      clearInterval(this.pings);
      this.pings = window.setInterval(() => this.#say({ type: "ping" }), PING_MS);
      if (this.session) this.#say({ type: "follow", session: this.session });
      for (const run of this.runs) this.#say({ type: "follow", run, after: this.listener.after(run) });
      this.listener.onState("open");
    }
    this.listener.onMessage(message);
  }

  /** @param {WebSocket} socket @param {number} code */
  #ended(socket, code) {
    if (socket !== this.socket || this.closed) return;
    clearInterval(this.pings);
    this.greeted = false;
    if (code === UNAUTHENTICATED) {
      this.closed = true;
      this.listener.onState("logged_out");
      return;
    }
    this.listener.onState("offline");
    this.timer = window.setTimeout(() => this.open(), delayBefore(this.attempt, Math.random()));
    this.attempt += 1;
  }

  /** @param {object} message */
  #say(message) {
    if (this.greeted && this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }
}
