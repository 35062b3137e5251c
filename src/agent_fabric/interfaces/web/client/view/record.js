// Whether this chat is as it was recorded: the hashes of all its turns, recomputed.

import { html, useEffect, useState } from "../vendor/htm-preact.js";
import { get } from "../net/api.js";
import { counted } from "../model/words.js";

const CALM_MS = 1200;

/** @param {{session: string, answered: string, automatic: boolean}} props */
export function Verified({ session, answered, automatic }) {
  const [told, setTold] = useState(/** @type {any} */ (null));
  const check = () => get(`/api/v1/sessions/${encodeURIComponent(session)}/verify`).then(setTold, () => setTold(null));
  useEffect(() => {
    setTold(null);
    if (!automatic) return undefined;
    const timer = window.setTimeout(check, CALM_MS); // what one came for goes first
    return () => clearTimeout(timer);
  }, [session, answered, automatic]);
  if (told === null) return html`<button type="button" class="quiet-button record" onClick=${check} title="Recompute the hashes of all turns">Check the record</button>`;
  const damaged = told.turns.filter((/** @type {any} */ turn) => !turn.holds).length;
  const words = told.holds ? `The hash chain of ${counted(told.events, "event")} in ${counted(told.turns.length, "turn")} holds.` : `${counted(damaged, "turn")} of this chat ${damaged === 1 ? "is" : "are"} not as recorded.`;
  return html`<button type="button" class=${`record status ${told.holds ? "completed" : "failed"}`} data-test="record" title=${words} aria-label=${`${told.holds ? "Verified" : "Not as recorded"}. ${words}`} onClick=${check}>${told.holds ? "verified" : "not as recorded"}</button>`;
}
