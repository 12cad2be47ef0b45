// A screen as rows of text with attributes, as the server's screen model has it: for thumbnails, cards and approvals.

import { toCells } from "./cells.js";
import { cssColour } from "./colours.js";
import { html, nothing } from "./lit.js";

/** @typedef {{begin: number, end: number, fg?: string, bg?: string, reverse?: boolean} & Record<string, any>} AttributeRun */
/** @typedef {{rows: string[], attributes?: AttributeRun[][], cursor?: {row: number, col: number}, cols?: number}} Screen */

const FLAGS = ["bold", "faint", "italics", "underline", "strikethrough", "hidden", "typed"];

/**
 * A screen as a template. `label` names it for screen readers.
 * @param {Screen} screen
 * @param {string} label
 */
export function screenView({ rows, attributes, cursor }, label) {
  return html`<div class="screen" role="img" aria-label=${label} tabindex="0">
    ${rows.map((row, number) => html`<div class="row">${spans(row, attributes?.[number] ?? [], cursor?.row === number ? cursor.col : -1)}</div>`)}
  </div>`;
}

/**
 * The row as pieces of equal attributes.
 * @param {string} text
 * @param {AttributeRun[]} runs in the order of their columns
 * @param {number} cursor column, or -1
 */
export function spans(text, runs, cursor) {
  const cells = toCells(text, Math.max(cursor + 1, runs.at(-1)?.end ?? 0));
  const edges = new Set([0, cells.length, ...runs.flatMap((run) => [run.begin, run.end])]);
  if (cursor >= 0) edges.add(cursor).add(cursor + 1);
  const columns = [...edges].filter((edge) => edge <= cells.length).sort((a, b) => a - b);
  const left = runs.values();
  let next = left.next().value;
  return columns.slice(0, -1).map((begin, index) => {
    while (next && next.end <= begin) next = left.next().value;
    const run = next && next.begin <= begin ? next : undefined;
    const piece = cells.slice(begin, columns[index + 1]).join("");
    if (!run && begin !== cursor) return piece;
    return html`<span class=${className(run, begin === cursor)} .style=${style(run)}>${piece}</span>`;
  });
}

/**
 * @param {AttributeRun | undefined} run
 * @param {boolean} isCursor
 */
function className(run, isCursor) {
  const names = run ? FLAGS.filter((flag) => run[flag]) : [];
  return isCursor ? [...names, "cursor"].join(" ") : names.join(" ") || nothing;
}

/** @param {AttributeRun | undefined} run */
function style(run) {
  if (!run) return "";
  const fg = cssColour(run.fg);
  const bg = cssColour(run.bg);
  if (run.reverse) return `color:${bg || "var(--term-bg)"};background:${fg || "var(--term-fg)"}`;
  return (fg && `color:${fg};`) + (bg && `background:${bg}`);
}
