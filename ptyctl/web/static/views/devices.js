// The inventory: open a device, check why it cannot be opened, and its sessions.

import { ApiError, call, taskId } from "../api.js";
import { html, nothing, render, repeat } from "../lit.js";
import { navigate, query, replaceAddress } from "../router.js";
import { stream } from "../stream.js";
import { visible } from "../text.js";
import { blockBadge, emptyState, errorBox, link, sessionPath, statusBadge, timeAgo, toastError } from "../ui.js";

/** @typedef {Record<string, any>} Device */
/** @typedef {Record<string, any>} Hit a command, see docs/contracts.md */

const RECENT = 5;
/** Commands that are asked for, to find their sessions. */
const RECENT_COMMANDS = 200;

/** @param {HTMLElement} root */
export function mount(root) {
  /** @type {Device[] | null} */
  let devices = null;
  /** @type {Map<string, Record<string, any>>} */
  let sessions = new Map();
  /** Results of doctor, or null while it runs. @type {Map<string, Record<string, any>[] | null>} */
  const checks = new Map();
  /** The last command of the latest sessions by device. @type {Map<string, Record<string, any>[]>} */
  const recent = new Map();
  /** @type {Set<string>} */
  const opening = new Set();
  let filter = query().get("q") ?? "";
  /** @type {unknown} */
  let error = null;
  let mounted = true;

  const subscription = stream.follow("sessions", (all) => {
    sessions = all;
    update();
  });
  void load();
  update();

  async function load() {
    try {
      devices = (await call("devices", { action: "list" })).devices;
    } catch (failure) {
      if (failure instanceof ApiError && failure.error_code === "NOT_FOUND") devices = []; // there is no file yet
      else error = failure;
    }
    update();
  }

  function update() {
    if (error || !devices) return render(html`<h1>Devices</h1>${error ? errorBox(error) : html`<p class="hint">Loading …</p>`}`, root);
    const words = filter.toLowerCase().split(/\s+/);
    const shown = devices.filter((device) => words.every((word) => JSON.stringify(Object.values(device)).toLowerCase().includes(word)));
    return render(
      html`<div class="toolbar">
          <h1>Devices <small>${devices.length}</small></h1>
          <input class="grow" type="search" placeholder="Filter: name, address, platform, group" aria-label="Filter" .value=${filter}
            @input=${(/** @type {any} */ event) => change(event.target.value)}>
        </div>
        ${devices.length ? (shown.length ? table(shown) : emptyState("No device matches", "Clear the filter to see all.")) : noDevices()}`,
      root,
    );
  }

  /** @param {string} text */
  function change(text) {
    filter = text;
    replaceAddress(`/devices${filter ? `?${new URLSearchParams({ q: filter })}` : ""}`);
    update();
  }

  /** @param {Device[]} shown */
  function table(shown) {
    return html`<div class="scroll"><table class="list">
      <thead><tr><th>Device</th><th>Address</th><th>Platform</th><th>User</th><th>Sessions</th><th>Actions</th></tr></thead>
      <tbody>${repeat(shown, (device) => device.device, row)}</tbody>
    </table></div>`;
  }

  /** @param {Device} device */
  function row(device) {
    const { device: name } = device;
    const open = [...sessions.values()].filter((session) => session.device === name);
    const address = device.console ?? `${device.protocol} ${device.host}${device.port ? `:${device.port}` : ""}`;
    return html`<tr>
        <td><b class="name">${name}</b> <small class="origin">${(device.groups ?? []).join(", ")}</small></td>
        <td>${address}</td>
        <td>${device.platform ?? html`<span class="hint">not set</span>`}</td>
        <td>${device.username ?? html`<span class="hint">not set</span>`}</td>
        <td>${open.map((session) => html`${link(sessionPath(session.session_id), visible(session.lock_principal ?? "open"))} ${statusBadge(session.state)} `)}</td>
        <td class="buttons">
          <button type="button" class="small" ?disabled=${opening.has(name)} @click=${() => void openDevice(name)}>
            ${opening.has(name) ? "Opening …" : "Open"}</button>
          <button type="button" class="small" ?disabled=${checks.get(name) === null} @click=${() => void examine(name)}>Doctor</button>
          <button type="button" class="small" aria-expanded=${recent.has(name)} @click=${() => void toggleRecent(name)}>Recent</button>
        </td>
      </tr>
      ${checks.has(name) ? html`<tr class="more"><td colspan="6">${doctorView(checks.get(name) ?? null)}</td></tr>` : nothing}
      ${recent.has(name) ? html`<tr class="more"><td colspan="6">${recentView(name, recent.get(name) ?? [])}</td></tr>` : nothing}`;
  }

  /** @param {string} name */
  async function openDevice(name) {
    opening.add(name);
    update();
    try {
      const { session_id: id } = await call("ptyctl_session", { action: "open", device: name, task_id: taskId() });
      if (mounted) return navigate(sessionPath(id));
    } catch (failure) {
      if (!mounted) return;
      toastError(failure);
      void examine(name);
    }
    opening.delete(name);
  }

  /** @param {string} name */
  async function examine(name) {
    checks.set(name, null);
    update();
    try {
      checks.set(name, (await call("devices", { action: "doctor", device: name })).checks);
    } catch (failure) {
      checks.delete(name);
      toastError(failure);
    }
    update();
  }

  /** @param {string} name */
  async function toggleRecent(name) {
    try {
      if (recent.delete(name)) return;
      const { hits } = await call("search", { device: name, limit: RECENT_COMMANDS }); // newest first
      const last = new Map(hits.map((/** @type {Hit} */ hit) => [hit.session_id, hit]).reverse());
      recent.set(name, [...last.values()].reverse().slice(0, RECENT));
    } catch (failure) {
      toastError(failure);
    } finally {
      update();
    }
  }

  return () => {
    mounted = false;
    subscription.close();
  };
}

/** @param {Record<string, any>[] | null} checks */
function doctorView(checks) {
  if (!checks) return html`<p class="hint" role="status">Checking each step of the connection …</p>`;
  return html`<div role="status"><ol class="checks">
    ${checks.map(
      ({ name, ok, result, hint }) => html`<li>
        <span class="badge ${ok ? "good" : "bad"}">${ok ? "ok" : "failed"}</span> <b>${name}</b> ${visible(result)}
        ${hint ? html`<small>Next step: ${visible(hint)}</small>` : nothing}
      </li>`,
    )}
  </ol></div>`;
}

/** @param {string} name @param {Hit[]} hits */
function recentView(name, hits) {
  if (!hits.length) return html`<p class="hint">No command has run on this device yet.</p>`;
  const item = (/** @type {Hit} */ hit) => html`<li>
    ${link(sessionPath(hit.session_id), hit.session_id)}, last command
    ${link(sessionPath(hit.session_id, `/b/${hit.block_id}`), visible(hit.cmd), "cmd")} ${blockBadge(hit)} ${timeAgo(hit.ts_begin)}
  </li>`;
  return html`<ul>${hits.map(item)}</ul> ${link(`/search?${new URLSearchParams({ device: name })}`, "All its commands", "button small")}`;
}

const noDevices = () =>
  emptyState(
    "The inventory is empty",
    html`Add devices to <code>devices.toml</code>; <code>ptyctl doctor NAME</code> checks one. <code>ptyctl demo --switch</code> prints an entry to
      try.`,
  );
