// Schedules in words, and a form about one as a request. Pure: nothing here knows a page.

/**
 * @typedef {{name: string, timing: string, cron: string, every: string, unit: string, zone: string, kind: string, instruction: string,
 *   pack: string, target: string, persistent: boolean, session: string, model: string, misfire: string, overlap: string, doubt: string,
 *   maxLate: string, failures: string, daily: string, jitter: string}} ScheduleFields
 */

const UNITS = /** @type {[string, number, string][]} */ ([
  ["w", 604_800, "week"],
  ["d", 86_400, "day"],
  ["h", 3600, "hour"],
  ["m", 60, "minute"],
  ["s", 1, "second"],
]);

const REASONS = /** @type {Record<string, string>} */ ({
  manual: "by hand",
  backfill: "made up for",
  withdrawn: "it was to be made up for, which was taken back",
  caught_up: "late, because it had been missed",
  overlap: "the run before was still under way",
  queue_full: "too many were waiting already",
  paused: "it was paused",
  changed: "its rule was changed before",
  misfire: "it was missed",
  late: "it was missed by too much",
  catch_up_limit: "too many had been missed",
  quota: "the quota of its owner was used up",
  budget: "its runs of the day were used up",
  model_busy: "its model was busy",
  start_failed: "it could not be started: see the dead letters",
});

/** Cron expressions that are often wanted. */
export const PRESETS = /** @type {[string, string][]} */ ([
  ["*/15 * * * *", "Every quarter of an hour"],
  ["0 * * * *", "Every hour"],
  ["0 3 * * *", "Every night at 03:00"],
  ["0 9 * * mon-fri", "Monday to Friday at 09:00"],
  ["0 9 * * mon", "Every Monday at 09:00"],
  ["0 6 1 * *", "On the first of a month at 06:00"],
]);

/** @param {number} seconds @returns {{every: string, unit: string}} The largest unit that fits. */
export function intervalParts(seconds) {
  const [unit, size] = UNITS.find((each) => seconds % each[1] === 0) ?? ["s", 1];
  return { every: String(seconds / size), unit };
}

/** @param {number} seconds */
export function intervalText(seconds) {
  const { every, unit } = intervalParts(seconds);
  const word = UNITS.find((each) => each[0] === unit)?.[2] ?? "second";
  return every === "1" ? `every ${word}` : `every ${every} ${word}s`;
}

/** When it is due. @param {Record<string, any>} schedule */
export function ruleText(schedule) {
  return schedule.every ? intervalText(schedule.every) : `${schedule.cron_expression}, ${schedule.timezone}`;
}

/** What it starts. @param {Record<string, any>} schedule */
export function startsText(schedule) {
  const words = schedule.task_instruction ?? "";
  const task = words.length > 120 ? `${words.slice(0, 119)}…` : words;
  switch (schedule.target_kind) {
    case "workflow":
      return `workflow ${schedule.target}`;
    case "chat":
      return `chat: ${task}`;
    case "channel":
      return `to ${schedule.target}: ${task}`;
    case "node_command":
      return `on ${schedule.target}: ${task}`;
    default:
      return schedule.target ? `agent ${schedule.target}` : `${schedule.agent_id ? `${schedule.agent_id}: ` : ""}${task}`;
  }
}

/**
 * How long until then.
 *
 * @param {number} at Seconds since 1970.
 * @param {number} now The same.
 */
