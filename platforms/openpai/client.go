package openpai

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/internal/service"
)

const (
	// patience is what one call may take.
	patience = 30 * time.Second
	// page is how many jobs a list brings: OpenPAI's own number.
	page = 5000
	// answerLimit bounds an answer, in bytes: a page of jobs is 4 MB.
	answerLimit = 64 << 20
	// login is how long a token is asked for, the most that OpenPAI gives.
	login = 7 * 24 * time.Hour
)

// account is a user of a cluster. OpenPAI counts calls for each user, so all sections
// of one share it.
type account struct {
	submits, lists service.Limit

	mutex sync.Mutex
	token string // got by a password; empty: none is known to be good
	by    string // that password
}

// newAccount counts submits in a file, for an hour may be longer than a process lives.
func newAccount(now func() time.Time, limitless bool, file string) *account {
	if limitless {
		return &account{submits: service.Limit{Calls: math.MaxInt}, lists: service.Limit{Calls: math.MaxInt}}
	}
	return &account{
		submits: service.Limit{Calls: 60, Span: time.Hour, Of: "OpenPAI takes 60 submissions an hour from one user", Now: now, File: file},
		lists:   service.Limit{Calls: 60, Span: time.Minute, Of: "OpenPAI takes 60 lists a minute from one user", Now: now},
	}
}

// client calls OpenPAI for an account with the credentials that a section has now.
type client struct {
	settings
	*account
	http *http.Client
}

// job is how OpenPAI tells of a job.
type job struct {
	Name      string `json:"name"`
	State     string `json:"state"`
	SubState  string `json:"subState"`
	Execution string `json:"executionType"`
	Exit      *int   `json:"appExitCode"`
}

// refusal is OpenPAI's own word for what is wrong.
type refusal struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// codes of refusals that say more than their HTTP status.
const (
	noJob    = "NoJobError"
	conflict = "ConflictJobError"
)

// refused is an error with OpenPAI's word for it.
type refused struct {
	error
	refusal
	status int
}

func (r *refused) Unwrap() error { return r.error }

// is tells whether an error is a refusal by that code.
func is(err error, code string) bool {
	var told *refused
	return errors.As(err, &told) && told.refusal.Code == code
}

// submit has OpenPAI take a job, and finds one of the same name as good.
func (c *client) submit(ctx context.Context, content []byte) error {
	if err := c.submits.Take("submit"); err != nil {
		return err
	}
	err := c.call(ctx, "submit", http.MethodPost, "jobs", content, nil)
	if platforms.CodeOf(err) == platforms.Exhausted {
		c.submits.Refused(platforms.AfterOf(err))
	}
	if is(err, conflict) {
		return nil // by our name: the answer to an earlier submission was lost
	}
	return err
}

// list returns the user's jobs whose names have a text in them.
func (c *client) list(ctx context.Context, text string) (map[string]job, error) {
	found := map[string]job{}
	for offset := 0; ; offset += page {
		if err := c.lists.Take("poll"); err != nil {
			return nil, err
		}
		query := url.Values{"username": {c.Username}, "keyword": {text}, "offset": {strconv.Itoa(offset)}, "limit": {strconv.Itoa(page)}}
		var jobs []job
		err := c.call(ctx, "poll", http.MethodGet, "jobs?"+query.Encode(), nil, &jobs)
		if platforms.CodeOf(err) == platforms.Exhausted {
			c.lists.Refused(platforms.AfterOf(err))
		}
		if err != nil {
			return nil, err
		}
		for _, one := range jobs {
			found[one.Name] = one
		}
		if len(jobs) < page {
			return found, nil
		}
	}
}

// path is a job's.
func (c *client) path(name string) string { return "jobs/" + url.PathEscape(c.Username+"~"+name) }

// find returns a job, nil where OpenPAI certainly has none of that name.
func (c *client) find(ctx context.Context, name string) (*job, error) {
	var detail struct {
		Status job `json:"jobStatus"`
	}
	err := c.call(ctx, "poll", http.MethodGet, c.path(name), nil, &detail)
	if is(err, noJob) {
		return nil, nil
	}
	detail.Status.Name = name
	return &detail.Status, err
}

