// Keyboard input of a terminal: queued, and written to the session in order, with one call in flight. Keys that cannot be sent at
// once are not sent later without a question: the screen for which they were typed may be gone.

import { ApiError, call, taskId } from "./api.js";
import { age, mark } from "./clock.js";
import { html, nothing } from "./lit.js";
import { name, visible } from "./text.js";

/** @typedef {import("./clock.js").Mark} Mark */
/** @typedef {{at: Mark} & ({text: string, pasted?: boolean} | {binary: string} | {key: string})} Input */
/** @typedef {{text: string, reason: string, pending: boolean, dropped: number}} Refusal `dropped`: the number of keys that were not sent since */
/** @typedef {{ts: number, at: Mark}} ServerClock the time of the session's server at a moment (epoch ms) */

const INTERRUPT = "\x03";
/** Input of at least this many characters in one piece is pasted, not typed. */
const PASTED = 64;
/** Largest text in one call, in UTF-16 units: an interrupt waits for no more. */
const PIECE = 8_192;
/** Characters of at most two units each. */
const PIECES = new RegExp(`.{1,${PIECE / 2}}`, "gsu");
const PASTE = "\x1b[200~";
/** Older keys are not sent. The daemon checks it too: the network, or the daemon itself, may hold a call back. */
const LATE_MS = 2_000;
const CHECK_MS = 250;
/** Largest text that is kept for the question, in UTF-16 units. */
const MAX_UNSENT = 65_536;

/**
 * The latest time at which input may be typed, on the clock of the session's server.
 * @param {ServerClock} clock
 * @param {Mark} typed
 */
export const notAfter = (clock, typed) => ({ not_after: Math.round(clock.ts + age(clock.at) - age(typed) + LATE_MS) });

/**
 * Returns the keyboard of a session.
 * @param {string} session
 * @param {object} callbacks
 * @param {(error: ApiError, write: Record<string, any>) => void} callbacks.onError gets the error of each refused write, and the write
 * @param {() => void} callbacks.changed called when the question about unsent keys changes
 * @param {() => void} callbacks.answered called when the person has answered it
 * @param {() => boolean} callbacks.isLive whether the session's server is heard: what is typed under the veil is kept
 * @param {() => ServerClock | null} callbacks.clock until it is known, nothing is sent
 * @param {() => boolean} callbacks.admit whether input may be sent now
 */
