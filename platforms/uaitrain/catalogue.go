package uaitrain

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/perennial-ml/perennial/platforms"
)

// catalogueKept is how long what the service offers is taken to be the same.
const catalogueKept = 10 * time.Minute

// offer is what the service has for a section: its own numbers for what the section
// names, its limits and its price.
type offer struct {
	mode, node, backend, framework int
	price                          int // of a node, in hundredths
	least, most                    int // hours
	asked                          time.Time
	asFor                          settings
}

// catalogue remembers an offer.
type catalogue struct {
	mutex sync.Mutex
	offer
}

// offer asks what the service has for the section, unless it did so just before. What
// the section names and the service has not is OptionFaults.
func (c *client) offer(ctx context.Context, verb string, known *catalogue) (offer, error) {
	known.mutex.Lock()
	defer known.mutex.Unlock()
	if time.Since(known.asked) < catalogueKept && known.asFor == c.settings {
		return known.offer, nil
	}
	made, err := c.ask(ctx, verb)
	if err == nil {
		made.asked, made.asFor = time.Now(), c.settings
		known.offer = made
	}
	return made, err
}

// item is anything that the service has a number and a name for.
type item struct {
	TrainModeId, DataBackendId, DistAIFrameId       int
	TrainModeName, DataBackendName, DistAIFrameName string
}

// node is a kind of node.
type node struct {
	NodeId, AcceleratorAmount, UnitPrice int
	AcceleratorVersion                   string
}

func (n node) name() string { return strconv.Itoa(n.AcceleratorAmount) + "-" + n.AcceleratorVersion }

func (c *client) ask(ctx context.Context, verb string) (made offer, err error) {
	a := asking{c, ctx, verb, nil}
	mode := map[bool]string{false: "StandAlone", true: "Distributed"}[c.Nodes > 1]
	made.mode = a.item("GetUAITrainAvailableTrainMode", nil, "nodeCount", mode, func(i item) (string, int) { return i.TrainModeName, i.TrainModeId })
	if a.err != nil {
		return made, a.err
	}
	of := map[string]any{"TrainModeId": made.mode}
	made.backend = a.item("GetUAITrainAvailableBackend", of, map[bool]string{true: "ufsPath", false: "ufilePath"}[c.UFS != ""], c.backend(), func(i item) (string, int) { return i.DataBackendName, i.DataBackendId })
	if c.Nodes > 1 {
		made.framework = a.item("GetUAITrainAvailableDistAIFramework", of, "framework", c.Framework, func(i item) (string, int) { return i.DistAIFrameName, i.DistAIFrameId })
		a.inRange("GetUAITrainDistributeWorkAmountRange", "nodeCount", c.Nodes, "nodes")
	}
	kind := a.node(of)
	made.node, made.price = kind.NodeId, kind.UnitPrice
	made.least, made.most = a.inRange("GetUAITrainMaxExecTimeRange", "maxExecuteHours", c.Hours, "hours")
	return made, a.err
}

// asking asks one thing after the other, until one fails.
type asking struct {
	*client
	ctx  context.Context
	verb string
	err  error
}

func (a *asking) call(action string, values map[string]any, answer any) bool {
	if a.err == nil {
		a.err = a.client.call(a.ctx, a.verb, action, values, answer)
	}
	return a.err == nil
}

func (a *asking) missing(field, message, hint string) {
	a.err = platforms.OptionFaults{{Field: field, Message: message, Hint: hint}}
}

// item is the service's number for a name.
func (a *asking) item(action string, values map[string]any, field, wanted string, of func(item) (string, int)) int {
	var answer struct{ DataItem []item }
	if !a.call(action, values, &answer) {
		return 0
	}
	var names []string
	for _, one := range answer.DataItem {
		name, id := of(one)
		if strings.EqualFold(name, wanted) {
			return id
		}
		names = append(names, name)
	}
	a.missing(field, "needs "+wanted+", which "+a.Zone+" does not have", "there is "+strings.Join(names, ", "))
	return 0
}

func (a *asking) node(values map[string]any) (kind node) {
	var answer struct{ DataSet []node }
	asked := map[string]any{"NodeType": "Work"}
	for name, value := range values {
		asked[name] = value
	}
	if !a.call("GetUAITrainAvailableResource", asked, &answer) {
		return kind
	}
	var names []string
	for _, one := range answer.DataSet {
		if strings.EqualFold(one.name(), a.NodeType) {
			return one
		}
		names = append(names, one.name())
	}
	a.missing("nodeType", "is "+a.NodeType+", which "+a.Zone+" does not have", "there is "+strings.Join(names, ", "))
	return kind
}

// inRange checks a number that the section sets, 0 for none, and returns the range.
func (a *asking) inRange(action, field string, has int, of string) (least, most int) {
	var answer struct{ Min, Max int }
	if !a.call(action, nil, &answer) {
		return 0, 0
	}
	if has != 0 && (has < answer.Min || answer.Max > 0 && has > answer.Max) {
		a.missing(field, fmt.Sprintf("is %d, and %s takes from %d to %d %s", has, a.Zone, answer.Min, answer.Max, of), "")
	}
	return answer.Min, answer.Max
}
