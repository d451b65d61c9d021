#!/bin/sh
# symbols.sh DIR...: every plugin below exports weft_plugin_entry and nothing else, needs no text
# relocations and no executable stack. Libraries of plugins, in folders named lib, are not plugins.
# Prints what breaks a rule; status 1 if anything does or if there is no plugin at all.
status=0
count=0
for file in $(find "$@" -name lib -prune -o -name '*.so' -print | sort); do
  count=$((count + 1))
  exported=$(nm -D --defined-only "$file" | awk '{print $NF}' | sort | tr '\n' ' ')
  if [ "$exported" != "weft_plugin_entry " ]; then
    echo "$file exports: $exported"
    status=1
  fi
  if readelf -d "$file" | grep -q TEXTREL; then
    echo "$file has text relocations"
    status=1
  fi
  if readelf -lW "$file" | grep GNU_STACK | grep -q E; then
    echo "$file wants an executable stack"
    status=1
  fi
done
echo "$count plugins"
[ $count -gt 0 ] || status=1
exit $status
