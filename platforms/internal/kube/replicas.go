package kube

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/trial"
)

// replica is a pod of a run that runs its command: which of them, over all roles. The
// first, 0, decides.
type replica struct {
	trial.Key
	ordinal int
}

// apart is how far the numbers of one replica's records are from those of the next:
// on record a number is there once for each attempt, and the first FINAL counts.
const apart = 1_000_000_000

// numbered returns a replica's records as they are on record.
func (r replica) numbered(records []metrics.Record) []metrics.Record {
	for i := range records {
		records[i].Number += int64(r.ordinal) * apart
	}
	return records
}

// replicas are all those of a run.
func (s Section) replicas(key trial.Key) (all []replica) {
	for _, role := range s.Roles {
		for range role.reporting() {
			all = append(all, replica{key, len(all)})
		}
	}
	return all
}

// reporting is how many pods of the role run the trial's command.
func (r Role) reporting() int {
	if r.Waits {
		return 0
	}
	return r.Replicas
}

// alone tells whether one pod is all that runs a trial.
func (s Section) alone() bool { return len(s.replicas(trial.Key{})) == 1 }

// verdict is what the roles' policies say of how replicas have ended. Controllers that
// delete pods say it themselves only once those that are held are gone.
func (s Section) verdict(pods []*podState) (over, succeeded bool) {
	over = true
	for _, role := range s.Roles {
		good, bad := 0, 0
		for _, pod := range pods[:role.reporting()] {
			switch {
			case pod == nil || !pod.told():
				over = false
			case pod.trial.terminated && pod.trial.code == 0:
				good++
			default:
				bad++
			}
		}
		pods = pods[role.reporting():]
		policy := role.policy()
		switch {
		case reached(policy["minFailedTaskCount"], bad):
			return true, false
		case reached(policy["minSucceededTaskCount"], good):
			return true, true
		}
	}
	return over, true
}

// reached tells whether a policy's count is; where there is none it never is.
func reached(wanted any, count int) bool {
	least, err := strconv.Atoi(fmt.Sprint(wanted))
	return err == nil && least > 0 && count >= least
}

// policy is when a role's pods end the whole: when one fails or all have succeeded,
// unless it says otherwise.
func (r Role) policy() object {
	if r.Policy != nil {
		return r.Policy
	}
	return object{"minFailedTaskCount": int64(1), "minSucceededTaskCount": int64(r.Replicas)}
}

// nameOf is what people call a replica: its role, if it has one, and its number in it.
func (s Section) nameOf(r replica) string {
	index := r.ordinal
	for _, role := range s.Roles {
		if index < role.reporting() {
			return strings.TrimPrefix(strings.ToLower(role.Name)+"-"+strconv.Itoa(index), "-")
		}
		index -= role.reporting()
	}
	return ""
}

// replicaNamed finds one; an empty name is the one that decides.
func (s Section) replicaNamed(name string, key trial.Key) (replica, error) {
	all := s.replicas(key)
	var names []string
	for _, each := range all {
		if name == "" || name == s.nameOf(each) {
			return each, nil
		}
		names = append(names, s.nameOf(each))
	}
	return replica{}, platforms.Errorf(platforms.NotFound, "logs", "there is no replica %q; there are %s", name, strings.Join(names, ", "))
}

// ownReplica is replicaOf for the runs of the section's experiment alone.
func (s *site) ownReplica(u *unstructured.Unstructured) (replica, bool) {
	which, ours := s.replicaOf(u)
	return which, ours && which.Experiment == s.platform.section.Experiment
}

// replicaOf is which replica of which run a pod is, false where it is none.
func (s *site) replicaOf(u *unstructured.Unstructured) (replica, bool) {
	key, ours := keyOf(u)
	if !ours {
		return replica{}, false
	}
	before := 0
	for _, role := range s.section.Roles {
		if role.Name == u.GetLabels()[roleLabel] {
			index, known := s.job.indexOf(u, role)
			return replica{key, before + index}, known && index < role.reporting()
		}
		before += role.reporting()
	}
	return replica{}, false
}

// indexOf is a pod's number in its role. Some kinds do not number one that is alone.
func (k jobKind) indexOf(u *unstructured.Unstructured, role Role) (index int, known bool) {
	for _, marks := range []map[string]string{u.GetLabels(), u.GetAnnotations()} {
		if written, marked := marks[k.index]; marked {
			index, err := strconv.Atoi(written)
			return index, err == nil
		}
	}
	return 0, role.Replicas == 1
}

// places are how far the journals of a run's replicas are on record: the number of
// the last record of each. As a cursor it is that of the first replica, then
// ORDINAL:NUMBER of each other one that has reported, with commas.
type places map[int]int64

func placesOf(cursor platforms.Cursor) places {
	found := places{}
	for _, part := range strings.Split(string(cursor), ",") {
		ordinal, number, others := strings.Cut(part, ":")
		if !others {
			ordinal, number = "0", part
		}
		which, _ := strconv.Atoi(ordinal)
		found[which], _ = strconv.ParseInt(number, 10, 64)
	}
	return found
}

func (p places) cursor() platforms.Cursor {
	var parts []string
	for _, ordinal := range slices.Sorted(maps.Keys(p)) {
		switch {
		case ordinal == 0:
			parts = append(parts, strconv.FormatInt(p[0], 10))
		case p[ordinal] > 0:
			parts = append(parts, fmt.Sprintf("%d:%d", ordinal, p[ordinal]))
		}
	}
	if len(parts) == 1 && parts[0] == "0" {
		return ""
	}
	return platforms.Cursor(strings.Join(parts, ","))
}
