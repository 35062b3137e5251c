// Numbers, times, addresses and calls in words. Pure: the same on every machine that is told the same.

/** @param {number} bytes */
export function sizeText(bytes) {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let size = bytes;
  let unit = 0;
  while (size >= 1000 && unit < units.length - 1) {
    size /= 1000;
    unit += 1;
  }
  return `${unit && size < 10 ? size.toFixed(1) : Math.round(size)} ${units[unit]}`;
}

/** What something cost, in the currency of the prices; small amounts with the digits that say something. @param {number} cost */
export function costText(cost) {
  return cost >= 1 ? cost.toFixed(2) : String(Number(cost.toPrecision(3)));
}

/** @param {number} seconds */
export function durationText(seconds) {
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.round(seconds % 60)} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} days`;
}

/**
 * When something was, seen from now.
 *
 * @param {number} at Seconds since 1970.
 * @param {number} now The same.
 */
export function agoText(at, now) {
  const seconds = Math.max(0, now - at);
  if (seconds < 60) return "just now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ago`;
  if (seconds < 7 * 86400) return `${Math.floor(seconds / 86400)} d ago`;
  return new Date(at * 1000).toLocaleDateString(undefined, { year: "numeric", month: "short", day: "numeric" });
}

/** @param {number} at Seconds since 1970. */
export function dateText(at) {
  return new Date(at * 1000).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
}

/**
 * Where a link leads, if it may be followed: over http, https or to a mailbox.
 *
 * @param {string} address
 * @returns {{href: string, host: string} | null}
 */
export function safeLink(address) {
  let url;
  try {
    url = new URL(address);
  } catch {
    return null;
  }
  if (url.protocol === "mailto:") return { href: url.href, host: decodeURIComponent(url.pathname) };
  if ((url.protocol === "http:" || url.protocol === "https:") && url.host) return { href: url.href, host: url.host };
  return null;
}

/**
 * A call of a tool in one line.
 *
 * @param {string} tool
 * @param {Record<string, any>} args
 */
export function callText(tool, args) {
  const first = args.command ?? args.path ?? args.url ?? args.query ?? args.pattern ?? Object.values(args)[0] ?? "";
  const text = (typeof first === "string" ? first : JSON.stringify(first)).replace(/\s+/g, " ").trim();
  return { name: tool, about: text.length > 160 ? `${text.slice(0, 159)}…` : text };
}

/** @param {any} value @returns {string} A result of a tool as text. */
export function resultText(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "string") return value;
  if (typeof value === "object" && typeof value.output === "string" && Object.keys(value).length <= 3) return value.output;
  return JSON.stringify(value, null, 2);
}

/** @param {number} count @param {string} one @param {string} [many] */
export function counted(count, one, many = `${one}s`) {
  return `${count} ${count === 1 ? one : many}`;
}

/** How strong the box is, for people. @param {string} level */
export function boxText(level) {
  const words = {
    A: "level A: a closed box",
    "A+": "level A+: a container",
    B: "level B: limited by the kernel",
    C: "level C: no box",
  };
  return words[/** @type {keyof typeof words} */ (level)] ?? `level ${level}`;
}

/**
 * What bears out the result of a run that completed, as `/runs/RUN` tells it; an empty text: nothing was to be shown.
 *
 * @param {any} details
 * @returns {{proven: boolean, text: string}}
 */
export function evidenceText(details) {
  const { kind, command, tests, own_tests: own, changed_tests: changed } = details._meta.proof;
  if (details.unproven) return { proven: false, text: details.unproven };
  if (kind === "none") return { proven: true, text: "" };
  if (kind !== "tests" || !tests) return { proven: true, text: `${{ program: "it runs", build: "it builds" }[/** @type {string} */ (kind)] ?? "shown by"}: ${command}` };
  return { proven: true, text: `${counted(tests.passed, "test")}${own ? " of its own" : ""} passed${changed?.length ? ` (it changed ${changed.join(", ")})` : ""}: ${command}` };
}
