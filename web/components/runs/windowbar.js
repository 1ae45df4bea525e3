/** The visible steps of a run page as text, and the buttons that follow the newest steps or show all. */

import { el, say } from "../../browser/dom.js";
import { int } from "../../lib/format.js";

export class WindowBar {
  /** @param {{ follow: () => void, reset: () => void }} acts */
  constructor({ follow, reset }) {
    this.text = el("span.muted.grow.clip.wide-only");
    this.follow = el(
      "button.btn",
      { type: "button", "aria-pressed": "false", onclick: () => follow() },
      "Follow",
    );
    this.reset = el(
      "button.btn",
      { type: "button", disabled: true, onclick: () => reset() },
      "Reset ",
      el("kbd.wide-only", {}, "R"),
    );
  }

  /**
   * `last` is the newest step, null before the first; `following` how many steps are followed, null for none;
   * `size` how many Follow would show.
   *
   * @param {{ range: [number, number], last: number | null, zoomed: boolean, following: number | null,
   *   size: number }} window
   */
  show({ range: [from, to], last, zoomed, following, size }) {
    this.reset.toggleAttribute("disabled", !zoomed && following === null);
    this.follow.setAttribute("aria-pressed", String(following !== null));
    say(this.follow, following === null ? `Follow ${int(size)}` : `Following ${int(following)}`);
    say(
      this.text,
      last === null ? "" : `steps ${int(Math.max(0, Math.ceil(from)))} – ${int(Math.min(to, last))}`,
    );
  }
}
