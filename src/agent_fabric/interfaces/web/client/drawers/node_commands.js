// Commands on a machine: run one, see what waits, what was done and what came of it.

import { html, useState } from "../vendor/htm-preact.js";
import { get, newKey, post, request } from "../net/api.js";
import { machineCallText } from "../model/machines.js";
import { agoText, dateText, durationText } from "../model/words.js";
import { useStore } from "../model/store.js";
import { ApprovalCard } from "../view/approval.js";
import { Empty, Output } from "../view/parts.js";
import { Act, Heading, problemText, RunLink, useLive, useNow, useSome } from "./pieces.js";

const MOST_BYTES = 8 * 1024 * 1024;
const OPEN = new Set(["waiting", "queued", "sent"]);
const COLOUR = /** @type {Record<string, string>} */ ({ success: "completed", error: "failed", blocked: "block", denied: "block", in_doubt: "waiting", waiting: "waiting", queued: "waiting", sent: "running" });
const ELSEWHERE = new Set(["shell", "file_put", "file_get", "upgrade"]); // they need more than one answer
const EXAMPLES = /** @type {Record<string, object>} */ ({ list_files: { path: "/" }, read_file: { path: "/etc/hostname" }, write_file: { path: "/tmp/note", content: "" } });

/** @param {any} props */
export function RunCommand({ store, actions, node, path }) {
  const [tool, setTool] = useState("run_command");
  const [text, setText] = useState("");
  const [queue, setQueue] = useState(false);
  const [told, setTold] = useState(/** @type {any} */ (null));
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const tools = (node.supported_tools?.length ? node.supported_tools : ["run_command"]).filter((/** @type {string} */ name) => !ELSEWHERE.has(name));
  const plain = tool === "run_command";
  /** @param {boolean} dry */
  const send = async (dry) => {
    setBusy(true);
    setProblem("");
    setTold(null);
    try {
      const wish = { tool_name: tool, arguments: plain ? { command: text } : JSON.parse(text || "{}"), queue: queue && node.status !== "online", dry_run: dry };
      setTold({ ...(await post(`${path}/execute`, wish, newKey())), dry });
    } catch (error) {
      setProblem(error instanceof SyntaxError ? "The arguments are not valid JSON." : problemText(error));
    }
    setBusy(false);
  };
  /** @param {any} event */
  const choose = (event) => {
    setTool(event.target.value);
    setText(event.target.value === "run_command" ? "" : JSON.stringify(EXAMPLES[event.target.value] ?? {}));
  };
  return html`<h3>Run a command</h3>
    <form class="form" onSubmit=${(/** @type {Event} */ event) => (event.preventDefault(), send(false))}>
      ${tools.length > 1 && html`<label>Tool <select value=${tool} onChange=${choose}>${tools.map((/** @type {string} */ name) => html`<option key=${name} value=${name}>${name}</option>`)}</select></label>`}
      <label>${plain ? "Command" : "Arguments (JSON)"} <textarea class="code-input" rows="2" required value=${text} spellcheck=${false} placeholder=${plain ? "df -h" : "{}"} onInput=${(/** @type {any} */ event) => setText(event.target.value)} data-test="node-command"></textarea></label>
      ${node.status !== "online" && html`<label class="check"><input type="checkbox" checked=${queue} onChange=${() => setQueue(!queue)} /> Wait until it is back, for at most an hour</label>`}
      <div class="buttons"><button type="submit" class="primary" disabled=${busy || !text.trim()}>${busy ? "Running…" : "Run"}</button>
        <button type="button" disabled=${busy || !text.trim()} onClick=${() => send(true)}>Only check</button></div>
    </form>
    <div aria-live="polite" data-test="command-outcome">
      ${problem && html`<p class="note warning">${problem}</p>`}
      ${told?.dry && html`<p><span class=${`status ${told.status}`}>${told.status}</span> ${told.reason}</p>`}
      ${told && !told.dry && html`<${Told} told=${told} store=${store} actions=${actions} path=${path} />`}
    </div>`;
}

/** What came of it at once: a result, a question, or a place in the queue. @param {any} props */
function Told({ told, store, actions, path }) {
  useStore(store, (all) => all.approvals.get(told.approval_id)?.status);
  if (told.approval_id) {
    const card = store.approvals.get(told.approval_id);
    if (card) return html`<${ApprovalCard} key=${card.id} id=${card.id} asked=${card} decision="" by="" reason="" store=${store} actions=${actions} />`;
    return html`<p class="note">A person has to agree. ${told.reason}</p>`;
  }
  if (told.result) return html`<${Result} command=${told} path=${path} actions=${actions} />`;
  return html`<p class="note">${told.status}: ${told.reason || "it waits for the machine"}</p>`;
}

