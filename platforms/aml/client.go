package aml

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	ml "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/machinelearning/armmachinelearning/v4"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/internal/service"
)

const (
	// patience is what one call may take, and uploadPatience an upload.
	patience       = 30 * time.Second
	uploadPatience = 10 * time.Minute
	// chunk is how much of a log one call brings, in bytes.
	chunk = 4 << 20
	// renew is what to renew where Azure refuses.
	renew = "the login of Azure (tenantId, clientId and clientSecret of the section, or az login), and its rights in the workspace"
)

// client calls Azure for a section.
type client struct {
	settings
	http         *sender
	credential   azcore.TokenCredential
	jobs         *ml.JobsClient
	codes        *ml.CodeVersionsClient
	environments *ml.EnvironmentVersionsClient
	computes     *ml.ComputeClient
	workspaces   *ml.WorkspacesClient
	// made is the id of the image's environment, once there is one.
	made atomic.Pointer[string]
}

// sender sends all requests, and notes where Azure took no token: one that has not
// expired as far as is known here would be used again.
type sender struct {
	http    *http.Client
	refused atomic.Bool
}

// unanswered begins the error of a request that got no answer. Azure's login keeps of
// an error nothing but its text, and nobody refused what nobody heard.
const unanswered = "no answer"

// Do implements policy.Transporter.
func (s *sender) Do(request *http.Request) (*http.Response, error) {
	answer, err := s.http.Do(request)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", unanswered, err)
	}
	if answer.StatusCode == http.StatusUnauthorized {
		s.refused.Store(true)
	}
	return answer, nil
}

func newClient(s settings, by *http.Client) (*client, error) {
	sending := &sender{http: by}
	options := azcore.ClientOptions{Cloud: s.cloud(), Transport: sending, Retry: policy.RetryOptions{MaxRetries: -1}}
	credential, err := login(s, options)
	if err != nil {
		return nil, err
	}
	factory, err := ml.NewClientFactory(s.Subscription, credential, &arm.ClientOptions{ClientOptions: options, DisableRPRegistration: true})
	if err != nil {
		return nil, err
	}
	return &client{
		settings: s, http: sending, credential: credential, jobs: factory.NewJobsClient(), codes: factory.NewCodeVersionsClient(),
		environments: factory.NewEnvironmentVersionsClient(), computes: factory.NewComputeClient(), workspaces: factory.NewWorkspacesClient(),
	}, nil
}

// login is the section's service principal, or whoever this machine or its user is to
// Azure.
func login(s settings, options azcore.ClientOptions) (azcore.TokenCredential, error) {
	elsewhere := s.Endpoint != ""
	if s.ClientSecret != "" {
		return azidentity.NewClientSecretCredential(s.Tenant, s.ClientID, s.ClientSecret,
			&azidentity.ClientSecretCredentialOptions{ClientOptions: options, DisableInstanceDiscovery: elsewhere})
	}
	return azidentity.NewDefaultAzureCredential(&azidentity.DefaultAzureCredentialOptions{ClientOptions: options, DisableInstanceDiscovery: elsewhere})
}

// fault says what an error of Azure's clients means.
func fault(verb string, err error) error {
	var known *platforms.Error
	var answer *azcore.ResponseError
	var login *azidentity.AuthenticationFailedError
	switch {
	case err == nil || errors.As(err, &known):
		return err
	case strings.Contains(err.Error(), unanswered):
		return service.Unreachable(verb, err)
	case errors.As(err, &login) && (login.RawResponse == nil || login.RawResponse.StatusCode < 500):
		return platforms.Errorf(platforms.Denied, verb, "%s; renew %s", service.Words(err.Error()), renew)
	case errors.As(err, &answer):
		return service.Fault(verb, answer.RawResponse, answer.ErrorCode+" "+said(answer), renew)
	case strings.Contains(err.Error(), "DefaultAzureCredential"):
		return platforms.Errorf(platforms.Denied, verb, "nobody is logged in to Azure: %s; renew %s", service.Words(err.Error()), renew)
	}
	return service.Unreachable(verb, err)
}

// said is Azure's own sentence about what is wrong.
func said(answer *azcore.ResponseError) string {
	var told struct{ Error struct{ Message string } }
	_ = json.Unmarshal(service.Body(answer.RawResponse), &told) // what is no JSON has nothing to say
	return told.Error.Message
}

func missing(err error) bool {
	var answer *azcore.ResponseError
	return errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound
}

