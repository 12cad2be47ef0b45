// Lines that a person typed and the policy holds: each waits for the answer to its request, and is typed once it is approved.

import { call } from "./api.js";
import { html, nothing } from "./lit.js";
import { visible } from "./text.js";
import { link, toast } from "./ui.js";

/** @typedef {import("./api.js").Json} Json */
/** @typedef {import("./api.js").ApiError} ApiError */
/** @typedef {{id: string, write: Json, text: string, reason: string, failure: ApiError | null}} HeldLine */

/** In what time the answer to each of the lines is asked for. */
const ROUND_MS = 5_000;
const RETRY_DELAY_MS = 2_000;

/**
 * The held lines of `session`.
 * @param {string} session
 * @param {() => void} changed
 */
export function createHeldLines(session, changed) {
  /** @type {HeldLine[]} */
  let lines = [];
  let waiting = false;
  const ended = new AbortController();

  /** @param {HeldLine} line */
  const remove = (line) => {
    lines = lines.filter((other) => other !== line);
    changed();
  };

  const unanswered = () => lines.filter(({ failure }) => !failure);

  /** Repeats the write of a line with the id of its request. @param {HeldLine} line @param {number} timeout how long it waits (ms) */
  const tryLine = async (line, timeout) => {
    try {
      const reply = await call("ptyctl_session_io", { ...line.write, approval_id: line.id, timeout_ms: timeout }, { signal: ended.signal });
      toast(`Approved${reply.edited ? " with changes" : ""}, and typed: ${visible(line.text)}`, "good");
      remove(line);
    } catch (error) {
      const failure = /** @type {ApiError} */ (error);
      if (ended.signal.aborted || failure.error_code === "APPROVAL_PENDING") return;
      if (failure.error_code === "OFFLINE") return void (await new Promise((resolve) => setTimeout(resolve, RETRY_DELAY_MS)));
      line.failure = failure;
      changed();
    }
  };

  /** Tries the lines in turn until each was typed or refused. A browser has few connections: only one call waits at a time. */
  const wait = async () => {
    if (waiting) return;
    waiting = true;
    for (let open = unanswered(); open.length && !ended.signal.aborted; open = unanswered()) {
      for (const line of open) await tryLine(line, Math.ceil(ROUND_MS / open.length));
    }
    waiting = false;
  };

  return {
    /**
     * Keeps a write that was refused with APPROVAL_PENDING.
     * @param {Record<string, any>} write
     * @param {ApiError} error
     */
    async add(write, { details }) {
      if (ended.signal.aborted) return;
      const line = { id: details.approval_id, write, text: "", reason: details.reason, failure: null };
      lines = [...lines, line];
      void wait();
      const { approval } = await call("approvals", { action: "get", approval_id: line.id }).catch(() => /** @type {Json} */ ({}));
      line.text = approval?.text ?? "The line";
      changed();
    },
    /** Ends the waiting: nothing is typed any more. */
    close: () => ended.abort(),
    template: () =>
      lines.length
        ? html`<ul class="held-lines" aria-label="Lines that wait" aria-live="polite">
            ${lines.map(
              (line) => html`<li class="notice ${line.failure ? "bad" : ""}">
                <code>${visible(line.text)}</code>
                ${line.failure
                  ? html`was not typed: ${visible(line.failure.message)} ${line.failure.hint ? html`<small>Next step: ${line.failure.hint}.</small>` : nothing}
                      <button type="button" class="small" @click=${() => remove(line)}>Dismiss</button>`
                  : html`waits for an approval: ${line.reason}. It is typed once it is approved.
                      ${link(`/approvals?id=${line.id}`, "Show the request", "button small")}`}
              </li>`,
            )}
          </ul>`
        : nothing,
  };
}
