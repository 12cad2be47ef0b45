// The blocks of a session as cards. A card is drawn from the block and the text of its output; events of the stream only say
// that there is more to read, so that nothing is shown twice, whatever is repeated.

import { call, serverTime } from "./api.js";
import { attributed, attributesOf } from "./attributes.js";
import { palette } from "./colours.js";
import { observeVisibility } from "./features.js";
import { guard, html, nothing, ref, repeat } from "./lit.js";
import { screenView } from "./screen_view.js";
import { stream } from "./stream.js";
import { isolated, name } from "./text.js";
import { blockBadge, copyButton, duration, fromBase64, link, sessionPath, timeAgo, toastError } from "./ui.js";

/** @typedef {import("./api.js").ApiError} ApiError */
/** @typedef {Record<string, any>} Block as in docs/contracts.md */
/**
 * @typedef {object} Card
 * @property {Block} block
 * @property {string} text output that is read so far
 * @property {Map<string, import("./screen_view.js").AttributeRun[]>} attributes of its lines
 * @property {boolean} coloured whether the attributes are read
 * @property {number} offset where to continue
 * @property {string | null} tail the end of an output whose middle is not read
 * @property {boolean} complete whether the whole output is read
 * @property {ApiError | null} failure why the last read failed
 * @property {boolean} reading
 * @property {boolean} stale whether there is more to read since the last read began
 * @property {boolean} expanded
 * @property {boolean} visible
 */
/** @typedef {ReturnType<typeof createCards>} Cards */

const FIRST_CARDS = 50;
const COLLAPSED_LINES = 8;
const PAGE_BYTES = 32_768;
/** A longer line is cut on a collapsed card (characters). */
const COLLAPSED_LINE = 1_000;
/** The end of an output that is not read as a whole, which has its errors: so many bytes are read, and so many lines shown. */
const TAIL_BYTES = 4_096;
const TAIL_LINES = 4;
/** A card shows output up to this length; the block's page has all of it. */
const MAX_TEXT = 200_000;
const READ_INTERVAL_MS = 250;
const RETRY_DELAY_MS = 2_000;
const COLOURS = { completed: "good", failed: "bad", cancelled: "warn", awaiting_approval: "warn" };

/** @param {Block} block */
export const isRunning = (block) => block.ts_end == null;

/** Whether the block failed, was denied or declined, its exit code is not 0, or the device reported an error. @param {Block} block */
export const hasFailed = (block) => block.refused === "denied" || block.refused === "declined" || block.status === "failed" || !!block.exit_code || !!block.error_hints;

/** Colour of a block. @param {Block} block */
function blockColour(block) {
  if (hasFailed(block)) return "bad";
  return COLOURS[/** @type {keyof typeof COLOURS} */ (block.status)] ?? "busy";
}

/** The line as a collapsed card shows it. @param {string} line */
const shortened = (line) => (line.length > COLLAPSED_LINE ? `${line.slice(0, COLLAPSED_LINE)}… (${line.length} characters)` : line);

/**
 * Reads the output of a block page by page.
 * @param {string} session
 * @param {Block} block
 * @param {number} [maxBytes] where to stop
 */
export async function readOutput(session, block, maxBytes = Infinity) {
  const pages = [];
  let offset = 0;
  let complete = false;
  for (let more = true; more && offset < maxBytes; ) {
    const page = await call("blocks_read", { session_id: session, block_id: block.block_id, offset, max_bytes: 1 << 20 });
    pages.push(page.data);
    complete = page.complete;
    more = page.resume_offset > offset;
    offset = page.resume_offset;
    if (complete) break;
  }
  return { text: pages.join(""), complete };
}

/** Buttons that copy and save the command and its output. @param {string} session @param {Block} block */
export const outputButtons = (session, block) =>
  html`${copyButton("Copy command", () => block.cmd)} ${copyButton("Copy output", async () => (await readOutput(session, block)).text)}
    <button type="button" class="small" @click=${() => downloadOutput(session, block)}>Download</button>`;

/** Lets the browser save the output of a block. @param {string} session @param {Block} block */
async function downloadOutput(session, block) {
  try {
    const { text } = await readOutput(session, block);
    const anchor = document.createElement("a");
    anchor.href = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
    anchor.download = `${session}-${block.block_id}.txt`;
    anchor.click();
    setTimeout(() => URL.revokeObjectURL(anchor.href), 10_000);
  } catch (error) {
    toastError(error);
  }
}

/**
 * The cards of `session`.
 * @param {string} session
 * @param {{changed: () => void, runAgain: (cmd: string) => void, isFullScreen: () => boolean}} callbacks isFullScreen: whether
 *   the running program uses the whole screen
 */
