package workers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/sdk/client"
)

// SearchAttributes are the custom search attributes that workflows set where the
// namespace has them.
type SearchAttributes map[string]enumspb.IndexedValueType

// Missing returns those that the namespace has not, or has with another type.
func (s SearchAttributes) Missing(ctx context.Context, temporal client.Client, namespace string) (SearchAttributes, error) {
	answer, err := temporal.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	if err != nil {
		return nil, err
	}
	missing := SearchAttributes{}
	for name, kind := range s {
		if answer.GetCustomAttributes()[name] != kind {
			missing[name] = kind
		}
	}
	return missing, nil
}

// Register adds what is missing, where whoever asks may do that, and tells whether
// something was: Temporal's services learn of it within learning.
func (s SearchAttributes) Register(ctx context.Context, temporal client.Client, namespace string) (added bool, err error) {
	if len(s) == 0 {
		return false, nil
	}
	missing, err := s.Missing(ctx, temporal, namespace)
	if err != nil || len(missing) == 0 {
		return false, err
	}
	_, err = temporal.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{
		Namespace: namespace, SearchAttributes: missing,
	})
	return err == nil, err
}

// learning is how long Temporal's services may go on without a new search
// attribute: each reads them once a minute. Workflows that set it sooner would
// stall until then.
const learning = 70 * time.Second

// Command is the command of Temporal's own program that adds them.
func (s SearchAttributes) Command(address, namespace string) string {
	line := fmt.Sprintf("temporal operator search-attribute create --address %s --namespace %s", address, namespace)
	for _, name := range slices.Sorted(maps.Keys(s)) {
		line += fmt.Sprintf(" --name %s --type %s", name, typeName(s[name]))
	}
	return line
}

// typeName is a type as that program takes it: Keyword, Double, Int.
func typeName(kind enumspb.IndexedValueType) string {
	return strings.ReplaceAll(kind.String(), "_", "")
}
