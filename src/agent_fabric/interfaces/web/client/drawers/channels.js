// Channels: how each stands, who is on them, what went out and whether it arrived.

import { html, useState } from "../vendor/htm-preact.js";
import { get, post } from "../net/api.js";
import { agoText, dateText } from "../model/words.js";
import { Empty, useLoaded } from "../view/parts.js";
import { Act, Dialog, Heading, problemText, useFirstField, useLive, useNow, useSome } from "./pieces.js";

const PATH = "/api/v1/channels";
const COLOUR = /** @type {Record<string, string>} */ ({ sent: "completed", queued: "waiting", sending: "running", in_doubt: "waiting", failed: "failed", expired: "failed" });
const AGAIN = new Set(["in_doubt", "failed", "expired"]);

/** @param {import("../view/app.js").Props} props */
export function Channels({ store, actions }) {
  const admin = store.may("admin");
  return html`<${Standing} store=${store} />
    ${store.start?.kind === "user" && html`<${Told} name=${store.start.name} actions=${actions} />`}
    ${admin ? html`<${People} store=${store} actions=${actions} /><${Deliveries} store=${store} actions=${actions} />` : html`<p class="note">Who is on them, and what went out, is for admins.</p>`}`;
}

/** @param {any} props */
function Standing({ store }) {
  const { value, view } = useLive(() => get(PATH), store);
  const now = useNow(5000);
  return html`<${Heading} text="Channels" />
    ${view}
    ${value && !value.channels.length && html`<${Empty} text="No channel is configured." hint="Make a bot, put its token into the configuration under channels, and restart: the guide “Talk to it from your phone” shows each step." />`}
    <ul class="rows" data-test="channels">${(value?.channels ?? []).map((/** @type {any} */ each) => html`<li key=${`${each.channel} ${each.account}`}><span class="row-title">${each.channel}${each.name ? `: ${each.name}` : ""}</span>
      <span class="row-facts"><span class=${`status ${each.connected ? "ready" : each.problem ? "failed" : "waiting"}`}>${each.connected ? "connected" : each.state}</span><span>${each.heard_at ? `heard ${agoText(each.heard_at, now)}` : "nothing heard yet"}</span><span>${each.account ?? ""}</span></span>
      ${each.problem && html`<p class="note warning">${each.problem} ${each.hint ?? ""}</p>`}</li>`)}</ul>`;
}

