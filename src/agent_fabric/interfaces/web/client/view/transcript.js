// What was said and done, the newest below. It scrolls along only for those who are at its end.

import { html, useEffect, useLayoutEffect, useRef, useState } from "../vendor/htm-preact.js";
import { useStore } from "../model/store.js";
import { Empty, Icon, Later, Loading, Trouble } from "./parts.js";

const NEAR_END_PX = 64;

/**
 * @typedef {{run: string, question: import("../model/store.js").ChatMessage | null,
 *   answer: import("../model/store.js").ChatMessage | null}} TurnMessages
 */

/**
 * Put question and answer of each turn together.
 *
 * @param {import("../model/store.js").ChatMessage[]} messages
 * @returns {TurnMessages[]}
 */
export function turnsOf(messages) {
  /** @type {Map<string, TurnMessages>} */
  const turns = new Map();
  for (const message of messages) {
    const run = message.metadata?.run_id ?? message.id;
    let turn = turns.get(run);
    if (turn === undefined) turns.set(run, (turn = { run, question: null, answer: null }));
    if (message.role === "user") turn.question = message;
    else turn.answer = message;
  }
  return [...turns.values()];
}

/** @param {import("./app.js").Props} props */
export function Transcript({ store, actions }) {
  useStore(store);
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  const atEnd = useRef(true);
  const top = useRef(0);
  const [below, setBelow] = useState(false);
  const talk = store.current ? store.conversation(store.current) : null;

  const toEnd = () => {
    const box = place.current;
    if (box !== null) box.scrollTop = box.scrollHeight;
    atEnd.current = true;
    setBelow(false);
  };
  useLayoutEffect(toEnd, [store.current]);
  useLayoutEffect(() => {
    if (!atEnd.current && store.sessions.get(store.current)?.turn) setBelow(true);
  }, [store.version]);
  useEffect(() => {
    const box = place.current;
    if (box === null) return undefined;
    // Told after the layout of a frame and before it is painted: asking for a height earlier would mean another layout.
    const watch = new ResizeObserver(() => atEnd.current && toEnd());
    for (const child of box.children) watch.observe(child);
    return () => watch.disconnect();
  }, [store.current]);
  const scrolled = () => {
    const box = place.current;
    if (box === null) return;
    const near = box.scrollHeight - box.scrollTop - box.clientHeight <= NEAR_END_PX;
    // What grows below does not take anybody away from the end; going up does.
    if (near || box.scrollTop < top.current) atEnd.current = near;
    top.current = box.scrollTop;
    if (near) setBelow(false);
  };
  const older = async () => {
    const box = place.current;
    const before = box?.scrollHeight ?? 0;
    await actions.loadMessages(store.current, true);
    requestAnimationFrame(() => box && (box.scrollTop += box.scrollHeight - before));
  };
  const turns = talk ? turnsOf(talk.messages) : [];
  const waiting = [...store.unsent.values()].filter((each) => each.session === store.current);
  return html`<div class="transcript-frame">
    <div class="transcript" ref=${place} onScroll=${scrolled} tabindex="0" aria-label="Conversation">
      <div class="column" role="log" aria-live="off" data-test="transcript">
        ${talk?.before && html`<button type="button" class="quiet-button older" onClick=${older} disabled=${talk.loading}>Older messages</button>`}
        ${talk && !talk.loaded && talk.loading && html`<${Loading} />`}
        ${talk?.problem && html`<${Trouble} problem=${talk.problem} retry=${() => actions.loadMessages(store.current)} />`}
        ${!talk && html`<${Welcome} store=${store} />`}
        ${talk?.loaded && !turns.length && !waiting.length && html`<${Empty} text="Nothing was said yet." />`}
        ${turns.length > 0 && html`<${Later} load=${() => import("./turn.js")} name="Turns" turns=${turns} store=${store} actions=${actions} />`}
        ${turns.length > 0 && !store.sessions.get(store.current)?.turn && html`<${Later} quiet load=${() => import("./record.js")} name="Verified" store=${store} session=${store.current} answered=${talk?.messages.at(-1)?.id ?? ""} automatic=${talk?.before === null} />`}
        ${waiting.map((unsent) => html`<article class="turn" key=${unsent.key}><div class="question unsent"><p>${unsent.content}</p><p class="quiet">Not sent yet</p></div></article>`)}
      </div>
    </div>
    ${below && html`<button type="button" class="below" onClick=${toEnd}><${Icon} name="down" /> New below</button>`}
  </div>`;
}

/** @param {{store: import("../model/store.js").Store}} props */
function Welcome({ store }) {
  return html`<div class="welcome">
    <h2>What shall be done?</h2>
    <p>Ask, or give a task. You see every step, and nothing dangerous happens without your answer.</p>
    <ul class="examples">
      ${EXAMPLES.map((text) => html`<li key=${text}><button type="button" onClick=${() => fill(text)}>${text}</button></li>`)}
    </ul>
    <p class="quiet">${store.start ? `Logged in as ${store.start.name}. ` : ""}<span class="only-keys">Press <kbd>?</kbd> for keys.</span></p>
  </div>`;
}

const EXAMPLES = [
  "Write hello.py that prints the first ten primes, and run it.",
  "Which files are in this workspace, and what are they for?",
  "Explain what you can do here.",
];

/** @param {string} text */
function fill(text) {
  const box = /** @type {HTMLTextAreaElement | null} */ (document.getElementById("composer"));
  if (box === null) return;
  box.value = text;
  box.dispatchEvent(new Event("input", { bubbles: true }));
  box.focus();
}
