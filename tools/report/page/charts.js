/* charts.js: charts of Chart.js in panels, each with its figures as a table beside it: curves over steps, time or tokens, bars,
   points. All curves share one range of their axis, which a drag over any of them chooses. */

function setUpCharts() {
  Chart.defaults.animation = false;
  Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
  Chart.defaults.maintainAspectRatio = false;
  Chart.defaults.elements.point.radius = 0;
  Chart.defaults.elements.point.hitRadius = 6;
  Chart.defaults.elements.line.borderWidth = 1.8;
  Object.assign(state, { smooth: 0, over: "step", range: [null, null], hidden: {} });
}

/* config() gives a chart for Chart.js, or a sentence; figures() {head, rows, label} for the table. */
function panel(key, title, config, figures, ...controls) {
  const canvas = el("canvas", { role: "img" }), plot = el("div", { class: "plot" }, canvas), rest = el("div");
  const button = el("button", { type: "button", class: "end", "data-key": key + ".table", "aria-label": "Table of " + title, onclick: () => { state[key + ".table"] = !state[key + ".table"]; node.redraw(); } }, "Table");
  const node = el("figure", { class: "panel", id: "panel." + key }, el("figcaption", {}, el("h4", {}, title), controls, button), plot, rest);
  let chart = null;
  node.dispose = () => { chart?.destroy(); chart = null; };
  node.chart = () => chart;
  node.redraw = () => {
    const asTable = !!state[key + ".table"], made = config();
    const words = typeof made === "string", f = asTable && !words && figures();
    button.setAttribute("aria-pressed", asTable);
    button.hidden = words;
    plot.hidden = words || asTable;
    rest.replaceChildren(...[words && sentence(made), f && table(key + ".figures", title + ", figures", f.head, f.rows), !words && made.note && el("p", { class: "note" }, made.note)].filter(Boolean));
    if (plot.hidden) return node.dispose();
    if (made.height) plot.style.height = made.height + "px";
    canvas.setAttribute("aria-label", `${title}: a chart; the button Table shows its figures`);
    show(made);
  };
  function show({ type, data, options }) {
    if (!chart) chart = new Chart(canvas, { type, data, options });
    else {
      Object.assign(chart, { data, options });
      chart.update("none");
    }
  }
  drawn.add(node);
  return node;
}

function axis(text, format, more) {
  const quiet = colour("muted");
  return { title: { display: !!text, text, color: quiet }, grid: { color: colour("grid"), borderColor: colour("line") }, ticks: { color: quiet, maxRotation: 0, autoSkipPadding: 12, callback: format && ((v, _, ticks) => format(v, largest(ticks.map((t) => t.value)))) }, ...more };
}

/* Options that all charts share; datasets with `quiet` are in no legend and no tooltip. */
function looks(x, y, label, title) {
  return {
    interaction: { mode: "nearest", axis: "x", intersect: false }, normalized: true, scales: { x, y },
    plugins: {
      legend: { position: "bottom", onClick: null, labels: { color: colour("text"), boxWidth: 22, boxHeight: 2, filter: (item, all) => !all.datasets[item.datasetIndex].quiet } },
      tooltip: { filter: (item) => !item.dataset.quiet, callbacks: { label, title } },
    },
  };
}

/* --- Curves over steps, time or tokens --- */

const runs = () => data.runs;
const visible = () => runs().filter((run) => !state.hidden[run.name]);
const styleOf = (run) => runs().indexOf(run);
const dashes = [[], [7, 3], [2, 2], [9, 3, 2, 3]];

/* What curves run over: the member of a run that has it beside `step`, and the words and numbers of the axis. */
const OVER = {
  step: { of: "step", title: "step", unit: "Steps", text: (v) => plain(v) },
  time: { of: "elapsed", title: "time since the first step", unit: "Seconds", text: lasting },
  tokens: { of: "tokens", title: "tokens", unit: "Tokens", text: kilo },
};
const over = () => OVER[state.over];

/* Where steps of a run are on the axis; null: the run does not say. */
function placed(run, steps) {
  const x = run[over().of];
  let i = 0;
  if (state.over === "step") return steps;
  if (!x?.length) return null;
  return steps.map((step) => {
    while (i < run.step.length - 1 && run.step[i] < step) i++;
    const part = i && step < run.step[i] ? (run.step[i] - step) / (run.step[i] - run.step[i - 1]) : 0;
    return x[i] - (part && part * (x[i] - x[i - 1]));
  });
}

/* A metric of a run: {unit, step, value, min, max}; null: the run has it not. */
function metric(run, name) {
  const s = run.series?.[name], p = run.points?.[name];
  return s ? { unit: s.unit, step: run.step, value: s.mean, min: s.min, max: s.max } : p || null;
}

function metricNames() {
  const names = new Set(runs().flatMap((run) => [...Object.keys(run.series || {}), ...Object.keys(run.points || {})]));
  return [...names].sort();
}

