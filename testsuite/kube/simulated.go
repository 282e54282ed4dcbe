package kube

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/runner/stream"
	"github.com/perennial-ml/perennial/trial"
)

// Simulated is a node of which nothing runs: it tells the API server of each pod what a
// kubelet would, and serves the logs that the runner in it would have printed. Everything
// else of the cluster is real. It is for more pods than a machine carries.
type Simulated struct {
	Name   string
	Lasts  time.Duration // how long each trial runs
	api    *API
	server *httptest.Server
	stop   context.CancelFunc

	mutex sync.Mutex
	pods  map[string]*simulatedPod // by name
	ended int
}

// SimulatedLabel is on simulated nodes: "true".
const SimulatedLabel = "perennial.dev/simulated"

// simulatedPod is one of the trial's pods.
type simulatedPod struct {
	key     trial.Key
	started time.Time
	records []metrics.Record
	over    chan struct{} // closed at its end
	exit    *rundir.ExitRecord
}

// Simulate adds a node, until Close.
func (c *Cluster) Simulate(name string, lasts time.Duration) (*Simulated, error) {
	ctx, stop := context.WithCancel(context.Background())
	n := &Simulated{Name: name, Lasts: lasts, api: c.API, stop: stop, pods: map[string]*simulatedPod{}}
	listener, err := net.Listen("tcp", c.Address(1)+":0")
	if err != nil {
		stop()
		return nil, err
	}
	n.server = httptest.NewUnstartedServer(http.HandlerFunc(n.log))
	n.server.Listener.Close()
	n.server.Listener = listener
	n.server.StartTLS()
	if err := n.register(ctx, c.Address(1), listener.Addr().(*net.TCPAddr).Port); err != nil {
		n.Close()
		return nil, err
	}
	go n.live(ctx)
	go n.watch(ctx)
	return n, nil
}

// Close takes the node away.
func (n *Simulated) Close() {
	n.stop()
	n.server.CloseClientConnections()
	n.server.Close()
	_, _ = n.api.Do(context.Background(), http.MethodDelete, "/api/v1/nodes/"+n.Name, nil)
}

// Ended is how many trials have.
func (n *Simulated) Ended() int {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	return n.ended
}

func (n *Simulated) register(ctx context.Context, address string, port int) error {
	node := "/api/v1/nodes/" + n.Name
	if err := n.api.Apply(ctx, node, Object{"apiVersion": "v1", "kind": "Node", "metadata": Object{"name": n.Name, "labels": Object{SimulatedLabel: "true"}}}); err != nil {
		return err
	}
	room := Object{"cpu": "1000", "memory": "1000Gi", "pods": "1000", "ephemeral-storage": "1000Gi"}
	return n.api.Apply(ctx, node+"/status", Object{"apiVersion": "v1", "kind": "Node", "metadata": Object{"name": n.Name}, "status": Object{
		"capacity": room, "allocatable": room, "addresses": []any{Object{"type": "InternalIP", "address": address}},
		"daemonEndpoints": Object{"kubeletEndpoint": Object{"Port": port}},
		"conditions":      []any{Object{"type": "Ready", "status": "True", "reason": "Simulated", "lastTransitionTime": time.Now().UTC().Format(time.RFC3339)}}}})
}

