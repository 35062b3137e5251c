// Where one writes. What is written survives a reload, and nothing is sent twice.

import { html, useEffect, useLayoutEffect, useRef, useState } from "../vendor/htm-preact.js";
import { useStore } from "../model/store.js";
import { IconButton } from "./parts.js";

/** @param {string} session */
const draftKey = (session) => `fabric.draft.${session || "new"}`;

/** @param {import("./app.js").Props} props */
export function Composer({ store, actions }) {
  useStore(store, (all) => `${all.current} ${all.sessions.get(all.current)?.turn} ${all.connection} ${runningIn(all)}`);
  const box = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  const [text, setText] = useState("");
  const [problem, setProblem] = useState("");
  const busy = runningIn(store);

  const grow = () => {
    const area = box.current;
    if (area === null) return;
    area.style.height = "auto";
    area.style.height = `${Math.min(area.scrollHeight, window.innerHeight * 0.4)}px`;
  };
  useLayoutEffect(() => { // before the first frame: whoever types at once is not too early
    const asked = new URLSearchParams(location.search).get("q"); // it fills the box, and does nothing else
    const draft = localStorage.getItem(draftKey(store.current)) ?? (store.current ? "" : (asked ?? ""));
    const early = store.early;
    store.early = null;
    if (early) write([draft, early.text].filter(Boolean).join("\n"));
    else setText(draft);
    setProblem("");
    if (early || !matchMedia("(pointer: coarse)").matches) box.current?.focus();
    if (early?.send && !draft) send(early.text);
  }, [store.current]);
  useEffect(grow, [text]);

  /** @param {string} next */
  const write = (next) => {
    if (!text && next) import("./turn.js"); // the answer will need it
    setText(next);
    if (next) localStorage.setItem(draftKey(store.current), next);
    else localStorage.removeItem(draftKey(store.current));
  };
  const send = async (said = text) => {
    const content = said.trim();
    if (!content) return;
    const from = store.current;
    const chosen = from ? null : localStorage.getItem("fabric.model_key");
    write("");
    setProblem("");
    try {
      await actions.send(content, { options: chosen ? { model_key: chosen } : {} });
    } catch (error) {
      localStorage.setItem(draftKey(store.current), content);
      setText(content);
      const told = /** @type {any} */ (error);
      setProblem([told.message, told.hint].filter(Boolean).join(" "));
      if (told.code === "session_moved") actions.loadMessages(store.current);
    }
  };
  /** @param {KeyboardEvent} event */
  const key = (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
    event.preventDefault();
    send();
  };
  const stop = () => actions.stop(store.current).catch((error) => actions.tell(error));
  return html`<form class="composer" onSubmit=${(/** @type {Event} */ event) => (event.preventDefault(), send())}>
    ${problem && html`<p class="note warning" role="alert">${problem}</p>`}
    <div class="composer-box">
      <label class="hidden" for="composer">Message</label>
      <textarea id="composer" ref=${box} data-test="composer" rows="1" placeholder=${busy ? "Queue what comes next" : "Ask, or give a task"} value=${text}
        maxlength="200000" onInput=${(/** @type {any} */ event) => write(event.target.value)} onKeyDown=${key}></textarea>
      ${busy && html`<${IconButton} icon="stop" label="Stop (Esc twice)" class="icon-button stop" data-test="stop" onClick=${stop} />`}
      <button type="submit" class="send" aria-label="Send" title="Send (Enter)" disabled=${!text.trim()} data-test="send"><svg class="icon" viewBox="0 0 24 24" aria-hidden="true"><path d="M12 19V5M6 11l6-6 6 6" /></svg></button>
    </div>
  </form>`;
}

/** @param {import("../model/store.js").Store} store */
function runningIn(store) {
  const turn = store.sessions.get(store.current)?.turn;
  if (!turn) return false;
  const run = store.runs.get(turn);
  return run === undefined || !["completed", "failed", "cancelled"].includes(run.status);
}
