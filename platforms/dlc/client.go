package dlc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	api "github.com/alibabacloud-go/darabonba-openapi/v2/client"
	"github.com/alibabacloud-go/darabonba-openapi/v2/models"
	"github.com/alibabacloud-go/tea/dara"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/internal/service"
)

const (
	version = "2020-12-03"
	// patience is what one call may take.
	patience = 30 * time.Second
	// page is how many jobs a list brings.
	page = 100
	// beginning is before DLC was: lists leave out what is older than seven days
	// unless they are told otherwise.
	beginning = "2020-01-01T00:00:00Z"
)

// client calls DLC with the credentials that a section has now.
type client struct {
	settings
	api *api.Client
}

func newClient(s settings, sending *http.Client) (*client, error) {
	scheme, host := s.address()
	made, err := api.NewClient(&models.Config{
		AccessKeyId: &s.KeyID, AccessKeySecret: &s.KeySecret, RegionId: &s.Region, Endpoint: &host, Protocol: &scheme,
		HttpClient: sender{sending, "accessKeyId and accessKeySecret of the section"},
	})
	return &client{s, made}, err
}

// call calls DLC. The body and the query may be nil, the answer too.
func (c *client) call(ctx context.Context, verb, action, method, path string, query map[string]string, body map[string]any, answer any) error {
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, verbKey{}, verb), patience)
	defer cancel()
	request := &models.OpenApiRequest{Query: map[string]*string{}}
	for name, value := range query {
		request.Query[name] = &value
	}
	if body != nil {
		request.Body = body
	}
	told, err := c.api.CallApiWithCtx(ctx, &models.Params{
		Action: &action, Version: dara.String(version), Protocol: dara.String("HTTPS"), Pathname: &path, Method: &method,
		AuthType: dara.String("AK"), Style: dara.String("ROA"), ReqBodyType: dara.String("json"), BodyType: dara.String("json"),
	}, request, &dara.RuntimeOptions{})
	if err != nil {
		return fault(verb, err)
	}
	text, err := json.Marshal(told["body"])
	if err == nil && answer != nil {
		err = json.Unmarshal(text, answer)
	}
	if err != nil {
		return platforms.Errorf(platforms.Transient, verb, "DLC answered no JSON as it should be: %w", err)
	}
	return nil
}

func fault(verb string, err error) error {
	var known *platforms.Error
	if errors.As(err, &known) {
		return known
	}
	return service.Unreachable(verb, err)
}

// verbKey is the context's key of the verb that a call is made for.
type verbKey struct{}

// sender sends requests of Alibaba's client, and says what a refusal means while it is
// still to be seen whole.
type sender struct {
	http  *http.Client
	renew string
}

// Call implements the client's own interface.
func (s sender) Call(request *http.Request, _ *http.Transport) (*http.Response, error) {
	answer, err := s.http.Do(request)
	if err != nil || answer.StatusCode < 300 {
		return answer, err
	}
	defer answer.Body.Close()
	verb, _ := request.Context().Value(verbKey{}).(string)
	return nil, s.refusal(verb, answer)
}

// refusal is DLC's own word for what is wrong. What is refused by a code that says more
// than the status goes by that.
func (s sender) refusal(verb string, answer *http.Response) error {
	var said struct{ Code, Message string }
	text := ""
	if json.Unmarshal(service.Body(answer), &said) == nil && said.Code != "" {
		text = said.Code + ": " + said.Message
	}
	told := *answer
	if status := statusOf(said.Code); status != 0 {
		told.StatusCode, told.Status = status, fmt.Sprintf("%d %s", answer.StatusCode, http.StatusText(answer.StatusCode))
	}
	return service.Fault(verb, &told, text, s.renew)
}

// statusOf is the HTTP status that a code of Alibaba's stands for, 0 for one that says
// no more than the status does.
func statusOf(code string) int {
	for _, known := range []struct {
		status int
		parts  []string
	}{
		{http.StatusTooManyRequests, []string{"Throttling", "Quota", "NoStock", "OutOfStock"}},
		{http.StatusUnauthorized, []string{"SignatureDoesNotMatch", "InvalidAccessKey", "InvalidSecurityToken", "Forbidden", "NoPermission"}},
		{http.StatusServiceUnavailable, []string{"IllegalTimestamp", "InvalidTimeStamp", "ServiceUnavailable", "InternalError"}},
	} {
		for _, part := range known.parts {
			if strings.Contains(code, part) {
				return known.status
			}
		}
	}
	return 0
}

