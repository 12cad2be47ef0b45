// The lock of a session: who may type. Only the holder's input is sent, and only the holder's page resizes the terminal.
// A lock belongs to the page, not to a view: it survives other views, and a reload of its tab within its time.

import { ApiError, call, principal, serverTime, taskId } from "./api.js";
import { age, mark } from "./clock.js";
import { store } from "./features.js";
import { html, nothing } from "./lit.js";
import { act as actNow } from "./stream.js";
import { isolated } from "./text.js";
import { createTypeahead } from "./typeahead.js";
import { confirmDialog, timeLeft, toast, toastError } from "./ui.js";

/** @typedef {import("./stream.js").Message} Message */
/**
 * @typedef {object} Lock
 * @property {string} session
 * @property {() => boolean} isOurs
 * @property {() => boolean} isActive whether this page uses the lock: it sizes the terminal
 * @property {() => void} deactivate leaves the lock to another window of the same person
 * @property {(state: Record<string, any>) => void} observe applies a state of the stream
 * @property {() => Promise<void>} giveBack
 * @property {() => string} name the name of the session for people
 * @property {(name: string) => void} setName
 * @property {(view: View) => void} attach a view shows the session
 * @property {() => void} detach the view was left: a lock that is used stays
 * @property {() => void} resume uses the lock again, if it is still ours
 * @property {() => void} forget
 * @property {() => void} toggle takes the lock, or gives it back
 * @property {() => boolean} takesInput whether input is sent, or kept until the lock is granted
 * @property {(reason: string) => void} refuse shows why input was not taken
 * @property {(send?: () => void, length?: number) => boolean} admit called for each input, with the number of its characters:
 *   returns whether it may be sent, and calls `send` then. While a request for the lock is not answered, `send` is kept. Otherwise
 *   the bar shows why not. Without `send` the input is a whole line, which the caller keeps.
 * @property {(stale: boolean) => import("./lit.js").TemplateResult} template the lock bar; `stale`: the daemon is silent, and what
 *   it last reported may have changed
 */
/**
 * @typedef {object} View the view of the session. `changed` is called after each change, `requested` when the page requests the
 *   lock: input is kept from then on, and `acquired` when the page begins to use it.
 * @property {() => void} changed
 * @property {() => void} requested
 * @property {() => void} acquired
 * @property {() => Promise<void>} inputSent resolves once all admitted input is written
 * @property {() => number} silence the time since the last message of the session (ms)
 */

const TTL_MS = 30_000;
/** How long one call waits in the queue; the next one reports the new position. */
const QUEUE_MS = 5_000;
/** How long a lock that is given back waits for the answers to calls before it: the far end may take no input. */
const ANSWER_MS = 5_000;
const CHECK_MS = 1_000;
/** The key that takes the lock, or gives it back. */
const LOCK_KEY = "Ctrl+Shift+L";
const TAKEN = "The lock is taken: wait for it, or take it over.";
const ENDED = "The lock has ended: the daemon did not answer in time.";
/** The sessions whose lock this tab uses, and the principal, for a reload. */
const STORED = "ptyctl.locks";

/** The locks that a view shows, or that the page uses. @type {Map<string, Lock>} */
const locks = new Map();
/** @type {() => void} */
let heldChanged = () => {};

/** The lock of a session as this page sees it. @param {string} session */
export const lockOf = (session) => locks.get(session) ?? createLock(session);

/** The locks that this page uses. */
export const heldLocks = () => [...locks.values()].filter((lock) => lock.isActive());

/** Calls `changed` when the page begins or ceases to use a lock. @param {() => void} changed */
export function onHeldLocks(changed) {
  heldChanged = changed;
}

/** Uses the locks again that this tab used before it was reloaded. */
export function resumeLocks() {
  for (const session of storedLocks()) lockOf(session).resume();
}

/** Forgets all locks: the login has ended. They expire unless a login of the same person resumes them. */
export function forgetLocks() {
  for (const lock of [...locks.values()]) lock.forget();
}

