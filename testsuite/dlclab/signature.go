package dlclab

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// covers tells whether what must be signed is among the signed headers.
func covers(signed []string) bool {
	for _, name := range []string{"host", "x-acs-action", "x-acs-content-sha256", "x-acs-date", "x-acs-signature-nonce", "x-acs-version"} {
		if !slices.Contains(signed, name) {
			return false
		}
	}
	return true
}

// signature is what a request's has to be, from the published rules of ACS3.
func (s *Service) signature(r *http.Request, signed []string, payload string) string {
	var headers strings.Builder
	for _, name := range signed {
		value := r.Header.Get(name)
		if name == "host" {
			value = r.Host
		}
		headers.WriteString(name + ":" + strings.TrimSpace(value) + "\n")
	}
	canonical := strings.Join([]string{r.Method, r.URL.EscapedPath(), canonicalQuery(r.URL.Query()), headers.String(), strings.Join(signed, ";"), payload}, "\n")
	mac := hmac.New(sha256.New, []byte(s.secret))
	mac.Write([]byte("ACS3-HMAC-SHA256\n" + digest([]byte(canonical))))
	return hex.EncodeToString(mac.Sum(nil))
}

func canonicalQuery(query url.Values) string {
	var pairs []string
	for name, values := range query {
		pairs = append(pairs, escaped(name)+"="+escaped(strings.Join(values, "")))
	}
	slices.Sort(pairs)
	return strings.Join(pairs, "&")
}

// escaped is percent-encoding as RFC 3986 has it.
func escaped(text string) string {
	return strings.NewReplacer("+", "%20", "*", "%2A", "%7E", "~").Replace(url.QueryEscape(text))
}