export function createKeyboard(session, { onError, changed, answered, isLive, clock, admit }) {
  /** @type {Input[]} */
  let queue = [];
  /** Input that was not sent in time, for which the person is asked. @type {Input[]} */
  let unsent = [];
  /** Whether input before the unsent one may have been typed or not. */
  let isUncertain = false;
  let isShown = false;
  /** The refusal of a line within an unfinished command: its next lines would be typed into another command without it. @type {Refusal | null} */
  let refused = null;
  let sending = false;
  /** Number of writes without a reply. */
  let writing = 0;
  /** Called once all input is written. @type {(() => void)[]} */
  const waiters = [];
  const timer = setInterval(() => {
    holdLate();
    void send(); // the clock may be known now
  }, CHECK_MS);

  /** Keeps input for the question; a write that has begun precedes the input that is kept. @param {Input[]} inputs @param {boolean} [first] */
  const hold = (inputs, first = false) => {
    if (!inputs.length) return;
    unsent = first ? [...inputs, ...unsent] : [...unsent, ...inputs];
    if (length(unsent) > MAX_UNSENT) unsent = [];
    changed();
  };

  /** A paste may take long at a slow console, which shows its progress. @param {Input} input */
  const isLate = (input) => age(input.at) > LATE_MS && !(isPaste(input) && isLive());

  /** Input behind late input was typed to follow it. */
  function holdLate() {
    if (queue.some(isLate)) hold(queue.splice(0));
  }

  /** Writes one input. If that fails, the input queued since is dropped: it was typed to follow this one. @param {Input} input */
  const write = async (input) => {
    const following = queue;
    const typed = isPaste(input) ? mark() : input.at;
    const request = { session_id: session, task_id: taskId(), action: "write", ...fields(input), ...notAfter(/** @type {ServerClock} */ (clock()), typed) };
    writing++;
    try {
      await call("ptyctl_session_io", request);
    } catch (error) {
      if (error instanceof ApiError && error.details.reason === "late") queue === following && hold([input, ...take(following)], true); // unless Ctrl-C has cancelled it
      else if (error instanceof ApiError && error.error_code === "OFFLINE") {
        isUncertain = true;
        hold(take(following), true);
        changed();
      } else {
        const dropped = length(take(following));
        if (error instanceof ApiError && isHeld(error)) {
          refused = { ...refusalOf(error), dropped: dropped + (error.details.held ? 0 : length([input])) };
          changed();
          if (error.error_code !== "APPROVAL_PENDING") return void settle();
        }
        const { not_after: _, ...repeatable } = /** @type {Record<string, any>} */ (request);
        if (error instanceof ApiError && error.details.reason !== "interrupted") onError(error, repeatable);
      }
    }
    settle();
  };

  const settle = () => {
    writing--;
    if (!writing && !queue.length) for (const resolve of waiters.splice(0)) resolve();
  };

  /** Empties the queue, unless it is another one. @param {Input[]} following @returns {Input[]} */
  const take = (following) => {
    if (queue !== following) return [];
    queue = [];
    return following;
  };

  const send = async () => {
    if (sending) return;
    sending = true;
    for (holdLate(); queue.length && clock(); holdLate()) await write(/** @type {Input} */ (queue.shift()));
    sending = false;
  };

  /** @param {Input} input */
  const add = (input) => {
    if (refused && "key" in input && input.key === "ctrl_c") release();
    if (refused) return drop(refused, input);
    if (unsent.length || isUncertain || !isLive()) return hold([input]);
    enqueue(input);
  };

  /** Adds input to the queue; text becomes a part of the text before it. @param {Input} input */
  const enqueue = (input) => {
    const last = queue.at(-1);
    if (last && "text" in last && "text" in input && last.text.length < PIECE && isPaste(last) === isPaste(input)) last.text += input.text;
    else queue.push(input);
  };

  /** @param {Refusal} refusal @param {Input} input */
  const drop = (refusal, input) => {
    if (!("binary" in input)) refusal.dropped += length([input]);
    changed();
  };

  /** Takes input again after a refusal. */
  const release = () => {
    refused = null;
    changed();
  };

  /** The refused line will not be typed. */
  const decline = () => {
    if (refused) refused = { ...refused, pending: false };
    changed();
  };

  const leave = () => {
    if (!isLive() || !admit()) return;
    interrupt();
    void send();
    answered();
  };

  /** Ctrl-C overtakes pasted text, cancels the rest of it, and discards what was not sent: it would run after Ctrl-C. */
  const interrupt = () => {
    const isOvertaking = isLive() && clock() !== null && (unsent.length || isUncertain || queue.some(isPaste));
    if (!isOvertaking) return add({ key: "ctrl_c", at: mark() });
    queue = [];
    unsent = [];
    isUncertain = isShown = false;
    release();
    void write({ key: "ctrl_c", at: mark() });
  };

  const discard = () => {
    unsent = [];
    isUncertain = isShown = false;
    changed();
    answered();
  };

  const sendUnsent = () => {
    if (!isLive() || !admit()) return;
    const inputs = unsent;
    discard();
    for (const input of inputs) enqueue({ ...input, ...("text" in input ? { pasted: true } : {}), at: mark() }); // in few calls, which may take long
    void send();
  };

  const show = () => {
    isShown = !isShown;
    changed();
  };

  const question = () =>
    html`${isUncertain ? html`<strong>No answer came to the last keys: look at the terminal whether they were typed.</strong>` : nothing}
      ${unsent.length
        ? html`<strong>${count(length(unsent))} not sent</strong>: the daemon did not answer within ${LATE_MS / 1000} s, or the lock ended.
            ${isShown ? html`<code>${visible(unsent.map(label).join(""))}</code>` : nothing}
            <button type="button" class="small" @click=${show}>${isShown ? "Hide" : "Show"}</button>
            <button type="button" class="small" ?disabled=${!isLive()} @click=${sendUnsent}>Send</button>
            <button type="button" class="small" @click=${discard}>Discard</button>`
        : html`<button type="button" class="small" @click=${discard}>Continue</button>`}`;

  /** @param {Refusal} refusal */
  const refusalNotice = ({ text, reason, pending, dropped }) =>
    html`<div class="notice bad refused" role="alert">
      <span>${text
        ? html`<strong>${pending ? "Not run yet" : "Refused"}:</strong> <code>${visible(text)}</code>${reason ? html` (${name(reason)})` : nothing}.`
        : html`<strong>A line of yours was refused.</strong>`}
        It belongs to a command that is not finished, so nothing more that you type is sent.
        ${dropped ? `${count(dropped)} not sent.` : nothing}
        ${pending ? "Wait until the line is approved, or press Ctrl-C" : "Press Ctrl-C"} to leave the command; then begin it again without that line.</span>
      <button type="button" class="small" ?disabled=${!isLive()} @click=${leave}>Leave the command (Ctrl-C)</button>
    </div>`;

  return {
    /** Takes input again: the refused line was approved and typed. */
    release,
    /** Reports that the refused line was not approved. */
    decline,
    /** Types text. @param {string} data */
    type(data) {
      for (const part of data.split(/(\x03)/)) {
        if (part === INTERRUPT) interrupt();
        else for (const text of pieces(part)) add({ text, pasted: data.length >= PASTED, at: mark() });
      }
      void send();
    },
    /** Sends bytes, each a character of `data`. @param {string} data */
    sendBinary(data) {
      add({ binary: data, at: mark() });
      void send();
    },
    /** Presses a key by its name, such as `esc`. @param {string} key */
    press(key) {
      if (key === "ctrl_c") interrupt();
      else add({ key, at: mark() });
      void send();
    },
    /** Resolves once the input is written, refused or dropped. @returns {Promise<void>} */
    sent: () => new Promise((resolve) => (writing ? waiters.push(resolve) : resolve())),
    /** Sends no more: the lock has ended. The person is asked about the input that is not sent yet. */
    stop() {
      hold(queue.splice(0));
      release();
    },
    /** Drops the input that is not sent. */
    close() {
      clearInterval(timer);
      queue = unsent = [];
    },
    /** A refusal that holds input, and the question about input that was not sent. */
    template: () =>
      html`${refused ? refusalNotice(refused) : nothing}
        ${unsent.length || isUncertain ? html`<div class="notice unsent" role="alert">${question()}</div>` : nothing}`,
  };
}

