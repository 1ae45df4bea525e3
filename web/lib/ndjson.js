/** JSON values of which each is a line, read as they arrive. */

/**
 * Yield the value of each line of a response.
 *
 * @param {ReadableStream<Uint8Array>} body
 * @returns {AsyncGenerator<any>}
 */
export async function* jsonLines(body) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      const lines = (rest + decoder.decode(value, { stream: !done })).split("\n");
      rest = done ? "" : (lines.pop() ?? "");
      for (const line of lines) if (line) yield JSON.parse(line);
      if (done) return;
    }
  } finally {
    void reader.cancel().catch(() => {});
  }
}
