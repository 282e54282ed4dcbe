package gpu

import (
	"fmt"
	"strconv"
	"strings"
)

func parseAMDs(inventory *Inventory, sections []section) {
	for i, amd := range sections {
		inventory.GPUs = append(inventory.GPUs, parseAMD(i, amd))
		inventory.Source = "the kernel (AMD, experimental)"
	}
}

// parseAMD reads what the kernel's driver for AMD tells of one GPU. Nobody has
// tried this on such a GPU yet.
func parseAMD(index int, about section) GPU {
	g := GPU{Index: index, Vendor: AMD, Name: "AMD GPU"}
	for _, line := range about.lines {
		word, value, _ := strings.Cut(line, " ")
		g.take(word, strings.TrimSpace(value))
	}
	if g.UUID == "" {
		g.UUID = "AMD-" + g.PCI
	}
	if g.Used == nil {
		g.Unknown = "the kernel does not tell how much of its memory is in use"
	}
	return g
}

func (g *GPU) take(word, value string) {
	number, err := strconv.ParseUint(value, 10, 64)
	switch {
	case word == "product_name" && value != "":
		g.Name = value
	case word == "pci":
		g.PCI = value
	case word == "process":
		g.takeProcess(value)
	case err != nil:
	case word == "unique_id" && number != 0:
		g.UUID = fmt.Sprintf("GPU-%016x", number)
	case word == "mem_info_vram_total":
		g.Memory = &number
	case word == "mem_info_vram_used":
		g.Used = &number
	case word == "gpu_busy_percent":
		percent := int(number)
		g.Utilisation = &percent
	}
}

// takeProcess takes a process that has a queue on some GPU; it uses this one if it
// has memory there.
func (g *GPU) takeProcess(value string) {
	var p Process
	if n, _ := fmt.Sscanf(value, "%d %d", &p.PID, &p.Used); n == 2 && p.Used > 0 {
		g.Processes = append(g.Processes, p)
	}
}
