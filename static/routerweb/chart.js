// Draws every <canvas data-rw-chart="ID"> from the JSON script tag ID, in the page's colours; again when light turns dark, and when
// HTMX brings new ones in.
"use strict";

(() => {
  const drawn = new Map();
  const dashes = [[], [6, 3], [2, 2], [8, 3, 2, 3]]; // lines differ by their dashes too, not by colour alone
  // In the legend of a line chart each line is drawn as it is, with its dashes.
  const asLines = {
    pointStyle: "line", pointStyleWidth: 28,
    generateLabels: (chart) => Chart.defaults.plugins.legend.labels.generateLabels(chart).map((item) => (
      { ...item, lineWidth: 2, lineDash: chart.data.datasets[item.datasetIndex].borderDash })),
  };
  const token = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function draw(canvas) {
    const source = document.getElementById(canvas.dataset.rwChart);
    if (!source || typeof Chart === "undefined") return;
    drawn.get(canvas)?.destroy();
    const content = JSON.parse(source.textContent);
    const ink = token("--rw-text-soft"), line = token("--rw-line");
    const colours = [token("--rw-accent"), token("--rw-warn"), token("--rw-busy"), token("--rw-good"), token("--rw-bad")];
    // Where points differ by their shape, the legend shows the shapes.
    const shapes = (content.datasets || []).some((set) => set.pointStyle);
    const lines = (content.type || "line") === "line";
    const flat = (content.datasets || []).every((set) => set.data.every((point) => !(point?.y ?? point)));
    // Bars of counts have no halves.
    const counts = content.type === "bar" && content.datasets.every((set) => set.data.every((value) => Number.isInteger(value ?? 0)));
    const axis = (title) => ({ title: { display: Boolean(title), text: title, color: ink }, ticks: { color: ink, maxRotation: 0, autoSkipPadding: 12, ...(counts ? { precision: 0 } : {}) }, grid: { color: line }, border: { color: line } });
    const chart = new Chart(canvas, {
      type: content.type || "line",
      data: {
        labels: content.labels,
        // `colour`: what keeps its colour whatever else is drawn, such as a run, says its number.
        datasets: (content.datasets || []).map(({ colour, ...set }, place) => [set, colour ?? place]).map(([set, i]) => ({
          borderColor: colours[i % colours.length], backgroundColor: colours[i % colours.length], borderWidth: content.type === "bar" ? 0 : 2,
          borderDash: dashes[i % dashes.length], pointRadius: content.type === "scatter" ? 3 : 0, pointHitRadius: 12, spanGaps: true, tension: 0, ...set,
        })),
      },
      options: {
        animation: false, responsive: true, maintainAspectRatio: false, interaction: { mode: "index", intersect: false },
        plugins: { legend: { display: (content.datasets || []).length > 1, position: "bottom", labels: { color: ink, usePointStyle: shapes || lines, boxHeight: 7, ...(lines && !shapes ? asLines : {}) } } },
        // Nothing but zeros lies on the axis, not in the middle of minus one to one.
        scales: { x: axis(content.x), y: flat ? { ...axis(content.y), min: 0, max: 1 } : axis(content.y) },
        ...(content.options || {}),
      },
    });
    drawn.set(canvas, chart);
  }

  const all = () => {
    for (const [canvas, chart] of drawn) if (!canvas.isConnected) { chart.destroy(); drawn.delete(canvas); }
    document.querySelectorAll("canvas[data-rw-chart]").forEach(draw);
  };
  document.addEventListener("DOMContentLoaded", () => {
    all();
    new MutationObserver(all).observe(document.documentElement, { attributes: true, attributeFilter: ["class"] });
  });
  document.addEventListener("htmx:afterSettle", (event) => event.target.querySelectorAll?.("canvas[data-rw-chart]").forEach(draw));
})();