// live has the cluster know that the node is there.
func (n *Simulated) live(ctx context.Context) {
	for ; ctx.Err() == nil; time.Sleep(5 * time.Second) {
		_ = n.api.Apply(ctx, "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/"+n.Name, Object{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
			"metadata": Object{"name": n.Name}, "spec": Object{"holderIdentity": n.Name, "leaseDurationSeconds": 40, "renewTime": time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")}})
	}
}

// watch follows the node's pods.
func (n *Simulated) watch(ctx context.Context) {
	for ctx.Err() == nil {
		request, _ := http.NewRequestWithContext(ctx, http.MethodGet, n.api.Server+"/api/v1/pods?watch=true&fieldSelector=spec.nodeName="+n.Name, nil)
		request.Header.Set("Authorization", "Bearer "+n.api.Token)
		response, err := n.api.client.Do(request)
		if err != nil {
			time.Sleep(time.Second)
			continue
		}
		lines := bufio.NewReader(response.Body)
		for line, err := lines.ReadBytes('\n'); err == nil; line, err = lines.ReadBytes('\n') {
			var event struct {
				Type   string
				Object Object
			}
			if json.Unmarshal(line, &event) == nil && event.Type != "DELETED" {
				n.see(ctx, event.Object)
			}
		}
		response.Body.Close()
	}
}

// see begins a pod that is new, and lets one go that shall.
func (n *Simulated) see(ctx context.Context, pod Object) {
	path := "/api/v1/namespaces/" + Field(pod, "metadata", "namespace").(string) + "/pods/" + Field(pod, "metadata", "name").(string)
	if Field(pod, "metadata", "deletionTimestamp") != nil {
		go n.api.Do(ctx, http.MethodDelete, path+"?gracePeriodSeconds=0", nil) //nolint:errcheck // it is told again
		return
	}
	name := Field(pod, "metadata", "name").(string)
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if n.pods[name] != nil {
		return
	}
	var job stream.Job
	told, _ := Field(pod, "spec", "containers", 0, "env", 0, "value").(string)
	if json.Unmarshal([]byte(told), &job) != nil {
		return
	}
	p := &simulatedPod{key: job.Spec.Key, over: make(chan struct{}), started: time.Now()}
	p.records = []metrics.Record{p.record(1, metrics.Periodical, "0.1"), p.record(2, metrics.Periodical, "0.2"), p.record(3, metrics.Periodical, "0.3"), p.record(4, metrics.Final, "0.4")}
	n.pods[name] = p
	go n.run(ctx, path, p)
}

func (p *simulatedPod) record(number int64, kind metrics.Kind, value string) metrics.Record {
	return metrics.Record{Number: number, Time: p.started, Kind: kind, Step: number - 1, Value: value}
}

// run tells of a pod what a kubelet would.
func (n *Simulated) run(ctx context.Context, path string, p *simulatedPod) {
	_ = n.tell(ctx, path, "Running", p, Object{"running": Object{"startedAt": p.started.UTC().Format(time.RFC3339)}}, Object{"running": Object{}})
	select {
	case <-time.After(n.Lasts):
	case <-ctx.Done():
		return
	}
	p.exit = &rundir.ExitRecord{Format: rundir.Format, Started: p.started, Ended: time.Now()}
	message, _ := json.Marshal(stream.Message{Format: 1, Run: p.key.String(), Records: int64(len(p.records)), Exit: p.exit, Last: p.records})
	close(p.over)
	n.mutex.Lock()
	n.ended++
	n.mutex.Unlock()
	ended := Object{"exitCode": 0, "reason": "Completed", "startedAt": p.started.UTC().Format(time.RFC3339), "finishedAt": time.Now().UTC().Format(time.RFC3339)}
	told := Object{"message": string(message)}
	for name, value := range ended {
		told[name] = value
	}
	_ = n.tell(ctx, path, "Succeeded", p, Object{"terminated": told}, Object{"terminated": ended})
}

func (n *Simulated) tell(ctx context.Context, path, phase string, p *simulatedPod, own, journal Object) error {
	container := func(name string, state Object) Object {
		return Object{"name": name, "image": ShellImage, "imageID": "", "ready": phase == "Running", "restartCount": 0, "state": state}
	}
	return n.api.Patch(ctx, path+"/status", Object{"status": Object{"phase": phase, "startTime": p.started.UTC().Format(time.RFC3339), "podIP": "10.232.255.1",
		"containerStatuses": []any{container("trial", own), container("perennial-journal", journal)}}})
}

// log serves /containerLogs/NAMESPACE/POD/CONTAINER, as a kubelet does.
func (n *Simulated) log(w http.ResponseWriter, r *http.Request) {
	words := strings.Split(r.URL.Path, "/")
	n.mutex.Lock()
	p := n.pods[words[len(words)-2]]
	n.mutex.Unlock()
	if p == nil || words[1] != "containerLogs" {
		http.NotFound(w, r)
		return
	}
	if words[len(words)-1] != "perennial-journal" {
		fmt.Fprintln(w, "simulated")
		return
	}
	var text []byte
	for _, record := range p.records {
		text, _ = stream.AppendRecord(text, p.key, record)
	}
	_, _ = w.Write(text)
	_ = http.NewResponseController(w).Flush()
	if follow := r.URL.Query(); follow.Get("follow") == "true" {
		select {
		case <-p.over:
		case <-r.Context().Done():
			return
		}
	}
	select {
	case <-p.over:
		text, _ = stream.AppendEnd(nil, p.key, stream.End{Records: int64(len(p.records)), Exit: p.exit})
		_, _ = w.Write(text)
	default:
	}
}
