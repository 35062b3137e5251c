// Memory in words, without a page.

import assert from "node:assert/strict";
import test from "node:test";

import { citedFacts, documentColour, factSource, factStanding, toldFromMemory } from "../../src/agent_fabric/interfaces/web/client/model/memory.js";

test("what was looked up is shown once, whatever the results look like", () => {
  const passage = { url: "memory:00ff00ff00ff00ff/2-3", title: "Handbook", headings: ["Money"], shown: "passages 3 to 4 of 41", text: "Expenses are refunded monthly." };
  const fact = { id: "[m:0123456789ab]", text: "The pool opens at 9", said_by: "ann" };
  const before = { passages: [{ document: "00ff00ff00ff00ff", title: "Handbook", headings: ["Money"], first: 2, last: 3, of: 41, text: passage.text }], facts: [{ id: "0123456789ab", text: fact.text, said_by: "ann" }] };
  const { passages, facts } = toldFromMemory([before, { passages: [passage], facts: [fact] }, { passages: [passage] }, null, "cut", { passages: "?" }]);
  assert.equal(toldFromMemory([before]).passages[0].shown, "2 of 41 passages");
  assert.deepEqual(passages.map((each) => [each.document, each.title]), [["00ff00ff00ff00ff", "Handbook"]]);
  assert.deepEqual(facts, [{ id: "0123456789ab", text: "The pool opens at 9", saidBy: "ann" }]);
  assert.deepEqual([...citedFacts("At nine [m:0123456789ab], and [m:nothing].")], ["0123456789ab"]);
});

test("a fact says how it stands and where it comes from", () => {
  const fact = { status: "active", pinned: false, expires_at: 200, valid_to: null, said_by: "ann", untrusted: [] };
  assert.equal(factStanding(fact, 100), "active");
  assert.equal(factStanding(fact, 200), "expired");
  assert.equal(factStanding({ ...fact, pinned: true }, 100), "pinned");
  assert.equal(factStanding({ ...fact, valid_to: 50 }, 100), "over");
  assert.equal(factStanding({ ...fact, status: "proposed" }, 100), "proposed");
  assert.equal(factSource(fact), "said by ann");
  assert.equal(factSource({ ...fact, untrusted: ["the document X"] }), "said by ann, after reading the document X");
  assert.equal(factSource({ said_by: "", untrusted: [] }), "typed in");
});

test("a document that failed looks like it", () => {
  assert.deepEqual(["ready", "failed", "parsing", "words_ready"].map((state) => documentColour({ state })), ["ready", "failed", "running", "running"]);
});
