package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/runner/stream"
	"github.com/perennial-ml/perennial/trial"
)

// terminated is the exit code of what TERM ended before it began, and killed that of what
// KILL ended.
const (
	terminated = 143
	killed     = 137
)

// journalPatience is how long a Poll waits for the last lines of those that have
// just ended: so the usual end is told at once, and whole.
const journalPatience = 3 * time.Second

func (s *site) client() dynamic.ResourceInterface {
	return s.cluster.dynamic.Resource(s.job.resource).Namespace(s.namespace)
}

func (s *site) get(ctx context.Context, name string) (*unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return s.client().Get(ctx, name, metav1.GetOptions{})
}

// Poll implements platforms.Platform. It asks the API server for nothing that the
// watches have told, so it costs no call but for what is not there.
func (p *platform) Poll(ctx context.Context, questions []platforms.Question) ([]platforms.Report, error) {
	s, err := p.ready(ctx)
	if err != nil {
		return nil, Fault("poll", err)
	}
	reports := make([]platforms.Report, len(questions))
	patience, stop := context.WithTimeout(ctx, journalPatience)
	defer stop()
	for i, asked := range questions {
		if reports[i], err = s.report(ctx, patience, asked); err != nil {
			return nil, Fault("poll", err)
		}
	}
	return reports, nil
}

