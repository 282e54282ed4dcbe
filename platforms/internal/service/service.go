// Package service is what platforms have in common that are services behind an
// HTTPS API: what a refusal means, when to come again, and how to stay below the
// limits of calls that a service sets, so that a person sees the limit as the reason
// of a wait and the service never has to refuse.
package service

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/perennial-ml/perennial/platforms"
)

const (
	// longest is the longest wait that a service can ask for: it may name any number.
	longest = time.Hour
	// unnamed is what whoever was throttled waits where the service does not say.
	unnamed = 30 * time.Second
	// wordsKept bounds what is told of a service's words, and bodyKept what is read of
	// a refusal, in bytes.
	wordsKept = 400
	bodyKept  = 64 << 10
)

// Fault returns the *platforms.Error that an answer's HTTP status stands for. said is
// the service's own word for it, empty where it has none that a person could read.
// renew says which credentials to renew; it is part of the text where they are
// refused.
func Fault(verb string, answer *http.Response, said, renew string) error {
	text := fmt.Sprintf("%s answered %s", answer.Request.URL.Hostname(), answer.Status)
	if said = Words(said); said != "" {
		text += ": " + said
	}
	fault := &platforms.Error{Code: codeOf(answer.StatusCode), Verb: verb, After: After(answer.Header, time.Now())}
	switch {
	case fault.Code == platforms.Denied:
		text += "; renew " + renew
	case answer.StatusCode == http.StatusTooManyRequests && fault.After == 0:
		fault.After = unnamed
	}
	fault.Err = errors.New(text)
	return fault
}

func codeOf(status int) platforms.Code {
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return platforms.Denied
	case status == http.StatusNotFound:
		return platforms.NotFound
	case status == http.StatusTooManyRequests:
		return platforms.Exhausted
	case status == http.StatusRequestTimeout || status == http.StatusConflict || status >= 500 || status < 400:
		return platforms.Transient
	}
	return platforms.Invalid
}

// Unreachable returns the error of a call that brought no answer: it says nothing
// about any job. The URL is left out of the text, since some services have secrets in
// it.
func Unreachable(verb string, err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		host := "the service"
		if at, bad := url.Parse(of.URL); bad == nil {
			host = at.Host
		}
		err = fmt.Errorf("cannot reach %s: %w", host, of.Err)
	}
	return platforms.Errorf(platforms.Transient, verb, "%w", err)
}

// After reads a Retry-After, in seconds or as a date, bounded; 0 where there is none.
func After(header http.Header, now time.Time) time.Duration {
	text := header.Get("Retry-After")
	wait := time.Duration(0)
	if seconds, err := strconv.ParseFloat(text, 64); err == nil {
		wait = time.Duration(min(max(0, seconds), longest.Seconds()) * float64(time.Second))
	} else if at, err := http.ParseTime(text); err == nil {
		wait = at.Sub(now)
	}
	return min(max(0, wait), longest)
}

// Body reads what a service says about a refusal, bounded.
func Body(answer *http.Response) []byte {
	content, _ := io.ReadAll(io.LimitReader(answer.Body, bodyKept)) // half of it is as good
	return content
}

// Words returns a service's words in one line, bounded, and nothing of a page of HTML.
func Words(said string) string {
	said = strings.Join(strings.Fields(strings.ToValidUTF8(said, "")), " ")
	if strings.HasPrefix(said, "<") {
		return ""
	}
	if len(said) > wordsKept {
		said = strings.ToValidUTF8(said[:wordsKept], "") + "…"
	}
	return said
}
