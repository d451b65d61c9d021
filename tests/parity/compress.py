#!/usr/bin/env python3
"""compress.py WEFT: do jobs whose gradients travel in fewer bits train as others do, say what they
send, and get over steps that overflow?

Twenty steps of Adam from tiny batches: how far losses are from those of the job that sends fp32 is
printed, and bounded at about four times what is seen."""
import shutil

import weft_jobs as w

FORMS = {"fp16": 2**-18, "bf16": 2**-14, "int8": 2**-11}  # of the loss, at any of twenty steps


def few(cases):
    """Under sanitizers every other one."""
    return cases[::2] if w.BRIEF else cases


class Compress(w.Bench):
    def run_of(self, out, job, ranks, **more):
        self.train(out, job, ranks=ranks, **more)
        return w.metrics(self.path(out))

    def far(self, one, many):
        self.assertEqual(len(one), len(many))
        return max(abs(a["loss"] - b["loss"]) / a["loss"] for a, b in zip(one, many))

    def compare(self, job, ranks, form, more=None):
        """Against the same layout without; the bytes of metrics are the plan's."""
        more = more or {}
        alike = {k: v for k, v in more.items() if k != "comm.feedback"}
        plain = self.run_of("plain", job | alike, ranks)
        job = job | more | {"comm.compress": form}
        lines, plan = self.run_of("less", job, ranks), self.plan(job, ranks)["ranks"][0]
        self.assertEqual({x["comm_bytes"] for x in lines}, {sum(plan["sent"].values())})
        whole = plan["sent"] | plan["uncompressed"]
        self.assertEqual({x["comm_bytes"] for x in plain}, {sum(whole.values())})
        far = self.far(plain, lines)
        print(f"{form}, {ranks} ranks, {more}: {far:.1e} from none, "
              f"{lines[0]['comm_bytes'] / plain[0]['comm_bytes']:.3f} of its bytes")
        self.assertGreater(far, 0)
        self.assertLessEqual(far, FORMS[form])
        self.assertLess(lines[-1]["loss"], lines[0]["loss"])

    def test_forms(self):
        for form, ranks, transport, micro in few([
                ("fp16", 2, "shm", 3), ("int8", 4, "shm", 3), ("bf16", 4, "tcp", 3),
                ("int8", 2, "tcp", 3), ("int8", 3, "tcp", 2)]):
            with self.subTest(form=form, ranks=ranks):
                self.compare(w.ODD | {"comm.plugin": transport, "train.microbatch": micro}, ranks,
                             form)

    def test_layouts(self):
        for ranks, more in few([
                (2, {"optim.placement": "zero1"}), (2, {"optim.placement": "zero2"}),
                (2, {"optim.placement": "zero3", "train.bucket_mb": 0.003}),
                (2, {"comm.feedback": "off"}),
                (4, {"parallel.strategy": "tp, dp", "parallel.tp": 2, "parallel.sequence": "on"}),
                (4, {"parallel.strategy": "pp, dp", "parallel.pp": 2, "model.tied": "on",
                     "optim.placement": "zero2"})]):
            with self.subTest(ranks=ranks, **more):
                self.compare(w.EVEN, ranks, "int8", more)

    def test_sums_in_the_compute_type(self):
        job = w.ODD | {"train.precision": "bf16", "train.accumulate": "compute"}
        plain = self.run_of("plain", job, 2)
        lines = self.run_of("less", job | {"comm.compress": "int8"}, 2)
        self.assertLessEqual(self.far(plain, lines), FORMS["int8"])

    def test_overflow(self):
        """Gradients overflow until the loss scale fits: as many steps are skipped as without
        compression, or a few more, and nothing of them is left behind."""
        for placement in few(["none", "zero2"]):
            job = w.ODD | {"train.precision": "fp16", "train.loss_scale": 2**40, "run.steps": 50,
                           "optim.schedule": "constant", "optim.placement": placement}
            plain = self.run_of("plain", job, 2)
            for form in FORMS:
                lines = self.run_of("less", job | {"comm.compress": form}, 2)
                skipped = [x["skipped"] for x in lines]
                more = skipped[-1] - plain[-1]["skipped"]
                self.assertIn(more, range(8) if form == "fp16" else (0, 1), form)
                if form != "fp16":  # where a sum of many may overflow once more
                    self.assertEqual(skipped[35], skipped[-1], "it is over")
                far = abs(lines[-1]["loss"] - plain[-1 - more]["loss"]) / lines[-1]["loss"]
                print(f"{form}, {placement}: {skipped[-1]} steps skipped, {far:.1e} from none")
                self.assertLessEqual(far, 2**-5 if more else 2**-11)  # of other samples

    def test_the_loss_scale_does_not_show(self):
        """What is kept is turned with the scale: with one that doubles every other step weights
        move as with one that stays, to 1e-3 of their way; twice that where it is not turned."""
        job = w.ODD | {"train.precision": "fp16", "comm.compress": "int8", "optim.rule": "sgd",
                       "optim.lr": 1e-2, "optim.warmup": 0, "optim.schedule": "constant",
                       "train.clip": 0, "run.steps": 40, "checkpoint.every": 40}
        self.train("begin", job | {"optim.lr": 0, "run.steps": 1, "checkpoint.every": 1}, ranks=2)
        self.train("still", job | {"train.loss_scale": 4096, "train.scale_window": 0}, ranks=2)
        moves = self.run_of("moves", job | {"train.loss_scale": 1, "train.scale_window": 2}, 2)
        self.assertEqual(moves[-1]["scale"], 2**20)
        begin = w.tensors(self.path("begin"), 1)
        one, two = (w.tensors(self.path(x), 40) for x in ("still", "moves"))
        names = [n for n in begin if n.endswith((".w", ".b", ".g"))]

        def length(a, b):
            return sum((x - y) ** 2 for n in names for x, y in zip(a[n][1], b[n][1])) ** 0.5

        far = length(one, two) / length(one, begin)
        print(f"a scale that moves: {far:.1e} of the way")
        self.assertLessEqual(far, 1.4e-3)

    def test_resumed(self):
        """What was kept goes on, to the bit; on another layout it begins anew, in words."""
        job = w.ODD | {"comm.compress": "int8", "checkpoint.every": 10,
                       "optim.schedule": "constant"}
        for more in ({}, {"optim.placement": "zero2"}, {"train.precision": "fp16"}):
            with self.subTest(more=more):
                job = job | more
                whole = self.run_of("whole", job, 2)
                self.train("cut", job | {"run.steps": 10}, ranks=2)
                shutil.copytree(self.path("cut"), self.path("other"), dirs_exist_ok=True)
                said = self.train("cut", job, ranks=2, resume=True)
                self.assertNotIn("start at zero", said.stdout + said.stderr)
                self.same_run("whole", "cut", 20)
                said = self.train("other", job | {"train.bucket_mb": 0.001}, ranks=2, resume=True)
                self.assertIn("has no error-feedback residuals for this layout: they start at zero",
                              said.stdout + said.stderr)
                other = w.metrics(self.path("other"))
                self.assertLessEqual(self.far(whole, other), FORMS["int8"])
                shutil.rmtree(self.path("other"))

    def test_resumed_without(self):
        """What was kept is dropped in words; where nothing was there is no word of it."""
        job = w.ODD | {"run.steps": 10, "checkpoint.every": 10}
        for before, after, said in (({"comm.compress": "int8"}, {}, True),
                                    ({"comm.compress": "int8"}, {"comm.compress": "int8",
                                                                 "comm.feedback": "off"}, True),
                                    ({}, {}, False)):
            with self.subTest(before=before, after=after):
                self.train("without", job | before, ranks=2)
                again = self.train("without", job | after | {"run.steps": 12}, ranks=2,
                                   resume="force")
                self.assertEqual("has error-feedback residuals" in again.stdout + again.stderr,
                                 said)
                shutil.rmtree(self.path("without"))

    def test_the_plan_says_so(self):
        said = w.weft("plan", "-n", 2, self.ini,
                      *self.options("plan", w.ODD | {"comm.compress": "int8"})).stdout
        self.assertRegex(said, r"(?m)^compression  keeps [\d.]+ KiB a rank")
        self.assertIn("comm.compress = int8: sums of gradients over dp are rounded", said)
        self.assertRegex(said, r"all_reduce .*B  \(not compressed: .*B\)")
        said = w.weft("plan", "-n", 2, self.ini, *self.options("plan", w.ODD)).stdout
        self.assertNotIn("compress", said)


if __name__ == "__main__":
    w.main()
