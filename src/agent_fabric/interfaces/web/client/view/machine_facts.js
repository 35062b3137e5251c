// What one has to know about a machine before one agrees to a command on it: what is in force there, and who it runs as.

import { html } from "../vendor/htm-preact.js";
import { get } from "../net/api.js";
import { labelsText, policyInForce, ruleOrigin } from "../model/machines.js";
import { useLoaded } from "./parts.js";

/** @param {any} props */
export function MachineFacts({ node, rule }) {
  const path = `/api/v1/nodes/${encodeURIComponent(node)}`;
  const { value } = useLoaded(() => Promise.all([get(path), get(`${path}/policy`)]), []);
  if (value === undefined) return null; // the card is complete without it
  const [machine, policy] = value;
  const force = policyInForce(policy);
  const uid = machine.reported?.uid;
  const facts = /** @type {[string, string][]} */ ([
    ["Rule of", ruleOrigin(rule, policy) || force.why],
    ["In force there", `${force.usual}${machine.reported?.approvals === "signed" ? "; only signed approvals count" : ""}`],
    ["Runs as", uid === undefined ? "" : uid === 0 ? "root" : `user ${uid}`],
    ["The machine is", [machine.status, labelsText(machine.labels)].filter(Boolean).join(", ")],
  ]);
  return html`<dl class="facts" data-test="machine-facts">${facts.filter(([, each]) => each).map(([name, each]) => html`<div key=${name}><dt>${name}</dt><dd>${each}</dd></div>`)}</dl>`;
}
