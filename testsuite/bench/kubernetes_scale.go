package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/perennial-ml/perennial/testsuite/kube"
)

// crowd are trials in pods of a simulated node, and how long each lasts.
const (
	crowdAtOnce = 200
	crowdLasts  = 25 * time.Second
)

// kubernetesScale measures many trials in pods.
func (b *Bench) kubernetesScale(plan Plan) error {
	c, err := b.pods(plan)
	if err != nil {
		return err
	}
	return c.crowd()
}

// crowd counts what many trials ask of the API server, and what the host keeps of them.
// Their pods are on a node of which nothing runs.
func (c *pods) crowd() error {
	node, err := c.cluster.Simulate("simulated", crowdLasts)
	if err != nil {
		return err
	}
	defer node.Close()
	caller, err := c.cluster.Caller(context.Background(), "counted", c.bench.scratch)
	if err != nil {
		return err
	}
	namespace, err := c.namespace()
	if err != nil {
		return err
	}
	w, err := c.bench.work(Work{Trials: c.plan.Crowd, Concurrency: min(crowdAtOnce, c.plan.Crowd/2), Service: fmt.Sprintf(
		"  platform: kubernetes\n  kubeconfig: %s\n  namespace: %s\n  image: %s\n  nodeSelector: {%s: \"true\"}\n", caller.Kubeconfig, namespace, kube.ShellImage, kube.SimulatedLabel)})
	if err != nil {
		return err
	}
	p, err := c.bench.newPerennial()
	if err != nil {
		return err
	}
	return errors.Join(c.watchCrowd(p, w, node, caller), p.stop())
}

func (c *pods) watchCrowd(p *Perennial, w Work, node *kube.Simulated, caller *kube.Caller) error {
	before := load()
	calls, err := caller.Calls(context.Background())
	if err != nil {
		return err
	}
	host, err := p.host()
	if err != nil {
		return err
	}
	used, began := usageOf(host), time.Now()
	command := p.command("run", w.file(), "--output", "json")
	early, err := whileCrowd(command, node, w.Trials/2, func() float64 { return residentMB(host) })
	if err != nil {
		return err
	}
	took := time.Since(began)
	asked, err := caller.Calls(context.Background())
	if err != nil {
		return err
	}
	var f Figures
	if err := p.count(&f); err != nil {
		return err
	}
	what := fmt.Sprintf("%d trials of %s at %d at a time, on a simulated node", w.Trials, crowdLasts, w.Concurrency)
	row(what+": calls of the API server a trial, by its own count", digits(float64(asked-calls)/float64(w.Trials), 2), "6", before)
	row("host's memory when half of them had ended, and at the end", fmt.Sprintf("%s MB, %s MB", digits(early, 0), digits(residentMB(host), 0)), "flat", before)
	row("all of it took; processor time of the host a trial; final values kept", fmt.Sprintf("%s s; %s ms; %d of %d", digits(took.Seconds(), 0),
		digits(1000*usageOf(host).Minus(used).Own.Seconds()/float64(w.Trials), 0), f.Finals, w.Trials), "all kept", before)
	return nil
}

// whileCrowd runs a command to its end, and measures once so many trials have ended.
func whileCrowd(command *exec.Cmd, node *kube.Simulated, ended int, measure func() float64) (measured float64, err error) {
	if err := command.Start(); err != nil {
		return 0, err
	}
	over := make(chan error, 1)
	go func() { over <- command.Wait() }()
	for {
		select {
		case err := <-over:
			return measured, err
		case <-time.After(200 * time.Millisecond):
			if measured == 0 && node.Ended() >= ended {
				measured = measure()
			}
		}
	}
}