// stop ends a job. OpenPAI fails to stop one that is over and has been swept away.
func (c *client) stop(ctx context.Context, name string) error {
	err := c.call(ctx, "cancel", http.MethodPut, c.path(name)+"/executionType", []byte(`{"value":"STOP"}`), nil)
	if is(err, noJob) {
		return nil
	}
	var told *refused
	if errors.As(err, &told) && told.status >= 500 {
		if found, also := c.find(ctx, name); also == nil && (found == nil || found.over()) {
			return nil
		}
	}
	return err
}

// over tells whether a job is over for good.
func (j job) over() bool {
	return j.State == "SUCCEEDED" || j.State == "FAILED" || j.State == "STOPPED"
}

// call calls OpenPAI. With a password it logs in where it has to: once more where a
// token is refused, which may have expired.
func (c *client) call(ctx context.Context, verb, method, path string, body []byte, answer any) error {
	token, fresh, err := c.credentials(ctx, verb)
	if err != nil {
		return err
	}
	err = c.send(ctx, verb, method, path, token, body, answer)
	var told *refused
	if c.Token != "" || fresh || !errors.As(err, &told) || told.status != http.StatusUnauthorized {
		return err
	}
	c.forget(token)
	if token, _, err = c.credentials(ctx, verb); err != nil {
		return err
	}
	return c.send(ctx, verb, method, path, token, body, answer)
}

// credentials returns a token, and whether it was got just now.
func (c *client) credentials(ctx context.Context, verb string) (token string, fresh bool, err error) {
	if c.Token != "" {
		return c.Token, false, nil
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.token != "" && c.by == c.Password {
		return c.token, false, nil
	}
	asked, err := json.Marshal(map[string]any{"username": c.Username, "password": c.Password, "expiration": int(login.Seconds())})
	if err != nil {
		return "", false, platforms.Errorf(platforms.Invalid, verb, "%w", err)
	}
	var told struct {
		Token string `json:"token"`
	}
	if err := c.send(ctx, verb, http.MethodPost, "authn/basic/login", "", asked, &told); err != nil {
		return "", false, loginFault(verb, c.credential(), err)
	}
	c.account.token, c.by = told.Token, c.Password
	return told.Token, true, nil
}

// loginFault tells of a refused login: OpenPAI says 400 or 404 of a wrong name or
// password, too.
func loginFault(verb, credential string, err error) error {
	if code := platforms.CodeOf(err); code == platforms.Invalid || code == platforms.NotFound {
		return platforms.Errorf(platforms.Denied, verb, "%w; renew %s", err, credential)
	}
	return err
}

// forget drops a token that was refused, unless somebody has a newer one.
func (c *client) forget(token string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.account.token == token {
		c.account.token = ""
	}
}

// send makes one call.
func (c *client) send(ctx context.Context, verb, method, path, token string, body []byte, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, c.Host+"/rest-server/api/v2/"+path, bytes.NewReader(body))
	if err != nil {
		return platforms.Errorf(platforms.Invalid, verb, "%w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	if method == http.MethodPost && path == "jobs" {
		request.Header.Set("Content-Type", "text/yaml")
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	told, err := c.http.Do(request)
	if err != nil {
		return service.Unreachable(verb, err)
	}
	defer told.Body.Close()
	if told.StatusCode >= 300 {
		return c.refusal(verb, told)
	}
	if answer == nil {
		return nil
	}
	if err := json.NewDecoder(io.LimitReader(told.Body, answerLimit)).Decode(answer); err != nil {
		return platforms.Errorf(platforms.Transient, verb, "%s answered no JSON as it should be: %w", request.URL.Hostname(), err)
	}
	return nil
}

func (c *client) refusal(verb string, answer *http.Response) error {
	said := &refused{status: answer.StatusCode}
	body := service.Body(answer)
	text := string(body)
	if json.Unmarshal(body, &said.refusal) == nil && said.Code != "" {
		text = said.Code + ": " + said.Message
	}
	renew := c.credential()
	if answer.StatusCode == http.StatusForbidden {
		renew = fmt.Sprintf("the rights of OpenPAI's user %s, or name another virtualCluster", c.Username)
	}
	said.error = service.Fault(verb, answer, text, renew)
	return said
}
