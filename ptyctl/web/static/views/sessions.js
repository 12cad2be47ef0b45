// All sessions: those that need a person first, as a list or as a wall of live screens.

import { call, serverTime, taskId } from "../api.js";
import { hasFailed } from "../cards.js";
import { html, nothing, render, repeat } from "../lit.js";
import { navigate, query, replaceAddress } from "../router.js";
import { screenView } from "../screen_view.js";
import { stream } from "../stream.js";
import { sessionName, visible } from "../text.js";
import { blockBadge, emptyState, errorBox, link, sessionPath, statusBadge, timeAgo, timeLeft, toastError } from "../ui.js";

/** @typedef {Record<string, any>} Session an entry of the list, see docs/contracts.md */

/** A lock is idle if its holder's session did nothing for this time. */
const IDLE_LOCK_MS = 120_000;
/** Times on the page are updated this often. */
const TICK_MS = 5_000;

/** @param {HTMLElement} root */
export function mount(root) {
  /** @type {Map<string, Session>} */
  const sessions = new Map();
  let filter = query().get("q") ?? "";
  let wall = query().get("view") === "wall";
  let loaded = false;
  let mounted = true;
  /** @type {unknown} */
  let error = null;
  const screens = createScreens(root);

  const subscription = stream.subscribe("sessions", {
    onMessage(message) {
      if (message.full) sessions.clear();
      for (const entry of message.sessions ?? []) sessions.set(entry.session_id, entry);
      for (const id of message.removed ?? []) sessions.delete(id);
      loaded = true;
      error = null;
      update();
    },
    onError(failure) {
      error = failure;
      update();
    },
  });
  const timer = setInterval(update, TICK_MS);
  update();

  function update() {
    const shown = [...sessions.values()].filter((session) => matches(session, filter)).sort(byNeed);
    const body = error ? errorBox(error) : loaded ? content(shown) : html`<p class="hint">Loading …</p>`;
    render(html`${toolbar(shown.length)}${body}`, root);
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
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || isField(event.target)) return;
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
function origin(session) {
  const port = session.port ? `:${session.port}` : "";
  const address = session.host ? `${session.protocol} ${session.username ? `${session.username}@` : ""}${session.host}${port}` : session.protocol;
  return [address, session.platform, session.opened_by && `opened by ${session.opened_by}`].filter(Boolean).join(" · ");
}

/** @param {Session} session */
function lock(session) {
  if (!session.lock_holder) return html`<span class="hint">free</span>`;
  return html`<span title=${`task ${session.lock_holder}`}>${visible(session.lock_principal ?? session.lock_holder)}</span>
    <small>${timeLeft(session.lock_expires_at)} left</small>`;
}

/** @param {Session} session */
function lastCommand({ session_id: id, last_command: last }) {
  if (!last) return html`<span class="hint">none</span>`;
  return html`<a data-link class="cmd" href=${sessionPath(id, `/b/${last.block_id}`)}>${visible(last.cmd)}</a>
    ${last.status === "completed" && !hasFailed(last) ? nothing : blockBadge(last)} ${timeAgo(last.ts_end ?? last.ts_begin)}`;
}

/**
 * Why a session needs a person, most urgent first.
 * @param {Session} session
 * @returns {[text: string, kind: string, path?: string][]}
 */
function needs(session) {
  const count = session.pending_approvals;
  const idle = session.lock_holder && session.mode === "idle" && serverTime() - session.last_activity_at > IDLE_LOCK_MS;
  /** @type {([string, string, string?] | false)[]} */
  const all = [
    count > 0 && [count === 1 ? "approval" : `${count} approvals`, "warn", `/approvals?session=${encodeURIComponent(session.session_id)}`],
    session.waiting_for_input && ["asks a question", "warn"],
    session.state === "lost" && ["connection lost", "bad"],
    session.alarm && [`not recorded: ${session.alarm}`, "bad"],
    idle && ["idle lock", "warn"],
  ];
  return all.filter((need) => need !== false && need !== undefined && !!need);
}

/** @param {Session} session */
const needBadges = (session) =>
  needs(session).map(([text, kind, path]) => (path ? link(path, text, `badge ${kind}`) : html`<span class="badge ${kind}">${text}</span>`));

/**
 * Order of the list: what needs a person, then by activity in steps of a minute, so that busy sessions do not swap places.
 * @param {Session} a
 * @param {Session} b
 */
function byNeed(a, b) {
  const minute = (/** @type {Session} */ session) => Math.floor(session.last_activity_at / 60_000);
  return (
    Number(needs(b).length > 0) - Number(needs(a).length > 0) ||
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
  const observer = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) setVisible(/** @type {HTMLElement} */ (target), isIntersecting);
  });

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
