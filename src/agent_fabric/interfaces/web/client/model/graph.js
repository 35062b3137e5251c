// A workflow's steps as boxes and lines: each step one row below the last of those it waits for.

const WIDTH = 150;
const HEIGHT = 40;
const GAP_X = 16;
const GAP_Y = 28;

/**
 * @typedef {{id: string, action: string, x: number, y: number, width: number, height: number}} Box
 */

/**
 * @param {{id: string, action?: string, depends_on?: string[]}[]} steps
 * @returns {{boxes: Box[], edges: string[], width: number, height: number}}
 */
export function graphOf(steps) {
  const known = new Map(steps.map((step) => [step.id, step]));
  /** @type {Map<string, number>} */
  const rows = new Map();
  /** @param {string} id @param {Set<string>} above @returns {number} */
  const rowOf = (id, above) => {
    const found = rows.get(id);
    if (found !== undefined) return found;
    const needed = (known.get(id)?.depends_on ?? []).filter((each) => known.has(each) && !above.has(each));
    const row = needed.length ? 1 + Math.max(...needed.map((each) => rowOf(each, new Set([...above, id])))) : 0;
    rows.set(id, row);
    return row;
  };
  /** @type {Map<number, number>} */
  const used = new Map();
  /** @type {Map<string, Box>} */
  const boxes = new Map();
  for (const step of steps) {
    const row = rowOf(step.id, new Set());
    const column = used.get(row) ?? 0;
    used.set(row, column + 1);
    const x = 4 + column * (WIDTH + GAP_X);
    boxes.set(step.id, { id: step.id, action: step.action ?? "", x, y: 4 + row * (HEIGHT + GAP_Y), width: WIDTH, height: HEIGHT });
  }
  /** @type {string[]} */
  const edges = [];
  for (const step of steps)
    for (const before of step.depends_on ?? []) {
      const from = boxes.get(before);
      const to = boxes.get(step.id);
      if (from && to) {
        const [x1, y1, x2, y2] = [from.x + WIDTH / 2, from.y + HEIGHT, to.x + WIDTH / 2, to.y];
        edges.push(`M${x1} ${y1}C${x1} ${y1 + GAP_Y / 2} ${x2} ${y2 - GAP_Y / 2} ${x2} ${y2}`);
      }
    }
  const all = [...boxes.values()];
  return {
    boxes: all,
    edges,
    width: Math.max(WIDTH, ...all.map((box) => box.x + WIDTH)) + 4,
    height: Math.max(HEIGHT, ...all.map((box) => box.y + HEIGHT)) + 4,
  };
}
