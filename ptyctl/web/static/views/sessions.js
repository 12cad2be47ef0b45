// All sessions: those that need a person first, as a list or as a wall of live screens.

import { call, taskId } from "../api.js";
import { hasFailed } from "../cards.js";
import { observeVisibility } from "../features.js";
import { html, nothing, render, repeat } from "../lit.js";
import { navigate, query, replaceAddress } from "../router.js";
import { screenView } from "../screen_view.js";
import { needBadges, needs, origin, sessionName, urgency } from "../session_entry.js";
import { stream } from "../stream.js";
import { isolated, name, visible } from "../text.js";
import { blockBadge, emptyState, errorBox, hasLetterKeys, link, sessionPath, statusBadge, timeAgo, timeLeft, toastError } from "../ui.js";

/** @typedef {import("../session_entry.js").Session} Session */

/** Times on the page are updated this often. */
const TICK_MS = 5_000;

/** @param {HTMLElement} root */
export function mount(root) {
  /** @type {Map<string, Session>} */
  let sessions = new Map();
  /** @type {string[]} what does not work for all of them, such as a node of a fleet */
  let notices = [];
  let filter = query().get("q") ?? "";
  let wall = query().get("view") === "wall";
  let loaded = false;
  let mounted = true;
  /** @type {unknown} */
  let error = null;
  const screens = createScreens(root);

  const subscription = stream.follow("sessions", (all, message) => show(all, null, message.notices), (failure) => show(sessions, failure));
  const timer = setInterval(update, TICK_MS);
  update();

  /** @param {Map<string, Session>} all @param {unknown} failure @param {string[]} [degraded] */
  function show(all, failure, degraded = []) {
    sessions = all;
    notices = degraded;
    error = failure;
    loaded = true;
    update();
  }

  function update() {
    const shown = [...sessions.values()].filter((session) => matches(session, filter)).sort(byNeed);
    const body = error ? errorBox(error) : loaded ? content(shown) : html`<p class="hint">Loading …</p>`;
    const warnings = notices.map((text) => html`<p class="hint" role="status">${visible(text)}</p>`);
    render(html`${toolbar(shown.length)}${warnings}${body}`, root);
    screens.observe();
  }

  /** @param {number} count */
  function toolbar(count) {
    const total = count === sessions.size ? `${count}` : `${count} of ${sessions.size}`;
    return html`<div class="toolbar">
      <h1>Sessions <small>${total}</small></h1>
      <input class="grow" type="search" placeholder="Filter: device, host, state, person, command" aria-label="Filter" aria-keyshortcuts="/"
        .value=${filter} @input=${(/** @type {any} */ event) => change(event.target.value, wall)}>
      <div class="group" role="group" aria-label="Layout">
        <button type="button" aria-pressed=${!wall} @click=${() => change(filter, false)}>List</button>
        <button type="button" aria-pressed=${wall} @click=${() => change(filter, true)}>Wall</button>
      </div>
      <button type="button" @click=${openShell}>Open a shell</button>
    </div>`;
  }

  /** @param {Session[]} shown */
  function content(shown) {
    if (!sessions.size) {
      return emptyState(
        "No open sessions",
        html`Agents open sessions through MCP, people with <code>ptyctl open</code>. They all appear here.`,
        link("/devices", "Open a device", "button"),
      );
    }
    if (!shown.length) return emptyState("No session matches", html`Nothing matches <code>${filter}</code>. Clear the filter to see all.`);
    return wall ? html`<ul class="wall">${repeat(shown, key, tile)}</ul>` : list(shown);
  }

  /**
   * @param {string} text
   * @param {boolean} asWall
   */
  function change(text, asWall) {
    filter = text;
    wall = asWall;
    const state = new URLSearchParams({ ...(filter && { q: filter }), ...(wall && { view: "wall" }) });
    replaceAddress(state.size ? `/?${state}` : "/");
    update();
  }

  async function openShell() {
    try {
      const { session_id: id } = await call("ptyctl_session", { action: "open", protocol: "local", task_id: taskId() });
      if (mounted) navigate(sessionPath(id));
    } catch (failure) {
      toastError(failure);
    }
  }

  /** @param {KeyboardEvent} event */
  function onKey(event) {
    if (event.key !== "/" || !hasLetterKeys() || event.ctrlKey || event.metaKey || event.altKey || isField(event.target)) return;
    event.preventDefault();
    root.querySelector("input")?.focus();
  }
  document.addEventListener("keydown", onKey);

  return () => {
    mounted = false;
    document.removeEventListener("keydown", onKey);
    clearInterval(timer);
    subscription.close();
    screens.close();
  };
}

/** @param {Session} session */
const key = (session) => session.session_id;

/** @param {EventTarget | null} target */
const isField = (target) => target instanceof Element && target.matches("input, textarea, select");

/** @param {Session[]} shown */
function list(shown) {
  return html`<div class="scroll"><table class="list">
    <thead><tr><th>Session</th><th>State</th><th>Lock</th><th>Viewers</th><th>Last command</th><th>Active</th></tr></thead>
    <tbody>${repeat(shown, key, row)}</tbody>
  </table></div>`;
}

