// Runs before the first paint, so that a dark page never flashes light, and before the modules, so that it
// also notices when they fail to load. Not a module, because modules run later.
(function () {
  try {
    const kept = new URLSearchParams(location.search).get("theme") || localStorage.getItem("tocsin.theme");
    if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
  } catch {
    // Without storage, the system's theme applies.
  }
})();

// The palette belongs to the app, which takes a moment to start. Ctrl K before that opens it then.
(function () {
  /** @type {KeyboardEvent | null} */
  let early = null;
  const note = (/** @type {KeyboardEvent} */ event) => {
    const { ctrlKey, metaKey, key } = event;
    if (event.defaultPrevented || !(ctrlKey || metaKey) || key.toLowerCase() !== "k") return;
    event.preventDefault();
    early = event;
  };
  addEventListener("keydown", note);
  addEventListener("pagestarted", () => {
    removeEventListener("keydown", note);
    if (early) document.dispatchEvent(new KeyboardEvent("keydown", early));
  });
})();

// An upgrade of the server while a page loads, or before it loads another part, can mix files of two
// versions. The page then reloads once, with the files of one version. A second failure of the same version
// is shown.
(function () {
  const RELOADED = "tocsin.reloaded";
  const FILES = 'script[type="module"], link[rel="stylesheet"]';
  let started = false;
  let failed = false;

  const version = () =>
    Array.from(
      document.querySelectorAll(FILES),
      (file) => file.getAttribute("src") ?? file.getAttribute("href"),
    ).join();

  /** @returns {boolean} whether the page may reload: not twice with the same files */
  function mayReload() {
    try {
      if (sessionStorage.getItem(RELOADED) === version()) return false;
      sessionStorage.setItem(RELOADED, version());
      return sessionStorage.getItem(RELOADED) === version();
    } catch {
      return false;
    }
  }

  async function recover() {
    if (failed) return;
    failed = true;
    // Without a server, a reload would replace the page by an error of the browser.
    const answer = await fetch(location.href, { cache: "no-store" }).catch(() => null);
    if (answer?.ok && mayReload()) return location.reload();
    show(Boolean(answer?.ok));
  }

  /** @param {boolean} answers whether the server does */
  function show(answers) {
    const add = (/** @type {string} */ tag, /** @type {string} */ text) => {
      const node = document.createElement(tag);
      node.textContent = text;
      return node;
    };
    const box = document.createElement("section");
    box.className = "card pad notice";
    box.setAttribute("role", "alert");
    const again = /** @type {HTMLButtonElement} */ (add("button", "Reload"));
    again.className = "btn primary";
    again.onclick = () => location.reload();
    box.append(
      add("h1", "This page could not be loaded"),
      add(
        "p",
        answers
          ? "Its files have different versions, for example because the server was upgraded. " +
              "Reload the page. If that does not help, clear the browser's cache for this address."
          : "The server does not answer. Check the connection, then reload the page.",
      ),
      again,
    );
    const main = document.querySelector("main") ?? document.body;
    main.classList.remove("is-opening");
    main.replaceChildren(box);
  }

  /** @param {unknown} error that files of two versions cause: what one of them expects is missing */
  const isMixed = (error) =>
    error instanceof SyntaxError || error instanceof TypeError || error instanceof ReferenceError;

  addEventListener(
    "error",
    (event) => {
      const { target } = event;
      const isFile = target instanceof Element && target.matches(FILES);
      if (isFile || (!started && isMixed(event.error))) void recover();
    },
    true,
  );
  addEventListener("unhandledrejection", ({ reason }) => {
    if (!started && isMixed(reason)) void recover();
  });
  addEventListener("pagestarted", () => {
    started = true;
  });
  addEventListener("pagefailed", () => void recover());
})();
