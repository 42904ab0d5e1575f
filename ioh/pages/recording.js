"use strict";
// Draws a span of a recording: time axes count seconds since the midnight before it.
(() => {
  const { data, css, base, axis, logTicks, make, each } = page;
  const { columns, edges_ms: edges } = data;
  const begin = Math.min(...columns.map(([end, length]) => end - length)), end = Math.max(...columns.map(([at]) => at));
  const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200];
  const step = STEPS.find((seconds) => (end - begin) / seconds <= 9) || 86400 * Math.ceil((end - begin) / 86400 / 9);
  const two = (value) => String(Math.floor(value)).padStart(2, "0");
  const clock = (at, s = ((at % 86400) + 86400) % 86400) => `${two(s / 3600)}:${two((s / 60) % 60)}${step < 60 ? `:${two(s % 60)}` : ""}`;
  const time = () => axis({ type: "linear", min: begin, max: end, grid: { display: false },
    ticks: { stepSize: step, includeBounds: false, callback: (s) => clock(s), maxRotation: 0 } });
  const hue = (i, of) => `hsl(${(205 + (360 * i) / Math.max(of, 1)) % 360} 62% var(--lines))`.replace("var(--lines)", css("lines"));

  // Marks as numbered dashed verticals, findings as bars along the top.
  const moments = {
    id: "moments",
    afterDatasetsDraw: ({ ctx, chartArea: area, scales: { x } }) => {
      const at = (s) => x.getPixelForValue(Math.min(end, Math.max(begin, s)));
      data.findings.forEach(([from, to, severity]) => {
        ctx.fillStyle = css({ critical: "D", warning: "C" }[severity] || "B");
        ctx.fillRect(at(from), area.top, Math.max(2, at(to) - at(from)), 4);
      });
      ctx.strokeStyle = ctx.fillStyle = css("soft");
      ctx.font = "10px system-ui";
      ctx.textAlign = "left";
      ctx.setLineDash([3, 4]);
      data.marks.forEach((s, i) => {
        if (s === null || s < begin || s > end) return;
        ctx.beginPath();
        ctx.moveTo(at(s), area.top);
        ctx.lineTo(at(s), area.bottom);
        ctx.stroke();
        ctx.fillText(`${i + 1}`, at(s) + 3, area.top + 14);
      });
      ctx.setLineDash([]);
    },
  };
  const points = (values) => values.map((y, i) => ({ x: columns[i][0] - columns[i][1] / 2, y }));
  const line = (label, values, color, extra) => ({
    label, data: points(values), borderColor: color, backgroundColor: color, borderWidth: 1.5, pointRadius: columns.length > 1 ? 0 : 3, ...extra,
  });

  const drawLines = (canvas) => {
    const field = canvas.dataset.lines, isLog = field === "ops_per_s";
    const shown = data.lines.filter((each) => each[field].some((value) => value > 0));
    const options = base();
    options.plugins.legend = { display: true, labels: { color: css("ink"), boxWidth: 12 } };
    options.plugins.tooltip.callbacks = { title: ([item]) => clock(item.parsed.x) };
    const values = (each) => each[field].map((value) => (isLog && value === 0 ? null : value));
    make(canvas, {
      type: "line", plugins: [moments],
      data: { datasets: shown.map((each, i) => line(each.label, values(each), hue(i, shown.length))) },
      options: { ...options, scales: { x: time(), y: axis(isLog ? { type: "logarithmic", ticks: logTicks } : { beginAtZero: true }) } },
    });
  };

  const drawHeat = (canvas) => {
    const { hists, mean_ms: mean, p99_ms: p99 } = data.heats[canvas.dataset.heat];
    const used = hists.filter((hist) => hist.length);
    const below = (bucket) => (bucket ? edges[bucket - 1] : edges[0] / 2);
    const above = (bucket) => (bucket < edges.length ? edges[bucket] : edges[edges.length - 1] * 2);
    // /proc has the mean only.
    const known = mean.filter((value) => value > 0);
    const low = used.length ? below(Math.min(...used.map(([from]) => from))) : Math.min(...known) / 2;
    const high = used.length ? above(Math.max(...used.map((hist) => hist[0] + hist.length - 2))) : Math.max(...known) * 2;
    // Counts a second, since columns differ in length.
    const rate = (count, i) => count / columns[i][1];
    const rates = hists.flatMap((hist, i) => hist.slice(1).filter((count) => count > 0).map((count) => rate(count, i)));
    const most = Math.log(Math.max(...rates)), least = Math.log(Math.min(...rates));
    const [pale, deep] = [Number(css("heat-few")), Number(css("heat-many"))];
    const heat = {
      id: "heat",
      beforeDatasetsDraw: ({ ctx, scales: { x, y } }) => hists.forEach((hist, i) => {
        const left = x.getPixelForValue(columns[i][0] - columns[i][1]), right = x.getPixelForValue(columns[i][0]);
        hist.slice(1).forEach((count, at) => {
          if (!(count > 0)) return;
          const level = most > least ? (Math.log(rate(count, i)) - least) / (most - least) : 1;
          const upper = y.getPixelForValue(above(hist[0] + at)), lower = y.getPixelForValue(below(hist[0] + at));
          ctx.fillStyle = `hsl(212 72% ${pale + level * (deep - pale)}%)`;
          ctx.fillRect(left, upper, Math.max(1, right - left + 0.5), lower - upper - 0.5);
        });
      }),
    };
    const options = base();
    options.plugins.tooltip.callbacks = { title: ([item]) => clock(item.parsed.x) };
    make(canvas, {
      type: "line", plugins: [heat, moments],
      data: { datasets: [line("mean", mean, css("mean-line")), line("p99", p99, css("p99-line"), { borderDash: [4, 3] })] },
      options: { ...options, scales: { x: time(), y: axis({ type: "logarithmic", min: low, max: high, ticks: logTicks }) } },
    });
  };

  const drawPaths = (canvas) => {
    const names = [...new Set(data.paths.flatMap((path) => path.steps.map(([name]) => name)))];
    const options = base();
    options.plugins.legend = { display: true, labels: { color: css("ink"), boxWidth: 12 } };
    make(canvas, {
      type: "bar",
      data: { labels: data.paths.map((path) => path.label), datasets: names.map((name, i) => ({
        label: name, data: data.paths.map((path) => (path.steps.find(([other]) => other === name) || [])[1] ?? null), backgroundColor: hue(i, names.length), barPercentage: 0.8,
      })) },
      options: { ...options, indexAxis: "y", scales: {
        x: axis({ stacked: true, title: { display: true, text: "ms of the mean operation", color: css("soft") } }), y: axis({ stacked: true, grid: { display: false } }) } },
    });
  };

  page.drawBy(() => {
    each("canvas[data-paths]", drawPaths);
    each("canvas[data-lines]", drawLines);
    each("canvas[data-heat]", drawHeat);
  });
})();
