// Replay of a session: the screen at any place of its output, from the server's screen model, and the output from there on in
// its original timing.

import { ApiError, call, get, recording } from "../api.js";
import { hasFailed } from "../cards.js";
import { onSizeChange } from "../features.js";
import { html, nothing, render } from "../lit.js";
import { replaceAddress } from "../router.js";
import { followSession } from "../session_entry.js";
import { createTerminal } from "../terminal.js";
import { visible } from "../text.js";
import { bytes, errorBox, fromBase64, goneState, hasLetterKeys, link, sessionPath } from "../ui.js";

/** @typedef {Record<string, any>} Message */

const SPEEDS = [0.5, 1, 2, 4, 16];
/** Pauses are at most this long when idle time is skipped. */
const LONGEST_IDLE_MS = 400;
const MAX_BLOCKS = 1_000;
/** Browsers ignore changes of the address if there are many. */
const ADDRESS_INTERVAL_MS = 250;
/** A screen that takes long to draw is asked for again: drawing continues where it stopped. */
const RETRY_DELAY_MS = 1_000;

/** @param {HTMLElement} root @param {Record<string, string>} params */
export function mount(root, params) {
  const session = params.session ?? "";
  const path = `/api/session/${encodeURIComponent(session)}`;
  let offset = Number(params.offset) || 0;
  let size = offset;
  /** Whether the size of the recording has been read, or cannot be read. */
  let measured = false;
  let name = session;
  /** @type {number | null} */
  let ts = null;
  /** @type {Message[]} */
  let blocks = [];
  /** What follows the screen that is shown. */
  let events = recording(session, offset);
  /** The next event, once it is asked for. @type {Promise<IteratorResult<Message, void>> | null} */
  let next = null;
  let closed = false;
  let playing = false;
  /** Whether the screen of another place is awaited. */
  let busy = false;
  /** Number of the last call of `step`: an earlier one that still reads has no effect. */
  let generation = 0;
  let speed = 1;
  let skipIdle = true;
  /** @type {unknown} */
  let error = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let addressTimer;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let retryTimer;
  /** @type {AbortController | null} */
  let seeking = null;
  /** @type {import("../terminal.js").Terminal | null} */
  let terminal = null;

  /** Shows the screen at a place; a later call replaces this one. @param {number} place */
  async function seek(place) {
    seeking?.abort();
    const current = (seeking = new AbortController());
    generation++;
    clearTimeout(timer);
    clearTimeout(retryTimer);
    offset = Math.max(0, Math.min(place, size));
    busy = true;
    update();
    try {
      const screen = await get(`${path}/screen?at=${offset}`, { signal: current.signal });
      if (current.signal.aborted) return;
      error = null;
      show(screen);
      setAddress();
      if (playing) void step();
    } catch (failed) {
      if (current.signal.aborted) return;
      error = failed;
      if (failed instanceof ApiError && failed.error_code === "BUSY") {
        retryTimer = setTimeout(() => void seek(place), RETRY_DELAY_MS);
        return update();
      }
      playing = false;
    }
    busy = false;
    update();
  }

  /** Sets the address to the place that is shown after the interval. */
  function setAddress() {
    addressTimer ??= setTimeout(() => {
      addressTimer = undefined;
      replaceAddress(sessionPath(session, `/at/${offset}`));
    }, ADDRESS_INTERVAL_MS);
  }

  /** @param {Message} screen */
  function show(screen) {
    const shown = open();
    shown.paint(screen);
    offset = screen.raw_offset;
    ts = screen.ts;
    events = recording(session, offset);
    next = null;
  }

  function open() {
    const box = /** @type {HTMLElement} */ (root.querySelector(".term-box"));
    return (terminal ??= createTerminal(box, { readOnly: true }));
  }

  /** Plays the next event after its pause. */
  async function step() {
    const current = ++generation;
    const result = await (next ??= events.next()).catch((failed) => ({ failed }));
    if (!playing || current !== generation) return;
    if ("failed" in result) {
      error = result.failed;
      events = recording(session, offset);
      next = null;
    }
    const event = "value" in result && result.value;
    if (!event) {
      playing = false;
      return update();
    }
    const pause = Math.max(0, event.ts - (ts ?? event.ts));
    timer = setTimeout(() => play(event), (skipIdle ? Math.min(pause, LONGEST_IDLE_MS) : pause) / speed);
  }

  /** @param {Message} event */
  function play(event) {
    const shown = open();
    next = null;
    if (event.data_b64) shown.write(fromBase64(event.data_b64));
    else if (event.incarnation) shown.reset(shown.xterm.cols, shown.xterm.rows);
    else if (event.cols) shown.write("", () => (shown.xterm.resize(event.cols, event.rows), shown.scale()));
    offset = event.offset;
    ts = event.ts;
    size = Math.max(size, offset);
    update();
    if (playing) void step();
  }

  function toggle() {
    playing = !playing;
    clearTimeout(timer);
    if (!playing) setAddress();
    else if (measured && offset >= size) return void seek(0);
    else if (measured && !busy) void step(); // otherwise `begin` or `seek` plays
    update();
  }

  /** Goes to the start of the next block, or of the previous one, once the blocks are known. @param {1 | -1} direction */
  async function stepBlock(direction) {
    await loaded;
    if (closed) return;
    const places = blocks.map((block) => block.raw_begin);
    const place = direction > 0 ? places.find((begin) => begin > offset) : places.filter((begin) => begin < offset).at(-1);
    await seek(place ?? (direction > 0 ? size : 0));
  }

  /** @param {KeyboardEvent} event */
  function handleKey(event) {
    if (event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement || event.ctrlKey || event.altKey) return;
    if (event.target instanceof HTMLButtonElement && event.key === " ") return;
    if (event.key !== " " && !hasLetterKeys()) return;
    if (event.key === " " || event.key === "k") toggle();
    else if (event.key === "]" || event.key === "n") void stepBlock(1);
    else if (event.key === "[" || event.key === "p") void stepBlock(-1);
    else return;
    event.preventDefault();
  }

  /** The block at the present place. */
  const currentBlock = () => blocks.filter((block) => block.raw_begin <= offset && offset <= (block.raw_end ?? Infinity)).at(-1);

  function controls() {
    const block = currentBlock();
    return html`<div class="lockbar" role="group" aria-label="Replay">
      <button type="button" class="primary" @click=${toggle}>${playing ? "Pause" : "Play"} <kbd>k</kbd></button>
      <button type="button" @click=${() => stepBlock(-1)} aria-label="Previous command">Previous <kbd>[</kbd></button>
      <button type="button" @click=${() => stepBlock(1)} aria-label="Next command">Next <kbd>]</kbd></button>
      <span class="scrubber">
        <input type="range" min="0" max=${Math.max(size, 1)} .value=${String(offset)} aria-label="Place in the output"
          aria-valuetext="${bytes(offset)} of ${bytes(size)}"
          @input=${(/** @type {Event} */ event) => seek(Number(/** @type {HTMLInputElement} */ (event.target).value))}>
        <span class="ticks">${blocks.map((one) => html`<i class=${hasFailed(one) ? "bad" : ""} .style=${`left:${(100 * one.raw_begin) / Math.max(size, 1)}%`}></i>`)}</span>
      </span>
      <span class="mono">${bytes(offset)} / ${bytes(size)}</span>
      <label class="check">Speed <select @change=${(/** @type {Event} */ event) => (speed = Number(/** @type {HTMLSelectElement} */ (event.target).value))}>
        ${SPEEDS.map((one) => html`<option value=${one} ?selected=${one === speed}>${one}×</option>`)}</select></label>
      <label class="check"><input type="checkbox" .checked=${skipIdle}
        @change=${(/** @type {Event} */ event) => (skipIdle = /** @type {HTMLInputElement} */ (event.target).checked)}> Skip idle time</label>
      <span class="place">${ts === null ? nothing : new Date(ts).toLocaleString()}
        ${block ? html`· ${link(sessionPath(session, `/b/${block.block_id}`), block.cmd || "command")}` : nothing}</span>
    </div>`;
  }

  function update() {
    if (closed) return;
    const gone = error instanceof ApiError && error.error_code === "NOT_FOUND";
    render(
      html`<div class="session-head"><h1 title=${session}>Replay of ${visible(name)}</h1><span class="grow"></span>
          ${link(sessionPath(session), "Live session", "button small")}
          <a class="button small" href="${path}/text" download>Text</a>
          <a class="button small" href="${path}/cast" download>Recording</a></div>
        ${gone
          ? goneState("There is no recording")
          : error ? errorBox(error) : nothing}
        <section class="stage" aria-label="Terminal" aria-busy=${busy} ?hidden=${gone}><div class="term-box"></div></section>
        ${gone ? nothing : controls()}`,
      root,
    );
  }

  async function begin() {
    const place = offset;
    try {
      size = (await call("pty_read_raw", { session_id: session, max_bytes: 1 })).raw_size;
      if (closed) return;
      measured = true;
      if (!seeking) await seek(playing && place >= size ? 0 : place); // unless the user has gone to another place meanwhile
      else if (playing && !busy) void step();
      blocks = (await call("blocks_since", { session_id: session, last: MAX_BLOCKS })).items;
    } catch (failed) {
      error = failed;
      playing &&= measured;
      measured = true;
    }
    update();
  }

  update();
  const stopSizing = onSizeChange(/** @type {HTMLElement} */ (root.querySelector(".term-box")), () => terminal?.scale());
  addEventListener("keydown", handleKey);
  const loaded = begin();
  const entries = followSession(session, (shown) => {
    name = shown;
    update();
  });
  return () => {
    closed = true;
    entries.close();
    playing = false;
    clearTimeout(timer);
    clearTimeout(addressTimer);
    clearTimeout(retryTimer);
    seeking?.abort();
    stopSizing();
    removeEventListener("keydown", handleKey);
    terminal?.dispose();
  };
}
