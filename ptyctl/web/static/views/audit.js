// The audit log: who did what, filtered, and whether its chain of hashes is intact.

import { call } from "../api.js";
import { given, since, submitFilters, textField, timeField } from "../filters.js";
import { html, nothing, render, repeat } from "../lit.js";
import { query } from "../router.js";
import { sessionName } from "../session_entry.js";
import { name, visible } from "../text.js";
import { copyButton, emptyState, errorBox, link, sessionPath, toastError } from "../ui.js";

/** @typedef {Record<string, any>} Row */

const PAGE = 200;
const EVENTS = ["text", "denied", "open", "close", "lock", "take_over", "lock_ended", "approval", "connect", "refused", "policy"];
/** Fields with their own column, or of no interest to a reader. */
const COLUMNS = new Set(["ts", "event", "principal", "task", "session_id", "device", "prev"]);

/** @param {HTMLElement} root */
export function mount(root) {
  const fields = query();
  /** Newest first. @type {Row[]} */
  let rows = [];
  let truncated = false;
  /** Which rows of a fleet are missing. @type {string[]} */
  let notices = [];
  let loading = true;
  /** @type {unknown} */
  let error = null;
  /** @type {Row | null} */
  let verdict = null;

  void load();
  update();

  async function load() {
    loading = true;
    update();
    const oldest = rows.at(-1);
    try {
      const reply = await call("audit", {
        limit: PAGE,
        ...given(fields, "event"),
        ...given(fields, "device"),
        ...given(fields, "principal"),
        ...given(fields, "session", "session_id"),
        ...since(fields, "since"),
        ...(oldest && { until: oldest.ts }),
      });
      const known = new Set(rows.map((row) => row.prev)); // unique: each row has the hash of the one before it
      const added = reply.rows.filter((/** @type {Row} */ row) => !known.has(row.prev));
      rows = [...rows, ...added.reverse()];
      truncated = Boolean(reply.truncated) && added.length > 0;
      notices = reply.notices ?? [];
    } catch (failure) {
      error = failure;
    }
    loading = false;
    update();
  }

  async function verify() {
    try {
      verdict = await call("audit", { action: "verify" });
    } catch (failure) {
      toastError(failure);
    }
    update();
  }

  function update() {
    render(
      html`<div class="toolbar"><h1>Audit</h1><span class="grow"></span>
          <button type="button" @click=${() => void verify()}>Verify the log</button></div>
        ${notices.map(noticeView)} ${verdict ? verdictView(verdict) : nothing} ${form()} ${error ? errorBox(error) : content()}`,
      root,
    );
  }

  function form() {
    return html`<form class="toolbar" aria-label="Filters" @submit=${(/** @type {SubmitEvent} */ event) => submitFilters(event, "/audit")}>
      ${timeField(fields)}
      <input name="event" list="audit-events" placeholder="Event" aria-label="Event" .value=${fields.get("event") ?? ""}>
      <datalist id="audit-events">${EVENTS.map((event) => html`<option value=${event}></option>`)}</datalist>
      ${textField(fields, "principal", "Principal")} ${textField(fields, "device", "Device", "Device, such as core-*")}
      ${textField(fields, "session", "Session id")}
      <button type="submit" class="primary">Filter</button>
    </form>`;
  }

  function content() {
    if (!rows.length) {
      if (loading) return html`<p class="hint" role="status">Loading …</p>`;
      return emptyState("No rows", "Nothing matches these filters. Clear them, or choose a longer time.", link("/audit", "Clear the filters", "button"));
    }
    return html`<div class="scroll"><table class="list audit">
        <thead><tr><th>Time</th><th>Event</th><th>Principal</th><th>Session</th><th>Details</th></tr></thead>
        <tbody>${repeat(rows, (row) => row.prev, rowView)}</tbody>
      </table></div>
      ${truncated ? html`<div><button type="button" ?disabled=${loading} @click=${() => void load()}>Older rows</button></div>` : nothing}`;
  }
}

/** @param {Row} row */
function rowView(row) {
  const date = new Date(row.ts);
  const details = Object.entries(row).filter(([name]) => !COLUMNS.has(name) && name !== "text");
  return html`<tr>
    <td><time datetime=${date.toISOString()}>${date.toLocaleString()}</time></td>
    <td><span class="badge">${row.event.replaceAll("_", " ")}</span></td>
    <td>${name(row.principal)} ${row.task ? html`<small>${name(row.task)}</small>` : nothing}</td>
    <td>${row.session_id ? link(sessionPath(row.session_id), name(sessionName(row))) : name(row.device ?? "")}</td>
    <td class="details">
      ${row.text === undefined ? nothing : html`<code class="typed">${visible(row.text)}</code>`}
      ${details.map(([name, value]) => html`<span><small>${name}</small> ${detail(row, name, value)}</span> `)}
    </td>
  </tr>`;
}

/** The value of a field; a block is a link to its page. @param {Row} row @param {string} name @param {unknown} value */
function detail(row, name, value) {
  const text = visible(typeof value === "string" ? value : JSON.stringify(value));
  return name === "block_id" && row.session_id ? link(sessionPath(row.session_id, `/b/${value}`), text) : text;
}

/** @param {string} text */
function noticeView(text) {
  return html`<p class="hint" role="status">${visible(text)}</p>`;
}

/** @param {Row} verdict */
function verdictView({ verified, head, first_bad: bad, notices = [] }) {
  if (bad) {
    return html`<div class="error" role="alert"><p>The log was changed: ${bad.why}, in line ${bad.line} of <code>${bad.file}</code>.</p>
      <p class="hint">Next step: compare it with a copy, and look for the hash that you stored.</p></div>`;
  }
  return html`<div class="panel" role="status">All ${verified} rows fit. Hash of the last row: <code>${head}</code> ${copyButton("Copy", () => head ?? "")}
    <small>Store it elsewhere, and look for it later.</small></div>
    ${notices.map(noticeView)}`;
}