// jobs calls f with pages of an experiment's jobs, the newest first, until it returns
// false or there are no more.
func (c *client) jobs(ctx context.Context, tags map[string]string, f func([]job) bool) error {
	tagged, err := json.Marshal(tags)
	if err != nil {
		return err
	}
	for number := 1; ; number++ {
		var answer struct {
			Jobs       []job
			TotalCount int
		}
		err := c.call(ctx, "poll", "ListJobs", http.MethodGet, "/api/v1/jobs", map[string]string{
			"Tags": string(tagged), "WorkspaceId": c.Workspace, "StartTime": beginning, "SortBy": "GmtCreateTime", "Order": "desc",
			"PageNumber": strconv.Itoa(number), "PageSize": strconv.Itoa(page),
		}, nil, &answer)
		if err != nil {
			return err
		}
		if !f(answer.Jobs) || len(answer.Jobs) < page {
			return nil
		}
	}
}

// create has DLC run a job. Where no answer comes nobody knows whether it does: whoever
// tries again looks first, and not before lists show it.
func (c *client) create(ctx context.Context, content map[string]any, after time.Duration) (id string, err error) {
	var answer struct {
		ID string `json:"JobId"`
	}
	err = c.call(ctx, "submit", "CreateJob", http.MethodPost, "/api/v1/jobs", nil, content, &answer)
	var told *platforms.Error
	if errors.As(err, &told) && told.Code == platforms.Transient {
		told.After = max(told.After, after)
	}
	return answer.ID, err
}

// find returns a job by its id, nil where DLC certainly has none.
func (c *client) find(ctx context.Context, id string) (*job, error) {
	var answer job
	err := c.call(ctx, "poll", "GetJob", http.MethodGet, "/api/v1/jobs/"+id, nil, nil, &answer)
	if platforms.CodeOf(err) == platforms.NotFound {
		return nil, nil
	}
	return &answer, err
}

// stop ends a job. It succeeds where that is over or is not there.
func (c *client) stop(ctx context.Context, id string) error {
	err := c.call(ctx, "cancel", "StopJob", http.MethodPost, "/api/v1/jobs/"+id+"/stop", nil, nil, nil)
	if err == nil {
		return nil
	}
	if found, also := c.find(ctx, id); also == nil && (found == nil || found.over()) {
		return nil
	}
	return err
}

// remove deletes a job that is over. It succeeds where there is none.
func (c *client) remove(ctx context.Context, id string) error {
	err := c.call(ctx, "cleanUp", "DeleteJob", http.MethodDelete, "/api/v1/jobs/"+id, nil, nil, nil)
	if platforms.CodeOf(err) == platforms.NotFound {
		return nil
	}
	return err
}

// over tells whether a job is over for good, or about to be.
func (j job) over() bool { return j.phase() == "gone" || j.Status == "Stopping" }

// lastEvent is the newest thing that DLC says of a job, empty where there is none.
func (c *client) lastEvent(ctx context.Context, id string) (string, error) {
	var answer struct{ Events []string }
	err := c.call(ctx, "poll", "GetJobEvents", http.MethodGet, "/api/v1/jobs/"+id+"/events", nil, nil, &answer)
	if err != nil || len(answer.Events) == 0 {
		return "", err
	}
	return service.Words(answer.Events[len(answer.Events)-1]), nil
}

// hasSpec tells whether the region has an instance type, and true where it does not
// tell of all.
func (c *client) hasSpec(ctx context.Context, name string) (bool, error) {
	var answer struct {
		Specs []struct{ InstanceType string } `json:"EcsSpecs"`
		Total int                             `json:"TotalCount"`
	}
	err := c.call(ctx, "try", "ListEcsSpecs", http.MethodGet, "/api/v1/ecsspecs", map[string]string{"PageSize": strconv.Itoa(page), "InstanceTypes": name}, nil, &answer)
	for _, spec := range answer.Specs {
		if spec.InstanceType == name {
			return true, err
		}
	}
	return answer.Total > len(answer.Specs), err
}
