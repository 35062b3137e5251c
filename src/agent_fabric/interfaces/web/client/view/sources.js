// Marks the sentences of an answer: those that rest on an event lead to it, those that rest on nothing say so.

import { placesOf } from "../model/provenance.js";

const MOST_NAMED = 5;
const NOT_SAID = "figure, .host, .image, .marks";

/**
 * @typedef {{run: string, sentences: import("../model/provenance.js").Sentence[],
 *   open: (seq: number) => void, explain: (text: string) => void}} Sources
 */

/**
 * Mark sentences below an element that shows an answer. What cannot be found in it is listed at its end.
 *
 * @param {HTMLElement} root
 * @param {string} content The answer as it was written.
 * @param {Sources} sources
 */
export function markSentences(root, content, sources) {
  const nodes = textNodes(root);
  const places = placesOf(content, sources.sentences, nodes.map((node) => node.data));
  for (let nth = places.length - 1; nth >= 0; nth -= 1) {
    // From the end: what is cut off there does not move what stands before it.
    const sentence = sources.sentences[nth];
    const wrapped = places[nth].reverse().map((part) => wrap(nodes[part.piece], part, sentence, sources));
    (wrapped[0]?.closest("a") ?? wrapped[0])?.after(marks(sentence, sources)); // never inside a link: what is pressed there follows it
  }
  const lost = sources.sentences.filter((_, nth) => !places[nth].length);
  if (lost.length) root.append(...lost.map((sentence) => listed(sentence, content, sources)));
}

/** @param {HTMLElement} root @returns {Text[]} */
function textNodes(root) {
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT, (node) => (node.parentElement?.closest(NOT_SAID) ? NodeFilter.FILTER_REJECT : NodeFilter.FILTER_ACCEPT));
  /** @type {Text[]} */
  const found = [];
  while (walker.nextNode()) found.push(/** @type {Text} */ (walker.currentNode));
  return found;
}

/**
 * @param {Text} node
 * @param {import("../model/provenance.js").Part} part
 * @param {import("../model/provenance.js").Sentence} sentence
 * @param {Sources} sources
 */
function wrap(node, part, sentence, sources) {
  node.splitText(part.to);
  const middle = node.splitText(part.from);
  const span = document.createElement("span");
  span.className = sentence.events.length ? "traced" : "unproven";
  middle.replaceWith(span);
  span.append(middle);
  span.addEventListener("click", (event) => {
    if (event.target instanceof Element && event.target.closest("a, button")) return;
    if (getSelection()?.isCollapsed === false) return; // the sentence is being copied
    if (sentence.events.length) sources.open(sentence.events[0]);
    else sources.explain(doubtText(sentence));
  });
  return span;
}

/** @param {import("../model/provenance.js").Sentence} sentence @param {Sources} sources */
function marks(sentence, sources) {
  const place = document.createElement("sup");
  place.className = "marks";
  for (const seq of sentence.events) {
    const link = document.createElement("a");
    link.className = "source";
    link.href = `/r/${encodeURIComponent(sources.run)}#${seq}`;
    link.textContent = String(seq);
    link.setAttribute("aria-label", `Source: event ${seq}`);
    link.title = `It rests on event ${seq}`;
    link.addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return; // a tab of its own
      event.preventDefault();
      sources.open(seq);
    });
    place.append(link);
  }
  if (sentence.missing.length) {
    const doubt = document.createElement("button");
    doubt.type = "button";
    doubt.className = "doubt";
    doubt.textContent = "?";
    doubt.title = doubtText(sentence);
    doubt.setAttribute("aria-label", doubtText(sentence));
    doubt.addEventListener("click", () => sources.explain(doubtText(sentence)));
    place.append(doubt);
  }
  return place;
}

/** @param {import("../model/provenance.js").Sentence} sentence */
function doubtText(sentence) {
  const missing = sentence.missing.slice(0, MOST_NAMED).map((each) => `“${each.slice(0, 80)}”`).join(", ");
  const more = sentence.missing.length - MOST_NAMED;
  return `Nothing in the record of this turn says ${missing}${more > 0 ? ` and ${more} more` : ""}.`;
}

/** @param {import("../model/provenance.js").Sentence} sentence @param {string} content @param {Sources} sources */
function listed(sentence, content, sources) {
  const line = document.createElement("p");
  line.className = "quiet";
  line.append(`${[...content].slice(sentence.start, sentence.end).join("").slice(0, 200)} `, marks(sentence, sources));
  return line;
}
