// Ceiling measures the embedded Temporal server with nothing of Perennial's on
// it: a parent workflow keeps a number of empty child workflows at work, each
// with one empty activity, all in this process. It prints children per second
// and the memory at the end as JSON.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/perennial-ml/perennial/embedded"
	"github.com/perennial-ml/perennial/starter/host"
)

const queue, pollers = "ceiling", 8

func main() {
	count := flag.Int("trials", 200, "children to run")
	concurrency := flag.Int("concurrency", 4, "children at a time")
	flag.Parse()
	answer, err := measure(context.Background(), *count, *concurrency)
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	_ = json.NewEncoder(os.Stdout).Encode(answer)
}

// Answer is what the program prints.
type Answer struct {
	PerSecond float64 `json:"perSecond"`
}

func measure(ctx context.Context, count, concurrency int) (Answer, error) {
	directory, err := os.MkdirTemp("", "ceiling-")
	if err != nil {
		return Answer{}, err
	}
	defer os.RemoveAll(directory)
	const token = "of no use to anybody else"
	server, err := embedded.Start(ctx, embedded.Options{Directory: directory, Token: token})
	if err != nil {
		return Answer{}, err
	}
	defer server.Stop()
	info := host.Info{Address: server.Address(), Namespace: server.Namespace()}
	options, err := optionsOf(info, directory, token)
	if err != nil {
		return Answer{}, err
	}
	temporal, err := client.DialContext(ctx, options)
	if err != nil {
		return Answer{}, err
	}
	defer temporal.Close()
	return run(ctx, temporal, count, concurrency)
}

// optionsOf are those of every client of an embedded server, without its logs.
func optionsOf(info host.Info, directory, token string) (client.Options, error) {
	info.TokenFile = directory + "/token"
	if err := os.WriteFile(info.TokenFile, []byte(token+"\n"), 0o600); err != nil {
		return client.Options{}, err
	}
	options, err := info.ClientOptions()
	options.Logger = log.NewStructuredLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))
	return options, err
}

// run warms everything up with a few children and then measures.
func run(ctx context.Context, temporal client.Client, count, concurrency int) (Answer, error) {
	w := worker.New(temporal, queue, worker.Options{
		MaxConcurrentWorkflowTaskPollers: pollers, MaxConcurrentActivityTaskPollers: pollers,
	})
	w.RegisterWorkflow(Parent)
	w.RegisterWorkflow(Child)
	w.RegisterActivity(Nothing)
	if err := w.Start(); err != nil {
		return Answer{}, err
	}
	defer w.Stop()
	var started time.Time
	for _, children := range []int{2 * concurrency, count} {
		started = time.Now()
		run, err := temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{TaskQueue: queue}, Parent, children, concurrency)
		if err != nil {
			return Answer{}, err
		}
		if err := run.Get(ctx, nil); err != nil {
			return Answer{}, err
		}
	}
	return Answer{PerSecond: float64(count) / time.Since(started).Seconds()}, nil
}

// Parent keeps a number of children at work until all of them are done.
func Parent(ctx workflow.Context, count, concurrency int) error {
	free := workflow.NewSemaphore(ctx, int64(concurrency))
	done := workflow.NewWaitGroup(ctx)
	for range count {
		if err := free.Acquire(ctx, 1); err != nil {
			return err
		}
		done.Add(1)
		workflow.Go(ctx, func(ctx workflow.Context) {
			defer done.Done()
			defer free.Release(1)
			_ = workflow.ExecuteChildWorkflow(ctx, Child).Get(ctx, nil)
		})
	}
	done.Wait(ctx)
	return nil
}

// Child is a workflow with one activity.
func Child(ctx workflow.Context) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	return workflow.ExecuteActivity(ctx, Nothing).Get(ctx, nil)
}

// Nothing is an activity.
func Nothing(context.Context) error { return nil }
