/* runs.js: what runs have shown: their figures, curves of all of them together, and one run in detail. */

const named = (run) => [swatch(palette(styleOf(run))), run.name];
const current = () => runs().find((run) => run.name === state.run) || runs()[0];
const series = (run, name) => metric(run, name)?.value || [];
const middle = (run, name) => run.series?.[name]?.median ?? median(series(run, name)); // since the last begin
const missing = (run) => `The folder of ${run.name} has no run.json, so its plan, mesh and job file are unknown here.`;

function runParts() {
  if (!runs().length) return [];
  const run = current(), record = run.record;
  const detail = (id, title, input, build, short) => ({ id, level: "h3", title, short, input: [run.name, input], build });
  const withRecord = (build) => () => record ? build(run, record) : sentence(missing(run));
  return [
    { id: "runs", level: "h2", title: "Runs", input: [runs().map((r) => [r.name, r.path, r.steps, r.last, stateOf(r), wallTime(r), r.notes, r.record])], build: overview },
    runs().length > 1 && { id: "differences", level: "h3", title: "Keys in which the jobs differ", short: "Differing keys", input: runs().map((r) => [r.name, r.record?.job]), build: differences },
    { id: "curves", level: "h3", title: "Metrics", input: [runs().map((r) => [r.name, r.steps?.bucket]), metricNames(), axes(), state.over], build: curves },
    { id: "run", level: "h2", title: `Run ${run.name}`, input: runs().map((r) => r.name), build: chooseRun },
    detail("split", "Where the time goes", rankMetrics(run), split, "Time"),
    detail("memory", "Memory", [record?.plan, middle(run, "resident_bytes")], withRecord(memory)),
    detail("sent", "Bytes sent in a step", [record?.plan, middle(run, "comm_bytes")], withRecord(sent), "Bytes sent"),
    detail("pipeline", "Pipeline and trace", [record?.schedule, run.traced, measuredBubble(run)], pipeline, "Pipeline"),
    detail("arena", "Memory map of a step", record?.arena, withRecord(arena), "Memory map"),
    detail("mesh", "Mesh", [record?.mesh, record?.machines, record?.ranks], withRecord(mesh)),
    detail("job", "Job, environment, attempts", [record?.job, record?.begins, record?.environment, run.attempts], job, "Job"),
  ].filter(Boolean);
}

/* --- All runs --- */

/* The state of a run in words; data of an earlier version says only whether it runs. */
function stateOf(run) {
  const end = run.steps?.last, steps = run.record?.steps;
  const word = run.state ?? (run.running ? "running" : end >= steps ? "complete" : "early");
  return word !== "early" ? word : is(steps) && end >= steps ? "failed at its end" : end ? `ended after step ${plain(end)}${is(steps) ? " of " + plain(steps) : ""}` : "ended before a step";
}

/* Why a run ended before its last step, as it said itself; one that was killed could not. */
function whyOf(run) {
  const begins = run.record?.begins, end = Array.isArray(begins) && begins.at(-1);
  return !run.running && run.state !== "complete" && typeof end?.why === "string" && `ended in step ${plain(end.step)}: ${end.why}`;
}

/* Seconds from the first step to the last. */
const wallTime = (run) => last(run.elapsed || []) ?? (run.attempts?.length ? run.attempts.at(-1).to - run.attempts[0].from : null);

const atStep = (v, step) => is(v) ? `${plain(v)} at ${plain(step)}` : "–";

/* The least value of a metric with its step. */
function leastAt(m) {
  const values = (m?.min || m?.value || []).map((v) => v ?? Infinity), least = Math.min(...values);
  return atStep(least, m?.step[values.indexOf(least)]);
}

/* A sentence where the runs' peaks make their MFU mean different things. */
function peaksDiffer() {
  const peaks = runs().map((r) => r.record?.peak_flops).filter((v) => v > 0), [low, high] = [Math.min(...peaks), Math.max(...peaks)];
  return high > 1.1 * low && sentence(`MFU cannot be compared between these runs: the peaks that it divides by go from ${flop(low, high)}/s to ${flop(high)}/s a rank.`);
}

