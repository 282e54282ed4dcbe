package kube

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// isQuota tells whether a refusal is one that room would mend.
func isQuota(err error) bool { return strings.Contains(err.Error(), "exceeded quota") }

// place is what a board shows: the objects of a resource in a namespace that carry
// our labels.
type place struct {
	namespace string
	resource  schema.GroupVersionResource
}

// board shows the objects of a place as they are now, by one list and one watch for
// all runs of this process.
type board struct {
	place
	cluster *cluster
	objects cache.Indexer
	stop    context.CancelFunc

	mutex     sync.Mutex
	fault     error // why the API server does not answer at present
	listed    bool
	users     int
	listeners map[*listener]bool
}

// listener is told of what changes on a board, in the order in which it does.
type listener struct {
	seen func(*unstructured.Unstructured) // as it is now
	gone func(*unstructured.Unstructured) // as it was last; it is told before the board forgets it
}

const byRun = "run"

// patience between two tries of an API server that does not answer: a view that is
// half a minute old, as the library has it, keeps slots idle for as long.
var patience = wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 20, Cap: 5 * time.Second}

// steady is how long all must be well before the next fault is tried again at once.
const steady = 10 * time.Second

// board returns the board of a place, begun if it is the first who asks. Each needs
// one release.
func (c *cluster) board(at place) *board {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	b := c.boards[at]
	if b == nil {
		b = c.begin(at)
		c.boards[at] = b
	}
	b.users++
	return b
}

func (c *cluster) begin(at place) *board {
	// What goes wrong is the fault, which everybody sees who waits for it.
	ctx, stop := context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
	b := &board{place: at, cluster: c, stop: stop, listeners: map[*listener]bool{},
		objects: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{byRun: runsOf})}
	pace := patience
	reflector := cache.NewReflectorWithOptions(b.source(), &unstructured.Unstructured{}, b, cache.ReflectorOptions{Backoff: &pace})
	go reflector.RunWithContext(ctx)
	return b
}

// listen has a listener told of all that is there and of all that comes, until the
// function that it returns is called.
func (b *board) listen(l *listener) (deaf func()) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.listeners[l] = true
	for _, known := range b.objects.List() {
		l.seen(known.(*unstructured.Unstructured))
	}
	return func() {
		b.mutex.Lock()
		defer b.mutex.Unlock()
		delete(b.listeners, l)
	}
}

// Add implements cache.ReflectorStore, as Update, Delete, Replace and Resync do.
func (b *board) Add(object any) error { return b.Update(object) }

func (b *board) Update(object any) error {
	u := withoutLuggage(object.(*unstructured.Unstructured))
	b.mutex.Lock()
	defer b.mutex.Unlock()
	err := b.objects.Update(u)
	b.tell(u)
	return err
}

func (b *board) tell(u *unstructured.Unstructured) {
	for l := range b.listeners {
		l.seen(u)
	}
}

func (b *board) Delete(object any) error {
	u := withoutLuggage(object.(*unstructured.Unstructured))
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.bury(u)
	return b.objects.Delete(u)
}

func (b *board) bury(u *unstructured.Unstructured) {
	for l := range b.listeners {
		l.gone(u)
	}
}

func (b *board) Replace(list []any, version string) error {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	there := map[types.UID]bool{}
	for i, object := range list {
		u := withoutLuggage(object.(*unstructured.Unstructured))
		list[i], there[u.GetUID()] = u, true
	}
	for _, known := range b.objects.List() {
		if before := known.(*unstructured.Unstructured); !there[before.GetUID()] {
			b.bury(before)
		}
	}
	err := b.objects.Replace(list, version)
	b.listed = true
	for _, object := range list {
		b.tell(object.(*unstructured.Unstructured))
	}
	return err
}

func (b *board) Resync() error { return nil }

// source lists and watches, and notes that it could.
func (b *board) source() cache.ListerWatcher {
	client := b.cluster.dynamic.Resource(b.resource).Namespace(b.namespace)
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.LabelSelector = experimentLabel
			list, err := client.List(ctx, options)
			b.note(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = experimentLabel
			events, err := client.Watch(ctx, options)
			b.note(err)
			return events, err
		},
	}
}

func (b *board) note(err error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.fault = err
}

// withoutLuggage leaves out what nobody asks a board for.
func withoutLuggage(u *unstructured.Unstructured) *unstructured.Unstructured {
	unstructured.RemoveNestedField(u.Object, "metadata", "managedFields")
	unstructured.RemoveNestedField(u.Object, "spec", "template")
	unstructured.RemoveNestedField(u.Object, "spec", "containers")
	unstructured.RemoveNestedField(u.Object, "spec", "initContainers")
	unstructured.RemoveNestedField(u.Object, "spec", "volumes")
	return u
}

func runsOf(object any) ([]string, error) {
	return []string{object.(*unstructured.Unstructured).GetLabels()[runLabel]}, nil
}

// ready waits until the board shows what there is, and fails where the API server
// does not answer.
func (b *board) ready(ctx context.Context) error {
	for {
		b.mutex.Lock()
		fault, listed := b.fault, b.listed
		b.mutex.Unlock()
		if fault != nil || listed {
			return fault
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the API server does not list %s: %w", b.resource.Resource, ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// of returns the objects of a run.
func (b *board) of(run string) (objects []*unstructured.Unstructured) {
	found, _ := b.objects.ByIndex(byRun, run)
	for _, object := range found {
		objects = append(objects, object.(*unstructured.Unstructured))
	}
	return objects
}

// release lets go of the board, which ends with its last user.
func (b *board) release() {
	b.cluster.mutex.Lock()
	defer b.cluster.mutex.Unlock()
	if b.users--; b.users == 0 {
		b.stop()
		delete(b.cluster.boards, b.place)
	}
}
