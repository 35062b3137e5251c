// The clock: what is started by itself, when next, and what came of it last.

import { html, useState } from "../vendor/htm-preact.js";
import { get } from "../net/api.js";
import { firingText, ruleText, startsText, untilText } from "../model/schedule.js";
import { agoText } from "../model/words.js";
import { Empty, Later } from "../view/parts.js";
import { Dialog, Heading, RunLink, useLive, useNow, useSome } from "./pieces.js";

const STEP = 50;
const FEW = 30;

/** @param {import("../view/app.js").Props & {about: string}} props */
export function Clock({ store, actions, about }) {
  const cut = about.indexOf("/");
  const [kind, name] = cut < 0 ? [about, ""] : [about.slice(0, cut), about.slice(cut + 1)];
  const props = { store, actions, item: name };
  if (kind === "schedule") return html`<${Later} key=${about} load=${() => import("./schedule.js")} name="OneSchedule" ...${props} />`;
  if (kind === "sensor") return html`<${Later} key=${about} load=${() => import("./sensors.js")} name="OneSensor" ...${props} />`;
  return html`<${Schedules} store=${store} actions=${actions} />
    ${store.may("admin") && html`<${Later} key="sensors" load=${() => import("./sensors.js")} name="Sensors" ...${props} />
      <${Later} key="receivers" load=${() => import("./receivers.js")} name="Receivers" ...${props} />
      <${Later} key="letters" load=${() => import("./letters.js")} name="Letters" ...${props} />`}`;
}

/** @param {import("../view/app.js").Props} props */
function Schedules({ store, actions }) {
  const { value, view } = useLive(() => get("/api/v1/schedules"), store);
  const [adding, setAdding] = useState(false);
  const [words, setWords] = useState("");
  const all = value?.schedules ?? [];
  const found = words ? all.filter((/** @type {any} */ each) => `${each.name} ${startsText(each)}`.toLowerCase().includes(words.toLowerCase())) : all;
  const [shown, more] = useSome(found, STEP);
  const now = useNow();
  const add = store.may("runs") && html`<button type="button" data-test="new-schedule" onClick=${() => setAdding(true)}>New schedule</button>`;
  return html`<${Heading} text="Schedules">${add}<//>
    ${view}
    ${value && !all.length && html`<${Empty} text="Nothing is scheduled." hint="A schedule starts a task, an agent, a workflow or a message at set times, each time exactly once." />`}
    ${all.length > STEP / 5 && html`<div class="form"><label>Find <input type="search" value=${words} onInput=${(/** @type {any} */ event) => setWords(event.target.value)} /></label></div>`}
    <ul class="rows">${shown.map((each) => html`<${Line} key=${each.id} schedule=${each} now=${now} actions=${actions} few=${all.length <= FEW} />`)}</ul>
    ${more}
    ${adding && html`<${Dialog} title="New schedule" close=${() => setAdding(false)}><${Later} load=${() => import("./schedule_form.js")} name="ScheduleForm" store=${store} actions=${actions}
      done=${(/** @type {any} */ made) => (setAdding(false), actions.show("clock", `schedule/${made.name}`))} /><//>`}`;
}

/** @param {any} props */
function Line({ schedule, now, actions, few }) {
  const { last } = schedule;
  return html`<li data-test="schedule"><button type="button" class="row-button" onClick=${() => actions.show("clock", `schedule/${schedule.name}`)}>
      <span class="row-title">${schedule.name}</span>
      <span class="row-facts">${startsText(schedule)}</span>
      <span class="row-facts"><${State} schedule=${schedule} /><span>${ruleText(schedule)}</span>${schedule.next_at && html`<span>next ${untilText(schedule.next_at, now)}</span>`}</span></button>
    <span class="row-facts"><span>Last: ${firingText(last)}${last?.fired_at ? `, ${agoText(last.fired_at, now)}` : ""}</span>${few && last?.run_id && html`<${RunLink} key=${last.run_id} run=${last.run_id} actions=${actions} />`}</span></li>`;
}

/** Whether it fires. @param {any} props */
export function State({ schedule }) {
  if (schedule.is_active) return html`<span class=${`status ${schedule.next_at ? "ready" : ""}`}>${schedule.next_at ? "on" : "over"}</span>`;
  return html`<span class="status waiting">paused${schedule.paused_by ? ` by ${schedule.paused_by}` : ""}</span>`;
}
