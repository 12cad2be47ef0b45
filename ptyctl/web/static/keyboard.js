// Keyboard input of a terminal: queued, and written to the session in order, with one call in flight.

import { ApiError, call, taskId } from "./api.js";

/** @typedef {{text: string} | {binary: string} | {key: string}} Input */

const INTERRUPT = "\x03";
/** Input of at least this many characters in one piece is pasted, not typed. */
const PASTED = 64;
/** Largest text in one call, in UTF-16 units: an interrupt waits for no more. */
const PIECE = 8_192;
/** Characters of at most two units each. */
const PIECES = new RegExp(`.{1,${PIECE / 2}}`, "gsu");
const PASTE = "\x1b[200~";

/**
 * Returns the keyboard of a session; `onError` gets the error of each refused write, and the write.
 * @param {string} session
 * @param {(error: ApiError, write: Record<string, any>) => void} onError
 */
export function createKeyboard(session, onError) {
  /** @type {Input[]} */
  let queue = [];
  let sending = false;
  /** Number of writes without a reply. */
  let writing = 0;
  /** Called once all input is written. @type {(() => void)[]} */
  const waiters = [];

  /** Writes one input. If that fails, the input queued since is dropped: it was typed to follow this one. @param {Input} input */
  const write = async (input) => {
    const following = queue;
    const request = { session_id: session, task_id: taskId(), action: "write", ...fields(input) };
    writing++;
    try {
      await call("ptyctl_session_io", request);
    } catch (error) {
      if (queue === following) queue = [];
      if (error instanceof ApiError && error.details.reason !== "interrupted") onError(error, request);
    }
    writing--;
    if (!writing && !queue.length) for (const resolve of waiters.splice(0)) resolve();
  };

  const send = async () => {
    if (sending) return;
    sending = true;
    for (let input = queue.shift(); input; input = queue.shift()) await write(input);
    sending = false;
  };

  /** @param {Input} input */
  const add = (input) => {
    const last = queue.at(-1);
    if (last && "text" in last && "text" in input && last.text.length < PIECE) last.text += input.text;
    else queue.push(input);
  };

  /** Ctrl-C overtakes pasted text, and cancels the rest of it. */
  const interrupt = () => {
    const pasted = queue.some((input) => "text" in input && input.text.length >= PASTED);
    if (!pasted) return add({ key: "ctrl_c" });
    queue = [];
    void write({ key: "ctrl_c" });
  };

  return {
    /** Types text. @param {string} data */
    type(data) {
      for (const part of data.split(/(\x03)/)) {
        if (part === INTERRUPT) interrupt();
        else for (const text of pieces(part)) add({ text });
      }
      void send();
    },
    /** Sends bytes, each a character of `data`. @param {string} data */
    sendBinary(data) {
      add({ binary: data });
      void send();
    },
    /** Presses a key by its name, such as `esc`. @param {string} key */
    press(key) {
      add({ key });
      void send();
    },
    /** Resolves once the input is written, refused or dropped. @returns {Promise<void>} */
    sent: () => new Promise((resolve) => (writing ? waiters.push(resolve) : resolve())),
    /** Drops the input that is not sent yet. */
    clear() {
      queue = [];
    },
  };
}

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
