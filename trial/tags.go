package trial

import (
	"fmt"
	"maps"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Tags are what people have marked an experiment with: keys with values, which may be empty.
type Tags map[string]string

// Limits of tags: they are for people to read, in lists.
const (
	tagKeyLimit   = 60
	tagValueLimit = 200
	tagLimit      = 50
)

// ParseTag reads a tag as people write it: key or key=value.
func ParseTag(text string) (key, value string, err error) {
	key, value, _ = strings.Cut(text, "=")
	return key, value, checkTag(key, value)
}

func checkTag(key, value string) error {
	switch {
	case key == "" || strings.TrimSpace(key) != key || strings.Contains(key, "="):
		return fmt.Errorf("%q is no key of a tag: it is not empty, and has no = and no spaces around it", key)
	case utf8.RuneCountInString(key) > tagKeyLimit || utf8.RuneCountInString(value) > tagValueLimit:
		return fmt.Errorf("the tag %.60q is too long: a key has at most %d letters, a value %d", key, tagKeyLimit, tagValueLimit)
	case !utf8.ValidString(key+value) || strings.ContainsFunc(key+value, unicode.IsControl):
		return fmt.Errorf("the tag %.60q has characters that cannot be shown", key)
	}
	return nil
}

// With returns the tags as they are after a change: a value sets a tag, nil removes it.
func (t Tags) With(change map[string]*string) (Tags, error) {
	after := Tags{}
	maps.Copy(after, t)
	for key, value := range change {
		if value == nil {
			delete(after, key)
			continue
		}
		if err := checkTag(key, *value); err != nil {
			return nil, err
		}
		after[key] = *value
	}
	if len(after) > tagLimit {
		return nil, fmt.Errorf("an experiment has at most %d tags, not %d", tagLimit, len(after))
	}
	return after, nil
}

// Has tells whether the tags have one that is wanted: a key with any value, or key=value.
func (t Tags) Has(wanted string) bool {
	key, value, valued := strings.Cut(wanted, "=")
	there, found := t[key]
	return found && (!valued || there == value)
}
