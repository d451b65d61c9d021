#!/usr/bin/env python3
"""tokens.py FILE VOCABULARY: the token file that the recorded runs were trained on."""
import sys

import numbers_of_weft as numbers

numbers.write_tokens(sys.argv[1], numbers.noisy_chain(4000, int(sys.argv[2])), int(sys.argv[2]))
