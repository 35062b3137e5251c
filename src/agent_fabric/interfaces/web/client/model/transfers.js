// Files to and from a machine, chunk by chunk. Pure: who sends and fetches is given.

export const CHUNK_BYTES = 256 * 1024;
export const MOST_BYTES = 256 * 1024 * 1024; // a page holds all of it in memory; the command line does not

/** @param {Uint8Array} bytes @returns {string} */
export function base64Of(bytes) {
  let text = "";
  for (let at = 0; at < bytes.length; at += 8192) text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return btoa(text);
}

/** @param {string} text @returns {Uint8Array<ArrayBuffer>} */
export const bytesOf = (text) => Uint8Array.from(atob(text), (each) => each.charCodeAt(0));

/** @param {ArrayBuffer | Uint8Array<ArrayBuffer>} bytes @returns {Promise<string>} */
export async function sha256Of(bytes) {
  if (!globalThis.crypto?.subtle) throw new TypeError("This page is not served over HTTPS, so the browser cannot check files. Use: fabric nodes cp");
  return Array.from(new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)), (each) => each.toString(16).padStart(2, "0")).join("");
}

/**
 * Send a file that the machine has agreed to take; what was cut off goes on where it stopped.
 *
 * @param {Uint8Array<ArrayBuffer>} bytes
 * @param {number} offset What the machine has.
 * @param {(body: {offset: number, data: string}) => Promise<{offset: number, done: boolean}>} send
 * @param {(done: number) => void} tell
 */
export async function sendAll(bytes, offset, send, tell) {
  for (;;) {
    const told = await send({ offset, data: base64Of(bytes.subarray(offset, offset + CHUNK_BYTES)) });
    tell(told.done ? bytes.length : told.offset);
    if (told.done) return;
    if (told.offset === offset) throw new TypeError(`The machine does not take the file: it stays at ${offset} bytes.`);
    offset = told.offset;
  }
}

/**
 * Fetch a file that the machine has opened; it is checked against what the machine said about it.
 *
 * @param {{size: number, sha256: string}} about
 * @param {(offset: number) => Promise<{data: string}>} fetchPart
 * @param {(done: number) => void} tell
 * @returns {Promise<Uint8Array<ArrayBuffer>>}
 */
export async function fetchAll(about, fetchPart, tell) {
  const bytes = new Uint8Array(about.size);
  let offset = 0;
  while (offset < about.size) {
    const part = bytesOf((await fetchPart(offset)).data);
    if (!part.length || offset + part.length > about.size) throw new TypeError("The file has changed while it was copied.");
    bytes.set(part, offset);
    offset += part.length;
    tell(offset);
  }
  if ((await sha256Of(bytes)) !== about.sha256) throw new TypeError("The file did not arrive as it is on the machine.");
  return bytes;
}
