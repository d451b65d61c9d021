"""page_test.py WEFT: does the page of `weft report` show what was measured, to the eye, the
keyboard and paper?

A headless Chromium opens pages, uses every control and reads what stands there. Page and Live
assemble them in Python, from made_up.py; Command has them made by the program, from a run and a
sweep. Needs Debian's chromium, chromium-driver and python3-selenium."""
import copy
import functools
import http.server
import json
import math
import os
import re
import shutil
import sys
import threading
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "parity")]
import weft_jobs as w  # noqa: E402  (tests/parity/weft_jobs.py)
from made_up import BARE, EVIL, a_row, a_run, a_sweep, bucketed, whole, write_lines  # noqa: E402

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import Select, WebDriverWait
except ImportError:
    print("there is no python3-selenium here; make integration installs it")
    sys.exit(77)

PAGE = os.path.join(HERE, "..", "..", "tools", "report", "page")
CHART = "/usr/share/javascript/chart.js/chart.min.js"
ORDER = ("page.js", "charts.js", "draw.js", "runs.js", "sweeps.js")
FACTORS = {"": 1, "k": 1e3, "M": 1e6, "ms": 1, "s": 1e3, "µs": 1e-3, "%": 0.01, "B": 1,
           "KiB": 1024, "MiB": 1024 ** 2, "GiB": 1024 ** 3, "tokens/s": 1,
           "k tokens/s": 1e3, "M tokens/s": 1e6}


def assemble(data):
    """The page with `data` in it, as the program puts it together."""
    html = w.read_text(os.path.join(PAGE, "page.html"))
    texts = {"/*CSS*/": w.read_text(os.path.join(PAGE, "page.css")),
             "/*CHART*/": w.read_text(CHART),
             "/*PAGE*/": "".join(w.read_text(os.path.join(PAGE, x)) for x in ORDER),
             "/*DATA*/": data if isinstance(data, str) else
             json.dumps(data).replace("<", "\\u003c")}
    for mark, text in texts.items():
        before, after = html.split(mark)
        html = before + text + after
    return html


def value(text):
    """The number that people read in a cell: 1,234.5 KiB."""
    found = re.fullmatch(r"(-?[\d,.]+(?:e[+-]\d+)?) ?(.*)", text)
    return float(found[1].replace(",", "")) * FACTORS[found[2]]


# --- The browser ---

def chromium():
    options = webdriver.ChromeOptions()
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(service=Service(shutil.which("chromedriver")), options=options)


class Browsing(w.Bench):
    """A browser for all cases of a class; after each, its console is clean and no part of the page
    has failed."""

    @classmethod
    def setUpClass(cls):
        if not shutil.which("chromedriver") or not os.path.exists(CHART):
            raise unittest.SkipTest("there is no chromium-driver or no libjs-chart.js here; "
                                    "make integration installs them")
        super().setUpClass()
        cls.browser = chromium()
        cls.addClassCleanup(cls.browser.quit)

    def setUp(self):
        self.browser.get_log("browser")
        self.forgiven = "$^"  # messages of the console that are meant
        self.size(1280, 900)
        self.emulate()

    def tearDown(self):
        told = [x["message"] for x in self.browser.get_log("browser")
                if not re.search(self.forgiven, x["message"])]
        self.assertEqual(told, [])
        self.assertEqual([x.text for x in self.all(".error")], [])

    def open(self, data):
        path = self.path("page.html")
        with open(path, "w", encoding="utf-8") as f:
            f.write(assemble(data))
        self.browser.get("file://" + path)

    def size(self, width, height, scale=1):
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                     {"width": width, "height": height, "deviceScaleFactor": scale,
                                      "mobile": False})

    def emulate(self, media="", scheme="light"):
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia",
                                     {"media": media, "features": [{"name": "prefers-color-scheme",
                                         "value": scheme}]})

    def js(self, text, *arguments):
        return self.browser.execute_script("return " + text, *arguments)

    def all(self, css):
        return self.browser.find_elements(By.CSS_SELECTOR, css)

    def one(self, css):
        return self.browser.find_element(By.CSS_SELECTOR, css)

    def key(self, name):
        return self.one(f'[data-key="{name}"]')

    def click(self, key):
        """In the middle of the window, where the list of parts does not cover it."""
        self.js("arguments[0].scrollIntoView({block: 'center'})", self.key(key))
        self.key(key).click()

    def type(self, key, text):
        self.key(key).send_keys(Keys.CONTROL + "a" + Keys.NULL, text, Keys.TAB)

    def choose(self, key, text):
        Select(self.key(key)).select_by_visible_text(text)

    def slide(self, key, presses):
        for _ in range(presses):
            self.key(key).send_keys(Keys.ARROW_RIGHT)

    def text(self, css):
        return self.js("document.querySelector(arguments[0]).textContent", css)

    def wait(self, question, what):
        return WebDriverWait(self.browser, w.patience(10)).until(lambda _: question(), what)

    def table(self, key):
        """[head, row, ...] of a table, texts."""
        return self.js("""[...document.querySelectorAll(`[data-key="${arguments[0]}"] tr`)]
            .map((r) => [...r.children].map((c) => c.textContent))""", key)

    def chart(self, key, what):
        """What the chart `c` of a panel has."""
        return self.js("((c) => " + what + ")(Chart.getChart(document.querySelector("
                       "arguments[0])))", f"#panel\\.{key} canvas")

    def pixels(self, css):
        """A canvas, to compare."""
        return self.js("document.querySelector(arguments[0]).toDataURL()", css)

    def changes(self, css, do):
        before = self.pixels(css)
        do()
        self.assertNotEqual(self.pixels(css), before, css)

    def figures(self, key):
        """The table of a chart; the chart comes back."""
        self.click(key + ".table")
        rows = self.table(key + ".figures")
        self.click(key + ".table")
        return rows

    def close(self, text, number, digits=4):
        self.assertAlmostEqual(value(text) / number if number else value(text) + 1, 1,
                               delta=0.6 * 10 ** (1 - digits), msg=f"{text}, not {number}")


