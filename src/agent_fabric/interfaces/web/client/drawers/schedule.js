// One schedule: when it is due, what became of each instant and why, and what a person can do about it.

import { html, useEffect, useState } from "../vendor/htm-preact.js";
import { get, post, request } from "../net/api.js";
import { firingText, ruleText, startsText, untilText, zonedText } from "../model/schedule.js";
import { dateText, durationText } from "../model/words.js";
import { Empty, Later } from "../view/parts.js";
import { State } from "./clock.js";
import { Act, Back, Dialog, Heading, owns, problemText, RunLink, useLive, useNow } from "./pieces.js";

const PAGE = 10;
const FROM_FILE = "workflow:";

/** @param {import("../view/app.js").Props & {item: string}} props */
export function OneSchedule({ store, actions, item }) {
  const path = `/api/v1/schedules/${encodeURIComponent(item)}`;
  const { value, view, again } = useLive(() => get(path), store);
  const now = useNow();
  const [changing, setChanging] = useState(false);
  const [asked, setAsked] = useState("");
  const back = html`<${Back} to="clock" words="All of the clock" actions=${actions} />`;
  if (view) return html`${back}${view}`;
  const mine = store.may("runs") && owns(store, value.owner);
  const declared = value.name.startsWith(FROM_FILE);
  const flip = value.is_active ? "pause" : "resume";
  return html`${back}
    <h3>${value.name}</h3>
    <p>${startsText(value)}</p>
    <p class="row-facts"><${State} schedule=${value} /><span>${ruleText(value)}</span><span>of ${value.owner}</span>${value.required_model && html`<span>with the model ${value.required_model}</span>`}</p>
    ${declared && html`<p class="note">The file of the workflow says when: change it there.</p>`}
    ${mine && html`<div class="buttons">
      <${Act} label="Run now" actions=${actions} act=${() => post(`${path}/fire`)} after=${(/** @type {any} */ told) => (actions.say("Started.", "Show the run", () => actions.show("runs", told.run_id)), again())} />
      <${Act} key=${flip} label=${value.is_active ? "Pause" : "Resume"} actions=${actions} act=${() => post(`${path}/${flip}`)} after=${again} />
      ${!declared && html`<button type="button" onClick=${() => setChanging(true)}>Change…</button>
        <${Act} label="Remove" danger=${true} sure="Remove this schedule? What it has started goes on." actions=${actions} act=${() => request("DELETE", path)} after=${() => actions.show("clock")} />`}
    </div>`}
    ${value.queued > 0 && html`<p class="row-facts"><span>${value.queued} waiting to be started</span>${mine && html`<${Act} label="Take back what is made up for" actions=${actions} act=${() => request("DELETE", `${path}/backfill`)} after=${(/** @type {any} */ told) => (actions.say(`${told.withdrawn} taken back.`), again())} />`}</p>`}
    ${value.waits && html`<p class="note warning" role="status" data-test="schedule-waits">It waits for a person since ${dateText(value.waits.since)}${value.overlap === "cancel" ? "." : ", and starts nothing before."} <button type="button" class="quiet-button" onClick=${() => actions.show("approvals", value.waits.approval_id)}>Show the question</button></p>`}
    <h3>Next</h3>
    <${Planned} planned=${value.next ?? []} zone=${value.timezone} seconds=${value.every < 60} now=${now} none=${value.is_active ? "It is not due any more." : "It is paused: nothing is due."} />
    <${Why} path=${path} asked=${asked} zone=${value.timezone} actions=${actions} />
    <${Firings} key=${value.last?.due_at} path=${path} zone=${value.timezone} actions=${actions} ask=${(/** @type {number} */ at) => setAsked(String(at))} />
    ${changing && html`<${Dialog} title=${`Change ${value.name}`} close=${() => setChanging(false)}><${Later} load=${() => import("./schedule_form.js")} name="ScheduleForm" store=${store} actions=${actions} schedule=${value}
      done=${() => (setChanging(false), again())} /><//>`}`;
}

