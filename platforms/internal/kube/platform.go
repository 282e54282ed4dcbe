package kube

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/trial"
)

const handleFormat = 1

var pods = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

// Options say what a platform on Kubernetes is.
type Options struct {
	Traits         platforms.Traits
	StateDirectory string // absolute, on a disk of this machine
	Home           string // platforms.Home of the state directory
	// Runner returns the runner's binary for the nodes' kind of machine.
	Runner func(system, processor string) ([]byte, error)
	// Read reads a section of a configuration. Its error is OptionFaults.
	Read func(options json.RawMessage) (Section, error)
}

// kind is what all sections of a platform share.
type kind struct {
	Options
	runner func(system, processor string) ([]byte, error)
	ends   platforms.Ends

	mutex    sync.Mutex
	clusters map[Target]*cluster
}

// New returns a platform.
func New(options Options) platforms.Kind {
	k := &kind{Options: options, runner: options.Runner, clusters: map[Target]*cluster{}}
	return platforms.Kind{
		Traits: options.Traits,
		Check:  func(section json.RawMessage) error { _, err := options.Read(section); return err },
		Open:   func(section platforms.Section) platforms.Platform { return &platform{kind: k, section: section} },
	}
}

// cluster returns the connection to a cluster; sections that name the same one have
// one connection.
func (k *kind) cluster(target Target) (*cluster, error) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if known := k.clusters[target]; known != nil && !known.stale() {
		return known, nil
	}
	made, err := connect(target)
	if err == nil {
		k.clusters[target] = made
	}
	return made, err
}

// platform is an open section.
type platform struct {
	kind    *kind
	section platforms.Section

	mutex  sync.Mutex
	opened *site
	closed bool
	ends   <-chan trial.Key
	deaf   func()
}

// site is where the section's runs are: made when it is first needed.
type site struct {
	platform  *platform
	section   Section
	job       jobKind
	namespace string
	cluster   *cluster
	objects   *board
	pods      *board
	ctx       context.Context
	stop      context.CancelFunc
	deaf      func()
	bringing  sync.Mutex
	brought   sync.Map // names of what is on the cluster
	answers   sync.Map // by key: of why a run has no pod

	mutex    sync.Mutex
	journals map[replica]*journal
	memories map[replica]*memory
}

// memory is what has been seen of a replica's pod and is shown by no board any more.
type memory struct {
	begun     types.UID // of the pod in which its command began
	last      *podState // of that pod, once it is gone
	forgotten bool      // all is on record, and only the pod's end is awaited
}

func (p *platform) directory() string {
	return filepath.Join(p.kind.StateDirectory, "platforms", p.kind.Traits.Name, p.section.Experiment)
}

// site opens the section's cluster, once, and again where its configuration was
// written anew.
func (p *platform) site(ctx context.Context) (*site, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.closed {
		return nil, platforms.Errorf(platforms.Transient, "open", "the section is closed")
	}
	if p.opened != nil && !p.opened.cluster.stale() {
		return p.opened, nil
	}
	p.leave()
	options, err := p.section.Options(ctx)
	if err != nil {
		return nil, err
	}
	section, err := p.kind.Read(options)
	if err != nil {
		return nil, platforms.Errorf(platforms.Invalid, "open", "%w", err)
	}
	p.opened, err = p.enter(section)
	return p.opened, err
}

func (p *platform) enter(section Section) (*site, error) {
	if section.Kubeconfig == "" {
		section.variable, _ = p.section.LookupEnv("KUBECONFIG")
	}
	c, err := p.kind.cluster(section.Target)
	if err != nil {
		return nil, platforms.Errorf(platforms.Denied, "open", "there is no way to a cluster: %w", err)
	}
	section.home = p.kind.Home
	s := &site{platform: p, section: section, job: section.jobKind(), cluster: c, namespace: section.Namespace,
		journals: map[replica]*journal{}, memories: map[replica]*memory{}}
	if s.namespace == "" {
		s.namespace = c.namespace
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.objects, s.pods = c.board(place{s.namespace, s.job.resource}), c.board(place{s.namespace, pods})
	s.deaf = s.pods.listen(&listener{s.noticed, s.vanished})
	return s, nil
}

// Close implements platforms.Platform.
func (p *platform) Close() error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.closed = true
	if p.deaf != nil {
		p.deaf()
		p.deaf = nil
	}
	p.leave()
	return nil
}

// leave closes the section's cluster, if it is open.
func (p *platform) leave() {
	if s := p.opened; s != nil {
		s.stop()
		s.deaf()
		s.objects.release()
		s.pods.release()
		p.opened = nil
	}
}

// Ends implements platforms.WithEnds.
func (p *platform) Ends() <-chan trial.Key {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.ends == nil {
		p.ends, p.deaf = p.kind.ends.Listen(p.section.Experiment)
	}
	return p.ends
}

// noticed follows the journal of a replica as soon as its pod is seen.
func (s *site) noticed(u *unstructured.Unstructured) {
	if which, ours := s.ownReplica(u); ours && s.remember(which, u) {
		s.follow(which, 0).look()
	}
}

// remember keeps in which pod a replica began: some controllers make another one where
// somebody deletes it. It tells whether the run still matters.
func (s *site) remember(which replica, u *unstructured.Unstructured) (matters bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	m := s.memory(which)
	if m.begun == "" && stateOf(u, s.job.container).trial.began() {
		m.begun = u.GetUID()
	}
	return !m.forgotten
}