export function untilText(at, now) {
  const seconds = at - now;
  if (seconds <= 0) return "now";
  if (seconds < 60) return `in ${Math.ceil(seconds)} s`;
  if (seconds < 3600) return `in ${Math.round(seconds / 60)} min`;
  if (seconds < 86_400) return `in ${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `in ${Math.floor(seconds / 86_400)} d ${Math.floor((seconds % 86_400) / 3600)} h`;
}

/** An instant on the clocks of a zone. @param {number} at Seconds since 1970. @param {string} zone @param {boolean} [seconds] */
export function zonedText(at, zone, seconds = false) {
  /** @type {Intl.DateTimeFormatOptions} */
  const how = { weekday: "short", year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", ...(seconds ? { second: "2-digit" } : {}), timeZoneName: "short" };
  try {
    return new Date(at * 1000).toLocaleString(undefined, { ...how, timeZone: zone });
  } catch {
    return new Date(at * 1000).toLocaleString(undefined, how); // a zone that this browser does not know
  }
}

/** What became of a due instant. @param {Record<string, any> | null | undefined} firing */
export function firingText(firing) {
  if (!firing) return "has not fired yet";
  const why = firing.reason ? (REASONS[firing.reason] ?? firing.reason.replaceAll("_", " ")) : "";
  const count = firing.count > 1 ? ` ${firing.count} times` : "";
  return `${firing.status}${count}${why ? `: ${why}` : ""}`;
}

/** @param {string} zone @returns {ScheduleFields} A form that nothing was entered into. */
export function emptyFields(zone) {
  return {
    ...{ name: "", timing: "cron", cron: "0 3 * * *", every: "15", unit: "m", zone, kind: "task", instruction: "", pack: "", target: "" },
    ...{ persistent: false, session: "", model: "", misfire: "once", overlap: "skip", doubt: "ask", maxLate: "1440", failures: "5", daily: "", jitter: "0" },
  };
}

/** @param {Record<string, any>} schedule @returns {ScheduleFields} A form about a schedule that exists. */
export function fieldsOf(schedule) {
  const interval = schedule.every ? intervalParts(schedule.every) : { every: "15", unit: "m" };
  const kinds = /** @type {Record<string, string>} */ ({ workflow: "workflow", chat: "chat", channel: "channel", node_command: "node" });
  return {
    name: schedule.name,
    timing: schedule.every ? "every" : "cron",
    cron: schedule.cron_expression ?? "",
    ...interval,
    zone: schedule.timezone,
    kind: kinds[schedule.target_kind] ?? (schedule.target ? "agent" : "task"),
    instruction: schedule.task_instruction ?? "",
    pack: schedule.agent_id ?? "",
    target: schedule.target ?? "",
    persistent: Boolean(schedule.use_persistent_chat),
    session: schedule.chat_session_id ?? "",
    model: schedule.required_model ?? "",
    misfire: schedule.misfire,
    overlap: schedule.overlap,
    doubt: schedule.on_doubt,
    maxLate: String(schedule.max_late_s / 60),
    failures: String(schedule.pause_after_failures),
    daily: schedule.daily_runs ? String(schedule.daily_runs) : "",
    jitter: String(schedule.jitter_s),
  };
}

/** The rule of a form, as a request has it. @param {ScheduleFields} fields @returns {Record<string, any>} */
export function ruleOf(fields) {
  if (fields.timing === "every") return { every: `${fields.every}${fields.unit}` };
  return { cron_expression: fields.cron.trim(), timezone: fields.zone };
}

/**
 * What a form asks for.
 *
 * @param {ScheduleFields} fields
 * @param {Record<string, any>} inputs Those of the workflow or agent.
 * @returns {Record<string, any>}
 */
export function wishOf(fields, inputs) {
  const kinds = /** @type {Record<string, string>} */ ({ workflow: "workflow", chat: "chat", channel: "channel", node: "node_command" });
  const says = ["task", "chat", "channel", "node"].includes(fields.kind);
  return {
    ...ruleOf(fields),
    target_kind: kinds[fields.kind] ?? "agent",
    target: fields.kind === "task" || fields.kind === "chat" ? "" : fields.target,
    task_instruction: says ? fields.instruction : "",
    agent_id: fields.kind === "task" ? fields.pack : "",
    inputs: ["workflow", "agent"].includes(fields.kind) ? inputs : {},
    required_model: fields.model,
    misfire: fields.misfire,
    overlap: fields.overlap,
    on_doubt: ["chat", "channel"].includes(fields.kind) ? "ask" : fields.doubt,
    max_late_s: Number(fields.maxLate) * 60,
    pause_after_failures: Number(fields.failures),
    daily_runs: fields.daily === "" ? null : Number(fields.daily),
    jitter_s: Number(fields.jitter),
    use_persistent_chat: fields.kind === "chat" && fields.persistent,
    chat_session_id: fields.kind === "chat" && fields.persistent ? fields.session : "",
  };
}
