// Sensors: what each watches, what its last look found, and which runs came of what it noticed.

import { html } from "../vendor/htm-preact.js";
import { get, post } from "../net/api.js";
import { intervalText } from "../model/schedule.js";
import { agoText, dateText } from "../model/words.js";
import { Empty } from "../view/parts.js";
import { Act, Back, Heading, RunLink, useLive, useNow } from "./pieces.js";

/** @param {import("../view/app.js").Props} props */
export function Sensors({ store, actions }) {
  const { value, view } = useLive(() => get("/api/v1/sensors"), store);
  const now = useNow();
  return html`<${Heading} text="Sensors" />
    ${view}
    ${value && !value.sensors.length && html`<${Empty} text="Nothing is watched." hint="A workflow with triggers.on_change or on_event is armed by itself; more sensors stand in the configuration." />`}
    <ul class="rows">${(value?.sensors ?? []).map((/** @type {any} */ each) => html`<li key=${each.name}><button type="button" class="row-button" onClick=${() => actions.show("clock", `sensor/${each.name}`)}>
      <span class="row-title">${each.name}</span>
      <span class="row-facts"><span class="status ready">${each.kind.replaceAll("_", " ")}</span><span>starts ${each.workflow}</span>${each.subjects.length > 0 && html`<span>${each.subjects.join(", ")}</span>`}${each.every_s > 0 && !each.subjects.length && html`<span>${intervalText(each.every_s)}</span>`}</span>
      <span class="row-facts"><span>${each.looked_at ? `looked ${agoText(each.looked_at, now)}` : "has not looked yet"}</span>${each.reason && html`<span>${each.reason}</span>`}</span></button></li>`)}</ul>`;
}

/** @param {import("../view/app.js").Props & {item: string}} props */
export function OneSensor({ store, actions, item }) {
  const path = `/api/v1/sensors/${encodeURIComponent(item)}`;
  const { value, view, again } = useLive(() => get(`${path}/why`), store);
  const now = useNow();
  return html`<${Back} to="clock" words="All of the clock" actions=${actions} />
    ${view ?? html`<h3>${item}</h3>
      <p class="row-facts"><span>${value.looked_at ? `looked ${agoText(value.looked_at, now)}` : "has not looked yet"}</span>${value.reason && html`<span>${value.reason}</span>`}</p>
      <div class="buttons"><${Act} label="Look now" actions=${actions} act=${() => post(`${path}/look`)} after=${(/** @type {any} */ told) => (actions.say(told.runs.length ? `It has started ${told.runs.length}.` : `Nothing was started: ${told.reason || "nothing is new"}.`), again())} /></div>
      <h3>What it noticed</h3>
      ${!value.happenings.length && html`<${Empty} text="Nothing yet." hint="What it notices is listed here, with the run that came of it." />`}
      <ul class="rows">${value.happenings.map((/** @type {any} */ each) => html`<li key=${each.key}><span class="row-title">${each.key}</span><span class="row-facts"><span>${dateText(each.at)}</span>${each.run_id ? html`<${RunLink} key=${each.run_id} run=${each.run_id} actions=${actions} />` : html`<span class="status waiting">started nothing</span>`}${each.reason && html`<span>${each.reason}</span>`}</span></li>`)}</ul>`}`;
}
