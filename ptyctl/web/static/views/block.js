// A block: one command, its facts, and its whole output as text or as the terminal showed it.

import { ApiError, call, get, recording, serverTime } from "../api.js";
import { isRunning, outputButtons, readOutput } from "../cards.js";
import { html, nothing, render } from "../lit.js";
import { query, replaceAddress } from "../router.js";
import { followSession } from "../session_entry.js";
import { createTerminal } from "../terminal.js";
import { visible } from "../text.js";
import { blockBadge, bytes, copyButton, duration, errorBox, fromBase64, goneState, link, sessionPath, timeAgo } from "../ui.js";

/** @typedef {Record<string, any>} Message */

const REFRESH_MS = 1_000;
/** Text that is shown at once; more on request. */
const TEXT_BYTES = 1_000_000;

/** @param {HTMLElement} root @param {Record<string, string>} params */
export function mount(root, params) {
  const session = params.session ?? "";
  /** @type {Message | null} */
  let block = null;
  /** @type {Message | null} */
  let approval = null;
  let output = { text: "", complete: false };
  let name = session;
  /** @type {unknown} */
  let error = null;
  let asTerminal = query().get("view") === "terminal";
  /** @type {import("../terminal.js").Terminal | null} */
  let terminal = null;
  let closed = false;
  const request = { session_id: session, block_id: params.block };

  async function load() {
    try {
      block = (await call("blocks_get", request)).block;
      output = await readOutput(session, /** @type {Message} */ (block), TEXT_BYTES);
      error = null;
      update();
      if (block && isRunning(block) && !closed) setTimeout(load, REFRESH_MS);
    } catch (failed) {
      error = failed;
      update();
    }
  }

  async function loadApproval() {
    const { approvals } = await call("approvals", { action: "list", session_id: session }).catch(() => ({ approvals: [] }));
    approval = approvals?.find((/** @type {Message} */ one) => one.block_id === params.block) ?? null;
    update();
  }

  async function readAll() {
    try {
      output = await readOutput(session, /** @type {Message} */ (block));
    } catch (failed) {
      error = failed;
    }
    update();
  }

  /** Paints the screen at the start of the block, then its output. */
  async function showTerminal() {
    const box = root.querySelector(".term-box");
    if (!(box instanceof HTMLElement) || !block || terminal) return;
    const shown = (terminal = createTerminal(box, { readOnly: true }));
    try {
      const screen = await get(`/api/session/${encodeURIComponent(session)}/screen?at=${block.raw_begin}`);
      if (terminal !== shown) return;
      shown.paint(screen);
      for await (const event of recording(session, block.raw_begin, block.raw_end ?? Infinity)) {
        if (terminal !== shown) return;
        if (event.data_b64) shown.write(fromBase64(event.data_b64));
      }
    } catch (failed) {
      error = failed;
      update();
    }
  }

  /** @param {boolean} on */
  function setTerminal(on) {
    asTerminal = on;
    terminal?.dispose();
    terminal = null;
    replaceAddress(sessionPath(session, `/b/${params.block}${on ? "?view=terminal" : ""}`));
    update();
  }

  /** @param {Message} shown */
  function facts(shown) {
    const decided = approval && [approval.state, approval.decided_by && `by ${approval.decided_by}`, approval.comment].filter(Boolean).join(" ");
    /** @type {[string, unknown][]} */
    const rows = [
      ["Status", blockBadge(shown)],
      ["Device error", shown.error_hints?.[0]],
      ["Exit code", shown.exit_code ?? "not known"],
      ["Begin", timeAgo(shown.ts_begin)],
      ["Duration", duration((shown.ts_end ?? serverTime()) - shown.ts_begin)],
      ["Run by", shown.task_id ?? (shown.origin === "typed" ? "typed in the terminal" : "")],
      ["Mode", shown.mode],
      ["Directory", shown.cwd],
      ["Reason", shown.reason],
      ["Approval", decided],
      ["Output", shown.raw_end != null && bytes(shown.raw_end - shown.raw_begin)],
    ];
    return html`<dl class="facts">${rows.filter(([, value]) => value != null && value !== "" && value !== false).map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>`;
  }

  /** @param {Message} shown */
  function page(shown) {
    return html`<div class="toolbar">
        ${link(sessionPath(session), `← ${visible(name)}`)}
      </div>
      <section class="panel"><h1><pre>${shown.cmd}</pre></h1>${facts(shown)}</section>
      <div class="toolbar">
        <span class="group" role="group" aria-label="Output">
          <button type="button" class="small" aria-pressed=${!asTerminal} @click=${() => setTerminal(false)}>Text</button>
          <button type="button" class="small" aria-pressed=${asTerminal} @click=${() => setTerminal(true)}>Terminal</button>
        </span>
        ${outputButtons(session, shown)}
        ${link(sessionPath(session, `/at/${shown.raw_begin}`), "Screen at its start", "button small")}
        ${shown.raw_end == null ? nothing : link(sessionPath(session, `/at/${shown.raw_end}`), "Screen at its end", "button small")}
        ${copyButton("Copy link", () => location.href)}
      </div>
      ${error ? errorBox(error) : nothing}
      ${asTerminal
        ? html`<div class="term-box"></div>`
        : output.text
          ? html`<pre class="output" tabindex="0" aria-label="Output">${output.text}</pre>`
          : html`<p class="hint">${isRunning(shown) ? "There is no output yet." : shown.refused ? "The command was not typed." : "The command printed nothing."}</p>`}
      ${asTerminal || output.complete || isRunning(shown) ? nothing : html`<button type="button" @click=${readAll}>Show all output</button>`}`;
  }

  function update() {
    if (closed) return;
    const gone = error instanceof ApiError && error.error_code === "NOT_FOUND";
    render(block ? page(block) : html`<h1>Command</h1>${gone ? goneState("This block is not here") : error ? errorBox(error) : nothing}`, root);
    if (block && asTerminal) void showTerminal();
  }

  void load();
  void loadApproval();
  const entries = followSession(session, (shown) => {
    name = shown;
    update();
  });
  return () => {
    closed = true;
    entries.close();
    terminal?.dispose();
    terminal = null;
  };
}
