/* draw.js: pictures that are no chart. Boxes on a canvas, which the pointer and the arrow keys walk through, are the lanes of
   the pipeline, planned and traced, and the map of the arena; the mesh is a grid of elements. */

/* Items {x0, x1, y0, y1, ink, text, mark}: x in `domain`, y from 0 (top) to 1; labels {y, text} stand on the left.
   text is a sentence; mark stands in the box where there is room, else brief. */
function boxes(key, label, { items, domain, labels, height, ticks, note }) {
  const canvas = el("canvas", { tabindex: 0, role: "img", "data-key": key, "aria-label": `${label}; the arrow keys go from box to box` });
  const says = el("output", { "aria-live": "polite" }, note);
  let at = -1, span = 0, gutter = 0, width = 0;
  state[key + ".zoom"] ??= 1;
  state[key + ".at"] ??= 0;
  const window = () => {
    const part = 1 / state[key + ".zoom"], from = domain[0] + (domain[1] - domain[0]) * (1 - part) * state[key + ".at"];
    return [from, from + (domain[1] - domain[0]) * part];
  };
  const zoom = el("div", { class: "controls" },
    slider(key + ".zoom", "Zoom of " + label, [1, 50, 0.5], (v) => plain(v, 3) + "×", () => node.redraw()),
    slider(key + ".at", "Position in " + label, [0, 1, 0.01], percent, () => node.redraw()));
  for (const [i, text] of [[0, "Zoom "], [1, "Position "]]) zoom.children[i].firstChild.textContent = text;
  const node = el("div", { class: "boxes" }, canvas, says, zoom);

  const px = (x) => gutter + (x - window()[0]) / span * (width - gutter);
  node.redraw = () => {
    const g = canvas.getContext("2d"), scale = devicePixelRatio || 1, foot = 20;
    width = canvas.clientWidth;
    Object.assign(canvas, { width: width * scale, height: (height + foot) * scale });
    canvas.style.height = height + foot + "px";
    g.scale(scale, scale);
    g.font = "12px " + Chart.defaults.font.family;
    gutter = Math.min(width * 0.36, 8 + Math.max(0, ...labels.map((l) => g.measureText(l.text).width)));
    const [from, to] = window();
    span = to - from;
    g.fillStyle = colour("grid");
    g.fillRect(gutter, 0, width - gutter, height);
    g.textBaseline = "middle";
    labels.forEach((l) => { g.fillStyle = colour("text"); g.fillText(l.text, 0, Math.max(7, Math.min(height - 7, l.y * height)), gutter - 6); });
    const inks = {};
    g.save();
    g.beginPath();
    g.rect(gutter, 0, width - gutter, height);
    g.clip();
    items.forEach((b, i) => {
      if (b.x1 < from || b.x0 > to) return;
      const x = px(b.x0), w = Math.max(0.7, px(b.x1) - x), y = b.y0 * height, h = Math.max(0.7, (b.y1 - b.y0) * height);
      g.fillStyle = inks[b.ink] ??= colour(b.ink);
      g.fillRect(x, y, w > 3 ? w - 0.8 : w, h > 3 ? h - 0.8 : h);
      const fits = b.mark && h > 11 && [b.mark, b.brief].find((text) => text && g.measureText(text).width + 4 < w);
      if (fits) {
        g.fillStyle = inks.on ??= colour("on");
        g.fillText(fits, x + (w - g.measureText(fits).width) / 2, y + h / 2);
      }
    });
    if (items[at]) {
      const b = items[at];
      g.strokeStyle = colour("text");
      g.lineWidth = 2;
      g.strokeRect(px(b.x0), b.y0 * height, Math.max(2, px(b.x1) - px(b.x0)), (b.y1 - b.y0) * height);
    }
    g.restore();
    g.fillStyle = colour("muted");
    const step = roundStep(span / Math.max(2, Math.floor((width - gutter) / 90)), 10);
    for (let x = Math.ceil(from / step) * step; x <= to; x += step) {
      const text = ticks(x), w = g.measureText(text).width;
      g.fillText(text, Math.max(gutter, Math.min(width - w, px(x) - w / 2)), height + 11);
    }
  };

  function select(i) {
    at = i;
    says.textContent = items[i]?.text ?? note;
    node.redraw();
  }
  /* A box that is out of sight is scrolled to. */
  function walk(i) {
    const b = items[i], [from, to] = window(), whole = domain[1] - domain[0];
    if (b.x0 < from || b.x0 > to) state[key + ".at"] = Math.max(0, Math.min(1, (b.x0 - domain[0] - span / 4) / (whole - span)));
    zoom.querySelectorAll("input")[1].value = state[key + ".at"];
    select(i);
  }
  /* The nearest box above (-1) or below (1). */
  function beside(way) {
    const b = items[at], middle = (x) => (x.y0 + x.y1) / 2;
    let best = at, least = Infinity;
    items.forEach((x, i) => {
      const dy = (middle(x) - middle(b)) * way;
      const far = dy * 1e3 + Math.abs(x.x0 + x.x1 - b.x0 - b.x1) / (domain[1] - domain[0]);
      if (dy > 1e-9 && far < least) [best, least] = [i, far];
    });
    return best;
  }
  canvas.addEventListener("keydown", (e) => {
    const to = { ArrowRight: () => at + 1, ArrowLeft: () => at - 1, Home: () => 0, End: () => items.length - 1, ArrowUp: () => at < 0 ? 0 : beside(-1), ArrowDown: () => at < 0 ? 0 : beside(1) }[e.key];
    if (!to || !items.length) return;
    e.preventDefault();
    walk(Math.max(0, Math.min(items.length - 1, to())));
  });
  canvas.addEventListener("pointermove", (e) => {
    const r = canvas.getBoundingClientRect(), x = e.clientX - r.left, y = (e.clientY - r.top) / height;
    const i = items.findLastIndex((b) => y >= b.y0 && y <= b.y1 && x >= px(b.x0) - 1 && x <= px(b.x1) + 1);
    if (i !== at && i >= 0) select(i);
  });
  new ResizeObserver(() => { if (canvas.clientWidth !== width && canvas.isConnected) node.redraw(); }).observe(canvas);
  drawn.add(node);
  return node;
}

