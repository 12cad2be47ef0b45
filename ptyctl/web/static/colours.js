// Colours of terminals: the palettes of the two themes, and the names that the server uses for cells.

import { prefersDark } from "./features.js";

const NAMES = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];
const DARK = ["#3b4252", "#f07178", "#8fce72", "#e5c07b", "#6cb2f7", "#c792ea", "#5fd0d6", "#d5dae2",
  "#768090", "#ff8f96", "#a9e28c", "#f4d58d", "#93c9ff", "#dab0f5", "#86e4e9", "#ffffff"]; // prettier-ignore
const LIGHT = ["#1c2128", "#b3261e", "#1a6b34", "#8a5200", "#0b62b8", "#8333a8", "#0a6a73", "#8b939e",
  "#565f6b", "#c8352c", "#22803f", "#9a6400", "#1a74cc", "#9747bd", "#0f7d88", "#dfe3e8"]; // prettier-ignore
const CUBE = [0, 95, 135, 175, 215, 255];

/** Whether the page is dark at present. */
const isDark = () => {
  const theme = document.documentElement.dataset.theme;
  return theme === "dark" || (theme !== "light" && prefersDark());
};

/** The 16 colours of the present theme. */
export const palette = () => (isDark() ? DARK : LIGHT);

/** The name of one of the 16 colours for xterm.js, such as `brightRed`. @param {number} index */
export function colourName(index) {
  const name = NAMES[index % 8] ?? "";
  return index < 8 ? name : `bright${name.charAt(0).toUpperCase()}${name.slice(1)}`;
}

/**
 * CSS colour for a colour of an AttributeRun: a name (`red`, `brightred`), `color208`, or `#rrggbb`.
 * @param {string | undefined} name
 */
export function cssColour(name) {
  if (!name) return "";
  if (/^#[0-9a-f]{6}$/i.test(name)) return name;
  const bright = name.startsWith("bright");
  const index = NAMES.indexOf(bright ? name.slice(6) : name);
  return index >= 0 ? (palette()[index + (bright ? 8 : 0)] ?? "") : indexed(Number(/^color(\d{1,3})$/.exec(name)?.[1] ?? -1));
}

/**
 * One of the 256 colours of xterm: 16 of the palette, a cube of 6 × 6 × 6, and 24 greys.
 * @param {number} index
 */
function indexed(index) {
  if (index < 0 || index > 255) return "";
  if (index < 16) return palette()[index] ?? "";
  if (index >= 232) return `rgb(${Array(3).fill(8 + 10 * (index - 232)).join(",")})`;
  const cell = index - 16;
  return `rgb(${[Math.floor(cell / 36), Math.floor(cell / 6) % 6, cell % 6].map((part) => CUBE[part]).join(",")})`;
}
