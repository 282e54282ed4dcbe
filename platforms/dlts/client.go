package dlts

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/internal/service"
)

const (
	// patience is what one call may take.
	patience = 30 * time.Second
	// page is how many jobs that are over a list brings, beside all others.
	page = 1000
	// answerLimit bounds an answer, in bytes.
	answerLimit = 64 << 20
)

// client calls DLTS with the credentials that a section has now. DLTS takes the password
// in the address of every call, so no address of a call may reach a text, and none of
// its redirections is followed: they would take it elsewhere.
type client struct {
	settings
	http *http.Client
}

// newHTTP returns what all clients call with.
func newHTTP() *http.Client {
	return &http.Client{
		Transport:     http.DefaultTransport.(*http.Transport).Clone(),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// job is how DLTS tells of a job.
type job struct {
	ID     string `json:"jobId"`
	Name   string `json:"jobName"`
	Status string `json:"jobStatus"`
	Error  string `json:"errorMsg"`
}

// submit has DLTS take a job under an id of ours. DLTS says of an id that it has already
// that it could not add the job, with a status of 200, and so it does when its database
// fails: whether there is one tells.
func (c *client) submit(ctx context.Context, id string, wanted map[string]any) error {
	content, err := json.Marshal(wanted)
	if err != nil {
		return platforms.Errorf(platforms.Invalid, "submit", "%w", err)
	}
	var told struct {
		ID    string `json:"jobId"`
		Error string `json:"error"`
	}
	err = c.call(ctx, "submit", http.MethodPost, c.cluster()+"/jobs", nil, content, &told)
	if err != nil || told.ID == id {
		return err
	}
	found, err := c.find(ctx, id)
	if err != nil || found != nil {
		return err
	}
	return platforms.Errorf(platforms.Transient, "submit", "DLTS did not take the job: %s", c.words(told.Error))
}

// cluster is the path of the section's cluster.
func (c *client) cluster() string { return "clusters/" + url.PathEscape(c.Cluster) }

func (c *client) path(id string) string { return c.cluster() + "/jobs/" + url.PathEscape(id) }

// list returns the team's jobs of this user by their ids: all that are not over, and the
// newest of the others.
func (c *client) list(ctx context.Context) (map[string]job, error) {
	path := "v2/" + c.cluster() + "/teams/" + url.PathEscape(c.Team) + "/jobs"
	var told listing
	if err := c.call(ctx, "poll", http.MethodGet, path, url.Values{"limit": {strconv.Itoa(page)}}, nil, &told); err != nil {
		return nil, err
	}
	found := map[string]job{}
	for _, one := range told {
		found[one.ID] = one
	}
	return found, nil
}

// listing is a list of jobs, which DLTS gives as one or by how they are.
type listing []job

// UnmarshalJSON reads both forms.
func (l *listing) UnmarshalJSON(text []byte) error {
	var all []job
	if json.Unmarshal(text, &all) == nil {
		*l = all
		return nil
	}
	var groups map[string]json.RawMessage
	if err := json.Unmarshal(text, &groups); err != nil {
		return err
	}
	for _, group := range groups {
		var some []job
		if json.Unmarshal(group, &some) == nil {
			*l = append(*l, some...)
		}
	}
	return nil
}

// find returns a job, nil where DLTS certainly has none of that id: it says so by an
// empty answer.
func (c *client) find(ctx context.Context, id string) (*job, error) {
	var found job
	if err := c.call(ctx, "poll", http.MethodGet, "v2/"+c.path(id), nil, nil, &found); err != nil {
		return nil, err
	}
	if found.ID == "" && found.Status == "" {
		return nil, nil
	}
	return &found, nil
}

// stop ends a job. DLTS answers with a sentence whatever became of that, which says that
// it cannot where the job is over or was never there.
func (c *client) stop(ctx context.Context, id string) error {
	var told struct {
		Result string `json:"result"`
	}
	err := c.call(ctx, "cancel", http.MethodPut, c.path(id)+"/status", nil, []byte(`{"status":"killing"}`), &told)
	if err == nil && strings.HasPrefix(told.Result, "Success") {
		return nil
	}
	found, unknown := c.find(ctx, id)
	if unknown == nil && (found == nil || found.ending()) {
		return nil
	}
	if err == nil {
		err = platforms.Errorf(platforms.Transient, "cancel", "DLTS did not end the job: %s", c.words(told.Result))
	}
	return err
}

// logPages bounds the calls for the end of a log, and logKept what is kept of one, in
// bytes.
const (
	logPages = 20
	logKept  = 1000
)

// log returns the last line that a job's container printed, as far as it is to be had.
func (c *client) log(ctx context.Context, id string) string {
	query, last := url.Values{}, ""
	for range logPages {
		var told struct {
			Log    map[string]string `json:"log"`
			Cursor json.RawMessage   `json:"cursor"`
		}
		if err := c.call(ctx, "logs", http.MethodGet, c.path(id)+"/log", query, nil, &told); err != nil {
			break
		}
		for _, text := range told.Log {
			last += text
		}
		last = last[max(0, len(last)-logKept):]
		cursor := strings.Trim(string(told.Cursor), `"`)
		if cursor == "" || cursor == "null" || cursor == query.Get("cursor") {
			break
		}
		query.Set("cursor", cursor)
	}
	lines := strings.Split(strings.TrimSpace(last), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

// gpuType is the kind of GPUs of the team: the section's, or the first that DLTS names,
// as in NNI. metadata is JSON in a text.
func (c *client) gpuType(ctx context.Context) (string, error) {
	if c.GPUType != "" {
		return c.GPUType, nil
	}
	var told struct {
		Metadata json.RawMessage `json:"metadata"`
	}
	if err := c.call(ctx, "submit", http.MethodGet, "teams/"+url.PathEscape(c.Team)+"/"+c.cluster(), nil, nil, &told); err != nil {
		return "", err
	}
	var text string
	if json.Unmarshal(told.Metadata, &text) != nil {
		text = string(told.Metadata)
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.Token()
	first, err := decoder.Token()
	name, named := first.(string)
	if err != nil || !named {
		return "", platforms.Errorf(platforms.NotFound, "submit", "DLTS names no kind of GPU of team %s: name one in gpuType", c.Team)
	}
	return name, nil
}

// call makes one call. path is below /api.
func (c *client) call(ctx context.Context, verb, method, path string, query url.Values, body []byte, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	all := url.Values{"email": {c.Email}, "password": {c.Password}}
	for name, values := range query {
		all[name] = values
	}
	request, err := http.NewRequestWithContext(ctx, method, c.Dashboard+"/api/"+path+"?"+all.Encode(), bytes.NewReader(body))
	if err != nil {
		return platforms.Errorf(platforms.Invalid, verb, "the address of DLTS cannot be used")
	}
	request.Header.Set("Content-Type", "application/json")
	told, err := c.http.Do(request)
	if err != nil {
		return service.Unreachable(verb, err)
	}
	defer told.Body.Close()
	if told.StatusCode >= 300 {
		return c.refusal(verb, told)
	}
	if err := json.NewDecoder(io.LimitReader(told.Body, answerLimit)).Decode(answer); err != nil {
		return platforms.Errorf(platforms.Transient, verb, "%s answered no JSON as it should be", request.URL.Hostname())
	}
	return nil
}

// refusal is an answer's status and words. A redirection leads to the page for logging in.
func (c *client) refusal(verb string, answer *http.Response) error {
	renew := "the password of " + c.Email + " (the job token on DLTS's page)"
	if answer.StatusCode < 400 {
		return platforms.Errorf(platforms.Denied, verb, "%s wants somebody to log in; renew %s", answer.Request.URL.Hostname(), renew)
	}
	return service.Fault(verb, answer, c.words(string(service.Body(answer))), renew)
}

// words are what DLTS says, without the password, which it may repeat.
func (c *client) words(said string) string {
	if c.Password != "" {
		for _, secret := range []string{c.Password, url.QueryEscape(c.Password)} {
			said = strings.ReplaceAll(said, secret, "***")
		}
	}
	if said = service.Words(said); said == "" {
		return "it does not say why"
	}
	return said
}

// page is where a person can look at a job.
func (c *client) page(id string) string {
	return fmt.Sprintf("%s/job/%s/%s/%s", c.Dashboard, url.PathEscape(c.Team), url.PathEscape(c.Cluster), id)
}