// ready returns the site once its boards show what there is.
func (p *platform) ready(ctx context.Context) (*site, error) {
	s, err := p.site(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := s.objects.ready(ctx); err != nil {
		return nil, err
	}
	return s, s.pods.ready(ctx)
}

// report waits for a journal that will soon be whole, as long as there is patience.
func (s *site) report(ctx, patience context.Context, asked platforms.Question) (platforms.Report, error) {
	key := asked.Handle.Key
	report := platforms.Report{Key: key}
	s.pin(asked.Handle)
	if s.section.alone() {
		s.awaitForetold(patience, key)
	}
	run, err := s.look(ctx, key)
	if err != nil {
		return report, err
	}
	if run.object == nil {
		report.Phase = platforms.Absent
		if asked.Handle.Data != nil {
			report.Phase, report.Reason = platforms.Lost, trial.Reason{Code: "deleted", Text: "somebody deleted it from the cluster"}
		}
		return report, nil
	}
	run.describe(&report)
	s.explain(ctx, &report, run)
	s.tellUnpulled(&report)
	if err := s.giveUpPull(ctx, key, run); err != nil {
		return report, err
	}
	s.learned(&report, asked.Handle, run)
	s.addJournals(patience, &report, asked, run)
	return report, nil
}

// explain says why a run waits, or pods beside the first replica's do not begin.
func (s *site) explain(ctx context.Context, report *platforms.Report, run sight) {
	begins := report.Phase == platforms.Waiting || report.Phase == platforms.Running && report.Reason.Zero()
	switch {
	case begins && !run.silent().Zero():
		report.Reason = run.silent()
	case begins && slices.Contains(run.pods, nil):
		report.Reason = s.whyNoPod(ctx, report.Key, run)
	case begins && (report.Reason.Zero() || report.Reason.Code == "starting"):
		report.Reason = cmp.Or(s.othersWait(report.Key, run), report.Reason)
	}
}

// silent names the node of a replica that has not been heard of; zero where all are.
func (s sight) silent() trial.Reason {
	for _, pod := range s.pods {
		if pod != nil && pod.trial.running && !pod.gone && !pod.silent.IsZero() {
			return trial.Reason{Code: "node-silent", Text: fmt.Sprintf("node %s has not been heard of since %s; what runs there may go on",
				pod.node, pod.silent.UTC().Format(time.DateTime+" MST"))}
		}
	}
	return trial.Reason{}
}

// othersWait says why pods beside the first replica's do not begin; zero where they do.
func (s *site) othersWait(key trial.Key, run sight) trial.Reason {
	for _, pod := range s.podsThere(key) {
		if run.pod != nil && pod.uid == run.pod.uid || pod.trial.began() || pod.over() || pod.deleting || pod.waiting.Code == "starting" || pod.waiting.Code == "scheduling" {
			continue
		}
		reason := pod.waiting
		reason.Text = words("its pod "+pod.name+" does not run", reason.Text)
		return reason
	}
	return trial.Reason{}
}

// podsThere are all pods of a run that there are, also those that only serve the others.
func (s *site) podsThere(key trial.Key) (all []*podState) {
	for _, u := range s.pods.of(key.String()) {
		all = append(all, stateOf(u, s.job.container))
	}
	return all
}

// learned adds what is known by now to the handle.
func (s *site) learned(report *platforms.Report, handle platforms.Handle, run sight) {
	var known handleData
	if run.pod == nil || run.pod.node == "" || json.Unmarshal(handle.Data, &known) != nil {
		return
	}
	others := map[int]types.UID{}
	for ordinal, pod := range run.begun[1:] {
		if pod != "" {
			others[ordinal+1] = pod
		}
	}
	if handle.Host == run.pod.node && known.Pod == run.begun[0] && maps.Equal(known.Pods, others) {
		return
	}
	known.Pod, known.Pods, handle.Host = run.begun[0], others, run.pod.node
	handle.Data, _ = json.Marshal(known)
	report.Handle = &handle
}

// pin takes from a handle in which pods its run began.
func (s *site) pin(handle platforms.Handle) {
	var known handleData
	if json.Unmarshal(handle.Data, &known) != nil {
		return
	}
	for _, which := range s.section.replicas(handle.Key) {
		if begun := known.begun(which.ordinal); begun != "" && s.recall(which).begun != begun {
			s.pinReplica(which, begun)
		}
	}
}

func (s *site) pinReplica(which replica, begun types.UID) {
	s.forgetJournal(which) // it may be that of another pod
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.memories[which] = &memory{begun: begun}
}

// addJournals adds what the run's replicas have reported.
func (s *site) addJournals(patience context.Context, report *platforms.Report, asked platforms.Question, run sight) {
	known, over := placesOf(asked.After), report.Phase == platforms.Exited
	report.Journal = &platforms.Journal{}
	lost := int64(0)
	for _, which := range s.section.replicas(report.Key) {
		pod := run.pods[which.ordinal]
		if pod == nil {
			continue
		}
		j := s.journalFrom(which, known[which.ordinal])
		switch {
		case over && pod.told():
			j.awaitComplete(patience)
		case over && !j.isComplete() && !pod.isBeingEnded(run, report.Ended):
			j = s.catchUp(patience, which, known[which.ordinal], pod)
		}
		report.Pending = report.Pending || over && !j.isComplete()
		lost += j.gaveUp()
		report.Journal.Records = append(report.Journal.Records, known.take(which, j)...)
	}
	report.Journal.Next = known.cursor()
	if over && lost > 0 && !report.Pending {
		report.Reason = trial.Reason{Code: "metrics-lost", Text: fmt.Sprintf("%d of its metrics are lost: the cluster dropped them before they were read", lost)}
	}
}

// isBeingEnded tells whether a replica goes on for its grace time only: what it reports
// meanwhile counts.
func (p *podState) isBeingEnded(run sight, ended time.Time) bool {
	return p.trial.running && (run.intent != nil || p.deleting) && time.Since(ended) < p.grace
}

// catchUp reads what a replica has reported that goes on although its run is over, as
// a parameter server does. Nothing that it says later counts. Where its log cannot be
// read just then, it is tried again.
func (s *site) catchUp(ctx context.Context, which replica, after int64, pod *podState) *journal {
	j := newJournal(which.Key, after)
	if pod.journal.began() && s.readOnce(ctx, j, pod) != nil {
		return j
	}
	s.forgetJournal(which)
	j.complete, j.stop = true, func() {}
	close(j.caughtUp)
	close(j.done)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.journals[which] = j
	return j
}

// take returns the records of a journal that follow the place of its replica, which
// is behind them then.
func (p places) take(which replica, j *journal) []metrics.Record {
	found := j.after(p[which.ordinal])
	if last := len(found); last > 0 {
		p[which.ordinal] = found[last-1].Number
	}
	return which.numbered(found)
}

// journalFrom returns a replica's journal, which has all that follows a number.
func (s *site) journalFrom(which replica, after int64) *journal {
	j := s.follow(which, 0)
	if j.remembers(after) {
		return j
	}
	s.forgetJournal(which)
	return s.follow(which, after)
}

// follow returns a replica's journal, begun if nobody did.
func (s *site) follow(which replica, after int64) *journal {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if known := s.journals[which]; known != nil {
		return known
	}
	j := newJournal(which.Key, after)
	ctx, stop := context.WithCancel(s.ctx)
	j.stop = stop
	s.journals[which] = j
	go func() {
		defer close(j.done)
		j.follow(ctx, s.cluster, s.namespace, func() *podState { return s.pod(which) })
		if ctx.Err() == nil && which.ordinal == 0 {
			s.platform.kind.ends.Tell(which.Key)
		}
	}()
	return j
}

func (s *site) forgetJournal(which replica) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if known := s.journals[which]; known != nil {
		known.stop()
		delete(s.journals, which)
	}
}

