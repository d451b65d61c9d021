/* sweeps.js: what a sweep has found (docs/SWEEPS.md): its table, pictures of speed against memory and ranks, what each key does,
   and the job of the winner. */

function sweepParts() {
  return data.sweeps.flatMap((s, i) => {
    const id = "sweep" + (i || ""), part = (name, title, build) => ({ id: id + "." + name, level: "h3", title, short: title, input: s, build: () => build(s, id) });
    return [{ id, level: "h2", title: `Sweep ${s.name}`, input: s, build: () => sweepHead(s, id) },
      part("table", "Combinations", combinations), part("winner", "Winner", winner), part("pictures", "Speed, memory, ranks", sweepPictures), part("keys", "Effect of each key", effects)];
  });
}

const rowsOf = (s) => s.sweep.rows || [];
const doneRows = (s) => rowsOf(s).filter((r) => r.status === "done");
const keysOfSweep = (s) => [...new Set(rowsOf(s).flatMap((r) => Object.keys(r.values || {})))];
const varied = (s) => keysOfSweep(s).filter((k) => new Set(rowsOf(s).map((r) => r.values?.[k])).size > 1);
const label = (s, r) => [...varied(s).map((k) => `${k} = ${r.values?.[k] ?? "–"}`), r.ranks && `ranks = ${r.ranks}`].filter(Boolean).join(", ") || "the one combination";

function sweepHead(s, id) {
  const w = s.sweep, count = (status) => rowsOf(s).filter((r) => r.status === status).length;
  const states = [["done", "ran"], ["waits", "wait"], ["skipped", "refused or skipped"], ["failed", "failed"], ["same", "same as another"]].map(([status, text]) => [count(status), text]).filter(([n]) => n).map(([n, text]) => `${n} ${text}`);
  const noise = is(w.noise) ? `Runs scatter by ${percent(w.noise)} around the medians.` : "Each combination ran at most once, so nothing says how far runs scatter.";
  const changed = Object.keys(w.environment || {}).filter((k) => !["date", "load"].includes(k) && JSON.stringify(w.environment[k]) !== JSON.stringify(w.environment_end?.[k]));
  return [el("p", {}, `${w.sweep ?? s.path}: ${rowsOf(s).length} combinations (${states.join(", ")}); ${plain(w.steps)} steps each after ${plain(w.warmup)} of warm-up, ${plain(w.repeats)} ${w.repeats === 1 ? "round" : "rounds"}${w.left_out ? `; ${plain(w.left_out)} left out by rules` : ""}${w.interruptions ? `; interrupted ${w.interruptions} times` : ""}.`),
    el("p", {}, noise),
    w.warnings?.length > 0 && el("div", { class: "card" }, el("h4", {}, "Warnings"), el("ul", {}, w.warnings.map((x) => el("li", {}, x)))),
    changed.length > 0 && el("p", {}, `From begin to end the environment has changed in: ${changed.join(", ")}.`),
    fold(id + ".environment", "Environment", () => environment(id + ".environment.table", w.environment))];
}

/* --- The table --- */

const lossWord = (r) => !r.loss ? "–" : r.loss.agrees ? "agrees" : `${r.loss.rounding ? "rounding" : "differs"}: ${plain(r.loss.difference, 2)} at step ${r.loss.step}`;
const VAGUE = 2; /* wider bounds than this times the median say nothing */

const speed = (r) => r.tokens_per_s?.median;
const bounds = (low, value, high, form) => is(high) && high <= VAGUE * value ? `${form(low)} to ${form(high)}` : "too few runs";

/* Columns: name, what sorts, what is shown (else what sorts), and whether the highest is what people look for. `stays`: the
   first ones, which are seen while the others scroll. */
