// The audit log: who did what, filtered, and whether its chain of hashes is intact.

import { call, serverTime } from "../api.js";
import { html, nothing, render, repeat } from "../lit.js";
import { navigate, query } from "../router.js";
import { sessionName, visible } from "../text.js";
import { copyButton, emptyState, errorBox, link, sessionPath, toastError } from "../ui.js";

/** @typedef {Record<string, any>} Row */

const PAGE = 200;
const HOUR_MS = 3_600_000;
/** @type {[hours: string, label: string][]} */
const AGES = [["", "all time"], ["1", "last hour"], ["12", "last 12 hours"], ["24", "last day"], ["168", "last week"]];
const EVENTS = ["text", "open", "close", "lock", "take_over", "lock_ended", "approval", "connect", "refused", "policy"];
/** Fields with their own column, or of no interest to a reader. */
const COLUMNS = new Set(["ts", "event", "principal", "task", "session_id", "device", "prev"]);

/** @param {HTMLElement} root */
export function mount(root) {
  const fields = query();
  /** Newest first. @type {Row[]} */
  let rows = [];
  let truncated = false;
  let loading = true;
  let mounted = true;
  /** @type {unknown} */
  let error = null;
  /** @type {Row | null} */
  let verdict = null;

  void load();
  update();

  async function load() {
    loading = true;
    update();
    const hours = Number(fields.get("hours"));
    const oldest = rows.at(-1);
    try {
      const reply = await call("audit", {
        limit: PAGE,
        ...given("event"),
        ...given("device"),
        ...given("principal"),
        ...given("session", "session_id"),
        ...(hours > 0 && { since: serverTime() - hours * HOUR_MS }),
        ...(oldest && { until: oldest.ts }),
      });
      const known = new Set(rows.map((row) => row.prev)); // unique: each row has the hash of the one before it
      const added = reply.rows.filter((/** @type {Row} */ row) => !known.has(row.prev));
      rows = [...rows, ...added.reverse()];
      truncated = Boolean(reply.truncated) && added.length > 0;
    } catch (failure) {
      error = failure;
    }
    loading = false;
    if (mounted) update();
  }

  /**
   * @param {string} name of the field in the address
   * @param {string} [field] of the request
   */
  function given(name, field = name) {
    return fields.get(name) ? { [field]: fields.get(name) } : {};
  }

  async function verify() {
    try {
      verdict = await call("audit", { action: "verify" });
    } catch (failure) {
      toastError(failure);
    }
    if (mounted) update();
  }

  function update() {
    render(
      html`<div class="toolbar"><h1>Audit</h1><span class="grow"></span>
          <button type="button" @click=${() => void verify()}>Verify the log</button></div>
        ${verdict ? verdictView(verdict) : nothing} ${form()} ${error ? errorBox(error) : content()}`,
      root,
    );
  }

  function form() {
    return html`<form class="toolbar" aria-label="Filters" @submit=${submit}>
      <select name="hours" aria-label="Time">
        ${AGES.map(([hours, label]) => html`<option value=${hours} ?selected=${hours === (fields.get("hours") ?? "")}>${label}</option>`)}
      </select>
      <input name="event" list="audit-events" placeholder="Event" aria-label="Event" .value=${fields.get("event") ?? ""}>
      <datalist id="audit-events">${EVENTS.map((event) => html`<option value=${event}></option>`)}</datalist>
      <input name="principal" placeholder="Principal" aria-label="Principal" .value=${fields.get("principal") ?? ""}>
      <input name="device" placeholder="Device, such as core-*" aria-label="Device" .value=${fields.get("device") ?? ""}>
      <input name="session" class="grow" placeholder="Session id" aria-label="Session id" .value=${fields.get("session") ?? ""}>
      <button type="submit" class="primary">Filter</button>
    </form>`;
  }

  /** @param {SubmitEvent} event */
  function submit(event) {
    event.preventDefault();
    const entered = new FormData(/** @type {HTMLFormElement} */ (event.target));
    const state = new URLSearchParams([...entered].filter(([, value]) => value).map(([name, value]) => [name, String(value)]));
    navigate(`/audit${state.size ? `?${state}` : ""}`);
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

  return () => {
    mounted = false;
  };
}

/** @param {Row} row */
function rowView(row) {
  const date = new Date(row.ts);
  const details = Object.entries(row).filter(([name]) => !COLUMNS.has(name) && name !== "text");
  return html`<tr>
    <td><time datetime=${date.toISOString()}>${date.toLocaleString()}</time></td>
    <td><span class="badge">${row.event.replaceAll("_", " ")}</span></td>
    <td>${row.principal ?? ""} ${row.task ? html`<small>${row.task}</small>` : nothing}</td>
    <td>${row.session_id ? link(sessionPath(row.session_id), sessionName(row)) : (row.device ?? "")}</td>
    <td class="details">
      ${row.text === undefined ? nothing : html`<code class="typed">${visible(row.text)}</code>`}
      ${details.map(([name, value]) => html`<span><small>${name}</small> ${visible(typeof value === "string" ? value : JSON.stringify(value))}</span> `)}
    </td>
  </tr>`;
}

/** @param {Row} verdict */
function verdictView({ verified, head, first_bad: bad }) {
  if (bad) {
    return html`<div class="error" role="alert"><p>The log was changed: ${bad.why}, in line ${bad.line} of <code>${bad.file}</code>.</p>
      <p class="hint">Next step: compare it with a copy, and look for the hash that you stored.</p></div>`;
  }
  return html`<div class="panel" role="status">All ${verified} rows fit. Hash of the last row: <code>${head}</code> ${copyButton("Copy", () => head ?? "")}
    <small>Store it elsewhere, and look for it later.</small></div>`;
}
