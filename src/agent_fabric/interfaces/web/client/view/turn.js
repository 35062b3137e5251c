// One turn: what was asked, what was done about it, and the answer.

import { html, useEffect, useRef, useState } from "../vendor/htm-preact.js";
import { activity, partsOf, SETTLED } from "../model/fold.js";
import { callText, counted, durationText, resultText } from "../model/words.js";
import { Markdown } from "./markdown.js";
import { Menu, QuestionMenu } from "./menu.js";
import { Icon, Later, Output } from "./parts.js";
import { Queued } from "./queued.js";

/** All turns that are shown; those that have not changed are not drawn again. @param {import("./app.js").Props & {turns: import("./transcript.js").TurnMessages[]}} props */
export function Turns({ turns, store, actions }) {
  const drawn = useRef(/** @type {Map<string, {inputs: unknown[], node: object}>} */ (new Map()));
  let queued = 0;
  const next = new Map();
  const nodes = turns.map((turn, index) => {
    const run = store.runs.get(turn.run);
    const waits = turn.question?.metadata.status === "queued" && !run;
    if (waits) queued += 1;
    const last = index === turns.length - 1;
    const inputs = [turn.question, turn.answer, run?.version, last, waits ? queued : 0];
    const before = drawn.current.get(turn.run);
    const same = before !== undefined && before.inputs.every((value, nth) => value === inputs[nth]);
    const node = same ? before.node : html`<${Turn} key=${turn.run} turn=${turn} last=${last} ahead=${queued - 1} store=${store} actions=${actions} />`;
    next.set(turn.run, { inputs, node });
    return node;
  });
  drawn.current = next;
  return nodes;
}

/** @param {import("./app.js").Props & {turn: import("./transcript.js").TurnMessages, last: boolean, ahead: number}} props */
export function Turn({ turn, last, ahead, store, actions }) {
  const run = store.runs.get(turn.run);
  const status = turn.question?.metadata.status;
  return html`<article class="turn" data-run=${turn.run}>
    <h2 class="hidden">${turn.question ? "Question and answer" : "Answer"}</h2>
    ${turn.question && (status === "queued" && !run ? html`<${Queued} question=${turn.question} ahead=${ahead} store=${store} actions=${actions} />` : html`<div class="question"><p>${turn.question.content}</p></div>`)}
    ${turn.question && turn.answer && html`<${QuestionMenu} question=${turn.question} store=${store} actions=${actions} />`}
    ${run && run.lastSeq >= 0 ? html`<${Live} run=${run} answer=${turn.answer} last=${last} store=${store} actions=${actions} />` : html`<${Kept} turn=${turn} actions=${actions} />`}
    ${(turn.answer || run?.status === "interrupted") && html`<${Menu} turn=${turn} run=${run} store=${store} actions=${actions} />`}
  </article>`;
}

/** A turn whose log is not loaded. @param {{turn: import("./transcript.js").TurnMessages, actions: any}} props */
function Kept({ turn, actions }) {
  if (turn.answer === null) return null;
  return html`<div class="answer">
    <button type="button" class="steps-toggle" onClick=${() => actions.loadRun(turn.run).catch((/** @type {any} */ error) => actions.tell(error))}><${Icon} name="chevron" /> Steps</button>
    <${Ending} answer=${turn.answer} />
    <${NotDone} outcome=${turn.answer.metadata.outcome} />
    <${Markdown} text=${turn.answer.content} done=${true} sources=${sourcesOf(turn.answer, actions)} />
  </div>`;
}

/**
 * What the sentences of an answer rest on, and how one gets there.
 *
 * @param {import("../model/store.js").ChatMessage | null} answer
 * @param {import("../model/actions.js").Actions} actions
 * @returns {import("./sources.js").Sources | undefined}
 */
function sourcesOf(answer, actions) {
  const run = answer?.metadata.run_id;
  if (!run || !answer?.metadata.sentences) return undefined;
  return { run, sentences: answer.metadata.sentences, open: (seq) => actions.show("runs", `${run}#${seq}`), explain: (text) => actions.say(text) };
}

/** @param {{answer: import("../model/store.js").ChatMessage}} props */
function Ending({ answer }) {
  const error = answer.metadata.error;
  if (answer.metadata.status === "failed")
    return html`<div class="failed"><strong>This turn failed.</strong> ${error?.hint ?? ""} <span class="quiet">${error?.code ?? ""}</span></div>`;
  if (answer.metadata.status === "stopped") return html`<p class="quiet">Stopped${answer.metadata.by ? ` by ${answer.metadata.by}` : ""}. This is what had been said.</p>`;
  return null;
}

/** Above the words that the log contradicts; what it has to say stands at the beginning of the answer. @param {{outcome: string | undefined}} props */
function NotDone({ outcome }) {
  if (outcome !== "refused" && outcome !== "incomplete") return null;
  return html`<div class="failed" role="alert" data-test="not-done"><strong>${outcome === "refused" ? "This was not done." : "Not all of this was done."}</strong> The log says otherwise than the answer.</div>`;
}

