"""Generation and evaluation on several ranks: the tokens and losses of one rank."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import models  # noqa: E402
import started  # noqa: E402

LAYOUTS = (
    (2, "parallel.strategy=tp", "parallel.tp=2"),
    (2, "parallel.strategy=tp", "parallel.tp=2", "parallel.sequence=on"),
    (2, "parallel.strategy=pp", "parallel.pp=2"),
    (2, "parallel.strategy=pp", "parallel.pp=2", "parallel.schedule=interleaved",
     "parallel.virtual=2"),
    (2, "parallel.strategy=dp", "optim.placement=zero3"),
    (4, "parallel.strategy=tp,pp", "parallel.tp=2", "parallel.pp=2"),
    (4, "parallel.strategy=tp,dp", "parallel.tp=2", "parallel.dp=2"),
)


class Layouts(models.Case):
    def test_tokens_and_losses_are_those_of_one_rank(self):
        words = ("--prompt", "the square of 7", "--tokens", 90, "--temperature", 0.9, "--top-k",
                 50, "--top-p", 0.95, "--seed", 6)
        for family in models.MODEL:
            saved = self.trained(family)
            one = self.sampled(saved, *words)
            loss = self.evaluated(saved)["loss"]
            for ranks, *layout in LAYOUTS:
                with self.subTest(family=family, layout=layout):
                    keys = (*layout, "comm.plugin=shm", "train.microbatch=1")
                    many = self.sampled(saved, *words, *keys, ranks=ranks)
                    self.assertTrue(many["cached"])
                    self.assertEqual(many["ids"], one["ids"])
                    apart = [abs(a - b) for a, b in zip(many["log_probabilities"],
                                                        one["log_probabilities"])]
                    self.assertLess(max(apart), 1e-4)
                    found = self.evaluated(saved, *keys, ranks=ranks)
                    self.assertLess(abs(found["loss"] - loss), 1e-5)

    def test_a_prompt_from_standard_input_reaches_all_ranks(self):
        saved = self.trained("gpt2")
        words = ("--tokens", 10, "--temperature", 0)
        self.write("prompt.txt", "12 is")
        want = self.weft("sample", saved, "--prompt", "12 is", *words)[0]
        got = self.weft("sample", "-n", 2, saved, "--prompt-file", "prompt.txt", *words,
                        "parallel.strategy=tp", "parallel.tp=2", "comm.plugin=shm")[0]
        self.assertEqual(got, want)

    def test_a_failure_ends_all_ranks_with_one_sentence(self):
        saved = self.trained("gpt2")
        said = self.weft("sample", "-n", 3, saved, "--prompt", "1", "parallel.strategy=tp",
                         "parallel.tp=3", "comm.plugin=shm", status=2)[1]
        self.assertIn("the mesh axis tp has 3 ranks", said)
        self.assertIn("which do not divide all sizes that are split", said)


if __name__ == "__main__":
    started.main()
