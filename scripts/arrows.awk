# SPDX-License-Identifier: Apache-2.0
#
# Prints which folders refer to which, by the names in the sources: see arrows.sh. Reads `order` first, then each
# Swift file twice.
#
# A name is a type, a function or a variable at the top level of a file, or a member that an extension adds to a type
# of another folder. (Nested names are reached by the name that they are nested in.) Code that uses such a name refers
# to the folder that declares it. A member that shares its name with another member does not count.
#
# A function that Swift exports to C (`@_cdecl`) has its name in C as well: a call through C is an arrow, too. One that goes
# upwards on purpose has a line of its own in `order`.

function folder_of(path) {
  sub(/^.*Sources\//, "", path)
  sub(/\/[^\/]*$/, "", path)
  return path
}

function module_of(folder) {
  sub(/\/.*/, "", folder)
  return folder
}

# The code of a line: without comments and without the text of strings, whose interpolations stay.
function code_of(line,    at, kept, character, depth, quoted) {
  if (in_text) {
    at = index(line, "\"\"\"")
    if (!at) return ""
    in_text = 0
    line = substr(line, at + 3)
  }
  at = index(line, "\"\"\"")
  if (at) {
    in_text = 1
    line = substr(line, 1, at - 1)
  }
  gsub(/"([^"\\]|\\[^(])*"/, " ", line)
  if (index(line, "\"")) {
    kept = ""
    quoted = depth = 0
    for (at = 1; at <= length(line); at++) {
      character = substr(line, at, 1)
      if (quoted) {
        if (character == "\\") {
          if (substr(line, at + 1, 1) == "(") { depth = 1; quoted = 0; kept = kept " (" }
          at++
        } else if (character == "\"") { quoted = 0; depth = 0 }
      } else {
        if (depth && character == "(") depth++
        if (depth && character == ")" && --depth == 0) quoted = 1
        if (character == "\"") { quoted = 1; character = " " }
        kept = kept character
      }
    }
    line = kept
  }
  sub(/\/\/.*/, "", line)
  return line
}

function indentation_of(line) {
  match(line, /^ */)
  return RLENGTH
}

# The scope of this line's declarations: "top", in an "extension" (whose type is `extended`), or "inside" anything
# else.
function scope_of(line, indent) {
  if (line ~ /^ *[)\]>]/ || line ~ /^ *where /) return "inside"
  if (indent > scope_indent) return scope
  scope_indent = -1
  scope = "top"
  return scope
}

function declare(name, folder) {
  if (name in declared_in) {
    if (index(" " declared_in[name] " ", " " folder " ") == 0) declared_in[name] = declared_in[name] " " folder
  } else declared_in[name] = folder
}

# Puts the folder that `name` means in `from` into `meant`; false if it means the same folder. If several folders of
# one module declare the name, it is the lowest one, as the others need not be meant.
function means(name, from,    places, count, i, own) {
  count = split(declared_in[name], places, " ")
  own = ""
  for (i = 1; i <= count; i++) {
    if (places[i] == from) return 0
    if (module_of(places[i]) != module_of(from)) continue
    if (own == "" || layer[places[i]] < layer[own]) own = places[i]
  }
  meant = own != "" ? own : count == 1 ? places[1] : ""
  return meant != ""
}

FNR == 1 {
  path = FILENAME
  if (!(path in passes)) passes[path] = 0
  passes[path]++
  pass = path == order_file ? 0 : passes[path]
  folder = folder_of(path)
  scope = "top"
  scope_indent = -1
  in_text = 0
}

