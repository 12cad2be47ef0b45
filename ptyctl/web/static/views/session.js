// A session: the live terminal, its blocks as cards, the lock, and messages.

import { ApiError, call, principal, serverTime, taskId } from "../api.js";
import { createCards } from "../cards.js";
import { mark } from "../clock.js";
import { copyText, onSizeChange, store } from "../features.js";
import { createHeldLines } from "../held_lines.js";
import { createKeyboard, notAfter } from "../keyboard.js";
import { html, nothing, render } from "../lit.js";
import { lockOf } from "../lock.js";
import { query, replaceAddress } from "../router.js";
import { followSession, needBadges, origin } from "../session_entry.js";
import { act, STALE_MS, stream } from "../stream.js";
import { createTerminal } from "../terminal.js";
import { isolated, visible } from "../text.js";
import { confirmDialog, duration, errorBox, link, NO_COPY, sessionPath, statusBadge, timeAgo, toast, toastError } from "../ui.js";

/** @typedef {Record<string, any>} Message */
/** @typedef {"split" | "terminal" | "cards"} Layout */

const COMPOSER = "ptyctl.composer";
/** A mouse report, which is no part of a line: it is neither kept nor refused. */
const MOUSE = /^\x1b\[[<M]/;
const RESIZE_DELAY_MS = 150;
/** A narrower window shows the terminal scaled: at its own size most programs could not be used, by nobody. */
const MIN_COLS = 60;
/** The fields of a terminal's state, without times: a tick repeats them. */
const STATE = ["cols", "rows", "state", "mode", "lock_holder", "lock_principal"];
const RETRY_DELAY_MS = 2_000;
/** Errors after which the session cannot be watched. */
const FINAL = ["ALREADY_CLOSED", "NOT_FOUND", "FORBIDDEN"];
const EXEC_WAIT_MS = 1_000;
const MESSAGES = 100;
/** @type {Record<string, string>} */
const ENDS = { eof: "The far end has closed.", lost: "The connection is lost.", closed: "The session is closed." };
/** Events after which the session has a new terminal. */
const NEW_TERMINAL = ["session_reset", "session_restarted"];
/** Keys for screens without a keyboard. @type {[label: string, key: string][]} */
const TOUCH_KEYS = [["Esc", "esc"], ["Tab", "tab"], ["Ctrl-C", "ctrl_c"], ["Ctrl-D", "ctrl_d"], ["↑", "up"], ["↓", "down"], ["←", "left"], ["→", "right"]]; // prettier-ignore

/** @param {HTMLElement} root @param {Record<string, string>} params */
export function mount(root, params) {
  const session = params.session ?? "";
  /** @type {Message} */
  let state = {};
  /** Its entry in the list of open sessions. @type {Message | null} */
  let entry = null;
  let name = session;
  /** @type {unknown} */
  let error = null;
  /** @type {{ts: number, text: string}[]} */
  const messages = [];
  let finding = false;
  let composing = store.browser.get(COMPOSER) === "on";
  let layout = /** @type {Layout} */ (query().get("view") ?? "split");
  let history = 0;
  let closed = false;
  /** The time of the session's server at its last message. @type {import("../keyboard.js").ServerClock | null} */
  let clock = null;
  /** Whether the live view has ended. */
  let isOver = false;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let retryTimer;

  const keyboard = createKeyboard(session, { onError: handleRefusal, changed: update, answered: focusTerminal, isLive, clock: () => clock, admit: () => lock.admit() });
  const held = createHeldLines(session, update, keyboard.release, keyboard.decline);
  const lock = lockOf(session);
  lock.attach({ changed: handleLock, requested: focusTerminal, acquired: handleAcquired, inputSent: keyboard.sent, silence });
  const cards = createCards(session, { changed: update, runAgain, isFullScreen: () => terminal.xterm.buffer.active.type === "alternate" });
  /** @param {Message} message */
  function handleMessage(message) {
    if (message.op === "event") return handleEvent(message.event);
    if (message.op === "end") return end(null);
    if (message.op === "displaced") return lock.deactivate();
    if (message.ts) clock = { ts: message.ts, at: mark() };
    if (message.op === "terminal" && STATE.every((field) => state[field] === message[field])) return lock.observe(message);
    const isFirst = state.cols === undefined;
    const resized = state.cols !== message.cols || state.rows !== message.rows;
    state = message;
    error = null;
    if (message.op === "snapshot" || resized) terminal.reset(message.cols, message.rows);
    if (message.op !== "snapshot" && resized && !isFirst) output.resubscribe("snapshot");
    if (message.op !== "terminal") void cards.load().catch(handleFailure);
    lock.observe(message);
    if (message.op !== "terminal" && lock.isActive()) output.use();
    terminal.write("", () => closed || terminal.scale());
    update();
  }

  /** @param {Message} event */
  function handleEvent(event) {
    if (event.type.startsWith("agent_block_") || event.type === "block_refused") return cards.handleEvent(event);
    if (NEW_TERMINAL.includes(event.type)) output.resubscribe("snapshot");
    const text = describe(event);
    messages.push({ ts: event.ts ?? serverTime(), text });
    messages.splice(0, messages.length - MESSAGES);
    toast(text, event.type === "message" ? "" : "warn");
    update();
  }

  /** Ends the live view if the session cannot be watched; otherwise subscribes again later. @param {unknown} failed */
  function handleFailure(failed) {
    if (closed || isOver) return;
    if (!(failed instanceof ApiError) || FINAL.includes(failed.error_code)) return end(failed);
    if (failed.error_code === "OFFLINE") return;
    error = failed;
    clearTimeout(retryTimer);
    retryTimer = setTimeout(() => isOver || output.resubscribe("snapshot"), RETRY_DELAY_MS);
    update();
  }

  /** Ends the live view: the session was closed, or cannot be watched. @param {unknown} failed */
  function end(failed) {
    isOver = true;
    output.close();
    if (failed instanceof ApiError && failed.error_code !== "ALREADY_CLOSED") error = failed;
    state = { ...state, state: state.state in ENDS ? state.state : "closed", mode: undefined };
    lock.observe({});
    void cards.load().catch(() => {});
    update();
  }

  /** @param {string} shown @param {Message | null} current */
  function handleEntry(shown, current) {
    if (closed) return;
    name = shown;
    entry = current;
    lock.setName(shown);
    update();
  }

  function handleLock() {
    if (!lock.isOurs()) keyboard.stop();
    update();
  }

  /** Input belongs to the terminal from the request for the lock on, unless it has another place. */
  function focusTerminal() {
    const focused = document.activeElement;
    const isFree = !focused || focused === document.body || focused instanceof HTMLButtonElement;
    if (isFree && layout !== "cards" && !composing) terminal.focus();
  }

  function handleAcquired() {
    output.use();
    focusTerminal();
    fitTerminal();
  }

  /** The holder's window sizes the session; other windows show its size scaled. */
  function fitTerminal() {
    if (closed || !box.clientWidth) return;
    if (!lock.isActive()) return terminal.scale();
    const size = terminal.fittingSize();
    if (!size || size.cols < MIN_COLS) return terminal.scale();
    if (size.cols === state.cols && size.rows === state.rows) return;
    const request = { session_id: session, task_id: taskId(), action: "resize", cols: size.cols, rows: size.rows, while_locked: true };
    call("ptyctl_session_config", request).catch(toastError);
  }

  /** A mouse report is for the screen as it is: it is never sent later. */
  const sendsMouse = () => lock.isActive() && isLive();

  /** @param {KeyboardEvent} event */
  function isPageKey(event) {
    if (!event.ctrlKey || !event.shiftKey) return false;
    return event.code === "KeyL" || event.code === "KeyF" || (event.code === "KeyC" && terminal.xterm.hasSelection());
  }

  async function copySelection() {
    if (!(await copyText(terminal.xterm.getSelection()))) toast(NO_COPY, "bad");
  }

  /** @param {KeyboardEvent} event */
  function pressPageKey(event) {
    event.preventDefault();
    if (event.code === "KeyL") lock.toggle();
    else if (event.code === "KeyF") find(true);
    else void copySelection();
  }

  /** @param {ApiError} failed @param {Message} write */
  function handleRefusal(failed, write) {
    if (failed.error_code === "APPROVAL_PENDING") void held.add(write, failed);
    else toastError(failed);
  }

  /** Types a command without Enter. Several lines go into the card view: in the terminal each line would be submitted. @param {string} cmd */
  function runAgain(cmd) {
    if (composing || cmd.includes("\n")) {
      if (!composing) toggleComposer();
      compose(cmd);
    } else if (lock.admit(() => keyboard.type(cmd), cmd.length)) terminal.focus();
  }

  /** @param {string} text */
  function compose(text) {
    const field = root.querySelector("textarea.command");
    if (!(field instanceof HTMLTextAreaElement)) return;
    field.value = text;
    field.focus();
  }

  function toggleComposer() {
    composing = !composing;
    store.browser.set(COMPOSER, composing ? "on" : "off");
    update();
    if (composing) compose("");
  }

  /** @param {KeyboardEvent} event */
  function composerKey(event) {
    const field = /** @type {HTMLTextAreaElement} */ (event.target);
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      void submit(field);
    } else if ((event.key === "ArrowUp" || event.key === "ArrowDown") && !field.value.includes("\n")) {
      const commands = cards.commands();
      history = Math.max(0, Math.min(commands.length, history + (event.key === "ArrowUp" ? 1 : -1)));
      field.value = history ? (commands[history - 1] ?? "") : "";
      event.preventDefault();
    }
  }

  /** Whether a program runs. Unknown until the state has arrived: the daemon then refuses a command that it cannot run. */
  const isProgramRunning = () => state.mode !== undefined && state.mode !== "idle";

  /** Runs the line as a command; while a program runs, types it into the program. @param {HTMLTextAreaElement} field */
  async function submit(field) {
    const text = field.value;
    if (!lock.admit() || (!text.trim() && !isProgramRunning())) return;
    if (!isLive()) return lock.refuse("Nothing was typed: the daemon does not answer.");
    field.value = "";
    history = 0;
    if (isProgramRunning()) return keyboard.type(`${text}\r`);
    try {
      const reply = await act("ptyctl_session_exec", { session_id: session, task_id: taskId(), cmd: text, timeout_ms: EXEC_WAIT_MS, ...(clock && notAfter(clock, mark())) }, { silence: silence() });
      if (reply.done_reason === "approval") toast(`“${isolated(text)}” waits for an approval: ${isolated(reply.approval?.reason ?? "")}`, "warn");
      else if (reply.policy) toast(isolated(reply.policy.reason), "warn");
    } catch (failed) {
      // It may have run: a command in the field is run by a mere Enter.
      if (failed instanceof ApiError && failed.error_code === "OFFLINE") return toast(`No answer came to “${isolated(text)}”: look at the terminal whether it ran.`, "bad");
      toastError(failed);
      if (!field.value) field.value = text;
    }
  }

  /** @param {SubmitEvent} event */
  async function sendMessage(event) {
    event.preventDefault();
    const field = /** @type {HTMLInputElement} */ (/** @type {HTMLFormElement} */ (event.target).elements.namedItem("message"));
    if (!field.value.trim()) return;
    try {
      await act("notify", { session_id: session, task_id: taskId(), sender: principal()?.name, message: field.value }, { silence: silence() });
      field.value = "";
    } catch (failed) {
      toastError(failed);
    }
  }

  /** Ends the session: the way to stop or decline what an agent works at in it. */
  async function closeSession() {
    const text = "All its programs end, whoever has the lock. The history stays.";
    if (!(await confirmDialog({ title: `Close ${isolated(name)}?`, text, action: "Close the session", danger: true }))) return;
    await act("ptyctl_session", { action: "close", session_id: session, task_id: taskId(), force: true }, { silence: silence() }).catch(toastError);
  }

  /** @param {boolean} on */
  function find(on) {
    finding = on;
    update();
    if (on) /** @type {HTMLElement | null} */ (root.querySelector(".find input"))?.focus();
    else terminal.focus();
  }

  /** @param {KeyboardEvent} event */
  function findKey(event) {
    const { value } = /** @type {HTMLInputElement} */ (event.target);
    if (event.key === "Enter") event.shiftKey ? terminal.search.findPrevious(value) : terminal.search.findNext(value);
    else if (event.key === "Escape") find(false);
  }

  /** @param {Layout} next */
  function setLayout(next) {
    layout = next;
    replaceAddress(sessionPath(session, next === "split" ? "" : `?view=${next}`));
    update();
  }

  /** @param {Layout} name @param {string} label */
  const layoutButton = (name, label) =>
    html`<button type="button" class="small" aria-pressed=${layout === name} @click=${() => setLayout(name)}>${label}</button>`;

  function header() {
    return html`<div class="session-head">
      <h1 title=${session}>${visible(name)}</h1>
      ${state.state ? statusBadge(state.state) : nothing} ${state.mode ? statusBadge(state.mode) : nothing} ${entry ? needBadges(entry) : nothing}
      <small>${state.cols ? `${state.cols}×${state.rows} · ` : ""}${entry ? visible(origin(entry)) : ""}</small>
      <span class="group" role="group" aria-label="Layout">
        ${layoutButton("split", "Both")}${layoutButton("terminal", "Terminal")}${layoutButton("cards", "Cards")}
      </span>
      <button type="button" class="small" title="Find in the terminal (Ctrl+Shift+F)" @click=${() => find(!finding)}>Find</button>
      ${link(`/search?${new URLSearchParams({ session, failed: "on" })}`, "Failed", "button small")}
      ${link(sessionPath(session, "/at/0"), "Replay", "button small")}
      ${isOver ? nothing : html`<button type="button" class="small" @click=${closeSession}>Close …</button>`}
    </div>`;
  }

  /** Why the session is not watched, or not at present. @param {ApiError} failed */
  const failure = (failed) => (isOver ? errorBox(failed) : html`<div class="notice" role="status">Trying again: ${visible(failed.message)}.</div>`);

  const findBar = () =>
    html`<div class="find" role="search">
      <input aria-label="Find in the terminal" placeholder="Find: Enter, Shift+Enter" @keydown=${findKey}>
      <button type="button" class="icon" aria-label="Close" @click=${() => find(false)}>×</button>
    </div>`;

  const touchKeys = () =>
    html`<div class="toolbar touch-keys" role="group" aria-label="Keys">
      ${TOUCH_KEYS.map(([label, key]) => html`<button type="button" class="small" @click=${() => lock.admit(() => keyboard.press(key))}>${label}</button>`)}
    </div>`;

  const composer = () =>
    html`<div class="composer">
      <button type="button" class="small" aria-pressed=${composing} aria-label="Type commands here" title="Type commands here" @click=${toggleComposer}>&gt;_</button>
      ${composing
        ? html`<textarea class="command" rows="1" aria-label="Command" spellcheck="false" autocapitalize="off"
            placeholder=${isProgramRunning() ? "Input of the running program" : "Command: Enter runs it"} @keydown=${composerKey}></textarea>`
        : html`<span class="hint">Type commands here as well as into the terminal.</span>`}
    </div>`;

  const messagePanel = () =>
    html`<section class="panel messages" aria-label="Messages">
      <ol aria-live="polite">${messages.map(({ ts, text }) => html`<li>${text} ${timeAgo(ts)}</li>`)}</ol>
      <form @submit=${sendMessage}>
        <input name="message" autocomplete="off" maxlength="2000" aria-label="Message" placeholder="Message to all users of the session">
        <button type="submit" class="small">Send</button>
      </form>
    </section>`;

  /** The time since the last message of the session's server (ms). */
  function silence() {
    return isOver || !isMounted ? 0 : output.silence();
  }

  /** Whether the terminal may have changed since then. */
  const isStale = () => silence() > STALE_MS;

  /** Whether input is sent: not under the veil, nor without a connection. */
  function isLive() {
    return stream.isLive() && !isStale();
  }

  const veil = () =>
    html`<div class="veil" role="alert">
      <p><strong>No answer from the daemon.</strong> What you see may have changed; what you type is not sent.
        <span aria-hidden="true">Silent for ${duration(1000 * Math.floor(silence() / 1000)).replace(".0", "")}.</span></p>
    </div>`;

  function update() {
    if (closed) return;
    const list = root.querySelector(".cards");
    const atEnd = !list || list.scrollHeight - list.scrollTop - list.clientHeight < 40;
    const ended = ENDS[state.state];
    render(
      html`${header()} ${error ? failure(/** @type {ApiError} */ (error)) : nothing}
        ${ended && !error ? html`<div class="notice" role="status">${ended} Its history stays: ${link(sessionPath(session, "/at/0"), "replay it")}, or open a card.</div>` : nothing}
        <div class="split ${layout === "split" ? "" : `${layout}-only`}">
          <section class="stage" aria-label="Terminal">
            ${finding ? html`<div class="find-place">${findBar()}</div>` : nothing}
            <div class="term-box"></div>
            ${isStale() ? veil() : nothing}
            ${lock.isOurs() ? touchKeys() : nothing}
          </section>
          <section class="side" aria-label="Commands">
            <div class="cards" tabindex="0" aria-label="Cards" role="region">${cards.template()}</div>
            ${ended ? nothing : composer()} ${messagePanel()}
          </section>
        </div>
        ${held.template()} ${ended ? nothing : keyboard.template()} ${ended ? nothing : lock.template(isStale())}`,
      root,
    );
    const after = root.querySelector(".cards");
    if (atEnd && after) after.scrollTop = after.scrollHeight;
  }

  let isMounted = false;
  update();

  const box = /** @type {HTMLElement} */ (root.querySelector(".term-box"));
  const terminal = createTerminal(box, {
    onData(data) {
      if (!MOUSE.test(data)) lock.admit(() => keyboard.type(data), data.length);
      else if (sendsMouse()) keyboard.type(data);
    },
    onBinary: (data) => sendsMouse() && keyboard.sendBinary(data),
    onKey: (event) => isPageKey(event) || (event.key === "Tab" && !lock.takesInput()),
  });
  terminal.xterm.buffer.onBufferChange(cards.watchScreen);
  const output = stream.subscribe(`terminal:${session}`, {
    from: "snapshot",
    onMessage: handleMessage,
    onBytes: (offset, bytes) => terminal.write(bytes, () => output.ack(offset)),
    onError: handleFailure,
  });
  isMounted = true;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let resizeTimer;
  const stopSizing = onSizeChange(box, () => {
    clearTimeout(resizeTimer);
    resizeTimer = setTimeout(fitTerminal, RESIZE_DELAY_MS);
  });
  const handleKey = (/** @type {KeyboardEvent} */ event) => isPageKey(event) && pressPageKey(event);
  addEventListener("keydown", handleKey);
  const entries = followSession(session, handleEntry);
  if (layout !== "cards") terminal.focus();

  return () => {
    closed = true;
    clearTimeout(resizeTimer);
    clearTimeout(retryTimer);
    stopSizing();
    removeEventListener("keydown", handleKey);
    keyboard.close();
    held.close();
    lock.detach();
    output.close();
    entries.close();
    cards.close();
    terminal.dispose();
  };
}

/**
 * An event as a sentence.
 * @param {Message} event
 */
function describe(event) {
  const why = event.reason ? `: ${isolated(event.reason)}` : "";
  switch (event.type) {
    case "message":
      return `${isolated(event.sender ?? "Message")}: ${isolated(event.message)}`;
    case "lock_taken_over":
      return `${isolated(event.task_id)} took the lock from ${isolated(event.from_task_id)}${why}`;
    case "line_lost":
      return `The connection was lost${why}`;
    case "session_reconnected":
      return "The session is connected again";
    default:
      return event.type.replaceAll("_", " ").replace(/^./, (/** @type {string} */ letter) => letter.toUpperCase()) + why;
  }
}
