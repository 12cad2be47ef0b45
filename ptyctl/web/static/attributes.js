// The attributes of a block's text: read from its raw output, and applied to the lines of the rendered text that are equal.

import { toCells } from "./cells.js";
import { spans } from "./screen_view.js";

/** @typedef {import("./screen_view.js").AttributeRun} AttributeRun */
/** @typedef {Record<string, string | boolean>} Style */

/** SGR, other sequences and controls, which draw nothing, and text. */
const TOKENS = /\x1b\[([\d;:]*)m|\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[ -/]*[0-~]|[\x00-\x08\x0b-\x1f\x7f]|([^\x00-\x08\x0b-\x1f\x7f]+)/g;
/** A longer line of raw output has no attributes: drawing its cells would take too long. */
const MAX_LINE = 2_000;
/** The flags that a card shows: not 8, hidden, which would also hide other lines with the same text. @type {Record<number, string>} */
const FLAGS = { 1: "bold", 2: "faint", 3: "italics", 4: "underline", 7: "reverse", 9: "strikethrough" };

/** Where the runs of a line are: by its text, and by its number among the lines with the same text. @param {string} text @param {number} number */
const place = (text, number) => (number ? `${text}\n${number}` : text);

/** Counts the lines with each text. */
function counter() {
  /** @type {Map<string, number>} */
  const counts = new Map();
  return (/** @type {string} */ text) => {
    const count = counts.get(text) ?? 0;
    counts.set(text, count + 1);
    return count;
  };
}

/**
 * The runs of each line of raw output, by its place. A line that was drawn again has another text, and no attributes.
 * @param {string} raw
 */
export function attributesOf(raw) {
  /** @type {Map<string, AttributeRun[]>} */
  const lines = new Map();
  /** @type {Style} */
  let style = {};
  const count = counter();
  for (const line of raw.split("\n")) {
    /** @type {AttributeRun[]} */
    const runs = [];
    let text = "";
    let end = 0;
    for (const [, codes, piece] of line.matchAll(TOKENS)) {
      if (codes !== undefined) style = restyled(style, codes);
      if (!piece || line.length > MAX_LINE) continue;
      const begin = end;
      end += toCells(piece, 0).length;
      text += piece;
      if (Object.keys(style).length) runs.push({ begin, end, ...style });
    }
    const number = count(text);
    if (runs.length) lines.set(place(text, number), runs);
  }
  return lines;
}

/**
 * Lines of text with their attributes; lines without attributes are one piece.
 * @param {string[]} lines from the first line of the output on
 * @param {Map<string, AttributeRun[]>} attributes
 * @param {number} [begin] the first line that is shown
 */
export function attributed(lines, attributes, begin = 0) {
  const count = counter();
  const pieces = [];
  let plain = "";
  for (const [number, line] of lines.entries()) {
    const runs = attributes.size ? attributes.get(place(line, count(line))) : undefined;
    if (number < begin) continue;
    if (number > begin) plain += "\n";
    if (!runs) plain += line;
    else {
      pieces.push(plain, spans(line, runs, -1));
      plain = "";
    }
  }
  return [...pieces, plain];
}

/**
 * The style after SGR: codes separated by `;`, each with its fields after `:`. The first 16 of 256 colours are those of 30 to
 * 37 and 90 to 97.
 * @param {Style} style
 * @param {string} codes
 */
function restyled(style, codes) {
  const next = { ...style };
  const parts = codes.split(";");
  for (let part = parts.shift(); part !== undefined; part = parts.shift()) {
    const [code = 0, ...fields] = part.split(":").map(Number);
    const place = (code >= 40 && code < 50) || code >= 100 ? "bg" : "fg";
    if (code === 38 || code === 48 || code === 58) {
      const colour = colourOf(fields.length ? fields : colourFields(parts));
      if (colour && code !== 58) next[place] = colour; // 58: of the underline
    } else if (code === 0) for (const name of Object.keys(next)) delete next[name];
    else if (code === 4 && fields[0] === 0) delete next.underline;
    else if (code in FLAGS) next[FLAGS[code] ?? ""] = true;
    else if (code === 22) delete next.bold, delete next.faint;
    else if (code > 22 && code < 30) delete next[FLAGS[code - 20] ?? ""];
    else if (code === 39 || code === 49) delete next[place];
    else if (((code >= 30 && code < 48) || (code >= 90 && code < 108)) && code % 10 < 8) next[place] = `color${(code % 10) + (code >= 90 ? 8 : 0)}`;
  }
  return next;
}

/** Takes the fields of a colour from the codes that follow it. @param {string[]} parts */
const colourFields = (parts) => parts.splice(0, parts[0] === "2" ? 4 : parts[0] === "5" ? 2 : 1).map(Number);

/** The colour for its fields: `5` and an index, or `2`, with `:` the colour space, and red, green and blue. @param {number[]} fields */
function colourOf([kind, ...values]) {
  if (kind === 5 && values.length) return `color${values[0]}`;
  const rgb = values.length > 3 ? values.slice(1, 4) : values;
  return kind === 2 && rgb.length === 3 ? `#${rgb.map((part) => part.toString(16).padStart(2, "0")).join("")}` : "";
}
