// The inbox: each request with the live screen of its session, and the text marked where it would be typed.

import { ApiError, call, principal, serverTime } from "../api.js";
import { toCells } from "../cells.js";
import { askToNotify, canAskToNotify, notifyPerson, observeVisibility } from "../features.js";
import { html, keyed, nothing, ref, render, repeat } from "../lit.js";
import { query, replaceAddress } from "../router.js";
import { screenView } from "../screen_view.js";
import { sessionName } from "../session_entry.js";
import { act, stream } from "../stream.js";
import { isolated, name, visible, withMarks } from "../text.js";
import { confirmDialog, emptyState, errorBox, hasLetterKeys, letterKeysBox, link, sessionPath, statusBadge, timeAgo, timeLeft, toast, toastError } from "../ui.js";

/** @typedef {Record<string, any>} Approval an entry, see docs/contracts.md */

const SAME_S = 600;
const KEYS_S = 60;
/** How long a request must have been visible before it is answered: a key or click that was meant for something else comes sooner. */
const READ_MS = 1_000;

/** Whether the state cannot change again: the text was typed, or will not be. @param {Approval | undefined} entry */
const isOver = (entry) => entry !== undefined && entry.state !== "pending" && (entry.state !== "approved" || entry.used);

/** @param {HTMLElement} root */
export function mount(root) {
  /** @type {Map<string, Approval>} */
  const all = new Map();
  const session = query().get("session");
  let selected = query().get("id") ?? "";
  let loaded = false;
  /** @type {unknown} */
  let error = null;
  /** The changed text, while it is edited. @type {string | null} */
  let edited = null;
  let comment = "";
  let same = false;
  let keys = false;
  /** Requests whose answer is on its way. @type {Set<string>} */
  const answering = new Set();
  let closed = false;
  /** @type {import("../stream.js").Subscription | null} */
  let screenSubscription = null;
  /** @type {Record<string, any> | null} */
  let screen = null;
  /** @type {Record<string, any>[]} */
  let rules = [];
  let policyProblem = "";
  /** Since when the selected request is visible, or null. @type {number | null} */
  let visibleSince = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let readTimer;
  /** Whether the end of its text was visible. */
  let endSeen = false;
  /** Spans of its text that match the rules. @type {[number, number][]} */
  let marks = [];
  /** Requests that this page approved, and whose text was not typed yet. @type {Set<string>} */
  const approved = new Set();
  const textEnds = observeVisibility((isVisible, element) => {
    if (!isVisible || /** @type {HTMLElement} */ (element).dataset.id !== selected) return;
    endSeen = true;
    update();
  }, { threshold: 1 });

  const subscription = stream.subscribe("approvals", {
    onMessage(message) {
      const entries = (message.approvals ?? []).filter((/** @type {Approval} */ entry) => !session || entry.session_id === session);
      const isFirst = !loaded;
      if (loaded) for (const entry of entries) if (entry.state === "pending" && !all.has(entry.approval_id)) notify(entry);
      if (message.full) for (const entry of pending()) if (entry.approval_id !== selected) all.delete(entry.approval_id);
      for (const entry of entries) all.set(entry.approval_id, entry);
      loaded = true;
      error = null;
      for (const entry of entries) reportEnd(entry);
      // Nothing that arrives later is selected by itself, and a selected request stays selected when it ends: no key answers another one.
      if (!selected && isFirst) select(pending()[0]?.approval_id ?? "");
      else if (message.full && all.has(selected) && !entries.includes(all.get(selected))) void fetchSelected(selected);
      update();
    },
    onError(failure) {
      error = failure;
      update();
    },
  });
  const timer = setInterval(update, 1_000);
  document.addEventListener("keydown", onKey);
  document.addEventListener("visibilitychange", startReading);
  if (selected) void fetchSelected(selected);
  void checkPolicy();
  update();

  /** Shows why the policy could not be loaded, if so. */
  async function checkPolicy() {
    try {
      policyProblem = (await call("policy", { action: "show" })).problem ?? "";
    } catch (failure) {
      toastError(failure);
    }
    update();
  }

  /** An ended request is not in the stream: a link to it must still show it. @param {string} id */
  async function fetchSelected(id) {
    const known = all.get(id);
    try {
      const { approval } = await call("approvals", { action: "get", approval_id: id });
      if (all.get(id) === known) all.set(id, approval);
      if (closed || selected !== id) return;
      if (known && approval.state === "pending") update();
      else select(id);
    } catch (failure) {
      if (failure instanceof ApiError && failure.error_code === "NOT_FOUND") all.delete(id);
      if (!closed) toastError(failure);
      update();
    }
  }

  function pending() {
    return [...all.values()].filter(({ state }) => state === "pending").sort((a, b) => a.created_at - b.created_at);
  }

  function ended() {
    return [...all.values()].filter(({ state }) => state !== "pending").sort((a, b) => b.created_at - a.created_at);
  }

  /** Begins the time for which the selected request must be visible. */
  function startReading() {
    clearTimeout(readTimer);
    visibleSince = all.has(selected) && !document.hidden ? performance.now() : null;
    if (visibleSince !== null) readTimer = setTimeout(update, READ_MS);
  }

  /** How long the selected request must still be visible before it can be answered (ms). */
  const readingLeft = () => (visibleSince === null ? READ_MS : Math.max(0, visibleSince + READ_MS - performance.now()));

  /** Why the selected request cannot be approved yet; "" if it can. */
  function unread() {
    if (readingLeft()) return "The request was visible for less than a second.";
    return endSeen ? "" : "Scroll to the end of the text to approve it.";
  }

  /** Reports what became of an approval of this page. @param {Approval} entry */
  function reportEnd(entry) {
    if (isOver(entry) && approved.delete(entry.approval_id)) report(entry);
  }

  /** Reports the state of a request that was answered. @param {Approval} entry */
  function report(entry) {
    const { state, used, comment } = entry;
    if (state === "approved" && used) toast("Approved, and typed.", "good");
    else if (state === "approved") toast("Approved. The text is not typed yet: that is the next step of the requester.", "good");
    else toast(`The request is ${state}, and nothing was typed${comment ? `: ${isolated(comment)}` : "."}`, state === "declined" ? "good" : "bad");
  }

  /** @param {string} id */
  function select(id) {
    if (id !== selected) {
      endSeen = false;
      marks = [];
      visibleSince = null;
    }
    selected = id;
    if (visibleSince === null) startReading();
    edited = null;
    comment = "";
    same = keys = false;
    screenSubscription?.close();
    screenSubscription = screen = null;
    rules = [];
    const entry = all.get(id);
    const state = new URLSearchParams({ ...(session && { session }), ...(id && { id }) });
    replaceAddress(`/approvals${state.size ? `?${state}` : ""}`);
    if (entry?.state === "pending") follow(entry);
    update();
  }

  /** @param {Approval} entry */
  function follow(entry) {
    screenSubscription = stream.subscribe(`screen:${entry.session_id}`, {
      onMessage(message) {
        if (message.op !== "screen") return;
        screen = message;
        update();
        showMark();
      },
    });
    void readMarks(entry);
    const { text, session_id, principal: requester } = entry;
    call("policy", { action: "check", text, session_id, principal: requester }).then(
      ({ rule_details: details }) => {
        if (selected === entry.approval_id) rules = details ?? [];
        update();
      },
      () => {}, // the ids of the rules are shown anyway
    );
  }

  /** Reads which words of the text match the rules. @param {Approval} entry */
  async function readMarks({ approval_id: id }) {
    const reply = await call("approvals", { action: "get", approval_id: id }).catch(() => null); // the text alone is shown then
    if (selected === id) marks = reply?.approval.marks ?? [];
    update();
  }

  function update() {
    if (closed) return;
    const list = pending();
    if (error || !loaded) return render(html`<h1>Approvals</h1>${error ? errorBox(error) : html`<p class="hint">Loading …</p>`}`, root);
    const entry = all.get(selected);
    return render(
      html`<div class="toolbar">
          <h1>Approvals <small>${list.length} waiting</small></h1>
          ${session ? link("/approvals", "of all sessions", "button small") : nothing}<span class="grow"></span>${letterKeysBox(update)}${notifyButton()}
        </div>
        ${policyProblem ? errorBox({ message: `The policy could not be loaded: ${policyProblem}`, hint: "correct the file; it is loaded again then" }) : nothing}
        ${all.size ? html`<div class="inbox">${listView(list)}${entry ? keyed(selected, detail(entry)) : html`<p class="hint">Select a request to read it.</p>`}</div>` : nothingWaits()}`,
      root,
    );
  }

  /** Scrolls the screen to the marked text. */
  function showMark() {
    const box = root.querySelector(".screen");
    const mark = root.querySelector(".screen .typed")?.closest(".row");
    if (box && mark) box.scrollTop += Math.max(0, mark.getBoundingClientRect().bottom + 8 - box.getBoundingClientRect().bottom);
  }

  /** @param {Approval[]} list */
  function listView(list) {
    return html`<nav class="requests" aria-label="Requests">
      ${list.length ? nothing : html`<p class="hint">No request waits.</p>`} ${repeat(list, (entry) => entry.approval_id, item)}
      ${ended().length ? html`<h2>Answered</h2>` : nothing} ${repeat(ended(), (entry) => entry.approval_id, item)}
    </nav>`;
  }

  /** @param {Approval} entry */
  function item(entry) {
    const left = entry.state === "pending" ? html`<small>${timeLeft(entry.expires_at)}</small>` : statusBadge(entry.state);
    return html`<button type="button" aria-current=${entry.approval_id === selected ? "true" : "false"} @click=${() => select(entry.approval_id)}>
      <code>${visible(entry.text)}</code><span><b>${name(sessionName(entry))}</b> ${name(entry.principal)}</span>${left}
    </button>`;
  }

  /** @param {Approval} entry */
  function detail(entry) {
    return html`<article class="panel request" aria-label="Request">
      <header>
        ${statusBadge(entry.state)}
        <p>
          <b>${name(entry.principal)}</b>${entry.task_id ? html`, task ${name(entry.task_id)},` : ""} asks on
          ${link(sessionPath(entry.session_id), name(sessionName(entry)))}${entry.mode ? html`, mode <code>${name(entry.mode)}</code>` : nothing}
          ${timeAgo(entry.created_at)}
        </p>
      </header>
      <pre class="asked" tabindex="0" aria-label="Requested text">${withMarks(entry.text, marks)}<span class="text-end" data-id=${entry.approval_id}
        ${ref((element) => element && textEnds.observe(element))}></span></pre>
      ${entry.approved_text ? html`<p>Approved instead:</p><pre class="asked">${visible(entry.approved_text)}</pre>` : nothing}
      <p>Why: ${name(entry.reason)}</p>
      <ul class="rules" aria-label="Rules that match">${entry.rules.map(ruleView)}</ul>
      ${entry.state === "pending" ? html`${liveScreen(entry)}${answerForm(entry)}` : outcome(entry)}
    </article>`;
  }

  /** @param {string} id */
  function ruleView(id) {
    const rule = rules.find((found) => found.id === id);
    const place = rule ? `${rule.decision}: ${rule.reason ?? ""} (${rule.source}${rule.line ? `:${rule.line}` : ""})` : "";
    return html`<li><code>${name(id)}</code> <small>${name(place)}</small></li>`;
  }

  /** @param {Approval} entry */
  function liveScreen(entry) {
    if (!screen) return html`<p class="hint">The screen of the session is not available yet.</p>`;
    const text = visible(edited ?? entry.text);
    return html`<figure><figcaption class="hint">The screen now, with the text where it would be typed</figcaption>
      ${screenView(withText(screen, text), "The screen now, with the requested text at the cursor")}</figure>`;
  }

  /** @param {Approval} entry */
  function answerForm(entry) {
    const user = principal();
    if (user?.kind !== "person" || !["approver", "admin"].includes(user.role)) {
      return html`<p class="notice">You can see this request, but not answer it: that needs a person with the role approver.</p>`;
    }
    const textField = html`<label class="field">Text to approve
      <textarea rows=${Math.min(12, (edited ?? "").split("\n").length)} .value=${edited ?? ""}
        @input=${(/** @type {any} */ event) => ((edited = event.target.value), update())}></textarea></label>`;
    const isOwn = user.name === entry.principal;
    return html`${isOwn ? html`<p class="notice">You asked for this: another person must approve it, unless the setting approvals.allow_self is true.</p>` : nothing}<form class="answer" @submit=${(/** @type {Event} */ event) => event.preventDefault()}>
      ${edited === null ? nothing : textField}
      <label class="field">Comment <input autocomplete="off" maxlength="2000" placeholder="optional; the requester gets it" .value=${comment}
        @input=${(/** @type {any} */ event) => (comment = event.target.value)}></label>
      <div class="toolbar">
        <label class="check"><input type="checkbox" .checked=${same} ?disabled=${edited !== null}
          @change=${(/** @type {any} */ event) => (same = event.target.checked)}>Also the same command, for 10 minutes</label>
        <label class="check"><input type="checkbox" .checked=${keys}
          @change=${(/** @type {any} */ event) => (keys = event.target.checked)}>Also keys for its program, for 60 s</label>
      </div>
      <div class="actions">
        <span class="hint grow" role="status">${unread()} Expires in ${timeLeft(entry.expires_at)}.</span>
        <button type="button" ?disabled=${answering.has(entry.approval_id)} @click=${() => void decline(entry)}>Decline ${letterKey("d")}</button>
        ${edited === null
          ? html`<button type="button" ?disabled=${!!unread()} @click=${() => edit(entry)}>Edit ${letterKey("e")}</button>`
          : html`<button type="button" @click=${() => ((edited = null), update())}>Cancel the edit</button>`}
        <button type="button" class="primary" ?disabled=${answering.has(entry.approval_id) || !!unread()} @click=${() => approve(entry)}>Approve${edited === null ? html` ${letterKey("a")}` : " the changed text"}</button>
      </div>
    </form>`;
  }

  /** @param {Approval} entry */
  function outcome(entry) {
    const { same_until: sameUntil, keys_until: keysUntil } = entry.scope ?? {};
    const scope = Math.max(sameUntil ?? 0, keysUntil ?? 0) > serverTime() || (entry.state === "approved" && !entry.used);
    return html`<dl class="facts">
        ${entry.decided_by ? html`<dt>By</dt><dd>${name(entry.decided_by)}, ${timeAgo(entry.decided_at)}</dd>` : nothing}
        ${entry.comment ? html`<dt>${entry.state === "stale" || entry.state === "expired" || entry.state === "withdrawn" ? "Because" : "Comment"}</dt><dd>${name(entry.comment)}</dd>` : nothing}
        ${entry.state === "approved" ? html`<dt>Typed</dt><dd>${entry.used ? "yes" : "not yet"}</dd>` : html`<dt>Typed</dt><dd>no</dd>`}
        ${sameUntil ? html`<dt>Same command</dt><dd>until ${new Date(sameUntil).toLocaleTimeString()}</dd>` : nothing}
        ${keysUntil ? html`<dt>Keys</dt><dd>until ${new Date(keysUntil).toLocaleTimeString()}</dd>` : nothing}
      </dl>
      <div class="actions">
        ${entry.block_id ? link(sessionPath(entry.session_id, `/b/${entry.block_id}`), "Open the block", "button") : nothing}
        ${scope ? html`<button type="button" ?disabled=${answering.has(entry.approval_id)} @click=${() => void answer(entry, { action: "revoke" })}>Revoke</button>` : nothing}
      </div>`;
  }

  /** @param {string} key */
  const letterKey = (key) => (hasLetterKeys() ? html`<kbd>${key}</kbd>` : nothing);

  /** @param {Approval} entry */
  function edit(entry) {
    if (unread()) return toast(unread(), "warn");
    edited = entry.text;
    same = false;
    update();
    root.querySelector("textarea")?.focus();
  }

  /** @param {Approval} entry */
  function approve(entry) {
    if (unread()) return toast(unread(), "warn");
    const changed = edited !== null && edited !== entry.text && { text: edited };
    const fields = { action: "approve", ...changed, ...(same && { for_s: SAME_S }), ...(keys && { keys_s: KEYS_S }) };
    void answer(entry, fields);
  }

  /** @param {Approval} entry */
  async function decline(entry) {
    const given = await confirmDialog({ title: "Decline the request?", input: "Comment for the requester", value: comment, action: "Decline", danger: true });
    if (given === null) return;
    comment = String(given);
    await new Promise((resolve) => setTimeout(resolve, readingLeft()));
    await answer(entry, { action: "decline" });
  }

  /**
   * @param {Approval} entry
   * @param {Record<string, any>} fields
   */
  async function answer(entry, fields) {
    const id = entry.approval_id;
    if (answering.has(id)) return;
    const known = all.get(id);
    answering.add(id);
    update();
    try {
      const said = comment.trim();
      const reply = await act("approvals", { approval_id: id, via: "web", ...(said && { comment: said }), ...fields });
      if (all.get(id) === known) all.set(id, reply.approval);
      else void fetchSelected(id); // the stream has sent a state meanwhile, which may be newer or older
      if (fields.action === "revoke") toast("Revoked.", "good");
      else {
        const latest = isOver(all.get(id)) ? all.get(id) : reply.approval;
        report(latest);
        if (!isOver(latest)) approved.add(id);
      }
      // The person may have begun to answer another request, whose comment and text stay.
      if (!closed && selected === id) select(id);
    } catch (failure) {
      toastError(failure);
    } finally {
      answering.delete(id);
      update();
    }
  }

  /** @param {KeyboardEvent} event */
  function onKey(event) {
    const field = event.target instanceof Element && event.target.closest("input:not([type=checkbox]), textarea, select, dialog");
    if (field && event.key === "Escape" && edited !== null) {
      edited = null;
      update();
    }
    if (field || !hasLetterKeys() || event.repeat || event.ctrlKey || event.metaKey || event.altKey) return;
    const entry = all.get(selected);
    const answerable = entry?.state === "pending" && root.querySelector("form");
    if (event.key === "j" || event.key === "k") move(event.key === "j" ? 1 : -1);
    else if (event.key === "a" && answerable) approve(entry);
    else if (event.key === "d" && answerable) void decline(entry);
    else if (event.key === "e" && answerable) edit(entry);
    else return;
    event.preventDefault();
  }

  /** @param {number} step */
  function move(step) {
    const ids = [...pending(), ...ended()].map((entry) => entry.approval_id);
    const id = ids[Math.max(0, Math.min(ids.length - 1, ids.indexOf(selected) + step))];
    if (id && id !== selected) select(id);
    root.querySelector('.requests [aria-current="true"]')?.scrollIntoView({ block: "nearest" });
  }

  /** Offers notifications of the browser until the person has decided. */
  function notifyButton() {
    if (!canAskToNotify()) return nothing;
    return html`<button type="button" class="small" @click=${() => askToNotify().then(update)}>Notify me of new requests</button>`;
  }

  return () => {
    closed = true;
    document.removeEventListener("keydown", onKey);
    document.removeEventListener("visibilitychange", startReading);
    clearTimeout(readTimer);
    textEnds.disconnect();
    clearInterval(timer);
    subscription.close();
    screenSubscription?.close();
  };
}

