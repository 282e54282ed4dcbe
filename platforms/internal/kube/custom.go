package kube

import (
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/trial"
)

// CustomKind is what kind is called of which a section brings the manifest itself.
const CustomKind = "custom"

// Custom is a kind of object that the user knows and we do not: a manifest with places
// for pods in it, and how to tell from the object how far it is. Succeeded, Failed and
// Reason are expressions of CEL over the variable object, which is the object as the
// server has it. What an expression asks for and the object has not yet is false, or no
// reason.
type Custom struct {
	Manifest  map[string]any
	Resource  string         // as the server calls the kind in addresses; empty: the kind in small letters, with an s
	Pods      []CustomPods   // at least one; the first decides
	Container string         // of a trial, in its pods; empty: the template's name for it, or trial
	Succeeded string         // is it over, and well
	Failed    string         // is it over, and not well
	Reason    string         // a text: why it waits or failed; empty: nobody says
	Suspend   map[string]any // merged into spec, starts no pod; empty: its pods are held back by a gate
	Index     string         // label or annotation that numbers pods that are alike, from 0
}

// CustomPods are pods of a custom kind that are alike.
type CustomPods struct {
	Path     string // of their template in the manifest, such as spec.jobs[0].template
	Replicas int    // how many the kind makes of it
}

// neverGate is the scheduling gate of pods that are never to start.
const neverGate = "perennial.dev/never"

// OfCustom makes a section's kind and roles of a custom kind. pod is what the section
// says of all pods; what a template says itself stands.
func (s *Section) OfCustom(c Custom, pod Pod) platforms.OptionFaults {
	made, faults := c.kind()
	if len(faults) > 0 {
		return faults
	}
	s.Kind, s.custom = CustomKind, made
	for _, each := range c.Pods {
		role := Role{Name: c.roleName(each), Replicas: max(1, each.Replicas), Pod: pod}
		found, _ := at(c.Manifest, each.Path)
		theirs, _ := found.(object)
		if fault := role.within(theirs, each.Path); fault != nil {
			return platforms.OptionFaults{*fault}
		}
		s.Roles = append(s.Roles, role)
	}
	return nil
}

// roleName is what the pods of a path are called: nothing where there are no others.
func (c Custom) roleName(of CustomPods) string {
	if len(c.Pods) == 1 {
		return ""
	}
	return strings.Trim(strings.NewReplacer("spec.", "", ".template", "", ".", "-", "[", "-", "]", "").Replace(of.Path), "-")
}

// within puts the role's pods into a template of the user's, which may be nil.
func (r *Role) within(theirs object, path string) *platforms.OptionFault {
	theirs = runtime.DeepCopyJSON(theirs)
	if theirs == nil {
		theirs = object{}
	}
	spec, _ := theirs["spec"].(object)
	if spec == nil {
		spec = object{}
		theirs["spec"] = spec
	}
	if spec["containers"] == nil {
		spec["containers"] = []any{object{}}
	}
	containers, _ := spec["containers"].([]any)
	container, one := any(nil), len(containers) == 1
	if one {
		container, one = containers[0].(object)
	}
	if !one {
		return &platforms.OptionFault{Field: "custom.manifest", Message: path + ".spec.containers must be a list of one container",
			Hint: "the trial's; what runs beside it begins as an init container"}
	}
	r.Command = commandOf(container.(object))
	if image := text(container.(object), "image"); image != "" {
		r.Pod.Image = image
	}
	r.Pod.finish = append(r.Pod.finish, func(_ trial.Key, made object) { aroundWith(runtime.DeepCopyJSON(theirs), made) })
	return nil
}

// aroundWith is around, with what a template leaves to the section.
func aroundWith(theirs, made object) {
	ours := maps.Clone(made["spec"].(object))
	own := maps.Clone(ours["containers"].([]any)[0].(object))
	around(theirs, made)
	spec := made["spec"].(object)
	container := spec["containers"].([]any)[0].(object)
	for _, key := range []string{"image", "resources"} {
		if container[key] == nil {
			container[key] = own[key]
		}
	}
	for _, key := range []string{"nodeSelector", "tolerations", "priorityClassName", "subdomain"} {
		if spec[key] == nil && ours[key] != nil {
			spec[key] = ours[key]
		}
	}
}

