// Markdown as it is written, into the document: elements and text only, never HTML. Links show where they lead, and
// images are not fetched.

import { html, useEffect, useRef } from "../vendor/htm-preact.js";
import * as smd from "../vendor/smd.js";
import { safeLink } from "../model/words.js";
import { copyText } from "./clipboard.js";
import { markSentences } from "./sources.js";

const TAGS = /** @type {Record<number, string>} */ ({
  2: "p", 11: "code", 12: "em", 13: "em", 14: "strong", 15: "strong", 16: "s",
  20: "blockquote", 21: "br", 22: "hr", 23: "ul", 24: "ol", 25: "li", 28: "tr", 30: "code", 31: "code",
});
const DOCUMENT = 1, HEADING_1 = 3, HEADING_6 = 8, CODE_BLOCK = 9, CODE_FENCE = 10, LINK = 17, RAW_URL = 18, IMAGE = 19, CHECKBOX = 26, TABLE = 27, TABLE_ROW = 28, TABLE_CELL = 29;
const HREF = 1, SRC = 2, LANG = 4, CHECKED = 8, START = 16;

/** @typedef {{nodes: Element[], kinds: number[], level: number}} Place `level` is that of the last heading. */

/**
 * Write markdown below an element.
 *
 * @param {Element} root
 * @returns {{write: (text: string) => void, end: () => void}}
 */
export function markdownInto(root) {
  const parser = smd.parser({
    data: /** @type {Place} */ ({ nodes: [root], kinds: [DOCUMENT], level: 2 }),
    add_token: open,
    end_token: close,
    add_text: addText,
    set_attr: attribute,
  });
  return { write: (text) => smd.parser_write(parser, text), end: () => smd.parser_end(parser) };
}

/** One text in one node, however many pieces it came in: thousands of nodes would be laid out in every frame. @param {Place} place @param {string} text */
function addText(place, text) {
  const parent = /** @type {Element} */ (place.nodes.at(-1));
  const last = parent.lastChild;
  if (last instanceof Text) last.appendData(text);
  else parent.append(text);
}

/** @param {Place} place @param {number} kind */
function open(place, kind) {
  if (kind === DOCUMENT) return;
  let parent = /** @type {Element} */ (place.nodes.at(-1));
  /** @type {HTMLElement} */
  let made;
  if (kind === CODE_BLOCK || kind === CODE_FENCE) {
    const figure = create("figure", "code");
    const pre = create("pre");
    pre.tabIndex = 0;
    made = create("code");
    pre.append(made);
    const copy = create("button", "copy");
    copy.textContent = "Copy";
    copy.setAttribute("type", "button");
    copy.addEventListener("click", () => copyCode(copy, made?.textContent ?? ""));
    figure.append(copy, pre);
    parent.append(figure);
  } else if (kind >= HEADING_1 && kind <= HEADING_6) {
    // The page has its own h1 and h2, and no level is left out, whatever a model writes.
    place.level = Math.min(kind, place.level + 1, 6);
    made = create(`h${place.level}`);
    parent.append(made);
  } else if (kind === LINK || kind === RAW_URL) {
    made = create("span", "link");
    parent.append(made);
  } else if (kind === IMAGE) {
    made = create("span", "image");
    made.setAttribute("role", "note");
    parent.append(made);
  } else if (kind === CHECKBOX) {
    const box = /** @type {HTMLInputElement} */ (create("input"));
    box.type = "checkbox";
    box.disabled = true;
    box.setAttribute("aria-label", "task");
    made = box;
    parent.append(made);
  } else if (kind === TABLE) {
    const frame = create("div", "table");
    frame.tabIndex = 0;
    made = create("table");
    frame.append(made);
    parent.append(frame);
  } else if (kind === TABLE_ROW) {
    const rows = parent.children.length;
    if (rows === 0) parent.append(create("thead"));
    if (rows === 1) parent.append(create("tbody"));
    parent = /** @type {Element} */ (parent.lastElementChild);
    made = create("tr");
    parent.append(made);
  } else if (kind === TABLE_CELL) {
    made = create(parent.parentElement?.tagName === "THEAD" ? "th" : "td");
    parent.append(made);
  } else {
    made = create(TAGS[kind] ?? "span");
    parent.append(made);
  }
  place.nodes.push(made);
  place.kinds.push(kind);
}