const nothingWaits = () =>
  emptyState(
    "No request waits",
    html`When the policy asks before a text is typed, the request appears here. <code>ptyctl policy show</code> lists the rules.`,
    link("/", "All sessions", "button"),
  );

/** @param {Approval} entry */
function notify(entry) {
  const body = `${isolated(entry.principal)} on ${isolated(sessionName(entry))}: ${visible(entry.text)}`;
  notifyPerson("ptyctl: approval needed", { body, tag: entry.approval_id });
}

/**
 * The screen with the text inserted at the cursor.
 * @param {Record<string, any>} screen
 * @param {string} text
 * @returns {import("../screen_view.js").Screen}
 */
function withText(screen, text) {
  const { row, col } = screen.cursor;
  const lines = text.replace(/\n$/, "").split("\n");
  const rows = [...screen.rows];
  const attributes = rows.map((_, number) => screen.attributes?.[number] ?? []);
  lines.forEach((line, index) => {
    const begin = index ? 0 : col;
    const head = index ? "" : toCells(rows[row] ?? "", col).slice(0, col).join("");
    rows.splice(row + index, index ? 0 : 1, head + line);
    const before = index ? [] : (attributes[row] ?? []).filter((/** @type {any} */ run) => run.end <= col);
    attributes.splice(row + index, index ? 0 : 1, [...before, { begin, end: begin + toCells(line, 0).length, typed: true }]);
  });
  const last = Math.max(row + lines.length, rows.reduce((end, text, index) => (text.trim() ? index + 1 : end), 0));
  return { rows: rows.slice(0, last), attributes, cols: screen.cols };
}
