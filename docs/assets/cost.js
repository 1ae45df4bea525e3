// The calculator of explanation/cost: shown only if this script runs; the page has the figures as tables.

const SECONDS_OF_HOUR = 3600;
const OWN_NORM_SHARE = 0.01; // the hook computes its own gradient norm so seldom that it adds at most this

/**
 * Estimate the cost of tocsin.
 * @param {{machines: object, shared: object}} figures the measured constants
 * @param {{machine: string, loop: string, step: number, processes: number, clips: boolean, logs: number,
 *   series: number, hours: number}} training step in ms
 * @returns {{us: number, percent: number, normUs: number, bytesPerS: number, bytesPerDay: number,
 *   serverPercent: number}}
 */
function estimate(figures, training) {
  const host = figures.machines[training.machine][training.loop];
  const shared = figures.shared;
  const normUs = training.clips ? 0 : training.step * 1000 * OWN_NORM_SHARE;
  const us = host.hook + training.logs * host.log;
  const steps = (1000 / (training.step + (us + normUs) / 1000)) * training.processes;
  const values = steps * training.series;
  return {
    us,
    percent: us / (training.step * 10),
    normUs,
    bytesPerS: training.processes * shared.connection + steps * shared.step_bytes + values * shared.value_bytes,
    bytesPerDay: values * shared.sealed * training.hours * SECONDS_OF_HOUR,
    serverPercent: steps * shared.server,
  };
}

function digits(value) {
  return value >= 100 ? Math.round(value).toLocaleString("en-US") : String(Number(value.toPrecision(2)));
}

function bytes(value) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  const unit = Math.min(units.length - 1, Math.max(0, Math.floor(Math.log10(value || 1) / 3)));
  return `${digits(value / 1000 ** unit)} ${units[unit]}`;
}

function texts(found) {
  const norm = found.normUs > 0 ? `, and at most ${digits(found.normUs)} us (1 %) for the gradient norm` : "";
  return {
    added: `${digits(found.us)} us, ${digits(found.percent)} % of the step${norm}`,
    network: `${bytes(found.bytesPerS)}/s`,
    disk: bytes(found.bytesPerDay),
    server: `${digits(found.serverPercent)} % of a core`,
  };
}

function show() {
  const form = document.getElementById("cost");
  if (!form) return;
  const figures = JSON.parse(document.getElementById("cost-figures").textContent);
  const update = () => {
    const given = Object.fromEntries(new FormData(form));
    const training = { ...given, clips: given.clips === "1" };
    for (const name of ["step", "processes", "logs", "series", "hours"]) training[name] = Number(given[name]);
    const found = form.checkValidity() && training.step > 0 ? texts(estimate(figures, training)) : {};
    for (const output of form.querySelectorAll("output")) output.value = found[output.name] ?? "-";
  };
  form.addEventListener("input", update);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = false;
  update();
}

if (typeof document !== "undefined") show();
