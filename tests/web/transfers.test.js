import assert from "node:assert/strict";
import test from "node:test";

import { base64Of, bytesOf, CHUNK_BYTES, fetchAll, sendAll, sha256Of } from "../../src/agent_fabric/interfaces/web/client/model/transfers.js";

test("a file is sent in chunks, goes on where the machine is, and does not go on for ever", async () => {
  const bytes = Uint8Array.from({ length: 2 * CHUNK_BYTES + 5 }, (_, nth) => nth % 251);
  let there = Buffer.from(bytes.subarray(0, 3));
  const told = [];
  await sendAll(bytes, 3, async ({ offset, data }) => {
    if (offset === there.length) there = Buffer.concat([there, bytesOf(data)]);
    return { offset: there.length, done: there.length === bytes.length };
  }, (done) => told.push(done));
  assert.equal(base64Of(there), base64Of(bytes));
  assert.deepEqual(told, [3 + CHUNK_BYTES, 3 + 2 * CHUNK_BYTES, bytes.length]);
  await assert.rejects(sendAll(bytes, 0, async () => ({ offset: 0, done: false }), () => {}), /does not take/);
});

test("a file that did not arrive as it was is not kept", async () => {
  const bytes = new TextEncoder().encode("hello");
  const about = { size: 5, sha256: await sha256Of(bytes) };
  const part = async (offset) => ({ data: base64Of(bytes.subarray(offset, offset + 2)) });
  assert.deepEqual(await fetchAll(about, part, () => {}), bytes);
  await assert.rejects(fetchAll({ ...about, sha256: "0" }, part, () => {}), /did not arrive/);
  await assert.rejects(fetchAll({ ...about, size: 9 }, async (offset) => ({ data: base64Of(bytes.subarray(offset, offset + 2)) }), () => {}), /has changed/);
});
