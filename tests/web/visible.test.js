// What a person agrees to is what they see.

import assert from "node:assert/strict";
import test from "node:test";

import { hides, visible } from "../../src/agent_fabric/interfaces/web/client/model/visible.js";

test("what turns, hides or imitates text is written out", () => {
  assert.equal(visible("make deploy \u202ecod"), "make deploy \\u{202e}cod");
  assert.equal(visible("a\u200bb\u0007\u00a0c\u{e0041}"), "a\\u{200b}b\\u{7}\\u{a0}c\\u{e0041}");
  assert.equal(visible("a\rb\u2028c"), "a\\u{d}b\\u{2028}c");
});

test("what people write stays as it is", () => {
  for (const text of ["ls -la\n\tcd x", "Grüße, 世界, مرحبا, שלום", "👋🏽 é", ""]) {
    assert.equal(visible(text), text);
    assert.equal(hides(text), false);
  }
});
