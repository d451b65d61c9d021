"""exposition.py: a strict reader of OpenMetrics 1.0's text format, and raw HTTP."""
import re
import socket

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
NUMBER = r"NaN|[+-]Inf|[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
HELP = re.compile(rf"# HELP ({NAME}) ((?:[^\\\n]|\\[\\n])*)")
TYPE = re.compile(rf"# TYPE ({NAME}) (counter|gauge|unknown)")
SAMPLE = re.compile(rf"({NAME})(?:{{((?:{LABEL})(?:,{LABEL})*,?)?}})? ({NUMBER})(?: (-?\d+))?")


def parse(text):
    """{(name, ((label, value), ...)): value} and {name: type}; ValueError where a line is wrong."""
    if not text.endswith("\n# EOF\n"):
        raise ValueError("the last line is not # EOF")
    values, types, family, closed = {}, {}, None, set()
    for line in text[:-7].split("\n"):
        said = HELP.fullmatch(line) or TYPE.fullmatch(line)
        sample = SAMPLE.fullmatch(line)
        if not said and not sample:
            raise ValueError(f"no line of the format: {line!r}")
        name = (said or sample).group(1)
        if sample and types.get(family) == "counter":
            if name != family + "_total":
                raise ValueError(f"a counter without _total: {line!r}")
            name = family
        if name != family:
            closed.add(family)
            family = name
        if name in closed:
            raise ValueError(f"the lines of {name} are not together")
        if said and line.startswith("# TYPE"):
            if name in types or any(key[0] == name for key in values):
                raise ValueError(f"{name} has its type too late, or twice")
            types[name] = said.group(2)
        if sample:
            labels = tuple(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', sample.group(2) or ""))
            if (sample.group(1), labels) in values:
                raise ValueError(f"{line!r} is there twice")
            values[sample.group(1), labels] = float(sample.group(3).replace("Inf", "inf"))
    return values, types


def ask(address, request=b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", timeout=10):
    """(status, body) of the answer to raw bytes; (0, "") when the connection ends without one."""
    host, port = address.rsplit(":", 1)
    got = b""
    with socket.create_connection((host, int(port)), timeout) as s:
        try:
            s.sendall(request)
            while data := s.recv(65536):
                got += data
        except ConnectionError:
            pass
    head, _, body = got.partition(b"\r\n\r\n")
    if not head:
        return 0, ""
    words = dict(re.findall(rb"(?m)^([\w-]+): (.*?)\r?$", head))
    if len(body) != int(words[b"Content-Length"]):
        raise ValueError(f"a body of {len(body)} bytes: {head!r}")
    return int(head.split()[1]), body.decode()
