package assessors_test

import (
	"encoding/json"
	"testing"

	"github.com/perennial-ml/perennial/assessors"
	"github.com/perennial-ml/perennial/testsuite/tunertest"
)

func TestAssessorsKeepTheirPromises(t *testing.T) {
	for name, arguments := range map[string]string{
		"Medianstop":   `{"optimize_mode": "minimize"}`,
		"ASHA":         `{"eta": 2, "max_budget": 9}`,
		"Curvefitting": `{"epoch_num": 12, "start_step": 2}`,
	} {
		t.Run(name, func(t *testing.T) {
			tunertest.RunAssessor(t, assessors.New, tunertest.AssessorOptions{
				Spec: assessors.Spec{Name: name, Arguments: json.RawMessage(arguments)},
			})
		})
	}
}
