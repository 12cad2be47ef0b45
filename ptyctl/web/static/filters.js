// Filters of a view that are in its address: the form's fields, and the choice of a time.

import { serverTime } from "./api.js";
import { html } from "./lit.js";
import { navigate } from "./router.js";

const HOUR_MS = 3_600_000;
/** @type {[hours: string, label: string][]} */
const AGES = [["", "any time"], ["1", "last hour"], ["12", "last 12 hours"], ["24", "last day"], ["168", "last week"]];

/** The field `hours`. @param {URLSearchParams} fields */
export const timeField = (fields) =>
  html`<select name="hours" aria-label="Time">
    ${AGES.map(([hours, label]) => html`<option value=${hours} ?selected=${hours === (fields.get("hours") ?? "")}>${label}</option>`)}
  </select>`;

/** The field `name`, with its label. @param {URLSearchParams} fields @param {string} name @param {string} label @param {string} [example] */
export const textField = (fields, name, label, example) =>
  html`<input name=${name} placeholder=${example ?? label} aria-label=${label} .value=${fields.get(name) ?? ""}>`;

/** The time that `hours` names, as the field `name` of a request. @param {URLSearchParams} fields @param {string} name */
export function since(fields, name) {
  const hours = Number(fields.get("hours"));
  return hours > 0 ? { [name]: serverTime() - hours * HOUR_MS } : {};
}

/** The filter `name`, as the field of a request, if it is set. @param {URLSearchParams} fields @param {string} name @param {string} [field] */
export const given = (fields, name, field = name) => (fields.get(name) ? { [field]: fields.get(name) } : {});

/** Shows `path` with the fields of the form that have a value. @param {SubmitEvent} event @param {string} path */
export function submitFilters(event, path) {
  event.preventDefault();
  const entered = new FormData(/** @type {HTMLFormElement} */ (event.target));
  const state = new URLSearchParams([...entered].filter(([, value]) => value).map(([name, value]) => [name, String(value)]));
  navigate(`${path}${state.size ? `?${state}` : ""}`);
}