function overview() {
  const head = ["run", { text: "state", left: true }, "steps", "ranks", "mesh", "loss, last step", "least validation loss", "time", "tokens/s, median", "step, median", "MFU, median", "peak for MFU", "attempts"];
  const peak = (v, like) => v > 0 ? flop(v, like) + "/s a rank" : "–";
  const meshText = (r) => r.record?.mesh?.length ? r.record.mesh.map((x) => `${x.axis} ${x.size}`).join(" × ") : "–";
  const rows = runs().map((r) => [el("span", { class: "name" }, named(r)), { text: stateOf(r), left: true }, r.steps ? `${plain(r.steps.last)}${is(r.record?.steps) ? " of " + plain(r.record.steps) : ""}` : "none yet", plain(r.record?.ranks),
    meshText(r), atStep(r.last?.loss, r.steps?.last), leastAt(metric(r, "valid_loss")), as(lasting, wallTime(r)), as(rate, middle(r, "tokens_per_s")), as(times, middle(r, "step_ms")),
    percent(middle(r, "mfu") || null), as(peak, r.record?.peak_flops), plain(r.attempts?.length || null)]);
  const notes = runs().flatMap((r) => [whyOf(r), ...(r.notes || [])].filter(Boolean).map((n) => `${r.name}: ${n}`));
  return [el("div", { class: "card" }, table("runs.table", "Figures of the runs", head, rows), peaksDiffer()), notes.length > 0 && el("ul", { class: "note" }, notes.map((n) => el("li", {}, n)))];
}