/** @param {Place} place */
function close(place) {
  const kind = place.kinds.pop();
  const node = place.nodes.pop();
  if (kind === IMAGE && node instanceof HTMLElement) finishImage(node);
  if ((kind === CODE_FENCE || kind === CODE_BLOCK) && node instanceof HTMLElement && node.dataset.language) colour(node, node.dataset.language).catch(() => undefined); // without colours it is still the code
}

/** @param {Place} place @param {number} kind @param {string} value */
function attribute(place, kind, value) {
  const node = /** @type {HTMLElement} */ (place.nodes.at(-1));
  if (kind === HREF) {
    const link = safeLink(value);
    if (link === null) {
      node.title = "This link is not followed";
      return;
    }
    const anchor = /** @type {HTMLAnchorElement} */ (create("a"));
    anchor.href = link.href;
    anchor.target = "_blank";
    anchor.rel = "noopener noreferrer nofollow";
    anchor.append(...node.childNodes);
    const host = create("span", "host");
    host.textContent = link.host;
    node.replaceChildren(anchor);
    if (!(anchor.textContent ?? "").includes(link.host)) node.append(" ", host);
    place.nodes[place.nodes.length - 1] = anchor;
  } else if (kind === SRC) node.dataset.address = value.slice(0, 2000);
  else if (kind === LANG) node.dataset.language = value.slice(0, 40);
  else if (kind === CHECKED) /** @type {HTMLInputElement} */ (node).checked = true;
  else if (kind === START) node.setAttribute("start", String(Number.parseInt(value, 10) || 1));
}

/** Give code its colours, once it is whole. What does that is loaded when it is first needed. @param {HTMLElement} node @param {string} language */
async function colour(node, language) {
  const { tokensOf } = await import("../model/highlight.js");
  const tokens = tokensOf(node.textContent ?? "", language);
  if (tokens.length < 2) return;
  node.replaceChildren(
    ...tokens.map(([kind, text]) => {
      if (!kind) return text;
      const span = create("span", `code-${kind}`);
      span.textContent = text;
      return span;
    }),
  );
}

/** What stands for an image: its text, where it lies, and a way to open it. @param {HTMLElement} node */
function finishImage(node) {
  const link = safeLink(node.dataset.address ?? "");
  const words = node.textContent || "Image";
  node.replaceChildren(`Image: ${words} `);
  if (link !== null) {
    const anchor = /** @type {HTMLAnchorElement} */ (create("a"));
    anchor.href = link.href;
    anchor.target = "_blank";
    anchor.rel = "noopener noreferrer nofollow";
    anchor.textContent = `open at ${link.host}`;
    node.append(anchor);
  }
}

/** @param {string} tag @param {string} [name] */
function create(tag, name) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  return made;
}

/** @param {HTMLElement} button @param {string} text */
async function copyCode(button, text) {
  button.textContent = (await copyText(text)) ? "Copied" : "Not allowed";
  window.setTimeout(() => (button.textContent = "Copy"), 1500);
}

/**
 * Markdown that may grow: only what is new is parsed. Once it is whole, its sentences are marked with their sources.
 *
 * @param {{text: string, done: boolean, sources?: import("./sources.js").Sources}} props
 */
export function Markdown({ text, done, sources }) {
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  const state = useRef({ written: "", done: false, marked: false, writer: /** @type {ReturnType<typeof markdownInto> | null} */ (null) });
  useEffect(() => {
    const root = place.current;
    if (root === null) return;
    const now = state.current;
    const same = now.writer !== null && now.written === text && now.done === done;
    if (!same && (now.writer === null || now.done || !text.startsWith(now.written))) {
      root.replaceChildren();
      now.writer = markdownInto(root);
      now.written = "";
      now.done = false;
      now.marked = false;
    }
    const rest = text.slice(now.written.length);
    if (rest) now.writer?.write(rest);
    now.written = text;
    if (done && !now.done) {
      now.writer?.end();
      now.done = true;
    }
    if (now.done && !now.marked && sources?.sentences.length) {
      markSentences(root, text, sources);
      now.marked = true;
    }
  }, [text, done, sources?.sentences.length]);
  return html`<div class="markdown" ref=${place}></div>`;
}
