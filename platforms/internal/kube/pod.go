package kube

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/runner/stream"
	"github.com/perennial-ml/perennial/trial"
)

const (
	// home is a volume that a pod's containers share.
	home = "/perennial"
	// filesDirectory has the pieces of the runner and of the code.
	filesDirectory  = "/perennial-files"
	intentDirectory = "/perennial-intent"
	journalName     = "perennial-journal"
	// longestVariable is what Linux takes of one variable, less what stands around.
	longestVariable = 120 << 10
	// farewell is what a pod gets beyond the trial's own grace, to tell its end.
	farewell = 10 * time.Second
)

// Only sh, cat and chmod are asked of an image. What goes wrong before the runner is
// there must end the second container too.
const enter = `cat %[1]s/runner/* >%[2]s/new && chmod 755 %[2]s/new && mv %[2]s/new %[2]s/runner || { : >%[2]s/failed; exit 126; }
`

// What a pod does that is the runner's, and one that only waits for orders.
const (
	run   = home + "/runner container " + home + "/run"
	await = `sh -c 'trap "exit 0" TERM; while :; do sleep 1; done'`
)

const unpack = `%[1]s/runner unpack %[1]s/code %[2]s %[3]s && cd %[1]s/code || { : >%[1]s/failed; exit 126; }
`

const change = `cd '%[2]s' || { : >%[1]s/failed; exit 126; }
`

const watchJournal = `until [ -e %[1]s/run/claim ] || [ -e %[1]s/failed ]; do sleep 0.1 || sleep 1; done
[ -e %[1]s/failed ] || exec %[1]s/runner journal %[1]s/run`

// template returns the pods of a role for a job.
func (r Role) template(kind jobKind, s Section, job platforms.Job, stock stock) (template, error) {
	told, err := r.told(s, job)
	if err != nil {
		return template{}, err
	}
	marks := s.labels(job.Key)
	if r.Name != "" {
		marks[roleLabel] = r.Name
	}
	containers := []any{r.trialContainer(kind, s, job, stock, told), r.journalContainer()}
	if r.Waits {
		containers = containers[:1]
	}
	spec := object{
		"restartPolicy":                 "Never",
		"terminationGracePeriodSeconds": int64(math.Ceil((job.Grace + farewell).Seconds())),
		"containers":                    containers,
		"volumes":                       append(volumes(stock), r.Pod.Volumes...),
	}
	if bringers := s.bringers(r); bringers != nil {
		spec["initContainers"] = bringers
	}
	r.Pod.place(spec)
	about := object{"labels": marks}
	if kind.held {
		about["finalizers"] = []any{holdFinalizer}
	}
	pod := object{"metadata": about, "spec": spec}
	if s.meets() {
		s.join(job.Key, spec)
	}
	for _, finish := range r.Pod.finish {
		finish(job.Key, pod)
	}
	pod, err = patched(pod, r.Pod.Patch)
	return template{r, kind.nameOf(job.Key), pod}, err
}

// told is the runner's job, as the value of a variable.
func (r Role) told(s Section, job platforms.Job) (string, error) {
	spec := rundir.Spec{Key: job.Key, Command: cmp.Or(r.Command, job.Command), NNIPlatform: s.NNIPlatform, MaxDuration: job.MaxDuration,
		Grace: job.Grace, LogLimit: job.LogLimit, TrialModule: job.TrialModule}
	if gpus := r.gpus(job); gpus != nil && *gpus == 0 {
		spec.GPUs = gpus // the cluster hides and gives the others
	}
	told := stream.Job{Spec: spec, Parameter: job.Parameter, Parameters: json.RawMessage(job.Parameters),
		JournalElsewhere: true, IntentFile: intentDirectory + "/intent"}
	text, err := told.Encode()
	if err == nil && len(text) > longestVariable {
		err = platforms.Errorf(platforms.Invalid, "submit", "command and parameters take %d bytes, and %d fit into a pod: put what is large into the code directory", len(text), longestVariable)
	}
	return string(text), err
}

func (r Role) gpus(job platforms.Job) *int {
	if r.Pod.GPUs != nil {
		return r.Pod.GPUs
	}
	return job.GPUs
}

func (r Role) trialContainer(kind jobKind, s Section, job platforms.Job, stock stock, told string) object {
	mounts := []any{mount("perennial-home", home), mount("perennial-files", filesDirectory), mount("perennial-intent", intentDirectory)}
	if stock.volume != "" {
		mounts = append(mounts, object{"name": stock.volume, "mountPath": depotMount, "readOnly": true})
	}
	return object{
		"name": kind.container, "image": r.Pod.Image,
		"command":      []any{"sh", "-c", r.script(s, job, stock)},
		"env":          []any{object{"name": stream.JobVariable, "value": told}},
		"resources":    r.resources(job),
		"volumeMounts": append(mounts, r.Pod.Mounts...),
	}
}