// pod is the state of a replica's pod, as it is or was last; nil where there is none.
// The one in which the command began counts, whatever came after it.
func (s *site) pod(which replica) *podState {
	known := s.recall(which)
	newest := s.newest(which, known.begun)
	if newest == nil {
		return known.last
	}
	state := stateOf(newest, s.job.container)
	s.foretell(which, state)
	return state
}

// awaitForetold waits for what the journal told before this process began: what another
// one has told of a run stays so.
func (s *site) awaitForetold(ctx context.Context, key trial.Key) {
	s.mutex.Lock()
	j := s.journals[replica{Key: key}]
	s.mutex.Unlock()
	if j != nil {
		j.awaitCaughtUp(ctx)
	}
}

// foretell has a pod tell its end as soon as its journal has: kubelets look at their
// containers once a second, and tell it later still.
func (s *site) foretell(which replica, pod *podState) {
	s.mutex.Lock()
	j := s.journals[which]
	s.mutex.Unlock()
	if j == nil || pod.told() || !s.section.alone() {
		return
	}
	if exit := j.exit(); exit != nil {
		pod.foretold, pod.trial.running, pod.trial.terminated = true, false, true
		pod.message = &stream.Message{Run: which.Key.String(), Exit: exit}
	}
}

// newest is the last pod of a replica, or the one of a UID.
func (s *site) newest(wanted replica, uid types.UID) (newest *unstructured.Unstructured) {
	for _, u := range s.pods.of(wanted.String()) {
		if which, _ := s.replicaOf(u); which != wanted || uid != "" && u.GetUID() != uid {
			continue
		}
		if newest == nil || newest.GetCreationTimestamp().Time.Before(u.GetCreationTimestamp().Time) {
			newest = u
		}
	}
	return newest
}

// sight is what there is of a run.
type sight struct {
	object    *unstructured.Unstructured // nil: nothing
	condition condition
	pods      []*podState // of the replicas; nil: none
	names     []string    // of the replicas
	pod       *podState   // of the first, which decides
	begun     []types.UID // of the pods in which the replicas' commands began; empty: none
	replaced  string      // the replica whose pod is gone, with another one in its place; empty: none
	intent    *trial.Intent
}

// widowed tells whether the pod is gone in which the first replica began.
func (s sight) widowed() bool { return s.begun[0] != "" && (s.pod == nil || s.pod.gone) }

// look finds a run: in what the watches told and, if they know nothing, by asking.
func (s *site) look(ctx context.Context, key trial.Key) (sight, error) {
	var seen sight
	if found := s.objects.of(key.String()); len(found) > 0 {
		seen.object = found[0]
	} else if asked, err := s.get(ctx, s.job.nameOf(key)); err == nil {
		seen.object = asked
	} else if !apierrors.IsNotFound(err) {
		return seen, err
	}
	if seen.object != nil {
		seen.condition = s.job.condition(seen.object)
		seen.intent = intentOf(seen.object)
		s.lookAtPods(&seen, key)
	}
	if seen.object != nil && seen.brokeOff(key) {
		return seen, s.lookAgain(ctx, &seen, key)
	}
	return seen, nil
}

// lookAgain asks how the pods are: the watch of objects may be ahead of that of pods,
// which then tells only later whose failure it was.
func (s *site) lookAgain(ctx context.Context, seen *sight, key trial.Key) error {
	own, err := s.podsOf(ctx, key)
	for i := range own {
		if which, runs := s.replicaOf(&own[i]); runs && own[i].GetUID() == seen.begun[which.ordinal] {
			seen.pods[which.ordinal] = stateOf(&own[i], s.job.container)
		}
	}
	seen.pod = seen.pods[0]
	return err
}