/** Due instants on the clocks of a zone. @param {any} props */
export function Planned({ planned, zone, seconds, now, none }) {
  if (!planned.length) return html`<p class="quiet">${none}</p>`;
  return html`<ol class="planned" data-test="planned">${planned.map((/** @type {any} */ each) => html`<li key=${each.at}><span>${zonedText(each.at, zone, seconds)}</span> <span class="quiet">${untilText(each.at, now)}</span>${each.note && html` <span class="status ask">${each.note}</span>`}</li>`)}</ol>`;
}

/** @param {any} props */
function Why({ path, asked, zone, actions }) {
  const [told, setTold] = useState(/** @type {any} */ (null));
  const [problem, setProblem] = useState("");
  /** @param {string} at */
  const ask = (at) =>
    get(`${path}/why?at=${encodeURIComponent(at)}`).then(
      (answer) => (setTold(answer), setProblem("")),
      (error) => (setTold(null), setProblem(problemText(error))),
    );
  useEffect(() => {
    if (asked) ask(asked);
  }, [asked]);
  /** @param {SubmitEvent} event */
  const submit = (event) => {
    event.preventDefault();
    ask(String(new FormData(/** @type {HTMLFormElement} */ (event.target)).get("at")));
  };
  return html`<h3>Why?</h3>
    <form class="form inline" onSubmit=${submit}><label>Why did it run, or not, at this time? <span class="quiet">${zone}</span><input type="datetime-local" name="at" required step="1" /></label><button type="submit">Ask</button></form>
    <div aria-live="polite" data-test="why">${problem && html`<p class="note warning">${problem}</p>`}
      ${told && html`<p class="note"><span class=${`status ${told.answer === "fired" ? "completed" : "ask"}`}>${told.answer.replaceAll("_", " ")}</span> ${told.text}</p>
        <p class="row-facts">${told.run_id && html`<${RunLink} key=${told.run_id} run=${told.run_id} actions=${actions} />`}${told.rule && html`<span>The rule was: ${told.rule}</span>`}
        ${told.before && html`<span>due before: ${zonedText(told.before, zone)}</span>`}${told.after && html`<span>due after: ${zonedText(told.after, zone)}</span>`}</p>`}</div>`;
}

/** @param {any} props */
function Firings({ path, zone, actions, ask }) {
  const [firings, setFirings] = useState(/** @type {any[] | null} */ (null));
  const [more, setMore] = useState(false);
  /** @param {number} [before] */
  const load = (before) =>
    get(`${path}/firings?limit=${PAGE}${before ? `&before=${before}` : ""}`).then(
      (told) => {
        setFirings((known) => [...(before ? (known ?? []) : []), ...told.firings]);
        setMore(told.firings.length === PAGE);
      },
      (error) => actions.tell(error),
    );
  useEffect(() => void load(), []);
  return html`<${Heading} text="What it did" />
    ${firings?.length === 0 && html`<${Empty} text="It has not been due yet." hint="Run it now to see whether it works." />`}
    <ul class="rows">${(firings ?? []).map((each) => html`<li key=${each.due_at}><span class="row-title">${zonedText(each.due_at, zone, true)}${each.count > 1 ? ` to ${dateText(each.until_at)}` : ""}</span>
      <span class="row-facts"><span class=${`status ${each.status === "fired" ? "completed" : "waiting"}`}>${firingText(each)}</span>${each.late_s > 1 && html`<span>${durationText(each.late_s)} late</span>`}
        ${each.run_id && html`<${RunLink} key=${each.run_id} run=${each.run_id} actions=${actions} />`}
        <button type="button" class="quiet-button" aria-label=${`Why at ${zonedText(each.due_at, zone)}?`} onClick=${() => ask(each.due_at)}>Why?</button></span></li>`)}</ul>
    ${more && firings && html`<button type="button" class="quiet-button" onClick=${() => load(firings.at(-1).due_at)}>Older</button>`}`;
}
