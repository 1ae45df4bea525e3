/** Where to resume: the last good checkpoint before an incident, asked again when the incident changes. */

import { el, refill } from "../../browser/dom.js";
import { copyButton } from "../code.js";

export class ResumeFrom {
  #key = "";

  /** @param {Pick<App, "alerting">} app */
  constructor(app) {
    this.app = app;
    this.node = el("section", { hidden: true, "aria-label": "Last good checkpoint" });
  }

  /** @param {import("../../lib/alerts/incidents.js").Incident | null} incident */
  async show(incident) {
    const key = incident ? keyOf(incident) : "";
    if (key === this.#key) return;
    const same = incident !== null && this.node.dataset.incident === incident.id;
    this.#key = key;
    if (!same) this.node.hidden = true;
    this.node.dataset.incident = incident?.id ?? "";
    if (!incident?.alerts[0].incident) return;
    try {
      const { resume } = await this.app.alerting.incident(incident.id);
      if (this.#key === key) this.#draw(resume);
    } catch {
      if (this.#key === key) this.#key = ""; // asked again with the next change
    }
  }

  /**
   * Show what was loaded with an incident, so that it is not asked for.
   *
   * @param {import("../../lib/alerts/incidents.js").Incident} incident
   * @param {IncidentDetail["resume"]} resume
   */
  put(incident, resume) {
    this.#key = keyOf(incident);
    this.node.dataset.incident = incident.id;
    this.#draw(resume);
  }

  /** @param {IncidentDetail["resume"]} resume */
  #draw({ path, text }) {
    this.node.hidden = path === null;
    if (path === null) return refill(this.node);
    refill(
      this.node,
      el("h3", {}, "Last good checkpoint"),
      el("p.soft", {}, text),
      copyButton("Copy path", () => path),
    );
  }
}

/** @param {import("../../lib/alerts/incidents.js").Incident} incident */
const keyOf = ({ id, state, alerts }) => JSON.stringify([id, state, alerts.length]);