class Page(Browsing):
    def test_figures_of_a_run(self):
        run = a_run()
        self.open(whole([run]))
        self.assertEqual(self.table("runs.table")[1][:7],
                         ["run", "ended after step 40 of 50", "40 of 50", "4", "tp 2 × pp 2",
                          "2.575 at 40", "2.625 at 40"])
        self.assertEqual(self.table("runs.table")[1][7:9] + self.table("runs.table")[1][11:12],
                         ["20 s", "47.24 k tokens/s", "99.13 GFLOP/s a rank"])
        for key, names in (("loss", ["loss", "valid_loss"]), ("rate", ["tokens_per_s"]),
                           ("norm", ["grad_norm"]), ("lr", ["lr"])):
            head, *rows = self.figures(key)
            self.assertEqual(head, ["step", *names])
            self.assertEqual([r[0] for r in rows], [str(x) for x in run["step"]])
            for row, number in zip(rows, run["series"][names[0]]["mean"]):
                self.close(row[1], number)
        self.assertEqual([r[2] for r in self.figures("loss")[1:] if r[2]], ["2.75", "2.625"])
        for row, i in zip(self.figures("split")[1:], range(40)):
            for cell, name in zip(row[1:], ("compute_ms", "exposed_comm_ms", "bubble_ms",
                                            "optimizer_ms")):
                self.close(cell, run["series"][name]["mean"][i])
        self.choose("splitAs", "share")
        self.assertAlmostEqual(sum(map(value, self.figures("split")[5][1:])), 1, delta=0.002)
        memory = self.figures("memory")
        self.assertEqual([r[0] for r in memory[1:]], ["ranks 0, 1, stage 0", "ranks 2, 3, stage 1",
                                                      "measured, resident",
                                                      "highest of all ranks"])
        self.close(memory[1][-1], 12738560)
        self.close(memory[3][-1], 52428800)
        self.close(memory[4][-1], 73400320)
        sent = self.figures("sent")
        self.assertAlmostEqual(sum(value(r[4]) for r in sent[1:3]), 4816908, delta=2000)
        self.close(sent[-2][4], 4816908)
        self.close(sent[-1][4], 5603340)
        for word in ("Step 21, the middle one of those traced", "planned 25 %, measured 7.68 %"):
            self.assertIn(word, self.text("#pipeline"))
        self.assertIn("rank 0's whole process", self.text("#memory"))
        self.click("traced.table")
        self.wait(lambda: self.table("traced.figures"), "the table folds out")
        self.assertEqual(self.table("traced.figures")[1][:2], ["rank 0", "20 %"])
        self.assertIn("operations that overlap", self.text("#pipeline"))

    def test_split_by_axis(self):
        """Exposed communication is by mesh axis where the run has it so."""
        run = a_run()
        for i, axis in enumerate(("tp", "pp")):
            run["series"][f"axis.{axis}.exposed_comm_ms"] = {
                "unit": "ms", "mean": [2.5 + i + 0.01 * x for x in run["step"]]}
        self.open(whole([run]))
        head, *rows = self.figures("split")
        self.assertEqual(head[1:], ["compute", "exposed communication of tp",
                                    "exposed communication of pp", "bubble", "optimizer"])
        for row, step in zip(rows, run["step"], strict=True):
            self.close(row[2], 2.5 + 0.01 * step)
            self.close(row[3], 3.5 + 0.01 * step)

    def test_states(self):
        """The state in words, also of data that has no `state`; and peaks that differ."""
        runs = [a_run("a", 50), a_run("b", 30), a_run("c") | {"state": "running"}, BARE,
                a_run("d", 50), a_run("e", 30), a_run("f") | {"running": True}]
        for run in runs[4:]:
            del run["state"], run["elapsed"]
        words = ["complete", "ended after step 30 of 50", "running", "ended before a step"]
        self.open(whole(runs))
        rows = self.table("runs.table")[1:]
        self.assertEqual([r[1] for r in rows], words + words[:3])
        self.assertEqual([r[7] for r in rows], ["25 s", "15 s", "20 s", "–", *3 * ["11 s"]])
        self.assertNotIn("cannot be compared", self.text("#runs"))
        self.assertNotIn("ended in step", self.text("#runs"))
        for run in runs[:2]:
            run["record"]["begins"][-1] |= {"ended": 1, "step": 31, "why": "rank 1 is gone"}
        runs[0]["points"]["valid_loss"]["value"] = [2.5, 2.75]
        runs[0]["series"]["step_ms"]["mean"] = [2000.0] * 50
        runs[1]["record"]["peak_flops"] = 80e9
        self.open(whole(runs))
        self.assertEqual(self.table("runs.table")[1][6], "2.5 at 20")
        self.assertEqual([r[9] for r in self.table("runs.table")[1:3]], ["2 s", "0.04338 s"])
        self.assertIn("from 80 GFLOP/s to 99.13 GFLOP/s a rank", self.text("#runs"))
        self.assertIn("b: ended in step 31: rank 1 is gone", self.text("#runs"))
        self.assertNotIn("a: ended", self.text("#runs"))

    def test_over(self):
        """Curves over steps, time or tokens; a run that does not know them is named."""
        runs = [a_run("one"), a_run("two", 30)]
        del runs[1]["elapsed"]
        self.open(whole(runs))
        scale = lambda: self.chart("loss", "[c.scales.x.min, c.scales.x.max, "  # noqa: E731
                                           "c.scales.x.options.title.text]")
        self.assertEqual(scale(), [1, 40, "step"])
        self.choose("over", "time since the first step")
        self.assertEqual(scale(), [0, 20, "time since the first step"])
        self.assertIn("is unknown: two", self.text("#curves"))
        sets = lambda: self.chart("loss", "c.data.datasets"  # noqa: E731
                                          ".map((d) => [d.label, d.data.map((p) => p.x)])")
        self.assertEqual([x[0] for x in sets()], ["one loss", "one valid_loss"])
        self.assertEqual(sets()[1][1], [10, 20])
        self.type("range.from", "5.2")
        self.assertEqual([r[0] for r in self.figures("rate")[1:]], [str(x) for x in range(11, 41)])
        self.choose("over", "tokens")
        self.assertEqual(scale(), [0, 81920, "tokens"])
        self.assertEqual(len(sets()), 4)
        self.assertEqual(len(self.figures("rate")), 41)
        runs[0]["points"]["valid_loss"]["step"] = [20, 25]
        runs[0] |= {"step": [10, 30], "tokens": [100, 500],
                    "series": {"loss": {"unit": "", "mean": [2, 1]}}}
        self.open(whole(runs[:1]))
        self.choose("over", "tokens")
        self.assertEqual(sets()[1][1], [300, 400])
        del runs[0]["elapsed"], runs[0]["tokens"]
        self.open(whole(runs[:1]))
        self.assertEqual([x.text for x in Select(self.key("over")).options], ["step"])

    def test_equal_curves(self):
        """Runs with the same values are all seen, and their legend stays in view."""
        self.forgiven = "willReadFrequently"
        self.size(1280, 900, 2)
        self.open(whole([a_run("one"), a_run("two"), a_run("three")]))
        count = """((name) => {
            const c = document.getElementById("panel.rate").querySelector("canvas");
            const at = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
            const ink = [1, 3, 5].map((i) => parseInt(colour(name).slice(i, i + 2), 16));
            let n = 0;
            for (let i = 0; i < at.length; i += 4)
                n += ink.every((v, j) => Math.abs(v - at[i + j]) < 9) && at[i + 3] > 200;
            return n; })(arguments[0])"""
        for ink in ("c0", "c1", "c2"):
            self.assertGreater(self.js(count, ink), 40, ink)
        for width in (1280, 400):
            self.size(width, 900)
            self.js("document.getElementById('panel.metric').scrollIntoView({block: 'end'})")
            self.wait(lambda: self.js("""((e, n) => Math.abs(e.top - n.bottom) <= 1)(
                document.querySelector(".controls.runs").getBoundingClientRect(),
                document.querySelector("nav").getBoundingClientRect())"""), "the legend is there")

    def test_buckets(self):
        run = bucketed("long")
        valid = {k: [x] * 40 for k, x in (("mean", 3), ("min", 2.5), ("max", 4))}
        valid["min"][19] = 2.25
        run["series"]["valid_loss"] = {"unit": ""} | valid
        self.open(whole([run]))
        self.assertEqual(self.table("runs.table")[1][6], "2.25 at 2,000")
        head, *rows = self.figures("loss")
        self.assertEqual(head[1:4], ["loss, mean", "least", "largest"])
        for cell, kind in zip(rows[-1][1:4], ("mean", "min", "max")):
            self.close(cell, run["series"]["loss"][kind][-1])
        self.assertIn("up to 100 steps", self.text("#curves"))

    def test_several_runs(self):
        one, two = a_run("one"), a_run("two", 30, 1)
        one["record"]["job"] = one["record"]["job"].replace("plugin =", "plugin = shm")
        one["record"]["job"] += "[log]\n" + "".join(f"k{i} = {i}\n" for i in range(30))
        two["record"]["job"] += "[train.x]\ny = 1\n"
        self.open(whole([one, two, bucketed("three"), BARE]))
        self.assertEqual(self.table("differences.table")[1:],
                         [["optim.lr", "3e-3", "4e-3", "3e-3"],
                          ["comm.plugin", "shm", "empty", "empty"]])
        self.click("differences.rest")
        self.wait(lambda: self.table("differences.rest.table"), "the other keys fold out")
        self.assertEqual([r[0] for r in self.table("differences.rest.table")[1:]],
                         ["run.name", *(f"log.k{i}" for i in range(30)), "train.x.y"])
        for key in ("differences.table", "differences.rest.table"):
            self.assertTrue(self.js("arguments[0].scrollHeight <= arguments[0].clientHeight",
                                    self.key(key)), key)
        self.assertEqual(len(self.table("runs.table")), 5)
        self.changes("#panel\\.loss canvas", lambda: self.click("show.two"))
        self.assertNotIn("two loss", self.figures("loss")[0])
        for name in ("two", "bare"):
            self.choose("run", name)
            self.assertEqual(self.text("#run h2"), "Run " + name)
        self.assertIn("has no run.json", self.text("#memory"))

    def test_controls_of_curves(self):
        run = a_run()
        run["series"]["a constant"] = {"unit": "", "mean": [1] * 40}
        self.open(whole([run, a_run("other", 40, 2)]))
        loss = "#panel\\.loss canvas"
        self.changes(loss, lambda: self.click("log"))
        self.changes(loss, lambda: self.slide("smooth", 20))
        self.assertIn("0.4", self.js("arguments[0].parentNode.textContent", self.key("smooth")))
        chart = self.one(loss)
        self.changes(loss,
                     lambda: ActionChains(self.browser).move_to_element(chart).click_and_hold()
                     .move_by_offset(80, 5).release().perform())
        first, last = (int(self.key("range." + x).get_attribute("value")) for x in ("from", "to"))
        self.assertTrue(15 < first < last < 35, (first, last))
        self.assertEqual([int(r[0]) for r in self.figures("rate")[1:]],
                         list(range(first, last + 1)))
        self.click("range.all")
        self.assertEqual(len(self.figures("rate")), 41)
        self.type("range.from", "11")
        self.assertEqual(len(self.figures("rate")), 31)
        self.type("range.to", "9")
        self.assertIn("from 11 to 9", self.text("#range\\.says"))
        self.assertEqual(len(self.figures("rate")), 31)
        self.type("range.to", "20")
        self.assertEqual(self.text("#range\\.says"), "")
        self.assertEqual(len(self.figures("rate")), 11)
        ActionChains(self.browser).double_click(chart).perform()
        self.assertEqual(len(self.figures("rate")), 41)
        self.assertEqual(self.chart("step", "c.scales.y.type"), "logarithmic")
        self.assertEqual(Select(self.key("metric")).first_selected_option.text, "bubble_ms")
        self.choose("metric", "comm_bytes")
        self.assertEqual(self.figures("metric")[1][1], "4.594 MiB")
        self.choose("rankMetric", "compute_ms")
        self.assertEqual(self.figures("ranks")[-1], ["30", "52 ms", "47 ms", "42 ms"])

    def test_pictures(self):
        self.open(whole([a_run()]))
        for name, across in (("planned", Keys.ARROW_DOWN), ("traced", Keys.ARROW_DOWN),
                             ("arena.map", Keys.ARROW_UP)):
            canvas, css = self.key(name), f'[data-key="{name}"]'
            self.changes(css, lambda n=name: self.slide(n + ".zoom", 6))
            self.changes(css, lambda n=name: self.slide(n + ".at", 30))
            canvas.send_keys(Keys.HOME)
            says = [self.text(f"{css} + output")]
            for press in (Keys.ARROW_RIGHT, across, Keys.END):
                canvas.send_keys(press)
                says.append(self.text(f"{css} + output"))
            self.assertEqual(len(set(says)), 4, says)
            self.js("arguments[0].scrollIntoView({block: 'center'})", canvas)
        self.key("planned").send_keys(Keys.HOME)
        self.assertIn("from 0 FLOP to 1 FLOP of 9 FLOP", self.text("[data-key=planned] + output"))
        self.changes('[data-key="traced"]', lambda: self.click("kernels"))
        self.assertIn("normalization, elementwise", self.text("#pipeline"))
        self.assertEqual(self.js("""["linear.dw", "linear+gelu", "attention.dx", "rmsnorm", "gelu",
            "xent.max"].map(kernelInk)"""), ["c4", "c4", "c5", "c6", "c6", "idle"])
        ActionChains(self.browser).move_to_element(self.key("arena.map")).perform()
        self.click("arena.table")
        self.wait(lambda: self.table("arena.figures"), "the table folds out")
        self.assertEqual(self.table("arena.figures")[1:],
                         [["parameters", "1 for the whole step", "508 KiB"],
                          ["gradients", "1 for the whole step", "1,016 KiB"],
                          ["saved for backward", "7 for a part of it", "192 KiB"],
                          ["temporary", "7 for a part of it", "192 KiB"]])
        planned = self.chart("memory", "c.data.datasets.map((d) => [d.label, d.backgroundColor])")
        for kind in ("parameters", "gradients"):
            ink = self.js("colour(mapInk(arguments[0]))", kind)
            self.assertIn([kind, ink], planned)

    def test_mesh(self):
        self.open(whole([a_run()]))
        groups = lambda: [x.get_attribute("aria-label") for x in self.all(".cell")]  # noqa: E731
        self.assertEqual(groups(), ["rank 0, group 0", "rank 1, group 0", "rank 2, group 1",
                                    "rank 3, group 1"])
        self.choose("axis", "pp")
        self.assertEqual(groups(), ["rank 0, group 0", "rank 1, group 1", "rank 2, group 0",
                                    "rank 3, group 1"])
        self.choose("arrange", "machine")
        self.assertEqual([x.text for x in self.all(".block h4")], ["machine 0", "machine 1"])
        self.one(".cell").send_keys(Keys.ARROW_RIGHT)
        self.assertIn("rank 1: tp 1, pp 0, machine 0; on pp it talks to rank 3 over tcp between "
                      "machines", self.text("#mesh output"))
        self.assertEqual(self.table("mesh.table")[2], ["pp", "2", "2", "shm", "tcp", "2"])
        for ranks, size in ((1, []), (4096, [64, 64])):
            run = a_run()
            run["record"] |= {"ranks": ranks, "mesh": [{"axis": f"a{i}", "size": n, "inside": None,
                                                        "transport": "tcp"} for i,
                                                        n in enumerate(size)]}
            run["record"] |= {"machines": None}
            self.open(whole([run]))
            self.assertEqual(len(self.all(".cell")), min(2048, ranks if size else 0))
        self.assertIn("The first 2,048 of 4,096 ranks", self.text("#mesh"))

    def test_sweep(self):
        sweep = a_sweep()
        self.open(whole([], [sweep]))
        head, *rows = self.table("sweep.rows")
        done = [r for r in sweep["sweep"]["rows"] if r["status"] == "done"]
        column = lambda name: [r[head.index(name)] for r in rows]  # noqa: E731
        self.assertEqual(column("place"), [str(x) for x in range(1, 13)] + ["–", "–"])
        numbers = {"tokens/s": lambda r: r["tokens_per_s"]["median"],
                   "step": lambda r: r["step_ms"],
                   "memory, planned": lambda r: r["peak_bytes"],
                   "memory, resident": lambda r: r["resident_bytes"],
                   "sent": lambda r: r["sent_bytes"],
                   "sent, planned": lambda r: r["sent_bytes_planned"], "MFU": lambda r: r["mfu"],
                   "scaling": lambda r: r["efficiency"]}
        for name, of in numbers.items():
            there = sum(value(x) for x in column(name) if x != "–")
            self.assertAlmostEqual(there / sum(map(of, done)), 1, delta=1e-3, msg=name)
        self.assertEqual(column("bubble, mean / longest")[0], "16 ms / 20 ms")
        self.assertEqual(column("reason")[-2:], ["the job needs more memory",
                                                 "rank 1 has ended with status 9"])
        self.assertEqual(column("bounds, 95 %")[0], "3 k to 3.25 k")
        self.assertEqual(column("loss")[0], "agrees")
        for word in ("1.25 %", "other programs kept processors busy", "has changed in: host",
                     "interrupted 1 times"):
            self.assertIn(word, self.text("#sweep"))
        effect = self.table("sweep.effects")
        self.assertIn(["parallel.strategy", "dp → tp"], [r[:2] for r in effect])
        mean = math.prod((700 / 900, 600 / 800, 1250 / 1750, 1000 / 1500, 2250 / 3125, 2000 / 2500))
        mean **= 1 / 6
        self.assertEqual([r[2:] for r in effect if r[1] == "dp → tp"],
                         [[f"{mean:.3f}", "0.72 to 0.754", "slower", "0.667 to 0.8", "6"]])
        self.assertEqual(len(self.all("tr.vague")), 0)
        self.assertEqual(self.text('[data-key="sweep.winner.9.command.text"]'),
                         "weft train -n 4 /data/sweep/009-1.ini run.steps=STEPS run.out=FOLDER")
        self.assertEqual([r[3] for r in self.figures("sweep.memory")[1:]].count("yes"), 3)
        self.assertEqual([value(r[2]) for r in self.figures("sweep.scaling")[1:]],
                         [900, 1750, 3125])
        self.assertEqual(self.ideal(), [[1, 900], [2, 1800], [4, 3600]])
        self.assertEqual(self.text('[data-key="sweep.winner.9.job.text"]'), sweep["jobs"]["9"])

    def ideal(self):
        return self.chart(r"sweep\.scaling", "c.data.datasets[1].data.map((p) => [p.x, p.y])")

    def test_scaling_without_one_rank(self):
        """The picture goes by the efficiencies of the rows, as the table does."""
        sweep = a_sweep()
        rows = [r for r in sweep["sweep"]["rows"] if r.get("rank") and r["ranks"] > 1]
        for r in rows:
            r["efficiency"] = r["tokens_per_s"]["median"] / r["ranks"] / 875
        sweep["sweep"]["rows"] = rows
        self.open(whole([], [sweep]))
        self.assertEqual(self.ideal(), [[2, 1750], [4, 3500]])
        self.assertEqual([r[4] for r in self.figures("sweep.scaling")[1:]], ["1", "0.893"])

    def test_sort_filter_copy(self):
        sweep = a_sweep()
        self.open(whole([], [sweep]))
        head = self.table("sweep.rows")[0]
        for name in head:
            highest = name in ("tokens/s", "bounds, 95 %", "ratio", "scaling", "MFU")
            for sort in ("descending", "ascending") if highest else ("ascending", "descending"):
                if name == "place" and sort == "ascending":
                    continue
                self.key("sweep.sort." + name).send_keys(Keys.ENTER)
                here = self.one("th[aria-sort]:not([aria-sort=none])")
                self.assertEqual(here.get_attribute("aria-sort"), sort)
                self.assertEqual(self.js("document.activeElement.dataset.key"),
                                 "sweep.sort." + name)
        self.click("sweep.sort.tokens/s")
        rates = [value(r[head.index("tokens/s")]) for r in self.table("sweep.rows")[1:13]]
        self.assertEqual(rates, sorted(rates, reverse=True))
        self.click("sweep.sort.tokens/s")
        down = [value(r[head.index("tokens/s")]) for r in self.table("sweep.rows")[1:13]]
        self.assertEqual(down, rates[::-1])
        self.choose("sweep.filter.parallel.strategy", "tp")
        self.assertEqual(len(self.table("sweep.rows")), 7)
        self.choose("sweep.filter.ranks", "4")
        self.key("sweep.filter").send_keys("TCP")
        self.assertEqual([r[5] for r in self.table("sweep.rows")[1:]], ["12"])
        self.assertIn("1 of 14", self.text("#sweep\\.table .note"))
        button = self.key("sweep.winner.9.job.copy")
        button.click()
        self.wait(lambda: button.text != "Copy the job file", "the button says what it did")

    def test_shared_place(self):
        sweep = a_sweep()
        for row in sweep["sweep"]["rows"][:3]:
            row["rank"] = 1
        sweep["sweep"]["noise"] = None
        self.open(whole([], [sweep]))
        self.assertIn("4 combinations share place 1", self.text("#sweep\\.winner"))
        self.assertEqual(len(self.all("#sweep\\.winner details")), 4)
        self.assertEqual(len(self.all("tr.first")), 4)
        self.assertEqual([r[5] for r in self.table("sweep.rows")[1:5]], ["9", "1", "2", "3"])

    def test_cannot_be_told_apart(self):
        """All share place 1: no row is marked, three are listed, and no key has an effect."""
        sweep = a_sweep()
        for row in sweep["sweep"]["rows"][:12]:
            median = row["tokens_per_s"]["median"]
            row["rank"] = 1
            row["tokens_per_s"] |= {"low": 0.6 * median, "high": 1.9 * median}
            row["ratio"] |= {"low": 0.1, "high": 2.5 * row["ratio"]["value"]}
        rows = sweep["sweep"]["rows"]
        rows[0]["tokens_per_s"] |= {"low": None, "high": None}
        rows[12]["why"] = "the job needs more memory " * 40
        self.open(whole([], [sweep]))
        head, *shown = self.table("sweep.rows")
        column = lambda name: [r[head.index(name)] for r in shown]  # noqa: E731
        self.assertEqual(self.all("tr.first"), [])
        self.assertEqual(column("ratio")[0], "3.13 (too few runs)")
        self.assertEqual(column("bounds, 95 %")[column("number").index("1")], "too few runs")
        self.assertEqual([x.tag_name for x in self.all("#sweep\\.winner .body > details, "
                                                       "#sweep\\.winner > div > details")],
                         ["details"] * 4)
        self.assertIn("9 more that share place 1", self.text("#sweep\\.winner"))
        effect = [r for r in self.table("sweep.effects") if r[1] == "dp → tp"]
        self.assertEqual(effect[0][3:5], ["too few runs", "cannot be told apart"])
        self.assertEqual(len(self.all("tr.vague")), len(self.table("sweep.effects")) - 1 - sum(
            r[4] != "cannot be told apart" for r in self.table("sweep.effects")[1:]))
        tall = lambda: self.js("arguments[0].closest('tr').offsetHeight",  # noqa: E731
                               self.key("sweep.why.13"))
        before = tall()
        self.assertLess(before, 60)
        self.click("sweep.why.13")
        self.assertGreater(tall(), 2 * before)

    def test_columns_stay(self):
        self.size(700, 900)
        self.open(whole([], [a_sweep()]))
        lefts = lambda: self.js("""[...arguments[0].querySelectorAll("tbody tr:first-child > *")]
            .slice(0, 8).map((e) => Math.round(e.getBoundingClientRect().left))""",  # noqa: E731
                                self.key("sweep.rows"))
        self.wait(lambda: self.all(".stays"), "columns that stay")
        before = lefts()
        self.js("arguments[0].scrollLeft = 300", self.key("sweep.rows"))
        after = lefts()
        self.assertEqual(after[:4], before[:4])
        self.assertEqual(after[7], before[7] - 300)

    def test_themes(self):
        self.open(whole([a_run()], [a_sweep()]))
        ink = lambda: self.js("getComputedStyle(document.body).backgroundColor")  # noqa: E731
        seen = {}
        for theme in ("light", "dark"):
            self.choose_theme(theme)
            seen[theme] = ink()
            self.assertEqual(self.thin(), [], theme)
        self.choose_theme("as the system")
        for theme in ("dark", "light"):
            self.emulate(scheme=theme)
            self.wait(lambda t=theme: ink() == seen[t], "the theme of the system")

    def choose_theme(self, text):
        Select(self.one("#theme")).select_by_visible_text(text)

    def thin(self):
        """Pairs of colours of the page with less contrast than WCAG AA asks."""
        return self.js("""(() => {
          const style = getComputedStyle(document.documentElement);
          const linear = (v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
          const light = (name) => [1, 3, 5]
            .map((i) => parseInt(style.getPropertyValue("--" + name).trim().slice(i, i + 2), 16))
            .reduce((s, v, i) => s + linear(v / 255) * [0.2126, 0.7152, 0.0722][i], 0);
          const ratio = (a, b) => (Math.max(light(a), light(b)) + 0.05)
            / (Math.min(light(a), light(b)) + 0.05);
          const pairs = [["text", "mark", 4.5], ["on", "accent", 4.5], ["idle", "panel", 3]];
          for (const ink of ["text", "muted", "accent", "bad"])
            pairs.push([ink, "page", 4.5], [ink, "panel", 4.5]);
          for (let i = 0; i < 8; i++) pairs.push(["c" + i, "panel", 3], ["on", "c" + i, 4.5]);
          return pairs.filter(([a, b, least]) => ratio(a, b) < least).map((x) => x.join(" "));
        })()""")

    def test_keyboard(self):
        """The key Tab alone reaches every control, and one sees where it is."""
        self.open(whole([a_run(), a_run("two", 40, 1)], [a_sweep()]))
        wanted = set(self.js("""[...document.querySelectorAll(
            "#theme, main :is(button, input, select, summary, canvas[tabindex], pre, .scroll)")]
            .filter((e) => e.checkVisibility()).map((e) => e.dataset.key || e.id)"""))
        seen = set()
        for _ in range(len(wanted) + 60):
            self.browser.switch_to.active_element.send_keys(Keys.TAB)
            name, outline = self.js("""((e) => [e.dataset.key || e.id,
                getComputedStyle(e).outlineStyle])(document.activeElement)""")
            self.assertTrue(outline != "none" or not name, name)
            seen.add(name)
            if wanted <= seen:
                break
        self.assertEqual(wanted - seen, set())
        unnamed = self.js("""[...document.querySelectorAll(
            "button, input, select, canvas, [role=region]")].filter((e) => !(e.labels?.length
                || e.getAttribute("aria-label") || e.textContent.trim())).length""")
        self.assertEqual(unnamed, 0)

    def test_hostile(self):
        run, sweep = a_run(EVIL), a_sweep(EVIL)
        run["record"] |= {"job": f"[run]\nname = {EVIL}\n", "environment": {EVIL: EVIL}}
        run["record"]["mesh"][0] |= {"axis": EVIL, "transport": EVIL}
        run["record"]["arena"]["kinds"] = [EVIL] * 4
        run["notes"] = [EVIL]
        run["record"]["begins"][-1] |= {"ended": 1, "step": 1, "why": EVIL}
        run["series"][EVIL] = {"unit": EVIL, "mean": [1] * 40}
        run["traced"]["names"] = [EVIL] * 12
        sweep["sweep"]["warnings"] = [EVIL]
        for row in sweep["sweep"]["rows"]:
            row["values"] = {**row["values"], EVIL: EVIL + str(row["number"] % 2)}
            row["why"] = EVIL
        sweep["jobs"]["9"] = EVIL
        self.open(whole([run, a_run("two")], [sweep]))
        for e in self.all("summary"):
            self.js("arguments[0].click()", e)
        for e in self.all('button[data-key$=".table"]'):
            self.js("arguments[0].click()", e)
        for theme in ("dark", "light"):
            self.choose_theme(theme)
        self.assertEqual(self.js("""[document.images.length, window.hit ?? null,
            document.querySelectorAll("main b, main script").length]"""), [0, None, 0])
        self.assertEqual(self.text("#run h2"), "Run " + EVIL)
        self.assertIn(EVIL, self.text('[data-key="job.text.text"]'))

    def test_print(self):
        self.emulate(scheme="dark")
        self.open(whole([a_run()], [a_sweep()]))
        self.emulate("print", "dark")
        self.wait(lambda: self.js("document.documentElement.dataset.theme") == "light",
                  "paper is light")
        low = self.js("""[...document.querySelectorAll("main > section")]
            .filter((s) => s.getBoundingClientRect().height < 20).map((s) => s.id)""")
        self.assertEqual(low, [])
        self.assertEqual([x.text for x in self.all("nav") if x.is_displayed()], [])
        self.assertEqual([x.is_displayed() for x in self.all("canvas")],
                         [True] * len(self.all("canvas")))
        self.assertTrue(self.browser.execute_cdp_cmd("Page.printToPDF", {})["data"])

    def test_narrow(self):
        self.size(400, 800)
        self.open(whole([a_run("a" * 60), a_run("two"), bucketed("three")], [a_sweep()]))
        for e in self.all("summary"):
            self.js("arguments[0].click()", e)
        self.assertLessEqual(self.js("document.documentElement.scrollWidth"), 400)
        self.assertEqual([x.size["height"] < 30 for x in self.all("#runs .name")],
                         [False, True, True])
        self.assertGreater(self.all("#runs .name")[0].size["width"], 200)

    def test_missing_parts(self):
        """What is not there leaves a sentence, never an error: tearDown looks."""
        self.open(whole())
        self.assertIn("no run and no sweep", self.text("main"))
        for hole in ("record", "traced", "steps"):
            self.open(whole([a_run() | {hole: None}]))
        for hole in ("mesh", "plan", "schedule", "arena", "machines", "environment", "job",
                     "begins"):
            run = a_run()
            run["record"][hole] = None
            self.open(whole([run]))
        early = a_sweep()
        early["sweep"]["rows"] = [{k: r[k] for k in ("number", "values", "ranks")}
                                  | {"status": "waits"} for r in early["sweep"]["rows"]]
        early["jobs"] = {}
        few = copy.deepcopy(a_sweep())
        few["sweep"]["rows"] = [r | {"ratio": None, "loss": None, "efficiency": None, "mfu": None}
                                for r in few["sweep"]["rows"][:2]]
        self.open(whole([BARE], [early, few, {"name": "none", "path": "", "sweep": {},
                                              "jobs": {}}]))
        self.assertIn("No combination has run yet", self.text("#sweep\\.winner"))

    def test_unreadable(self):
        for text, words in (("{", "cannot be read"), ("null", "version"),
                            ('{"version": 2, "runs": [], "sweeps": []}', "version 2")):
            self.open(text)
            self.assertIn(words, self.text("#status"))
            self.assertEqual(self.one("#status").get_attribute("class"), "bad")

    def test_asks_nobody(self):
        self.open(whole([a_run()]))
        self.assertEqual(self.js("performance.getEntriesByType('resource').map((x) => x.name)"), [])

    def test_large(self):
        """Eight runs with 1000 points a series open at once."""
        runs = [bucketed(f"run {i}") for i in range(8)]
        for run in runs:
            run["step"] = [100 * (i + 1) for i in range(1000)]
            run["steps"] = {"first": 1, "last": 100000, "n": 100000, "bucket": 100}
            for s in run["series"].values():
                s |= {k: s[k] * 25 for k in ("mean", "min", "max")}
        self.open(whole(runs))
        self.assertLess(self.js("performance.now()"), 1000 * w.patience(2))


