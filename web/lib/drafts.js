/**
 * What people write of a run: names, tags, notes; and what becomes of a draft when somebody else wrote
 * meanwhile.
 */

/** How long a deleted run can be brought back. */
export const GRACE_S = 600;
export const MOST_TAGS = 64;

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
 * A draft beside what stands at the server.
 *
 * @typedef {{ seen: string, text: string, theirs: string | null }} Draft seen: what stood there when writing
 *   began; theirs: what somebody else wrote meanwhile
 */

/**
 * @param {string} stands
 * @returns {Draft}
 */
export const begun = (stands) => ({ seen: stands, text: stands, theirs: null });

/**
 * The server holds something by now: the same as was seen or written is no conflict.
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
 * Mine stands; theirs was read.
 *
 * @param {Draft} draft
 * @returns {Draft}
 */
export const kept = (draft) => ({ seen: draft.theirs ?? draft.seen, text: draft.text, theirs: null });

/**
 * Both, theirs first, for a person to sort out.
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
 * Whether leaving now would lose words.
 *
 * @param {Draft} draft
 */
export const dirty = (draft) => draft.text !== draft.seen;