func (s *site) lookAtPods(seen *sight, key trial.Key) {
	for _, which := range s.section.replicas(key) {
		pod, begun, name := s.pod(which), s.recall(which).begun, s.section.nameOf(which)
		seen.pods, seen.begun, seen.names = append(seen.pods, pod), append(seen.begun, begun), append(seen.names, name)
		if begun != "" && (pod == nil || pod.gone && !pod.told()) && s.newest(which, "") != nil {
			seen.replaced = name
		}
	}
	seen.pod = seen.pods[0]
	if s.job.held && !seen.condition.over && !s.section.alone() {
		seen.condition.over, seen.condition.succeeded = s.section.verdict(seen.pods)
		seen.condition.reason = trial.Reason{Code: "job-failed", Text: "the cluster ended some of its replicas"}
	}
}

func intentOf(u *unstructured.Unstructured) *trial.Intent {
	noted := u.GetAnnotations()[intentAnnotation]
	if noted == "" {
		return nil
	}
	var intent trial.Intent
	if json.Unmarshal([]byte(noted), &intent) != nil {
		return nil
	}
	return &intent
}

// describe is the table of phases: what the pod says counts, then what the object
// says.
func (s sight) describe(report *platforms.Report) {
	pod := s.pod
	culprit := s.culprit(report.Key)
	switch {
	case culprit > 0:
		s.pod = s.pods[culprit]
		s.ended(report)
		s.blame(report, s.names[culprit])
	case s.brokeOff(report.Key):
		s.lost(report, s.broken())
	case s.replaced != "" && !s.condition.over:
		s.lost(report, trial.Reason{Code: "pod-deleted", Text: "somebody deleted " + s.podOf(s.replaced) + ", and the cluster made another one"})
	case pod != nil && pod.trial.over() && s.goesOn(report.Key):
		report.Phase, report.Started = platforms.Running, pod.trial.started
		report.Reason = trial.Reason{Code: "replicas", Text: "its first replica has ended, and others go on"}
	case pod != nil && pod.trial.over():
		s.ended(report)
	case pod != nil && pod.over(): // the kubelet, or whoever watches over it, gave it up
		s.lost(report, trial.Reason{Code: "pod-failed", Text: words("the cluster ended its pod", pod.fault)})
	case pod != nil && pod.trial.running && !pod.gone:
		report.Phase, report.Started, report.Intent = platforms.Running, pod.trial.started, s.intent
	case s.condition.over && s.condition.succeeded:
		report.Phase, report.Exit, report.Ended = platforms.Exited, &trial.Exit{}, s.condition.ended
		report.Reason = trial.Reason{Code: "metrics-lost", Text: "somebody deleted its pod before the last of what it reported was read"}
	case s.condition.over:
		s.lost(report, s.condition.reason)
	case s.condition.suspended && s.intent != nil:
		s.lost(report, trial.Reason{})
	case s.condition.suspended && s.widowed():
		s.lost(report, trial.Reason{Code: "evicted", Text: "the cluster suspended it and took its pod away"})
	case s.widowed():
		report.Phase, report.Intent = platforms.Running, s.intent
		report.Reason = trial.Reason{Code: "pod-deleted", Text: "its pod is gone, and the cluster has not said yet how it ended"}
	case pod != nil:
		report.Phase, report.Reason, report.Intent = platforms.Waiting, pod.waiting, s.intent
	default:
		report.Phase, report.Intent = platforms.Waiting, s.intent
	}
}

// culprit is the replica by whose failure a run failed as a whole: 0 where that was the
// first, or nobody.
func (s sight) culprit(key trial.Key) int {
	if s.intent != nil || !s.condition.over || s.condition.succeeded {
		return 0
	}
	worst := 0
	for i, pod := range s.pods {
		if pod.failed(key) && (!s.pods[worst].failed(key) || pod.trial.ended.Before(s.pods[worst].trial.ended)) {
			worst = i
		}
	}
	return worst
}

// blame names the replica that failed.
func (s sight) blame(report *platforms.Report, name string) {
	if report.Exit == nil {
		report.Reason.Text = words("its replica "+name+" failed", report.Reason.Text)
		return
	}
	exit := *report.Exit
	exit.Text = words("its replica "+name+" failed", exit.Text)
	report.Exit = &exit
}

// goesOn tells whether a run is not over although its first replica is.
func (s sight) goesOn(key trial.Key) bool {
	return len(s.pods) > 1 && !s.condition.over && s.intent == nil && !s.pod.failed(key)
}

