"""ports.py: a port for the ranks of a test that a launcher does not start."""
import random
import socket

LOWEST, HIGHEST = 12000, 31999  # below the ports that Linux gives to outgoing connections


def free_port(address="127.0.0.1"):
    """A port that nothing listens on. Tests run side by side, so it is drawn at random: two that
    count from the same number, or take what the system offers next, would meet."""
    drawn = random.SystemRandom()
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    while True:
        port = drawn.randint(LOWEST, HIGHEST)
        with socket.socket(family) as s:
            try:
                s.bind((address, port))
                return port
            except OSError:
                continue
