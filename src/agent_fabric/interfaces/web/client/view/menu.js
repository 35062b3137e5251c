// What can be done from a message on: copy it, fork, take files back, resume, look at how it came about.

import { html, useState } from "../vendor/htm-preact.js";
import { request } from "../net/api.js";
import { copyText } from "./clipboard.js";
import { Later } from "./parts.js";

/** @typedef {import("./app.js").Props & {turn: import("./transcript.js").TurnMessages, run: import("../model/fold.js").RunView | undefined}} MenuProps */

/** What can be done with an answer. @param {MenuProps} props */
export function Menu({ turn, run, store, actions }) {
  const [copied, setCopied] = useState(false);
  const [asking, ask] = useState(false);
  const answer = turn.answer;
  const copy = async () => {
    if (!(await copyText(answer?.content ?? ""))) return actions.say("The browser does not allow copying here.");
    setCopied(true);
    window.setTimeout(() => setCopied(false), 1500);
  };
  const resume = () => request("POST", `/runs/${turn.run}/resume`, {}).then(() => actions.socket.follow(turn.run), (error) => actions.tell(error));
  return html`<div class="menu" role="group" aria-label="This answer">
      ${answer && html`<button type="button" onClick=${copy}>${copied ? "Copied" : "Copy"}</button>
        <button type="button" onClick=${() => fork(answer.id, store, actions)}>Fork here</button>
        <button type="button" aria-expanded=${asking} onClick=${() => ask(!asking)}>Take files back to here…</button>`}
      ${run?.status === "interrupted" && html`<button type="button" onClick=${resume}>Resume</button>`}
      <button type="button" onClick=${() => actions.show("runs", turn.run)}>Timeline</button>
    </div>
    ${asking && answer && html`<${TakeBack} message=${answer.id} close=${() => ask(false)} store=${store} actions=${actions} />`}`;
}

/** What can be done with a question that was answered. @param {import("./app.js").Props & {question: import("../model/store.js").ChatMessage}} props */
export function QuestionMenu({ question, store, actions }) {
  const [asking, ask] = useState(false);
  return html`<div class="menu of-question" role="group" aria-label="This question">
      <button type="button" onClick=${() => fork(question.id, store, actions)}>Ask differently</button>
      <button type="button" aria-expanded=${asking} onClick=${() => ask(!asking)}>Take files back to before this…</button>
    </div>
    ${asking && html`<${TakeBack} message=${question.id} close=${() => ask(false)} store=${store} actions=${actions} />`}`;
}

/** @param {any} props */
const TakeBack = (props) => html`<${Later} load=${() => import("./take_back.js")} name="TakeBack" ...${props} />`;

/**
 * Go another way from a message on. What was said from there is given back, to be said differently.
 *
 * @param {string} message
 * @param {import("../model/store.js").Store} store
 * @param {import("../model/actions.js").Actions} actions
 */
async function fork(message, store, actions) {
  try {
    const { draft, ...session } = await request("POST", `/api/v1/sessions/${encodeURIComponent(store.current)}/fork`, { body: { message_id: message } });
    actions.takeSession(session);
    if (draft) localStorage.setItem(`fabric.draft.${session.id}`, draft);
    await actions.open(session.id);
  } catch (error) {
    actions.tell(error);
  }
}
