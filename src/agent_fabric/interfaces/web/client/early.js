// Runs before the page is painted, in front of all modules: the chosen colours, and Enter in the box that came with the page.
// What is written there is taken over by the composer; Enter means that it is sent then.

{
  const chosen = localStorage.getItem("fabric.theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;

  /** @param {Event} event @returns {HTMLTextAreaElement | null} */
  const boxOf = (event) => (event.target instanceof HTMLTextAreaElement && event.target.dataset.early !== undefined ? event.target : null);
  document.addEventListener("keydown", (event) => {
    const box = boxOf(event);
    if (box === null || event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
    event.preventDefault();
    box.dataset.early = "send";
  });
  document.addEventListener("input", (event) => {
    const box = boxOf(event);
    if (box !== null) box.dataset.early = ""; // whoever goes on writing has not finished
  });
}
