// The WebSocket to /api/stream: subscriptions that survive a lost connection.

import { ApiError, call, daemonClock, me, offline, openCalls, setDaemonClock } from "./api.js";
import { age, mark } from "./clock.js";

/** @typedef {Record<string, any>} Message */
/** @typedef {"snapshot" | number} From where output begins: the painted screen, or a raw offset */
/**
 * @typedef {object} Handlers
 * @property {From} [from]
 * @property {(message: Message) => void} [onMessage]
 * @property {(offset: number, bytes: Uint8Array) => void} [onBytes] output; `offset` is the raw offset after it
 * @property {(error: ApiError) => void} [onError] the subscription failed; without it, one that can succeed later is repeated
 */
/**
 * @typedef {object} Subscription
 * @property {(offset: number) => void} ack reports that the output up to `offset` is parsed
 * @property {() => void} close
 * @property {(from: From) => void} resubscribe
 * @property {() => number} silence the time since the last message of the subscription (ms)
 * @property {() => void} use reports that this window uses the lock of the terminal
 */
/** @typedef {{topic: string, from: From | undefined, handlers: Handlers, heard: import("./clock.js").Mark}} Entry */

const FIRST_DELAY_MS = 250;
const LONGEST_DELAY_MS = 5_000;
const HEADER_BYTES = 12;
/** The daemon sends a message each second. What the page shows is stale if nothing was heard for this time. */
export const STALE_MS = 5_000;
const CHECK_MS = 500;
/** How long calls of a dead connection may still be answered after the next one is open. */
const LAST_ANSWER_MS = 2_000;

/** @type {Map<number, Entry>} */
const entries = new Map();
/** @type {(online: boolean) => void} */
let watcher = () => {};
/** @type {WebSocket | null} */
let socket = null;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer;
let delay = FIRST_DELAY_MS;
let nextId = 1;
let online = false;
/** The last message of the connection, or its begin. */
let heard = mark();
/** Whether a call tries if the daemon answers. */
let probing = false;

export const stream = {
  /**
   * Subscribes to a topic. After a reconnect output continues at the last offset.
   * @param {string} topic
   * @param {Handlers} handlers
   * @returns {Subscription}
   */
  subscribe(topic, handlers) {
    let id = 0;
    /** @type {Entry} */
    let entry;
    const begin = (/** @type {From | undefined} */ from) => {
      id = nextId++;
      entry = { topic, from, handlers, heard: mark() };
      entries.set(id, entry);
      sendSubscription(id);
    };
    const close = () => {
      if (entries.delete(id)) send({ op: "unsubscribe", id });
    };
    begin(handlers.from);
    connect();
    return {
      ack: (offset) => send({ op: "ack", id, offset }),
      silence: () => age(entry.heard),
      use: () => send({ op: "use", id }),
      close,
      resubscribe: (from) => {
        close();
        begin(from);
      },
    };
  },

  /**
   * Follows the list of sessions, or the approval requests: `changed` gets all entries by id, and the message with what is
   * common to them.
   * @param {"sessions" | "approvals"} topic
   * @param {(entries: Map<string, Message>, message: Message) => void} changed
   * @param {(error: ApiError) => void} [onError]
   */
  follow(topic, changed, onError) {
    /** @type {Map<string, Message>} */
    let all = new Map();
    const onMessage = (/** @type {Message} */ message) => {
      if (message.full) all = new Map(); // pages keep the last list until this one is complete
      for (const entry of message[topic] ?? []) all.set(entry.approval_id ?? entry.session_id, entry);
      for (const id of message.removed ?? []) all.delete(id);
      if (!message.more) changed(all, message);
    };
    return stream.subscribe(topic, { onMessage, ...(onError && { onError }) });
  },

  /** Calls `changed` when the connection is lost or back. @param {(online: boolean) => void} changed */
  onState(changed) {
    watcher = changed;
  },

  /** Whether the daemon was heard within the last seconds. */
  isLive: () => online && age(heard) <= STALE_MS,

  /** Tries to connect now, instead of after the delay, or of an attempt that got no answer yet. */
  retry() {
    delay = FIRST_DELAY_MS;
    if (!online) stream.stop();
    connect();
  },

  /** Closes the connection. The next subscription opens it again. */
  stop() {
    clearTimeout(timer);
    timer = undefined;
    const closing = socket;
    socket = null;
    closing?.close();
  },
};