// kind is the custom kind as all others are.
func (c Custom) kind() (*jobKind, platforms.OptionFaults) {
	var faults platforms.OptionFaults
	fault := func(field, message, hint string) {
		faults = append(faults, platforms.OptionFault{Field: "custom." + field, Message: message, Hint: hint})
	}
	version, err := schema.ParseGroupVersion(text(c.Manifest, "apiVersion"))
	kind := text(c.Manifest, "kind")
	if err != nil || version.Empty() || kind == "" {
		fault("manifest", "has no apiVersion and kind", "the object that a trial is, as kubectl takes it, without a name")
	}
	if _, ok := c.Manifest["spec"].(object); !ok {
		fault("manifest", "has no spec", "that is where its pods are")
	}
	if len(c.Pods) == 0 {
		fault("pods", "is missing", "where the templates of pods are in the manifest, such as spec.template")
	}
	for i, each := range c.Pods {
		if err := c.checkPods(each); err != nil {
			fault(fmt.Sprintf("pods[%d]", i), err.Error(), "such as spec.template or spec.jobs[0].template")
		}
	}
	judge, wrong := c.judge()
	faults = append(faults, wrong...)
	if len(faults) > 0 {
		return nil, faults
	}
	resource := c.Resource
	if resource == "" {
		resource = strings.ToLower(kind) + "s"
	}
	return &jobKind{
		resource: version.WithResource(resource), kind: kind, container: c.containerName(), index: c.Index, held: true,
		immutable: c.Suspend == nil, suspended: c.Suspend, around: runtime.DeepCopyJSON(c.Manifest),
		spec:      func(_ Section, templates []template) object { return c.spec(templates) },
		condition: judge.condition, bury: c.bury,
	}, nil
}

func (c Custom) checkPods(of CustomPods) error {
	if !strings.HasPrefix(of.Path, "spec.") {
		return fmt.Errorf("%q is no path below spec", of.Path)
	}
	if of.Replicas > 1 && c.Index == "" {
		return fmt.Errorf("makes %d pods, and nothing numbers them: name the label that does so in custom.index", of.Replicas)
	}
	found, err := at(c.Manifest, of.Path)
	if _, isObject := found.(object); err == nil && found != nil && !isObject {
		err = fmt.Errorf("%s of the manifest is no template of a pod", of.Path)
	}
	if err != nil {
		return err
	}
	return put(runtime.DeepCopyJSON(c.Manifest), of.Path, object{})
}

// containerName is what the template of the pods that decide calls its container.
func (c Custom) containerName() string {
	if c.Container != "" {
		return c.Container
	}
	found, _ := at(c.Manifest, c.Pods[0].Path+".spec.containers[0].name")
	if name, _ := found.(string); name != "" {
		return name
	}
	return "trial"
}

// spec is the manifest's, with pods of ours in the places for them.
func (c Custom) spec(templates []template) object {
	made := runtime.DeepCopyJSON(c.Manifest)
	for i, each := range templates {
		_ = put(made, c.Pods[i].Path, each.pod) // it was checked
	}
	return made["spec"].(object)
}

// bury has an object never start a pod.
func (c Custom) bury(made object) {
	if c.Suspend != nil {
		merge(made["spec"].(object), runtime.DeepCopyJSON(c.Suspend))
		return
	}
	for _, each := range c.Pods {
		found, _ := at(made, each.Path)
		pod, _ := found.(object)
		if spec, ok := pod["spec"].(object); ok {
			spec["schedulingGates"] = []any{object{"name": neverGate}}
		}
	}
}

// judge tells from an object how far it is.
type judge struct {
	succeeded, failed, reason cel.Program // nil: nobody says
	paths                     []CustomPods
	suspend                   object
}

func (c Custom) judge() (judge, platforms.OptionFaults) {
	j, faults := judge{paths: c.Pods, suspend: c.Suspend}, platforms.OptionFaults(nil)
	environment, err := cel.NewEnv(cel.Variable("object", cel.DynType), cel.OptionalTypes())
	if err != nil {
		return j, platforms.OptionFaults{{Field: "custom", Message: err.Error()}}
	}
	for _, each := range []struct {
		field, written string
		needed         bool
		program        *cel.Program
	}{{"succeeded", c.Succeeded, true, &j.succeeded}, {"failed", c.Failed, true, &j.failed}, {"reason", c.Reason, false, &j.reason}} {
		if each.written == "" && !each.needed {
			continue
		}
		if *each.program, err = compiled(environment, each.written); err != nil {
			faults = append(faults, platforms.OptionFault{Field: "custom." + each.field, Message: err.Error(),
				Hint: `an expression of CEL over object, such as object.status.conditions.exists(c, c.type == "Complete" && c.status == "True")`})
		}
	}
	return j, faults
}