/** @param {any} props */
function Result({ command, path, actions }) {
  const { result } = command;
  const { stdout, stderr, exit_code: code, signal, truncated, duration_ms: took, error, ...rest } = result ?? {};
  const [whole, setWhole] = useState(/** @type {Record<string, string>} */ ({}));
  /** The machine keeps all of it for a week. */
  const fetchAll = async () => {
    /** @type {Record<string, string>} */
    const all = {};
    for (const stream of ["stdout", "stderr"]) {
      const decoder = new TextDecoder();
      let [text, offset, size] = ["", 0, 1];
      while (offset < size && offset < MOST_BYTES) {
        const part = await get(`${path}/commands/${command.execution_id}/output?stream=${stream}&offset=${offset}`);
        const bytes = Uint8Array.from(atob(part.data), (each) => each.charCodeAt(0));
        if (!bytes.length) break;
        text += decoder.decode(bytes, { stream: true });
        offset += bytes.length;
        size = part.size;
      }
      all[stream] = text + (offset < size ? "\n… and more: see fabric nodes output" : "");
    }
    setWhole(all);
  };
  const known = stdout !== undefined || stderr !== undefined || error !== undefined;
  return html`<p class="row-facts"><span class=${`status ${COLOUR[command.status] ?? ""}`}>${command.status.replaceAll("_", " ")}</span>
      ${code !== undefined && code !== null && html`<span>exit code ${code}</span>`}${signal && html`<span>signal ${signal}</span>`}${took !== undefined && html`<span>${durationText(took / 1000)}</span>`}${truncated && html`<span>the middle was left out</span>`}</p>
    ${error && html`<p class="note warning">${typeof error === "string" ? error : (error.message ?? JSON.stringify(error))}</p>`}
    ${(whole.stdout ?? stdout) && html`<${Output} text=${whole.stdout ?? stdout} />`}
    ${(whole.stderr ?? stderr) && html`<p class="label">Errors</p><${Output} text=${whole.stderr ?? stderr} />`}
    ${truncated && whole.stdout === undefined && html`<${Act} label="Get all of it" actions=${actions} act=${fetchAll} />`}
    ${!known && result && html`<${Output} text=${JSON.stringify(rest, null, 2)} />`}`;
}

/** @param {any} props */
export function Commands({ store, actions, path }) {
  const { value, view, again } = useLive(() => get(`${path}/commands?limit=200`), store);
  const all = value?.commands ?? [];
  const open = all.filter((/** @type {any} */ each) => OPEN.has(each.status));
  const [settled, more] = useSome(all.filter((/** @type {any} */ each) => !OPEN.has(each.status)), 10);
  const now = useNow(5000);
  /** @param {any} each */
  const line = (each) => html`<${Command} key=${each.execution_id} command=${each} now=${now} store=${store} actions=${actions} path=${path} again=${again} />`;
  return html`${view}
    ${open.length > 0 && html`<${Heading} text="Queue" /><ul class="rows" data-test="queue">${open.map(line)}</ul>`}
    <${Heading} text="Done" />
    ${value && !settled.length && html`<${Empty} text="Nothing was done on it yet." />`}
    <ul class="rows" data-test="done">${settled.map(line)}</ul>${more}`;
}

/** @param {any} props */
function Command({ command, now, store, actions, path, again }) {
  const [shown, show] = useState(false);
  const open = OPEN.has(command.status);
  const facts = /** @type {[string, any][]} */ ([["Rule", command.rule], ["Asked for by", command.requested_by], ["Agreed by", command.approver], ["Asked for", dateText(command.created_at)], ["Ended", command.completed_at && dateText(command.completed_at)], ["Expires", open && dateText(command.expires_at)], ["Execution", command.execution_id]]);
  return html`<li><button type="button" class="row-button" aria-expanded=${shown} onClick=${() => show(!shown)}><span class="row-title"><code>${command.withheld ? "(private)" : machineCallText(command.tool_name, command.arguments).split("\n")[0]}</code></span>
      <span class="row-facts"><span class=${`status ${COLOUR[command.status] ?? ""}`}>${command.status.replaceAll("_", " ")}</span><span>${agoText(command.created_at, now)}</span><span>${command.requested_by}</span></span></button>
    ${open && store.may("nodes") && html`<div class="buttons small"><${Act} label="Cancel" sure="Cancel it?" actions=${actions} act=${() => request("DELETE", `${path}/commands/${command.execution_id}`)} after=${again} /></div>`}
    ${shown && html`<dl class="facts">${facts.filter(([, each]) => each).map(([name, each]) => html`<div key=${name}><dt>${name}</dt><dd>${each}</dd></div>`)}</dl>
      ${command.run_id && html`<p><${RunLink} run=${command.run_id} actions=${actions} /></p>`}
      ${command.result && html`<${Result} command=${command} path=${path} actions=${actions} />`}`}</li>`;
}
