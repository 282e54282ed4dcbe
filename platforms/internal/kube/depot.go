package kube

import (
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/trial"
)

const (
	// depotMount is where a pod finds the volume that packed code lies on.
	depotMount = "/perennial-depot"
	// depotContainer is that of the pods that write to it.
	depotContainer = "depot"
	// depotLasts is after how many seconds the cluster ends such a pod, whoever lives.
	depotLasts = 3600
	// depotPatience bounds one look for such a pod to begin: preparing is tried again, and
	// says meanwhile why it waits.
	depotPatience = 30 * time.Second
)

// Whether the code is there is asked first: a command that ends before it has read its
// input breaks the connection off. A volume that lost its power may have the name alone.
const lookForCode = `mkdir -p '%[1]s' && { [ ! -e '%[2]s' ] || [ "$(wc -c <'%[2]s')" -ne %[3]d ] || echo there; }`

// Whatever was cut off stays under a name that nobody reads; how much there is tells
// whether all came.
const depositCode = `set -e; f='%[1]s'; head -c %[2]d >"$f.$$"; [ "$(wc -c <"$f.$$")" -eq %[2]d ]; mv "$f.$$" "$f"`

// depot is the volume that the experiment's packed code lies on, empty where it is kept in
// the cluster's database.
func (s Section) depot(size int64) string {
	if s.Code.Volume != "" {
		return s.Code.Volume
	}
	if size > mostCode && hasPart(s.Roles[0].Pod.Mounts, storageVolume) {
		return storageVolume
	}
	return ""
}

// hasPart tells whether a list of a pod's parts has one of that name.
func hasPart(parts []any, name string) bool {
	return slices.ContainsFunc(parts, isNamed(name))
}

func isNamed(name string) func(part any) bool {
	return func(part any) bool { known, ok := part.(object); return ok && known["name"] == name }
}

// depotDirectory is where the code of an experiment lies on the volume, as a pod sees it.
func depotDirectory(experiment string) string { return path.Join(depotMount, "perennial", experiment) }

// deposit sees to it that an archive lies on the volume: a pod of ours takes it there.
func (s *site) deposit(ctx context.Context, volume, hash string, size int64) error {
	s.bringing.Lock()
	defer s.bringing.Unlock()
	if _, brought := s.brought.Load(hash); brought {
		return nil
	}
	archive, err := os.Open(s.platform.archives().Path(hash))
	if err != nil {
		return err
	}
	defer archive.Close()
	directory := depotDirectory(s.platform.section.Experiment)
	file := path.Join(directory, hash)
	err = s.atDepot(ctx, volume, func(pod string) error {
		found, err := s.run(ctx, pod, fmt.Sprintf(lookForCode, directory, file, size), nil)
		if err == nil && found == "" {
			_, err = s.run(ctx, pod, fmt.Sprintf(depositCode, file, size), archive)
		}
		return err
	})
	if err != nil {
		return err
	}
	s.brought.Store(hash, true)
	return nil
}

// emptyDepot removes what deposit brought.
func (s *site) emptyDepot(ctx context.Context) error {
	volume := s.section.depot(s.platform.largestArchive())
	if volume == "" {
		return nil
	}
	opened := false
	err := s.atDepot(ctx, volume, func(pod string) error {
		opened = true
		_, err := s.run(ctx, pod, fmt.Sprintf("rm -rf '%s'", depotDirectory(s.platform.section.Experiment)), nil)
		return err
	})
	if !opened { // where the namespace is gone, its claims are
		return ignoreNotFound(err)
	}
	return err
}

// largestArchive is the size of the largest that was packed for the experiment.
func (p *platform) largestArchive() (largest int64) {
	entries, _ := os.ReadDir(p.archives().Directory) // none where there is no directory
	for _, each := range entries {
		if info, err := each.Info(); err == nil {
			largest = max(largest, info.Size())
		}
	}
	return largest
}

// atDepot does something in a pod that has the volume, and takes the pod away.
func (s *site) atDepot(ctx context.Context, volume string, do func(pod string) error) error {
	if err := s.equip(ctx, trial.Key{Experiment: s.platform.section.Experiment}); err != nil {
		return err
	}
	name, err := s.openDepot(ctx, volume)
	if err != nil {
		return err
	}
	rundir.CrashPoint("submit.depot-before-code")
	if err := do(name); err != nil {
		return platforms.Errorf(codeOf(err), "prepare", "the code directory cannot be brought onto volume %s: %w", volume, err)
	}
	return s.closeDepot(ctx, name)
}

// openDepot returns the pod that has the volume, once it runs.
func (s *site) openDepot(ctx context.Context, volume string) (string, error) {
	made, err := s.depotPod(volume)
	if err != nil {
		return "", err
	}
	limited, cancel := context.WithTimeout(ctx, depotPatience)
	defer cancel()
	for why := "nobody has made it yet"; ; pause(limited, again) {
		if limited.Err() != nil {
			return "", platforms.Errorf(platforms.Transient, "prepare", "the pod that brings the code directory onto volume %s does not begin: %s", volume, why)
		}
		seen, err := s.depotSeen(limited, made)
		switch {
		case err != nil && limited.Err() == nil:
			return "", err
		case err != nil:
		case seen.deleting:
			why = words("an earlier one is not gone yet", seen.node)
		case seen.trial.running:
			return seen.name, nil
		case seen.over():
			err = s.closeDepot(limited, seen.name)
		default:
			why = seen.waiting.Text
		}
	}
}

