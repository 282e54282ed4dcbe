package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/perennial-ml/perennial/testsuite/kube"
)

const (
	// codeBytes are code that cannot be packed smaller.
	codeBytes = 5 << 20
	// manyPods run while the controller is watched.
	manyPods = 100
	bareJob  = `apiVersion: batch/v1
kind: Job
metadata: {name: %[1]s}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      volumes: [{name: work, hostPath: {path: %[2]s}}]
      containers:
      - name: trial
        image: %[3]s
        volumeMounts: [{name: work, mountPath: %[2]s}]
        command: [sh, -c, 'note() { read -r now rest </proc/uptime; echo "$1 $now %[1]s" >>%[4]s; }; note start; note end']
`
)

// kubernetes measures trials in pods of a laboratory's cluster, beside bare Jobs that
// kubectl makes there.
func (b *Bench) kubernetes(plan Plan) error {
	if _, err := exec.LookPath("kubectl"); err != nil {
		return errors.New("kubectl is missing: https://kubernetes.io/docs/tasks/tools/")
	}
	c, err := b.pods(plan)
	if err != nil {
		return err
	}
	for _, measure := range []func() error{c.oneByOne, c.fourAtOnce, c.muchCode, c.many} {
		if err := measure(); err != nil {
			return err
		}
	}
	return nil
}

// pods are where trials run here.
type pods struct {
	bench   *Bench
	cluster *kube.Cluster
	plan    Plan
}

// pods brings a cluster up, and begins a table.
func (b *Bench) pods(plan Plan) (*pods, error) {
	if missing := kube.Missing(); missing != "" {
		return nil, errors.New(missing)
	}
	cluster, err := kube.Start(kube.UntilThisProcessEnds)
	if err != nil {
		return nil, err
	}
	fmt.Printf("\n### Pods of a Kubernetes cluster\n\n| what | measured | target | load before |\n|--|--|--|--|\n")
	return &pods{b, cluster, plan}, nil
}

