// Every drawer, in one place. A new one is a module beside this one and a line here.

/**
 * @typedef {{name: string, title: string, part: string, needs?: string, hidden?: boolean, load: () => Promise<any>}} DrawerEntry
 *
 * `needs` is the scope without which it is not offered; a hidden one has another way in.
 */

/** @type {DrawerEntry[]} */
export const DRAWERS = [
  { name: "runs", title: "Runs", part: "Runs", load: () => import("./runs.js") },
  { name: "approvals", title: "Approvals", part: "Approvals", load: () => import("./approvals.js") },
  { name: "clock", title: "Clock", part: "Clock", load: () => import("./clock.js") },
  { name: "fleet", title: "Fleet", part: "Fleet", load: () => import("./fleet.js") },
  { name: "memory", title: "Memory", part: "Memory", load: () => import("./memory.js") },
  { name: "channels", title: "Channels", part: "Channels", load: () => import("./channels.js") },
  { name: "workflows", title: "Workflows", part: "Workflows", load: () => import("./workflows.js") },
  { name: "agents", title: "Agents", part: "Agents", load: () => import("./agents.js") },
  { name: "models", title: "Models", part: "Models", load: () => import("./models.js") },
  { name: "policy", title: "Policy", part: "Policy", load: () => import("./policy.js") },
  { name: "audit", title: "Audit", part: "Audit", needs: "admin", load: () => import("./audit.js") },
  { name: "people", title: "People and keys", part: "People", needs: "admin", load: () => import("./people.js") },
  { name: "settings", title: "Settings", part: "Settings", load: () => import("./settings.js") },
  { name: "keys", title: "Keys", part: "Keys", hidden: true, load: () => import("./keys.js") },
];
