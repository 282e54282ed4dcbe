package gpu

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// nvidia-smi's exit codes for a host without a GPU that works: no device, and a
// driver that is not loaded.
var withoutGPU = map[string]bool{"6": true, "9": true}

func parseNVIDIA(inventory *Inventory, listed section, sections map[string][]section) error {
	if withoutGPU[listed.status] || strings.Contains(listed.text(), "No devices were found") {
		inventory.None = "nvidia-smi says: " + listed.text()
		return nil
	}
	if listed.status != "0" {
		return fmt.Errorf("nvidia-smi cannot tell which GPUs there are: %s", listed.text())
	}
	for _, line := range listed.lines {
		g, err := parseGPU(line)
		if err != nil {
			return err
		}
		inventory.GPUs = append(inventory.GPUs, g)
	}
	for _, instances := range sections["list"] {
		inventory.GPUs = append(inventory.GPUs, parseInstances(instances, inventory.GPUs)...)
	}
	for _, running := range sections["processes"] {
		addProcesses(inventory.GPUs, running)
	}
	behindParents(inventory.GPUs)
	return nil
}

// parseGPU reads a line of the fields that Script asks for, in its order.
func parseGPU(line string) (GPU, error) {
	fields := strings.Split(line, ", ")
	index, err := strconv.Atoi(fields[0])
	if err != nil || len(fields) < 7 || fields[1] == "" {
		return GPU{}, fmt.Errorf("nvidia-smi describes a GPU in a way that this version does not understand: %.200q", line)
	}
	g := GPU{Index: index, UUID: fields[1], Vendor: NVIDIA, Name: fields[2], PCI: fields[3]}
	g.Memory, g.Used = g.mebibytes(fields[4]), g.mebibytes(fields[5])
	if percent := g.number(fields[6]); percent != nil {
		utilisation := int(*percent)
		g.Utilisation = &utilisation
	}
	if len(fields) > 7 {
		g.Divided = strings.TrimSpace(fields[7]) == "Enabled"
	}
	return g, nil
}

// notAvailable are nvidia-smi's words for what a GPU does not know. Any other word
// in place of a number, such as ERR! or [GPU requires reset], says that it fails.
var notAvailable = map[string]bool{"N/A": true, "[N/A]": true, "[Not Supported]": true, "Not Supported": true, "[Not Available]": true, "": true}

func (g *GPU) number(field string) *uint64 {
	field = strings.TrimSpace(field)
	number, err := strconv.ParseUint(field, 10, 64)
	if err == nil {
		return &number
	}
	if !notAvailable[field] {
		g.Failed = "nvidia-smi says " + field
	}
	return nil
}

func (g *GPU) mebibytes(field string) *uint64 {
	number := g.number(field)
	if number != nil {
		*number <<= 20
	}
	return number
}

// As `nvidia-smi -L` lists GPUs and, indented, their MIG devices.
var (
	listedGPU      = regexp.MustCompile(`^GPU (\d+): .*\(UUID: (GPU-[^)]+)\)`)
	listedInstance = regexp.MustCompile(`^\s+(MIG \S+)\s+Device\s+\d+: \(UUID: (MIG-[^)]+)\)`)
)

func parseInstances(list section, gpus []GPU) []GPU {
	var parent *GPU
	var instances []GPU
	for _, line := range list.lines {
		if found := listedGPU.FindStringSubmatch(line); found != nil {
			parent = byUUID(gpus, found[2])
		}
		found := listedInstance.FindStringSubmatch(line)
		if found == nil || parent == nil {
			continue
		}
		instances = append(instances, GPU{UUID: found[2], Index: parent.Index, Vendor: NVIDIA, Name: found[1],
			Parent: parent.UUID, Failed: parent.Failed})
	}
	return instances
}

func byUUID(gpus []GPU, uuid string) *GPU {
	for i := range gpus {
		if gpus[i].UUID == uuid {
			return &gpus[i]
		}
	}
	return nil
}

// addProcesses gives each GPU its processes. nvidia-smi does not tell on which MIG
// device one runs, so it may be on any of its GPU's.
func addProcesses(gpus []GPU, running section) {
	if strings.HasPrefix(running.text(), "No running processes found") {
		return
	}
	for _, line := range running.lines {
		fields := strings.SplitN(line, ", ", 4)
		pid, err := strconv.Atoi(fields[min(1, len(fields)-1)])
		if running.status != "0" || err != nil || len(fields) < 4 {
			unknownAll(gpus, "nvidia-smi says "+line)
			continue
		}
		for i := range gpus {
			if gpus[i].UUID == fields[0] || gpus[i].Parent == fields[0] {
				gpus[i].Processes = append(gpus[i].Processes, process(pid, fields))
			}
		}
	}
	if running.status != "0" {
		unknownAll(gpus, "nvidia-smi failed with exit code "+running.status)
	}
}

func process(pid int, fields []string) Process {
	p := Process{PID: pid, Name: baseName(fields[3])}
	if used, err := strconv.ParseUint(strings.TrimSpace(fields[2]), 10, 64); err == nil {
		p.Used = used << 20
	}
	return p
}

func baseName(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

func unknownAll(gpus []GPU, why string) {
	for i := range gpus {
		if gpus[i].Unknown == "" {
			gpus[i].Unknown = why
		}
	}
}
