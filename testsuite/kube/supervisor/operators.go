package supervisor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/perennial-ml/perennial/testsuite/kube"
)

// operator is one controller of custom resources.
type operator struct {
	name      string
	port      int // where its webhooks are
	webhooks  string
	arguments []string
	// ofOthers are the resources of others that its webhooks are kept from, but for objects
	// that carry a label; hooks on what is neither there nor its own are left out.
	ofOthers []string
	label    string
}

// operators are those whose manifests lie below the tools, in a directory of the
// name each.
var operators = []operator{
	{name: "training-operator", port: 9443, webhooks: "validator.training-operator.kubeflow.org",
		arguments: []string{"--metrics-bind-address=0", "--health-probe-bind-address=127.0.0.1:9081", "--webhook-server-port=9443",
			// Any image that ends at once: nobody brings Kubeflow's own here, and nobody needs the kubectl in it.
			"--mpi-kubectl-delivery-image=" + kube.ShellImage,
			"--pytorch-init-container-image=" + kube.ShellImage, "--pytorch-init-container-template-file=" + waitsForMaster}},
	{name: "trainer", port: 9444, webhooks: "trainer", arguments: []string{"--config=trainer.yaml"}},
	{name: "jobset", port: 9445, webhooks: "jobset", arguments: []string{"--config=jobset.yaml"}},
	{name: "frameworkcontroller"},
}

// kueue is started when somebody asks for it: nothing else here needs it.
var kueue = operator{name: "kueue", port: 9446, webhooks: "kueue", arguments: []string{"--config=kueue.yaml", "--feature-gates=VisibilityOnDemand=false"},
	ofOthers: []string{"jobs", "pytorchjobs"}, label: "kueue.x-k8s.io/queue-name"}

// Certificates are in the default place of all that have any.
const servingDirectory = "/tmp/k8s-webhook-server/serving-certs"

// waitsForMaster is a template of what workers begin with: the operator's own, but for the
// nslookup, which in this busybox fails where one of several suffixes is not known.
const waitsForMaster = "pytorch-init.yaml"

var operatorConfigs = map[string]string{
	waitsForMaster: `- name: init-pytorch
  image: {{.InitContainerImage}}
  command: [sh, -c, "for i in $(seq 100); do ping -c 1 -W 1 {{.MasterAddr}} && exit 0; sleep 0.5; done; exit 1"]
`,
	"trainer.yaml": `apiVersion: config.trainer.kubeflow.org/v1alpha1
kind: Configuration
health: {healthProbeBindAddress: "127.0.0.1:9082"}
metrics: {bindAddress: "0"}
webhook: {host: 127.0.0.1, port: 9444}
leaderElection: {leaderElect: false}
certManagement: {enable: false}
clientConnection: {qps: 50, burst: 100}
`,
	"jobset.yaml": `apiVersion: config.jobset.x-k8s.io/v1alpha1
kind: Configuration
health: {healthProbeBindAddress: "127.0.0.1:9083"}
metrics: {bindAddress: "0"}
webhook: {host: 127.0.0.1, port: 9445}
leaderElection: {leaderElect: false}
internalCertManagement: {enable: false}
clientConnection: {qps: 50, burst: 100}
`,
	"kueue.yaml": `apiVersion: config.kueue.x-k8s.io/v1beta1
kind: Configuration
health: {healthProbeBindAddress: "127.0.0.1:9084"}
metrics: {bindAddress: "0"}
webhook: {host: 127.0.0.1, port: 9446}
leaderElection: {leaderElect: false}
internalCertManagement: {enable: false}
clientConnection: {qps: 50, burst: 100}
integrations: {frameworks: [batch/job, kubeflow.org/pytorchjob]}
`,
}

// kinds are the collections of what the operators' manifests hold.
var kinds = map[string]string{
	"CustomResourceDefinition":       "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/",
	"ValidatingWebhookConfiguration": "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/",
	"MutatingWebhookConfiguration":   "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/",
}

