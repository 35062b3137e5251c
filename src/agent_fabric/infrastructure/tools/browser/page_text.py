"""What a page looks like in text: the script that reads it, and what comes of it."""

from typing import Any, Final, NamedTuple

MAX_CHARS: Final = 200_000
"""How much of a page's text is read."""
FRAME_STEP: Final = 100_000
"""Things in the second frame are numbered from here, those in the third from twice as much."""

NEW_NUMBERS: Final = "first => ({ next: first, numbers: new WeakMap(), things: new Map() })"
"""Makes the memory of a frame: which thing has which number. Scripts of the page cannot reach it."""

THING: Final = "(memory, number) => { const e = memory.things.get(number); return e && e.isConnected ? e : null; }"
"""Finds a thing by its number."""

READ: Final = r"""
([memory, limit]) => {
  const SKIP = new Set(["SCRIPT", "STYLE", "NOSCRIPT", "TEMPLATE", "IFRAME", "OBJECT", "EMBED", "CANVAS", "SVG"]);
  const INLINE = new Set(["inline", "inline-block", "inline-flex", "inline-grid", "contents", "ruby"]);
  const links = {};
  let out = "", cut = false;

  const put = text => {
    if (out.length > limit) cut = true; else out += text;
  };
  const line = () => { if (out && !out.endsWith("\n")) put("\n"); };
  const tidy = (text, most) => {
    const short = String(text || "").replace(/\s+/g, " ").trim();
    return short.length > most ? short.slice(0, most) + "…" : short;
  };
  const number = e => {
    let n = memory.numbers.get(e);
    if (n === undefined) {
      n = memory.next++;
      memory.numbers.set(e, n);
      memory.things.set(n, e);
    }
    return n;
  };
  const name = e => {
    const labels = e.labels && e.labels.length ? Array.from(e.labels).map(l => l.innerText).join(" ") : "";
    return tidy(e.getAttribute("aria-label") || labels || e.getAttribute("placeholder") || e.getAttribute("title")
      || e.getAttribute("name") || e.id, 80);
  };
  const seen = e => {
    const style = getComputedStyle(e);
    if (style.display === "contents") return true;
    return e.checkVisibility({ visibilityProperty: true, opacityProperty: true, contentVisibilityAuto: false });
  };
  const words = e => tidy(e.innerText || e.getAttribute("aria-label") || e.getAttribute("title")
    || Array.from(e.querySelectorAll("img[alt]")).map(i => i.alt).join(" "), 200);

  const control = e => {
    const tag = e.tagName, role = e.getAttribute("role") || "", off = e.disabled ? ", disabled" : "";
    if (tag === "A" && e.href) {
      const n = number(e);
      if (/^https?:/.test(e.href)) links[n] = e.href.slice(0, 2000);
      return `[${n}: ${words(e) || "link"}]`;
    }
    if (tag === "SELECT") {
      const options = Array.from(e.options).slice(0, 30).map(o => tidy(o.label, 40));
      const chosen = Array.from(e.selectedOptions).map(o => tidy(o.label, 40)).join(", ");
      return `[${number(e)} choice: ${name(e)} = "${chosen}" of ${options.join(" / ")}${off}]`;
    }
    if (tag === "TEXTAREA" || (tag === "DIV" && e.isContentEditable && !e.parentElement?.isContentEditable)) {
      return `[${number(e)} field: ${name(e)} = "${tidy(tag === "DIV" ? e.innerText : e.value, 200)}"${off}]`;
    }
    if (tag === "INPUT") {
      const type = e.type;
      if (type === "hidden") return "";
      if (type === "checkbox" || type === "radio") {
        return `[${number(e)} ${type}: ${name(e)}, ${e.checked ? "on" : "off"}${off}]`;
      }
      if (type === "submit" || type === "button" || type === "reset" || type === "image") {
        return `[${number(e)} button: ${tidy(e.value || e.alt || name(e) || type, 80)}${off}]`;
      }
      if (type === "file") return `[file field: ${name(e)}, files cannot be sent]`;
      const value = type === "password" ? (e.value ? "***" : "") : tidy(e.value, 200);
      return `[${number(e)} ${type === "password" ? "password" : "field"}: ${name(e)} = "${value}"${off}]`;
    }
    if (tag === "BUTTON" || tag === "SUMMARY" || role === "button" || role === "link" || role === "tab"
        || role === "menuitem") {
      return `[${number(e)} button: ${words(e) || name(e) || "unnamed"}${off}]`;
    }
    return null;
  };

  const walk = node => {
    if (cut) return;
    if (node.nodeType === Node.TEXT_NODE) {
      const text = node.data.replace(/\s+/g, " ");
      if (text !== " ") put(out.endsWith("\n") || out.endsWith(" ") ? text.trimStart() : text);
      else if (out && !/\s$/.test(out)) put(" ");
      return;
    }
    if (node.nodeType !== Node.ELEMENT_NODE || SKIP.has(node.tagName.toUpperCase()) || !seen(node)) return;
    if (node.tagName === "BR") { put("\n"); return; }
    if (node.tagName === "IMG") { if (node.alt) put(`[image: ${tidy(node.alt, 100)}] `); return; }
    const shown = control(node);
    if (shown !== null) { if (shown) put((out && !/\s$/.test(out) ? " " : "") + shown + " "); return; }
    const style = getComputedStyle(node).display, cell = node.tagName === "TD" || node.tagName === "TH";
    const block = !INLINE.has(style) && !cell;
    if (block) line();
    if (/^H[1-6]$/.test(node.tagName)) put("#".repeat(Number(node.tagName[1])) + " ");
    if (node.tagName === "LI") put("- ");
    let inside = node.childNodes;
    if (node.shadowRoot) inside = node.shadowRoot.childNodes;
    else if (node.tagName === "SLOT" && node.assignedNodes().length) inside = node.assignedNodes();
    for (const child of inside) walk(child);
    if (cell && node.nextElementSibling) put(" | ");
    if (block) line();
  };

  if (document.body) walk(document.body);
  const text = out.split("\n").map(l => l.replace(/[ \t]+/g, " ").trim()).filter(Boolean).join("\n");
  return { text: text.slice(0, limit), title: tidy(document.title, 300), links, cut };
}
"""


class FrameText(NamedTuple):
    """What one frame shows."""

    text: str
    title: str
    links: dict[int, str]
    cut: bool


def frame_text(value: Any) -> FrameText:
    """Take what the script returned; a page that meddles with it gets nothing but odd text."""
    if not isinstance(value, dict):
        return FrameText("", "", {}, cut=False)
    links = value.get("links")
    pairs = links.items() if isinstance(links, dict) else ()
    return FrameText(
        text=_plain(value.get("text"))[:MAX_CHARS],
        title=_plain(value.get("title"))[:300],
        links={int(key): _plain(to) for key, to in pairs if str(key).isdecimal() and isinstance(to, str)},
        cut=bool(value.get("cut")),
    )


def _plain(value: Any) -> str:
    # A half of a surrogate pair cannot be kept in any file.
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""
