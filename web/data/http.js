/** HTTP requests to the server, and their errors. */

export const JSON_HEADERS = { "content-type": "application/json", accept: "application/json" };

/** The problem document of a failed request: subject, expected, got (RFC 9457). */
export class ApiError extends Error {
  /**
   * @param {number} status 0 if there was no response
   * @param {{ title?: string, detail?: string, subject?: unknown, expected?: unknown, got?: unknown }}
   *   problem
   */
  constructor(status, problem) {
    super(problem.detail || problem.title || `The server responded with ${status}.`);
    this.name = "ApiError";
    this.status = status;
    this.problem = problem;
  }
}

/**
 * Return the query string of the parameters that are set. A list repeats its key.
 *
 * @param {Record<string, string | number | string[] | null | undefined>} params
 */
export function query(params) {
  const pairs = Object.entries(params).flatMap(([key, value]) =>
    [value ?? ""]
      .flat()
      .filter((each) => each !== "")
      .map((each) => [key, String(each)]),
  );
  return pairs.length ? `?${new URLSearchParams(pairs)}` : "";
}

/** @param {Response} response */
async function problem(response) {
  try {
    const body = await response.json();
    return body && typeof body === "object" ? body : {};
  } catch {
    return { title: `${response.status} ${response.statusText}`.trim() };
  }
}

/** The requests. */
export class Http {
  /**
   * @param {(input: string, init?: RequestInit) => Promise<Response>} fetch
   * @param {string} base
   */
  constructor(fetch, base = "/api/v1") {
    this.fetch = fetch;
    this.base = base;
  }

  /**
   * @param {string} path
   * @param {RequestInit} [init]
   * @returns {Promise<any>} throws ApiError; AbortError is passed on
   */
  async ask(path, init) {
    const response = await this.answer(path, init);
    return response.status === 204 ? null : response.json();
  }

  /**
   * Send JSON.
   *
   * @param {string} method
   * @param {string} path
   * @param {unknown} [body]
   * @param {RequestInit} [init]
   * @returns {Promise<any>} throws ApiError; AbortError is passed on
   */
  send(method, path, body, init) {
    return this.ask(path, { method, body: JSON.stringify(body), headers: JSON_HEADERS, ...init });
  }

  /**
   * @param {string} path
   * @param {RequestInit} [init]
   */
  async answer(path, init) {
    let response;
    try {
      response = await this.fetch(this.base + path, { headers: { accept: "application/json" }, ...init });
    } catch (error) {
      if (/** @type {Error} */ (error).name === "AbortError") throw error;
      throw new ApiError(0, { title: "No response", detail: "The server does not respond." });
    }
    if (!response.ok) throw new ApiError(response.status, await problem(response));
    return response;
  }
}