/* --- Pipeline --- */

const KINDS = { forward: "c0", backward: "c1", communication: "c2", update: "c3", other: "idle" };
const MOST_LANES = 64;

/* Kinds of kernels by their names; one that is made of two has the name of the first before that of the second. */
const KERNELS = [["product", "c4", /^(linear|bmm)/], ["attention", "c5", /^attention/],
  ["normalization, elementwise", "c6", /^(layernorm|rmsnorm|gelu|swiglu|bias_residual|ew|colsum|rope|dropout|cast|accumulate|repeat)/], ["other kernels", "idle", /^/]];
const kernelInk = (name) => KERNELS.find(([, , names]) => names.test(name))[1];

/* What a span of the lane compute does, by its name. */
function kindOf(name, lane) {
  if (lane === "communication") return "communication";
  const word = name.split(" ")[0];
  if (word === "forward" || word === "backward" || word === "update") return word;
  return /squares|clip|learning rate|norm,/.test(name) ? "update" : "other";
}

/* Time that at least one of these spans [begin, end] takes. */
function covered(spans) {
  let all = 0, until = -Infinity;
  for (const [begin, end] of [...spans].sort((a, b) => a[0] - b[0])) {
    all += Math.max(0, end - Math.max(begin, until));
    until = Math.max(until, end);
  }
  return all;
}

const MOST_STAGES = 4096;

function plannedLanes(schedule) {
  const { stages, span, cells } = schedule, idle = [];
  if (!(stages <= MOST_STAGES)) throw new Error(`the schedule has ${stages} stages, more than ${MOST_STAGES}`);
  const items = cells.map(([stage, chunk, micro, backward, begin, end]) => {
    const kind = backward ? "backward" : "forward";
    return { x0: begin, x1: end, y0: (stage + 0.06) / stages, y1: (stage + 0.94) / stages, ink: KINDS[kind], mark: (backward ? "B" : "F") + micro, brief: String(micro), order: stage,
      text: `stage ${stage}: ${kind} of micro-batch ${micro}${chunk ? `, chunk ${chunk}` : ""}, from ${flop(begin, span)} to ${flop(end, span)} of ${flop(span)}` };
  }).sort((a, b) => a.order - b.order || a.x0 - b.x0);
  for (let s = 0; s < stages; s++) idle.push(1 - covered(cells.filter((c) => c[0] === s).map((c) => [c[4], c[5]])) / span);
  return { items, idle, domain: [0, span], labels: idle.map((share, s) => ({ y: (s + 0.5) / stages, text: `stage ${s}, idle ${percent(share)}` })), height: Math.max(50, 30 * stages) };
}

