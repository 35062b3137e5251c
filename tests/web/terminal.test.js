// A plain terminal, without a page.

import assert from "node:assert/strict";
import test from "node:test";

import { addPrinted, typed } from "../../src/agent_fabric/interfaces/web/client/model/terminal.js";

test("text is added, lines are written over, and what paints screens is left out", () => {
  assert.equal(addPrinted("", "$ ls\r\nfile\r\n$ "), "$ ls\nfile\n$ ");
  assert.equal(addPrinted("a\n10 %", "\r100 %"), "a\n100 %");
  assert.equal(addPrinted("lx", "\b \bs"), "ls");
  assert.equal(addPrinted("", "\u001b[1;32mgreen\u001b[0m\u001b]0;title\u0007 \u001b(B!"), "green !");
  assert.equal(addPrinted("", "\u0007\u0000bell"), "bell");
  assert.equal(addPrinted("x".repeat(300_000), "\ny").length, 200_000);
});

test("what is typed goes as bytes", () => {
  assert.equal(typed("ls\n"), "bHMK");
  assert.equal(typed("ü"), "w7w=");
});
