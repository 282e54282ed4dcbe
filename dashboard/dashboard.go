// Package dashboard serves experiments to people and programs: pages, and below
// /api/v1 a REST interface with an OpenAPI document of its own making. It reads the
// record; it opens no port and lets in whoever reaches it, so it belongs behind a door.
package dashboard

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/klauspost/compress/gzhttp"

	"github.com/perennial-ml/perennial/dashboard/views"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/record"
)

// Options are what a dashboard shows, and where it finds what is not on record.
type Options struct {
	views.Reader
	GPUs views.GPUHosts
	// Logs opens what a run wrote, where its platform keeps that elsewhere.
	Logs func(ctx context.Context, handle platforms.Handle, wanted platforms.Log) (io.ReadCloser, error)
	// WebUI is a fresh link to an experiment in Temporal's Web UI, empty without one.
	WebUI     func(experiment string) string
	Commander Commander
	// Version is the program's.
	Version string
}

// server answers requests.
type server struct {
	Options
	courses     courses
	importances importances
	glance      glance
}

// APIPath is where the API is.
const APIPath = "/api/v1"

// New returns what serves the pages and the API.
func New(options Options) http.Handler {
	mux := http.NewServeMux()
	s := &server{Options: options}
	s.register(humago.New(mux, configuration(options.Version)))
	mux.HandleFunc("GET "+APIPath+"/experiments/{experiment}/temporal", s.temporal)
	mux.HandleFunc(APIPath+"/", noSuchRoute)
	mux.Handle("/", pages())
	return protect(http.MaxBytesHandler(compress(mux), bodyLimit))
}

// Reads tells whether a request changes nothing and gives nobody more rights, as a link into
// Temporal's Web UI would.
func Reads(r *http.Request) bool {
	leadsAway := strings.HasPrefix(r.URL.Path, APIPath+"/experiments/") && strings.HasSuffix(r.URL.Path, "/temporal")
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && !leadsAway
}

// bodyLimit is the most that a caller may send: search spaces are the largest of it.
const bodyLimit = 1 << 20

// configuration leaves out what huma would serve beside the document itself: its page of
// documentation asks a server elsewhere for its parts.
func configuration(version string) huma.Config {
	config := huma.DefaultConfig("Perennial", version)
	config.Info.Description = "What experiments are doing and did. Everything is JSON; errors are application/problem+json. " +
		"A call needs the cookie of an opened link, or the header \"Authorization: Bearer TOKEN\" with a token of " +
		"\"starter token create\" or the content of the file \"token\" in the state directory."
	config.OpenAPIPath, config.DocsPath, config.SchemasPath = APIPath+"/openapi", "", ""
	config.CreateHooks = nil
	config.RejectUnknownQueryParameters = true
	config.Components.SecuritySchemes = map[string]*huma.SecurityScheme{"token": {Type: "http", Scheme: "bearer"}}
	config.Security = []map[string][]string{{"token": {}}}
	return config
}

// OpenAPI is the document that describes the API, as YAML.
func OpenAPI(version string) ([]byte, error) {
	api := humago.New(http.NewServeMux(), configuration(version))
	(&server{}).register(api)
	return api.OpenAPI().YAML()
}

// register adds every operation.
func (s *server) register(api huma.API) {
	get := func(id, path, summary string) huma.Operation {
		return huma.Operation{OperationID: id, Method: http.MethodGet, Path: APIPath + path, Summary: summary, Errors: []int{http.StatusNotFound}}
	}
	huma.Register(api, get("list-experiments", "/experiments", "All experiments, the newest first"), s.experiments)
	huma.Register(api, get("get-experiment", "/experiments/{experiment}", "How an experiment stands"), s.experiment)
	huma.Register(api, get("list-trials", "/experiments/{experiment}/trials", "Trials, sorted, filtered and a page at a time"), s.trials)
	huma.Register(api, get("get-trial", "/experiments/{experiment}/trials/{trial}", "All there is about one trial"), s.trial)
	huma.Register(api, get("get-log", "/experiments/{experiment}/trials/{trial}/log", "A piece of what a trial wrote"), s.log)
	huma.Register(api, get("get-results", "/experiments/{experiment}/results", "Every trial in columns: state, metric, times, parameters"), s.results)
	huma.Register(api, get("get-curves", "/experiments/{experiment}/curves", "What trials reported on the way, thinned out"), s.curves)
	huma.Register(api, get("get-timeline", "/experiments/{experiment}/timeline", "Every attempt: where and when"), s.timeline)
	huma.Register(api, get("get-importance", "/experiments/{experiment}/importance", "Which parameters results depend on; computed beside the request, so the first answer may lack it"), s.importance)
	huma.Register(api, get("compare-experiments", "/compare", "How fast each of several experiments got how good"), s.compare)
	huma.Register(api, get("list-gpus", "/gpus", "Every GPU, who has it, and which trials wait"), s.gpus)
	s.registerActs(api)
	s.registerEvents(api)
}

// compress leaves streams alone: they are flushed message by message.
func compress(inside http.Handler) http.Handler {
	wrap, err := gzhttp.NewWrapper(gzhttp.MinSize(1400), gzhttp.ContentTypeFilter(func(contentType string) bool {
		return !strings.HasPrefix(contentType, "text/event-stream") && gzhttp.DefaultContentTypeFilter(contentType)
	}))
	if err != nil {
		panic(err) // of options that are wrong
	}
	return wrap(inside)
}

// security keeps pages from loading, sending to or standing in anything but themselves.
const security = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

func protect(inside http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", security)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("X-Frame-Options", "DENY")
		header.Set("Cross-Origin-Opener-Policy", "same-origin")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		if strings.HasPrefix(r.URL.Path, APIPath) {
			header.Set("Cache-Control", "no-cache")
		}
		inside.ServeHTTP(w, r)
	})
}

func noSuchRoute(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(http.StatusNotFound)
	io.WriteString(w, `{"title":"Not Found","status":404,"detail":"there is no such route; `+APIPath+`/openapi.json lists them"}`+"\n")
}

// temporal leads to an experiment's page in Temporal's Web UI, by a link that works once.
func (s *server) temporal(w http.ResponseWriter, r *http.Request) {
	link := s.WebUI(r.PathValue("experiment"))
	if link == "" {
		noSuchRoute(w, r)
		return
	}
	http.Redirect(w, r, link, http.StatusSeeOther)
}

// problem tells a caller what is wrong by the status that says whose fault it is.
func problem(err error) error {
	var known huma.StatusError
	switch {
	case err == nil || errors.As(err, &known):
		return err
	case errors.Is(err, record.ErrNotFound):
		return huma.Error404NotFound(err.Error())
	case errors.Is(err, context.Canceled):
		return huma.NewError(499, "the caller has left")
	}
	return huma.Error500InternalServerError(err.Error())
}
