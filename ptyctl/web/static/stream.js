// The WebSocket to /api/stream: subscriptions that survive a lost connection.

import { ApiError, me } from "./api.js";

/** @typedef {Record<string, any>} Message */
/** @typedef {"snapshot" | number} From where output begins: the painted screen, or a raw offset */
/**
 * @typedef {object} Handlers
 * @property {From} [from]
 * @property {(message: Message) => void} [onMessage]
 * @property {(offset: number, bytes: Uint8Array) => void} [onBytes] output; `offset` is the raw offset after it
 * @property {(error: ApiError) => void} [onError] the subscription failed
 */
/**
 * @typedef {object} Subscription
 * @property {(offset: number) => void} ack reports that the output up to `offset` is parsed
 * @property {() => void} close
 * @property {(from: From) => void} resubscribe
 */
/** @typedef {{topic: string, from: From | undefined, handlers: Handlers}} Entry */

const FIRST_DELAY_MS = 250;
const LONGEST_DELAY_MS = 5_000;
const HEADER_BYTES = 12;

/** @type {Map<number, Entry>} */
const entries = new Map();
/** @type {Set<(online: boolean) => void>} */
const watchers = new Set();
/** @type {WebSocket | null} */
let socket = null;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer;
let delay = FIRST_DELAY_MS;
let nextId = 1;
let online = false;

export const stream = {
  /**
   * Subscribes to a topic. After a reconnect output continues at the last offset.
   * @param {string} topic
   * @param {Handlers} handlers
   * @returns {Subscription}
   */
  subscribe(topic, handlers) {
    let id = 0;
    const begin = (/** @type {From | undefined} */ from) => {
      id = nextId++;
      entries.set(id, { topic, from, handlers });
      sendSubscription(id);
    };
    const close = () => {
      if (entries.delete(id)) send({ op: "unsubscribe", id });
    };
    begin(handlers.from);
    connect();
    return {
      ack: (offset) => send({ op: "ack", id, offset }),
      close,
      resubscribe: (from) => {
        close();
        begin(from);
      },
    };
  },

  /**
   * Calls `changed` when the connection is lost or back; returns a function that ends this.
   * @param {(online: boolean) => void} changed
   */
  onState(changed) {
    watchers.add(changed);
    return () => void watchers.delete(changed);
  },

  /** Tries to connect now, instead of after the delay. */
  retry() {
    delay = FIRST_DELAY_MS;
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

addEventListener("online", () => stream.retry());
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && entries.size && !online) stream.retry();
});

function connect() {
  if (socket) return;
  clearTimeout(timer);
  timer = undefined;
  const opened = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/api/stream`);
  opened.binaryType = "arraybuffer";
  opened.onopen = () => {
    delay = FIRST_DELAY_MS;
    setOnline(true);
    for (const id of entries.keys()) sendSubscription(id);
  };
  opened.onmessage = ({ data }) => (typeof data === "string" ? handleMessage(JSON.parse(data)) : handleBytes(data));
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

/** Connects again if the login is still valid: a new daemon may not know it. */
async function reconnect() {
  try {
    if (await me()) connect();
  } catch {
    handleClose();
  }
}

/** @param {Message} message */
function handleMessage(message) {
  const entry = entries.get(message.id);
  if (!entry) return;
  if (message.op === "error") entry.handlers.onError?.(new ApiError(message.error));
  else entry.handlers.onMessage?.(message);
}

/** @param {ArrayBuffer} data */
function handleBytes(data) {
  const view = new DataView(data);
  const entry = entries.get(view.getUint32(0));
  if (!entry) return;
  const offset = Number(view.getBigUint64(4));
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
  for (const changed of watchers) changed(value);
}
