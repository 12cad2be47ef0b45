// Optional features of browsers. One that is missing, blocked or broken never stops its caller: no other module uses them directly.

/** @typedef {(visible: boolean, element: Element) => void} VisibilityHandler */

/**
 * Calls `use`; returns `otherwise` if the feature is missing or fails. A promise of it resolves to `otherwise` then.
 * @template T, F
 * @param {() => T} use
 * @param {F} otherwise
 * @returns {T | F}
 */
export function optional(use, otherwise) {
  try {
    const result = use();
    return result instanceof Promise ? /** @type {T} */ (result.catch(() => otherwise)) : result;
  } catch {
    return otherwise;
  }
}

/** Keeps texts of the page: `browser` for all tabs and for ever, `tab` for one tab and its reloads. A blocked store keeps nothing. */
export const store = {
  browser: textStore(() => localStorage),
  tab: textStore(() => sessionStorage),
};

/** @param {() => Storage} storage */
function textStore(storage) {
  return {
    /** @param {string} name @returns {string | null} */
    get: (name) => optional(() => storage().getItem(name), null),
    /** Keeps a text; null removes it. @param {string} name @param {string | null} text */
    set: (name, text) => optional(() => (text === null ? storage().removeItem(name) : storage().setItem(name, text)), undefined),
  };
}

/** Copies text to the clipboard; resolves to whether the browser allows it. @param {string} text @returns {Promise<boolean>} */
export const copyText = async (text) => optional(() => navigator.clipboard.writeText(text).then(() => true), false);

const darkQuery = () => matchMedia("(prefers-color-scheme: dark)");

/** Whether the browser prefers dark pages. */
export const prefersDark = () => optional(() => darkQuery().matches, false);

/** Calls `changed` after each change of the preference, until the returned function is called. @param {() => void} changed */
export function onPreferenceChange(changed) {
  const query = optional(darkQuery, null);
  optional(() => query?.addEventListener("change", changed), undefined);
  return () => optional(() => query?.removeEventListener("change", changed), undefined);
}

/** Whether notifications need a permission that the person has neither given nor refused. */
export const canAskToNotify = () => optional(() => Notification.permission === "default", false);

/** Asks for the permission to notify. */
export const askToNotify = async () => optional(async () => void (await Notification.requestPermission()), undefined);

/**
 * Notifies a person whose tab is in the background, if the browser may and can: Chrome for Android throws.
 * @param {string} title
 * @param {NotificationOptions} options
 */
export function notifyPerson(title, options) {
  optional(() => {
    if (!document.hidden || Notification.permission !== "granted") return;
    new Notification(title, options).onclick = () => window.focus();
  }, undefined);
}

/** Calls `changed` when the size of an element changes, until the returned function is called. @param {Element} element @param {() => void} changed */
export function onSizeChange(element, changed) {
  const observer = optional(() => new ResizeObserver(changed), null);
  if (observer) observer.observe(element);
  else addEventListener("resize", changed);
  return () => (observer ? observer.disconnect() : removeEventListener("resize", changed));
}

/**
 * Calls `changed` when an observed element becomes visible or hidden. In a browser that cannot tell, all elements are visible.
 * @param {VisibilityHandler} changed
 * @param {IntersectionObserverInit} [options]
 */
export function observeVisibility(changed, options) {
  const handle = (/** @type {IntersectionObserverEntry[]} */ entries) => {
    for (const { target, isIntersecting } of entries) changed(isIntersecting, target);
  };
  const observer = optional(() => new IntersectionObserver(handle, options), null);
  return {
    /** @param {Element} element */
    observe: (element) => (observer ? observer.observe(element) : queueMicrotask(() => changed(true, element))),
    /** @param {Element} element */
    unobserve: (element) => observer?.unobserve(element),
    disconnect: () => observer?.disconnect(),
  };
}

/** Whether WebGL uses a graphics processor. */
export const hasFastWebgl = () =>
  optional(() => Boolean(document.createElement("canvas").getContext("webgl2", { failIfMajorPerformanceCaveat: true })), false);
