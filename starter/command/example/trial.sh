# A trial in any language: read a JSON file, print two kinds of lines.
# $PERENNIAL_PARAMETERS names the file, such as {"x": 0.7, "steps": 3}.
number() { sed -n 's/.*"'"$1"'": *\([-0-9.e]*\).*/\1/p' "$PERENNIAL_PARAMETERS"; }

x=$(number x)
steps=$(number steps)
for step in $(seq "$steps"); do
    echo "perennial: intermediate $(awk "BEGIN { print 1 - ($x - 1) ^ 2 / $step }")"
    sleep 0.5
done
echo "perennial: final $(awk "BEGIN { print 1 - ($x - 1) ^ 2 }")"