export function createCards(session, { changed, runAgain, isFullScreen }) {
  /** @type {Map<string, Card>} */
  const cards = new Map();
  let cursor = 0;
  let shown = FIRST_CARDS;
  let older = false;
  let loaded = false;
  let closed = false;
  /** @type {Record<string, any> | null} */
  let screen = null;
  /** @type {import("./stream.js").Subscription | null} */
  let screenTopic = null;
  const observer = observeVisibility(handleVisibility, { rootMargin: "200px" });

  /** @param {Block} block */
  const put = (block) => {
    const card = cards.get(block.block_id);
    if (!card) {
      cards.set(block.block_id, { block, text: "", attributes: new Map(), coloured: false, offset: 0, tail: null, complete: false, failure: null, reading: false, stale: false, expanded: false, visible: false });
    } else if (isRunning(card.block)) {
      card.block = block;
      void read(card);
    }
    watchScreen();
  };

  /** @param {Block} block */
  const showsScreen = (block) => isRunning(block) && (block.status === "interactive" || (block.status === "running" && isFullScreen()));

  /** Shows the screen in the card of a program that uses all of it, while it runs. */
  const watchScreen = () => {
    const wanted = [...cards.values()].some(({ block, visible }) => visible && showsScreen(block));
    if (wanted && !screenTopic) {
      screenTopic = stream.subscribe(`screen:${session}`, {
        onMessage(message) {
          screen = message;
          changed();
        },
      });
    } else if (!wanted && screenTopic) {
      screenTopic.close();
      screenTopic = screen = null;
    }
  };

  /** Reads what the card does not have yet. @param {Card} card */
  const read = async (card) => {
    card.stale = card.reading;
    if (closed || card.reading || card.complete || !card.visible) return;
    card.reading = true;
    let size = 0;
    try {
      for (let more = true; more && !closed && !card.complete && card.text.length < MAX_TEXT; ) {
        const request = { session_id: session, block_id: card.block.block_id, offset: card.offset, max_bytes: PAGE_BYTES };
        const page = await call("blocks_read", request);
        const grows = page.resume_offset > card.offset;
        card.text += page.data;
        card.offset = page.resume_offset;
        card.complete = page.complete;
        size = page.size;
        more = grows && (card.expanded || isRunning(card.block) || card.text.split("\n", COLLAPSED_LINES + 2).length <= COLLAPSED_LINES + 1);
        changed();
      }
      if (!card.complete && !isRunning(card.block) && card.tail === null && size > card.offset) {
        const request = { session_id: session, block_id: card.block.block_id, offset: Math.max(card.offset, size - TAIL_BYTES), max_bytes: TAIL_BYTES };
        card.tail = (await call("blocks_read", request)).data;
        changed();
      }
      if ((card.complete || !isRunning(card.block)) && card.text && !card.coloured) { // `complete` can be ahead of the event
        const request = { session_id: session, block_id: card.block.block_id, format: "raw", max_bytes: 2 * PAGE_BYTES };
        const raw = await call("blocks_read", request).catch(() => null); // the text alone is complete
        if (raw) card.attributes = attributesOf(new TextDecoder().decode(fromBase64(raw.data_b64)));
        card.coloured = raw !== null;
        changed();
      }
      card.failure = null;
    } catch (error) {
      card.failure = /** @type {ApiError} */ (error);
      card.stale ||= card.failure.retryable;
      changed();
    }
    await new Promise((resolve) => setTimeout(resolve, card.failure ? RETRY_DELAY_MS : isRunning(card.block) ? READ_INTERVAL_MS : 0));
    card.reading = false;
    if (card.stale) void read(card);
  };

  /** @param {boolean} visible @param {Element} element */
  function handleVisibility(visible, element) {
    const card = cards.get(/** @type {HTMLElement} */ (element).dataset.block ?? "");
    if (!card) return;
    card.visible = visible;
    if (!card.text) void read(card);
    watchScreen();
  }

  /** Reads the blocks that began or ended since the last call, or the last ones. */
  const load = async () => {
    const first = !loaded;
    for (let more = true; more; ) {
      const reply = await call("blocks_since", { session_id: session, ...(first ? { last: shown } : { cursor }) });
      reply.items.forEach(put);
      cursor = reply.resume_cursor;
      more = !first && reply.items.length > 0;
      if (first) older = reply.items.length === shown;
    }
    loaded = true;
    changed();
  };

  const loadOlder = async () => {
    shown = Math.min(1000, shown + 100);
    loaded = false;
    await load().catch(toastError);
  };

  /** @param {Card} card */
  const toggle = (card) => {
    card.expanded = !card.expanded;
    void read(card);
    changed();
  };

  /** @param {Card} card */
  const output = (card) => {
    const { block, text, expanded } = card;
    if (showsScreen(block)) {
      return screen ? html`<div class="output">${screenView(/** @type {any} */ (screen), `Screen of ${block.cmd}`)}</div>` : nothing;
    }
    const drawn = [text, card.attributes, expanded, card.complete, card.tail, isRunning(block), palette()];
    return guard(drawn, () => outputText(card)); // the page is drawn each second
  };

  /** @param {Card} card */
  const outputText = (card) => {
    const { block, text, expanded } = card;
    const lines = text.replace(/\n$/, "").split("\n");
    const hidden = lines.length - COLLAPSED_LINES;
    if (!text) return nothing;
    const isWhole = expanded || (hidden <= 0 && !isRunning(block));
    const begin = expanded || !isRunning(block) ? 0 : Math.max(0, hidden);
    const shown = isWhole || isRunning(block) ? lines : lines.slice(0, COLLAPSED_LINES);
    const isCut = !expanded && shown.slice(begin).some(({ length }) => length > COLLAPSED_LINE);
    const tail = card.complete || isRunning(block) ? [] : (card.tail ?? "").replace(/\n$/, "").split("\n").slice(-TAIL_LINES);
    const end = tail.length ? `\n…\n${tail.map((line) => (line.length > COLLAPSED_LINE ? `…${line.slice(-COLLAPSED_LINE)}` : line)).join("\n")}` : "";
    const pieces = isCut ? shown.slice(begin).map(shortened).join("\n") : attributed(shown, card.attributes, begin);
    const rest = link(sessionPath(session, `/b/${block.block_id}`), "The block's page has the rest.");
    return html`<pre class="output" tabindex="0" aria-label="Output">${pieces}${end}</pre>
      ${text.length < MAX_TEXT ? nothing : html`<p class="hint">The output is longer. ${rest}</p>`}
      ${hidden > 0 || isCut || end || (expanded && lines.some(({ length }) => length > COLLAPSED_LINE)) ? html`<footer><button type="button" class="small" aria-expanded=${expanded} @click=${() => toggle(card)}>
        ${expanded ? "Show less" : card.complete && hidden > 0 ? `Show ${hidden} more lines` : "Show more"}</button></footer>` : nothing}`;
  };

  /** @param {Card} card */
  const failureView = (card) => html`<p class="error" role="alert">The output could not be read: ${card.failure?.message}
    ${card.failure?.retryable ? nothing : html`<button type="button" class="small" @click=${() => read(card)}>Try again</button>`}</p>`;

  /** @param {Card} card */
  const template = (card) => {
    const { block } = card;
    const path = sessionPath(session, `/b/${block.block_id}`);
    const details = [block.mode, block.task_id && `by ${isolated(block.task_id)}`, block.cwd && isolated(block.cwd)].filter(Boolean).join(" · ");
    return html`<article class="card ${blockColour(block)}" data-block=${block.block_id} aria-label=${block.cmd}
      ${ref((element) => element && observer.observe(element))}>
      <header>
        ${link(path, name(block.cmd || "(no command)"), "cmd")} ${blockBadge(block)}
        <span class="meta">${timeAgo(block.ts_begin)} · ${duration((block.ts_end ?? serverTime()) - block.ts_begin)}</span>
        <span class="meta">${details}</span>
        ${block.reason ? html`<span class="meta">${name(block.reason)}</span>` : nothing}
        ${block.error_hints ? html`<span class="meta">${name(block.error_hints[0])}</span>` : nothing}
        <div class="acts">
          ${outputButtons(session, block)}
          <button type="button" class="small" @click=${() => runAgain(block.cmd)} title="Types the command; you press Enter">Run again</button>
        </div>
      </header>
      ${output(card)} ${card.failure ? failureView(card) : nothing}
    </article>`;
  };

  return {
    load,
    /** Applies an event of the stream. @param {Record<string, any>} event */
    handleEvent(event) {
      if (event.type === "agent_block_delta") {
        const card = cards.get(event.block_id);
        if (card) void read(card);
      } else if (event.block) {
        put(event.block);
        changed();
      }
    },
    watchScreen,
    /** Commands, newest first. */
    commands: () => [...cards.values()].map(({ block }) => block.cmd).reverse(),
    template() {
      const sorted = [...cards.values()].sort((a, b) => a.block.seq - b.block.seq);
      return html`${older ? html`<button type="button" class="small" @click=${loadOlder}>Show older commands</button>` : nothing}
        ${repeat(sorted, (card) => card.block.block_id, template)}
        ${loaded && !sorted.length ? html`<p class="hint">No command has run in this session yet. Each one becomes a card here.</p>` : nothing}`;
    },
    close() {
      closed = true;
      observer.disconnect();
      screenTopic?.close();
    },
  };
}
