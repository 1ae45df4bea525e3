// Draws the charts of a report: those in sight, in the viewer's own colours, on one step axis.
"use strict";
(() => {
  const figures = JSON.parse(document.getElementById("figures").textContent), charts = [...document.querySelectorAll(".chart")], drawn = new Set();
  const whole = figures[0] ? figures[0].layout.xaxis.range : [0, 1];
  let range = [...whole], here = null, print = false;

  // The colour of a token as the page shows it now; on paper the light one.
  function colour(token, share) {
    const probe = document.createElement("i");
    probe.style.color = `var(${token})`;
    if (print) probe.style.colorScheme = "light";
    document.body.append(probe);
    const found = getComputedStyle(probe).color.match(/[\d.]+/g).slice(0, 3).join(",");
    probe.remove();
    return `rgba(${found},${share === undefined ? 1 : share})`;
  }

  function painted(trace) {
    const meta = trace.meta || {}, out = { ...trace };
    if (meta.line) out.line = { ...trace.line, color: colour(meta.line) };
    if (meta.fill) Object.assign(out, { fillcolor: colour(meta.fill, meta.share), line: { ...trace.line, color: colour(meta.fill, meta.share + 0.2) } });
    if (meta.marker) { const ink = colour(meta.marker); out.marker = { ...trace.marker, color: ink, line: { ...(trace.marker.line || {}), color: ink } }; }
    return out;
  }

  function layoutOf(layout) {
    const ink = colour("--ink-3"), grid = colour("--grid"), axis = { color: ink, gridcolor: grid };
    const shapes = (layout.shapes || []).map((shape) => (shape.type === "rect" ? { ...shape, fillcolor: colour(shape.name, 0.08) } : { ...shape, line: { ...shape.line, color: colour(shape.name) } }));
    if (here !== null) shapes.push({ type: "line", xref: "x", yref: "paper", x0: here, x1: here, y0: 0, y1: 1, name: "here", line: { width: 1, color: colour("--ink") } });
    return { ...layout, font: { ...layout.font, color: ink }, xaxis: { ...layout.xaxis, ...axis, range: [...range] }, yaxis: { ...layout.yaxis, ...axis }, shapes, hoverlabel: { font: { color: colour("--ground") }, bgcolor: colour("--ink") } };
  }

  function draw(div) {
    const figure = figures[Number(div.dataset.figure)], fresh = !drawn.has(div);
    const done = Plotly.react(div, figure.data.map(painted), layoutOf(figure.layout), { responsive: true, displaylogo: false, doubleClick: false, modeBarButtons: [["toImage"]] });
    if (!fresh) return;
    drawn.add(div);
    done.then(() => {
      div.on("plotly_relayout", (change) => { const a = change["xaxis.range[0]"], b = change["xaxis.range[1]"]; if (typeof a === "number" && b > a) zoom([a, b]); });
      div.on("plotly_doubleclick", () => zoom(whole));
    });
  }

  function zoom(next) {
    if (next[0] === range[0] && next[1] === range[1]) return;
    range = [...next];
    drawn.forEach(draw);
  }

  function go(step) {
    here = step;
    if (step < range[0] || step > range[1]) range = [...whole];
    drawn.forEach(draw);
    document.getElementById("here").textContent = `line at step ${step.toLocaleString("en").replaceAll(",", "\u202f")}`;
    if (charts[0]) charts[0].parentElement.scrollIntoView({ block: "nearest" });
  }

  const watcher = new IntersectionObserver((entries) => entries.forEach((entry) => { if (entry.isIntersecting) { watcher.unobserve(entry.target); draw(entry.target); } }), { rootMargin: "400px" });
  charts.forEach((div) => watcher.observe(div));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawn.forEach(draw));
  addEventListener("beforeprint", () => { print = true; document.querySelectorAll("details").forEach((each) => { each.open = true; }); charts.forEach(draw); });
  addEventListener("afterprint", () => { print = false; charts.forEach(draw); });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button && button.dataset.step) go(Number(button.dataset.step));
    if (button && button.id === "reset") { here = null; range = [...whole]; document.getElementById("here").textContent = ""; drawn.forEach(draw); }
  });
})();