func (s *Supervisor) startOperators(ctx context.Context) error {
	keys, err := servingKeys()
	if err != nil {
		return err
	}
	if err := errors.Join(s.writeServing(keys), s.applySecret(ctx, keys)); err != nil {
		return err
	}
	for _, o := range operators[:3] { // FrameworkController makes its definition itself
		if err := s.applyManifests(ctx, o, keys["ca.crt"]); err != nil {
			return fmt.Errorf("%s: %w", o.name, err)
		}
	}
	return s.runOperators(ctx)
}

func (s *Supervisor) writeServing(keys map[string][]byte) (failed error) {
	failed = os.MkdirAll(servingDirectory, 0o755)
	for name, content := range keys {
		failed = errors.Join(failed, os.WriteFile(filepath.Join(servingDirectory, name), content, 0o600))
	}
	for name, content := range operatorConfigs {
		failed = errors.Join(failed, os.WriteFile(s.path(name), []byte(content), 0o600))
	}
	return failed
}

// applySecret puts the keys where the training-operator's rotation looks for them.
func (s *Supervisor) applySecret(ctx context.Context, keys map[string][]byte) error {
	namespace := kube.Object{"apiVersion": "v1", "kind": "Namespace", "metadata": kube.Object{"name": "kubeflow"}}
	secret := kube.Object{"apiVersion": "v1", "kind": "Secret", "metadata": kube.Object{"name": "training-operator-webhook-cert"}, "data": keys}
	if err := s.api.Apply(ctx, "/api/v1/namespaces/kubeflow", namespace); err != nil {
		return err
	}
	return s.api.Apply(ctx, "/api/v1/namespaces/kubeflow/secrets/training-operator-webhook-cert", secret)
}

