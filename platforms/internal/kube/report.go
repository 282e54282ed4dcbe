package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/trial"
)

// terminated is the exit code of what TERM ended before it began.
const terminated = 143

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
	if report.Phase == platforms.Waiting && run.pod == nil {
		report.Reason = s.whyNoPod(ctx, key, run)
	}
	s.tellUnpulled(&report)
	if err := s.giveUpPull(ctx, key, run); err != nil {
		return report, err
	}
	s.learned(&report, asked.Handle, run)
	return report, s.addJournal(patience, &report, asked, run)
}

// learned adds what is known by now to the handle.
func (s *site) learned(report *platforms.Report, handle platforms.Handle, run sight) {
	var known handleData
	if run.pod == nil || run.pod.node == "" || json.Unmarshal(handle.Data, &known) != nil {
		return
	}
	if handle.Host == run.pod.node && known.Pod == run.begun {
		return
	}
	known.Pod, handle.Host = run.begun, run.pod.node
	handle.Data, _ = json.Marshal(known)
	report.Handle = &handle
}

// pin takes from a handle in which pod its run began.
func (s *site) pin(handle platforms.Handle) {
	var known handleData
	if json.Unmarshal(handle.Data, &known) != nil || known.Pod == "" || s.recall(handle.Key).begun == known.Pod {
		return
	}
	s.forgetJournal(handle.Key) // it may be that of another pod
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.memories[handle.Key] = &memory{begun: known.Pod}
}

// addJournal adds what the run has reported.
func (s *site) addJournal(patience context.Context, report *platforms.Report, asked platforms.Question, run sight) error {
	report.Journal = &platforms.Journal{Next: asked.After}
	if run.pod == nil {
		return nil
	}
	j := s.journalFrom(report.Key, asked.After)
	if report.Phase == platforms.Exited {
		j.awaitComplete(patience)
	}
	found := j.after(asked.After)
	report.Journal = &found
	if report.Phase == platforms.Exited {
		report.Pending = !j.isComplete()
		if j.lost > 0 && !report.Pending {
			report.Reason = trial.Reason{Code: "metrics-lost", Text: fmt.Sprintf("%d of its metrics are lost: the cluster dropped them before they were read", j.lost)}
		}
	}
	return nil
}

// journalFrom returns the run's journal, which has all that follows a cursor.
func (s *site) journalFrom(key trial.Key, after platforms.Cursor) *journal {
	j := s.follow(key, 0)
	if j.remembers(after) {
		return j
	}
	s.forgetJournal(key)
	return s.follow(key, numberOf(after))
}

// follow returns the run's journal, begun if nobody did.
func (s *site) follow(key trial.Key, after int64) *journal {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if known := s.journals[key]; known != nil {
		return known
	}
	j := newJournal(key, after)
	ctx, stop := context.WithCancel(s.ctx)
	j.stop = stop
	s.journals[key] = j
	go func() {
		defer close(j.done)
		j.follow(ctx, s.cluster, s.namespace, func() *podState { return s.pod(key) })
		if ctx.Err() == nil {
			s.platform.kind.ends.Tell(key)
		}
	}()
	return j
}

func (s *site) forgetJournal(key trial.Key) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if known := s.journals[key]; known != nil {
		known.stop()
		delete(s.journals, key)
	}
}

// pod is the state of the pod that decides, as it is or was last; nil where there is
// none. The one in which the command began counts, whatever came after it.
func (s *site) pod(key trial.Key) *podState {
	known := s.recall(key)
	newest := s.newest(key, known.begun)
	if newest == nil {
		return known.last
	}
	return stateOf(newest, s.job.container)
}

// newest is the last pod that decides, or the one of a UID.
func (s *site) newest(key trial.Key, wanted types.UID) (newest *unstructured.Unstructured) {
	for _, u := range s.pods.of(key.String()) {
		if !s.decides(u) || wanted != "" && u.GetUID() != wanted {
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
	pod       *podState // nil: none
	begun     types.UID // of the pod in which its command began; empty: none
	replaced  bool      // that pod is gone, and there is another one
	intent    *trial.Intent
}

// widowed tells whether the pod is gone in which the command began.
func (s sight) widowed() bool { return s.begun != "" && (s.pod == nil || s.pod.gone) }

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
		seen.pod, seen.begun = s.pod(key), s.recall(key).begun
		seen.replaced = seen.widowed() && s.newest(key, "") != nil
	}
	return seen, nil
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
	switch {
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
	case s.replaced:
		s.lost(report, trial.Reason{Code: "pod-deleted", Text: "somebody deleted its pod, and the cluster made another one"})
	case s.condition.suspended && s.intent != nil:
		s.lost(report, trial.Reason{})
	case s.widowed():
		report.Phase, report.Intent = platforms.Running, s.intent
		report.Reason = trial.Reason{Code: "pod-deleted", Text: "its pod is gone, and the cluster has not said yet how it ended"}
	case pod != nil:
		report.Phase, report.Reason, report.Intent = platforms.Waiting, pod.waiting, s.intent
	default:
		report.Phase, report.Intent = platforms.Waiting, s.intent
	}
}

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
		if exit.Exit.Outside && report.Intent == nil {
			report.Intent = s.intent // the cluster carried it out before the runner read it
		}
		return
	}
	report.Started, report.Ended = container.started, container.ended
	if s.pod.fault != "" || s.intent != nil && container.reason != "OOMKilled" {
		s.lost(report, trial.Reason{Code: "pod-failed", Text: words("the cluster ended its pod", s.pod.fault)})
		return
	}
	if s.pod.message != nil && container.reason != "OOMKilled" {
		s.lost(report, trial.Reason{Code: "runner-died", Text: "its runner was killed in its container"})
		return
	}
	report.Phase = platforms.Exited
	report.Exit = &trial.Exit{Code: container.code, Text: words(container.reason, container.message)}
	if container.reason == "OOMKilled" {
		report.Exit.Signal, report.Exit.Text = "SIGKILL", "it used more memory than its pod may have (OOMKilled)"
	}
}

// Collect implements platforms.Platform: it reads the log anew.
func (p *platform) Collect(ctx context.Context, handle platforms.Handle, after platforms.Cursor) ([]metrics.Record, platforms.Cursor, error) {
	s, err := p.ready(ctx)
	if err != nil {
		return nil, after, Fault("collect", err)
	}
	pod := s.pod(handle.Key)
	if pod == nil || !pod.journal.began() {
		return nil, after, nil
	}
	j := newJournal(handle.Key, numberOf(after))
	if err := s.readOnce(ctx, j, pod); err != nil {
		return nil, after, Fault("collect", err)
	}
	found := j.after(after)
	return found.Records, found.Next, nil
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
