/** Names, tags and notes that users edit, and how drafts are merged with concurrent changes. */

/** How long the deletion of a run can be canceled. */
export const GRACE_S = 600;
const MOST_TAGS = 64;

/**
 * "fp16, ablation ,fp16" is two tags.
 *
 * @param {string} text
 * @returns {string[]}
 */
export const parseTags = (text) =>
  [
    ...new Set(
      text
        .split(",")
        .map((tag) => tag.trim())
        .filter(Boolean),
    ),
  ].slice(0, MOST_TAGS);

/** @param {string[]} tags */
export const tagsText = (tags) => tags.join(", ");

/**
 * A draft and the value on the server.
 *
 * @typedef {{ seen: string, text: string, theirs: string | null }} Draft seen: the value when editing began;
 *   theirs: a value that another user saved since
 */

/**
 * @param {string} stands
 * @returns {Draft}
 */
export const begun = (stands) => ({ seen: stands, text: stands, theirs: null });

/**
 * Update a draft with the server's current value. There is no conflict if it equals the seen value or the
 * draft.
 *
 * @param {Draft} draft
 * @param {string} stands
 * @returns {Draft}
 */
export function met(draft, stands) {
  if (stands === draft.text) return { seen: stands, text: draft.text, theirs: null };
  if (stands === draft.seen) return { ...draft, theirs: null };
  return draft.text === draft.seen ? begun(stands) : { ...draft, theirs: stands };
}

/**
 * Keep my text; I have read theirs.
 *
 * @param {Draft} draft
 * @returns {Draft}
 */
export const kept = (draft) => ({ seen: draft.theirs ?? draft.seen, text: draft.text, theirs: null });

/**
 * Combine both texts, theirs first.
 *
 * @param {Draft} draft
 * @returns {Draft}
 */
export const joined = (draft) => ({
  seen: draft.theirs ?? draft.seen,
  text: [draft.theirs ?? "", draft.text].filter(Boolean).join("\n\n---\n\n"),
  theirs: null,
});

/**
 * Return whether leaving would lose unsaved text.
 *
 * @param {Draft} draft
 */
export const dirty = (draft) => draft.text !== draft.seen;
