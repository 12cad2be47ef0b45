// Text of terminals, devices and people as the page shows it.

import { html } from "./lit.js";

/** Control, bidirectional and invisible characters, and surrogates, except for the line break. */
const HIDDEN = /(?!\n)[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Zl}\p{Zp}\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\uffa0]/gu;

/**
 * The text with hidden characters as escapes such as `\x1b`.
 * @param {string} text
 */
export const visible = (text) => text.replace(HIDDEN, escaped);

/** A sentence of the page: as `visible`, but it keeps the marks of `isolated`. @param {string} text */
export const sentence = (text) => text.replace(HIDDEN, (letter) => (/[\u2068\u2069]/.test(letter) ? letter : escaped(letter)));

/** @param {string} letter */
function escaped(letter) {
  const code = (letter.codePointAt(0) ?? 0).toString(16);
  if (code.length > 4) return `\\U${code.padStart(8, "0")}`;
  return code.length > 2 ? `\\u${code.padStart(4, "0")}` : `\\x${code.padStart(2, "0")}`;
}

/**
 * A name that others chose, for a sentence: its hidden characters are escapes, and its direction does not reorder the sentence.
 * @param {unknown} text
 */
export const name = (text) => html`<bdi>${visible(String(text ?? ""))}</bdi>`;

/** The same for a place that has only text, such as a toast. @param {unknown} text */
export const isolated = (text) => {
  const shown = visible(String(text ?? ""));
  return /^[\x00-\x7f]*$/.test(shown) ? shown : `\u2068${shown}\u2069`;
};

/**
 * The text with some spans marked.
 * @param {string} text
 * @param {[begin: number, end: number][]} spans ascending and separate, in characters (code points)
 */
export function withMarks(text, spans) {
  const letters = [...text];
  const pieces = [];
  let at = 0;
  for (const [begin, end] of spans) {
    pieces.push(visible(letters.slice(at, begin).join("")), html`<mark>${visible(letters.slice(begin, end).join(""))}</mark>`);
    at = end;
  }
  return [...pieces, visible(letters.slice(at).join(""))];
}

/**
 * The text with the matches marked. The daemon matches with RE2; a pattern that JavaScript reads differently marks nothing.
 * @param {string} text
 * @param {string} query
 * @param {boolean} regex
 */
export function marked(text, query, regex) {
  if (!query) return visible(text);
  const source = regex ? query : query.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");
  let pattern;
  try {
    pattern = new RegExp(`(${source})`, "u");
  } catch {
    return visible(text);
  }
  const match = pattern.exec(text);
  if (!match?.[0]) return visible(text);
  const end = match.index + match[0].length;
  return html`${visible(text.slice(0, match.index))}<mark>${visible(match[0])}</mark>${visible(text.slice(end))}`;
}