function sweepColumns(s) {
  const of = (name, value, text, left) => ({ name, value, text: text || ((r) => value(r) ?? "–"), left });
  const num = (name, value, form = (v) => plain(v)) => {
    const most = largest(rowsOf(s).map(value));
    return of(name, value, (r) => form(value(r), most));
  };
  const high = (column) => ({ ...column, high: true }), most = largest(rowsOf(s).map(speed)), thousands = (v) => kilo(v, most);
  const reasons = rowsOf(s).some((r) => r.why) ? [{ ...of("reason", (r) => r.why, null, true), long: true }] : [];
  const first = [
    num("place", (r) => r.rank), ...varied(s).map((k) => of(k, (r) => r.values?.[k], null, true)), of("state", (r) => r.status, null, true),
    of("ranks", (r) => r.ranks, (r) => plain(r.ranks) + (r.crowded ? " !" : "")),
  ];
  return [
    ...first.map((c) => ({ ...c, stays: true })), num("number", (r) => r.number),
    high(num("tokens/s", speed, kilo)),
    high(of("bounds, 95 %", (r) => r.tokens_per_s?.low, (r) => r.tokens_per_s ? bounds(r.tokens_per_s.low, speed(r), r.tokens_per_s.high, thousands) : "–")),
    high(of("ratio", (r) => r.ratio?.value, (r) => r.ratio ? `${plain(r.ratio.value, 3)} (${bounds(r.ratio.low, r.ratio.value, r.ratio.high, (v) => plain(v, 3))})` : "–")),
    of("loss", lossWord, null, true), ...reasons,
    high(num("scaling", (r) => r.efficiency, (v) => plain(v, 3))), num("step", (r) => r.step_ms, times),
    ...PARTS.map(([key, text]) => of(text + ", mean / longest", (r) => r[key], (r) => `${times(r[key])} / ${times(r[key + "_max"])}`)),
    of("bubble, measured / planned", (r) => r.bubble ?? r.planned?.bubble, (r) => `${percent(r.bubble)} / ${percent(r.planned?.bubble)}`),
    num("memory, planned", (r) => r.peak_bytes ?? r.planned?.peak_bytes, bytes), num("memory, resident", (r) => r.resident_bytes, bytes),
    num("sent", (r) => r.sent_bytes, bytes), num("sent, planned", (r) => r.sent_bytes_planned ?? r.planned?.sent_bytes, bytes),
    high(num("MFU", (r) => r.mfu, percent)),
  ];
}

/* Rows without a value come last, whichever way; equal ones in the order of their rates. */
function sorted(rows, value, down) {
  const none = (v) => v === null || v === undefined, tied = (a, b) => (speed(b) || 0) - (speed(a) || 0) || a.number - b.number;
  return [...rows].sort((a, b) => {
    const x = value(a), y = value(b);
    if (none(x) || none(y)) return none(x) - none(y) || tied(a, b);
    return (typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y), "en", { numeric: true })) * (down ? -1 : 1) || tied(a, b);
  });
}

/* Keep the first `count` columns of a table in sight while it scrolls, as many as leave room for others. */
function stick(box, count) {
  const put = () => {
    const widths = [...box.querySelectorAll("thead th")].slice(0, count).map((th) => th.offsetWidth), lefts = widths.map((_, i) => sum(widths.slice(0, i)));
    const kept = widths.filter((width, i) => lefts[i] + width < 0.75 * box.clientWidth).length;
    box.style.scrollPaddingLeft = sum(widths.slice(0, kept)) + "px";
    for (const row of box.querySelectorAll("tr"))
      widths.forEach((_, i) => {
        row.children[i].classList.toggle("stays", i < kept);
        row.children[i].style.left = i < kept ? lefts[i] + "px" : "";
      });
  };
  new ResizeObserver(put).observe(box);
}

/* A reason in at most two lines; a press shows all of it. */
function reason(key, text) {
  if (!text) return "–";
  const button = el("button", { type: "button", class: "reason", title: text, "aria-expanded": "false", "data-key": key, onclick: () => button.setAttribute("aria-expanded", button.classList.toggle("all")) }, el("span", {}, text));
  return button;
}

