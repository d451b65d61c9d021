/* page.js: what every part of the page stands on: elements, numbers, parts that are drawn again when their data has changed,
   the theme, and newer data. Text of the data becomes text nodes, never HTML. */
"use strict";

let data = null;
const state = {}; // what the reader has chosen, by name; outlives a redraw
const drawn = new Set(); // elements with a canvas: redraw() and, if need be, dispose()

/* --- Elements --- */

function el(name, attributes, ...children) {
  const e = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key.startsWith("on")) e.addEventListener(key.slice(2), value);
    else if (value != null && value !== false) e.setAttribute(key, value === true ? "" : value);
  }
  e.append(...children.flat().filter((x) => x != null && x !== false));
  return e;
}

/* A control that keeps its value in state[key]; changed() is called after. */
function choice(key, label, options, changed) {
  if (!options.some(([value]) => value === state[key])) state[key] = options[0]?.[0];
  const select = el("select", { "data-key": key, onchange: () => { state[key] = select.value; changed(); } },
    options.map(([value, text]) => el("option", { value, selected: value === state[key] }, text)));
  return el("label", {}, label + " ", select);
}

function tick(key, label, changed, ...before) {
  const box = el("input", { type: "checkbox", "data-key": key, checked: !!state[key], onchange: () => { state[key] = box.checked; changed(); } });
  return el("label", {}, box, " ", ...before, label);
}

function slider(key, label, [low, high, step], shown, changed) {
  const says = el("span", {}, shown(state[key]));
  const input = el("input", { type: "range", min: low, max: high, step, value: state[key], "data-key": key, "aria-label": label, oninput: () => {
    state[key] = +input.value;
    says.textContent = shown(state[key]);
    changed();
  } });
  return el("label", {}, label + " ", input, " ", says);
}

/* A number as a cell: form() writes it in the unit of the largest of its column. */
const as = (form, v) => ({ form, v });

/* A table in a box that scrolls. A cell is a text, {text, left, wide, long}, as(form, v), or an element; the first of a row is its head. */
function table(key, label, head, rows, classOf = () => null) {
  const most = head.map((_, c) => largest(rows.map((r) => r[c]?.v)));
  const cell = (tag, x, c) => {
    const it = x instanceof Node || x == null || typeof x !== "object" ? { text: x } : x;
    return el(tag, { class: [it.left && "left", it.wide && "left wide", it.long && "left wide long"].filter(Boolean).join(" ") || null, scope: tag === "th" ? "row" : null }, (it.form ? it.form(it.v, most[c]) : it.text) ?? "–");
  };
  return el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label, "data-key": key }, el("table", {},
    el("thead", {}, el("tr", {}, head.map((x, i) => x instanceof Node ? x : el("th", { scope: "col", class: i ? x.left && "left" : "left" }, x.text ?? x)))),
    el("tbody", {}, rows.map((row, i) => el("tr", { class: classOf(i) }, row.map((x, c) => cell(c ? "td" : "th", x, c)))))));
}

function fold(key, summary, build) {
  const inside = el("div");
  const box = el("details", { open: !!state[key], ontoggle: () => {
    state[key] = box.open;
    if (box.open && !inside.firstChild) inside.append(...[build()].flat());
  } }, el("summary", { "data-key": key }, summary), inside);
  if (box.open) inside.append(...[build()].flat());
  return box;
}

async function copy(text, button) {
  const before = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "copied";
  } catch {
    button.textContent = "the browser refuses to copy: select the text";
  }
  setTimeout(() => { button.textContent = before; }, 2500);
}

function copied(key, what, text) {
  const button = el("button", { type: "button", "data-key": key + ".copy", onclick: () => copy(text, button) }, "Copy the " + what);
  return [button, el("pre", { tabindex: 0, "aria-label": what, "data-key": key + ".text" }, text)];
}

const sentence = (text) => el("p", { class: "empty" }, text);
const swatch = (name) => el("span", { class: "swatch", style: `background: var(--${name})` });
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
const palette = (i) => "c" + i % 8;
const legend = (entries) => el("ul", { class: "legend" }, entries.map(([name, text]) => el("li", {}, swatch(name), text)));

/* --- Numbers --- */

