// What a plain terminal shows: text, lines that are written over, and nothing of what paints screens. Pure.

const MOST = 200_000;
// Control sequences: CSI, OSC (with its end), and the short ones.
const SEQUENCES = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[ -/]*[0-Z\\^-~])/g;

/**
 * Add what came to what is shown.
 *
 * @param {string} shown
 * @param {string} came
 * @returns {string} At most the newest 200,000 characters.
 */
export function addPrinted(shown, came) {
  const from = shown.lastIndexOf("\n") + 1;
  let done = shown.slice(0, from);
  let line = [...shown.slice(from)];
  let at = line.length;
  for (const sign of came.replace(SEQUENCES, "")) {
    if (sign === "\n") {
      done += `${line.join("")}\n`;
      line = [];
      at = 0;
    } else if (sign === "\r") at = 0;
    else if (sign === "\b") at = Math.max(0, at - 1);
    else if (sign >= " " || sign === "\t") {
      line[at] = sign;
      at += 1;
    }
  }
  return (done + line.join("")).slice(-MOST);
}

/** @param {string} text @returns {string} Its bytes in Base64. */
export function typed(text) {
  return btoa(String.fromCharCode(...new TextEncoder().encode(text)));
}
