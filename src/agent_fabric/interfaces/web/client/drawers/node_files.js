// Files of a machine whose own file allows it: send one there, or fetch one. Each is agreed to like a command.

import { html, useEffect, useState } from "../vendor/htm-preact.js";
import { get, newKey, post } from "../net/api.js";
import { fetchAll, MOST_BYTES, sendAll, sha256Of } from "../model/transfers.js";
import { sizeText } from "../model/words.js";
import { useStore } from "../model/store.js";
import { ApprovalCard } from "../view/approval.js";
import { problemText } from "./pieces.js";

const LOOK_MS = 700;
const OPEN = new Set(["waiting", "queued", "sent"]);

/** @param {any} props */
export function Files({ store, actions, path }) {
  const [wish, setWish] = useState(/** @type {any} */ (null));
  return html`<h3>Files</h3>
    ${wish ? html`<${Transfer} key=${wish.key} wish=${wish} store=${store} actions=${actions} path=${path} again=${() => setWish(null)} />` : html`<${Choice} begin=${setWish} />`}`;
}

/** @param {any} props */
function Choice({ begin }) {
  const [problem, setProblem] = useState("");
  /** @param {SubmitEvent} event */
  const fetchOne = (event) => {
    event.preventDefault();
    const form = new FormData(/** @type {HTMLFormElement} */ (event.target));
    begin({ key: newKey(), tool_name: "file_get", arguments: { path: String(form.get("path")).trim() } });
  };
  /** @param {SubmitEvent} event */
  const sendOne = async (event) => {
    event.preventDefault();
    const form = new FormData(/** @type {HTMLFormElement} */ (event.target));
    const file = /** @type {File} */ (form.get("file"));
    try {
      if (file.size > MOST_BYTES) throw new TypeError(`It has more than ${sizeText(MOST_BYTES)}. Use: fabric nodes cp`);
      const bytes = new Uint8Array(await file.arrayBuffer());
      const to = String(form.get("path")).trim();
      const where = to.endsWith("/") ? `${to}${file.name}` : to;
      begin({ key: newKey(), tool_name: "file_put", arguments: { path: where, size: bytes.length, sha256: await sha256Of(bytes) }, bytes });
    } catch (error) {
      setProblem(problemText(error));
    }
  };
  return html`<form class="form inline" onSubmit=${fetchOne} data-test="fetch-file"><label>Fetch a file from it <input name="path" class="code-input" required pattern="/.*" autocomplete="off" spellcheck=${false} placeholder="/var/log/syslog" /></label><button type="submit">Fetch</button></form>
    <form class="form" onSubmit=${sendOne} data-test="send-file"><label>Send a file to it <input type="file" name="file" required /></label>
      <label>Path there <input name="path" class="code-input" required pattern="/.*" autocomplete="off" spellcheck=${false} placeholder="/srv/app/" /></label>
      <div class="buttons"><button type="submit">Send</button></div></form>
    ${problem && html`<p class="note warning" role="alert">${problem}</p>`}`;
}

/** One file, from the question to the last chunk. @param {any} props */
function Transfer({ wish, store, actions, path, again }) {
  const [asked, setAsked] = useState(/** @type {any} */ (null));
  const [done, setDone] = useState(0);
  const [size, setSize] = useState(wish.arguments.size ?? 0);
  const [ended, setEnded] = useState("");
  const [problem, setProblem] = useState("");
  useStore(store, (all) => all.approvals.get(asked?.approval_id)?.status);
  useEffect(() => {
    const left = new AbortController();
    const copy = async () => {
      let command = await post(`${path}/execute`, { tool_name: wish.tool_name, arguments: wish.arguments }, wish.key);
      setAsked(command);
      const own = `${path}/commands/${command.execution_id}`;
      while (OPEN.has(command.status)) {
        await new Promise((later) => setTimeout(later, LOOK_MS));
        command = await get(own, left.signal);
      }
      if (command.status !== "success") throw new TypeError(command.result?.error ?? `It was ${command.status}.`);
      const about = command.result.output;
      const tell = (/** @type {number} */ so) => left.signal.aborted || setDone(so);
      if (wish.tool_name === "file_put") {
        await sendAll(wish.bytes, about.offset, (body) => post(`${own}/file`, body), tell);
        return `It is ${wish.arguments.path} on the machine.`;
      }
      if (about.size > MOST_BYTES) throw new TypeError(`It has ${sizeText(about.size)}. Use: fabric nodes cp`);
      setSize(about.size);
      const bytes = await fetchAll(about, (offset) => get(`${own}/file?offset=${offset}`, left.signal), tell);
      save(bytes, wish.arguments.path);
      return `Fetched: ${sizeText(bytes.length)}.`;
    };
    copy().then(setEnded, (error) => left.signal.aborted || setProblem(problemText(error)));
    return () => left.abort();
  }, []);
  const card = asked && store.approvals.get(asked.approval_id);
  const over = ended || problem;
  return html`<div data-test="transfer"><p><code>${wish.arguments.path}</code></p>
    ${card && html`<${ApprovalCard} key=${card.id} id=${card.id} asked=${card} decision="" by="" reason="" store=${store} actions=${actions} />`}
    ${!over && (done || !asked?.approval_id) && html`<p role="status"><progress max=${size || 1} value=${done}></progress> ${sizeText(done)}${size ? ` of ${sizeText(size)}` : ""}</p>`}
    ${ended && html`<p class="note" role="status">${ended}</p>`}
    ${problem && html`<p class="note warning" role="alert">${problem}</p>`}
    ${over && html`<div class="buttons"><button type="button" onClick=${again}>Another file</button></div>`}</div>`;
}

/** @param {Uint8Array<ArrayBuffer>} bytes @param {string} path */
function save(bytes, path) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([bytes]));
  link.download = path.split("/").at(-1) || "file";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
