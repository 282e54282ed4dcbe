package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"
)

// Caller is a user who may do everything, and whose calls the API server counts.
type Caller struct {
	Kubeconfig string

	name    string
	cluster *Cluster
}

// Caller makes one; his configuration lies in a directory. The API server counts calls by
// its flow schemas, of which he has his own, but for logs, which it does not limit.
func (c *Cluster) Caller(ctx context.Context, name, directory string) (*Caller, error) {
	user := Object{"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"}
	everything := []any{Object{"subjects": []any{Object{"kind": "User", "user": Object{"name": name}}},
		"resourceRules":    []any{Object{"verbs": []any{"*"}, "apiGroups": []any{"*"}, "resources": []any{"*"}, "clusterScope": true, "namespaces": []any{"*"}}},
		"nonResourceRules": []any{Object{"verbs": []any{"*"}, "nonResourceURLs": []any{"*"}}}}}
	for path, object := range map[string]Object{
		"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/": {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
			"roleRef": Object{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}, "subjects": []any{user}},
		"/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/": {"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema",
			"spec": Object{"matchingPrecedence": 100, "priorityLevelConfiguration": Object{"name": "workload-high"}, "rules": everything}},
	} {
		object["metadata"] = Object{"name": name}
		if err := c.API.Apply(ctx, path+name, object); err != nil {
			return nil, err
		}
	}
	caller := &Caller{filepath.Join(directory, name+".kubeconfig"), name, c}
	return caller, caller.begin(ctx)
}

// begin writes the configuration and waits until calls are counted.
func (c *Caller) begin(ctx context.Context) error {
	content, err := c.cluster.kubeconfigAs(c.name)
	if err == nil {
		err = os.WriteFile(c.Kubeconfig, content, 0o600)
	}
	for range 600 {
		if err != nil {
			return err
		}
		if _, err = c.cluster.API.sendAs(ctx, c.name, http.MethodGet, "/version"); err != nil {
			return err
		}
		var count int
		if count, err = c.Calls(ctx); err == nil && count > 0 {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return fmt.Errorf("the API server does not count the calls of %s", c.name)
}

// kubeconfigAs is a configuration for another user.
func (c *Cluster) kubeconfigAs(user string) ([]byte, error) {
	content, err := os.ReadFile(c.Kubeconfig)
	if err != nil {
		return nil, err
	}
	var config Object
	if err := json.Unmarshal(content, &config); err != nil {
		return nil, err
	}
	Field(config, "users", 0, "user").(Object)["as"] = user
	return json.Marshal(config)
}

// Calls are how many the user has made until now, and everybody's reading of logs, by the
// API server's own count.
func (c *Caller) Calls(ctx context.Context) (int, error) {
	counted, err := c.cluster.API.Do(ctx, http.MethodGet, "/metrics", nil)
	if err != nil {
		return 0, err
	}
	own := regexp.MustCompile(fmt.Sprintf(`(?m)^(?:apiserver_flowcontrol_dispatched_requests_total\{flow_schema="%s",.*|apiserver_request_total\{.*resource="pods".*subresource="log".*) (\S+)$`, c.name))
	calls := 0.0
	for _, found := range own.FindAllStringSubmatch(string(counted), -1) {
		count, err := strconv.ParseFloat(found[1], 64)
		if err != nil {
			return 0, err
		}
		calls += count
	}
	return int(calls), nil
}
