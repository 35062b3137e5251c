// Code in colours: every character stays, and no text takes long.

import assert from "node:assert/strict";
import test from "node:test";

import { MOST_CHARS, tokensOf } from "../../src/agent_fabric/interfaces/web/client/model/highlight.js";

const LANGUAGES = ["python", "ts", "json", "bash", "yaml", "ini", "sql", "go", "rs", "c++", "css", "html", "diff", "", "brainfuck", "constructor", "__proto__"];
/** @param {string} text @param {string} language @param {string} kind */
const texts = (text, language, kind) => tokensOf(text, language).filter(([each]) => each === kind).map(([, each]) => each);

test("keywords, strings, comments and numbers are told apart", () => {
  const code = 'def f(x):  # "no string"\n    return f"a # b" if x > 0x1f else None';
  assert.deepEqual(texts(code, "python", "keyword"), ["def", "return", "if", "else", "None"]);
  assert.deepEqual(texts(code, "py", "string"), ['f"a # b"']);
  assert.deepEqual(texts(code, "python", "comment"), ['# "no string"']);
  assert.deepEqual(texts(code, "python", "number"), ["0x1f"]);
  assert.deepEqual(texts("SELECT 1 -- all", "sql", "keyword"), ["SELECT"]);
  assert.deepEqual(texts("a: 1\nb: x # c", "yaml", "name"), ["a", "b"]);
  assert.deepEqual(texts("echo $HOME # it's", "sh", "comment"), ["# it's"]);
  assert.deepEqual(texts("+a\n-b\n c", "diff", "add"), ["+a\n"]);
});

test("whatever is written, no character is lost", () => {
  let seed = 7;
  const next = (/** @type {number} */ below) => (seed = (seed * 1103515245 + 12345) % 2147483648) % below;
  const pieces = ['"', "'", "`", "#", "//", "/*", "*/", "\\", "\n", " ", "a", "9", "if", "<!--", "-->", "${", "}", "é", "👋", "--", "=", ":", "@", "[", "]", '"""', "\u2028", "<script>"];
  for (let round = 0; round < 2000; round += 1) {
    const text = Array.from({ length: next(40) }, () => pieces[next(pieces.length)]).join("");
    const language = LANGUAGES[next(LANGUAGES.length)];
    assert.equal(tokensOf(text, language).map(([, each]) => each).join(""), text, language);
  }
});

test("hostile texts take no time", () => {
  const begun = process.cpuUsage().user; // other programs may have the processor meanwhile
  for (const language of LANGUAGES)
    for (const piece of ['"', '"\\', "/*", "'''", "<!--", "#", " ", "a", "a.", "--", "-- ", "\n", "1e", "1_", "[", "{ ", "- ", "a:", "r#", "\\"]) {
      const text = piece.repeat(MOST_CHARS / piece.length);
      assert.equal(tokensOf(text, language).reduce((sum, [, each]) => sum + each.length, 0), text.length);
    }
  const took = (process.cpuUsage().user - begun) / 1000;
  assert.ok(took < 5000, `${took} ms`);
});