/** Where one wants approvals and alerts, and when not. @param {any} props */
function Told({ name, actions }) {
  const { value, view, again } = useLoaded(() => get(`${PATH}/notify`), []);
  const [problem, setProblem] = useState("");
  const listOf = (/** @type {any} */ text) => String(text).split(/[\s,]+/).filter(Boolean);
  /** @param {SubmitEvent} event */
  const save = async (event) => {
    event.preventDefault();
    const form = new FormData(/** @type {HTMLFormElement} */ (event.target));
    try {
      await post(`${PATH}/notify`, { user: name, approvals: listOf(form.get("approvals")), alerts: listOf(form.get("alerts")), quiet_hours: String(form.get("quiet")).trim(), timezone: Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC" });
      setProblem("");
      actions.say("Saved.");
      again();
    } catch (error) {
      setProblem(problemText(error));
    }
  };
  return html`<${Heading} text="Where you are told" />
    ${view ?? html`<form class="form" onSubmit=${save}>
      <div class="pair"><label>Approvals <input name="approvals" required defaultValue=${value.approvals.join(", ")} /></label><label>Alerts <input name="alerts" required defaultValue=${value.alerts.join(", ")} /></label></div>
      <label>Quiet hours <input name="quiet" defaultValue=${value.quiet_hours ?? ""} placeholder="22:00-07:00" /><span class="quiet">page, channel (all of them), or the name of a channel; several with commas. Times are those of this browser; kept: ${value.timezone}.</span></label>
      ${problem && html`<p class="note warning" role="alert">${problem}</p>`}
      <div class="buttons"><button type="submit">Save</button></div></form>`}`;
}

/** @param {any} props */
function People({ store, actions }) {
  const { value, view, again } = useLive(() => get(`${PATH}/people`), store);
  const [pairing, setPairing] = useState(false);
  const [shown, more] = useSome(value?.people ?? [], 30);
  return html`<${Heading} text="People"><button type="button" data-test="pair" onClick=${() => setPairing(true)}>Pair…</button><//>
    ${view}
    ${value && !value.people.length && html`<${Empty} text="Nobody is paired." hint="Whoever writes to a bot is shown a code. Pair it with a user, and they are that user there." />`}
    <ul class="rows" data-test="people">${shown.map((each) => html`<li key=${`${each.channel} ${each.sender}`}><span class="row-title">${each.user}</span>
      <span class="row-facts"><span>${each.channel}</span><span>${each.sender}</span><span>since ${dateText(each.paired_at)}</span>${each.paired_by && html`<span>by ${each.paired_by}</span>`}</span>
      <div class="buttons small"><${Act} label="Test message" actions=${actions} act=${() => post(`${PATH}/test`, { user: each.user })} after=${(/** @type {any} */ told) => actions.say(told.deliveries.length ? "It goes out: see the deliveries below." : "There is nowhere to send it.")} />
        <${Act} label="Unpair" danger=${true} sure=${`Make ${each.user} a stranger on ${each.channel}?`} actions=${actions} act=${() => post(`${PATH}/unpair`, { user: each.user, channel: each.channel })} after=${again} /></div></li>`)}</ul>${more}
    ${pairing && html`<${Dialog} title="Pair a sender with a user" close=${() => setPairing(false)}><${Pair} done=${() => (setPairing(false), again())} /><//>`}`;
}

/** @param {{done: () => void}} props */
function Pair({ done }) {
  const users = useLoaded(() => get("/api/v1/users"), []);
  if (users.view) return users.view;
  if (!users.value.users.length) return html`<${Empty} text="There are no users." hint="Add one under People and keys: nobody becomes an admin by pairing." />`;
  return html`<${PairForm} users=${users.value.users} done=${done} />`;
}

/** @param {any} props */
function PairForm({ users, done }) {
  const place = useFirstField();
  const [problem, setProblem] = useState("");
  /** @param {SubmitEvent} event */
  const pair = async (event) => {
    event.preventDefault();
    const form = new FormData(/** @type {HTMLFormElement} */ (event.target));
    try {
      await post(`${PATH}/pair`, { code: String(form.get("code")).trim(), user: form.get("user") });
      done();
    } catch (error) {
      setProblem(problemText(error));
    }
  };
  return html`<form class="form" ref=${place} onSubmit=${pair}>
    <label>Code <input name="code" required maxlength="40" autocomplete="off" autocapitalize="characters" spellcheck=${false} class="code-input" placeholder="ABCD2345" /><span class="quiet">The bot shows it to whoever writes to it first. It counts for an hour.</span></label>
    <label>Is the user <select name="user" required><option value="">Choose one</option>${users.filter((/** @type {any} */ user) => !user.disabled).map((/** @type {any} */ user) => html`<option key=${user.name} value=${user.name}>${user.name} (${user.role})</option>`)}</select></label>
    ${problem && html`<p class="note warning" role="alert">${problem}</p>`}
    <div class="buttons"><button type="submit" class="primary">Pair</button></div>
  </form>`;
}

/** @param {any} props */
function Deliveries({ store, actions }) {
  const [status, setStatus] = useState("");
  return html`<${Heading} text="Deliveries"><label class="check">Show <select value=${status} onChange=${(/** @type {any} */ event) => setStatus(event.target.value)}><option value="">all</option><option value="in_doubt">in doubt</option><option value="failed">failed</option><option value="queued">waiting</option><option value="sent">sent</option><option value="expired">expired</option></select></label><//>
    <${Delivered} key=${status} status=${status} store=${store} actions=${actions} />`;
}

/** @param {any} props */
function Delivered({ status, store, actions }) {
  const { value, view, again } = useLive(() => get(`${PATH}/deliveries?limit=200${status ? `&status=${status}` : ""}`), store);
  const now = useNow(5000);
  const [shown, more] = useSome(value?.deliveries ?? [], 20);
  return html`${view}
    ${value && !value.deliveries.length && html`<${Empty} text="Nothing went out." />`}
    <ul class="rows" data-test="deliveries">${shown.map((each) => html`<li key=${each.id}><span class="row-title">${each.kind.replaceAll("_", " ")} to ${each.channel} ${each.chat}</span>
      <span class="row-facts"><span class=${`status ${COLOUR[each.status] ?? ""}`}>${each.status.replaceAll("_", " ")}</span><span>${agoText(each.created_at, now)}</span>${each.attempts > 1 && html`<span>${each.attempts} attempts</span>`}${each.settled_at && html`<span>settled ${dateText(each.settled_at)}</span>`}</span>
      ${each.status === "in_doubt" && html`<p class="note">The answer of the platform was lost: it may have arrived, so it is not sent again by itself.</p>`}
      ${each.problem && html`<p class="note warning">${each.problem}</p>`}
      ${AGAIN.has(each.status) && html`<div class="buttons small"><${Act} label="Send again" sure=${each.status === "in_doubt" ? "If it had arrived, it arrives twice. Send it?" : undefined} actions=${actions} act=${() => post(`${PATH}/deliveries/resend`, { id: each.id })} after=${again} /></div>`}</li>`)}</ul>${more}`;
}
