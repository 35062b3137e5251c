// The clock: what is started by itself, when next, and what came of it last.

import { html, useEffect, useRef, useState } from "../vendor/htm-preact.js";
import { get } from "../net/api.js";
import { firingText, ruleText, startsText, untilText } from "../model/schedule.js";
import { agoText } from "../model/words.js";
import { Empty, Later } from "../view/parts.js";
import { Dialog, Heading, RunLink, useLive, useNow } from "./pieces.js";

const STEP = 50;
const MOST = 1000;
const FEW = 30;
const SEARCH_PAUSE_MS = 200;

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
  const wanted = useRef({ limit: STEP, q: "" });
  const { value, view, again } = useLive(() => get(`/api/v1/schedules?limit=${wanted.current.limit}&q=${encodeURIComponent(wanted.current.q)}`), store);
  const [adding, setAdding] = useState(false);
  const [words, setWords] = useState("");
  useEffect(() => {
    if (words === wanted.current.q) return undefined;
    const timer = window.setTimeout(() => {
      wanted.current = { limit: STEP, q: words };
      again();
    }, SEARCH_PAUSE_MS);
    return () => clearTimeout(timer);
  }, [words]);
  const showMore = () => {
    wanted.current = { ...wanted.current, limit: Math.min(wanted.current.limit + STEP, MOST) };
    again();
  };
  const shown = value?.schedules ?? [];
  const now = useNow();
  const add = store.may("runs") && html`<button type="button" data-test="new-schedule" onClick=${() => setAdding(true)}>New schedule</button>`;
  return html`<${Heading} text="Schedules">${add}<//>
    ${view}
    ${value && !shown.length && !words && html`<${Empty} text="Nothing is scheduled." hint="A schedule starts a task, an agent, a workflow or a message at set times, each time exactly once." />`}
    ${(shown.length > STEP / 5 || words) && html`<div class="form"><label>Find <input type="search" value=${words} onInput=${(/** @type {any} */ event) => setWords(event.target.value)} /></label></div>`}
    <ul class="rows">${shown.map((/** @type {any} */ each) => html`<${Line} key=${each.id} schedule=${each} now=${now} actions=${actions} few=${shown.length <= FEW} />`)}</ul>
    ${value?.next && (shown.length < MOST ? html`<button type="button" class="quiet-button" onClick=${showMore}>More</button>` : html`<p class="quiet">There are more: find them by name.</p>`)}
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
  if (schedule.waits) return html`<span class="status ask">waits for a person</span>`;
  if (schedule.is_active) return html`<span class=${`status ${schedule.next_at ? "ready" : ""}`}>${schedule.next_at ? "on" : "over"}</span>`;
  return html`<span class="status waiting">paused${schedule.paused_by ? ` by ${schedule.paused_by}` : ""}</span>`;
}
