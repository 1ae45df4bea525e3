// Runs before the first paint, so that a dark page never flashes light. Not a module, because modules run
// later.
(function () {
  try {
    const kept = new URLSearchParams(location.search).get("theme") || localStorage.getItem("tocsin.theme");
    if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
  } catch {
    // Without storage, the system's theme applies.
  }
})();
