import js from "@eslint/js";
import globals from "globals";

/** Folders of web/, lowest first: a module imports only from its own folder and from those before it. */
const LAYERS = ["lib", "browser", "data", "components", "panels", "pages"];

/** web/lib is pure: it runs in Node too, where its tests are. */
const OF_THE_PAGE = ["document", "window", "location", "history", "localStorage", "sessionStorage", "fetch"];

const layers = LAYERS.slice(0, -1).map((folder, place) => ({
  files: [`web/${folder}/**/*.js`],
  rules: {
    "no-restricted-imports": [
      "error",
      { patterns: [{ group: LAYERS.slice(place + 1).map((above) => `**/${above}/**`) }] },
    ],
  },
}));

export default [
  js.configs.recommended,
  { languageOptions: { ecmaVersion: 2022, sourceType: "module" } },
  { files: ["web/**/*.js"], languageOptions: { globals: globals.browser } },
  { files: ["web/first.js", "web/service-worker.js"], languageOptions: { sourceType: "script" } },
  { files: ["tests/web/**/*.js", "*.config.js"], languageOptions: { globals: globals.node } },
  {
    rules: {
      curly: ["error", "multi-line"],
      eqeqeq: "error",
      "max-len": ["error", { code: 110 }],
      "no-control-regex": "off", // text from a link or a script may hold control characters
      "no-unused-vars": ["error", { ignoreRestSiblings: true }],
      "no-var": "error",
      "object-shorthand": "error",
      "one-var": ["error", "never"],
      "prefer-const": "error",
    },
  },
  ...layers,
  { files: ["web/lib/**/*.js"], rules: { "no-restricted-globals": ["error", ...OF_THE_PAGE] } },
];
