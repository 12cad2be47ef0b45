// The login form: a token, for pages that were not opened by `ptyctl web`.

import { login, me } from "../api.js";
import { html, nothing, render } from "../lit.js";
import { errorBox } from "../ui.js";

/**
 * @param {HTMLElement} root
 * @returns {() => void}
 */
export function mount(root) {
  /** @type {unknown} */
  let error = null;

  const signIn = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const token = String(new FormData(/** @type {HTMLFormElement} */ (event.target)).get("token")).trim();
    try {
      await login({ token });
    } catch (failed) {
      error = Object.assign(/** @type {Error} */ (failed), { error_code: "" });
      update();
    }
  };

  const update = () =>
    render(
      html`<form class="panel" @submit=${signIn}>
        <h1>ptyctl</h1>
        <p>On the daemon's machine, <code>ptyctl web</code> opens this page without a token.</p>
        <label class="field">
          Token
          <input name="token" type="password" autocomplete="current-password" required>
        </label>
        ${error ? errorBox(error) : nothing}
        <div class="actions"><button type="submit" class="primary">Sign in</button></div>
        <p class="hint">An administrator creates tokens with <code>ptyctl token</code>.</p>
      </form>`,
      root,
    );

  /** Another tab may have signed in. */
  const check = () => document.hidden || void me().catch(() => {});

  update();
  root.querySelector("input")?.focus(); // autofocus applies only to the first content of a page
  document.addEventListener("visibilitychange", check);
  addEventListener("focus", check);
  return () => {
    document.removeEventListener("visibilitychange", check);
    removeEventListener("focus", check);
  };
}
