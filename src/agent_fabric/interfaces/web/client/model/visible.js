// Text that a person agrees to, with everything visible that could make it look like something else.

/** Control and format characters, and some that look like blanks. Line breaks and tabs stay. */
const HIDDEN = /[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Zl}\p{Zp}\u00a0\u115f\u1160\u2000-\u200a\u202f\u205f\u2800\u3000\u3164\uffa0]/gu;

/** @param {string} character */
const escaped = (character) => (character === "\n" || character === "\t" ? character : `\\u{${/** @type {number} */ (character.codePointAt(0)).toString(16)}}`);

/** Return a text in which nothing hides and nothing changes the order of what is read. @param {string} text */
export const visible = (text) => text.replace(HIDDEN, escaped);

/** Tell whether something of a text would not be seen. @param {string} text */
export const hides = (text) => visible(text) !== text;

/** Return JSON in which nothing hides: what would not be seen is written as the escape that JSON has for it. @param {string} json */
export const hiddenAsJson = (json) =>
  json.replace(HIDDEN, (character) => (character === "\n" ? character : [...Array(character.length).keys()].map((at) => `\\u${character.charCodeAt(at).toString(16).padStart(4, "0")}`).join("")));