/* Compute above communication (above kernels), for each rank. */
function tracedLanes(trace, kernels) {
  const rows = Math.min(trace.ranks, MOST_LANES), shown = kernels ? ["compute", "communication", "kernels"] : ["compute", "communication"];
  const items = [], busy = Array.from({ length: rows }, () => []), spent = Array.from({ length: rows }, () => ({}));
  for (const [rank, lane, begin, duration, name] of trace.spans) {
    const at = shown.indexOf(trace.lanes[lane]), word = trace.names[name] ?? "?";
    if (at < 0 || rank >= rows) continue;
    const kind = at < 2 && kindOf(word, trace.lanes[lane]);
    if (at === 0) busy[rank].push([begin, begin + duration]);
    if (at < 2) spent[rank][kind] = (spent[rank][kind] || 0) + duration;
    items.push({ x0: begin, x1: begin + duration, y0: (rank + 0.08 + 0.84 * at / shown.length) / rows, y1: (rank + 0.08 + 0.84 * (at + 1) / shown.length) / rows, ink: at < 2 ? KINDS[kind] : kernelInk(word),
      text: `rank ${rank}, ${trace.lanes[lane]}: ${word}, ${times(duration / 1000)}, begins at ${times(begin / 1000)}` });
  }
  items.sort((a, b) => a.y0 - b.y0 || a.x0 - b.x0);
  const idle = busy.map((spans) => 1 - covered(spans) / trace.us);
  return { items, idle, spent, domain: [0, trace.us], labels: idle.map((share, r) => ({ y: (r + 0.5) / rows, text: `rank ${r}, idle ${percent(share)}` })), height: Math.max(60, (kernels ? 48 : 34) * rows) };
}

/* --- Arena --- */

const MAP_INKS = { parameters: "c0", gradients: "c1", "masters and states": "c3", communication: "c2", "saved for backward": "c5", "between blocks": "c6", temporary: "c4", "gathered parameters": "c7" };
const mapInk = (kind, i) => MAP_INKS[kind] || palette(i + 4);

/* The most bytes that these tensors hold at one time. */
function highest(tensors) {
  const changes = [];
  for (const [, size, first, until] of tensors) changes.push([first, size], [until + 1, -size]);
  let now = 0, most = 0;
  for (const [, change] of changes.sort((a, b) => a[0] - b[0] || a[1] - b[1])) most = Math.max(most, now += change);
  return most;
}

function arenaMap(arena) {
  if (!(arena.bytes > 0)) throw new Error(`the arena has ${arena.bytes} bytes`);
  const entries = Math.max(1, arena.entries.length), of = (offset) => 1 - offset / arena.bytes;
  const place = (offset, size) => ({ y0: of(offset + size), y1: of(offset) });
  const where = (offset, size) => `${bytes(size)} at ${bytes(offset)}`;
  const regions = arena.regions.map(([kind, offset, size]) => ({ x0: 0, x1: entries, ...place(offset, size), ink: mapInk(arena.kinds[kind], kind), mark: arena.kinds[kind], text: `region ${arena.kinds[kind]}: ${where(offset, size)}, the whole step` }));
  const tensors = arena.tensors.map(([offset, size, first, until, kind]) => ({ x0: first, x1: until + 1, ...place(offset, size), ink: mapInk(arena.kinds[kind], kind),
    text: `${arena.kinds[kind]}: ${where(offset, size)}, from entry ${first} (${arena.entries[first] ?? "?"}) to ${until} (${arena.entries[until] ?? "?"})` }));
  const step = roundStep(arena.bytes / 6, 2), labels = [];
  for (let at = 0; at <= arena.bytes; at += step) labels.push({ y: of(at), text: bytes(at) });
  return { items: [...regions, ...tensors], domain: [0, entries], labels, height: 320, ticks: (x) => "entry " + plain(Math.round(x)) };
}

/* --- Mesh --- */

const MOST_CELLS = 2048;

/* Coordinates of a rank; the first axis counts fastest. */
function coordinates(rank, mesh) {
  return mesh.map((axis) => {
    const at = rank % axis.size;
    rank = Math.floor(rank / axis.size);
    return at;
  });
}

function rankOf(at, mesh) {
  return mesh.reduceRight((rank, axis, a) => rank * axis.size + at[a], 0);
}

