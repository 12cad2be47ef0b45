// Lines that a person typed and the policy holds: each waits for the answer to its request, and is typed once it is approved.

import { ApiError, call } from "./api.js";
import { html, nothing } from "./lit.js";
import { visible } from "./text.js";
import { link, toast } from "./ui.js";

/** @typedef {import("./api.js").Json} Json */
/** @typedef {{id: string, text: string, reason: string, failure: ApiError | null}} HeldLine */

/** How long one call waits for the answer; the next one continues. */
const WAIT_MS = 50_000;
const RETRY_DELAY_MS = 2_000;

/**
 * The held lines of `session`.
 * @param {string} session
 * @param {() => void} changed
 */
export function createHeldLines(session, changed) {
  /** @type {HeldLine[]} */
  let lines = [];
  const ended = new AbortController();

  /** @param {HeldLine} line */
  const remove = (line) => {
    lines = lines.filter((other) => other !== line);
    changed();
  };

  /** Repeats the write with the id of its request until it was typed or refused. @param {HeldLine} line @param {Record<string, any>} write */
  const wait = async (line, write) => {
    while (!ended.signal.aborted) {
      try {
        const reply = await call("ptyctl_session_io", { ...write, approval_id: line.id, timeout_ms: WAIT_MS }, { signal: ended.signal });
        toast(`Approved${reply.edited ? " with changes" : ""}, and typed: ${visible(line.text)}`, "good");
        return remove(line);
      } catch (error) {
        if (!(error instanceof ApiError)) return;
        if (error.error_code === "OFFLINE") await new Promise((resolve) => setTimeout(resolve, RETRY_DELAY_MS));
        else if (error.error_code !== "APPROVAL_PENDING") {
          line.failure = error;
          return changed();
        }
      }
    }
  };

  return {
    /**
     * Keeps a write that was refused with APPROVAL_PENDING.
     * @param {Record<string, any>} write
     * @param {ApiError} error
     */
    async add(write, { details }) {
      if (ended.signal.aborted) return;
      const line = { id: details.approval_id, text: "", reason: details.reason, failure: null };
      lines.push(line);
      void wait(line, write);
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
