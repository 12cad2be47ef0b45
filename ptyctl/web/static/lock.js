// The lock of a session: who may type. Only the holder's input is sent, and only the holder's page resizes the terminal.

import { ApiError, call, principal, taskId } from "./api.js";
import { html, nothing } from "./lit.js";
import { createTypeahead } from "./typeahead.js";
import { confirmDialog, timeLeft, toast, toastError } from "./ui.js";

/** @typedef {import("./stream.js").Message} Message */
/** @typedef {ReturnType<typeof createLock>} Lock */

const TTL_MS = 30_000;
/** How long one call waits in the queue; the next one reports the new position. */
const QUEUE_MS = 5_000;
/** How long a lock that is given back waits for the answers to calls before it: the far end may take no input. */
const ANSWER_MS = 5_000;
/** The key that takes the lock, or gives it back. */
const LOCK_KEY = "Ctrl+Shift+L";
/** The number of locks that views have open, by session: a late answer to a closed one must not release the next one's. @type {Map<string, number>} */
const open = new Map();
const TAKEN = "The lock is taken: wait for it, or take it over.";

/**
 * The lock of `session` as this page sees it. `changed` is called after each change, `requested` when this page requests the lock:
 * input is kept from then on, and `acquired` when this page begins to use it. `inputSent` resolves once all admitted input is written.
 * @param {string} session
 * @param {{changed: () => void, requested: () => void, acquired: () => void, inputSent: () => Promise<void>}} callbacks
 */
export function createLock(session, { changed, requested, acquired, inputSent }) {
  /** @type {{holder: string, principal: string, expires: number} | null} */
  let current = null;
  /** Whether the holder is known. */
  let known = false;
  /** Whether the lock is being given back. */
  let releasing = false;
  /** The last renewal. */
  let renewal = Promise.resolve();
  /** Whether this page, not only another one of the same person, uses the lock: it renews it and sizes the terminal. */
  let active = false;
  /** @type {number | null} */
  let position = null;
  let refusal = "";
  let closed = false;
  /** @type {string[]} */
  let waiters = [];

  const typeahead = createTypeahead(refuse);
  open.set(session, (open.get(session) ?? 0) + 1);
  const isOurs = () => current?.holder === taskId() && current.principal === principal()?.name;
  const holderName = () => (current ? (current.principal === current.holder ? current.holder : `${current.principal} (${current.holder})`) : "");

  /**
   * @param {string} action
   * @param {Record<string, any>} [fields]
   * @param {{keepalive?: boolean}} [options]
   */
  const act = (action, fields, options) => call("ptyctl_session", { action, session_id: session, task_id: taskId(), ...fields }, options);

  /** @param {Record<string, any>} fields */
  const setHolder = ({ lock_holder: holder, lock_principal: name, lock_expires_at: expires }) => {
    known = true;
    const had = (active || typeahead.isWaiting()) && isOurs();
    current = holder ? { holder, principal: name ?? holder, expires: expires ?? 0 } : null;
    if (had && !isOurs()) {
      active = false;
      waiters = [];
      typeahead.fail("The lock was lost.");
      if (current) toast(`${holderName()} has the lock now.`, "warn");
    }
    changed();
  };

  /** Makes this the window that uses the lock. */
  const activate = () => {
    active = true;
    acquired();
  };

  /** Leaves the lock to another window of the same person. */
  const deactivate = () => {
    active = false;
    waiters = [];
    changed();
  };

  /** Applies a state of the stream. It can be older than our lock: then the session is asked. @param {Record<string, any>} state */
  const observe = (state) => {
    const ours = state.lock_holder === taskId() && state.lock_principal === principal()?.name;
    if (active && isOurs() && !ours) void renew();
    else setHolder(state);
  };

  /** @param {Record<string, any>} [fields] */
  const take = async (fields = {}) => {
    const taken = await act("lock", { lock_ttl_ms: TTL_MS, ...fields });
    if (closed) return void (open.get(session) || act("unlock").catch(() => {}));
    setHolder(taken);
    position = null;
    activate();
    changed();
  };

  /** Requests the lock; input until the answer is kept. @param {Record<string, any>} [fields] */
  const request = async (fields) => {
    if (typeahead.isWaiting()) return refuse("The lock is requested already: wait for the answer.");
    typeahead.begin();
    refuse("");
    requested();
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
    await Promise.race([Promise.all([inputSent(), renewal]), new Promise((resolve) => setTimeout(resolve, ANSWER_MS))]);
    releasing = false;
    return !closed && isOurs();
  };

  const giveBack = async () => {
    position = null;
    if (typeahead.isWaiting()) return changed(); // the answer would come after that of the release
    if (isOurs() && !(await canRelease())) return;
    active = false;
    waiters = [];
    await act("unlock").then(setHolder, toastError);
  };

  /** @param {string} reason */
  function refuse(reason) {
    refusal = reason;
    changed();
  }

  const whyNot = () => {
    if (position !== null) return "Nothing was typed: wait until you have the lock.";
    return current ? `Nothing was typed: ${holderName()} has the lock.` : "Nothing was typed: you only watch. Take the lock first.";
  };

  const renew = () => (renewal = renewNow());

  const renewNow = async () => {
    if (!active || !isOurs() || releasing) return;
    try {
      setHolder(await act("heartbeat", { lock_ttl_ms: TTL_MS }));
      waiters = (await act("status")).queue ?? [];
    } catch (error) {
      if (error instanceof ApiError && error.error_code !== "OFFLINE") await act("status").then(setHolder, () => setHolder({}));
    }
    changed();
  };

  const timers = [
    setInterval(renew, TTL_MS / 3),
    setInterval(changed, 1_000),
  ];

  return {
    isOurs,
    /** Whether this page uses the lock: it sizes the terminal. */
    isActive: () => active && isOurs(),
    deactivate,
    observe,
    /** Takes the lock, or gives it back. */
    toggle: () => void (isOurs() ? giveBack() : tryTake()),
    /** Whether input is sent, or kept until the lock is granted. */
    takesInput: () => isOurs() || typeahead.isWaiting(),
    /**
     * Called for each input: returns whether it may be sent, and calls `send` then. While a request for the lock is not answered,
     * `send` is kept. Otherwise the bar shows why not. Without `send` the input is a whole line, which the caller keeps.
     * @param {() => void} [send]
     * @param {number} [length] characters of the input
     */
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
    /** Releases the lock when the view or the page closes. */
    close() {
      closed = true;
      open.set(session, (open.get(session) ?? 1) - 1);
      typeahead.end("The page was left.");
      for (const timer of timers) clearInterval(timer);
      const waiting = position !== null;
      position = null;
      if ((active && isOurs()) || waiting) act("unlock", {}, { keepalive: true }).catch(() => {});
      active = false;
    },
    /** The lock bar. */
    template() {
      const left = current?.expires ? timeLeft(current.expires) : "";
      const kind = isOurs() ? "held" : current ? "other" : "";
      const state = isOurs()
        ? html`<strong>You have the lock${active ? "." : " in another window. Type here to use it in this one."}</strong> ${waiters.length ? `${waiters.length} waiting: ${waiters.join(", ")}.` : nothing}`
        : current
          ? html`<strong>${holderName()}</strong> has the lock${left ? html`, <span class="mono">${left}</span> left` : nothing}.
              ${position === null ? "You watch." : position ? `You are number ${position} in the queue.` : "You wait for it."}`
          : known ? "Nobody has the lock. You watch." : "Loading …";
      return html`<div class="lockbar ${kind}" role="group" aria-label="Lock">
        <span class="grow">${state}</span>
        ${isOurs()
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
}
