package aml

import (
	"cmp"
	"encoding/json"
	"net/url"
	"os"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"

	"github.com/perennial-ml/perennial/platforms"
)

// settings are a section's own keys.
type settings struct {
	Subscription string `json:"subscriptionId"`
	Group        string `json:"resourceGroup"`
	Workspace    string `json:"workspaceName"`
	Compute      string `json:"computeTarget"`
	Image        string `json:"dockerImage"`
	Endpoint     string `json:"endpoint"`
	Tenant       string `json:"tenantId"`
	ClientID     string `json:"clientId"`
	ClientSecret string `json:"clientSecret"`
	SharedMemory int    `json:"sharedMemorySize"` // MB; 0: as Azure has it
	// Authority is where to log in, with an endpoint of no known cloud; empty: as this
	// process's own environment has it, or the public one's.
	Authority string `json:"-"`
}

func parse(options json.RawMessage) (s settings, err error) {
	if len(options) > 0 {
		err = json.Unmarshal(options, &s)
	}
	return s, err
}

// path is the workspace's, in every API of Azure's.
func (s settings) path() string {
	return "/subscriptions/" + s.Subscription + "/resourceGroups/" + s.Group + "/providers/Microsoft.MachineLearningServices/workspaces/" + s.Workspace
}

// completed are the settings with what the environment of whoever ran the experiment
// has of them: a login only where the section has none.
func (s settings) completed(lookup func(string) (string, bool)) settings {
	s.Authority, _ = lookup("AZURE_AUTHORITY_HOST")
	if s.ClientSecret != "" {
		return s
	}
	for name, value := range map[string]*string{"AZURE_TENANT_ID": &s.Tenant, "AZURE_CLIENT_ID": &s.ClientID, "AZURE_CLIENT_SECRET": &s.ClientSecret} {
		*value, _ = lookup(name)
	}
	return s
}

// cloud is where Azure is: the public one, or that of the endpoint.
func (s settings) cloud() cloud.Configuration {
	switch s.Endpoint {
	case "":
		return cloud.AzurePublic
	case "https://management.chinacloudapi.cn":
		return cloud.AzureChina
	case "https://management.usgovcloudapi.net":
		return cloud.AzureGovernment
	}
	login := cmp.Or(s.Authority, os.Getenv("AZURE_AUTHORITY_HOST"), cloud.AzurePublic.ActiveDirectoryAuthorityHost)
	return cloud.Configuration{ActiveDirectoryAuthorityHost: login, Services: map[cloud.ServiceName]cloud.ServiceConfiguration{
		cloud.ResourceManager: {Endpoint: s.Endpoint, Audience: s.Endpoint},
	}}
}

// audience is whom a token is for.
func (s settings) audience() string {
	return s.cloud().Services[cloud.ResourceManager].Audience + "/.default"
}

// check is Kind.Check.
func check(options json.RawMessage) error {
	s, err := parse(options)
	if err != nil {
		return err
	}
	if s.ClientSecret != "" && (s.Tenant == "" || s.ClientID == "") {
		return platforms.OptionFaults{{Field: "clientSecret", Message: "is of no use alone", Hint: "tenantId and clientId, too"}}
	}
	if s.Endpoint == "" {
		return nil
	}
	if at, err := url.Parse(s.Endpoint); err != nil || at.Scheme != "https" || at.Host == "" {
		return platforms.OptionFaults{{Field: "endpoint", Message: "is no address of a service by HTTPS", Hint: "such as https://management.chinacloudapi.cn"}}
	}
	return nil
}