# --- Newer data ---

class Site:
    """Serves the page at / and its data at /data; None: no answer."""

    def __init__(self, data):
        self.data, self.port = data, w.free_port()
        self.begin()

    def begin(self):
        site = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                text = assemble(site.data) if self.path == "/" else json.dumps(site.data)
                self.send_response(200)
                self.send_header("Content-Type", "text/html; charset=utf-8" if self.path == "/"
                                 else "application/json")
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_):
                pass
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self.thread = threading.Thread(target=functools.partial(self.server.serve_forever, 0.05))
        self.thread.start()

    def end(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


class Live(Browsing):
    def setUp(self):
        super().setUp()
        self.site = Site(whole([a_run()], [a_sweep()],
                               {"url": "data?token=secret", "seconds": 0.2}))
        self.addCleanup(self.site.end)
        self.addCleanup(self.browser.get, "about:blank")
        self.browser.get(f"http://127.0.0.1:{self.site.port}/")

    def test_redraws(self):
        """New steps and rows come in; what the reader has chosen stays."""
        self.type("range.from", "21")
        self.click("loss.table")
        self.choose("axis", "pp")
        self.choose("sweep.filter.ranks", "2")
        self.key("sweep.filter").send_keys("dp")
        self.js("arguments[0].scrollLeft = 120", self.key("sweep.rows"))
        where = self.js("[scrollY, arguments[0].scrollLeft]", self.key("sweep.rows"))
        data = copy.deepcopy(self.site.data)
        data["runs"] = [a_run(steps=60)]
        data["sweeps"][0]["sweep"]["rows"].append(a_row(15, 13,
                                                        {"parallel.strategy": "dp",
                                                         "comm.plugin": "ucx"}, 2, 500))
        self.site.data = data
        self.wait(lambda: len(self.table("sweep.rows")) == 4, "the new row")
        self.assertEqual([int(r[0]) for r in self.table("loss.figures")[1:]], list(range(21, 61)))
        self.assertEqual(self.js("document.activeElement.dataset.key"), "sweep.filter")
        self.assertEqual(self.key("sweep.filter").get_attribute("value"), "dp")
        self.assertEqual(Select(self.key("axis")).first_selected_option.text, "pp")
        self.assertEqual(self.js("[scrollY, arguments[0].scrollLeft]", self.key("sweep.rows")),
                         where)
        self.click("range.all")
        self.assertEqual(self.table("loss.figures")[-1][0], "60")

    def test_outage(self):
        self.forgiven = "ERR_|net::"
        self.wait(lambda: "last answer" in self.text("#status"), "an answer")
        self.site.end()
        self.wait(lambda: "does not answer; the page shows what it had" in self.text("#status"),
                  "the outage is told")
        self.assertNotIn("secret", self.text("#status"))
        self.assertEqual(len(self.figures("loss")), 41)
        self.site.data = whole([a_run(steps=50)], [], {"url": "data", "seconds": 0.2})
        self.site.begin()
        self.wait(lambda: len(self.figures("loss")) == 51, "newer data after the outage")
        self.site.data = whole([a_run(steps=55)])
        self.wait(lambda: "has ended" in self.text("#status"), "the end")
        self.assertEqual(len(self.figures("loss")), 56)


# --- The program ---

@unittest.skipUnless(w.weft("report", "--help", status=None).returncode == 0,
                     "this weft has no command report")
class Command(Browsing):
    def report(self, *words):
        w.weft("report", *words, "-o", self.path("report.html"))
        self.browser.get("file://" + self.path("report.html"))

    def test_run(self):
        self.train("run", w.EVEN | {"parallel.strategy": "tp,pp", "parallel.tp": 2,
                                    "parallel.pp": 2, "log.sinks": "jsonl", "log.trace_steps": "5"},
                                    ranks=4)
        self.report(self.path("run"))
        lines = w.metrics(self.path("run"))
        for key, name in (("loss", "loss"), ("rate", "tokens_per_s"), ("norm", "grad_norm"),
                          ("lr", "lr")):
            rows = self.figures(key)[1:]
            self.assertEqual([int(r[0]) for r in rows], [x["step"] for x in lines])
            self.close(rows[-1][1], lines[-1][name])
        sent = {row[0]: row[-1] for row in self.figures("sent")}
        self.close(sent["measured, rank 0"], lines[-1]["comm_bytes"])
        self.close(sent["measured, highest of all ranks"],
                   [x["ranks.comm_bytes.max"] for x in lines if "ranks.steps" in x][-1])
        self.assertEqual([x.text for x in self.all("main .empty")], [])

    def test_100000_steps(self):
        """They are less than 5 MB and open at once, with the first and the last step."""
        os.makedirs(self.path("steps"))
        write_lines(self.path("steps", "metrics.jsonl"), 100000)
        self.report(self.path("steps"))
        self.assertLess(os.path.getsize(self.path("report.html")), 5e6)
        took = self.js("performance.now()")
        print(f"a page of 100,000 steps has opened within {took:.0f} ms")
        self.assertLess(took, 1000 * w.patience(2))
        self.assertEqual(self.chart("loss", "[c.scales.x.min, c.scales.x.max]"), [1, 100000])
        self.assertEqual(self.table("runs.table")[1][2], "100,000")

    def test_sweep(self):
        with open(self.path("sweep.ini"), "w", encoding="utf-8") as f:
            f.write("[run]\nname = swept\n[sweep]\nwarmup = 1\nsteps = 4\n"
                    "parallel = {strategy = none, ranks = 1} | {strategy = dp, ranks = 2}\n")
        options = [x for x in self.options("none", w.EVEN)
                   if not x.startswith(("run.out", "parallel.", "run.steps"))]
        w.weft("bench", self.path("sweep.ini"), *options, "sweep.out=" + self.path("swept"))
        self.report(self.path("swept"))
        rows = [r for r in json.loads(w.read_text(self.path("swept", "sweep.json")))["rows"]
                if r["status"] == "done"]
        head, *shown = self.table("sweep.rows")
        there = sum(value(r[head.index("tokens/s")]) for r in shown if r[0] != "–")
        self.assertAlmostEqual(there / sum(r["tokens_per_s"]["median"] for r in rows), 1,
                               delta=1e-3)


if __name__ == "__main__":
    w.main()