func (s *Supervisor) applyManifests(ctx context.Context, o operator, authority []byte) error {
	files, err := filepath.Glob(filepath.Join(s.tools, "manifests", o.name, "*.yaml"))
	if err != nil {
		return err
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := s.applyFile(ctx, o, content, authority); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

func (s *Supervisor) applyFile(ctx context.Context, o operator, content, authority []byte) error {
	for documents := yaml.NewDecoder(bytes.NewReader(content)); ; {
		var object kube.Object
		if err := documents.Decode(&object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if hooks, ok := object["webhooks"].([]any); ok {
			hooks = o.restrict(hooks)
			object["webhooks"] = hooks
			redirect(hooks, o.port, authority)
			object["metadata"].(kube.Object)["name"] = o.webhooks
		}
		kind, name := object["kind"].(string), kube.Field(object, "metadata", "name").(string)
		if err := s.api.Apply(ctx, kinds[kind]+name, object); err != nil {
			return err
		}
		if kind == "CustomResourceDefinition" {
			if err := s.established(ctx, kinds[kind]+name); err != nil {
				return err
			}
		}
	}
}

// restrict leaves the webhooks that the laboratory has a use for, and holds those on
// resources of others to the objects that carry the operator's label.
func (o operator) restrict(hooks []any) []any {
	if o.label == "" {
		return hooks
	}
	return slices.DeleteFunc(hooks, func(hook any) bool {
		rule := kube.Field(hook, "rules", 0)
		if strings.HasPrefix(o.label, kube.Field(rule, "apiGroups", 0).(string)+"/") {
			return false
		}
		hook.(kube.Object)["objectSelector"] = kube.Object{"matchExpressions": []any{kube.Object{"key": o.label, "operator": "Exists"}}}
		return !slices.Contains(o.ofOthers, kube.Field(rule, "resources", 0).(string))
	})
}

// redirect lets webhooks be called on this machine instead of in a pod. Those for
// pods are held to JobSet's own, as its kustomization does.
func redirect(hooks []any, port int, authority []byte) {
	for _, hook := range hooks {
		client := kube.Field(hook, "clientConfig").(kube.Object)
		client["url"] = fmt.Sprintf("https://127.0.0.1:%d%s", port, kube.Field(client, "service", "path"))
		client["caBundle"] = authority
		delete(client, "service")
		if kube.Field(hook, "rules", 0, "resources", 0) == "pods" {
			hook.(kube.Object)["objectSelector"] = kube.Object{"matchExpressions": []any{kube.Object{"key": "jobset.sigs.k8s.io/jobset-name", "operator": "Exists"}}}
		}
	}
}

// established waits until objects of a definition can be made: an operator that
// starts before gives up.
func (s *Supervisor) established(ctx context.Context, path string) error {
	return await(ctx, path, func() error {
		definition, err := s.api.Get(ctx, path)
		if err == nil && !kube.Condition(definition, "Established") {
			err = errors.New("not established")
		}
		return err
	})
}

// Kueue brings Kueue up, whose definitions come with it. Asked again it does nothing.
func (s *Supervisor) Kueue(ctx context.Context) error {
	s.asked.Lock()
	defer s.asked.Unlock()
	if s.there(kueue.name) != nil {
		return kueue.answers(ctx)
	}
	authority, err := os.ReadFile(filepath.Join(servingDirectory, "ca.crt"))
	if err != nil {
		return err
	}
	namespace := kube.Object{"apiVersion": "v1", "kind": "Namespace", "metadata": kube.Object{"name": "kueue-system"}}
	if err := s.api.Apply(ctx, "/api/v1/namespaces/kueue-system", namespace); err != nil {
		return err
	}
	// Its webhooks refuse what it makes before it listens.
	if err := errors.Join(s.applyManifests(ctx, kueue, authority), s.writeMetricsKeys(), s.add(s.kueue())); err != nil {
		return err
	}
	return kueue.answers(ctx)
}

// kueue sees an /etc of its own, where alone it looks for the keys of its metrics.
func (s *Supervisor) kueue() *part {
	const script = `mount -t overlay overlay -o "lowerdir=/etc,upperdir=$1/above,workdir=$1/work" /etc; shift; exec "$@"`
	p := s.partOf(kueue)
	p.arguments = append([]string{"--mount", "sh", "-ec", script, "sh", s.path("kueue"), p.program}, p.arguments...)
	p.program = "unshare"
	return p
}

func (s *Supervisor) writeMetricsKeys() error {
	keys := s.path("kueue/above/kueue/metrics/certs")
	failed := errors.Join(os.MkdirAll(s.path("kueue/work"), 0o755), os.MkdirAll(keys, 0o755))
	for _, name := range []string{"tls.crt", "tls.key"} {
		content, err := os.ReadFile(filepath.Join(servingDirectory, name))
		failed = errors.Join(failed, err, os.WriteFile(filepath.Join(keys, name), content, 0o600))
	}
	return failed
}

func (s *Supervisor) runOperators(ctx context.Context) error {
	for _, o := range operators {
		if err := s.add(s.partOf(o)); err != nil {
			return err
		}
	}
	for _, o := range operators {
		if err := o.answers(ctx); err != nil {
			return err
		}
	}
	return s.established(ctx, kinds["CustomResourceDefinition"]+"frameworks.frameworkcontroller.microsoft.com")
}

func (s *Supervisor) partOf(o operator) *part {
	p := &part{name: o.name, program: filepath.Join(s.tools, o.name), arguments: o.arguments, directory: s.Directory,
		environment: []string{"KUBECONFIG=" + s.kubeconfig("admin")}}
	if o.name == "frameworkcontroller" { // it reads its configuration where it is started
		p.directory = filepath.Join(s.tools, "manifests", o.name)
	}
	return p
}

// answers waits until its webhooks can be called, if it has any.
func (o operator) answers(ctx context.Context) error {
	if o.port == 0 {
		return nil
	}
	return await(ctx, o.name, func() error {
		connection, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", o.port))
		if err != nil {
			return err
		}
		return connection.Close()
	})
}
