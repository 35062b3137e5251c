// One run: how it went, event by event, the context as it was then, its files, and what can be taken back.

import { html, useEffect, useState } from "../vendor/htm-preact.js";
import { get, request } from "../net/api.js";
import { activity, SETTLED } from "../model/fold.js";
import { lanesOf, lineOf } from "../model/timeline.js";
import { useStore } from "../model/store.js";
import { costText, counted, dateText, durationText, evidenceText, sizeText } from "../model/words.js";
import { Diff } from "../view/diff.js";
import { Empty, Output, useLoaded } from "../view/parts.js";
import { Context } from "./context.js";

/** @param {any} props */
export function Run({ store, actions, run, seq, asked }) {
  const [events, setEvents] = useState(/** @type {any[]} */ ([]));
  const [chosen, choose] = useState(seq);
  const [tab, setTab] = useState("timeline");
  useEffect(() => {
    if (seq < 0) return; // whoever asks for an event sees it, whatever was looked at before
    choose(seq);
    setTab("timeline");
  }, [asked]);
  useStore(store, (all) => all.runs.get(run)?.version);
  const known = store.runs.get(run);
  const { value: details, view } = useLoaded(() => get(`/runs/${run}`), [run, SETTLED.has(known?.status ?? "")]);
  useEffect(() => {
    actions.socket.follow(run);
    return () => {
      if (store.sessions.get(store.current)?.turn !== run) actions.socket.unfollow(run);
    };
  }, [run]);
  useEffect(() => {
    let stale = false;
    const load = async () => {
      /** @type {any[]} */
      const found = [];
      let path = `/runs/${run}/events?limit=500`;
      while (path && !stale) {
        const told = await get(path);
        found.push(...told.events);
        path = told.next ?? "";
      }
      if (!stale) setEvents(found);
    };
    load().catch((error) => actions.tell(error));
    return () => {
      stale = true;
    };
  }, [run, known?.lastSeq]);
  if (view) return view;
  const meta = details._meta;
  const settled = SETTLED.has(known?.status ?? meta.status);
  return html`<p class="row-title"><strong>${meta.prompt.slice(0, 400)}</strong></p>
    <p class="row-facts"><span class=${`status ${known?.status ?? meta.status}`}>${known?.status ?? meta.status}</span>
      <span>${meta.specialist_ids.join(", ")}</span>${meta.node && html`<span data-test="run-machine">machine ${meta.node}</span>`}<span>${meta.model}</span><span>${counted(meta.steps, "step")}</span>
      <span>${durationText(meta.duration_s ?? 0)}</span><span>${(meta.usage.prompt_tokens + meta.usage.completion_tokens).toLocaleString()} tokens</span>${meta.cost !== null && meta.cost !== undefined && html`<span data-test="run-cost">cost ${costText(meta.cost)}</span>`}</p>
    ${details.error && meta.status === "failed" && html`<p class="failed" role="alert" data-test="run-error">${details.error.message}</p>`}
    ${known && activity(known) && html`<p class="quiet">${activity(known)}</p>`}
    <${Effects} meta=${meta} />
    ${meta.status === "completed" && html`<${Evidence} details=${details} />`}
    <${Badge} run=${meta.run_id} settled=${settled} />
    <div class="buttons">
      ${!settled && html`<button type="button" class="danger" onClick=${() => request("POST", `/runs/${meta.run_id}/cancel`, {}).then(() => actions.say("The run is cancelled."), (error) => actions.tell(error))}>Cancel</button>`}
      ${["interrupted", "waiting"].includes(meta.status) && html`<button type="button" onClick=${() => request("POST", `/runs/${meta.run_id}/resume`, {}).then(() => actions.say("The run goes on."), (error) => actions.tell(error))}>Resume</button>`}
    </div>
    <div class="drawer-nav" role="group" aria-label="Parts of the run">${["timeline", "files", "changes"].map((name) => html`<button type="button" key=${name} aria-current=${tab === name ? "page" : undefined} onClick=${() => setTab(name)}>${name[0].toUpperCase() + name.slice(1)}</button>`)}</div>
    ${tab === "timeline" && html`<${Timeline} events=${events} chosen=${chosen} choose=${choose} run=${meta.run_id} actions=${actions} />`}
    ${tab === "files" && html`<${Files} run=${meta.run_id} actions=${actions} />`}
    ${tab === "changes" && html`<${Changes} run=${meta.run_id} actions=${actions} settled=${settled} />`}`;
}

