# Tells which GPUs this host has and who uses them, in sections for gpu.ParseReport.
LC_ALL=C; export LC_ALL
PATH="$PATH:/usr/bin:/bin:/usr/local/bin:/usr/local/nvidia/bin:/usr/lib/wsl/lib"
sys=/sys
pids=
echo '== perennial-gpu 1'
if command -v nvidia-smi >/dev/null 2>&1; then
	csv='--format=csv,noheader,nounits'
	about='index,uuid,name,pci.bus_id,memory.total,memory.used,utilization.gpu'
	found=$(nvidia-smi --query-gpu="$about,mig.mode.current" $csv 2>&1); status=$?
	case $found in # a driver from before MIG
	*'not a valid field'*) found=$(nvidia-smi --query-gpu="$about" $csv 2>&1); status=$? ;;
	esac
	printf '== gpus %s\n%s\n' "$status" "$found"
	found=$(nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory,process_name $csv 2>&1)
	printf '== processes %s\n%s\n' "$?" "$found"
	pids=$(printf '%s\n' "$found" | cut -d, -f2)
	found=$(nvidia-smi -L 2>&1)
	printf '== list %s\n%s\n' "$?" "$found"
fi
for node in "$sys"/class/kfd/kfd/topology/nodes/*; do
	id=$(cat "$node/gpu_id" 2>/dev/null)
	[ "${id:-0}" != 0 ] || continue
	minor=$(sed -n 's/^drm_render_minor //p' "$node/properties")
	device="$sys/class/drm/renderD$minor/device"
	printf '== amd %s\nnode %s\n' "$id" "${node##*/}"
	sed -n 's/^unique_id /unique_id /p' "$node/properties"
	for name in product_name mem_info_vram_total mem_info_vram_used gpu_busy_percent; do
		echo "$name $(cat "$device/$name" 2>/dev/null)"
	done
	echo "pci $(basename "$(readlink -f "$device")")"
	for process in "$sys"/class/kfd/kfd/proc/*; do
		[ -e "$process/vram_$id" ] || continue
		echo "process ${process##*/} $(cat "$process/vram_$id" 2>/dev/null)"
		pids="$pids ${process##*/}"
	done
done
echo '== users 0'
for pid in $pids; do
	[ -d "/proc/$pid" ] && echo "$pid $(stat -c %U "/proc/$pid" 2>/dev/null) $(cat "/proc/$pid/comm" 2>/dev/null)"
done
echo '== end 0'
