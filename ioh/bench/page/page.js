"use strict";
// Draws every canvas of a bench.
(() => {
  const { data, css, ms, base, axis, logTicks, make, each } = page;
  const columns = data.edges_ms.length + 1;

  // From blue (fast) over green and yellow to red (slow).
  const columnColor = (i, alpha = 1) => `hsl(${225 - (225 * i) / (columns - 1)} 70% 52% / ${alpha})`;
  const letterColor = (i) => css(data.letters[i][0]);
  const sum = (values) => values.reduce((a, b) => a + b, 0);
  const share = (hist, from, to) => {
    const whole = sum(hist);
    return whole ? sum(hist.slice(from, to)) / whole : 0;
  };

  // A cell of the card: its histogram above the ribbon of letters, with lines for mean and p95.
  const drawCell = (canvas, cell) => {
    const low = data.edges_ms[0] / 2, high = data.edges_ms[columns - 2] * 2;
    const edges = [low, ...data.edges_ms, high];
    const picture = {
      id: "picture",
      afterDatasetsDraw: ({ ctx, chartArea: area, scales: { x } }) => {
        const top = Math.max(...cell.hist, 1e-9), ribbon = 14, bottom = area.bottom - ribbon - 3;
        cell.hist.forEach((count, i) => {
          const height = (count / top) * (bottom - area.top - 2), left = x.getPixelForValue(edges[i]);
          ctx.fillStyle = columnColor(i);
          ctx.fillRect(left + 0.5, bottom - height, x.getPixelForValue(edges[i + 1]) - left - 1, height);
        });
        const bounds = [low, ...cell.bounds_ms, high];
        data.letters.forEach((letter, i) => {
          const left = x.getPixelForValue(Math.min(high, Math.max(low, bounds[i])));
          const right = x.getPixelForValue(Math.min(high, Math.max(low, bounds[i + 1])));
          if (right <= left) return;
          ctx.fillStyle = letterColor(i);
          ctx.globalAlpha = letter.endsWith("+") ? 1 : letter.endsWith("-") ? 0.65 : 0.82;
          ctx.fillRect(left, area.bottom - ribbon, right - left, ribbon);
          ctx.globalAlpha = 1;
          ctx.fillStyle = "#fff";
          ctx.font = "600 10px system-ui";
          ctx.textAlign = "center";
          if (right - left > 9 + 4 * letter.length) ctx.fillText(letter, (left + right) / 2, area.bottom - 3.5);
        });
        [[cell.mean_ms, "mean", []], [cell.p95_ms, "p95", [4, 3]]].forEach(([value, color, dash]) => {
          if (value === null) return;
          const at = x.getPixelForValue(Math.min(high, Math.max(low, value)));
          ctx.strokeStyle = css(color);
          ctx.lineWidth = 2;
          ctx.setLineDash(dash);
          ctx.beginPath();
          ctx.moveTo(at, area.top);
          ctx.lineTo(at, area.bottom);
          ctx.stroke();
          ctx.setLineDash([]);
        });
      },
    };
    make(canvas, {
      type: "scatter", data: { datasets: [{ data: [] }] }, plugins: [picture],
      options: { ...base(), scales: {
        x: axis({ type: "logarithmic", min: low, max: high, ticks: { ...logTicks, autoSkip: false }, grid: { display: false } }),
        y: { display: false, min: 0, max: 1 } } },
    });
  };

  const labels = (points) => points.map((point) => (point.ok ? point.label : `${point.label} ?`));
  const line = (points, field, color, extra) => ({
    type: "line", yAxisID: "y", label: field.slice(0, -3), data: points.map((point) => point[field]), borderColor: css(color),
    backgroundColor: css(color), borderWidth: 2, pointRadius: 4, spanGaps: true,
    pointBackgroundColor: points.map((point) => (point.ok ? css(color) : css("bg"))), ...extra,
  });

  const drawLog = (canvas, { points, axis: name }) => {
    const band = (label, color, from, to) => ({
      type: "bar", label, yAxisID: "yShare", stack: "share", order: 9, data: points.map((point) => share(point.hist, from, to)),
      backgroundColor: css(color) + "2e", barPercentage: 1, categoryPercentage: 1,
    });
    const ms1 = data.edges_ms.findIndex((edge) => edge >= 1) + 1, ms10 = data.edges_ms.findIndex((edge) => edge >= 10) + 1;
    const known = points.flatMap((point) => [point.mean_ms, point.max_ms]).filter((value) => value > 0);
    const low = 10 ** Math.floor(Math.log10(Math.min(0.1, ...known))), high = 10 ** Math.ceil(Math.log10(Math.max(20, ...known)));
    // The histogram of each test lies along its vertical line: thicker for more operations.
    const hists = {
      id: "hists",
      beforeDatasetsDraw: ({ ctx, scales: { x, y } }) => {
        const slot = (x.right - x.left) / points.length;
        points.forEach((point, at) => {
          const top = Math.max(...point.hist, 0);
          if (!top) return;
          point.hist.forEach((count, i) => {
            const upper = y.getPixelForValue(Math.min(high, i < columns - 1 ? data.edges_ms[i] : high));
            const lower = y.getPixelForValue(Math.min(high, Math.max(low, i ? data.edges_ms[i - 1] : low)));
            if (lower <= upper) return;
            const width = (count / top) * slot * 0.42;
            ctx.fillStyle = columnColor(i, 0.55);
            ctx.fillRect(x.getPixelForValue(at), upper + 0.5, width, lower - upper - 1);
          });
        });
        ctx.strokeStyle = css("soft");
        ctx.setLineDash([5, 4]);
        ctx.lineWidth = 1;
        ctx.beginPath();
        ctx.moveTo(x.left, y.getPixelForValue(10));
        ctx.lineTo(x.right, y.getPixelForValue(10));
        ctx.stroke();
        ctx.setLineDash([]);
      },
    };
    const options = base();
    options.plugins.legend = { display: true, labels: { color: css("ink"), boxWidth: 14, filter: (item) => !item.text.includes("ms") } };
    make(canvas, {
      data: { labels: labels(points), datasets: [
        line(points, "mean_ms", "mean", { order: 1 }),
        line(points, "p95_ms", "p95", { fill: { target: 0, above: css("p95") + "33" }, order: 2 }),
        line(points, "p99_ms", "p99", { fill: { target: 1, above: css("p99") + "2a" }, order: 3 }),
        line(points, "max_ms", "max", { borderDash: [3, 3], pointRadius: 3, order: 4 }),
        band("< 1 ms", "cache", 0, ms1), band("1 to 10 ms", "good", ms1, ms10), band("> 10 ms", "slow", ms10, columns),
      ] },
      options: { ...options, scales: {
        x: axis({ title: { display: true, text: name, color: css("soft") }, offset: true, grid: { display: false } }),
        y: axis({ type: "logarithmic", min: low, max: high, ticks: logTicks }),
        yShare: { display: false, min: 0, max: 1, stacked: true } } },
      plugins: [hists],
    });
  };

  // fiop.r's measure of scaling: 2^(10 · growth of latency / growth of load) / 1024; 1 is linear.
  const growth = (points) => points.map((point, i) => {
    const before = points[i - 1];
    if (!before || !before.mean_ms || !point.mean_ms) return null;
    const load = before.load && point.load ? point.load / before.load : 2;
    return { value: Math.min(2, 2 ** ((10 * (point.mean_ms / before.mean_ms)) / load) / 1024),
      color: point.mean_ms < before.mean_ms ? css("B") : point.rate < before.rate ? css("D") : css("D") + "66" };
  });

  const drawLinear = (canvas, { points, axis: name }) => {
    const bars = growth(points);
    const datasets = [line(points, "mean_ms", "mean", { order: 1 })];
    if (name === "users") {
      datasets.push({ type: "bar", label: "scaling", yAxisID: "yScale", order: 5, barPercentage: 0.5,
        data: bars.map((bar) => bar && bar.value), backgroundColor: bars.map((bar) => (bar ? bar.color : "transparent")) });
    }
    make(canvas, {
      data: { labels: labels(points), datasets },
      options: { ...base(), scales: {
        x: axis({ offset: true, grid: { display: false } }), y: axis({ beginAtZero: true, grace: "15%" }),
        yScale: { display: false, min: 0, max: 2 } } },
      plugins: [{ id: "values", afterDatasetsDraw: ({ ctx, scales: { x, y } }) => {
        ctx.fillStyle = css("ink");
        ctx.font = "11px system-ui";
        ctx.textAlign = "center";
        points.forEach((point, i) => {
          if (point.mean_ms !== null) ctx.fillText(ms(point.mean_ms), x.getPixelForValue(i), Math.max(y.top + 10, y.getPixelForValue(point.mean_ms) - 8));
        });
      } }],
    });
  };

  const drawRate = (canvas, { points }) => {
    const rate = (point) => point.rate ?? 0;
    const slices = [];
    for (let i = 0; i < columns; i += 1) {
      const values = points.map((point) => (sum(point.hist) ? rate(point) * share(point.hist, i, i + 1) : 0));
      if (values.some((value) => value > 0)) slices.push({ data: values, backgroundColor: columnColor(i), stack: "rate", barPercentage: 0.6 });
    }
    const plain = points.map((point) => (sum(point.hist) ? 0 : rate(point)));
    if (plain.some((value) => value > 0)) slices.push({ data: plain, backgroundColor: css("q"), stack: "rate", barPercentage: 0.6 });
    const options = base();
    options.plugins.tooltip.enabled = false;
    make(canvas, {
      type: "bar", data: { labels: labels(points), datasets: slices },
      options: { ...options, scales: { x: axis({ stacked: true, grid: { display: false } }), y: axis({ stacked: true, beginAtZero: true, grace: "12%" }) } },
      plugins: [{ id: "values", afterDatasetsDraw: ({ ctx, scales: { x, y } }) => {
        ctx.fillStyle = css("ink");
        ctx.font = "11px system-ui";
        ctx.textAlign = "center";
        points.forEach((point, i) => ctx.fillText(point.rate === null ? "-" : ms(point.rate), x.getPixelForValue(i), y.getPixelForValue(rate(point)) - 5));
      } }],
    });
  };

  const drawStack = (canvas) => make(canvas, {
    type: "bar",
    data: { labels: data.stack.map((layer) => `${layer.name} ${layer.op}`),
      datasets: [{ data: data.stack.map((layer) => layer.mean_ms), backgroundColor: css("B"), barPercentage: 0.7 }] },
    options: { ...base(), indexAxis: "y", scales: { x: axis({ beginAtZero: true, title: { display: true, text: "mean ms", color: css("soft") } }), y: axis({ grid: { display: false } }) } },
  });

  page.drawBy(() => {
    each("canvas[data-cell]", (canvas) => drawCell(canvas, data.cells[canvas.dataset.cell]));
    const panels = { log: drawLog, linear: drawLinear, rate: drawRate };
    each("canvas[data-family]", (canvas) => panels[canvas.dataset.panel](canvas, data.families[canvas.dataset.family]));
    each("canvas[data-stack]", drawStack);
    each("i[data-column]", (key) => { key.style.background = columnColor(Number(key.dataset.column)); });
  });
})();