// depotSeen is the pod as it is now, made if it is not there.
func (s *site) depotSeen(ctx context.Context, made *unstructured.Unstructured) (*podState, error) {
	client := s.cluster.dynamic.Resource(pods).Namespace(s.namespace)
	found, err := client.Get(ctx, made.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		found, err = client.Create(ctx, made, metav1.CreateOptions{FieldManager: fieldManager, FieldValidation: metav1.FieldValidationStrict})
	}
	if err != nil {
		return nil, err
	}
	return stateOf(found, depotContainer), nil
}

// closeDepot takes the pod away at once: it has nothing to say.
func (s *site) closeDepot(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return ignoreNotFound(s.cluster.dynamic.Resource(pods).Namespace(s.namespace).Delete(ctx, name, metav1.DeleteOptions{}))
}

// depotPod is a pod as the first role's would be, with one volume of theirs and nothing of
// what they run.
func (s *site) depotPod(volume string) (*unstructured.Unstructured, error) {
	pod, err := s.emptyPod(s.section.Roles[0].Pod)
	if err != nil {
		return nil, err
	}
	spec := pod["spec"].(object)
	delete(spec, "initContainers")
	spec["activeDeadlineSeconds"] = depotLasts
	all := spec["containers"].([]any)
	theirs := all[slices.IndexFunc(all, isNamed(s.job.container))].(object)
	container := object{
		"name": depotContainer, "image": theirs["image"], "command": []any{"sh", "-c", `trap "exit 0" TERM; while :; do sleep 1; done`},
		"volumeMounts": []any{mount(volume, depotMount)},
		"resources":    object{"requests": object{"cpu": "10m", "memory": "32Mi"}, "limits": object{"cpu": "1", "memory": "512Mi"}},
	}
	if security := theirs["securityContext"]; security != nil {
		container["securityContext"] = security
	}
	spec["containers"] = []any{container}
	spec["volumes"] = slices.DeleteFunc(spec["volumes"].([]any), func(each any) bool { return !isNamed(volume)(each) })
	pod["apiVersion"], pod["kind"] = "v1", "Pod"
	return plain(pod)
}

// emptyPod is a trial's pod around a trial's container in which nothing runs yet.
func (s *site) emptyPod(from Pod) (object, error) {
	experiment := s.platform.section.Experiment
	container := object{"name": s.job.container, "image": from.Image, "env": []any{}, "volumeMounts": []any{}}
	spec := object{"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": []any{container}, "volumes": slices.Clone(from.Volumes)}
	from.place(spec)
	name := "perennial-" + experiment + "-depot-" + s.platform.kind.Traits.Name
	pod := object{"metadata": object{"name": name, "labels": s.section.marks(experiment)}, "spec": spec}
	for _, finish := range from.finish {
		finish(trial.Key{Experiment: experiment}, pod)
	}
	return patched(pod, from.Patch)
}

// run runs a script in a pod, with an input, and returns the last of what it printed.
// Shells complain of much on their own, such as a locale, and that is no answer.
func (s *site) run(ctx context.Context, pod, script string, input io.Reader) (string, error) {
	request := s.cluster.raw.Post().AbsPath("/api/v1/namespaces", s.namespace, "pods", pod, "exec").
		Param("container", depotContainer).Param("stdin", fmt.Sprint(input != nil)).Param("stdout", "true").Param("stderr", "true")
	for _, word := range []string{"sh", "-c", script} {
		request = request.Param("command", word)
	}
	executor, err := executorOf(s.cluster.config, request)
	if err != nil {
		return "", err
	}
	var said, complaints tail
	err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: input, Stdout: &said, Stderr: &complaints})
	if err != nil && len(complaints) > 0 {
		err = fmt.Errorf("%w: %s", err, complaints)
	}
	return string(said), err
}

// executorOf speaks as new clusters want it, or as old ones do.
func executorOf(config *rest.Config, request *rest.Request) (remotecommand.Executor, error) {
	sockets, err := remotecommand.NewWebSocketExecutor(config, "GET", request.URL().String())
	if err != nil {
		return nil, err
	}
	streams, err := remotecommand.NewSPDYExecutor(config, "POST", request.URL())
	if err != nil {
		return nil, err
	}
	return remotecommand.NewFallbackExecutor(sockets, streams, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
}

// tail is the last of what was said by one.
type tail []byte

const longestTail = 512

func (t *tail) Write(data []byte) (int, error) {
	*t = append(*t, data...)
	*t = (*t)[max(0, len(*t)-longestTail):]
	return len(data), nil
}
