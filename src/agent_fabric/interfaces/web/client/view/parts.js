// Small parts that many views are made of.

import { html, useEffect, useRef, useState } from "../vendor/htm-preact.js";
import { Problem } from "../net/api.js";

const PATHS = /** @type {Record<string, string>} */ ({
  menu: "M4 6h16M4 12h16M4 18h16",
  plus: "M12 5v14M5 12h14",
  shield: "M12 3l7 3v5c0 4.6-2.9 8-7 10-4.1-2-7-5.4-7-10V6z",
  clock: "M12 4a8 8 0 100 16 8 8 0 000-16zM12 8v4l3 2",
  gear: "M4 7h9M17 7h3M4 17h3M11 17h9M15 4.5v5M9 14.5v5",
  trash: "M5 7h14M10 7V5h4v2M7 7l1 12h8l1-12",
  send: "M5 12h13M12 5l7 7-7 7",
  stop: "M7 7h10v10H7z",
  close: "M6 6l12 12M18 6L6 18",
  search: "M11 5a6 6 0 100 12 6 6 0 000-12zM20 20l-4.7-4.7",
  panel: "M4 5h16v14H4zM14 5v14",
  check: "M5 12l5 5 9-10",
  chevron: "M9 6l6 6-6 6",
  runs: "M5 5v14l14-7z",
  workflows: "M6 4h4v4H6zM14 16h4v4h-4zM8 8v6a2 2 0 002 2h4",
  agents: "M12 4a4 4 0 100 8 4 4 0 000-8zM4 20c1-4 4-6 8-6s7 2 8 6",
  models: "M12 3l8 4.500v9L12 21l-8-4.500v-9zM12 12l8-4.500M12 12v9M12 12L4 7.5",
  audit: "M6 4h12v16H6zM9 8h6M9 12h6M9 16h4",
  people: "M9 5a3 3 0 100 6 3 3 0 000-6zM3 19c.7-3 3-5 6-5s5.3 2 6 5M16 6a2.5 2.5 0 110 5M18 19c-.2-1.6-.8-3-1.6-4",
  more: "M5 12h.01M12 12h.01M19 12h.01",
  keys: "M4 7h16v10H4zM7 10h.01M11 10h.01M15 10h.01M8 14h8",
  branch: "M7 4v16M7 14c6 0 10-2 10-7M17 4v3",
  down: "M12 5v14M6 13l6 6 6-6",
});

/** @param {{name: string}} props */
export function Icon({ name }) {
  return html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false"><path d=${PATHS[name] ?? PATHS.more} /></svg>`;
}

/** A button that is only a picture; its name is read out and shown. @param {any} props */
export function IconButton({ icon, label, children, ...rest }) {
  return html`<button type="button" class="icon-button" aria-label=${label} title=${label} ...${rest}><${Icon} name=${icon} />${children}</button>`;
}

/** What went wrong, and what to do about it. @param {{problem: any, retry?: () => void}} props */
export function Trouble({ problem, retry }) {
  const known = problem instanceof Problem;
  const scope = known && problem.status === 403;
  return html`<div class="state" role="alert">
    <p><strong>${scope ? "You may not see this" : known ? problem.message : "Something went wrong"}</strong></p>
    <p>${scope ? problem.message : known ? problem.hint : String(problem?.message ?? problem)}</p>
    ${known && html`<p class="quiet">${problem.code}</p>`}
    ${retry && !scope && html`<button type="button" onClick=${retry}>Try again</button>`}
  </div>`;
}

/** @param {{text: string, hint?: string}} props */
export function Empty({ text, hint }) {
  return html`<div class="state"><p>${text}</p>${hint && html`<p class="quiet">${hint}</p>`}</div>`;
}

export function Loading() {
  return html`<div class="state" aria-busy="true"><span class="spinner"></span> Loading…</div>`;
}

/**
 * Something that is fetched when it is first shown: loading, error, and what came.
 *
 * @param {() => Promise<any>} load
 * @param {readonly unknown[]} inputs
 * @returns {{value: any, problem: any, again: () => void, view: any}}
 */
export function useLoaded(load, inputs) {
  const [state, setState] = useState(/** @type {{value: any, problem: any, round: number}} */ ({ value: undefined, problem: null, round: 0 }));
  useEffect(() => {
    let stale = false;
    load().then(
      (value) => stale || setState((before) => ({ ...before, value, problem: null })),
      (problem) => stale || setState((before) => ({ ...before, problem })),
    );
    return () => {
      stale = true;
    };
  }, [...inputs, state.round]);
  const again = () => setState((before) => ({ ...before, problem: null, round: before.round + 1 }));
  const view = state.problem ? html`<${Trouble} problem=${state.problem} retry=${again} />` : state.value === undefined ? html`<${Loading} />` : null;
  return { value: state.value, problem: state.problem, again, view };
}

/** Keep the focus inside while something is open, and give it back afterwards. @param {() => void} close */
export function useSheet(close) {
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    const before = document.activeElement;
    const sheet = place.current;
    sheet?.focus();
    return () => {
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  /** @param {KeyboardEvent} event */
  const onKeyDown = (event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    const field = /** @type {any} */ (event.target);
    if (field.matches?.("input, textarea") && field.value && field.value !== field.defaultValue) place.current?.focus(); // what was written there stays
    else close();
  };
  return { ref: place, onKeyDown, tabIndex: -1 };
}

/** Text that is cut with a word about it, and shown whole when asked. @param {{text: string, most?: number}} props */
export function Output({ text, most = 4096 }) {
  const [shown, show] = useState(most);
  const rest = text.length - shown;
  return html`<div class="output"><pre tabindex="0">${text.slice(0, shown)}</pre>
    ${rest > 0 && html`<button type="button" class="quiet-button" onClick=${() => show(shown + 16 * most)}>${rest.toLocaleString()} more characters: show more</button>`}</div>`;
}

/** A part whose module is loaded when it is first needed; a quiet one shows nothing until then. @param {any} props */
export function Later({ load, name, quiet, ...rest }) {
  const [part, setPart] = useState(/** @type {any} */ (null));
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  useEffect(() => {
    load().then(
      (/** @type {any} */ module) => setPart(() => module[name]),
      (/** @type {any} */ error) => (setProblem(error), rest.store.set({ outdated: true })),
    );
  }, []);
  if (problem) return html`<${Trouble} problem=${problem} />`;
  if (part === null && quiet) return null;
  return part === null ? html`<${Loading} />` : html`<${part} ...${rest} />`;
}

const THEME_KEY = "fabric.theme";

/** How the page looks. @returns {string} `light`, `dark` or `system`. */
export const theme = () => localStorage.getItem(THEME_KEY) ?? "system";

/** @param {string} [chosen] */
export function applyTheme(chosen) {
  if (chosen) localStorage.setItem(THEME_KEY, chosen);
  const now = theme();
  if (now === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = now;
}