# The order: a line for each layer, the lowest first. `A <-> B` is a circle that is there on purpose.
pass == 0 {
  sub(/#.*/, "")
  if (NF == 0) next
  # upwards <function>: <folder>... -> <folder>
  if ($1 == "upwards") {
    for (i = 3; i < NF - 1; i++) upwards[$i " " $NF " " substr($2, 1, length($2) - 1)] = 1
    next
  }
  layers++
  for (i = 1; i <= NF; i++) {
    if ($i == "<->") continue
    layer[$i] = layers
    if (i > 2 && $(i - 1) == "<->") {
      allowed[$i " " $(i - 2)] = 1
      allowed[$(i - 2) " " $i] = 1
    }
  }
  next
}

/^ *\/\// { next }

{
  if (pass == 1 && match($0, /@_cdecl\("[A-Za-z0-9_]+"\)/)) declare(substr($0, RSTART + 9, RLENGTH - 11), folder)
  code = code_of($0)
  if (code ~ /^[ \t]*$/) next
  if (pass == 1) {
    folders[folder] = 1
    indent = indentation_of(code)
    where_it_is = scope_of(code, indent)
    declaration = code
    gsub(/@[A-Za-z_]+(\([^)]*\))? */, "", declaration)
    gsub(/^ +/, "", declaration)
    while (sub(/^(public|package|internal|fileprivate|private|final|open|indirect|nonisolated(\([a-z]*\))?|static|class|mutating|nonmutating|consuming|borrowing|override|required|convenience|lazy|weak|unowned|prefix|infix|dynamic|isolated|package\(set\)|private\(set\)|fileprivate\(set\)) +/, "", declaration)) {
      if (declaration ~ /^[A-Za-z_]+ *[:{<]/) { declaration = "class " declaration; break }
    }
    hidden = code ~ /(^| )(private|fileprivate) /
    if (match(declaration, /^(struct|class|enum|protocol|actor|typealias|func|var|let|extension) +[A-Za-z_][A-Za-z0-9_.]*/)) {
      split(substr(declaration, RSTART, RLENGTH), word, " +")
      if (word[1] == "extension") {
        if (where_it_is == "top" && code ~ /\{ *$/) {
          scope = "extension"
          scope_indent = indent
          extended = word[2]
          sub(/\..*/, "", extended)
        }
      } else if (where_it_is == "top") {
        if (!hidden) declare(word[2], folder)
        else hides[path " " word[2]] = 1
        if (code ~ /\{ *$/ || code !~ /[{}]/) { scope = "inside"; scope_indent = indent }
      } else {
        if (where_it_is == "extension" && indent == scope_indent + 2 && !hidden && word[1] !~ /^(struct|class|enum|protocol|actor|typealias)$/) {
          members[word[2] " " folder] = extended
        } else plain[word[2]] = 1
        hides[path " " word[2]] = 1
      }
    } else if (match(declaration, /^(indirect )?case [a-z]/)) {
      gsub(/\([^)]*\)/, "", declaration)
      count = split(declaration, word, "[^A-Za-z0-9_]+")
      for (i = 2; i <= count; i++) plain[word[i]] = 1
    } else if (where_it_is == "top" && declaration !~ /^(import|#|[)}\]])/) {
      scope = "inside"
      scope_indent = indent
    }
    next
  }
}

pass == 2 && !settled {
  # A member of an extension counts if another folder declares the type that it extends.
  settled = 1
  for (key in members) {
    split(key, word, " ")
    if (index(" " declared_in[members[key]] " ", " " word[2] " ") == 0) added[word[1]] = added[word[1]] " " word[2]
    else plain[word[1]] = 1
  }
  # It does not count if any other member has its name, or a member of the standard library.
  for (name in added) {
    count = split(added[name], word, " ")
    if (count > 1 || name in plain || name in declared_in || name ~ /^(initialize|write|get|stop|finish|wait|store|load)$/) continue
    declare(name, word[1])
    is_member[name] = 1
  }
}

pass == 2 {
  if (code ~ /^ *(public |package )?import /) next
  rest = code
  while (match(rest, /[A-Za-z_][A-Za-z0-9_]*/)) {
    name = substr(rest, RSTART, RLENGTH)
    before = RSTART > 1 ? substr(rest, RSTART - 1, 1) : ""
    after = substr(rest, RSTART + RLENGTH, 1)
    rest = substr(rest, RSTART + RLENGTH)
    dotted = before == "."
    if (!(name in declared_in)) continue
    if (after == ":" && name ~ /^[a-z]/) continue
    if (!dotted && ((path " " name) in hides)) continue
    if (dotted && !(name in is_member)) continue
    if (!dotted && name ~ /^[a-z]/ && rest !~ /^(\(| *\{|<)/) continue
    if (!means(name, folder)) continue
    arrow = folder " " meant
    if ((arrow " " name) in upwards) {
      calls[arrow " " name]++
      if (folder == from && meant == to) printf "%s:%d: %s, upwards on purpose\n", path, FNR, name
      continue
    }
    arrows[arrow]++
    if (!((arrow " " name) in named)) names[arrow] = names[arrow] " " name
    named[arrow " " name] = 1
    if (folder == from && meant == to) {
      shown = $0
      sub(/^ +/, "", shown)
      printf "%s:%d: %s: %s\n", path, FNR, name, shown
    }
  }
}

END {
  if (mode == "explain") exit
  if (mode == "print") {
    sorter = "sort -k1,1n -k2,2n | cut -f3-"
    for (arrow in arrows) {
      split(arrow, word, " ")
      remark = arrow in allowed ? "  (both ways, on purpose)" : layer[word[2]] < layer[word[1]] ? "" : "  (AGAINST THE ORDER)"
      printf "%d\t%d\t%s -> %s: %d%s:%s\n", layer[word[1]], layer[word[2]], word[1], word[2], arrows[arrow], remark, names[arrow] | sorter
    }
    for (call in calls) {
      split(call, word, " ")
      printf "%d\t%d\t%s -> %s: %d  (upwards through C, on purpose): %s\n", layer[word[1]], layer[word[2]], word[1], word[2], calls[call], word[3] | sorter
    }
    close(sorter)
    exit
  }
  failures = 0
  for (name in folders) {
    if (name in layer) continue
    printf "arrows: %s has no place in %s\n", name, order_name
    failures++
  }
  for (call in upwards) {
    split(call, word, " ")
    if (call in calls) continue
    printf "arrows: %s allows a call of %s from %s to %s that is not made any more\n", order_name, word[3], word[1], word[2]
    failures++
  }
  for (arrow in arrows) {
    split(arrow, word, " ")
    if (!(word[1] in layer) || !(word[2] in layer) || layer[word[2]] < layer[word[1]] || arrow in allowed) continue
    printf "arrows: %s refers to %s, which is not below it (%d times:%s). scripts/arrows.sh --explain %s %s tells where.\n", \
      word[1], word[2], arrows[arrow], names[arrow], word[1], word[2]
    failures++
  }
  exit failures > 0
}