const is = (v) => typeof v === "number" && isFinite(v);
const sum = (values) => values.reduce((a, b) => a + b, 0);
const last = (values) => values.findLast(is);
const largest = (values) => values.reduce((most, v) => is(v) ? Math.max(most, Math.abs(v)) : most, 0);
const median = (values) => { const s = values.filter(is).sort((a, b) => a - b); return s.length ? (s[s.length - 1 >> 1] + s[s.length >> 1]) / 2 : null; };

function plain(v, digits = 4) {
  if (!is(v)) return "–";
  const size = Math.abs(v);
  if (size && (size < 1e-4 || size >= 1e9)) return String(Number(v.toPrecision(digits)).toExponential());
  return v.toLocaleString("en", Number.isInteger(v) ? {} : { maximumSignificantDigits: Math.max(digits, size >= 1e3 ? String(Math.trunc(size)).length : 0) });
}

/* In the unit that suits `like`. */
function scaled(v, base, names, like = v) {
  let i = 0;
  for (; Math.abs(like) >= base && i < names.length - 1; i++) [v, like] = [v / base, like / base];
  return plain(v) + " " + names[i];
}

/* The next step of an axis: 1, 2 or 5 times a power of ten, or a power of two. */
function roundStep(least, base) {
  const power = base ** Math.floor(Math.log(least) / Math.log(base));
  return power * (base === 2 ? 2 : [1, 2, 5, 10].find((x) => x * power >= least * 0.999));
}

const bytes = (v, like) => is(v) ? scaled(v, 1024, ["B", "KiB", "MiB", "GiB", "TiB"], like) : "–";
const flop = (v, like) => is(v) ? scaled(v, 1000, ["FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"], like) : "–";
const kilo = (v, like) => is(v) ? scaled(v, 1000, ["", "k", "M"], like).trim() : "–";
const rate = (v, like) => is(v) ? kilo(v, like) + " tokens/s" : "–";
const percent = (v) => is(v) ? plain(100 * v, 3) + " %" : "–";
const times = (v, like = v) => !is(v) ? "–" : like >= 1000 ? plain(v / 1000) + " s" : like >= 1 || !like ? plain(v) + " ms" : plain(1000 * v) + " µs";
const lengths = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
const lengthUnit = (seconds) => lengths.find(([unit]) => seconds >= 2 * unit) || lengths.at(-1);
const lasting = (v, like = v) => is(v) ? plain(v / lengthUnit(like)[0]) + " " + lengthUnit(like)[1] : "–";
const when = (t) => is(t) ? new Date(1000 * t).toISOString().slice(0, 19).replace("T", " ") + " UTC" : "–";
const units = { bytes, ms: times, "tokens/s": rate, share: percent };

/* A value of a metric as people read it. */
function shown(name, unit, v, like) {
  return name === "mfu" ? percent(v) : units[unit] ? units[unit](v, like) : plain(v, 5);
}

/* --- Parts --- */

const parts = new Map(); // by id: {section, body, text}

/* What `part` shows; an error of one part leaves the others alone, and is seen. */
function fill(known, part) {
  try {
    known.body.replaceChildren(...[part.build()].flat().filter(Boolean));
  } catch (e) {
    known.body.replaceChildren(el("p", { class: "error" }, `This part cannot be drawn: ${e.message}. Please report it with the file of this page.`));
  }
}

function newPart(part) {
  const body = el("div");
  return { body, section: el("section", { id: part.id }, el(part.level, {}, part.title), body), text: null };
}

/* Build the parts whose data differs, in the order given, and drop those that are gone. */
function render() {
  const restore = remember();
  const wanted = [...runParts(), ...sweepParts()];
  const main = document.querySelector("main");
  wanted.forEach((part, i) => {
    const known = parts.get(part.id) || newPart(part), text = JSON.stringify([part.title, part.input]);
    parts.set(part.id, known);
    if (main.children[i] !== known.section) main.insertBefore(known.section, main.children[i] || null);
    if (known.text !== text) {
      known.section.firstChild.textContent = part.title;
      fill(known, part);
    }
    known.text = text;
  });
  for (const [id, known] of parts)
    if (!wanted.some((part) => part.id === id)) {
      known.section.remove();
      parts.delete(id);
    }
  document.querySelector("nav").replaceChildren(...wanted.filter((x) => x.title).map((x) => el("a", { href: "#" + x.id, class: x.level === "h3" && "inner" }, x.short || x.title)));
  if (!wanted.length) main.replaceChildren(sentence("There is no run and no sweep in this page."));
  showRange();
  redraw((node) => !node.current);
  restore();
}

