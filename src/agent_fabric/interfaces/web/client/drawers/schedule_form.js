// A form about a schedule: when, what, and what if that is late. The next five instants are shown before anything is saved.

import { html, useEffect, useMemo, useRef, useState } from "../vendor/htm-preact.js";
import { get, newKey, post, request } from "../net/api.js";
import { emptyFields, fieldsOf, PRESETS, ruleOf, wishOf } from "../model/schedule.js";
import { useLoaded } from "../view/parts.js";
import { InputFields, inputsFrom } from "./inputs.js";
import { problemText, useFirstField, useNow } from "./pieces.js";
import { Planned } from "./schedule.js";

const PREVIEW_PAUSE_MS = 200;

/** @returns {string} Where this browser is. */
const zoneHere = () => Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";

/** @param {any} props */
export function ScheduleForm({ store, schedule, done }) {
  const [fields, setFields] = useState(() => (schedule ? fieldsOf(schedule) : emptyFields(zoneHere())));
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const key = useRef(newKey());
  const form = useFirstField();
  const definition = useDefinition(fields.kind, fields.target);
  /** @param {string} name */
  const on = (name) => (/** @type {any} */ event) => setFields((before) => ({ ...before, [name]: event.target.type === "checkbox" ? event.target.checked : event.target.value }));
  /** @param {SubmitEvent} event */
  const save = async (event) => {
    event.preventDefault();
    setBusy(true);
    setProblem("");
    try {
      const inputs = definition ? inputsFrom(new FormData(/** @type {HTMLFormElement} */ (event.target)), definition.inputs) : {};
      const wish = wishOf(fields, inputs);
      const made = schedule
        ? await request("PATCH", `/api/v1/schedules/${encodeURIComponent(schedule.name)}`, { body: wish })
        : await post("/api/v1/schedules", { ...wish, name: fields.name.trim() }, key.current);
      done(made);
    } catch (error) {
      key.current = newKey(); // what is sent next is something else
      setProblem(error instanceof SyntaxError ? "An input is not valid JSON." : problemText(error));
      setBusy(false);
    }
  };
  return html`<form class="form" ref=${form} onSubmit=${save} data-test="schedule-form">
    ${!schedule && html`<label>Name <input value=${fields.name} onInput=${on("name")} required maxlength="80" pattern="[A-Za-z0-9][A-Za-z0-9_.\\-]*" title="Letters, digits, dots, dashes and underscores" autocomplete="off" /></label>`}
    <${When} fields=${fields} on=${on} setFields=${setFields} />
    <${Preview} fields=${fields} />
    <${What} fields=${fields} on=${on} store=${store} />
    ${definition && html`<${InputFields} key=${fields.target} inputs=${definition.inputs} prefix="schedule-input" values=${schedule?.inputs ?? {}} />`}
    <${Otherwise} fields=${fields} on=${on} store=${store} />
    ${problem && html`<p class="note warning" role="alert">${problem}</p>`}
    <div class="buttons"><button type="submit" class="primary" disabled=${busy}>${schedule ? "Save" : "Add"}</button></div>
  </form>`;
}

