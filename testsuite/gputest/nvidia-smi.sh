#!/bin/sh
# Says what nvidia-smi would, of the GPUs in a table: uuid|name|total|used|pids|migs|number of migs
table=@TABLE@
case "$*" in
*--query-gpu=*)
	[ -s "$table" ] || { echo 'No devices were found'; exit 6; }
	n=0
	while IFS='|' read -r uuid name total used pids migs count; do
		mode=Disabled; [ "$count" = 0 ] || mode=Enabled
		printf '%s, %s, %s, 00000000:%02X:00.0, %s, %s, 0, %s\n' "$n" "$uuid" "$name" "$((n + 1))" "$total" "$used" "$mode"
		n=$((n + 1))
	done <"$table"
	;;
*--query-compute-apps=*)
	while IFS='|' read -r uuid name total used pids migs count; do
		for pid in $pids; do echo "$uuid, $pid, 100, /usr/bin/python3"; done
	done <"$table"
	;;
*-L*)
	n=0
	while IFS='|' read -r uuid name total used pids migs count; do
		echo "GPU $n: $name (UUID: $uuid)"
		m=0
		for mig in $migs; do
			echo "  MIG 1g.5gb      Device  $m: (UUID: $mig)"
			m=$((m + 1))
		done
		n=$((n + 1))
	done <"$table"
	;;
esac
