// The parts of lit-html that the page uses, so that its address is written once.

export { html, nothing, render } from "/vendor/lit-html/lit-html.js";
export { guard } from "/vendor/lit-html/directives/guard.js";
export { keyed } from "/vendor/lit-html/directives/keyed.js";
export { live } from "/vendor/lit-html/directives/live.js";
export { ref } from "/vendor/lit-html/directives/ref.js";
export { repeat } from "/vendor/lit-html/directives/repeat.js";

/** @typedef {import("/vendor/lit-html/lit-html.js").TemplateResult} TemplateResult */
