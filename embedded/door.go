package embedded

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/metadata"
)

// Link is an address that lets one browser into the Web UI, once. The path is a
// page of it, such as /namespaces/perennial/workflows; token is the server's.
// Making a link asks nobody: whoever may read the token may make one. It opens
// only a server that was already running when it was made. The link to an experiment
// fits a line of 80 columns with a word before it.
func Link(webUI, token, path string) string {
	return webUI + shortened(path) + "?" + url.Values{linkParameter: {newTicket(token, time.Now())}}.Encode()
}

const linkParameter = "t"

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

// A ticket is the millisecond it was made in, two random bytes and the beginning of a
// MAC over both. Nobody can try 2^72 of them before the server ends.
const (
	ticketTime = 6
	ticketBody = ticketTime + 2
	ticketSize = ticketBody + 9
)

func newTicket(token string, now time.Time) string {
	ticket := binary.BigEndian.AppendUint64(nil, uint64(now.UnixMilli()))[8-ticketTime:]
	ticket = append(ticket, make([]byte, ticketBody-ticketTime)...)
	rand.Read(ticket[ticketTime:])
	return base64.RawURLEncoding.EncodeToString(append(ticket, ticketMAC(token, ticket)...))
}

func madeAt(ticket []byte) int64 {
	var millis [8]byte
	copy(millis[8-ticketTime:], ticket[:ticketTime])
	return int64(binary.BigEndian.Uint64(millis[:]))
}

func ticketMAC(token string, body []byte) []byte {
	mac := hmac.New(sha256.New, []byte(token))
	mac.Write([]byte("perennial web ui link\x00"))
	mac.Write(body)
	return mac.Sum(nil)[:ticketSize-ticketBody]
}

// door lets in browsers that opened a link and callers that know the token.
// Everybody else gets 401, on every path.
type door struct {
	token  bearer
	cookie string
	opened time.Time
	inside http.Handler
	origin *http.CrossOriginProtection

	mu       sync.Mutex
	used     map[string]bool
	sessions map[[sha256.Size]byte]bool
}

// newDoor names the cookie after the port: browsers send cookies to every port
// of a host, and a user may run two servers.
func newDoor(token string, port int, inside http.Handler) *door {
	return &door{
		token:    bearer(token),
		cookie:   fmt.Sprintf("perennial_%d", port),
		opened:   time.Now(),
		inside:   inside,
		origin:   http.NewCrossOriginProtection(),
		used:     map[string]bool{},
		sessions: map[[sha256.Size]byte]bool{},
	}
}

// ServeHTTP implements http.Handler.
func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "same-origin")
	ticket := r.URL.Query().Get(linkParameter)
	switch {
	case d.token.matches(r.Header.Get("Authorization")):
		d.enter(w, r)
	case r.Method == http.MethodGet && d.redeem(ticket):
		d.welcome(w, r)
	case !d.knows(r):
		http.Error(w, "this page is closed: open a fresh link, as printed by \"starter show <experiment>\"", http.StatusUnauthorized)
	case d.origin.Check(r) != nil:
		http.Error(w, "requests from another page are refused", http.StatusForbidden)
	case lengthened(r.URL.Path) != r.URL.Path:
		http.Redirect(w, r, lengthened(r.URL.Path), http.StatusFound) // a link that was used before
	default:
		d.enter(w, r)
	}
}

// enter serves the request with the token in place. The Web UI's gateway takes
// it from the header, its history download from the context.
func (d *door) enter(w http.ResponseWriter, r *http.Request) {
	r = r.WithContext(metadata.AppendToOutgoingContext(r.Context(), "authorization", d.token.header()))
	r.Header = r.Header.Clone()
	r.Header.Set("Authorization", d.token.header())
	r.Header.Del("Cookie")
	w.Header().Del("Cache-Control")
	d.inside.ServeHTTP(w, r)
}

// redeem reports whether the ticket is ours, younger than the door and unused;
// it is used from then on.
func (d *door) redeem(ticket string) bool {
	raw, err := base64.RawURLEncoding.DecodeString(ticket)
	if err != nil || len(raw) != ticketSize {
		return false
	}
	if !hmac.Equal(ticketMAC(string(d.token), raw[:ticketBody]), raw[ticketBody:]) {
		return false
	}
	if madeAt(raw) < d.opened.UnixMilli() {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	fresh := !d.used[string(raw)]
	d.used[string(raw)] = true
	return fresh
}

// welcome hands out the cookie. A page of ours then asks for the address without
// the token: were it a redirect, a browser that came from another site would
// withhold the SameSite=Strict cookie.
func (d *door) welcome(w http.ResponseWriter, r *http.Request) {
	session := rand.Text()
	d.mu.Lock()
	d.sessions[sha256.Sum256([]byte(session))] = true
	d.mu.Unlock()
	http.SetCookie(w, &http.Cookie{Name: d.cookie, Value: session, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
	page := *r.URL
	page.Path = lengthened(page.Path)
	query := page.Query()
	query.Del(linkParameter)
	page.Scheme, page.Host, page.RawQuery = "", "", query.Encode()
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	fmt.Fprintf(w, "<!doctype html><meta http-equiv=\"refresh\" content=\"0;url=%[1]s\"><a href=\"%[1]s\">Open the Web UI</a>\n",
		html.EscapeString(page.String()))
}

func (d *door) knows(r *http.Request) bool {
	cookie, err := r.Cookie(d.cookie)
	if err != nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sessions[sha256.Sum256([]byte(cookie.Value))]
}
