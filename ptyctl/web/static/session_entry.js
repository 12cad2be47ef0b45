// An entry of the list of sessions: its name, where it is, and why it needs a person.

import { call, serverTime } from "./api.js";
import { html } from "./lit.js";
import { stream } from "./stream.js";
import { visible } from "./text.js";
import { link } from "./ui.js";

/** @typedef {Record<string, any>} Session an entry of the list, see docs/contracts.md */

/** A lock is idle if its holder's session did nothing for this time. */
const IDLE_LOCK_MS = 120_000;

/**
 * The name of a session for people: its device, terminal, conversation or host, or the end of its id; hidden characters are escapes.
 * @param {Session} session
 */
export const sessionName = (session) =>
  visible(String(session.device ?? session.device_id ?? session.terminal?.terminal_id ?? session.conversation_id ?? session.host ?? `${session.protocol === "local" ? "shell" : "session"} ${session.session_id.slice(-4)}`));

/**
 * Follows a session: `changed` gets its name, which becomes part of the page's title, and its entry while it is open. The name of
 * a closed session is its device.
 * @param {string} id
 * @param {(name: string, entry: Session | null) => void} changed
 */
export function followSession(id, changed) {
  let name = "";
  /** @type {Session | null} */
  let entry = null;
  return stream.follow("sessions", async (all) => {
    entry = all.get(id) ?? null;
    const stored = entry || name ? name : await storedName(id).catch(() => id);
    name = entry ? sessionName(entry) : name || stored; // the entry may have come meanwhile
    document.title = document.title.replace(id, name);
    changed(name, entry);
  });
}

/** @param {string} id */
async function storedName(id) {
  const { hits } = await call("search", { session_id: id, limit: 1 });
  return visible(String(hits[0]?.device ?? hits[0]?.device_id ?? id));
}

/** Protocol and address, platform, role, opener and the other node of a fleet. @param {Session} session */
export function origin({ protocol, host, port, username, platform, terminal, opened_by: opener, node }) {
  const address = host ? `${protocol} ${username ? `${username}@` : ""}${host}${port ? `:${port}` : ""}` : protocol;
  return [address, platform, terminal && `${terminal.mode} terminal`, opener && `opened by ${opener}`, node && `on node ${node}`].filter(Boolean).join(" · ");
}

/**
 * Why a session may need a person, most urgent first; false is a reason that it does not have.
 * @param {Session} session
 * @returns {(false | [text: string, kind: string, path?: string])[]}
 */
function reasons(session) {
  const { pending_approvals: count, session_id: id } = session;
  const isIdle = session.lock_holder && session.mode === "idle" && serverTime() - session.last_activity_at > IDLE_LOCK_MS;
  return [
    count > 0 && [count === 1 ? "approval" : `${count} approvals`, "warn", `/approvals?session=${encodeURIComponent(id)}`],
    !!session.waiting_for_input && ["asks a question", "warn"],
    session.unreachable_s != null && ["node not reachable", "bad"],
    session.state === "lost" && [session.given_up ? `connection lost: ${session.given_up.reason}` : "connection lost", "bad"],
    !!session.alarm && [`not recorded: ${session.alarm}`, "bad"],
    !!isIdle && ["idle lock", "warn"],
  ];
}

/** Why a session needs a person, most urgent first. @param {Session} session */
export const needs = (session) => reasons(session).filter((reason) => reason !== false);

/** Number of the most urgent reason; of a session without one a larger number. @param {Session} session */
export function urgency(session) {
  const all = reasons(session);
  const first = all.findIndex(Boolean);
  return first < 0 ? all.length : first;
}

/** The reasons as badges; that of approval requests opens them. @param {Session} session */
export const needBadges = (session) =>
  needs(session).map(([text, kind, path]) => (path ? link(path, text, `badge ${kind}`) : html`<span class="badge ${kind}">${text}</span>`));
