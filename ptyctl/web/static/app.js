// Start of the page: login, frame with navigation, and the view of the address.

import { ApiError, login, logout, me, onLogin, principal, version } from "./api.js";
import { store } from "./features.js";
import { html, nothing, render } from "./lit.js";
import { forgetLocks, heldLocks, onHeldLocks, resumeLocks } from "./lock.js";
import { navigate, replaceAddress, route, show, start } from "./router.js";
import { stream } from "./stream.js";
import { isolated, visible } from "./text.js";
import { confirmDialog, emptyState, errorBox, link, sessionPath, toastError } from "./ui.js";

/** @typedef {{mount: (root: HTMLElement, params: Record<string, string>) => (() => void) | void}} View */
/** @typedef {"auto" | "light" | "dark"} Theme */

const THEME = "ptyctl.theme";
const BASE_TITLE = "ptyctl";
/** @type {[path: string, view: string, title: string][]} */
const ROUTES = [
  ["/", "sessions", "Sessions"],
  ["/approvals", "approvals", "Approvals"],
  ["/search", "search", "Search"],
  ["/devices", "devices", "Devices"],
  ["/audit", "audit", "Audit"],
  ["/s/:session", "session", "Session"],
  ["/s/:session/b/:block", "block", "Block"],
  ["/s/:session/at/:offset", "replay", "Replay"],
];
/** Number of the routes that the navigation shows. */
const MENU = 5;

const app = /** @type {HTMLElement} */ (document.getElementById("app"));
let online = true;
let shown = "";
let shows = 0;
/** @type {() => void} */
let unmount = () => {};
/** Number of the requests that wait for an answer. */
let pending = 0;
/** @type {import("./stream.js").Subscription | null} */
let approvals = null;

for (const [path, name, title] of ROUTES) route(path, (params) => void showView(name, title, params));
applyTheme();
onLogin(() => void loginChanged());
stream.onState((value) => {
  online = value;
  update();
});
onHeldLocks(update);
addEventListener("beforeunload", (event) => {
  if (heldLocks().length) event.preventDefault(); // the browser asks: a lock that is not resumed blocks others until it expires
});
addEventListener("hashchange", () => void begin()); // a new ticket in the same tab
start();
void begin();

/** Uses the ticket in the address, or the cookie. */
async function begin() {
  const ticket = /^#ticket=(.+)$/.exec(location.hash)?.[1];
  if (ticket) replaceAddress(location.pathname + location.search);
  try {
    const refused = ticket ? await login({ ticket }).catch(toApiError) : null;
    if (principal() || (await me())) return;
    await loginChanged();
    if (refused) toastError(Object.assign(refused, { hint: "run ptyctl web again for a new address", error_code: "" }));
  } catch (error) {
    render(errorBox(error), app);
  }
}

/** @param {unknown} error */
function toApiError(error) {
  if (error instanceof ApiError) return error;
  throw error;
}

/** Shows the address after a login, the login form otherwise. */
async function loginChanged() {
  closeView();
  approvals?.close();
  approvals = null;
  pending = 0;
  forgetLocks();
  if (principal()) {
    resumeLocks();
    approvals = stream.follow("approvals", (all) => {
      pending = [...all.values()].filter(({ state }) => state === "pending").length;
      update();
    });
    update();
    show();
  } else {
    stream.stop();
    online = true;
    const { mount } = /** @type {View} */ (await import("./views/login.js"));
    render(html`<main class="login"></main>`, app);
    document.title = `Sign in · ${BASE_TITLE}`;
    unmount = mount(/** @type {HTMLElement} */ (app.querySelector("main")), {}) || unmount;
  }
}

/**
 * @param {string} name
 * @param {string} title
 * @param {Record<string, string>} params
 */
async function showView(name, title, params) {
  if (!principal()) return;
  closeView();
  const number = shows;
  shown = location.pathname;
  document.title = [params.session, title, BASE_TITLE].filter(Boolean).join(" · ");
  update();
  const main = /** @type {HTMLElement} */ (app.querySelector("main"));
  const root = document.createElement("div");
  root.className = `view ${name}-view`;
  main.replaceChildren(root);
  try {
    const view = /** @type {View} */ (await import(`./views/${name}.js`));
    if (number === shows) unmount = view.mount(root, params) || unmount;
  } catch (error) {
    console.error(error);
    if (number === shows) render(emptyState("This page did not load", String(error)), root);
  }
}

function closeView() {
  shows++;
  for (const dialog of document.querySelectorAll("dialog")) dialog.close(); // its question was about the closed view
  const closing = unmount;
  unmount = () => {};
  closing();
}

function update() {
  if (!principal()) return;
  const user = principal();
  render(
    html`<a class="skip" href="#main">Skip to content</a>
      <header class="top">
        ${link("/", "ptyctl", "brand")}
        <nav aria-label="Views">${ROUTES.slice(0, MENU).map(([path, , title]) => menuItem(path, title))}</nav>
        ${heldLocks().filter(({ session }) => shown !== sessionPath(session)).map(heldView)}
        <div class="who">
          <span title=${`ptyctl ${version()}`}>${user?.name} <small>${user?.role}</small></span>
          <button type="button" class="icon" title="Theme: ${theme()}" aria-label="Theme: ${theme()}" @click=${nextTheme}>
            ${{ auto: "◐", light: "☀", dark: "☾" }[theme()]}
          </button>
          <button type="button" class="small" @click=${signOut}>Sign out</button>
        </div>
      </header>
      ${online ? nothing : html`<div class="offline" role="alert">
        The connection to the daemon is lost. Trying again …
        <button type="button" class="small" @click=${stream.retry}>Try now</button>
      </div>`}
      <main id="main" tabindex="-1"></main>`,
    app,
  );
}

/**
 * @param {string} path
 * @param {string} title
 */
function menuItem(path, title) {
  const count = path === "/approvals" && pending ? html` <span class="count">${pending}</span>` : nothing;
  return html`<a data-link href=${path} aria-current=${shown === path ? "page" : nothing}>${title}${count}</a>`;
}

/** A lock that this page uses while it shows another view. @param {import("./lock.js").Lock} lock */
const heldView = (lock) =>
  html`<span class="held-lock">You have the lock of ${link(sessionPath(lock.session), visible(lock.name()))}
    <button type="button" class="small" @click=${lock.giveBack}>Give back</button></span>`;

async function signOut() {
  const held = heldLocks();
  const names = held.map((lock) => isolated(lock.name())).join(", ");
  if (held.length && !(await confirmDialog({ title: "Give the lock back and sign out?", text: `You have the lock of ${names}.`, action: "Give back and sign out" }))) return;
  try {
    await Promise.all(held.map((lock) => lock.giveBack()));
    await logout();
    navigate("/");
  } catch (error) {
    toastError(error);
  }
}

/** @returns {Theme} */
function theme() {
  const stored = store.browser.get(THEME);
  return stored === "light" || stored === "dark" ? stored : "auto";
}

function nextTheme() {
  /** @type {Record<Theme, Theme>} */
  const next = { auto: "light", light: "dark", dark: "auto" };
  store.browser.set(THEME, next[theme()]);
  applyTheme();
  update();
}

/** The style sheet, and a terminal through `themechange`, follow the attribute of the root element. */
function applyTheme() {
  document.documentElement.dataset.theme = theme();
  dispatchEvent(new Event("themechange"));
}
