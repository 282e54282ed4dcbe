// Package door lets browsers into pages, by a link that works once or an access token, then
// by a cookie, and programs by a token. Loopback is no boundary on a machine with several
// users, nor against the other pages that a browser has open. Beyond it a door shows a
// certificate.
package door

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"html"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Link is an address that lets one browser into the page, once. Making a link asks
// nobody: whoever may read the token may make one. It opens only a door that was
// already open when it was made.
func Link(address, token, page string) string {
	return address + page + "?" + url.Values{linkParameter: {newTicket(token, time.Now())}}.Encode()
}

const linkParameter = "t"

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
	return mac([]byte(token), "perennial web ui link\x00", body)[:ticketSize-ticketBody]
}

func mac(key []byte, purpose string, body []byte) []byte {
	sum := hmac.New(sha256.New, key)
	sum.Write([]byte(purpose))
	sum.Write(body)
	return sum.Sum(nil)
}

// Options say whom a door lets in, and what they find.
type Options struct {
	// Token is what callers present as "Authorization: Bearer <token>", and what links
	// are made with; empty lets in nobody.
	Token string
	// Tokens let in others, who may do what the token allows; the zero value has none.
	Tokens Tokens
	// Reads tells whether a request only reads, which is all that a read-only token
	// allows; nil means those by GET and HEAD.
	Reads func(*http.Request) bool
	// Port is the door's own. Cookies are named after it: browsers send them to every
	// port of a host, and a user may run two servers.
	Port int
	// Sessions is the key of cookies: they hold for as long as it is used. Empty means a
	// new one, for this door alone.
	Sessions []byte
	// Again names the command that prints a fresh link, empty where no link opens the door.
	Again string
	// Certificate, if not nil, is what callers from elsewhere are shown: they come by the
	// names in it, over TLS, and one whose tokens are refused again and again has to wait.
	// Without it the door is on loopback.
	Certificate *Certificate
	// Open lets in whoever comes by a name of this machine and from no other page.
	Open bool
	// Page turns the path of a link into that of the page; nil leaves it.
	Page func(path string) string
	// Inside serves whoever is let in.
	Inside http.Handler
}

// Door is an http.Handler that lets in browsers that opened a link and callers that
// know a token. Everybody else gets 401, on every path; whoever comes by a name that
// is not this server's, or from another page, is refused. Programs are told why as
// application/problem+json.
type Door struct {
	Options
	cookie string
	opened time.Time
	origin *http.CrossOriginProtection

	failures failures
	mu       sync.Mutex
	used     map[string]bool
}

// New opens a door.
func New(options Options) *Door {
	if len(options.Sessions) == 0 {
		options.Sessions = NewSessions()
	}
	if options.Page == nil {
		options.Page = func(path string) string { return path }
	}
	if options.Reads == nil {
		options.Reads = isRead
	}
	return &Door{Options: options, cookie: fmt.Sprintf("perennial_%d", options.Port), opened: time.Now(),
		origin: http.NewCrossOriginProtection(), used: map[string]bool{}}
}

// NewSessions draws a key for Options.Sessions.
func NewSessions() []byte { return []byte(rand.Text() + rand.Text()) }

// ServeHTTP implements http.Handler.
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "same-origin")
	switch {
	case !d.isCalled(r.Host):
		refuse(w, r, http.StatusMisdirectedRequest, d.misnamed())
	case d.bears(r.Header.Get("Authorization")):
		d.enter(w, r)
	case bearsAccess(r):
		d.show(w, r, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), d.admit)
	case r.Method == http.MethodGet && d.redeem(r.URL.Query().Get(linkParameter)):
		d.welcome(w, r)
	default:
		d.browser(w, r)
	}
}

// browser serves who comes with a cookie, or could have one.
func (d *Door) browser(w http.ResponseWriter, r *http.Request) {
	id, known := d.knows(r)
	page := d.Page(r.URL.Path)
	entering := r.Method == http.MethodPost && r.URL.Path == entrance && d.Tokens != Tokens{}
	switch {
	case !d.Open && !known && !entering:
		d.closed(w, r, d.howToEnter())
	case d.origin.Check(r) != nil || embeds(r):
		refuse(w, r, http.StatusForbidden, "requests from another page are refused")
	case entering:
		r.Body = http.MaxBytesReader(w, r.Body, 1<<12)
		d.show(w, r, strings.TrimSpace(r.PostFormValue("token")), d.welcomeWith)
	case page != r.URL.Path:
		http.Redirect(w, r, page, http.StatusFound) // a link that was used before
	case id != "" && !d.Open:
		access, err := d.Tokens.valid(id)
		if err != nil {
			d.closed(w, r, err.Error())
			return
		}
		d.admit(w, r, access)
	default:
		d.enter(w, r)
	}
}

