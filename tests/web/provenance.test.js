// Sentences of an answer are found in what is shown of it, whatever markdown has made of them.

import assert from "node:assert/strict";
import test from "node:test";

import { lettersOf, placesOf } from "../../src/agent_fabric/interfaces/web/client/model/provenance.js";

/** @param {string} content @param {string[]} wanted @param {string[]} pieces */
const shown = (content, wanted, pieces) => {
  const sentences = wanted.map((text) => {
    const start = [...content.slice(0, content.indexOf(text))].length;
    return { start, end: start + [...text].length, events: [1], missing: [] };
  });
  return placesOf(content, sentences, pieces).map((parts) => parts.map((part) => pieces[part.piece].slice(part.from, part.to)));
};

test("a sentence is found behind emoji, in several pieces, with its full stop", () => {
  const content = "👋 Hi! The disk is **97%** full. Most is `/var/log`.";
  const pieces = ["👋 Hi! The disk is ", "97%", " full. Most is ", "/var/log", "."];
  assert.deepEqual(shown(content, ["The disk is **97%** full.", "Most is `/var/log`."], pieces), [
    ["The disk is ", "97%", " full."],
    ["Most is ", "/var/log"],
  ]);
});

test("links count with their words, and what is not shown is not found", () => {
  const content = "See [the guide](https://docs.example.org/a_(b)). It has 12 pages.";
  assert.equal(lettersOf("a [b c](https://d.example) e"), "abce");
  assert.deepEqual(shown("It has [12 pages](https://x.example/y).", ["It has [12 pages](https://x.example/y)."], ["It has ", "12 pages"]), [["It has ", "12 pages"]]);
  assert.deepEqual(shown(content, ["It has 12 pages."], ["something else"]), [[]]);
});

test("the same words twice are two places", () => {
  const content = "It is 5. It is 5.";
  const sentences = [0, 9].map((start) => ({ start, end: start + 8, events: [], missing: ["5"] }));
  assert.deepEqual(placesOf(content, sentences, [content]), [[{ piece: 0, from: 0, to: 8 }], [{ piece: 0, from: 9, to: 17 }]]);
});

test("letters beyond the basic plane keep their places", () => {
  const content = "𝟙𝟚 apples. Then 7.";
  assert.deepEqual(shown(content, ["Then 7."], [content]), [["Then 7."]]);
});
