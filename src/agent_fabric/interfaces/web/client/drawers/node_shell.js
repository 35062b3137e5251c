// A shell on a machine: agreed to, typed line by line, recorded there. Programs that paint the screen need a real terminal.

import { html, useEffect, useRef, useState } from "../vendor/htm-preact.js";
import { get, newKey, post } from "../net/api.js";
import { addPrinted, typed } from "../model/terminal.js";
import { useStore } from "../model/store.js";
import { ApprovalCard } from "../view/approval.js";
import { problemText } from "./pieces.js";

const LOOK_MS = 700;
const WAIT_S = 10;
const OPEN = new Set(["waiting", "queued", "sent"]);

/** @param {any} props */
export function Shell({ store, actions, path }) {
  const [asked, setAsked] = useState(/** @type {any} */ (null));
  const [problem, setProblem] = useState("");
  useStore(store, (all) => all.approvals.get(asked?.approval_id)?.status);
  const open = async () => {
    setProblem("");
    try {
      setAsked(await post(`${path}/execute`, { tool_name: "shell", arguments: { columns: 80, rows: 24, term: "dumb", timeout_s: 3600 } }, newKey()));
    } catch (error) {
      setProblem(problemText(error));
    }
  };
  const card = asked && store.approvals.get(asked.approval_id);
  return html`<h3>Shell</h3>
    ${!asked && html`<p class="quiet">Each session is agreed to by itself, and what it prints is recorded on the machine. Programs that paint the screen need <code>fabric nodes shell</code>.</p>
      <div class="buttons"><button type="button" data-test="open-shell" onClick=${open}>Open a shell</button></div>`}
    ${problem && html`<p class="note warning" role="alert">${problem}</p>`}
    ${card && html`<${ApprovalCard} key=${card.id} id=${card.id} asked=${card} decision="" by="" reason="" store=${store} actions=${actions} />`}
    ${asked && html`<${Terminal} key=${asked.execution_id} path=${`${path}/commands/${asked.execution_id}`} actions=${actions} again=${() => setAsked(null)} />`}`;
}

/** @param {any} props */
function Terminal({ path, actions, again }) {
  const [status, setStatus] = useState("waiting");
  const [shown, setShown] = useState("");
  const [ended, setEnded] = useState("");
  const screen = useRef(/** @type {HTMLElement | null} */ (null));
  const line = useRef(/** @type {HTMLInputElement | null} */ (null));
  useEffect(() => {
    const left = new AbortController();
    const follow = async () => {
      let command = await get(path, left.signal);
      while (command.status === "waiting" || command.status === "queued") {
        await new Promise((done) => window.setTimeout(done, LOOK_MS));
        command = await get(path, left.signal);
      }
      setStatus(command.status);
      line.current?.focus();
      const decoder = new TextDecoder();
      let offset = 0;
      for (;;) {
        const told = await get(`${path}/terminal?offset=${offset}&wait_s=${WAIT_S}`, left.signal);
        const bytes = Uint8Array.from(atob(told.data), (each) => each.charCodeAt(0));
        offset += bytes.length;
        if (bytes.length) setShown((before) => addPrinted(before, decoder.decode(bytes, { stream: true })));
        setStatus(told.status);
        if (!bytes.length && !OPEN.has(told.status)) {
          setEnded(told.error || (told.exit_code === null ? told.status : `It ended with exit code ${told.exit_code}.`));
          return;
        }
      }
    };
    follow().catch((error) => left.signal.aborted || setEnded(problemText(error)));
    return () => left.abort();
  }, []);
  useEffect(() => {
    if (screen.current) screen.current.scrollTop = screen.current.scrollHeight;
  }, [shown]);
  /** @param {object} wish */
  const send = (wish) => post(`${path}/terminal`, wish, newKey()).then(() => true, (error) => actions.tell(error));
  /** @param {SubmitEvent} event */
  const enter = async (event) => {
    event.preventDefault();
    const field = line.current;
    if (field === null) return;
    const text = field.value;
    field.value = "";
    if (!(await send({ data: typed(`${text}\n`) })) && !field.value) field.value = text; // not lost where it did not arrive
  };
  if (ended) return html`<div class="output"><pre tabindex="0" data-test="screen">${shown}</pre></div><p class="note" role="status">${ended}</p><div class="buttons"><button type="button" onClick=${again}>Another one</button></div>`;
  if (status !== "sent") return html`<p class="note" role="status">It opens when somebody has agreed.</p>`;
  return html`<div class="output"><pre ref=${screen} tabindex="0" role="log" aria-label="What the shell prints" data-test="screen">${shown}</pre></div>
    <form class="form inline" onSubmit=${enter}><label>Type a line <input ref=${line} class="code-input" autocomplete="off" autocapitalize="none" spellcheck=${false} data-test="shell-line" /></label><button type="submit">Enter</button></form>
    <div class="buttons"><button type="button" onClick=${() => send({ data: typed("\u0003") })}>Interrupt (Ctrl+C)</button><button type="button" class="danger" onClick=${() => send({ end: true })}>End the shell</button></div>`;
}