/** @param {Input} input */
const isPaste = (input) => "text" in input && !!input.pasted;

/** @param {Input} input */
const label = (input) => ("text" in input ? input.text : "key" in input ? `<${input.key}>` : "");

/** @param {Input[]} inputs */
const length = (inputs) => inputs.reduce((sum, input) => sum + ("text" in input ? input.text.length : 1), 0);

/** @param {number} keys */
const count = (keys) => (keys === 1 ? "1 key was" : `${keys} keys were`);

/** Whether a refusal holds further input: it is within an unfinished command. @param {ApiError} error */
const isHeld = ({ details }) => details.held === true || details.reason === "continuation";

/** @param {ApiError} error */
const refusalOf = ({ error_code: code, details }) => ({
  text: details.held ? String(details.line ?? "") : "",
  reason: details.held ? String(details.reason ?? "") : "",
  pending: code === "APPROVAL_PENDING",
});

/**
 * Cuts text between characters; a bracketed paste stays whole, so that the program gets its end.
 * @param {string} text
 * @returns {string[]}
 */
function pieces(text) {
  if (text.startsWith(PASTE)) return [text];
  return text.match(PIECES) ?? [];
}

/**
 * Fields of the write. Text is sent as such, because the meaning of Enter depends on the session; LF (Ctrl-J) is a byte.
 * @param {Input} input
 */
function fields(input) {
  if ("key" in input) return { key: input.key };
  if ("text" in input && !input.text.includes("\n")) return { data: input.text };
  const bytes = "text" in input ? new TextEncoder().encode(input.text) : Uint8Array.from(input.binary, (letter) => letter.charCodeAt(0));
  return { data: btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join("")), encoding: "base64" };
}
