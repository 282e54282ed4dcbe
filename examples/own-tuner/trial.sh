#!/bin/sh
# Reports how far x is from 2, in five steps.
x=$(sed -n 's/.*"x": *\([-0-9.e]*\).*/\1/p' "$PERENNIAL_PARAMETERS")
for step in 4 3 2 1 0; do
    value=$(awk -v x="$x" -v s="$step" 'BEGIN { print (x - 2) ^ 2 + s }')
    echo "perennial: intermediate $value"
    sleep 0.5
done
echo "perennial: final $value"
