// The right drawer: one thing at a time, on a narrow screen as a sheet.

import { html, useEffect, useRef } from "../vendor/htm-preact.js";
import { useStore } from "../model/store.js";
import { IconButton, Later, useSheet } from "../view/parts.js";
import { DRAWERS } from "./list.js";

/** @param {import("../view/app.js").Props} props */
export function Drawer({ store, actions }) {
  useStore(store, (all) => all.drawer);
  const close = () => actions.show("");
  const sheet = useSheet(close);
  const nav = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => nav.current?.querySelector("[aria-current]")?.scrollIntoView({ inline: "nearest", block: "nearest" }), [store.drawer?.name]);
  const entry = DRAWERS.find((each) => each.name === store.drawer?.name);
  if (entry === undefined) return null;
  const offered = DRAWERS.filter((each) => !each.hidden && (!each.needs || store.may(each.needs)));
  return html`<aside class="drawer" aria-label=${entry.title} data-test="drawer" ...${sheet}>
    <div class="drawer-head"><h2>${entry.title}</h2><${IconButton} icon="close" label="Close" onClick=${close} /></div>
    <nav class="drawer-nav" aria-label="Drawers" ref=${nav}>
      ${offered.map((each) => html`<button type="button" key=${each.name} aria-current=${each.name === entry.name ? "page" : undefined} onClick=${() => actions.show(each.name)}>${each.title}</button>`)}
    </nav>
    <div class="drawer-body" tabindex="0" role="region" aria-label=${entry.title}>
      <${Later} key=${entry.name} load=${entry.load} name=${entry.part} store=${store} actions=${actions} about=${store.drawer?.about ?? ""} />
    </div>
  </aside>`;
}