/** @param {any} props */
function When({ fields, on, setFields }) {
  const zones = useMemo(() => [...new Set(["UTC", zoneHere(), fields.zone, ...(Intl.supportedValuesOf?.("timeZone") ?? [])])], []);
  const preset = PRESETS.some(([cron]) => cron === fields.cron) ? fields.cron : "";
  return html`<fieldset><legend>When</legend>
    <label>How <select value=${fields.timing} onChange=${on("timing")}><option value="cron">At set times</option><option value="every">At an interval</option></select></label>
    ${fields.timing === "every"
      ? html`<div class="pair"><label>Every <input type="number" min="1" step="any" required value=${fields.every} onInput=${on("every")} /></label>
          <label>Unit <select value=${fields.unit} onChange=${on("unit")}><option value="s">seconds</option><option value="m">minutes</option><option value="h">hours</option><option value="d">days</option><option value="w">weeks</option></select></label></div>`
      : html`<label>Times <select value=${preset} onChange=${(/** @type {any} */ event) => event.target.value && setFields((/** @type {any} */ before) => ({ ...before, cron: event.target.value }))}>
            ${PRESETS.map(([cron, words]) => html`<option key=${cron} value=${cron}>${words}</option>`)}<option value="">As written below</option></select></label>
          <label>Cron expression: minute, hour, day, month, weekday <input class="code-input" required value=${fields.cron} onInput=${on("cron")} autocomplete="off" spellcheck=${false} /></label>
          <label>Time zone <select value=${fields.zone} onChange=${on("zone")}>${zones.map((zone) => html`<option key=${zone} value=${zone}>${zone}</option>`)}</select></label>`}
  </fieldset>`;
}

/** The next five instants, while one types. @param {any} props */
function Preview({ fields }) {
  const [planned, setPlanned] = useState(/** @type {any[]} */ ([]));
  const [problem, setProblem] = useState("");
  const now = useNow();
  const rule = JSON.stringify(ruleOf(fields));
  useEffect(() => {
    let stale = false;
    const timer = window.setTimeout(() => {
      post("/api/v1/schedules/preview?count=5", JSON.parse(rule)).then(
        (told) => stale || (setPlanned(told.planned), setProblem("")),
        (error) => stale || (setPlanned([]), setProblem(problemText(error))),
      );
    }, PREVIEW_PAUSE_MS);
    return () => {
      stale = true;
      clearTimeout(timer);
    };
  }, [rule]);
  const zone = fields.timing === "every" ? zoneHere() : fields.zone;
  return html`<div class="preview" aria-live="polite" data-test="preview"><p class="label">The next five</p>
    ${problem ? html`<p class="note warning">${problem}</p>` : html`<${Planned} planned=${planned} zone=${zone} seconds=${fields.timing === "every" && fields.unit === "s"} now=${now} none="It would never be due." />`}</div>`;
}

/** @param {any} props */
function What({ fields, on, store }) {
  const says = ["task", "chat", "channel", "node"].includes(fields.kind);
  const words = { chat: "Message", channel: "Message", node: "Command" }[/** @type {"chat" | "channel" | "node"} */ (fields.kind)] ?? "Task";
  return html`<fieldset><legend>What</legend>
    <label>It starts <select value=${fields.kind} onChange=${on("kind")}><option value="task">a task</option><option value="agent">an agent</option><option value="workflow">a workflow</option><option value="chat">a message in a chat</option><option value="channel">a message in a chat on a channel</option>${(store.may("nodes") || fields.kind === "node") && html`<option value="node">a command on a machine</option>`}</select></label>
    ${fields.kind === "task" && html`<label>Who does it <select value=${fields.pack} onChange=${on("pack")}><option value="">whoever fits best</option>${(store.start?.packs ?? []).map((/** @type {string} */ pack) => html`<option key=${pack} value=${pack}>${pack}</option>`)}</select></label>`}
    ${["agent", "workflow", "channel", "node"].includes(fields.kind) && html`<${Target} key=${fields.kind} kind=${fields.kind} value=${fields.target} on=${on("target")} store=${store} />`}
    ${says && html`<label>${words} <textarea class=${fields.kind === "node" ? "code-input" : ""} rows=${fields.kind === "node" ? 2 : 3} required maxlength="100000" value=${fields.instruction} onInput=${on("instruction")}></textarea></label>`}
    ${fields.kind === "chat" && html`<label class="check"><input type="checkbox" checked=${fields.persistent} onChange=${on("persistent")} /> Always the same chat</label>
      ${fields.persistent && html`<label>Which <select value=${fields.session} onChange=${on("session")}><option value="">one of its own</option>${[...store.sessions.values()].map((each) => html`<option key=${each.id} value=${each.id}>${each.title || "New chat"}</option>`)}</select></label>`}`}
  </fieldset>`;
}

