#!/bin/sh
# A platform in one page of shell: trials run on this machine. It needs jq and pgrep.
#
#   trainingService:
#     platform: executable
#     executable: ./here.sh
#     options: {directory: /home/ada/trials}
#
# The directory is shared by the machine that asks and the one that runs, here the same
# one: so code, metrics, logs and ends are Perennial's business, and what is left is to
# start a command once, to say whether it is still there, and to end it.
set -eu
request=$(cat)
field() { printf '%s' "$request" | jq -r "$1"; }

# The pid of the run in a directory, empty where it was not started or is not there any
# more. Asked of the system, so that no crash can part it from what we wrote down.
pid_of() { pgrep -f -- " once $1\$" || :; }

case $1 in
describe)
    directory=$(field '.options.directory // ""')
    case $directory in
    /*) jq -n --arg directory "$directory" '{protocol: 1, sharedDirectory: $directory, pollInterval: 1}' ;;
    *) echo '{"protocol": 1, "faults": [{"field": "directory", "message": "must be an absolute path"}]}' ;;
    esac
    ;;
submit) # asked twice it may start the command twice: the second start does nothing
    eval "set -- $(field '.command | @sh')"
    setsid "$@" </dev/null >>"$(field .directory)/runner.log" 2>&1 &
    echo '{}'
    ;;
poll)
    field '.runs[].directory' | while read -r directory; do
        if [ -n "$(pid_of "$directory")" ]; then
            echo '{"phase": "running"}'
        else
            echo '{"phase": "gone", "reason": "its process is not there any more"}'
        fi
    done | jq -s --arg host "$(hostname)" '{reports: map(. + {host: $host})}'
    ;;
cancel) # what runs ends by itself, unless it is to be forced
    pid=$(pid_of "$(field .directory)")
    [ "$(field .force)" = false ] || [ -z "$pid" ] || kill -KILL "$pid" 2>/dev/null || :
    echo '{}'
    ;;
*)
    echo "there is no verb $1" >&2
    exit 65
    ;;
esac
