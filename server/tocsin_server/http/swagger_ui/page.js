"use strict";
// Shows the API's description. Nothing is loaded from another host: no validator, no fonts.
const place = document.getElementById("api");

/** Makes landmarks of the parts outside of <main>, and a heading of level 2 above those of level 3. */
const withLandmarks = ({ React }) => {
  const labelled = (label) => (Original) => (given) =>
    React.createElement("section", { "aria-label": label }, React.createElement(Original, given));
  const headed = (Original) => (given) =>
    React.createElement(
      React.Fragment,
      null,
      React.createElement("h2", { className: "routes" }, "Routes"),
      React.createElement(Original, given),
    );
  const nothing = () => () => null;
  return {
    wrapComponents: {
      InfoContainer: labelled("About the API"),
      SchemesContainer: labelled("Server and login"),
      FilterContainer: labelled("Filter"),
      operations: headed,
      authorizeBtn: nothing, // requests are sent with the login of this browser
      authorizeOperationBtn: nothing,
    },
  };
};

/** Gives names to fields and regions that have none, or the same one in every open route; focus to examples. */
function name() {
  for (const area of document.querySelectorAll("textarea:not([aria-label])")) {
    area.setAttribute("aria-label", area.closest(".opblock-body") ? "Request body" : "Text");
  }
  for (const answers of document.querySelectorAll('[id$="_responses"]:not([aria-label])')) {
    answers.setAttribute("aria-label", `Responses of ${answers.id.replace(/_responses$/, "")}`);
  }
  // An example may be higher than its box, depending on the font: the keyboard must be able to scroll it.
  for (const example of document.querySelectorAll(".microlight.example:not([tabindex])")) {
    example.setAttribute("tabindex", "0");
    example.setAttribute("role", "group");
    example.setAttribute("aria-label", "Example");
  }
}

new MutationObserver(name).observe(place, { childList: true, subtree: true });
SwaggerUIBundle({
  url: place.dataset.description,
  dom_id: "#api",
  deepLinking: false, // its links are inside buttons, which keyboards and screen readers cannot tell apart
  validatorUrl: null,
  docExpansion: "list",
  defaultModelsExpandDepth: -1,
  tryItOutEnabled: true,
  filter: true,
  syntaxHighlight: false, // its colors have too little contrast
  plugins: [withLandmarks],
});