/** What was denied, failed or is in doubt, what left this machine, and what changed. @param {any} props */
function Effects({ meta }) {
  const { left, changed } = meta.effects ?? { left: [], changed: { commits: [], machines: [] } };
  const undone = meta.not_done ?? [];
  return html`${undone.length > 0 && html`<div class="failed" role="alert" data-test="not-done"><strong>${meta.outcome === "refused" ? "This was not done." : "Not all of this was done."}</strong>
      <ul>${undone.map((/** @type {string} */ line) => html`<li key=${line}>${line}</li>`)}</ul></div>`}
    ${(left.length > 0 || changed.commits.length > 0 || changed.machines.length > 0) && html`<ul class="rows" data-test="effects">
      ${left.map((/** @type {any} */ call) => html`<li key=${`l${call.run_id}${call.seq}`} class="row-facts"><span>left this machine</span><code>${call.what}</code><span>${call.to}</span></li>`)}
      ${changed.commits.map((/** @type {string} */ commit) => html`<li key=${commit} class="row-facts"><span>committed</span><code>${commit}</code></li>`)}
      ${changed.machines.map((/** @type {string} */ machine) => html`<li key=${machine} class="row-facts"><span>changed on</span><code>${machine}</code></li>`)}</ul>`}`;
}

/** What bears the result out, or why nothing does. @param {any} props */
function Evidence({ details }) {
  const { proven, text } = evidenceText(details);
  return text && html`<p class="row-facts" data-test="evidence"><span class=${`status ${proven ? "completed" : "waiting"}`}>${proven ? "evidence" : "unproven"}</span><span>${text}</span></p>`;
}

/** Whether what the run claims, and its log, hold. @param {any} props */
function Badge({ run, settled }) {
  const [told, setTold] = useState(/** @type {any} */ (null));
  useEffect(() => {
    if (settled) get(`/runs/${run}/verify`).then(setTold, () => undefined);
  }, [run, settled]);
  if (told === null) return null;
  return html`<p class="row-facts" data-test="verified"><span class=${`status ${told.holds ? "completed" : "failed"}`}>${told.holds ? "verified" : "not verified"}</span>
    <span>${told.holds ? `The hash chain of ${counted(told.events, "event")} holds.` : "The log or a claim does not hold."}</span>
    ${(told.claims ?? []).filter((/** @type {any} */ claim) => claim.standing === "fails").map((/** @type {any} */ claim) => html`<span>${claim.about}: ${claim.detail}</span>`)}</p>`;
}

/** @param {any} props */
function Timeline({ events, chosen, choose, run, actions }) {
  if (!events.length) return html`<${Empty} text="No events yet." />`;
  const lanes = lanesOf(events);
  const index = events.findIndex((/** @type {any} */ event) => event.seq === chosen);
  const event = index >= 0 ? events[index] : null;
  return html`<${Lanes} lanes=${lanes} chosen=${event} />
    <label class="form">Scrub <input type="range" min="0" max=${events.length - 1} value=${index < 0 ? events.length - 1 : index} onInput=${(/** @type {any} */ each) => choose(events[Number(each.target.value)].seq)} aria-valuetext=${event ? `event ${event.seq}` : ""} /></label>
    ${event && html`<${EventView} key=${event.seq} event=${event} run=${run} actions=${actions} />`}
    <ol class="timeline">${events.map((/** @type {any} */ each) => html`<li key=${each.seq} class=${each.seq === chosen ? "chosen" : ""}><button type="button" onClick=${() => choose(each.seq)}><span class="when">${each.seq}</span><span>${lineOf(each)}</span><span class="when">+${durationText(each.ts - events[0].ts)}</span></button></li>`)}</ol>`;
}

/** Lanes over time: work, waits, tokens. @param {any} props */
function Lanes({ lanes, chosen }) {
  const { names, spans, tokens, from, to } = lanes;
  const width = 600;
  const height = names.length * 26 + 8;
  const x = (/** @type {number} */ at) => 4 + ((at - from) / Math.max(0.001, to - from)) * (width - 8);
  return html`<svg class="lanes" viewBox=${`0 0 ${width} ${height}`} role="img" aria-label=${`Timeline of ${counted(names.length, "lane")}`}>
    ${spans.map((/** @type {any} */ span, /** @type {number} */ nth) => html`<rect key=${nth} x=${x(span.from)} y=${names.indexOf(span.lane) * 26 + 8} width=${Math.max(2, x(span.to) - x(span.from))} height="14" rx="3" class=${`span ${span.kind}`}><title>${span.text}</title></rect>`)}
    ${chosen && html`<line x1=${x(chosen.ts)} x2=${x(chosen.ts)} y1="0" y2=${height} class="now" />`}
  </svg>
  <ul class="rows lane-names">${names.map((/** @type {string} */ name) => html`<li key=${name} class="row-facts"><span>${name}</span><span>${tokens[name] ? `${tokens[name].prompt.toLocaleString()} tokens in, ${tokens[name].completion.toLocaleString()} out` : ""}</span></li>`)}</ul>
  <p class="row-facts"><span class="legend">model</span><span class="legend tools">tools</span><span class="legend wait">waiting</span></p>`;
}

