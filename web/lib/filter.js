/** The filter box: free text, and project:, name:, tag:, state:, host:, health:. All terms must hold. */

/** @type {Record<string, (row: RunRow) => string>} */
const FIELDS = {
  project: (row) => row.project, name: (row) => row.name, state: (row) => row.state,
  tag: (row) => row.tags.join("\n"), host: (row) => row.host ?? "", health: (row) => row.health, rule: (row) => row.reason?.rule ?? "",
};

/** @param {string} text @returns {(row: RunRow) => boolean} */
export function runFilter(text) {
  const terms = text.toLowerCase().split(/\s+/).filter(Boolean).map(term);
  return (row) => terms.every((holds) => holds(row));
}

/** @param {string} word @returns {(row: RunRow) => boolean} */
function term(word) {
  const [key, ...rest] = word.split(":");
  const field = rest.length ? FIELDS[key] : undefined;
  if (field) return (row) => field(row).toLowerCase().includes(rest.join(":"));
  return (row) => `${row.project}\n${row.name}\n${row.id}\n${row.tags.join("\n")}`.toLowerCase().includes(word);
}