// there returns an error unless the workspace is there. Azure answers about all that is
// in one that was deleted, or that a login does not see, as if that were not there.
func (c *client) there(ctx context.Context, verb string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err := c.workspaces.Get(ctx, c.Group, c.Workspace, nil)
	if err == nil || !missing(err) {
		return fault(verb, err)
	}
	return platforms.Errorf(platforms.Denied, verb, "Azure finds no workspace %s in the resource group %s of the subscription %s: it was deleted, or renew %s",
		c.Workspace, c.Group, c.Subscription, renew)
}

// fault is as the function, and of what is not there it tells whether all else is.
func (c *client) fault(ctx context.Context, verb string, err error) error {
	if missing(err) {
		if gone := c.there(ctx, verb); gone != nil {
			return gone
		}
	}
	return fault(verb, err)
}

// find returns a job, nil where there certainly is none.
func (c *client) find(ctx context.Context, verb, name string) (*ml.JobBaseProperties, error) {
	found, err := c.lookUp(ctx, verb, name)
	if platforms.CodeOf(err) == platforms.NotFound {
		return nil, c.there(ctx, verb)
	}
	return found, err
}

// lookUp returns a job, and NotFound also where the whole workspace is not there.
func (c *client) lookUp(ctx context.Context, verb, name string) (*ml.JobBaseProperties, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	found, err := c.jobs.Get(ctx, c.Group, c.Workspace, name, nil)
	if err != nil {
		return nil, fault(verb, err)
	}
	return properties(verb, found.JobBase)
}

// properties are a job's, of an answer that may lack all.
func properties(verb string, of ml.JobBase) (*ml.JobBaseProperties, error) {
	if of.Properties == nil || of.Properties.GetJobBaseProperties() == nil {
		return nil, platforms.Errorf(platforms.Transient, verb, "Azure told of a job, and nothing about it")
	}
	return of.Properties.GetJobBaseProperties(), nil
}

// ended tells whether Azure says of a job that it is over; nil is one that is not there.
func ended(job *ml.JobBaseProperties) bool {
	return job == nil || job.Status != nil && over(*job.Status)
}

// submit has Azure run a job, and finds the one of that name as good.
func (c *client) submit(ctx context.Context, name string, wanted *ml.CommandJob) (*ml.JobBaseProperties, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	found, err := c.lookUp(ctx, "submit", name)
	if platforms.CodeOf(err) != platforms.NotFound {
		return found, err
	}
	made, err := c.jobs.CreateOrUpdate(ctx, c.Group, c.Workspace, name, ml.JobBase{Properties: wanted}, nil)
	if err == nil {
		return properties("submit", made.JobBase)
	}
	if found, also := c.find(ctx, "submit", name); also == nil && found != nil {
		return found, nil // somebody submitted it meanwhile
	}
	return nil, c.fault(ctx, "submit", err)
}

// cancel ends a job. It succeeds where that is over or is not there.
func (c *client) cancel(ctx context.Context, name string) error {
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err := c.jobs.BeginCancel(limited, c.Group, c.Workspace, name, nil)
	if err == nil {
		return nil
	}
	if missing(err) {
		return c.there(ctx, "cancel")
	}
	if found, also := c.find(ctx, "cancel", name); also == nil && ended(found) {
		return nil
	}
	return fault("cancel", err)
}

// asset is code that lies in the workspace's own storage, by a name that says what is
// in it. upload is called with the address of the place where its files are to be put.
func (c *client) asset(ctx context.Context, name string, upload func(place *url.URL) error) (id string, err error) {
	found, err := c.codes.Get(ctx, c.Group, c.Workspace, name, assetVersion, nil)
	if err == nil {
		return idOf("prepare", found.ID)
	}
	if !missing(err) {
		return "", c.fault(ctx, "prepare", err)
	}
	pending, err := c.codes.CreateOrGetStartPendingUpload(ctx, c.Group, c.Workspace, name, assetVersion,
		ml.PendingUploadRequestDto{PendingUploadType: to.Ptr(ml.PendingUploadTypeTemporaryBlobReference)}, nil)
	if err != nil {
		return "", c.fault(ctx, "prepare", err)
	}
	to := pending.BlobReferenceForConsumption
	if to == nil {
		return "", platforms.Errorf(platforms.Transient, "prepare", "Azure gave no place to upload to")
	}
	lease, ok := to.Credential.(*ml.SASCredentialDto)
	if !ok || lease.SasURI == nil {
		return "", platforms.Errorf(platforms.Invalid, "prepare", "the workspace's storage gives no temporary address to upload to: its administrators forbid it")
	}
	place, err := url.Parse(*lease.SasURI)
	if err == nil {
		err = upload(place)
	}
	if err != nil {
		return "", c.fault(ctx, "prepare", err)
	}
	made, err := c.codes.CreateOrUpdate(ctx, c.Group, c.Workspace, name, assetVersion,
		ml.CodeVersion{Properties: &ml.CodeVersionProperties{CodeURI: to.BlobURI, Description: ours()}}, nil)
	if err != nil {
		return "", c.fault(ctx, "prepare", err)
	}
	return idOf("prepare", made.ID)
}

