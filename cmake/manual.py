#!/usr/bin/env python3
"""manual.py VERSION OUT WEFT...: write the manual pages of weft and completion for bash and zsh.
manual.py VERSION OUT --program NAME PROGRAM...: the page of another program alone.

WEFT is the command that starts the program, several words where an emulator does.

All of it is read from what `weft --help`, `weft COMMAND --help` and `weft config` print, so that a
new command, option or key is in it at once:

    OUT/man1/weft.1.gz, OUT/man1/weft-COMMAND.1.gz
    OUT/weft.bash   completion for bash, which bash-completion loads as `weft`
    OUT/_weft       completion for zsh
"""
import gzip
import re
import subprocess
import sys
from pathlib import Path

VALUED = re.compile(r"^(-{1,2}[a-zA-Z][\w-]*)(?:\[?[ =](.+))?$")
TERM = re.compile(r"^  (\S(?:.*?\S)?)(?:  +| (?=the |whose |what |ranks are ))(\S.*)$")
# What completes the value of an option, by the word that its help calls the value.
FILES = re.compile(r"\b(FILE|DIR|CHECKPOINT|PATH)\b")


class Option:
    """A word that begins with - and the word that its value has in the help, "" without one."""

    def __init__(self, name, value, text):
        self.name, self.value, self.text = name, value, text


class Command:
    """The help of a command: usage, a headline, and blocks, which are paragraphs or terms."""

    def __init__(self, name, text):
        self.name = name
        head, _, body = text.partition("\n\n")
        self.usage = head.removeprefix("usage: ").strip()
        self.headline, _, rest = body.strip("\n").partition("\n")
        self.blocks = blocks_of(rest)
        self.options = options_of(self.usage, self.blocks)


def say(weft, *words):
    return subprocess.run([*weft, *words], check=True, capture_output=True, text=True).stdout


def blocks_of(text):
    """("text", [lines]) and ("terms", [[term, lines], ...]), in order."""
    blocks = []
    for line in text.splitlines():
        term = TERM.match(line)
        if not line.strip():
            blocks.append(("text", []))
        elif line.startswith("  ") and not line.startswith("   ") and term:
            if not blocks or blocks[-1][0] != "terms":
                blocks.append(("terms", []))
            blocks[-1][1].append([term[1], [term[2]]])
        elif line.startswith("  ") and blocks and blocks[-1][0] == "terms":
            blocks[-1][1][-1][1].append(line.strip())
        else:
            if not blocks or blocks[-1][0] != "text":
                blocks.append(("text", []))
            blocks[-1][1].append(line)
    return [b for b in blocks if b[1]]


def options_of(usage, blocks):
    """Options of the list and of the usage line, each once, the list's text with them."""
    found = {}
    for kind, items in blocks:
        for term, lines in items if kind == "terms" else ():
            for word in re.split(r", ", term):
                match = VALUED.match(word)
                if re.match(r"--[\w-]+=[a-z]", word):
                    found[word] = Option(word, "", lines[0])
                elif match:
                    found[match[1]] = Option(match[1], match[2] or "", lines[0])
    for name, value in re.findall(r"(?<![\w-])(--?[a-zA-Z][\w-]*)(?: ([A-Z][A-Z|]*))?", usage):
        if name not in found:
            found[name] = Option(name, value, "")
        elif value and not found[name].value:
            found[name].value = value
    return sorted(found.values(), key=lambda o: o.name.lstrip("-"))


# ---- manual pages

# The backslash first, since the others bring one.
ESCAPES = {"\\": "\\e", "-": "\\-", "'": "\\(aq", "`": "\\(ga", "^": "\\(ha", "~": "\\(ti"}


def roff(text):
    """Text of a line: what roff would take for a command or an escape is none."""
    for sign, escape in ESCAPES.items():
        text = text.replace(sign, escape)
    return "\\&" + text if text[:1] in ".'" else text


def page(name, title, version, parts):
    lines = [f'.TH "{name.upper()}" "1" "" "weft {version}" "weft manual"', ".nh", ".ad l",
             ".SH NAME", f"{roff(name)} \\- {roff(title)}"]
    return "\n".join(lines + parts) + "\n"


