package uaitrain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/ucloud/ucloud-sdk-go/ucloud/auth"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/internal/service"
)

const (
	// patience is what one call may take.
	patience = 30 * time.Second
	// listed is how many jobs a list brings.
	listed = 100
	// balanceAfter is how long nothing is asked for where the account is empty.
	balanceAfter = 5 * time.Minute
	renew        = "publicKey and privateKey of the section"
)

// client calls UAI-Train with the keys that a section has now.
type client struct {
	settings
	http  *http.Client
	calls *service.Limit
}

// call calls an action. Keys go in the body, signed, never in an address.
func (c *client) call(ctx context.Context, verb, action string, values map[string]any, answer any) error {
	if err := c.calls.Take(verb); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.Endpoint+"/", strings.NewReader(c.form(action, values)))
	if err != nil {
		return platforms.Errorf(platforms.Invalid, verb, "endpoint of the section: %w", err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	told, err := c.http.Do(request)
	if err != nil {
		return service.Unreachable(verb, err)
	}
	defer told.Body.Close()
	return c.read(verb, told, answer)
}

// form is a signed call.
func (c *client) form(action string, values map[string]any) string {
	payload := map[string]any{"Action": action, "Region": c.Region, "Zone": c.Zone}
	if c.Project != "" {
		payload["ProjectId"] = c.Project
	}
	for name, value := range values {
		payload[name] = fmt.Sprint(value)
	}
	credential := auth.Credential{PublicKey: c.PublicKey, PrivateKey: c.PrivateKey}
	form := url.Values{}
	for name, value := range credential.Apply(payload) {
		form.Set(name, fmt.Sprint(value))
	}
	return form.Encode()
}

// read takes an answer: the HTTP status counts only where it is none of success, all
// else is in RetCode.
func (c *client) read(verb string, told *http.Response, answer any) error {
	if told.StatusCode < 200 || told.StatusCode > 299 {
		err := service.Fault(verb, told, c.clean(string(service.Body(told))), renew)
		if platforms.NoRoom(err) {
			c.calls.Refused(platforms.AfterOf(err))
		}
		return err
	}
	var said struct {
		RetCode *int
		Message string
	}
	var whole json.RawMessage
	err := json.NewDecoder(told.Body).Decode(&whole)
	if err == nil {
		err = json.Unmarshal(whole, &said)
	}
	if err != nil || said.RetCode == nil {
		return platforms.Errorf(platforms.Transient, verb, "%s answered no JSON with a RetCode", told.Request.URL.Hostname())
	}
	if *said.RetCode != 0 {
		return c.refusal(verb, told.Request.URL.Hostname(), *said.RetCode, said.Message)
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(whole, answer); err != nil {
		return platforms.Errorf(platforms.Transient, verb, "%s answered otherwise than it should: %w", told.Request.URL.Hostname(), err)
	}
	return nil
}

// clean leaves the private key out of the service's words, should it repeat what it was
// sent.
func (c *client) clean(said string) string {
	if c.PrivateKey == "" {
		return said
	}
	return strings.ReplaceAll(said, c.PrivateKey, "***")
}

// meaning is what a RetCode says to do.
type meaning struct {
	code   platforms.Code
	after  time.Duration
	advice string
}

// meanings is UCloud's table of RetCodes. One that is not here is tried again, and seen
// as the reason of a wait.
var meanings = map[int]meaning{
	100: {code: platforms.Denied, advice: "renew " + renew},
	110: {code: platforms.Transient},
	130: {code: platforms.Transient},
	140: {code: platforms.Denied, advice: "have UAI-Train allowed to the account of " + renew},
	150: {code: platforms.Transient},
	170: {code: platforms.Denied, advice: "renew " + renew},
	171: {code: platforms.Denied, advice: "renew " + renew},
	172: {code: platforms.Denied, advice: "renew " + renew},
	210: {code: platforms.Invalid},
	220: {code: platforms.Invalid},
	230: {code: platforms.Invalid},
	240: {code: platforms.Denied, advice: "have the project allowed to the account of " + renew},
	520: {code: platforms.Exhausted, after: balanceAfter, advice: "top up the account"},
	999: {code: platforms.Denied, advice: "have UAI-Train enabled for the project"},
}

func (c *client) refusal(verb, host string, code int, said string) error {
	means, known := meanings[code]
	if !known {
		means.code = platforms.Transient
	}
	text := fmt.Sprintf("%s answered RetCode %d", host, code)
	if said = service.Words(c.clean(said)); said != "" {
		text += ": " + said
	}
	if means.advice != "" {
		text += "; " + means.advice
	}
	return &platforms.Error{Code: means.code, Verb: verb, After: means.after, Err: errors.New(text)}
}

// count is a number that the service writes as one or as text.
type count int

// UnmarshalJSON implements json.Unmarshaler.
func (n *count) UnmarshalJSON(text []byte) error {
	number, err := strconv.Atoi(strings.Trim(string(text), `"`))
	*n = count(number)
	return err
}

// errMoved is told of lists that changed while they were read.
var errMoved = errors.New("UAI-Train's list of jobs changed while it was read")

// readings is how often a list that changes while it is read is read again.
const readings = 3

// jobs lists all jobs of the project. A list that changes between two of its pages may
// have left some out, so it counts only as a whole.
func (c *client) jobs(ctx context.Context, verb string) (all []job, err error) {
	for range readings {
		all, err = c.list(ctx, verb)
		if !errors.Is(err, errMoved) {
			break
		}
	}
	return all, err
}

// list reads a list once. Whether Limit counts jobs or names the last place the service
// leaves open, so it is asked for in a way that is right for both.
func (c *client) list(ctx context.Context, verb string) (all []job, err error) {
	seen := map[string]bool{}
	for total := -1; total < 0 || len(all) < total; {
		var answer struct {
			TotalCount count
			DataSet    []job
		}
		err := c.call(ctx, verb, "GetUAITrainJobList", map[string]any{"Offset": len(all), "Limit": len(all) + listed}, &answer)
		if err != nil {
			return nil, err
		}
		for _, one := range answer.DataSet {
			if seen[one.ID] {
				return nil, moved(verb)
			}
			seen[one.ID] = true
		}
		if total >= 0 && int(answer.TotalCount) != total || len(answer.DataSet) == 0 && len(all) < int(answer.TotalCount) {
			return nil, moved(verb)
		}
		total, all = int(answer.TotalCount), append(all, answer.DataSet...)
	}
	return all, nil
}

func moved(verb string) error { return platforms.Errorf(platforms.Transient, verb, "%w", errMoved) }

// find returns a job by its id, nil where the service certainly has none.
func (c *client) find(ctx context.Context, verb, id string) (*job, error) {
	var answer struct{ DataSet []job }
	err := c.call(ctx, verb, "GetUAITrainJobList", map[string]any{"TrainJobId": id, "Offset": 0, "Limit": 1}, &answer)
	if err != nil {
		return nil, err
	}
	for _, one := range answer.DataSet {
		if one.ID == id {
			return &one, nil
		}
	}
	return nil, nil
}

// create has a job run. Where no answer comes nobody knows whether it does: whoever
// tries again looks first, and not before lists show it.
func (c *client) create(ctx context.Context, values map[string]any, after time.Duration) (string, error) {
	var answer struct{ TrainJobId string }
	err := c.call(ctx, "submit", "CreateUAITrainJob", values, &answer)
	if err == nil && answer.TrainJobId == "" {
		err = platforms.Errorf(platforms.Transient, "submit", "UAI-Train took a job and told no id")
	}
	var told *platforms.Error
	if errors.As(err, &told) && told.Code == platforms.Transient {
		told.After = max(told.After, after)
	}
	return answer.TrainJobId, err
}

// stop ends a job. It succeeds where that is over or is not there.
func (c *client) stop(ctx context.Context, verb, id string) error {
	err := c.call(ctx, verb, "StopUAITrainJob", map[string]any{"TrainJobId": id}, nil)
	if err == nil {
		return nil
	}
	if found, also := c.find(ctx, verb, id); also == nil && (found == nil || found.over()) {
		return nil
	}
	return err
}

// remove deletes a job that is over. It succeeds where there is none.
func (c *client) remove(ctx context.Context, id string) error {
	err := c.call(ctx, "cleanUp", "RemoveUAITrainJob", map[string]any{"TrainJobId": id}, nil)
	if err == nil {
		return nil
	}
	if found, also := c.find(ctx, "cleanUp", id); also == nil && (found == nil || found.Status == "Deleted") {
		return nil
	}
	return err
}
