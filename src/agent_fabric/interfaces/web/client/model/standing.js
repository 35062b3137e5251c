// How the model of the session that is shown stands: ready, busy, loading, queued behind others, or blocked.

const AHEAD = /^waiting for (.+), (\d+) ahead$/;

/**
 * @typedef {{state: "unknown" | "ready" | "busy" | "loading" | "queued" | "blocked", title: string, ahead: number}} Standing
 *
 * @param {{connected: boolean, run: import("./fold.js").RunView | undefined}} now `run` is the newest turn.
 * @returns {Standing}
 */
export function standingOf({ connected, run }) {
  if (!connected) return { state: "unknown", title: "Not connected", ahead: 0 };
  if (run?.status === "failed" && run.error?.code.startsWith("model_"))
    return { state: "blocked", title: [run.error.message, run.error.hint].filter(Boolean).join(" "), ahead: 0 };
  const ahead = AHEAD.exec(run?.notice ?? "");
  if (ahead) return { state: "queued", title: run?.notice ?? "", ahead: Number(ahead[2]) };
  if (run?.progress && run.notice) return { state: "loading", title: run.notice, ahead: 0 };
  return run?.thinking ? { state: "busy", title: "Answering", ahead: 0 } : { state: "ready", title: "Ready", ahead: 0 };
}