func (d *Door) howToEnter() string {
	if d.Again == "" {
		return "this page is closed: it takes an access token, as starter token create makes it"
	}
	return "this page is closed: open a fresh link, as printed by " + d.Again
}

// isCalled tells whether a host is a name of this server.
func (d *Door) isCalled(host string) bool {
	if d.Certificate != nil {
		return d.Certificate.Covers(host)
	}
	return loopback(host)
}

func (d *Door) misnamed() string {
	if d.Certificate != nil {
		return "this server is reached by the names in its certificate alone"
	}
	return "this server is reached by the names of its own machine alone"
}

// loopback tells whether a host, with or without a port, is a name that only this
// machine has: a page that has its own name lead here cannot have that. Another port is
// as good, as through a tunnel.
func loopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// embeds tells whether another page, of this machine too, asks for what it may not read.
// It may only lead here.
func embeds(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return false
	}
	return r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document"
}

func (d *Door) bears(header string) bool {
	return d.Token != "" && subtle.ConstantTimeCompare([]byte(header), []byte("Bearer "+d.Token)) == 1
}

// enter serves the request; what opened the door stays outside.
func (d *Door) enter(w http.ResponseWriter, r *http.Request) {
	r = r.Clone(r.Context())
	r.Header.Del("Cookie")
	r.Header.Del("Authorization")
	w.Header().Del("Cache-Control")
	d.Inside.ServeHTTP(w, r)
}

// redeem reports whether the ticket is ours, younger than the door and unused;
// it is used from then on.
func (d *Door) redeem(ticket string) bool {
	raw, err := base64.RawURLEncoding.DecodeString(ticket)
	if err != nil || len(raw) != ticketSize || d.Token == "" {
		return false
	}
	if !hmac.Equal(ticketMAC(d.Token, raw[:ticketBody]), raw[ticketBody:]) {
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
func (d *Door) welcome(w http.ResponseWriter, r *http.Request) {
	d.setCookie(w, "")
	page := *r.URL
	page.Path = d.Page(page.Path)
	query := page.Query()
	query.Del(linkParameter)
	page.Scheme, page.Host, page.RawQuery = "", "", query.Encode()
	lead(w, page.String())
}

func (d *Door) setCookie(w http.ResponseWriter, id string) {
	http.SetCookie(w, &http.Cookie{Name: d.cookie, Value: d.session(time.Now(), id), Path: "/", HttpOnly: true, Secure: d.Certificate != nil, SameSite: http.SameSiteStrictMode})
}

func lead(w http.ResponseWriter, page string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	fmt.Fprintf(w, "<!doctype html><meta http-equiv=\"refresh\" content=\"0;url=%[1]s\"><a href=\"%[1]s\">Open the page</a>\n",
		html.EscapeString(page))
}

// sessionTime is how long a cookie opens the door: whoever leaves a page open for weeks
// shall find it working.
const sessionTime = 60 * 24 * time.Hour

// A session is the second it ends in, random bytes, the id of the access token that it was
// opened with, if any, and a MAC over all of it and the port, so that nothing need be kept
// of it.
const sessionBody = 8 + 16

func (d *Door) session(now time.Time, id string) string {
	body := binary.BigEndian.AppendUint64(nil, uint64(now.Add(sessionTime).Unix()))
	body = append(body, make([]byte, sessionBody-len(body))...)
	rand.Read(body[8:])
	body = append(body, id...)
	return base64.RawURLEncoding.EncodeToString(append(body, d.sessionMAC(body)...))
}

func (d *Door) sessionMAC(body []byte) []byte {
	return mac(d.Sessions, "perennial session\x00", fmt.Appendf(nil, "%s%d", body, d.Port))
}

// knows tells whether a browser's cookie is ours, and of which access token, if any.
func (d *Door) knows(r *http.Request) (id string, known bool) {
	cookie, err := r.Cookie(d.cookie)
	if err != nil {
		return "", false
	}
	raw, err := base64.RawURLEncoding.DecodeString(cookie.Value)
	if err != nil || len(raw) < sessionBody+sha256.Size {
		return "", false
	}
	body := raw[:len(raw)-sha256.Size]
	known = hmac.Equal(d.sessionMAC(body), raw[len(body):]) && time.Now().Unix() < int64(binary.BigEndian.Uint64(body))
	return string(body[sessionBody:]), known
}