function combinations(s, id) {
  const columns = sweepColumns(s), filters = [...varied(s), "ranks", "state"], box = el("div"), said = el("p", { class: "note", role: "status" });
  const apart = doneRows(s).some((r) => r.rank > 1);
  state[id + ".sort"] ??= { column: "place", down: false };
  const of = (r, k) => String(k === "ranks" ? r.ranks ?? "–" : k === "state" ? r.status : r.values?.[k] ?? "–");
  const text = el("input", { type: "text", "data-key": id + ".filter", value: state[id + ".filter"] || "", oninput: () => { state[id + ".filter"] = text.value; draw(); } });
  const selects = filters.map((k) => [k, [...new Set(rowsOf(s).map((r) => of(r, k)))]]).filter(([, values]) => values.length > 1).map(([k, values]) => choice(`${id}.filter.${k}`, k, [["", "all"], ...values.map((v) => [v, v])], draw));
  const passes = (r) => filters.every((k) => !state[`${id}.filter.${k}`] || of(r, k) === state[`${id}.filter.${k}`]) &&
    (state[id + ".filter"] || "").toLowerCase().split(/\s+/).every((word) => columns.some((c) => String(c.text(r)).toLowerCase().includes(word)));
  const head = (c) => {
    const sort = state[id + ".sort"], here = sort.column === c.name;
    return el("th", { scope: "col", class: c.left && "left", "aria-sort": here ? (sort.down ? "descending" : "ascending") : "none" }, el("button", { type: "button", "data-key": `${id}.sort.${c.name}`, onclick: () => {
      state[id + ".sort"] = { column: c.name, down: here ? !sort.down : !!c.high };
      const restore = remember();
      draw();
      restore();
    } }, c.name));
  };
  function draw() {
    const sort = state[id + ".sort"], column = columns.find((c) => c.name === sort.column) || columns[0];
    const rows = sorted(rowsOf(s).filter(passes), column.value, sort.down);
    said.textContent = `${rows.length} of ${rowsOf(s).length} combinations. ${apart ? "A row that is marked has place 1" : "The runs cannot tell the combinations apart"}; "!" beside ranks: more ranks and threads than processors.`;
    box.replaceChildren(table(id + ".rows", "Combinations of the sweep", columns.map(head), rows.map((r) => columns.map((c) => ({ text: c.long ? reason(`${id}.why.${r.number}`, r.why) : c.text(r), left: c.left, long: c.long }))), (i) => apart && rows[i].rank === 1 && "first"));
    stick(box.firstChild, columns.filter((c) => c.stays).length);
  }
  draw();
  return el("div", { class: "card" }, el("div", { class: "controls" }, el("label", {}, "Filter ", text), selects), said, box);
}

/* --- Winner --- */