/* Exponential mean, without the bias of its begin. */
function smoothed(values, by) {
  let mean = 0, weight = 0;
  return values.map((v) => {
    if (!is(v)) return v;
    mean = by * mean + (1 - by) * v;
    weight = by * weight + 1 - by;
    return mean / weight;
  });
}

const xy = (places, values) => places.map((x, i) => ({ x, y: values[i] ?? NaN }));

/* A curve, with the band of its buckets below, and, where it is smoothed, its values in a faint line. */
function curve({ m, x, label, ink, more = {} }) {
  const line = { label, borderColor: ink, backgroundColor: ink, parsing: false, format: more.format, ...more };
  const quiet = { parsing: false, quiet: true, borderColor: "transparent", backgroundColor: ink + "30" };
  const few = m.step.length < 40 ? { pointRadius: 1.6 + (more.borderWidth ?? 1.8) / 2 } : {};
  const smooth = more.exact ? 0 : state.smooth;
  const out = [{ ...line, ...few, data: xy(x, smooth ? smoothed(m.value, smooth) : m.value) }];
  if (m.min) out.push({ ...quiet, data: xy(x, m.max), fill: "+1" }, { ...quiet, data: xy(x, m.min) });
  else if (smooth) out.push({ ...quiet, data: xy(x, m.value), borderColor: ink + "48", borderWidth: 1 });
  return out;
}

function overAxis() {
  const [min, max] = range(), x = axis(over().title, over().text, { type: "linear", min, max }), [unit] = lengthUnit(max);
  if (state.over === "time") x.ticks.stepSize = unit * roundStep((max - min) / unit / 6, 10) || undefined;
  return x;
}

/* Begin and end of all runs on the axis. */
function extent() {
  const all = runs().filter((r) => r.steps);
  if (state.over !== "step") return [0, largest(all.map((r) => last(r[over().of] || []))) || 1];
  return all.length ? [Math.min(...all.map((r) => r.steps.first)), Math.max(...all.map((r) => r.steps.last))] : [0, 1];
}

/* A panel over the axis. curves() gives [{m, label, ink, more, name, run}, ...]; draw it as they are, or as `options` says. */
function steps(key, title, curves, { log, fraction, stack, empty }, ...controls) {
  const lines = () => curves().map((l) => ({ ...l, x: placed(l.run || current(), l.m.step) })).filter((l) => l.x);
  const config = () => {
    const all = lines();
    if (!all.length) return empty;
    const format = (v, like) => shown(all[0].name, all[0].m.unit, v, log?.() ? v : like);
    const y = axis("", all[0].m.unit === "tokens/s" ? kilo : format, { type: log?.() ? "logarithmic" : "linear", stacked: !!stack, ...(stack ? { min: 0, max: fraction?.() ? 1 : undefined } : {}) });
    const options = looks(overAxis(), y, (item) => `${item.dataset.label}: ${format(stack ? item.raw.y : item.parsed.y)}`, (items) => items.length ? `${over().title} ${over().text(items[0].parsed.x)}` : "");
    if (stack) options.plugins.legend.labels.boxHeight = 10;
    options.plugins.legend.display = stack || new Set(all.map((l) => l.label)).size > 1 && new Set(all.map((l) => l.run)).size === 1;
    const sets = all.map((l, i) => stack ? [band(l, i)] : curve(l));
    return { type: "line", data: { datasets: [...sets.map((x) => x[0]), ...sets.flatMap((x) => x.slice(1))] }, options };
  };
  const node = panel(key, title, config, () => stepFigures(lines()), ...controls);
  node.follows = true;
  dragRange(node);
  return node;
}

const band = ({ m, x, label, ink }, i) => ({ label, data: xy(x, m.value), parsing: false, borderColor: ink, backgroundColor: ink + "b0", borderWidth: 1, fill: i ? "-1" : "origin" });

/* The figures of curves, step by step, as they are in the data. */
function stepFigures(lines) {
  const rows = new Map(), [from, to] = range(), width = lines.map(({ m }) => m.min ? 3 : 1);
  let at = 0;
  lines.forEach(({ m, x, name }, i) => {
    m.step.forEach((step, k) => {
      if (x[k] < from || x[k] > to) return;
      if (!rows.has(step)) rows.set(step, Array(sum(width)).fill(""));
      const values = m.min ? [m.value[k], m.min[k], m.max[k]] : [m.value[k]];
      values.forEach((v, j) => { rows.get(step)[at + j] = as((number, like) => shown(name, m.unit, number, like), v); });
    });
    at += width[i];
  });
  const head = lines.flatMap(({ m, label }) => m.min ? [label + ", mean", "least", "largest"] : [label]);
  return { head: ["step", ...head], rows: [...rows].sort((a, b) => a[0] - b[0]).map(([step, cells]) => [String(step), ...cells]) };
}

/* A metric of each run that is shown; several names are told apart by their lines. The line of a later run is above and
   thinner, so that equal ones are all seen. */
