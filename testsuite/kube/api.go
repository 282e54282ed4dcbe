package kube

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Object is anything that the API server takes or gives.
type Object = map[string]any

// API speaks to an API server as JSON over HTTPS, with nothing of Kubernetes' own
// clients in between, so that a test sees what the product's client did and no more.
type API struct {
	Server string
	Token  string
	client *http.Client
}

// NewAPI returns an API whose server's certificate is the one given.
func NewAPI(server, token string, certificate []byte) *API {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certificate)
	return &API{server, token, &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, MaxIdleConnsPerHost: 16}}}
}

// Refused is what the API server answered where it did not obey.
type Refused struct {
	Code    int
	Message string
}

func (r *Refused) Error() string { return fmt.Sprintf("%d: %s", r.Code, r.Message) }

// Do sends a request, with a body of JSON unless it is nil, and returns the answer,
// or a *Refused.
func (a *API) Do(ctx context.Context, method, path string, body any) ([]byte, error) {
	return a.send(ctx, method, path, "application/json", body)
}

// Apply makes an object what it says, whether it exists or not: path is its own.
func (a *API) Apply(ctx context.Context, path string, object Object) error {
	_, err := a.send(ctx, http.MethodPatch, path+"?fieldManager=laboratory&force=true", "application/apply-patch+yaml", object)
	return err
}

// Patch merges a part into an object.
func (a *API) Patch(ctx context.Context, path string, part Object) error {
	_, err := a.send(ctx, http.MethodPatch, path, "application/merge-patch+json", part)
	return err
}

// Get returns an object.
func (a *API) Get(ctx context.Context, path string) (object Object, err error) {
	answer, err := a.Do(ctx, http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	return object, json.Unmarshal(answer, &object)
}

func (a *API) send(ctx context.Context, method, path, kind string, body any) ([]byte, error) {
	var content io.Reader = http.NoBody
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(encoded)
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, a.Server+path, content)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", kind)
	return a.ask(request)
}

// sendAs sends a request without a body in the name of another user.
func (a *API) sendAs(ctx context.Context, user, method, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, a.Server+path, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Impersonate-User", user)
	return a.ask(request)
}

func (a *API) ask(request *http.Request) ([]byte, error) {
	request.Header.Set("Authorization", "Bearer "+a.Token)
	return answer(a.client.Do(request))
}

func answer(response *http.Response, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode < 300 {
		return content, err
	}
	var status struct{ Message string }
	if json.Unmarshal(content, &status) != nil || status.Message == "" {
		status.Message = strings.TrimSpace(string(content))
	}
	return nil, &Refused{response.StatusCode, status.Message}
}

// Field returns what lies in an object below names and, of lists, numbers; nil if
// nothing does.
func Field(object any, way ...any) any {
	for _, step := range way {
		switch at := step.(type) {
		case string:
			inside, _ := object.(map[string]any)
			object = inside[at]
		case int:
			list, _ := object.([]any)
			if at >= len(list) {
				return nil
			}
			object = list[at]
		}
	}
	return object
}

// Condition tells whether an object's condition of that type is True.
func Condition(object Object, kind string) bool {
	conditions, _ := Field(object, "status", "conditions").([]any)
	for _, condition := range conditions {
		if Field(condition, "type") == kind && Field(condition, "status") == "True" {
			return true
		}
	}
	return false
}