// memory is that of a replica, made where there was none. The mutex is held.
func (s *site) memory(which replica) *memory {
	if s.memories[which] == nil {
		s.memories[which] = &memory{}
	}
	return s.memories[which]
}

// vanished keeps what a pod said last: it may be all that is left of a run's end.
func (s *site) vanished(u *unstructured.Unstructured) {
	which, ours := s.ownReplica(u)
	if !ours {
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	m := s.memories[which]
	switch {
	case m == nil:
	case m.forgotten:
		delete(s.memories, which)
	case m.begun == u.GetUID():
		m.last = stateOf(u, s.job.container)
		m.last.gone = true
	}
}

// recall is what is known of a replica beside the boards.
func (s *site) recall(which replica) memory {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if m := s.memories[which]; m != nil {
		return *m
	}
	return memory{}
}

// handleData is Handle.Data.
type handleData struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// Pod is the UID of the pod in which the command began; empty: in none yet. Pods are
	// the same of further replicas, by their numbers.
	Pod  types.UID         `json:"pod,omitempty"`
	Pods map[int]types.UID `json:"pods,omitempty"`
}

// begun is the pod in which a replica began.
func (d handleData) begun(ordinal int) types.UID {
	if ordinal == 0 {
		return d.Pod
	}
	return d.Pods[ordinal]
}

func (s *site) handle(key trial.Key, u *unstructured.Unstructured) platforms.Handle {
	data, _ := json.Marshal(handleData{Kind: s.section.Kind, Namespace: s.namespace, Name: u.GetName(), UID: string(u.GetUID())})
	return platforms.Handle{Format: handleFormat, Platform: s.platform.kind.Traits.Name, Key: key, Data: data}
}

// Submit implements platforms.Platform: the object's name is the run's, so there is
// only ever one.
func (p *platform) Submit(ctx context.Context, job platforms.Job) (platforms.Handle, error) {
	s, err := p.site(ctx)
	if err != nil {
		return platforms.Handle{}, Fault("submit", err)
	}
	if err := s.supersede(ctx, job.Key); err != nil {
		return platforms.Handle{}, Fault("submit", err)
	}
	made, err := s.submit(ctx, job)
	if err != nil {
		return platforms.Handle{}, Fault("submit", err)
	}
	return s.handle(job.Key, made), nil
}

func (s *site) submit(ctx context.Context, job platforms.Job) (*unstructured.Unstructured, error) {
	stock, err := s.stock(ctx, job.Workspace)
	if err != nil {
		return nil, err
	}
	if err := s.equip(ctx, job.Key); err != nil {
		return nil, err
	}
	wanted, err := s.job.manifest(s.section, job, stock)
	if err != nil {
		return nil, err
	}
	if err := s.accompany(ctx, job, stock); err != nil {
		return nil, err
	}
	rundir.CrashPoint("submit.code-before-object")
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	made, err := s.make(ctx, wanted)
	rundir.CrashPoint("submit.object-before-handle")
	if apierrors.IsAlreadyExists(err) {
		return s.adopt(ctx, job)
	}
	return made, err
}

// adopt returns the object that is there already, if it is the job's.
func (s *site) adopt(ctx context.Context, job platforms.Job) (*unstructured.Unstructured, error) {
	found, err := s.get(ctx, s.job.nameOf(job.Key))
	if err == nil && s.job.beside == nil { // which was asked before
		err = job.CheckParameters([]byte(parameterOf(found.Object)))
	}
	return found, err
}

// supersede ends what earlier attempts of the trial left.
func (s *site) supersede(ctx context.Context, key trial.Key) error {
	for key.Attempt--; key.Attempt > 0; key.Attempt-- {
		if err := s.end(ctx, key, trial.Intent{Cause: trial.CauseSuperseded}); err != nil {
			return err
		}
		if err := s.awaitEnd(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

// awaitEnd waits until no replica of a run goes on that is being ended, for as long as
// that may take. One on a node that is not heard of is not waited for.
func (s *site) awaitEnd(ctx context.Context, key trial.Key) error {
	for begun := time.Now(); ; {
		own, err := s.podsOf(ctx, key)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(own, func(u unstructured.Unstructured) bool {
			_, runs := s.replicaOf(&u)
			pod := stateOf(&u, s.job.container)
			return runs && pod.trial.running && pod.silent.IsZero() && time.Since(begun) < pod.grace
		}) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(again):
		}
	}
}

// List implements platforms.Platform.
func (p *platform) List(ctx context.Context, keys ...trial.Key) ([]platforms.Handle, error) {
	s, err := p.site(ctx)
	if err != nil {
		return nil, Fault("list", err)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if len(keys) == 0 {
		return s.list(ctx, ofExperiment(p.section.Experiment))
	}
	var handles []platforms.Handle
	for some := range slices.Chunk(keys, keysAtOnce) {
		listed, err := s.list(ctx, ofRuns(some))
		if err != nil {
			return nil, err
		}
		handles = append(handles, listed...)
	}
	return handles, nil
}

// keysAtOnce bounds the keys that go into the address of one call.
const keysAtOnce = 100

func (s *site) list(ctx context.Context, selector string) ([]platforms.Handle, error) {
	list, err := s.client().List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, Fault("list", err)
	}
	var handles []platforms.Handle
	for i := range list.Items {
		u := &list.Items[i]
		if key, ours := keyOf(u); ours && u.GetDeletionTimestamp() == nil {
			handles = append(handles, s.handle(key, u))
		}
	}
	return handles, nil
}
