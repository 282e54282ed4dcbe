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
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
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
	cluster  *cluster
	informer cache.SharedIndexInformer
	stop     context.CancelFunc

	mutex sync.Mutex
	fault error // why the API server does not answer at present
	users int
}

const byRun = "run"

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
	ctx, stop := context.WithCancel(context.Background())
	b := &board{place: at, cluster: c, stop: stop}
	b.informer = cache.NewSharedIndexInformer(b.source(), &unstructured.Unstructured{}, 0, cache.Indexers{byRun: runsOf})
	_ = b.informer.SetTransform(withoutLuggage)
	_ = b.informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) { b.note(err) })
	go b.informer.RunWithContext(ctx)
	return b
}

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
func withoutLuggage(object any) (any, error) {
	if u, ok := object.(*unstructured.Unstructured); ok {
		unstructured.RemoveNestedField(u.Object, "metadata", "managedFields")
		unstructured.RemoveNestedField(u.Object, "spec", "template")
		unstructured.RemoveNestedField(u.Object, "spec", "containers")
		unstructured.RemoveNestedField(u.Object, "spec", "volumes")
	}
	return object, nil
}

func runsOf(object any) ([]string, error) {
	return []string{object.(*unstructured.Unstructured).GetLabels()[runLabel]}, nil
}

// ready waits until the board shows what there is, and fails where the API server
// does not answer.
func (b *board) ready(ctx context.Context) error {
	for {
		b.mutex.Lock()
		fault := b.fault
		b.mutex.Unlock()
		if fault != nil {
			return fault
		}
		if b.informer.HasSynced() {
			return nil
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
	found, _ := b.informer.GetIndexer().ByIndex(byRun, run)
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