// script has the runner and the code be there, and begins.
func (r Role) script(s Section, job platforms.Job, stock stock) (script string) {
	if s.RunnerImage == "" {
		script = fmt.Sprintf(enter, filesDirectory, home)
	}
	if directory := job.Workspace.Directory; directory != "" {
		script += fmt.Sprintf(change, home, quoted(directory))
	} else if stock.volume != "" {
		script += fmt.Sprintf(unpack, home, job.Workspace.Hash, "'"+stock.archive+"'")
	} else if stock.code.parts > 0 {
		script += fmt.Sprintf(unpack, home, job.Workspace.Hash, filesDirectory+"/code/*")
	}
	if r.Waits {
		return script + "exec " + await
	}
	return script + "exec " + run
}

// journalContainer prints the journal alone, so that no chatter of the trial has the
// kubelet drop a metric. It is an ordinary container: some operators know no others.
func (r Role) journalContainer() object {
	return object{
		"name": journalName, "image": r.Pod.Image,
		"command":      []any{"sh", "-c", fmt.Sprintf(watchJournal, home)},
		"resources":    object{"requests": object{"cpu": "10m", "memory": "32Mi"}, "limits": object{"cpu": "500m", "memory": "128Mi"}},
		"volumeMounts": []any{mount("perennial-home", home)},
	}
}

func mount(volume, path string) object { return object{"name": volume, "mountPath": path} }

func (r Role) resources(job platforms.Job) object {
	wanted := object{}
	for name, amount := range map[string]string{"cpu": r.Pod.CPU, "memory": r.Pod.Memory} {
		if amount != "" {
			wanted[name] = amount
		}
	}
	if gpus := r.gpus(job); gpus != nil && *gpus > 0 {
		wanted[cmp.Or(r.Pod.GPUResource, usualGPU)] = fmt.Sprint(*gpus)
	}
	return object{"requests": wanted, "limits": maps.Clone(wanted)}
}

func volumes(stock stock) []any {
	intent := object{"path": "intent", "fieldRef": object{"fieldPath": "metadata.annotations['" + intentAnnotation + "']"}}
	files := object{"name": "perennial-files", "emptyDir": object{}}
	if sources := append(stock.runner.sources("runner"), stock.code.sources("code")...); sources != nil {
		files = object{"name": "perennial-files", "projected": object{"sources": sources}}
	}
	return []any{
		object{"name": "perennial-home", "emptyDir": object{}},
		files,
		object{"name": "perennial-intent", "downwardAPI": object{"items": []any{intent}}},
	}
}

// place says where pods run and as whom.
func (p Pod) place(spec object) {
	for name, value := range map[string]string{"serviceAccountName": p.ServiceAccount, "priorityClassName": p.PriorityClass} {
		if value != "" {
			spec[name] = value
		}
	}
	var secrets []any
	for _, name := range p.ImagePullSecrets {
		secrets = append(secrets, object{"name": name})
	}
	selector := object{}
	for name, value := range p.NodeSelector {
		selector[name] = value
	}
	for name, list := range map[string][]any{"imagePullSecrets": secrets, "tolerations": p.Tolerations} {
		if list != nil {
			spec[name] = list
		}
	}
	spec["nodeSelector"] = selector
}

// templates are those of all roles.
func (k jobKind) templates(s Section, job platforms.Job, stock stock) (templates []template, err error) {
	for _, role := range s.Roles {
		made, err := role.template(k, s, job, stock)
		if err != nil {
			return nil, err
		}
		templates = append(templates, made)
	}
	return templates, nil
}

// manifest is the whole object of a job.
func (k jobKind) manifest(s Section, job platforms.Job, stock stock) (*unstructured.Unstructured, error) {
	templates, err := k.templates(s, job, stock)
	if err != nil {
		return nil, err
	}
	marks := s.labels(job.Key)
	if s.Queue != "" {
		marks[queueLabel] = s.Queue
	}
	about := object{"name": k.nameOf(job.Key), "labels": marks}
	if job.LogLimit > 0 {
		about["annotations"] = object{limitAnnotation: fmt.Sprint(job.LogLimit)}
	}
	if theirs, ok := k.around["metadata"].(object); ok {
		mergeLabels(about, theirs)
	}
	return plain(object{"apiVersion": k.apiVersion(), "kind": k.kind, "metadata": about, "spec": k.spec(s, templates)})
}

// plain is an object as one that was read would be.
func plain(made object) (*unstructured.Unstructured, error) {
	content, err := json.Marshal(made)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{}
	return u, u.UnmarshalJSON(content)
}

// tombstone is an object that keeps a run from ever starting.
func (k jobKind) tombstone(s Section, key trial.Key, intent string) (*unstructured.Unstructured, error) {
	u, err := k.manifest(s, platforms.Job{Key: key}, stock{})
	if err != nil {
		return nil, err
	}
	u.SetAnnotations(map[string]string{intentAnnotation: intent})
	if s.Queue != "" {
		marks := u.GetLabels()
		marks[queueLabel] = noQueue
		u.SetLabels(marks)
	}
	if k.bury != nil {
		k.bury(u.Object)
		return u, nil
	}
	merge(u.Object["spec"].(object), k.suspended)
	return u, nil
}

// merge puts what is in from into an object, at every depth.
func merge(into, from object) {
	for name, value := range from {
		inside, deeper := value.(object)
		there, exists := into[name].(object)
		if deeper && exists {
			merge(there, inside)
			continue
		}
		into[name] = value
	}
}
