// Requests to the server: who we are goes along, and what went wrong comes back as one kind of error.

const TOKEN_KEY = "fabric.page_token";

/** What went wrong, in words for people. */
export class Problem extends Error {
  /** @param {{status: number, code: string, message: string, hint: string, detail?: any}} told */
  constructor(told) {
    super(told.message);
    this.status = told.status;
    this.code = told.code;
    this.hint = told.hint;
    /** The whole answer, such as the tail of a session that has moved on. */
    this.detail = told.detail ?? {};
  }

  /** Whether the server was not reached at all. */
  get offline() {
    return this.status === 0;
  }
}

/** @returns {string} */
export function pageToken() {
  return localStorage.getItem(TOKEN_KEY) ?? "";
}

/** @param {string} token */
export function keepPageToken(token) {
  if (token) localStorage.setItem(TOKEN_KEY, token);
  else localStorage.removeItem(TOKEN_KEY);
}

/** @returns {string} A key under which a request can be sent again without being carried out twice. */
export function newKey() {
  return crypto.randomUUID ? crypto.randomUUID() : Array.from(crypto.getRandomValues(new Uint32Array(4)), (n) => n.toString(16)).join("-");
}

/**
 * Send a request; return its answer.
 *
 * @param {string} method
 * @param {string} path
 * @param {{body?: unknown, key?: string, signal?: AbortSignal, keepalive?: boolean, raw?: boolean}} [more]
 * @returns {Promise<any>}
 */
export async function request(method, path, more = {}) {
  /** @type {Record<string, string>} */
  const headers = { accept: "application/json" };
  const token = pageToken();
  if (token) headers["x-fabric-page"] = token;
  if (more.body !== undefined) headers["content-type"] = "application/json";
  if (method !== "GET") headers["idempotency-key"] = more.key ?? newKey();
  let answer;
  try {
    answer = await fetch(path, {
      method,
      headers,
      body: more.body === undefined ? undefined : JSON.stringify(more.body),
      credentials: "same-origin",
      keepalive: more.keepalive ?? false,
      signal: more.signal,
    });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Problem({ status: 0, code: "offline", message: "The server cannot be reached", hint: "It is tried again." });
  }
  if (more.raw && answer.ok) return answer;
  const text = await answer.text();
  const told = text && (answer.headers.get("content-type") ?? "").includes("json") ? JSON.parse(text) : {};
  if (answer.ok) return told;
  throw new Problem({
    status: answer.status,
    code: told.code ?? `http_${answer.status}`,
    message: told.detail ?? told.title ?? `The server answered ${answer.status}`,
    hint: told.hint ?? "",
    detail: told,
  });
}

/** @param {string} path @param {AbortSignal} [signal] */
export const get = (path, signal) => request("GET", path, { signal });
/** @param {string} path @param {unknown} [body] @param {string} [key] */
export const post = (path, body, key) => request("POST", path, { body, key });