/* {"section.key": value} of a job file. */
function keysOf(text) {
  const keys = {};
  let section = "";
  for (const line of (text || "").split("\n")) {
    const head = line.match(/^\s*\[(.+)\]\s*$/), pair = line.match(/^\s*([^;#=\s][^=]*?)\s*=\s*(.*?)\s*$/);
    if (head) section = head[1] + ".";
    else if (pair) keys[section + pair[1]] = pair[2];
  }
  return keys;
}

const MATTERS = ["model", "data", "train", "optim", "parallel", "comm", "device"]; // sections that change results or layout
const sectionOf = (key) => key.slice(0, key.lastIndexOf("."));

/* First the keys that change results or layout; folded those that name, log and save, and those of sections that one job has
   and another has not. */
function differences() {
  const known = runs().filter((r) => r.record?.job), keys = known.map((r) => keysOf(r.record.job));
  if (known.length < 2) return sentence("The job files of fewer than two runs are known.");
  const all = [...new Set(keys.flatMap(Object.keys))].filter((k) => keys.some((x) => x[k] !== keys[0][k]));
  if (!all.length) return sentence("The jobs are equal in all keys.");
  const value = (v) => ({ text: v === undefined ? "not set" : v === "" ? "empty" : v, wide: true });
  const sections = keys.map((x) => new Set(Object.keys(x).map(sectionOf)));
  const matters = (k) => MATTERS.includes(k.split(".")[0]) && sections.every((s) => s.has(sectionOf(k)));
  const first = all.filter(matters), rest = all.filter((k) => !matters(k));
  const show = (key, which) => {
    const box = table(key, "Keys in which the jobs differ", ["key", ...known.map((r) => ({ text: r.name, left: true }))], which.map((k) => [k, ...keys.map((x) => value(x[k]))]));
    box.classList.add("whole");
    return box;
  };
  return el("div", { class: "card" }, first.length ? show("differences.table", first) : sentence("The jobs are equal in the keys that change results or layout."),
    rest.length > 0 && fold("differences.rest", `${rest.length} more: names, folders, logs, checkpoints, and sections that not all jobs have`, () => show("differences.rest.table", rest)));
}

/* What the curves can run over: all that some run has. */
const axes = () => Object.keys(OVER).filter((k) => k === "step" || runs().some((r) => r[OVER[k].of]?.length));

function curveControls() {
  const again = () => redraw((node) => node.follows);
  const number = (which) => el("label", {}, which + " ", el("input", { type: "number", id: "range." + which, min: 0, step: state.over === "time" ? "any" : 1, "data-key": "range." + which,
    onchange: () => setRange(...["from", "to"].map((w) => document.getElementById("range." + w)).map((input) => input.value === "" ? null : +input.value)) }));
  const turn = () => {
    state.range = [null, null];
    render();
    again();
  };
  const showRun = (run) => {
    const box = el("input", { type: "checkbox", "data-key": "show." + run.name, checked: !state.hidden[run.name], onchange: () => { state.hidden[run.name] = !box.checked; again(); } });
    return el("label", {}, box, " ", named(run));
  };
  const words = Object.entries(OVER).map(([k, { title }]) => [k, title]).filter(([k]) => axes().includes(k));
  return [el("div", { class: "controls", role: "group", "aria-label": "What the curves show" },
    choice("over", "Over", words, turn),
    el("fieldset", {}, el("legend", {}, over().unit), number("from"), number("to"), el("button", { type: "button", "data-key": "range.all", onclick: () => setRange() }, "All")),
    slider("smooth", "Smoothing", [0, 0.98, 0.02], (v) => v ? plain(v, 2) : "off", again),
    tick("log", "Logarithmic loss, norm and times", again), el("output", { id: "range.says", "aria-live": "polite" })),
    runs().length > 1 && el("div", { class: "controls runs" }, el("fieldset", {}, el("legend", {}, "Runs"), runs().map(showRun)))];
}

function curves() {
  const none = (what) => `No run that is shown has ${what}${state.over === "step" ? "" : ` and says its ${over().title}`}.`, log = () => state.log;
  state.metric ??= metricNames().find((n) => runs().some((r) => new Set(metric(r, n)?.value).size > 1));
  const other = choice("metric", "Metric", metricNames().map((n) => [n, n]), () => redraw((node) => node.id === "panel.metric"));
  const overlaid = (key, title, names, what, more = {}, ...controls) => steps(key, title, () => overlay(names()), { empty: none(what), ...more }, ...controls);
  return [...curveControls(),
    el("div", { class: "grid" },
      overlaid("loss", "Loss", () => ["loss", "valid_loss"], "a loss", { log }),
      overlaid("rate", "Tokens per second", () => ["tokens_per_s"], "the metric tokens_per_s"),
      overlaid("norm", "Gradient norm", () => ["grad_norm"], "the metric grad_norm", { log }),
      overlaid("step", "Time of a step", () => ["step_ms"], "the metric step_ms", { log }),
      overlaid("lr", "Learning rate", () => ["lr"], "the metric lr"),
      overlaid("metric", "Any metric", () => [state.metric], "this metric", { log: () => log() && state.metric.endsWith("_ms") }, other)),
    el("p", { class: "note" }, curveNote())];
}

function curveNote() {
  const wide = Math.max(0, ...runs().map((r) => r.steps?.bucket || 0));
  const without = runs().filter((r) => r.steps && state.over !== "step" && !r[over().of]?.length).map((r) => r.name);
  return (runs().length > 1 ? "Each run has its colour; where curves are equal, the thinner one lies on the thicker one; the validation loss is dashed. " : "") + "Drag over a chart to choose a range; a double click shows all." + (without.length ? ` Not here, because their ${over().title} is unknown: ${without.join(", ")}.` : "") + (wide > 1 ? ` A point stands for up to ${plain(wide)} steps: the line is their mean, the band goes from the least to the largest.` : "");
}

/* --- One run --- */

function chooseRun() {
  if (runs().length === 1) return null;
  return el("div", { class: "controls" }, choice("run", "Show the run", runs().map((r) => [r.name, r.name]), render));
}

const PARTS = [["compute_ms", "compute", "c0"], ["exposed_comm_ms", "exposed communication", "c2"], ["bubble_ms", "bubble", "idle"], ["optimizer_ms", "optimizer", "c3"]];

/* The parts of a step; exposed communication by mesh axis where the run has that. */
function splitParts() {
  const axes = Object.keys(current().series || {}).map((n) => n.match(/^axis\.(.+)\.exposed_comm_ms$/)).filter(Boolean);
  if (!axes.length) return PARTS;
  return PARTS.flatMap((part) => part[0] !== "exposed_comm_ms" ? [part] : axes.map(([name, axis], i) => [name, `exposed communication of ${axis}`, ["c2", "c4", "c6", "c1"][i % 4]]));
}

/* The parts of a step as curves, in ms or as shares of their sum. */
function splitLines() {
  const found = splitParts().map(([name, label, ink]) => ({ m: metric(current(), name), label, name, ink: colour(ink) })).filter((l) => l.m);
  if (state.splitAs !== "share") return found.map((l) => ({ ...l, m: { ...l.m, min: null } }));
  const total = found[0]?.m.value.map((_, i) => sum(found.map((l) => l.m.value[i] || 0))) || [];
  return found.map((l) => ({ ...l, m: { ...l.m, unit: "share", min: null, value: l.m.value.map((v, i) => is(v) && total[i] ? v / total[i] : null) } }));
}

const SPREAD = [["max", "slowest rank", "c1"], ["mean", "mean of all ranks", "c0"], ["min", "fastest rank", "c2"]];

/* Names of metrics of all ranks: step_ms of ranks.step_ms.max. */
function rankMetrics(run) {
  const names = [...Object.keys(run.points || {}), ...Object.keys(run.series || {})].map((n) => n.match(/^ranks\.(.+)\.mean$/)?.[1]).filter(Boolean);
  return [...new Set(names)].sort((a, b) => (b === "step_ms") - (a === "step_ms"));
}

function split() {
  const run = current(), names = rankMetrics(run);
  const as = choice("splitAs", "as", [["ms", "time"], ["share", "share"]], () => redraw((node) => node.id === "panel.split"));
  const stacked = steps("split", "Split of a step on rank 0", splitLines, { stack: true, fraction: () => state.splitAs === "share", empty: "This run has no times of its steps yet." }, as);
  if (!names.length) return el("div", { class: "grid" }, stacked, el("figure", { class: "panel" }, el("figcaption", {}, el("h4", {}, "All ranks")), sentence("This run has no metrics of all ranks (ranks.*): it has one rank, or its ranks have not exchanged their times yet.")));
  const which = choice("rankMetric", "of", names.map((n) => [n, n]), () => redraw((node) => node.id === "panel.ranks"));
  const spread = () => SPREAD.map(([end, label, ink], i) => ({ name: end, label, ink: colour(ink), m: metric(current(), `ranks.${state.rankMetric}.${end}`), more: { borderDash: dashes[i] } })).filter((l) => l.m);
  return el("div", { class: "grid" }, stacked, steps("ranks", "All ranks", spread, { log: () => state.log && state.rankMetric.endsWith("_ms"), empty: "This run has no metrics of all ranks." }, which));
}

/* Ranks of the plan with the same numbers, as [{label, ranks, rank}]. */
function alike(record, signature) {
  const groups = new Map(), pp = record.mesh?.findIndex((x) => x.axis === "pp") ?? -1;
  for (const r of record.plan?.ranks || []) {
    const stage = pp >= 0 ? `, stage ${coordinates(r.rank, record.mesh)[pp]}` : "", key = signature(r) + stage;
    if (!groups.has(key)) groups.set(key, { ranks: [], rank: r, stage });
    groups.get(key).ranks.push(r.rank);
  }
  return [...groups.values()].map((g) => ({ ...g, label: ranksText(g.ranks) + g.stage }));
}

const noPlan = () => sentence("The record of this run has no plan.");
const partOfRanks = (record) => record.plan.ranks.length < record.ranks ? `The plan here has ${record.plan.ranks.length} of ${plain(record.ranks)} ranks, one of each stage.` : "";

/* The newest value of a metric that all ranks exchange now and then. */
const ofRanks = (run, name) => run.newest?.[`ranks.${name}.max`]?.value;

/* Members of a rank's plan, their names and colours, which are those of the memory map. */
const MEMORY = [["params", "parameters", "c0"], ["grads", "gradients", "c1"], ["state", "masters and states", "c3"], ["activations", "activations", "c5"], ["comm", "communication", "c2"]];

function memory(run, record) {
  if (!record.plan) return noPlan();
  const groups = alike(record, (r) => MEMORY.map(([kind]) => r[kind]).join()), measured = [["measured, resident", middle(run, "resident_bytes")], ["highest of all ranks", ofRanks(run, "resident_bytes")]].filter(([, v]) => is(v));
  const labels = [...groups, ...measured.map(([label]) => ({ label }))].map((g) => g.label);
  const stacks = MEMORY.map(([kind, name, ink]) => ({ name, ink, values: groups.map((g) => g.rank[kind] || 0) }));
  if (measured.length) stacks.push({ name: "resident", ink: "c7", values: [...groups.map(() => 0), ...measured.map(([, v]) => v)] });
  const rows = groups.map((g) => [g.label, ...MEMORY.map(([kind]) => as(bytes, g.rank[kind])), as(bytes, g.rank.peak)]);
  rows.push(...measured.map(([label, v]) => [label, ...MEMORY.map(() => ""), as(bytes, v)]));
  const words = "Activations are what the memory map shows as saved for backward, between blocks, temporary and gathered parameters. " + (measured.length ? "Resident is rank 0's whole process, program and libraries as well as the plan, median over the steps since the run was last begun. " : "No memory was measured: this run has no metric resident_bytes. ") + partOfRanks(record);
  return bars("memory", "Planned by kind", labels, stacks, bytes, () => ({ head: ["ranks", ...MEMORY.map(([, name]) => name), "all"], rows }), words);
}

function sent(run, record) {
  if (!record.plan) return noPlan();
  const groups = alike(record, (r) => JSON.stringify(r.collectives || [])), measured = middle(run, "comm_bytes"), most = ofRanks(run, "comm_bytes");
  const kinds = [...new Set(groups.flatMap((g) => (g.rank.collectives || []).filter((c) => c.sent).map((c) => `${c.kind} on ${c.axis}`)))];
  if (!kinds.length && !measured) return sentence("The ranks of this job send each other nothing in a step.");
  const of = (g, kind) => sum((g.rank.collectives || []).filter((c) => `${c.kind} on ${c.axis}` === kind).map((c) => c.sent));
  const labels = [...groups.map((g) => g.label), ...(is(measured) ? ["measured, rank 0"] : [])];
  const stacks = kinds.map((kind, i) => ({ name: kind, ink: palette(i), values: groups.map((g) => of(g, kind)) }));
  if (is(measured)) stacks.push({ name: "measured", ink: "c7", values: [...groups.map(() => 0), measured] });
  const rows = groups.flatMap((g) => (g.rank.collectives || []).map((c) => [g.label, { text: c.kind, left: true }, { text: c.axis, left: true }, plain(c.starts), as(bytes, c.sent)]));
  if (is(measured)) rows.push(["measured, rank 0", "", "", "", as(bytes, measured)]);
  if (is(most)) rows.push(["measured, highest of all ranks", "", "", "", as(bytes, most)]);
  return bars("sent", "Planned by collective and mesh axis", labels, stacks, bytes, () => ({ head: ["ranks", { text: "collective", left: true }, { text: "mesh axis", left: true }, "in a step", "sent"], rows }),
    (is(measured) ? "Measured is comm_bytes of rank 0, median over the steps since the run was last begun. " : "This run has no metric comm_bytes. ") + partOfRanks(record));
}

/* The bubble as a share of the step on rank 0, median over steps. */
function measuredBubble(run) {
  const step = series(run, "step_ms");
  return median(series(run, "bubble_ms").map((v, i) => step[i] ? v / step[i] : null));
}

function pipeline() {
  const run = current(), { record, traced: trace } = run, measured = measuredBubble(run);
  const hint = "Point at a box, or go from box to box with the arrow keys.";
  const out = [legend(Object.entries(KINDS).map(([kind, ink]) => [ink, kind]))];
  if (record?.schedule) {
    const s = record.schedule, lanes = plannedLanes(s);
    out.push(el("div", { class: "card" }, el("h4", {}, "Planned"), el("p", { class: "note" }, `${s.stages} stages, ${s.micro_batches} micro-batches; bubble: planned ${percent(s.bubble)}, ${is(measured) ? `measured ${percent(measured)} (bubble_ms / step_ms of rank 0, median over steps)` : "not measured"}. Lengths are operations; communication has none here.`),
      boxes("planned", "planned schedule", { ...lanes, ticks: (x) => flop(x, s.span), note: hint })));
  } else out.push(sentence(record ? "This job has no pipeline stages, so there is no schedule of them." : missing(run)));
  out.push(trace ? traced(trace, hint) : sentence("There is no trace of this run: log.trace_steps names the steps to trace."));
  return out;
}

function traced(trace, hint) {
  const inside = el("div"), put = () => inside.replaceChildren(...[state.kernels && legend(KERNELS.map(([kind, ink]) => [ink, kind])), boxes("traced", "trace", { ...tracedLanes(trace, state.kernels), ticks: (x) => times(x / 1000, trace.us / 1000), note: hint })].filter(Boolean));
  const draw = () => {
    put();
    redraw((node) => inside.contains(node));
  };
  const lanes = tracedLanes(trace, false), kinds = Object.keys(KINDS);
  const rows = lanes.idle.map((share, r) => [`rank ${r}`, percent(share), ...kinds.map((k) => as(times, (lanes.spent[r][k] || 0) / 1000))]);
  const words = [`Step ${trace.step}, the middle one of those traced, ${times(trace.us / 1000)}; compute above communication; idle is the share of the step without a span of compute.`, trace.ranks > MOST_LANES && `The first ${MOST_LANES} of ${plain(trace.ranks)} ranks are drawn.`, trace.left_out > 0 && `The ${plain(trace.left_out)} shortest spans are not here.`];
  put();
  return el("div", { class: "card" }, el("h4", {}, "Traced"), el("p", { class: "note" }, words.filter(Boolean).join(" ")),
    trace.lanes.includes("kernels") && el("div", { class: "controls" }, tick("kernels", "Kernels, too", draw)), inside,
    fold("traced.table", "Table of times by kind", () => [el("p", { class: "note" }, "Communication adds up operations that overlap."), table("traced.figures", "Times of the trace by kind", ["rank", "idle", ...kinds], rows)]));
}

function arena(run, record) {
  const a = record.arena;
  if (!a) return sentence("The record of this run has no map of its arena.");
  const all = [...new Set([...a.regions.map((r) => r[0]), ...a.tensors.map((t) => t[4])])], map = arenaMap(a);
  const rows = all.map((k) => {
    const regions = a.regions.filter((r) => r[0] === k), tensors = a.tensors.filter((t) => t[4] === k);
    const what = [regions.length && `${plain(regions.length)} for the whole step`, tensors.length && `${plain(tensors.length)} for a part of it`].filter(Boolean).join(", ");
    return [a.kinds[k], { text: what, left: true }, as(bytes, sum(regions.map((r) => r[2])) + highest(tensors))];
  });
  return el("div", { class: "card" }, el("p", { class: "note" }, `${bytes(a.bytes)} on rank 0: addresses upwards, the entries of the step list to the right.${a.left_out > 0 ? ` The ${plain(a.left_out)} smallest tensors are not here.` : ""}`),
    legend(all.map((k) => [mapInk(a.kinds[k], k), a.kinds[k]])),
    boxes("arena.map", "memory map", { ...map, note: "Point at a box, or go from box to box with the arrow keys." }),
    fold("arena.table", "Table by kind", () => table("arena.figures", "Kinds of memory in the arena", ["kind", { text: "tensors", left: true }, "highest at one time"], rows)));
}

function mesh(run, record) {
  if (!record.mesh?.length) return sentence(record.ranks === 1 ? "This job has one rank." : `This job has ${plain(record.ranks)} ranks and no mesh axis.`);
  const grid = el("div"), draw = () => grid.replaceChildren(...meshGrid(record));
  const controls = el("div", { class: "controls" }, choice("axis", "Groups of the axis", record.mesh.map((x) => [x.axis, x.axis]), draw), choice("arrange", "Arranged by", [["axes", "mesh axes"], ["machine", "machine"]], draw));
  const cross = (a) => {
    const crossing = new Set();
    for (let r = 0; r < Math.min(record.ranks, MOST_CELLS); r++) {
      const { peers, number } = groupOf(r, a, record.mesh);
      if (peers.some((p) => machineOf(record, p) !== machineOf(record, r))) crossing.add(number);
    }
    return crossing.size;
  };
  const rows = record.mesh.map((x, a) => [x.axis, plain(x.size), plain(record.ranks / x.size), { text: x.inside ?? x.transport, left: true }, { text: x.transport, left: true }, plain(cross(a))]);
  draw();
  return el("div", { class: "card" }, controls, grid, record.ranks > MOST_CELLS && sentence(`The first ${plain(MOST_CELLS)} of ${plain(record.ranks)} ranks are drawn and counted.`),
    table("mesh.table", "Axes of the mesh", ["axis", "size", "groups", { text: "inside a machine", left: true }, { text: "between machines", left: true }, "groups on several machines"], rows));
}

function job() {
  const run = current(), { record } = run, out = [];
  if (record) {
    out.push(fold("job.text", "Job file", () => copied("job.text", "job file", record.job ?? "")));
    out.push(fold("job.environment", "Environment", () => environment("environment", record.environment)));
    out.push(fold("job.begins", `Begins (${(record.begins || []).length})`, () => table("begins", "Begins", ["time", "after step", "attempt", "ranks", "ended", "in step", { text: "why", left: true }], (record.begins || []).map((b) => [when(b.time), plain(b.after), plain(b.attempt), plain(b.ranks), as(when, b.ended), plain(b.step), { text: b.why ?? (b.ended ? "complete" : "–"), left: true }]))));
  } else out.push(sentence(missing(run)));
  const attempts = run.attempts || [];
  out.push(attempts.length ? fold("job.attempts", `Attempts (${attempts.length})`, () => table("attempts", "Attempts", ["attempt", { text: "host", left: true }, "steps", "from", "to"], attempts.map((a) => [plain(a.attempt), { text: a.host, left: true }, `${plain(a.first)}–${plain(a.last)}`, when(a.from), when(a.to)]))) : sentence("No attempt has written metrics."));
  return [el("p", { class: "note" }, run.path), ...out];
}

function environment(key, values) {
  const text = (name, v) => name === "memory_bytes" ? bytes(v) : Array.isArray(v) ? v.map((x) => plain(x, 3)).join(", ") : String(v ?? "–");
  return values ? table(key, "Environment", ["what", { text: "value", left: true }], Object.entries(values).map(([name, v]) => [name, { text: text(name, v), wide: true }])) : sentence("The environment is not known.");
}