// costLimit bounds what an expression may take: a poll waits for it.
const costLimit = 1_000_000

func compiled(environment *cel.Env, written string) (cel.Program, error) {
	if strings.TrimSpace(written) == "" {
		return nil, fmt.Errorf("is missing")
	}
	checked, issues := environment.Compile(written)
	if issues.Err() != nil {
		return nil, fmt.Errorf("%s", strings.TrimSpace(issues.String()))
	}
	return environment.Program(checked, cel.CostLimit(costLimit))
}

// said is what an expression says of an object, nil where that has not what it asks for.
func said(program cel.Program, u *unstructured.Unstructured) any {
	if program == nil {
		return nil
	}
	answer, _, err := program.Eval(map[string]any{"object": u.Object})
	if err != nil {
		return nil
	}
	return answer.Value()
}

func (j judge) condition(u *unstructured.Unstructured) condition {
	why, _ := said(j.reason, u).(string)
	switch {
	case said(j.succeeded, u) == true:
		return condition{over: true, succeeded: true}
	case said(j.failed, u) == true:
		return condition{over: true, reason: trial.Reason{Code: "job-failed", Text: words("its "+u.GetKind()+" failed", "", why)}}
	case j.suspended(u):
		return condition{suspended: true}
	case why != "":
		return condition{reason: trial.Reason{Code: "queued", Text: why}}
	}
	return condition{}
}

// suspended tells whether an object is one that starts no pod.
func (j judge) suspended(u *unstructured.Unstructured) bool {
	if j.suspend != nil {
		spec, _ := u.Object["spec"].(object)
		return holds(spec, j.suspend)
	}
	found, _ := at(u.Object, j.paths[0].Path+".spec.schedulingGates[0].name")
	return found == neverGate
}

// holds tells whether an object has all that another says.
func holds(has, says object) bool {
	for name, wanted := range says {
		inside, deeper := wanted.(object)
		there, _ := has[name].(object)
		switch {
		case deeper && !holds(there, inside):
			return false
		case !deeper && fmt.Sprint(has[name]) != fmt.Sprint(wanted):
			return false
		}
	}
	return true
}

// step is one name of a path, or one place in a list.
type step struct {
	name  string
	index int // -1: a name
}

// stepsOf takes a path such as spec.jobs[0].template apart.
func stepsOf(path string) (steps []step, err error) {
	for _, word := range strings.Split(path, ".") {
		name, rest, listed := strings.Cut(word, "[")
		if name == "" {
			return nil, fmt.Errorf("%q is no path", path)
		}
		steps = append(steps, step{name, -1})
		for listed {
			var number string
			number, rest, _ = strings.Cut(rest, "]")
			index, wrong := strconv.Atoi(number)
			if wrong != nil || index < 0 {
				return nil, fmt.Errorf("%q is no path", path)
			}
			steps = append(steps, step{"", index})
			rest, listed = strings.CutPrefix(rest, "[")
		}
	}
	return steps, nil
}

// at finds what stands at a path, nil where nothing does.
func at(root object, path string) (any, error) {
	steps, err := stepsOf(path)
	var found any = root
	for _, s := range steps {
		found = s.in(found)
	}
	return found, err
}

func (s step) in(value any) any {
	switch known := value.(type) {
	case object:
		if s.index < 0 {
			return known[s.name]
		}
	case []any:
		if s.index >= 0 && s.index < len(known) {
			return known[s.index]
		}
	}
	return nil
}

// put has a value stand at a path. Mappings on the way are made, lists are not.
func put(root object, path string, value any) error {
	steps, err := stepsOf(path)
	if err != nil {
		return err
	}
	var above any = root
	for i, s := range steps[:len(steps)-1] {
		next := s.in(above)
		if next == nil && s.index < 0 && steps[i+1].index < 0 {
			next = object{}
			if into, ok := above.(object); ok {
				into[s.name] = next
			}
		}
		above = next
	}
	last := steps[len(steps)-1]
	switch into := above.(type) {
	case object:
		if last.index < 0 {
			into[last.name] = value
			return nil
		}
	case []any:
		if last.index >= 0 && last.index < len(into) {
			into[last.index] = value
			return nil
		}
	}
	return fmt.Errorf("the manifest has no place %s", path)
}
