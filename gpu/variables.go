package gpu

import (
	"strconv"
	"strings"
)

// IndicesVariable tells a trial the indices of its GPUs, comma separated, for
// programs that cannot do with UUIDs.
const IndicesVariable = "PERENNIAL_GPU_INDICES"

// Variables returns what a trial finds in its environment about the GPUs it was
// given: they, in order of index, are all that its processes see.
func Variables(slots []Slot) map[string]string {
	var names, indices []string
	for _, slot := range slots {
		names = append(names, slot.visible())
		indices = append(indices, strconv.Itoa(slot.Index))
	}
	variables := map[string]string{IndicesVariable: strings.Join(indices, ",")}
	if len(slots) > 0 && slots[0].Vendor == AMD {
		variables["ROCR_VISIBLE_DEVICES"] = strings.Join(names, ",")
		variables["HIP_VISIBLE_DEVICES"] = upTo(len(slots)) // counts among those
		return variables
	}
	variables["CUDA_VISIBLE_DEVICES"] = strings.Join(names, ",")
	variables["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
	return variables
}

// visible is the slot's GPU as drivers understand it. ROCm has names only for GPUs
// that have one.
func (s Slot) visible() string {
	if strings.HasPrefix(s.UUID, "AMD-") {
		return strconv.Itoa(s.Index)
	}
	return s.UUID
}

// upTo is "0,1,…", n numbers.
func upTo(n int) string {
	var numbers []string
	for i := range n {
		numbers = append(numbers, strconv.Itoa(i))
	}
	return strings.Join(numbers, ",")
}
