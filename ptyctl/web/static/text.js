// Text of terminals, devices and people as the page shows it.

import { html } from "./lit.js";

/** Control, bidirectional and invisible characters, except for the line break. */
const HIDDEN = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

/**
 * The text with hidden characters as escapes such as `\x1b`.
 * @param {string} text
 */
export const visible = (text) =>
  text.replace(HIDDEN, (letter) => {
    const code = letter.charCodeAt(0).toString(16);
    return code.length > 2 ? `\\u${code.padStart(4, "0")}` : `\\x${code.padStart(2, "0")}`;
  });

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