// namespace makes one for one measurement.
func (c *pods) namespace() (string, error) {
	c.bench.number++
	name := fmt.Sprintf("bench-%d", c.bench.number)
	path := "/api/v1/namespaces/" + name
	if err := c.cluster.API.Apply(context.Background(), path, kube.Object{"apiVersion": "v1", "kind": "Namespace", "metadata": kube.Object{"name": name}}); err != nil {
		return "", err
	}
	for range 600 {
		if _, err := c.cluster.API.Get(context.Background(), path+"/serviceaccounts/default"); err == nil {
			return name, nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return "", errors.New("there is no service account in " + name)
}

// work prepares an experiment whose pods see their ledger at its own path.
func (c *pods) work(w Work) (Work, error) {
	namespace, err := c.namespace()
	if err != nil {
		return w, err
	}
	w.Service = fmt.Sprintf("  platform: kubernetes\n  kubeconfig: %s\n  namespace: %s\n  image: %s\n"+
		"  volumes: [{name: work, hostPath: {path: %[4]s}}]\n  volumeMounts: [{name: work, mountPath: %[4]s}]\n",
		c.cluster.Kubeconfig, namespace, kube.ShellImage, c.bench.scratch)
	return c.bench.work(w)
}

// measure runs an experiment on a host of its own.
func (c *pods) measure(w Work) (Figures, Ledger, error) {
	w, err := c.work(w)
	if err != nil {
		return Figures{}, Ledger{}, err
	}
	return c.run(w)
}

func (c *pods) run(w Work) (f Figures, ledger Ledger, err error) {
	p, err := c.bench.newPerennial()
	if err != nil {
		return f, ledger, err
	}
	if f, err = p.measure(w); err == nil {
		ledger, err = readLedger(w.ledger())
	}
	return f, ledger, errors.Join(err, p.stop())
}

// turnaround is from one trial's end to the next one's where there is one at a time.
func turnaround(l Ledger) float64 {
	return (l.ends[len(l.ends)-1] - l.ends[0]) / float64(len(l.ends)-1)
}

// oneByOne measures trials one after the other.
func (c *pods) oneByOne() error {
	before := load()
	var ours, bare, ratios []float64
	for range c.plan.Rounds {
		_, ledger, err := c.measure(Work{Trials: c.plan.Pods, Concurrency: 1})
		if err != nil {
			return err
		}
		jobs, err := c.bare(c.plan.Pods, 1)
		if err != nil {
			return err
		}
		ours, bare = append(ours, turnaround(ledger)), append(bare, turnaround(jobs.ledger))
		ratios = append(ratios, turnaround(ledger)/turnaround(jobs.ledger))
	}
	row(fmt.Sprintf("turnaround of an empty trial, %d of them one after the other", c.plan.Pods), digits(median(ours), 2)+" s", "", before)
	row("the same of bare Jobs, by `kubectl create` and `kubectl wait`", digits(median(bare), 2)+" s", "", before)
	row("ours is, round by round", digits(median(ratios), 2)+"×", "1.3×", before)
	return nil
}

// fourAtOnce measures how long slots are empty.
func (c *pods) fourAtOnce() error {
	before := load()
	var idle, starts, more, rates []float64
	for range c.plan.Rounds {
		f, _, err := c.measure(Work{Trials: 4 * c.plan.Pods, Concurrency: 4})
		if err != nil {
			return err
		}
		jobs, err := c.bare(c.plan.Pods, 4)
		if err != nil {
			return err
		}
		idle, starts, rates = append(idle, median(f.Idle)), append(starts, median(jobs.starts)), append(rates, f.PerSecond)
		more = append(more, median(f.Idle)-median(jobs.starts))
		if kept := 4 * c.plan.Pods; f.Finals != kept || f.Intermediates != 3*kept {
			return fmt.Errorf("%d of %d final values are kept, %d of %d others", f.Finals, kept, f.Intermediates, 3*kept)
		}
	}
	row(fmt.Sprintf("idle slots, %d empty trials at concurrency 4: median", 4*c.plan.Pods), digits(median(idle), 2)+" s", "", before)
	row("a bare Job's own start, 4 at a time: from its being made to its first instruction", digits(median(starts), 2)+" s", "", before)
	row("the difference, round by round", digits(median(more), 2)+" s", "0.5 s", before)
	row("trials a second meanwhile; every value kept", digits(median(rates), 1), "all kept", before)
	return nil
}

// bareJobs are what bare Jobs did.
type bareJobs struct {
	ledger Ledger
	starts []float64 // seconds from when kubectl had made each to its first instruction
}

// bare runs bare Jobs by kubectl, as many as given in each of some lanes.
func (c *pods) bare(count, lanes int) (jobs bareJobs, err error) {
	namespace, err := c.namespace()
	if err != nil {
		return jobs, err
	}
	directory := filepath.Join(c.bench.scratch, namespace)
	if err := os.Mkdir(directory, 0o755); err != nil {
		return jobs, err
	}
	ledger := filepath.Join(directory, "ledger")
	var group sync.WaitGroup
	faults := make([]error, lanes)
	for lane := range lanes {
		group.Go(func() { faults[lane] = c.bareLane(namespace, directory, fmt.Sprintf("bare-%d", lane), count) })
	}
	group.Wait()
	if err := errors.Join(faults...); err != nil {
		return jobs, err
	}
	if jobs.ledger, err = readLedger(ledger); err != nil {
		return jobs, err
	}
	made, err := readLedger(filepath.Join(directory, "made"))
	if err != nil {
		return jobs, err
	}
	for name, at := range jobs.ledger.startOf {
		jobs.starts = append(jobs.starts, max(0, at-made.startOf[name]))
	}
	return jobs, nil
}

// bareLane runs Jobs one after the other, as a shell script would.
func (c *pods) bareLane(namespace, directory, prefix string, count int) error {
	for i := range count {
		name := fmt.Sprintf("%s-%d", prefix, i)
		file := filepath.Join(directory, name+".yml")
		if err := os.WriteFile(file, fmt.Appendf(nil, bareJob, name, c.bench.scratch, kube.ShellImage, filepath.Join(directory, "ledger")), 0o644); err != nil {
			return err
		}
	}
	script := `export KUBECONFIG=$1
for file in $(ls -v "$3"/$4-*.yml); do
  name=$(basename "$file" .yml)
  kubectl create --namespace "$2" -f "$file" >/dev/null
  read -r now rest </proc/uptime; echo "start $now $name
end $now $name" >>"$3/made"
  kubectl wait --namespace "$2" --for=condition=complete --timeout=120s "job/$name" >/dev/null
done`
	out, err := exec.Command("sh", "-ec", script, "sh", c.cluster.Kubeconfig, namespace, directory, prefix).CombinedOutput()
	if err != nil {
		return fmt.Errorf("kubectl: %w: %s", err, out)
	}
	return nil
}

// muchCode measures how soon the first trial of an experiment with much code begins.
func (c *pods) muchCode() error {
	before := load()
	var after []float64
	for range c.plan.Rounds {
		w, err := c.work(Work{Trials: 1, Concurrency: 1})
		if err != nil {
			return err
		}
		content := make([]byte, codeBytes)
		_, _ = rand.Read(content)
		if err := os.WriteFile(filepath.Join(w.code(), "weights"), content, 0o644); err != nil {
			return err
		}
		f, _, err := c.run(w)
		if err != nil {
			return err
		}
		after = append(after, f.FirstAfter)
	}
	row("first trial of an experiment with 5 MB of code: from the command to its first instruction", digits(median(after), 1)+" s", "10 s", before)
	return nil
}

// many watches the controller while many trials run and report.
func (c *pods) many() error {
	w, err := c.work(Work{Trials: manyPods, Concurrency: manyPods, Script: fmt.Sprintf(reporting, 100)})
	if err != nil {
		return err
	}
	p, err := c.bench.newPerennial()
	if err != nil {
		return err
	}
	if _, err := p.do("run", w.file(), "--detach"); err != nil {
		return err
	}
	if err := awaitStarts(w, manyPods, 5*time.Minute); err != nil {
		return err
	}
	used, before, err := p.usedFor(watched)
	if err != nil {
		return err
	}
	row(fmt.Sprintf("controller of %d trials that report every 5 s: share of a core, memory", manyPods),
		fmt.Sprintf("%s %%, %s MB", digits(100*used.Seconds()/watched.Seconds(), 1), digits(p.memory(), 0)), "5 %", before)
	_, err = p.do("stop")
	return errors.Join(err, p.stop())
}
