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
    const key = incident ? JSON.stringify([incident.id, incident.state, incident.alerts.length]) : "";
    if (key === this.#key) return;
    const same = incident !== null && this.node.dataset.incident === incident.id;
    this.#key = key;
    if (!same) this.node.hidden = true;
    this.node.dataset.incident = incident?.id ?? "";
    if (!incident?.alerts[0].incident) return;
    try {
      const { resume } = await this.app.alerting.incident(incident.id);
      if (this.#key !== key) return;
      this.node.hidden = resume.path === null;
      if (resume.path === null) return refill(this.node);
      refill(
        this.node,
        el("h3", {}, "Last good checkpoint"),
        el("p.soft", {}, resume.text),
        copyButton("Copy path", () => String(resume.path)),
      );
    } catch {
      this.#key = ""; // asked again with the next change
    }
  }
}
