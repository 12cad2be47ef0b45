// Search over the commands of all sessions and their output.

import { call, serverTime } from "../api.js";
import { html, nothing, render, repeat } from "../lit.js";
import { navigate, query } from "../router.js";
import { marked, sessionName } from "../text.js";
import { blockBadge, emptyState, errorBox, link, sessionPath, timeAgo } from "../ui.js";

/** @typedef {Record<string, any>} Hit a command, see docs/contracts.md */

const HOUR_MS = 3_600_000;
/** @type {[hours: string, label: string][]} */
const AGES = [["", "any time"], ["1", "last hour"], ["24", "last day"], ["168", "last week"]];

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
  let mounted = true;
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
    const hours = Number(fields.get("hours"));
    try {
      const reply = await call("search", {
        ...(text && { query: text, regex }),
        ...(fields.get("device") && { device: fields.get("device") }),
        ...(fields.get("session") && { session_id: fields.get("session") }),
        ...(fields.has("failed") && { failed: true }),
        ...(hours > 0 && { since_ts: serverTime() - hours * HOUR_MS }),
        ...(cursor && { from_cursor: cursor }),
      });
      hits = [...hits, ...reply.hits];
      cursor = reply.resume_cursor;
    } catch (failure) {
      error = failure;
    }
    loading = false;
    if (mounted) update();
  }

  function update() {
    render(html`<h1>Search</h1>${form()} ${error ? errorBox(error) : results()}`, root);
  }

  function form() {
    return html`<form role="search" class="toolbar" @submit=${submit}>
      <input class="grow" type="search" name="q" placeholder="Text of a command or its output, in any session" aria-label="Search for" .value=${text}>
      <label class="check"><input type="checkbox" name="regex" ?checked=${regex}>Regular expression</label>
      <label class="check"><input type="checkbox" name="failed" ?checked=${fields.has("failed")}>Only failed</label>
      <input name="device" placeholder="Device, such as core-*" aria-label="Device" .value=${fields.get("device") ?? ""}>
      <select name="hours" aria-label="Time">
        ${AGES.map(([hours, label]) => html`<option value=${hours} ?selected=${hours === (fields.get("hours") ?? "")}>${label}</option>`)}
      </select>
      <button type="submit" class="primary" ?disabled=${loading}>Search</button>
    </form>`;
  }

  /** @param {SubmitEvent} event */
  function submit(event) {
    event.preventDefault();
    const state = new URLSearchParams();
    for (const [name, value] of new FormData(/** @type {HTMLFormElement} */ (event.target))) if (value) state.set(name, String(value));
    if (fields.get("session")) state.set("session", String(fields.get("session")));
    navigate(`/search?${state}`);
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
    if (!hits.length && !cursor) return emptyState("Nothing found", "No command or output matches. Try another text, a longer time or fewer filters.");
    return html`<p class="hint" role="status">${hits.length}${cursor ? "+" : ""} ${hits.length === 1 ? "command" : "commands"}</p>
      ${repeat(hits, (hit) => `${hit.session_id}/${hit.block_id}`, hitView)} ${cursor ? more : nothing}`;
  }

  /** @param {Hit} hit */
  function hitView(hit) {
    return html`<section class="card hits">
      <header>
        ${link(sessionPath(hit.session_id, `/b/${hit.block_id}`), marked(hit.cmd, text, regex), "cmd")}
        ${blockBadge(hit)} ${link(sessionPath(hit.session_id), sessionName(hit))}
        <span class="meta">${hit.mode ?? ""} ${timeAgo(hit.ts_begin)}</span>
      </header>
      ${hit.lines.length ? html`<ol class="output">${hit.lines.map(lineView)}</ol>` : nothing}
      ${hit.more_lines ? html`<footer>${link(sessionPath(hit.session_id, `/b/${hit.block_id}`), "More lines match")}</footer>` : nothing}
    </section>`;
  }

  /** @param {{line: number, text: string}} found */
  function lineView(found) {
    return html`<li value=${found.line}>${marked(found.text, text, regex)}</li>`;
  }

  return () => {
    mounted = false;
  };
}
