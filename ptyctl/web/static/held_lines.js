// Lines that a person typed and the policy holds: each waits for the answer to its request, and is typed once it is approved.
// They belong to the tab, not to the view of their session: who looks at the request, or reloads the page, keeps them.

import { call, principal } from "./api.js";
import { store } from "./features.js";
import { html, nothing } from "./lit.js";
import { isolated, name, visible } from "./text.js";
import { link, toast } from "./ui.js";

/** @typedef {import("./api.js").Json} Json */
/** @typedef {import("./api.js").ApiError} ApiError */
/** @typedef {{id: string, write: Json, text: string, reason: string, failure: ApiError | null}} HeldLine */

/** In what time the answer to each of the lines is asked for. */
const ROUND_MS = 5_000;
const RETRY_DELAY_MS = 2_000;
const STORED = "ptyctl.held-lines";

/** The lines by person and session, of the sessions that this tab has shown. @type {Map<string, ReturnType<typeof linesOf>>} */
const known = new Map();

/**
 * The held lines of `session`, as a view shows them.
 * @param {string} session
 * @param {() => void} changed
 * @param {() => void} typed called when one was approved and typed
 * @param {() => void} failed called when one will not be typed
 */
export function createHeldLines(session, changed, typed, failed) {
  const owner = principal()?.name;
  const key = `${STORED}.${owner}.${session}`;
  const lines = known.get(key) ?? linesOf(key, () => principal()?.name === owner);
  known.set(key, lines);
  const view = { changed, typed, failed };
  lines.views.add(view);
  void lines.wait();
  return {
    add: lines.add,
    template: lines.template,
    /** Leaves the lines to the next view of the session. */
    close: () => void lines.views.delete(view),
  };
}

/**
 * @param {string} key where they are kept
 * @param {() => boolean} isTheirs whether the person who typed them is logged in
 */
function linesOf(key, isTheirs) {
  /** @type {Set<{changed: () => void, typed: () => void, failed: () => void}>} */
  const views = new Set();
  let lines = stored(key);
  let waiting = false;

  const changed = () => {
    const open = unanswered();
    store.tab.set(key, open.length ? JSON.stringify(open) : null);
    for (const view of views) view.changed();
  };

  /** @param {HeldLine} line */
  const remove = (line) => {
    lines = lines.filter((other) => other !== line);
    changed();
  };

  const unanswered = () => lines.filter(({ failure }) => !failure);

  /** The line was typed. @param {HeldLine} line @param {string} how */
  const finish = (line, how) => {
    toast(`${how}: ${isolated(line.text)}`, "good");
    remove(line);
    for (const view of views) view.typed();
  };

  /** Repeats the write of a line with the id of its request. @param {HeldLine} line @param {number} timeout how long it waits (ms) */
  const tryLine = async (line, timeout) => {
    try {
      const reply = await call("ptyctl_session_io", { ...line.write, approval_id: line.id, timeout_ms: timeout });
      finish(line, `Approved${reply.edited ? " with changes" : ""}, and typed`);
    } catch (error) {
      const failure = /** @type {ApiError} */ (error);
      if (!isTheirs() || failure.error_code === "APPROVAL_PENDING") return;
      if (failure.error_code === "OFFLINE") return void (await new Promise((resolve) => setTimeout(resolve, RETRY_DELAY_MS)));
      if (failure.details.reason === "used") return finish(line, "Approved, and typed already"); // the reply to an earlier try was lost
      line.failure = failure;
      for (const view of views) view.failed();
      if (!views.size) toast(`Not typed: ${isolated(line.text)}. ${isolated(failure.message)}`, "bad");
      changed();
    }
  };

  /** Tries the lines in turn until each was typed or refused. A browser has few connections: only one call waits at a time. */
  const wait = async () => {
    if (waiting) return;
    waiting = true;
    for (let open = unanswered(); open.length && isTheirs(); open = unanswered()) {
      for (const line of open) await tryLine(line, Math.ceil(ROUND_MS / open.length));
    }
    waiting = false;
  };

  return {
    views,
    wait,
    /**
     * Keeps a write that was refused with APPROVAL_PENDING.
     * @param {Record<string, any>} write
     * @param {ApiError} error
     */
    async add(write, { details }) {
      const line = { id: details.approval_id, write, text: "The line", reason: details.reason, failure: null };
      lines = [...lines, line];
      void wait();
      const { approval } = await call("approvals", { action: "get", approval_id: line.id }).catch(() => /** @type {Json} */ ({}));
      line.text = approval?.text ?? line.text;
      changed();
    },
    template: () =>
      lines.length
        ? html`<ul class="held-lines" aria-label="Lines that wait" aria-live="polite">
            ${lines.map(
              (line) => html`<li class="notice ${line.failure ? "bad" : ""}">
                <code>${visible(line.text)}</code>
                ${line.failure
                  ? html`was not typed: ${name(line.failure.message)} ${line.failure.hint ? html`<small>Next step: ${line.failure.hint}.</small>` : nothing}
                      <button type="button" class="small" @click=${() => remove(line)}>Dismiss</button>`
                  : html`waits for an approval: ${name(line.reason)}. It is typed once it is approved.
                      ${link(`/approvals?id=${line.id}`, "Show the request", "button small")}`}
              </li>`,
            )}
          </ul>`
        : nothing,
  };
}

/** The lines that an earlier page of this tab has kept. @param {string} key @returns {HeldLine[]} */
function stored(key) {
  try {
    const lines = JSON.parse(store.tab.get(key) ?? "[]");
    return Array.isArray(lines) ? lines.filter((line) => typeof line?.id === "string" && typeof line.text === "string" && line.write) : [];
  } catch {
    return [];
  }
}