/* Ranks that differ from `rank` on this axis alone, itself among them; and a number of the group. */
function groupOf(rank, a, mesh) {
  const at = coordinates(rank, mesh);
  const peers = Array.from({ length: mesh[a].size }, (_, i) => rankOf(at.with(a, i), mesh));
  return { peers, number: rankOf(at.toSpliced(a, 1), mesh.toSpliced(a, 1)) };
}

const machineOf = (record, rank) => record.machines?.[rank] ?? 0;

/* Which ranks stand together in a titled block: [{title, ranks, columns}, ...]. */
function blocks(record, byMachine, count) {
  const { mesh } = record, out = new Map();
  for (let rank = 0; rank < count; rank++) {
    const at = coordinates(rank, mesh), outer = at.slice(2);
    const title = byMachine ? `machine ${machineOf(record, rank)}` : outer.map((v, a) => `${mesh[a + 2].axis} ${v}`).join(", ");
    if (!out.has(title)) out.set(title, []);
    out.get(title).push(rank);
  }
  const columns = mesh[0].size;
  return [...out].map(([title, ranks]) => ({ title, ranks, columns: Math.min(byMachine ? 8 : 64, columns, ranks.length) }));
}

/* The grid; the axis that state.axis names colours its groups. */
function meshGrid(record) {
  const { mesh } = record, a = mesh.findIndex((x) => x.axis === state.axis), count = Math.min(record.ranks, MOST_CELLS);
  const says = el("output", { "aria-live": "polite" }, "Point at a rank, or go from rank to rank with the arrow keys, to see whom it talks to."), cells = [];
  const tell = (rank) => {
    const at = coordinates(rank, mesh), place = mesh.map((x, i) => `${x.axis} ${at[i]}`).join(", ");
    const peers = a >= 0 ? groupOf(rank, a, mesh).peers : [];
    const to = (same, transport) => {
      const others = peers.filter((p) => p !== rank && (machineOf(record, p) === machineOf(record, rank)) === same);
      return others.length ? `; on ${mesh[a].axis} it talks to ${ranksText(others)} over ${transport}` : "";
    };
    says.textContent = `rank ${rank}: ${place || "no mesh axis"}, machine ${machineOf(record, rank)}` + (a >= 0 ? to(true, mesh[a].inside ?? mesh[a].transport) + to(false, mesh[a].transport + " between machines") : "");
    cells.forEach((cell, r) => cell.classList.toggle("peer", peers.includes(r) || r === rank));
  };
  const cell = (rank) => {
    const group = a >= 0 ? groupOf(rank, a, mesh).number : 0;
    const c = el("div", { class: "cell", tabindex: rank ? -1 : 0, role: "img", "aria-label": `rank ${rank}, group ${group}`, "data-key": "mesh." + rank, style: `--of: var(--${palette(group)})`, onpointerenter: () => tell(rank), onfocus: () => tell(rank), onkeydown: (e) => {
      const move = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: +c.parentNode.dataset.columns, ArrowUp: -c.parentNode.dataset.columns }[e.key];
      if (!move) return;
      e.preventDefault();
      cells[Math.max(0, Math.min(count - 1, rank + move))].focus();
    } }, String(rank), a >= 0 && el("small", {}, "group " + group));
    return cells[rank] = c;
  };
  const all = blocks(record, state.arrange === "machine", count);
  const dense = count > 512 || mesh[0].size > 16, wide = dense ? "1.2rem" : "4.2rem";
  return [el("div", { class: "meshes" }, all.map((b) => el("div", { class: "block" }, b.title && el("h4", {}, b.title),
    el("div", { class: dense ? "cells dense" : "cells", "data-columns": b.columns, style: `grid-template-columns: repeat(${b.columns}, minmax(0, ${wide})); width: calc(${b.columns} * ${wide}); max-width: 100%` }, b.ranks.map(cell))))), says];
}

/* 0, 1, 2, 3, 7 as "ranks 0 to 3, 7". */
function ranksText(ranks) {
  const out = [];
  for (const r of ranks)
    if (out.length && out.at(-1)[1] === r - 1) out.at(-1)[1] = r;
    else out.push([r, r]);
  return (ranks.length > 1 ? "ranks " : "rank ") + out.map(([a, b]) => a === b ? a : b === a + 1 ? `${a}, ${b}` : `${a} to ${b}`).join(", ");
}
