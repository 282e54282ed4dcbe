package experiment

import "encoding/json"

// Schema returns a JSON Schema (2020-12) of experiment files in NNI's v2 schema
// with our own keys, for editors. It is made from the declarations that Load
// checks by; keys appear in canonical spelling only.
func Schema() ([]byte, error) {
	schema := topLevel.schema()
	schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	schema["title"] = "Perennial experiment"
	return json.MarshalIndent(schema, "", "  ")
}

func (s *section) schema() map[string]any {
	properties, required := map[string]any{}, []string{}
	for _, k := range s.keys {
		properties[k.name] = k.schema()
		if k.required {
			required = append(required, k.name)
		}
	}
	return map[string]any{
		"type": "object", "properties": properties, "required": required, "additionalProperties": s.rest,
	}
}

func (k key) schema() map[string]any {
	schema := k.kind.schema()
	schema["description"] = k.doc
	if k.fallback != nil {
		schema["default"] = k.fallback
	}
	return schema
}

// servicesSchema chooses a platform's keys by its name, so that an editor's
// complaint is about that platform only.
func servicesSchema() map[string]any {
	var cases []any
	for _, p := range platforms {
		cases = append(cases, map[string]any{
			"if":   map[string]any{"properties": map[string]any{"platform": map[string]any{"const": p.name}}},
			"then": p.keys().schema(),
		})
	}
	one := map[string]any{
		"type": "object", "required": []string{"platform"}, "allOf": cases,
		"properties": map[string]any{"platform": map[string]any{"enum": PlatformNames()}},
	}
	many := map[string]any{"type": "array", "minItems": 1, "items": one}
	return map[string]any{"if": map[string]any{"type": "array"}, "then": many, "else": one}
}