func idOf(verb string, id *string) (string, error) {
	if id == nil {
		return "", platforms.Errorf(platforms.Transient, verb, "Azure told of an asset without its id")
	}
	return *id, nil
}

func ours() *string { return to.Ptr("made by Perennial") }

// put uploads a file below a place in a blob store.
func (c *client) put(ctx context.Context, place url.URL, name string, content []byte) error {
	ctx, cancel := context.WithTimeout(ctx, uploadPatience)
	defer cancel()
	place.Path += "/" + name
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, place.String(), bytes.NewReader(content))
	if err != nil {
		return err
	}
	request.Header.Set("x-ms-blob-type", "BlockBlob")
	answer, err := c.http.Do(request)
	if err != nil {
		return service.Unreachable("prepare", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode >= 300 {
		return service.Fault("prepare", answer, string(service.Body(answer)), renew)
	}
	return nil
}

// environment is the image as the workspace has it.
func (c *client) environment(ctx context.Context) (id string, err error) {
	if known := c.made.Load(); known != nil {
		return *known, nil
	}
	if id, err = c.makeEnvironment(ctx); err == nil {
		c.made.Store(&id)
	}
	return id, err
}

func (c *client) makeEnvironment(ctx context.Context) (id string, err error) {
	name := "perennial-" + digest([]byte(c.Image))[:20]
	found, err := c.environments.Get(ctx, c.Group, c.Workspace, name, assetVersion, nil)
	if err == nil {
		return idOf("submit", found.ID)
	}
	if !missing(err) {
		return "", c.fault(ctx, "submit", err)
	}
	made, err := c.environments.CreateOrUpdate(ctx, c.Group, c.Workspace, name, assetVersion,
		ml.EnvironmentVersion{Properties: &ml.EnvironmentVersionProperties{Image: &c.Image, Description: ours()}}, nil)
	if err != nil {
		return "", c.fault(ctx, "submit", err)
	}
	return idOf("submit", made.ID)
}

// details are what the workspace's run history tells of a job.
type details struct {
	Status  string            `json:"status"`
	Started time.Time         `json:"startTimeUtc"`
	Ended   time.Time         `json:"endTimeUtc"`
	Logs    map[string]string `json:"logFiles"`
	Error   struct {
		Error struct{ Code, Message string }
	} `json:"error"`
}

// details asks the run history, which is at a host of the workspace's region. It
// returns nil where that knows no such run.
func (c *client) details(ctx context.Context, host, experiment, name string) (*details, error) {
	token, err := c.credential.GetToken(ctx, policy.TokenRequestOptions{Scopes: []string{c.audience()}})
	if err != nil {
		return nil, fault("poll", err)
	}
	path := host + "/history/v1.0" + c.path() + "/experiments/" + url.PathEscape(experiment) + "/runs/" + url.PathEscape(name) + "/details"
	content, status, err := c.get(ctx, path, http.Header{"Authorization": {"Bearer " + token.Token}})
	if status == http.StatusNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var told details
	if err := json.Unmarshal(content, &told); err != nil {
		return nil, platforms.Errorf(platforms.Transient, "poll", "the run history answered no JSON as it should be: %w", err)
	}
	return &told, nil
}

// log returns what follows a byte of a log, as far as one call brings it.
func (c *client) log(ctx context.Context, address string, from int64) ([]byte, error) {
	content, status, err := c.get(ctx, address, http.Header{"Range": {fmt.Sprintf("bytes=%d-%d", from, from+chunk-1)}})
	if status == http.StatusRequestedRangeNotSatisfiable || status == http.StatusNotFound {
		return nil, nil // nothing more, or nothing yet
	}
	return content, err
}

func (c *client) get(ctx context.Context, address string, header http.Header) (content []byte, status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, 0, err
	}
	request.Header = header
	answer, err := c.http.Do(request)
	if err != nil {
		return nil, 0, service.Unreachable("poll", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode >= 300 {
		return nil, answer.StatusCode, service.Fault("poll", answer, "", renew)
	}
	content, err = io.ReadAll(io.LimitReader(answer.Body, 2*chunk))
	if err != nil {
		return nil, 0, service.Unreachable("poll", err)
	}
	return content, answer.StatusCode, nil
}
