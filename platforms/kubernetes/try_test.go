package kubernetes_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/kubernetes"
	"github.com/perennial-ml/perennial/testsuite/kube"
)

func try(t *testing.T, p platforms.Platform) platforms.HostState {
	t.Helper()
	states, err := p.(platforms.WithHosts).Try(t.Context())
	require.NoError(t, err)
	require.Len(t, states, 1)
	return states[0]
}

func TestAQueueIsRefusedForAKindThatKueueNeverHoldsBack(t *testing.T) {
	check := kubernetes.New(kubernetes.Options{}).Check
	for _, kind := range []string{"Framework", "AdaptDLJob", "MPIJob"} {
		require.ErrorContains(t, check(json.RawMessage(`{"image": "x", "queue": "q", "kind": "`+kind+`"}`)), "queue", kind)
	}
	for _, kind := range []string{"Job", "PyTorchJob", "TrainJob"} {
		require.NoError(t, check(json.RawMessage(`{"image": "x", "queue": "q", "kind": "`+kind+`"}`)), kind)
	}
}

func TestASectionIsRefusedForWhatTheClusterDoesNotHave(t *testing.T) {
	cluster := kube.Up(t)
	namespace := cluster.Namespace(t)
	for field, section := range map[string]struct {
		keys map[string]any
		says string
	}{
		"namespace":        {map[string]any{"namespace": "nowhere"}, `has no namespace "nowhere"`},
		"imagePullSecrets": {map[string]any{"imagePullSecrets": []any{"registry"}}, `has no secret "registry" in namespace ` + namespace},
		"serviceAccount":   {map[string]any{"serviceAccount": "trainer"}, `has no service account "trainer"`},
		"priorityClass":    {map[string]any{"priorityClass": "urgent"}, `has no priority class "urgent"`},
		"queue":            {map[string]any{"queue": "night"}, `has no queue of Kueue "night"`},
		"volumes[0]":       {map[string]any{"volumes": []any{map[string]any{"name": "data", "persistentVolumeClaim": map[string]any{"claimName": "data"}}}}, `has no persistent volume claim "data"`},
		"":                 {map[string]any{"volumes": []any{map[string]any{"name": "data", "nsf": map[string]any{"server": "a"}}}}, `unknown field "spec.template.spec.volumes[3].nsf"`},
	} {
		t.Run(field, func(t *testing.T) {
			faults := try(t, open(t, cluster, namespace, section.keys)).Faults
			require.Len(t, faults, 1)
			require.Equal(t, field, faults[0].Field)
			require.Contains(t, faults[0].Message, section.says)
		})
	}
}

func TestADoctorNamesEveryRightThatIsMissing(t *testing.T) {
	cluster := kube.Up(t)
	namespace := cluster.Namespace(t)
	for _, kind := range []string{"Job", "JobSet", "PyTorchJob", "TFJob", "Framework", "TrainJob"} {
		all := try(t, open(t, cluster, namespace, map[string]any{"kind": kind}))
		require.Empty(t, all.Problems, kind)
		require.Empty(t, all.Faults, kind)
		require.Contains(t, all.Text, "v1.36.3")
	}
	some := try(t, open(t, cluster, namespace, map[string]any{"kubeconfig": cluster.KubeconfigOf(t, "somebody")}))
	require.Len(t, some.Problems, 14)
	require.Contains(t, some.Problems[0].Text, "create jobs")
}

// apply makes the objects of a manifest.
func apply(t *testing.T, cluster *kube.Cluster, namespace, manifest string) (role kube.Object) {
	t.Helper()
	groups := map[string]string{"ServiceAccount": "/api/v1", "Role": "/apis/rbac.authorization.k8s.io/v1", "RoleBinding": "/apis/rbac.authorization.k8s.io/v1"}
	for _, document := range strings.Split(manifest, "---\n") {
		var object kube.Object
		require.NoError(t, yaml.Unmarshal([]byte(document), &object))
		kind := object["kind"].(string)
		cluster.Create(t, groups[kind]+"/namespaces/"+namespace+"/"+strings.ToLower(kind)+"s", object)
		if kind == "Role" {
			role = object
		}
	}
	return role
}

func TestTheRightsThatADoctorPrintsAreEnoughAndEachIsNeeded(t *testing.T) {
	cluster := kube.Up(t)
	namespace := cluster.Namespace(t)
	manifest, err := open(t, cluster, namespace, map[string]any{"replicas": 2}).(platforms.WithRights).Rights(t.Context())
	require.NoError(t, err)
	role := apply(t, cluster, namespace, manifest)
	p := open(t, cluster, namespace, map[string]any{"kubeconfig": cluster.Account(t, namespace, "perennial"), "replicas": 2})
	awaitTried(t, p, func(state platforms.HostState) bool { return len(state.Problems) == 0 })

	handle := submit(t, p, `echo "perennial: final 2"`)
	report := await(t, p, handle, func(r platforms.Report) bool { return r.Phase == platforms.Exited && !r.Pending })
	require.Len(t, report.Journal.Records, 2, "one of each replica")
	require.NoError(t, p.(platforms.WithForget).Forget(t.Context(), handle))
	require.NoError(t, p.(platforms.WithCleanup).CleanUp(t.Context()))

	for i, rule := range role["rules"].([]any) {
		for j, verb := range kube.Field(rule, "verbs").([]any) {
			less := without(t, role, i, j)
			_, err := cluster.API.Do(t.Context(), http.MethodPut, "/apis/rbac.authorization.k8s.io/v1/namespaces/"+namespace+"/roles/perennial", less)
			require.NoError(t, err)
			missing := verb.(string) + " " + kube.Field(rule, "resources", 0).(string) + " in namespace"
			awaitTried(t, p, func(state platforms.HostState) bool {
				return len(state.Problems) == 1 && state.Problems[0].Code == "right-missing" && strings.Contains(state.Problems[0].Text, missing)
			})
		}
	}
}

// without is a role without one verb of one rule.
func without(t *testing.T, role kube.Object, rule, verb int) (less kube.Object) {
	text, err := yaml.Marshal(role)
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &less))
	rules := less["rules"].([]any)
	at := rules[rule].(kube.Object)
	at["verbs"] = slices.Delete(at["verbs"].([]any), verb, verb+1)
	if len(at["verbs"].([]any)) == 0 {
		less["rules"] = slices.Delete(rules, rule, rule+1)
	}
	return less
}

// awaitTried waits until the API server's authorizer has heard of a role.
func awaitTried(t *testing.T, p platforms.Platform, holds func(platforms.HostState) bool) {
	t.Helper()
	var last platforms.HostState
	require.Eventually(t, func() bool { last = try(t, p); return holds(last) }, time.Minute, 20*time.Millisecond, "%+v", &last)
}
