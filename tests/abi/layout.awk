# layout.awk: from the public headers to a C program's body that prints every layout in them.
#
# For each `typedef struct T { ... } T;` a line TYPE(T) and for each member M a line MEMBER(T, M);
# for each `#define NAME number` and each `NAME = number` of an enum a line VALUE(NAME). The headers
# are the only list, so nothing can be forgotten.
function strip_comments(s,    out, at) {
  while ((at = index(s, "/*")) > 0) {
    out = out substr(s, 1, at - 1) " "
    s = substr(s, at + 2)
    at = index(s, "*/")
    s = at ? substr(s, at + 2) : ""
  }
  return out s
}

function member(decl, type,    names, n, i, name) {
  if (match(decl, /\(\*[A-Za-z_0-9]+\)/)) {
    print "MEMBER(" type ", " substr(decl, RSTART + 2, RLENGTH - 3) ");"
    return
  }
  n = split(decl, names, ",")
  for (i = 1; i <= n; i++) {
    name = names[i]
    sub(/\[.*/, "", name)
    gsub(/[ \t]+$/, "", name)
    sub(/.*[ \t*]/, "", name)
    if (name != "")
      print "MEMBER(" type ", " name ");"
  }
}

{ text = text $0 "\n" }

END {
  text = strip_comments(text)
  n = split(text, lines, "\n")
  body = ""
  for (i = 1; i <= n; i++) {
    line = lines[i]
    if (line ~ /^#define[ \t]+WEFT_[A-Z0-9_]+[ \t]+(0x)?[0-9]/) {
      split(line, word, /[ \t]+/)
      print "VALUE(" word[2] ");"
    } else if (line ~ /^[ \t]+WEFT_[A-Z0-9_]+ = [0-9]+/) {
      for (rest = line; match(rest, /WEFT_[A-Z0-9_]+ = /); rest = substr(rest, RSTART + RLENGTH))
        print "VALUE(" substr(rest, RSTART, RLENGTH - 3) ");"
    }
    if (line ~ /^#/ || line ~ /\\$/)
      continue
    if (line ~ /^(typedef )?struct [a-z_0-9]+ \{/) {
      type = line
      sub(/^(typedef )?struct /, "", type)
      sub(/ \{.*/, "", type)
      print "TYPE(struct " type ");"
      body = ""
    } else if (type != "" && line ~ /^\}/) {
      m = split(body, decls, ";")
      for (j = 1; j < m; j++)
        member(decls[j], "struct " type)
      type = ""
    } else if (type != "")
      body = body " " line
  }
}
