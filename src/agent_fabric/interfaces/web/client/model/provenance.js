// Where the sentences of an answer stand in the text that is shown. Pure: it knows texts, not elements.

/**
 * @typedef {{start: number, end: number, events: number[], missing: string[]}} Sentence
 * @typedef {{piece: number, from: number, to: number}} Part
 *
 * A sentence has its place in the answer as it was written, counted in characters; `events` are those that it rests on,
 * `missing` is what of it stands nowhere. A part is a stretch of one piece of the text that is shown.
 */

const LINK = /!?\[([^\]]*)\]\([^)]*\)/g;
const LETTER = /[\p{L}\p{N}]/u;
const TAIL = /^[^\p{L}\p{N}\s]+/u;

/** What is left of a text when everything is taken away that markdown may mean something by. @param {string} text */
export function lettersOf(text) {
  let letters = "";
  for (const character of text.replace(LINK, "$1")) if (LETTER.test(character)) letters += character;
  return letters;
}

/**
 * Find each sentence in what is shown of the answer.
 *
 * @param {string} content The answer as it was written.
 * @param {Sentence[]} sentences In the order in which they stand there.
 * @param {string[]} pieces The text that is shown, in pieces.
 * @returns {Part[][]} The parts of each sentence; none: it is not to be found.
 */
export function placesOf(content, sentences, pieces) {
  const characters = [...content];
  const shown = indexOf(pieces);
  let from = 0;
  return sentences.map(({ start, end }) => {
    const wanted = lettersOf(characters.slice(start, end).join(""));
    const at = wanted ? shown.letters.indexOf(wanted, from) : -1;
    if (at < 0) return [];
    from = at + wanted.length;
    return partsBetween(shown, pieces, at, from);
  });
}

/** @typedef {{letters: string, piece: number[], offset: number[]}} Index For each unit of `letters`, where it stands. */

/** @param {string[]} pieces @returns {Index} */
function indexOf(pieces) {
  let letters = "";
  /** @type {number[]} */
  const piece = [];
  /** @type {number[]} */
  const offset = [];
  pieces.forEach((text, nth) => {
    let place = 0;
    for (const character of text) {
      if (LETTER.test(character)) {
        letters += character;
        for (let unit = 0; unit < character.length; unit += 1) {
          piece.push(nth);
          offset.push(place + unit);
        }
      }
      place += character.length;
    }
  });
  return { letters, piece, offset };
}

/** @param {Index} shown @param {string[]} pieces @param {number} first @param {number} end @returns {Part[]} */
function partsBetween(shown, pieces, first, end) {
  /** @type {Part[]} */
  const parts = [];
  for (let index = first; index < end; index += 1) {
    const last = parts.at(-1);
    if (last?.piece === shown.piece[index]) last.to = shown.offset[index] + 1;
    else parts.push({ piece: shown.piece[index], from: shown.offset[index], to: shown.offset[index] + 1 });
  }
  parts.forEach((part, nth) => {
    if (nth > 0) part.from = 0;
    if (nth < parts.length - 1) part.to = pieces[part.piece].length; // it goes on in the next one
  });
  const last = /** @type {Part} */ (parts.at(-1));
  last.to += TAIL.exec(pieces[last.piece].slice(last.to))?.[0].length ?? 0; // its full stop belongs to it
  return parts;
}
