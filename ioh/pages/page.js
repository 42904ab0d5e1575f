"use strict";
// Shared by all pages: the data from the JSON in #data, the style of charts, and redrawing when the
// colour scheme changes or the page is printed.
const page = (() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const charts = [];

  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const ms = (value) => (value === null ? "-" : value >= 10 ? value.toFixed(0) : value >= 1 ? value.toFixed(1) : value.toPrecision(2));
  const drawn = {
    id: "drawn",
    afterDraw: (chart) => { chart.canvas.dataset.drawn = "yes"; },
  };
  const base = () => ({
    animation: false, responsive: true, maintainAspectRatio: false,
    color: css("ink"), font: { family: "system-ui, sans-serif" },
    plugins: { legend: { display: false }, tooltip: { enabled: true } },
  });
  const axis = (extra) => ({
    grid: { color: css("grid") }, border: { color: css("line") }, ticks: { color: css("soft"), ...(extra.ticks || {}) },
    ...Object.fromEntries(Object.entries(extra).filter(([key]) => key !== "ticks")),
  });
  const logTicks = { callback: (value) => (Number.isInteger(Math.round(Math.log10(value) * 1e6) / 1e6) ? `${value}` : ""), maxRotation: 0 };
  const make = (canvas, config) => charts.push(new Chart(canvas, { ...config, plugins: [...(config.plugins || []), drawn] }));
  const each = (selector, draw) => document.querySelectorAll(selector).forEach(draw);

  const drawBy = (drawAll) => {
    const again = () => {
      while (charts.length) charts.pop().destroy();
      drawAll();
    };
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
    // When printing, media queries already match paper here, so the colours are the light ones.
    addEventListener("beforeprint", again);
    addEventListener("afterprint", again);
    again();
  };
  return { data, css, ms, base, axis, logTicks, make, each, drawBy };
})();