/** A turn as its log tells it. @param {any} props */
function Live({ run, answer, last, store, actions }) {
  const { steps, answer: text, writing } = partsOf(run);
  const settled = SETTLED.has(run.status);
  const doing = answer ? "" : activity(run);
  const shown = answer ? answer.content || text?.text || "" : writing || text?.text || "";
  const recalled = steps.filter((item) => item.kind === "tool" && item.tool === "memory_search" && item.state === "done");
  const [whole, setWhole] = useState("");
  useEffect(() => {
    // The log shows long texts cut; the whole of it is one request away.
    if (text?.cut && !answer) actions.wholeEvent(run.id, text.seq).then((/** @type {any} */ event) => setWhole(event?.payload?.content ?? ""), () => undefined);
  }, [text?.seq, answer?.id]);
  return html`<div class="answer">
    ${steps.length > 0 && html`<${Steps} run=${run} steps=${steps} open=${!settled || last} store=${store} actions=${actions} />`}
    ${answer ? html`<${Ending} answer=${answer} />` : run.error && html`<div class="failed"><strong>${run.error.message}</strong> ${run.error.hint} <span class="quiet">${run.error.code}</span></div>`}
    <${NotDone} outcome=${answer ? answer.metadata.outcome : run.outcome} />
    ${shown && html`<${Markdown} text=${text?.cut && !answer && whole ? whole : shown} done=${!writing || Boolean(answer)} sources=${sourcesOf(answer, actions)} />`}
    ${(recalled.length > 0 || run.knowledge) && settled && html`<${Later} load=${() => import("./passages.js")} name="Passages" items=${recalled} answer=${shown} run=${run} store=${store} actions=${actions} />`}
    ${doing && html`<p class="doing" data-test="activity"><span class="spinner small"></span> ${doing}${run.progress ? "" : "…"}</p>`}
  </div>`;
}

/** @param {any} props */
function Steps({ run, steps, open, store, actions }) {
  const [shown, show] = useState(open);
  const asks = steps.some((/** @type {any} */ item) => item.kind === "approval" && !item.decision);
  const visible = shown || asks;
  const calls = steps.filter((/** @type {any} */ item) => item.kind === "tool").length;
  const settled = SETTLED.has(run.status);
  return html`<div class="steps">
    ${settled && html`<button type="button" class=${`steps-toggle ${visible ? "open" : ""}`} aria-expanded=${visible} onClick=${() => show(!shown)}>
      <${Icon} name="chevron" /> ${calls ? counted(calls, "tool call") : counted(steps.length, "step")}${run.endedAt ? `, ${durationText(run.endedAt - run.startedAt)}` : ""}</button>`}
    ${visible && steps.map((/** @type {any} */ item) => html`<${Step} key=${`${item.kind}${item.seq}`} item=${item} run=${run} store=${store} actions=${actions} />`)}
  </div>`;
}

/** @param {any} props */
function Step({ item, run, store, actions }) {
  switch (item.kind) {
    case "tool":
      return html`<${ToolLine} item=${item} run=${run} actions=${actions} />`;
    case "approval":
      return html`<${Later} load=${() => import("./approval.js")} name="ApprovalCard" id=${item.id} asked=${item.asked} decision=${item.decision} by=${item.by} reason=${item.reason} changed=${item.changed} store=${store} actions=${actions} />`;
    case "text":
      return html`<div class="aside"><${Markdown} text=${item.text} done=${true} /></div>`;
    case "thought":
      return html`<${Thought} item=${item} run=${run} actions=${actions} />`;
    default:
      return html`<p class=${`note ${item.tone}`}>${item.text}</p>`;
  }
}

/** What the model thought: one line that opens. @param {any} props */
function Thought({ item, run, actions }) {
  const [whole, setWhole] = useState("");
  const load = () => item.cut && !whole && actions.wholeEvent(run.id, item.seq).then((/** @type {any} */ event) => setWhole(event?.payload?.text ?? ""), () => undefined);
  return html`<details class="aside" data-test="thought" onToggle=${load}><summary>Thoughts</summary><${Output} text=${whole || item.text} /></details>`;
}

/** A call of a tool: one line that opens. @param {any} props */
function ToolLine({ item, run, actions }) {
  const [open, setOpen] = useState(false);
  const [whole, setWhole] = useState(/** @type {any} */ (null));
  const { name, about } = callText(item.tool, item.args);
  const states = /** @type {Record<string, string>} */ ({ running: "running", done: "done", failed: "failed" });
  const output = () => (whole ? resultText(whole.payload.whole || whole.payload.result) : item.state === "failed" ? item.error : resultText(item.result));
  return html`<div class=${`tool ${item.state}`}>
    <button type="button" class="tool-line" aria-expanded=${open} onClick=${() => setOpen(!open)} data-test="tool">
      <${Icon} name=${item.state === "failed" ? "close" : item.state === "done" ? "check" : "more"} />
      <span class="hidden">${states[item.state]}: </span><span class="tool-name">${name}</span> <span class="tool-about">${about}</span>
      ${item.seconds > 0.1 && html`<span class="when">${durationText(item.seconds)}</span>`}
    </button>
    ${open && html`<div class="tool-body">
      <p class="label">Arguments</p><${Output} text=${JSON.stringify(item.args, null, 2)} />
      ${item.approvedBy && html`<p class="quiet">Agreed to by ${item.approvedBy}</p>`}
      ${item.state !== "running" && html`<p class="label">${item.state === "failed" ? "Error" : "Result"}</p><${Output} text=${output()} />`}
      ${item.origin && html`<p class="note warning">Untrusted: this text came from ${item.origin}</p>`}
      ${item.cut && !whole && item.resultSeq >= 0 && html`<button type="button" class="quiet-button" onClick=${() => actions.wholeEvent(run.id, item.resultSeq).then(setWhole, (/** @type {any} */ error) => actions.tell(error))}>The log shows this cut: get all of it</button>`}
      <a class="quiet" href=${`/r/${run.id}#${item.seq}`} onClick=${(/** @type {Event} */ event) => (event.preventDefault(), actions.show("runs", `${run.id}#${item.seq}`))}>Event ${item.seq}</a>
    </div>`}
  </div>`;
}
