// Addresses and views. The address holds the state of the page: back, reload and sharing a link work.

import { optional } from "./features.js";

/** @typedef {Record<string, string>} Params the named parts of the address */
/** @typedef {{pattern: RegExp, names: string[], render: (params: Params) => void}} Route */

/** @type {Route[]} */
const routes = [];

/** The address that is shown, without its fragment. */
let shown = "";

/**
 * Adds a route. `:name` in the pattern is one part of the address.
 * @param {string} pattern
 * @param {(params: Params) => void} render
 */
export function route(pattern, render) {
  const names = [...pattern.matchAll(/:(\w+)/g)].map((match) => match[1] ?? "");
  routes.push({ pattern: new RegExp(`^${pattern.replace(/:\w+/g, "([^/]+)")}$`), names, render });
}

/**
 * Shows an address.
 * @param {string} path
 */
export function navigate(path) {
  if (path !== address()) history.pushState(null, "", path);
  show();
}

/**
 * Changes the address without a new view: the state that a reload restores.
 * @param {string} path
 */
export function replaceAddress(path) {
  optional(() => history.replaceState(null, "", path), undefined); // Safari throws after many changes
  shown = address();
}

/** The query of the address. */
export const query = () => new URLSearchParams(location.search);

const address = () => location.pathname + location.search;

/** Shows the current address. */
export function show() {
  shown = address();
  const path = location.pathname.replace(/(.)\/$/, "$1");
  for (const { pattern, names, render } of routes) {
    const match = pattern.exec(path);
    if (match) return render(Object.fromEntries(names.map((name, index) => [name, decode(match[index + 1] ?? "")])));
  }
  return undefined;
}

/** Handles links with `data-link` and the back button from now on. */
export function start() {
  // A link to a fragment, such as "Skip to content", is an event too, and must not show the view anew.
  addEventListener("popstate", () => address() !== shown && show());
  document.addEventListener("click", (event) => {
    const link = event.target instanceof Element && event.target.closest("a[data-link]");
    if (!(link instanceof HTMLAnchorElement) || event.defaultPrevented || event.button !== 0) return;
    if (event.ctrlKey || event.metaKey || event.shiftKey || link.origin !== location.origin) return;
    event.preventDefault();
    navigate(link.pathname + link.search);
  });
}

/** @param {string} part */
function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