/** An event, whole, and what the model knew at that moment. @param {any} props */
function EventView({ event, run, actions }) {
  const [whole, setWhole] = useState(event);
  const [open, setOpen] = useState(false);
  useEffect(() => {
    if (event.cut) actions.wholeEvent(run, event.seq).then(setWhole, () => undefined);
  }, [event.seq]);
  return html`<section class="event" aria-label=${`Event ${event.seq}`} data-test="event">
    <h3>${event.seq} · ${lineOf(event)}</h3><p class="quiet">${event.kind}, ${dateText(event.ts)}${event.lane ? `, lane ${event.lane}` : ""}</p>
    <${Output} text=${JSON.stringify(whole.payload, null, 2)} />
    <details onToggle=${(/** @type {any} */ toggled) => setOpen(toggled.target.open)}><summary>The context as it was then</summary>${open && html`<${Context} run=${run} seq=${event.seq} />`}</details></section>`;
}

/** @param {any} props */
function Files({ run, actions }) {
  const { value, view } = useLoaded(() => get(`/runs/${run}/files`), [run]);
  const [shown, show] = useState(/** @type {{path: string, text: string} | null} */ (null));
  if (view) return view;
  if (!value.files.length) return html`<${Empty} text="No files." />`;
  /** @param {string} path @param {boolean} save */
  const fetchFile = async (path, save) => {
    try {
      const answer = await request("GET", `/runs/${run}/files/${path.split("/").map(encodeURIComponent).join("/")}`, { raw: true });
      if (!save) return show({ path, text: (await answer.text()).slice(0, 200_000) });
      const link = document.createElement("a");
      link.href = URL.createObjectURL(await answer.blob());
      link.download = path.split("/").at(-1) ?? "file";
      link.click();
      URL.revokeObjectURL(link.href);
    } catch (error) {
      actions.tell(error);
    }
    return undefined;
  };
  return html`<ul class="rows">${value.files.map((/** @type {any} */ file) => html`<li key=${file.path}><span class="row-title"><code>${file.path}</code></span>
      <span class="row-facts"><span>${sizeText(file.bytes)}</span><button type="button" class="quiet-button" onClick=${() => fetchFile(file.path, false)}>Show</button><button type="button" class="quiet-button" onClick=${() => fetchFile(file.path, true)}>Download</button></span>
      ${shown?.path === file.path && html`<${Output} text=${shown?.text ?? ""} />`}</li>`)}</ul>
    ${value.truncated && html`<p class="quiet">There are more files than are listed.</p>`}`;
}

/** What changed, and what of it can be taken back. @param {any} props */
function Changes({ run, actions, settled }) {
  const { value, view, again } = useLoaded(() => get(`/runs/${run}/diff`), [run]);
  if (view) return view;
  if (!value.changes.length) return html`<${Empty} text="Nothing was changed." />`;
  const final = value.changes.filter((/** @type {any} */ change) => !change.undoable);
  const undo = () => request("POST", `/runs/${run}/undo`, { body: {} }).then((told) => (actions.say(`${counted(told.done.length, "file")} taken back.`), again()), (error) => actions.tell(error));
  return html`${final.length > 0 && html`<p class="note warning">Cannot be taken back: ${final.map((/** @type {any} */ change) => `${change.path} (${change.reason})`).join(", ")}. What was sent or pushed stays, too.</p>`}
    ${settled && store_may(actions) && html`<button type="button" onClick=${undo}>Take ${counted(value.changes.length - final.length, "change")} back</button>`}
    ${value.changes.map((/** @type {any} */ change) => html`<${Diff} key=${change.path} change=${change} />`)}`;
}

/** @param {any} actions */
const store_may = (actions) => actions.store.may("runs");