function overlay(names) {
  const chosen = visible(), above = (run) => chosen.length - 1 - chosen.indexOf(run);
  const width = (run) => chosen.length > 1 ? 1.2 + above(run) * Math.min(1.4, 3 / (chosen.length - 1)) : 1.8;
  return names.flatMap((name, n) => chosen.map((run) => ({ run, name, m: metric(run, name) })).filter((l) => l.m).map((l) => ({
    ...l, ink: colour(palette(names.length > 1 && chosen.length === 1 ? n : styleOf(l.run))),
    label: [chosen.length > 1 && l.run.name, (names.length > 1 || chosen.length === 1) && name].filter(Boolean).join(" "),
    more: { borderWidth: width(l.run), order: -chosen.indexOf(l.run), ...(n ? { exact: true, borderDash: [5, 3], pointRadius: 3, pointStyle: "rectRot", spanGaps: true } : { borderDash: dashes[Math.floor(styleOf(l.run) / 8) % dashes.length] }) },
  })));
}

/* What of the axis to show; an end that the reader has not chosen is that of the runs, also when they go on. */
function range() {
  const [low, high] = extent(), [from, to] = state.range;
  return [from ?? low, to ?? high];
}

function setRange(from = null, to = null) {
  const [low, high] = extent(), says = document.getElementById("range.says");
  const wrong = (from ?? to) !== null && (from ?? low) >= (to ?? high);
  says.textContent = wrong ? `Nothing lies from ${plain(from ?? low)} to ${plain(to ?? high)}: the first has to be less than the second. The charts stay as they are.` : "";
  if (wrong) return;
  state.range = [from > low ? from : null, to !== null && to < high ? to : null];
  showRange(true);
  redraw((node) => node.follows);
}

/* What is being typed is left alone, but for `all`. */
function showRange(all) {
  ["from", "to"].forEach((which, i) => {
    const input = document.getElementById("range." + which);
    if (input && (all || input !== document.activeElement)) input.value = range()[i];
  });
}

/* A drag over a chart chooses a range, a double click all. */
function dragRange(node) {
  const plot = node.querySelector(".plot"), mark = el("div", { class: "range", hidden: true });
  const place = (e) => e.clientX - plot.getBoundingClientRect().left;
  let begin = null;
  plot.append(mark);
  plot.addEventListener("pointerdown", (e) => {
    if (e.button || !node.chart()) return;
    begin = place(e);
    state.busy = true;
    plot.setPointerCapture(e.pointerId);
  });
  plot.addEventListener("pointermove", (e) => {
    if (begin === null) return;
    mark.hidden = Math.abs(place(e) - begin) < 4;
    mark.style.left = Math.min(begin, place(e)) + "px";
    mark.style.width = Math.abs(place(e) - begin) + "px";
  });
  const end = (e) => {
    const ends = begin === null || e.type === "pointercancel" ? null : [begin, place(e)].sort((a, b) => a - b);
    begin = null;
    state.busy = false;
    mark.hidden = true;
    if (!ends || ends[1] - ends[0] < 4) return;
    setRange(...ends.map((x) => node.chart().scales.x.getValueForPixel(x)).map((x) => state.over === "time" ? Number(x.toPrecision(4)) : Math.round(x)));
  };
  plot.addEventListener("pointerup", end);
  plot.addEventListener("pointercancel", end);
  plot.addEventListener("dblclick", () => setRange());
}

/* --- Bars and points --- */

/* Horizontal stacked bars. stacks: [{name, ink, values: one of each label}]. */
function bars(key, title, labels, stacks, format, figures, note) {
  return panel(key, title, () => {
    const most = Math.max(...labels.map((_, i) => sum(stacks.map((s) => s.values[i] || 0)))), x = axis("", format, { stacked: true, min: 0 });
    x.ticks.stepSize = roundStep(most / 7, 2);
    const options = looks(x, axis("", undefined, { stacked: true, grid: { display: false } }), (item) => `${item.dataset.label}: ${format(item.raw)}`);
    options.indexAxis = "y";
    options.interaction = { mode: "nearest", intersect: true };
    options.scales.y.ticks.callback = function (i) { const text = this.getLabelForValue(i); return text.length > 24 ? text.slice(0, 23) + "…" : text; };
    options.plugins.legend.labels.boxHeight = 10;
    options.plugins.legend.labels.boxWidth = 14;
    return { type: "bar", data: { labels, datasets: stacks.map((s) => ({ label: s.name, data: s.values, backgroundColor: colour(s.ink), borderColor: colour("panel"), borderWidth: 1, maxBarThickness: 26 })) }, options, height: 90 + 34 * labels.length, note };
  }, figures);
}

/* sets: [{label, ink, points: [{x, y, text}], more}]. */
function points(key, title, sets, x, y, figures, note) {
  return panel(key, title, () => {
    const options = looks(x(), y(), (item) => item.raw.text, () => "");
    options.interaction = { mode: "nearest", intersect: true };
    options.plugins.legend.labels = { ...options.plugins.legend.labels, usePointStyle: true, boxHeight: 8 };
    return { type: "scatter", data: { datasets: sets.map((s) => ({ label: s.label, data: s.points, backgroundColor: colour(s.ink), borderColor: colour(s.ink), pointRadius: 4, ...s.more })) }, options, note };
  }, figures);
}