const quoted = (text) => /^[\w.,:=@%+/-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;

function winner(s, id) {
  const first = doneRows(s).filter((r) => r.rank === 1).sort((a, b) => speed(b) - speed(a));
  if (!first.length) return sentence("No combination has run yet.");
  const file = (r) => `${s.path.replace(/\/*$/, "")}/${String(r.number).padStart(3, "0")}-1.ini`;
  const command = (r) => `weft train -n ${r.ranks} ${quoted(file(r))} run.steps=STEPS run.out=FOLDER`;
  const one = (r) => {
    const text = s.jobs?.[r.number], key = `${id}.winner.${r.number}`;
    return fold(key, `${label(s, r)}: ${rate(speed(r))}`, () => text === undefined ? sentence(`The job file of combination ${r.number} is not in this page.`) : [
      el("p", {}, "To train so, with your own STEPS and FOLDER:"), ...copied(key + ".command", "command", command(r)),
      el("p", {}, "The job file that ran. Its number of steps and its folder are those of the sweep:"), ...copied(key + ".job", "job file", text)]);
  };
  const words = first.length === 1 ? "One combination is faster than all others, as far as the runs can tell."
    : `${first.length} combinations share place 1: the runs cannot tell them apart. They are in the order of their median rates.`;
  if (first.length === 1) state[`${id}.winner.${first[0].number}`] ??= true;
  const seen = first.length > 4 ? 3 : first.length;
  return [el("p", {}, words), ...first.slice(0, seen).map(one), seen < first.length && fold(id + ".winner.others", `${first.length - seen} more that share place 1`, () => first.slice(seen).map(one))];
}

/* --- Pictures --- */

/* Rows that no other row beats in both speed and memory. */
function front(rows) {
  let best = -Infinity;
  return [...rows].sort((a, b) => a.peak_bytes - b.peak_bytes || speed(b) - speed(a)).filter((r) => {
    const better = speed(r) > best;
    best = Math.max(best, speed(r));
    return better;
  });
}

function sweepPictures(s, id) {
  const rows = doneRows(s).filter((r) => is(speed(r)));
  if (!rows.length) return sentence("No combination has run yet.");
  const on = front(rows), words = (r) => `${label(s, r)}: ${rate(speed(r))}, ${bytes(r.peak_bytes)} a rank`;
  const dot = (x) => (r) => ({ x: x(r), y: speed(r), text: words(r) });
  const y = () => axis("tokens/s", kilo, { beginAtZero: true });
  const memory = points(id + ".memory", "Speed against memory", [
    { label: "front: nothing is faster with less memory", ink: "c1", points: on.map(dot((r) => r.peak_bytes)), more: { showLine: true, borderWidth: 2, pointRadius: 6, pointStyle: "rectRot" } },
    { label: "other combinations", ink: "c0", points: rows.filter((r) => !on.includes(r)).map(dot((r) => r.peak_bytes)) },
  ], () => memoryAxis(rows), y, () => ({ head: ["combination", "memory a rank", "tokens/s", "front"], rows: sorted(rows, (r) => r.peak_bytes).map((r) => [label(s, r), as(bytes, r.peak_bytes), as(rate, speed(r)), on.includes(r) ? "yes" : "no"]) }));
  return el("div", { class: "grid" }, memory, scaling(rows, id, s, dot, y));
}

function memoryAxis(rows) {
  const x = axis("planned memory of the busiest rank", bytes, { min: 0 });
  x.ticks.stepSize = roundStep(Math.max(...rows.map((r) => r.peak_bytes)) / 5, 2);
  return x;
}

/* The fastest combination of each number of ranks, and what it would give at an efficiency of 1 (docs/SWEEPS.md, "scaling"). */
function scaling(rows, id, s, dot, y) {
  const sizes = [...new Set(rows.map((r) => r.ranks))].sort((a, b) => a - b);
  const best = sizes.map((n) => rows.filter((r) => r.ranks === n).reduce((a, b) => speed(b) > speed(a) ? b : a));
  if (sizes.length < 2) return panel(id + ".scaling", "Scaling over ranks", () => `All combinations that ran have ${plain(sizes[0])} ${sizes[0] === 1 ? "rank" : "ranks"}: there is no scaling to show.`, () => null);
  const ideal = best.filter((r) => r.efficiency > 0).map((r) => [r.ranks, speed(r) / r.efficiency]);
  return points(id + ".scaling", "Scaling over ranks", [
    { label: "fastest combination", ink: "c0", points: best.map(dot((r) => r.ranks)), more: { showLine: true, borderWidth: 2, pointRadius: 5 } },
    { label: "ideal scaling", ink: "c7", points: ideal.map(([n, y]) => ({ x: n, y, text: `ideal for ${n} ranks: ${rate(y)}` })), more: { showLine: true, borderWidth: 1.5, borderDash: [5, 4], pointRadius: 0 } },
    { label: "other combinations", ink: "c4", points: rows.filter((r) => !best.includes(r)).map(dot((r) => r.ranks)), more: { pointRadius: 3 } },
  ], () => axis("ranks", (v) => Number.isInteger(v) ? plain(v) : "", { min: 0, max: sizes.at(-1) + 1 }), y, () => ({ head: ["ranks", { text: "fastest combination", left: true }, "tokens/s", "tokens/s a rank", "scaling"], rows: best.map((r) => [plain(r.ranks), { text: label(s, r), left: true }, as(rate, speed(r)), as(rate, speed(r) / r.ranks), plain(r.efficiency, 3)]) }));
}

/* --- Effect of a key --- */

/* Half the width of a row's bounds at 95 %, on a logarithmic scale; NaN: unknown, no combination ran twice. */
const spread = ({ tokens_per_s: t }) => is(t.high) ? Math.log(t.high / t.median) : NaN;

/* Ratios of rates of all pairs of rows that differ in `key` alone, by pair of values: [{from, to, ratios, half}]; `half` is
   that of spread() for the ratios' geometric mean, as no row is in two of the pairs. */
function effectOf(s, key) {
  const values = (r) => ({ ...r.values, ranks: String(r.ranks) });
  const rest = (r) => JSON.stringify(Object.entries(values(r)).filter(([k]) => k !== key).sort());
  const order = [...new Set(rowsOf(s).map((r) => values(r)[key]))], found = new Map(), rows = doneRows(s).filter((r) => is(speed(r)));
  for (const a of rows)
    for (const b of rows) {
      const [from, to] = [values(a)[key], values(b)[key]];
      if (order.indexOf(from) >= order.indexOf(to) || rest(a) !== rest(b)) continue;
      const at = JSON.stringify([from, to]);
      if (!found.has(at)) found.set(at, { key, from, to, ratios: [], squares: 0 });
      found.get(at).ratios.push(speed(b) / speed(a));
      found.get(at).squares += spread(a) ** 2 + spread(b) ** 2;
    }
  return [...found.values()].map((e) => ({ ...e, half: Math.sqrt(e.squares) / e.ratios.length }));
}

function effects(s, id) {
  const keys = [...varied(s), "ranks"], all = keys.map((k) => effectOf(s, k)), mean = (x) => Math.exp(sum(x.map(Math.log)) / x.length);
  const alone = keys.filter((k, i) => !all[i].length && (k !== "ranks" || new Set(doneRows(s).map((r) => r.ranks)).size > 1));
  const found = all.flat(), apart = (e) => Math.abs(Math.log(mean(e.ratios))) > e.half;
  const within = (e) => bounds(mean(e.ratios) * Math.exp(-e.half), mean(e.ratios), mean(e.ratios) * Math.exp(e.half), (v) => plain(v, 3));
  const rows = found.map((e) => [e.key, { text: `${e.from ?? "–"} → ${e.to ?? "–"}`, left: true }, plain(mean(e.ratios), 3), within(e), { text: apart(e) ? mean(e.ratios) > 1 ? "faster" : "slower" : "cannot be told apart", left: true },
    `${plain(Math.min(...e.ratios), 3)} to ${plain(Math.max(...e.ratios), 3)}`, plain(e.ratios.length)]);
  return [el("p", { class: "note" }, "From pairs of combinations that ran and differ in that key alone: the rate with the second value over the rate with the first. The bounds are from the scatter of the runs; a mean whose bounds have 1 between them cannot be told from no effect."),
    rows.length ? el("div", { class: "card" }, table(id + ".effects", "Effect of each key", ["key", { text: "change", left: true }, "ratio, geometric mean", "bounds, 95 %", { text: "effect", left: true }, "least to greatest ratio", "pairs"], rows, (i) => !apart(found[i]) && "vague")) : sentence("No two combinations that ran differ in one key alone."),
    rows.length > 0 && alone.length > 0 && sentence(`No pair differs in ${alone.join(", ")} alone.`)];
}
