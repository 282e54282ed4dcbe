package door

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Access is what a token allows that was made for one program or person.
type Access struct {
	ID       string    `json:"id"`
	Name     string    `json:"name,omitempty"`
	ReadOnly bool      `json:"readOnly"`
	Created  time.Time `json:"created"`
	Expires  time.Time `json:"expires,omitzero"`
}

// Expired tells whether the token is too old to be let in.
func (a Access) Expired(now time.Time) bool { return !a.Expires.IsZero() && !now.Before(a.Expires) }

// Tokens are the access tokens of a state directory, one file for each, which holds what
// it allows and a hash of it. Whoever may write there makes and revokes them, whether or
// not a host runs: doors read the file at each request. The zero value has none.
type Tokens struct{ directory string }

// TokensIn returns the tokens that are kept in a state directory, which need not have any.
func TokensIn(home string) Tokens { return Tokens{filepath.Join(home, "tokens")} }

// ErrNoToken says that a token is none of ours, or none any more.
var ErrNoToken = errors.New("this access token is unknown or was revoked: starter token list shows those that there are")

// tokenPrefix has programs that look for leaked secrets know a token of ours.
const tokenPrefix = "prnl_"

var (
	tokenShape = regexp.MustCompile(`^` + tokenPrefix + `([a-z2-7]{8})_[A-Z2-7]{52}$`)
	idShape    = regexp.MustCompile(`^[a-z2-7]{8}$`)
)

// kept is the file of a token.
type kept struct {
	Access
	SHA256 string `json:"sha256"`
}

// Create draws a token that allows what is asked for, by an id of its own, and returns it:
// it is kept nowhere.
func (t Tokens) Create(wanted Access) (token string, made Access, err error) {
	made = wanted
	made.ID = strings.ToLower(rand.Text()[:8])
	token = tokenPrefix + made.ID + "_" + rand.Text() + rand.Text()
	content, err := json.Marshal(kept{made, hashOf(token)})
	if err != nil {
		return "", made, err
	}
	if err := os.MkdirAll(t.directory, 0o700); err != nil {
		return "", made, err
	}
	return token, made, writeWhole(t.file(made.ID), content)
}

// hashOf needs no salt and no cost: tokens have 260 random bits.
func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

func syncDirectory(path string) error {
	directory, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(directory.Sync(), directory.Close())
}

func (t Tokens) file(id string) string { return filepath.Join(t.directory, id+".json") }

// List returns what each token allows, the newest last; those that have expired, too.
func (t Tokens) List() ([]Access, error) {
	files, err := filepath.Glob(t.file("*"))
	if err != nil {
		return nil, err
	}
	list := []Access{}
	for _, file := range files {
		found, err := t.read(strings.TrimSuffix(filepath.Base(file), ".json"))
		if errors.Is(err, ErrNoToken) {
			continue // revoked a moment ago
		}
		if err != nil {
			return nil, err
		}
		list = append(list, found.Access)
	}
	slices.SortFunc(list, func(a, b Access) int { return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.ID, b.ID)) })
	return list, nil
}

// Revoke has the token with an id let in nobody from now on.
func (t Tokens) Revoke(id string) error {
	if !idShape.MatchString(id) {
		return ErrNoToken
	}
	err := os.Remove(t.file(id))
	if errors.Is(err, fs.ErrNotExist) {
		return ErrNoToken
	}
	if err != nil {
		return err
	}
	return syncDirectory(t.directory)
}

func (t Tokens) read(id string) (found kept, err error) {
	if t.directory == "" || !idShape.MatchString(id) {
		return found, ErrNoToken
	}
	content, err := os.ReadFile(t.file(id))
	if errors.Is(err, fs.ErrNotExist) {
		return found, ErrNoToken
	}
	if err == nil {
		err = json.Unmarshal(content, &found)
	}
	if err != nil {
		return found, fmt.Errorf("access token %s: %w", id, err)
	}
	return found, nil
}

// valid returns what the token with an id allows, while it does.
func (t Tokens) valid(id string) (Access, error) {
	found, err := t.read(id)
	if err == nil && found.Expired(time.Now()) {
		err = fmt.Errorf("access token %s expired at %s: starter token create makes a new one", id, found.Expires.UTC().Format(time.RFC3339))
	}
	return found.Access, err
}

// open returns what a token allows.
func (t Tokens) open(token string) (Access, error) {
	parts := tokenShape.FindStringSubmatch(token)
	if parts == nil {
		return Access{}, ErrNoToken
	}
	found, err := t.read(parts[1])
	if err == nil && subtle.ConstantTimeCompare([]byte(found.SHA256), []byte(hashOf(token))) != 1 {
		err = ErrNoToken
	}
	if err != nil {
		return Access{}, err
	}
	return t.valid(parts[1])
}