def block_lines(block):
    kind, items = block
    if kind == "text":
        return [".PP", *map(roff, items)]
    lines = []
    for term, text in items:
        lines += [".TP", f".B {roff(term)}", *map(roff, text)]
    return lines


def command_page(c, version, name=None):
    parts = [".SH SYNOPSIS", roff(c.usage), ".SH DESCRIPTION", roff(c.headline)]
    for block in c.blocks:
        parts += block_lines(block)
    parts += [".SH SEE ALSO", ".BR weft (1)"]
    return page(name or f"weft-{c.name}", c.headline.rstrip("."), version, parts)


def main_page(commands, version):
    parts = [".SH SYNOPSIS", "weft COMMAND ...", ".SH DESCRIPTION",
             "A job is an INI file. It names transports, strategies, optimizers and devices, which",
             "are plugins.", ".SH COMMANDS"]
    for c in commands:
        parts += [".TP", f".BR weft\\-{c.name} (1)", roff(c.headline)]
    parts += [".SH FILES", ".TP", ".B JOB.ini",
              "a job; weft\\-config(1) prints all keys that it may have", ".SH EXIT STATUS"]
    for status, text in (("0", "done"), ("1", "failed"), ("2", "wrong request"),
                         ("75", "stopped on request, and can be resumed"),
                         ("77", "not possible on this machine")):
        parts += [".TP", f".B {status}", text]
    parts += [".SH SEE ALSO", ", ".join(f"weft\\-{c.name}(1)" for c in commands)]
    return page("weft", "distributed training of language models", version, parts)


# ---- completion

# Keys whose values are names of plugins, by the section that the plugins' own keys are in.
NAMED = {"sink": "log.sinks", "device": "device.plugin", "model": "model.family",
         "parallel": "parallel.strategy"}


def keys_of(text):
    """["section.key", ...] and their fixed values, from the tables of `weft config`."""
    keys, section = {}, None
    for line in text.splitlines():
        head = re.match(r"## \[([\w.]+)\]", line)
        cells = [x.strip() for x in line.strip("|").split(" | ")] if line.startswith("| ") else []
        named = re.match(r"## \[([a-z]+)[\w.]*\] with the plugin (\w+):", line)
        if named and named[1] in NAMED:
            keys[NAMED[named[1]]].append(named[2])
        if head:
            section = head[1]
        elif line.startswith("## "):
            section = None
        elif section and len(cells) > 2 and cells[0] != "key" and re.match(r"^[\w.]+$", cells[0]):
            keys[f"{section}.{cells[0]}"] = values_of(cells[1])
    return keys


def values_of(kind):
    if kind.startswith("one of "):
        return [x.strip() for x in kind.removeprefix("one of ").split(",")]
    return ["on", "off"] if kind == "on or off" else []


def words(items):
    return " ".join(items)


def bash(commands, keys):
    """One function. Options of the command, keys of a job with the values that are fixed, files."""
    cases = "\n".join(f"    {c.name}) options={words(o.name for o in c.options)!r}"
                      f" files={words(o.name for o in c.options if FILES.search(o.value))!r} ;;"
                      for c in commands)
    fixed = "\n".join(f"    {key}) values={words(v)!r} ;;" for key, v in keys.items() if v)
    return f"""# Completion of weft for bash. Written by cmake/manual.py.
_weft() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}}
  local options files values key i
  # The line again, from its blanks alone: = is a separator of words for bash.
  local before=${{COMP_LINE:0:COMP_POINT}}
  local word=${{before##*[[:space:]]}}
  COMPREPLY=()
  if [ "$COMP_CWORD" = 1 ]; then
    COMPREPLY=($(compgen -W '{words(c.name for c in commands)} --help --version' -- "$current"))
    return
  fi
  case ${{COMP_WORDS[1]}} in
{cases}
  esac
  case " $files " in
    *" $previous "*)
      compopt -o filenames
      COMPREPLY=($(compgen -f -- "$current"))
      return ;;
  esac
  case $word in
    -*=*)
      for i in $(compgen -W "$options" -- "$word"); do COMPREPLY+=("${{i#*=}}"); done ;;
    -*) COMPREPLY=($(compgen -W "$options --help" -- "$current")) ;;
    *.*=*)
      key=${{word%%=*}} values=''
      [ "$current" = = ] && current=''
      case $key in
{fixed}
      esac
      if [ -n "$values" ]; then
        COMPREPLY=($(compgen -W "$values" -- "$current"))
      else
        compopt -o filenames
        COMPREPLY=($(compgen -f -- "$current"))
      fi ;;
    *)
      compopt -o filenames
      COMPREPLY=($(compgen -f -- "$current"))
      if [ "${{#current}}" -gt 0 ]; then
        for i in $(compgen -W '{words(keys)}' -- "$current"); do
          COMPREPLY+=("$i=")
          compopt -o nospace
        done
      fi ;;
  esac
}}
complete -F _weft weft
"""


