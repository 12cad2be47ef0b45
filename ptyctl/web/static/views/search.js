// Search over the commands and outputs of all sessions.

import { call } from "../api.js";
import { html, nothing, render, repeat } from "../lit.js";
import { navigate, query } from "../router.js";
import { marked, sessionName, visible } from "../text.js";
import { emptyState, errorBox, link, sessionPath, statusBadge, timeAgo } from "../ui.js";

/** @typedef {Record<string, any>} Hit */

const PAGE = 100;
const HOUR_MS = 3_600_000;
/** @type {[hours: string, label: string][]} */
const AGES = [["", "any time"], ["1", "last hour"], ["24", "last day"], ["168", "last week"]];
const STATUSES = ["", "completed", "failed", "cancelled", "running"];

/** @param {HTMLElement} root */
export function mount(root) {
  const fields = query();
  const text = fields.get("q") ?? "";
  const regex = fields.has("regex");
  /** @type {Hit[]} */
  let hits = [];
  /** @type {string | null} */
  let cursor = null;
  let loading = false;
  let mounted = true;
  /** @type {unknown} */
  let error = null;

  if (text) void load();
  else update();
  if (!text) root.querySelector("input")?.focus();

  async function load() {
    loading = true;
    error = null;
    update();
    const hours = Number(fields.get("hours"));
    try {
      const reply = await call("search", {
        query: text,
        limit: PAGE,
        ...(regex && { regex }),
        ...given("device"),
        ...given("cmd"),
        ...given("status"),
        ...given("session", "session_id"),
        ...(hours > 0 && { since_ts: Date.now() - hours * HOUR_MS }),
        ...(cursor && { from_cursor: cursor }),
      });
      hits = [...hits, ...reply.hits];
      cursor = reply.truncated ? (reply.resume_cursor ?? null) : null;
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

  function update() {
    render(html`<h1>Search</h1>${form()} ${error ? errorBox(error) : results()}`, root);
  }

  function form() {
    return html`<form role="search" class="toolbar" @submit=${submit}>
      <input class="grow" type="search" name="q" required placeholder="Text in the output of any session" aria-label="Search for" .value=${text}>
      <label class="check"><input type="checkbox" name="regex" ?checked=${regex}>Regular expression</label>
      <input name="device" placeholder="Device, such as core-*" aria-label="Device" .value=${fields.get("device") ?? ""}>
      <input name="cmd" placeholder="Command contains" aria-label="Command contains" .value=${fields.get("cmd") ?? ""}>
      <select name="status" aria-label="Result">
        ${STATUSES.map((status) => html`<option value=${status} ?selected=${status === (fields.get("status") ?? "")}>${status || "any result"}</option>`)}
      </select>
      <select name="hours" aria-label="Time">
        ${AGES.map(([hours, label]) => html`<option value=${hours} ?selected=${hours === (fields.get("hours") ?? "")}>${label}</option>`)}
      </select>
      <button type="submit" class="primary" ?disabled=${loading}>Search</button>
    </form>`;
  }

  /** @param {SubmitEvent} event */
  function submit(event) {
    event.preventDefault();
    const entered = new FormData(/** @type {HTMLFormElement} */ (event.target));
    const state = new URLSearchParams([...entered].filter(([, value]) => value).map(([name, value]) => [name, String(value)]));
    if (fields.get("session")) state.set("session", String(fields.get("session")));
    navigate(`/search?${state}`);
  }

  function results() {
    if (!text) return emptyState("Find what any session printed", "Each hit opens its command. Searches are regular expressions (RE2) if you choose so.");
    if (!hits.length) {
      if (loading) return html`<p class="hint" role="status">Searching …</p>`;
      return emptyState("Nothing found", html`No output contains <code>${text}</code> with these filters. Try a longer time or fewer filters.`);
    }
    const groups = Map.groupBy(hits, (hit) => `${hit.session_id}/${hit.block_id}`);
    return html`<p class="hint" role="status">${hits.length}${cursor ? "+" : ""} lines in ${groups.size} commands</p>
      ${repeat(groups, ([id]) => id, ([, found]) => group(found))}
      ${cursor ? html`<div><button type="button" ?disabled=${loading} @click=${() => void load()}>More results</button></div>` : nothing}`;
  }

  /** @param {Hit[]} found hits of one block */
  function group(found) {
    const [{ session_id: session, block_id: block, device, cmd, status, exit_code: code, ts_begin: begin }] = /** @type {[Hit]} */ (found);
    const path = sessionPath(session, `/b/${block}`);
    return html`<section class="card hits">
      <header>
        ${link(path, visible(cmd ?? block), "cmd")}
        ${status ? statusBadge(status, code) : nothing} ${link(sessionPath(session), sessionName({ device, session_id: session }))} <span class="meta">${timeAgo(begin)}</span>
      </header>
      <ol class="output">${found.map((hit) => html`<li value=${hit.line}>${marked(hit.text, text, regex)}</li>`)}</ol>
    </section>`;
  }

  return () => {
    mounted = false;
  };
}
