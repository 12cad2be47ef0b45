// Columns of characters: the server's table and its rules, so that the page places each cell as the server does.

import { WIDE, ZERO } from "/static/widths.js";

const ZERO_WIDTH_JOINER = 0x200d;

/** Whether a character is in one of the ranges. @param {[number, number][]} ranges @param {number} code */
function isIn(ranges, code) {
  let low = 0;
  let high = ranges.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((ranges[middle]?.[1] ?? 0) < code) low = middle + 1;
    else high = middle;
  }
  return (ranges[low]?.[0] ?? Infinity) <= code;
}

/** The number of columns of a character. @param {number} code @returns {0 | 1 | 2} */
export const width = (code) => (code < 0x300 && code !== 0xad ? 1 : isIn(ZERO, code) ? 0 : isIn(WIDE, code) ? 2 : 1);

/**
 * The text by column: a character of two columns is followed by an empty string. Characters without a column, and any character
 * after a zero width joiner, belong to the cell before.
 * @param {string} text
 * @param {number} columns minimum number of columns
 */
export function toCells(text, columns) {
  /** @type {string[]} */
  const cells = /^[\x20-\x7e]*$/.test(text) ? [...text] : [];
  let last = -1;
  let isJoined = false;
  let before = "";
  for (const letter of cells.length ? "" : text) {
    const code = letter.codePointAt(0) ?? 0;
    const size = width(code);
    if (last >= 0 && (size === 0 || isJoined)) cells[last] += letter;
    else if (size === 0) before += letter;
    else {
      last = cells.length;
      cells.push(before + letter, ...(size === 2 ? [""] : []));
      before = "";
    }
    isJoined = last >= 0 && code === ZERO_WIDTH_JOINER;
  }
  if (before) cells.push(before);
  while (cells.length < columns) cells.push(" ");
  return cells;
}

/** The widths for xterm.js, with its encoding: bit 0 joins the cell before, two bits are the width, the others a state. */
export const unicodeProvider = {
  version: "ptyctl",
  wcwidth: width,
  /** @param {number} code @param {number} preceding the value of the character before, 0 after a control */
  charProperties(code, preceding) {
    const size = width(code);
    const joins = size === 0 || preceding >> 3 === 1;
    return ((code === ZERO_WIDTH_JOINER ? 1 : 0) << 3) | ((joins ? 0 : size) << 1) | (joins ? 1 : 0);
  },
};
