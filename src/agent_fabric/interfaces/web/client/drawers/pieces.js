// Parts that several drawers are made of: what stays fresh, a dialog, a button that asks once more, a run and its outcome.

import { html, useEffect, useLayoutEffect, useRef, useState } from "../vendor/htm-preact.js";
import { get } from "../net/api.js";
import { SETTLED } from "../model/fold.js";
import { IconButton, Loading, Trouble, useLoaded } from "../view/parts.js";

const REFRESH_MS = 3000;

/**
 * Something that is fetched again and again while it is looked at. What was fetched before stays until the next has come.
 *
 * @param {() => Promise<any>} load
 * @param {import("../model/store.js").Store} store
 * @param {number} [everyMs]
 * @returns {{value: any, again: () => void, view: any}}
 */
export function useLive(load, store, everyMs = REFRESH_MS) {
  const { value, problem, again } = useLoaded(load, []);
  const failed = useRef(false);
  failed.current = Boolean(problem && !problem.offline);
  useEffect(() => {
    const timer = window.setInterval(() => document.hidden || failed.current || store.connection !== "open" || again(), everyMs);
    return () => clearInterval(timer);
  }, []);
  const known = value !== undefined;
  const view = problem && !(known && problem.offline) ? html`<${Trouble} problem=${problem} retry=${again} />` : known ? null : html`<${Loading} />`;
  return { value, again, view };
}

/** Seconds since 1970, moving. @param {number} [everyMs] */
export function useNow(everyMs = 1000) {
  const [now, setNow] = useState(Date.now() / 1000);
  useEffect(() => {
    const timer = window.setInterval(() => setNow(Date.now() / 1000), everyMs);
    return () => clearInterval(timer);
  }, []);
  return now;
}

/** Words for what went wrong. @param {any} error */
export const problemText = (error) => [error?.message ?? String(error), error?.hint].filter(Boolean).join(" ");

/** A window over everything: the focus stays in it, Esc closes it. @param {any} props */
export function Dialog({ title, close, children }) {
  const place = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useLayoutEffect(() => {
    const dialog = place.current; // at once: what is inside may then take the focus
    dialog?.showModal();
    return () => dialog?.close();
  }, []);
  /** @param {KeyboardEvent} event */
  const key = (event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation(); // it is ours, and not the drawer's
    event.preventDefault();
    close();
  };
  /** @param {Event} event */
  const cancel = (event) => {
    event.preventDefault();
    close();
  };
  return html`<dialog class="dialog" ref=${place} aria-label=${title} data-test="dialog" onKeyDown=${key} onCancel=${cancel}>
    <div class="dialog-head"><h2>${title}</h2><${IconButton} icon="close" label="Close the dialog" onClick=${close} /></div>
    <div class="dialog-body">${children}</div>
  </dialog>`;
}

/** The form of a dialog: its first field has the focus. @returns {{current: any}} */
export function useFirstField() {
  const form = useRef(/** @type {any} */ (null));
  useEffect(() => form.current?.querySelector("input, select, textarea")?.focus(), []);
  return form;
}

/**
 * A button that does something at the server; what cannot be taken back is asked about once more.
 *
 * @param {any} props `sure` is the question.
 */
export function Act({ label, sure, act, actions, after, danger, ...rest }) {
  const [asked, ask] = useState(false);
  const [busy, setBusy] = useState(false);
  const no = useRef(/** @type {HTMLButtonElement | null} */ (null));
  useEffect(() => {
    if (asked) no.current?.focus();
  }, [asked]);
  const go = async () => {
    setBusy(true);
    try {
      const told = await act();
      after?.(told);
    } catch (error) {
      actions.tell(error);
    } finally {
      setBusy(false);
      ask(false);
    }
  };
  if (asked)
    return html`<span class="sure" role="group" aria-label=${sure}><span>${sure}</span>
      <button type="button" class="danger" disabled=${busy} onClick=${go}>${label}</button>
      <button type="button" ref=${no} onClick=${() => ask(false)}>No</button></span>`;
  return html`<button type="button" class=${danger ? "danger" : undefined} disabled=${busy} onClick=${() => (sure ? ask(true) : go())} ...${rest}>${label}${sure ? "…" : ""}</button>`;
}

/** @type {Map<string, string>} How runs ended: that does not change any more. */
const ended = new Map();

/** A link to a run, with its status. @param {any} props */
export function RunLink({ run, actions, words = "run" }) {
  const [status, setStatus] = useState(ended.get(run) ?? "");
  useEffect(() => {
    if (ended.has(run)) return undefined;
    let timer = 0;
    const look = () =>
      get(`/runs/${encodeURIComponent(run)}/status`).then(
        (told) => {
          setStatus(told.status);
          if (SETTLED.has(told.status)) ended.set(run, told.status);
          else timer = window.setTimeout(look, REFRESH_MS);
        },
        () => setStatus(""), // it may not have begun, or may be somebody else's
      );
    look();
    return () => clearTimeout(timer);
  }, [run]);
  return html`<span class="run-link">${status && html`<span class=${`status ${status}`}>${status}</span> `}<button type="button" class="link-button" onClick=${() => actions.show("runs", run)}>${words} ${run.slice(0, 8)}</button></span>`;
}

/** Whether something is this person's own, or they may change what is others'. @param {import("../model/store.js").Store} store @param {string} owner */
export function owns(store, owner) {
  const { start } = store;
  if (start === null) return false;
  return store.may("admin") || owner === (start.kind === "local" ? "local" : `${start.kind}:${start.name}`);
}

/** A heading with what can be done beside it. @param {any} props */
export function Heading({ text, children }) {
  return html`<div class="section-head"><h3>${text}</h3>${children}</div>`;
}

/** A way back to a list. @param {any} props */
export function Back({ to, about = "", words, actions }) {
  return html`<button type="button" class="quiet-button" onClick=${() => actions.show(to, about)}>${words}</button>`;
}

/** The first so many of a list, and a button for more. @param {readonly any[]} all @param {number} step @returns {[any[], any]} */
export function useSome(all, step) {
  const [most, setMost] = useState(step);
  const more = all.length > most && html`<button type="button" class="quiet-button" onClick=${() => setMost(most + step)}>${all.length - most} more</button>`;
  return [all.slice(0, most), more];
}
