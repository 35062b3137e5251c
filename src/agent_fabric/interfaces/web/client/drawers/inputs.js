// Declared inputs as a form, and a form as inputs.

import { html } from "../vendor/htm-preact.js";

/**
 * @typedef {{type?: string, required?: boolean, description?: string, default?: any, enum?: any[]}} Parameter
 */

/** @param {{inputs: Record<string, Parameter>, prefix: string, values?: Record<string, any>}} props `values` are those that it has now. */
export function InputFields({ inputs, prefix, values = {} }) {
  return Object.entries(inputs ?? {}).map(([name, parameter]) => {
    const id = `${prefix}-${name}`;
    const words = html`<span>${name}${parameter.required ? " (required)" : ""}</span>`;
    const value = values[name];
    const text = value === undefined || value === null ? "" : typeof value === "string" ? value : JSON.stringify(value);
    const hint = parameter.description && html`<span class="quiet">${parameter.description}</span>`;
    if (parameter.enum) return html`<label key=${name} for=${id}>${words}<select id=${id} name=${name}>${!parameter.required && html`<option value=""></option>`}${parameter.enum.map((each) => html`<option value=${String(each)} selected=${value !== undefined && String(each) === String(value)}>${String(each)}</option>`)}</select>${hint}</label>`;
    if (parameter.type === "boolean") return html`<label key=${name} class="check" for=${id}><input id=${id} type="checkbox" name=${name} defaultChecked=${Boolean(value ?? parameter.default)} /> ${words} ${hint}</label>`;
    if (["object", "array", "list", "dict", "any"].includes(parameter.type ?? "")) return html`<label key=${name} for=${id}>${words}<textarea id=${id} class="code-input" name=${name} rows="3" placeholder="JSON" required=${parameter.required} defaultValue=${text}></textarea>${hint}</label>`;
    const kind = ["integer", "number", "float", "int"].includes(parameter.type ?? "") ? "number" : "text";
    return html`<label key=${name} for=${id}>${words}<input id=${id} name=${name} type=${kind} step="any" defaultValue=${text} required=${parameter.required} placeholder=${parameter.default === undefined || parameter.default === null ? "" : String(parameter.default)} />${hint}</label>`;
  });
}

/**
 * Return what a form holds, by the types of its parameters.
 *
 * @param {FormData} form
 * @param {Record<string, Parameter>} inputs
 * @returns {Record<string, any>}
 */
export function inputsFrom(form, inputs) {
  /** @type {Record<string, any>} */
  const given = {};
  for (const [name, parameter] of Object.entries(inputs ?? {})) {
    const value = form.get(name);
    if (parameter.type === "boolean") given[name] = value !== null;
    else if (value === null || value === "") continue;
    else if (["integer", "number", "float", "int"].includes(parameter.type ?? "")) given[name] = Number(value);
    else if (["object", "array", "list", "dict", "any"].includes(parameter.type ?? "")) given[name] = JSON.parse(String(value));
    else given[name] = String(value);
  }
  return given;
}