// brokeOff tells whether a run of several failed as a whole, and none of them by itself:
// the cluster ended one.
func (s sight) brokeOff(key trial.Key) bool {
	failed := func(pod *podState) bool { return pod.failed(key) }
	return len(s.pods) > 1 && s.condition.over && !s.condition.succeeded && s.intent == nil && !slices.ContainsFunc(s.pods, failed)
}

// broken is why.
func (s sight) broken() trial.Reason {
	for i, pod := range s.pods {
		if pod != nil && pod.fault != "" {
			return trial.Reason{Code: "pod-failed", Text: words("the cluster ended "+s.podOf(s.names[i]), pod.fault)}
		}
	}
	return s.condition.reason
}

// podOf is what people call the pod of a replica.
func (s sight) podOf(name string) string {
	if len(s.pods) == 1 {
		return "its pod"
	}
	return "the pod of its replica " + name
}

// failed tells whether a command of a run failed by itself.
func (p *podState) failed(key trial.Key) bool {
	if p == nil || !p.trial.over() {
		return false
	}
	if p.trial.reason == outOfMemory {
		return true
	}
	message := p.message
	if message == nil || message.Run != key.String() || message.Exit == nil || message.Exit.Intent != nil {
		return false
	}
	return message.Exit.Exit.Code != 0 && !message.Exit.Exit.Outside
}

// outOfMemory is why a container ended that used more than it may.
const outOfMemory = "OOMKilled"

// lost is a run that is over without a word: ours, if we wanted that.
func (s sight) lost(report *platforms.Report, why trial.Reason) {
	if s.intent == nil {
		report.Phase, report.Reason = platforms.Lost, why
		return
	}
	report.Phase, report.Intent = platforms.Exited, s.intent
	report.Exit = &trial.Exit{Code: terminated, Signal: "SIGTERM", Text: "it was ended with its pod"}
	if s.pod == nil {
		report.Exit.Text = "it was ended before it began"
	}
}

// ended is a run whose container is over.
func (s sight) ended(report *platforms.Report) {
	container := s.pod.trial
	if message := s.pod.message; message != nil && message.Run == report.Key.String() && message.Exit != nil {
		exit := message.Exit
		report.Phase, report.Exit, report.Intent = platforms.Exited, &exit.Exit, exit.Intent
		report.Started, report.Ended = exit.Started, exit.Ended
		if report.Intent == nil && (exit.Exit.Outside || len(s.pods) > 1) {
			// The cluster carried it out before the runner read it; or others went on.
			report.Intent = s.intent
		}
		return
	}
	report.Started, report.Ended = container.started, container.ended
	if s.pod.fault != "" || s.intent != nil && container.reason != outOfMemory {
		s.lost(report, trial.Reason{Code: "pod-failed", Text: words("the cluster ended its pod", s.pod.fault)})
		return
	}
	// Its message is the first that a runner writes: without one the command never began.
	if (s.pod.message != nil || container.code == killed) && container.reason != outOfMemory {
		s.lost(report, trial.Reason{Code: "runner-died", Text: "its runner was killed in its container"})
		return
	}
	report.Phase = platforms.Exited
	report.Exit = &trial.Exit{Code: container.code, Text: words(container.reason, container.message)}
	if container.reason == outOfMemory {
		report.Exit.Signal, report.Exit.Text = "SIGKILL", "it used more memory than its pod may have (OOMKilled)"
	}
}

// Collect implements platforms.Platform: it reads the log anew.
func (p *platform) Collect(ctx context.Context, handle platforms.Handle, after platforms.Cursor) ([]metrics.Record, platforms.Cursor, error) {
	s, err := p.ready(ctx)
	if err != nil {
		return nil, after, Fault("collect", err)
	}
	known := placesOf(after)
	var records []metrics.Record
	for _, which := range s.section.replicas(handle.Key) {
		pod := s.pod(which)
		if pod == nil || !pod.journal.began() {
			continue
		}
		j := newJournal(handle.Key, known[which.ordinal])
		if err := s.readOnce(ctx, j, pod); err != nil {
			return nil, after, Fault("collect", err)
		}
		records = append(records, known.take(which, j)...)
	}
	return records, known.cursor(), nil
}

func (s *site) readOnce(ctx context.Context, j *journal, pod *podState) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	log, err := s.cluster.logs(ctx, s.namespace, pod.name, journalName, false)
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if err == nil {
		defer log.Close()
		err = j.read(log)
	}
	if pod.journal.over() && pod.told() && !j.isComplete() {
		j.finish(pod.message)
		err = nil
	}
	return err
}