/* Draw the canvases that `which` names, and forget those that are no longer in the page. */
function redraw(which = () => true) {
  for (const node of drawn)
    if (!node.isConnected) {
      node.dispose?.();
      drawn.delete(node);
    } else if (which(node)) {
      node.redraw();
      node.current = true;
    }
}

/* Where the reader is: focus, selected text of an input, scrolled boxes. Returns what puts it back. */
function remember() {
  const at = document.activeElement, key = at?.dataset?.key, from = at?.selectionStart, to = at?.selectionEnd;
  const y = scrollY, scrolled = [...document.querySelectorAll(".scroll, pre")].map((e) => [e.dataset.key, e.scrollTop, e.scrollLeft]).filter(([k, a, b]) => k && (a || b));
  const find = (k) => document.querySelector(`[data-key="${CSS.escape(k)}"]`);
  return () => {
    for (const [k, top, left] of scrolled) Object.assign(find(k) || {}, { scrollTop: top, scrollLeft: left });
    const again = key && !at.isConnected && find(key);
    if (again) again.focus({ preventScroll: true });
    if (again && from != null && again.type === "text") again.setSelectionRange(from, to);
    if (scrollY !== y) scrollTo(scrollX, y);
  };
}

/* --- Theme, newer data, start --- */

function applyTheme() {
  const chosen = document.getElementById("theme").value;
  const dark = chosen === "auto" ? matchMedia("(prefers-color-scheme: dark)").matches : chosen === "dark";
  document.documentElement.dataset.theme = dark && !matchMedia("print").matches ? "dark" : "light";
  redraw();
}

function say(text, bad) {
  const status = document.getElementById("status");
  if (status.textContent !== text) status.textContent = text;
  status.classList.toggle("bad", !!bad);
}

function take(text) {
  const next = JSON.parse(text);
  if (next?.version !== 1 || !Array.isArray(next.runs) || !Array.isArray(next.sweeps))
    throw new Error(`it has version ${next?.version}, this page reads version 1 with runs and sweeps`);
  data = next;
  for (const node of drawn) node.current = false;
  const made = data.made || {};
  document.getElementById("made").textContent = `made ${made.date ?? "at an unknown time"} by weft ${made.weft ?? "?"}${made.commit ? ` (${made.commit})` : ""}`;
  render();
}

/* Ask again and again until the data says that it is the last. A list that is open or a range that is being dragged is left alone. */
async function live(before) {
  const { url, seconds } = data.live;
  await new Promise((done) => setTimeout(done, 1000 * Math.max(0.2, seconds)));
  const ask = async () => {
    const answer = await fetch(url, { cache: "no-store", signal: AbortSignal.timeout(1000 * Math.max(10, seconds)) });
    return { status: answer.status, text: answer.ok ? await answer.text() : null };
  };
  const { status, text } = await ask().catch(() => ({})), again = `It asks again every ${plain(seconds)} s.`;
  const open = () => CSS.supports("selector(:open)") && document.querySelector("select:open");
  while (state.busy || open()) await new Promise((done) => setTimeout(done, 100));
  try {
    if (text && text !== before) take(text);
    before = text || before;
    if (!text) say(`The server ${status ? `answers with status ${status}` : "does not answer"}; the page shows what it had. ${again}`, true);
    else say(data.live ? `Live: asked every ${plain(data.live.seconds)} s, last answer ${new Date().toLocaleTimeString()}` : "The run has ended: this page is complete.");
  } catch (e) {
    say(`The newer data cannot be read: ${e.message}. The page shows what it had. ${again}`, true);
  }
  if (data.live) live(before);
}

function start() {
  addEventListener("error", (e) => say(`An error in this page: ${e.message}`, true));
  document.getElementById("theme").addEventListener("change", applyTheme);
  const nav = document.querySelector("nav");
  new ResizeObserver(() => document.documentElement.style.setProperty("--nav", nav.offsetHeight + "px")).observe(nav, { box: "border-box" });
  for (const query of ["(prefers-color-scheme: dark)", "print"]) matchMedia(query).addEventListener("change", applyTheme);
  try {
    applyTheme();
    setUpCharts();
    take(document.getElementById("data").textContent);
  } catch (e) {
    say(`The data of this page cannot be read: ${e.message}.`, true);
    return;
  }
  if (data.live) live(null);
}