def quoted(text):
    """For zsh, in single quotes and as a part of _arguments."""
    text = text.replace("\\", "\\\\").replace(":", "\\:").replace("[", "\\[").replace("]", "\\]")
    return text.replace("'", "'\\''")


def zsh_option(o):
    text = f"[{quoted(o.text)}]" if o.text else ""
    value = ""
    if o.value:
        action = "_files" if FILES.search(o.value) else " "
        value = f":{quoted(o.value)}:{action}"
    return f"      '{o.name}{text}{value}'"


def zsh(commands, keys):
    names = "\n".join(f"    '{c.name}:{quoted(c.headline)}'" for c in commands)
    cases = "\n".join(f"    {c.name}) options=(\n" + "\n".join(map(zsh_option, c.options)) +
                      "\n      ) ;;" for c in commands)
    fixed = "\n".join(f"    {key}) values=({words(v)}) ;;" for key, v in keys.items() if v)
    return f"""#compdef weft
# Completion of weft for zsh. Written by cmake/manual.py.
_weft_word() {{
  local -a values
  local key=${{PREFIX%%=*}}
  if [[ $PREFIX != *.*=* ]]; then
    _alternative 'files:file:_files' 'keys:key of a job:compadd -S "=" -a weft_keys'
    return
  fi
  case $key in
{fixed}
  esac
  compset -P '*='
  if (( $#values )); then compadd -a values; else _files; fi
}}

_weft() {{
  local -a commands options weft_keys
  weft_keys=({words(keys)})
  commands=(
{names}
  )
  if (( CURRENT == 2 )); then
    _describe command commands
    compadd -- --help --version
    return
  fi
  case $words[2] in
{cases}
  esac
  shift words
  (( CURRENT-- ))
  _arguments "$options[@]" '--help[say more]' '*:job, key or file:_weft_word'
}}

_weft "$@"
"""


def write_pages(out, pages):
    (out / "man1").mkdir(parents=True, exist_ok=True)
    for name, text in pages.items():
        packed = gzip.compress(text.encode(), 9, mtime=0)
        (out / "man1" / f"{name}.1.gz").write_bytes(packed)


def main():
    version, out, weft = sys.argv[1], Path(sys.argv[2]), sys.argv[3:]
    if weft[0] == "--program":
        name, program = weft[1], weft[2:]
        write_pages(out, {name: command_page(Command(name, say(program, "--help")), version, name)})
        return
    names = re.findall(r"^  (\w[\w-]*) ", say(weft, "--help"), re.M)
    commands = [Command(name, say(weft, name, "--help")) for name in names]
    keys = keys_of(say(weft, "config"))
    pages = {"weft": main_page(commands, version)}
    write_pages(out, pages | {f"weft-{c.name}": command_page(c, version) for c in commands})
    (out / "weft.bash").write_text(bash(commands, keys), encoding="utf-8")
    (out / "_weft").write_text(zsh(commands, keys), encoding="utf-8")


if __name__ == "__main__":
    main()
