// Input between a request for the lock and its answer: sent in order once the lock is granted, or discarded as a whole.

import { age, mark } from "./clock.js";

/** @typedef {ReturnType<typeof createTypeahead>} Typeahead */

/** Largest kept input, in UTF-16 units. */
const LIMIT = 4_096;
/** Oldest input that is sent: later it would surprise the person who typed it. */
const LONGEST_MS = 2_000;
/** Input sooner after discarded input can be the rest of its line. */
const PAUSE_MS = 1_000;
const LATE = "The lock did not arrive in time: type it again once you have the lock.";

/** `report` gets the reason whenever input is discarded. @param {(reason: string) => void} report */
export function createTypeahead(report) {
  /** @type {(() => void)[]} */
  let kept = [];
  /** When the first kept input was typed. */
  let first = mark();
  let size = 0;
  let waiting = false;
  /** Why the input of this wait is discarded. */
  let failure = "";
  let discardedAt = 0;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;

  /** @param {string} reason */
  const discard = (reason) => {
    kept = [];
    discardedAt = Date.now();
    report(reason);
  };

  /** Discards the input of this wait, also the input that follows. @param {string} reason */
  const fail = (reason) => {
    if (!waiting || failure) return;
    failure = `Nothing was typed. ${reason}`;
    if (kept.length) discard(failure);
  };

  return {
    discard,
    fail,
    isWaiting: () => waiting,
    /** Whether input now can be the rest of a line whose begin was discarded. */
    isAfterDiscarded: () => Date.now() - discardedAt < PAUSE_MS,
    /** The lock is requested. */
    begin() {
      waiting = true;
      failure = "";
      size = 0;
      discardedAt = 0;
    },
    /** Keeps one input during the wait. @param {() => void} send @param {number} length */
    keep(send, length) {
      if (!kept.length) {
        first = mark();
        clearTimeout(timer);
        timer = setTimeout(() => fail(LATE), LONGEST_MS);
      }
      kept.push(send);
      size += length;
      if (failure) discard(failure);
      else if (size > LIMIT) fail(`You typed more than ${LIMIT} characters before you had the lock.`);
    },
    /** The answer has arrived: sends the kept input, unless `refusal` is a reason to discard it. @param {string} [refusal] */
    end(refusal) {
      if (refusal) fail(refusal);
      if (kept.length && age(first) > LONGEST_MS) fail(LATE); // the timer may be late, too
      clearTimeout(timer);
      waiting = false;
      for (const send of kept.splice(0)) send();
    },
  };
}