/** @param {Session} session */
function row(session) {
  return html`<tr class=${needs(session).length ? "needy" : ""}>
    <td>${link(sessionPath(session.session_id), visible(sessionName(session)), "name")} ${needBadges(session)}
      <small class="origin">${visible(origin(session))}</small></td>
    <td>${statusBadge(session.state)} ${session.mode && session.mode !== "idle" ? statusBadge(session.mode) : nothing}</td>
    <td>${lock(session)}</td>
    <td><span class="only-narrow">viewers </span>${session.observers || "–"}</td>
    <td>${lastCommand(session)}</td>
    <td>${timeAgo(session.last_activity_at)}</td>
  </tr>`;
}

/**
 * A session on the wall.
 * @param {Session} session
 */
function tile(session) {
  return html`<li class="tile ${needs(session).length ? "needy" : ""}" data-session=${session.session_id}>
    <div class="tile-head">${link(sessionPath(session.session_id), visible(sessionName(session)), "name")} ${needBadges(session)} <span class="grow"></span>
      ${statusBadge(session.mode && session.state === "open" ? session.mode : session.state)}</div>
    <a data-link class="thumb" href=${sessionPath(session.session_id)} tabindex="-1" aria-hidden="true"><div inert></div></a>
    <div class="tile-foot">${lastCommand(session)} ${session.lock_holder ? lock(session) : nothing}</div>
  </li>`;
}

/** @param {Session} session */
function lock(session) {
  const label = html`<span class="only-narrow">lock </span>`;
  if (!session.lock_holder) return html`${label}<span class="hint">free</span>`;
  return html`${label}<span title=${`task ${isolated(session.lock_holder)}`}>${name(session.lock_principal ?? session.lock_holder)}</span>
    <small>${timeLeft(session.lock_expires_at)} left</small>`;
}

/** @param {Session} session */
function lastCommand({ session_id: id, last_command: last }) {
  if (!last) return html`<span class="hint">none</span>`;
  return html`<a data-link class="cmd" href=${sessionPath(id, `/b/${last.block_id}`)}>${visible(last.cmd)}</a>
    ${last.status === "completed" && !hasFailed(last) ? nothing : blockBadge(last)} ${timeAgo(last.ts_end ?? last.ts_begin)}`;
}

/**
 * Order of the list: what needs a person, most urgent first, then by activity in steps of a minute, so that busy sessions do not
 * swap places.
 * @param {Session} a
 * @param {Session} b
 */
function byNeed(a, b) {
  const minute = (/** @type {Session} */ session) => Math.floor(session.last_activity_at / 60_000);
  return (
    urgency(a) - urgency(b) ||
    minute(b) - minute(a) ||
    sessionName(a).localeCompare(sessionName(b)) ||
    a.session_id.localeCompare(b.session_id)
  );
}

/**
 * @param {Session} session
 * @param {string} filter
 */
function matches(session, filter) {
  const fields = [session.session_id, sessionName(session), origin(session), session.state, session.mode, session.lock_principal];
  const text = [...fields, session.lock_holder, session.last_command?.cmd, ...needs(session).map(([need]) => need)].join("\n").toLowerCase();
  return filter.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

/**
 * Draws the screens of the visible tiles. Each tile is drawn alone: a new screen does not render the whole wall.
 * @param {HTMLElement} root
 */
function createScreens(root) {
  /** @type {Map<HTMLElement, import("../stream.js").Subscription>} */
  const live = new Map();
  /** @type {Set<HTMLElement>} */
  let observed = new Set();
  const observer = observeVisibility((visible, tile) => setVisible(/** @type {HTMLElement} */ (tile), visible));

  /**
   * @param {HTMLElement} tile
   * @param {boolean} visible
   */
  function setVisible(tile, visible) {
    if (visible && !live.has(tile)) {
      const onMessage = (/** @type {any} */ message) => void (message.op === "screen" && draw(tile, message));
      live.set(tile, stream.subscribe(`screen:${tile.dataset.session}`, { onMessage }));
    } else if (!visible) {
      live.get(tile)?.close();
      live.delete(tile);
    }
  }

  return {
    /** Follows the tiles of the page from now on. */
    observe() {
      /** @type {Set<HTMLElement>} */
      const tiles = new Set(root.querySelectorAll("[data-session]"));
      for (const tile of observed) {
        if (tiles.has(tile)) continue;
        observer.unobserve(tile);
        setVisible(tile, false);
      }
      for (const tile of tiles) if (!observed.has(tile)) observer.observe(tile);
      observed = tiles;
    },
    close() {
      observer.disconnect();
      for (const subscription of live.values()) subscription.close();
    },
  };
}

/**
 * @param {HTMLElement} tile
 * @param {import("../screen_view.js").Screen} screen
 */
function draw(tile, screen) {
  const place = /** @type {HTMLElement} */ (tile.querySelector("[inert]"));
  place.style.setProperty("--cols", String(screen.cols ?? 80));
  render(screenView(screen, ""), place);
}
