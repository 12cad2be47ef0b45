// A terminal of xterm.js. It shows output and reports what a person types; it never answers the far end, which only the
// daemon does, and it has no effect beyond its element.

import { FitAddon } from "/vendor/@xterm/addon-fit/lib/addon-fit.mjs";
import { SearchAddon } from "/vendor/@xterm/addon-search/lib/addon-search.mjs";
import { WebLinksAddon } from "/vendor/@xterm/addon-web-links/lib/addon-web-links.mjs";
import { WebglAddon } from "/vendor/@xterm/addon-webgl/lib/addon-webgl.mjs";
import { Terminal as XTerm } from "/vendor/@xterm/xterm/lib/xterm.mjs";
import { unicodeProvider } from "./cells.js";
import { colourName, palette } from "./colours.js";
import { hasFastWebgl, onPreferenceChange } from "./features.js";
import { visible } from "./text.js";
import { confirmDialog, fromBase64 } from "./ui.js";

/**
 * @typedef {object} Options
 * @property {boolean} [readOnly]
 * @property {(data: string) => void} [onData] typed or pasted text
 * @property {(data: string) => void} [onBinary] mouse reports, one byte per character
 * @property {(event: KeyboardEvent) => boolean} [onKey] returns whether the page handled the key
 */
/** @typedef {ReturnType<typeof createTerminal>} Terminal */
/** @typedef {{cols: number, rows: number}} Size */

const FONT_PX = 14;
const SMALLEST_FONT_PX = 7;
/** Space around the screen, in its element. */
const BORDER_PX = 8;
const SCROLLBACK = 5_000;
/** Queries by private prefix, intermediates and final. The daemon answers them; the daemon's sanitizer removes them too. */
const QUERIES = ["c", ">c", "=c", "n", "?n", ">n", "$p", "?$p", ">q", "?u", "t", "x", "?S", "$w", "*y"];
/** OSC that only set something, unless they contain a `?`: colours. */
const COLOURS = [4, 5, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19];
const CLIPBOARD = 52;
const FOCUS_REPORTS = ["\x1b[I", "\x1b[O"];

/** Whether WebGL uses a graphics processor; undefined until the first terminal. @type {boolean | undefined} */
let accelerated;
/** @type {WeakMap<Element, XTerm>} */
const terminals = new WeakMap();

document.createElement = createStyled;

/** The xterm.js terminal in an element. @param {Element} element */
export const terminalOf = (element) => terminals.get(element);

/**
 * @param {HTMLElement} element
 * @param {Options} [options]
 */
export function createTerminal(element, { readOnly = false, onData, onBinary, onKey } = {}) {
  const xterm = new XTerm({
    allowProposedApi: true,
    cursorBlink: false,
    disableStdin: readOnly,
    fontFamily: getComputedStyle(element).getPropertyValue("--mono"),
    fontSize: FONT_PX,
    linkHandler: { activate: (_, address) => void openLink(address), allowNonHttpProtocols: false },
    minimumContrastRatio: 4.5,
    scrollback: SCROLLBACK,
    theme: theme(element),
  });
  const fit = new FitAddon();
  const search = new SearchAddon();
  for (const addon of [fit, search, new WebLinksAddon((_, address) => void openLink(address))]) {
    xterm.loadAddon(addon);
  }
  xterm.unicode.register(unicodeProvider);
  xterm.unicode.activeVersion = unicodeProvider.version;
  swallowQueries(xterm);
  xterm.open(element);
  useWebgl(xterm);
  terminals.set(element, xterm);
  if (!readOnly) {
    xterm.onData((data) => FOCUS_REPORTS.includes(data) || onData?.(data));
    xterm.onBinary((data) => onBinary?.(data));
  }
  // Without input, only Shift with a key scrolls: Tab leaves the terminal, and the page gets its keys.
  const isPageKey = readOnly ? (/** @type {KeyboardEvent} */ { key, shiftKey }) => !shiftKey || key === "Tab" : onKey;
  xterm.attachCustomKeyEventHandler((event) => event.type !== "keydown" || !isPageKey?.(event));
  /** Whether the smallest font is too large for the whole screen. */
  let isCut = false;
  const showCursor = () => {
    if (!isCut) return;
    const screen = /** @type {HTMLElement} */ (element.querySelector(".xterm-screen"));
    element.scrollTop = (screen.clientHeight * (xterm.buffer.active.cursorY + 1)) / xterm.rows - element.clientHeight + BORDER_PX;
  };
  xterm.onRender(showCursor); // not before: the size of the screen follows the font with its next frame
  const changeTheme = () => (xterm.options.theme = theme(element));
  addEventListener("themechange", changeTheme);
  const ignorePreference = onPreferenceChange(changeTheme);

  const terminal = {
    xterm,
    search,
    /**
     * Writes output; calls `parsed` once it is on the screen.
     * @param {string | Uint8Array} data
     * @param {() => void} [parsed]
     */
    write: (data, parsed) => xterm.write(data, parsed),
    /** Shows a screen that the daemon has drawn. @param {Record<string, any>} screen */
    paint(screen) {
      terminal.reset(screen.cols, screen.rows_count);
      xterm.write(fromBase64(screen.data_b64), terminal.scale);
    },
    /**
     * Makes the terminal blank, once everything written before is parsed.
     * @param {number} cols
     * @param {number} rows
     */
    reset(cols, rows) {
      xterm.write("", () => {
        xterm.reset();
        xterm.resize(cols, rows);
      });
    },
    /** The size that fills the element at the normal font size. @returns {Size | undefined} */
    fittingSize() {
      xterm.options.fontSize = FONT_PX;
      return fit.proposeDimensions();
    },
    /** Chooses the font size so that the whole screen is visible, or the line of the cursor if that font would be too small. */
    scale() {
      let size = FONT_PX;
      xterm.options.fontSize = size;
      isCut = false;
      for (let step = 0; step < 4; step++) {
        const proposed = fit.proposeDimensions();
        if (!proposed || (proposed.cols >= xterm.cols && proposed.rows >= xterm.rows)) return;
        const ratio = Math.min(proposed.cols / xterm.cols, proposed.rows / xterm.rows);
        size = Math.max(SMALLEST_FONT_PX, Math.min(size - 0.5, Math.floor(2 * size * ratio) / 2));
        xterm.options.fontSize = size;
        if (size === SMALLEST_FONT_PX) return void (isCut = true);
      }
    },
    focus: () => xterm.focus(),
    dispose() {
      removeEventListener("themechange", changeTheme);
      ignorePreference();
      terminals.delete(element);
      xterm.dispose();
    },
  };
  return terminal;
}

