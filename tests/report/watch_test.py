"""watch_test.py WEFT: does `weft watch` show a run as it goes on, on a terminal, in a pipe and to a
browser, and to nobody else?"""
import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
import urllib.error
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "parity"))
import weft_jobs as w  # noqa: E402  (tests/parity/weft_jobs.py)

JOB = w.EVEN | {"checkpoint.every": 0, "model.layers": 1, "run.steps": 30, "train.microbatch": 6,
                "data.valid": "", "train.eval_every": 0}
ENDLESS = JOB | {"run.steps": 1000000}
URL = re.compile(r"http://\S+/\?token=[0-9a-f]{32}")


class Watch(w.Bench):
    def start(self, *words, **more):
        p = subprocess.Popen([w.WEFT, "watch", *words], env=w.environment(), text=True,
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, **more)
        self.addCleanup(p.communicate)
        self.addCleanup(p.kill)
        return p

    def serve(self, *words, option="--http"):
        p = self.start(*words, option)
        line = p.stdout.readline()
        self.assertRegex(line, URL, p.stderr.read() if not line else "")
        return p, line.strip()

    def ask(self, url, status=200, method="GET"):
        try:
            with urllib.request.urlopen(urllib.request.Request(url, method=method),
                                        timeout=w.TIMEOUT) as answer:
                found, body, headers = answer.status, answer.read(), answer.headers
        except urllib.error.HTTPError as e:
            found, body, headers = e.code, e.read(), e.headers
        self.assertEqual(found, status, body[:200])
        return body.decode(), headers

    def test_ended(self):
        self.train("ended", JOB | {"run.name": "x"}, ranks=2)
        said = w.weft("watch", self.path("ended"), "--once").stdout
        loss = w.metrics(self.path("ended"))[-1]["loss"]
        self.assertRegex(said, r"step +30/30, complete")
        self.assertIn(f"{loss:.4f}", said)
        self.assertIn("ranks      2, rank 0 on " + socket.gethostname(), said)
        said = w.weft("watch", self.path("ended")).stdout.splitlines()
        self.assertEqual(len(said), 1)
        self.assertRegex(said[0], rf"ended  step 30/30  loss {loss:.4f} .* complete")

    def test_long_runs(self):
        """The newest values, however many steps a point stands for and whether every step has
        them."""
        os.makedirs(self.path("long"))
        with open(self.path("long", "metrics.jsonl"), "w", encoding="utf-8") as f:
            for step in range(1, 5001):
                ms = 100 if step > 4980 else 50
                f.write(json.dumps({"step": step, "time": 1795907188 + step, "loss": 2.5,
                                    "valid_loss": 3 + step / 1e4, "tokens": 1000, "step_ms": ms,
                                    "ranks.slowest": 1, "ranks.step_ms.max": ms + 1,
                                    "ranks.step_ms.min": ms - 1}) + "\n")
        said = w.weft("watch", self.path("long"), "--once").stdout
        self.assertIn("3.5000 after step 5000", said)
        self.assertRegex(said, r"tokens/s +10000 ")
        self.assertIn("fastest 99.0, slowest 101.0 ms a step; rank 1", said)

    def test_why_it_ended(self):
        """The sentence of a failure, of a stop and of nothing; in words that a terminal has."""
        def ended():
            return w.weft("watch", "--once", self.path("x"), status=1).stdout

        run = w.Running(self, "x", ENDLESS, 2)
        run.until_step(3)
        os.kill(run.ranks()[1], signal.SIGKILL)
        self.assertEqual(run.wait(), 1)
        with open(self.path("x", "run.json"), encoding="utf-8") as f:
            end = json.load(f)["begins"][-1]
        self.assertRegex(end["why"], "rank 1 (was killed by signal 9|is gone)")
        self.assertGreaterEqual(end["step"], 3)
        said = ended()
        shown = re.search(r"(?m)^because ((?:.*\n .*)*)", said)[1]
        self.assertEqual(shown.split(), end["why"].split(), said)
        self.assertLessEqual(max(map(len, said.splitlines())), 80, said)
        run = w.Running(self, "x", ENDLESS | {"checkpoint.every": 1000}, 2)
        run.until_step(3)
        lines = self.start(self.path("x")).stdout
        self.assertRegex(lines.readline(), "running")
        run.process.send_signal(signal.SIGTERM)
        self.assertEqual(run.wait(), 75)
        last = next(x for x in lines if "running" not in x)
        self.assertRegex(last, "ended early: stopped by SIGTERM, with a checkpoint\n")
        self.assertIn("because    stopped by SIGTERM, with a checkpoint\n", ended())
        with open(self.path("x", "run.json"), encoding="utf-8") as f:
            record = json.load(f)
        record["begins"][-1]["why"] = "\x1b[31m" + "\u00e9" * 500
        record["steps"] = 1
        with open(self.path("x", "run.json"), "w", encoding="utf-8") as f:
            json.dump(record, f)
        said = ended()
        self.assertIn("failed at its end", said)
        self.assertRegex(said, r"because    \?\[31m\?{64}\n {11}\?{69}\n {11}\?{65} \.\.\.\n$")
        self.train("x", JOB)
        with open(self.path("x", "run.json"), encoding="utf-8") as f:
            end, = json.load(f)["begins"]
        self.assertEqual([end["why"], end["step"]], [None, 30])
        self.assertNotIn("because", w.weft("watch", "--once", self.path("x")).stdout)
        self.assertGreaterEqual(end["ended"], end["time"])

    def test_goes_on(self):
        """Lines in a pipe follow the run, and end with it."""
        run = w.Running(self, "goes", ENDLESS, 1)
        run.until_step(5)
        p = self.start(self.path("goes"))
        steps = [int(re.search(r"step (\d+)/1000000 .* running", p.stdout.readline())[1])
                 for _ in range(3)]
        self.assertTrue(5 <= steps[0] < steps[1] < steps[2], steps)
        run.process.kill()
        run.wait()
        said = w.weft("watch", "--once", self.path("goes"), status=1).stdout
        self.assertIn("ended early", said)
        self.train("goes", JOB)  # it begins again, as --restarts would have it
        self.assertEqual(p.wait(w.TIMEOUT), 0)
        self.assertRegex(p.stdout.read(), r"step 30/30 .* complete\n$")

    def test_folder_is_gone(self):
        run = w.Running(self, "leaves", ENDLESS, 1)
        run.until_step(5)
        p = self.start(self.path("leaves"))
        self.assertIn("running", p.stdout.readline())
        os.rename(self.path("leaves"), self.path("left"))
        self.assertEqual(p.wait(w.TIMEOUT), 1)

    def screen(self, main):
        """What a terminal gets until its other end is closed; the kernel hands it on in parts."""
        said = b""
        while select.select([main], [], [], w.TIMEOUT)[0]:
            try:
                said += os.read(main, 65536)
            except OSError:
                break
        os.close(main)
        return said.decode()

    def test_terminal(self):
        """A terminal is drawn anew, and gets no character of a run that it would obey."""
        os.makedirs(self.path("odd"))
        with open(self.path("odd", "metrics.jsonl"), "w", encoding="utf-8") as f:
            for step in range(1, 51):
                f.write(json.dumps({"step": step, "host": "a\x1b[2J\x9bZ", "loss": 9.0 / step,
                                    "time": 1e9 + step, "step_ms": 5}) + "\n")
        with open(self.path("odd", "run.json"), "w", encoding="utf-8") as f:
            json.dump({"ranks": 1, "steps": 50}, f)
        os.rename(self.path("odd"), self.path("odd\x1b[31m"))
        for extra, block in (({"LC_ALL": "C.UTF-8"}, "\u2588"), ({"LC_ALL": "C"}, "#")):
            main, other = pty.openpty()
            p = subprocess.Popen([w.WEFT, "watch", self.path("odd\x1b[31m")], stdout=other,
                                 env=w.environment(extra), stdin=subprocess.DEVNULL)
            os.close(other)
            text = self.screen(main)
            self.assertEqual(p.wait(w.TIMEOUT), 0)
            self.assertIn("odd?[31m", text)
            self.assertIn(block, text)
            self.assertNotRegex(text, "[\x00-\x09\x0b\x0c\x0e-\x1f\x7f-\x9f]")

    def test_more_runs_than_rows(self):
        """Runs that do not fit into the terminal have a line each."""
        for i in range(4):
            self.train(f"run{i}", JOB)
        words = [w.WEFT, "watch", *(self.path(f"run{i}") for i in range(4))]
        for rows, lines in ((24, 4), (80, 4 * 7)):
            main, other = pty.openpty()
            fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", rows, 60, 0, 0))
            p = subprocess.Popen(words, stdout=other, env=w.environment(),
                                 stdin=subprocess.DEVNULL)
            os.close(other)
            said = self.screen(main).splitlines()
            self.assertEqual(p.wait(w.TIMEOUT), 0)
            self.assertEqual(len(said), lines, said)
            self.assertLessEqual(max(map(len, said)), 60)

    def test_served(self):
        """The page is that of `weft report`, and follows the run."""
        run = w.Running(self, "served", ENDLESS, 2)
        run.until_step(3)
        p, url = self.serve(self.path("served"))
        page, headers = self.ask(url)
        data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.S)[1])
        self.assertIn("no-store", headers["Cache-Control"])
        self.assertEqual(data["live"]["url"], "data.json?" + url.partition("?")[2])
        self.assertEqual(data["runs"][0]["record"]["ranks"], 2)
        self.assertTrue(data["runs"][0]["running"])
        later = url.replace("/?", "/data.json?")
        limit, last = time.monotonic() + w.TIMEOUT, data["runs"][0]["steps"]["last"]
        while json.loads(self.ask(later)[0])["runs"][0]["steps"]["last"] <= last:
            self.assertLess(time.monotonic(), limit)
        run.process.kill()
        run.wait()
        limit = time.monotonic() + w.TIMEOUT
        while (now := json.loads(self.ask(later)[0])["runs"][0])["running"]:
            self.assertLess(time.monotonic(), limit)
        said = json.loads(w.weft("report", self.path("served"), "--json", "-o", "-").stdout)
        self.assertEqual(now["steps"], said["runs"][0]["steps"])
        # another run takes the folder's place
        os.rename(self.path("served"), self.path("moved"))
        gone = json.loads(self.ask(later)[0])["runs"][0]
        self.assertEqual((gone["state"], gone["steps"]), ("gone", now["steps"]))
        self.train("served", JOB)
        self.assertEqual(json.loads(self.ask(later)[0])["runs"][0]["steps"]["last"], 30)
        p.send_signal(signal.SIGTERM)
        self.assertEqual(p.wait(w.TIMEOUT), 0)

    def test_nobody_else(self):
        """No request without the token is answered, none changes anything, and only this machine
        reaches the port."""
        self.train("alone", JOB)
        _, url = self.serve(self.path("alone"))
        port = int(re.search(r":(\d+)/", url)[1])
        base, token = url.split("?token=")
        wrong = token[:-1] + ("0" if token[-1] != "0" else "1")
        for path in ("", "data.json", "?token=", f"?token={wrong}", f"?token={token}0",
                     f"?token={token[:-1]}", f"data.json?token={wrong}"):
            self.ask(base + path, 403)
        for path in ("x", "../job.ini", "run.json"):
            self.ask(f"{base}{path}?token={token}", 404)
        for method in ("POST", "PUT", "DELETE"):
            self.ask(url, 405, method)
        self.assertEqual(self.ask(url, method="HEAD")[0], "")
        for bytes_sent in (b"\0\xff\n\n", b"GET / HTTP/1.1\r\n" + b"a" * 100000, b"\r\n\r\n",
                           b"GET /?token=%00 HTTP/1.1\r\nHost: x\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", port)) as s:
                s.settimeout(w.TIMEOUT)
                s.sendall(bytes_sent)
        self.ask(url)
        listening = [x.split()[1] for x in w.read_text("/proc/net/tcp").splitlines()[1:]
                     if x.split()[3] == "0A" and x.split()[1].endswith(f":{port:04X}")]
        self.assertEqual(listening, [f"0100007F:{port:04X}"])
        with self.assertRaises(OSError):
            socket.create_connection(("::1", port)).close()

    def test_addresses(self):
        self.train("at", JOB)
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            for text, why in ((f"127.0.0.1:{taken.getsockname()[1]}", "cannot be served"),
                              ("127.0.0.1:x", "--http="), ("127.0.0.1:", "--http="),
                              ("127.0.0.1:65536", "--http="), ("*:0", "--http="),
                              ("1.2.3.4:0", "cannot be served"), ("", "--http="),
                              ("::1", "--http="), ("[::1]", "--http=")):
                said = w.weft("watch", self.path("at"), f"--http={text}", status=2).stderr
                self.assertIn(why, said, text)
        p, url = self.serve(self.path("at"), option="--http=0.0.0.0:0")
        self.assertIn(socket.gethostname(), url)
        self.ask(url.replace(socket.gethostname(), "127.0.0.1"))
        p.send_signal(signal.SIGINT)
        self.assertEqual(p.wait(w.TIMEOUT), 0)
        self.assertIn("without encryption", p.stderr.read())
        if "00000001 01" in w.read_text("/proc/net/if_inet6"):  # the loopback interface has IPv6
            _, url = self.serve(self.path("at"), option="--http=[::1]:0")
            self.assertIn("http://[::1]:", url)
            self.ask(url)
        os.makedirs(self.path("sweep"))
        with open(self.path("sweep", "sweep.json"), "w", encoding="utf-8") as f:
            f.write('{"rows": []}')
        for words in ([], [self.path("nowhere")], [self.path("at"), "--watch"],
                      [self.path("sweep")]):
            w.weft("watch", *words, status=2)

    def test_without_the_library(self):
        """weft is not linked with the library that serves pages; without it all else works."""
        self.train("alone", JOB)
        for folder in ("bin", "lib"):
            os.makedirs(self.path("copy", folder))
        copy = shutil.copy(w.WEFT, self.path("copy", "bin", "weft"))
        with open(self.path("copy", "lib", "libmicrohttpd.so.12"), "w", encoding="utf-8") as f:
            f.write("no library")
        for option, status, why in (("--once", 0, ""), ("--http", 77, "--http needs libmicro")):
            done = subprocess.run([copy, "watch", self.path("alone"), option], check=False,
                                  env=w.environment(), capture_output=True, text=True)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertIn(why, done.stderr)


if __name__ == "__main__":
    w.main()
