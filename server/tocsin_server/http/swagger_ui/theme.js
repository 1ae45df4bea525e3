"use strict";
// Runs before the first paint: the theme that was chosen on tocsin's pages, else that of the system.
(function () {
  let chosen = null;
  try {
    chosen = localStorage.getItem("tocsin.theme");
  } catch {
    // Without storage, the system's theme applies.
  }
  const system = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    const dark = chosen === "dark" || (chosen !== "light" && system.matches);
    document.documentElement.classList.toggle("dark-mode", dark);
  };
  apply();
  system.addEventListener("change", apply);
})();
