// Calls of the daemon over HTTP, and the signed-in principal.

import { age, mark } from "./clock.js";

/** @typedef {{name: string, kind: string, role: string}} Principal */
/** @typedef {{principal: Principal, csrf: string, version: string, task_id: string, ts: number}} Login ts: the daemon's clock */
/** @typedef {Record<string, any>} Json */
/** @typedef {RequestInit & {limitMs?: number | undefined}} Options limitMs: OFFLINE after this time */
/** @typedef {import("./clock.js").Mark} Mark */

/** An error of a call, as docs/contracts.md describes it. */
export class ApiError extends Error {
  /** @param {{error_code: string, message: string, hint?: string, details?: Json, retryable?: boolean}} error */
  constructor(error) {
    super(error.message);
    this.error_code = error.error_code;
    this.hint = error.hint;
    this.details = error.details ?? {};
    this.retryable = error.retryable ?? false;
  }
}

/** Error codes of pty_* methods that have another name elsewhere. @type {Record<string, string>} */
const PTY_CODES = { closed: "ALREADY_CLOSED", eof: "REMOTE_CLOSED" };
const RETRYABLE = ["busy", "io_error", "locked"];
/** Size of a page of a recording. */
const RECORDING_BYTES = 1 << 18;

/** The calls whose reply has not come, with the functions that end them. @type {Set<() => void>} */
const open = new Set();

/** @type {Login | null} */
let current = null;
/** @type {(login: Login | null) => void} */
let loginChanged = () => {};
/** How much the daemon's clock is ahead of the browser's (ms). */
let ahead = 0;
/** The daemon's clock at a moment. @type {{ts: number, at: Mark} | null} */
let clock = null;

/** The signed-in principal, or null. */
export const principal = () => current?.principal ?? null;
/** The task of this page's calls. Tabs of one person are one task. */
export const taskId = () => current?.task_id ?? "web";
/** The time of the daemon's clock (epoch ms): its timestamps are compared with this. */
export const serverTime = () => Date.now() + ahead;
/** The time of the daemon's clock at most (epoch ms); null before a login. A jump of the browser's clock does not change it. */
export const daemonClock = () => clock && clock.ts + age(clock.at);
/** The version of the daemon. */
export const version = () => current?.version ?? "";

/**
 * Calls `changed` after each login and at the end of the login.
 * @param {(login: Login | null) => void} changed
 */
export function onLogin(changed) {
  loginChanged = changed;
}

/**
 * Exchanges a ticket or token for a session cookie.
 * @param {{ticket: string} | {token: string}} body
 */
export async function login(body) {
  setLogin(await readLogin("/api/login", body));
}

/** Returns the current login, or null if there is none. @param {number} [limitMs] raises OFFLINE after this time */
export async function me(limitMs) {
  try {
    const reply = await readLogin("/api/me", undefined, limitMs);
    if (reply.csrf !== current?.csrf) setLogin(reply);
  } catch (error) {
    if (!isLoginError(error)) throw error;
  }
  return current;
}

/**
 * Reads the login, and with it the daemon's clock.
 * @param {string} path
 * @param {Json} [body]
 * @param {number} [limitMs]
 * @returns {Promise<Login>}
 */
async function readLogin(path, body, limitMs) {
  const sent = Date.now();
  const reply = await request(path, body, { limitMs });
  clock = { ts: reply.ts, at: mark() };
  ahead = Math.round(reply.ts - (sent + Date.now()) / 2);
  return reply;
}

/** Applies a time of the daemon's clock, which the clock has reached by now: it may be set, or drift from that of the browser. @param {number} ts */
export function setDaemonClock(ts) {
  clock = { ts, at: mark() };
  ahead = Math.max(ahead, ts - Date.now());
}

/** Ends the login. */
export async function logout() {
  await request("/api/logout", {});
  setLogin(null);
}

/**
 * Calls a method of the controller; raises ApiError.
 * @param {string} method
 * @param {Json} [fields]
 * @param {Options} [options]
 * @returns {Promise<Json>}
 */
