// A message that waits for the turns before it: until its own begins, it can be changed and withdrawn.

import { html, useEffect, useRef, useState } from "../vendor/htm-preact.js";
import { counted } from "../model/words.js";

/** @param {import("./app.js").Props & {question: import("../model/store.js").ChatMessage, ahead: number}} props */
export function Queued({ question, ahead, store, actions }) {
  const [editing, edit] = useState(false);
  const [busy, setBusy] = useState(false);
  const box = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  useEffect(() => {
    if (editing) box.current?.focus();
  }, [editing]);
  const problem = question.metadata.problem;
  /** @param {string} content */
  const say = async (content) => {
    setBusy(true);
    try {
      await actions.reword(store.current, question.id, content);
    } catch (error) {
      actions.tell(error);
    }
    setBusy(false);
    edit(false);
  };
  const save = () => {
    const content = box.current?.value.trim() ?? "";
    if (content && content !== question.content) say(content);
    else edit(false);
  };
  /** @param {KeyboardEvent} event */
  const key = (event) => {
    if (event.key === "Escape") {
      event.preventDefault(); // it means this, not the answer that is being given
      event.stopPropagation();
      edit(false);
    } else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      save();
    }
  };
  return html`<div class="question queued" data-test="queued">
    ${editing
      ? html`<label class="hidden" for=${`queued-${question.id}`}>Message that waits</label><textarea id=${`queued-${question.id}`} ref=${box} rows="3" maxlength="200000" onKeyDown=${key}>${question.content}</textarea>`
      : html`<p>${question.content}</p>`}
    ${problem ? html`<p class="note warning" role="alert">It cannot begin: ${problem}</p>` : html`<p class="quiet">${ahead ? `Queued, ${counted(ahead, "message")} ahead` : "Queued: it is the next"}</p>`}
    <div class="buttons">
      ${editing
        ? html`<button type="button" class="primary" disabled=${busy} onClick=${save}>Save</button><button type="button" onClick=${() => edit(false)}>Back</button>`
        : html`<button type="button" disabled=${busy} onClick=${() => edit(true)}>Edit</button><button type="button" disabled=${busy} onClick=${() => say("")}>Withdraw</button>`}
    </div>
  </div>`;
}
