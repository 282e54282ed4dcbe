#!/bin/sh
# A trial in plain shell: parameters come as a JSON file, metrics go out as lines.
number() { sed -n "s/.*\"$1\": *\([-0-9.e]*\).*/\1/p" "$PERENNIAL_PARAMETERS"; }

x=$(number x)
y=$(number y)
for step in 1 2 3; do
    sleep 0.3
    value=$(awk -v x="$x" -v y="$y" -v s="$step" 'BEGIN { print (x - 1) ^ 2 + (y + 2) ^ 2 + 1 / s }')
    echo "perennial: intermediate $value"
done
echo "perennial: final {\"default\": $value, \"x\": $x}"
