package embedded

import (
	"net/http"
	"strings"

	"google.golang.org/grpc/metadata"

	"github.com/perennial-ml/perennial/door"
)

// Link is an address that lets one browser into the Web UI, once. The path is a
// page of it, such as /namespaces/perennial/workflows; token is the server's.
// Making a link asks nobody: whoever may read the token may make one. It opens
// only a server that was already running when it was made. The link to an experiment
// fits a line of 80 columns with a word before it.
func Link(webUI, token, path string) string { return door.Link(webUI, token, shortened(path)) }

// workflowPages is where the Web UI has workflows; of those whose ids begin with
// shortPages the id alone leads there.
const (
	workflowPages = "/namespaces/" + Namespace + "/workflows"
	shortPages    = "/experiment-"
)

func shortened(path string) string {
	if short := strings.TrimPrefix(path, workflowPages); strings.HasPrefix(short, shortPages) {
		return short
	}
	return path
}

func lengthened(path string) string {
	if strings.HasPrefix(path, shortPages) {
		return workflowPages + path
	}
	return path
}

// bearing serves requests with the token in place. The Web UI's gateway takes
// it from the header, its history download from the context.
func bearing(token bearer, inside http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = r.Clone(metadata.AppendToOutgoingContext(r.Context(), "authorization", token.header()))
		r.Header.Set("Authorization", token.header())
		inside.ServeHTTP(w, r)
	})
}

func newDoor(token string, port int, inside http.Handler) http.Handler {
	return door.New(door.Options{Token: token, Port: port, Again: "starter show <experiment>", Page: lengthened,
		Inside: bearing(bearer(token), inside)})
}