/**
 * Calls a method for what a person does now. A daemon that hangs does not carry it out once the page shows that it hears nothing:
 * the person does not expect it any more.
 * @param {string} method
 * @param {Record<string, any>} fields
 * @param {import("./api.js").Options & {silence?: number | undefined}} [options] silence: that of the subscription whose veil the person sees
 */
export async function act(method, fields, { silence = 0, ...options } = {}) {
  const silent = Math.max(silence, age(heard));
  if (!online || silent > STALE_MS) throw offline();
  const now = daemonClock();
  return call(method, fields, { ...options, ...(now !== null && { headers: { "X-Ptyctl-Not-After": String(Math.round(now + STALE_MS - silent)) } }) });
}

addEventListener("online", () => stream.retry());
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && entries.size && !online) stream.retry();
});

function connect() {
  if (socket) return;
  clearTimeout(timer);
  timer = undefined;
  heard = mark();
  const opened = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/api/stream`);
  opened.binaryType = "arraybuffer";
  opened.onopen = () => {
    if (socket !== opened) return;
    for (const id of entries.keys()) sendSubscription(id);
  };
  opened.onmessage = ({ data }) => {
    if (socket !== opened) return; // it was given up
    heard = mark();
    delay = FIRST_DELAY_MS; // not before: a proxy may accept the connection and close it
    setOnline(true);
    if (typeof data === "string") handleMessage(JSON.parse(data));
    else handleBytes(data);
  };
  opened.onclose = () => {
    if (socket === opened) handleClose();
  };
  socket = opened;
}

function handleClose() {
  socket = null;
  setOnline(false);
  timer = setTimeout(reconnect, delay * (0.75 + Math.random() / 2));
  delay = Math.min(2 * delay, LONGEST_DELAY_MS);
}

setInterval(() => void checkSilence(), CHECK_MS);

/** Notices a connection that delivers nothing, and replaces it once the daemon answers on another one. */
async function checkSilence() {
  if (!socket || probing || age(heard) <= STALE_MS) return;
  setOnline(false);
  const silent = socket;
  probing = true;
  const answers = await me(STALE_MS).catch(() => null);
  probing = false;
  if (!answers || socket !== silent || age(heard) <= STALE_MS) return;
  setTimeout(openCalls(), LAST_ANSWER_MS);
  stream.stop();
  connect();
}

/** Connects again if the login is still valid: a new daemon may not know it. */
async function reconnect() {
  try {
    if (await me(STALE_MS)) connect();
  } catch {
    if (!socket) handleClose(); // a person may have retried meanwhile
  }
}

/** @param {Message} message */
function handleMessage(message) {
  if (message.ts && message.op === "tick") setDaemonClock(message.ts);
  const entry = entries.get(message.id);
  if (!entry) return;
  entry.heard = mark();
  if (message.op !== "error") entry.handlers.onMessage?.(message);
  else if (entry.handlers.onError) entry.handlers.onError(new ApiError(message.error));
  else if (message.error.retryable) setTimeout(() => entries.get(message.id) === entry && sendSubscription(message.id), LONGEST_DELAY_MS);
}

/** @param {ArrayBuffer} data */
function handleBytes(data) {
  const view = new DataView(data);
  const entry = entries.get(view.getUint32(0));
  if (!entry) return;
  const offset = Number(view.getBigUint64(4));
  entry.heard = mark();
  entry.from = offset;
  entry.handlers.onBytes?.(offset, new Uint8Array(data, HEADER_BYTES));
}

/** @param {number} id */
function sendSubscription(id) {
  const entry = entries.get(id);
  if (entry) send({ op: "subscribe", id, topic: entry.topic, ...(entry.from !== undefined && { from: entry.from }) });
}

/** @param {Message} message */
function send(message) {
  if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message));
}

/** @param {boolean} value */
function setOnline(value) {
  if (online === value) return;
  online = value;
  watcher(value);
}
