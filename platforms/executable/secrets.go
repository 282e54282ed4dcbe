package executable

import (
	"encoding/json"
	"slices"
)

// leastSecret is the length, in bytes, below which a text is no secret: to strike it
// out everywhere would leave nothing that can be read.
const leastSecret = 4

// secretsOf are the texts that references in a section stand for: whatever is one
// thing as written and another as resolved.
func secretsOf(written, resolved json.RawMessage) []string {
	var before, after any
	if json.Unmarshal(written, &before) != nil || json.Unmarshal(resolved, &after) != nil {
		return nil // what is no JSON has no references
	}
	return differing(before, after)
}

func differing(before, after any) (found []string) {
	switch now := after.(type) {
	case map[string]any:
		was, _ := before.(map[string]any)
		for name, value := range now {
			found = append(found, differing(was[name], value)...)
		}
	case []any:
		was, _ := before.([]any)
		for i, value := range now {
			found = append(found, differing(slices.Concat(was, make([]any, len(now)))[i], value)...)
		}
	case string:
		if now != before && len(now) >= leastSecret {
			found = append(found, now)
		}
	}
	return found
}
