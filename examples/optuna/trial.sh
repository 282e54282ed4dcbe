#!/bin/sh
# The Himmelblau function, with a smooth and a rough variant.
number() { sed -n "s/.*\"$1\": *\([-0-9.e]*\).*/\1/p" "$PERENNIAL_PARAMETERS"; }

rough=0
grep -q '"surface": *"rough"' "$PERENNIAL_PARAMETERS" && rough=20
awk -v x="$(number x)" -v y="$(number y)" -v r="$rough" \
    'BEGIN { print "perennial: final", (x * x + y - 11) ^ 2 + (x + y * y - 7) ^ 2 + r }'
