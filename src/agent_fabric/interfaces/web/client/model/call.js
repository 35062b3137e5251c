// A call that a person agrees to: how it is edited, and what became of it. Pure: nothing here knows a page.

import { machineCall, machineCallText } from "./machines.js";
import { hiddenAsJson, hides } from "./visible.js";
import { counted } from "./words.js";

const MOST_SUMMARY = 300;
const HASH_CHARS = 12;

/** The hash of a call, as people see it. @param {string} [binding] */
export const shortHash = (binding) => (binding ?? "").slice(0, HASH_CHARS);

/** How long a call is. @param {string} text */
export function sizeOf(text) {
  const lines = text.split("\n").length;
  return lines > 1 ? `${lines.toLocaleString("en")} lines` : `${text.length.toLocaleString("en")} characters`;
}

/** @param {Record<string, any>} args @returns {string | null} The command of a call that is nothing else. */
const onlyCommand = (args) => (typeof args?.command === "string" && Object.keys(args).length === 1 ? args.command : null);

/**
 * What an edit begins with. A command is edited as it is; where a field would change it, or hide something, and for all
 * other arguments, it is JSON in which nothing hides.
 *
 * @param {Record<string, any>} args
 * @returns {{asJson: boolean, text: string} | null} Null: it cannot be edited here without being changed.
 */
export function editable(args) {
  const command = onlyCommand(args);
  if (command !== null && !command.includes("\r") && !hides(command)) return { asJson: false, text: command };
  return isExact(args) ? { asJson: true, text: hiddenAsJson(JSON.stringify(args, null, 2)) } : null;
}

/**
 * The arguments that an edit means.
 *
 * @param {{asJson: boolean}} edit
 * @param {string} text
 * @returns {Record<string, any>}
 * @throws {TypeError} It means none.
 */
export function argsFrom(edit, text) {
  if (!edit.asJson) return { command: text };
  let args;
  try {
    args = JSON.parse(text);
  } catch {
    throw new TypeError("The arguments are not valid JSON.");
  }
  if (args === null || typeof args !== "object" || Array.isArray(args)) throw new TypeError("The arguments must be one JSON object.");
  if (!isExact(args)) throw new TypeError("A number is too large to be sent exactly. Answer it in a terminal: fabric approvals approve ID --args @FILE");
  return args;
}

/** Tell whether all numbers are as they were written: those above 2^53 are rounded. @param {any} value @returns {boolean} */
function isExact(value) {
  if (typeof value === "number") return Number.isSafeInteger(value) || (!Number.isInteger(value) && Number.isFinite(value));
  return value === null || typeof value !== "object" || Object.values(value).every(isExact);
}

/** A call in one line, for what is settled. @param {Record<string, any>} asked @param {Record<string, any>} args */
export function summary(asked, args) {
  const machines = machineCall({ ...asked, args });
  const words = machines
    ? `${machines.kind === "plan" ? counted(machines.nodes.length, "machine") : machines.nodes[0]}: ${machineCallText(machines.tool, machines.args)}`
    : (onlyCommand(args) ?? `${asked.tool} ${JSON.stringify(args ?? {})}`);
  return words.length > MOST_SUMMARY ? `${words.slice(0, MOST_SUMMARY)}…` : words;
}

/**
 * The call as it is read: of a machine's command the command itself, since the card names the machine; else all of it.
 *
 * @param {Record<string, any>} card
 * @returns {string}
 */
export function wholeText(card) {
  const machines = machineCall(card);
  return machines?.tool === "run_command" && machines.kind === "command" && typeof machines.args.command === "string" && Object.keys(machines.args).length === 1 ? machines.args.command : card.text;
}
