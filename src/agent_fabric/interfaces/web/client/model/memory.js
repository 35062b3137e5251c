// Memory in words: what a turn looked up, where it comes from, how a fact stands. Pure.

/**
 * @typedef {{document: string, title: string, headings: string[], shown: string, text: string}} Passage
 * @typedef {{id: string, text: string, saidBy: string}} TurnFact
 */

const ADDRESS = /^memory:([0-9a-f]+)\//;
const CITED = /\[m:([0-9a-f]{12})\]/g;

/**
 * What a turn was told from memory, each once, in the order in which it came.
 *
 * @param {any[]} told Results of its calls of `memory_search`, and what it was told before its model was asked.
 * @returns {{passages: Passage[], facts: TurnFact[]}}
 */
export function toldFromMemory(told) {
  const passages = new Map();
  const facts = new Map();
  for (const each of told) {
    for (const found of Array.isArray(each?.passages) ? each.passages : []) {
      const document = found.document ?? ADDRESS.exec(String(found.url))?.[1] ?? "";
      const count = found.last - found.first + 1;
      const shown = found.shown ?? (count >= found.of ? "whole" : `${count} of ${found.of} passages`);
      passages.set(`${document} ${found.text}`, { document, title: String(found.title ?? ""), headings: found.headings ?? [], shown, text: String(found.text ?? "") });
    }
    for (const found of Array.isArray(each?.facts) ? each.facts : []) {
      const id = String(found.id).replace(/^\[m:|\]$/g, "");
      facts.set(id, { id, text: String(found.text ?? ""), saidBy: String(found.said_by ?? "") });
    }
  }
  return { passages: [...passages.values()], facts: [...facts.values()] };
}

/** Which facts an answer cites. @param {string} answer @returns {Set<string>} */
export function citedFacts(answer) {
  return new Set([...answer.matchAll(CITED)].map((found) => found[1]));
}

/**
 * How a fact stands, in a word.
 *
 * @param {Record<string, any>} fact
 * @param {number} now Seconds since 1970.
 */
export function factStanding(fact, now) {
  if (fact.status !== "active") return fact.status;
  if (fact.valid_to && fact.valid_to <= now) return "over";
  if (fact.expires_at && fact.expires_at <= now) return "expired";
  return fact.pinned ? "pinned" : "active";
}

/** Where a fact comes from. @param {Record<string, any>} fact */
export function factSource(fact) {
  const who = fact.said_by ? `said by ${fact.said_by}` : "";
  const read = fact.untrusted?.length ? `after reading ${fact.untrusted.join(", ")}` : "";
  return [who, read].filter(Boolean).join(", ") || "typed in";
}

/** What comes of a document, for a colour. @param {Record<string, any>} document */
export function documentColour(document) {
  if (document.state === "ready") return "ready";
  return document.state === "failed" ? "failed" : "running";
}
