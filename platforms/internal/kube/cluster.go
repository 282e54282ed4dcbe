// Package kube is what all platforms on Kubernetes have in common: it makes an
// object of the cluster from a job, watches it and its pods, reads what they report,
// and ends them. A kind of object, such as batch/v1's Job, is a small file here; a
// platform is a package that reads its section of a configuration into a Section.
//
// Nothing is installed in an image, no storage is shared, and no pod reaches us.
// The runner and the code come in ConfigMaps; metrics are the log of a second
// container, which prints the journal alone; how a command ended is its container's
// termination message. A trial is ended by an annotation on its pods, which the
// runner sees as a file.
package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/perennial-ml/perennial/platforms"
)

// callTimeout bounds each call of the API server but those that follow something.
const callTimeout = 20 * time.Second

// Target names a cluster as a section does.
type Target struct {
	Kubeconfig string // path; empty: $KUBECONFIG, ~/.kube/config, or that of the pod we are in
	// variable is $KUBECONFIG of whoever ran the experiment, perhaps on another machine: of its
	// files those count that are on this one.
	variable string
	Context  string // empty: the current one
}

// cluster is a connection to an API server, shared by the sections that name it.
type cluster struct {
	config    *rest.Config
	dynamic   dynamic.Interface
	raw       rest.Interface
	discovery discovery.DiscoveryInterface
	metadata  metadata.Interface
	address   string
	namespace string               // of the context
	files     map[string]time.Time // the configuration's, and when they were written
	token     string               // the file of its own that the configuration names, if it does
	written   time.Time            // when that was
	refused   atomic.Bool          // credentials were

	mutex  sync.Mutex
	boards map[place]*board
}

// connect reads the configuration of a cluster; it reaches nobody.
func connect(target Target) (*cluster, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = target.Kubeconfig
	if target.variable != "" {
		rules.Precedence = filepath.SplitList(target.variable)
	}
	deferred := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: target.Context})
	config, err := deferred.ClientConfig()
	if err != nil {
		return nil, err
	}
	namespace, _, err := deferred.Namespace()
	if err != nil {
		return nil, err
	}
	config.QPS = -1 // the API server says itself when it has too much to do
	config.UserAgent = "perennial"
	config.ContentConfig = rest.ContentConfig{NegotiatedSerializer: serializerOfStatus()}
	c := &cluster{config: config, namespace: namespace, address: config.Host, files: map[string]time.Time{}, boards: map[place]*board{}}
	for _, file := range deferred.ConfigAccess().GetLoadingPrecedence() {
		c.files[file] = written(file)
	}
	c.token, c.written = config.BearerTokenFile, written(config.BearerTokenFile)
	config.Wrap(c.noteRefusals)
	return c, c.makeClients(config)
}

// stale tells whether the configuration was written anew since: its credentials may
// have been renewed. Tokens in files of their own and those of exec plugins are renewed
// by the client itself; of a file it notices that within a minute, which is too late where
// the token that it has is refused.
func (c *cluster) stale() bool {
	if now := written(c.token); c.refused.Load() && !now.IsZero() && !now.Equal(c.written) {
		return true
	}
	for file, when := range c.files {
		if now := written(file); !now.IsZero() && !now.Equal(when) {
			return true
		}
	}
	return false
}

// written is when a file was written, zero where it is not there.
func written(file string) time.Time {
	info, err := os.Stat(file)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// noteRefusals passes requests on, and notes where credentials are refused.
func (c *cluster) noteRefusals(next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(request *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(request)
		if err == nil && response.StatusCode == http.StatusUnauthorized {
			c.refused.Store(true)
		}
		return response, err
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTrip) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

func (c *cluster) makeClients(config *rest.Config) (err error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	if c.dynamic, err = dynamic.NewForConfigAndClient(config, client); err != nil {
		return err
	}
	if c.discovery, err = discovery.NewDiscoveryClientForConfigAndClient(config, client); err != nil {
		return err
	}
	if c.metadata, err = metadata.NewForConfigAndClient(config, client); err != nil {
		return err
	}
	c.raw, err = rest.UnversionedRESTClientForConfigAndClient(config, client)
	return err
}

// serializerOfStatus reads what an API server says where it refuses.
func serializerOfStatus() runtime.NegotiatedSerializer {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	return serializer.NewCodecFactory(scheme).WithoutConversion()
}

// logs opens the log of a pod's container.
func (c *cluster) logs(ctx context.Context, namespace, pod, container string, follow bool) (io.ReadCloser, error) {
	request := c.raw.Get().AbsPath("/api/v1/namespaces", namespace, "pods", pod, "log").Param("container", container)
	if follow {
		request = request.Param("follow", "true")
	}
	return request.Stream(ctx)
}

// Fault is an error of the API server, or on the way to it, as the contract has it.
func Fault(verb string, err error) error {
	var known *platforms.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	if apierrors.IsUnauthorized(err) {
		err = fmt.Errorf("the cluster refuses your credentials; renew what the kubeconfig has or names (token, certificate, login of its plugin), and it goes on: %w", err)
	}
	if pluginFailed(err) {
		err = fmt.Errorf("the login that the kubeconfig names (exec) fails: log in again, and it goes on: %w", err)
	}
	fault := &platforms.Error{Code: codeOf(err), Verb: verb, Err: err}
	if seconds, wanted := apierrors.SuggestsClientDelay(err); wanted {
		fault.After = time.Duration(seconds) * time.Second
	}
	return fault
}

// pluginFailed tells whether a login plugin gave no credentials. The library has no
// other sign of that than its words.
func pluginFailed(err error) bool { return strings.Contains(err.Error(), "getting credentials: exec") }

func codeOf(err error) platforms.Code {
	var status apierrors.APIStatus
	switch {
	case pluginFailed(err):
		return platforms.Denied
	case !errors.As(err, &status):
		return platforms.Transient
	}
	switch status.Status().Code {
	case http.StatusUnauthorized:
		return platforms.Denied
	case http.StatusForbidden:
		if isQuota(err) {
			return platforms.Exhausted
		}
		return platforms.Denied
	case http.StatusNotFound:
		return platforms.NotFound
	case http.StatusTooManyRequests:
		return platforms.Exhausted
	case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusRequestEntityTooLarge:
		return platforms.Invalid
	}
	return platforms.Transient
}
