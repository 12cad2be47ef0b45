// Search over the commands of all sessions and their output.

import { call } from "../api.js";
import { given, since, submitFilters, textField, timeField } from "../filters.js";
import { html, nothing, render, repeat } from "../lit.js";
import { query } from "../router.js";
import { sessionName } from "../session_entry.js";
import { marked, name, visible } from "../text.js";
import { blockBadge, emptyState, errorBox, link, sessionPath, timeAgo } from "../ui.js";

/** @typedef {Record<string, any>} Hit a command, see docs/contracts.md */

/** @param {HTMLElement} root */
export function mount(root) {
  const fields = query();
  const text = fields.get("q") ?? "";
  const regex = fields.has("regex");
  /** @type {Hit[]} */
  let hits = [];
  /** @type {string | undefined} */
  let cursor;
  let loading = false;
  /** @type {unknown} */
  let error = null;

  if (fields.size) {
    void load();
  } else {
    update();
    root.querySelector("input")?.focus();
  }

  async function load() {
    loading = true;
    error = null;
    update();
    try {
      const reply = await call("search", {
        ...(text && { query: text, regex }),
        ...given(fields, "device"),
        ...given(fields, "session", "session_id"),
        ...(fields.has("failed") && { failed: true }),
        ...since(fields, "since_ts"),
        ...(cursor && { from_cursor: cursor }),
      });
      hits = [...hits, ...reply.hits];
      cursor = reply.resume_cursor;
    } catch (failure) {
      error = failure;
    }
    loading = false;
    update();
  }

  function update() {
    render(html`<h1>Search</h1>${form()} ${error ? errorBox(error) : results()}`, root);
  }

  function form() {
    return html`<form role="search" class="toolbar" @submit=${(/** @type {SubmitEvent} */ event) => submitFilters(event, "/search")}>
      <input class="grow" type="search" name="q" placeholder="Text of a command or its output, in any session" aria-label="Search for" .value=${text}>
      <label class="check"><input type="checkbox" name="regex" ?checked=${regex}>Regular expression</label>
      <label class="check"><input type="checkbox" name="failed" ?checked=${fields.has("failed")}>Only failed</label>
      ${textField(fields, "device", "Device", "Device, such as core-*")} ${textField(fields, "session", "Session id")} ${timeField(fields)}
      <button type="submit" class="primary" ?disabled=${loading}>Search</button>
    </form>`;
  }

  function results() {
    if (!fields.size) {
      return emptyState(
        "Find what any session ran or printed",
        html`Search for text, or for all that failed. Each result opens its command. Regular expressions are RE2.`,
        link("/search?failed=on&hours=24", "What failed in the last day", "button"),
      );
    }
    const more = html`<div><button type="button" ?disabled=${loading} @click=${() => void load()}>More results</button></div>`;
    if (!hits.length && loading) return html`<p class="hint" role="status">Searching …</p>`;
    if (!hits.length && !cursor) return nothingFound(fields);
    return html`<p class="hint" role="status">${hits.length}${cursor ? "+" : ""} ${hits.length === 1 ? "command" : "commands"}</p>
      ${repeat(hits, (hit) => `${hit.session_id}/${hit.block_id}`, hitView)} ${cursor ? more : nothing}`;
  }

  /** @param {Hit} hit */
  function hitView(hit) {
    return html`<section class="card hits">
      <header>
        ${link(sessionPath(hit.session_id, `/b/${hit.block_id}`), marked(hit.cmd, text, regex), "cmd")}
        ${blockBadge(hit)} ${link(sessionPath(hit.session_id), name(sessionName(hit)))}
        <span class="meta">${hit.mode ?? ""} ${timeAgo(hit.ts_begin)}</span>
        ${hit.error_hints ? html`<span class="meta">${visible(hit.error_hints[0] ?? "")}</span>` : nothing}
      </header>
      ${hit.lines.length ? html`<ol class="output">${hit.lines.map(lineView)}</ol>` : nothing}
      ${hit.more_lines ? html`<footer>${link(sessionPath(hit.session_id, `/b/${hit.block_id}`), "More lines match")}</footer>` : nothing}
    </section>`;
  }

  /** @param {{line: number, text: string}} found */
  function lineView(found) {
    return html`<li value=${found.line}>${marked(found.text, text, regex)}</li>`;
  }
}

/** @param {URLSearchParams} fields */
function nothingFound(fields) {
  const session = fields.get("session");
  const back = session ? link(sessionPath(session), "Back to the session", "button") : nothing;
  if (session && fields.has("failed") && !fields.get("q")) return emptyState("Nothing failed", "No command of this session has failed so far.", back);
  return emptyState("Nothing found", "No command or output matches. Try another text, a longer time or fewer filters.", back);
}