const TARGETS = /** @type {Record<string, {path: string, list: string, word: string, none: string}>} */ ({
  agent: { path: "/api/v1/agents", list: "agents", word: "Agent", none: "There are no agents that can be used." },
  workflow: { path: "/api/v1/workflows", list: "workflows", word: "Workflow", none: "There are no workflows that can be used." },
  channel: { path: "/api/v1/channels", list: "channels", word: "Where", none: "Nobody is on a channel." },
  node: { path: "/api/v1/nodes", list: "nodes", word: "Machine", none: "No machine has joined." },
});

/** @param {any} props */
function Target({ kind, value, on, store }) {
  // Whoever owns the folder is on no channel: they name the user as well.
  const known = kind === "channel" && store.start?.kind === "local" ? { ...TARGETS.channel, path: "/api/v1/channels/people", list: "people" } : TARGETS[kind];
  const { value: told, view } = useLoaded(() => get(known.path), []);
  if (view) return view;
  const names = told[known.list].filter((/** @type {any} */ each) => each.usable ?? true).map((/** @type {any} */ each) => (known.list === "people" ? `${each.user}@${each.channel}` : known.list === "channels" ? each.channel : each.name));
  if (value && !names.includes(value)) names.push(value);
  if (!names.length) return html`<p class="note">${known.none}</p>`;
  return html`<label>${known.word} <select required value=${value} onChange=${on}><option value="">Choose one</option>${names.map((/** @type {string} */ name) => html`<option key=${name} value=${name}>${name}</option>`)}</select></label>`;
}

/** The declared inputs of a chosen workflow or agent. @param {string} kind @param {string} target */
function useDefinition(kind, target) {
  const [found, setFound] = useState(/** @type {any} */ (null));
  useEffect(() => {
    setFound(null);
    if (!target || !["workflow", "agent"].includes(kind)) return undefined;
    let stale = false;
    get(`${TARGETS[kind].path}/${encodeURIComponent(target)}`).then(
      (told) => stale || setFound(told),
      () => undefined, // it is gone: saving says so
    );
    return () => {
      stale = true;
    };
  }, [kind, target]);
  return found;
}

/** @param {any} props */
function Otherwise({ fields, on, store }) {
  return html`<details><summary>Late, twice, too often</summary>
    <label>When it was missed <select value=${fields.misfire} onChange=${on("misfire")}><option value="once">make up for the newest</option><option value="all">make up for each</option><option value="skip">leave it</option></select></label>
    <label>Made up for, if not later than (minutes) <input type="number" min="0" step="any" required value=${fields.maxLate} onInput=${on("maxLate")} /></label>
    <label>While the run before is under way <select value=${fields.overlap} onChange=${on("overlap")}><option value="skip">leave it</option><option value="queue">wait</option><option value="cancel">cancel the run before</option></select></label>
    <label>If the server was stopped in the middle of a step <select value=${fields.doubt} onChange=${on("doubt")}><option value="ask">ask a person whether it has happened</option><option value="skip">leave the step as it is, and go on</option><option value="retry">do it again (all steps have to be idempotent)</option></select></label>
    <label>Pause after so many failures in a row (0: never) <input type="number" min="0" max="1000" step="1" required value=${fields.failures} onInput=${on("failures")} /></label>
    <label>Most runs on one day <input type="number" min="1" max="100000" step="1" placeholder="no limit" value=${fields.daily} onInput=${on("daily")} /></label>
    <label>Delay each by up to (seconds) <input type="number" min="0" step="any" required value=${fields.jitter} onInput=${on("jitter")} /></label>
    <label>Needs the model <select value=${fields.model} onChange=${on("model")}><option value="">any</option>${(store.start?.model_keys ?? []).map((/** @type {string} */ key) => html`<option key=${key} value=${key}>${key}</option>`)}</select></label>
  </details>`;
}