/** @returns {string[]} */
function storedLocks() {
  try {
    const { by, sessions } = JSON.parse(store.tab.get(STORED) ?? "{}");
    return by === principal()?.name && Array.isArray(sessions) ? sessions.map(String) : [];
  } catch {
    return [];
  }
}

/** @param {string} session @param {boolean} used */
function storeLock(session, used) {
  const others = storedLocks().filter((other) => other !== session);
  store.tab.set(STORED, JSON.stringify({ by: principal()?.name, sessions: used ? [...others, session] : others }));
}

/** @param {string} session @returns {Lock} */
function createLock(session) {
  /** @type {View | null} */
  let view = null;
  /** @type {{holder: string, principal: string, expires: number, seen: import("./clock.js").Mark, ms: number} | null} */
  let current = null;
  /** Whether the holder is known. */
  let known = false;
  /** Whether the lock is being given back. */
  let releasing = false;
  /** The last renewal. */
  let renewal = Promise.resolve();
  /** Whether this page, not only another one of the same person, uses the lock: it renews it and sizes the terminal. */
  let active = false;
  /** Whether this tab used the lock before a reload, and has not found out yet whether it still has it. */
  let resuming = false;
  /** Number of requests for the lock without an answer: a late one must not release what a later one has taken. */
  let taking = 0;
  /** @type {number | null} */
  let position = null;
  let refusal = "";
  let name = session;
  /** @type {string[]} */
  let waiters = [];

  const typeahead = createTypeahead(refuse);
  const changed = () => view?.changed();
  /** The time until the lock expires (ms). */
  const left = () => (current ? current.ms - age(current.seen) : 0);
  const isOurs = () => current?.holder === taskId() && current.principal === principal()?.name && left() > 0;
  const holderName = () => (current ? (current.principal === current.holder ? isolated(current.holder) : `${isolated(current.principal)} (${isolated(current.holder)})`) : "");

  /**
   * @param {string} action
   * @param {Record<string, any>} [fields]
   * @param {import("./api.js").Options & {silence?: number | undefined}} [options]
   */
  const act = (action, fields, options) => (action === "lock" ? actNow : call)("ptyctl_session", { action, session_id: session, task_id: taskId(), ...fields }, options);

  /** Whether this page uses the lock. @param {boolean} value */
  const setActive = (value) => {
    if (!value) waiters = [];
    if (active === value) return;
    active = value;
    storeLock(session, value);
    dropUnused();
    heldChanged();
  };

  /**
   * Applies a state of the daemon. A lock that a call has taken or renewed lasts from the begin of the call, whatever the clocks are.
   * @param {Record<string, any>} fields
   * @param {import("./clock.js").Mark} [called]
   */
  const setHolder = ({ lock_holder: holder, lock_principal: by, lock_expires_at: expires = 0 }, called) => {
    known = true;
    const had = active || typeahead.isWaiting() ? isMine() : false;
    const lasts = called ? { seen: called, ms: TTL_MS } : { seen: mark(), ms: expires - serverTime() };
    current = holder ? { holder, principal: by ?? holder, expires, ...lasts } : null;
    if (had && !isMine()) lose("The lock was lost.");
    else if (resuming && !isMine()) resume(false);
    else if (resuming) {
      resume(false);
      activate();
    }
    changed();
  };

  /** Whether the daemon has named us as the holder, even if the lock has expired since. */
  const isMine = () => current?.holder === taskId() && current.principal === principal()?.name;

  /** @param {string} reason */
  const lose = (reason) => {
    typeahead.fail(reason);
    if (current && !isMine()) toast(`${holderName()} has the lock${view ? "" : ` of ${isolated(name)}`} now.`, "warn");
    setActive(false);
  };

  /** Ends our lock at its time: without an answer of the daemon nobody can know that we still have it. */
  const expire = () => {
    if (!isMine() || left() > 0) return;
    const used = active;
    current = null;
    known = false;
    if (used) {
      lose(ENDED);
      toast(`${ENDED.slice(0, -1)}${view ? "" : ` (${isolated(name)})`}.`, "warn");
    }
  };

  /** Makes this the window that uses the lock. */
  const activate = () => {
    setActive(true);
    view?.acquired();
  };

  /** Leaves the lock to another window of the same person. */
  const deactivate = () => {
    setActive(false);
    changed();
  };

  /** @param {boolean} value */
  const resume = (value) => {
    resuming = value;
    if (!value && !active) storeLock(session, false);
  };

  /** Applies a state of the stream. It can be older than our lock: then the session is asked. @param {Record<string, any>} state */
  const observe = (state) => {
    const ours = state.lock_holder === taskId() && state.lock_principal === principal()?.name;
    if (active && isOurs()) {
      if (!ours) void renew();
    } else setHolder(state);
  };

  /** @param {Record<string, any>} [fields] */
  const take = async (fields = {}) => {
    const called = mark();
    taking++;
    try {
      const taken = await act("lock", { lock_ttl_ms: TTL_MS, ...fields }, { silence: view?.silence() });
      if (!view) return void act("unlock").catch(() => {}); // the person has left
      setHolder(taken, fields.wait_ms ? undefined : called);
      position = null;
      if (isOurs()) activate();
      changed();
    } finally {
      taking--;
      dropUnused();
    }
  };

  /** Requests the lock; input until the answer is kept. @param {Record<string, any>} [fields] */
  const request = async (fields) => {
    if (typeahead.isWaiting()) return refuse("The lock is requested already: wait for the answer.");
    typeahead.begin();
    refuse("");
    view?.requested();
    try {
      await take(fields);
      typeahead.end(isOurs() ? "" : "The lock was lost.");
    } catch (error) {
      const isTaken = error instanceof ApiError && error.error_code === "LOCKED";
      if (isTaken) refuse(TAKEN);
      else toastError(error);
      typeahead.end(isTaken ? TAKEN : "You did not get the lock.");
    }
  };

  /** Takes the lock if it is free. */
  const tryTake = () => request();

  const takeOver = async () => {
    const reason = await confirmDialog({
      title: `Take the lock from ${holderName()}?`,
      text: "The holder's input stops at once. All users of the session see the reason.",
      input: "Reason",
      required: true,
      action: "Take over",
      danger: true,
    });
    if (typeof reason === "string") await request({ force: true, reason });
  };

  const queue = async () => {
    refusal = "";
    for (position = 0; position !== null; ) {
      try {
        return await take({ wait_ms: position ? QUEUE_MS : 1 });
      } catch (error) {
        if (!(error instanceof ApiError) || error.error_code !== "LOCKED") {
          position = null;
          toastError(error);
        } else if (position !== null) position = error.details.queue_position ?? null;
        changed();
      }
    }
  };

  /** Waits for the input and the renewal that were sent before; returns whether the lock is still ours. */
  const canRelease = async () => {
    if (releasing) return false;
    releasing = true;
    const sent = Promise.all([view?.inputSent(), renewal]);
    await Promise.race([sent, new Promise((resolve) => setTimeout(resolve, ANSWER_MS))]);
    releasing = false;
    return isOurs();
  };

  const giveBack = async () => {
    position = null;
    if (typeahead.isWaiting()) return changed(); // the answer would come after that of the release
    if (isOurs() && !(await canRelease())) return;
    setActive(false);
    await act("unlock", {}, { limitMs: ANSWER_MS }).then(setHolder, toastError);
  };

  /** @param {string} reason */
  function refuse(reason) {
    refusal = reason;
    changed();
  }

  const whyNot = () => {
    if (position !== null) return "Nothing was typed: wait until you have the lock.";
    if (!known) return "Nothing was typed: who has the lock is not known.";
    return current && !isMine() ? `Nothing was typed: ${holderName()} has the lock.` : "Nothing was typed: you only watch. Take the lock first.";
  };

  const renew = () => (renewal = renewNow());

  const renewNow = async () => {
    if (!active || !isOurs() || releasing) return;
    const called = mark();
    try {
      setHolder(await act("heartbeat", { lock_ttl_ms: TTL_MS }, { limitMs: ANSWER_MS }), called);
      waiters = (await act("status", {}, { limitMs: ANSWER_MS })).queue ?? [];
    } catch (error) {
      if (error instanceof ApiError && error.error_code !== "OFFLINE") await act("status").then(setHolder, () => setHolder({}));
    }
    changed();
  };

  const check = () => {
    expire();
    changed();
  };

  const timers = [setInterval(renew, TTL_MS / 3), setInterval(check, CHECK_MS)];

  const dropUnused = () => {
    if (view || active || resuming || taking) return;
    for (const timer of timers) clearInterval(timer);
    if (locks.get(session) === lock) locks.delete(session);
  };

  /** @type {Lock} */
  const lock = {
    session,
    isOurs,
    isActive: () => active && isOurs(),
    deactivate,
    observe,
    giveBack,
    name: () => name,
    setName(shown) {
      name = shown;
    },
    attach(shown) {
      view = shown;
      refusal = "";
    },
    detach() {
      typeahead.end("The page was left.");
      if (position !== null) act("unlock", {}, { keepalive: true }).catch(() => {});
      position = null;
      view = null;
      dropUnused();
      heldChanged();
    },
    resume() {
      resume(true);
      void act("status").then(
        (state) => (resuming ? setHolder(state) : undefined),
        (error) => error instanceof ApiError && error.error_code !== "OFFLINE" && resume(false),
      );
    },
    forget() {
      active = resuming = false;
      current = null;
      dropUnused();
      changed();
      heldChanged();
    },
    toggle: () => void (isOurs() ? giveBack() : tryTake()),
    takesInput: () => isOurs() || typeahead.isWaiting(),
    refuse,
    admit(send, length = 1) {
      if (typeahead.isWaiting() && send) typeahead.keep(send, length);
      else if (typeahead.isWaiting()) refuse("Nothing was typed: wait until you have the lock.");
      else if (!isOurs()) send ? typeahead.discard(whyNot()) : refuse(whyNot());
      else if (send && typeahead.isAfterDiscarded()) typeahead.discard("Nothing was typed: the keys before were discarded. Pause, and type the line again.");
      else {
        if (!active) activate();
        if (refusal) refuse("");
        send?.();
        return true;
      }
      return false;
    },
    template(stale) {
      const ours = isOurs();
      const time = ours ? timeLeft(serverTime() + left()) : current?.expires ? timeLeft(current.expires) : "";
      const kind = ours ? "held" : current ? "other" : "";
      const state = ours
        ? html`<strong>${stale ? "You had the lock when the daemon last answered." : `You have the lock${active ? "." : " in another window. Type here to use it in this one."}`}</strong>
            <span class="mono">${time}</span> left. ${waiters.length ? `${waiters.length} waiting: ${waiters.map(isolated).join(", ")}.` : nothing}`
        : current && !isMine()
          ? html`<strong>${holderName()}</strong> ${stale ? "had" : "has"} the lock${time && !stale ? html`, <span class="mono">${time}</span> left` : nothing}.
              ${position === null ? "You watch." : position ? `You are number ${position} in the queue.` : "You wait for it."}`
          : known && !stale ? "Nobody has the lock. You watch." : stale ? "Who has the lock is not known: no answer from the daemon." : "Loading …";
      return html`<div class="lockbar ${kind}" role="group" aria-label="Lock">
        <span class="grow">${state}</span>
        ${ours
          ? html`<button type="button" @click=${giveBack}>Give back <kbd>${LOCK_KEY}</kbd></button>`
          : current
            ? html`${position === null
                  ? html`<button type="button" @click=${queue}>Wait in the queue</button>`
                  : html`<button type="button" @click=${giveBack}>Leave the queue</button>`}
                <button type="button" @click=${takeOver}>Take over …</button>`
            : html`<button type="button" class="primary" @click=${tryTake}>Take the lock <kbd>${LOCK_KEY}</kbd></button>`}
        <span class="refusal" role="status">${refusal}</span>
      </div>`;
    },
  };
  locks.set(session, lock);
  return lock;
}
