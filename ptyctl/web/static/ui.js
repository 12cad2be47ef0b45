// Small pieces that several views use: times, badges, buttons, dialogs, errors.

import { ApiError, serverTime } from "./api.js";
import { copyText, store } from "./features.js";
import { html, nothing, render } from "./lit.js";
import { name, sentence, visible } from "./text.js";

/** @typedef {import("./lit.js").TemplateResult} Template */

export const NO_COPY = "The browser does not allow copying here.";
const TOAST_MS = 6_000;
const LETTER_KEYS = "ptyctl.letter-keys";
/** The setting of this page, for a browser that keeps nothing. @type {string | null} */
let letterKeys = null;
/** @type {[number, string][]} */
const UNITS = [
  [86_400_000, "d"],
  [3_600_000, "h"],
  [60_000, "min"],
  [1_000, "s"],
];

/** Whether single letters are keys of the page: a person who dictates, or presses keys by mistake, can turn them off. */
export const hasLetterKeys = () => (letterKeys ?? store.browser.get(LETTER_KEYS)) !== "off";

/**
 * The checkbox that turns single-letter keys off.
 * @param {() => void} changed
 */
export function letterKeysBox(changed) {
  const set = (/** @type {any} */ event) => {
    letterKeys = event.target.checked ? "on" : "off";
    store.browser.set(LETTER_KEYS, letterKeys);
    changed();
  };
  return html`<label class="check"><input type="checkbox" .checked=${hasLetterKeys()} @change=${set}>Single-letter keys</label>`;
}

/** @param {string} text */
export const fromBase64 = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));

/**
 * Text such as `3 min ago`.
 * @param {number | null | undefined} ts epoch ms
 */
function relativeTime(ts) {
  if (ts == null) return "";
  const past = serverTime() - ts;
  const [size, unit] = UNITS.find(([size]) => Math.abs(past) >= size) ?? [1, ""];
  if (!unit) return "now";
  const amount = `${Math.floor(Math.abs(past) / size)} ${unit}`;
  return past >= 0 ? `${amount} ago` : `in ${amount}`;
}

/**
 * A `<time>` with the relative time, and the exact one as its title.
 * @param {number | null | undefined} ts epoch ms
 */
export function timeAgo(ts) {
  if (ts == null) return nothing;
  const date = new Date(ts);
  return html`<time datetime=${date.toISOString()} title=${date.toLocaleString()}>${relativeTime(ts)}</time>`;
}

/**
 * Text such as `850 ms`, `12.3 s`, `4:05` or `1:02:03`.
 * @param {number | null | undefined} ms
 */
export function duration(ms) {
  if (ms == null) return "";
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.floor(ms / 1000);
  const parts = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
  return parts
    .slice(parts[0] ? 0 : 1)
    .map((part, index) => (index ? String(part).padStart(2, "0") : part))
    .join(":");
}

/** The time until `ts`, in whole seconds. @param {number} ts epoch ms */
export const timeLeft = (ts) => duration(1000 * Math.max(0, Math.ceil((ts - serverTime()) / 1000))).replace(".0", "");

/**
 * Text such as `1.5 MB`.
 * @param {number | null | undefined} size
 */
export function bytes(size) {
  if (size == null) return "";
  const power = Math.min(4, Math.floor(Math.log10(Math.max(1, size)) / 3));
  return `${(size / 1000 ** power).toFixed(power && size < 10 ** (3 * power + 1) ? 1 : 0)} ${["B", "kB", "MB", "GB", "TB"][power]}`;
}

/** Class of the badge by state of a session, block or approval. @type {Record<string, string>} */
const BADGES = {
  open: "good",
  completed: "good",
  approved: "good",
  running: "busy",
  interactive: "busy",
  block_running: "busy",
  opening: "busy",
  reconnecting: "warn",
  awaiting_approval: "warn",
  pending: "warn",
  failed: "bad",
  lost: "bad",
  denied: "bad",
  declined: "bad",
};

/** The state of a session, block or approval. @param {string} status */
export const statusBadge = (status) =>
  html`<span class="badge ${BADGES[status] ?? ""}">${status.replaceAll("_", " ")}</span>`;

/**
 * The result of a block: its status and exit code, that the device reported an error, or that the command was refused.
 * @param {Record<string, any>} block
 */