/**
 * Drops what xterm.js would answer, and access to the clipboard.
 * @param {XTerm} xterm
 */
function swallowQueries({ parser }) {
  for (const query of QUERIES) {
    const [, prefix, intermediates, final] = /^([?>=]?)(\W?)(\w)$/.exec(query) ?? [];
    parser.registerCsiHandler({ ...(prefix && { prefix }), ...(intermediates && { intermediates }), final: final ?? "" }, () => true);
  }
  for (const intermediates of ["$", "+"]) parser.registerDcsHandler({ intermediates, final: "q" }, () => true);
  for (const number of COLOURS) parser.registerOscHandler(number, (data) => data.includes("?"));
  parser.registerOscHandler(CLIPBOARD, () => true);
  parser.registerEscHandler({ final: "Z" }, () => true);
}

/** @param {string} address */
async function openLink(address) {
  if (!/^https?:\/\//i.test(address)) return;
  const answer = await confirmDialog({ title: "Open this address?", text: visible(address), action: "Open in a new tab" });
  if (answer) open(address, "_blank", "noopener,noreferrer");
}

/**
 * Draws with WebGL, unless the browser would do it in software: xterm.js's DOM renderer is faster then.
 * @param {XTerm} xterm
 */
function useWebgl(xterm) {
  accelerated ??= hasFastWebgl();
  if (!accelerated) return;
  try {
    const addon = new WebglAddon();
    addon.onContextLoss(() => addon.dispose()); // xterm.js continues with its DOM renderer
    xterm.loadAddon(addon);
  } catch {
    // The browser has no WebGL: the DOM renderer stays.
  }
}

/** @param {HTMLElement} element */
function theme(element) {
  const { color, backgroundColor } = getComputedStyle(element);
  const plain = { background: backgroundColor, foreground: color, cursor: color, cursorAccent: backgroundColor, selectionBackground: "#6cb2f766" };
  return { ...plain, ...Object.fromEntries(palette().map((value, index) => [colourName(index), value])) };
}

/**
 * Creates an element for xterm.js that conforms to the Content-Security-Policy, which rejects style elements without a nonce, and
 * style attributes that are set as text. It replaces `document.createElement`, because parts of xterm.js use the document itself:
 * the DOM renderer sets the colours of each row by style attributes.
 * @param {string} name
 */
function createStyled(name) {
  const element = Document.prototype.createElement.call(document, name);
  if (element instanceof HTMLStyleElement) {
    element.nonce = document.querySelector("meta[name=csp-nonce]")?.getAttribute("content") ?? "";
  } else if (element instanceof HTMLSpanElement) {
    element.setAttribute = (name, value) =>
      name === "style" ? void (element.style.cssText = value) : Element.prototype.setAttribute.call(element, name, value);
  }
  return element;
}
