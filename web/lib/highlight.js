/** Minimal highlighting for suggested code, Python or shell: comments, strings, keywords of Python, other. */

const COMMENT = /#[^\n]*/.source;
const STRING = /"""[\s\S]*?"""|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'/.source;
const KEYWORDS =
  "import from as def return for in if else elif with not and or is None True False lambda while try " +
  "except raise class";
const KEYWORD = String.raw`\b(?:${KEYWORDS.replaceAll(" ", "|")})\b`;
const PYTHON = new RegExp(`(${COMMENT})|(${STRING})|(${KEYWORD})`, "g");
const SHELL = new RegExp(`(${COMMENT})|(${STRING})`, "g");

/**
 * @param {string} code
 * @param {boolean} [shell] without the keywords of Python
 * @returns {{ kind: "c" | "s" | "k" | "", text: string }[]} their texts joined give `code`
 */
export function pieces(code, shell = false) {
  /** @type {{ kind: "c" | "s" | "k" | "", text: string }[]} */
  const out = [];
  let done = 0;
  for (const found of code.matchAll(shell ? SHELL : PYTHON)) {
    if (found.index > done) out.push({ kind: "", text: code.slice(done, found.index) });
    out.push({ kind: found[1] ? "c" : found[2] ? "s" : "k", text: found[0] });
    done = found.index + found[0].length;
  }
  if (done < code.length) out.push({ kind: "", text: code.slice(done) });
  return out;
}

const COMMAND =
  /^(?:[A-Z_]+=\S+ )*(?:dmesg|nvidia-smi|py-spy|python|torchrun|tocsin|tocsin-server|unset) -{0,2}[\w.]/;

/**
 * Return whether suggested code is a shell command and not Python.
 *
 * @param {string} code
 */
export const isCommand = (code) => COMMAND.test(code.replaceAll(/=<[^>]*>/g, "=x"));