export function blockBadge({ status, exit_code: exitCode, error_hints: hints, refused }) {
  if (refused) return statusBadge(refused);
  if (!exitCode && !(hints && status === "completed")) return statusBadge(status);
  return html`<span class="badge bad">${exitCode ? `${status} (${exitCode})` : "device error"}</span>`;
}

/**
 * A button that copies text.
 * @param {string} label
 * @param {() => string | Promise<string>} text
 */
export function copyButton(label, text) {
  const copy = async () => {
    try {
      if (await copyText(await text())) toast("Copied.");
      else toast(NO_COPY, "bad");
    } catch (error) {
      toastError(error);
    }
  };
  return html`<button type="button" class="small" @click=${copy}>${label}</button>`;
}

/**
 * A link within the page.
 * @param {string} path
 * @param {unknown} content
 * @param {string} [className]
 */
export const link = (path, content, className = "") => html`<a data-link class=${className} href=${path}>${content}</a>`;

/** Address of a session, or of a place in it. @param {string} session @param {string} [rest] such as `/b/1_2` */
export const sessionPath = (session, rest = "") => `/s/${encodeURIComponent(session)}${rest}`;

/**
 * Shows a message for some seconds.
 * @param {string} message
 * @param {"" | "good" | "warn" | "bad"} [kind]
 */
export function toast(message, kind = "") {
  let list = document.querySelector(".toasts");
  if (!list) {
    list = document.createElement("div");
    list.className = "toasts";
    list.setAttribute("role", "status");
    document.body.append(list);
  }
  const item = document.createElement("div");
  item.className = `toast ${kind}`;
  item.textContent = sentence(message);
  list.append(item);
  setTimeout(() => item.remove(), TOAST_MS);
}

/**
 * Reports an error as a toast, with its next step.
 * @param {unknown} error
 */
export function toastError(error) {
  if (error instanceof ApiError && error.error_code === "UNAUTHENTICATED") return;
  const { message, hint } = /** @type {ApiError} */ (error);
  toast(visible(hint ? `${message} (${hint})` : message), "bad");
}

/**
 * Asks for a confirmation, and for a line of text if `input` names it. Resolves to the text (or `true`), or null if the
 * person cancels.
 * @param {{title: string, text?: unknown, action: string, input?: string, value?: string, required?: boolean, danger?: boolean}} options
 * @returns {Promise<string | true | null>}
 */
export function confirmDialog({ title: asked, text, action, input, value = "", required = false, danger = false }) {
  const title = sentence(asked);
  const dialog = document.createElement("dialog");
  document.body.append(dialog);
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      const field = dialog.querySelector("input");
      resolve(dialog.returnValue !== "ok" ? null : (field?.value ?? true));
      dialog.remove();
    });
    const field = html`<label class="field">${input}<input name="text" autocomplete="off" .value=${value} ?required=${required} autofocus></label>`;
    render(
      html`<form method="dialog" aria-label=${title}>
        <h2>${title}</h2>
        ${text ? html`<p>${typeof text === "string" ? sentence(text) : text}</p>` : nothing} ${input ? field : nothing}
        <div class="actions">
          <button type="submit" value="cancel" formnovalidate>Cancel</button>
          <button type="submit" value="ok" class=${danger ? "danger" : "primary"}>${action}</button>
        </div>
      </form>`,
      dialog,
    );
    dialog.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || !(event.target instanceof HTMLInputElement)) return;
      event.preventDefault(); // implicit submission would press the first button, Cancel
      if (event.target.form?.reportValidity()) dialog.close("ok");
    });
    dialog.showModal();
  });
}

/**
 * What a view shows when there is nothing, with the next step.
 * @param {string} title
 * @param {unknown} text
 * @param {unknown} [action]
 */
export const emptyState = (title, text, action = nothing) =>
  html`<div class="empty"><h2>${title}</h2><p>${text}</p>${action}</div>`;

/** What a view of a session that is not stored shows. @param {string} title */
export const goneState = (title) => emptyState(title, "The session was removed, or the address is wrong.", link("/", "All sessions", "button"));

/**
 * An error in place of content, with its next step.
 * @param {unknown} error
 */
export function errorBox(error) {
  const { message, hint, error_code: code } = /** @type {ApiError} */ (error);
  return html`<div class="error" role="alert">
    <p>${name(message)}</p>
    ${hint ? html`<p class="hint">Next step: ${hint}.</p>` : nothing} ${code ? html`<code>${code}</code>` : nothing}
  </div>`;
}
