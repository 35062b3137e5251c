// Puts text on the clipboard, also where the browser offers none: on plain http from another machine.

/** @param {string} text @returns {Promise<boolean>} Whether it is there. */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copySelected(text);
  }
}

/** The older way: what is selected is copied. @param {string} text */
function copySelected(text) {
  const before = document.activeElement;
  const box = document.createElement("textarea");
  box.className = "hidden";
  box.value = text;
  (document.querySelector("dialog[open]") ?? document.body).append(box); // beside an open dialog nothing can be selected
  box.select();
  const copied = document.execCommand("copy");
  box.remove();
  if (before instanceof HTMLElement) before.focus();
  return copied;
}