export async function call(method, fields = {}, options = {}) {
  const reply = await request(`/api/call/${method}`, fields, options);
  if (reply.ok !== false) return reply;
  const { error, message, hint } = reply; // of a pty_*, blocks_* or screen method
  throw new ApiError({ error_code: PTY_CODES[error] ?? error.toUpperCase(), message, hint, details: reply, retryable: RETRYABLE.includes(error) });
}

/**
 * Reads JSON from an address of the daemon.
 * @param {string} path
 * @param {RequestInit} [options]
 * @returns {Promise<Json>}
 */
export async function get(path, options = {}) {
  return request(path, undefined, options);
}

/**
 * The recording of a session from a raw offset, event by event.
 * @param {string} session
 * @param {number} from
 * @param {number} [to]
 * @returns {AsyncGenerator<Json, void>}
 */
export async function* recording(session, from, to = Infinity) {
  for (let complete = false; from < to && !complete; ) {
    const maxBytes = Math.min(to - from, RECORDING_BYTES);
    const page = await get(`/api/session/${encodeURIComponent(session)}/recording?from=${from}&max_bytes=${maxBytes}`);
    yield* page.events;
    complete = page.complete || page.resume_offset <= from;
    from = page.resume_offset;
  }
}

/**
 * Ends the calls that were sent on a connection that is dead: they raise OFFLINE. Browsers would wait for minutes, and begin no
 * more than a few calls meanwhile. Returns the function that does it, for the calls that are open now.
 */
export function openCalls() {
  const before = [...open];
  return () => before.filter((end) => open.has(end)).forEach((end) => end());
}

/** The error of a call that got no answer. */
export const offline = () =>
  new ApiError({ error_code: "OFFLINE", message: "The daemon does not answer.", hint: "check the network, and that the daemon runs: ptyctl daemon status", retryable: true });

/** @param {unknown} error */
const isLoginError = (error) => error instanceof ApiError && error.error_code === "UNAUTHENTICATED";

/**
 * Returns the JSON of a reply. Its body can be cut off, too: it is read within the limits of the call.
 * @param {string} path
 * @param {Json} [body] a POST, if given
 * @param {Options} [options]
 * @returns {Promise<any>}
 */
async function request(path, body, { limitMs, signal, ...options } = {}) {
  const ending = new AbortController();
  const end = () => ending.abort(new DOMException("no reply", "TimeoutError"));
  const abort = () => ending.abort(signal?.reason);
  const timer = limitMs === undefined ? undefined : setTimeout(end, limitMs);
  if (signal?.aborted) abort();
  signal?.addEventListener("abort", abort);
  open.add(end);
  try {
    return await send(path, body, { ...options, signal: ending.signal });
  } finally {
    open.delete(end);
    clearTimeout(timer);
    signal?.removeEventListener("abort", abort);
  }
}

/**
 * @param {string} path
 * @param {Json | undefined} body
 * @param {RequestInit} options
 */
async function send(path, body, options) {
  const headers = { "Content-Type": "application/json", "X-Ptyctl-CSRF": current?.csrf ?? "", ...options.headers };
  const post = body && { method: "POST", headers, body: JSON.stringify(body) };
  const fail = (/** @type {any} */ error) => {
    throw error.name === "AbortError" ? error : offline();
  };
  const response = await fetch(path, { ...options, ...post }).catch(fail);
  const reply = response.status === 204 ? null : await response.json().catch(response.ok ? fail : () => ({}));
  if (response.ok) return reply;
  if (response.status === 401) {
    if (current) setLogin(null);
    throw new ApiError({ message: "You are not signed in.", ...reply.error, error_code: "UNAUTHENTICATED" });
  }
  throw new ApiError({ error_code: "INTERNAL", message: `The daemon answered with status ${response.status}.`, ...reply.error });
}

/** @param {Login | null} login */
function setLogin(login) {
  current = login;
  loginChanged(login);
}
