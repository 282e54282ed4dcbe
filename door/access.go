package door

import (
	"context"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// entrance is where the closed page sends an access token that somebody typed in.
const entrance = "/enter"

// recheck is how often a request that lasts, such as a stream, asks whether the token that
// let it in still does.
const recheck = time.Second

func bearsAccess(r *http.Request) bool {
	return strings.HasPrefix(r.Header.Get("Authorization"), "Bearer "+tokenPrefix)
}

func isRead(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// show has somebody in whose token is good, unless too many were not.
func (d *Door) show(w http.ResponseWriter, r *http.Request, token string, in func(http.ResponseWriter, *http.Request, Access)) {
	if d.Certificate != nil && d.failures.tooMany(r.RemoteAddr) {
		w.Header().Set("Retry-After", strconv.Itoa(int(failureEvery.Seconds())))
		refuse(w, r, http.StatusTooManyRequests, "too many tokens from this address were refused: try again later")
		return
	}
	access, err := d.Tokens.open(token)
	if err != nil {
		d.failures.add(r.RemoteAddr)
		d.closed(w, r, err.Error())
		return
	}
	in(w, r, access)
}

// admit is the one place that holds whoever has an access token to what it allows.
func (d *Door) admit(w http.ResponseWriter, r *http.Request, access Access) {
	if access.ReadOnly && !d.Reads(r) {
		refuse(w, r, http.StatusForbidden, fmt.Sprintf("access token %s may only read", access.ID))
		return
	}
	ctx, leave := context.WithCancel(r.Context())
	defer leave()
	go d.guard(ctx, leave, access.ID)
	d.enter(w, r.WithContext(ctx))
}

// guard ends a request once the token that let it in is revoked or expires.
func (d *Door) guard(ctx context.Context, end func(), id string) {
	again := time.NewTicker(recheck)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		}
		if _, err := d.Tokens.valid(id); err != nil {
			end()
			return
		}
	}
}

// welcomeWith gives the browser of somebody who has typed in an access token its cookie.
func (d *Door) welcomeWith(w http.ResponseWriter, _ *http.Request, access Access) {
	d.setCookie(w, access.ID)
	lead(w, "/")
}

// closed refuses; a person may type in an access token instead, where there are any.
func (d *Door) closed(w http.ResponseWriter, r *http.Request, why string) {
	w.Header().Set("WWW-Authenticate", "Bearer")
	if d.Tokens == (Tokens{}) || !isPage(r) {
		refuse(w, r, http.StatusUnauthorized, why)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	w.WriteHeader(http.StatusUnauthorized)
	fmt.Fprintf(w, `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Perennial: closed</title>
<main><h1>Closed</h1><p>%s</p><form method="post" action="%s">
<label>An access token opens it, too: <input type="password" name="token" autocomplete="off" required></label> <button>Open</button></form></main></html>
`, html.EscapeString(why), entrance)
}

// isPage tells whether a browser asks for a page to show.
func isPage(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), "text/html") }

// refuse says what is wrong, to people as text and to programs as RFC 9457 has it.
func refuse(w http.ResponseWriter, r *http.Request, status int, why string) {
	if isPage(r) {
		http.Error(w, why, status)
		return
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	problem := map[string]any{"title": http.StatusText(status), "status": status, "detail": why}
	_ = json.NewEncoder(w).Encode(problem) // whoever asked may have gone
}
